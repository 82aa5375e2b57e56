//! Every function with NULL for each pointer in turn.

use std::collections::BTreeSet;
use std::ffi::{c_char, c_void};
use std::ptr;

use runledger_ffi::*;
use tempfile::tempdir;

use crate::exports::declared;
use crate::kit::{Refused, Store, append, read_on, take_doc};

/// Which pointer is NULL this time.
struct Null<'a>(&'a str);

impl Null<'_> {
    fn con<T>(&self, name: &str, pointer: *const T) -> *const T {
        if self.0 == name { ptr::null() } else { pointer }
    }
    fn mutable<T>(&self, name: &str, pointer: *mut T) -> *mut T {
        if self.0 == name { ptr::null_mut() } else { pointer }
    }
    fn call<F>(&self, name: &str, callback: F) -> Option<F> {
        if self.0 == name { None } else { Some(callback) }
    }
}

#[derive(Default)]
struct Looked(BTreeSet<String>);

impl Looked {
    /// Calls a function with NULL for each of the pointers that it needs, which it must refuse and name, and for each of
    /// those that it can do without.
    fn at(&mut self, function: &str, needed: &[&str], optional: &[&str], call: impl Fn(&Null<'_>, *mut *mut runledger_error) -> i32) {
        self.0.insert(function.to_owned());
        for name in needed {
            let mut err = ptr::null_mut();
            let status = call(&Null(name), &mut err);
            assert_eq!(status, RUNLEDGER_INVALID_INPUT, "{function}, {name}");
            if !err.is_null() {
                assert_eq!(unsafe { Refused::take(status, err) }.field().as_deref(), Some(*name), "{function}");
            }
            assert_eq!(call(&Null(name), ptr::null_mut()), RUNLEDGER_INVALID_INPUT, "{function}, {name}, without an error");
        }
        for name in optional.iter().chain(&["nothing"]) {
            assert_eq!(call(&Null(name), ptr::null_mut()), RUNLEDGER_OK, "{function}, {name}");
        }
    }
}

/// A place for a doc that holds something, so that it shows when it is not cleared.
struct Place(*mut runledger_doc);

impl Place {
    fn new() -> Place {
        Place(ptr::dangling_mut())
    }

