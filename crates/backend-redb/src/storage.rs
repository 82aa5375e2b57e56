//! The file below the engine: it can hold writes back in memory, so that a file can be judged, repaired for reading and
//! checked without being changed.

use std::collections::BTreeMap;
use std::io;
use std::ops::Bound;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use redb::{BackendError, StorageBackend};

use crate::error::is_full;

const BLOCK: u64 = 4096;

/// Writes kept in memory over bytes that stay as they are.
#[derive(Debug, Default)]
struct Overlay {
    blocks: BTreeMap<u64, Box<[u8]>>,
    len: u64,
    /// How much of what lies below still shows: a cut hides the rest, even if the length grows again.
    shown: u64,
}

impl Overlay {
    fn over(len: u64) -> Self {
        Overlay { blocks: BTreeMap::new(), len, shown: len }
    }

    fn read(&self, below: impl Fn(u64, &mut [u8]) -> io::Result<()>, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let end = offset.saturating_add(out.len() as u64);
        if end > self.len {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let shown = self.shown.saturating_sub(offset).min(out.len() as u64) as usize;
        below(offset, &mut out[..shown])?;
        out[shown..].fill(0);
        for (block, bytes) in self.blocks.range(offset / BLOCK..end.div_ceil(BLOCK)) {
            let start = block * BLOCK;
            let (from, to) = (start.max(offset), (start + BLOCK).min(end));
            out[(from - offset) as usize..(to - offset) as usize].copy_from_slice(&bytes[(from - start) as usize..(to - start) as usize]);
        }
        Ok(())
    }

    fn write(&mut self, below: impl Fn(u64, &mut [u8]) -> io::Result<()>, offset: u64, data: &[u8]) -> io::Result<()> {
        let end = offset + data.len() as u64;
        self.len = self.len.max(end);
        for block in offset / BLOCK..end.div_ceil(BLOCK) {
            let start = block * BLOCK;
            if !self.blocks.contains_key(&block) {
                let mut bytes = vec![0; BLOCK as usize].into_boxed_slice();
                let shown = self.shown.saturating_sub(start).min(BLOCK) as usize;
                below(start, &mut bytes[..shown])?;
                self.blocks.insert(block, bytes);
            }
            let (from, to) = (start.max(offset), (start + BLOCK).min(end));
            if let Some(bytes) = self.blocks.get_mut(&block) {
                bytes[(from - start) as usize..(to - start) as usize]
                    .copy_from_slice(&data[(from - offset) as usize..(to - offset) as usize]);
            }
        }
        Ok(())
    }

    fn set_len(&mut self, len: u64) {
        self.shown = self.shown.min(len);
        self.blocks.split_off(&len.div_ceil(BLOCK));
        if let Some(bytes) = self.blocks.get_mut(&(len / BLOCK)) {
            bytes[(len % BLOCK) as usize..].fill(0);
        }
        self.len = len;
    }
}

#[derive(Debug)]
enum Change {
    Write(u64, Vec<u8>),
    SetLen(u64),
    Sync,
}

/// What the engine did while its writes were held back.
#[derive(Debug)]
struct HeldBack {
    overlay: Overlay,
    /// The changes in their order, to be made when they are let through; `None` when they never will be.
    changes: Option<Vec<Change>>,
}

/// How writing failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fault {
    /// A write found no room, and so not all of a commit reached the file.
    Full,
    /// Anything else: nobody knows what the disk holds.
    Unknown,
}

/// How far a transaction has come.
#[derive(Clone, Copy, Debug, Default)]
struct Progress {
    /// The worst fault.
    fault: Option<Fault>,
    /// Whether the header of the file, which every commit writes, was written since.
    wrote_header: bool,
    /// Whether a flush succeeded after that.
    committed: bool,
}

/// The file of a store, with the engine's own locks on it.
#[derive(Clone, Debug)]
pub(crate) struct Storage(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    file: Box<dyn StorageBackend>,
    read_only: bool,
    held_back: RwLock<Option<HeldBack>>,
    progress: Mutex<Progress>,
    keeps_locks: AtomicBool,
    #[cfg(test)]
    tests: TestControls,
}

/// What tests look at and bend.
#[cfg(test)]
#[derive(Debug)]
pub(crate) struct TestControls {
    pub(crate) written_bytes: std::sync::atomic::AtomicU64,
    /// No write may reach beyond this place in the file.
    pub(crate) room: std::sync::atomic::AtomicU64,
    pub(crate) flushes_fail: AtomicBool,
    /// No length may be set once a commit is durable.
    pub(crate) tidying_fails: AtomicBool,
    /// How often one was to be set.
    pub(crate) tidied: std::sync::atomic::AtomicU64,
}

