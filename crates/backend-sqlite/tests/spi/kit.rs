//! What the tests share: a work made of a closure, a source of chance, and records that could be.

use std::path::{Path, PathBuf};

use runledger_backend_sqlite::SqliteBackend;
use runledger_core::{
    AgentRun, AnswerForm, Backend, Command, Execution, Id, NodeRun, OpenOptions, Payload, Principal, Put, Record, Result, Run, Status,
    Stored, Text, Time, Tx, Work,
};

/// A work that does what a closure says.
pub(crate) struct Do<F>(pub(crate) F);

impl<F: FnMut(&mut dyn Tx) -> Result<()>> Work for Do<F> {
    fn commands(&self) -> Option<Vec<&Command>> {
        None
    }
    fn run(&mut self, tx: &mut dyn Tx) -> Result<()> {
        (self.0)(tx)
    }
}

pub(crate) fn write(backend: &SqliteBackend, work: impl FnMut(&mut dyn Tx) -> Result<()>) -> Result<()> {
    backend.write(&mut Do(work))
}

/// A directory that goes when it is dropped, and the path of a store in it.
pub(crate) fn place() -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("runs.db");
    (directory, path)
}

pub(crate) fn open(path: &Path) -> SqliteBackend {
    SqliteBackend::open(path, &OpenOptions::new()).unwrap()
}

pub(crate) fn add(backend: &SqliteBackend, id: &str) {
    write(backend, |tx| tx.put_run(&Put::insert(new_run("p", id, "wf", 1)))).unwrap();
}

pub(crate) fn has(backend: &SqliteBackend, id: &str) -> bool {
    backend.get_run(&"p".into(), &id.into(), AnswerForm::Record).unwrap().is_some()
}

pub(crate) fn time(us: i64) -> Time {
    Time::from_unix_us(us).unwrap()
}

pub(crate) fn json(text: &str) -> Payload {
    Payload::from_json(text).unwrap()
}

/// Numbers that look like chance and are the same at every run.
pub(crate) struct Chance(pub(crate) u64);

impl Chance {
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % bound
    }
    pub(crate) fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len() as u64) as usize]
    }
    pub(crate) fn one_in(&mut self, bound: u64) -> bool {
        self.below(bound) == 0
    }
}

pub(crate) fn new_run(project: &str, id: &str, workflow: &str, started_us: i64) -> Run {
    Run {
        project_id: project.into(),
        id: id.into(),
        workflow_id: workflow.into(),
        status: Status::Queued,
        input: Some(json(&format!("{{\"of\":\"{id}\"}}"))),
        queued_at: Some(time(started_us)),
        started_at: time(started_us),
        waiting_since: None,
        finished_at: None,
        output: None,
        error: None,
        source: None,
        requested_by_principal: Principal::system(),
        attempt: 0,
        execution: None,
    }
}

pub(crate) fn new_node(run: &Run, id: &str, index: u32, node_type: &str, started_us: i64) -> NodeRun {
    NodeRun {
        project_id: run.project_id.clone(),
        id: id.into(),
        workflow_run_id: run.id.clone(),
        workflow_id: run.workflow_id.clone(),
        node_index: index,
        node_type: node_type.into(),
        node_id: "step".into(),
        node_key: "key".into(),
        status: Status::Running,
        input: Some(json("[1, 2]")),
        started_at: time(started_us),
        waiting_since: None,
        finished_at: None,
        output: None,
        error: None,
    }
}

pub(crate) fn new_agent(node: &NodeRun, agent: &str, created_us: i64) -> AgentRun {
    AgentRun {
        project_id: node.project_id.clone(),
        node_run_id: node.id.clone(),
        agent_id: agent.into(),
        status: Status::Queued,
        prompt: Some("do\0it".into()),
        execution_principal: None,
        model_id: None,
        finish_reason: None,
        usage: None,
        trace: None,
        diagnostics: None,
        error: None,
        attempt: 0,
        execution: None,
        created_at: time(created_us),
        started_at: None,
        completed_at: None,
    }
}

/// Puts a run into a status, with the fields that belong to it.
pub(crate) fn set_run(run: &mut Run, status: Status, lease_us: Option<i64>, at_us: i64) {
    run.status = status;
    run.waiting_since = (status == Status::Waiting).then(|| time(at_us));
    run.finished_at = status.is_terminal().then(|| time(at_us));
    run.output = (status == Status::Succeeded).then(|| json("{\"out\": 1.0}"));
    run.error = matches!(status, Status::Failed | Status::Cancelled).then(|| Text::from("a\0b"));
    run.execution = lease_us.filter(|_| status == Status::Running).map(|lease| Execution::new(format!("token-{lease}"), time(lease)));
    if status != Status::Queued {
        run.attempt += 1;
    }
}

/// Puts an agent run into a status, with the fields that belong to it.
pub(crate) fn set_agent(agent: &mut AgentRun, status: Status, lease_us: i64, at_us: i64) {
    agent.status = status;
    agent.attempt += 1;
    agent.started_at = Some(time(at_us));
    agent.completed_at = status.is_terminal().then(|| time(at_us));
    agent.execution = (status == Status::Running).then(|| Execution::new("t", time(lease_us)));
    agent.model_id = Some("m\0odel".into());
    agent.usage = Some(json("{\"tokens\":5}"));
}

/// The change from a record as it was loaded (with all its large values) to another.
pub(crate) fn update<R: Record>(before: Stored<R>, record: R) -> Put<R> {
    let held = record.held();
    let mut written = runledger_core::Held::default();
    for slot in held.slots() {
        if before.record.large(slot) != record.large(slot) {
            written.insert(slot);
        }
    }
    Put { after: Stored { record, held, handle: before.handle }, before: Some(before), written }
}

pub(crate) fn ids(texts: &[&str]) -> Vec<Id> {
    texts.iter().map(|text| Id::from(*text)).collect()
}
