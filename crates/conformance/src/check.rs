//! Short forms in which cases speak with a store, and the checks that every answer must pass.

use std::collections::BTreeMap;
use std::sync::Arc;

use runledger_core::{ManualClock, Time};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use crate::{Options, Place, Store};

/// The instant so many seconds after T0, 2026-01-05T10:00:00Z.
pub(crate) fn time(seconds: i64) -> Time {
    const T0_US: i64 = 1_767_607_200_000_000;
    Time::from_unix_us(T0_US).unwrap().plus_seconds(seconds)
}

/// The same as it is written.
pub(crate) fn t(seconds: i64) -> String {
    time(seconds).to_string()
}

/// An execution whose lease ends so many seconds after T0.
pub(crate) fn ex(token: &str, lease_seconds: i64) -> Value {
    json!({"token": token, "queueLeaseExpiresAt": t(lease_seconds)})
}

/// The principal of a run that names none.
pub(crate) fn system() -> Value {
    json!({"type": "system", "id": "system"})
}

/// Whether a record has a field.
pub(crate) fn has(record: &Value, field: &str) -> bool {
    record.get(field).is_some()
}

/// The texts of a list.
pub(crate) fn texts(list: &Value, field: &str) -> Vec<String> {
    list.as_array().unwrap().iter().map(|row| row[field].as_str().unwrap().to_owned()).collect()
}

/// The first fields over the second ones.
pub(crate) fn merged(over: Value, under: Value) -> Value {
    let (Value::Object(over), Value::Object(mut fields)) = (over, under) else { panic!("fields are objects") };
    fields.extend(over);
    Value::Object(fields)
}

/// Stands for a field that a request must not have although its kind usually has it.
pub(crate) fn absent() -> Value {
    json!("\u{1}absent")
}

/// A request with what the cases take for granted: project `shop`, workflow `wf-a`, input `{}`, times at T0, …
pub(crate) fn request(op: &str, fields: Value) -> Value {
    let under = match op {
        "batch" | "projects.list" | "runs.expired" | "agents.expired" | "store.info" | "store.verify" | "store.compact" => json!({}),
        "runs.queue" => json!({"projectId": "shop", "workflowId": "wf-a", "input": {}, "queuedAt": t(0)}),
        "runs.start" => json!({"projectId": "shop", "workflowId": "wf-a", "input": {}, "startedAt": t(0)}),
        "nodes.start" => json!({
            "projectId": "shop", "workflowRunId": "r1", "workflowId": "wf-a", "nodeIndex": 0, "nodeType": "task", "nodeId": "step",
            "nodeKey": "main.step", "input": {}, "startedAt": t(0),
        }),
        "agents.create" => json!({"projectId": "shop", "agentId": "ag", "prompt": "do it", "createdAt": t(0)}),
        "runs.finish" | "nodes.finish" => json!({"projectId": "shop", "status": "succeeded", "finishedAt": t(5)}),
        "agents.finish" => json!({"projectId": "shop", "status": "succeeded", "completedAt": t(5)}),
        "runs.claim" | "agents.claim" | "agents.start" => json!({"projectId": "shop", "startedAt": t(1)}),
        _ => json!({"projectId": "shop"}),
    };
    let mut request = merged(merged(json!({"op": op}), fields), under);
    request.as_object_mut().unwrap().retain(|_, value| *value != absent());
    request
}

/// A request with fields whose text is given byte for byte.
pub(crate) fn raw_request(op: &str, fields: Value, raw: &[(&str, &str)]) -> String {
    let mut without = request(op, fields);
    for (name, _) in raw {
        without.as_object_mut().unwrap().remove(*name);
    }
    let mut text = without.to_string();
    text.truncate(text.len() - 1);
    for (name, value) in raw {
        text.push_str(&format!(",{}:{value}", Value::from(*name)));
    }
    text + "}"
}

