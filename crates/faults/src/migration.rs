//! A later version of each file format, which the product does not have yet: so that the way from an old file to a new one
//! is there, and tried, before it is needed.

use std::path::{Path, PathBuf};

use redb::{ReadableTableMetadata, TableDefinition, WriteTransaction};
use runledger_backend_redb::{Later, RedbBackend};
use runledger_backend_sqlite::SqliteBackend;
use runledger_core::{Durability, Error, Journal, Ledger, OpenOptions, Result};

use crate::redb::MemoryFile;
use crate::{Floor, Image, Plant, Redb, Rig, Site, Sqlite, Unit, Watch, Workload, crash, scratch_directory};

/// What a later version does to a SQLite store: tables, content and an index, in two steps, neither of which can be taken
/// twice.
pub const LATER_SQL: &[&str] = &[
    "CREATE TABLE note (project INTEGER PRIMARY KEY, text TEXT NOT NULL) STRICT;
     INSERT INTO note (project, text) SELECT key, 'of ' || id FROM project;
     CREATE INDEX run_by_attempt ON run (attempt, id);",
    "ALTER TABLE note ADD COLUMN runs INTEGER;
     UPDATE note SET text = text || '!', runs = (SELECT count(*) FROM run WHERE run.project = note.project);",
];

/// What a later version does to a redb store.
pub const LATER_REDB: Later = &[make_notes, mark_notes];

const NOTES: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("notes");

fn engine(error: impl Into<redb::Error>) -> Error {
    Error::corrupt(error.into().to_string())
}

fn make_notes(txn: &WriteTransaction) -> Result<()> {
    let mut notes = txn.open_table(NOTES).map_err(engine)?;
    if !notes.is_empty().map_err(engine)? {
        return Err(Error::corrupt("the notes are there before the step that makes them"));
    }
    for number in 0..500_u32 {
        notes.insert(number.to_be_bytes().as_slice(), [7; 100].as_slice()).map_err(engine)?;
    }
    Ok(())
}

fn mark_notes(txn: &WriteTransaction) -> Result<()> {
    let mut notes = txn.open_table(NOTES).map_err(engine)?;
    for number in 0..500_u32 {
        notes.insert(number.to_be_bytes().as_slice(), [8; 100].as_slice()).map_err(engine)?;
    }
    Ok(())
}

/// A file backend in two versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "each says what it is")]
pub enum Kind {
    Sqlite,
    Redb,
}

impl Kind {
    /// Opens a store with the product as it is.
    ///
    /// # Errors
    /// Those of the backend.
    pub fn open(self, path: &Path, options: &OpenOptions) -> Result<Ledger> {
        Ok(match self {
            Kind::Sqlite => Ledger::new(SqliteBackend::open(path, options)?, options),
            Kind::Redb => Ledger::new(RedbBackend::open(path, options)?, options),
        })
    }

    /// Opens a store with the later version.
    ///
    /// # Errors
    /// Those of the backend.
    pub fn open_later(self, path: &Path, options: &OpenOptions) -> Result<Ledger> {
        Ok(match self {
            Kind::Sqlite => Ledger::new(SqliteBackend::open_with_later_steps(path, options, LATER_SQL)?, options),
            Kind::Redb => Ledger::new(RedbBackend::open_with_later_migrations(path, options, LATER_REDB)?, options),
        })
    }

    /// The store that a workload leaves, closed, as the product as it is makes it.
    pub fn old_store(self, path: &Path, workload: &Workload) {
        let ledger = self.open(path, &OpenOptions::new()).unwrap();
        for unit in &workload.units {
            unit.carry_out(&ledger);
        }
        ledger.close().unwrap();
    }
}

/// Loses power at every moment of a migration.
pub fn lose_power(kind: Kind, plan: &crash::Plan) -> crash::Tally {
    let content = Workload::new(21, if crate::is_long() { 60 } else { 12 }, 0);
    let rig = Migrated::new(kind, &content);
    let state = content.states.last().cloned().unwrap_or_default();
    // The open that migrates comes before the first step, which changes nothing that is held.
    let workload = Workload { units: vec![Unit::Checkpoint], answers: vec![Vec::new()], states: vec![state.clone(), state] };
    let recording = crash::record(&rig, &workload, Plant::Nothing);
    crash::try_all(&rig, &workload, &recording, plan)
}

/// Old stores that the later version opens, over a layer below that is in our hands.
struct Migrated {
    kind: Kind,
    sqlite: Sqlite,
    base: Image,
}

impl Migrated {
    /// Stores that hold what a workload leaves.
    fn new(kind: Kind, workload: &Workload) -> Migrated {
        let sqlite = Sqlite::new(Journal::Wal, Durability::Full);
        let directory = scratch_directory();
        let path = directory.path().join("store");
        kind.old_store(&path, workload);
        Migrated { kind, sqlite, base: Image::from([("store".to_owned(), std::fs::read(path).unwrap())]) }
    }
}

impl Rig for Migrated {
    fn name(&self) -> String {
        format!("migration of {:?}", self.kind)
    }

    fn options(&self) -> OpenOptions {
        OpenOptions::new().with_busy_timeout_ms(10)
    }

    fn floor(&self) -> Floor {
        Floor::Acknowledged
    }

    fn cause(&self) -> &'static str {
        match self.kind {
            Kind::Sqlite => self.sqlite.cause(),
            Kind::Redb => Redb.cause(),
        }
    }

    fn fresh(&self) -> Image {
        self.base.clone()
    }

    fn site(&self, files: &Image) -> Box<dyn Site> {
        match self.kind {
            Kind::Redb => Box::new(MemoryFile::new(files, LATER_REDB)),
            Kind::Sqlite => {
                let site = self.sqlite.site(files);
                Box::new(SqliteSite { path: site.path().map(Path::to_owned).unwrap_or_default(), site })
            }
        }
    }
}

struct SqliteSite {
    site: Box<dyn Site>,
    path: PathBuf,
}

impl Site for SqliteSite {
    fn open(&self, options: &OpenOptions) -> Result<Ledger> {
        Kind::Sqlite.open_later(&self.path, options)
    }

    fn watch(&self) -> &Watch {
        self.site.watch()
    }

    fn path(&self) -> Option<&Path> {
        Some(&self.path)
    }

    fn acknowledge(&self) {
        self.site.acknowledge();
    }
}
