//! A file that appears when it is whole.

use std::io::{self, BufWriter, Write};
use std::path::Path;

use runledger::{Code, Error};
use tempfile::NamedTempFile;

use crate::interrupt::Stoppable;
use crate::outcome::Result;

/// Has a file written beside its place, and puts it there once it is whole, where one may stand already. What stops midway,
/// an interrupt too, leaves what was there. `fill` is to call `interrupt::check` now and then.
///
/// Answers the file's size in bytes too.
///
/// # Errors
/// `io` or `full` of the file, naming the path, and those of `fill`.
pub(crate) fn write<T>(path: &Path, fill: impl FnOnce(&mut dyn Write) -> Result<T>) -> Result<(T, u64)> {
    let failed = |error: &io::Error| {
        let code = if error.kind() == io::ErrorKind::StorageFull { Code::Full } else { Code::Io };
        Error::new(code, format!("{}: {error}", path.display())).with_path(path.to_string_lossy())
    };
    let _stoppable = Stoppable::new();
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let file = beside(folder).map_err(|error| failed(&error))?;
    let mut out = BufWriter::with_capacity(256 * 1024, file);
    let filled = fill(&mut out)?;
    let file = out.into_inner().map_err(|error| failed(error.error()))?;
    let size_bytes = file.as_file().metadata().map_err(|error| failed(&error))?.len();
    file.persist(path).map_err(|error| failed(&error.error))?;
    Ok((filled, size_bytes))
}

fn beside(folder: &Path) -> io::Result<NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(".runledger-");
    // As any file that a command writes: for all whom the user's mask lets read it.
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    builder.tempfile_in(folder)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::Stop;

    fn names(folder: &Path) -> Vec<String> {
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn a_file_is_replaced_by_a_whole_one_or_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("page.html");
        std::fs::write(&path, "before").unwrap();
        let refused = write(&path, |out| -> Result<()> {
            out.write_all(b"half")?;
            Err(Error::new(Code::Busy, "no").into())
        });
        assert!(matches!(refused, Err(Stop::Error(error)) if error.code() == Code::Busy));
        assert_eq!((std::fs::read_to_string(&path).unwrap().as_str(), names(folder.path())), ("before", vec!["page.html".to_owned()]));
        assert_eq!(write(&path, |out| Ok(out.write_all(b"whole")?)).unwrap(), ((), 5));
        assert_eq!((std::fs::read_to_string(&path).unwrap().as_str(), names(folder.path())), ("whole", vec!["page.html".to_owned()]));
    }

    #[test]
    fn where_no_file_can_be_the_path_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("missing/page.html");
        let Err(Stop::Error(error)) = write(&path, |_| Ok(())) else { unreachable!("there is no such folder") };
        assert_eq!((error.code(), error.details().path.as_deref()), (Code::Io, Some(&*path.to_string_lossy())));
    }
}
