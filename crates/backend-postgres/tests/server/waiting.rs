//! Waiting for something to be queued.

use std::time::{Duration, Instant};

use runledger_core::{Code, Ledger};

use crate::kit::{claim, fresh_url, open, queue};

const LONG: Duration = Duration::from_secs(60);

/// How long it took from the queueing until a waiting claim of another handle had the run.
fn woken_after(waiting: &Ledger, queueing: &Ledger, id: &str) -> Duration {
    std::thread::scope(|scope| {
        let claimed = scope.spawn(|| (waiting.claim_run_wait(claim("p", id), LONG).unwrap(), Instant::now()));
        // Until it waits there is nothing to measure.
        std::thread::sleep(Duration::from_millis(300));
        queueing.queue_run(queue("p", id)).unwrap();
        let queued = Instant::now();
        let (run, at) = claimed.join().unwrap();
        assert_eq!(run.unwrap().id, id);
        at.saturating_duration_since(queued)
    })
}

#[test]
fn another_handle_wakes_who_waits() {
    let url = fresh_url();
    let (waiting, queueing) = (open(&url).unwrap(), open(&url).unwrap());
    woken_after(&waiting, &queueing, "r0");
    // By now it listens; a look comes once a second, so that several quick ones were told.
    let mut quick: Vec<Duration> = (1..6).map(|n| woken_after(&waiting, &queueing, &format!("r{n}"))).collect();
    quick.sort_unstable();
    println!("woken after {quick:?}");
    assert!(quick[2] < Duration::from_millis(500), "{quick:?}");
}

#[test]
fn a_wait_ends_with_its_time_and_with_the_ledger() {
    let ledger = open(&fresh_url()).unwrap();
    assert_eq!(ledger.claim_run_wait(claim("p", "t"), Duration::from_millis(20)).unwrap(), None);
    ledger.queue_run(queue("p", "r")).unwrap();
    assert_eq!(ledger.claim_run_wait(claim("p", "t"), Duration::ZERO).unwrap().unwrap().id, "r");
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| ledger.claim_run_wait(claim("p", "t2"), LONG));
        std::thread::sleep(Duration::from_millis(50));
        ledger.close().unwrap();
        assert_eq!(waiting.join().unwrap().unwrap_err().code(), Code::Closed);
    });
}
