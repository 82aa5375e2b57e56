//! What the tests share.

use std::path::Path;

use runledger_backend_memory::MemoryBackend;
use runledger_backend_postgres::PostgresBackend;
use runledger_backend_redb::RedbBackend;
use runledger_backend_sqlite::SqliteBackend;
use runledger_core::{ClaimRun, Durability, Execution, Ledger, OpenOptions, Payload, QueueRun, Result, StartRun, Time};
use runledger_postgres_kit::{shared_url, unique_schema, with_schema};

/// Opens a ledger at an address.
pub(crate) fn open(url: &str) -> Result<Ledger> {
    let mut options = OpenOptions::new();
    let backend = PostgresBackend::open(url, &mut options)?;
    Ok(Ledger::new(backend, &options))
}

pub(crate) fn memory() -> Ledger {
    let options = OpenOptions::new();
    Ledger::new(MemoryBackend::open(&options).unwrap(), &options)
}

/// A store in a SQLite file, in which nothing is flushed that need not be.
pub(crate) fn sqlite(path: &Path) -> Ledger {
    let options = OpenOptions::new().with_durability(Durability::Relaxed);
    Ledger::new(SqliteBackend::open(path, &options).unwrap(), &options)
}

pub(crate) fn redb(path: &Path) -> Ledger {
    let options = OpenOptions::new();
    Ledger::new(RedbBackend::open(path, &options).unwrap(), &options)
}

/// All of a store, as its export has it.
pub(crate) fn stream(ledger: &Ledger) -> Vec<u8> {
    ledger.snapshot().unwrap().as_bytes().to_vec()
}

/// Copies a store from SQLite to PostgreSQL, on to redb and back to SQLite, and finds the same in all of them. Answers the
/// store in PostgreSQL.
pub(crate) fn copied_round(first: &Ledger, directory: &Path) -> Ledger {
    let postgres = open(&fresh_url()).unwrap();
    let (redb, last) = (redb(&directory.join("between.redb")), sqlite(&directory.join("last.db")));
    let wanted = stream(first);
    for (from, to) in [(first, &postgres), (&postgres, &redb), (&redb, &last)] {
        assert_eq!(from.copy_to(to).unwrap().skipped, 0);
        assert!(stream(to) == wanted, "what was copied is not what was there");
    }
    postgres
}

/// The address of a store of its own on the shared server.
pub(crate) fn fresh_url() -> String {
    with_schema(&shared_url(), &unique_schema())
}

pub(crate) fn payload(json: &str) -> Payload {
    Payload::from_json(json).unwrap()
}

pub(crate) fn queue(project: &str, id: &str) -> QueueRun {
    QueueRun::new(project, id, "wf", payload("{}"))
}

pub(crate) fn start(project: &str, id: &str) -> StartRun {
    StartRun::new(project, id, "wf", payload("{}")).with_execution(execution("t"))
}

pub(crate) fn execution(token: &str) -> Execution {
    Execution::new(token, Time::from_unix_us(4_000_000_000_000_000).unwrap())
}

pub(crate) fn claim(project: &str, token: &str) -> ClaimRun {
    ClaimRun::new(project, execution(token))
}
