//! A fork, which nothing safe can make.

#![allow(unsafe_code, reason = "the system's call is the only way to fork")]
#![cfg(unix)]

/// Forks, and in the child does `work`, which ends it; answers a closure that waits for the child and says whether the
/// work said so.
pub fn fork(work: impl FnOnce() -> bool) -> impl FnOnce() -> bool {
    /// After how long a child that stands still is ended by the system.
    const SECONDS: u32 = 20;
    // SAFETY: the child does nothing but `work`, and ends without running anything else of this program; what the work may
    // not touch is what the tests are about.
    let child = unsafe {
        let child = libc::fork();
        if child == 0 {
            libc::alarm(SECONDS);
            let code = if work() { 0 } else { 1 };
            libc::_exit(code)
        }
        child
    };
    assert!(child > 0, "the system does not fork");
    move || {
        let mut status = 0;
        // SAFETY: the child is this process's own, and the place for its status is there until the call returns.
        let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
        waited == child && libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0
    }
}
