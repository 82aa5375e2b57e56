//! Commands that reach what is under a run: cancel, delete, purge.

use serde_json::json;

use crate::Context;
use crate::check::{Caller, ex, has, t};

pub(crate) fn cancel_reaches_every_active_node_run_and_agent_run(cx: &Context<'_>) {
    let s = cx.open();
    s.start("r1", 0);
    for (node, agent) in [("n-queued", "queued"), ("n-running", "running"), ("n-done", "succeeded"), ("n-failed", "failed")] {
        s.agent_in(agent, node, "r1");
    }
    s.node_in("waiting", "n-waiting", "r1");
    s.node_in("succeeded", "n-ended", "r1");
    let ended = (s.node_run("n-ended"), s.agent_run("n-done"), s.agent_run("n-failed"));
    s.ok("runs.cancel", json!({"id": "r1", "error": "stop", "finishedAt": t(9)}));
    for node in ["n-queued", "n-running", "n-done", "n-failed", "n-waiting"] {
        let node = s.node_run(node);
        assert_eq!((&node["status"], &node["error"], &node["finishedAt"]), (&json!("cancelled"), &json!("stop"), &json!(t(9))));
        assert!(!has(&node, "waitingSince"), "{node}");
    }
    for node in ["n-queued", "n-running"] {
        let agent = s.agent_run(node);
        assert_eq!((&agent["status"], &agent["error"], &agent["completedAt"]), (&json!("cancelled"), &json!("stop"), &json!(t(9))));
        assert!(!has(&agent, "execution"), "{agent}");
    }
    assert_eq!((s.node_run("n-ended"), s.agent_run("n-done"), s.agent_run("n-failed")), ended);
}

pub(crate) fn cancel_reaches_active_agent_runs_under_ended_node_runs(cx: &Context<'_>) {
    let s = cx.open();
    s.start("r1", 0);
    s.agent_in("running", "n1", "r1");
    s.agent_in("queued", "n2", "r1");
    for node in ["n1", "n2"] {
        s.ok("nodes.finish", json!({"id": node}));
    }
    s.ok("runs.cancel", json!({"id": "r1", "finishedAt": t(9)}));
    for node in ["n1", "n2"] {
        assert_eq!(s.node_run(node)["status"], "succeeded");
        let agent = s.agent_run(node);
        assert_eq!((&agent["status"], &agent["completedAt"]), (&json!("cancelled"), &json!(t(9))));
        assert!(!has(&agent, "error") && !has(&agent, "execution"), "{agent}");
    }
}

pub(crate) fn cancel_leaves_other_runs_and_projects_alone(cx: &Context<'_>) {
    let s = cx.open();
    for run in ["r1", "r2"] {
        s.start(run, 0);
        s.agent_in("running", &format!("{run}-n"), run);
    }
    s.ok("runs.start", json!({"projectId": "other", "id": "r1"}));
    s.ok("nodes.start", json!({"projectId": "other", "id": "n9"}));
    s.ok("runs.cancel", json!({"id": "r1"}));
    assert_eq!((&s.run("r2")["status"], &s.node_run("r2-n")["status"]), (&json!("running"), &json!("running")));
    assert_eq!(s.agent_run("r2-n")["status"], "running");
    assert_eq!(s.ok("nodes.get", json!({"projectId": "other", "id": "n9"}))["status"], "running");
    assert_eq!(s.ids("agents.expired", json!({"expiredBy": t(99)})), ["r2-n"]);
}

pub(crate) fn cancel_takes_one_time_for_the_whole_tree(cx: &Context<'_>) {
    if !cx.has_clock() {
        return;
    }
    let s = cx.open();
    s.start("r1", 0);
    s.agent_in("queued", "n1", "r1");
    s.clock().advance_us(5_000_001);
    let at = s.ok("runs.cancel", json!({"id": "r1"}))["finishedAt"].clone();
    assert_eq!(at, "2026-01-05T10:00:05.000001Z");
    assert_eq!((&s.node_run("n1")["finishedAt"], &s.agent_run("n1")["completedAt"]), (&at, &at));
}

