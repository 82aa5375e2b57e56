//! `runledger import`: a stream's records into a store.

use std::io;

use clap::Args;
use runledger::Result;

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
        let imported = closing(&runledger::open(&self.url)?, |ledger| ledger.import(&mut io::stdin().lock()))?;
        print_answer(&imported.to_json())
    }
}
