//! Lists: what a filter lets through, and in which order.

use serde_json::{Value, json};

use crate::Context;
use crate::check::{Caller, ex, has, merged, rows, t};

/// The ids of the rows, reading the oldest first.
fn asc(s: &Caller, op: &str, fields: Value) -> Vec<String> {
    s.ids(op, merged(json!({"order": "asc"}), fields))
}

pub(crate) fn time_comes_first_and_the_id_decides_ties(cx: &Context<'_>) {
    let s = cx.open();
    for (n, id) in ["z-older", "m-mid", "a-younger"].iter().enumerate() {
        s.start(id, n as i64);
    }
    assert_eq!(s.ids("runs.list", json!({})), ["a-younger", "m-mid", "z-older"]);
    assert_eq!(asc(&s, "runs.list", json!({"startedAfter": t(1)})), ["m-mid", "a-younger"]);
}

pub(crate) fn ties_sort_by_the_bytes_of_the_id(cx: &Context<'_>) {
    let s = cx.open();
    let ids = ["10", "9", "A", "B", "a", "a\u{1}", "a ", "aa", "b", "z", "\u{e9}", "\u{4e2d}", "\u{ffff}", "\u{10000}"];
    for id in ids.iter().rev() {
        s.start(id, 0);
        s.node(id, id);
        s.agent(id);
    }
    for op in ["runs.list", "nodes.list", "agents.list"] {
        assert_eq!(asc(&s, op, json!({})), ids, "{op}");
        let mut desc = s.ids(op, json!({}));
        desc.reverse();
        assert_eq!(desc, ids, "{op}");
    }
}

pub(crate) fn node_runs_sort_by_time_then_index_then_id(cx: &Context<'_>) {
    let s = cx.open();
    s.start("r1", 0);
    let rows = [("d", 2, 0), ("a", 10, 0), ("c", 9, 0), ("b", 10, 0), ("e", 0, 1), ("f", 4_294_967_295_u32, -1), ("g", 256, -1)];
    for (id, index, at) in rows {
        s.ok("nodes.start", json!({"id": id, "nodeIndex": index, "startedAt": t(at)}));
    }
    let want = ["g", "f", "d", "c", "a", "b", "e"];
    assert_eq!(asc(&s, "nodes.list", json!({})), want);
    assert_eq!(asc(&s, "nodes.list", json!({"workflowRunId": "r1"})), want);
    let mut desc = s.ids("nodes.list", json!({"workflowRunId": "r1"}));
    desc.reverse();
    assert_eq!(desc, want);
}

pub(crate) fn runs_sort_by_their_start_once_they_started(cx: &Context<'_>) {
    let s = cx.open();
    s.queue("r1", 0);
    s.queue("r2", 10);
    s.start("r1", 100);
    assert_eq!(s.ids("runs.list", json!({})), ["r1", "r2"]);
    assert_eq!(s.ids("runs.list", json!({"startedAfter": t(50)})), ["r1"]);
    s.ok("runs.claim", json!({"execution": ex("t", 60), "startedAt": t(200)}));
    assert_eq!(s.ids("runs.list", json!({})), ["r2", "r1"]);
}

/// Runs in every status of three workflows, a second apart; the ids are `{workflow}-{status}`.
fn filled(s: &Caller) {
    let mut at = 0;
    for workflow in ["wf-a", "wf-b", "wf-c"] {
        for status in ["queued", "running", "waiting", "succeeded", "failed", "cancelled"] {
            let id = format!("{workflow}-{status}");
            let op = if status == "queued" { "runs.queue" } else { "runs.start" };
            let time = if status == "queued" { "queuedAt" } else { "startedAt" };
            s.ok(op, json!({"id": id, "workflowId": workflow, time: t(at)}));
            match status {
                "queued" | "running" => {}
                "waiting" => drop(s.ok("runs.wait", json!({"id": id}))),
                ended => drop(s.finish(&id, ended)),
            }
            at += 1;
        }
    }
    s.ok("runs.start", json!({"projectId": "shop2", "id": "wf-a-running"}));
}

