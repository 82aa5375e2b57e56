//! Backups of every backend: equal stores, made while others write, and nothing left behind by one that was not finished.

#![allow(clippy::unwrap_used, clippy::panic, reason = "the lints' exception for tests does not reach their helpers")]

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use runledger::{BackupForm, Code, Ledger, Payload, QueueRun, Stage};

/// The address of a store of each backend in a directory, what a backup of it is, and the address to open that by.
fn backends(directory: &Path) -> Vec<(&'static str, String, BackupForm)> {
    let mut all = Vec::new();
    let mut add = |scheme: &'static str, path: &str, form| {
        let path = if path.is_empty() { String::new() } else { directory.join(path).display().to_string() };
        all.push((scheme, format!("{scheme}:{path}"), form));
    };
    if cfg!(feature = "memory") {
        add("memory", "", BackupForm::Stream);
    }
    if cfg!(feature = "sqlite-system") {
        add("sqlite", "runs.db", BackupForm::Store);
    }
    if cfg!(feature = "redb") {
        add("redb", "runs.redb", BackupForm::Store);
    }
    all
}

fn queue(ledger: &Ledger, ids: std::ops::Range<u32>) {
    for id in ids {
        let input = Payload::from_json(format!("\"{}\"", "x".repeat(2_000))).unwrap();
        ledger.queue_run(QueueRun::new("shop", format!("run-{id:06}"), "wf", input)).unwrap();
    }
}

fn exported(ledger: &Ledger) -> Vec<u8> {
    ledger.snapshot().unwrap().as_bytes().to_vec()
}

/// Opens what a backup has become.
fn reopened(scheme: &str, form: BackupForm, path: &Path) -> Ledger {
    match form {
        BackupForm::Store => runledger::open(&format!("{scheme}:{}?mode=existing", path.display())).unwrap(),
        BackupForm::Stream => {
            let ledger = runledger::open("memory:").unwrap();
            ledger.import(&mut std::fs::File::open(path).unwrap()).unwrap();
            ledger
        }
    }
}

