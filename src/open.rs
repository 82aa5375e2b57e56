//! The one place where an address becomes a backend.

use percent_encoding::percent_decode_str;

use crate::{Code, Error, Ledger, OpenOptions, Result};

/// The backends of this version, each a feature of its own name.
const BACKENDS: [&str; 3] = ["memory", "sqlite", "redb"];

/// How the address of a PostgreSQL database begins.
const POSTGRES: [&str; 2] = ["postgres", "postgresql"];

/// A backend that this build has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CompiledBackend {
    /// What its addresses begin with, before the colon.
    pub scheme: &'static str,
    /// Whether an address names a file, which is created as a new store.
    pub has_file: bool,
}

/// The backends that this build has.
pub const COMPILED_BACKENDS: &[CompiledBackend] = &[
    #[cfg(feature = "memory")]
    CompiledBackend { scheme: "memory", has_file: false },
    #[cfg(feature = "sqlite-system")]
    CompiledBackend { scheme: "sqlite", has_file: true },
    #[cfg(feature = "redb")]
    CompiledBackend { scheme: "redb", has_file: true },
    #[cfg(feature = "postgres")]
    CompiledBackend { scheme: "postgres", has_file: false },
];

/// Opens the store at an address: `memory:`, `sqlite:PATH`, `redb:PATH` or `postgres://USER@HOST/DATABASE`.
///
/// In a path, `%`, `?` and `#` are written `%25`, `%3F` and `%23`; every other character may be escaped so. Options follow
/// as a query: `sqlite:runs.db?durability=relaxed&busy_timeout_ms=500`.
///
/// # Errors
/// `invalid_input`, naming the option that is unknown, wrong or given twice, else `path` or `url`; `unsupported` when this
/// build lacks the backend; else what the backend answers.
///
/// ```
/// # #[cfg(feature = "memory")]
/// # fn main() -> runledger::Result<()> {
/// use runledger::Code;
/// let ledger = runledger::open("memory:?max_payload_bytes=1000")?;
/// assert_eq!(runledger::open("memory:?colour=red").unwrap_err().details().field.as_deref(), Some("colour"));
/// assert_eq!(runledger::open("mysql://db").unwrap_err().code(), Code::InvalidInput);
/// ledger.close()
/// # }
/// # #[cfg(not(feature = "memory"))]
/// # fn main() {}
/// ```
pub fn open(url: &str) -> Result<Ledger> {
    open_with(url, OpenOptions::new())
}

/// Opens the store at an address, as [`open`]; what its query gives goes before the same option in `options`.
///
/// # Errors
/// As [`open`].
pub fn open_with(url: &str, options: OpenOptions) -> Result<Ledger> {
    let Address { scheme, path, options } = Address::read(url, options)?;
    match scheme {
        #[cfg(feature = "memory")]
        "memory" => open_memory(&options),
        #[cfg(feature = "sqlite-system")]
        "sqlite" => open_sqlite(path, &options),
        #[cfg(feature = "redb")]
        "redb" => open_redb(path, &options),
        #[cfg(feature = "postgres")]
        "postgres" | "postgresql" => open_postgres(url, options),
        off => {
            let _ = (path, options);
            Err(lacking(off))
        }
    }
}

fn lacking(feature: &str) -> Error {
    let what = format!("this build has no backend for {feature}: turn on the feature '{feature}' of runledger");
    Error::new(Code::Unsupported, what)
}

/// The options that a store at an address would be opened with: `options`, and before them what the address gives. Nothing
/// is opened.
///
/// # Errors
/// As [`open`], as far as they are about the address itself.
///
/// ```
/// # fn main() -> runledger::Result<()> {
/// let options = runledger::options_at("memory:?max_payload_bytes=1000", runledger::OpenOptions::new())?;
/// assert_eq!(options.limits().max_payload_bytes, 1000);
/// # Ok(())
/// # }
/// ```
pub fn options_at(url: &str, options: OpenOptions) -> Result<OpenOptions> {
    Address::read(url, options).map(|address| address.options)
}

