//! A defect of the library is an error of one call: in a write, in a read, and in the close of a free.

use std::sync::atomic::{AtomicBool, Ordering};

use runledger::{
    AgentFilter, AgentRun, AnswerForm, Backend, Clock, CompactReport, Error, ExpiredFilter, ExportRecord, Id, Ledger, NodeFilter, NodeRun,
    OpenOptions, PageRequest, ProjectSummary, Result, Rows, Run, RunFilter, RunStats, StoreInfo, SystemClock, Time, VerifyReport, Work,
};
use runledger_ffi::*;
use tempfile::tempdir;

use crate::kit::Store;

/// A backend of which every call is a defect.
struct Defective;

macro_rules! defective {
    ($(fn $name:ident($($argument:ty),*) $(-> $answer:ty)?;)*) => {
        impl Backend for Defective {
            $(fn $name(&self, $(_: $argument),*) $(-> $answer)? { panic!("a defect on purpose") })*
            fn shares_commits(&self) -> bool { true }
            fn broken(&self) -> Option<Error> { None }
            fn is_read_only(&self) -> bool { false }
        }
    };
}

defective! {
    fn write(&mut dyn Work) -> Result<()>;
    fn get_run(&Id, &Id, AnswerForm) -> Result<Option<Run>>;
    fn get_node(&Id, &Id, AnswerForm) -> Result<Option<NodeRun>>;
    fn get_agent(&Id, &Id, AnswerForm) -> Result<Option<AgentRun>>;
    fn list_runs(&RunFilter, &PageRequest) -> Result<Rows<Run>>;
    fn list_nodes(&NodeFilter, &PageRequest) -> Result<Rows<NodeRun>>;
    fn list_agents(&AgentFilter, &PageRequest) -> Result<Rows<AgentRun>>;
    fn list_projects(&PageRequest) -> Result<Rows<ProjectSummary>>;
    fn latest_runs(&Id, &[Id], AnswerForm) -> Result<Vec<Run>>;
    fn expired_runs(&ExpiredFilter, AnswerForm) -> Result<(Vec<Run>, bool)>;
    fn expired_agents(&ExpiredFilter, AnswerForm) -> Result<(Vec<AgentRun>, bool)>;
    fn run_stats(&Id, Option<&[Id]>) -> Result<RunStats>;
    fn export(&mut dyn FnMut(ExportRecord) -> Result<()>) -> Result<()>;
    fn info() -> Result<StoreInfo>;
    fn verify() -> Result<VerifyReport>;
    fn compact() -> Result<CompactReport>;
    fn close() -> Result<()>;
}

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
