//! Batches: many commands in one step.

use serde_json::{Value, json};

use crate::Context;
use crate::check::{Caller, absent, ex, request, short, t};

fn batch(s: &Caller, commands: Vec<Value>) -> Value {
    s.ok("batch", json!({"commands": commands}))["results"].take()
}

fn queue(id: &str) -> Value {
    request("runs.queue", json!({"id": id}))
}

pub(crate) fn later_commands_see_earlier_ones(cx: &Context<'_>) {
    let s = cx.open();
    let results = batch(
        &s,
        vec![
            request("runs.queue", json!({"id": "r1", "input": {"v": 1}})),
            request("runs.claim", json!({"execution": ex("tok-a", 60)})),
            request("nodes.start", json!({"id": "n1", "nodeType": "agent", "executionToken": "tok-a"})),
            request("agents.create", json!({"nodeRunId": "n1"})),
            request("agents.claim", json!({"execution": ex("g", 60)})),
            request("agents.finish", json!({"nodeRunId": "n1", "executionToken": "g"})),
            request("nodes.finish", json!({"id": "n1", "executionToken": "tok-a"})),
            request("runs.finish", json!({"id": "r1", "executionToken": "tok-a"})),
            request("runs.purge", json!({"finishedBefore": t(0)})),
        ],
    );
    let statuses: Vec<&Value> = results.as_array().unwrap().iter().map(|result| &result["status"]).collect();
    assert_eq!(
        statuses[..8],
        ["queued", "running", "running", "queued", "running", "succeeded", "succeeded", "succeeded"]
            .map(Value::from)
            .iter()
            .collect::<Vec<_>>()
    );
    assert_eq!(results[1]["input"], json!({"v": 1}));
    assert_eq!(results[8], json!({"runs": 0, "nodes": 0, "agents": 0, "hasMore": false}));
    assert_eq!((s.run("r1"), s.node_run("n1"), s.agent_run("n1")), (results[7].clone(), results[6].clone(), results[5].clone()));
}

pub(crate) fn two_claims_of_one_batch_get_two_runs(cx: &Context<'_>) {
    let s = cx.open();
    s.queue("r1", 0);
    let claim = |token: &str| request("runs.claim", json!({"execution": ex(token, 60)}));
    let results = batch(&s, vec![claim("t1"), queue("r2"), claim("t2"), claim("t3")]);
    assert_eq!((&results[0]["id"], &results[2]["id"], &results[3]), (&json!("r1"), &json!("r2"), &Value::Null));
}

/// The other commands need less of a record than the claim answers.
pub(crate) fn a_claim_is_whole_whatever_else_of_its_batch_names_what_is_claimed(cx: &Context<'_>) {
    let s = cx.open();
    s.ok("runs.queue", json!({"id": "r1", "input": {"v": 1}, "source": [2]}));
    let results = batch(
        &s,
        vec![
            request("runs.claim", json!({"execution": ex("tok-a", 60)})),
            request("nodes.start", json!({"id": "n1", "nodeType": "agent", "executionToken": "tok-a", "answer": "state"})),
            request("agents.create", json!({"nodeRunId": "n1", "prompt": "do it", "answer": "state"})),
        ],
    );
    assert_eq!((&results[0]["input"], &results[0]["source"]), (&json!({"v": 1}), &json!([2])));
    let results = batch(
        &s,
        vec![
            request("agents.claim", json!({"execution": ex("g", 60)})),
            request("agents.finish", json!({"nodeRunId": "n1", "executionToken": "g", "answer": "state"})),
        ],
    );
    assert_eq!((&results[0]["prompt"], &results[1]["status"]), (&json!("do it"), &json!("succeeded")));
}

pub(crate) fn a_purge_takes_the_whole_tree_of_a_run_that_its_batch_ends(cx: &Context<'_>) {
    let s = cx.open();
    s.start_owned("r1", "tok-a");
    s.ok("nodes.start", json!({"id": "n1", "nodeType": "agent", "executionToken": "tok-a"}));
    s.ok("agents.create", json!({"nodeRunId": "n1"}));
    let results = batch(
        &s,
        vec![
            request("runs.finish", json!({"id": "r1", "executionToken": "tok-a", "finishedAt": t(5)})),
            request("runs.purge", json!({"finishedBefore": t(10)})),
        ],
    );
    assert_eq!(results[1], json!({"runs": 1, "nodes": 1, "agents": 1, "hasMore": false}));
    assert_eq!(s.ok("nodes.get", json!({"id": "n1"})), Value::Null);
    assert_eq!(s.ok("store.verify", json!({}))["ok"], json!(true));
}

