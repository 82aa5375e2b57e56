//! A file system for SQLite: the system's own, watched.
//!
//! It stands in front of the engine's default one and becomes the default itself, so that the product is opened as ever.
//! Files in directories that nobody watches pass through it untouched.

#![allow(unsafe_code, reason = "the engine's interface to a file system is a table of C functions")]

use std::collections::BTreeMap;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::{Path, PathBuf};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use rusqlite::ffi;

use crate::{Failure, Op, Watch};

/// Who watches which directory.
static WATCHED: RwLock<BTreeMap<PathBuf, Arc<Watch>>> = RwLock::new(BTreeMap::new());

/// The two connections of this process that were opened last, the later first, whoever opened them.
static LAST_CONNECTIONS: [AtomicPtr<ffi::sqlite3>; 2] = [const { AtomicPtr::new(null_mut()) }; 2];

/// A directory that is watched until this is dropped.
#[derive(Debug)]
pub(crate) struct Watched(PathBuf);

impl Watched {
    pub(crate) fn new(directory: &Path, watch: Arc<Watch>) -> Watched {
        real_vfs();
        WATCHED.write().unwrap_or_else(PoisonError::into_inner).insert(directory.to_owned(), watch);
        Watched(directory.to_owned())
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        WATCHED.write().unwrap_or_else(PoisonError::into_inner).remove(&self.0);
    }
}

/// Has the two connections that were opened last, a store's writer and its first reader, run a statement behind their
/// owner's back. That must be the only thread that uses the engine, and the connections must be open.
pub(crate) fn run_on_last_connections(sql: &CStr) {
    for last in &LAST_CONNECTIONS {
        let conn = last.load(Ordering::SeqCst);
        // SAFETY: the caller says that the connection is open and that nobody else uses it.
        let result = unsafe { ffi::sqlite3_exec(conn, sql.as_ptr(), None, null_mut(), null_mut()) };
        assert_eq!(result, ffi::SQLITE_OK);
    }
}

unsafe extern "C" fn note_connection(conn: *mut ffi::sqlite3, _: *mut *mut c_char, _: *const ffi::sqlite3_api_routines) -> c_int {
    let before = LAST_CONNECTIONS[0].swap(conn, Ordering::SeqCst);
    LAST_CONNECTIONS[1].store(before, Ordering::SeqCst);
    ffi::SQLITE_OK
}

/// The engine's own file system, which the first call puts ours in front of.
fn real_vfs() -> *mut ffi::sqlite3_vfs {
    struct Real(*mut ffi::sqlite3_vfs);
    // SAFETY: the engine's own file system is never changed or freed, and is made to be used by all threads.
    unsafe impl Send for Real {}
    // SAFETY: as above.
    unsafe impl Sync for Real {}
    static REAL: OnceLock<Real> = OnceLock::new();
    REAL.get_or_init(|| {
        // SAFETY: the engine answers its default file system, which lives as long as the process; the copy is leaked, as
        // what is registered must be. The functions of the original that the copy keeps look at nothing of what differs.
        unsafe {
            let real = ffi::sqlite3_vfs_find(std::ptr::null());
            assert!(!real.is_null());
            let ours = ffi::sqlite3_vfs {
                szOsFile: size_of::<File>() as c_int + (*real).szOsFile,
                pNext: null_mut(),
                zName: c"watched".as_ptr(),
                xOpen: Some(open),
                xDelete: Some(delete),
                xAccess: Some(access),
                ..*real
            };
            assert_eq!(ffi::sqlite3_vfs_register(Box::leak(Box::new(ours)), 1), ffi::SQLITE_OK);
            assert_eq!(ffi::sqlite3_auto_extension(Some(note_connection)), ffi::SQLITE_OK);
            Real(real)
        }
    })
    .0
}

/// An open file, as the engine has room for it; the real one follows.
#[repr(C)]
struct File {
    base: ffi::sqlite3_file,
    handle: *mut Handle,
}

/// What is known of an open file that is watched.
struct Handle {
    watch: Arc<Watch>,
    name: String,
    /// The first flush of a new log or journal flushes the directory too.
    flushes_directory: AtomicBool,
}

