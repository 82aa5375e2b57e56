//! Keeps the state of workflow runs: which runs, node runs and agent runs there are, where each of them stands, and who
//! owns it until when. One behaviour on memory, SQLite, redb and PostgreSQL.
//!
//! A [`Ledger`] takes commands, each one atomic and durable step, and queries. Workers claim queued runs with a token and
//! a lease, and whoever lost a run is told so at the next call:
//!
//! ```
//! # #[cfg(feature = "memory")]
//! # fn main() -> runledger::Result<()> {
//! use runledger::{ClaimRun, Code, EndStatus, Execution, FinishRun, Payload, QueueRun, Time};
//!
//! let ledger = runledger::open("memory:")?;
//! ledger.queue_run(QueueRun::new("shop", "r1", "checkout", Payload::from_json(r#"{"order":17}"#)?))?;
//!
//! let lease_end: Time = "2026-03-01T09:30:00Z".parse()?;
//! let claimed = ledger.claim_run(ClaimRun::new("shop", Execution::new("worker-1", lease_end)))?;
//! assert_eq!(claimed.map(|run| run.attempt), Some(1));
//!
//! let stranger = FinishRun::new("shop", "r1", EndStatus::Succeeded).with_execution_token("worker-2");
//! assert_eq!(ledger.finish_run(stranger).unwrap_err().code(), Code::StaleToken);
//! # Ok(())
//! # }
//! # #[cfg(not(feature = "memory"))]
//! # fn main() {}
//! ```
//!
//! # Where the records are
//!
//! [`open`] takes an address; the same options stand in its query or in [`OpenOptions`].
//!
//! | address | feature | what it is |
//! |---|---|---|
//! | `memory:` | `memory` (default) | gone when dropped |
//! | `sqlite:PATH` | `sqlite` (default) | one file, several processes and threads at once |
//! | `redb:PATH` | `redb` | one file, one process that writes, many threads |
//! | `postgres://USER@HOST/DATABASE` | `postgres` | a schema of a PostgreSQL database, many machines at once |
//!
//! The feature `full` turns on every backend. A backend of your own implements [`Backend`] and is handed to
//! [`Ledger::new`]; the package `runledger-conformance` says whether it behaves.
//!
//! # Other features
//!
//! - `tokio`: `AsyncLedger`, the same ledger for tasks, which never blocks a thread of the runtime.
//! - `tracing`: events through the package `tracing`: what was refused, what was committed together, a flush that failed.

#[cfg(feature = "tokio")]
mod alarms;
#[cfg(feature = "tokio")]
mod async_ledger;
mod open;

/// The README's example is compiled and run with the tests of the documentation.
#[cfg(all(doctest, feature = "memory"))]
#[doc = include_str!("../README.md")]
struct Readme;

#[cfg(feature = "memory")]
#[doc(inline)]
pub use runledger_backend_memory as memory;
#[cfg(feature = "postgres")]
#[doc(inline)]
pub use runledger_backend_postgres as postgres;
#[cfg(feature = "redb")]
#[doc(inline)]
pub use runledger_backend_redb as redb;
#[cfg(feature = "sqlite-system")]
#[doc(inline)]
pub use runledger_backend_sqlite as sqlite;
#[doc(inline)]
pub use runledger_core::*;

#[cfg(feature = "tokio")]
pub use async_ledger::AsyncLedger;
pub use open::*;
