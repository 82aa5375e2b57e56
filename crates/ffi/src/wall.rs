//! The one place through which every call of C goes: no panic gets out, no pointer is used unchecked, and every object that
//! is given out is counted.

use std::any::Any;
use std::ffi::{CStr, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::slice;
use std::sync::atomic::{AtomicI64, Ordering};

use runledger::{Code, Entity, Error, MAX_REQUEST_BYTES, Result};

use crate::error::runledger_error;
use crate::status::{RUNLEDGER_OK, status_of};

/// Stands for the length of a text that ends with its first NUL. In the header it is ((size_t)-1).
pub const RUNLEDGER_NTS: usize = usize::MAX;

/// How many objects are alive that C has been given.
static LIVE: AtomicI64 = AtomicI64::new(0);

/// How many stores, docs, requests and errors there are that were not freed yet. A program that frees all it was given sees 0
/// at its end.
#[unsafe(no_mangle)]
pub extern "C" fn runledger_live_objects() -> i64 {
    quiet(0, || LIVE.load(Ordering::SeqCst))
}

/// Runs the body of a function that answers a status, and hands its error to the caller.
///
/// # Safety
/// `err` is NULL or can be written.
pub(crate) unsafe fn entry(err: *mut *mut runledger_error, body: impl FnOnce() -> Result<()>) -> i32 {
    if !err.is_null() {
        // SAFETY: it is not NULL, and the caller of this function answers for the rest.
        unsafe { err.write(ptr::null_mut()) };
    }
    let outcome = catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|panic| Err(defect(&*panic)));
    let Err(error) = outcome else { return RUNLEDGER_OK };
    let status = status_of(error.code());
    if !err.is_null() {
        let handle = quiet(ptr::null_mut(), || give(runledger_error::new(&error)));
        // SAFETY: as above.
        unsafe { err.write(handle) };
    }
    status
}

/// Runs the body of a function that answers no status; a panic makes it answer `otherwise`.
pub(crate) fn quiet<T>(otherwise: T, body: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or(otherwise)
}

fn defect(panic: &(dyn Any + Send)) -> Error {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
    Error::new(Code::Internal, format!("a defect in this library: {text}")).with_entity(Entity::Store)
}

/// Gives an object to C.
pub(crate) fn give<T>(object: T) -> *mut T {
    LIVE.fetch_add(1, Ordering::SeqCst);
    Box::into_raw(Box::new(object))
}

/// Takes an object back from C and drops it; NULL is nothing.
///
/// # Safety
/// `handle` is NULL or came from [`give`] and was not taken back yet.
pub(crate) unsafe fn take_back<T>(handle: *mut T) {
    if !handle.is_null() {
        LIVE.fetch_sub(1, Ordering::SeqCst);
        // SAFETY: it came from `Box::into_raw`, once.
        quiet((), || drop(unsafe { Box::from_raw(handle) }));
    }
}

/// The object behind a handle.
///
/// # Safety
/// `handle` is NULL or points to an object that outlives the call.
pub(crate) unsafe fn borrow<'a, T>(handle: *const T, name: &str) -> Result<&'a T> {
    // SAFETY: the caller of this function answers for it.
    unsafe { handle.as_ref() }.ok_or_else(|| null(name))
}

/// As [`borrow`], to change it.
///
/// # Safety
/// As [`borrow`], and nobody else uses it meanwhile.
pub(crate) unsafe fn borrow_mut<'a, T>(handle: *mut T, name: &str) -> Result<&'a mut T> {
    // SAFETY: the caller of this function answers for it.
    unsafe { handle.as_mut() }.ok_or_else(|| null(name))
}

pub(crate) fn null(name: &str) -> Error {
    Error::invalid(name, "is NULL")
}

/// Where a function puts what it answers beside its status. It holds nothing (NULL, 0) until the function succeeds.
pub(crate) struct Out<T>(*mut T);

