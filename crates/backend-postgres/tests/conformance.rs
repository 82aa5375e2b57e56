//! Every case of the conformance suite on this backend.

use runledger_backend_postgres::PostgresBackend;
use runledger_conformance::{LedgerHarness, Traits, conformance_tests};
use runledger_core::Ledger;
use runledger_postgres_kit::{shared_url, try_sql, with_schema};

conformance_tests! {
    LedgerHarness::new("postgres", Traits::postgres(), |name, options| {
        let mut options = options.clone();
        let backend = PostgresBackend::open(&with_schema(&shared_url(), &name.to_string_lossy()), &mut options)?;
        Ok(Ledger::new(backend, &options))
    })
    .removed_by(|name| drop(try_sql(&shared_url(), &format!("DROP SCHEMA IF EXISTS \"{}\" CASCADE", name.display()))))
}