impl Storage {
    /// Takes a file. What the engine writes is held back until [`Storage::let_through`]; of a file that is only read, for ever.
    pub(crate) fn held_back(file: Box<dyn StorageBackend>, read_only: bool) -> io::Result<Self> {
        let held_back = HeldBack { overlay: Overlay::over(file.len()?), changes: (!read_only).then(Vec::new) };
        Ok(Storage(Arc::new(Inner {
            file,
            read_only,
            held_back: RwLock::new(Some(held_back)),
            progress: Mutex::default(),
            keeps_locks: AtomicBool::new(false),
            #[cfg(test)]
            tests: TestControls {
                written_bytes: 0.into(),
                room: u64::MAX.into(),
                flushes_fail: false.into(),
                tidying_fails: false.into(),
                tidied: 0.into(),
            },
        })))
    }

    /// Makes the changes that were held back, in the order and with the flushes that the engine made them with, and lets
    /// every later one through.
    pub(crate) fn let_through(&self) -> io::Result<()> {
        let mut held_back = self.0.held_back.write().unwrap_or_else(PoisonError::into_inner);
        let Some(HeldBack { changes: Some(changes), .. }) = &*held_back else { return Ok(()) };
        for change in changes {
            match change {
                Change::Write(offset, data) => self.0.file.write(*offset, data)?,
                Change::SetLen(len) => self.0.file.set_len(*len)?,
                Change::Sync => self.0.file.sync_data()?,
            }
        }
        *held_back = None;
        Ok(())
    }

    /// Says whether the locks stay when the engine closes the file, so that it can be opened again without a gap.
    pub(crate) fn keep_locks(&self, keeps: bool) {
        self.0.keeps_locks.store(keeps, Ordering::Release);
    }

    /// The length of the file itself.
    pub(crate) fn file_len(&self) -> io::Result<u64> {
        self.0.file.len()
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.0.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A transaction begins.
    pub(crate) fn begin(&self) {
        *self.progress() = Progress::default();
    }

    /// The worst fault since the transaction began.
    pub(crate) fn fault(&self) -> Option<Fault> {
        self.progress().fault
    }

    /// Whether the transaction is durable. The engine tidies up behind a commit, and can fail at that.
    pub(crate) fn is_committed(&self) -> bool {
        self.progress().committed
    }

    /// Whoever held the file until now may have changed its length. The engine locks it before it does anything else.
    fn look_again(&self) -> io::Result<()> {
        if let Some(held_back) = &mut *self.0.held_back.write().unwrap_or_else(PoisonError::into_inner) {
            held_back.overlay = Overlay::over(self.0.file.len()?);
        }
        Ok(())
    }

    fn noting(&self, fault: impl FnOnce(&io::Error) -> Fault, result: io::Result<()>) -> io::Result<()> {
        if let Err(error) = &result {
            let mut progress = self.progress();
            progress.fault = progress.fault.max(Some(fault(error)));
        }
        result
    }

    /// Has `held` change what is held back; `through` when nothing is.
    fn change(&self, held: impl FnOnce(&mut HeldBack) -> io::Result<()>, through: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        if self.0.held_back.read().unwrap_or_else(PoisonError::into_inner).is_none() {
            return through();
        }
        match &mut *self.0.held_back.write().unwrap_or_else(PoisonError::into_inner) {
            Some(held_back) => held(held_back),
            None => through(),
        }
    }

    #[cfg(test)]
    pub(crate) fn tests(&self) -> &TestControls {
        &self.0.tests
    }

    #[cfg(test)]
    fn write_file(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.0.tests.written_bytes.fetch_add(data.len() as u64, Ordering::Relaxed);
        if offset + data.len() as u64 > self.0.tests.room.load(Ordering::Relaxed) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.0.file.write(offset, data)
    }

    #[cfg(not(test))]
    fn write_file(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.0.file.write(offset, data)
    }
}

fn write_fault(error: &io::Error) -> Fault {
    if is_full(error) { Fault::Full } else { Fault::Unknown }
}

impl StorageBackend for Storage {
    fn len(&self) -> io::Result<u64> {
        match &*self.0.held_back.read().unwrap_or_else(PoisonError::into_inner) {
            Some(held_back) => Ok(held_back.overlay.len),
            None => self.0.file.len(),
        }
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        match &*self.0.held_back.read().unwrap_or_else(PoisonError::into_inner) {
            Some(held_back) => held_back.overlay.read(|offset, out| self.0.file.read(offset, out), offset, out),
            None => self.0.file.read(offset, out),
        }
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let held = |held_back: &mut HeldBack| {
            held_back.overlay.set_len(len);
            held_back.changes.iter_mut().for_each(|changes| changes.push(Change::SetLen(len)));
            Ok(())
        };
        #[cfg(test)]
        if self.0.tests.tidying_fails.load(Ordering::Relaxed) && self.is_committed() {
            self.0.tests.tidied.fetch_add(1, Ordering::Relaxed);
            return self.noting(write_fault, Err(io::ErrorKind::StorageFull.into()));
        }
        self.change(held, || self.noting(write_fault, self.0.file.set_len(len)))
    }

