//! Export, import, snapshot and restore.

use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};

use crate::Context;
use crate::check::{Caller, ended, ex, lines, request, stream_of, t};

/// A store with every kind of record in every status, over two projects.
fn filled(cx: &Context<'_>) -> Caller {
    let s = cx.open();
    for status in ["queued", "running", "waiting", "succeeded", "failed", "cancelled"] {
        s.run_in(status, &format!("run-{status}"));
    }
    s.ok("runs.start", json!({"id": "owned", "execution": ex("tok-a", 60), "source": {"s": 1}, "workflowId": "wf-b"}));
    for status in ["running", "waiting", "succeeded", "failed", "cancelled"] {
        s.node_in(status, &format!("node-{status}"), "run-running");
    }
    for status in ["queued", "running", "succeeded", "failed", "cancelled"] {
        s.agent_in(status, &format!("agent-{status}"), "run-running");
    }
    s.ok("runs.start", json!({"projectId": "a", "id": "z"}));
    s.ok_raw("runs.finish", json!({"projectId": "a", "id": "z"}), &[("output", r#"{"b" : 1.0, "a":[ ]}"#)]);
    s
}

fn lines_of(stream: &[u8]) -> Vec<String> {
    std::str::from_utf8(stream).unwrap().lines().map(String::from).collect()
}

/// The records of a stream, without its first and last line.
fn records_of(stream: &[u8]) -> Vec<String> {
    let lines = lines_of(stream);
    lines[1..lines.len() - 1].to_vec()
}

pub(crate) fn an_export_has_every_record_in_order_and_its_checksum(cx: &Context<'_>) {
    let s = filled(cx);
    let stream = s.export();
    assert_eq!(stream.last(), Some(&b'\n'));
    let lines = lines_of(&stream);
    assert_eq!(lines[0], r#"{"runledger":{"format":1}}"#);
    let records = records_of(&stream);
    let key = |line: &String| {
        let value: Value = serde_json::from_str(line).unwrap();
        let (kind, record) = value.as_object().unwrap().iter().next().unwrap();
        let rank = ["run", "node", "agent"].iter().position(|name| name == kind).unwrap();
        let id = record.get("id").or(record.get("nodeRunId")).unwrap();
        (rank, record["projectId"].to_string(), id.to_string())
    };
    let keys: Vec<_> = records.iter().map(key).collect();
    assert!(keys.is_sorted(), "{keys:?}");
    let counts = [0, 1, 2].map(|rank| keys.iter().filter(|key| key.0 == rank).count());
    assert_eq!(counts, [8, 10, 5]);
    let answer = s.ask("runs.get", json!({"id": "owned"}));
    assert!(records.contains(&format!(r#"{{"run":{}}}"#, &answer[6..answer.len() - 1])), "a record is written as get answers it");
    assert_eq!(stream, stream_of(&records), "the end has the counts and the checksum of all bytes before it");
}

pub(crate) fn an_empty_store_gives_an_empty_stream(cx: &Context<'_>) {
    let s = cx.open();
    assert_eq!(s.export(), stream_of(&[]));
    assert_eq!(s.import(&stream_of(&[])), json!({"runs": 0, "nodes": 0, "agents": 0, "skipped": 0}));
}

pub(crate) fn an_import_makes_an_equal_ledger(cx: &Context<'_>) {
    let (s, copy) = (filled(cx), cx.open());
    let stream = s.export();
    assert_eq!(copy.import(&stream), json!({"runs": 8, "nodes": 10, "agents": 5, "skipped": 0}));
    assert_eq!(copy.export(), stream);
    assert_eq!(copy.everything(), s.everything());
    copy.verify();
    let copy = cx.reopen(&copy);
    assert_eq!(copy.export(), stream);
    // What was imported lives on: leases, claims and transitions work.
    assert_eq!(copy.ok("runs.claim", json!({"execution": ex("t", 9)}))["id"], "run-queued");
    assert_eq!(copy.ok("agents.claim", json!({"execution": ex("t", 9)}))["nodeRunId"], "agent-queued");
    copy.ok("runs.finish", json!({"id": "owned", "executionToken": "tok-a"}));
    copy.ok("runs.cancel", json!({"id": "run-running"}));
    copy.ok("runs.purge", json!({"finishedBefore": "9999-01-01T00:00:00Z"}));
}

pub(crate) fn equal_ledgers_give_equal_streams_whatever_made_them(cx: &Context<'_>) {
    let (s, other) = (cx.open(), cx.open());
    for id in ["a", "b", "c"] {
        s.start(id, 0);
        s.node(&format!("n-{id}"), id);
    }
    other.queue("gone", 0);
    for id in ["c", "a", "b"] {
        other.start(id, 0);
    }
    for id in ["b", "c", "a"] {
        other.node(&format!("n-{id}"), id);
    }
    other.ok("runs.cancel", json!({"id": "gone"}));
    other.ok("runs.delete", json!({"id": "gone"}));
    assert_eq!(s.export(), other.export());
}

pub(crate) fn an_import_skips_equal_records(cx: &Context<'_>) {
    let s = filled(cx);
    let stream = s.export();
    assert_eq!(s.import(&stream), json!({"runs": 0, "nodes": 0, "agents": 0, "skipped": 23}));
    assert_eq!(s.export(), stream);

    let other = cx.open();
    other.ok("runs.start", json!({"projectId": "a", "id": "y"}));
    other.run_in("failed", "run-failed");
    assert_eq!(other.import(&stream), json!({"runs": 7, "nodes": 10, "agents": 5, "skipped": 1}));
    assert_eq!(other.ok("runs.list", json!({"projectId": "a"}))["total"], 2);
    assert_eq!(other.ok("runs.list", json!({}))["total"], 7);
}

pub(crate) fn a_different_record_under_the_same_key_is_a_conflict_and_leaves_nothing(cx: &Context<'_>) {
    let source = cx.open();
    source.start("a-first", 0);
    source.start("r1", 0);
    source.node("n1", "r1");
    source.agent("n1");
    let stream = source.export();
    for (change, entity, id) in [("runs.wait", "run", "r1"), ("nodes.wait", "node", "n1"), ("agents.cancel", "agent", "n1")] {
        let s = cx.open();
        s.start("r1", 0);
        s.node("n1", "r1");
        s.agent("n1");
        let fields = if change == "agents.cancel" { json!({"nodeRunId": id}) } else { json!({"id": id}) };
        s.ok(change, fields);
        let before = s.export();
        s.import_refused("conflict", &stream).of(entity, id);
        assert_eq!(s.export(), before);
        assert!(s.run("a-first").is_null());
        s.verify();
    }
}

pub(crate) fn payloads_that_differ_only_in_spelling_are_a_conflict(cx: &Context<'_>) {
    let (s, other) = (cx.open(), cx.open());
    s.ok_raw("runs.start", json!({"id": "r1"}), &[("input", r#"{"a":1}"#)]);
    other.ok_raw("runs.start", json!({"id": "r1"}), &[("input", r#"{"a":1.0}"#)]);
    other.import_refused("conflict", &s.export()).of("run", "r1");
}

pub(crate) fn a_stream_that_was_cut_short_is_corrupt(cx: &Context<'_>) {
    let stream = filled(cx).export();
    let s = cx.open();
    let mut cuts: Vec<usize> = stream.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1).collect();
    cuts.pop();
    cuts.extend([0, 1, 10, stream.len() / 2, stream.len() - 3, stream.len() - 20, stream.len() - 80]);
    for cut in cuts {
        s.import_refused("corrupt", &stream[..cut]);
    }
    assert_eq!(s.export(), stream_of(&[]));
}

pub(crate) fn a_stream_that_was_altered_is_corrupt(cx: &Context<'_>) {
    let s = filled(cx);
    let stream = s.export();
    let target = cx.open();
    for at in (30..stream.len() - 4).step_by(stream.len() / 97) {
        let mut altered = stream.clone();
        altered[at] ^= 1;
        target.import_refused("corrupt", &altered);
    }
    let text = String::from_utf8(stream.clone()).unwrap();
    target.import_refused("corrupt", text.replace("tok-a", "tok-b").as_bytes());
    let without_one: Vec<String> = lines_of(&stream).into_iter().filter(|line| !line.contains("run-queued")).collect();
    target.import_refused("corrupt", lines(&without_one).as_bytes());
    assert_eq!(target.export(), stream_of(&[]));
}

pub(crate) fn counts_and_checksum_must_both_be_right(cx: &Context<'_>) {
    let s = filled(cx);
    let stream = s.export();
    let all = lines_of(&stream);
    let before = lines(&all[..all.len() - 1]);
    let target = cx.open();
    for counts in [[9, 10, 5], [8, 9, 5], [8, 10, 6], [0, 0, 0]] {
        target.import_refused("corrupt", &ended(&before, counts));
    }
    assert_eq!(ended(&before, [8, 10, 5]), stream);
    let end = all.last().unwrap();
    for wrong in
        [end.replace("sha256\":\"", "sha256\":\"0"), end.replace(&end[end.len() - 12..], "0000000000\"}}"), "{\"end\":{}}".to_owned()]
    {
        target.import_refused("corrupt", format!("{before}{wrong}\n").as_bytes());
    }
    assert_eq!(target.export(), stream_of(&[]));
}

pub(crate) fn records_out_of_order_or_twice_are_corrupt(cx: &Context<'_>) {
    let s = filled(cx);
    let records = records_of(&s.export());
    let target = cx.open();
    let first_node = records.iter().position(|line| line.starts_with("{\"node\"")).unwrap();
    let first_agent = records.iter().position(|line| line.starts_with("{\"agent\"")).unwrap();
    for (a, b) in [
        (0, 1),
        (1, 2),
        (first_node - 1, first_node),
        (first_node, first_node + 1),
        (first_agent - 1, first_agent),
        (first_agent, first_agent + 1),
    ] {
        let mut swapped = records.clone();
        swapped.swap(a, b);
        target.import_refused("corrupt", &stream_of(&swapped));
    }
    for at in [0, first_node, first_agent] {
        let mut twice = records.clone();
        twice.insert(at, records[at].clone());
        target.import_refused("corrupt", &stream_of(&twice));
    }
    assert_eq!(target.export(), stream_of(&[]));
}

pub(crate) fn records_without_their_parent_are_corrupt(cx: &Context<'_>) {
    let s = cx.open();
    s.start("r1", 0);
    s.node("n1", "r1");
    s.agent("n1");
    let stream = s.export();
    let records = records_of(&stream);
    let target = cx.open();
    for missing in [&records[1..], &[records[0].clone(), records[2].clone()][..], &records[2..]] {
        target.import_refused("corrupt", &stream_of(missing));
        // The stream must be whole in itself, whatever the store has.
        s.import_refused("corrupt", &stream_of(missing));
    }
    let moved: Vec<String> =
        records.iter().map(|line| if line.starts_with("{\"run\"") { line.replace("shop", "other") } else { line.clone() }).collect();
    target.import_refused("corrupt", &stream_of(&moved));
    assert_eq!((target.export(), s.export()), (stream_of(&[]), stream));
}

pub(crate) fn data_after_the_end_is_corrupt(cx: &Context<'_>) {
    let stream = filled(cx).export();
    let target = cx.open();
    for more in [&b"\n"[..], b" \n", b"{}\n", b"x", b"{\"runledger\":{\"format\":1}}\n", &stream] {
        target.import_refused("corrupt", &[&stream, more].concat());
    }
    assert_eq!(target.export(), stream_of(&[]));
}

pub(crate) fn what_is_no_stream_is_corrupt(cx: &Context<'_>) {
    let s = cx.open();
    s.start("r1", 0);
    let run = records_of(&s.export()).remove(0);
    let target = cx.open();
    let header = r#"{"runledger":{"format":1}}"#;
    for head in [
        "",
        "{}",
        "[]",
        "null",
        r#"{"run":{}}"#,
        r#"{"runledger":{}}"#,
        r#"{"runledger":{"format":"1"}}"#,
        r#"{"runledger":{"format":1,"x":1}}"#,
    ] {
        target.import_refused("corrupt", &ended(&format!("{head}\n{run}\n"), [1, 0, 0]));
    }
    let twice = format!("{header}\n{header}\n{run}\n");
    target.import_refused("corrupt", &ended(&twice, [1, 0, 0]));
    for line in
        ["", "{}", "x", r#"{"thing":{}}"#, r#"{"run":5}"#, r#"{"run":{}}"#, &run.replace("wf-a", ""), &run.replace("}}", r#","x":1}}"#)]
    {
        target.import_refused("corrupt", &ended(&format!("{header}\n{line}\n"), [1, 0, 0]));
    }
    target.import_refused("corrupt", b"\xff\xfe\n");
    target.import_refused("corrupt", &[0; 100]);
    assert_eq!(target.export(), stream_of(&[]));
}

pub(crate) fn records_that_no_command_could_have_made_are_corrupt(cx: &Context<'_>) {
    let s = cx.open();
    s.queue("r1", 0);
    let queued = records_of(&s.export()).remove(0);
    s.start("r1", 0);
    s.node("n1", "r1");
    s.agent("n1");
    s.start_agent("n1", "t");
    let [run, node, agent] = &records_of(&s.export())[..] else { panic!("three records") };
    let target = cx.open();
    for bad in [
        queued.replace("\"attempt\":0", "\"attempt\":3"),
        run.replace("running", "waiting"),
        run.replace("running", "failed"),
        run.replace(
            "\"attempt\":1",
            "\"attempt\":1,\"execution\":{\"token\":\"\",\"queueLeaseExpiresAt\":\"2026-01-05T10:00:00.000000Z\"}",
        ),
        run.replace("{}", "1e400"),
    ] {
        target.import_refused("corrupt", &stream_of(&[bad]));
    }
    for bad in [node.replace("running", "queued"), node.replace("running", "succeeded")] {
        target.import_refused("corrupt", &stream_of(&[run.clone(), bad]));
    }
    for bad in [agent.replace("running", "waiting"), agent.replace("running", "queued"), agent.replace("running", "failed")] {
        target.import_refused("corrupt", &stream_of(&[run.clone(), node.clone(), bad]));
    }
    assert_eq!(target.export(), stream_of(&[]));
}

pub(crate) fn a_newer_format_is_schema_too_new(cx: &Context<'_>) {
    let s = filled(cx);
    let text = String::from_utf8(s.export()).unwrap();
    for format in ["2", "99", "4294967296"] {
        s.import_refused("schema_too_new", text.replacen("\"format\":1", &format!("\"format\":{format}"), 1).as_bytes());
        s.import_refused("schema_too_new", format!("{{\"runledger\":{{\"format\":{format}}}}}\n{{\"later\":[]}}\n").as_bytes());
    }
}

pub(crate) fn a_value_over_the_limit_is_too_large_to_import(cx: &Context<'_>) {
    let s = cx.open();
    s.ok("runs.start", json!({"id": "a", "input": 1}));
    s.ok("runs.start", json!({"id": "b", "input": "x".repeat(1000)}));
    let target = cx.open_with(&[("max_payload_bytes", "1001")]);
    target.import_refused("too_large", &s.export()).sizes(1002, 1001);
    assert_eq!(target.export(), stream_of(&[]));
    let target = cx.open_with(&[("max_payload_bytes", "1002")]);
    assert_eq!(target.import(&s.export())["runs"], 2);

    s.start("r1", 0);
    s.ok("runs.finish", json!({"id": "r1", "status": "failed", "error": "\n".repeat(1003)}));
    target.import_refused("too_large", &s.export()).sizes(1003, 1002);
}

pub(crate) fn an_attempt_never_passes_its_greatest_value(cx: &Context<'_>) {
    let s = cx.open();
    s.ok("runs.start", json!({"id": "running", "execution": ex("tok-a", 60)}));
    s.start("waiting", 0);
    s.ok("runs.wait", json!({"id": "waiting", "waitingAt": t(1)}));
    s.start("r1", 0);
    s.agent_in("running", "n1", "r1");
    let records: Vec<String> = records_of(&s.export()).iter().map(|line| line.replace("\"attempt\":1", "\"attempt\":4294967295")).collect();
    let s = cx.open();
    s.import(&stream_of(&records));
    for (op, entity, id, status) in [
        ("runs.reclaim", "run", "running", "running"),
        ("runs.resume", "run", "waiting", "waiting"),
        ("agents.reclaim", "agent", "n1", "running"),
    ] {
        let name = if entity == "run" { "id" } else { "nodeRunId" };
        let refusal = s.refused("invalid_transition", op, json!({name: id, "execution": ex("t", 9)}));
        assert_eq!(refusal.of(entity, id).at("status"), status, "{refusal}");
    }
    assert_eq!(s.run("running")["attempt"], 4_294_967_295_u32);
    s.ok("runs.finish", json!({"id": "running", "executionToken": "tok-a"}));
    let too_far: Vec<String> = records.iter().map(|line| line.replace("4294967295", "4294967296")).collect();
    cx.open().import_refused("corrupt", &stream_of(&too_far));
}

pub(crate) fn an_export_is_one_state_while_writes_go_on(cx: &Context<'_>) {
    let s = cx.open();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for writer in 0..2 {
            let (s, stop) = (&s, &stop);
            scope.spawn(move || {
                for n in 0..400 {
                    let id = format!("r{writer}-{n:03}");
                    let commands = [
                        request("runs.start", json!({"id": id})),
                        request("nodes.start", json!({"id": id, "workflowRunId": id, "nodeType": "agent"})),
                        request("agents.create", json!({"nodeRunId": id})),
                    ];
                    s.ok("batch", json!({"commands": commands}));
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                }
            });
        }
        for _ in 0..8 {
            let stream = s.export();
            let records = records_of(&stream);
            assert_eq!(stream, stream_of(&records));
            let count = |kind: &str| records.iter().filter(|line| line.starts_with(kind)).count();
            assert_eq!((count("{\"run\""), count("{\"node\"")), (count("{\"agent\""), count("{\"agent\"")));
            let copy = cx.open();
            copy.import(&stream);
        }
        stop.store(true, Ordering::Relaxed);
    });
}

pub(crate) fn restore_replaces_all_in_one_step(cx: &Context<'_>) {
    let s = filled(cx);
    let (stream, snapshot) = (s.export(), s.store.snapshot().unwrap());
    s.finish("run-running", "failed");
    s.queue("later", 0);
    s.ok("runs.queue", json!({"projectId": "other", "id": "later"}));
    s.ok("runs.delete", json!({"id": "run-failed"}));
    s.store.restore(&snapshot).unwrap();
    assert_eq!(s.export(), stream);
    s.verify();
    assert_eq!(s.ids("projects.list", json!({})), ["a", "shop"]);
    let s = cx.reopen(&s);
    assert_eq!(s.export(), stream);

    let other = cx.open();
    other.queue("gone", 0);
    other.store.restore(&snapshot).unwrap();
    assert_eq!(other.export(), stream);
    other.store.restore(&cx.open().store.snapshot().unwrap()).unwrap();
    assert_eq!((other.export(), other.counts()), (stream_of(&[]), [0, 0, 0]));
    other.queue("gone", 0);
}

pub(crate) fn a_refused_restore_leaves_all_as_it_was(cx: &Context<'_>) {
    let s = filled(cx);
    let (stream, mut snapshot) = (s.export(), s.store.snapshot().unwrap());
    let middle = snapshot.len() / 2;
    snapshot[middle] ^= 1;
    for bad in [&snapshot[..], &snapshot[..middle], b""] {
        let error = crate::check::Refusal::of_object(&s.store.restore(bad).unwrap_err());
        assert_eq!(error.code(), "corrupt", "{error}");
        assert_eq!(s.export(), stream);
    }
}

pub(crate) fn records_of_every_size_go_through_a_stream(cx: &Context<'_>) {
    let s = cx.open();
    for (n, size) in [0, 1, 1000, 1024, 8192, 70_000, 1_000_000].iter().enumerate() {
        let id = format!("r{n}");
        let text = "\u{1}\"\u{e9}\\".repeat(size / 5);
        s.ok("runs.start", json!({"id": id, "input": text, "source": text}));
        s.node(&id, &id);
        s.ok("agents.create", json!({"nodeRunId": id, "prompt": text}));
        s.ok("nodes.finish", json!({"id": id, "status": "failed", "error": text}));
    }
    let copy = cx.open();
    copy.import(&s.export());
    assert!(copy.export() == s.export());
    assert!(copy.everything() == s.everything());
}
