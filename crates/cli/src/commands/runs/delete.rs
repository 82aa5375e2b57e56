//! `runledger runs delete`.

use clap::Args;
use runledger::{Answer, DeleteRun};

use crate::context::{Context, Form};
use crate::outcome::{Outcome, Result};
use crate::screen::text::records;

/// Delete a run that ended, with its node runs and their agent runs
#[derive(Args)]
pub(crate) struct Delete {
    /// The run
    id: String,
}

impl Delete {
    pub(crate) fn run(self, cx: &Context) -> Result<Outcome> {
        let deleted = cx.changing(None, |ledger| Ok(ledger.delete_run(DeleteRun::new(cx.project(ledger)?, &self.id))?))?;
        let mut out = cx.out();
        if out.form == Form::Table {
            out.line(format!("deleted {}", records(deleted.runs, deleted.nodes, deleted.agents)))?;
        } else {
            out.json(&Answer::from(deleted).to_json())?;
        }
        out.flush()?;
        Ok(Outcome::Done)
    }
}
