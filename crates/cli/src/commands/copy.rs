//! `runledger copy`: the records of one store into another.

use clap::Args;
use runledger::{CheckedStream, Mode};

use super::import::print_imported;
use crate::context::Context;
use crate::outcome::{Outcome, Result};
use crate::progress::Bar;

/// Store all records of one store in another, in one step
///
/// As export into import: the other store may have another backend and may hold records already. All records are read and
/// checked before the other store is opened, and then stored all or not at all: killed at any moment, the other store has
/// what it had, and the copy can be made again. Answers how many records were stored and skipped, in JSON unless
/// --output says otherwise. A FROM that is not there is an error and is not created.
#[derive(Args)]
pub(crate) struct Copy {
    /// The address of the store to read
    from: String,
    /// The address of the store to write
    to: String,
}

impl Copy {
    pub(crate) fn run(self, cx: &Context) -> Result<Outcome> {
        let limits = runledger::options_at(&self.to, cx.options(Mode::Create))?.limits();
        let mut bar = Bar::new();
        let mut stream =
            cx.reading(Some(&self.from), |from| Ok(CheckedStream::of_with(from, limits, &mut |progress| bar.tell(progress))?))?;
        let imported = cx.filling(Some(&self.to), |to| Ok(to.import_checked_with(&mut stream, &mut |progress| bar.tell(progress))?))?;
        drop(bar);
        print_imported(cx, &imported)
    }
}