/// Who watches a path, and the file's name in the directory.
///
/// # Safety
/// `path` is null or ends with NUL.
unsafe fn watched(path: *const c_char) -> Option<(Arc<Watch>, String)> {
    if path.is_null() {
        return None;
    }
    // SAFETY: as the caller says.
    let path = Path::new(unsafe { CStr::from_ptr(path) }.to_str().ok()?);
    let watched = WATCHED.read().unwrap_or_else(PoisonError::into_inner);
    let watch = watched.get(path.parent()?)?;
    Some((Arc::clone(watch), path.file_name()?.to_str()?.to_owned()))
}

/// The engine's code for an operation that fails so.
fn code(op: Op, failure: Failure) -> c_int {
    match (op, failure) {
        (Op::Lock | Op::SharedLock, Failure::Busy) => ffi::SQLITE_BUSY,
        (Op::Write, Failure::Full | Failure::ShortFull) => ffi::SQLITE_FULL,
        (Op::SharedMap, Failure::Full) => ffi::SQLITE_IOERR_SHMSIZE,
        (Op::Open, _) => ffi::SQLITE_CANTOPEN,
        (Op::Delete, _) => ffi::SQLITE_IOERR_DELETE,
        (Op::Access, _) => ffi::SQLITE_IOERR_ACCESS,
        (Op::Read, _) => ffi::SQLITE_IOERR_READ,
        (Op::Write, _) => ffi::SQLITE_IOERR_WRITE,
        (Op::SetLen, _) => ffi::SQLITE_IOERR_TRUNCATE,
        (Op::Sync, _) => ffi::SQLITE_IOERR_FSYNC,
        (Op::Len, _) => ffi::SQLITE_IOERR_FSTAT,
        (Op::Lock, _) => ffi::SQLITE_IOERR_LOCK,
        (Op::Unlock, _) => ffi::SQLITE_IOERR_UNLOCK,
        (Op::CheckLock, _) => ffi::SQLITE_IOERR_CHECKRESERVEDLOCK,
        (Op::SharedMap, _) => ffi::SQLITE_IOERR_SHMMAP,
        (Op::SharedLock, _) => ffi::SQLITE_IOERR_SHMLOCK,
        (Op::Close, _) => ffi::SQLITE_IOERR_CLOSE,
    }
}

fn fails(watch: Option<&Watch>, op: Op) -> Option<c_int> {
    watch?.begin(op).map(|failure| code(op, failure))
}

unsafe extern "C" fn open(
    _: *mut ffi::sqlite3_vfs,
    path: *const c_char,
    file: *mut ffi::sqlite3_file,
    flags: c_int,
    out_flags: *mut c_int,
) -> c_int {
    let ours = file.cast::<File>();
    // SAFETY: the engine gives a path or null, and room for a file of the size that we registered.
    unsafe {
        (*ours).base.pMethods = std::ptr::null();
        let watched = watched(path);
        if let Some(code) = fails(watched.as_ref().map(|(watch, _)| &**watch), Op::Open) {
            return code;
        }
        let path_text = if path.is_null() { None } else { CStr::from_ptr(path).to_str().ok() };
        let was_there = path_text.is_none_or(|path| Path::new(path).exists());
        let real = real_vfs();
        let opened = call((*real).xOpen)(real, path, inner(file), flags, out_flags);
        if opened != ffi::SQLITE_OK {
            return opened;
        }
        let handle = watched.map(|(watch, name)| {
            if !was_there {
                watch.created(&name);
            }
            let is_log = flags & ffi::SQLITE_OPEN_CREATE != 0 && flags & (ffi::SQLITE_OPEN_WAL | ffi::SQLITE_OPEN_MAIN_JOURNAL) != 0;
            Box::into_raw(Box::new(Handle { watch, name, flushes_directory: AtomicBool::new(is_log) }))
        });
        (*ours).handle = handle.unwrap_or(null_mut());
        (*ours).base.pMethods = &METHODS;
        opened
    }
}

unsafe extern "C" fn delete(_: *mut ffi::sqlite3_vfs, path: *const c_char, syncs_directory: c_int) -> c_int {
    // SAFETY: the engine gives a path, and the real file system takes what it gives us.
    unsafe {
        let watched = watched(path);
        if let Some(code) = fails(watched.as_ref().map(|(watch, _)| &**watch), Op::Delete) {
            return code;
        }
        let real = real_vfs();
        let deleted = call((*real).xDelete)(real, path, syncs_directory);
        if let (ffi::SQLITE_OK, Some((watch, name))) = (deleted, watched) {
            watch.unlinked(&name);
            if syncs_directory != 0 {
                watch.synced_directory();
            }
        }
        deleted
    }
}

