//! The store's file in the file system.

use std::fs;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use runledger_core::{Code, Entity, Error, Result, check_path};

use crate::schema::{STEPS, Steps};

/// Where a store is.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    /// The absolute path, free of symbolic links where the file exists. The engine is given only this one: a relative
    /// path could mean something else later, and one such as `:memory:` or `file:x` something else at once.
    pub(crate) path: PathBuf,
    /// The path as the caller gave it, for messages.
    pub(crate) shown: String,
    /// The steps from each version of the schema to the next.
    pub(crate) steps: Steps,
}

impl Place {
    pub(crate) fn new(path: &Path) -> Result<Place> {
        let shown = path.display().to_string();
        check_path(path)?;
        let absolute = std::path::absolute(path).map_err(|error| io_error(&shown, &error))?;
        Ok(Place { path: fs::canonicalize(&absolute).unwrap_or(absolute), shown, steps: STEPS })
    }

    /// The version of the schema that is read and written here.
    pub(crate) fn version(&self) -> i64 {
        self.steps.len() as i64
    }

    /// The file's size; `None` when there is no file.
    pub(crate) fn file_len(&self) -> Result<Option<u64>> {
        match fs::metadata(&self.path) {
            Ok(meta) if meta.is_dir() => Err(self.error(Code::Io, "it is a directory, not a file")),
            Ok(meta) if !meta.is_file() => Err(self.error(Code::Io, "it is no regular file")),
            Ok(meta) => Ok(Some(meta.len())),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(io_error(&self.shown, &error)),
        }
    }

    /// The size of the write-ahead log; 0 when there is none.
    pub(crate) fn log_len(&self) -> u64 {
        fs::metadata(self.beside("-wal")).map_or(0, |meta| meta.len())
    }

    /// Whether something of the store may be outside of its file: in a log, or in the journal of a transaction that was
    /// cut short.
    pub(crate) fn has_log_or_journal(&self) -> bool {
        self.log_len() > 0 || self.has_journal()
    }

    /// Whether there is the journal of a transaction that was cut short, or is under way.
    pub(crate) fn has_journal(&self) -> bool {
        fs::metadata(self.journal()).is_ok_and(|meta| meta.len() > 0)
    }

    /// Whether there is such a journal, and it says that nothing was in the file when its transaction began.
    pub(crate) fn was_empty_before_journal(&self) -> bool {
        const MAGIC: [u8; 8] = [0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7];
        let mut head = [0; 20];
        let read = fs::File::open(self.journal()).and_then(|mut journal| journal.read_exact(&mut head));
        // After the magic come the number of records, a nonce, and the size of the file in pages, four bytes each.
        read.is_ok() && head[..8] == MAGIC && head[16..] == [0; 4]
    }

    fn journal(&self) -> PathBuf {
        self.beside("-journal")
    }

    /// The bytes that the store takes up.
    pub(crate) fn size_bytes(&self) -> Result<u64> {
        Ok(self.file_len()?.unwrap_or(0) + self.log_len())
    }

    fn beside(&self, suffix: &str) -> PathBuf {
        let mut name = self.path.clone().into_os_string();
        name.push(suffix);
        name.into()
    }

    pub(crate) fn directory(&self) -> &Path {
        self.path.parent().unwrap_or(&self.path)
    }

    /// Checks that the directory is there.
    pub(crate) fn check_directory(&self) -> Result<()> {
        match fs::metadata(self.directory()) {
            Ok(meta) if meta.is_dir() => Ok(()),
            Ok(_) => Err(self.error(Code::Io, "what should be its directory is none")),
            Err(error) => Err(io_error(&self.shown, &error)),
        }
    }

    /// Checks that the directory and, where it exists, the file can be written: the engine itself would open such a
    /// file read-only without a word, and say so only at the first write.
    pub(crate) fn check_writable(&self, exists: bool) -> Result<()> {
        if !may_write(self.directory()) {
            return Err(self.error(Code::ReadOnly, "its directory can't be written"));
        }
        if exists && !may_write(&self.path) {
            return Err(self.error(Code::ReadOnly, "the file can't be written"));
        }
        Ok(())
    }

    /// Makes the file's name in its directory durable.
    pub(crate) fn flush_directory(&self) -> Result<()> {
        #[cfg(unix)]
        fs::File::open(self.directory()).and_then(|directory| directory.sync_all()).map_err(|error| io_error(&self.shown, &error))?;
        Ok(())
    }

    /// The file as a URI that the engine understands, with parameters added to it.
    pub(crate) fn uri(&self, parameters: &str) -> String {
        let mut bytes = self.path.as_os_str().as_encoded_bytes().to_vec();
        if cfg!(windows) {
            bytes.iter_mut().filter(|byte| **byte == b'\\').for_each(|byte| *byte = b'/');
            bytes.insert(0, b'/');
        }
        format!("file:{}?{parameters}", escape(&bytes, |byte| byte.is_ascii_alphanumeric() || b"/-._~:".contains(&byte)))
    }

    /// The address of the store.
    pub(crate) fn address(&self) -> String {
        format!("sqlite:{}", escape(self.shown.as_bytes(), |byte| !b"%?#".contains(&byte)))
    }

    pub(crate) fn error(&self, code: Code, what: &str) -> Error {
        Error::new(code, format!("{}: {what}", self.shown)).with_entity(Entity::Store).with_path(&self.shown)
    }
}

/// Percent-escapes all bytes but those that may stay.
fn escape(bytes: &[u8], stays: impl Fn(u8) -> bool) -> String {
    let mut escaped = Vec::with_capacity(bytes.len());
    for byte in bytes {
        if stays(*byte) {
            escaped.push(*byte);
        } else {
            escaped.extend_from_slice(format!("%{byte:02X}").as_bytes());
        }
    }
    String::from_utf8_lossy(&escaped).into_owned()
}

fn io_error(shown: &str, error: &std::io::Error) -> Error {
    Error::new(Code::Io, format!("{shown}: {error}")).with_entity(Entity::Store).with_path(shown)
}

#[cfg(unix)]
fn may_write(path: &Path) -> bool {
    use rustix::fs::{Access, access};
    // Anything but a plain refusal is left to the engine, which will say what it is.
    !matches!(access(path, Access::WRITE_OK), Err(rustix::io::Errno::ACCESS | rustix::io::Errno::ROFS | rustix::io::Errno::PERM))
}

#[cfg(not(unix))]
fn may_write(path: &Path) -> bool {
    fs::metadata(path).map_or(true, |meta| meta.is_dir() || !meta.permissions().readonly())
}
