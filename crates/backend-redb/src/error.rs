//! The one place where errors of the engine and of the file system become codes of the contract.

use std::io::{self, ErrorKind};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use runledger_core::{Code, Entity, Error, Result};

/// Turns the engine's results into the contract's.
pub(crate) trait Coded<T> {
    /// The result with the code that the contract has for its error.
    fn coded(self) -> Result<T>;
}

impl<T, E: Into<redb::Error>> Coded<T> for std::result::Result<T, E> {
    fn coded(self) -> Result<T> {
        self.map_err(|error| engine_error(error.into()))
    }
}

fn engine_error(error: redb::Error) -> Error {
    use redb::Error as Engine;
    let code = match &error {
        Engine::Io(error) => return io_error(error),
        Engine::Backend(_) | Engine::PreviousIo => Code::Io,
        Engine::Corrupted(_)
        | Engine::TableDoesNotExist(_)
        | Engine::TableTypeMismatch { .. }
        | Engine::TypeDefinitionChanged { .. }
        | Engine::TableIsMultimap(_)
        | Engine::TableIsNotMultimap(_) => Code::Corrupt,
        Engine::DatabaseAlreadyOpen | Engine::LockProtocolMismatch => Code::Locked,
        Engine::UpgradeRequired(_) | Engine::Unsupported => Code::Unsupported,
        Engine::RepairAborted => Code::Interrupted,
        Engine::ValueTooLarge(_) => Code::TooLarge,
        Engine::TransactionInProgress | Engine::WouldBlock | Engine::ReadTransactionStillInUse(_) => Code::Busy,
        Engine::DatabaseClosed => Code::Closed,
        // What is left can only come from a wrong use of the engine.
        _ => Code::Internal,
    };
    let message = match &error {
        Engine::DatabaseAlreadyOpen | Engine::LockProtocolMismatch => "another process or handle holds the store open".into(),
        Engine::RepairAborted => "the repair was stopped".into(),
        Engine::UpgradeRequired(version) => format!("the file has version {version} of the engine's format, which must be upgraded first"),
        Engine::PreviousIo => "an earlier read, write or flush failed: the store must be reopened".into(),
        other => other.to_string(),
    };
    Error::new(code, message).with_entity(Entity::Store)
}

/// The error of a system call on the store's file.
pub(crate) fn io_error(error: &io::Error) -> Error {
    let code = match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => Code::Full,
        // The file ends before what the engine knows to be there.
        ErrorKind::UnexpectedEof => Code::Corrupt,
        _ => Code::Io,
    };
    Error::new(code, error.to_string()).with_entity(Entity::Store)
}

/// The error of opening or creating a file for writing.
pub(crate) fn open_error(error: &io::Error) -> Error {
    match error.kind() {
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
            Error::new(Code::ReadOnly, format!("the file or its directory can't be written: {error}")).with_entity(Entity::Store)
        }
        _ => io_error(error),
    }
}

/// An error that speaks of the store names its file.
pub(crate) fn located(error: Error, path: &Path) -> Error {
    if error.details().entity != Some(Entity::Store) {
        return error;
    }
    let path = path.to_string_lossy();
    Error::new(error.code(), format!("{path}: {}", error.message())).with_entity(Entity::Store).with_path(path)
}

/// Runs what calls the engine. The engine panics on some kinds of damage, and that must not reach the caller.
pub(crate) fn guarded<T>(call: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|_| Err(Error::corrupt("the engine met content that it can't read")))
}
