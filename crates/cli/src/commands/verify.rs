//! `runledger verify`.

use clap::Args;
use runledger::{Answer, VerifyReport};

use crate::context::{Context, Form};
use crate::outcome::{Outcome, Result};
use crate::progress::Bar;
use crate::screen::out::{Out, note};
use crate::screen::table::Sheet;
use crate::screen::text::{records, shown};

/// Hold indexes, counters, checksums and references against the records
///
/// It reads the whole store and never repairs. Ends with 5 when something is not as it must be.
#[derive(Args)]
pub(crate) struct Verify {
    /// The store's address
    url: Option<String>,
}

impl Verify {
    pub(crate) fn run(self, cx: &Context) -> Result<Outcome> {
        let mut bar = Bar::new();
        let report = cx.reading(self.url.as_deref(), |ledger| Ok(ledger.verify_store_with(&mut |progress| bar.tell(progress))?))?;
        drop(bar);
        let outcome = if report.is_ok() { Outcome::Done } else { Outcome::Findings };
        let mut out = cx.out();
        match out.form {
            Form::Table => print(&mut out, &report)?,
            Form::Json | Form::Ndjson => out.json(&Answer::from(report).to_json())?,
        }
        out.flush()?;
        Ok(outcome)
    }
}

fn print(out: &mut Out, report: &VerifyReport) -> Result<()> {
    let mut sheet = Sheet::new(&["KIND", "RECORD", "PROJECT", "ID", "PROBLEM"]);
    let text = |id: Option<&str>| id.map(|id| shown(id).into_owned()).unwrap_or_default();
    for problem in &report.problems {
        sheet.row(vec![
            problem.kind.to_owned(),
            problem.entity.map(|entity| entity.as_str().to_owned()).unwrap_or_default(),
            text(problem.project_id.as_deref()),
            text(problem.id.as_deref()),
            shown(&problem.message).into_owned(),
        ]);
    }
    if !sheet.is_empty() {
        out.table(&sheet)?;
    }
    let checked = report.checked;
    let engine = if report.engine_check_done { "done" } else { "skipped" };
    let verdict = match report.problems.len() {
        0 => "sound".to_owned(),
        VerifyReport::MAX_PROBLEMS => format!("{} problems or more", VerifyReport::MAX_PROBLEMS),
        1 => "1 problem".to_owned(),
        several => format!("{several} problems"),
    };
    let counts = records(checked.runs, checked.nodes, checked.agents);
    out.line(format!("{verdict}: {counts} checked; the engine's own check: {engine}"))?;
    out.flush()?;
    if !report.is_ok() {
        note(out.form, "verify never repairs: restore a backup, or export what can be read");
    }
    Ok(())
}