/// The text of a value inside an answer, byte for byte. A number among the steps is the place in a list.
pub(crate) fn raw_at(answer: &str, steps: &[&str]) -> Option<String> {
    let mut text = answer.to_owned();
    for step in steps {
        text = match step.parse::<usize>() {
            Ok(index) => serde_json::from_str::<Vec<Box<RawValue>>>(&text).ok()?.get(index)?.get().to_owned(),
            Err(_) => serde_json::from_str::<BTreeMap<String, Box<RawValue>>>(&text).ok()?.remove(*step)?.get().to_owned(),
        };
    }
    Some(text)
}

/// A store as cases use it: every answer is held against the form that all answers have.
#[derive(Clone)]
pub(crate) struct Caller {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) place: Arc<dyn Place>,
    pub(crate) options: Options,
}

impl Caller {
    pub(crate) fn open(place: Arc<dyn Place>, options: Options) -> Result<Caller, Refusal> {
        match place.open(&options) {
            Ok(store) => Ok(Caller { store, place, options }),
            Err(error) => Err(Refusal::of_object(&error)),
        }
    }

    /// Another handle on the same store.
    pub(crate) fn second(&self) -> Result<Caller, Refusal> {
        Caller::open(Arc::clone(&self.place), self.options.clone())
    }

    /// The clock that [`crate::Context::has_clock`] promised.
    pub(crate) fn clock(&self) -> &ManualClock {
        self.options.clock.as_deref().unwrap()
    }

    /// The answer to a request line.
    pub(crate) fn line(&self, request: &str) -> String {
        let answer = self.store.call(request);
        assert!(!answer.contains(['\n', '\r']), "an answer is one line: {answer}");
        let members: BTreeMap<String, Box<RawValue>> =
            serde_json::from_str(&answer).unwrap_or_else(|e| panic!("an answer is an object ({e}): {}", short(&answer)));
        match (members.get("ok"), members.get("error")) {
            (Some(_), None) => {}
            (None, Some(error)) => drop(Refusal::of_object(error.get())),
            _ => panic!("an answer has ok or error: {}", short(&answer)),
        }
        assert_eq!(members.len(), 1, "an answer has one member: {}", short(&answer));
        answer
    }

    /// The answer to a request.
    pub(crate) fn ask(&self, op: &str, fields: Value) -> String {
        self.line(&request(op, fields).to_string())
    }

    /// What a request line that must succeed answers.
    pub(crate) fn ok_line(&self, request: &str) -> Value {
        let answer = self.line(request);
        let mut parsed: Value = serde_json::from_str(&answer).unwrap();
        assert!(has(&parsed, "ok"), "{}\n  must succeed, but: {}", short(request), short(&answer));
        parsed["ok"].take()
    }

    /// What a request that must succeed answers.
    pub(crate) fn ok(&self, op: &str, fields: Value) -> Value {
        self.ok_line(&request(op, fields).to_string())
    }

    /// What a request with raw fields that must succeed answers, as text.
    pub(crate) fn ok_raw(&self, op: &str, fields: Value, raw: &[(&str, &str)]) -> String {
        let request = raw_request(op, fields, raw);
        let answer = self.line(&request);
        assert!(answer.starts_with("{\"ok\":"), "{}\n  must succeed, but: {}", short(&request), short(&answer));
        answer
    }

    /// How a request line is refused.
    pub(crate) fn refused_line(&self, code: &str, request: &str) -> Refusal {
        let answer = self.line(request);
        let Some(error) = raw_at(&answer, &["error"]) else {
            panic!("{}\n  must be {code}, but: {}", short(request), short(&answer));
        };
        let refusal = Refusal::of_object(&error);
        assert_eq!(refusal.code(), code, "{}\n  answers {}", short(request), short(&answer));
        refusal
    }

    /// How a request is refused.
    pub(crate) fn refused(&self, code: &str, op: &str, fields: Value) -> Refusal {
        self.refused_line(code, &request(op, fields).to_string())
    }

