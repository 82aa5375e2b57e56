//! What a store is made to do, and the state that each step of it must leave.

use runledger_backend_memory::MemoryBackend;
use runledger_core::{Ledger, ListAgents, ListNodes, ListRuns, OpenOptions, Request, Result, Status, answer_to_json};

use crate::Dice;

/// One step.
#[derive(Clone, Debug)]
pub enum Unit {
    /// One request.
    One(String),
    /// Requests that are handed over together and committed together.
    Group(Vec<String>),
    /// The space that is not used is given back.
    Compact,
    /// Somebody else copies the log into the file.
    Checkpoint,
    /// The store is closed and opened again.
    Reopen,
}

/// The same steps for every store.
#[derive(Clone, Debug)]
pub struct Workload {
    /// The steps.
    pub units: Vec<Unit>,
    /// What each step is answered; of an error only its code.
    pub answers: Vec<Vec<String>>,
    /// The state before the first step and after each.
    pub states: Vec<Vec<u8>>,
}

/// An empty store that always does the right thing.
pub fn model() -> Ledger {
    let options = OpenOptions::new();
    Ledger::new(MemoryBackend::open(&options).expect("memory can always be opened"), &options)
}

/// All that a store holds: its export, which is equal for equal stores.
///
/// # Errors
/// Those of the store.
pub fn state_of(ledger: &Ledger) -> Result<Vec<u8>> {
    let mut state = Vec::new();
    ledger.export(&mut state).map(|_| state)
}

impl Unit {
    /// Has a store carry out requests; `None` for a step that is none.
    pub fn carry_out(&self, ledger: &Ledger) -> Option<Vec<String>> {
        match self {
            Unit::One(request) => Some(vec![ledger.call_json(request)]),
            Unit::Group(requests) => {
                let read = |request: &String| Request::from_json(request.as_bytes(), &ledger.limits());
                let requests = requests.iter().map(read).collect::<Result<_>>().expect("the requests have the right shape");
                Some(ledger.execute_each(requests).iter().map(answer_to_json).collect())
            }
            Unit::Compact | Unit::Checkpoint | Unit::Reopen => None,
        }
    }

    /// The requests of the step.
    pub fn requests(&self) -> &[String] {
        match self {
            Unit::One(request) => std::slice::from_ref(request),
            Unit::Group(requests) => requests,
            Unit::Compact | Unit::Checkpoint | Unit::Reopen => &[],
        }
    }
}

