//! What the disk, the engines and a map need alone.
//!
//! A floor does for the lifecycle of a run, by hand, what a backend does: the same guards, reads, writes, indexes,
//! counters and checksums, and it answers the same records. It knows nothing else: no other command, no other caller.

mod disk;
mod map;
mod pages;
mod queries;
mod redb;
mod rules;
mod sqlite;

pub use disk::Disk;
pub use map::Map;
pub use pages::{MapPages, Pages, RedbPages};
pub use queries::{Arms, List, Queries, get, stats};
pub use redb::Redb;
pub use sqlite::{Sqlite, connect};

use runledger::Command;

use crate::Result;

/// A loop by hand over the commands of a lifecycle.
pub trait Floor {
    /// Carries out commands in one transaction.
    ///
    /// # Errors
    /// That of the engine, or the refusal of a command.
    fn carry_out(&mut self, commands: &mut dyn Iterator<Item = Command>) -> Result<()>;
}

/// A command that a floor does not know.
fn unknown(command: &Command) -> Box<dyn std::error::Error + Send + Sync> {
    format!("no floor knows {}", command.op()).into()
}
