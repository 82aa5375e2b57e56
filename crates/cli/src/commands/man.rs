//! `runledger man`.

use std::io::{self, Write};
use std::path::PathBuf;

use clap::{Args, CommandFactory};

use crate::Arguments;
use crate::outcome::{Outcome, Result, stream_error};

/// Write the manual page, or all pages into a directory
#[derive(Args)]
pub(crate) struct Man {
    /// Write a page for every command into this directory, which must be there
    #[arg(short, long, value_name = "DIR")]
    out: Option<PathBuf>,
}

impl Man {
    pub(crate) fn run(self) -> Result<Outcome> {
        match self.out {
            Some(directory) => clap_mangen::generate_to(Arguments::command(), &directory)
                .map_err(|error| stream_error(&format!("writing {}", directory.display()), &error))?,
            None => {
                let mut page = Vec::new();
                clap_mangen::Man::new(Arguments::command()).render(&mut page)?;
                io::stdout().write_all(&page)?;
            }
        }
        Ok(Outcome::Done)
    }
}
