//! Colour, where it is wanted.

use std::io::{self, IsTerminal};

use runledger::Status;
use unicode_width::UnicodeWidthStr;

/// Paints text, or leaves it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Paint {
    is_on: bool,
}

/// What a text is painted as.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Tone {
    Good,
    Bad,
    Busy,
    Held,
    Dim,
}

impl Paint {
    /// For standard output: on a terminal that can, unless NO_COLOR says no.
    pub(crate) fn for_stdout() -> Paint {
        let says_no = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let is_dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        Paint { is_on: io::stdout().is_terminal() && !says_no && !is_dumb }
    }

    pub(crate) fn off() -> Paint {
        Paint { is_on: false }
    }

    pub(crate) fn tone(self, tone: Tone, text: impl AsRef<str>) -> String {
        let text = text.as_ref();
        if !self.is_on || text.is_empty() {
            return text.to_owned();
        }
        let code = match tone {
            Tone::Good => "32",
            Tone::Bad => "31",
            Tone::Busy => "36",
            Tone::Held => "33",
            Tone::Dim => "2",
        };
        format!("\x1b[{code}m{text}\x1b[0m")
    }

    pub(crate) fn status(self, status: Status) -> String {
        self.tone(tone_of(status), status.as_str())
    }
}

/// How many columns a text takes up, whether it is painted or not.
pub(crate) fn visible_width(text: &str) -> usize {
    // What is painted here ends its sequences with an m, and other sequences are never let in.
    text.split('\x1b')
        .enumerate()
        .map(|(at, part)| if at == 0 { part } else { part.split_once('m').map_or("", |(_, rest)| rest) }.width())
        .sum()
}

/// How a status looks.
pub(crate) fn tone_of(status: Status) -> Tone {
    match status {
        Status::Queued => Tone::Dim,
        Status::Running => Tone::Busy,
        Status::Waiting => Tone::Held,
        Status::Succeeded => Tone::Good,
        Status::Failed => Tone::Bad,
        Status::Cancelled => Tone::Dim,
    }
}
