//! What a store must offer to be held against the contract.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use runledger_core::ManualClock;

/// A handle on an open store. Errors are the error object of the JSON form, as text.
pub trait Store: Send + Sync {
    /// One request of the JSON form in, one answer out.
    fn call(&self, request: &str) -> String;

    /// The store as a stream.
    ///
    /// # Errors
    /// The error object.
    fn export(&self) -> Result<Vec<u8>, String>;

    /// Adds the records of a stream; answers `{"runs":…,"nodes":…,"agents":…,"skipped":…}`.
    ///
    /// # Errors
    /// The error object.
    fn import(&self, stream: &[u8]) -> Result<String, String>;

    /// Everything that the store holds.
    ///
    /// # Errors
    /// The error object.
    fn snapshot(&self) -> Result<Vec<u8>, String>;

    /// Replaces everything that the store holds.
    ///
    /// # Errors
    /// The error object.
    fn restore(&self, snapshot: &[u8]) -> Result<(), String>;

    /// Closes the handle.
    ///
    /// # Errors
    /// The error object.
    fn close(&self) -> Result<(), String>;
}

/// Whether a store can be open more than once at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// Every handle is a store of its own, as in memory.
    Never,
    /// One handle at a time: a second open is `locked`.
    Exclusive,
    /// Several handles, in one process or in many.
    Many,
}

/// What a place can do.
#[derive(Clone, Copy, Debug)]
pub struct Traits {
    /// The name in `store.info`.
    pub backend: &'static str,
    /// Whether what is written is still there after closing and opening again.
    pub is_lasting: bool,
    /// Whether the store is one file, so that the rules about files apply.
    pub is_file: bool,
    /// Whether it can be open more than once.
    pub sharing: Sharing,
    /// Whether a manual clock can be given.
    pub has_clock: bool,
    /// Whether it has the option `journal`.
    pub has_journal: bool,
}

impl Traits {
    /// A store in memory.
    pub const fn memory() -> Self {
        Traits { backend: "memory", is_lasting: false, is_file: false, sharing: Sharing::Never, has_clock: true, has_journal: false }
    }

    /// A SQLite file.
    pub const fn sqlite() -> Self {
        Traits { backend: "sqlite", is_lasting: true, is_file: true, sharing: Sharing::Many, has_clock: true, has_journal: true }
    }

    /// A redb file.
    pub const fn redb() -> Self {
        Traits { backend: "redb", is_lasting: true, is_file: true, sharing: Sharing::Exclusive, has_clock: true, has_journal: false }
    }

    /// A schema of a PostgreSQL database.
    pub const fn postgres() -> Self {
        Traits { backend: "postgres", is_lasting: true, is_file: false, sharing: Sharing::Many, has_clock: true, has_journal: false }
    }

    /// The same without a manual clock.
    #[must_use]
    pub const fn without_clock(mut self) -> Self {
        self.has_clock = false;
        self
    }
}

/// How a store is opened: the contract's options by name, and the clock.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Names and values, as in an address.
    pub values: Vec<(String, String)>,
    /// Where times come from that are not given; the system's clock when absent.
    pub clock: Option<Arc<ManualClock>>,
}

impl Options {
    /// None given.
    pub fn new() -> Self {
        Options::default()
    }

    /// Adds an option.
    #[must_use]
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.values.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Sets the clock.
    #[must_use]
    pub fn with_clock(mut self, clock: Arc<ManualClock>) -> Self {
        self.clock = Some(clock);
        self
    }
}

/// A place where one store can be; at first there is none. What is in it is gone when it is dropped.
pub trait Place: Send + Sync {
    /// Opens the store, and creates it if the options allow that.
    ///
    /// # Errors
    /// The error object.
    fn open(&self, options: &Options) -> Result<Arc<dyn Store>, String>;

    /// The path of the file, for a store that is one. Its directory is empty at first and belongs to the place.
    fn path(&self) -> Option<PathBuf>;

    /// The same kind of store at another path, for a store that is a file.
    fn at(&self, path: &Path) -> Box<dyn Place>;
}

/// Makes places for stores of one kind.
pub trait Harness: Send + Sync {
    /// What is tested, for reports.
    fn name(&self) -> String;

    /// What its places can do.
    fn traits(&self) -> Traits;

    /// A fresh place.
    fn place(&self) -> Box<dyn Place>;
}
