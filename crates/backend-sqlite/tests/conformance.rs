//! The backend behind a ledger, held against the contract.

use runledger_backend_sqlite::SqliteBackend;
use runledger_conformance::{LedgerHarness, Traits};
use runledger_core::Ledger;

runledger_conformance::conformance_tests! {
    LedgerHarness::new("sqlite", Traits::sqlite(), |path, options| Ok(Ledger::new(SqliteBackend::open(path, options)?, options)))
}
