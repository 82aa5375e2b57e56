//! Stores that are carried over a fork.
//!
//! A child ends by `_exit` with what it found as its status, so that nothing of the test harness runs in it; an alarm ends one
//! that stands still.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::{ptr, thread};

use runledger_ffi::*;
use tempfile::tempdir;

use crate::kit::{Store, answer, append, text, url};

/// Runs `child` in a child, which answers a number; 0 is well.
fn fork(child: impl FnOnce() -> i32) -> libc::pid_t {
    match unsafe { libc::fork() } {
        0 => unsafe {
            libc::alarm(60);
            // A panic must not unwind into the harness of the parent's test.
            let status = std::panic::catch_unwind(std::panic::AssertUnwindSafe(child)).unwrap_or(99);
            libc::_exit(status)
        },
        id => {
            assert!(id > 0);
            id
        }
    }
}

fn wait(child: libc::pid_t) -> i32 {
    let mut status = 0;
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    assert!(libc::WIFEXITED(status), "the child was ended by signal {}", libc::WTERMSIG(status));
    libc::WEXITSTATUS(status)
}

fn is_closed<T>(outcome: Result<T, crate::kit::Refused>) -> bool {
    outcome.is_err_and(|refused| refused.status == RUNLEDGER_CLOSED)
}

/// Looks at every kind of call on an inherited store; the number of the first that answers otherwise.
fn inherited(store: &Store) -> i32 {
    let mut end = 0;
    let confirmed =
        unsafe { runledger_confirm_run(store.0, c"shop".as_ptr(), c"r1".as_ptr(), c"t".as_ptr(), 0, &mut end, ptr::null_mut()) };
    let checks = [
        is_closed(store.get("r1")),
        is_closed(store.queue("child")),
        is_closed(store.call("no.such", "{")),
        confirmed == RUNLEDGER_CLOSED,
        is_closed(store.export()),
        is_closed(store.import(b"")),
        is_closed(answer(|out, err| unsafe { runledger_snapshot(store.0, out, err) })),
        store.close().is_ok(),
        is_closed(store.get("r1")),
        store.close().is_ok(),
    ];
    checks.iter().position(|holds| !holds).map_or(0, |place| place as i32 + 1)
}

fn stores(dir: &Path) -> [String; 2] {
    [url("sqlite", &dir.join("runs.db")), url("redb", &dir.join("runs.redb"))]
}

#[test]
fn an_inherited_store_is_closed_and_what_was_read_from_it_stays() {
    let dir = tempdir().unwrap();
    for address in stores(dir.path()).into_iter().chain(["memory:".to_owned()]) {
        let store = Store::open(&address);
        store.start_owned("r1");
        let (mut doc, mut err) = (ptr::null_mut(), ptr::null_mut());
        let (op, request) = (c"runs.get", c"{\"projectId\":\"shop\",\"id\":\"r1\"}");
        unsafe {
            assert_eq!(runledger_call(store.0, op.as_ptr(), request.as_ptr(), RUNLEDGER_NTS, &mut doc, ptr::null_mut()), 0);
            assert_eq!(runledger_call(store.0, op.as_ptr(), ptr::null(), 0, ptr::null_mut(), &mut err), RUNLEDGER_INVALID_INPUT);
        }
        for frees in [false, true] {
            let child = fork(|| {
                let found = inherited(&store);
                let mut id = ptr::null();
                let id = text(|len| unsafe {
                    runledger_doc_str(doc, c"/id".as_ptr(), &mut id, len);
                    id
                });
                let message = text(|len| unsafe { runledger_error_message(err, len) });
                if frees {
                    unsafe {
                        runledger_doc_free(doc);
                        runledger_error_free(err);
                        runledger_store_free(store.0);
                    }
                }
                if id == "r1" && !message.is_empty() { found } else { 50 }
            });
            assert_eq!(wait(child), 0, "{address}, frees: {frees}");
            // The parent's store goes on, and keeps its locks.
            store.queue(&format!("after-{frees}")).unwrap();
            if address.starts_with("redb") {
                assert_eq!(Store::try_open(&address, None).unwrap_err().name, "locked");
            }
        }
        assert_eq!(store.total(), 3);
        store.verify();
        unsafe {
            runledger_doc_free(doc);
            runledger_error_free(err);
        }
        store.close().unwrap();
        if !address.starts_with("memory") {
            assert_eq!(Store::open(&address).total(), 3);
        }
    }
}

