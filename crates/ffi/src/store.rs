//! Stores, and every call on them.

use std::ffi::c_char;
use std::ptr;
use std::time::Duration;

use runledger::{
    Answer, AnswerForm, Command, ConfirmAgent, ConfirmRun, Error, Ledger, MAX_REQUEST_BYTES, OpenOptions, Request, Result, Time,
};
use serde_json::Value;

use crate::doc::runledger_doc;
use crate::error::runledger_error;
use crate::fork;
use crate::json::Members;
use crate::request::runledger_request;
use crate::wall::{Out, borrow, bytes_of, entry, give, take_back, text};

/// An open store. Any number of threads may use it at once.
#[derive(Debug)]
pub struct runledger_store(pub(crate) Ledger);

/// Opens the store at an address: "memory:", "sqlite:PATH" or "redb:PATH", with options after a question mark. In a path,
/// %, ? and # are written %25, %3F and %23.
///
/// `options_json` is NULL, or a JSON object with options by name: durability, mode, busy_timeout_ms, max_payload_bytes,
/// journal, allow_shared_file. What the address gives goes before the same option here.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn runledger_store_open(
    url: *const c_char,
    options_json: *const c_char,
    out: *mut *mut runledger_store,
    err: *mut *mut runledger_error,
) -> i32 {
    let body = || {
        // SAFETY: the caller answers for the texts and the place.
        let (out, url) = unsafe { (Out::needed(out, ptr::null_mut(), "out")?, text(url, "url")?) };
        let mut options = OpenOptions::new();
        if !options_json.is_null() {
            // SAFETY: as above.
            set_options(&mut options, unsafe { text(options_json, "options_json")? })?;
        }
        fork::prepare();
        out.put(give(runledger_store(runledger::open_with(url, options)?)));
        Ok(())
    };
    // SAFETY: the caller answers for the place of the error.
    unsafe { entry(err, body) }
}

impl runledger_store {
    /// A store for C that Rust has opened, over a backend of its own for instance.
    pub fn of(ledger: Ledger) -> *mut runledger_store {
        give(runledger_store(ledger))
    }

    fn claim_wait(&self, op: Option<&str>, request: &[u8], timeout_ms: u64) -> Result<Answer> {
        let timeout = Duration::from_millis(timeout_ms);
        match Request::from_json_as(op, request, &self.0.limits())? {
            Request::Command(Command::ClaimRun(claim)) => self.0.claim_run_wait(claim, timeout).map(Answer::MaybeRun),
            Request::Command(Command::ClaimAgent(claim)) => self.0.claim_agent_wait(claim, timeout).map(Answer::MaybeAgent),
            _ => Err(Error::invalid("op", "only runs.claim and agents.claim wait")),
        }
    }
}

fn set_options(options: &mut OpenOptions, json: &str) -> Result<()> {
    let not_object = |_| Error::invalid("options_json", "not a JSON object");
    let Members(members) = serde_json::from_str(json).map_err(not_object)?;
    for (index, (name, value)) in members.iter().enumerate() {
        if members[..index].iter().any(|(earlier, _)| earlier == name) {
            return Err(Error::invalid(name, "the option is given twice"));
        }
        let value = match serde_json::from_str(value.get()).map_err(not_object)? {
            Value::Null => continue,
            Value::String(text) => text,
            other => other.to_string(),
        };
        options.set(name, &value)?;
    }
    Ok(())
}

/// Waits for the calls that are under way, flushes, closes the engine and gives up its locks. Later calls answer closed; a
/// second close is ok. In a process that inherited the store over a fork it does nothing, and is ok.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn runledger_store_close(store: *const runledger_store, err: *mut *mut runledger_error) -> i32 {
    // SAFETY: the caller answers for the handle.
    let body = || unsafe { borrow(store, "store")? }.0.close();
    // SAFETY: the caller answers for the place of the error.
    unsafe { entry(err, body) }
}

/// Frees a store, which is closed first if it is still open; NULL is nothing. It must be the last call on the store, and no
/// other may be under way. In a process that inherited the store over a fork the engine is forgotten, not closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn runledger_store_free(store: *mut runledger_store) {
    // SAFETY: the caller answers for the handle.
    unsafe { take_back(store) };
}

/// Carries out one operation of the contract. `op` is its name, such as "runs.queue", and `request` a JSON object with its
/// fields; `len` may be RUNLEDGER_NTS. `op` may be NULL when the request has a field "op"; if both name one it must be the
/// same.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn runledger_call(
    store: *const runledger_store,
    op: *const c_char,
    request: *const c_char,
    len: usize,
    out: *mut *mut runledger_doc,
    err: *mut *mut runledger_error,
) -> i32 {
    let body = || {
        // SAFETY: the caller answers for the handle, the texts, the length and the place.
        let (out, store) = unsafe { (Out::needed(out, ptr::null_mut(), "out")?, borrow(store, "store")?) };
        // SAFETY: as above.
        let op = if op.is_null() { None } else { Some(unsafe { text(op, "op")? }) };
        // SAFETY: as above.
        let request = unsafe { bytes_of(request, len, MAX_REQUEST_BYTES, "request")? };
        out.put(runledger_doc::give(&store.0.call(op, request)?.to_json()));
        Ok(())
    };
    // SAFETY: the caller answers for the place of the error.
    unsafe { entry(err, body) }
}

