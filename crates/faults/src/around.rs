//! A backend with something around it that changes when it does what.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use runledger_core::{
    AgentFilter, AgentRun, AnswerForm, Backend, Command, CompactReport, Deleted, EndedFilter, Error, ExpiredFilter, ExportRecord, Id,
    NodeFilter, NodeRun, PageRequest, ProjectSummary, Put, Result, Rows, Run, RunFilter, RunStats, StoreInfo, Stored, Time, Tx,
    VerifyReport, Work,
};

/// What is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// A commit takes a while, in which everything is decided and nothing is to be seen: right, and slow.
    SlowCommits,
    /// What a command decides about is read before the lock is taken: wrong.
    ReadsBeforeTheLock,
    /// The counters are brought up to date after the commit: wrong.
    CountsAfterTheCommit,
    /// A verification looks at nothing, and finds nothing: wrong.
    VerifiesNothing,
}

/// The backend, changed.
#[derive(Debug)]
pub struct Around<B> {
    inner: B,
    change: Change,
    counted: Mutex<HashMap<Id, RunStats>>,
}

/// Long enough for others to come in between.
const PAUSE: Duration = Duration::from_micros(300);

impl<B: Backend> Around<B> {
    /// Changes a backend.
    pub fn new(inner: B, change: Change) -> Self {
        Around { inner, change, counted: Mutex::default() }
    }

    fn counted(&self) -> std::sync::MutexGuard<'_, HashMap<Id, RunStats>> {
        self.counted.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn write_after_reading(&self, work: &mut dyn Work) -> Result<()> {
        let mut early = Early::default();
        for command in work.commands().unwrap_or_default() {
            if let Command::ReclaimRun(c) = command {
                early.runs.insert((c.project_id.clone(), c.id.clone()), None);
            } else if let Command::ClaimRun(c) = command {
                early.next.insert(c.project_id.clone(), None);
            }
        }
        self.inner.write(&mut Read(&mut early))?;
        std::thread::sleep(PAUSE);
        self.inner.write(&mut Instead { work, early: &early })
    }
}

/// What was read too early.
#[derive(Default)]
struct Early {
    runs: HashMap<(Id, Id), Option<Stored<Run>>>,
    next: HashMap<Id, Option<Stored<Run>>>,
}

struct Read<'e>(&'e mut Early);

impl Work for Read<'_> {
    fn commands(&self) -> Option<Vec<&Command>> {
        None
    }

    fn run(&mut self, tx: &mut dyn Tx) -> Result<()> {
        for ((project, id), run) in &mut self.0.runs {
            *run = tx.run(project, id, AnswerForm::Record)?;
        }
        for (project, run) in &mut self.0.next {
            *run = tx.next_run(project, None, AnswerForm::Record)?;
        }
        Ok(())
    }
}

/// The work, with what was read too early in place of what is there.
struct Instead<'w> {
    work: &'w mut dyn Work,
    early: &'w Early,
}

impl Work for Instead<'_> {
    fn commands(&self) -> Option<Vec<&Command>> {
        self.work.commands()
    }

    fn run(&mut self, tx: &mut dyn Tx) -> Result<()> {
        self.work.run(&mut EarlyTx { tx, early: Some(self.early) })
    }
}

struct Slow<'w>(&'w mut dyn Work);

impl Work for Slow<'_> {
    fn commands(&self) -> Option<Vec<&Command>> {
        self.0.commands()
    }

    fn run(&mut self, tx: &mut dyn Tx) -> Result<()> {
        self.0.run(&mut EarlyTx { tx, early: None })?;
        std::thread::sleep(PAUSE);
        Ok(())
    }
}

struct EarlyTx<'t> {
    tx: &'t mut dyn Tx,
    early: Option<&'t Early>,
}