/// The process is compared before any lock: here another thread holds those of the engine when the process is copied.
#[test]
fn a_store_that_is_at_work_when_the_process_is_copied_is_closed_all_the_same() {
    struct Held {
        begun: mpsc::Sender<()>,
        go_on: mpsc::Receiver<()>,
    }
    unsafe extern "C" fn hold(user: *mut std::ffi::c_void, _: *const u8, _: usize) -> i32 {
        let held = unsafe { &*user.cast::<Held>() };
        let _gone = held.begun.send(());
        let _gone = held.go_on.recv();
        0
    }
    let dir = tempdir().unwrap();
    for address in stores(dir.path()).into_iter().chain(["memory:".to_owned()]) {
        let store = Store::open(&address);
        store.start_owned("r1");
        let ((begun, has_begun), (go, go_on)) = (mpsc::channel(), mpsc::channel());
        let mut held = Held { begun, go_on };
        thread::scope(|scope| {
            let user = ptr::from_mut(&mut held) as usize;
            let exported = scope.spawn({
                let store = &store;
                move || answer(|out, err| unsafe { runledger_export(store.0, Some(hold), None, user as *mut _, out, err) })
            });
            has_begun.recv().unwrap();
            let child = fork(|| inherited(&store));
            assert_eq!(wait(child), 0, "{address}");
            drop(go);
            exported.join().unwrap().unwrap();
        });
        store.queue("r2").unwrap();
        store.verify();
    }
}

/// The child ends after its parent: the parent's store is whole, and a redb file that the parent did not close stays locked
/// until the child is gone.
#[test]
fn a_child_may_outlive_the_parent() {
    for closes in [false, true] {
        let dir = tempdir().unwrap();
        for address in stores(dir.path()) {
            let mut pipe = [0; 2];
            assert_eq!(unsafe { libc::pipe(pipe.as_mut_ptr()) }, 0);
            let [reading, writing] = pipe;
            let parent = fork(|| {
                let store = Store::open(&address);
                store.start_owned("r1");
                fork(|| {
                    // It waits until the test lets it go, and then frees what it inherited.
                    unsafe { libc::close(writing) };
                    let mut byte = 0_u8;
                    unsafe { libc::read(reading, ptr::from_mut(&mut byte).cast(), 1) };
                    inherited(&store)
                });
                if closes {
                    store.queue("r2").unwrap();
                    store.close().unwrap();
                }
                // It ends as it is otherwise, without freeing what it has.
                std::mem::forget(store);
                0
            });
            assert_eq!(wait(parent), 0);
            if address.starts_with("redb") && !closes {
                let opened = Store::try_open(&address, None);
                assert_eq!(opened.unwrap_err().name, "locked", "the child shares the lock, as the header says");
            } else {
                let store = Store::open(&address);
                store.queue("r3").unwrap();
                store.verify();
            }
            unsafe {
                libc::close(reading);
                libc::close(writing);
            }
            // The child is gone soon, and the file is free then.
            let store = loop {
                match Store::try_open(&address, None) {
                    Ok(store) => break store,
                    Err(refused) => assert_eq!(refused.name, "locked"),
                }
                thread::yield_now();
            };
            assert!(store.get("r1").unwrap().contains("running"));
            store.verify();
        }
    }
}

