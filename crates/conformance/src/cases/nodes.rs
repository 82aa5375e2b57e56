//! What the commands on node runs keep, change and refuse.

use serde_json::{Value, json};

use crate::Context;
use crate::check::{ex, has, t};

pub(crate) fn start_keeps_every_field(cx: &Context<'_>) {
    let s = cx.open();
    s.start("r1", 0);
    let answer = s.ok(
        "nodes.start",
        json!({
            "id": "n1", "nodeIndex": 4_294_967_295_u32, "nodeType": "http", "nodeId": "fetch", "nodeKey": "main.fetch[2]",
            "input": {"url": "x"}, "startedAt": t(3),
        }),
    );
    let want = json!({
        "projectId": "shop", "id": "n1", "workflowRunId": "r1", "workflowId": "wf-a", "nodeIndex": 4_294_967_295_u32,
        "nodeType": "http", "nodeId": "fetch", "nodeKey": "main.fetch[2]", "status": "running", "input": {"url": "x"}, "startedAt": t(3),
    });
    assert_eq!(answer, want);
    assert_eq!(s.node_run("n1"), want);
}

pub(crate) fn wait_notes_since_when(cx: &Context<'_>) {
    let s = cx.open();
    s.start("r1", 0);
    let before = s.node("n1", "r1");
    let node = s.ok("nodes.wait", json!({"id": "n1", "waitingAt": t(7)}));
    let mut want = before;
    want["status"] = json!("waiting");
    want["waitingSince"] = json!(t(7));
    assert_eq!(node, want);
    assert_eq!(s.node_run("n1"), want);
}

pub(crate) fn finish_keeps_the_output_only_of_success(cx: &Context<'_>) {
    let s = cx.open();
    s.start("r1", 0);
    for from in ["running", "waiting"] {
        for (status, output, error) in [("succeeded", true, false), ("failed", false, true), ("cancelled", false, true)] {
            let id = format!("{from}-{status}");
            s.node_in(from, &id, "r1");
            let fields = json!({"id": id, "status": status, "output": {"v": 1}, "error": "e", "finishedAt": t(9)});
            let node = s.ok("nodes.finish", fields);
            assert_eq!((has(&node, "output"), has(&node, "error")), (output, error), "{node}");
            assert_eq!((&node["status"], &node["finishedAt"]), (&json!(status), &json!(t(9))));
            assert!(!has(&node, "waitingSince"), "{node}");
            assert_eq!(s.node_run(&id), node);
        }
    }
}

pub(crate) fn start_checks_its_run_from_left_to_right(cx: &Context<'_>) {
    let s = cx.open();
    s.start_owned("r1", "tok-a");
    s.ok("nodes.start", json!({"id": "n1", "executionToken": "tok-a"}));
    s.ok("runs.start", json!({"id": "ended", "execution": ex("tok-a", 60)}));
    s.ok("runs.finish", json!({"id": "ended", "executionToken": "tok-a"}));
    // Each request is wrong in all that comes after, too.
    let wrong =
        |run: &str, token: &str, workflow: &str| json!({"id": "n1", "workflowRunId": run, "executionToken": token, "workflowId": workflow});
    s.refused("not_found", "nodes.start", wrong("nope", "tok-x", "wf-x")).of("run", "nope");
    s.refused("invalid_transition", "nodes.start", wrong("ended", "tok-x", "wf-x")).of("run", "ended").status("succeeded");
    s.refused("stale_token", "nodes.start", wrong("r1", "tok-x", "wf-x")).of("run", "r1");
    s.refused("workflow_mismatch", "nodes.start", wrong("r1", "tok-a", "wf-x")).of("run", "r1");
    s.refused("already_exists", "nodes.start", wrong("r1", "tok-a", "wf-a")).of("node", "n1");
    assert_eq!(s.counts(), [2, 1, 0]);
}

pub(crate) fn a_node_run_id_is_taken_in_the_whole_project(cx: &Context<'_>) {
    let s = cx.open();
    s.start("r1", 0);
    s.start("r2", 0);
    s.node("n1", "r1");
    s.refused("already_exists", "nodes.start", json!({"id": "n1", "workflowRunId": "r2"})).of("node", "n1");
    s.ok("runs.start", json!({"projectId": "other", "id": "r1"}));
    s.ok("nodes.start", json!({"projectId": "other", "id": "n1"}));
    assert_eq!(s.node_run("n1")["workflowRunId"], "r1");
}

pub(crate) fn start_does_not_see_the_run_of_another_project(cx: &Context<'_>) {
    let s = cx.open();
    s.start("r1", 0);
    let refusal = s.refused("not_found", "nodes.start", json!({"projectId": "other", "id": "n1"}));
    assert_eq!((refusal.at("projectId"), refusal.at("id")), (&json!("other"), &json!("r1")));
}