    fn sync_data(&self) -> io::Result<()> {
        let held = |held_back: &mut HeldBack| {
            held_back.changes.iter_mut().for_each(|changes| changes.push(Change::Sync));
            Ok(())
        };
        #[cfg(test)]
        if self.0.tests.flushes_fail.load(Ordering::Relaxed) {
            return self.noting(|_| Fault::Unknown, Err(io::Error::other("made to fail")));
        }
        self.change(held, || {
            self.noting(|_| Fault::Unknown, self.0.file.sync_data())?;
            let mut progress = self.progress();
            progress.committed |= progress.wrote_header;
            Ok(())
        })
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let held = |held_back: &mut HeldBack| {
            held_back.overlay.write(|offset, out| self.0.file.read(offset, out), offset, data)?;
            held_back.changes.iter_mut().for_each(|changes| changes.push(Change::Write(offset, data.to_vec())));
            Ok(())
        };
        self.change(held, || {
            self.noting(write_fault, self.write_file(offset, data))?;
            self.progress().wrote_header |= offset == 0;
            Ok(())
        })
    }

    fn close(&self) -> io::Result<()> {
        if self.0.keeps_locks.load(Ordering::Acquire) { Ok(()) } else { self.0.file.close() }
    }

    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        // The engine means to write even where all of it is held back: the file itself is only read then.
        let taken = if self.0.read_only { self.0.file.try_lock_shared_range(start, end) } else { self.0.file.try_lock_range(start, end) }?;
        if taken {
            self.look_again()?;
        }
        Ok(taken)
    }

    fn try_lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.0.file.try_lock_shared_range(start, end)
    }

    fn lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.0.file.lock_range(start, end)
    }

    fn lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.0.file.lock_shared_range(start, end)
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.0.file.unlock_range(start, end)
    }

    fn query_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.0.file.query_lock_range(start, end)
    }
}

/// A place to write that nobody sees: over a store that is left as it is, or over nothing. It needs no locks.
#[derive(Clone, Debug)]
pub(crate) struct Scratch {
    base: Option<Storage>,
    overlay: Arc<RwLock<Overlay>>,
}

impl Scratch {
    /// Over nothing.
    pub(crate) fn empty() -> Self {
        Scratch { base: None, overlay: Arc::default() }
    }

    /// Over a store, to which nothing may be written meanwhile.
    pub(crate) fn over(base: &Storage) -> io::Result<Self> {
        Ok(Scratch { base: Some(base.clone()), overlay: Arc::new(RwLock::new(Overlay::over(base.len()?))) })
    }

    /// Everything that it holds.
    pub(crate) fn bytes(&self) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; self.len()? as usize];
        self.read(0, &mut bytes)?;
        Ok(bytes)
    }

    fn below(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.base.as_ref().map_or(Ok(()), |base| base.read(offset, out))
    }
}

impl StorageBackend for Scratch {
    fn len(&self) -> io::Result<u64> {
        Ok(self.overlay.read().unwrap_or_else(PoisonError::into_inner).len)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let overlay = self.overlay.read().unwrap_or_else(PoisonError::into_inner);
        overlay.read(|offset, out| self.below(offset, out), offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.overlay.write().unwrap_or_else(PoisonError::into_inner).set_len(len);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut overlay = self.overlay.write().unwrap_or_else(PoisonError::into_inner);
        overlay.write(|offset, out| self.below(offset, out), offset, data)
    }
}
