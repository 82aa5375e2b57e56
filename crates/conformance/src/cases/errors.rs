//! What errors say, and what they must not.

use serde_json::json;

use crate::Context;
use crate::check::{Refusal, ex, raw_request, request, t};

pub(crate) fn an_error_never_holds_a_payload_or_the_engines_words(cx: &Context<'_>) {
    let s = cx.open_with(&[("max_payload_bytes", "64")]);
    let secret = json!({"secret": "s3cr3t"});
    s.ok("runs.queue", json!({"id": "r1", "input": secret}));
    s.ok("runs.start", json!({"id": "r2", "input": secret}));
    s.ok("nodes.start", json!({"id": "n1", "workflowRunId": "r2", "nodeType": "agent", "input": secret}));
    s.ok("agents.create", json!({"nodeRunId": "n1", "prompt": "s3cr3t"}));
    let raw =
        |field: &str, value: &str| s.refused_line("invalid_input", &raw_request("runs.queue", json!({"id": "r9"}), &[(field, value)]));
    let refusals = [
        s.refused("already_exists", "runs.queue", json!({"id": "r1", "input": secret})),
        s.refused("already_exists", "runs.start", json!({"id": "r2", "input": secret})),
        s.refused("already_exists", "nodes.start", json!({"id": "n1", "workflowRunId": "r2", "input": secret})),
        s.refused("already_exists", "agents.create", json!({"nodeRunId": "n1", "prompt": "s3cr3t"})),
        s.refused("not_found", "runs.finish", json!({"id": "r9", "output": secret})),
        s.refused("stale_token", "runs.finish", json!({"id": "r2", "output": secret, "executionToken": "t"})),
        s.refused("invalid_transition", "runs.resume", json!({"id": "r2"})),
        s.refused("too_large", "runs.queue", json!({"id": "r9", "input": "s3cr3t".repeat(20)})),
        s.refused("too_large", "runs.cancel", json!({"id": "r2", "error": "s3cr3t".repeat(20)})),
        raw("input", r#"{"a":"s3cr3t","b":1e400}"#),
        raw("input", r#"{"a":"s3cr3t",}"#),
        raw("input", r#"{"a":"s3cr3t"#),
        raw("input", r#""s3cr3t\ud800""#),
        raw("queuedAt", r#""s3cr3t""#),
        raw("requestedByPrincipal", r#""s3cr3t""#),
    ];
    for refusal in &refusals {
        assert!(!refusal.to_string().contains("s3cr3t"), "{refusal}");
        let message = refusal.message().to_lowercase();
        for word in
            ["constraint", "insert into", "select ", "update ", "unique", "sqlite_", "primary key", "panicked", "redb::", "rusqlite"]
        {
            assert!(!message.contains(word), "{refusal}");
        }
    }
}

pub(crate) fn an_error_never_holds_a_token(cx: &Context<'_>) {
    let s = cx.open();
    s.start_owned("r1", "current-token");
    let given = json!({"id": "r1", "executionToken": "given-token"});
    for refusal in [s.refused("stale_token", "runs.finish", given.clone()), s.refused("stale_token", "runs.wait", given)] {
        assert!(!refusal.to_string().contains("current-token"), "a stale worker must not learn the owner's token: {refusal}");
    }
}

pub(crate) fn every_refusal_names_its_record_and_project(cx: &Context<'_>) {
    let s = cx.open();
    s.queue("r1", 0);
    s.start_owned("r2", "tok-a");
    let of = |refusal: &Refusal, entity: &str, id: &str| {
        refusal.of(entity, id);
    };
    of(&s.refused("already_exists", "runs.queue", json!({"id": "r1"})), "run", "r1");
    of(&s.refused("workflow_mismatch", "runs.start", json!({"id": "r1", "workflowId": "wf-b"})), "run", "r1");
    of(&s.refused("not_found", "runs.wait", json!({"id": "r9"})), "run", "r9");
    of(&s.refused("not_found", "nodes.wait", json!({"id": "n9"})), "node", "n9");
    of(&s.refused("not_found", "agents.cancel", json!({"nodeRunId": "n9"})), "agent", "n9");
    of(&s.refused("stale_token", "runs.wait", json!({"id": "r2"})), "run", "r2");
    of(&s.refused("lease_active", "runs.reclaim", json!({"id": "r2", "execution": ex("t", 9), "leaseExpiredBy": t(0)})), "run", "r2");
    let odd = s.refused("not_found", "runs.wait", json!({"projectId": "p \"q\"\n", "id": "i\\d"}));
    assert_eq!((odd.at("projectId"), odd.at("id")), (&json!("p \"q\"\n"), &json!("i\\d")));
}

pub(crate) fn a_refused_command_changes_nothing(cx: &Context<'_>) {
    let s = cx.open();
    s.start_owned("r1", "tok-a");
    s.node_for_owner("n1", "tok-a");
    s.agent("n1");
    s.queue("r2", 0);
    s.start("r3", 0);
    s.finish("r3", "failed");
    let (before, stream) = (s.everything(), s.export());
    for (code, op, fields) in [
        ("already_exists", "runs.queue", json!({"id": "r1", "input": 9})),
        ("already_exists", "runs.start", json!({"id": "r3", "input": 9})),
        ("workflow_mismatch", "runs.start", json!({"id": "r2", "workflowId": "wf-b"})),
        ("lease_active", "runs.reclaim", json!({"id": "r1", "execution": ex("t", 9), "leaseExpiredBy": t(0)})),
        ("stale_token", "runs.confirm", json!({"id": "r1", "executionToken": "t", "queueLeaseExpiresAt": t(900)})),
        ("stale_token", "runs.finish", json!({"id": "r1", "output": 1})),
        ("invalid_transition", "runs.cancel", json!({"id": "r3"})),
        ("invalid_transition", "runs.delete", json!({"id": "r1"})),
        ("not_found", "runs.delete", json!({"id": "r9"})),
        ("stale_token", "nodes.finish", json!({"id": "n1", "output": 1})),
        ("already_exists", "nodes.start", json!({"id": "n1", "executionToken": "tok-a"})),
        ("already_exists", "agents.create", json!({"nodeRunId": "n1", "prompt": "other"})),
        ("invalid_transition", "agents.finish", json!({"nodeRunId": "n1", "executionToken": "t"})),
        ("invalid_input", "runs.queue", json!({"id": "r8", "colour": 1})),
        ("invalid_input", "batch", json!({"commands": [request("runs.queue", json!({"id": "r8"})), {"op": "x"}]})),
    ] {
        s.refused(code, op, fields);
    }
    assert_eq!((s.everything(), s.export()), (before, stream));
}

pub(crate) fn retryable_is_false_for_what_can_not_succeed_later(cx: &Context<'_>) {
    let s = cx.open();
    s.start("r1", 0);
    for answer in [
        s.ask("runs.queue", json!({"id": "r1"})),
        s.ask("runs.get", json!({"id": ""})),
        s.ask("runs.resume", json!({"id": "r1"})),
        s.ask("runs.wait", json!({"id": "r9"})),
        s.line("x"),
    ] {
        assert!(answer.contains(r#""retryable":false"#), "{answer}");
        assert!(answer.starts_with(r#"{"error":{"code":""#) && answer.contains(r#""details":{"#), "{answer}");
    }
}
