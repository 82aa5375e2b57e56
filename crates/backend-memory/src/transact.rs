//! Transactions that write: the locks of their projects, and a log of what they replaced.

use std::collections::BTreeMap;
use std::mem;
use std::ops::Bound;
use std::sync::{Arc, PoisonError, RwLock, RwLockWriteGuard};

use runledger_core::{
    AgentRun, AnswerForm, Code, Deleted, EndedFilter, Error, Held, Id, NodeRun, Principal, Put, Record, Result, Run, Stored, Tx, Work,
};

use crate::query::{before_time, copy, first_queued};
use crate::schema::{Project, Ranked};

/// A project behind its lock.
pub(crate) type Cell = RwLock<Project>;

/// Cells in the order of their ids. All locks are taken in that order, so that no two transactions wait for each other.
pub(crate) type Cells = Vec<(Id, Arc<Cell>)>;

/// What became of a transaction.
pub(crate) struct Outcome {
    /// What it came to; `None` when it could not begin, because some of its cells were retired before.
    pub(crate) done: Option<Result<()>>,
    /// Projects that were not there before.
    pub(crate) fresh: BTreeMap<Id, Project>,
    /// Retired cells, which the map of projects must forget.
    pub(crate) retired: Cells,
}

/// Runs `work` over `cells`, which are all that there are if `is_whole`.
pub(crate) fn transact(cells: &Cells, is_whole: bool, work: &mut dyn Work) -> Outcome {
    // A transaction that panicked has restored its project before it let go of the lock: poison says nothing.
    let lock = |cell| RwLock::write(cell).unwrap_or_else(PoisonError::into_inner);
    let locked = cells.iter().map(|(id, cell)| (id, lock(&**cell))).collect();
    let mut tx = MemoryTx { locked, fresh: is_whole.then(BTreeMap::new), log: Vec::new(), mark: 0 };
    let mut done = None;
    if !tx.locked.iter().any(|(_, project)| project.is_retired) {
        let result = work.run(&mut tx);
        if result.is_err() {
            tx.roll_back(0);
        }
        tx.retire_empty();
        done = Some(result);
    }
    let places = tx.locked.iter().enumerate().filter(|(_, (_, project))| project.is_retired);
    let retired = places.map(|(place, _)| cells[place].clone()).collect();
    let log = mem::take(&mut tx.log);
    let fresh = mem::take(&mut tx.fresh).unwrap_or_default();
    drop(tx);
    // What was replaced may be large; it is given back after the locks.
    drop(log);
    Outcome { done, fresh, retired }
}

/// How to undo one change.
enum Undo {
    RemoveRun(Arc<Run>),
    SetRun(Arc<Run>),
    RemoveNode(Arc<NodeRun>),
    SetNode(Arc<NodeRun>),
    RemoveAgent(Arc<AgentRun>),
    SetAgent(Arc<AgentRun>),
    Restore(Id, Box<Project>),
}

/// A transaction under way. Dropped with a log, which only a panic does, it undoes what it did.
struct MemoryTx<'a> {
    locked: Vec<(&'a Id, RwLockWriteGuard<'a, Project>)>,
    /// New projects, where the transaction may make any.
    fresh: Option<BTreeMap<Id, Project>>,
    log: Vec<Undo>,
    mark: usize,
}

impl Drop for MemoryTx<'_> {
    fn drop(&mut self) {
        self.roll_back(0);
    }
}

