//! How a command ends: what it says of an error, and its exit status.

use std::io::{self, Write};
use std::process::ExitCode;

use runledger::{Code, Error, Result, error_to_json};

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
        Code::Interrupted => 130,
        _ => 1,
    }
}

/// Says on standard error what went wrong, and gives the exit status.
pub(crate) fn report(result: Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{}", error_to_json(&error));
            ExitCode::from(status(error.code()))
        }
    }
}

/// Writes what answers the command, on a line of standard output.
pub(crate) fn print_answer(json: &str) -> Result<()> {
    writeln!(io::stdout(), "{json}").map_err(|e| stream_error("writing standard output", &e))
}

/// An error of the streams that the command was given.
pub(crate) fn stream_error(what: &str, error: &io::Error) -> Error {
    Error::new(Code::Io, format!("{what}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_a_status_that_a_shell_can_tell_from_success() {
        for code in Code::ALL {
            assert_ne!(status(*code), 0, "{code}");
        }
        let refusals = Code::ALL.iter().filter(|code| status(**code) == 4).map(|code| code.number());
        assert_eq!(refusals.collect::<Vec<_>>(), [3, 4, 5, 6, 7, 8, 9]);
    }
}
