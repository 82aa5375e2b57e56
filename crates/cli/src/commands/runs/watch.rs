//! `runledger runs watch`.

use std::collections::HashMap;
use std::thread;
use std::time::Duration;

use clap::Args;
use runledger::{AnswerForm, Id, ListRuns, Status};

use super::show::Family;
use crate::context::{Context, Form};
use crate::outcome::{Outcome, Result};
use crate::screen::out::Out;
use crate::screen::rows::{Look, Row, print_table};
use crate::screen::text::shown;
use crate::screen::time::{Span, local};

/// Follow a run until it ends, or the runs that are active
///
/// With a run, a line for each change of it, its node runs and their agent runs; ends with it. Without one, the active
/// runs of the project, again and again. Nothing is held open between two looks.
#[derive(Args)]
pub(crate) struct Watch {
    /// The run
    id: Option<String>,
    /// How long to wait between two looks
    #[arg(long, default_value = "2s", value_name = "SPAN")]
    interval: Span,
    /// Look so many times, then end
    #[arg(long, value_name = "N")]
    looks: Option<u64>,
    /// The most active runs to show
    #[arg(long, default_value_t = 20, value_name = "N")]
    limit: u32,
}

impl Watch {
    pub(crate) fn run(self, cx: &Context) -> Result<Outcome> {
        let mut out = cx.out();
        let mut seen = HashMap::new();
        for look in 1.. {
            let goes_on = match &self.id {
                Some(id) => follow(cx, &mut out, id, &mut seen)?,
                None => self.active(cx, &mut out, look)?,
            };
            out.flush()?;
            if !goes_on || self.looks.is_some_and(|looks| look >= looks) {
                break;
            }
            thread::sleep(Duration::from_micros(u64::try_from(self.interval.us).unwrap_or(0)));
        }
        Ok(Outcome::Done)
    }

    fn active(&self, cx: &Context, out: &mut Out, look: u64) -> Result<bool> {
        let active = vec![Status::Queued, Status::Running, Status::Waiting];
        let page = cx.reading(None, |ledger| {
            let query = ListRuns::new(cx.project(ledger)?).with_statuses(active).with_limit(self.limit);
            Ok(ledger.list_runs(query.with_answer(AnswerForm::State))?)
        })?;
        let cx = cx.at_present();
        match out.form {
            Form::Table => {
                if out.is_terminal() {
                    // To the first place of a screen that is cleared.
                    out.text("\x1b[H\x1b[2J")?;
                } else if look > 1 {
                    out.text("\n")?;
                }
                out.line(format!("{}: {} active", local(cx.now), page.total.unwrap_or(0)))?;
                out.flush()?;
                if !page.rows.is_empty() {
                    print_table(&cx, out, &page.rows)?;
                }
            }
            Form::Json => out.json(&runledger::Answer::from(page).to_json())?,
            Form::Ndjson => page.rows.iter().try_for_each(|run| out.json(&Row::json(run)))?,
        }
        Ok(true)
    }
}

/// A record that is followed: what kind, and its id.
type Key = (&'static str, Id);

/// Prints what changed since the last look, and says whether more may come.
fn follow(cx: &Context, out: &mut Out, id: &str, seen: &mut HashMap<Key, String>) -> Result<bool> {
    let family = cx.reading(None, |ledger| Family::read(ledger, &cx.project(ledger)?, id, AnswerForm::State, usize::MAX - 1))?;
    let cx = cx.at_present();
    let look = Look::new(&cx, out);
    let mut tell = |key: Key, json: String, text: String| -> Result<()> {
        if seen.get(&key) == Some(&json) {
            return Ok(());
        }
        match out.form {
            Form::Table => out.line(format!("{}  {text}", local(cx.now)))?,
            Form::Json | Form::Ndjson => out.json(&format!("{{\"{}\":{json}}}", key.0))?,
        }
        seen.insert(key, json);
        Ok(())
    };
    for (node, agent) in &family.nodes {
        let took = look.took(Some(node.started_at), node.finished_at);
        let text = format!("node {} {} {took}", shown(&node.node_key), look.paint.status(node.status));
        tell(("node", node.id.clone()), node.json(), text)?;
        if let Some(agent) = agent {
            let [owner, lease] = look.owner(agent.execution.as_ref());
            let text =
                format!("agent {} {} attempt {} {owner} {lease}", shown(&agent.agent_id), look.paint.status(agent.status), agent.attempt);
            tell(("agent", agent.node_run_id.clone()), agent.json(), text.trim_end().to_owned())?;
        }
    }
    let run = &family.run;
    let [owner, lease] = look.owner(run.execution.as_ref());
    let text = format!("run {} {} attempt {} {owner} {lease}", shown(&run.id), look.paint.status(run.status), run.attempt);
    tell(("run", run.id.clone()), run.json(), text.trim_end().to_owned())?;
    Ok(run.finished_at.is_none())
}