fn names(directory: &Path) -> Vec<String> {
    let mut names: Vec<_> = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_backup_is_an_equal_store_that_verifies_and_can_be_written() {
    let (stores, copies) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for (scheme, url, expected) in backends(stores.path()) {
        let ledger = runledger::open(&url).unwrap();
        queue(&ledger, 0..300);
        let target = copies.path().join(scheme);
        let backup = ledger.backup(&target).unwrap();
        assert_eq!((backup.form, backup.size_bytes), (expected, std::fs::metadata(&target).unwrap().len()));
        let copy = reopened(scheme, expected, &target);
        assert_eq!(exported(&copy), exported(&ledger), "{scheme}");
        assert!(copy.call_json(r#"{"op":"store.verify"}"#).starts_with(r#"{"ok":{"ok":true"#));
        queue(&copy, 1000..1001);
        assert_ne!(exported(&copy), exported(&ledger), "{scheme}: a backup is a store of its own");
    }
}

#[test]
fn a_backup_is_one_state_however_much_is_written_meanwhile() {
    let (stores, copies) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for (scheme, url, form) in backends(stores.path()) {
        let ledger = runledger::open(&format!("{url}?durability=relaxed")).unwrap();
        queue(&ledger, 0..200);
        let before = exported(&ledger);
        let target = copies.path().join(scheme);
        let (mut written, mut next) = (false, 1000);
        // Written from within, between two steps of the copy: no race is needed to be in the middle of it.
        let backup = ledger.backup_with(&target, &mut |progress| {
            if progress.done > 0 && progress.total != Some(progress.done) {
                queue(&ledger, next..next + 1);
                (written, next) = (true, next + 1);
            }
            ControlFlow::Continue(())
        });
        backup.unwrap();
        assert!(written, "{scheme}: the copy was made in one step");
        assert_eq!(exported(&reopened(scheme, form, &target)), before, "{scheme}");
    }
}

#[test]
fn a_backup_replaces_nothing_and_names_what_is_there() {
    let (stores, copies) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let target = copies.path().join("taken");
    std::fs::write(&target, "mine").unwrap();
    for (scheme, url, _) in backends(stores.path()) {
        let ledger = runledger::open(&url).unwrap();
        for path in [&target, &copies.path().join("no such directory/x"), &copies.path().to_path_buf()] {
            let error = ledger.backup(path).unwrap_err();
            assert_eq!((error.code(), error.details().path.as_deref()), (Code::Io, path.to_str()), "{scheme}");
        }
        assert_eq!(ledger.backup("").unwrap_err().code(), Code::InvalidInput);
        // One that appears meanwhile is not replaced either.
        let late = copies.path().join("late");
        let error = ledger.backup_with(&late, &mut |_| {
            std::fs::write(&late, "mine").unwrap();
            ControlFlow::Continue(())
        });
        assert_eq!(error.unwrap_err().code(), Code::Io, "{scheme}");
        for path in [&target, &late] {
            assert_eq!(std::fs::read(path).unwrap(), b"mine", "{scheme}");
        }
        assert_eq!(names(copies.path()), ["late", "taken"], "{scheme}");
        std::fs::remove_file(&late).unwrap();
    }
}

#[test]
fn a_backup_that_is_stopped_at_any_step_leaves_nothing() {
    let (stores, copies) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for (scheme, url, _) in backends(stores.path()) {
        let ledger = runledger::open(&format!("{url}?durability=relaxed")).unwrap();
        queue(&ledger, 0..200);
        let mut steps = 0;
        loop {
            let mut left = steps;
            let stopped = ledger.backup_with(copies.path().join(scheme), &mut |_| {
                left -= 1;
                if left < 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            });
            match stopped {
                Ok(_) => break,
                Err(error) => assert_eq!(error.code(), Code::Interrupted, "{scheme}: step {steps}: {error}"),
            }
            assert!(names(copies.path()).is_empty(), "{scheme}: step {steps}");
            steps += 1;
        }
        assert!(steps > 2, "{scheme}: {steps} steps");
        std::fs::remove_file(copies.path().join(scheme)).unwrap();
    }
}

#[test]
fn a_store_that_is_only_read_can_be_backed_up() {
    let (stores, copies) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for (scheme, url, form) in backends(stores.path()).into_iter().filter(|(_, _, form)| *form == BackupForm::Store) {
        let ledger = runledger::open(&url).unwrap();
        queue(&ledger, 0..10);
        let before = exported(&ledger);
        ledger.close().unwrap();
        let reader = runledger::open(&format!("{url}?mode=read_only")).unwrap();
        let target = copies.path().join(scheme);
        reader.backup(&target).unwrap();
        assert_eq!(exported(&reopened(scheme, form, &target)), before);
    }
}

/// An import can be stopped at every step of every stage, and keeps nothing then.
#[test]
fn an_import_that_is_stopped_at_any_step_keeps_nothing() {
    let stores = tempfile::tempdir().unwrap();
    for (scheme, url, _) in backends(stores.path()) {
        let ledger = runledger::open(&format!("{url}?durability=relaxed")).unwrap();
        queue(&ledger, 0..150);
        let source = runledger::open("memory:").unwrap();
        queue(&source, 1000..1150);
        let (before, stream) = (exported(&ledger), exported(&source));
        let mut seen = Vec::new();
        for steps in 0.. {
            let mut left = steps;
            let stopped = AtomicBool::new(false);
            let imported = ledger.import_with(&mut &*stream, &mut |progress| {
                if !seen.contains(&progress.stage) {
                    seen.push(progress.stage);
                }
                assert!(progress.total.is_none_or(|total| progress.done <= total));
                left -= 1;
                stopped.store(left < 0, Ordering::Relaxed);
                if left < 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            });
            match imported {
                Ok(imported) => {
                    assert_eq!((imported.runs, stopped.into_inner()), (150, false));
                    break;
                }
                Err(error) => assert_eq!(error.code(), Code::Interrupted, "{scheme}"),
            }
            assert_eq!(exported(&ledger), before, "{scheme}: step {steps}");
        }
        assert_eq!(seen, [Stage::Reading, Stage::Checking, Stage::Storing]);
    }
}

#[test]
fn a_verification_tells_its_progress_and_can_be_stopped() {
    let stores = tempfile::tempdir().unwrap();
    for (scheme, url, _) in backends(stores.path()).into_iter().filter(|(_, _, form)| *form == BackupForm::Store) {
        let ledger = runledger::open(&format!("{url}?durability=relaxed")).unwrap();
        queue(&ledger, 0..200);
        let mut last = None;
        let report = ledger.verify_store_with(&mut |progress| {
            assert!(progress.stage == Stage::Verifying && progress.total.is_some_and(|total| progress.done <= total), "{progress:?}");
            last = Some(progress);
            ControlFlow::Continue(())
        });
        assert!(report.unwrap().is_ok());
        let last = last.unwrap();
        assert_eq!(Some(last.done), last.total, "{scheme}: all that was counted is checked");
        let stopped =
            ledger.verify_store_with(&mut |progress| if progress.done > 64 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) });
        assert_eq!(stopped.unwrap_err().code(), Code::Interrupted, "{scheme}");
        assert!(ledger.verify_store_with(&mut runledger::unwatched()).unwrap().is_ok());
    }
}