impl MemoryTx<'_> {
    fn place(&self, id: &Id) -> Option<usize> {
        match &*self.locked {
            [(only, _)] => (*only == id).then_some(0),
            locked => locked.binary_search_by(|(other, _)| (*other).cmp(id)).ok(),
        }
    }

    /// A project to read; `None` when the store has none of this id.
    fn project(&self, id: &Id) -> Result<Option<&Project>> {
        match (self.place(id), &self.fresh) {
            (Some(place), _) => Ok(Some(&*self.locked[place].1)),
            (None, Some(fresh)) => Ok(fresh.get(id)),
            (None, None) => Err(not_locked(id)),
        }
    }

    /// A project to write.
    fn project_mut(&mut self, id: &Id) -> Result<&mut Project> {
        match (self.place(id), &mut self.fresh) {
            (Some(place), _) => Ok(&mut *self.locked[place].1),
            (None, Some(fresh)) => Ok(fresh.entry(id.clone()).or_default()),
            (None, None) => Err(not_locked(id)),
        }
    }

    fn load<R: Record>(&self, project: &Id, form: AnswerForm, find: impl Fn(&Project) -> Option<&Arc<R>>) -> Result<Option<Stored<R>>> {
        Ok(self.project(project)?.and_then(find).map(|record| stored(record, form)))
    }

    fn next<R: Ranked>(&self, project: &Id, under: Option<&[Id]>, form: AnswerForm) -> Result<Option<Stored<R>>> {
        self.load(project, form, |project| R::at(project, first_queued(R::lists(project), under)?))
    }

    /// Retires the projects that have no records, lest ids that were only asked for take up memory for ever.
    fn retire_empty(&mut self) {
        for (_, project) in self.locked.iter_mut().filter(|(_, project)| project.is_empty()) {
            project.is_retired = true;
        }
    }

    fn roll_back(&mut self, to: usize) {
        while self.log.len() > to {
            match self.log.pop() {
                Some(undo) => self.undo_one(undo),
                None => return,
            }
        }
    }

    fn undo_one(&mut self, undo: Undo) {
        let id = match &undo {
            Undo::RemoveRun(run) | Undo::SetRun(run) => &run.project_id,
            Undo::RemoveNode(node) | Undo::SetNode(node) => &node.project_id,
            Undo::RemoveAgent(agent) | Undo::SetAgent(agent) => &agent.project_id,
            Undo::Restore(id, _) => id,
        };
        // A change that was logged was of a project that the transaction has.
        let Ok(project) = self.project_mut(id) else { return };
        match undo {
            Undo::RemoveRun(run) => drop(project.remove_run(&run.id)),
            Undo::SetRun(run) => drop(project.set_run(run)),
            Undo::RemoveNode(node) => drop(project.remove_node(&node.id)),
            Undo::SetNode(node) => drop(project.set_node(node)),
            Undo::RemoveAgent(agent) => drop(project.remove_agent(&agent.node_run_id)),
            Undo::SetAgent(agent) => drop(project.set_agent(agent)),
            Undo::Restore(_, before) => *project = *before,
        }
    }
}

fn not_locked(id: &Id) -> Error {
    Error::new(Code::Internal, format!("a transaction touched project '{id}', which none of its commands names"))
}

fn no_parent<R: Record>(record: &R, parent: &str) -> Error {
    let needed = format_args!("its {parent} is not in the store");
    Error::refused(Code::Internal, R::ENTITY, record.project_id(), record.key_id(), needed)
}

fn stored<R: Record>(record: &Arc<R>, form: AnswerForm) -> Stored<R> {
    Stored { held: record.held(), record: copy(record, form), handle: 0 }
}

/// The record as it is to be from now on: what the decision did not load it keeps from the one that is there.
fn completed<'a, R: Record>(put: &Put<R>, current: impl FnOnce() -> Option<&'a Arc<R>>) -> Arc<R> {
    let mut record = put.after.record.clone();
    let missing = Held(put.after.held.0 & !record.held().0);
    if !missing.is_empty()
        && let Some(current) = current()
    {
        let mut current = R::clone(current);
        for slot in missing.slots() {
            if let Some(value) = current.take_large(slot) {
                record.set_large(slot, value);
            }
        }
    }
    Arc::new(record)
}

/// The record, when it was not there before.
fn new<'r, R: Record>(put: &Put<R>, record: &'r mut Arc<R>) -> Option<&'r mut R> {
    put.before.is_none().then(|| Arc::get_mut(record)).flatten()
}