/// What an address says.
struct Address<'a> {
    scheme: &'a str,
    path: String,
    options: OpenOptions,
}

impl<'a> Address<'a> {
    fn read(url: &'a str, mut options: OpenOptions) -> Result<Address<'a>> {
        let (scheme, rest) = url.split_once(':').unwrap_or_default();
        if POSTGRES.contains(&scheme) {
            #[cfg(not(feature = "postgres"))]
            return Err(lacking("postgres"));
            #[cfg(feature = "postgres")]
            {
                // It reads its own address: what is a path elsewhere is a user, hosts and a database here.
                crate::postgres::read_options(url, &mut options)?;
                return Ok(Address { scheme, path: String::new(), options });
            }
        }
        if !BACKENDS.contains(&scheme) {
            return Err(Error::invalid("url", "an address begins with memory:, sqlite:, redb: or postgres:"));
        }
        if rest.contains('#') {
            return Err(Error::invalid("url", "an address has no fragment; in a path, # is written %23"));
        }
        let (path, query) = rest.split_once('?').map_or((rest, None), |(path, query)| (path, Some(query)));
        if let Some(query) = query {
            set_options(&mut options, query)?;
        }
        let path = decode("path", path)?;
        if scheme == "memory" && !path.is_empty() {
            return Err(Error::invalid("path", "memory: takes none"));
        }
        Ok(Address { scheme, path, options })
    }
}

/// Opens a new store in memory.
///
/// # Errors
/// `io` for a mode that needs a store to be there; `unsupported` for a journal.
#[cfg(feature = "memory")]
pub fn open_memory(options: &OpenOptions) -> Result<Ledger> {
    Ok(Ledger::new(crate::memory::MemoryBackend::open(options)?, options))
}

/// Opens the store in a SQLite file.
///
/// # Errors
/// `invalid_input` for an empty path or one with a NUL; else what the backend answers.
#[cfg(feature = "sqlite-system")]
pub fn open_sqlite(path: impl AsRef<std::path::Path>, options: &OpenOptions) -> Result<Ledger> {
    Ok(Ledger::new(crate::sqlite::SqliteBackend::open(path.as_ref(), options)?, options))
}

/// Opens the store in a redb file.
///
/// # Errors
/// `invalid_input` for an empty path or one with a NUL; else what the backend answers.
#[cfg(feature = "redb")]
pub fn open_redb(path: impl AsRef<std::path::Path>, options: &OpenOptions) -> Result<Ledger> {
    Ok(Ledger::new(crate::redb::RedbBackend::open(path.as_ref(), options)?, options))
}

/// Opens the store in a PostgreSQL database; what the address gives goes before the same option in `options`.
///
/// # Errors
/// `invalid_input`, naming what is wrong in the address; else what the backend answers.
#[cfg(feature = "postgres")]
pub fn open_postgres(url: &str, mut options: OpenOptions) -> Result<Ledger> {
    let backend = crate::postgres::PostgresBackend::open(url, &mut options)?;
    Ok(Ledger::new(backend, &options))
}

fn set_options(options: &mut OpenOptions, query: &str) -> Result<()> {
    let mut seen = Vec::new();
    for pair in query.split('&') {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let name = decode("url", name)?;
        if name.is_empty() {
            return Err(Error::invalid("url", "an option without a name"));
        }
        if seen.contains(&name) {
            return Err(Error::invalid(name, "the option is given twice"));
        }
        options.set(&name, &decode(&name, value)?)?;
        seen.push(name);
    }
    Ok(())
}

/// A stray `%` is refused: taken as it is, it would name another file as soon as two hex digits follow it.
fn decode(field: &str, escaped: &str) -> Result<String> {
    let is_escape = |after: &[u8]| matches!(after, [high, low, ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit());
    if escaped.split('%').skip(1).any(|after| !is_escape(after.as_bytes())) {
        return Err(Error::invalid(field, "a % begins an escape of two hex digits; itself it is written %25"));
    }
    let decoded = percent_decode_str(escaped).decode_utf8();
    decoded.map(String::from).map_err(|_| Error::invalid(field, "the escapes are not UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(url: &str) -> (Code, Option<String>) {
        let Err(error) = open(url) else { panic!("{url} was opened") };
        (error.code(), error.details().field.clone())
    }

    #[test]
    fn an_address_that_is_wrong_says_where() {
        for (url, field) in [
            ("", "url"),
            ("memory", "url"),
            ("runs.db", "url"),
            ("SQLITE:x", "url"),
            ("mysql://host/db", "url"),
            ("memory:x", "path"),
            ("memory://", "path"),
            ("memory:#x", "url"),
            ("memory:?durability=full#x", "url"),
            ("memory:?", "url"),
            ("memory:?durability=full&", "url"),
            ("memory:?=full", "url"),
            ("memory:?colour=red", "colour"),
            ("memory:?durability", "durability"),
            ("memory:?durability=Full", "durability"),
            ("memory:?busy_timeout_ms=-1", "busy_timeout_ms"),
            ("memory:?busy_timeout_ms=1&busy_timeout_ms=1", "busy_timeout_ms"),
            ("memory:?d%75rability=x", "durability"),
            ("sqlite:", "path"),
            ("sqlite:?mode=create", "path"),
            ("sqlite:a%00b", "path"),
            ("sqlite:%ff", "path"),
            ("sqlite:50%", "path"),
            ("sqlite:50%.db", "path"),
        ] {
            if url.starts_with("memory") && !cfg!(feature = "memory") || url.starts_with("sqlite") && !cfg!(feature = "sqlite-system") {
                continue;
            }
            assert_eq!(refused(url), (Code::InvalidInput, Some(field.to_owned())), "{url}");
        }
    }

    #[test]
    fn a_backend_that_this_build_lacks_is_unsupported() {
        let cut_off = ["postgres://user:secret@host/db", "postgresql://host"];
        for url in cut_off.into_iter().filter(|_| !cfg!(feature = "postgres")) {
            let Err(error) = open(url) else { panic!("{url} was opened") };
            assert_eq!(error.code(), Code::Unsupported);
            assert!(!error.message().contains("secret"));
        }
        let is_on =
            [("memory:", cfg!(feature = "memory")), ("sqlite:x", cfg!(feature = "sqlite-system")), ("redb:x", cfg!(feature = "redb"))];
        for (url, _) in is_on.into_iter().filter(|(_, is_on)| !is_on) {
            assert_eq!(refused(url).0, Code::Unsupported, "{url}");
        }
    }

    #[cfg(any(feature = "sqlite-system", feature = "redb"))]
    #[test]
    fn the_odd_characters_of_a_path_name_exactly_that_file() {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().to_str().unwrap();
        let schemes = [cfg!(feature = "sqlite-system").then_some("sqlite"), cfg!(feature = "redb").then_some("redb")];
        for scheme in schemes.into_iter().flatten() {
            for (escaped, name) in [("q%3fx=1", "q?x=1"), ("h%23ash", "h#ash"), ("per%2541cent", "per%41cent"), ("sp é", "sp é")] {
                open(&format!("{scheme}:{base}/{scheme}-{escaped}")).unwrap().close().unwrap();
                assert!(dir.path().join(format!("{scheme}-{name}")).is_file(), "{name}");
            }
        }
    }

    #[cfg(feature = "memory")]
    #[test]
    fn the_query_goes_before_the_typed_options() {
        let options = OpenOptions::new().with_max_payload_bytes(10);
        let ledger = open_with("memory:?max_payload_bytes=20", options).unwrap();
        let queue = |json: &str| crate::QueueRun::new("shop", "r1", "checkout", crate::Payload::from_json(json).unwrap());
        assert_eq!(ledger.queue_run(queue("1234567890123456789012345")).unwrap_err().code(), Code::TooLarge);
        assert!(ledger.queue_run(queue("1234567890123456789")).is_ok());
    }
}
