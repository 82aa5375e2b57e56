//! What goes wrong at the server or on the way to it, as codes of the contract.

use std::error::Error as _;
use std::io::ErrorKind;

use runledger_core::{Code, Entity, Error};
use tokio_postgres::error::{DbError, Severity};

/// The result of everything in this crate that is not called from outside.
pub(crate) type Outcome<T> = std::result::Result<T, Fault>;

/// Why something failed, before the server is named.
#[derive(Debug)]
pub(crate) enum Fault {
    /// The server answered with an error of this SQLSTATE. `is_fatal` says that it ended the session too.
    Server {
        /// The five characters.
        state: String,
        /// Whether the session ended with it.
        is_fatal: bool,
    },
    /// The connection could not be made, or broke.
    Connection(String),
    /// The server or the settings refuse this client: no other try would go better.
    Refused(String),
    /// Something else changed what this transaction rests on; it is to be made again.
    Again,
    /// The connection broke, or a standby was not waited for, when the commit was under way.
    Unknown(String),
    /// It is an error of the contract already.
    Ledger(Error),
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Fault::Ledger(error)
    }
}

impl From<&DbError> for Fault {
    fn from(error: &DbError) -> Self {
        let is_fatal = matches!(error.parsed_severity(), Some(Severity::Fatal | Severity::Panic));
        Fault::Server { state: error.code().code().to_owned(), is_fatal }
    }
}

impl From<tokio_postgres::Error> for Fault {
    fn from(error: tokio_postgres::Error) -> Self {
        if let Some(answered) = error.as_db_error() {
            return answered.into();
        }
        let why = error.source().map_or_else(|| error.to_string(), |source| format!("{error}: {source}"));
        let io = error.source().and_then(|source| source.downcast_ref::<std::io::Error>()).map(std::io::Error::kind);
        let shown = error.to_string();
        // A certificate that is not accepted comes as data that makes no sense.
        let makes_no_sense = matches!(io, Some(ErrorKind::InvalidData | ErrorKind::InvalidInput));
        if shown.contains("TLS") && (io.is_none() || makes_no_sense) {
            Fault::Refused(why)
        } else if error.is_closed() || io.is_some() || shown.contains("connecting") || shown.contains("timeout") {
            Fault::Connection(why)
        } else if shown.contains("deserializing") {
            Error::corrupt("a stored value is of another kind than it was written with").into()
        } else if shown.contains("authentication") || shown.contains("configuration") {
            Fault::Refused(why)
        } else {
            Error::new(Code::Internal, format!("the exchange with the server went wrong: {shown}")).into()
        }
    }
}