fn tree(s: &Caller, id: &str, nodes: usize, finished: i64, status: &str) {
    s.start(id, 0);
    for n in 0..nodes {
        let node = format!("{id}-n{n}");
        s.node(&node, id);
        if n % 2 == 0 {
            s.agent(&node);
        }
    }
    s.ok("runs.finish", json!({"id": id, "status": status, "finishedAt": t(finished)}));
}

pub(crate) fn delete_removes_the_run_with_all_under_it(cx: &Context<'_>) {
    let s = cx.open();
    tree(&s, "r1", 3, 5, "succeeded");
    tree(&s, "r2", 2, 5, "failed");
    s.ok("runs.start", json!({"projectId": "other", "id": "r1"}));
    s.ok("nodes.start", json!({"projectId": "other", "id": "r1-n0"}));
    assert_eq!(s.ok("runs.delete", json!({"id": "r1"})), json!({"runs": 1, "nodes": 3, "agents": 2}));
    assert!(s.run("r1").is_null() && s.node_run("r1-n0").is_null() && s.agent_run("r1-n0").is_null());
    assert_eq!(s.counts(), [1, 2, 1]);
    assert_eq!(s.ok("nodes.get", json!({"projectId": "other", "id": "r1-n0"}))["status"], "running");
    s.refused("not_found", "runs.delete", json!({"id": "r1"})).of("run", "r1");
}

pub(crate) fn a_deleted_id_can_be_used_again(cx: &Context<'_>) {
    let s = cx.open();
    tree(&s, "r1", 1, 5, "cancelled");
    s.ok("runs.delete", json!({"id": "r1"}));
    s.queue("r1", 3);
    assert_eq!(s.run("r1")["status"], "queued");
    s.start("r1", 4);
    assert_eq!(s.ok("nodes.list", json!({}))["total"], 0);
    s.node("r1-n0", "r1");
    s.agent("r1-n0");
    assert_eq!(s.counts(), [1, 1, 1]);
}

pub(crate) fn purge_deletes_by_the_time_of_the_end_then_the_id(cx: &Context<'_>) {
    let s = cx.open();
    for (id, finished) in [("d", 3), ("b", 2), ("c", 2), ("a", 4), ("e", 1)] {
        tree(&s, id, 1, finished, "succeeded");
    }
    let purge = |limit: u32| s.ok("runs.purge", json!({"finishedBefore": t(4), "limit": limit}));
    assert_eq!(purge(2), json!({"runs": 2, "nodes": 2, "agents": 2, "hasMore": true}));
    assert_eq!(s.ids("runs.list", json!({"order": "asc"})), ["a", "c", "d"]);
    assert_eq!(purge(2), json!({"runs": 2, "nodes": 2, "agents": 2, "hasMore": false}));
    assert_eq!(s.ids("runs.list", json!({})), ["a"]);
    assert_eq!(purge(2), json!({"runs": 0, "nodes": 0, "agents": 0, "hasMore": false}));
}

pub(crate) fn purge_takes_only_what_ended_strictly_before(cx: &Context<'_>) {
    let s = cx.open();
    tree(&s, "at", 0, 10, "succeeded");
    s.ok("runs.start", json!({"id": "just-before"}));
    s.ok("runs.finish", json!({"id": "just-before", "finishedAt": "2026-01-05T10:00:09.999999Z"}));
    for status in ["queued", "running", "waiting"] {
        s.run_in(status, status);
    }
    assert_eq!(s.ok("runs.purge", json!({"finishedBefore": t(10)})), json!({"runs": 1, "nodes": 0, "agents": 0, "hasMore": false}));
    assert!(s.run("just-before").is_null());
    assert_eq!(s.ok("runs.purge", json!({"finishedBefore": "9999-12-31T23:59:59Z"}))["runs"], 1);
    assert_eq!(s.counts()[0], 3);
}

