//! Where a simulation plays.

use std::path::Path;
use std::sync::Arc;

use runledger_backend_memory::MemoryBackend;
use runledger_backend_redb::RedbBackend;
use runledger_backend_sqlite::SqliteBackend;
use runledger_core::{Backend, Durability, Journal, Ledger, ManualClock, OpenOptions, Result, Time};
use tempfile::TempDir;

use crate::scratch_directory;

type Open = dyn Fn(&OpenOptions) -> Result<Ledger>;

/// A store, and how it is opened.
pub struct Stage {
    name: String,
    open: Box<Open>,
    options: OpenOptions,
    pub(super) clock: Arc<ManualClock>,
    /// How many handles are open at a time, as by so many processes.
    pub(super) handles: usize,
    /// Whether the store outlives its handles.
    pub(super) is_lasting: bool,
    _directory: Option<TempDir>,
}

/// 2026-01-01.
pub(super) const START_US: i64 = 1_767_225_600_000_000;

impl Stage {
    fn new(name: &str, open: Box<Open>, directory: Option<TempDir>, handles: usize) -> Stage {
        let clock = Arc::new(ManualClock::new(Time::MIN.plus_us(START_US - Time::MIN.unix_us())));
        let options = OpenOptions::new().with_clock(Arc::clone(&clock)).with_durability(Durability::Relaxed);
        Stage { name: name.to_owned(), open, options, clock, handles, is_lasting: directory.is_some(), _directory: directory }
    }

    fn in_directory(name: &str, handles: usize, open: impl Fn(&Path, &OpenOptions) -> Result<Ledger> + 'static) -> Stage {
        let directory = scratch_directory();
        let path = directory.path().join("store");
        Stage::new(name, Box::new(move |options| open(&path, options)), Some(directory), handles)
    }

    /// A store in memory.
    pub fn memory() -> Stage {
        Stage::memory_as("memory", |backend| backend)
    }

    /// A store in memory with something around its backend.
    pub fn memory_as<B: Backend>(name: &str, wrap: impl Fn(MemoryBackend) -> B + 'static) -> Stage {
        let open = move |options: &OpenOptions| Ok(Ledger::new(wrap(MemoryBackend::open(options)?), options));
        Stage::new(name, Box::new(open), None, 1)
    }

    /// A SQLite file that several have open.
    pub fn sqlite(journal: Journal, handles: usize) -> Stage {
        Stage::in_directory(&format!("sqlite, journal={journal}, {handles} handles"), handles, move |path, options| {
            let options = options.clone();
            // The journal is chosen at creation; later handles take it as it is.
            let options = if path.exists() { options } else { options.with_journal(journal) };
            Ok(Ledger::new(SqliteBackend::open(path, &options)?, &options))
        })
    }

    /// A redb file.
    pub fn redb() -> Stage {
        Stage::in_directory("redb", 1, |path, options| Ok(Ledger::new(RedbBackend::open(path, options)?, options)))
    }

    /// What it is.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn open(&self) -> Result<Ledger> {
        (self.open)(&self.options)
    }
}
