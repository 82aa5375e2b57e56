//! A file that appears when it is whole.

use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::path::Path;

use runledger::{Code, Error};
use tempfile::NamedTempFile;

use crate::interrupt::Stoppable;
use crate::outcome::{Result, usage};

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

/// Refuses a place where something stands that is not a page: a slip of the hand must not cost anybody a store. It is to be
/// asked before any store is opened, since to close a file that this process has open as a store would drop the store's locks.
///
/// # Errors
/// `invalid_input`, field `out`.
pub(crate) fn check_place_of_page(path: &Path) -> Result<()> {
    const BEGINNING: &[u8] = b"<!doctype html>";
    if path == Path::new("-") {
        return Err(usage("out", "a page is written to a file, not to standard output").into());
    }
    let mut found = Vec::with_capacity(BEGINNING.len());
    let read = match File::open(path) {
        Ok(file) => file.take(BEGINNING.len() as u64).read_to_end(&mut found),
        // It is not there, or can't be read; writing it tells.
        Err(_) => return Ok(()),
    };
    if read.is_ok() && (found.is_empty() || found.eq_ignore_ascii_case(BEGINNING)) {
        return Ok(());
    }
    Err(usage("out", format_args!("{} is there and is no page: it is not replaced", path.display())).into())
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
    fn only_a_page_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let place = |content: &[u8]| {
            let path = folder.path().join("there");
            std::fs::write(&path, content).unwrap();
            check_place_of_page(&path)
        };
        assert!(place(b"").is_ok() && place(b"<!DOCTYPE html>\n<title>x</title>").is_ok());
        assert!(check_place_of_page(&folder.path().join("not-there")).is_ok());
        for other in [&b"SQLite format 3\0"[..], b"redb\x1A\x0A\xA9\x0D\x0A", b"notes", b"<!doct"] {
            let Err(Stop::Error(error)) = place(other) else { unreachable!("a file of something else must stay") };
            assert_eq!((error.code(), error.details().field.as_deref()), (Code::InvalidInput, Some("out")));
        }
        assert!(matches!(check_place_of_page(Path::new("-")), Err(Stop::Error(error)) if error.code() == Code::InvalidInput));
    }

    #[test]
    fn where_no_file_can_be_the_path_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("missing/page.html");
        let Err(Stop::Error(error)) = write(&path, |_| Ok(())) else { unreachable!("there is no such folder") };
        assert_eq!((error.code(), error.details().path.as_deref()), (Code::Io, Some(&*path.to_string_lossy())));
    }
}
