//! What a backend must do: a narrow interface that stores records and decides nothing.
//!
//! The rules of the contract live in [`crate::transition`]. A backend loads the records that a command needs, stores
//! those that the decision made, keeps its indexes and counters in the same transaction, and answers queries from
//! one consistent state. `runledger-conformance` says whether it does.

use std::time::Duration;

use crate::{
    AgentFilter, AgentRun, AnswerForm, Code, Command, CompactReport, Deleted, EndedFilter, Entity, Error, ExpiredFilter, Held, Id, NewFile,
    NodeFilter, NodeRun, OnProgress, OnQueued, PageRequest, ProjectSummary, QueueKey, Record, Result, Rows, Run, RunFilter, RunStats,
    StoreInfo, Time, VerifyReport,
};

/// A record as a backend holds it.
#[derive(Clone, Debug)]
pub struct Stored<R> {
    /// The record. Its large values are there only if they were asked for.
    pub record: R,
    /// The large values that the store holds for it, loaded or not.
    pub held: Held,
    /// Whatever the backend finds it by again, such as a row number; 0 where it needs nothing.
    pub handle: u64,
}

impl<R: Record> Stored<R> {
    /// A record that is not in the store yet.
    pub fn new(record: R) -> Self {
        Stored { held: record.held(), record, handle: 0 }
    }
}

/// A record that must be stored.
#[derive(Clone, Debug)]
pub struct Put<R> {
    /// The record as it was loaded; `None` when it is new.
    pub before: Option<Stored<R>>,
    /// The record as it must be from now on, with the large values in `written`, and with all that it has if they had
    /// been loaded. `held` has all that it will have. `handle` is that of `before`.
    pub after: Stored<R>,
    /// The large values that must be written; every other one stays as it is.
    pub written: Held,
}

impl<R: Record> Put<R> {
    /// The insertion of a new record.
    pub fn insert(record: R) -> Self {
        let after = Stored::new(record);
        Put { before: None, written: after.held, after }
    }
}

/// One transaction that writes, as core sees it. Everything it reads includes what it has put.
pub trait Tx {
    /// Loads a run.
    ///
    /// # Errors
    /// Those of the engine, as codes of the contract; so for every method here.
    fn run(&mut self, project: &Id, id: &Id, form: AnswerForm) -> Result<Option<Stored<Run>>>;

    /// Loads a node run.
    ///
    /// # Errors
    /// As [`Tx::run`].
    fn node(&mut self, project: &Id, id: &Id, form: AnswerForm) -> Result<Option<Stored<NodeRun>>>;

    /// Whether there is a node run.
    ///
    /// # Errors
    /// As [`Tx::run`].
    fn has_node(&mut self, project: &Id, id: &Id) -> Result<bool> {
        Ok(self.node(project, id, AnswerForm::State)?.is_some())
    }

    /// Loads a node run with the state of its run. An engine that can do both in one step saves one.
    ///
    /// # Errors
    /// As [`Tx::run`]; `corrupt` when there is a node run without its run.
    fn node_and_run(&mut self, project: &Id, id: &Id, form: AnswerForm) -> Result<Option<(Stored<NodeRun>, Stored<Run>)>> {
        let Some(node) = self.node(project, id, form)? else { return Ok(None) };
        let run = self.run(project, &node.record.workflow_run_id, AnswerForm::State)?;
        run.map(|run| Some((node, run))).ok_or_else(|| orphan(project, id))
    }

    /// Loads the agent run of a node run.
    ///
    /// # Errors
    /// As [`Tx::run`].
    fn agent(&mut self, project: &Id, node_run_id: &Id, form: AnswerForm) -> Result<Option<Stored<AgentRun>>>;

    /// Loads the queued run with the smallest (queuedAt, id); of `workflow_ids` only (in byte order, no repeats).
    ///
    /// # Errors
    /// As [`Tx::run`].
    fn next_run(&mut self, project: &Id, workflow_ids: Option<&[Id]>, form: AnswerForm) -> Result<Option<Stored<Run>>>;

    /// Loads the queued agent run with the smallest (createdAt, nodeRunId); of `agent_ids` only (in byte order, no repeats).
    ///
    /// # Errors
    /// As [`Tx::run`].
    fn next_agent(&mut self, project: &Id, agent_ids: Option<&[Id]>, form: AnswerForm) -> Result<Option<Stored<AgentRun>>>;

    /// Loads the states of all node runs of a run, in any order.
    ///
    /// # Errors
    /// As [`Tx::run`].
    fn nodes_of(&mut self, run: &Stored<Run>) -> Result<Vec<Stored<NodeRun>>>;

    /// Loads the states of up to `limit` ended runs that match, by (finishedAt, id).
    ///
    /// # Errors
    /// As [`Tx::run`].
    fn ended_runs(&mut self, filter: &EndedFilter, limit: usize) -> Result<Vec<Stored<Run>>>;

