//! `runledger completions`.

use std::io::{self, Write};

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::Arguments;
use crate::outcome::{Outcome, Result};

/// Write a shell's completions, to be sourced or put where the shell looks for them
#[derive(Args)]
pub(crate) struct Completions {
    /// The shell
    shell: Shell,
}

impl Completions {
    pub(crate) fn run(self) -> Result<Outcome> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Arguments::command(), "runledger", &mut script);
        io::stdout().write_all(&script)?;
        Ok(Outcome::Done)
    }
}
