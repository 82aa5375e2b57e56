//! A file that can be told to fail, and counts.

use std::fs::File;
use std::io;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use redb::backends::FileBackend;
use redb::{BackendError, StorageBackend};

/// What is counted, and how the file is bent.
#[derive(Debug)]
pub(super) struct Bends {
    pub(super) written_bytes: AtomicU64,
    /// No write may reach beyond this place in the file.
    pub(super) room: AtomicU64,
    pub(super) reads_fail: AtomicBool,
    pub(super) flushes_fail: AtomicBool,
    /// No length may be set.
    pub(super) cuts_fail: AtomicBool,
    /// How often one was to be set all the same.
    pub(super) cuts_failed: AtomicU64,
}

/// The file.
#[derive(Debug)]
pub(super) struct Bent {
    file: FileBackend,
    bends: Arc<Bends>,
}

impl Bent {
    pub(super) fn new(file: File) -> (Bent, Arc<Bends>) {
        let bends = Arc::new(Bends {
            written_bytes: 0.into(),
            room: u64::MAX.into(),
            reads_fail: false.into(),
            flushes_fail: false.into(),
            cuts_fail: false.into(),
            cuts_failed: 0.into(),
        });
        (Bent { file: FileBackend::new(file).unwrap(), bends: bends.clone() }, bends)
    }

    fn fail_if(&self, fails: &AtomicBool) -> io::Result<()> {
        if fails.load(Ordering::Relaxed) { Err(io::Error::other("made to fail")) } else { Ok(()) }
    }
}

impl StorageBackend for Bent {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.fail_if(&self.bends.reads_fail)?;
        self.file.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        if self.bends.cuts_fail.load(Ordering::Relaxed) {
            self.bends.cuts_failed.fetch_add(1, Ordering::Relaxed);
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.file.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.fail_if(&self.bends.flushes_fail)?;
        self.file.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.bends.written_bytes.fetch_add(data.len() as u64, Ordering::Relaxed);
        if offset + data.len() as u64 > self.bends.room.load(Ordering::Relaxed) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.file.write(offset, data)
    }

    fn close(&self) -> io::Result<()> {
        self.file.close()
    }

    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.file.try_lock_range(start, end)
    }

    fn try_lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.file.try_lock_shared_range(start, end)
    }

    fn lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.lock_range(start, end)
    }

    fn lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.lock_shared_range(start, end)
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.unlock_range(start, end)
    }

    fn query_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.file.query_lock_range(start, end)
    }
}
