//! Tests at the level of the interface that core uses.

mod queries;
mod store;
mod transactions;
mod verification;

use std::collections::BTreeMap;

use runledger_core::{
    AgentRun, AnswerForm, Backend, Command, DeleteRun, Execution, ExportRecord, Id, NodeRun, OpenOptions, Payload, Principal, Put, Result,
    Run, Status, Stored, Time, Tx, Work,
};

use crate::MemoryBackend;

/// Statuses that a node run can have.
const NODE_STATUSES: [Status; 5] = [Status::Running, Status::Waiting, Status::Succeeded, Status::Failed, Status::Cancelled];

/// Statuses that an agent run can have.
const AGENT_STATUSES: [Status; 5] = [Status::Queued, Status::Running, Status::Succeeded, Status::Failed, Status::Cancelled];

/// A work that names projects and does what a closure does.
struct Act<F> {
    commands: Option<Vec<Command>>,
    act: F,
}

impl<F: FnMut(&mut dyn Tx) -> Result<()>> Work for Act<F> {
    fn commands(&self) -> Option<Vec<&Command>> {
        self.commands.as_ref().map(|commands| commands.iter().collect())
    }

    fn run(&mut self, tx: &mut dyn Tx) -> Result<()> {
        (self.act)(tx)
    }
}

fn open() -> MemoryBackend {
    MemoryBackend::open(&OpenOptions::new()).unwrap()
}

/// Writes in these projects.
fn write_in(backend: &MemoryBackend, projects: &[&str], act: impl FnMut(&mut dyn Tx) -> Result<()>) -> Result<()> {
    let commands = projects.iter().map(|project| DeleteRun::new(*project, "any").into()).collect();
    backend.write(&mut Act { commands: Some(commands), act })
}

/// Writes anywhere.
fn write_anywhere(backend: &MemoryBackend, act: impl FnMut(&mut dyn Tx) -> Result<()>) -> Result<()> {
    backend.write(&mut Act { commands: None, act })
}

fn id(text: &str) -> Id {
    Id::from(text)
}

fn at(second: i64) -> Time {
    Time::from_unix_us(second * 1_000_000).unwrap()
}

fn payload(text: &str) -> Payload {
    Payload::from_value(text).unwrap()
}

/// A run as the transitions leave one in this status.
fn run(project: &str, name: &str, workflow: &str, status: Status, started: i64) -> Run {
    let running = status == Status::Running;
    Run {
        project_id: id(project),
        id: id(name),
        workflow_id: id(workflow),
        status,
        input: Some(payload("in")),
        queued_at: (status == Status::Queued).then(|| at(started)),
        started_at: at(started),
        waiting_since: (status == Status::Waiting).then(|| at(started + 1)),
        finished_at: status.is_terminal().then(|| at(started + 2)),
        output: (status == Status::Succeeded).then(|| payload("out")),
        error: (status == Status::Failed).then(|| "broken".into()),
        source: Some(payload("source")),
        requested_by_principal: Principal::system(),
        attempt: u32::from(status != Status::Queued),
        execution: running.then(|| Execution::new("token", at(started + 30))),
    }
}

fn node(run: &Run, name: &str, status: Status, started: i64, index: u32) -> NodeRun {
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
        input: Some(payload("in")),
        started_at: at(started),
        waiting_since: (status == Status::Waiting).then(|| at(started + 1)),
        finished_at: status.is_terminal().then(|| at(started + 2)),
        output: (status == Status::Succeeded).then(|| payload("out")),
        error: (status == Status::Failed).then(|| "broken".into()),
    }
}

fn agent(node: &NodeRun, name: &str, status: Status, created: i64) -> AgentRun {
    AgentRun {
        project_id: node.project_id.clone(),
        node_run_id: node.id.clone(),
        agent_id: id(name),
        status,
        prompt: Some("do it".into()),
        execution_principal: None,
        model_id: None,
        finish_reason: None,
        usage: None,
        trace: Some(payload("trace")),
        diagnostics: None,
        error: (status == Status::Failed).then(|| "broken".into()),
        attempt: u32::from(status != Status::Queued),
        execution: (status == Status::Running).then(|| Execution::new("token", at(created + 30))),
        created_at: at(created),
        started_at: (status != Status::Queued).then(|| at(created + 1)),
        completed_at: status.is_terminal().then(|| at(created + 2)),
    }
}

fn load_run(tx: &mut dyn Tx, project: &str, name: &str) -> Option<Stored<Run>> {
    tx.run(&id(project), &id(name), AnswerForm::Record).unwrap()
}

/// Changes a run that is there.
fn change_run(tx: &mut dyn Tx, project: &str, name: &str, change: impl FnOnce(&mut Run)) -> Result<()> {
    let before = load_run(tx, project, name).unwrap();
    let mut after = before.clone();
    change(&mut after.record);
    after.held = runledger_core::Record::held(&after.record);
    let written = after.held;
    tx.put_run(&Put { before: Some(before), after, written })
}

/// What the store holds, by what an export hands out.
#[derive(Debug, Default, PartialEq)]
struct Content {
    runs: BTreeMap<(Id, Id), Run>,
    nodes: BTreeMap<(Id, Id), NodeRun>,
    agents: BTreeMap<(Id, Id), AgentRun>,
}

fn content(backend: &MemoryBackend) -> Content {
    let mut content = Content::default();
    let export = backend.export(&mut |record| {
        match record {
            ExportRecord::Run(run) => drop(content.runs.insert((run.project_id.clone(), run.id.clone()), run)),
            ExportRecord::Node(node) => drop(content.nodes.insert((node.project_id.clone(), node.id.clone()), node)),
            ExportRecord::Agent(agent) => drop(content.agents.insert((agent.project_id.clone(), agent.node_run_id.clone()), agent)),
        }
        Ok(())
    });
    export.unwrap();
    content
}

fn assert_sound(backend: &MemoryBackend) {
    let report = backend.verify().unwrap();
    assert_eq!(report.problems, []);
}

/// Numbers that look random and are the same in every run of the tests.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % bound
    }

    fn one_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }
}