/// Carries out a request that was put together field by field. The request stays as it is, and can be sent again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn runledger_call_request(
    store: *const runledger_store,
    request: *const runledger_request,
    out: *mut *mut runledger_doc,
    err: *mut *mut runledger_error,
) -> i32 {
    let body = || {
        // SAFETY: the caller answers for the handles and the place.
        let (out, store) = unsafe { (Out::needed(out, ptr::null_mut(), "out")?, borrow(store, "store")?) };
        // SAFETY: as above.
        let request = unsafe { borrow(request, "request")? };
        let answer = store.0.call(Some(request.op()), request.to_json()?.as_bytes())?;
        out.put(runledger_doc::give(&answer.to_json()));
        Ok(())
    };
    // SAFETY: the caller answers for the place of the error.
    unsafe { entry(err, body) }
}

/// Claims as runledger_call does, and waits up to `timeout_ms` milliseconds for something to be queued. The doc is null when
/// nothing came. `op` is "runs.claim" or "agents.claim", or NULL when the request has it; another one is invalid_input.
///
/// It wakes when something is queued through this store, and looks from time to time for what other processes queue. A close
/// meanwhile ends it with closed. The lease is the one in the request, and goes on ending while the call waits.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn runledger_claim_wait(
    store: *const runledger_store,
    op: *const c_char,
    request: *const c_char,
    len: usize,
    timeout_ms: u64,
    out: *mut *mut runledger_doc,
    err: *mut *mut runledger_error,
) -> i32 {
    let body = || {
        // SAFETY: the caller answers for the handle, the texts, the length and the place.
        let (out, store) = unsafe { (Out::needed(out, ptr::null_mut(), "out")?, borrow(store, "store")?) };
        // SAFETY: as above.
        let op = if op.is_null() { None } else { Some(unsafe { text(op, "op")? }) };
        // SAFETY: as above.
        let request = unsafe { bytes_of(request, len, MAX_REQUEST_BYTES, "request")? };
        out.put(runledger_doc::give(&store.claim_wait(op, request, timeout_ms)?.to_json()));
        Ok(())
    };
    // SAFETY: the caller answers for the place of the error.
    unsafe { entry(err, body) }
}

/// As runledger_claim_wait, for a request that was put together field by field.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn runledger_claim_wait_request(
    store: *const runledger_store,
    request: *const runledger_request,
    timeout_ms: u64,
    out: *mut *mut runledger_doc,
    err: *mut *mut runledger_error,
) -> i32 {
    let body = || {
        // SAFETY: the caller answers for the handles and the place.
        let (out, store) = unsafe { (Out::needed(out, ptr::null_mut(), "out")?, borrow(store, "store")?) };
        // SAFETY: as above.
        let request = unsafe { borrow(request, "request")? };
        let answer = store.claim_wait(Some(request.op()), request.to_json()?.as_bytes(), timeout_ms)?;
        out.put(runledger_doc::give(&answer.to_json()));
        Ok(())
    };
    // SAFETY: the caller answers for the place of the error.
    unsafe { entry(err, body) }
}

/// Says that the owner of a run is alive (runs.confirm): its lease ends at the later of its current end and `lease_end_us`,
/// in microseconds since 1970-01-01T00:00:00Z. `new_lease_end_us` (which may be NULL) is given where it ends now. This is the
/// call that is made most often, so it takes no JSON.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn runledger_confirm_run(
    store: *const runledger_store,
    project_id: *const c_char,
    id: *const c_char,
    execution_token: *const c_char,
    lease_end_us: i64,
    new_lease_end_us: *mut i64,
    err: *mut *mut runledger_error,
) -> i32 {
    let body = || {
        // SAFETY: the caller answers for the handle, the texts and the place.
        let (out, store) = unsafe { (Out::wanted(new_lease_end_us, 0), borrow(store, "store")?) };
        // SAFETY: as above.
        let (project, id, token) = unsafe { (text(project_id, "projectId")?, text(id, "id")?, text(execution_token, "executionToken")?) };
        let confirm = ConfirmRun::new(project, id, token, lease_end(lease_end_us)?).with_answer(AnswerForm::State);
        let run = store.0.confirm_run(confirm)?;
        out.put(run.execution.map_or(0, |execution| execution.lease_expires_at.unix_us()));
        Ok(())
    };
    // SAFETY: the caller answers for the place of the error.
    unsafe { entry(err, body) }
}

/// Says that the owner of an agent run is alive (agents.confirm), as runledger_confirm_run does of a run.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn runledger_confirm_agent(
    store: *const runledger_store,
    project_id: *const c_char,
    node_run_id: *const c_char,
    execution_token: *const c_char,
    lease_end_us: i64,
    new_lease_end_us: *mut i64,
    err: *mut *mut runledger_error,
) -> i32 {
    let body = || {
        // SAFETY: the caller answers for the handle, the texts and the place.
        let (out, store) = unsafe { (Out::wanted(new_lease_end_us, 0), borrow(store, "store")?) };
        // SAFETY: as above.
        let (project, id, token) =
            unsafe { (text(project_id, "projectId")?, text(node_run_id, "nodeRunId")?, text(execution_token, "executionToken")?) };
        let confirm = ConfirmAgent::new(project, id, token, lease_end(lease_end_us)?).with_answer(AnswerForm::State);
        let agent = store.0.confirm_agent(confirm)?;
        out.put(agent.execution.map_or(0, |execution| execution.lease_expires_at.unix_us()));
        Ok(())
    };
    // SAFETY: the caller answers for the place of the error.
    unsafe { entry(err, body) }
}

fn lease_end(us: i64) -> Result<Time> {
    Time::from_unix_us(us).ok_or_else(|| Error::invalid("queueLeaseExpiresAt", "not a time of the years 0001 to 9999"))
}
