//! The backend by itself, through the interface that core uses.

mod bent;
mod crash;
mod damage;
mod opening;
mod queries;
mod records;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use runledger_core::{
    AgentRun, AnswerForm, Backend, Code, Command, Error, Execution, Id, NodeRun, OpenOptions, Payload, Principal, Put, Result, Run, Status,
    Stored, Text, Time, Tx, Work,
};
use tempfile::TempDir;

use self::bent::{Bends, Bent};
use crate::RedbBackend;

/// A directory with a store in it.
pub(super) struct Place {
    directory: TempDir,
}

impl Place {
    pub(super) fn new() -> Self {
        Place { directory: tempfile::tempdir().unwrap() }
    }

    pub(super) fn directory(&self) -> &Path {
        self.directory.path()
    }

    pub(super) fn path(&self) -> PathBuf {
        self.directory().join("runs.redb")
    }

    pub(super) fn open(&self) -> RedbBackend {
        self.open_with(&OpenOptions::new()).unwrap()
    }

    pub(super) fn open_with(&self, options: &OpenOptions) -> Result<RedbBackend> {
        RedbBackend::open(&self.path(), options)
    }

    /// Opens the store, which was made before, over a file that can be bent.
    pub(in crate::tests) fn open_bent(&self) -> (RedbBackend, Arc<Bends>) {
        drop(self.open());
        let file = File::options().read(true).write(true).open(self.path()).unwrap();
        let (file, bends) = Bent::new(file);
        (RedbBackend::open_on(file, &self.path(), &OpenOptions::new()).unwrap(), bends)
    }

    /// The names in the directory.
    pub(super) fn names(&self) -> Vec<String> {
        let names = std::fs::read_dir(self.directory()).unwrap();
        let mut names: Vec<String> = names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

struct Job<F>(F);

impl<F: FnMut(&mut dyn Tx) -> Result<()>> Work for Job<F> {
    fn commands(&self) -> Option<Vec<&Command>> {
        None
    }

    fn run(&mut self, tx: &mut dyn Tx) -> Result<()> {
        (self.0)(tx)
    }
}

/// Runs one transaction.
pub(super) fn write(backend: &RedbBackend, work: impl FnMut(&mut dyn Tx) -> Result<()>) -> Result<()> {
    backend.write(&mut Job(work))
}

pub(super) fn refused<T>(result: Result<T>) -> Code {
    refused_with(result).code()
}

pub(super) fn refused_with<T>(result: Result<T>) -> Error {
    match result {
        Ok(_) => panic!("it was not refused"),
        Err(error) => error,
    }
}

pub(super) fn id(text: &str) -> Id {
    Id::from(text)
}

/// A time some seconds after the start of 2026.
pub(super) fn at(seconds: i64) -> Time {
    Time::from_unix_us(1_767_225_600_000_000).unwrap().plus_seconds(seconds)
}

pub(super) fn payload(text: &str) -> Payload {
    Payload::from_json(format!("\"{text}\"")).unwrap()
}

/// A coherent run.
pub(super) fn run(project: &str, name: &str, workflow: &str, status: Status, started: Time) -> Run {
    Run {
        project_id: id(project),
        id: id(name),
        workflow_id: id(workflow),
        status,
        input: Some(payload(&format!("input of {name}"))),
        queued_at: (status == Status::Queued).then_some(started),
        started_at: started,
        waiting_since: (status == Status::Waiting).then_some(started),
        finished_at: status.is_terminal().then_some(started.plus_seconds(5)),
        output: (status == Status::Succeeded).then(|| payload("output")),
        error: matches!(status, Status::Failed | Status::Cancelled).then(|| Text::from("gone\0")),
        source: None,
        requested_by_principal: Principal::system(),
        attempt: u32::from(status != Status::Queued),
        execution: (status == Status::Running).then(|| Execution::new("token", started.plus_seconds(60))),
    }
}

/// A coherent node run.
pub(super) fn node(run: &Run, name: &str, index: u32, status: Status, started: Time) -> NodeRun {
    NodeRun {
        project_id: run.project_id.clone(),
        id: id(name),
        workflow_run_id: run.id.clone(),
        workflow_id: run.workflow_id.clone(),
        node_index: index,
        node_type: id("agent"),
        node_id: id("step"),
        node_key: id("key"),
        status,
        input: Some(payload("node input")),
        started_at: started,
        waiting_since: (status == Status::Waiting).then_some(started),
        finished_at: status.is_terminal().then_some(started),
        output: None,
        error: None,
    }
}

/// A coherent agent run.
pub(super) fn agent(node: &NodeRun, agent: &str, status: Status, created: Time) -> AgentRun {
    AgentRun {
        project_id: node.project_id.clone(),
        node_run_id: node.id.clone(),
        agent_id: id(agent),
        status,
        prompt: Some(Text::from("do it")),
        execution_principal: None,
        model_id: None,
        finish_reason: None,
        usage: None,
        trace: None,
        diagnostics: None,
        error: None,
        attempt: u32::from(status != Status::Queued),
        execution: (status == Status::Running).then(|| Execution::new("token", created.plus_seconds(60))),
        created_at: created,
        started_at: (status != Status::Queued).then_some(created),
        completed_at: status.is_terminal().then_some(created),
    }
}

/// Loads the state of a run, changes it and puts it, as a transition does.
pub(super) fn change_run(tx: &mut dyn Tx, project: &str, name: &str, change: impl FnOnce(&mut Run)) -> Result<()> {
    let before = tx.run(&id(project), &id(name), AnswerForm::State)?.expect("the test put it");
    let mut record = before.record.clone();
    change(&mut record);
    let written = runledger_core::Record::held(&record);
    let after = Stored { record, held: before.held.union(written), handle: before.handle };
    tx.put_run(&Put { before: Some(before), after, written })
}

/// Numbers that look random and are the same in every run of a test.
pub(super) struct Dice(pub(super) u64);

impl Dice {
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }

    pub(super) fn one_of<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize].clone()
    }
}
