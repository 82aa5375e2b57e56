//! What a fork leaves behind in SQLite, and how a child begins anew.
//!
//! The engine keeps a list, for the whole process, of the files that it has open and of the locks that it holds on them. A
//! child inherits the list, but the system gives it none of the locks: a store that it opens on one of those files would go
//! unlocked, and the parent could clear the log away under it. So each process sees the devices of files under a mark of its
//! own, and finds nothing of what it inherited in the list. Nothing is changed in the process in which the engine began.
//!
//! The engine's own mutexes are held over a fork, so that none of them is inherited locked.

#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
mod sqlite {
    use std::ffi::{CStr, c_char, c_int};
    use std::mem::transmute;
    use std::process;
    use std::sync::Once;
    use std::sync::atomic::{AtomicU32, Ordering};

    use rusqlite::ffi;

    /// The process in which the engine was first used.
    static FIRST: AtomicU32 = AtomicU32::new(0);

    /// The mutexes that all connections share, in the order in which the engine takes one while it holds another.
    const MUTEXES: [c_int; 9] = [
        ffi::SQLITE_MUTEX_STATIC_MASTER,
        ffi::SQLITE_MUTEX_STATIC_OPEN,
        ffi::SQLITE_MUTEX_STATIC_VFS1,
        ffi::SQLITE_MUTEX_STATIC_VFS2,
        ffi::SQLITE_MUTEX_STATIC_VFS3,
        ffi::SQLITE_MUTEX_STATIC_LRU,
        ffi::SQLITE_MUTEX_STATIC_PMEM,
        ffi::SQLITE_MUTEX_STATIC_PRNG,
        ffi::SQLITE_MUTEX_STATIC_MEM,
    ];

    pub(crate) fn prepare() {
        static PREPARED: Once = Once::new();
        PREPARED.call_once(|| {
            FIRST.store(process::id(), Ordering::SeqCst);
            // SAFETY: the engine allows its start from any thread, any number of times, and its system calls to be replaced
            // by ones of the same type; the handlers are functions of this library, which is never unloaded while they are
            // registered.
            unsafe {
                if ffi::sqlite3_initialize() != ffi::SQLITE_OK {
                    return;
                }
                replace(c"stat", transmute::<StatFn, unsafe extern "C" fn()>(marked_stat));
                replace(c"fstat", transmute::<FstatFn, unsafe extern "C" fn()>(marked_fstat));
                libc::pthread_atfork(Some(take_mutexes), Some(leave_mutexes), Some(leave_mutexes));
                runledger::sqlite::tell_forks_apart();
            }
        });
    }

    type StatFn = unsafe extern "C" fn(*const c_char, *mut libc::stat) -> c_int;
    type FstatFn = unsafe extern "C" fn(c_int, *mut libc::stat) -> c_int;

    /// # Safety
    /// `call` has the type of the system call of this name.
    unsafe fn replace(name: &CStr, call: unsafe extern "C" fn()) {
        // SAFETY: the engine is started; NULL asks for the file system that it uses by itself, which stays for ever.
        unsafe {
            let vfs = ffi::sqlite3_vfs_find(std::ptr::null());
            if let Some(set) = vfs.as_ref().and_then(|vfs| vfs.xSetSystemCall) {
                set(vfs, name.as_ptr(), Some(call));
            }
        }
    }

    /// A number of this process that no device has: devices take the lower half.
    fn mark() -> libc::dev_t {
        match process::id() {
            id if id == FIRST.load(Ordering::Relaxed) => 0,
            id => libc::dev_t::from(id) << 32,
        }
    }

    unsafe extern "C" fn marked_stat(path: *const c_char, into: *mut libc::stat) -> c_int {
        // SAFETY: the engine gives what the system call takes.
        unsafe { marked(libc::stat(path, into), into) }
    }

    unsafe extern "C" fn marked_fstat(descriptor: c_int, into: *mut libc::stat) -> c_int {
        // SAFETY: the engine gives what the system call takes.
        unsafe { marked(libc::fstat(descriptor, into), into) }
    }

    /// # Safety
    /// When the call succeeded `into` was filled.
    unsafe fn marked(status: c_int, into: *mut libc::stat) -> c_int {
        if status == 0 {
            // SAFETY: as of this function.
            unsafe { (*into).st_dev ^= mark() };
        }
        status
    }

    unsafe extern "C" fn take_mutexes() {
        // SAFETY: the engine is started, and these mutexes stay for ever.
        MUTEXES.iter().for_each(|id| unsafe { ffi::sqlite3_mutex_enter(ffi::sqlite3_mutex_alloc(*id)) });
    }

    unsafe extern "C" fn leave_mutexes() {
        // SAFETY: this thread, or its copy, has taken them before the fork.
        MUTEXES.iter().rev().for_each(|id| unsafe { ffi::sqlite3_mutex_leave(ffi::sqlite3_mutex_alloc(*id)) });
    }
}

/// Makes ready for forks to come, before the first store is opened.
pub(crate) fn prepare() {
    #[cfg(all(target_os = "linux", target_pointer_width = "64"))]
    sqlite::prepare();
}
