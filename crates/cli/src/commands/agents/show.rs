//! `runledger agents show`.

use clap::Args;
use runledger::{AgentRun, Answer, Code, Entity, Error, GetAgent, Record};

use crate::commands::args::answer;
use crate::context::{Context, Form};
use crate::outcome::{Outcome, Result};
use crate::screen::out::Out;
use crate::screen::rows::Look;
use crate::screen::text::shown;
use crate::screen::time::local_and_ago;

/// Show an agent run: who owns it, what it was asked, how it ended
#[derive(Args)]
pub(crate) struct Show {
    /// The node run that it executes
    node_run_id: String,
    /// With its prompt, usage, trace and diagnostics
    #[arg(long)]
    payloads: bool,
}

impl Show {
    pub(crate) fn run(self, cx: &Context) -> Result<Outcome> {
        let agent = cx.reading(None, |ledger| {
            let project = cx.project(ledger)?;
            let found = ledger.get_agent(GetAgent::new(&project, &self.node_run_id).with_answer(answer(self.payloads)))?;
            let id = self.node_run_id.as_str().into();
            Ok(found.ok_or_else(|| Error::refused(Code::NotFound, Entity::Agent, &project, &id, "there is none"))?)
        })?;
        let mut out = cx.out();
        if out.form == Form::Table {
            self.print(cx, &mut out, &agent)?
        } else {
            out.json(&Answer::from(agent).to_json())?
        }
        out.flush()?;
        Ok(Outcome::Done)
    }

    fn print(&self, cx: &Context, out: &mut Out, agent: &AgentRun) -> Result<()> {
        let look = Look::new(cx, out);
        let [owner, lease] = look.owner(agent.execution.as_ref());
        let text = |text: &str| shown(text).into_owned();
        let time = |time| local_and_ago(time, cx.now);
        let rows = [
            ("node run", Some(text(&agent.node_run_id))),
            ("agent", Some(text(&agent.agent_id))),
            ("project", Some(text(&agent.project_id))),
            ("status", Some(format!("{}, attempt {}", look.paint.status(agent.status), agent.attempt))),
            ("owner", agent.execution.as_ref().map(|_| format!("{owner}, lease {lease}"))),
            ("created", Some(time(agent.created_at))),
            ("started", agent.started_at.map(time)),
            ("completed", agent.completed_at.map(time)),
            ("took", agent.started_at.map(|_| look.took(agent.started_at, agent.completed_at))),
            ("principal", agent.execution_principal.as_ref().map(|who| format!("{} {}", shown(&who.kind), shown(&who.id)))),
            ("model", agent.model_id.as_deref().map(text)),
            ("stopped for", agent.finish_reason.as_deref().map(text)),
        ];
        for (name, value) in rows {
            if let Some(value) = value {
                out.line(format!("{name:<12}{value}"))?;
            }
        }
        for line in agent.error.as_deref().unwrap_or_default().lines() {
            out.line(format!("{:<12}{}", "error", shown(line)))?;
        }
        if self.payloads { print_large(out, agent) } else { Ok(()) }
    }
}

/// Prints the payloads and the prompt that a record has.
pub(in crate::commands) fn print_large<R: Record>(out: &mut Out, record: &R) -> Result<()> {
    for (slot, name) in R::LARGE.iter().enumerate() {
        if let Some(value) = record.large(slot) {
            out.line(format!("--- {name} of {} {}", R::ENTITY.as_str(), shown(record.key_id())))?;
            value.lines().try_for_each(|line| out.line(shown(line)))?;
        }
    }
    Ok(())
}
