//! Every status against every operation, through the JSON form.

use serde_json::{Value, json};

use crate::Context;
use crate::check::{absent, ex, has, merged, t};

const STATUSES: [&str; 6] = ["queued", "running", "waiting", "succeeded", "failed", "cancelled"];

/// For each of [`STATUSES`]: `-` is invalid_transition, `x` is already_exists, `+` is success.
const RUNS: &[(&str, &str, &str)] = &[
    ("runs.queue", "", "x x x x x x"),
    ("runs.start", "", "+ x x x x x"),
    ("runs.reclaim", "", "- + - - - -"),
    ("runs.wait", "", "- + - - - -"),
    ("runs.resume", "", "- - + - - -"),
    ("runs.finish", "succeeded", "- + - - - -"),
    ("runs.finish", "failed", "+ + + - - -"),
    ("runs.finish", "cancelled", "+ + + - - -"),
    ("runs.cancel", "", "+ + + - - -"),
    ("runs.delete", "", "- - - + + +"),
];

fn run_fields(op: &str, id: &str, end: &str) -> Value {
    match op {
        "runs.reclaim" => json!({"id": id, "execution": ex("tok-b", 90)}),
        "runs.finish" => json!({"id": id, "status": end}),
        _ => json!({"id": id}),
    }
}

fn status_after(op: &str, end: &str) -> Option<&'static str> {
    Some(match (op, end) {
        ("runs.start" | "runs.reclaim" | "runs.resume" | "agents.start" | "agents.reclaim" | "agents.confirm", _) => "running",
        ("runs.wait" | "nodes.wait", _) => "waiting",
        ("runs.cancel" | "agents.cancel", _) | (_, "cancelled") => "cancelled",
        (_, "succeeded") => "succeeded",
        (_, "failed") => "failed",
        _ => return None,
    })
}

pub(crate) fn every_status_of_a_run_against_every_operation(cx: &Context<'_>) {
    let s = cx.open();
    for (op, end, outcomes) in RUNS {
        for (status, outcome) in STATUSES.iter().zip(outcomes.split(' ')) {
            let id = format!("{op}-{end}-{status}");
            s.run_in(status, &id);
            let before = s.run(&id);
            let fields = run_fields(op, &id, end);
            match outcome {
                "-" => drop(s.refused("invalid_transition", op, fields).of("run", &id).status(status)),
                "x" => drop(s.refused("already_exists", op, fields).of("run", &id)),
                _ => {
                    let after = s.ok(op, fields);
                    match status_after(op, end) {
                        Some(status) => assert_eq!(after["status"], status, "{id}"),
                        None => assert!(s.run(&id).is_null(), "{id}"),
                    }
                    continue;
                }
            }
            assert_eq!(s.run(&id), before, "a refused call changes nothing");
        }
    }
}

pub(crate) fn every_operation_on_a_run_that_is_not_there(cx: &Context<'_>) {
    let s = cx.open();
    s.ok("runs.start", json!({"projectId": "other", "id": "r1"}));
    for (op, end, _) in RUNS.iter().skip(2) {
        s.refused("not_found", op, run_fields(op, "r1", end)).of("run", "r1");
    }
    let confirm = json!({"id": "r1", "executionToken": "t", "queueLeaseExpiresAt": t(9)});
    s.refused("not_found", "runs.confirm", confirm).of("run", "r1");
    assert_eq!(s.counts(), [0, 0, 0]);
}

pub(crate) fn confirm_needs_a_running_run_before_its_owner(cx: &Context<'_>) {
    let s = cx.open();
    for status in STATUSES {
        s.run_in(status, status);
        let confirm = json!({"id": status, "executionToken": "t", "queueLeaseExpiresAt": t(9)});
        if status == "running" {
            s.refused("stale_token", "runs.confirm", confirm).of("run", status);
        } else {
            s.refused("invalid_transition", "runs.confirm", confirm).of("run", status).status(status);
        }
    }
}

