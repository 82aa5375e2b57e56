//! The contract once more, as plainly as it can be said: three vectors of records, linear scans, answers as JSON text.
//!
//! Nothing here is shared with the product's rules: no transition, filter, order or encoder of core is called, only its
//! types are read. So an answer of the product that differs from the oracle's is a fault of one of them.

mod commands;
mod queries;
mod render;
mod shape;

use std::collections::BTreeMap;

use runledger_core::{AgentRun, Code, Command, Entity, Id, NodeRun, Order, Query, Run, Status, Time};
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};

use render::quote;

/// A store that is obviously right, and slow.
#[derive(Clone, Debug)]
pub struct Oracle {
    runs: Vec<Run>,
    nodes: Vec<NodeRun>,
    agents: Vec<AgentRun>,
    max_payload_bytes: usize,
}

/// What the contract wants a store to answer: the value of `ok`, or any one of several refusals (of several wrong
/// fields any one may be named).
pub type Expected = Result<Reply, Vec<Refusal>>;

/// The value of `ok`.
#[derive(Clone, Debug, PartialEq)]
pub struct Reply {
    /// The JSON text, without `nextCursor`.
    pub text: String,
    /// The place that `nextCursor` must stand for, where the answer must have one.
    pub next: Option<Bookmark>,
}

impl From<String> for Reply {
    fn from(text: String) -> Self {
        Reply { text, next: None }
    }
}

/// What a cursor stands for: a place in the order of one list of one project in one direction.
#[derive(Clone, Debug, PartialEq)]
pub struct Bookmark {
    op: &'static str,
    project_id: Option<Id>,
    order: Order,
    key: (Time, u32, Id),
}

/// A refusal: its code, and its details as JSON text.
#[derive(Clone, Debug, PartialEq)]
pub struct Refusal {
    code: Code,
    details: BTreeMap<String, String>,
}

impl Refusal {
    fn new(code: Code) -> Self {
        Refusal { code, details: BTreeMap::new() }
    }

    fn with(mut self, name: &str, json: impl ToString) -> Self {
        self.details.insert(name.to_owned(), json.to_string());
        self
    }

    fn of(code: Code, entity: Entity, project: &Id, id: &Id) -> Self {
        Refusal::new(code).with("entity", quote(entity.as_str())).with("projectId", quote(project)).with("id", quote(id))
    }

    fn invalid(field: &str) -> Self {
        Refusal::new(Code::InvalidInput).with("field", quote(field))
    }

    fn status(status: Status, entity: Entity, project: &Id, id: &Id) -> Self {
        Refusal::of(Code::InvalidTransition, entity, project, id).with("status", quote(status.as_str()))
    }
}

impl Oracle {
    /// An empty store with a limit of each payload and text.
    pub fn new(max_payload_bytes: usize) -> Self {
        Oracle { runs: Vec::new(), nodes: Vec::new(), agents: Vec::new(), max_payload_bytes }
    }

    /// The runs, in the order in which they were made.
    pub fn runs(&self) -> &[Run] {
        &self.runs
    }

    /// The node runs, in the order in which they were made.
    pub fn nodes(&self) -> &[NodeRun] {
        &self.nodes
    }

    /// The agent runs, in the order in which they were made.
    pub fn agents(&self) -> &[AgentRun] {
        &self.agents
    }

    /// Carries a command out at the time `now` of the store's clock.
    ///
    /// # Errors
    /// The refusals that are right.
    pub fn command(&mut self, command: &Command, now: Time) -> Expected {
        let faults = shape::faults(&command.to_json(), self.max_payload_bytes);
        if !faults.is_empty() {
            return Err(faults);
        }
        self.apply(command, now).map(Reply::from).map_err(|refusal| vec![refusal])
    }

