//! Whose a file is, and how a store comes to be opened.

use std::fs;
use std::path::Path;

use runledger_backend_sqlite::SqliteBackend;
use runledger_core::{Backend, Code, Error, Journal, Mode, OpenOptions};

use crate::kit::{add, has, open, place, write};

fn refused(path: &Path, mode: Mode) -> Error {
    SqliteBackend::open(path, &OpenOptions::new().with_mode(mode).with_busy_timeout_ms(200)).unwrap_err()
}

/// The names and contents of everything in a directory.
fn contents(directory: &Path) -> Vec<(String, Vec<u8>)> {
    let mut files: Vec<_> = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap())
        .map(|entry| (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap_or_default()))
        .filter(|(name, _)| !name.ends_with("-shm"))
        .collect();
    files.sort();
    files
}

#[test]
fn odd_names_make_exactly_that_file() {
    let (directory, _) = place();
    for name in ["a b é", "what?#.db", "file:x?mode=memory", ":memory:", "100%41"] {
        let path = directory.path().join(name);
        let backend = open(&path);
        add(&backend, "r");
        backend.close().unwrap();
        assert!(path.is_file(), "{name}");
        let read_only = SqliteBackend::open(&path, &OpenOptions::new().with_mode(Mode::ReadOnly)).unwrap();
        assert!(has(&read_only, "r"));
        assert_eq!(write(&read_only, |_| Ok(())).unwrap_err().code(), Code::ReadOnly);
        assert_eq!(read_only.compact().unwrap_err().code(), Code::ReadOnly);
        assert!(read_only.is_read_only());
    }
    let info = open(&directory.path().join("100%41")).info().unwrap();
    assert!(info.address.starts_with("sqlite:") && info.address.ends_with("/100%2541"), "{}", info.address);
    assert!(info.size_bytes > 0);
}

#[test]
fn what_is_not_there_is_io_and_stays_so() {
    let (directory, path) = place();
    assert_eq!(refused(Path::new(""), Mode::Create).code(), Code::InvalidInput);
    assert_eq!(refused(Path::new(""), Mode::Create).details().field.as_deref(), Some("path"));
    let missing = directory.path().join("no/such/runs.db");
    for (path, mode) in [
        (&missing, Mode::Create),
        (&missing, Mode::ReadOnly),
        (&path, Mode::Existing),
        (&path, Mode::ReadOnly),
        (&directory.path().to_owned(), Mode::Create),
    ] {
        let error = refused(path, mode);
        assert_eq!(error.code(), Code::Io, "{path:?} {mode}");
        assert_eq!(error.details().path.as_deref(), path.to_str());
    }
    assert!(contents(directory.path()).is_empty());
}

#[test]
fn an_empty_file_is_a_fresh_store() {
    let (_directory, path) = place();
    fs::write(&path, "").unwrap();
    assert_eq!(refused(&path, Mode::ReadOnly).code(), Code::ReadOnly);
    let backend = SqliteBackend::open(&path, &OpenOptions::new().with_mode(Mode::Existing)).unwrap();
    add(&backend, "r");
    assert!(has(&open(&path), "r"));
}

#[test]
fn foreign_files_are_left_alone() {
    let (directory, path) = place();
    let noise: Vec<u8> = (0..9000_u32).map(|at| ((at * 7919) >> 3) as u8).collect();
    let mut like_ours = b"SQLite format 3\0".to_vec();
    like_ours.extend_from_slice(&noise);
    for content in [b"hello".to_vec(), b"\x89PNG\r\n\x1a\n".to_vec(), b"SQLite format 3\0".to_vec(), noise, like_ours, vec![0; 5000]] {
        fs::write(&path, &content).unwrap();
        for mode in [Mode::Create, Mode::Existing, Mode::ReadOnly] {
            let error = refused(&path, mode);
            assert_eq!(error.code(), Code::NotALedger, "{error:?}");
        }
        assert_eq!(contents(directory.path()), [("runs.db".to_owned(), content)]);
    }
}