    /// Stores a run, with its index entries and counters.
    ///
    /// # Errors
    /// As [`Tx::run`].
    fn put_run(&mut self, put: &Put<Run>) -> Result<()>;

    /// Stores a node run. Its run is in the store.
    ///
    /// # Errors
    /// As [`Tx::run`].
    fn put_node(&mut self, put: &Put<NodeRun>) -> Result<()>;

    /// Stores an agent run. Its node run is in the store.
    ///
    /// # Errors
    /// As [`Tx::run`].
    fn put_agent(&mut self, put: &Put<AgentRun>) -> Result<()>;

    /// Removes a run with its node runs and their agent runs, and says how many of each there were.
    ///
    /// # Errors
    /// As [`Tx::run`].
    fn delete_run(&mut self, run: &Stored<Run>) -> Result<Deleted>;

    /// Removes everything.
    ///
    /// # Errors
    /// As [`Tx::run`].
    fn clear(&mut self) -> Result<()>;

    /// Says which records an import is about to load, so that an engine far away can load them together. No more than a hint:
    /// each is asked for by itself afterwards, and so may be others.
    ///
    /// # Errors
    /// As [`Tx::run`].
    fn expect(&mut self, _records: &[ExportRecord]) -> Result<()> {
        Ok(())
    }

    /// Marks the present state, so that [`Tx::undo`] can return to it. `false` says that the engine can't: core then
    /// has the whole transaction rolled back and made again without the step that was refused.
    ///
    /// # Errors
    /// As [`Tx::run`].
    fn mark(&mut self) -> Result<bool>;

    /// Returns to the state at the last [`Tx::mark`].
    ///
    /// # Errors
    /// As [`Tx::run`].
    fn undo(&mut self) -> Result<()>;

    /// The server's time, where the backend has a server whose clock is to be used instead of the ledger's.
    ///
    /// # Errors
    /// As [`Tx::run`].
    fn server_time(&mut self) -> Result<Option<Time>> {
        Ok(None)
    }
}

/// The error of a node run whose run is not in the store.
pub fn orphan(project: &Id, id: &Id) -> Error {
    Error::refused(Code::Corrupt, Entity::Node, project, id, "its run is not in the store")
}

/// What a transaction that writes will do.
pub trait Work {
    /// The commands that it will carry out, so that a backend can lock and load ahead; `None` when it may touch anything.
    fn commands(&self) -> Option<Vec<&Command>>;

    /// Does it. May be called again, in a new transaction, after [`Backend::write`] rolled back.
    ///
    /// # Errors
    /// Any error means that the transaction must be rolled back and the error answered.
    fn run(&mut self, tx: &mut dyn Tx) -> Result<()>;
}

/// A record in an export.
#[derive(Clone, Debug, PartialEq)]
#[allow(clippy::large_enum_variant, reason = "one is alive at a time")]
pub enum ExportRecord {
    /// A run.
    Run(Run),
    /// A node run.
    Node(NodeRun),
    /// An agent run.
    Agent(AgentRun),
}

