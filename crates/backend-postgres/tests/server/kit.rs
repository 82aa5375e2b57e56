//! What the tests share.

use runledger_backend_postgres::PostgresBackend;
use runledger_core::{ClaimRun, Execution, Ledger, OpenOptions, Payload, QueueRun, Result, StartRun, Time};
use runledger_postgres_kit::{shared_url, unique_schema, with_schema};

/// Opens a ledger at an address.
pub(crate) fn open(url: &str) -> Result<Ledger> {
    let mut options = OpenOptions::new();
    let backend = PostgresBackend::open(url, &mut options)?;
    Ok(Ledger::new(backend, &options))
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