pub(crate) fn every_status_of_a_node_run_against_every_operation(cx: &Context<'_>) {
    let s = cx.open();
    s.start("r1", 0);
    let table = [("nodes.wait", "", "+ - - - -"), ("nodes.finish", "succeeded", "+ + - - -"), ("nodes.finish", "failed", "+ + - - -")];
    let more = [("nodes.finish", "cancelled", "+ + - - -"), ("agents.create", "", "+ - - - -")];
    for (op, end, outcomes) in table.into_iter().chain(more) {
        for (status, outcome) in STATUSES.iter().skip(1).zip(outcomes.split(' ')) {
            let id = format!("{op}-{end}-{status}");
            s.node_in(status, &id, "r1");
            let before = s.node_run(&id);
            let fields = match op {
                "agents.create" => json!({"nodeRunId": id}),
                "nodes.finish" => json!({"id": id, "status": end}),
                _ => json!({"id": id}),
            };
            if outcome == "-" {
                s.refused("invalid_transition", op, fields).of("node", &id).status(status);
                assert_eq!(s.node_run(&id), before, "a refused call changes nothing");
                continue;
            }
            s.ok(op, fields);
            if let Some(status) = status_after(op, end) {
                assert_eq!(s.node_run(&id)["status"], status, "{id}");
            }
        }
    }
}

pub(crate) fn every_status_of_the_run_against_every_operation_on_its_nodes(cx: &Context<'_>) {
    let s = cx.open();
    for (n, run_status) in STATUSES.iter().enumerate() {
        let (run, node) = (format!("run-{n}"), format!("node-{n}"));
        s.start(&run, 0);
        for suffix in ["w", "f", "a"] {
            s.node(&format!("{node}-{suffix}"), &run);
        }
        match *run_status {
            "queued" | "running" => {}
            "waiting" => drop(s.ok("runs.wait", json!({"id": run}))),
            ended => drop(s.finish(&run, ended)),
        }
        let start = json!({"id": format!("{node}-s"), "workflowRunId": run});
        let wait = json!({"id": format!("{node}-w")});
        match *run_status {
            // A run with nodes is never queued: that row stands for a queued run without any.
            "queued" => {
                s.queue("run-queued", 0);
                let fields = json!({"id": "node-of-queued", "workflowRunId": "run-queued"});
                s.refused("invalid_transition", "nodes.start", fields).of("run", "run-queued").status("queued");
                continue;
            }
            "running" => drop((s.ok("nodes.start", start), s.ok("nodes.wait", wait))),
            "waiting" => {
                s.refused("invalid_transition", "nodes.start", start).of("run", &run).status("waiting");
                s.ok("nodes.wait", wait);
            }
            ended => {
                s.refused("invalid_transition", "nodes.start", start).of("run", &run).status(ended);
                s.refused("invalid_transition", "nodes.wait", wait).of("run", &run).status(ended);
            }
        }
        s.ok("nodes.finish", json!({"id": format!("{node}-f")}));
        s.agent(&format!("{node}-a"));
    }
}

pub(crate) fn every_status_of_an_agent_run_against_every_operation(cx: &Context<'_>) {
    let s = cx.open();
    s.start("r1", 0);
    let table = [
        ("agents.create", "", "x x x x x"),
        ("agents.start", "", "+ - - - -"),
        ("agents.reclaim", "", "- + - - -"),
        ("agents.confirm", "", "- + - - -"),
        ("agents.finish", "succeeded", "- + - - -"),
        ("agents.finish", "failed", "- + - - -"),
        ("agents.finish", "cancelled", "- + - - -"),
        ("agents.cancel", "", "+ + - - -"),
    ];
    let statuses = STATUSES.iter().filter(|status| **status != "waiting");
    for (op, end, outcomes) in table {
        for (status, outcome) in statuses.clone().zip(outcomes.split(' ')) {
            let node = format!("{op}-{end}-{status}");
            s.agent_in(status, &node, "r1");
            let before = s.agent_run(&node);
            let more = match op {
                "agents.start" | "agents.reclaim" => json!({"execution": ex("tok-b", 90)}),
                "agents.confirm" => json!({"executionToken": "tok-a", "queueLeaseExpiresAt": t(90)}),
                "agents.finish" => json!({"executionToken": "tok-a", "status": end}),
                _ => json!({}),
            };
            let fields = merged(json!({"nodeRunId": node}), more);
            match outcome {
                "-" => drop(s.refused("invalid_transition", op, fields).of("agent", &node).status(status)),
                "x" => drop(s.refused("already_exists", op, fields).of("agent", &node)),
                _ => {
                    let after = s.ok(op, fields);
                    assert_eq!(Some(after["status"].as_str().unwrap()), status_after(op, end), "{node}");
                    assert_eq!(has(&after, "execution"), after["status"] == "running", "{after}");
                    continue;
                }
            }
            assert_eq!(s.agent_run(&node), before, "a refused call changes nothing");
        }
    }
}

