//! Backups: a store copied to a new file while it is in use.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use crate::record::names;
use crate::*;

names! {
    /// What a backup is.
    BackupForm {
        /// A store of the same backend, which is opened at its path.
        Store = 0, "store";
        /// An export stream, which is imported into a store of any backend.
        Stream = 1, "stream";
    }
}

/// A backup that was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Backup {
    /// What it is.
    pub form: BackupForm,
    /// Its size, in bytes.
    pub size_bytes: u64,
}

impl Backup {
    /// In the JSON form.
    pub fn to_json(&self) -> String {
        format!(r#"{{"form":"{}","sizeBytes":{}}}"#, self.form, self.size_bytes)
    }
}

impl Ledger {
    /// Copies the store to a new file, from one consistent state, while others go on reading and writing.
    ///
    /// A store in a file becomes a store of the same backend at `target`. One that has no file of its own, in memory or on
    /// a server, becomes an export stream there, since that is the one lasting form that it has. The file appears under
    /// its name only when it is whole and flushed.
    ///
    /// # Errors
    /// `io`, naming the path, when something is there already or the directory is not; `full`; and those of the store.
    /// Nothing is left behind then.
    pub fn backup(&self, target: impl AsRef<Path>) -> Result<Backup> {
        self.backup_with(target, &mut unwatched())
    }

    /// As [`Ledger::backup`], with a callback that is told the progress and can stop it.
    ///
    /// # Errors
    /// `interrupted` when the callback stopped it, else as [`Ledger::backup`].
    pub fn backup_with(&self, target: impl AsRef<Path>, on_progress: OnProgress<'_>) -> Result<Backup> {
        let backend = self.enter()?;
        let new = NewFile::beside(target.as_ref())?;
        let form = ledger::without_panic(|| match backend.backup(&new, on_progress)? {
            true => Ok(BackupForm::Store),
            false => transfer::export(&*backend, &mut new.file(), on_progress).map(|_| BackupForm::Stream),
        })
        .map_err(|error| new.located(error))?;
        let size_bytes = new.place()?;
        Ok(Backup { form, size_bytes })
    }
}

/// A file in the making: under a name of its own beside its target, to which it is moved when it is whole. It is gone
/// when it is dropped before.
#[derive(Debug)]
pub struct NewFile {
    temporary: NamedTempFile,
    target: PathBuf,
}

const TEMPORARY: (&str, &str) = (".runledger-", ".backup");

impl NewFile {
    fn beside(target: &Path) -> Result<NewFile> {
        if target.as_os_str().is_empty() {
            return Err(Error::invalid("target", "a backup's path can't be empty"));
        }
        if fs::symlink_metadata(target).is_ok() {
            return Err(there_already(target));
        }
        let directory = directory_of(target);
        remove_leftovers(directory);
        let mut builder = tempfile::Builder::new();
        builder.prefix(TEMPORARY.0).suffix(TEMPORARY.1);
        #[cfg(unix)]
        let permissions = std::os::unix::fs::PermissionsExt::from_mode(0o666);
        #[cfg(unix)]
        builder.permissions(permissions);
        // The error's own text would name the temporary file.
        let temporary = builder.tempfile_in(directory).map_err(|error| file_error(target, &error.kind().into()))?;
        // Shows that its maker lives; where files can't be locked, what dead ones leave stays.
        let _ = temporary.as_file().try_lock();
        Ok(NewFile { temporary, target: target.to_path_buf() })
    }

    /// Where the file is now.
    pub fn path(&self) -> &Path {
        self.temporary.path()
    }

    /// The file, empty and open for reading and writing.
    pub fn file(&self) -> &File {
        self.temporary.as_file()
    }

    /// Names the target in an error of the file.
    pub fn located(&self, error: Error) -> Error {
        match error.code() {
            Code::Full if error.details().path.is_none() => {
                let path = self.target.display().to_string();
                Error::new(error.code(), format!("{path}: {}", error.message())).with_entity(Entity::Store).with_path(path)
            }
            _ => error,
        }
    }

    /// Moves the file to its target, where it does not replace anything, and answers its size in bytes.
    fn place(self) -> Result<u64> {
        let NewFile { temporary, target } = self;
        let size_bytes =
            temporary.as_file().sync_all().and_then(|()| temporary.as_file().metadata()).map_err(|e| file_error(&target, &e))?;
        temporary.persist_noclobber(&target).map_err(|error| match error.error.kind() {
            ErrorKind::AlreadyExists => there_already(&target),
            _ => file_error(&target, &error.error),
        })?;
        flush_directory(directory_of(&target)).map_err(|error| file_error(&target, &error))?;
        Ok(size_bytes.len())
    }
}

fn there_already(target: &Path) -> Error {
    let path = target.display().to_string();
    Error::new(Code::Io, format!("{path}: there is something already, and a backup replaces nothing")).with_path(path)
}

fn file_error(target: &Path, error: &io::Error) -> Error {
    let path = target.display().to_string();
    let code = match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => Code::Full,
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => Code::ReadOnly,
        _ => Code::Io,
    };
    Error::new(code, format!("{path}: {error}")).with_path(path)
}

fn directory_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Removes what makers that were killed have left. What can't be removed does no harm.
fn remove_leftovers(directory: &Path) {
    let is_ours = |name: &OsStr| name.to_str().is_some_and(|name| name.starts_with(TEMPORARY.0) && name.ends_with(TEMPORARY.1));
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        if is_ours(&entry.file_name()) && File::open(entry.path()).is_ok_and(|file| file.try_lock().is_ok()) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// A name lasts once its directory is flushed.
fn flush_directory(directory: &Path) -> io::Result<()> {
    #[cfg(unix)]
    File::open(directory)?.sync_all()?;
    Ok(())
}