impl Tx for EarlyTx<'_> {
    fn run(&mut self, project: &Id, id: &Id, form: AnswerForm) -> Result<Option<Stored<Run>>> {
        match self.early.and_then(|early| early.runs.get(&(project.clone(), id.clone()))) {
            Some(run) => Ok(run.clone()),
            None => self.tx.run(project, id, form),
        }
    }

    fn next_run(&mut self, project: &Id, workflow_ids: Option<&[Id]>, form: AnswerForm) -> Result<Option<Stored<Run>>> {
        match self.early.and_then(|early| early.next.get(project)) {
            Some(run) => Ok(run.clone()),
            None => self.tx.next_run(project, workflow_ids, form),
        }
    }

    fn node(&mut self, project: &Id, id: &Id, form: AnswerForm) -> Result<Option<Stored<NodeRun>>> {
        self.tx.node(project, id, form)
    }
    fn agent(&mut self, project: &Id, node_run_id: &Id, form: AnswerForm) -> Result<Option<Stored<AgentRun>>> {
        self.tx.agent(project, node_run_id, form)
    }
    fn next_agent(&mut self, project: &Id, agent_ids: Option<&[Id]>, form: AnswerForm) -> Result<Option<Stored<AgentRun>>> {
        self.tx.next_agent(project, agent_ids, form)
    }
    fn nodes_of(&mut self, run: &Stored<Run>) -> Result<Vec<Stored<NodeRun>>> {
        self.tx.nodes_of(run)
    }
    fn ended_runs(&mut self, filter: &EndedFilter, limit: usize) -> Result<Vec<Stored<Run>>> {
        self.tx.ended_runs(filter, limit)
    }
    fn put_run(&mut self, put: &Put<Run>) -> Result<()> {
        self.tx.put_run(put)
    }
    fn put_node(&mut self, put: &Put<NodeRun>) -> Result<()> {
        self.tx.put_node(put)
    }
    fn put_agent(&mut self, put: &Put<AgentRun>) -> Result<()> {
        self.tx.put_agent(put)
    }
    fn delete_run(&mut self, run: &Stored<Run>) -> Result<Deleted> {
        self.tx.delete_run(run)
    }
    fn clear(&mut self) -> Result<()> {
        self.tx.clear()
    }
    fn mark(&mut self) -> Result<bool> {
        self.tx.mark()
    }
    fn undo(&mut self) -> Result<()> {
        self.tx.undo()
    }
    fn server_time(&mut self) -> Result<Option<Time>> {
        self.tx.server_time()
    }
}

impl<B: Backend> Backend for Around<B> {
    fn write(&self, work: &mut dyn Work) -> Result<()> {
        match self.change {
            Change::SlowCommits => self.inner.write(&mut Slow(work)),
            Change::ReadsBeforeTheLock => self.write_after_reading(work),
            Change::VerifiesNothing => self.inner.write(work),
            Change::CountsAfterTheCommit => {
                self.inner.write(work)?;
                std::thread::sleep(PAUSE);
                for command in work.commands().unwrap_or_default() {
                    let project = command.project_id().clone();
                    let stats = self.inner.run_stats(&project, None)?;
                    self.counted().insert(project, stats);
                }
                Ok(())
            }
        }
    }

    fn run_stats(&self, project: &Id, workflow_ids: Option<&[Id]>) -> Result<RunStats> {
        if self.change != Change::CountsAfterTheCommit {
            return self.inner.run_stats(project, workflow_ids);
        }
        Ok(self.counted().get(project).cloned().unwrap_or_default())
    }

    fn verify(&self) -> Result<VerifyReport> {
        if self.change == Change::VerifiesNothing { Ok(VerifyReport::default()) } else { self.inner.verify() }
    }

    fn shares_commits(&self) -> bool {
        self.inner.shares_commits()
    }
    fn broken(&self) -> Option<Error> {
        self.inner.broken()
    }
    fn get_run(&self, project: &Id, id: &Id, form: AnswerForm) -> Result<Option<Run>> {
        self.inner.get_run(project, id, form)
    }
    fn get_node(&self, project: &Id, id: &Id, form: AnswerForm) -> Result<Option<NodeRun>> {
        self.inner.get_node(project, id, form)
    }
    fn get_agent(&self, project: &Id, node_run_id: &Id, form: AnswerForm) -> Result<Option<AgentRun>> {
        self.inner.get_agent(project, node_run_id, form)
    }
    fn list_runs(&self, filter: &RunFilter, page: &PageRequest) -> Result<Rows<Run>> {
        self.inner.list_runs(filter, page)
    }
    fn list_nodes(&self, filter: &NodeFilter, page: &PageRequest) -> Result<Rows<NodeRun>> {
        self.inner.list_nodes(filter, page)
    }
    fn list_agents(&self, filter: &AgentFilter, page: &PageRequest) -> Result<Rows<AgentRun>> {
        self.inner.list_agents(filter, page)
    }
    fn list_projects(&self, page: &PageRequest) -> Result<Rows<ProjectSummary>> {
        self.inner.list_projects(page)
    }
    fn latest_runs(&self, project: &Id, workflow_ids: &[Id], form: AnswerForm) -> Result<Vec<Run>> {
        self.inner.latest_runs(project, workflow_ids, form)
    }
    fn expired_runs(&self, filter: &ExpiredFilter, form: AnswerForm) -> Result<(Vec<Run>, bool)> {
        self.inner.expired_runs(filter, form)
    }
    fn expired_agents(&self, filter: &ExpiredFilter, form: AnswerForm) -> Result<(Vec<AgentRun>, bool)> {
        self.inner.expired_agents(filter, form)
    }
    fn export(&self, sink: &mut dyn FnMut(ExportRecord) -> Result<()>) -> Result<()> {
        self.inner.export(sink)
    }
    fn info(&self) -> Result<StoreInfo> {
        self.inner.info()
    }
    fn is_read_only(&self) -> bool {
        self.inner.is_read_only()
    }
    fn compact(&self) -> Result<CompactReport> {
        self.inner.compact()
    }
    fn close(&self) -> Result<()> {
        self.inner.close()
    }
}
