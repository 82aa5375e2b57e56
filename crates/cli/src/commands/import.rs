//! `runledger import`: a stream's records into a store.

use std::fs::File;
use std::io::{self, Read, Seek};

use clap::Args;
use runledger::{Code, Error, Result};

use super::closing;
use crate::outcome::print_answer;

/// Read a stream that export wrote from standard input, and store its records in one step.
///
/// The whole stream is checked before the store is touched. A record that is there already and equal is skipped; where a
/// different one has the same key, nothing is kept. Answers how many records were stored and skipped.
#[derive(Args)]
pub(crate) struct Import {
    /// The store's address
    url: String,
}

impl Import {
    pub(crate) fn run(self) -> Result<()> {
        // Whoever writes the stream may be slow, and the store is not to be held meanwhile.
        let mut stream = spooled(&mut io::stdin().lock())?;
        let imported = closing(&runledger::open(&self.url)?, |ledger| ledger.import(&mut stream))?;
        print_answer(&imported.to_json())
    }
}

/// What can be read from `input`, in a temporary file.
fn spooled(input: &mut impl Read) -> Result<File> {
    let mut spool = || {
        let mut file = tempfile::tempfile()?;
        io::copy(input, &mut file)?;
        file.rewind()?;
        Ok(file)
    };
    spool().map_err(|error: io::Error| {
        let code = if error.kind() == io::ErrorKind::StorageFull { Code::Full } else { Code::Io };
        Error::new(code, format!("the stream or its temporary file: {error}"))
    })
}