pub(crate) fn each_filter_of_runs_alone(cx: &Context<'_>) {
    let s = cx.open();
    filled(&s);
    let list = |fields: Value| asc(&s, "runs.list", fields);
    assert_eq!(list(json!({})).len(), 18);
    for status in ["queued", "running", "waiting", "succeeded", "failed", "cancelled"] {
        let want: Vec<String> = ["wf-a", "wf-b", "wf-c"].iter().map(|workflow| format!("{workflow}-{status}")).collect();
        assert_eq!(list(json!({"statuses": [status]})), want);
    }
    assert_eq!(list(json!({"workflowId": "wf-b"})).len(), 6);
    assert!(list(json!({"workflowId": "wf-b"})).iter().all(|id| id.starts_with("wf-b-")));
    assert_eq!(list(json!({"workflowIds": ["wf-c", "wf-a"]})).len(), 12);
    assert_eq!(list(json!({"startedAfter": t(16)})), ["wf-c-failed", "wf-c-cancelled"]);
    assert_eq!(list(json!({"startedBefore": t(1)})), ["wf-a-queued", "wf-a-running"]);
    assert_eq!(list(json!({"startedAfter": t(3), "startedBefore": t(3)})), ["wf-a-succeeded"]);
    assert_eq!(list(json!({"startedAfter": t(4), "startedBefore": t(3)})), [""; 0]);
}

pub(crate) fn filters_of_runs_are_joined_by_and(cx: &Context<'_>) {
    let s = cx.open();
    filled(&s);
    let list = |fields: Value| {
        let page = s.ok("runs.list", merged(json!({"order": "asc"}), fields));
        let ids = rows("runs.list", &page);
        assert_eq!(page["total"], ids.len(), "{page}");
        ids
    };
    assert_eq!(list(json!({"workflowId": "wf-b", "statuses": ["failed", "queued"]})), ["wf-b-queued", "wf-b-failed"]);
    assert_eq!(list(json!({"workflowId": "wf-b", "workflowIds": ["wf-a", "wf-b"]})).len(), 6);
    assert_eq!(list(json!({"workflowId": "wf-b", "workflowIds": ["wf-a", "wf-c"]})), [""; 0]);
    let all =
        json!({"workflowIds": ["wf-c", "wf-a"], "statuses": ["failed", "waiting", "queued"], "startedAfter": t(1), "startedBefore": t(14)});
    assert_eq!(list(all), ["wf-a-waiting", "wf-a-failed", "wf-c-queued", "wf-c-waiting"]);
    assert_eq!(list(json!({"statuses": ["running"], "startedAfter": t(2), "startedBefore": t(7)})), ["wf-b-running"]);
}

pub(crate) fn each_filter_of_node_runs_alone_and_joined(cx: &Context<'_>) {
    let s = cx.open();
    s.start("r1", 0);
    s.ok("runs.start", json!({"id": "r2", "workflowId": "wf-b"}));
    let rows = [
        ("n1", "r1", "wf-a", "task", "fetch", "main.fetch", 0),
        ("n2", "r1", "wf-a", "agent", "think", "main.think", 1),
        ("n3", "r2", "wf-b", "task", "fetch", "sub.fetch", 2),
        ("n4", "r2", "wf-b", "agent", "think", "main.think", 3),
    ];
    for (id, run, workflow, kind, node, key, at) in rows {
        let fields = json!({
            "id": id, "workflowRunId": run, "workflowId": workflow, "nodeType": kind, "nodeId": node, "nodeKey": key, "startedAt": t(at),
        });
        s.ok("nodes.start", fields);
    }
    s.ok("nodes.wait", json!({"id": "n2"}));
    s.ok("nodes.finish", json!({"id": "n3", "status": "failed"}));
    let list = |fields: Value| asc(&s, "nodes.list", fields);
    assert_eq!(list(json!({"workflowRunId": "r1"})), ["n1", "n2"]);
    assert_eq!(list(json!({"workflowRunId": "nope"})), [""; 0]);
    assert_eq!(list(json!({"workflowId": "wf-b"})), ["n3", "n4"]);
    assert_eq!(list(json!({"nodeType": "agent"})), ["n2", "n4"]);
    assert_eq!(list(json!({"nodeId": "fetch"})), ["n1", "n3"]);
    assert_eq!(list(json!({"nodeKey": "main.think"})), ["n2", "n4"]);
    assert_eq!(list(json!({"statuses": ["waiting", "failed"]})), ["n2", "n3"]);
    assert_eq!(list(json!({"startedAfter": t(1), "startedBefore": t(2)})), ["n2", "n3"]);
    assert_eq!(list(json!({"workflowRunId": "r2", "workflowId": "wf-a"})), [""; 0]);
    assert_eq!(list(json!({"workflowRunId": "r2", "statuses": ["running"], "nodeType": "agent", "nodeKey": "main.think"})), ["n4"]);
    assert_eq!(list(json!({"workflowRunId": "r2", "startedBefore": t(2)})), ["n3"]);
}

