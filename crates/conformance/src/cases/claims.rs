//! Claims: which queued run or agent run a worker gets.

use serde_json::{Value, json};

use crate::Context;
use crate::check::{ex, has, system, t};

pub(crate) fn a_claim_starts_the_run_and_keeps_what_it_was_queued_with(cx: &Context<'_>) {
    let s = cx.open();
    s.ok("runs.queue", json!({"id": "r1", "input": {"v": 1}, "source": {"kind": "api"}}));
    let run = s.ok("runs.claim", json!({"execution": ex("tok-a", 60), "startedAt": t(4)}));
    let want = json!({
        "projectId": "shop", "id": "r1", "workflowId": "wf-a", "status": "running", "input": {"v": 1}, "queuedAt": t(0),
        "startedAt": t(4), "source": {"kind": "api"}, "requestedByPrincipal": system(), "attempt": 1, "execution": ex("tok-a", 60),
    });
    assert_eq!(run, want);
    assert_eq!(s.run("r1"), want);
}

pub(crate) fn claims_go_by_the_time_of_queueing_then_the_id(cx: &Context<'_>) {
    let s = cx.open();
    for (id, at) in [("c", 5), ("z", 1), ("b", 5), ("B", 5), ("a", 9)] {
        s.queue(id, at);
    }
    for (n, want) in ["z", "B", "b", "c", "a"].iter().enumerate() {
        assert_eq!(s.ok("runs.claim", json!({"execution": ex(&format!("t{n}"), 60)}))["id"], *want);
    }
    assert_eq!(s.ok("runs.claim", json!({"execution": ex("t", 60)})), Value::Null);
}