impl<T> Out<T> {
    /// A place that must be there.
    ///
    /// # Safety
    /// `place` is NULL or can be written.
    pub(crate) unsafe fn needed(place: *mut T, nothing: T, name: &str) -> Result<Out<T>> {
        if place.is_null() {
            return Err(null(name));
        }
        // SAFETY: it is not NULL, and the caller of this function answers for the rest.
        Ok(unsafe { Out::wanted(place, nothing) })
    }

    /// A place that may be NULL, which says that the caller does not care.
    ///
    /// # Safety
    /// `place` is NULL or can be written.
    pub(crate) unsafe fn wanted(place: *mut T, nothing: T) -> Out<T> {
        let out = Out(place);
        out.put(nothing);
        out
    }

    pub(crate) fn put(&self, value: T) {
        if !self.0.is_null() {
            // SAFETY: those who make an `Out` answer for it.
            unsafe { self.0.write(value) };
        }
    }
}

/// A text that ends with its first NUL.
///
/// # Safety
/// `text` is NULL or ends with a NUL, and outlives the call.
pub(crate) unsafe fn text<'a>(text: *const c_char, name: &str) -> Result<&'a str> {
    // SAFETY: as of this function.
    unsafe { text_of(text, RUNLEDGER_NTS, name) }
}

/// A text of `len` bytes.
///
/// # Safety
/// As [`bytes_of`].
pub(crate) unsafe fn text_of<'a>(text: *const c_char, len: usize, name: &str) -> Result<&'a str> {
    // SAFETY: as of this function.
    let bytes = unsafe { bytes_of(text, len, MAX_REQUEST_BYTES, name) }?;
    std::str::from_utf8(bytes).map_err(|_| Error::invalid(name, "not well-formed UTF-8"))
}

/// `len` bytes, or, for [`RUNLEDGER_NTS`], those before the first NUL. A length over `max` is refused before anything is read.
///
/// # Safety
/// `bytes` is NULL, or `len` bytes from there can be read, or it ends with a NUL; they outlive the call.
pub(crate) unsafe fn bytes_of<'a>(bytes: *const c_char, len: usize, max: usize, name: &str) -> Result<&'a [u8]> {
    if bytes.is_null() {
        return Err(null(name));
    }
    if len == RUNLEDGER_NTS {
        // SAFETY: the caller of this function answers for it.
        return Ok(unsafe { CStr::from_ptr(bytes) }.to_bytes());
    }
    if len > max {
        return Err(Error::too_large(name, len, max));
    }
    // SAFETY: the caller of this function answers for it, and the length is in the range of a slice.
    Ok(unsafe { slice::from_raw_parts(bytes.cast(), len) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{runledger_error_code, runledger_error_message};

    /// A panic anywhere below an entry is an error of its own kind, which says what happened.
    #[test]
    #[allow(clippy::panic, reason = "it is what the wall must hold")]
    fn a_panic_does_not_get_past_the_wall() {
        let mut err = ptr::null_mut();
        // SAFETY: a place for the error, and the error itself, which is freed once.
        unsafe {
            assert_eq!(entry(&mut err, || panic!("broken on purpose")), Code::Internal.number());
            assert_eq!(runledger_error_code(err), Code::Internal.number());
            let message = CStr::from_ptr(runledger_error_message(err, ptr::null_mut()));
            assert!(message.to_bytes().ends_with(b"broken on purpose"));
            take_back(err);
        }
        assert_eq!(quiet(7, || panic!("broken on purpose")), 7);
        // SAFETY: without a place for the error nothing is written.
        assert_eq!(unsafe { entry(ptr::null_mut(), || panic!("broken on purpose")) }, Code::Internal.number());
    }

    struct Bomb;

    impl Drop for Bomb {
        #[allow(clippy::panic, reason = "it is what the wall must hold")]
        fn drop(&mut self) {
            panic!("broken on purpose");
        }
    }

    #[test]
    fn a_panic_in_a_free_does_not_get_past_the_wall() {
        let bomb = give(Bomb);
        // SAFETY: it was given just now.
        unsafe { take_back(bomb) };
    }
}