pub(crate) fn each_filter_of_agent_runs_alone_and_joined(cx: &Context<'_>) {
    let s = cx.open();
    s.start("r1", 0);
    for (n, (agent, status)) in
        [("g1", "queued"), ("g2", "running"), ("g1", "failed"), ("g2", "queued"), ("g1", "running")].iter().enumerate()
    {
        let node = format!("n{n}");
        s.node(&node, "r1");
        s.ok("agents.create", json!({"nodeRunId": node, "agentId": agent, "createdAt": t(n as i64)}));
        if *status != "queued" {
            s.start_agent(&node, "t");
        }
        if *status == "failed" {
            s.ok("agents.finish", json!({"nodeRunId": node, "executionToken": "t", "status": "failed"}));
        }
    }
    let list = |fields: Value| {
        let page = s.ok("agents.list", merged(json!({"order": "asc"}), fields));
        let ids = rows("agents.list", &page);
        assert_eq!(page["total"], ids.len(), "{page}");
        ids
    };
    assert_eq!(list(json!({})), ["n0", "n1", "n2", "n3", "n4"]);
    assert_eq!(list(json!({"agentId": "g1"})), ["n0", "n2", "n4"]);
    assert_eq!(list(json!({"statuses": ["queued"]})), ["n0", "n3"]);
    assert_eq!(list(json!({"statuses": ["failed", "running"]})), ["n1", "n2", "n4"]);
    assert_eq!(list(json!({"createdAfter": t(1), "createdBefore": t(3)})), ["n1", "n2", "n3"]);
    assert_eq!(list(json!({"agentId": "g1", "statuses": ["running", "queued"], "createdAfter": t(1)})), ["n4"]);
    assert_eq!(list(json!({"agentId": "g3"})), [""; 0]);
    assert_eq!(list(json!({"agentId": "g2", "createdBefore": t(2)})), ["n1"]);
}

pub(crate) fn empty_lists_match_nothing(cx: &Context<'_>) {
    let s = cx.open();
    for n in 0..5 {
        s.start(&format!("r{n}"), 0);
        s.node(&format!("n{n}"), &format!("r{n}"));
        s.agent(&format!("n{n}"));
    }
    for (op, name, field) in [
        ("runs.list", "runs", "workflowIds"),
        ("runs.list", "runs", "statuses"),
        ("nodes.list", "nodes", "statuses"),
        ("agents.list", "agents", "statuses"),
    ] {
        assert_eq!(s.ok(op, json!({field: []})), json!({name: [], "total": 0, "hasMore": false}), "{op} {field}");
        assert_eq!(s.ok(op, json!({field: [], "withTotal": false})), json!({name: [], "hasMore": false}), "{op} {field}");
    }
    assert_eq!(s.ok("runs.latest", json!({"workflowIds": []})), json!({"runs": []}));
    assert_eq!(s.ok("runs.stats", json!({"workflowIds": []}))["total"], 0);
    assert_eq!(s.ok("runs.list", json!({"workflowIds": null, "statuses": null}))["total"], 5);
}

pub(crate) fn repeats_in_a_list_count_once(cx: &Context<'_>) {
    let s = cx.open();
    s.start("r1", 0);
    s.start("r2", 1);
    let page = s.ok("runs.list", json!({"workflowIds": ["wf-a", "wf-a"], "statuses": ["running", "queued", "running"]}));
    assert_eq!((rows("runs.list", &page), &page["total"]), (vec!["r2".into(), "r1".into()], &json!(2)));
    assert_eq!(s.ok("runs.stats", json!({"workflowIds": ["wf-a", "wf-a"]}))["total"], 2);
}