pub(crate) fn purge_filters_by_status_and_workflow(cx: &Context<'_>) {
    let s = cx.open();
    for status in ["succeeded", "failed", "cancelled"] {
        for workflow in ["wf-a", "wf-b", "wf-c"] {
            let id = format!("{status}-{workflow}");
            s.ok("runs.start", json!({"id": id, "workflowId": workflow}));
            s.finish(&id, status);
        }
    }
    let purge = |mut fields: serde_json::Value| {
        fields["finishedBefore"] = json!(t(6));
        s.ok("runs.purge", fields)["runs"].clone()
    };
    assert_eq!(purge(json!({"statuses": []})), 0);
    assert_eq!(purge(json!({"workflowIds": []})), 0);
    assert_eq!(purge(json!({"workflowIds": ["nope"]})), 0);
    assert_eq!(purge(json!({"statuses": ["failed", "failed"], "workflowIds": ["wf-a", "wf-b", "wf-a"]})), 2);
    assert!(s.run("failed-wf-a").is_null() && s.run("failed-wf-b").is_null() && !s.run("failed-wf-c").is_null());
    assert_eq!(purge(json!({"statuses": ["succeeded", "cancelled"]})), 6);
    assert_eq!(purge(json!({"workflowIds": ["wf-c"]})), 1);
    assert_eq!(s.counts()[0], 0);
}

pub(crate) fn purge_stays_in_its_project(cx: &Context<'_>) {
    let s = cx.open();
    tree(&s, "r1", 1, 5, "succeeded");
    s.ok("runs.start", json!({"projectId": "shop2", "id": "r1"}));
    s.ok("runs.finish", json!({"projectId": "shop2", "id": "r1"}));
    assert_eq!(s.ok("runs.purge", json!({"finishedBefore": t(6)}))["runs"], 1);
    assert_eq!(s.ok("runs.get", json!({"projectId": "shop2", "id": "r1"}))["status"], "succeeded");
}

pub(crate) fn purge_refuses_limits_and_statuses_that_there_are_not(cx: &Context<'_>) {
    let s = cx.open();
    for limit in [json!(0), json!(10001), json!(-1), json!(1.0)] {
        s.invalid("limit", "runs.purge", json!({"finishedBefore": t(6), "limit": limit}));
    }
    for status in ["queued", "running", "waiting", "done", ""] {
        s.invalid("statuses", "runs.purge", json!({"finishedBefore": t(6), "statuses": ["failed", status]}));
    }
    s.ok("runs.purge", json!({"finishedBefore": t(6), "limit": 10000}));
    s.invalid("finishedBefore", "runs.purge", json!({}));
}

pub(crate) fn purge_has_a_default_limit_of_1000(cx: &Context<'_>) {
    let s = cx.open();
    for (from, to) in [(0, 500), (500, 1001)] {
        let mut commands = Vec::new();
        for n in from..to {
            let id = format!("r{n:04}");
            commands.push(json!({"op": "runs.queue", "projectId": "shop", "id": id, "workflowId": "wf-a", "input": {}}));
        }
        s.ok("batch", json!({"commands": commands}));
        for finish in &mut commands {
            let id = finish["id"].clone();
            *finish = json!({"op": "runs.finish", "projectId": "shop", "id": id, "status": "failed", "finishedAt": t(1)});
        }
        s.ok("batch", json!({"commands": commands}));
    }
    assert_eq!(s.ok("runs.purge", json!({"finishedBefore": t(2)})), json!({"runs": 1000, "nodes": 0, "agents": 0, "hasMore": true}));
    assert_eq!(s.ids("runs.list", json!({})), ["r1000"]);
}

pub(crate) fn changing_a_run_keeps_what_is_under_it(cx: &Context<'_>) {
    let s = cx.open();
    s.start_owned("r1", "tok-a");
    for (node, kind) in [("n1", "task"), ("n2", "agent"), ("n3", "task")] {
        s.ok("nodes.start", json!({"id": node, "nodeType": kind, "input": {"n": node}, "executionToken": "tok-a"}));
    }
    let agent = s.agent("n2");
    let nodes = s.ok("nodes.list", json!({}));
    s.ok("runs.wait", json!({"id": "r1", "executionToken": "tok-a"}));
    s.ok("runs.resume", json!({"id": "r1", "execution": ex("tok-b", 60)}));
    s.ok("runs.reclaim", json!({"id": "r1", "execution": ex("tok-c", 60)}));
    s.ok("runs.finish", json!({"id": "r1", "executionToken": "tok-c"}));
    assert_eq!(s.ok("nodes.list", json!({})), nodes);
    assert_eq!(nodes["total"], 3);
    assert_eq!(s.agent_run("n2"), agent);
}
