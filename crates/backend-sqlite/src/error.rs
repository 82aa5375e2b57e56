//! What goes wrong in the engine, as codes of the contract.

use runledger_core::{Code, Entity, Error};
use rusqlite::ffi;

/// The result of everything in this crate that is not called from outside.
pub(crate) type Outcome<T> = std::result::Result<T, Fault>;

/// Why something failed, before the file is named.
#[derive(Debug)]
pub(crate) enum Fault {
    /// The engine refused.
    Engine(rusqlite::Error),
    /// It is an error of the contract already.
    Ledger(Error),
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        Fault::Engine(error)
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Fault::Ledger(error)
    }
}

impl Fault {
    /// The error as the caller sees it. `path` is the store's file, which an error of the engine names.
    pub(crate) fn into_error(self, path: &str) -> Error {
        let error = match self {
            Fault::Ledger(error) => return error,
            Fault::Engine(error) => error,
        };
        let code = code_of(&error);
        let result = result_of(&error);
        let message = match code {
            Code::Busy => format!("{path}: the store's lock was not had within the busy timeout"),
            Code::Internal => format!("the engine refused what this library asked (result {result})"),
            _ => format!("{path}: {}", words_of(code, result)),
        };
        Error::new(code, message).with_entity(Entity::Store).with_path(path)
    }

    /// The engine's result code with its details; 0 when the fault is not the engine's.
    pub(crate) fn result(&self) -> i32 {
        match self {
            Fault::Engine(error) => result_of(error),
            Fault::Ledger(_) => 0,
        }
    }

    /// The engine's result code without its details.
    pub(crate) fn primary(&self) -> i32 {
        primary(self.result())
    }

    pub(crate) fn code(&self) -> Code {
        match self {
            Fault::Engine(error) => code_of(error),
            Fault::Ledger(error) => error.code(),
        }
    }

    pub(crate) fn is_busy(&self) -> bool {
        self.code() == Code::Busy
    }
}

/// The part of a result code without its details.
fn primary(result: i32) -> i32 {
    result & 0xff
}

fn result_of(error: &rusqlite::Error) -> i32 {
    match error {
        rusqlite::Error::SqlInputError { error, .. } => error.extended_code,
        other => other.sqlite_error().map_or(0, |error| error.extended_code),
    }
}

fn code_of(error: &rusqlite::Error) -> Code {
    match primary(result_of(error)) {
        0 => code_of_binding(error),
        // The race for the log's shared memory was lost many times in a row: it is as busy as a lock.
        ffi::SQLITE_BUSY | ffi::SQLITE_LOCKED | ffi::SQLITE_PROTOCOL => Code::Busy,
        ffi::SQLITE_FULL => Code::Full,
        ffi::SQLITE_READONLY => Code::ReadOnly,
        ffi::SQLITE_IOERR if result_of(error) == ffi::SQLITE_IOERR_SHMSIZE => Code::Full,
        ffi::SQLITE_IOERR if result_of(error) == ffi::SQLITE_IOERR_NOMEM => Code::Internal,
        ffi::SQLITE_CANTOPEN | ffi::SQLITE_IOERR | ffi::SQLITE_PERM => Code::Io,
        ffi::SQLITE_CORRUPT | ffi::SQLITE_NOTADB => Code::Corrupt,
        ffi::SQLITE_TOOBIG => Code::TooLarge,
        // Our statements are fixed, so that one which does not fit the tables means that those are not ours any more.
        ffi::SQLITE_ERROR if lacks_something(error) => Code::Corrupt,
        _ => Code::Internal,
    }
}

/// Errors that rusqlite itself finds: a stored value of another type than it was written with is damage.
fn code_of_binding(error: &rusqlite::Error) -> Code {
    match error {
        rusqlite::Error::FromSqlConversionFailure(..)
        | rusqlite::Error::IntegralValueOutOfRange(..)
        | rusqlite::Error::InvalidColumnType(..)
        | rusqlite::Error::Utf8Error(..)
        | rusqlite::Error::QueryReturnedNoRows => Code::Corrupt,
        _ => Code::Internal,
    }
}

fn lacks_something(error: &rusqlite::Error) -> bool {
    let message = match error {
        rusqlite::Error::SqlInputError { msg, .. } => msg.as_str(),
        rusqlite::Error::SqliteFailure(_, Some(message)) => message.as_str(),
        _ => "",
    };
    message.starts_with("no such")
}

fn words_of(code: Code, result: i32) -> String {
    let what = match result {
        ffi::SQLITE_IOERR_READ | ffi::SQLITE_IOERR_SHORT_READ => "a read was refused",
        ffi::SQLITE_IOERR_WRITE | ffi::SQLITE_IOERR_TRUNCATE => "a write was refused",
        ffi::SQLITE_IOERR_FSYNC | ffi::SQLITE_IOERR_DIR_FSYNC => "a flush was refused",
        ffi::SQLITE_IOERR_LOCK | ffi::SQLITE_IOERR_UNLOCK | ffi::SQLITE_IOERR_RDLOCK => "a file lock was refused",
        _ => match code {
            Code::Full => "the disk is full",
            Code::ReadOnly => "the store can't be written",
            Code::Corrupt => "the file's content is damaged",
            Code::TooLarge => "a value is larger than the engine takes",
            _ if primary(result) == ffi::SQLITE_CANTOPEN => "the system refused to open the file or one beside it",
            _ => "the system refused a read or write",
        },
    };
    format!("{what} (result {result})")
}