/// What is first in the queue when the batch begins is gone when the claim comes, with the run that it was under.
pub(crate) fn a_claim_passes_over_agents_whose_runs_its_batch_takes_away(cx: &Context<'_>) {
    let s = cx.open();
    let claim = |token: &str| request("agents.claim", json!({"execution": ex(token, 60)}));
    let cancel = |id: &str| request("runs.cancel", json!({"id": id}));
    let finish = |id: &str| request("runs.finish", json!({"id": id, "executionToken": "tok-a", "finishedAt": t(5)}));
    let delete = |id: &str| request("runs.delete", json!({"id": id}));
    let purge = request("runs.purge", json!({"finishedBefore": t(10)}));
    let with_agent = |id: &str| {
        s.start_owned(id, "tok-a");
        s.ok("nodes.start", json!({"id": id, "workflowRunId": id, "nodeType": "agent", "executionToken": "tok-a"}));
        s.ok("agents.create", json!({"nodeRunId": id}));
    };
    with_agent("cancelled");
    assert_eq!(batch(&s, vec![cancel("cancelled"), claim("g")])[1], Value::Null);
    with_agent("deleted");
    assert_eq!(batch(&s, vec![finish("deleted"), delete("deleted"), claim("g")])[2], Value::Null);
    with_agent("purged");
    assert_eq!(batch(&s, vec![finish("purged"), purge.clone(), claim("g")])[2], Value::Null);
    with_agent("ended");
    s.ok("runs.finish", json!({"id": "ended", "executionToken": "tok-a", "finishedAt": t(5)}));
    assert_eq!(batch(&s, vec![purge, claim("g")])[1], Value::Null);
    let many: Vec<String> = (0..30).map(|n| format!("r{n:02}")).collect();
    many.iter().for_each(|id| with_agent(id));
    let mut commands: Vec<Value> = many[..28].iter().map(|id| cancel(id)).collect();
    commands.extend([claim("g1"), claim("g2"), claim("g3")]);
    let results = batch(&s, commands);
    assert_eq!((&results[28]["nodeRunId"], &results[29]["nodeRunId"], &results[30]), (&json!("r28"), &json!("r29"), &Value::Null));
}

pub(crate) fn a_refused_command_undoes_the_whole_batch(cx: &Context<'_>) {
    let s = cx.open();
    s.start_owned("r1", "tok-a");
    s.node_for_owner("n1", "tok-a");
    s.queue("r2", 3);
    s.start("ended", 0);
    s.finish("ended", "failed");
    let before = s.everything();
    let commands = vec![
        queue("new"),
        request("runs.claim", json!({"execution": ex("t", 60)})),
        request("agents.create", json!({"nodeRunId": "n1"})),
        request("agents.claim", json!({"execution": ex("g", 60)})),
        request("nodes.finish", json!({"id": "n1", "output": {"o": 1}, "executionToken": "tok-a"})),
        request("runs.delete", json!({"id": "ended"})),
        request("runs.cancel", json!({"id": "r1"})),
        request("runs.purge", json!({"finishedBefore": t(1000)})),
        request("runs.finish", json!({"id": "nope"})),
    ];
    s.refused("not_found", "batch", json!({"commands": commands})).of("run", "nope").index(8);
    assert_eq!(s.everything(), before);
    assert!(s.agent_run("n1").is_null());
    s.verify();
    // What the batch had taken is free again.
    assert_eq!(s.ok("runs.claim", json!({"execution": ex("t", 60)}))["id"], "r2");
    s.queue("new", 9);
    s.ok("runs.delete", json!({"id": "ended"}));
}