impl Tx for MemoryTx<'_> {
    fn run(&mut self, project: &Id, id: &Id, form: AnswerForm) -> Result<Option<Stored<Run>>> {
        self.load(project, form, |project| project.run(id))
    }

    fn node(&mut self, project: &Id, id: &Id, form: AnswerForm) -> Result<Option<Stored<NodeRun>>> {
        self.load(project, form, |project| project.node(id))
    }

    fn agent(&mut self, project: &Id, node_run_id: &Id, form: AnswerForm) -> Result<Option<Stored<AgentRun>>> {
        self.load(project, form, |project| project.agent(node_run_id))
    }

    fn next_run(&mut self, project: &Id, workflow_ids: Option<&[Id]>, form: AnswerForm) -> Result<Option<Stored<Run>>> {
        self.next(project, workflow_ids, form)
    }

    fn next_agent(&mut self, project: &Id, agent_ids: Option<&[Id]>, form: AnswerForm) -> Result<Option<Stored<AgentRun>>> {
        self.next(project, agent_ids, form)
    }

    fn nodes_of(&mut self, run: &Stored<Run>) -> Result<Vec<Stored<NodeRun>>> {
        let Some(project) = self.project(&run.record.project_id)? else { return Ok(Vec::new()) };
        let slots = project.run_entry(&run.record.id).map_or(&[][..], |entry| &entry.nodes);
        let nodes = slots.iter().filter_map(|(_, slot)| project.nodes.get(*slot));
        Ok(nodes.map(|entry| stored(&entry.node, AnswerForm::State)).collect())
    }

    fn ended_runs(&mut self, filter: &EndedFilter, limit: usize) -> Result<Vec<Stored<Run>>> {
        let Some(project) = self.project(&filter.project_id)? else { return Ok(Vec::new()) };
        let ended = project.ended.range((Bound::Unbounded, before_time(filter.finished_before)));
        let runs = ended.filter_map(|(_, slot)| Run::at(project, *slot)).filter(|run| filter.matches(run));
        Ok(runs.take(limit).map(|run| stored(run, AnswerForm::State)).collect())
    }

    fn put_run(&mut self, put: &Put<Run>) -> Result<()> {
        let project = self.project_mut(&put.after.record.project_id)?;
        let mut run = completed(put, || project.run(&put.after.record.id));
        if let Some(run) = new(put, &mut run) {
            let Principal { kind, id } = &mut run.requested_by_principal;
            for name in [&mut run.workflow_id, kind, id] {
                project.repeated.share(name);
            }
        }
        let undo = match project.set_run(run.clone()) {
            Some(before) => Undo::SetRun(before),
            None => Undo::RemoveRun(run),
        };
        self.log.push(undo);
        Ok(())
    }

    fn put_node(&mut self, put: &Put<NodeRun>) -> Result<()> {
        let project = self.project_mut(&put.after.record.project_id)?;
        let mut node = completed(put, || project.node(&put.after.record.id));
        if let Some(node) = new(put, &mut node) {
            for name in [&mut node.node_type, &mut node.node_id, &mut node.node_key] {
                project.repeated.share(name);
            }
        }
        if project.run(&node.workflow_run_id).is_none() {
            return Err(no_parent(&*node, "run"));
        }
        let undo = match project.set_node(node.clone()) {
            Some(before) => Undo::SetNode(before),
            None => Undo::RemoveNode(node),
        };
        self.log.push(undo);
        Ok(())
    }

    fn put_agent(&mut self, put: &Put<AgentRun>) -> Result<()> {
        let project = self.project_mut(&put.after.record.project_id)?;
        let mut agent = completed(put, || project.agent(&put.after.record.node_run_id));
        if let Some(agent) = new(put, &mut agent) {
            project.repeated.share(&mut agent.agent_id);
        }
        if project.node(&agent.node_run_id).is_none() {
            return Err(no_parent(&*agent, "node run"));
        }
        let undo = match project.set_agent(agent.clone()) {
            Some(before) => Undo::SetAgent(before),
            None => Undo::RemoveAgent(agent),
        };
        self.log.push(undo);
        Ok(())
    }

    fn delete_run(&mut self, run: &Stored<Run>) -> Result<Deleted> {
        let mut log = mem::take(&mut self.log);
        let deleted = self.project_mut(&run.record.project_id).map(|project| delete(project, &run.record.id, &mut log));
        self.log = log;
        deleted
    }

    fn clear(&mut self) -> Result<()> {
        if self.fresh.is_none() {
            return Err(Error::new(Code::Internal, "a transaction of single projects can't remove everything"));
        }
        for (id, project) in &mut self.locked {
            self.log.push(Undo::Restore(id.clone(), Box::new(mem::take(&mut **project))));
        }
        for (id, project) in self.fresh.iter_mut().flatten() {
            self.log.push(Undo::Restore(id.clone(), Box::new(mem::take(project))));
        }
        Ok(())
    }

    fn mark(&mut self) -> Result<bool> {
        self.mark = self.log.len();
        Ok(true)
    }

    fn undo(&mut self) -> Result<()> {
        self.roll_back(self.mark);
        Ok(())
    }
}

/// Removes a run and what is under it, from the leaves up, the last node run first, so that nothing has to move.
fn delete(project: &mut Project, id: &Id, log: &mut Vec<Undo>) -> Deleted {
    let mut deleted = Deleted::default();
    let nodes: Vec<Id> = project.run_entry(id).map_or(&[][..], |entry| &entry.nodes).iter().map(|((.., id), _)| id.clone()).collect();
    for node in nodes.iter().rev() {
        if let Some(agent) = project.remove_agent(node) {
            deleted.agents += 1;
            log.push(Undo::SetAgent(agent));
        }
        if let Some(node) = project.remove_node(node) {
            deleted.nodes += 1;
            log.push(Undo::SetNode(node));
        }
    }
    if let Some(run) = project.remove_run(id) {
        deleted.runs += 1;
        log.push(Undo::SetRun(run));
    }
    deleted
}
