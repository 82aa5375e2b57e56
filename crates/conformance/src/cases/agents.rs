//! What the commands on agent runs keep, change and refuse.

use serde_json::{Value, json};

use crate::Context;
use crate::check::{Caller, ex, has, t};

/// A store with the running node run `n1` of type agent.
fn with_node(cx: &Context<'_>) -> Caller {
    let s = cx.open();
    s.start("r1", 0);
    s.node("n1", "r1");
    s
}

pub(crate) fn create_keeps_every_field(cx: &Context<'_>) {
    let s = with_node(cx);
    let answer = s.ok("agents.create", json!({"nodeRunId": "n1", "agentId": "writer", "prompt": "say\nit", "createdAt": t(3)}));
    let want = json!({
        "projectId": "shop", "nodeRunId": "n1", "agentId": "writer", "status": "queued", "prompt": "say\nit", "attempt": 0,
        "createdAt": t(3),
    });
    assert_eq!(answer, want);
    assert_eq!(s.agent_run("n1"), want);
}

pub(crate) fn create_checks_its_node_from_left_to_right(cx: &Context<'_>) {
    let s = cx.open();
    s.start("r1", 0);
    s.ok("nodes.start", json!({"id": "task"}));
    for status in ["waiting", "succeeded", "failed", "cancelled"] {
        s.node_in(status, status, "r1");
    }
    s.node("good", "r1");
    // Every request is wrong in what comes after, too: the run has no execution, so a token is stale.
    let with_token = |node: &str| json!({"nodeRunId": node, "executionToken": "tok-x"});
    s.refused("not_found", "agents.create", with_token("nope")).of("node", "nope");
    s.refused("not_agent_node", "agents.create", with_token("task")).of("node", "task");
    for status in ["waiting", "succeeded", "failed", "cancelled"] {
        s.refused("invalid_transition", "agents.create", with_token(status)).of("node", status).status(status);
    }
    s.refused("stale_token", "agents.create", with_token("good")).of("run", "r1");
    s.agent("good");
    s.refused("stale_token", "agents.create", with_token("good")).of("run", "r1");
    s.refused("already_exists", "agents.create", json!({"nodeRunId": "good"})).of("agent", "good");
    assert_eq!(s.counts()[2], 1);
}

pub(crate) fn create_on_an_ended_node_of_another_type_says_the_type_first(cx: &Context<'_>) {
    let s = cx.open();
    s.start("r1", 0);
    s.ok("nodes.start", json!({"id": "task"}));
    s.ok("nodes.finish", json!({"id": "task"}));
    s.refused("not_agent_node", "agents.create", json!({"nodeRunId": "task"})).of("node", "task");
}

pub(crate) fn only_the_exact_type_agent_has_agent_runs(cx: &Context<'_>) {
    let s = cx.open();
    s.start("r1", 0);
    for kind in ["Agent", "agent ", "agents", "AGENT"] {
        s.ok("nodes.start", json!({"id": kind, "nodeType": kind}));
        s.refused("not_agent_node", "agents.create", json!({"nodeRunId": kind}));
    }
}

pub(crate) fn create_judges_a_token_only_where_one_is_given(cx: &Context<'_>) {
    let s = cx.open();
    s.start_owned("r1", "tok-a");
    for node in ["n1", "n2", "n3"] {
        s.ok("nodes.start", json!({"id": node, "nodeType": "agent", "executionToken": "tok-a"}));
    }
    s.ok("agents.create", json!({"nodeRunId": "n1"}));
    s.ok("agents.create", json!({"nodeRunId": "n2", "executionToken": "tok-a"}));
    s.refused("stale_token", "agents.create", json!({"nodeRunId": "n3", "executionToken": "tok-b"})).of("run", "r1");
    s.ok("runs.finish", json!({"id": "r1", "executionToken": "tok-a"}));
    s.refused("stale_token", "agents.create", json!({"nodeRunId": "n3", "executionToken": "tok-a"})).of("run", "r1");
    s.ok("agents.create", json!({"nodeRunId": "n3", "executionToken": null}));
}

pub(crate) fn start_keeps_every_field(cx: &Context<'_>) {
    let s = with_node(cx);
    s.agent("n1");
    let answer = s.ok(
        "agents.start",
        json!({
            "nodeRunId": "n1", "execution": ex("tok-a", 60), "executionPrincipal": {"type": "user", "id": "u1"}, "modelId": "m-1",
            "startedAt": t(4),
        }),
    );
    let want = json!({
        "projectId": "shop", "nodeRunId": "n1", "agentId": "ag", "status": "running", "prompt": "do it",
        "executionPrincipal": {"type": "user", "id": "u1"}, "modelId": "m-1", "attempt": 1, "execution": ex("tok-a", 60),
        "createdAt": t(0), "startedAt": t(4),
    });
    assert_eq!(answer, want);
    assert_eq!(s.agent_run("n1"), want);
}

