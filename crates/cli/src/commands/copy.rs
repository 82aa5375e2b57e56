//! `runledger copy`: the records of one store into another.

use clap::Args;
use runledger::Result;

use super::{closing, open_source};
use crate::outcome::print_answer;

/// Store all records of one store in another, in one step.
///
/// As export into import: the other store may have another backend and may hold records already. Answers how many records
/// were stored and skipped. A FROM that is not there is an error and is not created, unless its address says mode=create.
#[derive(Args)]
pub(crate) struct Copy {
    /// The address of the store to read
    from: String,
    /// The address of the store to write
    to: String,
}

impl Copy {
    pub(crate) fn run(self) -> Result<()> {
        let from = open_source(&self.from)?;
        let imported = closing(&from, |from| closing(&runledger::open(&self.to)?, |to| from.copy_to(to)))?;
        print_answer(&imported.to_json())
    }
}
