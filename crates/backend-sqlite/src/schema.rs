//! The tables, the marks by which a file is known as ours, and how a store comes to be.

use std::time::Duration;

use runledger_core::planted::{Defect, is_planted};
use runledger_core::{Code, Journal, Mode, OpenOptions, Result};
use rusqlite::Connection;
use rusqlite::ffi::{SQLITE_CORRUPT, SQLITE_NOTADB};

use crate::connect::{Access, abandon, checkpoint, connect, keep_log_short, pragma, retry, run, set, settle, wait_at_most};
use crate::error::Outcome;
use crate::place::Place;

/// The mark of our files: "RnLg". It is the first thing that is ever written to one.
pub(crate) const APPLICATION_ID: i64 = 0x526E_4C67;

/// The steps from each version of the schema to the next. A store's version is how many of them it has seen.
pub(crate) type Steps = &'static [&'static str];

/// The steps to the version of the schema that this library reads and writes.
pub(crate) const STEPS: Steps = &[include_str!("schema_1.sql")];

/// The page size of new stores, in bytes. 8192 costs a quarter of the speed.
const PAGE_SIZE: i64 = 4096;

/// What is found at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// Nothing.
    Nothing,
    /// An empty file: a fresh store.
    Empty,
    /// A store of ours, of this version. Version 0 is one whose creation was cut short.
    Ours(i64),
}

/// How often a file is looked at that seems damaged: one that another process writes to can be seen half written.
const LOOKS: usize = 5;

/// Says whose the file is, with its log in view, and leaves every byte of both as it is.
pub(crate) fn judge(place: &Place) -> Result<Found> {
    match place.file_len()? {
        None => return Ok(Found::Nothing),
        Some(0) => return Ok(Found::Empty),
        Some(_) => {}
    }
    let mut looked = look(place);
    for _ in 1..LOOKS {
        if !looked.as_ref().is_err_and(|fault| fault.code() == Code::Corrupt) {
            break;
        }
        std::thread::sleep(Duration::from_millis(1));
        looked = look(place);
    }
    let (application_id, version) = match looked {
        // Power was lost before its first page was written, and the journal will undo the rest.
        Err(fault) if fault.code() == Code::NotALedger && place.was_empty_before_journal() => return Ok(Found::Empty),
        looked => looked.map_err(|fault| fault.into_error(&place.shown))?,
    };
    if application_id != APPLICATION_ID {
        return Err(not_ours(place));
    }
    check_version(place, version)?;
    // The engine takes the last page for whole when a part of it is there. Looked at twice, because the file of a live
    // store can be seen in the midst of a write.
    if is_cut(place)? && is_cut(place)? {
        return Err(place.error(Code::Corrupt, "it ends in the midst of a page"));
    }
    Ok(Found::Ours(version))
}

/// The marks of a file, as they can be read without changing it.
fn look(place: &Place) -> Outcome<(i64, i64)> {
    // Without a log the file alone has everything, and can be looked at without creating anything beside it.
    let access = if place.log_len() > 0 { Access::Read } else { Access::Frozen };
    match retry(|| marks(place, access)) {
        // The log can't be read where nothing may be created. The file's own mark says whose it is.
        Err(fault) if access == Access::Read && fault.is_for_want_of_side_files() => marks(place, Access::Frozen),
        other => other,
    }
}

fn is_cut(place: &Place) -> Result<bool> {
    Ok(place.file_len()?.is_some_and(|len| len % PAGE_SIZE as u64 != 0) && !place.has_log_or_journal())
}

fn not_ours(place: &Place) -> runledger_core::Error {
    place.error(Code::NotALedger, "it is a file of another program")
}

fn check_version(place: &Place, version: i64) -> Result<()> {
    if version > place.version() {
        let what = format!("it has schema version {version}, and this library knows versions up to {}", place.version());
        return Err(place.error(Code::SchemaTooNew, &what));
    }
    if version < 0 {
        return Err(place.error(Code::Corrupt, "it has no schema version that was ever written"));
    }
    Ok(())
}