pub(crate) fn a_batch_undone_after_many_changes_leaves_nothing(cx: &Context<'_>) {
    let s = cx.open();
    for n in 0..20 {
        s.queue(&format!("old-{n}"), n);
    }
    let before = s.everything();
    let mut commands: Vec<Value> = Vec::new();
    for n in 0..249 {
        let id = format!("r{n}");
        commands.push(request("runs.start", json!({"id": id, "workflowId": format!("wf-{}", n % 7), "input": "x".repeat(1500)})));
        commands.push(request("nodes.start", json!({"id": id, "workflowRunId": id, "workflowId": format!("wf-{}", n % 7)})));
        commands.push(request("runs.wait", json!({"id": id})));
        commands.push(request("runs.cancel", json!({"id": id})));
    }
    commands.push(request("runs.purge", json!({"finishedBefore": "9999-01-01T00:00:00Z"})));
    commands.push(queue("old-3"));
    s.refused("already_exists", "batch", json!({"commands": commands})).of("run", "old-3").index(997);
    assert_eq!(s.everything(), before);
    assert_eq!(s.counts(), [20, 0, 0]);
}

pub(crate) fn each_refusal_has_its_own_details_and_its_index(cx: &Context<'_>) {
    let s = cx.open();
    s.start_owned("r1", "tok-a");
    let refused = |code: &str, op: &str, fields: Value| s.refused(code, "batch", json!({"commands": [queue("new"), request(op, fields)]}));
    refused("already_exists", "runs.queue", json!({"id": "r1"})).of("run", "r1").index(1);
    refused("already_exists", "runs.queue", json!({"id": "new"})).of("run", "new").index(1);
    refused("invalid_transition", "runs.resume", json!({"id": "r1"})).of("run", "r1").status("running").index(1);
    refused("stale_token", "runs.wait", json!({"id": "r1"})).of("run", "r1").index(1);
    refused("workflow_mismatch", "runs.start", json!({"id": "new", "workflowId": "wf-b"})).of("run", "new").index(1);
    refused("lease_active", "runs.reclaim", json!({"id": "r1", "execution": ex("t", 9), "leaseExpiredBy": t(0)})).of("run", "r1").index(1);
    refused("not_found", "agents.cancel", json!({"nodeRunId": "n1"})).of("agent", "n1").index(1);
    assert_eq!(s.counts(), [1, 0, 0]);
}

pub(crate) fn the_shape_of_all_comes_before_the_first_change(cx: &Context<'_>) {
    let s = cx.open_with(&[("max_payload_bytes", "100")]);
    s.start("r1", 0);
    // The first command would be refused; the shape of the last one is the answer.
    let refused = |code: &str, bad: Value| s.refused(code, "batch", json!({"commands": [queue("r1"), queue("r2"), bad]}));
    refused("invalid_input", request("runs.queue", json!({"id": ""}))).field("id").index(2);
    refused("invalid_input", request("runs.start", json!({"id": "r3", "execution": {"token": "t"}})))
        .field("execution.queueLeaseExpiresAt")
        .index(2);
    refused("invalid_input", request("runs.queue", json!({"id": "r3", "colour": 1}))).field("colour").index(2);
    refused("invalid_input", request("runs.queue", json!({"id": "r3", "queuedAt": "soon"}))).field("queuedAt").index(2);
    refused("too_large", request("runs.queue", json!({"id": "r3", "input": "x".repeat(99)}))).field("input").sizes(101, 100).index(2);
    assert_eq!(s.counts(), [1, 0, 0]);
}

pub(crate) fn no_batch_and_no_query_in_a_batch(cx: &Context<'_>) {
    let s = cx.open();
    let inner = json!({"op": "batch", "commands": [queue("r1")]});
    let queries = [
        request("runs.get", json!({"id": "r1"})),
        request("runs.list", json!({})),
        json!({"op": "store.info"}),
        json!({"op": "store.compact"}),
    ];
    let more = [json!({"op": "runs.nope"}), json!({"op": 5}), json!({"op": null}), json!({})];
    for bad in [inner].into_iter().chain(queries).chain(more) {
        s.refused("invalid_input", "batch", json!({"commands": [queue("r1"), bad]})).field("op").index(1);
    }
    for bad in [json!(5), json!("runs.queue"), json!(null), json!([])] {
        s.refused("invalid_input", "batch", json!({"commands": [queue("r1"), bad]})).index(1);
    }
    assert_eq!(s.counts(), [0, 0, 0]);
}

