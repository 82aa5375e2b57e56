//! Opening: creation, and the question whose a file is.
//!
//! A file is opened with every write held back in memory, under the engine's own locks. Once it is found to be ours and
//! usable, the writes are let through to it; a file that is refused is left as it was, to the byte.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use redb::backends::FileBackend;
use redb::{Builder, Database, StorageBackend};
use runledger_core::planted::{Defect, is_planted};
use runledger_core::{Code, Entity, Error, Mode, OpenOptions, RepairProgress, Result, check_path};

use crate::error::{Coded, guarded, io_error, located, open_error};
use crate::query::View;
use crate::schema::{self, Migrations, version_after};
use crate::storage::{Scratch, Storage};

/// How much memory the engine may use for pages; a write transaction gets at most half of it.
const CACHE_BYTES: usize = 128 << 20;

/// What every redb file begins with.
const MAGIC: &[u8] = b"redb\x1A\x0A\xA9\x0D\x0A";

/// How often an open begins anew because another process created or replaced the file meanwhile.
const ATTEMPTS: usize = 16;

/// An open store.
pub(crate) struct Opened {
    pub(crate) db: Database,
    pub(crate) storage: Storage,
}

/// Opens the store at a path.
pub(crate) fn open(path: &Path, options: &OpenOptions, migrations: Migrations) -> Result<Opened> {
    check_path(path)?;
    options.refuse_journal("redb")?;
    let target = follow(path).map_err(|error| open_error(&error));
    let opened = target.and_then(|target| open_target(&target, options, migrations));
    opened.map_err(|error| located(error, path))
}

/// The path behind symbolic links, whether a file is there or not.
fn follow(path: &Path) -> io::Result<PathBuf> {
    const MOST_LINKS: usize = 40;
    let mut path = path.to_path_buf();
    for _ in 0..MOST_LINKS {
        match fs::read_link(&path) {
            Ok(target) => path = path.parent().unwrap_or(Path::new("")).join(target),
            // It is no link, or not there.
            Err(_) => return Ok(path),
        }
    }
    Err(io::Error::other("too many symbolic links"))
}

fn open_target(path: &Path, options: &OpenOptions, migrations: Migrations) -> Result<Opened> {
    let read_only = options.mode == Mode::ReadOnly;
    for _ in 0..ATTEMPTS {
        let file = match File::options().read(true).write(!read_only).open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound && options.mode == Mode::Create => {
                create(path, None, migrations)?;
                continue;
            }
            Err(error) if read_only => return Err(io_error(&error)),
            Err(error) => return Err(open_error(&error)),
        };
        let metadata = file.metadata().map_err(|error| io_error(&error))?;
        if !metadata.is_file() {
            return Err(Error::new(Code::Io, "the path is no file").with_entity(Entity::Store));
        }
        if metadata.len() > 0 || read_only {
            return open_file(file, metadata.len(), options, migrations);
        }
        create(path, Some(&file), migrations)?;
    }
    Err(Error::new(Code::Locked, "the file is replaced again and again").with_entity(Entity::Store))
}

/// Opens a file that has content, or an empty one to be read.
fn open_file(mut file: File, len: u64, options: &OpenOptions, migrations: Migrations) -> Result<Opened> {
    let mut head = Vec::with_capacity(MAGIC.len());
    (&mut file).take(MAGIC.len() as u64).read_to_end(&mut head).map_err(|error| io_error(&error))?;
    if len == 0 && options.mode == Mode::ReadOnly {
        let text = "the file is empty: a store would have to be created in it";
        return Err(Error::new(Code::ReadOnly, text).with_entity(Entity::Store));
    }
    if head != MAGIC {
        return Err(Error::new(Code::NotALedger, "the file is no redb database").with_entity(Entity::Store));
    }
    open_storage(FileBackend::new(file).coded()?, options, migrations)
}

/// Opens what has content.
pub(crate) fn open_storage(file: impl StorageBackend, options: &OpenOptions, migrations: Migrations) -> Result<Opened> {
    let read_only = options.mode == Mode::ReadOnly;
    guarded(|| {
        let storage = Storage::held_back(Box::new(file), read_only).map_err(|error| io_error(&error))?;
        let db = database(storage.clone(), options.on_repair.clone())?;
        let found = schema::version(View::of(&db)?.transaction())?;
        let needs_migration = schema::needs_migration(found, migrations)?;
        if needs_migration && read_only {
            let text = format!("the store has schema version {found} and must be migrated to {}", schema::version_after(migrations));
            return Err(Error::new(Code::ReadOnly, text).with_entity(Entity::Store));
        }
        if needs_migration {
            storage.let_through().map_err(|error| io_error(&error))?;
            migrate(&db, found, migrations)?;
            schema::check_tables(View::of(&db)?.transaction())?;
        } else {
            // Before anything is let through: a file that is refused keeps its bytes.
            schema::check_tables(View::of(&db)?.transaction())?;
            storage.let_through().map_err(|error| io_error(&error))?;
        }
        Ok(Opened { db, storage })
    })
}

fn migrate(db: &Database, found: u32, migrations: Migrations) -> Result<()> {
    if is_planted(Defect::MigrationHasNoTransaction) {
        for step in &migrations[found as usize - 1..] {
            let txn = db.begin_write().coded()?;
            step(&txn)?;
            txn.commit().coded()?;
        }
        return migrate_in_one_step(db, version_after(migrations), migrations);
    }
    migrate_in_one_step(db, found, migrations)
}

fn migrate_in_one_step(db: &Database, found: u32, migrations: Migrations) -> Result<()> {
    let txn = db.begin_write().coded()?;
    schema::migrate(&txn, found, migrations)?;
    txn.commit().coded()
}

