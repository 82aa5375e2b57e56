//! The way from an old file to a new one.

#![allow(clippy::unwrap_used, clippy::panic, reason = "the lints' exception for tests does not reach their helpers")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use runledger_core::{Code, GetStoreInfo, Ledger, Mode, OpenOptions, VerifyStore};
use runledger_faults::crash;
use runledger_faults::migration::{Kind, lose_power};
use runledger_faults::{Dice, Workload, is_long, scratch_directory, state_of};

const KINDS: [Kind; 2] = [Kind::Sqlite, Kind::Redb];
const LATER_VERSION: u32 = 3;

/// A directory with an old store, and what it holds.
fn old(kind: Kind) -> (tempfile::TempDir, PathBuf, Vec<u8>) {
    let directory = scratch_directory();
    let path = directory.path().join("store");
    let workload = Workload::new(21, 40, 0);
    kind.old_store(&path, &workload);
    (directory, path, workload.states.into_iter().next_back().unwrap())
}

fn assert_migrated(kind: Kind, ledger: &Ledger, path: &Path, state: &[u8]) {
    assert_eq!(ledger.store_info(GetStoreInfo::new()).unwrap().schema_version, LATER_VERSION, "{kind:?}");
    assert!(state_of(ledger).unwrap() == state, "{kind:?} holds something else after its migration");
    let report = ledger.verify_store(VerifyStore::new()).unwrap();
    assert!(report.is_ok(), "{kind:?}: {:?}", report.problems);
    if kind == Kind::Sqlite {
        // Each step was taken once.
        let conn = rusqlite::Connection::open_with_flags(path, rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
        let notes = "SELECT count(*) FROM note JOIN project ON project.key = note.project WHERE text = 'of ' || id || '!'";
        let count: i64 = conn.query_row(notes, [], |row| row.get(0)).unwrap();
        assert_eq!(count, 2);
    }
}

fn files(path: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let entries = fs::read_dir(path.parent().unwrap()).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> =
        entries.filter(|path| !path.ends_with("store-shm")).map(|path| (path.clone(), fs::read(path).unwrap())).collect();
    files.sort();
    files.retain(|(path, content)| !(content.is_empty() && path.ends_with("store-wal")));
    files
}

#[test]
fn an_old_store_is_migrated_when_it_is_opened_and_holds_the_same() {
    for kind in KINDS {
        let (_directory, path, state) = old(kind);
        let ledger = kind.open_later(&path, &OpenOptions::new()).unwrap();
        assert_migrated(kind, &ledger, &path, &state);
        let request = r#"{"op":"runs.queue","projectId":"p","id":"new","workflowId":"w","input":1}"#;
        assert!(ledger.call_json(request).starts_with(r#"{"ok""#));
        let state = state_of(&ledger).unwrap();
        ledger.close().unwrap();
        // There is nothing left to migrate.
        assert_migrated(kind, &kind.open_later(&path, &OpenOptions::new().with_mode(Mode::ReadOnly)).unwrap(), &path, &state);
    }
}

#[test]
fn a_store_made_by_a_later_version_has_its_layout() {
    for kind in KINDS {
        let directory = scratch_directory();
        let path = directory.path().join("store");
        let ledger = kind.open_later(&path, &OpenOptions::new()).unwrap();
        assert_eq!(ledger.store_info(GetStoreInfo::new()).unwrap().schema_version, LATER_VERSION);
        assert!(ledger.verify_store(VerifyStore::new()).unwrap().is_ok());
    }
}

#[test]
fn a_newer_store_is_refused_and_untouched() {
    for kind in KINDS {
        let (_directory, path, _) = old(kind);
        kind.open_later(&path, &OpenOptions::new()).unwrap().close().unwrap();
        let before = files(&path);
        for mode in [Mode::Create, Mode::Existing, Mode::ReadOnly] {
            let error = kind.open(&path, &OpenOptions::new().with_mode(mode)).map(drop).unwrap_err();
            assert_eq!(error.code(), Code::SchemaTooNew, "{kind:?}: {error}");
            assert!(files(&path) == before, "{kind:?} was changed");
        }
    }
}

#[test]
fn an_old_store_opened_read_only_is_read_only_and_untouched() {
    for kind in KINDS {
        let (_directory, path, state) = old(kind);
        let before = files(&path);
        let error = kind.open_later(&path, &OpenOptions::new().with_mode(Mode::ReadOnly)).map(drop).unwrap_err();
        assert_eq!(error.code(), Code::ReadOnly, "{kind:?}: {error}");
        assert!(files(&path) == before, "{kind:?} was changed");
        // The version that made it still reads it.
        assert!(state_of(&kind.open(&path, &OpenOptions::new().with_mode(Mode::ReadOnly)).unwrap()).unwrap() == state);
    }
}

const STORE: &str = "RUNLEDGER_TEST_STORE";
const KIND: &str = "RUNLEDGER_TEST_KIND";

/// What the other processes do; without their environment it does nothing.
#[test]
fn child() {
    let Some(path) = std::env::var_os(STORE) else { return };
    let kind = if std::env::var(KIND).unwrap() == "Redb" { Kind::Redb } else { Kind::Sqlite };
    loop {
        match kind.open_later(path.as_ref(), &OpenOptions::new().with_busy_timeout_ms(60_000)) {
            Ok(ledger) => {
                assert_eq!(ledger.store_info(GetStoreInfo::new()).unwrap().schema_version, LATER_VERSION);
                return ledger.close().unwrap();
            }
            // One at a time: that is what the engine has.
            Err(error) if kind == Kind::Redb && error.code() == Code::Locked => std::thread::yield_now(),
            Err(error) => panic!("{error}"),
        }
    }
}

fn start(kind: Kind, path: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child", "--test-threads=1"])
        .env(STORE, path)
        .env(KIND, format!("{kind:?}"))
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

#[test]
fn processes_that_open_an_old_store_at_once_migrate_it_once() {
    for kind in KINDS {
        for _ in 0..if is_long() { 100 } else { 4 } {
            let (_directory, path, state) = old(kind);
            let children: Vec<Child> = (0..6).map(|_| start(kind, &path)).collect();
            for mut child in children {
                assert!(child.wait().unwrap().success(), "{kind:?}");
            }
            assert_migrated(kind, &kind.open_later(&path, &OpenOptions::new()).unwrap(), &path, &state);
        }
    }
}

#[test]
fn killed_in_the_midst_of_its_migration_a_store_is_old_or_new() {
    let mut dice = Dice::new(3);
    let (mut kills, mut still_old) = (0, 0);
    for kind in KINDS {
        for _ in 0..if is_long() { 300 } else { 20 } {
            let (_directory, path, state) = old(kind);
            let mut child = start(kind, &path);
            let until = Instant::now() + Duration::from_micros(dice.below(12_000) as u64);
            while Instant::now() < until {
                std::hint::spin_loop();
            }
            child.kill().unwrap();
            child.wait().unwrap();
            kills += 1;
            match kind.open(&path, &OpenOptions::new()) {
                Ok(ledger) => {
                    still_old += 1;
                    assert!(state_of(&ledger).unwrap() == state, "{kind:?}");
                    ledger.close().unwrap();
                }
                Err(error) => assert_eq!(error.code(), Code::SchemaTooNew, "{kind:?}: {error}"),
            }
            assert_migrated(kind, &kind.open_later(&path, &OpenOptions::new()).unwrap(), &path, &state);
        }
    }
    println!("{kills} kills around a migration, {still_old} stores were still old");
    assert!(still_old > 0);
}

#[test]
fn power_lost_in_the_midst_of_a_migration_loses_nothing() {
    for kind in KINDS {
        let tally = lose_power(kind, &crash::Plan::of_seed(5));
        println!("power loss in a migration of {kind:?}: {tally}");
        assert!(tally.violations.is_empty(), "{:#?}", tally.violations);
        assert!(tally.opened > 0);
    }
}
