//! Errors as C sees them.

use std::ffi::c_char;

use runledger::Error;

use crate::json::Terminated;
use crate::wall::{Out, quiet, take_back};

/// What went wrong: a code, a message for people, and the same facts as data.
#[derive(Debug)]
pub struct runledger_error {
    code: i32,
    is_retryable: bool,
    message: Terminated,
    details: Terminated,
}

impl runledger_error {
    pub(crate) fn new(error: &Error) -> Self {
        runledger_error {
            code: error.code().number(),
            is_retryable: error.is_retryable(),
            message: Terminated::new(error.message()),
            details: Terminated::new(&error.details().to_json()),
        }
    }
}

/// The code of an error, which is the status that the function answered; 0 for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn runledger_error_code(error: *const runledger_error) -> i32 {
    // SAFETY: the caller answers for the handle.
    quiet(0, || unsafe { error.as_ref() }.map_or(0, |error| error.code))
}

/// Whether the same call may succeed when it is made again; false for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn runledger_error_retryable(error: *const runledger_error) -> bool {
    // SAFETY: the caller answers for the handle.
    quiet(false, || unsafe { error.as_ref() }.is_some_and(|error| error.is_retryable))
}

/// What happened, for people. It lives until the error is freed; for NULL it is empty. `len` may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn runledger_error_message(error: *const runledger_error, len: *mut usize) -> *const c_char {
    // SAFETY: the caller answers for the handle and the place.
    unsafe { text_of(error, len, c"", |error| &error.message) }
}

/// The facts as a JSON object: entity, projectId, id, field, status, size, limit, index, path, applied, each where it
/// applies. It lives until the error is freed; for NULL it is "{}". `len` may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn runledger_error_details(error: *const runledger_error, len: *mut usize) -> *const c_char {
    // SAFETY: the caller answers for the handle and the place.
    unsafe { text_of(error, len, c"{}", |error| &error.details) }
}

/// # Safety
/// `error` is NULL or an error, `len` is NULL or can be written.
unsafe fn text_of(
    error: *const runledger_error,
    len: *mut usize,
    of_none: &'static std::ffi::CStr,
    part: impl FnOnce(&runledger_error) -> &Terminated,
) -> *const c_char {
    // SAFETY: as of this function.
    let (len, error) = unsafe { (Out::wanted(len, of_none.count_bytes()), error.as_ref()) };
    let Some(error) = error else { return of_none.as_ptr() };
    let text = part(error);
    len.put(text.len());
    text.as_ptr()
}

/// Frees an error; NULL is nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn runledger_error_free(error: *mut runledger_error) {
    // SAFETY: the caller answers for the handle.
    unsafe { take_back(error) };
}
