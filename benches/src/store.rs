//! Stores that are measured. What each promises is read back before a figure counts.

use std::fs;
use std::path::{Path, PathBuf};

use runledger::{Durability, GetStoreInfo, Ledger, OpenOptions};
use rusqlite::{Connection, OpenFlags};

use crate::Result;

/// A backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// In memory.
    Memory,
    /// In a SQLite file.
    Sqlite,
    /// In a redb file.
    Redb,
}

impl Kind {
    /// Every backend.
    pub const ALL: [Kind; 3] = [Kind::Memory, Kind::Sqlite, Kind::Redb];

    /// The backend's name.
    pub fn as_str(self) -> &'static str {
        match self {
            Kind::Memory => "memory",
            Kind::Sqlite => "sqlite",
            Kind::Redb => "redb",
        }
    }
}

/// Opens the store of a name in a directory, which is made if it is not there.
///
/// # Errors
/// Those of the backend; or the store is not as durable as was asked.
pub fn open(kind: Kind, durability: Durability, directory: &Path, name: &str) -> Result<Ledger> {
    fs::create_dir_all(directory)?;
    let options = OpenOptions::new().with_durability(durability);
    let path = path(kind, directory, name);
    let ledger = match kind {
        Kind::Memory => runledger::open_memory(&options)?,
        Kind::Sqlite => runledger::open_sqlite(&path, &options)?,
        Kind::Redb => runledger::open_redb(&path, &options)?,
    };
    check(kind, durability, &ledger, &path)?;
    Ok(ledger)
}

/// Opens a new store, in place of an old one of that name.
///
/// # Errors
/// As [`open`].
pub fn create(kind: Kind, durability: Durability, directory: &Path, name: &str) -> Result<Ledger> {
    remove(kind, directory, name);
    open(kind, durability, directory, name)
}

/// The file of a store.
pub fn path(kind: Kind, directory: &Path, name: &str) -> PathBuf {
    directory.join(format!("{name}.{}", kind.as_str()))
}

/// Removes the files of a store, where there are any.
pub fn remove(kind: Kind, directory: &Path, name: &str) {
    let path = path(kind, directory, name);
    for suffix in ["", "-wal", "-shm", "-journal"] {
        let mut file = path.clone().into_os_string();
        file.push(suffix);
        // What is not there need not be removed, and what can't be is found out when it is opened.
        let _absent = fs::remove_file(file);
    }
}

/// The backend itself reads every setting of its connections back; here is held against the file what a file can tell.
fn check(kind: Kind, durability: Durability, ledger: &Ledger, path: &Path) -> Result<()> {
    let promised = ledger.store_info(GetStoreInfo::new())?.durability;
    // redb has nothing weaker than its full durability.
    let wanted = if kind == Kind::Redb { Durability::Full } else { durability };
    if promised != wanted.as_str() {
        return Err(format!("the store promises durability {promised}, and {wanted} was asked").into());
    }
    if kind == Kind::Sqlite {
        let conn = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        let journal: String = conn.pragma_query_value(None, "journal_mode", |row| row.get(0))?;
        let page: i64 = conn.pragma_query_value(None, "page_size", |row| row.get(0))?;
        if journal != "wal" || page != 4096 {
            return Err(format!("the file has journal {journal} and pages of {page} bytes").into());
        }
    }
    Ok(())
}
