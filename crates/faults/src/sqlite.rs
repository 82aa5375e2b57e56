//! SQLite over the watched file system.

use std::ffi::CStr;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use runledger_backend_sqlite::SqliteBackend;
use runledger_core::{Durability, Journal, Ledger, Mode, OpenOptions, Result};
use rusqlite::Connection;
use tempfile::TempDir;

use crate::vfs::{Watched, run_on_last_connections};
use crate::{Dice, Floor, Image, Rig, Site, Watch, scratch_directory};

/// The name of the store's file.
const NAME: &str = "store";

/// The name of the memory that connections share, which is a file too, but is of no use after a crash.
const SHM: &str = "store-shm";

/// The shared memory that is found after a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shm {
    /// None.
    None,
    /// One of an earlier moment.
    Stale,
    /// Anything.
    Garbage,
    /// One of these.
    Any,
}

/// Stores of the SQLite backend.
#[derive(Clone, Debug)]
pub struct Sqlite {
    journal: Journal,
    durability: Durability,
    floor: Floor,
    shm: Shm,
    behind_its_back: Option<&'static CStr>,
    stale: Arc<Mutex<Vec<Vec<u8>>>>,
    dice: Arc<Mutex<Dice>>,
}

impl Sqlite {
    /// Stores opened so.
    pub fn new(journal: Journal, durability: Durability) -> Self {
        let floor = match (durability, journal) {
            (Durability::Full, _) => Floor::Acknowledged,
            (_, Journal::Wal) => Floor::LastSync,
            (_, Journal::Delete) => Floor::LastDirectorySync,
        };
        Sqlite {
            journal,
            durability,
            floor,
            shm: Shm::Any,
            behind_its_back: None,
            stale: Arc::default(),
            dice: Arc::new(Mutex::new(Dice::new(7))),
        }
    }

    /// With a statement that is run on the connection that writes, and the first that reads, behind the product's back.
    #[must_use]
    pub fn with_behind_its_back(mut self, sql: &'static CStr) -> Self {
        self.behind_its_back = Some(sql);
        self
    }

    /// Held against more, or less, than what the durability promises.
    #[must_use]
    pub fn with_floor(mut self, floor: Floor) -> Self {
        self.floor = floor;
        self
    }

    /// With shared memory of this kind found after a crash.
    #[must_use]
    pub fn with_shm(mut self, shm: Shm) -> Self {
        self.shm = shm;
        self
    }

    /// The shared memory that is found this time.
    fn found_shm(&self) -> Option<Vec<u8>> {
        let mut dice = self.dice.lock().unwrap_or_else(PoisonError::into_inner);
        let stale = self.stale.lock().unwrap_or_else(PoisonError::into_inner);
        let shm = if self.shm == Shm::Any { dice.one_of(&[Shm::None, Shm::Stale, Shm::Garbage]) } else { self.shm };
        match shm {
            Shm::Stale if !stale.is_empty() => Some(dice.one_of(&stale)),
            Shm::Garbage => Some((0..32_768 / 8).flat_map(|_| dice.roll().to_le_bytes()).collect()),
            _ => None,
        }
    }
}

impl fmt::Display for Sqlite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sqlite with journal={} and durability={}, shared memory {:?}", self.journal, self.durability, self.shm)
    }
}

impl Rig for Sqlite {
    fn name(&self) -> String {
        self.to_string()
    }

    fn options(&self) -> OpenOptions {
        OpenOptions::new().with_durability(self.durability).with_busy_timeout_ms(10)
    }

    fn floor(&self) -> Floor {
        self.floor
    }

    fn cause(&self) -> &'static str {
        "(result "
    }

    fn reads_may_write(&self) -> bool {
        self.journal == Journal::Delete
    }

    fn fresh(&self) -> Image {
        Image::new()
    }

    fn site(&self, files: &Image) -> Box<dyn Site> {
        let directory = scratch_directory();
        for (name, content) in files {
            fs::write(directory.path().join(name), content).unwrap();
        }
        if let Some(shm) = self.found_shm().filter(|_| files.contains_key(NAME)) {
            fs::write(directory.path().join(SHM), shm).unwrap();
        }
        let watch = Arc::new(Watch::default());
        // As the backend sees it: free of symbolic links.
        let path = fs::canonicalize(directory.path()).unwrap().join(NAME);
        let watched = Watched::new(path.parent().unwrap_or(&path), Arc::clone(&watch));
        Box::new(Directory { rig: self.clone(), path, watch, _watched: watched, _directory: directory })
    }
}

struct Directory {
    rig: Sqlite,
    path: PathBuf,
    watch: Arc<Watch>,
    _watched: Watched,
    _directory: TempDir,
}

impl Site for Directory {
    fn open(&self, options: &OpenOptions) -> Result<Ledger> {
        // The journal is chosen at creation; a reader never switches it, and after a crash it is as it is.
        let is_new = fs::metadata(&self.path).map_or(0, |meta| meta.len()) == 0;
        let options = if is_new { options.clone().with_journal(self.rig.journal) } else { options.clone() };
        let backend = SqliteBackend::open(&self.path, &options)?;
        if let Some(sql) = self.rig.behind_its_back.filter(|_| options.mode != Mode::ReadOnly) {
            run_on_last_connections(sql);
        }
        Ok(Ledger::new(backend, &options))
    }

    fn watch(&self) -> &Watch {
        &self.watch
    }

    fn checkpoint(&self) {
        let _ = Connection::open(&self.path).and_then(|conn| conn.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(())));
    }

    fn path(&self) -> Option<&Path> {
        Some(&self.path)
    }

    fn acknowledge(&self) {
        self.watch.acknowledge();
        if let Ok(shm) = fs::read(self.path.with_file_name(SHM)) {
            let mut stale = self.rig.stale.lock().unwrap_or_else(PoisonError::into_inner);
            if stale.len() < 64 && !stale.contains(&shm) {
                stale.push(shm);
            }
        }
    }
}
