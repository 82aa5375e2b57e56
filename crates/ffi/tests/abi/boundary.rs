//! What C can get wrong.

use std::ffi::CStr;
use std::ptr;

use runledger_ffi::*;

use crate::kit::{Refused, Store, answer};

fn call_bytes(store: &Store, op: Option<&CStr>, bytes: &[u8], len: usize) -> Result<String, Refused> {
    let op = op.map_or(ptr::null(), CStr::as_ptr);
    answer(|out, err| unsafe { runledger_call(store.0, op, bytes.as_ptr().cast(), len, out, err) })
}

#[test]
fn lengths_that_can_not_be_are_refused() {
    let store = Store::memory();
    let request = br#"{"op":"runs.get","projectId":"shop","id":"r1"}"#;
    assert_eq!(call_bytes(&store, None, request, request.len()).unwrap(), "null");
    // Nothing, a part, and more than any request may have, which is not even looked at.
    for len in 0..request.len() {
        assert_eq!(call_bytes(&store, None, request, len).unwrap_err().name, "invalid_input", "{len}");
    }
    for len in [257 << 20, usize::MAX / 2, usize::MAX - 1] {
        let refused = call_bytes(&store, None, request, len).unwrap_err();
        assert_eq!((refused.name.as_str(), refused.field().as_deref()), ("too_large", Some("request")), "{len}");
    }
}

#[test]
fn text_that_is_not_utf_8_is_refused_and_named() {
    let store = Store::memory();
    assert_eq!(call_bytes(&store, None, b"{\"op\":\"runs.get\xff\"}", 18).unwrap_err().name, "invalid_input");
    let bent = c"runs.get\xff";
    assert_eq!(call_bytes(&store, Some(bent), b"{}", 2).unwrap_err().field().as_deref(), Some("op"));
    let mut out = ptr::null_mut();
    let mut err = ptr::null_mut();
    let status = unsafe { runledger_store_open(c"memory:\xff".as_ptr(), ptr::null(), &mut out, &mut err) };
    assert_eq!(unsafe { Refused::take(status, err) }.field().as_deref(), Some("url"));
    let (shop, bent) = (c"shop", c"\xff");
    for (project, id, token, field) in [(bent, shop, shop, "projectId"), (shop, bent, shop, "id"), (shop, shop, bent, "executionToken")] {
        let mut end = 7;
        let status = unsafe { runledger_confirm_run(store.0, project.as_ptr(), id.as_ptr(), token.as_ptr(), 0, &mut end, &mut err) };
        assert_eq!(unsafe { Refused::take(status, err) }.field().as_deref(), Some(field));
        assert_eq!(end, 0);
    }
}

