//! How a command ends: what it says of an error, and its exit status.

use std::io::{self, IsTerminal};
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use runledger::{Code, Error, error_to_json};

use crate::interrupt;
use crate::screen::text::shown;

/// What a command came to that met no error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// All went well.
    Done,
    /// It found what somebody should look at.
    Findings,
    /// A bulk action failed for some.
    PartlyFailed,
}

/// Why a command did not go on.
#[derive(Debug)]
pub(crate) enum Stop {
    Error(Error),
    /// Whoever read the output has left, and there is nobody to tell.
    ReaderLeft,
}

/// The result of a command.
pub(crate) type Result<T> = std::result::Result<T, Stop>;

impl From<Error> for Stop {
    fn from(error: Error) -> Stop {
        Stop::Error(error)
    }
}

/// Of writing standard output, which is the only thing that commands write by themselves.
impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Stop {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Stop::ReaderLeft,
            _ => Stop::Error(stream_error("writing standard output", &error)),
        }
    }
}

impl Outcome {
    fn status(self) -> u8 {
        match self {
            Outcome::Done => 0,
            Outcome::PartlyFailed => 1,
            Outcome::Findings => 5,
        }
    }
}

/// The exit status for a code: the one place that decides it.
fn status(code: Code) -> u8 {
    match code {
        Code::InvalidInput => 2,
        Code::NotFound => 3,
        Code::AlreadyExists
        | Code::InvalidTransition
        | Code::StaleToken
        | Code::WorkflowMismatch
        | Code::NotAgentNode
        | Code::LeaseActive
        | Code::Conflict => 4,
        Code::Corrupt => 5,
        Code::Busy | Code::Locked | Code::Unavailable => 6,
        Code::Unsupported => 7,
        Code::Interrupted => interrupt::STATUS,
        _ => 1,
    }
}

/// How errors are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ErrorForm {
    /// For people.
    Text,
    /// The contract's object.
    Json,
}

impl ErrorForm {
    /// For people where they read it, unless the command says otherwise.
    pub(crate) fn by_terminal() -> ErrorForm {
        if io::stderr().is_terminal() { ErrorForm::Text } else { ErrorForm::Json }
    }
}

/// Says on standard error what went wrong, and gives the exit status.
pub(crate) fn report(form: ErrorForm, result: Result<Outcome>) -> ExitCode {
    match result {
        Ok(outcome) => ExitCode::from(outcome.status()),
        Err(Stop::ReaderLeft) => ExitCode::SUCCESS,
        Err(Stop::Error(error)) => {
            match form {
                ErrorForm::Text => eprintln!("runledger: {} ({})", shown(error.message()), error.code()),
                ErrorForm::Json => eprintln!("{}", error_to_json(&error)),
            }
            ExitCode::from(status(error.code()))
        }
    }
}

/// Says what is wrong with a command line, in the form of every other error, and gives the exit status. Help that was asked
/// for is no error.
pub(crate) fn refuse_usage(error: &clap::Error) -> ExitCode {
    let is_help = !error.use_stderr() || error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand;
    if is_help || asked_form(std::env::args()) == ErrorForm::Text {
        error.exit();
    }
    let text = error.render().to_string();
    let first = text.lines().next().unwrap_or_default();
    let message = first.strip_prefix("error: ").unwrap_or(first).trim_end_matches(':');
    report(ErrorForm::Json, Err(Error::invalid(wrong_argument(error), message).into()))
}

/// The form that a command line asks for that could not be read as a whole.
fn asked_form(arguments: impl Iterator<Item = String>) -> ErrorForm {
    let mut arguments = arguments.skip(1);
    while let Some(argument) = arguments.next() {
        let form = match argument.strip_prefix("--output") {
            Some("") => arguments.next(),
            Some(rest) => rest.strip_prefix('=').map(str::to_owned),
            None => None,
        };
        match form.as_deref() {
            Some("table") => return ErrorForm::Text,
            Some("json" | "ndjson") => return ErrorForm::Json,
            _ => {}
        }
    }
    ErrorForm::by_terminal()
}

/// The name of the argument that clap refuses, without dashes and brackets.
fn wrong_argument(error: &clap::Error) -> String {
    let named = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(name)) => name.clone(),
        Some(ContextValue::Strings(names)) => names.first().cloned().unwrap_or_default(),
        _ => String::new(),
    };
    let name = named.trim_start_matches(['-', '<']).split([' ', '=', '>', '.']).next().unwrap_or_default();
    if name.is_empty() { "command".to_owned() } else { name.to_lowercase() }
}

/// An error of the streams that the command was given.
pub(crate) fn stream_error(what: &str, error: &io::Error) -> Error {
    let code = if error.kind() == io::ErrorKind::StorageFull { Code::Full } else { Code::Io };
    Error::new(code, format!("{what}: {error}"))
}

/// A command line that can't be carried out, as far as clap can't tell.
pub(crate) fn usage(field: &str, message: impl std::fmt::Display) -> Error {
    Error::invalid(field, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_form_of_an_error_is_known_before_the_command_line_is() {
        let form = |line: &str| asked_form(line.split(' ').map(str::to_owned));
        assert_eq!(form("runledger runs list --status x --output json"), ErrorForm::Json);
        assert_eq!(form("runledger --output=ndjson nonsense"), ErrorForm::Json);
        assert_eq!(form("runledger runs --output table --limit -1"), ErrorForm::Text);
    }

    #[test]
    fn every_code_has_a_status_that_a_shell_can_tell_from_success() {
        for code in Code::ALL {
            assert_ne!(status(*code), 0, "{code}");
        }
        let refusals = Code::ALL.iter().filter(|code| status(**code) == 4).map(|code| code.number());
        assert_eq!(refusals.collect::<Vec<_>>(), [3, 4, 5, 6, 7, 8, 9]);
    }
}