pub(crate) fn a_claim_of_nothing_is_null(cx: &Context<'_>) {
    let s = cx.open();
    let claim = json!({"execution": ex("t", 60)});
    assert_eq!(s.ask("runs.claim", claim.clone()), r#"{"ok":null}"#);
    assert_eq!(s.ask("agents.claim", claim.clone()), r#"{"ok":null}"#);
    for status in ["running", "waiting", "succeeded", "failed", "cancelled"] {
        s.run_in(status, status);
    }
    assert_eq!(s.ask("runs.claim", claim), r#"{"ok":null}"#);
}

pub(crate) fn a_claim_takes_only_the_workflows_it_names(cx: &Context<'_>) {
    let s = cx.open();
    for (id, workflow, at) in [("a1", "wf-a", 0), ("b1", "wf-b", 1), ("c1", "wf-c", 2), ("b0", "wf-b", 3)] {
        s.ok("runs.queue", json!({"id": id, "workflowId": workflow, "queuedAt": t(at)}));
    }
    let claim = |workflows: Value| s.ok("runs.claim", json!({"workflowIds": workflows, "execution": ex("t", 60)}));
    assert_eq!(claim(json!([])), Value::Null);
    assert_eq!(claim(json!(["nope"])), Value::Null);
    assert_eq!(claim(json!(["wf-c", "wf-b", "wf-b"]))["id"], "b1");
    assert_eq!(claim(json!(["wf-c", "wf-b"]))["id"], "c1");
    assert_eq!(claim(json!(["wf-c"])), Value::Null);
    assert_eq!(claim(Value::Null)["id"], "a1");
    assert_eq!(claim(Value::Null)["id"], "b0");
}

pub(crate) fn a_claim_stays_in_its_project(cx: &Context<'_>) {
    let s = cx.open();
    s.ok("runs.queue", json!({"projectId": "shop2", "id": "r1"}));
    s.ok("runs.queue", json!({"projectId": "sho", "id": "r1"}));
    assert_eq!(s.ok("runs.claim", json!({"execution": ex("t", 60)})), Value::Null);
    assert_eq!(s.ok("runs.claim", json!({"projectId": "shop2", "execution": ex("t", 60)}))["projectId"], "shop2");
}

pub(crate) fn a_claim_needs_an_execution(cx: &Context<'_>) {
    let s = cx.open();
    s.queue("r1", 0);
    for op in ["runs.claim", "agents.claim"] {
        s.invalid("execution", op, json!({}));
        s.invalid("execution.token", op, json!({"execution": {"queueLeaseExpiresAt": t(9)}}));
        s.invalid("execution.queueLeaseExpiresAt", op, json!({"execution": {"token": "t"}}));
        s.invalid("execution.queueLeaseExpiresAt", op, json!({"execution": {"token": "t", "queueLeaseExpiresAt": "soon"}}));
        s.invalid("execution.lease", op, json!({"execution": {"token": "t", "queueLeaseExpiresAt": t(9), "lease": 1}}));
    }
    assert_eq!(s.run("r1")["status"], "queued");
}

pub(crate) fn an_agent_claim_starts_the_agent_run(cx: &Context<'_>) {
    let s = cx.open();
    s.start("r1", 0);
    s.node("n1", "r1");
    s.agent("n1");
    let agent = s.ok(
        "agents.claim",
        json!({"execution": ex("tok-a", 60), "executionPrincipal": {"type": "user", "id": "u1"}, "modelId": "m-1", "startedAt": t(4)}),
    );
    let want = json!({
        "projectId": "shop", "nodeRunId": "n1", "agentId": "ag", "status": "running", "prompt": "do it",
        "executionPrincipal": {"type": "user", "id": "u1"}, "modelId": "m-1", "attempt": 1, "execution": ex("tok-a", 60),
        "createdAt": t(0), "startedAt": t(4),
    });
    assert_eq!(agent, want);
    assert_eq!(s.agent_run("n1"), want);
}

pub(crate) fn agent_claims_go_by_the_time_of_creation_then_the_id(cx: &Context<'_>) {
    let s = cx.open();
    s.start("r1", 0);
    for (node, agent, at) in [("c", "g1", 5), ("z", "g2", 1), ("b", "g1", 5), ("a", "g3", 9)] {
        s.node(node, "r1");
        s.ok("agents.create", json!({"nodeRunId": node, "agentId": agent, "createdAt": t(at)}));
    }
    let claim = |agents: Value| s.ok("agents.claim", json!({"agentIds": agents, "execution": ex("t", 60)}));
    assert_eq!(claim(json!([])), Value::Null);
    assert_eq!(claim(json!(["g3", "g1"]))["nodeRunId"], "b");
    assert_eq!(claim(Value::Null)["nodeRunId"], "z");
    assert_eq!(claim(json!(["g3", "g1"]))["nodeRunId"], "c");
    assert_eq!(claim(json!(["g2"])), Value::Null);
    assert_eq!(claim(json!(["g3", "g3"]))["nodeRunId"], "a");
}

pub(crate) fn what_was_claimed_can_not_be_started_again(cx: &Context<'_>) {
    let s = cx.open();
    s.queue("r1", 0);
    s.ok("runs.claim", json!({"execution": ex("t", 60)}));
    s.refused("already_exists", "runs.start", json!({"id": "r1"})).of("run", "r1");
    s.node_for_owner("n1", "t");
    s.agent("n1");
    s.ok("agents.claim", json!({"execution": ex("u", 60)}));
    s.refused("invalid_transition", "agents.start", json!({"nodeRunId": "n1", "execution": ex("v", 60)}))
        .of("agent", "n1")
        .status("running");
}

pub(crate) fn claims_among_many_values(cx: &Context<'_>) {
    let s = cx.open();
    s.ok("runs.queue", json!({"id": "r1", "workflowId": "wf-1"}));
    let many: Vec<String> = (0..40_000).map(|n| if n == 20_000 { "wf-1".into() } else { format!("x-{n}") }).collect();
    let run = s.ok("runs.claim", json!({"workflowIds": many, "execution": ex("t", 60)}));
    assert_eq!((&run["id"], has(&run, "execution")), (&json!("r1"), true));
    assert_eq!(s.ok("agents.claim", json!({"agentIds": many, "execution": ex("t", 60)})), Value::Null);
}
