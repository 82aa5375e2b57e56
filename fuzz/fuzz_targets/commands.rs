//! Sequences of commands, batches, queries, exports and restores, each answered as the oracle answers it.
#![no_main]

use libfuzzer_sys::fuzz_target;
use runledger_backend_memory::MemoryBackend;
use runledger_conformance::state_machine::replay;
use runledger_conformance::{LedgerHarness, Traits};
use runledger_core::Ledger;

fuzz_target!(|bytes: &[u8]| {
    let memory = LedgerHarness::new("memory", Traits::memory(), |_, options| Ok(Ledger::new(MemoryBackend::open(options)?, options)));
    if let Err(what) = replay(&[&memory], bytes) {
        panic!("{what}");
    }
});
