//! Power loss, errors, damage, races and time: what a store must withstand, and the harnesses that try it.
//!
//! The backends run as they are in the product. Below their engine a layer is replaced, for redb a storage, for SQLite a file
//! system: it records every write, cut, flush, creation and removal, and can make any of them fail.
//!
//! - [`crash`] makes of a [`Recording`] the files that a loss of power could leave at every moment, and holds each against
//!   the states that the acknowledged commands made.
//! - [`errors`] has every single operation of the engine fail in turn, and follows what the store says and does.
//! - [`damage`] flips, cuts and mixes up files, and follows what is made of them.
//! - [`migration`] is a later version of each file format, so that the way from an old file is tried before it is needed.
//! - [`simulation`] plays a fleet of workers in virtual time.
//! - [`history`] has many callers meet, and looks for an order of their calls that explains what they were answered.
//! - [`Plant`], [`Change`] and `runledger_core::planted` break what lies below, around and in the product: the list in
//!   `tests/planted_list.rs` says which test finds which.
//!
//! All randomness comes from seeds. `RUNLEDGER_LONG=1` tries many more.

#![allow(clippy::unwrap_used, clippy::panic, reason = "in this crate a panic is how a test fails")]

mod around;
pub mod crash;
pub mod damage;
mod dice;
mod disk;
pub mod errors;
pub mod fork;
pub mod history;
pub mod migration;
pub mod process;
mod redb;
pub mod simulation;
mod site;
mod sqlite;
mod vfs;
mod watch;
mod workload;

pub use around::{Around, Change};
pub use dice::Dice;
pub use disk::{Disk, Event, Fate, FileId, Image, Recording};
pub use redb::Redb;
pub use site::{Floor, Rig, Site, scratch_directory};
pub use sqlite::{Shm, Sqlite};
pub use watch::{Failure, Fault, Op, Plant, Watch};
pub use workload::{Unit, Workload, model, state_of};

/// Whether the long part is asked for.
pub fn is_long() -> bool {
    std::env::var_os("RUNLEDGER_LONG").is_some_and(|value| value != "0")
}