/// What a SQLSTATE means here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Meaning {
    Is(Code, &'static str),
    /// The transaction met another one; made again, it may well succeed.
    MadeAgain,
    /// The server does not let this client in, or has no such database.
    NotLetIn(&'static str),
}

/// The one table of SQLSTATEs. The longest prefix that fits decides.
const MEANINGS: &[(&str, Meaning)] = &[
    ("08", Meaning::Is(Code::Unavailable, "the connection to the server broke")),
    ("57P0", Meaning::Is(Code::Unavailable, "the server is shutting down, starting or ended the session")),
    ("53300", Meaning::Is(Code::Unavailable, "the server has no connection left")),
    ("55P03", Meaning::Is(Code::Busy, "a lock was not had within the busy timeout")),
    ("57014", Meaning::Is(Code::Busy, "a statement took longer than its timeout")),
    ("53200", Meaning::Is(Code::Busy, "the server has no memory left")),
    ("40001", Meaning::MadeAgain),
    ("40P01", Meaning::MadeAgain),
    // Two transactions made the same key, which the locks on new keys prevent among those of this library.
    ("23505", Meaning::MadeAgain),
    ("53100", Meaning::Is(Code::Full, "the server's disk is full")),
    ("58", Meaning::Is(Code::Io, "the server was refused a read or write")),
    ("XX001", Meaning::Is(Code::Corrupt, "the server found damaged data")),
    ("XX002", Meaning::Is(Code::Corrupt, "the server found a damaged index")),
    ("25006", Meaning::Is(Code::ReadOnly, "the server or the role can't write")),
    ("42501", Meaning::Is(Code::ReadOnly, "the role lacks a privilege that this needs")),
    ("28", Meaning::NotLetIn("the server does not let this user in")),
    ("3D000", Meaning::NotLetIn("the server has no such database")),
    ("42P01", Meaning::Is(Code::Corrupt, "a table of the ledger is missing")),
    ("42703", Meaning::Is(Code::Corrupt, "a column of the ledger is missing")),
    ("3F000", Meaning::Is(Code::Corrupt, "the schema of the ledger is missing")),
    ("54", Meaning::Is(Code::TooLarge, "a value is larger than the server takes")),
];

fn meaning(state: &str) -> Option<Meaning> {
    let fitting = MEANINGS.iter().filter(|(prefix, _)| state.starts_with(prefix));
    fitting.max_by_key(|(prefix, _)| prefix.len()).map(|(_, meaning)| *meaning)
}

impl Fault {
    /// Whether the same transaction may be made again at once.
    pub(crate) fn is_to_be_made_again(&self) -> bool {
        match self {
            Fault::Again => true,
            Fault::Server { state, .. } => meaning(state) == Some(Meaning::MadeAgain),
            _ => false,
        }
    }

    /// Whether the connection is of no use any more.
    pub(crate) fn is_of_connection(&self) -> bool {
        match self {
            Fault::Connection(_) => true,
            Fault::Server { state, is_fatal } => *is_fatal || state.starts_with("57P0") || state.starts_with("08"),
            _ => false,
        }
    }

    pub(crate) fn state(&self) -> Option<&str> {
        match self {
            Fault::Server { state, .. } => Some(state),
            _ => None,
        }
    }

    /// The error as the caller sees it. `place` is the server and database, without a password.
    pub(crate) fn into_error(self, place: &str) -> Error {
        let with = |code, what: &str| Error::new(code, format!("{place}: {what}")).with_entity(Entity::Store);
        match self {
            Fault::Ledger(error) => error,
            Fault::Again => with(Code::Busy, "others kept changing what the command is about"),
            Fault::Connection(why) => with(Code::Unavailable, &format!("the server can't be reached ({why})")).with_applied("no"),
            Fault::Refused(why) => with(Code::Io, &format!("no connection can be made ({why})")),
            Fault::Unknown(why) => {
                let what = format!("whether the command was applied is not known ({why}): read, then decide");
                with(Code::Unavailable, &what).with_applied("unknown")
            }
            Fault::Server { state, .. } => match meaning(&state) {
                Some(Meaning::Is(Code::Unavailable, what)) => {
                    with(Code::Unavailable, &format!("{what} (SQLSTATE {state})")).with_applied("no")
                }
                Some(Meaning::Is(code, what)) => with(code, &format!("{what} (SQLSTATE {state})")),
                Some(Meaning::MadeAgain) => with(Code::Busy, &format!("other transactions were in the way, many times (SQLSTATE {state})")),
                Some(Meaning::NotLetIn(what)) => with(Code::Io, &format!("{what} (SQLSTATE {state})")),
                None => with(Code::Internal, &format!("the server refused what this library asked (SQLSTATE {state})")),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_have_the_codes_of_the_contract() {
        for (state, code, applied) in [
            ("08006", Code::Unavailable, Some("no")),
            ("57P01", Code::Unavailable, Some("no")),
            ("57P03", Code::Unavailable, Some("no")),
            ("53300", Code::Unavailable, Some("no")),
            ("55P03", Code::Busy, None),
            ("57014", Code::Busy, None),
            ("40001", Code::Busy, None),
            ("40P01", Code::Busy, None),
            ("53100", Code::Full, None),
            ("58030", Code::Io, None),
            ("XX001", Code::Corrupt, None),
            ("XX002", Code::Corrupt, None),
            ("25006", Code::ReadOnly, None),
            ("42501", Code::ReadOnly, None),
            ("28P01", Code::Io, None),
            ("28000", Code::Io, None),
            ("3D000", Code::Io, None),
            ("42601", Code::Internal, None),
        ] {
            let error = Fault::Server { state: state.to_owned(), is_fatal: false }.into_error("db.example/runs");
            assert_eq!((error.code(), error.details().applied), (code, applied), "{state}");
            assert!(error.message().starts_with("db.example/runs: "), "{error}");
        }
    }

    #[test]
    fn what_is_not_known_is_not_retried() {
        let unknown = Fault::Unknown("the connection broke".to_owned()).into_error("db");
        assert_eq!((unknown.code(), unknown.details().applied, unknown.is_retryable()), (Code::Unavailable, Some("unknown"), false));
        let lost = Fault::Connection("refused".to_owned()).into_error("db");
        assert!(lost.is_retryable());
    }
}