/// The application id and the schema version of a file, without checking the tables.
fn marks(place: &Place, access: Access) -> Outcome<(i64, i64)> {
    let conn = connect(place, access)?;
    let fault = match read_marks(&conn) {
        Ok(marks) => return Ok(marks),
        Err(fault) => fault,
    };
    match fault.primary() {
        SQLITE_NOTADB => Err(not_ours(place).into()),
        SQLITE_CORRUPT => {
            // The engine refuses a file that is shorter than it says it is; so asked, it reads the marks all the same.
            conn.pragma_update(None, "writable_schema", 1)?;
            match read_marks(&conn) {
                // A transaction was cut short, or is under way. The mark is as old as the file; the rest can be undone.
                Ok(marks @ (APPLICATION_ID, _)) if place.has_journal() => Ok(marks),
                Ok((APPLICATION_ID, _)) => Err(fault),
                _ => Err(not_ours(place).into()),
            }
        }
        _ => Err(fault),
    }
}

fn read_marks(conn: &Connection) -> Outcome<(i64, i64)> {
    Ok((pragma(conn, "application_id")?, pragma(conn, "user_version")?))
}

/// Opens the connection that writes, having created or migrated the store where that was needed.
pub(crate) fn open_writer(place: &mut Place, options: &OpenOptions) -> Result<Connection> {
    let found = judge(place)?;
    match (found, options.mode) {
        (Found::Nothing, Mode::Create) => place.check_directory()?,
        (Found::Nothing, _) => return Err(place.error(Code::Io, "there is no such file")),
        _ => {}
    }
    place.check_writable(found != Found::Nothing)?;
    let access = if found == Found::Nothing { Access::Create } else { Access::Write };
    let opened = || -> Outcome<Connection> {
        wait_at_most(Duration::from_millis(options.busy_timeout_ms));
        let conn = retry(|| connect(place, access))?;
        let created = establish(&conn, place, options.journal)?;
        settle(&conn, place, options.durability)?;
        if created {
            place.flush_directory()?;
        }
        // Before anything is copied from the log into the file.
        check_tables(&conn, place)?;
        keep_log_short(&conn)?;
        if place.log_len() > 0 {
            // Whoever had the store before may have met a flush that failed: what was not written then the system may drop,
            // and yet show it now. Copied into the file it lasts, before anything is built on it. Where others have the
            // store open nothing of the kind can be seen, and nobody is waited for. A store on a full disk opens all the same.
            wait_at_most(Duration::ZERO);
            match checkpoint(&conn) {
                Err(fault) if !matches!(fault.code(), Code::Full | Code::Busy) => return Err(fault),
                _ => {}
            }
            wait_at_most(Duration::from_millis(options.busy_timeout_ms));
        }
        Ok(conn)
    };
    let conn = opened().map_err(|fault| fault.into_error(&place.shown))?;
    // Only now is the file sure to be there, and free of symbolic links.
    place.path = std::fs::canonicalize(&place.path).unwrap_or_else(|_| place.path.clone());
    Ok(conn)
}

/// Checks that a store can be read as it is, and says how.
pub(crate) fn open_read_only(place: &Place, options: &OpenOptions) -> Result<Access> {
    match judge(place)? {
        Found::Nothing => return Err(place.error(Code::Io, "there is no such file")),
        Found::Empty => return Err(place.error(Code::ReadOnly, "the file is empty: a store would have to be created in it")),
        Found::Ours(version) if version < place.version() => {
            let what = format!("it has schema version {version} and would have to be migrated to {}", place.version());
            return Err(place.error(Code::ReadOnly, &what));
        }
        Found::Ours(_) => {}
    }
    wait_at_most(Duration::from_millis(options.busy_timeout_ms));
    let probe = |access| -> Outcome<()> {
        let conn = connect(place, access)?;
        retry(|| check_tables(&conn, place))
    };
    let access = match probe(Access::Read) {
        Err(fault) if fault.is_for_want_of_side_files() && !place.has_log_or_journal() => probe(Access::Frozen).map(|()| Access::Frozen),
        other => other.map(|()| Access::Read),
    };
    access.map_err(|fault| match fault {
        fault if fault.is_for_want_of_side_files() => {
            place.error(Code::ReadOnly, "it was not closed, and to read it now something would have to be written")
        }
        fault => fault.into_error(&place.shown),
    })
}

