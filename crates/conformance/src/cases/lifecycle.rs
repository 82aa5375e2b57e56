//! Closing, opening again, and several handles on one store.

use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};

use crate::check::{Caller, Refusal, ex, has, t};
use crate::{Context, Sharing};

pub(crate) fn a_closed_handle_answers_closed(cx: &Context<'_>) {
    let s = cx.open();
    s.start("r1", 0);
    let (stream, snapshot) = (s.export(), s.store.snapshot().unwrap());
    s.close();
    for (op, fields) in [
        ("runs.queue", json!({"id": "r2"})),
        ("runs.claim", json!({"execution": ex("t", 9)})),
        ("runs.get", json!({"id": "r1"})),
        ("runs.list", json!({})),
        ("batch", json!({"commands": [crate::check::request("runs.queue", json!({"id": "r2"}))]})),
        ("store.info", json!({})),
        ("store.verify", json!({})),
        ("store.compact", json!({})),
        ("projects.list", json!({})),
    ] {
        s.refused("closed", op, fields);
    }
    let closed = |error: Option<String>| assert_eq!(Refusal::of_object(&error.unwrap()).code(), "closed");
    closed(s.store.export().err());
    closed(s.store.import(&stream).err());
    closed(s.store.snapshot().err());
    closed(s.store.restore(&snapshot).err());
}

pub(crate) fn a_second_close_is_harmless(cx: &Context<'_>) {
    let s = cx.open();
    s.queue("r1", 0);
    s.close();
    s.close();
    s.refused("closed", "runs.get", json!({"id": "r1"}));
}

pub(crate) fn close_waits_for_what_was_accepted(cx: &Context<'_>) {
    let s = cx.open();
    let acknowledged = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for writer in 0..6 {
            let (s, acknowledged) = (&s, &acknowledged);
            scope.spawn(move || {
                for n in 0.. {
                    let answer = s.ask("runs.queue", json!({"id": format!("r{writer}-{n}")}));
                    if !answer.starts_with("{\"ok\"") {
                        assert!(answer.contains(r#""code":"closed""#), "{answer}");
                        break;
                    }
                    acknowledged.fetch_add(1, Ordering::SeqCst);
                }
            });
        }
        while acknowledged.load(Ordering::SeqCst) < 30 {
            std::thread::yield_now();
        }
        s.close();
    });
    if cx.traits().is_lasting {
        let s = cx.open_at(s.place.clone(), s.options.clone());
        assert_eq!(s.counts()[0], acknowledged.load(Ordering::SeqCst) as u64);
    }
}

/// Runs in all statuses with node runs and agent runs, spread over workflows, agents and times.
fn written(s: &Caller, count: usize) {
    const STATUSES: [&str; 6] = ["queued", "running", "waiting", "succeeded", "failed", "cancelled"];
    for n in 0..count {
        let (id, workflow, at) = (format!("r{n:03}"), format!("wf-{}", n % 5), t((n * 37 % count) as i64));
        let status = STATUSES[n % 6];
        if status == "queued" {
            s.ok("runs.queue", json!({"id": id, "workflowId": workflow, "queuedAt": at}));
            continue;
        }
        let execution = if status == "running" && n % 4 == 1 { ex("t", n as i64) } else { Value::Null };
        let token = if execution.is_null() { Value::Null } else { json!("t") };
        s.ok(
            "runs.start",
            json!({"id": id, "workflowId": workflow, "startedAt": at, "execution": execution, "input": {"n": n, "x": "y".repeat(n * 7)}}),
        );
        let kind = if n % 2 == 0 { "agent" } else { "task" };
        let node =
            json!({"id": id, "workflowRunId": id, "workflowId": workflow, "nodeType": kind, "startedAt": at, "executionToken": token});
        s.ok("nodes.start", node);
        if kind == "agent" {
            s.ok("agents.create", json!({"nodeRunId": id, "agentId": format!("g{}", n % 3), "createdAt": at}));
            if n % 3 == 0 {
                s.start_agent(&id, "g");
            }
        }
        match status {
            "running" => {}
            "waiting" => drop(s.ok("runs.wait", json!({"id": id, "waitingAt": at}))),
            ended => drop(s.ok("runs.finish", json!({"id": id, "status": ended, "finishedAt": at, "error": "e", "output": [n]}))),
        }
    }
}

