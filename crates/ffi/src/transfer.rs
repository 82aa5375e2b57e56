//! Export, import, copy, backup, snapshot and restore, with streams that are the program's own.

use std::ffi::{CStr, c_char, c_void};
use std::io::{self, Read, Write};
use std::ops::ControlFlow;
use std::ptr;

use runledger::{Code, Error, Progress, Result, Snapshot, Stage};

use crate::doc::runledger_doc;
use crate::error::runledger_error;
use crate::store::runledger_store;
use crate::wall::{Out, borrow, bytes_of, entry, null, text};

/// Takes the next `len` bytes of a stream. Answers 0 to go on, anything else to stop.
pub type runledger_write_fn = Option<unsafe extern "C" fn(user: *mut c_void, bytes: *const u8, len: usize) -> i32>;

/// Puts up to `capacity` bytes of a stream into `buffer`, and says in `len` how many; none is the end. Answers 0 to go on,
/// anything else to stop.
pub type runledger_read_fn = Option<unsafe extern "C" fn(user: *mut c_void, buffer: *mut u8, capacity: usize, len: *mut usize) -> i32>;

/// Told how far a long call has come: at the beginning and the end of each stage, and now and then between. `stage` is
/// "reading" (counted in bytes), "exporting", "checking", "storing" (in records) or "copying" (in pages or rows of the
/// engine); `total` is 0 where it is not known. Answers 0 to go on, anything else to stop.
pub type runledger_progress_fn = Option<unsafe extern "C" fn(user: *mut c_void, stage: *const c_char, done: u64, total: u64) -> i32>;

/// A stream of the program, which can say that it wants no more.
struct Stream<F> {
    call: F,
    has_stopped: bool,
}

impl<F> Stream<F> {
    fn new(call: F) -> Self {
        Stream { call, has_stopped: false }
    }

    fn goes_on(&mut self, status: i32) -> io::Result<()> {
        self.has_stopped = status != 0;
        if self.has_stopped { Err(io::Error::other("the caller stopped it")) } else { Ok(()) }
    }

    /// What came of a transfer: where the stream stopped it, it was no error of the system.
    fn outcome<T>(&self, outcome: Result<T>) -> Result<T> {
        if self.has_stopped && outcome.is_err() { Err(Error::new(Code::Interrupted, "the caller stopped it")) } else { outcome }
    }
}

impl<F: FnMut(&[u8]) -> i32> Write for Stream<F> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let status = (self.call)(bytes);
        self.goes_on(status).map(|()| bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<F: FnMut(&mut [u8], &mut usize) -> i32> Read for Stream<F> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut len = 0;
        let status = (self.call)(buffer, &mut len);
        self.goes_on(status)?;
        // A length past the buffer is a program that has written past it.
        if len > buffer.len() { Err(io::Error::other("the callback gave more than there was room for")) } else { Ok(len) }
    }
}

fn told(progress: runledger_progress_fn, user: *mut c_void) -> impl FnMut(Progress) -> ControlFlow<()> {
    move |reached| {
        let Some(progress) = progress else { return ControlFlow::Continue(()) };
        // SAFETY: the caller answers for the callback and what it is given.
        let status = unsafe { progress(user, name(reached.stage).as_ptr(), reached.done, reached.total.unwrap_or(0)) };
        if status == 0 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    }
}

fn name(stage: Stage) -> &'static CStr {
    match stage {
        Stage::Reading => c"reading",
        Stage::Exporting => c"exporting",
        Stage::Checking => c"checking",
        Stage::Storing => c"storing",
        Stage::Copying => c"copying",
        Stage::Verifying => c"verifying",
    }
}

/// Writes all records as one stream of JSON lines to `write`: one consistent state, even while writes go on. `progress` may
/// be NULL; both callbacks are given `user`. The answer has runs, nodes and agents; interrupted when a callback stopped it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn runledger_export(
    store: *const runledger_store,
    write: runledger_write_fn,
    progress: runledger_progress_fn,
    user: *mut c_void,
    out: *mut *mut runledger_doc,
    err: *mut *mut runledger_error,
) -> i32 {
    let body = || {
        // SAFETY: the caller answers for the handle and the place.
        let (out, store) = unsafe { (Out::needed(out, ptr::null_mut(), "out")?, borrow(store, "store")?) };
        let write = write.ok_or_else(|| null("write"))?;
        // SAFETY: the caller answers for the callback and what it is given; the bytes outlive the call.
        let mut stream = Stream::new(|bytes: &[u8]| unsafe { write(user, bytes.as_ptr(), bytes.len()) });
        let exported = store.0.export_with(&mut stream, &mut told(progress, user));
        out.put(runledger_doc::give(&stream.outcome(exported)?.to_json()));
        Ok(())
    };
    // SAFETY: the caller answers for the place of the error.
    unsafe { entry(err, body) }
}

