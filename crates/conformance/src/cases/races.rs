//! Calls at the same moment from many threads.

use std::collections::BTreeSet;
use std::sync::Barrier;

use serde_json::{Value, json};

use crate::check::{Caller, ex, request, t};
use crate::{Context, Sharing};

/// Two handles where the store can have them, else the same one twice.
fn handles(cx: &Context<'_>) -> [Caller; 2] {
    let s = cx.open();
    let other = if cx.traits().sharing == Sharing::Many { s.second().unwrap() } else { s.clone() };
    [s, other]
}

/// Makes all requests at once, each on a thread of its own; what they answer, in their order.
fn at_once(handles: &[Caller; 2], requests: &[Value]) -> Vec<Value> {
    let gate = Barrier::new(requests.len());
    std::thread::scope(|scope| {
        let threads: Vec<_> = requests
            .iter()
            .enumerate()
            .map(|(n, request)| {
                let (gate, handle, line) = (&gate, &handles[n % 2], request.to_string());
                scope.spawn(move || {
                    gate.wait();
                    serde_json::from_str::<Value>(&handle.line(&line)).unwrap()
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

/// What succeeded, and the codes of what did not.
fn split(answers: Vec<Value>) -> (Vec<Value>, Vec<String>) {
    let (mut good, mut codes) = (Vec::new(), Vec::new());
    for mut answer in answers {
        match answer.get("error") {
            Some(error) => codes.push(error["code"].as_str().unwrap().to_owned()),
            None => good.push(answer["ok"].take()),
        }
    }
    (good, codes)
}

pub(crate) fn one_of_many_resumes_wins(cx: &Context<'_>) {
    let both = handles(cx);
    for round in 0..20 {
        let id = format!("r{round}");
        both[0].start_owned(&id, "tok-a");
        both[0].ok("runs.wait", json!({"id": id, "executionToken": "tok-a"}));
        let requests: Vec<Value> =
            (0..16).map(|n| request("runs.resume", json!({"id": id, "execution": ex(&format!("t{n}"), 60)}))).collect();
        let (good, codes) = split(at_once(&both, &requests));
        assert_eq!((good.len(), codes), (1, vec!["invalid_transition".to_owned(); 15]));
        assert_eq!((&good[0], &good[0]["attempt"]), (&both[1].run(&id), &json!(2)));
    }
}

pub(crate) fn a_queue_and_a_start_at_once_make_one_run(cx: &Context<'_>) {
    let both = handles(cx);
    for round in 0..40 {
        let id = format!("r{round}");
        let mut pair = [request("runs.queue", json!({"id": id})), request("runs.start", json!({"id": id}))];
        pair.rotate_left(round % 2);
        let mut answers = at_once(&both, &pair);
        answers.rotate_right(round % 2);
        assert!(answers[1].get("ok").is_some(), "a start of a new or queued run succeeds: {}", answers[1]);
        let queued = answers[0].get("ok").is_some();
        assert!(queued || answers[0]["error"]["code"] == "already_exists", "{}", answers[0]);
        let run = both[0].run(&id);
        assert_eq!((&run["status"], &run["attempt"], run.get("queuedAt").is_some()), (&json!("running"), &json!(1), queued));
    }
    assert_eq!(both[0].counts()[0], 40);
}

pub(crate) fn one_of_many_starts_of_a_queued_run_wins(cx: &Context<'_>) {
    let both = handles(cx);
    for round in 0..20 {
        let id = format!("r{round}");
        both[0].queue(&id, 0);
        let start = |n: usize| request("runs.start", json!({"id": id, "input": {"by": n}, "execution": ex(&format!("t{n}"), 60)}));
        let requests: Vec<Value> = (0..8).map(start).collect();
        let (good, codes) = split(at_once(&both, &requests));
        assert_eq!((good.len(), codes), (1, vec!["already_exists".to_owned(); 7]));
        let run = both[1].run(&id);
        assert_eq!((&run["attempt"], &run["execution"]["token"]), (&json!(1), &json!(format!("t{}", run["input"]["by"]))));
    }
}

pub(crate) fn no_reclaim_is_lost(cx: &Context<'_>) {
    let both = handles(cx);
    for round in 0..5 {
        let id = format!("r{round}");
        both[0].start_owned(&id, "tok-0");
        let requests: Vec<Value> =
            (0..20).map(|n| request("runs.reclaim", json!({"id": id, "execution": ex(&format!("t{n}"), 60)}))).collect();
        let (good, codes) = split(at_once(&both, &requests));
        assert_eq!(codes, [""; 0]);
        let attempts: BTreeSet<u64> = good.iter().map(|run| run["attempt"].as_u64().unwrap()).collect();
        assert_eq!(attempts, (2..=21).collect());
        let last = good.iter().find(|run| run["attempt"] == 21).unwrap();
        assert_eq!(*last, both[0].run(&id));
    }
}

pub(crate) fn a_guarded_reclaim_succeeds_once(cx: &Context<'_>) {
    let both = handles(cx);
    for round in 0..10 {
        let id = format!("r{round}");
        both[0].start_owned(&id, "tok-0");
        let reclaim =
            |n: usize| request("runs.reclaim", json!({"id": id, "execution": ex(&format!("t{n}"), 600), "leaseExpiredBy": t(60)}));
        let (good, codes) = split(at_once(&both, &(0..8).map(reclaim).collect::<Vec<Value>>()));
        assert_eq!((good.len(), codes), (1, vec!["lease_active".to_owned(); 7]));
        assert_eq!(good[0], both[1].run(&id));
    }
}

pub(crate) fn one_of_many_creations_wins(cx: &Context<'_>) {
    let both = handles(cx);
    both[0].start_owned("r1", "tok-a");
    for round in 0..10 {
        let id = format!("n{round}");
        let node = request("nodes.start", json!({"id": id, "nodeType": "agent", "executionToken": "tok-a"}));
        let agent = request("agents.create", json!({"nodeRunId": id}));
        for request in [node, agent] {
            let (good, codes) = split(at_once(&both, &vec![request; 8]));
            assert_eq!((good.len(), codes), (1, vec!["already_exists".to_owned(); 7]));
        }
        assert_eq!(both[1].agent_run(&id)["status"], "queued");
    }
    assert_eq!(both[0].counts(), [1, 10, 10]);
}

/// Has eight threads claim until nothing is left; what each of them got, in its order.
fn claim_all(both: &[Caller; 2], op: &str, id: &str) -> Vec<Vec<String>> {
    let gate = Barrier::new(8);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|n| {
                let (gate, handle) = (&gate, &both[n % 2]);
                scope.spawn(move || {
                    gate.wait();
                    let mut got = Vec::new();
                    loop {
                        let record = handle.ok(op, json!({"execution": ex(&format!("t{n}-{}", got.len()), 60)}));
                        if record.is_null() {
                            return got;
                        }
                        assert_eq!(record["execution"]["token"], format!("t{n}-{}", got.len()));
                        got.push(record[id].as_str().unwrap().to_owned());
                    }
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

pub(crate) fn two_claimers_never_get_the_same_run(cx: &Context<'_>) {
    let both = handles(cx);
    for n in 0..120 {
        both[0].queue(&format!("r{n:03}"), n / 10);
    }
    let got = claim_all(&both, "runs.claim", "id");
    assert!(got.iter().all(|one| one.is_sorted()), "each claimer gets the oldest that is left: {got:?}");
    let mut all: Vec<String> = got.concat();
    all.sort();
    assert_eq!(all, (0..120).map(|n| format!("r{n:03}")).collect::<Vec<_>>());
    assert_eq!(both[1].ok("runs.stats", json!({}))["byStatus"]["running"], 120);
}

pub(crate) fn two_claimers_never_get_the_same_agent_run(cx: &Context<'_>) {
    let both = handles(cx);
    both[0].start("r1", 0);
    for n in 0..60 {
        both[0].node(&format!("n{n:02}"), "r1");
        both[0].agent(&format!("n{n:02}"));
    }
    let mut all: Vec<String> = claim_all(&both, "agents.claim", "nodeRunId").concat();
    all.sort();
    assert_eq!(all, (0..60).map(|n| format!("n{n:02}")).collect::<Vec<_>>());
}

pub(crate) fn one_end_of_many_holds(cx: &Context<'_>) {
    let both = handles(cx);
    for round in 0..20 {
        let id = format!("r{round}");
        both[0].start(&id, 0);
        let finish =
            |status: &str, n: usize| request("runs.finish", json!({"id": id, "status": status, "error": format!("e{n}"), "output": n}));
        let requests =
            [finish("succeeded", 0), finish("failed", 1), finish("cancelled", 2), request("runs.cancel", json!({"id": id, "error": "e3"}))];
        let (good, codes) = split(at_once(&both, &requests));
        assert_eq!((good.len(), codes), (1, vec!["invalid_transition".to_owned(); 3]));
        assert_eq!(good[0], both[1].run(&id));
    }
}

pub(crate) fn a_cancel_leaves_no_active_node_behind(cx: &Context<'_>) {
    let both = handles(cx);
    for round in 0..10 {
        let id = format!("r{round}");
        both[0].start(&id, 0);
        let mut requests: Vec<Value> =
            (0..7).map(|n| request("nodes.start", json!({"id": format!("{id}-{n}"), "workflowRunId": id}))).collect();
        requests.push(request("runs.cancel", json!({"id": id})));
        let (_, codes) = split(at_once(&both, &requests));
        assert!(codes.iter().all(|code| code == "invalid_transition"), "{codes:?}");
        let nodes = both[1].ok("nodes.list", json!({"workflowRunId": id}));
        assert_eq!(nodes["total"], 7 - codes.len());
        assert!(nodes["nodes"].as_array().unwrap().iter().all(|node| node["status"] == "cancelled"), "{nodes}");
    }
}

pub(crate) fn batches_that_meet_are_each_whole(cx: &Context<'_>) {
    let both = handles(cx);
    // Every batch needs the same id last, so that one wins and the others undo what they did before.
    for round in 0..10 {
        let batch = |n: usize| {
            let own = (0..5).map(|step| request("runs.queue", json!({"id": format!("own-{round}-{n}-{step}")})));
            let shared = request("runs.queue", json!({"id": format!("shared-{round}"), "input": {"by": n}}));
            request("batch", json!({"commands": own.chain([shared]).collect::<Vec<Value>>()}))
        };
        let (good, codes) = split(at_once(&both, &(0..6).map(batch).collect::<Vec<Value>>()));
        assert_eq!((good.len(), codes), (1, vec!["already_exists".to_owned(); 5]));
        let winner = both[0].run(&format!("shared-{round}"))["input"]["by"].clone();
        for n in 0..6 {
            assert_eq!(both[1].run(&format!("own-{round}-{n}-4")).is_null(), n != winner);
        }
        assert_eq!(both[0].counts()[0], (round + 1) * 6);
    }
}

pub(crate) fn a_reader_sees_its_own_writes_among_many_writers(cx: &Context<'_>) {
    let both = handles(cx);
    std::thread::scope(|scope| {
        for n in 0..6 {
            let handle = &both[n % 2];
            scope.spawn(move || {
                for step in 0..30 {
                    let id = format!("r{n}-{step}");
                    let workflow = format!("wf-{n}");
                    let run = handle.ok("runs.start", json!({"id": id, "workflowId": workflow, "startedAt": t(step)}));
                    assert_eq!(handle.run(&id), run);
                    assert_eq!(handle.ids("runs.latest", json!({"workflowIds": [workflow]})), [id]);
                    let page = handle.ok("runs.list", json!({"workflowId": workflow, "limit": 1}));
                    assert_eq!((&page["total"], &page["runs"][0]), (&json!(step + 1), &run));
                }
            });
        }
    });
    assert_eq!(both[0].counts()[0], 180);
}

pub(crate) fn a_page_comes_from_one_state(cx: &Context<'_>) {
    let both = handles(cx);
    for n in 0..20 {
        both[0].start(&format!("r{n:02}"), n);
    }
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            // In every state between two steps there are 20 running runs.
            for n in 20..150 {
                let old = format!("r{:02}", n - 20);
                let commands = [
                    request("runs.start", json!({"id": format!("r{n:02}"), "startedAt": t(n)})),
                    request("runs.finish", json!({"id": old})),
                ];
                both[0].ok("batch", json!({"commands": commands}));
            }
        });
        while !writer.is_finished() {
            let page = both[1].ok("runs.list", json!({"statuses": ["running"], "limit": 30}));
            assert_eq!((page["runs"].as_array().unwrap().len(), &page["total"], &page["hasMore"]), (20, &json!(20), &json!(false)));
            let stats = both[1].ok("runs.stats", json!({}));
            assert_eq!(stats["byStatus"]["running"], 20);
        }
        writer.join().unwrap();
    });
}

pub(crate) fn a_store_in_use_is_compacted_or_busy(cx: &Context<'_>) {
    let both = handles(cx);
    for n in 0..30 {
        let id = format!("old{n}");
        both[0].ok("runs.start", json!({"id": id, "input": "x".repeat(3000)}));
        both[0].finish(&id, "failed");
    }
    both[0].ok("runs.purge", json!({"finishedBefore": t(6), "limit": 20}));
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| (0..60).for_each(|n| drop(both[1].start(&format!("new{n}"), n))));
        let reader = scope.spawn(|| {
            while !writer_is_done(&both[0]) {
                assert!(both[0].ok("runs.list", json!({"limit": 100}))["total"].as_u64().unwrap() >= 10);
            }
        });
        for _ in 0..5 {
            let answer = both[0].ask("store.compact", json!({}));
            assert!(answer.starts_with("{\"ok\"") || answer.contains(r#""code":"busy""#), "{answer}");
        }
        writer.join().unwrap();
        reader.join().unwrap();
    });
    assert_eq!(both[0].counts()[0], 70);
}

fn writer_is_done(s: &Caller) -> bool {
    !s.run("new59").is_null()
}