/// Has the engine open what is behind `storage`. A repair tells how far it has come, and can be stopped.
pub(crate) fn database(storage: impl StorageBackend, on_repair: Option<RepairProgress>) -> Result<Database> {
    let mut builder = Builder::new();
    builder.set_cache_size(CACHE_BYTES);
    if let Some(on_repair) = on_repair {
        builder.set_repair_callback(move |session| {
            if on_repair(session.progress()).is_break() {
                session.abort();
            }
        });
    }
    builder.create_with_backend(storage).coded()
}

/// Has the engine check all its pages, on a copy that nobody sees. Answers whether they are as it left them.
pub(crate) fn check_engine(storage: &Storage) -> Result<bool> {
    /// Memory for the pages of a check, which reads each of them a few times.
    const CACHE_BYTES: usize = 16 << 20;
    /// How far a repair says to have come only when it had to give up the last commit.
    const GAVE_UP: f64 = 0.3;
    let sound = Arc::new(AtomicBool::new(true));
    let seen = sound.clone();
    let mut builder = Builder::new();
    builder.set_cache_size(CACHE_BYTES).set_check_integrity_on_open(true).set_repair_callback(move |session| {
        // What is open is never marked as closed, and so is always repaired: that alone is no fault.
        if session.progress() == GAVE_UP {
            seen.store(false, Ordering::Relaxed);
        }
    });
    let checked = guarded(|| {
        let scratch = Scratch::over(storage).map_err(|error| io_error(&error))?;
        builder.create_with_backend(scratch).coded().map(drop)
    });
    match checked {
        Ok(()) => Ok(sound.load(Ordering::Relaxed)),
        Err(error) if error.code() == Code::Corrupt => Ok(false),
        Err(error) => Err(error),
    }
}

fn create_tables(db: &Database, migrations: Migrations) -> Result<()> {
    let txn = db.begin_write().coded()?;
    schema::create(&txn, migrations)?;
    txn.commit().coded()
}

const TEMPORARY: (&str, &str) = (".runledger-", ".new");

/// Creates a store, whole or not at all: it is built beside the path, flushed, and moved into place. Where another
/// creator was faster, its store stays. `empty` is the file that is there, if one is. The caller looks what is there then.
fn create(path: &Path, empty: Option<&File>, migrations: Migrations) -> Result<()> {
    let content = guarded(|| fresh_store(migrations))?;
    if let Some(empty) = empty {
        // Whoever holds the empty file is making a store of it, or is another program.
        match empty.try_lock() {
            Ok(()) if !is_at(empty, path).map_err(|error| open_error(&error))? => return Ok(()),
            Err(fs::TryLockError::WouldBlock) => {
                return Err(Error::new(Code::Locked, "another process or handle holds the empty file").with_entity(Entity::Store));
            }
            // A file system without locks has no other answer than an error.
            Ok(()) | Err(fs::TryLockError::Error(_)) => {}
        }
    }
    place(path, &content, empty).map_err(|error| open_error(&error))
}

/// The bytes of an empty store.
fn fresh_store(migrations: Migrations) -> Result<Vec<u8>> {
    let scratch = Scratch::empty();
    let db = database(scratch.clone(), None)?;
    create_tables(&db, migrations)?;
    db.close().coded()?;
    scratch.bytes().map_err(|error| io_error(&error))
}

fn place(path: &Path, content: &[u8], empty: Option<&File>) -> io::Result<()> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    remove_leftovers(directory);
    let mut builder = tempfile::Builder::new();
    builder.prefix(TEMPORARY.0).suffix(TEMPORARY.1);
    #[cfg(unix)]
    let permissions = std::os::unix::fs::PermissionsExt::from_mode(0o666);
    #[cfg(unix)]
    builder.permissions(permissions);
    // Its own text would name the temporary file.
    let mut temporary = builder.tempfile_in(directory).map_err(|error| io::Error::from(error.kind()))?;
    // Shows that its creator lives; where files can't be locked, what dead ones leave stays.
    let _ = temporary.as_file().try_lock();
    temporary.write_all(content)?;
    if let Some(empty) = empty {
        temporary.as_file().set_permissions(empty.metadata()?.permissions())?;
    }
    temporary.as_file().sync_all()?;
    let placed = match empty {
        Some(_) => temporary.persist(path),
        None => temporary.persist_noclobber(path),
    };
    match placed {
        Ok(_) => flush_directory(directory),
        // Another creator was faster, or took this one's file for a dead one's just before it was locked.
        Err(error) if matches!(error.error.kind(), ErrorKind::AlreadyExists | ErrorKind::NotFound) => Ok(()),
        Err(error) => Err(error.error),
    }
}

/// Whether a path still leads to this file, and it is still empty.
fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    let (held, there) = (file.metadata()?, fs::metadata(path)?);
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        if (held.dev(), held.ino()) != (there.dev(), there.ino()) {
            return Ok(false);
        }
    }
    Ok(held.len() == 0 && there.len() == 0)
}

/// Removes what creators that were killed have left. What can't be removed does no harm.
fn remove_leftovers(directory: &Path) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let is_ours = name.to_str().is_some_and(|name| name.starts_with(TEMPORARY.0) && name.ends_with(TEMPORARY.1));
        if is_ours && File::open(entry.path()).is_ok_and(|file| file.try_lock().is_ok()) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// A name lasts once its directory is flushed.
fn flush_directory(directory: &Path) -> io::Result<()> {
    #[cfg(unix)]
    File::open(directory)?.sync_all()?;
    Ok(())
}
