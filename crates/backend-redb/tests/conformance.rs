//! Every case of the conformance suite on this backend.

use runledger_backend_redb::RedbBackend;
use runledger_conformance::{LedgerHarness, Traits, conformance_tests};
use runledger_core::Ledger;

conformance_tests! {
    LedgerHarness::new("redb", Traits::redb(), |path, options| Ok(Ledger::new(RedbBackend::open(path, options)?, options)))
}
