//! Answers and requests without a JSON library.

use std::ffi::c_char;
use std::ptr;

use runledger_ffi::*;

use crate::kit::{Refused, Store, answer, c, text};

struct Request(*mut runledger_request);

impl Request {
    fn new(op: &str) -> Request {
        let mut request = ptr::null_mut();
        assert_eq!(unsafe { runledger_request_new(c(op).as_ptr(), &mut request, ptr::null_mut()) }, RUNLEDGER_OK);
        Request(request)
    }

    fn str(&self, field: &str, value: &str) -> i32 {
        unsafe { runledger_request_set_str(self.0, c(field).as_ptr(), value.as_ptr().cast(), value.len()) }
    }

    fn json(&self, field: &str, value: &str) -> i32 {
        unsafe { runledger_request_set_json(self.0, c(field).as_ptr(), c(value).as_ptr(), RUNLEDGER_NTS) }
    }

    fn send(&self, store: &Store) -> Result<String, Refused> {
        answer(|out, err| unsafe { runledger_call_request(store.0, self.0, out, err) })
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        unsafe { runledger_request_free(self.0) };
    }
}

/// NUL within a text goes in by its length and comes out by its length.
#[test]
fn nul_within_texts_is_kept_by_explicit_lengths() {
    let store = Store::memory();
    store.queue("r1").unwrap();
    let finish = Request::new("runs.finish");
    for (field, value) in [("projectId", "shop"), ("id", "r1"), ("status", "failed"), ("error", "a\0b")] {
        assert_eq!(finish.str(field, value), RUNLEDGER_OK);
    }
    finish.send(&store).unwrap();
    let mut doc = ptr::null_mut();
    let get = c(r#"{"projectId":"shop","id":"r1"}"#);
    let status = unsafe { runledger_call(store.0, c("runs.get").as_ptr(), get.as_ptr(), RUNLEDGER_NTS, &mut doc, ptr::null_mut()) };
    assert_eq!(status, RUNLEDGER_OK);
    let mut start: *const c_char = ptr::null();
    let error = text(|len| unsafe {
        assert_eq!(runledger_doc_str(doc, c("/error").as_ptr(), &mut start, len), RUNLEDGER_OK);
        start
    });
    assert_eq!(error, "a\0b");
    // The same again is the same text, which lives as long as the doc.
    let mut again: *const c_char = ptr::null();
    assert_eq!(unsafe { runledger_doc_str(doc, c("/error").as_ptr(), &mut again, ptr::null_mut()) }, RUNLEDGER_OK);
    assert_eq!(start, again);
    unsafe { runledger_doc_free(doc) };
}

#[test]
fn a_request_is_put_together_field_by_field() {
    let store = Store::memory();
    let start = Request::new("runs.start");
    start.str("projectId", "shop");
    start.str("id", "first");
    start.str("id", "r1");
    start.str("workflowId", "wf");
    start.json("input", " {\"a\": 1.0, \"a\":2} ");
    start.str("requestedByPrincipal.type", "user");
    start.str("requestedByPrincipal.id", "ann");
    start.str("execution.token", "t");
    let lease = 1_893_456_000_000_001;
    unsafe {
        assert_eq!(runledger_request_set_time_us(start.0, c("execution.queueLeaseExpiresAt").as_ptr(), lease), RUNLEDGER_OK);
        assert_eq!(runledger_request_set_time_us(start.0, c("startedAt").as_ptr(), -1), RUNLEDGER_OK);
    }
    let run = start.send(&store).unwrap();
    assert!(run.contains(r#""id":"r1""#) && run.contains(r#""input":{"a": 1.0, "a":2}"#), "{run}");
    assert!(run.contains(r#""execution":{"token":"t","queueLeaseExpiresAt":"2030-01-01T00:00:00.000001Z"}"#), "{run}");
    assert!(run.contains(r#""startedAt":"1969-12-31T23:59:59.999999Z""#), "{run}");
    // It can be sent again, and says the same again.
    assert_eq!(start.send(&store).unwrap_err().name, "already_exists");
    let list = Request::new("runs.list");
    list.str("projectId", "shop");
    list.json("statuses", r#"["running"]"#);
    unsafe {
        assert_eq!(runledger_request_set_i64(list.0, c("limit").as_ptr(), 1), RUNLEDGER_OK);
        assert_eq!(runledger_request_set_bool(list.0, c("withTotal").as_ptr(), false), RUNLEDGER_OK);
    }
    assert!(list.send(&store).unwrap().ends_with(r#""hasMore":false}"#));
}

#[test]
fn a_batch_is_put_together_of_requests() {
    let store = Store::memory();
    let batch = Request::new("batch");
    for id in ["r1", "r2"] {
        let queue = Request::new("runs.queue");
        for (field, value) in [("projectId", "shop"), ("id", id), ("workflowId", "wf")] {
            queue.str(field, value);
        }
        queue.json("input", "null");
        assert_eq!(unsafe { runledger_request_add_command(batch.0, queue.0) }, RUNLEDGER_OK);
    }
    assert!(batch.send(&store).unwrap().starts_with(r#"{"results":[{"projectId":"shop","id":"r1""#));
    assert_eq!(store.total(), 2);
    // What was refused in a command is refused in the batch.
    let bent = Request::new("runs.get");
    assert_eq!(bent.json("input", "1,2"), RUNLEDGER_INVALID_INPUT);
    assert_eq!(unsafe { runledger_request_add_command(batch.0, bent.0) }, RUNLEDGER_INVALID_INPUT);
    assert_eq!(batch.send(&store).unwrap_err().field().as_deref(), Some("input"));
    assert_eq!(unsafe { runledger_request_add_command(batch.0, batch.0) }, RUNLEDGER_INVALID_INPUT);
}

/// The first refusal is what the call answers, and nothing can be smuggled into the request through a value.
#[test]
fn a_field_that_is_refused_is_remembered() {
    let store = Store::memory();
    for bent in ["", "{", "1,\"id\":2", "{} {}", "nul", "\"a"] {
        let queue = Request::new("runs.queue");
        assert_eq!(queue.json("input", bent), RUNLEDGER_INVALID_INPUT, "{bent}");
        assert_eq!(queue.str("", "x"), RUNLEDGER_INVALID_INPUT);
        let refused = queue.send(&store).unwrap_err();
        assert_eq!((refused.status, refused.field().as_deref()), (RUNLEDGER_INVALID_INPUT, Some("input")));
    }
    let get = Request::new("runs.get");
    assert_eq!(unsafe { runledger_request_set_time_us(get.0, c("startedAfter").as_ptr(), i64::MAX) }, RUNLEDGER_INVALID_INPUT);
    let not_utf8 = [0xff_u8, 0];
    assert_eq!(
        unsafe { runledger_request_set_str(get.0, c("id").as_ptr(), not_utf8.as_ptr().cast(), RUNLEDGER_NTS) },
        RUNLEDGER_INVALID_INPUT
    );
    assert_eq!(get.send(&store).unwrap_err().field().as_deref(), Some("startedAfter"));
}

/// Names that are there twice, at the top of a payload and deep inside, stay as they were given.
#[test]
fn a_payload_with_a_name_twice_is_kept_byte_for_byte() {
    let store = Store::memory();
    for (id, input) in [("r1", r#"{"A":"B","A":123}"#), ("r2", r#"{"o":{"k":1,"k":2}}"#)] {
        let request = format!(r#"{{"projectId":"shop","id":"{id}","workflowId":"wf","input":{input}}}"#);
        store.ok("runs.queue", &request);
        assert!(store.get(id).unwrap().contains(&format!(r#""input":{input}"#)));
    }
}

#[test]
fn a_null_answer_is_a_doc_that_is_null() {
    let store = Store::memory();
    let mut doc = ptr::null_mut();
    let (op, request) = (c("runs.get"), c(r#"{"projectId":"shop","id":"none"}"#));
    unsafe {
        assert_eq!(runledger_call(store.0, op.as_ptr(), request.as_ptr(), RUNLEDGER_NTS, &mut doc, ptr::null_mut()), RUNLEDGER_OK);
        assert!(!doc.is_null() && runledger_doc_is_null(doc));
        runledger_doc_free(doc);
    }
    store.queue("r1").unwrap();
    let request = c(r#"{"projectId":"shop","id":"r1"}"#);
    unsafe {
        assert_eq!(runledger_call(store.0, op.as_ptr(), request.as_ptr(), RUNLEDGER_NTS, &mut doc, ptr::null_mut()), RUNLEDGER_OK);
        assert!(!runledger_doc_is_null(doc));
        runledger_doc_free(doc);
    }
}
