//! `runledger runs stuck`.

use clap::Args;

use super::found::{Criteria, Found, sheet};
use crate::context::{Context, Form};
use crate::outcome::{Outcome, Result};
use crate::screen::out::{note, tell};
use crate::screen::rows::{Look, Row};

/// Find runs and agent runs whose lease ended, or that have been queued or waiting for too long
///
/// Without a project, of all projects. It only reads. Ends with 5 when it finds something.
#[derive(Args)]
pub(crate) struct StuckRuns {
    #[command(flatten)]
    criteria: Criteria,
    /// The most rows of one reason and project, 10000 at most
    #[arg(long, default_value_t = 1000, value_name = "N")]
    limit: usize,
}

impl StuckRuns {
    pub(crate) fn run(self, cx: &Context) -> Result<Outcome> {
        let (runs, agents) = cx.reading(None, |ledger| {
            let projects = cx.projects(ledger)?;
            let runs = self.criteria.runs(cx, ledger, &projects, self.limit)?;
            Ok((runs, self.criteria.agents(cx, ledger, &projects, self.limit)?))
        })?;
        let mut out = cx.out();
        let may_have_more = runs.len().max(agents.len()) >= self.limit;
        let records = || runs.iter().map(|found| json("run", found)).chain(agents.iter().map(|found| json("agent", found)));
        match out.form {
            Form::Json => {
                let records = records().collect::<Vec<_>>().join(",");
                out.json(&format!("{{\"stuck\":[{records}],\"hasMore\":{may_have_more}}}"))?;
            }
            Form::Ndjson => records().try_for_each(|record| out.json(&record))?,
            Form::Table if runs.is_empty() && agents.is_empty() => note(out.form, "nothing is stuck"),
            Form::Table => out.table(&sheet(Look::new(cx, &out), &runs, &agents))?,
        }
        out.flush()?;
        if may_have_more && out.form != Form::Json {
            tell("there may be more: --limit");
        }
        Ok(if runs.is_empty() && agents.is_empty() { Outcome::Done } else { Outcome::Findings })
    }
}

fn json<R: Row>(name: &str, found: &Found<R>) -> String {
    format!("{{\"why\":\"{}\",\"since\":\"{}\",\"{name}\":{}}}", found.why, found.since, found.record.json())
}
