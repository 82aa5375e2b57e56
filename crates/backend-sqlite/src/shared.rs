//! Who in this process, or in the one that it was forked from, has the file open.
//!
//! POSIX locks belong to a process and a file, not to a handle: when anybody in the process closes the file, all its locks
//! are gone, those of an open store too, and another process can write at the same time. The engine takes care of that among
//! its own connections. A descriptor that somebody else holds is a close that is still to come, so a store is not opened
//! beside one.
//!
//! The engine keeps in memory which locks its process has. A fork copies that, while the system leaves the locks with the
//! parent: a store that was open when the process was forked would be taken for locked when it is not, and the parent,
//! believing itself alone, would remove the log that the fork writes to. So it is refused in the fork, unless somebody has
//! seen to it that the engine tells the processes apart.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use runledger_core::planted::{Defect, is_planted};
use runledger_core::{Code, Error, Result};

use crate::place::Place;

/// Device and inode.
type FileId = (u64, u64);

/// The files that stores have open. Trees, since checkers of memory see what these hold to the end, unlike in tables.
#[derive(Debug, Default)]
struct Ours {
    /// The process of whose stores this tells.
    process: u32,
    open: BTreeMap<FileId, usize>,
    /// How many stores are being opened whose file was not there when it was looked at.
    coming: usize,
    /// The files that stores of a process had open from which this one was forked.
    inherited: BTreeSet<FileId>,
}

static OURS: Mutex<Option<Ours>> = Mutex::new(None);
static OPENED: Condvar = Condvar::new();
static FORKS_ARE_TOLD_APART: AtomicBool = AtomicBool::new(false);

/// How long the list is waited for. It is never held for longer than a look, unless the process was forked during one.
const PATIENCE: Duration = Duration::from_secs(1);

/// Says that the engine of this process will find nothing in a fork of what the parent has open, so that stores may be
/// opened there anew. It is for bindings that have replaced the engine's system calls to that end.
#[doc(hidden)]
pub fn tell_forks_apart() {
    FORKS_ARE_TOLD_APART.store(true, Ordering::SeqCst);
}

/// The list, which begins anew in a fork; `None` when it can't be had there.
fn ours() -> Option<MutexGuard<'static, Option<Ours>>> {
    let began = Instant::now();
    let mut guard = loop {
        match OURS.try_lock() {
            Ok(guard) => break guard,
            Err(TryLockError::Poisoned(poisoned)) => break poisoned.into_inner(),
            Err(TryLockError::WouldBlock) if began.elapsed() > PATIENCE => return None,
            Err(TryLockError::WouldBlock) => std::thread::yield_now(),
        }
    };
    let (ours, process) = (guard.get_or_insert_default(), std::process::id());
    if ours.process != process {
        ours.inherited.extend(std::mem::take(&mut ours.open).into_keys());
        (ours.process, ours.coming) = (process, 0);
    }
    Some(guard)
}

/// A store's claim to its file, from before it is opened until after it is closed.
#[derive(Debug)]
pub(crate) struct Held {
    process: u32,
    /// `None` while there is no file yet.
    file: Option<FileId>,
}

impl Held {
    /// Refuses a file that somebody else in this process has open, unless that `is_allowed`, and one that was open when this
    /// process was forked.
    pub(crate) fn claim(place: &Place, is_allowed: bool) -> Result<Held> {
        let Some(mut guard) = ours() else { return Err(forked(place)) };
        loop {
            let ours = guard.get_or_insert_default();
            let (process, file) = (ours.process, id_of(place));
            let Some(id) = file else {
                ours.coming += 1;
                return Ok(Held { process, file });
            };
            let is_inherited = ours.inherited.contains(&id);
            let may_open = FORKS_ARE_TOLD_APART.load(Ordering::SeqCst) || is_planted(Defect::SqliteOpensInAFork);
            if is_inherited && !may_open {
                return Err(forked(place));
            }
            // A store that is open was looked at when it was opened. What has come since, this one can't make worse.
            if is_allowed || is_inherited || ours.open.contains_key(&id) || !is_open_here(place, id) {
                *ours.open.entry(id).or_default() += 1;
                return Ok(Held { process, file });
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
    pub(crate) fn opened(&mut self, place: &Place) {
        if self.file.is_none()
            && let Some(mut guard) = ours()
        {
            let ours = guard.get_or_insert_default();
            self.file = id_of(place);
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
        // What a fork inherited is the parent's to give up.
        if self.process != std::process::id() {
            return;
        }
        let Some(mut guard) = ours() else { return };
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

fn forked(place: &Place) -> Error {
    let what = "it was open when this process was forked, and can't be used in the fork; open it after the fork alone, or start \
                the process afresh";
    place.error(Code::Unsupported, what)
}

#[cfg(unix)]
fn id_of(place: &Place) -> Option<FileId> {
    id_at(&place.path)
}

#[cfg(unix)]
fn id_at(path: &std::path::Path) -> Option<FileId> {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata(path).ok().map(|meta| (meta.dev(), meta.ino()))
}

#[cfg(not(unix))]
fn id_of(_: &Place) -> Option<FileId> {
    None
}

/// Whether this process has a descriptor of the file. Looking at one does not open it.
#[cfg(target_os = "linux")]
fn is_open_here(_: &Place, id: FileId) -> bool {
    let Ok(descriptors) = std::fs::read_dir("/proc/self/fd") else { return false };
    descriptors.flatten().any(|descriptor| id_at(&descriptor.path()) == Some(id))
}

/// Elsewhere there is no cheap way to know.
#[cfg(not(target_os = "linux"))]
fn is_open_here(_: &Place, _: FileId) -> bool {
    false
}
