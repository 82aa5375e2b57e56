//! Claims that wait until something is queued.

use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use runledger_ffi::*;
use tempfile::tempdir;

use crate::kit::{Refused, Store, answer, c, url};

/// As long as a test may take: a claim that is not woken is found by its end.
const LONG_MS: u64 = 60_000;

fn claim(fields: &str) -> String {
    format!(r#"{{"projectId":"shop","execution":{{"token":"t","queueLeaseExpiresAt":"2030-01-01T00:00:00Z"}}{fields}}}"#)
}

fn wait(store: &Store, op: Option<&str>, request: &str, timeout_ms: u64) -> Result<String, Refused> {
    let op = op.map(c);
    let op = op.as_ref().map_or(ptr::null(), |op| op.as_ptr());
    answer(|out, err| unsafe { runledger_claim_wait(store.0, op, request.as_ptr().cast(), request.len(), timeout_ms, out, err) })
}

/// Begins to wait on a thread, does something once the wait may be thought to have begun, and gives what the wait came to.
fn meanwhile(store: &Store, op: &str, act: impl FnOnce()) -> Result<String, Refused> {
    let has_begun = AtomicBool::new(false);
    thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            has_begun.store(true, Ordering::SeqCst);
            wait(store, Some(op), &claim(""), LONG_MS)
        });
        while !has_begun.load(Ordering::SeqCst) {
            thread::yield_now();
        }
        // Whether it looks before or after what follows, it must end alike; mostly it waits by then.
        thread::sleep(Duration::from_millis(30));
        act();
        waiting.join().unwrap()
    })
}

#[test]
fn a_wait_in_which_nothing_comes_gives_a_null_doc() {
    for scheme in ["memory", "sqlite", "redb"] {
        let dir = tempdir().unwrap();
        let store = Store::open(&if scheme == "memory" { "memory:".to_owned() } else { url(scheme, &dir.path().join("store")) });
        for timeout_ms in [0, 5] {
            assert_eq!(wait(&store, Some("runs.claim"), &claim(""), timeout_ms).unwrap(), "null");
            assert_eq!(wait(&store, Some("agents.claim"), &claim(""), timeout_ms).unwrap(), "null");
        }
        // What is there already is taken at once, also when the request names the operation itself.
        store.queue("r1").unwrap();
        let other = wait(&store, None, &claim(r#","op":"runs.claim","workflowIds":["other"]"#), 5).unwrap();
        assert_eq!(other, "null");
        let claimed = wait(&store, None, &claim(r#","op":"runs.claim","workflowIds":["wf"]"#), u64::MAX).unwrap();
        assert_eq!(claimed, store.get("r1").unwrap());
        assert!(claimed.contains(r#""token":"t""#), "{claimed}");
    }
    assert_eq!(runledger_live_objects(), 0);
}

#[test]
fn what_another_thread_queues_ends_the_wait() {
    for scheme in ["memory", "sqlite", "redb"] {
        let dir = tempdir().unwrap();
        let store = Store::open(&if scheme == "memory" { "memory:".to_owned() } else { url(scheme, &dir.path().join("store")) });
        let run = meanwhile(&store, "runs.claim", || drop(store.queue("r1").unwrap())).unwrap();
        assert_eq!(run, store.get("r1").unwrap());
        store.ok(
            "nodes.start",
            r#"{"projectId":"shop","id":"n1","workflowRunId":"r1","workflowId":"wf","nodeIndex":0,"nodeType":"agent","nodeId":"n","nodeKey":"n","input":1,"executionToken":"t"}"#,
        );
        let create = r#"{"projectId":"shop","nodeRunId":"n1","agentId":"a","prompt":"do"}"#;
        let agent = meanwhile(&store, "agents.claim", || drop(store.ok("agents.create", create))).unwrap();
        assert!(agent.contains(r#""nodeRunId":"n1""#) && agent.contains(r#""status":"running""#), "{agent}");
    }
}

#[test]
fn closing_the_store_ends_the_wait() {
    for op in ["runs.claim", "agents.claim"] {
        let store = Store::memory();
        let ended = meanwhile(&store, op, || store.close().unwrap()).unwrap_err();
        assert_eq!(ended.name, "closed");
        assert_eq!(wait(&store, Some(op), &claim(""), LONG_MS).unwrap_err().name, "closed");
    }
    assert_eq!(runledger_live_objects(), 0);
}

#[test]
fn only_claims_wait_and_they_are_judged_at_once() {
    let store = Store::memory();
    let refused = |op, request: &str| {
        let refused = wait(&store, op, request, LONG_MS).unwrap_err();
        (refused.name.clone(), refused.field())
    };
    let invalid = |field: &str| ("invalid_input".to_owned(), Some(field.to_owned()));
    assert_eq!(refused(Some("runs.get"), r#"{"projectId":"shop","id":"r1"}"#), invalid("op"));
    assert_eq!(refused(Some("runs.queue"), r#"{"projectId":"shop","id":"r1","workflowId":"wf","input":1}"#), invalid("op"));
    assert_eq!(refused(None, &claim("")), invalid("op"));
    assert_eq!(refused(Some("runs.claim"), &claim(r#","op":"agents.claim""#)), invalid("op"));
    assert_eq!(refused(Some("runs.claim"), r#"{"projectId":"shop"}"#), invalid("execution"));
    assert_eq!(store.total(), 0);
}

#[test]
fn a_request_that_was_put_together_waits_alike() {
    let store = Store::memory();
    let mut request = ptr::null_mut();
    let wait = |request, timeout_ms| answer(|out, err| unsafe { runledger_claim_wait_request(store.0, request, timeout_ms, out, err) });
    unsafe {
        assert_eq!(runledger_request_new(c("runs.claim").as_ptr(), &mut request, ptr::null_mut()), RUNLEDGER_OK);
        runledger_request_set_str(request, c("projectId").as_ptr(), c("shop").as_ptr(), RUNLEDGER_NTS);
        assert_eq!(wait(request, LONG_MS).unwrap_err().field().as_deref(), Some("execution"));
        runledger_request_set_str(request, c("execution.token").as_ptr(), c("t").as_ptr(), RUNLEDGER_NTS);
        runledger_request_set_time_us(request, c("execution.queueLeaseExpiresAt").as_ptr(), 1);
    }
    assert_eq!(wait(request, 5).unwrap(), "null");
    store.queue("r1").unwrap();
    assert_eq!(wait(request, LONG_MS).unwrap(), store.get("r1").unwrap());
    unsafe { runledger_request_free(request) };
}