unsafe extern "C" fn access(_: *mut ffi::sqlite3_vfs, path: *const c_char, flags: c_int, out: *mut c_int) -> c_int {
    // SAFETY: as in `delete`.
    unsafe {
        let watched = watched(path);
        if let Some(code) = fails(watched.as_ref().map(|(watch, _)| &**watch), Op::Access) {
            return code;
        }
        let real = real_vfs();
        call((*real).xAccess)(real, path, flags, out)
    }
}

/// A function that every file system has.
fn call<F>(function: Option<F>) -> F {
    function.expect("the engine's own file system has every function that it calls")
}

/// The real file behind ours.
///
/// # Safety
/// `file` is one of ours.
unsafe fn inner(file: *mut ffi::sqlite3_file) -> *mut ffi::sqlite3_file {
    // SAFETY: the room that we asked for has the real file behind ours, and the size of ours keeps it aligned.
    unsafe { file.byte_add(size_of::<File>()) }
}

/// The functions of the real file.
///
/// # Safety
/// `file` is one of ours, and open.
unsafe fn methods<'a>(file: *mut ffi::sqlite3_file) -> &'a ffi::sqlite3_io_methods {
    // SAFETY: an open file has its functions, which are static.
    unsafe { &*(*inner(file)).pMethods }
}

/// What is known of a file, where it is watched.
///
/// # Safety
/// `file` is one of ours, and open.
unsafe fn handle<'a>(file: *mut ffi::sqlite3_file) -> Option<&'a Handle> {
    // SAFETY: the handle was made when the file was opened, and lives until it is closed.
    unsafe { (*file.cast::<File>()).handle.as_ref() }
}

static METHODS: ffi::sqlite3_io_methods = ffi::sqlite3_io_methods {
    // Without the functions for memory maps, which the product does not use.
    iVersion: 2,
    xClose: Some(close),
    xRead: Some(read),
    xWrite: Some(write),
    xTruncate: Some(truncate),
    xSync: Some(sync),
    xFileSize: Some(file_size),
    xLock: Some(lock),
    xUnlock: Some(unlock),
    xCheckReservedLock: Some(check_reserved_lock),
    xFileControl: Some(file_control),
    xSectorSize: Some(sector_size),
    xDeviceCharacteristics: Some(device_characteristics),
    xShmMap: Some(shm_map),
    xShmLock: Some(shm_lock),
    xShmBarrier: Some(shm_barrier),
    xShmUnmap: Some(shm_unmap),
    xFetch: None,
    xUnfetch: None,
};

/// Makes a function of a file that fails when it is told to, and else is the real one.
macro_rules! passed_on {
    ($($name:ident: $method:ident = $op:expr, ($($argument:ident: $type:ty),*);)*) => {
        $(unsafe extern "C" fn $name(file: *mut ffi::sqlite3_file $(, $argument: $type)*) -> c_int {
            // SAFETY: the engine gives a file that we opened, and the real one takes the arguments that it gives us.
            unsafe {
                let op: Option<Op> = $op;
                if let Some(code) = op.and_then(|op| fails(handle(file).map(|handle| &*handle.watch), op)) {
                    return code;
                }
                call(methods(file).$method)(inner(file) $(, $argument)*)
            }
        })*
    };
}

passed_on! {
    read: xRead = Some(Op::Read), (out: *mut c_void, len: c_int, offset: ffi::sqlite3_int64);
    file_size: xFileSize = Some(Op::Len), (out: *mut ffi::sqlite3_int64);
    lock: xLock = Some(Op::Lock), (level: c_int);
    check_reserved_lock: xCheckReservedLock = Some(Op::CheckLock), (out: *mut c_int);
    file_control: xFileControl = None, (control: c_int, argument: *mut c_void);
    sector_size: xSectorSize = None, ();
    device_characteristics: xDeviceCharacteristics = None, ();
    shm_map: xShmMap = Some(Op::SharedMap), (page: c_int, size: c_int, extends: c_int, out: *mut *mut c_void);
    shm_unmap: xShmUnmap = None, (deletes: c_int);
}