pub(crate) fn start_needs_an_execution(cx: &Context<'_>) {
    let s = with_node(cx);
    s.agent("n1");
    s.invalid("execution", "agents.start", json!({"nodeRunId": "n1"}));
    s.invalid("execution", "agents.start", json!({"nodeRunId": "n1", "execution": null}));
    assert_eq!(s.agent_run("n1")["status"], "queued");
}

pub(crate) fn reclaim_replaces_the_execution(cx: &Context<'_>) {
    let s = with_node(cx);
    s.agent("n1");
    s.ok("agents.start", json!({"nodeRunId": "n1", "execution": ex("tok-a", 60), "modelId": "m-1"}));
    let agent = s.ok("agents.reclaim", json!({"nodeRunId": "n1", "execution": ex("tok-b", 40)}));
    assert_eq!((&agent["attempt"], &agent["execution"], &agent["modelId"]), (&json!(2), &ex("tok-b", 40), &json!("m-1")));
    assert_eq!(agent["startedAt"], t(1));
    assert_eq!(s.agent_run("n1"), agent);
}

pub(crate) fn guarded_reclaim_judges_the_lease_by_the_given_time(cx: &Context<'_>) {
    let s = with_node(cx);
    s.agent("n1");
    let reclaim = |by: i64| json!({"nodeRunId": "n1", "execution": ex("tok-b", 90), "leaseExpiredBy": t(by)});
    s.refused("invalid_transition", "agents.reclaim", reclaim(99)).of("agent", "n1").status("queued");
    s.start_agent("n1", "tok-a");
    s.refused("lease_active", "agents.reclaim", reclaim(59)).of("agent", "n1");
    assert_eq!(s.ok("agents.reclaim", reclaim(60))["attempt"], 2);
}

pub(crate) fn confirm_never_moves_a_lease_back(cx: &Context<'_>) {
    let s = with_node(cx);
    s.agent("n1");
    s.start_agent("n1", "tok-a");
    for (given, kept) in [(20, 60), (60, 60), (9000, 9000), (8999, 9000)] {
        let agent = s.ok("agents.confirm", json!({"nodeRunId": "n1", "executionToken": "tok-a", "queueLeaseExpiresAt": t(given)}));
        assert_eq!((&agent["execution"], &agent["attempt"]), (&ex("tok-a", kept), &json!(1)));
        assert_eq!(s.agent_run("n1"), agent);
    }
}

pub(crate) fn finish_keeps_every_field(cx: &Context<'_>) {
    let s = with_node(cx);
    s.agent("n1");
    s.start_agent("n1", "tok-a");
    let answer = s.ok(
        "agents.finish",
        json!({
            "nodeRunId": "n1", "executionToken": "tok-a", "status": "failed", "modelId": "m-2", "finishReason": "stop",
            "usage": {"in": 5}, "trace": [1, 2], "diagnostics": null, "error": "e", "completedAt": t(9),
        }),
    );
    let want = json!({
        "projectId": "shop", "nodeRunId": "n1", "agentId": "ag", "status": "failed", "prompt": "do it", "modelId": "m-2",
        "finishReason": "stop", "usage": {"in": 5}, "trace": [1, 2], "diagnostics": null, "error": "e", "attempt": 1,
        "createdAt": t(0), "startedAt": t(1), "completedAt": t(9),
    });
    assert_eq!(answer, want);
    assert!(has(&answer, "diagnostics"), "a payload of null is a value");
    assert_eq!(s.agent_run("n1"), want);
}

pub(crate) fn finish_keeps_what_is_not_given(cx: &Context<'_>) {
    let s = with_node(cx);
    s.agent("n1");
    let principal = json!({"type": "user", "id": "u1"});
    s.ok("agents.start", json!({"nodeRunId": "n1", "execution": ex("tok-a", 60), "modelId": "m-1", "executionPrincipal": principal}));
    let agent = s.ok("agents.finish", json!({"nodeRunId": "n1", "executionToken": "tok-a"}));
    assert_eq!((&agent["modelId"], &agent["executionPrincipal"], &agent["prompt"]), (&json!("m-1"), &principal, &json!("do it")));
    for field in ["finishReason", "usage", "trace", "diagnostics", "error", "execution"] {
        assert!(!has(&agent, field), "{field}: {agent}");
    }
}

