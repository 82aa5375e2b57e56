//! How a store is opened: typed options, and the address that says which backend and where.

use std::fmt;
use std::ops::ControlFlow;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;

use crate::record::names;
use crate::{Clock, Code, DEFAULT_MAX_PAYLOAD_BYTES, Error, Limits, Result, SystemClock};

names! {
    /// What an acknowledged command survives.
    Durability {
        /// Loss of power.
        Full = 0, "full";
        /// The process being killed, not always loss of power.
        Relaxed = 1, "relaxed";
    }
}

names! {
    /// Whether a store is created, and whether it can be written.
    Mode {
        /// Opened, and created if it is not there.
        Create = 0, "create";
        /// Opened; `io` if it is not there.
        Existing = 1, "existing";
        /// Opened for reading; `io` if it is not there.
        ReadOnly = 2, "read_only";
    }
}

names! {
    /// How SQLite makes a commit atomic.
    Journal {
        /// A write-ahead log: readers and a writer do not wait for each other.
        Wal = 0, "wal";
        /// A rollback journal, for places where the log's shared memory does not work.
        Delete = 1, "delete";
    }
}

/// Told how far a repair has come, from 0 to 1; it can stop it.
pub type RepairProgress = Arc<dyn Fn(f64) -> ControlFlow<()> + Send + Sync>;

/// The options of a store, the same for every backend.
///
/// ```
/// use runledger_core::{Durability, OpenOptions};
/// let options = OpenOptions::new().with_durability(Durability::Relaxed).with_busy_timeout_ms(500);
/// assert_eq!(options.busy_timeout_ms, 500);
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub struct OpenOptions {
    /// What an acknowledged command survives.
    pub durability: Durability,
    /// Whether the store is created, and whether it can be written.
    pub mode: Mode,
    /// How long to wait for the store's lock, in milliseconds.
    pub busy_timeout_ms: u64,
    /// The most bytes of one payload or text.
    pub max_payload_bytes: usize,
    /// SQLite's journal. It decides at creation; on an existing store, absent means as it is, given means switch.
    pub journal: Option<Journal>,
    /// Whether a SQLite file may be opened that this process has open by other means, though closing that drops the store's
    /// locks. Without it such a file is refused, where the system lets it be seen (on Linux).
    pub allow_shared_file: bool,
    /// Where times come from that a caller does not give.
    pub clock: Arc<dyn Clock>,
    /// Told how far the repair of a store has come that was not closed.
    pub on_repair: Option<RepairProgress>,
}

/// How long a call waits for the store's lock unless the store is opened with another time, in milliseconds.
pub const DEFAULT_BUSY_TIMEOUT_MS: u64 = 5000;

impl Default for OpenOptions {
    fn default() -> Self {
        OpenOptions {
            durability: Durability::Full,
            mode: Mode::Create,
            busy_timeout_ms: DEFAULT_BUSY_TIMEOUT_MS,
            max_payload_bytes: DEFAULT_MAX_PAYLOAD_BYTES,
            journal: None,
            allow_shared_file: false,
            clock: Arc::new(SystemClock),
            on_repair: None,
        }
    }
}

impl fmt::Debug for OpenOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenOptions")
            .field("durability", &self.durability)
            .field("mode", &self.mode)
            .field("busy_timeout_ms", &self.busy_timeout_ms)
            .field("max_payload_bytes", &self.max_payload_bytes)
            .field("journal", &self.journal)
            .field("allow_shared_file", &self.allow_shared_file)
            .finish_non_exhaustive()
    }
}

impl OpenOptions {
    /// The defaults.
    pub fn new() -> Self {
        OpenOptions::default()
    }

    /// What an acknowledged command survives.
    #[must_use]
    pub fn with_durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// Whether the store is created, and whether it can be written.
    #[must_use]
    pub fn with_mode(mut self, mode: Mode) -> Self {
        self.mode = mode;
        self
    }

    /// How long to wait for the store's lock, in milliseconds.
    #[must_use]
    pub fn with_busy_timeout_ms(mut self, busy_timeout_ms: u64) -> Self {
        self.busy_timeout_ms = busy_timeout_ms;
        self
    }

    /// The most bytes of one payload or text.
    #[must_use]
    pub fn with_max_payload_bytes(mut self, max_payload_bytes: usize) -> Self {
        self.max_payload_bytes = max_payload_bytes;
        self
    }

    /// SQLite's journal.
    #[must_use]
    pub fn with_journal(mut self, journal: Journal) -> Self {
        self.journal = Some(journal);
        self
    }

    /// Whether a SQLite file may be opened that this process has open by other means.
    #[must_use]
    pub fn with_allow_shared_file(mut self, allow_shared_file: bool) -> Self {
        self.allow_shared_file = allow_shared_file;
        self
    }

    /// Where times come from that a caller does not give.
    #[must_use]
    pub fn with_clock(mut self, clock: impl Clock) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// Told how far a repair has come; it can stop it, and the open then answers `interrupted`.
    #[must_use]
    pub fn with_on_repair(mut self, on_repair: impl Fn(f64) -> ControlFlow<()> + Send + Sync + 'static) -> Self {
        self.on_repair = Some(Arc::new(on_repair));
        self
    }

    /// The limits among the options.
    pub fn limits(&self) -> Limits {
        Limits { max_payload_bytes: self.max_payload_bytes }
    }

    /// Sets the option of this name from text, as in an address.
    ///
    /// # Errors
    /// `invalid_input`, naming the option, when there is none of that name or the value does not fit it.
    pub fn set(&mut self, name: &str, value: &str) -> Result<()> {
        match name {
            "durability" => self.durability = word(name, value, Durability::from_name)?,
            "mode" => self.mode = word(name, value, Mode::from_name)?,
            "journal" => self.journal = Some(word(name, value, Journal::from_name)?),
            "busy_timeout_ms" => self.busy_timeout_ms = number(name, value)?,
            "max_payload_bytes" => self.max_payload_bytes = number(name, value)?,
            "allow_shared_file" => self.allow_shared_file = word(name, value, |value| value.parse().ok())?,
            _ => return Err(Error::invalid(name, "there is no such option")),
        }
        Ok(())
    }

    /// Refuses the options that only SQLite has.
    ///
    /// # Errors
    /// `unsupported` when a journal is given.
    pub fn refuse_journal(&self, backend: &str) -> Result<()> {
        match self.journal {
            Some(_) => {
                Err(Error::new(Code::Unsupported, format!("journal is an option of sqlite, not of {backend}")).with_field("journal"))
            }
            None => Ok(()),
        }
    }
}

/// Refuses the two paths that no engine may see: an empty one means other things to engines than a file of no name, and a
/// NUL ends a path early.
///
/// # Errors
/// `invalid_input`, of field `path`.
pub fn check_path(path: &Path) -> Result<()> {
    let bytes = path.as_os_str().as_encoded_bytes();
    if bytes.is_empty() {
        return Err(Error::invalid("path", "a store's path can't be empty"));
    }
    if bytes.contains(&0) {
        return Err(Error::invalid("path", "a path can't hold the character NUL"));
    }
    Ok(())
}

fn word<T>(name: &str, value: &str, read: impl Fn(&str) -> Option<T>) -> Result<T> {
    read(value).ok_or_else(|| Error::invalid(name, "the option has no such value"))
}

fn number<T: FromStr>(name: &str, value: &str) -> Result<T> {
    let digits = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
    let parsed = if digits { value.parse().ok() } else { None };
    parsed.ok_or_else(|| Error::invalid(name, "a whole number was expected"))
}
