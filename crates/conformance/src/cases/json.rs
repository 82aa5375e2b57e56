//! The JSON form: what a request may look like, and how answers are written.

use serde_json::{Value, json};

use crate::Context;
use crate::check::{absent, ex, raw_at, request, t};

pub(crate) fn an_unknown_field_is_named(cx: &Context<'_>) {
    let s = cx.open();
    s.start_owned("r1", "t");
    s.invalid("colour", "runs.queue", json!({"id": "r2", "colour": "red"}));
    s.invalid("colour", "runs.queue", json!({"id": "r2", "colour": null}));
    s.invalid("Id", "runs.queue", json!({"id": "r2", "Id": "r2"}));
    s.invalid("startedAt", "runs.queue", json!({"id": "r2", "startedAt": t(0)}));
    s.invalid("execution", "runs.queue", json!({"id": "r2", "execution": ex("t", 9)}));
    s.invalid("execution.lease", "runs.start", json!({"id": "r2", "execution": {"token": "t", "queueLeaseExpiresAt": t(9), "lease": 1}}));
    s.invalid(
        "requestedByPrincipal.name",
        "runs.queue",
        json!({"id": "r2", "requestedByPrincipal": {"type": "a", "id": "b", "name": "c"}}),
    );
    s.invalid("limit", "runs.get", json!({"id": "r1", "limit": 1}));
    s.invalid("", "runs.get", json!({"id": "r1", "": 1}));
    s.invalid("commands", "runs.get", json!({"id": "r1", "commands": []}));
    assert_eq!(s.counts(), [1, 0, 0]);
}

