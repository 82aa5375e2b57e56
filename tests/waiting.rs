//! Claims that wait: woken by this handle, found by looking where others queue unheard, and ended with their time.

#![cfg(all(feature = "memory", feature = "sqlite"))]
#![allow(clippy::unwrap_used, clippy::panic, reason = "in a test a panic is a failure")]

use std::time::{Duration, Instant};

use runledger::{
    ClaimAgent, ClaimRun, Code, CreateAgent, Execution, Ledger, OpenOptions, Payload, QueueRun, StartNode, StartRun, Time, open,
    open_sqlite,
};

const LONG: Duration = Duration::from_secs(60);

fn queue(project: &str, id: &str) -> QueueRun {
    QueueRun::new(project, id, "wf", Payload::from_json("1").unwrap())
}

fn claim(project: &str) -> ClaimRun {
    ClaimRun::new(project, Execution::new("t", Time::MAX))
}

/// Has one thread wait for a run of `id` that another handle queues, once the first one may be thought to wait.
fn queued_while_waiting(waiting: &Ledger, queueing: &Ledger, id: &str) -> Duration {
    std::thread::scope(|scope| {
        let claimed = scope.spawn(|| waiting.claim_run_wait(claim("p"), LONG).unwrap());
        std::thread::sleep(Duration::from_millis(30));
        let queued = Instant::now();
        queueing.queue_run(queue("p", id)).unwrap();
        assert_eq!(claimed.join().unwrap().unwrap().id, id);
        queued.elapsed()
    })
}

#[test]
fn a_run_that_is_queued_wakes_who_waits_for_it() {
    let ledger = open("memory:").unwrap();
    for n in 0..20 {
        queued_while_waiting(&ledger, &ledger, &format!("r{n}"));
    }
    // Many wait, each gets one.
    std::thread::scope(|scope| {
        let claimed: Vec<_> = (0..8).map(|_| scope.spawn(|| ledger.claim_run_wait(claim("p"), LONG).unwrap().unwrap().id)).collect();
        for n in 0..8 {
            ledger.queue_run(queue("p", &format!("many{n}"))).unwrap();
        }
        let mut ids: Vec<_> = claimed.into_iter().map(|claimed| claimed.join().unwrap().to_string()).collect();
        ids.sort_unstable();
        assert_eq!(ids, (0..8).map(|n| format!("many{n}")).collect::<Vec<_>>());
    });
}

#[test]
fn another_handle_on_the_file_is_noticed_soon() {
    let directory = tempfile::tempdir().unwrap();
    let options = OpenOptions::new();
    let [waiting, queueing] = [(); 2].map(|()| open_sqlite(directory.path().join("runs.db"), &options).unwrap());
    for n in 0..3 {
        assert!(queued_while_waiting(&waiting, &queueing, &format!("r{n}")) < Duration::from_secs(20));
    }
}

#[test]
fn an_import_wakes_too_and_agent_runs_are_waited_for_alike() {
    let (ledger, other) = (open("memory:").unwrap(), open("memory:").unwrap());
    other.queue_run(queue("p", "r")).unwrap();
    std::thread::scope(|scope| {
        let claimed = scope.spawn(|| ledger.claim_run_wait(claim("p"), LONG).unwrap());
        std::thread::sleep(Duration::from_millis(30));
        other.copy_to(&ledger).unwrap();
        assert_eq!(claimed.join().unwrap().unwrap().id, "r");
    });
    ledger.start_run(StartRun::new("p", "s", "wf", Payload::from_json("1").unwrap())).unwrap();
    ledger.start_node(StartNode::new("p", "n", "s", "wf", 0_u32, "agent", "a", "a", Payload::from_json("1").unwrap())).unwrap();
    std::thread::scope(|scope| {
        let claimed = scope.spawn(|| ledger.claim_agent_wait(ClaimAgent::new("p", Execution::new("t", Time::MAX)), LONG).unwrap());
        std::thread::sleep(Duration::from_millis(30));
        ledger.create_agent(CreateAgent::new("p", "n", "ag", "do it")).unwrap();
        assert_eq!(claimed.join().unwrap().unwrap().node_run_id, "n");
    });
}

#[test]
fn a_wait_ends_with_its_time_and_with_the_ledger() {
    let ledger = open("memory:").unwrap();
    ledger.queue_run(queue("other", "r")).unwrap();
    assert_eq!(ledger.claim_run_wait(claim("p"), Duration::from_millis(20)).unwrap(), None);
    assert_eq!(ledger.claim_run_wait(claim("p"), Duration::ZERO).unwrap(), None);
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| ledger.claim_run_wait(claim("p"), Duration::MAX));
        std::thread::sleep(Duration::from_millis(30));
        ledger.close().unwrap();
        assert_eq!(waiting.join().unwrap().unwrap_err().code(), Code::Closed);
    });
    assert_eq!(ledger.claim_run_wait(claim("p"), LONG).unwrap_err().code(), Code::Closed);
}