    /// Checks the place after a call, and frees what is in it.
    fn judged(self, status: i32, was_given: bool) -> i32 {
        match status {
            RUNLEDGER_OK => drop(unsafe { take_doc(self.0) }),
            _ if was_given => assert!(self.0.is_null(), "the place is cleared on failure"),
            _ => {}
        }
        status
    }
}

unsafe extern "C" fn go_on(_: *mut c_void, _: *const c_char, _: u64, _: u64) -> i32 {
    0
}

unsafe extern "C" fn ignore(_: *mut c_void, _: i32, _: *const c_char, _: usize) {}

#[test]
fn every_function_takes_null_for_each_pointer() {
    let mut looked = Looked::default();
    stores(&mut looked);
    calls(&mut looked);
    transfers(&mut looked);
    docs(&mut looked);
    requests(&mut looked);
    errors_and_the_rest(&mut looked);
    assert_eq!(looked.0, declared());
    assert_eq!(runledger_live_objects(), 0);
}

fn stores(looked: &mut Looked) {
    looked.at("runledger_store_open", &["url", "out"], &["options_json"], |null, err| unsafe {
        let mut store: *mut runledger_store = ptr::dangling_mut();
        let (url, options) = (null.con("url", c"memory:".as_ptr()), null.con("options_json", c"{}".as_ptr()));
        let status = runledger_store_open(url, options, null.mutable("out", &mut store), err);
        if status == RUNLEDGER_OK {
            runledger_store_free(store);
        } else if null.0 != "out" {
            assert!(store.is_null());
        }
        status
    });
    let store = Store::memory();
    looked.at("runledger_store_close", &["store"], &[], |null, err| unsafe { runledger_store_close(null.con("store", store.0), err) });
    looked.at("runledger_store_free", &[], &[], |_, _| {
        unsafe { runledger_store_free(ptr::null_mut()) };
        RUNLEDGER_OK
    });
}

fn calls(looked: &mut Looked) {
    let store = Store::memory();
    store.start_owned("r1");
    store.ok(
        "nodes.start",
        r#"{"projectId":"shop","id":"n1","workflowRunId":"r1","workflowId":"wf","nodeIndex":0,"nodeType":"agent","nodeId":"n","nodeKey":"n","input":1,"executionToken":"t"}"#,
    );
    store.ok("agents.create", r#"{"projectId":"shop","nodeRunId":"n1","agentId":"a","prompt":"do"}"#);
    store.ok("agents.claim", r#"{"projectId":"shop","execution":{"token":"t","queueLeaseExpiresAt":"2030-01-01T00:00:00Z"}}"#);
    let request = c"{\"op\":\"runs.get\",\"projectId\":\"shop\",\"id\":\"r1\"}";
    looked.at("runledger_call", &["store", "request", "out"], &["op"], |null, err| unsafe {
        let mut place = Place::new();
        let (store, op) = (null.con("store", store.0), null.con("op", c"runs.get".as_ptr()));
        let out = null.mutable("out", &mut place.0);
        let status = runledger_call(store, op, null.con("request", request.as_ptr()), RUNLEDGER_NTS, out, err);
        place.judged(status, null.0 != "out")
    });
    let mut built = ptr::null_mut();
    unsafe {
        runledger_request_new(c"store.info".as_ptr(), &mut built, ptr::null_mut());
    }
    looked.at("runledger_call_request", &["store", "request", "out"], &[], |null, err| unsafe {
        let mut place = Place::new();
        let (store, request) = (null.con("store", store.0), null.con("request", built));
        let status = runledger_call_request(store, request, null.mutable("out", &mut place.0), err);
        place.judged(status, null.0 != "out")
    });
    unsafe { runledger_request_free(built) };
    claims_that_wait(looked, &store);
    type Confirm = unsafe extern "C" fn(
        *const runledger_store,
        *const c_char,
        *const c_char,
        *const c_char,
        i64,
        *mut i64,
        *mut *mut runledger_error,
    ) -> i32;
    let confirms: [(&str, &str, Confirm, _); 2] = [
        ("runledger_confirm_run", "id", runledger_confirm_run, c"r1"),
        ("runledger_confirm_agent", "nodeRunId", runledger_confirm_agent, c"n1"),
    ];
    for (function, id_name, confirm, id) in confirms {
        looked.at(function, &["store", "projectId", id_name, "executionToken"], &["new_lease_end_us"], |null, err| unsafe {
            let mut end = 7;
            let (store, project) = (null.con("store", store.0), null.con("projectId", c"shop".as_ptr()));
            let (id, token) = (null.con(id_name, id.as_ptr()), null.con("executionToken", c"t".as_ptr()));
            let status = confirm(store, project, id, token, 0, null.mutable("new_lease_end_us", &mut end), err);
            assert!(status == RUNLEDGER_OK || end == 0, "the place is cleared on failure");
            status
        });
    }
}

fn claims_that_wait(looked: &mut Looked, store: &Store) {
    let request =
        c"{\"op\":\"runs.claim\",\"projectId\":\"shop\",\"execution\":{\"token\":\"t\",\"queueLeaseExpiresAt\":\"2030-01-01T00:00:00Z\"}}";
    looked.at("runledger_claim_wait", &["store", "request", "out"], &["op"], |null, err| unsafe {
        let mut place = Place::new();
        let (store, op) = (null.con("store", store.0), null.con("op", c"runs.claim".as_ptr()));
        let out = null.mutable("out", &mut place.0);
        let status = runledger_claim_wait(store, op, null.con("request", request.as_ptr()), RUNLEDGER_NTS, 1, out, err);
        place.judged(status, null.0 != "out")
    });
    let mut built = ptr::null_mut();
    unsafe {
        runledger_request_new(c"agents.claim".as_ptr(), &mut built, ptr::null_mut());
        runledger_request_set_str(built, c"projectId".as_ptr(), c"shop".as_ptr(), RUNLEDGER_NTS);
        runledger_request_set_str(built, c"execution.token".as_ptr(), c"t".as_ptr(), RUNLEDGER_NTS);
        runledger_request_set_time_us(built, c"execution.queueLeaseExpiresAt".as_ptr(), 0);
    }
    looked.at("runledger_claim_wait_request", &["store", "request", "out"], &[], |null, err| unsafe {
        let mut place = Place::new();
        let (store, request) = (null.con("store", store.0), null.con("request", built));
        let status = runledger_claim_wait_request(store, request, 1, null.mutable("out", &mut place.0), err);
        place.judged(status, null.0 != "out")
    });
    unsafe { runledger_request_free(built) };
}

fn transfers(looked: &mut Looked) {
    let store = Store::memory();
    store.queue("r1").unwrap();
    let stream = store.export().unwrap();
    looked.at("runledger_export", &["store", "write", "out"], &["progress"], |null, err| unsafe {
        let mut place = Place::new();
        let mut taken: Vec<u8> = Vec::new();
        let status = runledger_export(
            null.con("store", store.0),
            null.call("write", append as unsafe extern "C" fn(_, _, _) -> _),
            null.call("progress", go_on as unsafe extern "C" fn(_, _, _, _) -> _),
            ptr::from_mut(&mut taken).cast(),
            null.mutable("out", &mut place.0),
            err,
        );
        place.judged(status, null.0 != "out")
    });
    looked.at("runledger_import", &["store", "read", "out"], &["progress"], |null, err| unsafe {
        let mut place = Place::new();
        let mut rest = &stream[..];
        let status = runledger_import(
            null.con("store", store.0),
            null.call("read", read_on as unsafe extern "C" fn(_, _, _, _) -> _),
            null.call("progress", go_on as unsafe extern "C" fn(_, _, _, _) -> _),
            ptr::from_mut(&mut rest).cast(),
            null.mutable("out", &mut place.0),
            err,
        );
        place.judged(status, null.0 != "out")
    });
    let to = Store::memory();
    looked.at("runledger_copy", &["from", "to", "out"], &["progress"], |null, err| unsafe {
        let mut place = Place::new();
        let progress = null.call("progress", go_on as unsafe extern "C" fn(_, _, _, _) -> _);
        let (from, to) = (null.con("from", store.0), null.con("to", to.0));
        let status = runledger_copy(from, to, progress, ptr::null_mut(), null.mutable("out", &mut place.0), err);
        place.judged(status, null.0 != "out")
    });
    looked.at("runledger_backup", &["store", "path", "out"], &["progress"], |null, err| unsafe {
        let mut place = Place::new();
        let dir = tempdir().unwrap();
        let path = std::ffi::CString::new(dir.path().join("copy").to_str().unwrap()).unwrap();
        let progress = null.call("progress", go_on as unsafe extern "C" fn(_, _, _, _) -> _);
        let (store, path) = (null.con("store", store.0), null.con("path", path.as_ptr()));
        let status = runledger_backup(store, path, progress, ptr::null_mut(), null.mutable("out", &mut place.0), err);
        place.judged(status, null.0 != "out")
    });
    looked.at("runledger_snapshot", &["store", "out"], &[], |null, err| unsafe {
        let mut place = Place::new();
        let status = runledger_snapshot(null.con("store", store.0), null.mutable("out", &mut place.0), err);
        place.judged(status, null.0 != "out")
    });
    looked.at("runledger_restore", &["store", "snapshot", "out"], &[], |null, err| unsafe {
        let mut place = Place::new();
        let (store, snapshot) = (null.con("store", store.0), null.con("snapshot", stream.as_ptr().cast()));
        let status = runledger_restore(store, snapshot, stream.len(), null.mutable("out", &mut place.0), err);
        place.judged(status, null.0 != "out")
    });
}

fn docs(looked: &mut Looked) {
    let store = Store::memory();
    store.queue("r1").unwrap();
    let mut doc = ptr::null_mut();
    let request = c"{\"projectId\":\"shop\"}";
    unsafe {
        runledger_call(store.0, c"runs.list".as_ptr(), request.as_ptr(), RUNLEDGER_NTS, &mut doc, ptr::null_mut());
    }
    type ReadText = unsafe extern "C" fn(*const runledger_doc, *const c_char, *mut *const c_char, *mut usize) -> i32;
    let texts: [(&str, ReadText); 2] = [("runledger_doc_str", runledger_doc_str), ("runledger_doc_raw", runledger_doc_raw)];
    for (function, read) in texts {
        looked.at(function, &["doc", "pointer", "out"], &["len"], |null, _| unsafe {
            let (mut out, mut len) = (ptr::dangling(), 7);
            let (doc, pointer) = (null.con("doc", doc), null.con("pointer", c"/runs/0/id".as_ptr()));
            let status = read(doc, pointer, null.mutable("out", &mut out), null.mutable("len", &mut len));
            assert!(status == RUNLEDGER_OK || null.0 == "out" || (out.is_null() && len == 0));
            status
        });
    }
    macro_rules! reads {
        ($($function:ident($pointer:literal) as $type:ty;)*) => {$(
            looked.at(stringify!($function), &["doc", "pointer", "out"], &[], |null, _| unsafe {
                let mut out = <$type>::default();
                let (doc, pointer) = (null.con("doc", doc), null.con("pointer", $pointer.as_ptr()));
                $function(doc, pointer, null.mutable("out", &mut out))
            });
        )*};
    }
    reads! {
        runledger_doc_i64(c"/total") as i64;
        runledger_doc_bool(c"/hasMore") as bool;
        runledger_doc_time_us(c"/runs/0/startedAt") as i64;
        runledger_doc_len(c"/runs") as usize;
    }
    looked.at("runledger_doc_json", &[], &["doc", "len"], |null, _| unsafe {
        let mut len = 0;
        i32::from(runledger_doc_json(null.con("doc", doc), null.mutable("len", &mut len)).is_null())
    });
    looked.at("runledger_doc_outline", &[], &["doc"], |null, _| unsafe {
        let outline = runledger_doc_outline(null.con("doc", doc));
        let holds = outline.is_null() == (null.0 == "doc");
        runledger_doc_free(outline);
        i32::from(!holds)
    });
    looked.at("runledger_doc_is_null", &[], &["doc"], |null, _| unsafe {
        i32::from(runledger_doc_is_null(null.con("doc", doc)) != (null.0 == "doc"))
    });
    looked.at("runledger_doc_free", &[], &[], |_, _| {
        unsafe { runledger_doc_free(ptr::null_mut()) };
        RUNLEDGER_OK
    });
    unsafe { runledger_doc_free(doc) };
}

fn requests(looked: &mut Looked) {
    looked.at("runledger_request_new", &["op", "out"], &[], |null, err| unsafe {
        let mut request: *mut runledger_request = ptr::dangling_mut();
        let status = runledger_request_new(null.con("op", c"runs.get".as_ptr()), null.mutable("out", &mut request), err);
        if status == RUNLEDGER_OK {
            runledger_request_free(request);
        } else if null.0 != "out" {
            assert!(request.is_null());
        }
        status
    });
    let mut request = ptr::null_mut();
    unsafe { runledger_request_new(c"runs.get".as_ptr(), &mut request, ptr::null_mut()) };
    type SetText = unsafe extern "C" fn(*mut runledger_request, *const c_char, *const c_char, usize) -> i32;
    let texts: [(&str, SetText); 2] =
        [("runledger_request_set_str", runledger_request_set_str), ("runledger_request_set_json", runledger_request_set_json)];
    for (function, set) in texts {
        looked.at(function, &["request", "field", "value"], &[], |null, _| unsafe {
            let (request, field) = (null.mutable("request", request), null.con("field", c"id".as_ptr()));
            set(request, field, null.con("value", c"1".as_ptr()), RUNLEDGER_NTS)
        });
    }
    macro_rules! sets {
        ($($function:ident($value:expr);)*) => {$(
            looked.at(stringify!($function), &["request", "field"], &[], |null, _| unsafe {
                $function(null.mutable("request", request), null.con("field", c"id".as_ptr()), $value)
            });
        )*};
    }
    sets! {
        runledger_request_set_i64(1);
        runledger_request_set_bool(true);
        runledger_request_set_time_us(1);
    }
    let mut command = ptr::null_mut();
    unsafe { runledger_request_new(c"runs.get".as_ptr(), &mut command, ptr::null_mut()) };
    looked.at("runledger_request_add_command", &["batch", "command"], &[], |null, _| unsafe {
        let mut batch = ptr::null_mut();
        runledger_request_new(c"batch".as_ptr(), &mut batch, ptr::null_mut());
        let status = runledger_request_add_command(null.mutable("batch", batch), null.con("command", command));
        runledger_request_free(batch);
        status
    });
    looked.at("runledger_request_free", &[], &[], |_, _| {
        unsafe { runledger_request_free(ptr::null_mut()) };
        RUNLEDGER_OK
    });
    unsafe {
        runledger_request_free(request);
        runledger_request_free(command);
    }
}

fn errors_and_the_rest(looked: &mut Looked) {
    let store = Store::memory();
    let mut error = ptr::null_mut();
    unsafe { runledger_call(store.0, ptr::null(), c"{".as_ptr(), RUNLEDGER_NTS, ptr::null_mut(), &mut error) };
    looked.at("runledger_error_code", &[], &["error"], |null, _| unsafe {
        i32::from((runledger_error_code(null.con("error", error)) == 0) != (null.0 == "error"))
    });
    looked.at("runledger_error_retryable", &[], &["error"], |null, _| unsafe {
        i32::from(runledger_error_retryable(null.con("error", error)))
    });
    looked.at("runledger_error_message", &[], &["error", "len"], |null, _| unsafe {
        let mut len = 0;
        i32::from(runledger_error_message(null.con("error", error), null.mutable("len", &mut len)).is_null())
    });
    looked.at("runledger_error_details", &[], &["error", "len"], |null, _| unsafe {
        let mut len = 0;
        i32::from(runledger_error_details(null.con("error", error), null.mutable("len", &mut len)).is_null())
    });
    looked.at("runledger_error_free", &[], &[], |_, _| {
        unsafe { runledger_error_free(ptr::null_mut()) };
        RUNLEDGER_OK
    });
    unsafe { runledger_error_free(error) };
    looked.at("runledger_set_log", &[], &["log", "user"], |null, err| unsafe {
        let log = null.call("log", ignore as unsafe extern "C" fn(_, _, _, _));
        let status = runledger_set_log(log, ptr::null_mut(), RUNLEDGER_LOG_ERROR, err);
        runledger_set_log(None, ptr::null_mut(), 0, ptr::null_mut());
        status
    });
    // Those that take no pointer.
    for (function, holds) in [
        ("runledger_version", !runledger_version().is_null()),
        ("runledger_version_number", runledger_version_number() == RUNLEDGER_VERSION_NUMBER),
        ("runledger_abi_version", runledger_abi_version() == RUNLEDGER_ABI_VERSION),
        ("runledger_build_info", !runledger_build_info().is_null()),
        ("runledger_status_name", !runledger_status_name(i32::MIN).is_null()),
        ("runledger_live_objects", runledger_live_objects() >= 0),
    ] {
        looked.at(function, &[], &[], |_, _| i32::from(!holds));
    }
}