fn questions(s: &Caller) -> Vec<String> {
    let mut answers = s.everything();
    for (op, statuses) in [
        ("runs.list", &["queued", "running", "waiting", "succeeded", "failed", "cancelled"][..]),
        ("nodes.list", &["running", "waiting", "succeeded", "failed", "cancelled"]),
        ("agents.list", &["queued", "running", "succeeded", "failed", "cancelled"]),
    ] {
        answers.extend(statuses.iter().map(|status| s.ask(op, json!({"statuses": [status]}))));
    }
    answers.push(s.ask("runs.latest", json!({"workflowIds": ["wf-0", "wf-1", "wf-2", "wf-3", "wf-4"]})));
    answers.push(s.ask("runs.list", json!({"workflowId": "wf-1"})));
    answers.push(s.ask("runs.list", json!({"startedAfter": t(30), "startedBefore": t(50), "statuses": ["failed", "waiting"]})));
    answers.push(s.ask("nodes.list", json!({"nodeType": "agent", "answer": "state"})));
    answers.push(s.ask("nodes.list", json!({"workflowRunId": "r001"})));
    answers.push(s.ask("agents.list", json!({"agentId": "g1"})));
    answers
}

pub(crate) fn every_answer_is_the_same_after_opening_again(cx: &Context<'_>) {
    if !cx.is_lasting() {
        return;
    }
    let s = cx.open();
    written(&s, 120);
    let before = questions(&s);
    let s = cx.reopen(&s);
    assert!(questions(&s) == before, "an answer changed");
    // Cursors go on, too.
    let cursor = s.ok("runs.list", json!({"limit": 5}))["nextCursor"].clone();
    let next = s.ask("runs.list", json!({"limit": 5, "cursor": cursor}));
    assert_eq!(cx.reopen(&s).ask("runs.list", json!({"limit": 5, "cursor": cursor})), next);
}

pub(crate) fn a_closed_store_can_be_moved(cx: &Context<'_>) {
    let Some((place, path)) = cx.file() else { return };
    let s = cx.open_at(place, cx.options());
    written(&s, 60);
    let before = questions(&s);
    s.verify();
    s.close();
    let moved = path.with_file_name("moved");
    std::fs::create_dir(&moved).unwrap();
    let moved = moved.join("else");
    std::fs::rename(&path, &moved).unwrap();
    let s = cx.open_at(s.place.at(&moved).into(), s.options.clone());
    assert!(questions(&s) == before, "an answer changed");
    assert!(!path.exists());
}

pub(crate) fn suspended_work_goes_on_after_opening_again(cx: &Context<'_>) {
    if !cx.is_lasting() {
        return;
    }
    let s = cx.open();
    s.start_owned("r1", "tok-a");
    let node = s.ok("nodes.start", json!({"id": "n1", "input": {"keep": [1]}, "executionToken": "tok-a"}));
    s.ok("nodes.wait", json!({"id": "n1", "executionToken": "tok-a"}));
    s.ok("runs.wait", json!({"id": "r1", "executionToken": "tok-a"}));
    let s = cx.reopen(&s);
    assert_eq!(s.ok("runs.resume", json!({"id": "r1", "execution": ex("tok-b", 60)}))["attempt"], 2);
    let done = s.ok("nodes.finish", json!({"id": "n1", "executionToken": "tok-b"}));
    assert_eq!((&done["input"], &done["startedAt"], has(&done, "waitingSince")), (&node["input"], &node["startedAt"], false));
    s.ok("runs.finish", json!({"id": "r1", "executionToken": "tok-b"}));
}

pub(crate) fn writes_go_on_after_many_openings(cx: &Context<'_>) {
    if !cx.is_lasting() {
        return;
    }
    let mut s = cx.open();
    for n in 0..12 {
        s.start(&format!("r{n}"), n);
        s.node(&format!("n{n}"), &format!("r{n}"));
        s = cx.reopen(&s);
        assert_eq!(s.counts(), [n as u64 + 1, n as u64 + 1, 0]);
    }
}

pub(crate) fn a_second_handle_sees_every_write_at_once(cx: &Context<'_>) {
    if !cx.is_shared() {
        return;
    }
    let a = cx.open();
    let b = a.second().unwrap();
    a.start("r1", 0);
    a.ok("runs.wait", json!({"id": "r1"}));
    assert_eq!(b.run("r1")["status"], "waiting");
    b.ok("runs.resume", json!({"id": "r1", "execution": ex("tok-b", 60)}));
    let run = a.run("r1");
    assert_eq!((&run["status"], &run["attempt"], &run["execution"]), (&json!("running"), &json!(2), &ex("tok-b", 60)));
    for n in 0..50 {
        let (writer, reader) = if n % 2 == 0 { (&a, &b) } else { (&b, &a) };
        writer.node_for_owner(&format!("n{n:02}"), "tok-b");
        assert_eq!(reader.ok("nodes.list", json!({"limit": 1}))["total"], n + 1);
        assert_eq!(reader.node_run(&format!("n{n:02}"))["status"], "running");
        assert_eq!(reader.ok("runs.stats", json!({}))["total"], 1);
    }
    b.verify();
    b.close();
    a.queue("r2", 0);
}