pub(crate) fn a_batch_has_1_to_1000_commands(cx: &Context<'_>) {
    let s = cx.open();
    let queues = |count: usize| (0..count).map(|n| queue(&format!("r{n}"))).collect::<Vec<Value>>();
    for bad in [json!([]), json!(queues(1001)), json!({}), json!(5), json!(null), absent()] {
        let refusal = s.refused("invalid_input", "batch", json!({"commands": bad}));
        refusal.field("commands");
        assert!(refusal.at("index").is_null(), "{refusal}");
    }
    assert_eq!(s.counts(), [0, 0, 0]);
    assert_eq!(batch(&s, queues(1000)).as_array().unwrap().len(), 1000);
    assert_eq!(batch(&s, vec![queue("one")]).as_array().unwrap().len(), 1);
    s.invalid("answer", "batch", json!({"commands": [queue("two")], "answer": "state"}));
    s.invalid("projectId", "batch", json!({"commands": [queue("two")], "projectId": "shop"}));
}

pub(crate) fn the_clock_is_read_once_for_a_batch(cx: &Context<'_>) {
    if !cx.has_clock() {
        return;
    }
    let s = cx.open();
    s.clock().advance_us(1_234_567);
    let results = batch(
        &s,
        vec![
            request("runs.queue", json!({"id": "r1", "queuedAt": absent()})),
            request("runs.start", json!({"id": "r2", "startedAt": absent()})),
            request("nodes.start", json!({"id": "n1", "workflowRunId": "r2", "startedAt": absent()})),
            request("runs.finish", json!({"id": "r2", "finishedAt": absent()})),
        ],
    );
    let at = json!("2026-01-05T10:00:01.234567Z");
    assert_eq!(
        (&results[0]["queuedAt"], &results[1]["startedAt"], &results[2]["startedAt"], &results[3]["finishedAt"]),
        (&at, &at, &at, &at)
    );
}

pub(crate) fn without_a_manual_clock_too_all_times_of_a_batch_are_equal(cx: &Context<'_>) {
    let s = cx.open_at(cx.place(), crate::Options::new());
    let commands = (0..50).map(|n| request("runs.queue", json!({"id": format!("r{n}"), "queuedAt": absent()}))).collect();
    let results = batch(&s, commands);
    let first = &results[0]["queuedAt"];
    assert!(results.as_array().unwrap().iter().all(|run| run["queuedAt"] == *first), "{}", short(&results.to_string()));
}

pub(crate) fn a_batch_spans_projects(cx: &Context<'_>) {
    let s = cx.open();
    s.ok("runs.queue", json!({"projectId": "p2", "id": "taken"}));
    let in_project = |project: &str, id: &str| request("runs.queue", json!({"projectId": project, "id": id}));
    let refusal = s.refused(
        "already_exists",
        "batch",
        json!({"commands": [in_project("p1", "r1"), in_project("p3", "r1"), in_project("p2", "taken")]}),
    );
    assert_eq!((refusal.at("projectId"), refusal.at("index")), (&json!("p2"), &json!(2)));
    assert_eq!(s.ids("projects.list", json!({})), ["p2"]);
    batch(&s, vec![in_project("p1", "r1"), in_project("p3", "r1"), in_project("p2", "r1")]);
    assert_eq!(s.ok("projects.list", json!({}))["projects"][1], json!({"projectId": "p2", "runs": 2}));
}

pub(crate) fn commands_of_a_batch_choose_their_answers(cx: &Context<'_>) {
    let s = cx.open();
    let results = batch(&s, vec![request("runs.queue", json!({"id": "r1", "answer": "state"})), queue("r2")]);
    assert!(results[0].get("input").is_none() && results[1].get("input").is_some(), "{results}");
    assert_eq!(s.run("r1")["input"], json!({}));
}

pub(crate) fn a_delete_and_a_new_start_of_one_id_in_a_batch(cx: &Context<'_>) {
    let s = cx.open();
    s.start("r1", 0);
    s.node("n1", "r1");
    s.agent("n1");
    s.finish("r1", "failed");
    let results = batch(
        &s,
        vec![
            request("runs.delete", json!({"id": "r1"})),
            request("runs.start", json!({"id": "r1", "input": {"new": true}})),
            request("nodes.start", json!({"id": "n1", "nodeType": "agent"})),
        ],
    );
    assert_eq!(results[0], json!({"runs": 1, "nodes": 1, "agents": 1}));
    assert_eq!((&s.run("r1")["input"], s.agent_run("n1")), (&json!({"new": true}), Value::Null));
    assert_eq!(s.counts(), [1, 1, 0]);
}
