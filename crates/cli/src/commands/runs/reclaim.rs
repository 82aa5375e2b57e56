//! `runledger runs reclaim`.

use clap::{ArgGroup, Args};
use runledger::{Answer, AnswerForm, Execution, ReclaimRun, Run};

use super::found::{Criteria, Why, sheet};
use super::guarded::{Fate, each, fresh_token, reclaim};
use crate::commands::confirm::Yes;
use crate::context::{Context, Form};
use crate::interrupt::Stoppable;
use crate::outcome::{Outcome, Result, usage};
use crate::screen::out::note;
use crate::screen::rows::{Look, Row};
use crate::screen::table::Sheet;
use crate::screen::text::{counted, shown};
use crate::screen::time::{Span, local_and_ago};

/// Take a running run away from its owner, whose lease ended
///
/// The owner is fenced off: its next call is refused as stale_token. A run is taken only if its lease ended, unless --force
/// says otherwise. With --stuck, every run whose lease ended: they are shown first, and each is taken with a token of its
/// own unless it recovered meanwhile.
#[derive(Args)]
#[command(group = ArgGroup::new("which").required(true).args(["id", "stuck"]))]
pub(crate) struct Reclaim {
    /// The run
    #[arg(requires = "token")]
    id: Option<String>,
    /// Every run whose lease ended; without a project, of all projects
    #[arg(long, requires = "token_prefix")]
    stuck: bool,
    /// The token of the new owner; it must be one that was never used
    #[arg(long, conflicts_with = "stuck")]
    token: Option<String>,
    /// What the fresh token of each run begins with
    #[arg(long, conflicts_with = "id", value_name = "PREFIX")]
    token_prefix: Option<String>,
    /// How long the new owner may take to confirm
    #[arg(long, value_name = "SPAN")]
    lease: Span,
    /// Take it even though its lease has not ended
    #[arg(long, conflicts_with = "stuck")]
    force: bool,
    #[command(flatten)]
    yes: Yes,
}

impl Reclaim {
    pub(crate) fn run(self, cx: &Context) -> Result<Outcome> {
        match (&self.id, &self.token, &self.token_prefix) {
            (Some(id), Some(token), _) => self.one(cx, id, token),
            (None, _, Some(prefix)) => self.all_stuck(cx, prefix),
            _ => Err(usage("id", "a run with --token, or --stuck with --token-prefix").into()),
        }
    }

    fn one(&self, cx: &Context, id: &str, token: &str) -> Result<Outcome> {
        let run = cx.changing(None, |ledger| {
            let execution = Execution::new(token, cx.now.plus_us(self.lease.us));
            let mut reclaim = ReclaimRun::new(cx.project(ledger)?, id, execution).with_answer(AnswerForm::State);
            reclaim.lease_expired_by = (!self.force).then_some(cx.now);
            Ok(ledger.reclaim_run(reclaim)?)
        })?;
        let mut out = cx.out();
        match out.form {
            Form::Table => out.table(&owners(cx, [&run]))?,
            Form::Json | Form::Ndjson => out.json(&Answer::from(run).to_json())?,
        }
        out.flush()?;
        Ok(Outcome::Done)
    }

    fn all_stuck(&self, cx: &Context, prefix: &str) -> Result<Outcome> {
        self.yes.check()?;
        cx.changing(None, |ledger| {
            let criteria = Criteria::only(Why::LeaseEnded);
            let found = criteria.runs(cx, ledger, &cx.projects(ledger)?, runledger::MAX_ROWS as usize)?;
            let asked = format!("Reclaim {}?", counted(found.len() as u64, "run"));
            if !may_act(cx, &found, &self.yes, &asked)? {
                return Ok(Outcome::Done);
            }
            let _stoppable = Stoppable::new();
            let fates = each(found, |found| {
                let execution = Execution::new(fresh_token(prefix), cx.present().plus_us(self.lease.us));
                reclaim(ledger, &found.record, execution, cx.now)
            })?;
            print_fates(cx, "reclaimed", fates, |runs| owners(cx, runs.iter().copied()))
        })
    }
}

/// Who owns the runs now.
fn owners<'r>(cx: &Context, runs: impl IntoIterator<Item = &'r Run>) -> Sheet {
    let mut sheet = Sheet::new(&["PROJECT", "ID", "ATTEMPT", "TOKEN", "LEASE"]).right([2]);
    for run in runs {
        let (token, lease) = run.execution.as_ref().map_or_else(Default::default, |execution| {
            (shown(&execution.token).into_owned(), local_and_ago(execution.lease_expires_at, cx.now))
        });
        sheet.row(vec![shown(&run.project_id).into_owned(), shown(&run.id).into_owned(), run.attempt.to_string(), token, lease]);
    }
    sheet
}

/// Shows what was found, and asks whether to act on it.
pub(super) fn may_act(cx: &Context, found: &[super::found::Found<Run>], yes: &Yes, question: &str) -> Result<bool> {
    if found.is_empty() {
        note(cx.form(), "nothing is stuck");
        if cx.form() != Form::Table {
            print_fates(cx, "done", Vec::new(), |_| Sheet::new(&[]))?;
        }
        return Ok(false);
    }
    let look = Look { paint: crate::screen::paint::Paint::off(), now: cx.now };
    eprint!("{}", sheet(look, found, &[]).render(None, &mut None));
    let agreed = yes.to(question)?;
    if !agreed {
        note(cx.form(), "nothing was done");
    }
    Ok(agreed)
}

/// Says what became of each.
pub(super) fn print_fates<'a>(cx: &Context, done: &str, fates: Vec<Fate>, table: impl FnOnce(&[&Run]) -> Sheet + 'a) -> Result<Outcome> {
    let runs: Vec<&Run> = fates.iter().filter_map(|fate| if let Fate::Done(run) = fate { Some(run) } else { None }).collect();
    let failed: Vec<_> =
        fates.iter().filter_map(|fate| if let Fate::Failed(run, error) = fate { Some((run, error)) } else { None }).collect();
    let recovered = fates.len() - runs.len() - failed.len();
    let mut out = cx.out();
    match out.form {
        Form::Table => {
            if !runs.is_empty() {
                out.table(&table(&runs))?;
            }
            out.flush()?;
            for (run, error) in &failed {
                note(out.form, format!("{}: {}", shown(&run.id), shown(error.message())));
            }
            note(out.form, format!("{} {done}, {recovered} recovered meanwhile, {} failed", runs.len(), failed.len()));
        }
        Form::Json => {
            let list = |items: Vec<String>| items.join(",");
            let done = list(runs.iter().map(|run| run.json()).collect());
            let errors = list(failed.iter().map(|(_, error)| error.to_json()).collect());
            out.json(&format!("{{\"runs\":[{done}],\"recovered\":{recovered},\"errors\":[{errors}]}}"))?;
        }
        Form::Ndjson => {
            runs.iter().try_for_each(|run| out.json(&run.json()))?;
            failed.iter().for_each(|(_, error)| eprintln!("{}", runledger::error_to_json(error)));
        }
    }
    out.flush()?;
    Ok(if failed.is_empty() { Outcome::Done } else { Outcome::PartlyFailed })
}