pub(crate) fn finish_keeps_an_error_only_when_not_succeeded_and_results_always(cx: &Context<'_>) {
    let s = cx.open();
    s.start("r1", 0);
    for (status, error) in [("succeeded", false), ("failed", true), ("cancelled", true)] {
        s.agent_in("running", status, "r1");
        let fields = json!({"nodeRunId": status, "executionToken": "tok-a", "status": status, "error": "e", "usage": {}, "trace": []});
        let agent = s.ok("agents.finish", fields);
        assert_eq!((has(&agent, "error"), has(&agent, "usage"), has(&agent, "trace")), (error, true, true), "{agent}");
        assert_eq!(s.agent_run(status), agent);
    }
}

pub(crate) fn finish_needs_a_token(cx: &Context<'_>) {
    let s = with_node(cx);
    s.agent("n1");
    s.start_agent("n1", "tok-a");
    s.invalid("executionToken", "agents.finish", json!({"nodeRunId": "n1"}));
    s.invalid("executionToken", "agents.confirm", json!({"nodeRunId": "n1", "queueLeaseExpiresAt": t(99)}));
    assert_eq!(s.agent_run("n1")["status"], "running");
}

pub(crate) fn cancel_asks_no_token(cx: &Context<'_>) {
    let s = cx.open();
    s.start("r1", 0);
    for (status, error) in [("queued", json!("stop")), ("running", Value::Null)] {
        s.agent_in(status, status, "r1");
        let agent = s.ok("agents.cancel", json!({"nodeRunId": status, "error": error, "completedAt": t(9)}));
        assert_eq!((&agent["status"], &agent["completedAt"]), (&json!("cancelled"), &json!(t(9))));
        assert_eq!((has(&agent, "error"), has(&agent, "execution")), (!error.is_null(), false), "{agent}");
        assert_eq!(s.agent_run(status), agent);
    }
    assert!(!has(&s.agent_run("queued"), "startedAt"));
}

pub(crate) fn a_stale_worker_is_fenced_off_from_its_agent_run(cx: &Context<'_>) {
    let s = cx.open();
    s.start_owned("r1", "tok-r");
    s.ok("nodes.start", json!({"id": "n1", "nodeType": "agent", "executionToken": "tok-r"}));
    s.agent("n1");
    s.start_agent("n1", "tok-a");
    s.ok("agents.reclaim", json!({"nodeRunId": "n1", "execution": ex("tok-b", 60)}));
    let stale =
        s.refused("stale_token", "agents.confirm", json!({"nodeRunId": "n1", "executionToken": "tok-a", "queueLeaseExpiresAt": t(99)}));
    stale.of("agent", "n1");
    let finish = |token: &str, tokens: u32| json!({"nodeRunId": "n1", "executionToken": token, "usage": {"in": tokens}});
    s.refused("stale_token", "agents.finish", finish("tok-a", 1)).of("agent", "n1");
    // The token of the run's owner is another one.
    s.refused("stale_token", "agents.finish", finish("tok-r", 1)).of("agent", "n1");
    let agent = s.ok("agents.finish", finish("tok-b", 5));
    assert_eq!((&agent["attempt"], &agent["usage"], has(&agent, "execution")), (&json!(2), &json!({"in": 5}), false));
    assert_eq!(s.run("r1")["execution"]["token"], "tok-r");
}

pub(crate) fn agent_commands_look_at_the_agent_run_alone(cx: &Context<'_>) {
    let s = with_node(cx);
    s.agent("n1");
    s.ok("nodes.finish", json!({"id": "n1"}));
    s.finish("r1", "succeeded");
    s.start_agent("n1", "tok-a");
    s.ok("agents.confirm", json!({"nodeRunId": "n1", "executionToken": "tok-a", "queueLeaseExpiresAt": t(99)}));
    s.ok("agents.finish", json!({"nodeRunId": "n1", "executionToken": "tok-a"}));
}

pub(crate) fn an_agent_run_that_is_not_there_is_not_found(cx: &Context<'_>) {
    let s = with_node(cx);
    let token = json!({"nodeRunId": "n1", "executionToken": "t", "queueLeaseExpiresAt": t(9)});
    s.refused("not_found", "agents.confirm", token).of("agent", "n1");
    s.refused("not_found", "agents.finish", json!({"nodeRunId": "n1", "executionToken": "t"})).of("agent", "n1");
    s.refused("not_found", "agents.cancel", json!({"nodeRunId": "n1"})).of("agent", "n1");
    for op in ["agents.start", "agents.reclaim"] {
        s.refused("not_found", op, json!({"nodeRunId": "n1", "execution": ex("t", 9)})).of("agent", "n1");
    }
}