pub(crate) fn handles_share_rules_about_new_projects_and_workflows(cx: &Context<'_>) {
    if !cx.is_shared() {
        return;
    }
    let a = cx.open();
    let b = a.second().unwrap();
    for n in 0..10 {
        let fields = |writer: &str| json!({"projectId": format!("p{n}"), "id": format!("{writer}-{n}"), "workflowId": format!("wf-{n}")});
        a.ok("runs.queue", fields("a"));
        b.ok("runs.queue", fields("b"));
        for s in [&a, &b] {
            let page = s.ids("runs.list", json!({"projectId": format!("p{n}"), "workflowId": format!("wf-{n}")}));
            assert_eq!(page, [format!("b-{n}"), format!("a-{n}")]);
        }
    }
    assert_eq!(a.ask("projects.list", json!({})), b.ask("projects.list", json!({})));
    b.close();
}

pub(crate) fn a_second_handle_is_locked_out(cx: &Context<'_>) {
    if cx.traits().sharing != Sharing::Exclusive {
        cx.skip("needs a store that one handle at a time can open");
        return;
    }
    let Some((place, path)) = cx.file() else { return };
    let s = cx.open_at(place, cx.options());
    s.queue("r1", 0);
    let parent = path.parent().unwrap();
    let mut paths = vec![path.clone(), parent.join(".").join(path.file_name().unwrap())];
    #[cfg(unix)]
    {
        let link = parent.join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        paths.push(link);
    }
    for same in &paths {
        for mode in ["create", "existing"] {
            let options = cx.options().with("mode", mode);
            let refusal = Caller::open(s.place.at(same).into(), options).err().expect("the store is open already");
            assert_eq!(refusal.code(), "locked", "{refusal}");
        }
    }
    s.queue("r2", 0);
    s.close();
    let again = cx.open_at(s.place.at(paths.last().unwrap()).into(), cx.options());
    assert_eq!(again.counts()[0], 2);
}

pub(crate) fn stores_in_memory_are_apart(cx: &Context<'_>) {
    if cx.traits().sharing != Sharing::Never {
        cx.skip("needs a store whose every handle is one of its own");
        return;
    }
    let s = cx.open();
    s.queue("r1", 0);
    let other = s.second().unwrap();
    assert_eq!(other.counts(), [0, 0, 0]);
    other.close();
    assert_eq!(s.counts(), [1, 0, 0]);
}

pub(crate) fn a_handle_is_made_used_and_dropped_on_different_threads(cx: &Context<'_>) {
    let place = cx.place();
    let lasting = cx.traits().is_lasting;
    for n in 0..20 {
        let s = std::thread::scope(|scope| scope.spawn(|| Caller::open(place.clone(), cx.options()).unwrap()).join().unwrap());
        std::thread::scope(|scope| scope.spawn(|| s.queue(&format!("r{n}"), n)).join().unwrap());
        assert_eq!(s.counts()[0], if lasting { n as u64 + 1 } else { 1 });
        std::thread::scope(|scope| scope.spawn(move || drop(s)).join().unwrap());
    }
}

pub(crate) fn heartbeats_do_not_grow_a_file_by_their_inputs(cx: &Context<'_>) {
    let Some((place, path)) = cx.file() else { return };
    let s = cx.open_at(place, cx.options().with("durability", "relaxed"));
    let (runs, input) = (20, "x".repeat(20_000));
    for n in 0..runs {
        s.ok("runs.start", json!({"id": format!("r{n}"), "input": input, "execution": ex("t", 0), "answer": "state"}));
    }
    for beat in 0..40 {
        for n in 0..runs {
            let lease = t(beat * 100);
            s.ok("runs.confirm", json!({"id": format!("r{n}"), "executionToken": "t", "queueLeaseExpiresAt": lease, "answer": "state"}));
        }
    }
    s.verify();
    s.close();
    // Were the inputs written again at each beat, the file would hold forty times of them.
    let (size, live) = (std::fs::metadata(&path).unwrap().len(), runs * 20_000);
    assert!(size < 8 * live + 4_000_000, "{size} bytes for {live} bytes of inputs");
}