pub(crate) fn the_owner_is_checked_before_the_status_of_the_node(cx: &Context<'_>) {
    let s = cx.open();
    s.start_owned("r1", "tok-a");
    s.ok("nodes.start", json!({"id": "n1", "executionToken": "tok-a"}));
    s.ok("nodes.finish", json!({"id": "n1", "executionToken": "tok-a"}));
    for op in ["nodes.finish", "nodes.wait"] {
        s.refused("stale_token", op, json!({"id": "n1", "executionToken": "tok-b"})).of("run", "r1");
        s.refused("stale_token", op, json!({"id": "n1"})).of("run", "r1");
        s.refused("invalid_transition", op, json!({"id": "n1", "executionToken": "tok-a"})).of("node", "n1").status("succeeded");
        s.refused("not_found", op, json!({"id": "nope", "executionToken": "tok-b"})).of("node", "nope");
    }
}

pub(crate) fn wait_checks_owner_then_run_then_node(cx: &Context<'_>) {
    let s = cx.open();
    s.start_owned("r1", "tok-a");
    s.ok("nodes.start", json!({"id": "n1", "executionToken": "tok-a"}));
    s.ok("nodes.start", json!({"id": "n2", "executionToken": "tok-a"}));
    s.ok("nodes.wait", json!({"id": "n2", "executionToken": "tok-a"}));
    s.ok("runs.finish", json!({"id": "r1", "status": "cancelled", "executionToken": "tok-a"}));
    s.refused("stale_token", "nodes.wait", json!({"id": "n1", "executionToken": "tok-a"})).of("run", "r1");
    for node in ["n1", "n2"] {
        s.refused("invalid_transition", "nodes.wait", json!({"id": node})).of("run", "r1").status("cancelled");
    }
}

pub(crate) fn a_node_of_a_waiting_run_can_wait_and_finish(cx: &Context<'_>) {
    let s = cx.open();
    s.start("r1", 0);
    s.node("n1", "r1");
    s.node("n2", "r1");
    s.ok("runs.wait", json!({"id": "r1"}));
    s.ok("nodes.wait", json!({"id": "n1"}));
    s.refused("invalid_transition", "nodes.wait", json!({"id": "n1"})).of("node", "n1").status("waiting");
    for node in ["n1", "n2"] {
        s.ok("nodes.finish", json!({"id": node, "output": 1}));
    }
    s.refused("invalid_transition", "nodes.start", json!({"id": "n3"})).of("run", "r1").status("waiting");
}

pub(crate) fn open_nodes_of_an_ended_run_can_be_closed_without_a_token(cx: &Context<'_>) {
    let s = cx.open();
    s.start_owned("r1", "tok-a");
    for node in ["n1", "n2"] {
        s.ok("nodes.start", json!({"id": node, "executionToken": "tok-a"}));
    }
    s.ok("runs.finish", json!({"id": "r1", "status": "cancelled", "executionToken": "tok-a"}));
    s.refused("stale_token", "nodes.finish", json!({"id": "n1", "executionToken": "tok-a"})).of("run", "r1");
    assert_eq!(s.ok("nodes.finish", json!({"id": "n1", "status": "failed", "error": "cancelled"}))["error"], "cancelled");
    s.refused("invalid_transition", "nodes.start", json!({"id": "n3"})).of("run", "r1").status("cancelled");
    s.refused("invalid_transition", "nodes.wait", json!({"id": "n2"})).of("run", "r1").status("cancelled");
}

pub(crate) fn a_stale_worker_can_not_write_a_result(cx: &Context<'_>) {
    let s = cx.open();
    s.start_owned("r1", "tok-a");
    s.ok("nodes.start", json!({"id": "n1", "executionToken": "tok-a"}));
    s.ok("runs.reclaim", json!({"id": "r1", "execution": ex("tok-b", 60)}));
    let finish = |token: &str, price: u32| json!({"id": "n1", "output": {"price": price}, "executionToken": token});
    s.refused("stale_token", "nodes.finish", finish("tok-a", 12)).of("run", "r1");
    let node = s.node_run("n1");
    assert_eq!((&node["status"], has(&node, "output"), has(&node, "finishedAt")), (&json!("running"), false, false));
    assert_eq!(s.ok("nodes.finish", finish("tok-b", 13))["output"], json!({"price": 13}));
}

pub(crate) fn index_and_types_have_their_ranges(cx: &Context<'_>) {
    let s = cx.open();
    s.start("r1", 0);
    for index in [json!(-1), json!(4_294_967_296_u64), json!("1"), json!(1.5), Value::Null] {
        s.invalid("nodeIndex", "nodes.start", json!({"id": "n1", "nodeIndex": index}));
    }
    for field in ["nodeType", "nodeId", "nodeKey", "workflowRunId", "workflowId"] {
        s.invalid(field, "nodes.start", json!({"id": "n1", field: ""}));
        s.invalid(field, "nodes.start", json!({"id": "n1", field: 7}));
    }
    assert_eq!(s.counts()[1], 0);
}
