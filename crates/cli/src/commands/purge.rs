//! `runledger purge`.

use clap::Args;
use runledger::{EndStatus, GetRunStats, Id, Ledger, PurgeRuns, Purged, Status, Time};

use super::args::{end_status, ids};
use super::confirm::Yes;
use crate::context::{Context, Form};
use crate::interrupt::{self, Stoppable};
use crate::outcome::{Outcome, Result};
use crate::progress::bar;
use crate::screen::out::note;
use crate::screen::text::{counted, records, shown};
use crate::screen::time::{When, local_and_ago};

/// Delete runs of a project that finished before a time, with all that is under them
///
/// It deletes a thousand runs at a time, each thousand in one step, the longest finished first. Stopped in between, what
/// was deleted stays deleted and the rest stays. The space is used again; compact gives it back.
#[derive(Args)]
pub(crate) struct Purge {
    /// Finished before: 30d ago, or a time such as 2026-03-01T00:00:00Z
    #[arg(long, value_name = "30d|TIME")]
    finished_before: When,
    /// Only runs that ended so
    #[arg(long, value_parser = end_status, value_delimiter = ',', value_name = "STATUS")]
    status: Vec<EndStatus>,
    /// Only runs of these workflows
    #[arg(long, value_name = "ID")]
    workflow: Vec<String>,
    #[command(flatten)]
    yes: Yes,
}

impl Purge {
    pub(crate) fn run(self, cx: &Context) -> Result<Outcome> {
        self.yes.check()?;
        let before = self.finished_before.time(cx.now);
        cx.changing(None, |ledger| {
            let project = cx.project(ledger)?;
            let ended = self.ended(ledger, &project)?;
            let which = format!("runs of project {} that finished before {}", shown(&project), local_and_ago(before, cx.now));
            note(cx.form(), format!("{} ended in this project; those of them go that finished before then", counted(ended, "run")));
            if !self.yes.to(&format!("Delete all {which}?"))? {
                note(cx.form(), "nothing was deleted");
                return Ok(Outcome::Done);
            }
            let purged = self.purge(ledger, &project, before, ended)?;
            let mut out = cx.out();
            if out.form == Form::Table {
                out.line(format!("deleted {}", records(purged.runs, purged.nodes, purged.agents)))?;
            } else {
                out.json(&runledger::Answer::from(purged).to_json())?;
            }
            out.flush()?;
            Ok(Outcome::Done)
        })
    }

    /// How many runs ended that the filters let through: no fewer than are to be deleted.
    fn ended(&self, ledger: &Ledger, project: &Id) -> Result<u64> {
        let mut query = GetRunStats::new(project);
        query.workflow_ids = ids(&self.workflow);
        let statuses = if self.status.is_empty() { EndStatus::ALL } else { &self.status };
        let counts = ledger.run_stats(query)?.by_status;
        Ok(statuses.iter().map(|status| counts.of(Status::from(*status))).sum())
    }

    fn purge(&self, ledger: &Ledger, project: &Id, before: Time, ended: u64) -> Result<Purged> {
        let _stoppable = Stoppable::new();
        let bar = bar("deleting", ended);
        let mut all = Purged::default();
        loop {
            let mut step = PurgeRuns::new(project, before);
            step.workflow_ids = ids(&self.workflow);
            step.statuses = (!self.status.is_empty()).then(|| self.status.clone());
            let purged = ledger.purge_runs(step)?;
            (all.runs, all.nodes, all.agents) = (all.runs + purged.runs, all.nodes + purged.nodes, all.agents + purged.agents);
            bar.set_position(all.runs);
            if !purged.has_more {
                bar.finish_and_clear();
                return Ok(all);
            }
            interrupt::check()?;
        }
    }
}