pub(crate) fn lists_of_many_values(cx: &Context<'_>) {
    let s = cx.open();
    for n in 1..=3 {
        s.ok("runs.start", json!({"id": format!("r{n}"), "workflowId": format!("wf-{n}"), "startedAt": t(n)}));
    }
    for count in [40_000, 100_000] {
        let mut ids: Vec<String> = (0..count).map(|n| format!("x-{n}")).collect();
        for (at, workflow) in [(5, "wf-3"), (count / 2, "wf-1"), (count - 1, "wf-2")] {
            ids[at] = workflow.into();
        }
        let page = s.ok("runs.list", json!({"workflowIds": ids, "limit": 2}));
        assert_eq!((rows("runs.list", &page), &page["total"], &page["hasMore"]), (vec!["r3".into(), "r2".into()], &json!(3), &json!(true)));
        assert_eq!(s.ids("runs.latest", json!({"workflowIds": ids})), ["r3", "r1", "r2"]);
        assert_eq!(s.ok("runs.stats", json!({"workflowIds": ids}))["total"], 3);
        let filtered = s.ok("runs.list", json!({"workflowIds": ids, "statuses": ["running"], "startedAfter": t(2), "order": "asc"}));
        assert_eq!((rows("runs.list", &filtered), &filtered["total"]), (vec!["r2".into(), "r3".into()], &json!(2)));
    }
}

pub(crate) fn lists_of_more_than_100000_values_are_invalid(cx: &Context<'_>) {
    let s = cx.open();
    let ids = vec!["x"; 100_001];
    for op in ["runs.list", "runs.latest", "runs.stats"] {
        s.invalid("workflowIds", op, json!({"workflowIds": ids}));
    }
    s.invalid("workflowIds", "runs.claim", json!({"workflowIds": ids, "execution": ex("t", 60)}));
    s.invalid("agentIds", "agents.claim", json!({"agentIds": ids, "execution": ex("t", 60)}));
    s.invalid("workflowIds", "runs.purge", json!({"workflowIds": ids, "finishedBefore": t(0)}));
    s.invalid("statuses", "runs.list", json!({"statuses": vec!["failed"; 100_001]}));
    s.ok("runs.list", json!({"statuses": vec!["failed"; 100_000]}));
}

pub(crate) fn a_status_that_the_entity_does_not_have_is_invalid(cx: &Context<'_>) {
    let s = cx.open();
    for (op, statuses) in
        [("runs.list", ["done", "RUNNING", ""]), ("nodes.list", ["queued", "done", ""]), ("agents.list", ["waiting", "done", ""])]
    {
        for status in statuses {
            s.invalid("statuses", op, json!({"statuses": [status]}));
            s.invalid("statuses", op, json!({"statuses": ["running", status]}));
        }
        s.invalid("statuses", op, json!({"statuses": "running"}));
        s.invalid("statuses", op, json!({"statuses": [null]}));
    }
}

pub(crate) fn filters_are_plain_equality(cx: &Context<'_>) {
    let s = cx.open();
    for (n, workflow) in ["john_doe", "john-doe", "johnXdoe", "%", "a%"].iter().enumerate() {
        s.ok("runs.start", json!({"id": format!("r{n}"), "workflowId": workflow}));
    }
    for (workflow, want) in
        [("john_doe", vec!["r0"]), ("%", vec!["r3"]), ("a%", vec!["r4"]), ("_", vec![]), ("*", vec![]), ("JOHN_DOE", vec![])]
    {
        assert_eq!(s.ids("runs.list", json!({"workflowId": workflow})), want);
        assert_eq!(s.ids("runs.list", json!({"workflowIds": [workflow]})), want);
        assert_eq!(s.ids("runs.latest", json!({"workflowIds": [workflow]})), want);
    }
}