    /// A request that is invalid at a field.
    pub(crate) fn invalid(&self, field: &str, op: &str, fields: Value) {
        self.refused("invalid_input", op, fields).field(field);
    }

    /// A request with raw fields that is invalid at a field.
    pub(crate) fn invalid_raw(&self, field: &str, op: &str, fields: Value, raw: &[(&str, &str)]) {
        self.refused_line("invalid_input", &raw_request(op, fields, raw)).field(field);
    }

    // The steps that most cases need.

    pub(crate) fn queue(&self, id: &str, at: i64) -> Value {
        self.ok("runs.queue", json!({"id": id, "queuedAt": t(at)}))
    }

    /// Starts a run without an execution.
    pub(crate) fn start(&self, id: &str, at: i64) -> Value {
        self.ok("runs.start", json!({"id": id, "startedAt": t(at)}))
    }

    /// Starts a run with an execution whose lease ends a minute after T0.
    pub(crate) fn start_owned(&self, id: &str, token: &str) -> Value {
        self.ok("runs.start", json!({"id": id, "execution": ex(token, 60)}))
    }

    pub(crate) fn finish(&self, id: &str, status: &str) -> Value {
        self.ok("runs.finish", json!({"id": id, "status": status}))
    }

    /// Starts a node run of type agent under a run without an execution.
    pub(crate) fn node(&self, id: &str, run: &str) -> Value {
        self.ok("nodes.start", json!({"id": id, "workflowRunId": run, "nodeType": "agent"}))
    }

    /// Starts a node run of type agent under the run `r1`, whose owner has a token.
    pub(crate) fn node_for_owner(&self, id: &str, token: &str) -> Value {
        self.ok("nodes.start", json!({"id": id, "nodeType": "agent", "executionToken": token}))
    }

    /// Starts a node run of type agent under a run whose owner has a token.
    pub(crate) fn node_for_run(&self, id: &str, run: &str, token: &str) -> Value {
        self.ok("nodes.start", json!({"id": id, "workflowRunId": run, "nodeType": "agent", "executionToken": token}))
    }

    /// Creates an agent run on a node run.
    pub(crate) fn agent(&self, node: &str) -> Value {
        self.ok("agents.create", json!({"nodeRunId": node}))
    }

    /// Starts an agent run, whose lease ends a minute after T0.
    pub(crate) fn start_agent(&self, node: &str, token: &str) -> Value {
        self.ok("agents.start", json!({"nodeRunId": node, "execution": ex(token, 60)}))
    }

    pub(crate) fn run(&self, id: &str) -> Value {
        self.ok("runs.get", json!({"id": id}))
    }

    pub(crate) fn node_run(&self, id: &str) -> Value {
        self.ok("nodes.get", json!({"id": id}))
    }

    pub(crate) fn agent_run(&self, node: &str) -> Value {
        self.ok("agents.get", json!({"nodeRunId": node}))
    }

    /// A run in a status, without an execution.
    pub(crate) fn run_in(&self, status: &str, id: &str) {
        if status == "queued" {
            self.queue(id, 0);
            return;
        }
        self.start(id, 0);
        match status {
            "running" => {}
            "waiting" => drop(self.ok("runs.wait", json!({"id": id, "waitingAt": t(1)}))),
            ended => drop(self.finish(id, ended)),
        }
    }

    /// A node run in a status, under the running run `run` without an execution.
    pub(crate) fn node_in(&self, status: &str, id: &str, run: &str) {
        self.node(id, run);
        match status {
            "running" => {}
            "waiting" => drop(self.ok("nodes.wait", json!({"id": id, "waitingAt": t(1)}))),
            ended => drop(self.ok("nodes.finish", json!({"id": id, "status": ended}))),
        }
    }