#[test]
fn a_foreign_sqlite_file_is_left_alone_with_its_log() {
    for with_log in [false, true] {
        let (directory, path) = place();
        let theirs = rusqlite::Connection::open(&path).unwrap();
        theirs.execute_batch("PRAGMA journal_mode = WAL; CREATE TABLE notes (x); INSERT INTO notes VALUES (1);").unwrap();
        if with_log {
            // As after a kill: the log stays.
            theirs.set_db_config(rusqlite::config::DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true).unwrap();
        }
        drop(theirs);
        let before = contents(directory.path());
        assert_eq!(before.len(), if with_log { 2 } else { 1 });
        for mode in [Mode::Create, Mode::Existing, Mode::ReadOnly] {
            assert_eq!(refused(&path, mode).code(), Code::NotALedger);
            assert_eq!(contents(directory.path()), before);
        }
    }
}

#[test]
fn a_newer_store_is_left_alone() {
    for with_log in [false, true] {
        let (directory, path) = place();
        open(&path).close().unwrap();
        let newer = rusqlite::Connection::open(&path).unwrap();
        newer.execute_batch("ALTER TABLE run ADD COLUMN more INTEGER; PRAGMA user_version = 2;").unwrap();
        newer.set_db_config(rusqlite::config::DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, with_log).unwrap();
        drop(newer);
        let before = contents(directory.path());
        for mode in [Mode::Create, Mode::Existing, Mode::ReadOnly] {
            let error = refused(&path, mode);
            assert_eq!(error.code(), Code::SchemaTooNew, "{error:?}");
            assert!(error.message().contains("version 2") && error.message().contains("up to 1"), "{error:?}");
            assert_eq!(contents(directory.path()), before);
        }
    }
}

#[test]
fn a_store_of_ours_that_is_cut_is_corrupt() {
    let (_directory, path) = place();
    let backend = open(&path);
    add(&backend, "r");
    backend.close().unwrap();
    let whole = fs::read(&path).unwrap();
    for len in [100, 500, 4096, 5000, whole.len() / 2, whole.len() - 1] {
        fs::write(&path, &whole[..len]).unwrap();
        for mode in [Mode::Create, Mode::ReadOnly] {
            assert_eq!(refused(&path, mode).code(), Code::Corrupt, "{len}");
        }
    }
    let raw = rusqlite::Connection::open(&path).unwrap();
    drop(raw);
    fs::write(&path, &whole).unwrap();
    rusqlite::Connection::open(&path).unwrap().execute_batch("DROP TABLE run").unwrap();
    assert_eq!(refused(&path, Mode::Create).code(), Code::Corrupt);
}

#[test]
fn a_creation_that_was_cut_short_is_finished() {
    let (_directory, path) = place();
    // What a kill can leave: the mark alone, and the mark with the journal switched.
    for journal in ["delete", "wal"] {
        let raw = rusqlite::Connection::open(&path).unwrap();
        raw.execute_batch(&format!("PRAGMA application_id = {}; PRAGMA journal_mode = {journal};", 0x526E_4C67)).unwrap();
        drop(raw);
        assert_eq!(refused(&path, Mode::ReadOnly).code(), Code::ReadOnly);
        let backend = open(&path);
        add(&backend, "r");
        backend.close().unwrap();
        fs::remove_file(&path).unwrap();
    }
}

