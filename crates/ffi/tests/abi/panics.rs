//! A defect of the library is an error of one call: in a write, in a read, and in the close of a free.

use std::sync::atomic::{AtomicBool, Ordering};

use runledger::{Clock, Ledger, OpenOptions, SystemClock, Time};
use runledger_conformance::Defective;
use runledger_ffi::*;
use tempfile::tempdir;

use crate::kit::Store;

#[test]
fn a_defect_in_a_write_a_read_or_a_close_leaves_the_process_and_other_stores_alone() {
    let other = Store::memory();
    let broken = Store(runledger_store::of(Ledger::new(Defective, &OpenOptions::new())));
    for _ in 0..2 {
        let refused = broken.queue("r1").unwrap_err();
        assert_eq!((refused.status, refused.name.as_str()), (RUNLEDGER_INTERNAL, "internal"));
        assert!(refused.message.contains("a defect on purpose"), "{refused:?}");
        assert_eq!(broken.get("r1").unwrap_err().name, "internal");
        assert_eq!(broken.call("store.info", "{}").unwrap_err().name, "internal");
        assert_eq!(broken.export().unwrap_err().name, "internal");
        other.queue("r1").map(drop).or_else(|refused| if refused.name == "already_exists" { Ok(()) } else { Err(refused) }).unwrap();
    }
    assert_eq!(broken.close().unwrap_err().name, "internal");
    assert_eq!(broken.get("r1").unwrap_err().name, "closed");
    drop(broken);
    // One that is freed without being closed meets the defect in its free, where nobody can be told.
    drop(Store(runledger_store::of(Ledger::new(Defective, &OpenOptions::new()))));
    assert_eq!(other.total(), 1);
    drop(other);
    assert_eq!(runledger_live_objects(), 0);
}

/// A clock that is a defect while it is told to be one: it is read in the midst of a write, with all locks held.
struct BentClock(&'static AtomicBool);

impl Clock for BentClock {
    fn now(&self) -> Time {
        assert!(!self.0.load(Ordering::SeqCst), "a defect on purpose");
        SystemClock.now()
    }
}

#[test]
fn a_defect_in_the_midst_of_a_write_writes_nothing_and_the_store_goes_on() {
    static IS_BENT: AtomicBool = AtomicBool::new(false);
    let dir = tempdir().unwrap();
    let options = || OpenOptions::new().with_clock(BentClock(&IS_BENT));
    for ledger in [
        runledger::open_memory(&options()).unwrap(),
        runledger::open_sqlite(dir.path().join("runs.db"), &options()).unwrap(),
        runledger::open_redb(dir.path().join("runs.redb"), &options()).unwrap(),
    ] {
        let store = Store(runledger_store::of(ledger));
        store.queue("before").unwrap();
        IS_BENT.store(true, Ordering::SeqCst);
        assert_eq!(store.queue("r1").unwrap_err().name, "internal");
        assert_eq!(store.get("r1").unwrap(), "null");
        IS_BENT.store(false, Ordering::SeqCst);
        store.queue("r1").unwrap();
        assert_eq!(store.total(), 2);
        store.verify();
        store.close().unwrap();
    }
}
