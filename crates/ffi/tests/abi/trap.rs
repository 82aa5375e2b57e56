//! POSIX locks belong to a process: whoever closes a store's file in it drops them. The store's open guards against that.

use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use tempfile::tempdir;

use crate::kit::{Store, url};

/// How many locks this process holds on a file, as the system sees it.
fn locks(path: &Path) -> usize {
    let file = std::fs::metadata(path).unwrap().ino().to_string();
    let process = std::process::id().to_string();
    let locks = std::fs::read_to_string("/proc/locks").unwrap();
    let ours = |line: &&str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        words.iter().any(|word| *word == process) && words.iter().any(|word| word.rsplit(':').next() == Some(&file))
    };
    locks.lines().filter(ours).count()
}

#[test]
fn a_file_that_the_program_has_open_is_refused_before_it_can_cost_the_locks() {
    let dir = tempdir().unwrap();
    let path = dir.path().join("runs.db");
    let address = url("sqlite", &path);
    drop(Store::open(&address));
    let held = File::open(&path).unwrap();
    let refused = Store::try_open(&address, None).unwrap_err();
    assert_eq!((refused.name.as_str(), refused.field().as_deref()), ("invalid_input", Some("url")));
    assert!(refused.message.contains("allow_shared_file"), "{refused:?}");
    drop(held);

    let store = Store::open(&address);
    store.queue("r1").unwrap();
    let before = locks(&path);
    assert!(before > 0, "an open store holds a lock on its file");
    // What the store itself does in this process leaves its locks alone: a second store, a backup, an export.
    let second = Store::open(&address);
    second.queue("r2").unwrap();
    drop(second);
    store.export().unwrap();
    let copy = std::ffi::CString::new(dir.path().join("copy.db").to_str().unwrap()).unwrap();
    crate::kit::answer(|out, err| unsafe { runledger_ffi::runledger_backup(store.0, copy.as_ptr(), None, std::ptr::null_mut(), out, err) })
        .unwrap();
    assert_eq!(locks(&path), before);
}

/// Shows that the trap is real, so that the guard has something to guard against.
#[test]
fn without_the_guard_a_close_by_others_drops_the_locks() {
    let dir = tempdir().unwrap();
    let path = dir.path().join("runs.db");
    drop(Store::open(&url("sqlite", &path)));
    let held = File::open(&path).unwrap();
    let store = Store::try_open(&url("sqlite", &path), Some(r#"{"allow_shared_file":true}"#)).unwrap();
    store.queue("r1").unwrap();
    assert!(locks(&path) > 0);
    drop(held);
    assert_eq!(locks(&path), 0);
}

#[test]
fn a_redb_file_has_no_such_trap() {
    let dir = tempdir().unwrap();
    let path = dir.path().join("runs.redb");
    drop(Store::open(&url("redb", &path)));
    let held = File::open(&path).unwrap();
    let store = Store::open(&url("redb", &path));
    drop(held);
    assert_eq!(Store::try_open(&url("redb", &path), None).unwrap_err().name, "locked");
    store.queue("r1").unwrap();
}