    /// Carries commands out as one step: all, or none.
    ///
    /// # Errors
    /// The refusals that are right.
    pub fn batch(&mut self, commands: &[Command], now: Time) -> Expected {
        if commands.is_empty() || commands.len() > 1000 {
            return Err(vec![Refusal::invalid("commands")]);
        }
        let faults: Vec<Refusal> = commands
            .iter()
            .enumerate()
            .flat_map(|(index, command)| {
                shape::faults(&command.to_json(), self.max_payload_bytes).into_iter().map(move |fault| fault.with("index", index))
            })
            .collect();
        if !faults.is_empty() {
            return Err(faults);
        }
        let before = self.clone();
        let mut results = Vec::new();
        for (index, command) in commands.iter().enumerate() {
            match self.apply(command, now) {
                Ok(result) => results.push(result),
                Err(refusal) => {
                    *self = before;
                    return Err(vec![refusal.with("index", index)]);
                }
            }
        }
        Ok(format!(r#"{{"results":[{}]}}"#, results.join(",")).into())
    }

    /// Answers a query. `bookmark` is what the cursor in the query stands for; a cursor without one is one that no
    /// store has given. Of `store.info` and `store.compact` the contract leaves the answer to the store, and so does this.
    ///
    /// # Errors
    /// The refusals that are right.
    pub fn query(&self, query: &Query, bookmark: Option<&Bookmark>) -> Expected {
        let faults = shape::faults(&query.to_json(), self.max_payload_bytes);
        if !faults.is_empty() {
            return Err(faults);
        }
        self.answer(query, bookmark).map_err(|refusal| vec![refusal])
    }

    /// The export of the whole store.
    pub fn export(&self) -> String {
        let mut runs: Vec<&Run> = self.runs.iter().collect();
        let mut nodes: Vec<&NodeRun> = self.nodes.iter().collect();
        let mut agents: Vec<&AgentRun> = self.agents.iter().collect();
        runs.sort_by(|a, b| (&*a.project_id, &*a.id).cmp(&(&*b.project_id, &*b.id)));
        nodes.sort_by(|a, b| (&*a.project_id, &*a.id).cmp(&(&*b.project_id, &*b.id)));
        agents.sort_by(|a, b| (&*a.project_id, &*a.node_run_id).cmp(&(&*b.project_id, &*b.node_run_id)));
        let mut out = String::from("{\"runledger\":{\"format\":1}}\n");
        for run in runs {
            out += &format!("{{\"run\":{}}}\n", render::run(run));
        }
        for node in nodes {
            out += &format!("{{\"node\":{}}}\n", render::node(node));
        }
        for agent in agents {
            out += &format!("{{\"agent\":{}}}\n", render::agent(agent));
        }
        let sha256: String = Sha256::digest(&out).iter().map(|byte| format!("{byte:02x}")).collect();
        let (runs, nodes, agents) = (self.runs.len(), self.nodes.len(), self.agents.len());
        out + &format!("{{\"end\":{{\"runs\":{runs},\"nodes\":{nodes},\"agents\":{agents},\"sha256\":\"{sha256}\"}}}}\n")
    }
}

/// How an answer of a store differs from what the contract wants; `None` when it does not.
pub fn difference(expected: &Expected, answer: &str) -> Option<String> {
    match expected {
        Ok(reply) => {
            let wanted = format!(r#"{{"ok":{}}}"#, reply.text);
            let (without_cursor, cursor) = split_cursor(answer);
            let same = if reply.next.is_some() { without_cursor == wanted && cursor.is_some() } else { answer == wanted };
            let more = if reply.next.is_some() { ", and a nextCursor" } else { "" };
            (!same).then(|| format!("wanted: {wanted}{more}"))
        }
        Err(refusals) => {
            let found = read_error(answer);
            let same = found.is_some_and(|found| refusals.iter().any(|wanted| fits(wanted, &found)));
            (!same).then(|| format!("wanted: one of {refusals:?}"))
        }
    }
}

/// An answer without its `nextCursor`, and that cursor.
pub fn split_cursor(answer: &str) -> (String, Option<&str>) {
    const NAME: &str = r#","nextCursor":""#;
    // A page ends with its cursor, so that the last place with this name is it, or part of a payload.
    let found = answer.rfind(NAME).and_then(|at| {
        let cursor = answer[at + NAME.len()..].strip_suffix(r#""}}"#)?;
        (!cursor.is_empty() && !cursor.contains('"')).then(|| (format!("{}}}}}", &answer[..at]), cursor))
    });
    match found {
        Some((without, cursor)) => (without, Some(cursor)),
        None => (answer.to_owned(), None),
    }
}

/// The refusal that an answer is, if it has all that an error must have.
fn read_error(answer: &str) -> Option<Refusal> {
    type Members<'a> = BTreeMap<String, &'a RawValue>;
    let members = |json: &RawValue| serde_json::from_str::<BTreeMap<String, Box<RawValue>>>(json.get()).ok();
    let outer: Members<'_> = serde_json::from_str(answer).ok()?;
    let error = members(outer.get("error")?)?;
    let text = |name: &str| serde_json::from_str::<String>(error.get(name)?.get()).ok();
    let code = Code::from_name(&text("code")?)?;
    let details = members(error.get("details")?)?;
    let details = details.into_iter().map(|(name, json)| (name, json.get().to_owned())).collect();
    let complete = outer.len() == 1 && error.len() == 4 && !text("message")?.is_empty() && error.get("retryable")?.get() == "false";
    complete.then_some(Refusal { code, details })
}

/// Whether a refusal is the wanted one. One of `invalid_input` may also have what could be read of the record's key.
fn fits(wanted: &Refusal, found: &Refusal) -> bool {
    let mut details = found.details.clone();
    if wanted.code == Code::InvalidInput {
        for name in ["entity", "projectId", "id"] {
            details.remove(name);
        }
    }
    wanted.code == found.code && wanted.details == details
}