pub(crate) fn a_field_given_twice_is_named(cx: &Context<'_>) {
    let s = cx.open();
    for (request, field) in [
        (r#"{"op":"runs.get","projectId":"shop","id":"r1","id":"r1"}"#, "id"),
        (r#"{"op":"runs.get","projectId":"shop","id":"r1","\u0069d":"r2"}"#, "id"),
        (r#"{"op":"runs.get","op":"runs.get","projectId":"shop","id":"r1"}"#, "op"),
        (r#"{"op":"runs.list","projectId":"shop","limit":null,"limit":1}"#, "limit"),
        (r#"{"op":"batch","commands":[],"commands":[{"op":"runs.delete","projectId":"shop","id":"r1"}]}"#, "commands"),
    ] {
        s.refused_line("invalid_input", request).field(field);
    }
    let nested = r#"{"op":"runs.resume","projectId":"shop","id":"r1","execution":{"token":"a","token":"a","queueLeaseExpiresAt":"2026-01-05T10:00:00Z"}}"#;
    s.refused_line("invalid_input", nested).field("execution.token");
    s.refused_line("invalid_input", &format!(r#"{{"op":"batch","commands":[{nested}]}}"#)).field("execution.token").index(0);
}

pub(crate) fn a_missing_field_is_named(cx: &Context<'_>) {
    let s = cx.open();
    for field in ["projectId", "id", "workflowId", "input"] {
        s.invalid(field, "runs.queue", json!({"id": "r1", field: absent()}));
        s.invalid(field, "runs.start", json!({"id": "r1", field: absent()}));
    }
    for field in ["projectId", "workflowRunId", "workflowId", "nodeIndex", "nodeType", "nodeId", "nodeKey", "input"] {
        s.invalid(field, "nodes.start", json!({"id": "n1", field: absent()}));
    }
    for field in ["projectId", "nodeRunId", "agentId", "prompt"] {
        s.invalid(field, "agents.create", json!({"nodeRunId": "n1", field: absent()}));
    }
    s.invalid("status", "runs.finish", json!({"id": "r1", "status": absent()}));
    s.invalid("status", "nodes.finish", json!({"id": "r1", "status": absent()}));
    s.invalid("queueLeaseExpiresAt", "runs.confirm", json!({"id": "r1", "executionToken": "t"}));
    s.invalid("executionToken", "runs.confirm", json!({"id": "r1", "queueLeaseExpiresAt": t(0)}));
    s.invalid("execution", "runs.reclaim", json!({"id": "r1"}));
    s.invalid("workflowIds", "runs.latest", json!({}));
    s.invalid("requestedByPrincipal.type", "runs.queue", json!({"id": "r1", "requestedByPrincipal": {"id": "u"}}));
    s.invalid("requestedByPrincipal.id", "runs.queue", json!({"id": "r1", "requestedByPrincipal": {"type": "u"}}));
}

pub(crate) fn null_is_absence_of_an_optional_field(cx: &Context<'_>) {
    let s = cx.open();
    let run = s.ok("runs.queue", json!({"id": "r1", "requestedByPrincipal": null, "answer": null}));
    assert_eq!(run["requestedByPrincipal"], json!({"type": "system", "id": "system"}));
    let run = s.ok("runs.start", json!({"id": "r1", "execution": null}));
    assert!(run.get("execution").is_none());
    s.ok("runs.wait", json!({"id": "r1", "executionToken": null, "waitingAt": t(1)}));
    s.ok("runs.resume", json!({"id": "r1", "execution": null}));
    let run = s.ok("runs.finish", json!({"id": "r1", "status": "failed", "error": null, "executionToken": null}));
    assert!(run.get("error").is_none(), "{run}");
    s.ok("runs.purge", json!({"finishedBefore": t(0), "statuses": null, "workflowIds": null, "limit": null}));
    let filters = json!({"workflowId": null, "workflowIds": null, "statuses": null, "startedAfter": null, "startedBefore": null});
    assert_eq!(s.ok("runs.list", filters)["total"], 1);
}

pub(crate) fn null_is_no_required_value(cx: &Context<'_>) {
    let s = cx.open();
    for field in ["projectId", "id", "workflowId"] {
        s.invalid(field, "runs.queue", json!({"id": "r1", field: null}));
    }
    s.invalid("status", "runs.finish", json!({"id": "r1", "status": null}));
    s.invalid("prompt", "agents.create", json!({"nodeRunId": "n1", "prompt": null}));
    s.invalid("workflowIds", "runs.latest", json!({"workflowIds": null}));
    s.invalid("execution.token", "runs.start", json!({"id": "r1", "execution": {"token": null, "queueLeaseExpiresAt": t(0)}}));
}

pub(crate) fn null_is_a_value_of_a_payload(cx: &Context<'_>) {
    let s = cx.open();
    s.ok("runs.start", json!({"id": "r1", "input": null, "source": null}));
    s.ok("runs.finish", json!({"id": "r1", "output": null}));
    let run = s.ask("runs.get", json!({"id": "r1"}));
    for field in ["input", "source", "output"] {
        assert_eq!(raw_at(&run, &["ok", field]).as_deref(), Some("null"), "{field}");
    }
}

pub(crate) fn integers_are_digits_with_an_optional_minus(cx: &Context<'_>) {
    let s = cx.open();
    s.start("r1", 0);
    for bad in ["5.0", "5e0", "5E0", "-0", "50e-1", "1e400", "-1", "99999999999999999999999999", "\"5\"", "[5]", "true"] {
        s.refused_line("invalid_input", &format!(r#"{{"op":"runs.list","projectId":"shop","limit":{bad}}}"#)).field("limit");
        s.refused_line("invalid_input", &format!(r#"{{"op":"runs.list","projectId":"shop","offset":{bad}}}"#)).field("offset");
        let node = request("nodes.start", json!({"id": "n1", "nodeIndex": "HERE"})).to_string().replace("\"HERE\"", bad);
        s.refused_line("invalid_input", &node).field("nodeIndex");
    }
    for not_json in ["+5", "05", "0x5", "5.", ".5", "5e"] {
        s.refused_line("invalid_input", &format!(r#"{{"op":"runs.list","projectId":"shop","limit":{not_json}}}"#));
    }
    s.ok_line(r#"{"op":"runs.list","projectId":"shop","limit":0,"offset":0}"#);
}

pub(crate) fn what_is_no_json_is_invalid_and_the_store_goes_on(cx: &Context<'_>) {
    let s = cx.open();
    let deep = "[".repeat(100_000);
    for bad in [
        "",
        " ",
        "\t",
        "nul",
        "{",
        "}",
        "{\"op\"",
        "{\"op\":\"runs.get\",}",
        "{op:1}",
        "'x'",
        "[",
        "{\"op\":\"store.info\"} {}",
        "\u{feff}{}",
        "{\"op\":\"store.info\"}x",
        "{\"a\":\"\u{1}\"}",
        r#"{"a":"\x"}"#,
        "\u{0}",
        &deep,
    ] {
        s.refused_line("invalid_input", bad);
    }
    for bad in ["null", "5", "\"store.info\"", "[]", "[{\"op\":\"store.info\"}]", "true"] {
        s.refused_line("invalid_input", bad);
    }
    s.ok_line(" \t{ \"op\" : \"store.info\" } ");
    s.queue("r1", 0);
}

pub(crate) fn the_op_must_be_one_that_there_is(cx: &Context<'_>) {
    let s = cx.open();
    for bad in [
        "{}",
        r#"{"projectId":"shop"}"#,
        r#"{"op":null}"#,
        r#"{"op":5}"#,
        r#"{"op":""}"#,
        r#"{"op":"runs.nope","projectId":"shop"}"#,
        r#"{"op":"Runs.get","projectId":"shop","id":"r1"}"#,
        r#"{"op":"runs.get ","projectId":"shop","id":"r1"}"#,
        r#"{"op":["runs.get"]}"#,
        r#"{"op":"runs","projectId":"shop"}"#,
        r#"{"op":"agents.resume","projectId":"shop"}"#,
    ] {
        s.refused_line("invalid_input", bad).field("op");
    }
}

pub(crate) fn members_come_in_any_order_and_may_be_escaped(cx: &Context<'_>) {
    let s = cx.open();
    s.ok_line(r#"{"input":{},"id":"r1","workflowId":"wf-a","\u0070rojectId":"shop","op":"runs.\u0071ueue"}"#);
    assert_eq!(s.ok_line(r#"{"id":"\u0072\u0031","projectId":"sh\u006fp","op":"runs.get"}"#)["status"], "queued");
}

pub(crate) fn wrong_kinds_are_invalid(cx: &Context<'_>) {
    let s = cx.open();
    for bad in [json!(5), json!(true), json!([]), json!({})] {
        for field in ["projectId", "id", "workflowId", "queuedAt"] {
            s.invalid(field, "runs.queue", json!({"id": "r1", field: bad}));
        }
        s.invalid("error", "runs.finish", json!({"id": "r1", "status": "failed", "error": bad}));
        s.invalid("status", "runs.finish", json!({"id": "r1", "status": bad}));
        s.invalid("prompt", "agents.create", json!({"nodeRunId": "n1", "prompt": bad}));
        s.invalid("executionToken", "runs.wait", json!({"id": "r1", "executionToken": bad}));
    }
    for bad in [json!(5), json!("tok"), json!([])] {
        s.invalid("execution", "runs.start", json!({"id": "r1", "execution": bad}));
        s.invalid("requestedByPrincipal", "runs.queue", json!({"id": "r1", "requestedByPrincipal": bad}));
    }
    for bad in [json!(5), json!("wf-a"), json!({})] {
        s.invalid("workflowIds", "runs.list", json!({"workflowIds": bad}));
    }
    s.invalid("workflowIds", "runs.list", json!({"workflowIds": ["wf-a", 5]}));
    s.invalid("status", "runs.finish", json!({"id": "r1", "status": "running"}));
    s.invalid("status", "nodes.finish", json!({"id": "r1", "status": "waiting"}));
}

/// The names of an object's members, in the order of the text.
fn names(object: &str) -> Vec<String> {
    let (mut names, mut depth, mut in_string, mut start) = (Vec::new(), 0, false, 0);
    let bytes = object.as_bytes();
    for (at, byte) in bytes.iter().enumerate() {
        match byte {
            b'"' if in_string => {
                in_string = false;
                if depth == 1 && bytes.get(at + 1) == Some(&b':') {
                    names.push(object[start..at].to_owned());
                }
            }
            b'"' => (in_string, start) = (true, at + 1),
            b'{' | b'[' if !in_string => depth += 1,
            b'}' | b']' if !in_string => depth -= 1,
            _ => {}
        }
    }
    names
}

pub(crate) fn fields_of_records_come_in_the_order_of_the_contract(cx: &Context<'_>) {
    let s = cx.open();
    let order = |answer: String| names(&raw_at(&answer, &["ok"]).unwrap());
    s.ok("runs.queue", json!({"id": "r1", "source": 1}));
    s.ok("runs.start", json!({"id": "r1", "execution": ex("t", 60)}));
    s.node_for_owner("n1", "t");
    s.agent("n1");
    s.ok(
        "agents.start",
        json!({"nodeRunId": "n1", "execution": ex("g", 60), "executionPrincipal": {"id": "a", "type": "b"}, "modelId": "m"}),
    );
    let run = ["projectId", "id", "workflowId", "status", "input", "queuedAt", "startedAt"];
    let get_run = || s.ask("runs.get", json!({"id": "r1"}));
    assert_eq!(order(get_run()), [&run[..], &["source", "requestedByPrincipal", "attempt", "execution"]].concat());
    assert!(get_run().contains(r#""requestedByPrincipal":{"type":"system","id":"system"}"#));
    assert!(get_run().contains(r#""execution":{"token":"t","queueLeaseExpiresAt":"2026-01-05T10:01:00.000000Z"}"#));

    let agent = ["projectId", "nodeRunId", "agentId", "status", "prompt", "executionPrincipal", "modelId"];
    let get_agent = || s.ask("agents.get", json!({"nodeRunId": "n1"}));
    assert_eq!(order(get_agent()), [&agent[..], &["attempt", "execution", "createdAt", "startedAt"]].concat());
    let results = json!({
        "nodeRunId": "n1", "executionToken": "g", "status": "failed", "error": "e", "diagnostics": 1, "trace": 2, "usage": 3, "finishReason": "f",
    });
    s.ok("agents.finish", results);
    let ended = ["finishReason", "usage", "trace", "diagnostics", "error", "attempt", "createdAt", "startedAt", "completedAt"];
    assert_eq!(order(get_agent()), [&agent[..], &ended].concat());

    let node =
        ["projectId", "id", "workflowRunId", "workflowId", "nodeIndex", "nodeType", "nodeId", "nodeKey", "status", "input", "startedAt"];
    let get_node = || s.ask("nodes.get", json!({"id": "n1"}));
    assert_eq!(order(get_node()), node);
    assert_eq!(order(s.ask("nodes.wait", json!({"id": "n1", "executionToken": "t"}))), [&node[..], &["waitingSince"]].concat());
    assert_eq!(
        order(s.ask("nodes.finish", json!({"id": "n1", "executionToken": "t", "output": 1}))),
        [&node[..], &["finishedAt", "output"]].concat()
    );

    let tail = ["source", "requestedByPrincipal", "attempt"];
    assert_eq!(order(s.ask("runs.wait", json!({"id": "r1", "executionToken": "t"}))), [&run[..], &["waitingSince"], &tail].concat());
    let failed = s.ask("runs.finish", json!({"id": "r1", "status": "failed", "error": "e"}));
    assert_eq!(order(failed), [&run[..], &["finishedAt", "error"], &tail].concat());
    s.start("r2", 0);
    let good = order(s.ask("runs.finish", json!({"id": "r2", "output": 1})));
    assert_eq!(
        good,
        ["projectId", "id", "workflowId", "status", "input", "startedAt", "finishedAt", "output", "requestedByPrincipal", "attempt"]
    );
}

pub(crate) fn answers_of_writes_gets_and_lists_are_the_same_bytes(cx: &Context<'_>) {
    let s = cx.open();
    let write = s.ok_raw("runs.start", json!({"id": "r1", "execution": ex("t", 60)}), &[("input", r#"{"b" : 1.0, "a":[ ]}"#)]);
    let record = raw_at(&write, &["ok"]).unwrap();
    assert_eq!(raw_at(&s.ask("runs.get", json!({"id": "r1"})), &["ok"]).unwrap(), record);
    assert_eq!(raw_at(&s.ask("runs.list", json!({})), &["ok", "runs", "0"]).unwrap(), record);
    assert_eq!(raw_at(&s.ask("runs.latest", json!({"workflowIds": ["wf-a"]})), &["ok", "runs", "0"]).unwrap(), record);
    assert_eq!(raw_at(&s.ask("runs.expired", json!({"expiredBy": t(60)})), &["ok", "runs", "0"]).unwrap(), record);
    assert_eq!(s.ask("runs.confirm", json!({"id": "r1", "executionToken": "t", "queueLeaseExpiresAt": t(0)})), write);
}

pub(crate) fn shape_comes_before_everything_else(cx: &Context<'_>) {
    let s = cx.open();
    s.start_owned("r1", "tok-a");
    // The record is not there, or refuses: what is wrong with the request itself comes first.
    s.invalid("queuedAt", "runs.queue", json!({"id": "r1", "queuedAt": "x"}));
    s.invalid("colour", "runs.finish", json!({"id": "nope", "colour": 1}));
    s.invalid("finishedAt", "runs.finish", json!({"id": "r1", "finishedAt": "x"}));
    s.invalid("nodeIndex", "nodes.start", json!({"id": "n1", "workflowRunId": "nope", "nodeIndex": -1}));
    let answer: Value = serde_json::from_str(&s.ask("runs.finish", json!({"id": "nope", "status": "done"}))).unwrap();
    assert_eq!(answer["error"]["code"], "invalid_input");
}
