//! `runledger import`: a stream's records into a store.

use std::io;

use clap::Args;
use runledger::{CheckedStream, Imported, Mode};

use crate::context::{Context, Form};
use crate::outcome::{Outcome, Result};
use crate::progress::Bar;
use crate::screen::out::Out;
use crate::screen::text::records;

/// Read a stream that export wrote from standard input, and store its records in one step
///
/// The whole stream is checked before the store is opened, and none is created for a stream that is refused. A record that
/// is there already and equal is skipped; where a different one has the same key, nothing is kept. Answers how many
/// records were stored and skipped, in JSON unless --output says otherwise.
#[derive(Args)]
pub(crate) struct Import {
    /// The store's address
    url: Option<String>,
}

impl Import {
    pub(crate) fn run(self, cx: &Context) -> Result<Outcome> {
        let address = cx.address(self.url.as_deref())?;
        let limits = runledger::options_at(address, cx.options(Mode::Create))?.limits();
        let mut bar = Bar::of_waiting();
        let mut stream = CheckedStream::read_with(&mut io::stdin().lock(), limits, &mut |progress| bar.tell(progress))?;
        drop(bar);
        let mut bar = Bar::new();
        let imported =
            cx.filling(Some(address), |ledger| Ok(ledger.import_checked_with(&mut stream, &mut |progress| bar.tell(progress))?))?;
        drop(bar);
        print_imported(cx, &imported)
    }
}

/// Says what was stored. Programs drive this, so that JSON is the usual form.
pub(crate) fn print_imported(cx: &Context, imported: &Imported) -> Result<Outcome> {
    let mut out = Out::new(cx.form_or(Form::Json));
    if out.form == Form::Table {
        let Imported { runs, nodes, agents, skipped, .. } = imported;
        out.line(format!("{} stored; {skipped} were there already", records(*runs, *nodes, *agents)))?;
    } else {
        out.json(&imported.to_json())?;
    }
    out.flush()?;
    Ok(Outcome::Done)
}