pub(crate) fn projects_never_see_each_other(cx: &Context<'_>) {
    let s = cx.open();
    for project in ["foo", "foobar"] {
        for (id, workflow) in [("r1", "wf"), ("r1x", "wf2")] {
            s.ok("runs.start", json!({"projectId": project, "id": id, "workflowId": workflow, "input": {"p": project}}));
            let node = json!({"projectId": project, "id": id, "workflowRunId": id, "workflowId": workflow, "nodeType": "agent"});
            s.ok("nodes.start", node);
            s.ok("agents.create", json!({"projectId": project, "nodeRunId": id, "prompt": project}));
        }
    }
    let page = s.ok("runs.list", json!({"projectId": "foo", "workflowId": "wf"}));
    assert_eq!((&page["total"], &page["runs"][0]["input"]), (&json!(1), &json!({"p": "foo"})));
    let latest = s.ok("runs.latest", json!({"projectId": "foo", "workflowIds": ["wf"]}));
    assert_eq!((latest["runs"].as_array().unwrap().len(), &latest["runs"][0]["input"]), (1, &json!({"p": "foo"})));
    for op in ["runs.list", "nodes.list", "agents.list"] {
        let page = s.ok(op, json!({"projectId": "foo"}));
        let name = op.split('.').next().unwrap();
        assert_eq!(page["total"], 2, "{op}");
        assert!(page[name].as_array().unwrap().iter().all(|row| row["projectId"] == "foo"), "{page}");
        assert_eq!(s.ok(op, json!({"projectId": "fo"})), json!({name: [], "total": 0, "hasMore": false}));
    }
    assert_eq!(s.ids("nodes.list", json!({"projectId": "foo", "workflowRunId": "r1"})), ["r1"]);
    assert_eq!(s.ok("agents.get", json!({"projectId": "foo", "nodeRunId": "r1"}))["prompt"], "foo");
}

pub(crate) fn an_empty_or_overlong_filter_is_invalid(cx: &Context<'_>) {
    let s = cx.open();
    s.start("r1", 0);
    for bad in [String::new(), "x".repeat(513), "w\0x".into()] {
        s.invalid("workflowId", "runs.list", json!({"workflowId": bad}));
        s.invalid("workflowIds", "runs.list", json!({"workflowIds": ["wf-a", bad]}));
        s.invalid("projectId", "runs.list", json!({"projectId": bad}));
        for field in ["workflowRunId", "workflowId", "nodeType", "nodeId", "nodeKey"] {
            s.invalid(field, "nodes.list", json!({field: bad}));
        }
        s.invalid("agentId", "agents.list", json!({"agentId": bad}));
        s.invalid("agentIds", "agents.claim", json!({"agentIds": [bad], "execution": ex("t", 60)}));
        s.invalid("workflowIds", "runs.latest", json!({"workflowIds": [bad]}));
        s.invalid("projectId", "runs.expired", json!({"projectId": bad, "expiredBy": t(0)}));
    }
}

pub(crate) fn lists_answer_whole_records(cx: &Context<'_>) {
    let s = cx.open();
    s.ok("runs.start", json!({"id": "r1", "input": {"big": "x".repeat(5000)}, "source": [1], "execution": ex("tok-a", 60)}));
    s.node_for_owner("n1", "tok-a");
    s.agent("n1");
    s.ok("agents.start", json!({"nodeRunId": "n1", "execution": ex("g", 60)}));
    s.ok("agents.finish", json!({"nodeRunId": "n1", "executionToken": "g", "usage": {"in": 1}, "trace": ["y".repeat(5000)]}));
    s.ok("nodes.finish", json!({"id": "n1", "output": {"o": "z".repeat(5000)}, "executionToken": "tok-a"}));
    s.ok("runs.finish", json!({"id": "r1", "output": 5, "executionToken": "tok-a"}));
    assert_eq!(s.ok("runs.list", json!({}))["runs"], json!([s.run("r1")]));
    assert_eq!(s.ok("runs.latest", json!({"workflowIds": ["wf-a"]}))["runs"], json!([s.run("r1")]));
    assert_eq!(s.ok("nodes.list", json!({}))["nodes"], json!([s.node_run("n1")]));
    assert_eq!(s.ok("agents.list", json!({}))["agents"], json!([s.agent_run("n1")]));
    assert!(has(&s.run("r1"), "output") && has(&s.node_run("n1"), "output") && has(&s.agent_run("n1"), "trace"));
}
