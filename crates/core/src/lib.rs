//! The contract of runledger: records, commands, pure transitions, queries, errors, the JSON form, and the interface
//! that a backend implements. Programs use the package `runledger`, which brings the backends.
//!
//! The parts, from the outside in: a [`Ledger`] takes a [`Command`] or a [`Query`], checks its shape, and has a
//! [`Backend`] load and store the records about which the [`transition`]s decide.

pub mod transition;

mod answer;
mod backend;
mod backup;
pub mod codec;
mod command;
mod cursor;
mod error;
mod export_run;
mod gate;
mod group;
mod json;
pub mod keys;
mod ledger;
mod open;
mod payload;
#[doc(hidden)]
pub mod planted;
mod progress;
mod query;
mod record;
mod request;
mod shape;
mod text;
mod time;
mod transfer;
mod wait;
mod walk;

pub use answer::*;
pub use backend::*;
pub use backup::*;
pub use command::*;
pub use error::*;
pub use ledger::*;
pub use open::*;
pub use payload::*;
pub use progress::{Meter, OnProgress, Progress, Stage, unwatched};
pub use query::*;
pub use record::*;
pub use request::*;
pub use shape::{DEFAULT_MAX_PAYLOAD_BYTES, Limits, MAX_LIST_VALUES, MAX_REQUEST_BYTES};
pub use text::*;
pub use time::*;
pub use transfer::*;
pub use wait::{OnQueued, QueueKey, QueueKind, WaitingPlace, wait_until};
pub use walk::Walk;

/// The result of every call of this library.
pub type Result<T> = std::result::Result<T, Error>;
