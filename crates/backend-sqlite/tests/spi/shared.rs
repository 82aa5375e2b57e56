//! A file that the process has open by other means.

use std::fs::File;
use std::sync::Barrier;
use std::thread;

use runledger_backend_sqlite::SqliteBackend;
use runledger_core::{Backend, Code, Mode, OpenOptions};

use crate::kit::{add, has, open, place};

#[test]
#[cfg(target_os = "linux")]
fn a_file_that_the_process_has_open_by_other_means_is_refused() {
    let (directory, path) = place();
    open(&path).close().unwrap();
    let link = directory.path().join("link.db");
    std::fs::hard_link(&path, &link).unwrap();
    let held = File::open(&link).unwrap();
    for mode in [Mode::Create, Mode::Existing, Mode::ReadOnly] {
        let error = SqliteBackend::open(&path, &OpenOptions::new().with_mode(mode)).unwrap_err();
        assert_eq!((error.code(), error.details().field.as_deref()), (Code::InvalidInput, Some("url")));
    }
    SqliteBackend::open(&path, &OpenOptions::new().with_allow_shared_file(true)).unwrap().close().unwrap();
    drop(held);
    open(&path).close().unwrap();
}

#[test]
fn the_stores_of_this_process_are_no_other_means() {
    let (_directory, path) = place();
    let (first, second) = (open(&path), open(&path));
    add(&first, "r");
    assert!(has(&second, "r"));
    first.close().unwrap();
    let third = open(&path);
    second.close().unwrap();
    third.close().unwrap();
}

/// A file that another thread has created just now belongs to a store before that store is open.
#[test]
fn threads_that_create_one_store_at_once_are_no_strangers_to_each_other() {
    for _ in 0..20 {
        let (_directory, path) = place();
        let together = Barrier::new(8);
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    together.wait();
                    open(&path).close().unwrap();
                });
            }
        });
    }
}

#[test]
#[cfg(target_os = "linux")]
fn a_store_that_did_not_open_leaves_no_claim() {
    let (directory, path) = place();
    std::fs::write(&path, "not a store, and longer than an empty file").unwrap();
    SqliteBackend::open(&path, &OpenOptions::new()).unwrap_err();
    let missing = directory.path().join("none/runs.db");
    SqliteBackend::open(&missing, &OpenOptions::new()).unwrap_err();
    let _held = File::open(&path).unwrap();
    assert_eq!(SqliteBackend::open(&path, &OpenOptions::new()).unwrap_err().code(), Code::InvalidInput);
}
