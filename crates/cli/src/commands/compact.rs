//! `runledger compact`.

use clap::Args;
use runledger::{Answer, CompactStore};

use crate::context::{Context, Form};
use crate::outcome::{Outcome, Result};
use crate::progress::spinner;
use crate::screen::text::bytes;

/// Give unused space back to the system
#[derive(Args)]
pub(crate) struct Compact {
    /// The store's address
    url: Option<String>,
}

impl Compact {
    pub(crate) fn run(self, cx: &Context) -> Result<Outcome> {
        let spinner = spinner("compacting");
        let compacted = cx.changing(self.url.as_deref(), |ledger| Ok(ledger.compact_store(CompactStore::new())?));
        spinner.finish_and_clear();
        let report = compacted?;
        let mut out = cx.out();
        if out.form == Form::Table {
            out.line(format!("{} before, {} after", bytes(report.bytes_before), bytes(report.bytes_after)))?;
        } else {
            out.json(&Answer::from(report).to_json())?;
        }
        out.flush()?;
        Ok(Outcome::Done)
    }
}
