//! Every case of the conformance suite on this backend.

use runledger_backend_memory::MemoryBackend;
use runledger_conformance::{LedgerHarness, Traits, conformance_tests};
use runledger_core::Ledger;

conformance_tests! {
    LedgerHarness::new("memory", Traits::memory(), |_, options| Ok(Ledger::new(MemoryBackend::open(options)?, options)))
}
