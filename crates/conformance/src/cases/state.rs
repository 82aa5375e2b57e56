//! The `state` answer: records without what is large.

use serde_json::{Value, json};

use crate::Context;
use crate::check::{Caller, ex, merged, request, t};

const LARGE: [&str; 7] = ["input", "source", "output", "usage", "trace", "diagnostics", "prompt"];

fn without_large(mut record: Value) -> Value {
    if let Some(fields) = record.as_object_mut() {
        fields.retain(|name, _| !LARGE.contains(&name.as_str()));
    }
    record
}

/// Asks on one store for the whole answer and on its twin for the state: the state is the record without what is large.
fn both(whole: &Caller, state: &Caller, op: &str, fields: Value) {
    let record = whole.ok(op, fields.clone());
    let answer = state.ok(op, merged(json!({"answer": "state"}), fields));
    assert!(LARGE.iter().any(|name| record.get(*name).is_some()), "{op} answers something large: {record}");
    assert_eq!(answer, without_large(record), "{op}");
}

pub(crate) fn every_command_can_answer_the_state(cx: &Context<'_>) {
    let (w, s) = (cx.open(), cx.open());
    let both = |op: &str, fields: Value| both(&w, &s, op, fields);
    both("runs.queue", json!({"id": "r1", "input": {"v": 1}, "source": [1]}));
    both("runs.claim", json!({"execution": ex("t", 60)}));
    both("runs.confirm", json!({"id": "r1", "executionToken": "t", "queueLeaseExpiresAt": t(90)}));
    both("runs.wait", json!({"id": "r1", "executionToken": "t", "waitingAt": t(3)}));
    both("runs.resume", json!({"id": "r1", "execution": ex("t", 60)}));
    both("runs.reclaim", json!({"id": "r1", "execution": ex("u", 60)}));
    both("runs.start", json!({"id": "r2", "input": {"v": 1}, "source": null}));
    both("nodes.start", json!({"id": "n1", "nodeType": "agent", "input": [1], "executionToken": "u"}));
    both("agents.create", json!({"nodeRunId": "n1", "prompt": "p"}));
    both("agents.claim", json!({"execution": ex("g", 60)}));
    both("agents.confirm", json!({"nodeRunId": "n1", "executionToken": "g", "queueLeaseExpiresAt": t(90)}));
    both("agents.reclaim", json!({"nodeRunId": "n1", "execution": ex("h", 60)}));
    both("agents.finish", json!({"nodeRunId": "n1", "executionToken": "h", "usage": 1, "trace": 2, "diagnostics": 3}));
    both("nodes.wait", json!({"id": "n1", "executionToken": "u", "waitingAt": t(4)}));
    both("nodes.finish", json!({"id": "n1", "executionToken": "u", "output": {"o": 1}}));
    for node in ["n2", "n3"] {
        both("nodes.start", json!({"id": node, "nodeType": "agent", "executionToken": "u"}));
        both("agents.create", json!({"nodeRunId": node}));
    }
    both("agents.start", json!({"nodeRunId": "n2", "execution": ex("g", 60)}));
    both("agents.cancel", json!({"nodeRunId": "n3", "completedAt": t(6)}));
    both("runs.finish", json!({"id": "r1", "executionToken": "u", "output": {"o": 1}}));
    both("runs.cancel", json!({"id": "r2", "finishedAt": t(6)}));
    assert_eq!(w.everything(), s.everything(), "the answer's form changes nothing that is stored");
}

