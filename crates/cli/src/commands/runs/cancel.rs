//! `runledger runs cancel`.

use clap::{ArgGroup, Args};
use runledger::{Answer, AnswerForm, CancelRun, Run, Text};

use super::found::{Criteria, words};
use super::guarded::{cancel, each};
use super::reclaim::{may_act, print_fates};
use crate::commands::confirm::Yes;
use crate::context::{Context, Form};
use crate::interrupt::Stoppable;
use crate::outcome::{Outcome, Result, usage};
use crate::screen::rows::print_table;
use crate::screen::table::Sheet;
use crate::screen::text::{counted, shown};

/// Cancel a run, with all its node runs and agent runs that have not ended
///
/// No token is asked: it is an operator's stop, and the owner's next call is refused. With --stuck, every run that `runs
/// stuck` finds: they are shown first, and each is cancelled unless it recovered meanwhile. What waits for a person waits
/// long: --why lease-ended leaves that out.
#[derive(Args)]
#[command(group = ArgGroup::new("which").required(true).args(["id", "stuck"]))]
pub(crate) struct Cancel {
    /// The run
    id: Option<String>,
    /// Every run that is stuck; without a project, of all projects
    #[arg(long)]
    stuck: bool,
    /// The error that the run and all under it get
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    #[command(flatten)]
    criteria: Criteria,
    #[command(flatten)]
    yes: Yes,
}

impl Cancel {
    pub(crate) fn run(self, cx: &Context) -> Result<Outcome> {
        match &self.id {
            Some(id) => self.one(cx, id),
            None if self.stuck => self.all_stuck(cx),
            None => Err(usage("id", "a run, or --stuck").into()),
        }
    }

    fn one(&self, cx: &Context, id: &str) -> Result<Outcome> {
        let run = cx.changing(None, |ledger| {
            let mut cancel = CancelRun::new(cx.project(ledger)?, id).with_answer(AnswerForm::State);
            cancel.error = self.reason.as_deref().map(Text::from);
            Ok(ledger.cancel_run(cancel)?)
        })?;
        let mut out = cx.out();
        match out.form {
            Form::Table => print_table(cx, &mut out, [&run])?,
            Form::Json | Form::Ndjson => out.json(&Answer::from(run).to_json())?,
        }
        out.flush()?;
        Ok(Outcome::Done)
    }

    fn all_stuck(&self, cx: &Context) -> Result<Outcome> {
        self.yes.check()?;
        cx.changing(None, |ledger| {
            let found = self.criteria.runs(cx, ledger, &cx.projects(ledger)?, runledger::MAX_ROWS as usize)?;
            let asked = format!("Cancel {}, with all that is under them?", counted(found.len() as u64, "run"));
            if !may_act(cx, &found, &self.yes, &asked)? {
                return Ok(Outcome::Done);
            }
            let _stoppable = Stoppable::new();
            let fates = each(found, |found| {
                let reason = self.reason.clone().unwrap_or_else(|| format!("cancelled by an operator: stuck ({})", words(found.why)));
                cancel(ledger, found, &Text::from(reason), cx.now, cx.present())
            })?;
            print_fates(cx, "cancelled", fates, cancelled)
        })
    }
}

fn cancelled(runs: &[&Run]) -> Sheet {
    let mut sheet = Sheet::new(&["PROJECT", "ID", "STATUS", "ERROR"]);
    for run in runs {
        let error = run.error.as_deref().map(|error| shown(error).into_owned()).unwrap_or_default();
        sheet.row(vec![shown(&run.project_id).into_owned(), shown(&run.id).into_owned(), run.status.to_string(), error]);
    }
    sheet
}
