//! Answers as C sees them.

use std::ffi::c_char;

use runledger::Result;

use crate::json::{Json, Terminated};
use crate::wall::{Out, borrow, entry, give, quiet, take_back, text};

/// The answer of a call: a JSON value that is read by JSON Pointer, so that a program needs no JSON library.
#[derive(Debug)]
pub struct runledger_doc(Json);

impl runledger_doc {
    /// An answer for C.
    pub(crate) fn give(json: &str) -> *mut runledger_doc {
        give(runledger_doc(Json::new(json)))
    }

    /// The whole answer.
    pub(crate) fn text(&self) -> &str {
        self.0.text().as_str()
    }
}

/// The whole answer as JSON text. It lives until the doc is freed; for NULL it is "null". `len` may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn runledger_doc_json(doc: *const runledger_doc, len: *mut usize) -> *const c_char {
    quiet(c"null".as_ptr(), || {
        // SAFETY: the caller answers for the handle and the place.
        let (len, doc) = unsafe { (Out::wanted(len, 4), doc.as_ref()) };
        let Some(runledger_doc(json)) = doc else { return c"null".as_ptr() };
        len.put(json.text().len());
        json.text().as_ptr()
    })
}

/// Whether the answer is null: there is no such record, or nothing to claim. True for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn runledger_doc_is_null(doc: *const runledger_doc) -> bool {
    // SAFETY: the caller answers for the handle.
    quiet(true, || unsafe { doc.as_ref() }.is_none_or(|runledger_doc(json)| json.text().as_str() == "null"))
}

/// Reads one value of a doc into one place.
///
/// # Safety
/// `doc` and `pointer` are NULL or what their names say, `out` is NULL or can be written.
unsafe fn read<'a, T>(
    doc: *const runledger_doc,
    pointer: *const c_char,
    out: *mut T,
    nothing: T,
    of: impl FnOnce(&'a Json, &str) -> Result<T>,
) -> i32 {
    let body = || {
        // SAFETY: as of this function.
        let (out, doc, pointer) = unsafe { (Out::needed(out, nothing, "out")?, borrow(doc, "doc")?, text(pointer, "pointer")?) };
        out.put(of(&doc.0, pointer)?);
        Ok(())
    };
    // SAFETY: no error is asked for.
    unsafe { entry(std::ptr::null_mut(), body) }
}

/// As [`read`], of a text with its length.
///
/// # Safety
/// As [`read`]; `len` too is NULL or can be written.
unsafe fn read_text<'a>(
    doc: *const runledger_doc,
    pointer: *const c_char,
    out: *mut *const c_char,
    len: *mut usize,
    of: impl FnOnce(&'a Json, &str) -> Result<&'a Terminated>,
) -> i32 {
    // SAFETY: as of this function.
    let len = unsafe { Out::wanted(len, 0) };
    let read_both = |json: &'a Json, pointer: &str| {
        let text = of(json, pointer)?;
        len.put(text.len());
        Ok(text.as_ptr())
    };
    // SAFETY: as of this function.
    unsafe { read(doc, pointer, out, std::ptr::null(), read_both) }
}

/// Reads the string at a JSON Pointer, such as "/runs/0/id": its value, without quotes and escapes. It may hold NUL, so `len`
/// (which may be NULL) is what counts. It lives until the doc is freed.
///
/// Answers 0, not_found when there is no such value, or invalid_input when it is no string; the same holds for every other
/// function that reads.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn runledger_doc_str(
    doc: *const runledger_doc,
    pointer: *const c_char,
    out: *mut *const c_char,
    len: *mut usize,
) -> i32 {
    // SAFETY: the caller answers for the handle, the pointer and the places.
    unsafe { read_text(doc, pointer, out, len, Json::str_at) }
}

/// Reads the value at a JSON Pointer as JSON text, byte for byte as it was given. It lives until the doc is freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn runledger_doc_raw(
    doc: *const runledger_doc,
    pointer: *const c_char,
    out: *mut *const c_char,
    len: *mut usize,
) -> i32 {
    // SAFETY: the caller answers for the handle, the pointer and the places.
    unsafe { read_text(doc, pointer, out, len, Json::raw_at) }
}

/// Reads the integer at a JSON Pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn runledger_doc_i64(doc: *const runledger_doc, pointer: *const c_char, out: *mut i64) -> i32 {
    // SAFETY: the caller answers for the handle, the pointer and the place.
    unsafe { read(doc, pointer, out, 0, Json::i64_at) }
}

/// Reads the truth value at a JSON Pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn runledger_doc_bool(doc: *const runledger_doc, pointer: *const c_char, out: *mut bool) -> i32 {
    // SAFETY: the caller answers for the handle, the pointer and the place.
    unsafe { read(doc, pointer, out, false, Json::bool_at) }
}

/// Reads the time at a JSON Pointer, in microseconds since 1970-01-01T00:00:00Z.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn runledger_doc_time_us(doc: *const runledger_doc, pointer: *const c_char, out: *mut i64) -> i32 {
    // SAFETY: the caller answers for the handle, the pointer and the place.
    unsafe { read(doc, pointer, out, 0, |json, pointer| json.time_at(pointer).map(runledger::Time::unix_us)) }
}

/// Reads how many elements the array, or members the object, at a JSON Pointer has.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn runledger_doc_len(doc: *const runledger_doc, pointer: *const c_char, out: *mut usize) -> i32 {
    // SAFETY: the caller answers for the handle, the pointer and the place.
    unsafe { read(doc, pointer, out, 0, Json::len_at) }
}

/// Frees a doc with all that was read from it; NULL is nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn runledger_doc_free(doc: *mut runledger_doc) {
    // SAFETY: the caller answers for the handle.
    unsafe { take_back(doc) };
}