    /// An agent run in a status, with the token `tok-a` if it is or was running, on a node run of the running run `run`.
    pub(crate) fn agent_in(&self, status: &str, node: &str, run: &str) {
        self.node(node, run);
        self.agent(node);
        if status == "queued" {
            return;
        }
        self.start_agent(node, "tok-a");
        if status != "running" {
            self.ok("agents.finish", json!({"nodeRunId": node, "executionToken": "tok-a", "status": status}));
        }
    }

    /// The ids of the rows that a list answers.
    pub(crate) fn ids(&self, op: &str, fields: Value) -> Vec<String> {
        rows(op, &self.ok(op, fields))
    }

    /// How many runs, node runs and agent runs the project `shop` has.
    pub(crate) fn counts(&self) -> [u64; 3] {
        ["runs.list", "nodes.list", "agents.list"].map(|op| self.ok(op, json!({"limit": 0}))["total"].as_u64().unwrap())
    }

    /// Everything that the store answers about the project `shop`, as text, to be compared byte for byte.
    pub(crate) fn everything(&self) -> Vec<String> {
        let mut answers: Vec<String> =
            ["runs.list", "nodes.list", "agents.list"].map(|op| self.ask(op, json!({"limit": 10000, "order": "asc"}))).into();
        answers.push(self.ask("runs.stats", json!({})));
        answers.push(self.ask("runs.expired", json!({"expiredBy": "9999-01-01T00:00:00Z"})));
        answers.push(self.ask("agents.expired", json!({"expiredBy": "9999-01-01T00:00:00Z"})));
        answers.push(self.ask("projects.list", json!({})));
        answers
    }

    pub(crate) fn export(&self) -> Vec<u8> {
        self.store.export().unwrap_or_else(|error| panic!("the export must succeed, but: {error}"))
    }

    /// What an import that must succeed answers.
    pub(crate) fn import(&self, stream: &[u8]) -> Value {
        let answer = self.store.import(stream).unwrap_or_else(|error| panic!("the import must succeed, but: {error}"));
        serde_json::from_str(&answer).unwrap()
    }

    /// How an import is refused.
    pub(crate) fn import_refused(&self, code: &str, stream: &[u8]) -> Refusal {
        match self.store.import(stream) {
            Ok(answer) => panic!("the import must be {code}, but: {answer}"),
            Err(error) => {
                let refusal = Refusal::of_object(&error);
                assert_eq!(refusal.code(), code, "the import answers {error}");
                refusal
            }
        }
    }

    /// Holds the store's indexes and counters against its records.
    pub(crate) fn verify(&self) {
        let report = self.ok("store.verify", json!({}));
        assert_eq!(report["problems"], json!([]), "store.verify finds problems");
        assert_eq!(report["ok"], true);
    }

    pub(crate) fn verify_if_open(&self) {
        let answer = self.line(r#"{"op":"store.verify"}"#);
        if !answer.contains(r#""code":"closed""#) {
            self.verify();
        }
    }

    pub(crate) fn close(&self) {
        self.store.close().unwrap_or_else(|error| panic!("close must succeed, but: {error}"));
    }
}

/// The ids of the rows of a page.
pub(crate) fn rows(op: &str, page: &Value) -> Vec<String> {
    let (name, _) = op.split_once('.').unwrap();
    let id = match name {
        "agents" => "nodeRunId",
        "projects" => "projectId",
        _ => "id",
    };
    texts(&page[name], id)
}

/// The error object of a refused call, which passed the checks that hold for every error.
#[derive(Debug)]
pub(crate) struct Refusal(Map<String, Value>);

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", Value::Object(self.0.clone()))
    }
}

const DETAILS: &[&str] = &["entity", "projectId", "id", "field", "status", "size", "limit", "index", "path", "applied"];