/// Brings the file to the present schema and the wanted journal; says whether it had to be created.
///
/// Several processes may do this at once. The mark comes first, so that a file is known as ours from its first byte;
/// then the journal, which can't be switched inside a transaction; then the tables with the version, in one step.
fn establish(conn: &Connection, place: &Place, journal: Option<Journal>) -> Outcome<bool> {
    // Reading comes first: it undoes a transaction that was cut short, which may leave an empty file.
    let (mut application_id, mut version) = retry(|| read_marks(conn))?;
    if application_id == 0 {
        // The file was empty a moment ago; somebody else may be about to mark it.
        retry(|| mark(conn, place))?;
        (application_id, version) = retry(|| read_marks(conn))?;
    }
    if application_id != APPLICATION_ID {
        return Err(not_ours(place).into());
    }
    check_version(place, version)?;
    let wanted = if version == 0 { Some(journal.unwrap_or(Journal::Wal)) } else { journal };
    if let Some(journal) = wanted {
        retry(|| switch_journal(conn, place, journal))?;
    }
    if version < place.version() {
        retry(|| migrate(conn, place))?;
    }
    Ok(version == 0)
}

/// Marks an empty file as ours.
fn mark(conn: &Connection, place: &Place) -> Outcome<()> {
    set(conn, place, "page_size", PAGE_SIZE)?;
    in_one_step(conn, || match place.file_len()? {
        Some(0) => set(conn, place, "application_id", APPLICATION_ID),
        // Somebody else came first: under this lock the file is empty only if nobody has.
        _ => Ok(()),
    })
}

fn switch_journal(conn: &Connection, place: &Place, journal: Journal) -> Outcome<()> {
    let taken: String = conn.pragma_update_and_check(None, "journal_mode", journal.as_str(), |row| row.get(0))?;
    if taken == journal.as_str() {
        return Ok(());
    }
    Err(place.error(Code::Io, &format!("the engine took {taken} for {journal} as its journal")).into())
}

fn migrate(conn: &Connection, place: &Place) -> Outcome<()> {
    let steps = || {
        let version = pragma(conn, "user_version")?;
        check_version(place, version)?;
        if version == 0 && !parts(conn)?.is_empty() {
            // The tables come with their version, in one step.
            return Err(place.error(Code::Corrupt, "it has tables, and no schema version").into());
        }
        // Both ends were checked: 0 ≤ version ≤ place.version().
        for step in place.steps.iter().skip(version as usize) {
            conn.execute_batch(step)?;
        }
        set(conn, place, "user_version", place.version())
    };
    if is_planted(Defect::MigrationHasNoTransaction) { steps() } else { in_one_step(conn, steps) }
}

fn in_one_step<T>(conn: &Connection, change: impl FnOnce() -> Outcome<T>) -> Outcome<T> {
    run(conn, "BEGIN IMMEDIATE")?;
    let changed = change().and_then(|value| run(conn, "COMMIT").map(|()| value));
    abandon(conn);
    changed
}

/// The parts of the schema as the file has them, by name, with the text that made each.
pub(crate) fn parts(conn: &Connection) -> Outcome<Vec<(String, String)>> {
    let mut statement = conn.prepare_cached("SELECT name, sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY name")?;
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

/// The parts of the schema as this library makes them.
pub(crate) fn expected_parts() -> Outcome<Vec<(String, String)>> {
    let conn = Connection::open_in_memory()?;
    for step in STEPS {
        conn.execute_batch(step)?;
    }
    parts(&conn)
}

/// The tables, of which each must be there. That they are as they were made, and the indexes too, is for verify.
const TABLES: &[&str] = &["agent", "agent_run", "large_value", "node_run", "project", "run", "workflow"];

fn check_tables(conn: &Connection, place: &Place) -> Outcome<()> {
    let parts = parts(conn)?;
    match TABLES.iter().find(|table| !parts.iter().any(|(name, _)| name == *table)) {
        Some(table) => Err(place.error(Code::Corrupt, &format!("its table {table} is missing")).into()),
        None => Ok(()),
    }
}