pub(crate) fn every_query_can_answer_the_state(cx: &Context<'_>) {
    let s = cx.open();
    s.ok("runs.start", json!({"id": "r1", "input": {"v": 1}, "source": 1, "execution": ex("t", 60)}));
    s.node_for_owner("n1", "t");
    s.agent("n1");
    s.start_agent("n1", "g");
    for (op, fields) in [("runs.get", json!({"id": "r1"})), ("nodes.get", json!({"id": "n1"})), ("agents.get", json!({"nodeRunId": "n1"}))]
    {
        both(&s, &s, op, fields);
    }
    for (op, fields) in [
        ("runs.list", json!({})),
        ("nodes.list", json!({})),
        ("agents.list", json!({})),
        ("runs.latest", json!({"workflowIds": ["wf-a"]})),
        ("runs.expired", json!({"expiredBy": t(99)})),
        ("agents.expired", json!({"expiredBy": t(99)})),
    ] {
        let name = op.split('.').next().unwrap();
        let mut whole = s.ok(op, fields.clone());
        let state = s.ok(op, merged(json!({"answer": "state"}), fields));
        assert_eq!(whole[name].as_array().unwrap().len(), 1, "{op}");
        whole[name][0] = without_large(whole[name][0].take());
        assert_eq!(state, whole, "{op}");
    }
    assert_eq!(s.ok("runs.get", json!({"id": "nope", "answer": "state"})), Value::Null);
    assert_eq!(s.ok("runs.claim", json!({"execution": ex("t", 60), "answer": "state"})), Value::Null);
}

pub(crate) fn the_form_is_record_or_state(cx: &Context<'_>) {
    let s = cx.open();
    s.start("r1", 0);
    assert_eq!(s.ok("runs.get", json!({"id": "r1", "answer": "record"})), s.run("r1"));
    assert_eq!(s.ok("runs.get", json!({"id": "r1", "answer": null})), s.run("r1"));
    for bad in [json!("full"), json!(""), json!(1), json!("State")] {
        s.invalid("answer", "runs.get", json!({"id": "r1", "answer": bad}));
        s.invalid("answer", "runs.queue", json!({"id": "r2", "answer": bad}));
    }
    for (op, fields) in [
        ("runs.delete", json!({"id": "r1"})),
        ("runs.purge", json!({"finishedBefore": t(0)})),
        ("runs.stats", json!({})),
        ("projects.list", json!({})),
        ("store.info", json!({})),
    ] {
        s.invalid("answer", op, merged(json!({"answer": "state"}), fields));
    }
}

pub(crate) fn a_state_answer_has_nothing_of_a_large_record(cx: &Context<'_>) {
    let s = cx.open();
    let big = "x".repeat(3_000_000);
    s.line(&request("runs.start", json!({"id": "r1", "input": big, "source": big, "execution": ex("t", 60)})).to_string());
    let confirm = json!({"id": "r1", "executionToken": "t", "queueLeaseExpiresAt": t(90), "answer": "state"});
    assert!(s.ask("runs.confirm", confirm).len() < 1000);
    assert!(s.ask("runs.list", json!({"answer": "state"})).len() < 1000);
    assert!(s.ask("runs.finish", json!({"id": "r1", "executionToken": "t", "output": big, "answer": "state"})).len() < 1000);
    let run = s.run("r1");
    assert!(run["input"] == big && run["source"] == big && run["output"] == big);
}

pub(crate) fn errors_and_small_texts_stay_in_a_state_answer(cx: &Context<'_>) {
    let s = cx.open();
    s.start("r1", 0);
    s.node("n1", "r1");
    s.agent("n1");
    s.ok(
        "agents.start",
        json!({"nodeRunId": "n1", "execution": ex("g", 60), "modelId": "m", "executionPrincipal": {"type": "a", "id": "b"}}),
    );
    let fields =
        json!({"nodeRunId": "n1", "executionToken": "g", "status": "failed", "error": "e", "finishReason": "f", "answer": "state"});
    let agent = s.ok("agents.finish", fields);
    assert_eq!((&agent["error"], &agent["finishReason"], &agent["modelId"]), (&json!("e"), &json!("f"), &json!("m")));
    assert_eq!(agent["executionPrincipal"], json!({"type": "a", "id": "b"}));
    assert_eq!(s.ok("runs.finish", json!({"id": "r1", "status": "failed", "error": "e", "answer": "state"}))["error"], "e");
}