impl Refusal {
    pub(crate) fn of_object(text: &str) -> Refusal {
        let Ok(Value::Object(error)) = serde_json::from_str(text) else { panic!("an error is an object: {}", short(text)) };
        let refusal = Refusal(error);
        let names: Vec<&String> = refusal.0.keys().collect();
        assert_eq!(refusal.0.len(), 4, "an error has code, message, retryable and details, not {names:?}");
        let retryable = matches!(refusal.code(), "busy" | "locked") || refusal.code() == "unavailable" && refusal.at("applied") == "no";
        assert_eq!(refusal.0["retryable"], retryable, "{refusal}");
        assert!(!refusal.message().is_empty(), "{refusal}");
        let Value::Object(details) = &refusal.0["details"] else { panic!("details is an object: {refusal}") };
        assert!(details.keys().all(|name| DETAILS.contains(&name.as_str())), "details that the contract does not name: {refusal}");
        assert_eq!(details.contains_key("status"), refusal.code() == "invalid_transition", "{refusal}");
        assert_eq!(details.contains_key("size"), refusal.code() == "too_large", "{refusal}");
        assert!(text.len() < 4000, "an error is short: {}", short(text));
        refusal
    }

    pub(crate) fn code(&self) -> &str {
        self.0["code"].as_str().unwrap()
    }

    pub(crate) fn message(&self) -> &str {
        self.0["message"].as_str().unwrap()
    }

    /// A value of the details, null when it is not there.
    pub(crate) fn at(&self, name: &str) -> &Value {
        self.0["details"].get(name).unwrap_or(&Value::Null)
    }

    /// Holds the field that is named against the one that is wrong.
    #[track_caller]
    pub(crate) fn field(&self, field: &str) -> &Self {
        assert_eq!(self.at("field"), field, "{self}");
        self
    }

    /// Holds the record that refused against the one that did; the message must name it too.
    #[track_caller]
    pub(crate) fn of(&self, entity: &str, id: &str) -> &Self {
        assert_eq!((self.at("entity"), self.at("projectId"), self.at("id")), (&json!(entity), &json!("shop"), &json!(id)), "{self}");
        assert!(self.message().contains(id) && self.message().contains("shop"), "the message names record and project: {self}");
        self
    }

    /// Holds the status that does not allow the command against the one that does not.
    #[track_caller]
    pub(crate) fn status(&self, status: &str) -> &Self {
        assert_eq!(self.at("status"), status, "{self}");
        assert!(self.message().contains(status), "the message says what was found: {self}");
        self
    }

    #[track_caller]
    pub(crate) fn sizes(&self, size: usize, limit: usize) -> &Self {
        assert_eq!((self.at("size"), self.at("limit")), (&json!(size), &json!(limit)), "{self}");
        self
    }

    #[track_caller]
    pub(crate) fn index(&self, index: usize) -> &Self {
        assert_eq!(self.at("index"), index, "{self}");
        self
    }
}

/// A stream of the records, with a right end.
pub(crate) fn stream_of(records: &[String]) -> Vec<u8> {
    let count = |kind: &str| records.iter().filter(|record| record.starts_with(&format!("{{\"{kind}\":"))).count();
    ended(&format!("{{\"runledger\":{{\"format\":1}}}}\n{}", lines(records)), [count("run"), count("node"), count("agent")])
}

/// Text, a line each.
pub(crate) fn lines(records: &[String]) -> String {
    records.iter().map(|record| format!("{record}\n")).collect()
}

/// A stream with an end that has these counts and the right checksum.
pub(crate) fn ended(before: &str, [runs, nodes, agents]: [usize; 3]) -> Vec<u8> {
    let sha256: String = Sha256::digest(before.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
    let end = format!("{{\"end\":{{\"runs\":{runs},\"nodes\":{nodes},\"agents\":{agents},\"sha256\":\"{sha256}\"}}}}\n");
    (before.to_owned() + &end).into_bytes()
}

/// The beginning of a text that may be long.
pub(crate) fn short(text: &str) -> String {
    if text.chars().count() <= 600 { text.to_owned() } else { text.chars().take(600).collect::<String>() + " …" }
}
