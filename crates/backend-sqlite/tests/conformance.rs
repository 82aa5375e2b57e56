//! Every case of the conformance suite on this backend.

use runledger_backend_sqlite::SqliteBackend;
use runledger_conformance::{LedgerHarness, Traits, conformance_tests};
use runledger_core::Ledger;

conformance_tests! {
    LedgerHarness::new("sqlite", Traits::sqlite(), |path, options| Ok(Ledger::new(SqliteBackend::open(path, options)?, options)))
}