/// A store that keeps records, seen from core. It is used from many threads at once.
///
/// A method that fails answers with the contract's codes. After the flush of a commit has failed, every later call
/// answers `io`, since nobody knows what the disk holds.
pub trait Backend: Send + Sync + 'static {
    /// Opens a transaction, has `work` run in it, and commits: once this returns `Ok`, all of it is as durable as the
    /// store was opened to make it. When `work` fails, or the commit does, nothing of it is kept. A transaction that put
    /// nothing may be ended without a flush, if what it read is durable.
    ///
    /// # Errors
    /// That of `work`, or of the engine.
    fn write(&self, work: &mut dyn Work) -> Result<()>;

    /// Whether commands that arrive together should be committed together: true where a commit costs a flush or a lock
    /// that all writers share.
    fn shares_commits(&self) -> bool;

    /// Whether only commands of one project should be committed together: true where the projects may be on different
    /// servers, or have locks of their own.
    fn groups_by_project(&self) -> bool {
        false
    }

    /// Told that something was queued by a commit of this handle, for workers that wait elsewhere.
    fn announce(&self, _queues: &[QueueKey]) {}

    /// Has `on_queued` told what others queue, as long as what this answers is kept. `None` where nobody else is heard of.
    fn watch(&self, _on_queued: OnQueued) -> Option<Box<dyn Send + Sync>> {
        None
    }

    /// How often a worker that waits looks for itself, where others may queue without being heard of.
    fn poll_interval(&self) -> Option<Duration> {
        None
    }

    /// The first error of a flush that failed, after which the handle must be reopened.
    fn broken(&self) -> Option<Error>;

    /// Reads a run.
    ///
    /// # Errors
    /// Those of the engine, as codes of the contract; so for every method here.
    fn get_run(&self, project: &Id, id: &Id, form: AnswerForm) -> Result<Option<Run>>;

    /// Reads a node run.
    ///
    /// # Errors
    /// As [`Backend::get_run`].
    fn get_node(&self, project: &Id, id: &Id, form: AnswerForm) -> Result<Option<NodeRun>>;

    /// Reads an agent run.
    ///
    /// # Errors
    /// As [`Backend::get_run`].
    fn get_agent(&self, project: &Id, node_run_id: &Id, form: AnswerForm) -> Result<Option<AgentRun>>;

    /// A page of runs by (startedAt, id). Rows, total and `has_more` come from one state.
    ///
    /// # Errors
    /// As [`Backend::get_run`].
    fn list_runs(&self, filter: &RunFilter, page: &PageRequest) -> Result<Rows<Run>>;

    /// A page of node runs by (startedAt, nodeIndex, id).
    ///
    /// # Errors
    /// As [`Backend::get_run`].
    fn list_nodes(&self, filter: &NodeFilter, page: &PageRequest) -> Result<Rows<NodeRun>>;

    /// A page of agent runs by (createdAt, nodeRunId).
    ///
    /// # Errors
    /// As [`Backend::get_run`].
    fn list_agents(&self, filter: &AgentFilter, page: &PageRequest) -> Result<Rows<AgentRun>>;

    /// A page of the projects that have runs, by projectId.
    ///
    /// # Errors
    /// As [`Backend::get_run`].
    fn list_projects(&self, page: &PageRequest) -> Result<Rows<ProjectSummary>>;

    /// The run with the greatest (startedAt, id) of each workflow that has runs, in the order of `workflow_ids` (no repeats).
    ///
    /// # Errors
    /// As [`Backend::get_run`].
    fn latest_runs(&self, project: &Id, workflow_ids: &[Id], form: AnswerForm) -> Result<Vec<Run>>;

    /// Running runs whose lease ends at or before a time, by (lease end, projectId, id), and whether more follow.
    ///
    /// # Errors
    /// As [`Backend::get_run`].
    fn expired_runs(&self, filter: &ExpiredFilter, form: AnswerForm) -> Result<(Vec<Run>, bool)>;

    /// Running agent runs whose lease ends at or before a time, by (lease end, projectId, nodeRunId), and whether more follow.
    ///
    /// # Errors
    /// As [`Backend::get_run`].
    fn expired_agents(&self, filter: &ExpiredFilter, form: AnswerForm) -> Result<(Vec<AgentRun>, bool)>;

    /// Counts of a project's runs; of `workflow_ids` only (in byte order, no repeats, may be empty).
    ///
    /// # Errors
    /// As [`Backend::get_run`].
    fn run_stats(&self, project: &Id, workflow_ids: Option<&[Id]>) -> Result<RunStats>;

    /// Hands every record to `sink`, from one consistent state and in bounded memory: the runs by (projectId, id), then
    /// the node runs by (projectId, id), then the agent runs by (projectId, nodeRunId). Stops at the sink's first error.
    ///
    /// # Errors
    /// The sink's, or as [`Backend::get_run`].
    fn export(&self, sink: &mut dyn FnMut(ExportRecord) -> Result<()>) -> Result<()>;

    /// Copies one consistent state of the store to `file`, as a store of this backend. `false` says that it has no file of
    /// its own: core then writes the export stream instead.
    ///
    /// # Errors
    /// `interrupted`, or as [`Backend::get_run`].
    fn backup(&self, file: &NewFile, on_progress: OnProgress<'_>) -> Result<bool> {
        let _ = (file, on_progress);
        Ok(false)
    }

    /// What the store is. `library_version` may be left empty: the ledger fills it in.
    ///
    /// # Errors
    /// As [`Backend::get_run`].
    fn info(&self) -> Result<StoreInfo>;

    /// Whether it was opened read-only.
    fn is_read_only(&self) -> bool;

    /// Holds indexes, counters, checksums and references against the records, and has the engine check itself where it
    /// can. It never repairs.
    ///
    /// # Errors
    /// As [`Backend::get_run`]; what is wrong in the store is no error but a problem of the report.
    fn verify(&self) -> Result<VerifyReport>;

    /// As [`Backend::verify`], and tells the progress.
    ///
    /// # Errors
    /// `interrupted`, or as [`Backend::get_run`].
    fn verify_with(&self, on_progress: OnProgress<'_>) -> Result<VerifyReport> {
        let _ = on_progress;
        self.verify()
    }

    /// Gives unused space back.
    ///
    /// # Errors
    /// `busy` where the engine can't while the store is in use; else as [`Backend::get_run`].
    fn compact(&self) -> Result<CompactReport>;

    /// Closes the engine and gives up its locks. Called once, when no other call is under way.
    ///
    /// # Errors
    /// As [`Backend::get_run`].
    fn close(&self) -> Result<()>;
}