/// The code of an answer that is an error.
pub(crate) fn code_of(answer: &str) -> Option<&str> {
    answer.strip_prefix(r#"{"error":{"code":""#).and_then(|rest| rest.split('"').next())
}

/// What of an answer must be the same everywhere: messages may differ.
pub(crate) fn essence(answer: &str) -> &str {
    code_of(answer).unwrap_or(answer)
}

impl Workload {
    /// Steps made of a seed. Every so many of them compact, copy the log or reopen; 0 for never.
    pub fn new(seed: u64, length: usize, upkeep_every: usize) -> Workload {
        let mut maker = Maker { dice: Dice::new(seed), model: model(), made: 0 };
        let mut workload = Workload::empty(&maker.model);
        for number in 1..=length {
            let unit = if upkeep_every > 0 && number % upkeep_every == 0 {
                [Unit::Checkpoint, Unit::Reopen, Unit::Compact][number / upkeep_every % 3].clone()
            } else {
                maker.unit()
            };
            workload.push(unit, &maker.model);
        }
        workload
    }

    /// Steps that each write so many bytes.
    pub fn of_large(length: usize, bytes: usize) -> Workload {
        let mut maker = Maker { dice: Dice::new(0), model: model(), made: 0 };
        let mut workload = Workload::empty(&maker.model);
        for _ in 0..length {
            let (time, input) = (maker.time(), maker.text(bytes));
            let id = maker.made;
            let request = format!(
                r#"{{"op":"runs.start","projectId":"p","id":"r{id}","workflowId":"w","input":{input},"startedAt":"{time}","answer":"state"}}"#
            );
            workload.push(Unit::One(request), &maker.model);
        }
        workload
    }

    fn empty(model: &Ledger) -> Workload {
        Workload { units: Vec::new(), answers: Vec::new(), states: vec![state_of(model).unwrap()] }
    }

    fn push(&mut self, unit: Unit, model: &Ledger) {
        let answers = unit.carry_out(model).unwrap_or_default();
        self.answers.push(answers.iter().map(|answer| essence(answer).to_owned()).collect());
        self.states.push(state_of(model).unwrap());
        self.units.push(unit);
    }
}

const PROJECTS: [&str; 2] = ["p", "q"];
const WORKFLOWS: [&str; 2] = ["w1", "w2"];

struct Maker {
    dice: Dice,
    model: Ledger,
    made: usize,
}

impl Maker {
    fn unit(&mut self) -> Unit {
        match self.dice.below(8) {
            0 => Unit::One(self.batch()),
            1 => Unit::Group((0..3).map(|_| self.request()).collect()),
            _ => Unit::One(self.request()),
        }
    }

    /// A moment that no other has.
    fn time(&mut self) -> String {
        self.made += 1;
        let (minutes, seconds) = (self.made / 60, self.made % 60);
        format!("2026-01-01T{:02}:{:02}:{seconds:02}Z", minutes / 60, minutes % 60)
    }

    fn payload(&mut self) -> String {
        let len = match self.dice.below(10) {
            0..=5 => self.dice.below(200),
            6..=8 => 1024 + self.dice.below(6000),
            _ => 20_000 + self.dice.below(30_000),
        };
        self.text(len)
    }

    /// Bytes that repeat would let a page that was lost look like one that was not.
    fn text(&mut self, len: usize) -> String {
        let text: String = (0..len.div_ceil(16)).map(|_| format!("{:016x}", self.dice.roll())).collect();
        format!(r#""{text}""#)
    }

    /// A batch whose later commands need the earlier ones.
    fn batch(&mut self) -> String {
        let (time, input, output) = (self.time(), self.payload(), self.payload());
        let (project, run) = (self.dice.one_of(&PROJECTS), format!("batch{}", self.made));
        let of = format!(r#""projectId":"{project}","executionToken":"t{run}""#);
        format!(
            r#"{{"op":"batch","commands":[
            {{"op":"runs.start","projectId":"{project}","id":"{run}","workflowId":"w1","input":{input},"startedAt":"{time}","execution":{{"token":"t{run}","queueLeaseExpiresAt":"{time}"}}}},
            {{"op":"nodes.start",{of},"id":"n{run}","workflowRunId":"{run}","workflowId":"w1","nodeIndex":1,"nodeType":"agent","nodeId":"n","nodeKey":"k","input":1,"startedAt":"{time}"}},
            {{"op":"agents.create",{of},"nodeRunId":"n{run}","agentId":"a","prompt":"do","createdAt":"{time}"}},
            {{"op":"nodes.finish",{of},"id":"n{run}","status":"succeeded","output":{output},"finishedAt":"{time}"}}]}}"#
        )
        .replace('\n', " ")
    }

    fn request(&mut self) -> String {
        let project = self.dice.one_of(&PROJECTS);
        let request = match self.dice.below(18) {
            0..=2 => None,
            3 => Some(self.claim(project)),
            4..=6 => self.node_start(project),
            7 => self.node_end(project),
            8..=9 => self.agent(project),
            10..=12 => self.confirm(project),
            13 => self.wait_or_resume(project),
            14 => self.finish(project),
            15 => self.cancel(project),
            16 => self.delete(project),
            _ => Some(self.start(project)),
        };
        request.unwrap_or_else(|| self.queue(project))
    }

    fn queue(&mut self, project: &str) -> String {
        let (time, input, source, workflow) = (self.time(), self.payload(), self.payload(), self.dice.one_of(&WORKFLOWS));
        let id = self.made;
        format!(
            r#"{{"op":"runs.queue","projectId":"{project}","id":"r{id}","workflowId":"{workflow}","input":{input},"source":{source},"queuedAt":"{time}"}}"#
        )
    }

    fn start(&mut self, project: &str) -> String {
        let (time, input, workflow) = (self.time(), self.payload(), self.dice.one_of(&WORKFLOWS));
        let id = self.made;
        format!(
            r#"{{"op":"runs.start","projectId":"{project}","id":"r{id}","workflowId":"{workflow}","input":{input},"startedAt":"{time}","execution":{{"token":"tr{id}","queueLeaseExpiresAt":"{time}"}}}}"#
        )
    }

    fn claim(&mut self, project: &str) -> String {
        let time = self.time();
        let token = self.made;
        format!(
            r#"{{"op":"runs.claim","projectId":"{project}","startedAt":"{time}","execution":{{"token":"c{token}","queueLeaseExpiresAt":"{time}"}}}}"#
        )
    }

    /// One of the runs in a status, and the field with its token.
    fn run(&mut self, project: &str, statuses: &[Status]) -> Option<(runledger_core::Run, String)> {
        let list = ListRuns::new(project).with_statuses(statuses.to_vec()).with_limit(1000_u32);
        let runs = self.model.list_runs(list).unwrap().rows;
        let run = (!runs.is_empty()).then(|| self.dice.one_of(&runs))?;
        let token = run.execution.as_ref().map_or_else(String::new, |execution| format!(r#","executionToken":"{}""#, &*execution.token));
        Some((run, token))
    }

    fn node_start(&mut self, project: &str) -> Option<String> {
        let (run, token) = self.run(project, &[Status::Running])?;
        let (time, input) = (self.time(), self.payload());
        let (id, run, workflow) = (self.made, &*run.id, &*run.workflow_id);
        Some(format!(
            r#"{{"op":"nodes.start","projectId":"{project}","id":"n{id}","workflowRunId":"{run}","workflowId":"{workflow}","nodeIndex":{id},"nodeType":"agent","nodeId":"n","nodeKey":"k","input":{input},"startedAt":"{time}"{token}}}"#
        ))
    }

    /// One of the node runs in a status whose run is running, and the field with its token.
    fn node(&mut self, project: &str, status: Status) -> Option<(String, String)> {
        let (run, token) = self.run(project, &[Status::Running])?;
        let list = ListNodes::new(project).with_workflow_run_id(run.id.clone()).with_statuses(vec![status]).with_limit(1000_u32);
        let nodes = self.model.list_nodes(list).unwrap().rows;
        (!nodes.is_empty()).then(|| (self.dice.one_of(&nodes).id.to_string(), token))
    }

    fn node_end(&mut self, project: &str) -> Option<String> {
        let (node, token) = self.node(project, Status::Running)?;
        let (time, output) = (self.time(), self.payload());
        Some(match self.dice.below(3) {
            0 => format!(r#"{{"op":"nodes.wait","projectId":"{project}","id":"{node}","waitingAt":"{time}"{token}}}"#),
            _ => format!(
                r#"{{"op":"nodes.finish","projectId":"{project}","id":"{node}","status":"succeeded","output":{output},"finishedAt":"{time}"{token}}}"#
            ),
        })
    }

    fn agent(&mut self, project: &str) -> Option<String> {
        let list = ListAgents::new(project).with_statuses(vec![Status::Queued, Status::Running]).with_limit(1000_u32);
        let agents = self.model.list_agents(list).unwrap().rows;
        let (time, trace) = (self.time(), self.payload());
        if agents.is_empty() || self.dice.once_in(2) {
            let (node, token) = self.node(project, Status::Running)?;
            return Some(format!(
                r#"{{"op":"agents.create","projectId":"{project}","nodeRunId":"{node}","agentId":"a","prompt":{trace},"createdAt":"{time}"{token}}}"#
            ));
        }
        let agent = self.dice.one_of(&agents);
        let (node, number) = (&*agent.node_run_id, self.made);
        Some(match &agent.execution {
            None => format!(
                r#"{{"op":"agents.start","projectId":"{project}","nodeRunId":"{node}","startedAt":"{time}","execution":{{"token":"a{number}","queueLeaseExpiresAt":"{time}"}}}}"#
            ),
            Some(execution) => format!(
                r#"{{"op":"agents.finish","projectId":"{project}","nodeRunId":"{node}","status":"succeeded","trace":{trace},"completedAt":"{time}","executionToken":"{}"}}"#,
                &*execution.token
            ),
        })
    }

    fn confirm(&mut self, project: &str) -> Option<String> {
        let (run, _) = self.run(project, &[Status::Running])?;
        let (time, token) = (self.time(), run.execution.as_ref()?.token.clone());
        Some(format!(
            r#"{{"op":"runs.confirm","projectId":"{project}","id":"{}","executionToken":"{}","queueLeaseExpiresAt":"{time}"}}"#,
            &*run.id, &*token
        ))
    }

    fn wait_or_resume(&mut self, project: &str) -> Option<String> {
        let (run, token) = self.run(project, &[Status::Running, Status::Waiting])?;
        let (time, id) = (self.time(), &*run.id);
        Some(match run.status {
            Status::Running => format!(r#"{{"op":"runs.wait","projectId":"{project}","id":"{id}","waitingAt":"{time}"{token}}}"#),
            _ => format!(r#"{{"op":"runs.resume","projectId":"{project}","id":"{id}"}}"#),
        })
    }

    fn finish(&mut self, project: &str) -> Option<String> {
        let (run, token) = self.run(project, &[Status::Running])?;
        let (time, output) = (self.time(), self.payload());
        Some(format!(
            r#"{{"op":"runs.finish","projectId":"{project}","id":"{}","status":"succeeded","output":{output},"finishedAt":"{time}"{token}}}"#,
            &*run.id
        ))
    }

    fn cancel(&mut self, project: &str) -> Option<String> {
        let (run, _) = self.run(project, &[Status::Queued, Status::Running, Status::Waiting])?;
        let time = self.time();
        Some(format!(r#"{{"op":"runs.cancel","projectId":"{project}","id":"{}","error":"stopped","finishedAt":"{time}"}}"#, &*run.id))
    }

    fn delete(&mut self, project: &str) -> Option<String> {
        let (run, _) = self.run(project, &[Status::Succeeded, Status::Cancelled])?;
        Some(format!(r#"{{"op":"runs.delete","projectId":"{project}","id":"{}"}}"#, &*run.id))
    }
}
