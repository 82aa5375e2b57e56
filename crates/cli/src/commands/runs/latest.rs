//! `runledger runs latest`.

use clap::Args;
use runledger::{Answer, GetRunStats, LatestRuns};

use crate::commands::args::{answer, ids};
use crate::context::{Context, Form};
use crate::outcome::{Outcome, Result};
use crate::screen::rows::{Row, print_table};

/// Show the newest run of each workflow
#[derive(Args)]
pub(crate) struct Latest {
    /// Only of these workflows; of all when none is given
    #[arg(long, value_name = "ID")]
    workflow: Vec<String>,
    /// With payloads, in JSON
    #[arg(long)]
    payloads: bool,
}

impl Latest {
    pub(crate) fn run(self, cx: &Context) -> Result<Outcome> {
        cx.reading(None, |ledger| {
            let project = cx.project(ledger)?;
            let workflows = match ids(&self.workflow) {
                Some(workflows) => workflows,
                None => ledger.run_stats(GetRunStats::new(&project))?.by_workflow.into_iter().map(|(workflow, _)| workflow).collect(),
            };
            let latest = ledger.latest_runs(LatestRuns::new(project, workflows).with_answer(answer(self.payloads)))?;
            let mut out = cx.out();
            match out.form {
                Form::Table => print_table(cx, &mut out, &latest.runs)?,
                Form::Json => out.json(&Answer::from(latest).to_json())?,
                Form::Ndjson => latest.runs.iter().try_for_each(|run| out.json(&Row::json(run)))?,
            }
            out.flush()?;
            Ok(Outcome::Done)
        })
    }
}
