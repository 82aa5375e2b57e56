//! A store whose lower layer is in our hands.

use std::path::Path;

use runledger_core::{Ledger, OpenOptions, Result};
use tempfile::TempDir;

use crate::{Image, Watch};

/// Up to where a store must last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Floor {
    /// All that was acknowledged.
    Acknowledged,
    /// All that was acknowledged before the last flush of a file.
    LastSync,
    /// All that was acknowledged before the last flush of the directory.
    LastDirectorySync,
}

/// A backend with a way of opening it.
pub trait Rig {
    /// What it is.
    fn name(&self) -> String;

    /// How its stores are opened.
    fn options(&self) -> OpenOptions;

    /// What survives a loss of power.
    fn floor(&self) -> Floor;

    /// What the message has of an error that comes from below.
    fn cause(&self) -> &'static str;

    /// Whether a read may have to undo what a write that failed has left in the file.
    fn reads_may_write(&self) -> bool {
        false
    }

    /// The durable files before the first open.
    fn fresh(&self) -> Image;

    /// A place with these files, all of them durable.
    fn site(&self, files: &Image) -> Box<dyn Site>;
}

/// A place with the files of one store.
pub trait Site {
    /// Opens the store.
    ///
    /// # Errors
    /// Those of the backend.
    fn open(&self, options: &OpenOptions) -> Result<Ledger>;

    /// What watches the layer below.
    fn watch(&self) -> &Watch;

    /// Has somebody else copy the log into the file, where there is a log. That may fail, which is theirs to know.
    fn checkpoint(&self) {}

    /// The file, where there is one that other programs can open.
    fn path(&self) -> Option<&Path> {
        None
    }

    /// Notes that the caller was answered.
    fn acknowledge(&self) {
        self.watch().acknowledge();
    }
}

/// A directory in memory where the system has one: what is flushed there is not what these tests look at.
pub fn scratch_directory() -> TempDir {
    let memory = Path::new("/dev/shm");
    let directory = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
    directory.expect("a temporary directory can be made")
}