#[test]
fn the_journal_decides_at_creation_and_switches_when_asked() {
    let (_directory, path) = place();
    let with = |journal| SqliteBackend::open(&path, &OpenOptions::new().with_journal(journal).with_busy_timeout_ms(100));
    let mode = || -> String { rusqlite::Connection::open(&path).unwrap().query_row("PRAGMA journal_mode", [], |row| row.get(0)).unwrap() };
    with(Journal::Delete).unwrap().close().unwrap();
    assert_eq!(mode(), "delete");
    let backend = open(&path);
    assert_eq!(mode(), "delete");
    backend.close().unwrap();
    let backend = with(Journal::Wal).unwrap();
    assert_eq!(mode(), "wal");
    assert_eq!(with(Journal::Delete).unwrap_err().code(), Code::Busy);
    add(&backend, "r");
    let read_only = OpenOptions::new().with_mode(Mode::ReadOnly).with_journal(Journal::Delete);
    assert!(has(&SqliteBackend::open(&path, &read_only).unwrap(), "r"));
    assert_eq!(mode(), "wal");
    backend.close().unwrap();
    assert!(has(&with(Journal::Delete).unwrap(), "r"));
    assert_eq!(mode(), "delete");
}

#[test]
#[cfg(unix)]
fn a_symbolic_link_leads_to_one_store() {
    let (directory, path) = place();
    let link = directory.path().join("link.db");
    let backend = open(&path);
    std::os::unix::fs::symlink(&path, &link).unwrap();
    let through = open(&link);
    add(&through, "r");
    assert!(has(&backend, "r"));
    assert!(!directory.path().join("link.db-wal").exists());
}

/// Runs a test again in a process of an ordinary user, when this one is not one: then it is done.
#[cfg(unix)]
fn as_ordinary_user(test: &str) -> bool {
    use std::os::unix::process::CommandExt;
    if !rustix::process::geteuid().is_root() {
        return false;
    }
    let output = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env("TMPDIR", "/tmp")
        .uid(65534)
        .gid(65534)
        .output()
        .unwrap();
    assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"), "{output:?}");
    true
}

#[test]
#[cfg(unix)]
fn what_cannot_be_written_is_read_only_at_open() {
    use std::os::unix::fs::PermissionsExt;
    if as_ordinary_user("opening::what_cannot_be_written_is_read_only_at_open") {
        return;
    }
    for journal in [Journal::Wal, Journal::Delete] {
        let (directory, path) = place();
        let backend = SqliteBackend::open(&path, &OpenOptions::new().with_journal(journal)).unwrap();
        add(&backend, "r");
        backend.close().unwrap();
        let set = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        let readable = || {
            let backend = SqliteBackend::open(&path, &OpenOptions::new().with_mode(Mode::ReadOnly)).unwrap();
            assert!(has(&backend, "r"));
            assert!(backend.verify().unwrap().is_ok());
            backend.close().unwrap();
        };
        set(&path, 0o444);
        assert_eq!(refused(&path, Mode::Create).code(), Code::ReadOnly);
        readable();
        let _ = fs::remove_file(directory.path().join("runs.db-wal"));
        let _ = fs::remove_file(directory.path().join("runs.db-shm"));
        set(directory.path(), 0o555);
        assert_eq!(refused(&path, Mode::Existing).code(), Code::ReadOnly);
        readable();
        set(&path, 0o644);
        assert_eq!(refused(&path, Mode::Existing).code(), Code::ReadOnly);
        readable();
        let error = refused(&directory.path().join("new.db"), Mode::Create);
        assert_eq!(error.code(), Code::ReadOnly);
        set(directory.path(), 0o755);
        set(&path, 0o000);
        assert!(matches!(refused(&path, Mode::ReadOnly).code(), Code::Io));
    }
}

#[test]
fn a_log_that_was_left_is_part_of_the_store() {
    let (directory, path) = place();
    let copy = directory.path().join("copy.db");
    let backend = open(&path);
    add(&backend, "r");
    // As a kill would leave them.
    fs::copy(&path, &copy).unwrap();
    fs::copy(directory.path().join("runs.db-wal"), directory.path().join("copy.db-wal")).unwrap();
    let read_only = SqliteBackend::open(&copy, &OpenOptions::new().with_mode(Mode::ReadOnly)).unwrap();
    assert!(has(&read_only, "r"));
    read_only.close().unwrap();
    let again = open(&copy);
    assert!(has(&again, "r"));
    again.close().unwrap();
    assert!(!directory.path().join("copy.db-wal").exists());
}