pub(crate) fn the_owner_alone_changes_a_running_run(cx: &Context<'_>) {
    let s = cx.open();
    for (op, end) in [("runs.wait", ""), ("runs.finish", "succeeded"), ("runs.finish", "failed"), ("runs.finish", "cancelled")] {
        for (owner, given, is_owner) in [
            (Some("tok-a"), Some("tok-a"), true),
            (Some("tok-a"), Some("tok-A"), false),
            (Some("tok-a"), Some("tok-a "), false),
            (Some("tok-a"), None, false),
            (None, Some("tok-a"), false),
            (None, None, true),
        ] {
            let id = format!("{op}-{end}-{owner:?}-{}", given.unwrap_or("none"));
            s.ok("runs.start", json!({"id": id, "execution": owner.map_or(absent(), |token| ex(token, 60))}));
            let token = given.map_or(absent(), |token| json!(token));
            let status = if end.is_empty() { absent() } else { json!(end) };
            let fields = json!({"id": id, "executionToken": token, "status": status});
            if is_owner {
                s.ok(op, fields);
            } else {
                let before = s.run(&id);
                let refusal = s.refused("stale_token", op, fields);
                assert_eq!((refusal.at("entity"), refusal.at("id")), (&json!("run"), &json!(id)));
                assert_eq!(s.run(&id), before);
            }
        }
    }
}

pub(crate) fn the_owner_of_the_run_alone_changes_its_nodes(cx: &Context<'_>) {
    let s = cx.open();
    s.start("free", 0);
    s.start_owned("owned", "tok-a");
    for (op, n) in [("nodes.start", 0), ("nodes.wait", 1), ("nodes.finish", 2)] {
        for (run, token, is_owner) in [
            ("owned", Some("tok-b"), false),
            ("owned", None, false),
            ("owned", Some("tok-a"), true),
            ("free", Some("tok-a"), false),
            ("free", None, true),
        ] {
            let id = format!("{op}-{run}-{}", token.unwrap_or("none"));
            let owner = if run == "owned" { json!("tok-a") } else { absent() };
            if n > 0 {
                s.ok("nodes.start", json!({"id": id, "workflowRunId": run, "executionToken": owner}));
            }
            let mut fields = json!({"id": id, "executionToken": token.map_or(absent(), |token| json!(token))});
            if n == 0 {
                fields["workflowRunId"] = json!(run);
            }
            if is_owner {
                s.ok(op, fields);
            } else {
                s.refused("stale_token", op, fields).of("run", run);
            }
        }
    }
}

pub(crate) fn a_waiting_or_queued_run_is_owned_by_calls_without_a_token(cx: &Context<'_>) {
    let s = cx.open();
    s.queue("queued", 0);
    s.start_owned("waiting", "tok-a");
    s.ok("runs.wait", json!({"id": "waiting", "executionToken": "tok-a"}));
    for id in ["queued", "waiting"] {
        let with_token = json!({"id": id, "status": "failed", "executionToken": "tok-a"});
        s.refused("stale_token", "runs.finish", with_token).of("run", id);
        s.ok("runs.finish", json!({"id": id, "status": "failed"}));
    }
}

pub(crate) fn a_refused_succeeded_of_a_waiting_run_says_the_status_before_the_owner(cx: &Context<'_>) {
    let s = cx.open();
    s.run_in("waiting", "r1");
    let fields = json!({"id": "r1", "status": "succeeded", "executionToken": "tok-x"});
    s.refused("invalid_transition", "runs.finish", fields).of("run", "r1").status("waiting");
}

pub(crate) fn a_replaced_worker_can_not_report_a_failure(cx: &Context<'_>) {
    let s = cx.open();
    s.start_owned("r1", "tok-a");
    s.ok("runs.reclaim", json!({"id": "r1", "execution": ex("tok-b", 60)}));
    let failed = json!({"id": "r1", "status": "failed", "error": "worker gone", "executionToken": "tok-a"});
    s.refused("stale_token", "runs.finish", failed).of("run", "r1");
    let run = s.ok("runs.finish", json!({"id": "r1", "executionToken": "tok-b"}));
    assert_eq!((&run["status"], &run["attempt"]), (&json!("succeeded"), &json!(2)));
    assert!(!has(&run, "error") && !has(&run, "execution"), "{run}");
}
