//! Processes that fork while they have a store open.

#![allow(clippy::unwrap_used, clippy::panic, reason = "the lints' exception for tests does not reach their helpers")]
#![cfg(unix)]

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use runledger_backend_memory::MemoryBackend;
use runledger_backend_redb::RedbBackend;
use runledger_backend_sqlite::SqliteBackend;
use runledger_core::{Code, GetRun, Ledger, ListRuns, OpenOptions, Payload, QueueRun, Result, VerifyStore};
use runledger_faults::fork::fork;
use runledger_faults::scratch_directory;

/// Forks, and waits for the child.
fn in_a_fork(work: impl FnOnce() -> bool) -> bool {
    fork(work)()
}

fn open(name: &str, path: &Path) -> Result<Ledger> {
    let options = OpenOptions::new();
    Ok(match name {
        "memory" => Ledger::new(MemoryBackend::open(&options)?, &options),
        "sqlite" => Ledger::new(SqliteBackend::open(path, &options)?, &options),
        _ => Ledger::new(RedbBackend::open(path, &options)?, &options),
    })
}

fn queue(ledger: &Ledger, id: String) -> Result<runledger_core::Run> {
    ledger.queue_run(QueueRun::new("p", id, "w", Payload::from_json("1").unwrap()))
}

/// Whoever holds which lock when the process is copied, the copy of the handle answers at once, and closing and dropping
/// it touches nothing of the parent's.
#[test]
fn a_handle_carried_over_a_fork_answers_closed_and_hurts_nobody() {
    for name in ["memory", "sqlite", "redb"] {
        let directory = scratch_directory();
        let ledger = open(name, &directory.path().join("store")).unwrap();
        let (stop, written) = (AtomicBool::new(false), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for thread in 0..3 {
                let (ledger, stop, written) = (&ledger, &stop, &written);
                scope.spawn(move || {
                    while !stop.load(Ordering::SeqCst) {
                        let number = written.fetch_add(1, Ordering::SeqCst);
                        queue(ledger, format!("r{thread}-{number}")).unwrap();
                    }
                });
            }
            // The threads are stopped before anything is said of a failure.
            let failed = (0..40).find(|_| {
                let copy = ledger.clone();
                let ended_well = in_a_fork(move || {
                    let is_closed = |code: Option<Code>| code == Some(Code::Closed);
                    let commands = is_closed(queue(&copy, "of the child".into()).err().map(|error| error.code()));
                    let queries = is_closed(copy.get_run(GetRun::new("p", "r")).err().map(|error| error.code()));
                    let close = copy.close().is_ok();
                    drop(copy);
                    commands && queries && close
                });
                !ended_well
            });
            stop.store(true, Ordering::SeqCst);
            assert_eq!(failed, None, "{name}: a fork did not end as it should");
        });
        assert_eq!(ledger.list_runs(ListRuns::new("p")).unwrap().total, Some(written.load(Ordering::SeqCst) as u64), "{name}");
        assert!(ledger.verify_store(VerifyStore::new()).unwrap().is_ok(), "{name}");
        ledger.close().unwrap();
    }
}

/// A process that was forked while the store was open can't open it anew: the engine would take the parent's locks for
/// its own. It is refused, and the parent's store stays whole.
#[test]
fn a_store_that_the_parent_has_open_is_refused_to_a_fork() {
    for name in ["sqlite", "redb"] {
        let directory = scratch_directory();
        let path = directory.path().join("store");
        let ledger = open(name, &path).unwrap();
        queue(&ledger, "r1".into()).unwrap();
        let expected = if name == "sqlite" { Code::Unsupported } else { Code::Locked };
        assert!(in_a_fork(|| open(name, &path).err().map(|error| error.code()) == Some(expected)), "{name}");
        // Another store can be opened there.
        let other = directory.path().join("other");
        assert!(in_a_fork(|| open(name, &other).and_then(|ledger| queue(&ledger, "r1".into()).and(ledger.close())).is_ok()), "{name}");
        queue(&ledger, "r2".into()).unwrap();
        ledger.close().unwrap();
        // Once it is closed a fork is as good as any process.
        assert!(in_a_fork(|| open(name, &path).and_then(|ledger| queue(&ledger, "r3".into()).and(ledger.close())).is_ok()), "{name}");
        let ledger = open(name, &path).unwrap();
        assert_eq!(ledger.list_runs(ListRuns::new("p")).unwrap().total, Some(3), "{name}");
        assert!(ledger.verify_store(VerifyStore::new()).unwrap().is_ok(), "{name}");
    }
}
