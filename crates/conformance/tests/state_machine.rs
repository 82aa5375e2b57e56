//! Random sequences of steps on stores, next to the oracle.

use runledger_backend_memory::MemoryBackend;
use runledger_conformance::state_machine::run_state_machine;
use runledger_conformance::{LedgerHarness, Traits};
use runledger_core::Ledger;

#[test]
fn memory_answers_as_the_oracle_does() {
    let memory = LedgerHarness::new("memory", Traits::memory(), |_, options| Ok(Ledger::new(MemoryBackend::open(options)?, options)));
    run_state_machine(&[&memory], 1000, 120);
}