/// Adds the records of a stream from `read` in one step; those that are there already and equal are skipped. `progress` may be
/// NULL; both callbacks are given `user`. The answer has runs, nodes, agents and skipped; interrupted when a callback stopped
/// it, and nothing is kept then.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn runledger_import(
    store: *const runledger_store,
    read: runledger_read_fn,
    progress: runledger_progress_fn,
    user: *mut c_void,
    out: *mut *mut runledger_doc,
    err: *mut *mut runledger_error,
) -> i32 {
    let body = || {
        // SAFETY: the caller answers for the handle and the place.
        let (out, store) = unsafe { (Out::needed(out, ptr::null_mut(), "out")?, borrow(store, "store")?) };
        let read = read.ok_or_else(|| null("read"))?;
        // SAFETY: the caller answers for the callback and what it is given; the buffer outlives the call.
        let mut stream = Stream::new(|buffer: &mut [u8], len: &mut usize| unsafe { read(user, buffer.as_mut_ptr(), buffer.len(), len) });
        let imported = store.0.import_with(&mut stream, &mut told(progress, user));
        out.put(runledger_doc::give(&stream.outcome(imported)?.to_json()));
        Ok(())
    };
    // SAFETY: the caller answers for the place of the error.
    unsafe { entry(err, body) }
}

/// Adds all records of one store to another, as an export and an import do.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn runledger_copy(
    from: *const runledger_store,
    to: *const runledger_store,
    progress: runledger_progress_fn,
    user: *mut c_void,
    out: *mut *mut runledger_doc,
    err: *mut *mut runledger_error,
) -> i32 {
    let body = || {
        // SAFETY: the caller answers for the handles and the place.
        let (out, from) = unsafe { (Out::needed(out, ptr::null_mut(), "out")?, borrow(from, "from")?) };
        // SAFETY: as above.
        let to = unsafe { borrow(to, "to")? };
        let copied = from.0.copy_to_with(&to.0, &mut told(progress, user))?;
        out.put(runledger_doc::give(&copied.to_json()));
        Ok(())
    };
    // SAFETY: the caller answers for the place of the error.
    unsafe { entry(err, body) }
}

/// Copies the store to a new file at `path`, from one consistent state, while others go on reading and writing. A store in a
/// file becomes a store of the same backend; one in memory becomes a stream that can be imported. The file appears only when
/// it is whole. The answer has form ("store" or "stream") and sizeBytes. It is the way to hand a SQLite store's content to
/// another SQLite in this process.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn runledger_backup(
    store: *const runledger_store,
    path: *const c_char,
    progress: runledger_progress_fn,
    user: *mut c_void,
    out: *mut *mut runledger_doc,
    err: *mut *mut runledger_error,
) -> i32 {
    let body = || {
        // SAFETY: the caller answers for the handle, the text and the place.
        let (out, store) = unsafe { (Out::needed(out, ptr::null_mut(), "out")?, borrow(store, "store")?) };
        // SAFETY: as above.
        let path = unsafe { text(path, "path")? };
        let backup = store.0.backup_with(path, &mut told(progress, user))?;
        out.put(runledger_doc::give(&backup.to_json()));
        Ok(())
    };
    // SAFETY: the caller answers for the place of the error.
    unsafe { entry(err, body) }
}

/// Takes all that the store holds at this moment. The text of the answer (runledger_doc_json) is what runledger_restore takes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn runledger_snapshot(
    store: *const runledger_store,
    out: *mut *mut runledger_doc,
    err: *mut *mut runledger_error,
) -> i32 {
    let body = || {
        // SAFETY: the caller answers for the handle and the place.
        let (out, store) = unsafe { (Out::needed(out, ptr::null_mut(), "out")?, borrow(store, "store")?) };
        let snapshot = store.0.snapshot()?;
        let text = std::str::from_utf8(snapshot.as_bytes()).map_err(|_| Error::corrupt("a snapshot that is no text"))?;
        out.put(runledger_doc::give(text));
        Ok(())
    };
    // SAFETY: the caller answers for the place of the error.
    unsafe { entry(err, body) }
}

/// Replaces all that the store holds, in one step, with what a snapshot or an export holds: `len` bytes, or RUNLEDGER_NTS.
/// The answer has runs, nodes,
/// agents and skipped.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn runledger_restore(
    store: *const runledger_store,
    snapshot: *const c_char,
    len: usize,
    out: *mut *mut runledger_doc,
    err: *mut *mut runledger_error,
) -> i32 {
    let body = || {
        // SAFETY: the caller answers for the handle, the bytes, the length and the place.
        let (out, store) = unsafe { (Out::needed(out, ptr::null_mut(), "out")?, borrow(store, "store")?) };
        // SAFETY: as above.
        let snapshot = unsafe { bytes_of(snapshot, len, isize::MAX as usize, "snapshot")? };
        let restored = store.0.restore(&Snapshot::from_bytes(snapshot.to_vec()))?;
        out.put(runledger_doc::give(&restored.to_json()));
        Ok(())
    };
    // SAFETY: the caller answers for the place of the error.
    unsafe { entry(err, body) }
}
