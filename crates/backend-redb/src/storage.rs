//! The file below the engine: it can hold writes back in memory, so that a file can be judged, repaired for reading and
//! checked without being changed.

use std::collections::BTreeMap;
use std::io;
use std::ops::Bound;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use redb::{BackendError, StorageBackend};
use runledger_core::Error;

use crate::error::io_error;

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

/// How an operation on the file failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fault {
    /// A read or a write was refused: what was durable is as it was.
    Refused,
    /// A flush failed: nobody knows what the disk holds.
    Flush,
}

/// How far a transaction has come.
#[derive(Debug, Default)]
struct Progress {
    /// The worst fault, and the first error of its kind.
    fault: Option<(Fault, Error)>,
    /// Whether the header of the file, which every commit writes, was written since.
    wrote_header: bool,
    /// Whether a flush succeeded after that.
    committed: bool,
    /// The header as it was at the last flush, where it was written since.
    flushed_header: Option<Vec<u8>>,
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
        })))
    }

    /// Holds back again what the engine writes from now on, over the file as it was at the last flush.
    pub(crate) fn hold_back(&self) -> io::Result<()> {
        let overlay = Overlay::over(self.0.file.len()?);
        let held_back = HeldBack { overlay, changes: (!self.0.read_only).then(Vec::new) };
        *self.0.held_back.write().unwrap_or_else(PoisonError::into_inner) = Some(held_back);
        let Some(header) = self.progress().flushed_header.take() else { return Ok(()) };
        // At once if it can be, since nobody may come to let it through.
        self.0.file.write(0, &header).or_else(|_| self.write(0, &header))
    }

    /// Makes the changes that were held back, in the order and with the flushes that the engine made them with, and lets
    /// every later one through. When one fails they stay held back, to be made from the first on again.
    pub(crate) fn let_through(&self) -> io::Result<()> {
        let mut held_back = self.0.held_back.write().unwrap_or_else(PoisonError::into_inner);
        let Some(HeldBack { changes: Some(changes), .. }) = &*held_back else { return Ok(()) };
        for change in changes {
            match change {
                Change::Write(offset, data) => self.put(*offset, data)?,
                Change::SetLen(len) => self.0.file.set_len(*len)?,
                Change::Sync => self.flush()?,
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
        let mut progress = self.progress();
        (progress.wrote_header, progress.committed) = (false, false);
    }

    /// The worst fault that the engine has met, and its cause. It refuses everything from then on.
    pub(crate) fn fault(&self) -> Option<(Fault, Error)> {
        self.progress().fault.clone()
    }

    /// The engine was opened again.
    pub(crate) fn forget_fault(&self) {
        self.progress().fault = None;
    }

    /// Whether the transaction is durable. The engine tidies up behind a commit, and can fail at that.
    pub(crate) fn is_committed(&self) -> bool {
        self.progress().committed
    }

    /// Whoever held the file until now may have changed its length. The engine locks it before it does anything else.
    fn look_again(&self) -> io::Result<()> {
        match &mut *self.0.held_back.write().unwrap_or_else(PoisonError::into_inner) {
            Some(held_back) if held_back.changes.as_ref().is_none_or(Vec::is_empty) => {
                held_back.overlay = Overlay::over(self.0.file.len()?);
            }
            _ => {}
        }
        Ok(())
    }

    fn noting<T>(&self, fault: Fault, result: io::Result<T>) -> io::Result<T> {
        if let Err(error) = &result {
            let mut progress = self.progress();
            if progress.fault.as_ref().is_none_or(|(worst, _)| *worst < fault) {
                progress.fault = Some((fault, io_error(error)));
            }
        }
        result
    }

    /// Writes to the file itself, and keeps the header that it had.
    fn put(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        if offset == 0 && self.progress().flushed_header.is_none() {
            let mut header = vec![0; data.len()];
            self.0.file.read(0, &mut header)?;
            self.progress().flushed_header = Some(header);
        }
        self.0.file.write(offset, data)?;
        self.progress().wrote_header |= offset == 0;
        Ok(())
    }

    /// Flushes the file itself.
    fn flush(&self) -> io::Result<()> {
        let flushed = self.0.file.sync_data();
        let mut progress = self.progress();
        match (&flushed, progress.flushed_header.take()) {
            (Ok(()), _) => progress.committed |= progress.wrote_header,
            // What a flush could not write the system may drop, and yet show to whoever opens the file next, who must not
            // build on it: without its header the commit never was.
            (Err(_), Some(header)) => drop(self.0.file.write(0, &header)),
            (Err(_), None) => {}
        }
        flushed
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
}

impl StorageBackend for Storage {
    fn len(&self) -> io::Result<u64> {
        match &*self.0.held_back.read().unwrap_or_else(PoisonError::into_inner) {
            Some(held_back) => Ok(held_back.overlay.len),
            None => self.noting(Fault::Refused, self.0.file.len()),
        }
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let read = match &*self.0.held_back.read().unwrap_or_else(PoisonError::into_inner) {
            Some(held_back) => held_back.overlay.read(|offset, out| self.0.file.read(offset, out), offset, out),
            None => self.0.file.read(offset, out),
        };
        self.noting(Fault::Refused, read)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let held = |held_back: &mut HeldBack| {
            held_back.overlay.set_len(len);
            held_back.changes.iter_mut().for_each(|changes| changes.push(Change::SetLen(len)));
            Ok(())
        };
        self.change(held, || self.noting(Fault::Refused, self.0.file.set_len(len)))
    }

    fn sync_data(&self) -> io::Result<()> {
        let held = |held_back: &mut HeldBack| {
            held_back.changes.iter_mut().for_each(|changes| changes.push(Change::Sync));
            Ok(())
        };
        self.change(held, || self.noting(Fault::Flush, self.flush()))
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let held = |held_back: &mut HeldBack| {
            held_back.overlay.write(|offset, out| self.0.file.read(offset, out), offset, data)?;
            held_back.changes.iter_mut().for_each(|changes| changes.push(Change::Write(offset, data.to_vec())));
            Ok(())
        };
        self.change(held, || self.noting(Fault::Refused, self.put(offset, data)))
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
