//! redb over a file that is in memory.

use std::fmt;
use std::io::{self, ErrorKind};
use std::ops::Bound;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use redb::{BackendError, StorageBackend};
use runledger_backend_redb::{Later, RedbBackend};
use runledger_core::{Ledger, OpenOptions, Result};

use crate::{Failure, Floor, Image, Op, Rig, Site, Watch, scratch_directory};

/// The name of the only file.
const NAME: &str = "store";

/// Stores of the redb backend.
#[derive(Clone, Copy, Debug, Default)]
pub struct Redb;

impl Rig for Redb {
    fn name(&self) -> String {
        "redb".into()
    }

    fn options(&self) -> OpenOptions {
        OpenOptions::new().with_busy_timeout_ms(10)
    }

    fn floor(&self) -> Floor {
        Floor::Acknowledged
    }

    fn cause(&self) -> &'static str {
        INJECTED
    }

    /// A store that was just made: it is made elsewhere, flushed, and moved to its place whole.
    fn fresh(&self) -> Image {
        let directory = scratch_directory();
        let path = directory.path().join(NAME);
        let ledger = Ledger::new(RedbBackend::open(&path, &self.options()).unwrap(), &self.options());
        ledger.close().unwrap();
        Image::from([(NAME.to_owned(), std::fs::read(path).unwrap())])
    }

    fn site(&self, files: &Image) -> Box<dyn Site> {
        Box::new(MemoryFile::new(files, &[]))
    }
}

/// What the message of each error that is injected has.
const INJECTED: &str = "(injected)";

/// The file. The system's view of it: what is not flushed is there too.
#[derive(Clone)]
pub(crate) struct MemoryFile(Arc<Inner>);

struct Inner {
    bytes: Mutex<Vec<u8>>,
    watch: Watch,
    /// The migrations that the product does not have yet.
    later: Later,
}

impl fmt::Debug for MemoryFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MemoryFile")
    }
}

impl Site for MemoryFile {
    fn open(&self, options: &OpenOptions) -> Result<Ledger> {
        let backend = RedbBackend::open_on_with_later_migrations(self.clone(), Path::new(NAME), options, self.0.later)?;
        Ok(Ledger::new(backend, options))
    }

    fn watch(&self) -> &Watch {
        &self.0.watch
    }
}

fn error_of(failure: Failure) -> io::Error {
    match failure {
        Failure::Full | Failure::ShortFull => io::Error::new(ErrorKind::StorageFull, format!("no room is left {INJECTED}")),
        _ => io::Error::other(format!("the device failed {INJECTED}")),
    }
}

impl MemoryFile {
    pub(crate) fn new(files: &Image, later: Later) -> MemoryFile {
        MemoryFile(Arc::new(Inner { bytes: Mutex::new(files[NAME].clone()), watch: Watch::default(), later }))
    }

    fn bytes(&self) -> MutexGuard<'_, Vec<u8>> {
        self.0.bytes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(&self, op: Op) -> io::Result<()> {
        self.0.watch.begin(op).map_or(Ok(()), |failure| Err(error_of(failure)))
    }

    fn lock(&self) -> std::result::Result<bool, BackendError> {
        match self.0.watch.begin(Op::Lock) {
            None => Ok(true),
            Some(Failure::Busy) => Ok(false),
            Some(failure) => Err(BackendError::Io(error_of(failure))),
        }
    }

    fn put(&self, offset: u64, data: &[u8]) {
        let (start, end) = (offset as usize, offset as usize + data.len());
        let mut bytes = self.bytes();
        let len = bytes.len().max(end);
        bytes.resize(len, 0);
        bytes[start..end].copy_from_slice(data);
        self.0.watch.wrote(NAME, offset, data);
    }
}

impl StorageBackend for MemoryFile {
    fn len(&self) -> io::Result<u64> {
        self.begin(Op::Len)?;
        Ok(self.bytes().len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.begin(Op::Read)?;
        let bytes = self.bytes();
        let found = bytes.get(offset as usize..offset as usize + out.len()).ok_or(ErrorKind::UnexpectedEof)?;
        out.copy_from_slice(found);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.begin(Op::SetLen)?;
        self.bytes().resize(len as usize, 0);
        self.0.watch.cut(NAME, len);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        if let Some(failure) = self.0.watch.begin(Op::Sync) {
            self.0.watch.lost_sync(NAME);
            return if self.0.watch.swallows_error(Op::Sync) { Ok(()) } else { Err(error_of(failure)) };
        }
        self.0.watch.synced(NAME);
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let Some(failure) = self.0.watch.begin(Op::Write) else {
            self.put(offset, data);
            return Ok(());
        };
        if matches!(failure, Failure::ShortFull | Failure::ShortIo) {
            self.put(offset, &data[..data.len() / 2]);
        }
        if self.0.watch.swallows_error(Op::Write) { Ok(()) } else { Err(error_of(failure)) }
    }

    fn close(&self) -> io::Result<()> {
        self.begin(Op::Close)
    }

    fn try_lock_range(&self, _: Bound<u64>, _: Bound<u64>) -> std::result::Result<bool, BackendError> {
        self.lock()
    }

    fn try_lock_shared_range(&self, _: Bound<u64>, _: Bound<u64>) -> std::result::Result<bool, BackendError> {
        self.lock()
    }

    fn lock_range(&self, _: Bound<u64>, _: Bound<u64>) -> std::result::Result<(), BackendError> {
        self.lock().map(drop)
    }

    fn lock_shared_range(&self, _: Bound<u64>, _: Bound<u64>) -> std::result::Result<(), BackendError> {
        self.lock().map(drop)
    }

    fn unlock_range(&self, _: Bound<u64>, _: Bound<u64>) -> std::result::Result<(), BackendError> {
        self.begin(Op::Unlock).map_err(BackendError::Io)
    }

    fn query_lock_range(&self, _: Bound<u64>, _: Bound<u64>) -> std::result::Result<bool, BackendError> {
        Ok(false)
    }
}
