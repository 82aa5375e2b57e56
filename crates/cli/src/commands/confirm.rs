//! The yes that a bulk action needs.

use std::io::{self, BufRead, IsTerminal, Write};

use clap::Args;

use crate::outcome::{Result, stream_error, usage};

/// Whether the yes was given beforehand.
#[derive(Args)]
pub(crate) struct Yes {
    /// Do it without asking
    #[arg(short, long)]
    yes: bool,
}

impl Yes {
    /// Whether there is nobody to ask and nothing was said: known before anything is read.
    pub(crate) fn check(&self) -> Result<()> {
        if self.yes || (io::stdin().is_terminal() && io::stderr().is_terminal()) {
            return Ok(());
        }
        Err(usage("yes", "there is no terminal to ask on: say -y/--yes to do it without being asked").into())
    }

    /// Asks, unless the answer was given.
    pub(crate) fn to(&self, question: &str) -> Result<bool> {
        self.check()?;
        if self.yes {
            return Ok(true);
        }
        eprint!("{question} [y/N] ");
        let mut answer = String::new();
        let read = io::stderr().flush().and_then(|()| io::stdin().lock().read_line(&mut answer));
        read.map_err(|error| stream_error("asking", &error))?;
        Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
    }
}
