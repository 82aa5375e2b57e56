//! Who in this process has the file open.
//!
//! POSIX locks belong to a process and a file, not to a handle: when anybody in the process closes the file, all its locks
//! are gone, those of an open store too, and another process can write at the same time. The engine takes care of that among
//! its own connections. A descriptor that somebody else holds is a close that is still to come, so a store is not opened
//! beside one.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use runledger_core::{Error, Result};

/// Device and inode.
type FileId = (u64, u64);

/// The files that stores of this process have open.
#[derive(Debug, Default)]
struct Ours {
    open: HashMap<FileId, usize>,
    /// How many stores are being opened whose file was not there when it was looked at.
    coming: usize,
}

static OURS: Mutex<Option<Ours>> = Mutex::new(None);
static OPENED: Condvar = Condvar::new();

fn ours() -> MutexGuard<'static, Option<Ours>> {
    OURS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A store's claim to its file, from before it is opened until after it is closed.
#[derive(Debug)]
pub(crate) struct Held {
    /// `None` while there is no file yet.
    file: Option<FileId>,
}

impl Held {
    /// Refuses a file that somebody else in this process has open, unless that `is_allowed`.
    pub(crate) fn claim(path: &Path, is_allowed: bool) -> Result<Held> {
        let mut guard = ours();
        loop {
            let ours = guard.get_or_insert_default();
            let file = id_of(path);
            let Some(id) = file else {
                ours.coming += 1;
                return Ok(Held { file });
            };
            // A store that is open was looked at when it was opened. What has come since, this one can't make worse.
            if is_allowed || ours.open.contains_key(&id) || !is_open_here(id) {
                *ours.open.entry(id).or_default() += 1;
                return Ok(Held { file });
            }
            if ours.coming == 0 {
                return Err(Error::invalid(
                    "url",
                    "this process has the file open by other means, and closing that would drop the store's locks; close it first, \
                     or open a backup of the store, or give the option allow_shared_file",
                ));
            }
            // It may be a store of ours that is just being created there.
            guard = OPENED.wait(guard).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Says that the store is open now, and its file there.
    pub(crate) fn opened(&mut self, path: &Path) {
        if self.file.is_none() {
            let mut guard = ours();
            let ours = guard.get_or_insert_default();
            self.file = id_of(path);
            ours.coming -= 1;
            if let Some(id) = self.file {
                *ours.open.entry(id).or_default() += 1;
            }
            OPENED.notify_all();
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut guard = ours();
        let ours = guard.get_or_insert_default();
        match self.file {
            None => ours.coming -= 1,
            Some(id) => {
                let left = ours.open.get(&id).map_or(0, |count| count - 1);
                if left == 0 {
                    ours.open.remove(&id)
                } else {
                    ours.open.insert(id, left)
                };
            }
        }
        OPENED.notify_all();
    }
}

#[cfg(unix)]
fn id_of(path: &Path) -> Option<FileId> {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata(path).ok().map(|meta| (meta.dev(), meta.ino()))
}

#[cfg(not(unix))]
fn id_of(_: &Path) -> Option<FileId> {
    None
}

/// Whether this process has a descriptor of the file. Looking at one does not open it.
#[cfg(target_os = "linux")]
fn is_open_here(id: FileId) -> bool {
    let Ok(descriptors) = std::fs::read_dir("/proc/self/fd") else { return false };
    descriptors.flatten().any(|descriptor| id_of(&descriptor.path()) == Some(id))
}

/// Elsewhere there is no cheap way to know.
#[cfg(not(target_os = "linux"))]
fn is_open_here(_: FileId) -> bool {
    false
}
