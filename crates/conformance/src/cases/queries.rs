//! The other queries: get, latest, expired, stats, projects, and those about the store.

use serde_json::{Value, json};

use crate::Context;
use crate::check::{Caller, ex, has, t, texts};

pub(crate) fn get_of_what_is_not_there_is_null(cx: &Context<'_>) {
    let s = cx.open();
    s.start("r1", 0);
    s.node("n1", "r1");
    assert_eq!(s.ask("runs.get", json!({"id": "nope"})), r#"{"ok":null}"#);
    assert_eq!(s.ask("nodes.get", json!({"id": "r1"})), r#"{"ok":null}"#);
    assert_eq!(s.ask("agents.get", json!({"nodeRunId": "n1"})), r#"{"ok":null}"#);
    assert_eq!(s.ask("runs.get", json!({"projectId": "sho", "id": "r1"})), r#"{"ok":null}"#);
    assert_eq!(s.ask("runs.get", json!({"id": "R1"})), r#"{"ok":null}"#);
}

pub(crate) fn latest_takes_the_greatest_id_among_equal_times(cx: &Context<'_>) {
    let s = cx.open();
    s.start("r1", 0);
    s.start("r2", 0);
    s.ok("runs.start", json!({"id": "r3", "workflowId": "wf-b"}));
    assert_eq!(s.ids("runs.latest", json!({"workflowIds": ["wf-b", "wf-a"]})), ["r3", "r2"]);
}

pub(crate) fn latest_answers_in_the_order_first_asked(cx: &Context<'_>) {
    let s = cx.open();
    for (id, workflow, at) in [("r1", "wf-a", 0), ("r2", "wf-b", 5), ("r3", "wf-a", 3), ("r4", "wf-c", 1)] {
        s.ok("runs.start", json!({"id": id, "workflowId": workflow, "startedAt": t(at)}));
    }
    let latest = |workflows: Value| s.ids("runs.latest", json!({"workflowIds": workflows}));
    assert_eq!(latest(json!(["wf-c", "wf-a", "wf-c", "nope", "wf-b", "wf-a"])), ["r4", "r3", "r2"]);
    assert_eq!(latest(json!(["nope"])), [""; 0]);
}

pub(crate) fn latest_counts_runs_in_every_status(cx: &Context<'_>) {
    let s = cx.open();
    for (n, status) in ["succeeded", "failed", "cancelled", "running", "waiting", "queued"].iter().enumerate() {
        let (id, at) = (format!("r{n}"), t(n as i64 * 10));
        let op = if *status == "queued" { "runs.queue" } else { "runs.start" };
        let time = if *status == "queued" { "queuedAt" } else { "startedAt" };
        s.ok(op, json!({"id": id, time: at}));
        match *status {
            "queued" | "running" => {}
            "waiting" => drop(s.ok("runs.wait", json!({"id": id}))),
            ended => drop(s.finish(&id, ended)),
        }
        assert_eq!(s.ids("runs.latest", json!({"workflowIds": ["wf-a"]})), [id], "{status}");
    }
    s.start("r5", 1);
    assert_eq!(s.ids("runs.latest", json!({"workflowIds": ["wf-a"]})), ["r4"], "a start moves the run in the order");
}

pub(crate) fn latest_stays_in_its_project(cx: &Context<'_>) {
    let s = cx.open();
    s.ok("runs.start", json!({"projectId": "p1", "id": "r1", "input": {"p": 1}}));
    s.ok("runs.start", json!({"projectId": "p2", "id": "r1", "startedAt": t(9), "input": {"p": 2}}));
    s.ok("runs.start", json!({"projectId": "p1", "id": "r0", "workflowId": "wf-b"}));
    let latest = s.ok("runs.latest", json!({"projectId": "p1", "workflowIds": ["wf-a", "wf-b"]}));
    assert_eq!((texts(&latest["runs"], "projectId"), texts(&latest["runs"], "id")), (vec!["p1".into(); 2], vec!["r1".into(), "r0".into()]));
    for (project, input) in [("p1", 1), ("p2", 2)] {
        assert_eq!(s.ok("runs.get", json!({"projectId": project, "id": "r1"}))["input"]["p"], input);
    }
}

/// Leases far apart and close together, over three projects, on runs and on agent runs.
fn leases(s: &Caller) -> Vec<(&'static str, &'static str, &'static str)> {
    let all = [
        ("b", "r2", "1901-01-01T00:00:00.000000Z"),
        ("a", "r3", "2026-01-05T10:00:00.000000Z"),
        ("a", "r9", "2026-01-05T10:00:00.000000Z"),
        ("b", "r1", "2026-01-05T10:00:00.000000Z"),
        ("a", "r1", "2026-01-05T10:00:00.000001Z"),
        ("c", "r1", "2026-01-05T10:01:07.108864Z"),
        ("a", "r2", "2026-07-05T10:00:00.000000Z"),
        ("c", "r0", "9999-12-31T23:59:59.999999Z"),
    ];
    for (project, id, lease) in all.iter().rev() {
        let execution = json!({"token": "t", "queueLeaseExpiresAt": lease});
        s.ok("runs.start", json!({"projectId": project, "id": id, "execution": execution}));
        let node = json!({"projectId": project, "id": id, "workflowRunId": id, "nodeType": "agent", "executionToken": "t"});
        s.ok("nodes.start", node);
        s.ok("agents.create", json!({"projectId": project, "nodeRunId": id}));
        s.ok("agents.start", json!({"projectId": project, "nodeRunId": id, "execution": execution}));
    }
    all.to_vec()
}

fn expired(s: &Caller, op: &str, fields: Value) -> (Vec<(String, String)>, bool) {
    let answer = s.ok(op, fields);
    let (name, id) = if op == "runs.expired" { ("runs", "id") } else { ("agents", "nodeRunId") };
    assert_eq!(answer.as_object().unwrap().len(), 2, "{answer}");
    let ids = texts(&answer[name], "projectId").into_iter().zip(texts(&answer[name], id)).collect();
    (ids, answer["hasMore"].as_bool().unwrap())
}

pub(crate) fn expired_goes_over_all_projects_by_lease_project_and_id(cx: &Context<'_>) {
    let s = cx.open();
    let all = leases(&s);
    for op in ["runs.expired", "agents.expired"] {
        for (n, (_, _, by)) in all.iter().enumerate() {
            let count = all.iter().filter(|(_, _, lease)| lease <= by).count();
            let want: Vec<(String, String)> = all[..count].iter().map(|(project, id, _)| ((*project).into(), (*id).into())).collect();
            assert_eq!(expired(&s, op, json!({"expiredBy": by})), (want.clone(), false), "{op} {n}");
            let limited = expired(&s, op, json!({"expiredBy": by, "limit": n + 1}));
            assert_eq!(limited, (want[..=n].to_vec(), n + 1 < count), "{op} {n}");
        }
        assert_eq!(expired(&s, op, json!({"expiredBy": "1900-12-31T23:59:59.999999Z"})), (vec![], false));
    }
}

pub(crate) fn expired_can_stay_in_one_project(cx: &Context<'_>) {
    let s = cx.open();
    let all = leases(&s);
    for op in ["runs.expired", "agents.expired"] {
        for project in ["a", "b", "c", "none"] {
            let of_project = all.iter().filter(|(of, _, _)| *of == project);
            let want: Vec<(String, String)> = of_project.map(|(project, id, _)| ((*project).into(), (*id).into())).collect();
            let (found, more) = expired(&s, op, json!({"projectId": project, "expiredBy": "9999-12-31T23:59:59.999999Z"}));
            assert_eq!((found, more), (want.clone(), false));
            if want.len() > 1 {
                let (found, more) = expired(&s, op, json!({"projectId": project, "expiredBy": "9999-12-31T23:59:59.999999Z", "limit": 1}));
                assert_eq!((found, more), (want[..1].to_vec(), true));
            }
        }
    }
}

pub(crate) fn expired_follows_every_change_of_a_lease(cx: &Context<'_>) {
    let s = cx.open();
    s.start("free", 0);
    s.start_owned("r1", "tok-a");
    let expired = |by: i64| s.ids("runs.expired", json!({"expiredBy": t(by)}));
    assert_eq!(expired(60), ["r1"]);
    s.ok("runs.confirm", json!({"id": "r1", "executionToken": "tok-a", "queueLeaseExpiresAt": t(61)}));
    assert_eq!((expired(60).len(), expired(61).len()), (0, 1));
    s.ok("runs.reclaim", json!({"id": "r1", "execution": ex("tok-b", 10)}));
    assert_eq!(expired(10), ["r1"]);
    s.ok("runs.wait", json!({"id": "r1", "executionToken": "tok-b"}));
    assert_eq!(expired(10_000_000), [""; 0]);
    s.ok("runs.resume", json!({"id": "r1", "execution": ex("tok-c", 5000)}));
    assert_eq!((expired(4999).len(), expired(5000).len()), (0, 1));
    s.ok("runs.finish", json!({"id": "r1", "executionToken": "tok-c"}));
    assert_eq!(expired(10_000_000), [""; 0]);
    s.queue("r2", 0);
    s.ok("runs.claim", json!({"execution": ex("tok-d", 20)}));
    assert_eq!(expired(20), ["r2"]);
    s.ok("runs.cancel", json!({"id": "r2"}));
    assert_eq!(expired(20), [""; 0]);
}

pub(crate) fn agents_expired_follows_every_change_of_a_lease(cx: &Context<'_>) {
    let s = cx.open();
    s.start("r1", 0);
    s.agent_in("queued", "n1", "r1");
    let expired = |by: i64| s.ids("agents.expired", json!({"expiredBy": t(by)}));
    assert_eq!(expired(10_000_000), [""; 0]);
    s.ok("agents.claim", json!({"execution": ex("tok-a", 60)}));
    assert_eq!((expired(59).len(), expired(60).len()), (0, 1));
    s.ok("agents.confirm", json!({"nodeRunId": "n1", "executionToken": "tok-a", "queueLeaseExpiresAt": t(6000)}));
    assert_eq!((expired(5999).len(), expired(6000).len()), (0, 1));
    s.ok("agents.reclaim", json!({"nodeRunId": "n1", "execution": ex("tok-b", 10)}));
    assert_eq!(expired(10), ["n1"]);
    s.ok("agents.finish", json!({"nodeRunId": "n1", "executionToken": "tok-b"}));
    assert_eq!(expired(10_000_000), [""; 0]);
    s.agent_in("running", "n2", "r1");
    s.ok("agents.cancel", json!({"nodeRunId": "n2"}));
    s.agent_in("running", "n3", "r1");
    s.ok("runs.cancel", json!({"id": "r1"}));
    assert_eq!(expired(10_000_000), [""; 0]);
}

pub(crate) fn expired_has_its_limits(cx: &Context<'_>) {
    let s = cx.open();
    for op in ["runs.expired", "agents.expired"] {
        for limit in [json!(0), json!(-1), json!(10_001), json!("1")] {
            s.invalid("limit", op, json!({"expiredBy": t(0), "limit": limit}));
        }
        s.invalid("expiredBy", op, json!({}));
        s.invalid("expiredBy", op, json!({"expiredBy": null}));
        s.invalid("offset", op, json!({"expiredBy": t(0), "offset": 0}));
        s.ok(op, json!({"expiredBy": t(0), "limit": 10_000, "projectId": null}));
    }
}

pub(crate) fn stats_count_by_status_and_workflow(cx: &Context<'_>) {
    let s = cx.open();
    let counts = |list: &[(&str, u32)]| {
        let mut counts = json!({"queued": 0, "running": 0, "waiting": 0, "succeeded": 0, "failed": 0, "cancelled": 0});
        for (status, count) in list {
            counts[*status] = json!(count);
        }
        counts
    };
    assert_eq!(s.ok("runs.stats", json!({})), json!({"total": 0, "byStatus": counts(&[]), "byWorkflow": []}));
    for (id, workflow, status) in [
        ("r1", "wf-b", "failed"),
        ("r2", "wf-a", "running"),
        ("r3", "wf-b", "running"),
        ("r4", "wf-B", "succeeded"),
        ("r5", "wf-b", "failed"),
    ] {
        s.ok("runs.start", json!({"id": id, "workflowId": workflow}));
        if status != "running" {
            s.finish(id, status);
        }
    }
    s.ok("runs.queue", json!({"projectId": "shop2", "id": "r1"}));
    let (upper, a) = (
        json!({"workflowId": "wf-B", "total": 1, "byStatus": counts(&[("succeeded", 1)])}),
        json!({"workflowId": "wf-a", "total": 1, "byStatus": counts(&[("running", 1)])}),
    );
    let b = json!({"workflowId": "wf-b", "total": 3, "byStatus": counts(&[("failed", 2), ("running", 1)])});
    let all = counts(&[("running", 2), ("failed", 2), ("succeeded", 1)]);
    assert_eq!(s.ok("runs.stats", json!({})), json!({"total": 5, "byStatus": all, "byWorkflow": [upper, a, b]}));
    let some = s.ok("runs.stats", json!({"workflowIds": ["wf-b", "nope", "wf-a", "wf-b"]}));
    assert_eq!(some, json!({"total": 4, "byStatus": counts(&[("failed", 2), ("running", 2)]), "byWorkflow": [a, b]}));
}

pub(crate) fn stats_follow_every_change(cx: &Context<'_>) {
    let s = cx.open();
    let of = |status: &str| {
        let stats = s.ok("runs.stats", json!({}));
        let total: u64 = stats["byStatus"].as_object().unwrap().values().map(|count| count.as_u64().unwrap()).sum();
        assert_eq!(stats["total"], total);
        stats["byStatus"][status].clone()
    };
    s.queue("r1", 0);
    assert_eq!(of("queued"), 1);
    s.ok("runs.claim", json!({"execution": ex("t", 60)}));
    assert_eq!((of("queued"), of("running")), (json!(0), json!(1)));
    s.ok("runs.wait", json!({"id": "r1", "executionToken": "t"}));
    assert_eq!((of("running"), of("waiting")), (json!(0), json!(1)));
    s.ok("runs.resume", json!({"id": "r1"}));
    s.finish("r1", "failed");
    assert_eq!((of("running"), of("waiting"), of("failed")), (json!(0), json!(0), json!(1)));
    s.ok("runs.delete", json!({"id": "r1"}));
    assert_eq!(s.ok("runs.stats", json!({}))["byWorkflow"], json!([]));
    assert_eq!(s.ok("projects.list", json!({}))["projects"], json!([]));
}

pub(crate) fn projects_are_listed_with_their_runs(cx: &Context<'_>) {
    let s = cx.open();
    assert_eq!(s.ok("projects.list", json!({})), json!({"projects": [], "total": 0, "hasMore": false}));
    for (project, count) in [("b", 2), ("B", 1), ("a", 3), ("\u{e9}", 1)] {
        for n in 0..count {
            s.ok("runs.queue", json!({"projectId": project, "id": format!("r{n}")}));
        }
    }
    let rows = json!([
        {"projectId": "B", "runs": 1}, {"projectId": "a", "runs": 3}, {"projectId": "b", "runs": 2}, {"projectId": "\u{e9}", "runs": 1},
    ]);
    assert_eq!(s.ok("projects.list", json!({})), json!({"projects": rows, "total": 4, "hasMore": false}));
    assert_eq!(s.ids("projects.list", json!({"order": "desc"})), ["\u{e9}", "b", "a", "B"]);
    assert_eq!(s.ids("projects.list", json!({"limit": 2, "offset": 1})), ["a", "b"]);
    s.ok("runs.cancel", json!({"projectId": "B", "id": "r0"}));
    s.ok("runs.purge", json!({"projectId": "B", "finishedBefore": "9999-12-31T00:00:00Z"}));
    assert_eq!(s.ids("projects.list", json!({})), ["a", "b", "\u{e9}"]);
    s.invalid("projectId", "projects.list", json!({"projectId": "a"}));
}

pub(crate) fn store_info_says_what_the_store_is(cx: &Context<'_>) {
    let s = cx.open();
    s.queue("r1", 0);
    let info = s.ok("store.info", json!({}));
    let names = ["backend", "address", "schemaVersion", "libraryVersion", "engine", "durability", "mode", "sizeBytes"];
    assert_eq!(info.as_object().unwrap().len(), names.len(), "{info}");
    assert!(names.iter().all(|name| has(&info, name)), "{info}");
    assert_eq!((&info["backend"], &info["durability"], &info["mode"]), (&json!(cx.traits().backend), &json!("full"), &json!("create")));
    assert!(info["schemaVersion"].as_u64().unwrap() >= 1 && info["sizeBytes"].is_u64(), "{info}");
    assert!(!info["engine"]["name"].as_str().unwrap().is_empty() && !info["engine"]["version"].as_str().unwrap().is_empty());
    assert!(info["address"].as_str().unwrap().starts_with(cx.traits().backend), "{info}");
    s.invalid("projectId", "store.info", json!({"projectId": "shop"}));
}

pub(crate) fn store_verify_counts_what_it_checked(cx: &Context<'_>) {
    let s = cx.open();
    s.start("r1", 0);
    s.queue("r2", 0);
    s.ok("runs.queue", json!({"projectId": "other", "id": "r1"}));
    s.node("n1", "r1");
    s.node("n2", "r1");
    s.agent("n1");
    let report = s.ok("store.verify", json!({}));
    assert_eq!((&report["ok"], &report["problems"]), (&json!(true), &json!([])));
    assert_eq!(report["checked"], json!({"runs": 3, "nodes": 2, "agents": 1}));
    assert!(report["engineCheck"] == "done" || report["engineCheck"] == "skipped", "{report}");
    assert_eq!(report.as_object().unwrap().len(), 4, "{report}");
}

pub(crate) fn store_compact_keeps_every_record(cx: &Context<'_>) {
    let s = cx.open();
    for n in 0..50 {
        let id = format!("r{n}");
        s.ok("runs.start", json!({"id": id, "input": "x".repeat(2000), "execution": ex("t", n)}));
        s.node_for_run(&format!("n{n}"), &id, "t");
        if n % 2 == 0 {
            s.ok("runs.finish", json!({"id": id, "executionToken": "t"}));
        }
    }
    s.ok("runs.purge", json!({"finishedBefore": t(6), "limit": 20}));
    let before = s.everything();
    for _ in 0..2 {
        let report = s.ok("store.compact", json!({}));
        assert_eq!(report.as_object().unwrap().len(), 2, "{report}");
        let (bytes_before, bytes_after) = (report["bytesBefore"].as_u64().unwrap(), report["bytesAfter"].as_u64().unwrap());
        assert!(bytes_after <= bytes_before + 65_536, "{report}");
        if cx.traits().backend == "memory" {
            assert_eq!(bytes_before, bytes_after);
        }
    }
    assert_eq!(s.everything(), before);
    s.queue("more", 0);
    assert_eq!(cx.reopen(&s).run("more")["status"], "queued");
}