#[test]
fn the_operation_may_be_named_beside_the_request_or_in_it() {
    let store = Store::memory();
    let (get, list) = (Some(c"runs.get"), Some(c"runs.list"));
    let with = br#"{"op":"runs.get","projectId":"shop","id":"r1"}"#;
    let without = br#"{"projectId":"shop","id":"r1"}"#;
    for (op, request) in [(get, &with[..]), (get, without), (None, with)] {
        assert_eq!(call_bytes(&store, op, request, request.len()).unwrap(), "null");
    }
    for (op, request) in [(None, &without[..]), (list, with), (Some(c""), with), (Some(c"no.such"), b"{}"), (get, br#"{"op":1}"#)] {
        let refused = call_bytes(&store, op, request, request.len()).unwrap_err();
        assert_eq!((refused.name.as_str(), refused.field().as_deref()), ("invalid_input", Some("op")), "{op:?}");
    }
}

#[test]
fn options_are_those_of_the_contract() {
    let open = |options: &str| Store::try_open("memory:", Some(options));
    for options in
        ["{}", r#"{"max_payload_bytes":10,"durability":"relaxed","busy_timeout_ms":"7","allow_shared_file":true}"#, r#"{"mode":null}"#]
    {
        open(options).unwrap();
    }
    for (options, field) in [
        ("", "options_json"),
        ("[]", "options_json"),
        ("{}{}", "options_json"),
        (r#"{"colour":"red"}"#, "colour"),
        (r#"{"mode":"create","mode":"create"}"#, "mode"),
        (r#"{"busy_timeout_ms":-1}"#, "busy_timeout_ms"),
        (r#"{"busy_timeout_ms":1.0}"#, "busy_timeout_ms"),
        (r#"{"allow_shared_file":"yes"}"#, "allow_shared_file"),
        (r#"{"max_payload_bytes":[1]}"#, "max_payload_bytes"),
    ] {
        assert_eq!(open(options).unwrap_err().field().as_deref(), Some(field), "{options}");
    }
    let small = open(r#"{"max_payload_bytes":3}"#).unwrap();
    assert_eq!(small.queue("r1").unwrap_err().name, "too_large");
}

/// Without a place for it no error is made, and nothing has to be freed.
#[test]
fn an_error_that_is_not_asked_for_is_not_made() {
    let store = Store::memory();
    let before = runledger_live_objects();
    let mut out = ptr::null_mut();
    let status = unsafe { runledger_call(store.0, c"no.such".as_ptr(), c"{}".as_ptr(), RUNLEDGER_NTS, &mut out, ptr::null_mut()) };
    assert_eq!((status, out.is_null(), runledger_live_objects()), (RUNLEDGER_INVALID_INPUT, true, before));
}

/// An error object that is read when there was none says that there was none.
#[test]
fn reading_an_error_that_is_none_is_harmless() {
    unsafe {
        assert_eq!(runledger_error_code(ptr::null()), 0);
        assert!(!runledger_error_retryable(ptr::null()));
        assert_eq!(CStr::from_ptr(runledger_error_message(ptr::null(), ptr::null_mut())), c"");
        assert_eq!(CStr::from_ptr(runledger_error_details(ptr::null(), ptr::null_mut())), c"{}");
        assert_eq!(CStr::from_ptr(runledger_doc_json(ptr::null(), ptr::null_mut())), c"null");
    }
}

#[test]
fn a_negative_limit_is_refused_by_every_list() {
    let store = Store::memory();
    for op in ["runs.list", "nodes.list", "agents.list"] {
        let refused = store.call(op, r#"{"projectId":"shop","limit":-1}"#).unwrap_err();
        assert_eq!((refused.name.as_str(), refused.field().as_deref()), ("invalid_input", Some("limit")), "{op}");
    }
}

#[test]
fn confirm_without_json_does_what_the_operation_does() {
    let store = Store::memory();
    store.start_owned("r1");
    let lease = 1_893_456_000_000_000;
    let confirm = |token: &CStr, end: i64| {
        let (mut new_end, mut err) = (0, ptr::null_mut());
        let status =
            unsafe { runledger_confirm_run(store.0, c"shop".as_ptr(), c"r1".as_ptr(), token.as_ptr(), end, &mut new_end, &mut err) };
        if status == RUNLEDGER_OK { Ok(new_end) } else { Err(unsafe { Refused::take(status, err) }) }
    };
    assert_eq!(confirm(c"t", lease + 5), Ok(lease + 5));
    assert_eq!(confirm(c"t", lease), Ok(lease + 5));
    assert_eq!(confirm(c"other", lease + 9).unwrap_err().name, "stale_token");
    assert_eq!(confirm(c"t", i64::MIN).unwrap_err().field().as_deref(), Some("queueLeaseExpiresAt"));
    assert!(store.get("r1").unwrap().contains("2030-01-01T00:00:00.000005Z"));
    // Who does not care where the lease ends now need not ask.
    let status =
        unsafe { runledger_confirm_run(store.0, c"shop".as_ptr(), c"r1".as_ptr(), c"t".as_ptr(), lease, ptr::null_mut(), ptr::null_mut()) };
    assert_eq!(status, RUNLEDGER_OK);
    store.ok(
        "nodes.start",
        r#"{"projectId":"shop","id":"n1","workflowRunId":"r1","workflowId":"wf","nodeIndex":0,"nodeType":"agent","nodeId":"n","nodeKey":"n","input":1,"executionToken":"t"}"#,
    );
    store.ok("agents.create", r#"{"projectId":"shop","nodeRunId":"n1","agentId":"a","prompt":"do"}"#);
    store.ok("agents.claim", r#"{"projectId":"shop","execution":{"token":"a","queueLeaseExpiresAt":"2030-01-01T00:00:00Z"}}"#);
    let mut end = 0;
    let status =
        unsafe { runledger_confirm_agent(store.0, c"shop".as_ptr(), c"n1".as_ptr(), c"a".as_ptr(), lease + 1, &mut end, ptr::null_mut()) };
    assert_eq!((status, end), (RUNLEDGER_OK, lease + 1));
}
