//! Closing, and what outlives it.

use std::ptr;
use std::sync::Arc;
use std::thread;

use runledger_ffi::*;
use tempfile::tempdir;

use crate::kit::{Store, c, text, url};

#[test]
fn results_outlive_the_store_and_closing_twice_is_harmless() {
    for scheme in ["memory", "sqlite", "redb"] {
        let dir = tempdir().unwrap();
        let address = if scheme == "memory" { "memory:".to_owned() } else { url(scheme, &dir.path().join("store")) };
        let store = Store::open(&address);
        store.queue("r1").unwrap();
        let (mut doc, mut err) = (ptr::null_mut(), ptr::null_mut());
        let (op, request) = (c("runs.list"), c(r#"{"projectId":"shop"}"#));
        unsafe {
            assert_eq!(runledger_call(store.0, op.as_ptr(), request.as_ptr(), RUNLEDGER_NTS, &mut doc, ptr::null_mut()), RUNLEDGER_OK);
        }
        store.close().unwrap();
        store.close().unwrap();
        assert_eq!(store.get("r1").unwrap_err().name, "closed");
        assert_eq!(store.export().unwrap_err().name, "closed");
        unsafe {
            assert_eq!(runledger_call(store.0, op.as_ptr(), request.as_ptr(), RUNLEDGER_NTS, ptr::null_mut(), &mut err), 1);
        }
        drop(store);
        let mut id = ptr::null();
        let id = text(|len| unsafe {
            assert_eq!(runledger_doc_str(doc, c("/runs/0/id").as_ptr(), &mut id, len), RUNLEDGER_OK);
            id
        });
        assert_eq!(id, "r1");
        unsafe {
            assert!(!text(|len| runledger_error_message(err, len)).is_empty());
            runledger_doc_free(doc);
            runledger_error_free(err);
            runledger_doc_free(ptr::null_mut());
            runledger_error_free(ptr::null_mut());
            runledger_request_free(ptr::null_mut());
            runledger_store_free(ptr::null_mut());
        }
        assert_eq!(runledger_live_objects(), 0);
    }
}

/// A store that is freed without being closed gives up its file all the same.
#[test]
fn a_store_that_is_freed_can_be_opened_again_at_once() {
    for scheme in ["sqlite", "redb"] {
        let dir = tempdir().unwrap();
        let address = url(scheme, &dir.path().join("store"));
        for n in 0..20 {
            let store = Store::open(&address);
            store.queue(&format!("r{n}")).unwrap();
        }
        assert_eq!(Store::open(&address).total(), 20);
    }
    assert_eq!(runledger_live_objects(), 0);
}

#[test]
fn a_store_that_is_made_used_and_freed_on_different_threads_is_one_store() {
    let rounds = if std::env::var_os("RUNLEDGER_LONG").is_some() { 1000 } else { 50 };
    for scheme in ["memory", "sqlite", "redb"] {
        let dir = tempdir().unwrap();
        let address = if scheme == "memory" { "memory:".to_owned() } else { url(scheme, &dir.path().join("store")) };
        for n in 0..rounds {
            let address = address.clone();
            let store = Arc::new(thread::spawn(move || Store::open(&address)).join().unwrap());
            let user = Arc::clone(&store);
            thread::spawn(move || user.queue(&format!("r{n}")).unwrap()).join().unwrap();
            thread::spawn(move || drop(store)).join().unwrap();
        }
        if scheme != "memory" {
            let store = Store::open(&address);
            assert_eq!(store.total(), rounds);
            store.verify();
        }
    }
    assert_eq!(runledger_live_objects(), 0);
}

#[test]
fn close_waits_for_the_calls_under_way() {
    let store = Store::memory();
    thread::scope(|scope| {
        let callers: Vec<_> = (0..8)
            .map(|caller| {
                let store = &store;
                scope.spawn(move || {
                    for n in 0.. {
                        match store.queue(&format!("{caller}-{n}")) {
                            Ok(_) => {}
                            Err(refused) => return (n, refused.name),
                        }
                    }
                    unreachable!("the numbers do not end")
                })
            })
            .collect();
        while store.total() < 100 {
            thread::yield_now();
        }
        store.close().unwrap();
        for caller in callers {
            assert_eq!(caller.join().unwrap().1, "closed");
        }
    });
}