unsafe extern "C" fn shm_barrier(file: *mut ffi::sqlite3_file) {
    // SAFETY: the engine gives a file that we opened.
    unsafe { call(methods(file).xShmBarrier)(inner(file)) }
}

unsafe extern "C" fn unlock(file: *mut ffi::sqlite3_file, level: c_int) -> c_int {
    // SAFETY: the engine gives a file that we opened.
    unsafe {
        let unlocked = call(methods(file).xUnlock)(inner(file), level);
        // Where that fails nobody knows who has the lock; one that stayed taken for ever would be another fault.
        handle(file).and_then(|handle| fails(Some(&handle.watch), Op::Unlock)).unwrap_or(unlocked)
    }
}

unsafe extern "C" fn shm_lock(file: *mut ffi::sqlite3_file, offset: c_int, count: c_int, flags: c_int) -> c_int {
    // SAFETY: the engine gives a file that we opened.
    unsafe {
        // To give a lock up can't fail.
        let takes = flags & ffi::SQLITE_SHM_LOCK != 0;
        if let Some(code) = handle(file).filter(|_| takes).and_then(|handle| fails(Some(&handle.watch), Op::SharedLock)) {
            return code;
        }
        call(methods(file).xShmLock)(inner(file), offset, count, flags)
    }
}

unsafe extern "C" fn close(file: *mut ffi::sqlite3_file) -> c_int {
    // SAFETY: the engine gives a file that we opened, and uses it no more. The handle was made by `open`.
    unsafe {
        let ours = file.cast::<File>();
        let closed = call(methods(file).xClose)(inner(file));
        if !(*ours).handle.is_null() {
            drop(Box::from_raw((*ours).handle));
        }
        closed
    }
}

unsafe extern "C" fn write(file: *mut ffi::sqlite3_file, data: *const c_void, len: c_int, offset: ffi::sqlite3_int64) -> c_int {
    // SAFETY: the engine gives a file that we opened, and `len` bytes.
    unsafe {
        let real = |len: c_int| {
            let wrote = call(methods(file).xWrite)(inner(file), data, len, offset);
            if let (ffi::SQLITE_OK, Some(handle)) = (wrote, handle(file)) {
                handle.watch.wrote(&handle.name, offset as u64, std::slice::from_raw_parts(data.cast(), len as usize));
            }
            wrote
        };
        let Some(handle) = handle(file) else { return real(len) };
        let Some(failure) = handle.watch.begin(Op::Write) else { return real(len) };
        if matches!(failure, Failure::ShortFull | Failure::ShortIo) {
            real(len / 2);
        }
        if handle.watch.swallows_error(Op::Write) { ffi::SQLITE_OK } else { code(Op::Write, failure) }
    }
}

unsafe extern "C" fn truncate(file: *mut ffi::sqlite3_file, len: ffi::sqlite3_int64) -> c_int {
    // SAFETY: the engine gives a file that we opened.
    unsafe {
        let handle = handle(file);
        if let Some(code) = fails(handle.map(|handle| &*handle.watch), Op::SetLen) {
            return code;
        }
        let cut = call(methods(file).xTruncate)(inner(file), len);
        if let (ffi::SQLITE_OK, Some(handle)) = (cut, handle) {
            handle.watch.cut(&handle.name, len as u64);
        }
        cut
    }
}

unsafe extern "C" fn sync(file: *mut ffi::sqlite3_file, flags: c_int) -> c_int {
    // SAFETY: the engine gives a file that we opened.
    unsafe {
        let Some(handle) = handle(file) else { return call(methods(file).xSync)(inner(file), flags) };
        if let Some(failure) = handle.watch.begin(Op::Sync) {
            handle.watch.lost_sync(&handle.name);
            return if handle.watch.swallows_error(Op::Sync) { ffi::SQLITE_OK } else { code(Op::Sync, failure) };
        }
        let synced = call(methods(file).xSync)(inner(file), flags);
        if synced == ffi::SQLITE_OK {
            handle.watch.synced(&handle.name);
            if handle.flushes_directory.swap(false, Ordering::Relaxed) {
                handle.watch.synced_directory();
            }
        }
        synced
    }
}
