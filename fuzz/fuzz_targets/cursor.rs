//! Cursors: one that no store gave is refused or ends somewhere, and never more.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use runledger_backend_memory::MemoryBackend;
use runledger_core::{Code, Ledger, ListRuns, OpenOptions, Payload, QueueRun};

static LEDGER: LazyLock<(Ledger, String)> = LazyLock::new(|| {
    let options = OpenOptions::new();
    let ledger = Ledger::new(MemoryBackend::open(&options).expect("memory can be opened"), &options);
    for number in 0..20 {
        let run = QueueRun::new("p", format!("r{number}"), "w", Payload::from_json("1").expect("it is JSON"));
        ledger.queue_run(run).expect("it is new");
    }
    let page = ledger.list_runs(ListRuns::new("p").with_limit(5_u32)).expect("it can be listed");
    (ledger, page.next_cursor.expect("there is more"))
});

fuzz_target!(|bytes: &[u8]| {
    let (ledger, good) = &*LEDGER;
    let mut bent = good.clone().into_bytes();
    for (at, byte) in bytes.iter().enumerate().filter(|(_, byte)| **byte != 0) {
        if let Some(place) = bent.get_mut(at) {
            *place ^= byte;
        }
    }
    for cursor in [String::from_utf8_lossy(bytes).into_owned(), String::from_utf8_lossy(&bent).into_owned()] {
        match ledger.list_runs(ListRuns::new("p").with_limit(5_u32).with_cursor(cursor.clone())) {
            Ok(page) => assert!(cursor == *good && page.rows.len() == 5, "a cursor that no store gave is taken: {cursor}"),
            Err(error) => assert_eq!(error.code(), Code::InvalidInput, "{error}"),
        }
    }
});