/// The parent clears the log away when it closes, unless the child's own store holds it back.
#[test]
fn a_child_that_opens_its_own_store_on_the_same_file_keeps_what_it_wrote() {
    for closes in [false, true] {
        let dir = tempdir().unwrap();
        let address = url("sqlite", &dir.path().join("runs.db"));
        let store = Store::open(&address);
        store.queue("parent").unwrap();
        let mut pipes = [[0; 2]; 2];
        for pipe in &mut pipes {
            assert_eq!(unsafe { libc::pipe(pipe.as_mut_ptr()) }, 0);
        }
        let [[child_reads, parent_writes], [parent_reads, child_writes]] = pipes;
        let say = |to: i32| assert_eq!(unsafe { libc::write(to, ptr::from_ref(&1_u8).cast(), 1) }, 1);
        let hear = |from: i32| assert_eq!(unsafe { libc::read(from, ptr::from_mut(&mut 0_u8).cast(), 1) }, 1);
        let child = fork(|| {
            let own = Store::open(&address);
            own.queue("before").unwrap();
            say(child_writes);
            hear(child_reads);
            own.queue("after").unwrap();
            if closes {
                own.close().unwrap();
            }
            0
        });
        hear(parent_reads);
        store.queue("meanwhile").unwrap();
        store.close().unwrap();
        say(parent_writes);
        assert_eq!(wait(child), 0);
        let again = Store::open(&address);
        for id in ["parent", "before", "meanwhile", "after"] {
            assert_ne!(again.get(id).unwrap(), "null", "{id}");
        }
        again.verify();
        for pipe in pipes.as_flattened() {
            unsafe { libc::close(*pipe) };
        }
    }
}

struct Done<'a>(&'a AtomicBool);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Two hundred children exit at once, read, write, or open the store themselves, while a thread of the parent writes on.
#[test]
fn two_hundred_children_leave_the_parent_alone() {
    let dir = tempdir().unwrap();
    for address in stores(dir.path()) {
        let children = if std::env::var_os("RUNLEDGER_LONG").is_some() { 2000 } else { 200 };
        let store = Store::open(&format!("{address}?durability=relaxed"));
        store.start_owned("r1");
        let is_done = AtomicBool::new(false);
        let written = thread::scope(|scope| {
            // Even when a child is not as it should be the writer must end.
            let _done = Done(&is_done);
            let writer = scope.spawn(|| {
                let mut written = 0_u64;
                while !is_done.load(Ordering::SeqCst) {
                    store.queue(&format!("parent-{written}")).unwrap();
                    written += 1;
                }
                written
            });
            let own = |n: usize| match Store::try_open(&address, None) {
                Ok(own) => i32::from(own.queue(&format!("child-{n}")).is_err()),
                // A redb file is held by one process at a time.
                Err(refused) => i32::from(!(address.starts_with("redb") && refused.status == RUNLEDGER_LOCKED)) * 2,
            };
            for n in 0..children {
                let child = fork(|| match n % 4 {
                    0 => 0,
                    1 => i32::from(!is_closed(store.get("r1"))),
                    2 => i32::from(!is_closed(store.queue("child"))),
                    _ => own(n),
                });
                assert_eq!(wait(child), 0, "{address}, child {n}");
            }
            is_done.store(true, Ordering::SeqCst);
            writer.join().unwrap()
        });
        let by_children = if address.starts_with("sqlite") { children as u64 / 4 } else { 0 };
        assert_eq!(store.total(), 1 + written + by_children);
        store.verify();
        store.close().unwrap();
        assert_eq!(Store::open(&address).total(), 1 + written + by_children);
    }
}

/// A log that is set does not keep a child from setting its own.
#[test]
fn a_child_may_set_a_log_of_its_own() {
    unsafe extern "C" fn ignore(_: *mut std::ffi::c_void, _: i32, _: *const std::ffi::c_char, _: usize) {}
    assert_eq!(unsafe { runledger_set_log(Some(ignore), ptr::null_mut(), RUNLEDGER_LOG_TRACE, ptr::null_mut()) }, 0);
    let child = fork(|| unsafe { runledger_set_log(None, ptr::null_mut(), 0, ptr::null_mut()) });
    assert_eq!(wait(child), 0);
    let store = Store::memory();
    let mut stream: Vec<u8> = Vec::new();
    let user = ptr::from_mut(&mut stream).cast();
    answer(|out, err| unsafe { runledger_export(store.0, Some(append), None, user, out, err) }).unwrap();
    assert_eq!(unsafe { runledger_set_log(None, ptr::null_mut(), 0, ptr::null_mut()) }, 0);
}
