//! `runledger runs show`.

use clap::Args;
use runledger::{AgentRun, AnswerForm, Code, Entity, Error, GetAgent, GetRun, Id, Ledger, ListNodes, NodeRun, Order, Run};

use super::timeline::{Timeline, print_tree};
use crate::commands::agents::print_large;
use crate::commands::args::answer;
use crate::context::{Context, Form};
use crate::outcome::{Outcome, Result};
use crate::screen::out::{Out, note};
use crate::screen::rows::{Look, Row};
use crate::screen::text::{counted, shown};
use crate::screen::time::{local_and_ago, span, us_between};

/// Show a run: who owns it, what it did when, and how that ended
///
/// Its node runs stand under it as a tree, with their agent runs, and a bar for the time that each took.
#[derive(Args)]
pub(crate) struct Show {
    /// The run
    id: String,
    /// With all payloads and prompts
    #[arg(long)]
    payloads: bool,
    /// With the whole text of errors, not its first line
    #[arg(long)]
    errors: bool,
    /// The most node runs
    #[arg(long, default_value_t = 1000, value_name = "N")]
    limit: usize,
}

/// A run with what is under it.
pub(super) struct Family {
    pub(super) run: Run,
    pub(super) nodes: Vec<(NodeRun, Option<AgentRun>)>,
    /// Whether there are more node runs than asked for.
    pub(super) has_more: bool,
}

impl Family {
    /// Reads a run and up to `limit` of its node runs, by their start.
    pub(super) fn read(ledger: &Ledger, project: &Id, id: &str, answer: AnswerForm, limit: usize) -> Result<Family> {
        let run = ledger.get_run(GetRun::new(project, id).with_answer(answer))?;
        let run = run.ok_or_else(|| Error::refused(Code::NotFound, Entity::Run, project, &id.into(), "there is none"))?;
        let list = ListNodes::new(project).with_workflow_run_id(id).with_order(Order::Asc).with_answer(answer);
        let mut nodes = Vec::new();
        for node in ledger.walk_nodes(list).take(limit.saturating_add(1)) {
            let node = node?;
            let agent = ledger.get_agent(GetAgent::new(project, &node.id).with_answer(answer))?;
            nodes.push((node, agent));
        }
        let has_more = nodes.len() > limit;
        nodes.truncate(limit);
        Ok(Family { run, nodes, has_more })
    }

    fn agents(&self) -> impl Iterator<Item = &AgentRun> {
        self.nodes.iter().filter_map(|(_, agent)| agent.as_ref())
    }
}

impl Show {
    pub(crate) fn run(self, cx: &Context) -> Result<Outcome> {
        let family = cx.reading(None, |ledger| Family::read(ledger, &cx.project(ledger)?, &self.id, answer(self.payloads), self.limit))?;
        let mut out = cx.out();
        match out.form {
            Form::Table => self.print(cx, &mut out, &family)?,
            Form::Json => {
                let nodes: Vec<String> = family.nodes.iter().map(|(node, _)| node.json()).collect();
                let agents: Vec<String> = family.agents().map(Row::json).collect();
                let (run, nodes, agents) = (family.run.json(), nodes.join(","), agents.join(","));
                out.json(&format!("{{\"run\":{run},\"nodes\":[{nodes}],\"agents\":[{agents}],\"hasMore\":{}}}", family.has_more))?;
            }
            Form::Ndjson => {
                out.json(&format!("{{\"run\":{}}}", family.run.json()))?;
                family.nodes.iter().try_for_each(|(node, _)| out.json(&format!("{{\"node\":{}}}", node.json())))?;
                family.agents().try_for_each(|agent| out.json(&format!("{{\"agent\":{}}}", agent.json())))?;
            }
        }
        out.flush()?;
        if family.has_more {
            note(out.form, format!("only the first {}; --limit has more", counted(self.limit as u64, "node run")));
        }
        Ok(Outcome::Done)
    }

    fn print(&self, cx: &Context, out: &mut Out, family: &Family) -> Result<()> {
        let look = Look::new(cx, out);
        self.print_head(look, out, &family.run)?;
        out.text("\n")?;
        print_tree(out, look, &Timeline::over(family, cx.now), family, self.errors)?;
        if self.payloads {
            out.text("\n")?;
            print_large(out, &family.run)?;
            for (node, agent) in &family.nodes {
                print_large(out, node)?;
                agent.iter().try_for_each(|agent| print_large(out, agent))?;
            }
        }
        Ok(())
    }

    fn print_head(&self, look: Look, out: &mut Out, run: &Run) -> Result<()> {
        let [owner, lease] = look.owner(run.execution.as_ref());
        let time = |time| local_and_ago(time, look.now);
        let has_begun = run.attempt > 0;
        let queued_for = |queued| if has_begun { format!(", for {}", span(us_between(queued, run.started_at))) } else { String::new() };
        let rows = [
            ("run", Some(shown(&run.id).into_owned())),
            ("project", Some(shown(&run.project_id).into_owned())),
            ("workflow", Some(shown(&run.workflow_id).into_owned())),
            ("status", Some(format!("{}, attempt {}", look.paint.status(run.status), run.attempt))),
            ("owner", run.execution.as_ref().map(|_| format!("{owner}, lease {lease}"))),
            ("queued", run.queued_at.map(|queued| format!("{}{}", time(queued), queued_for(queued)))),
            ("started", has_begun.then(|| time(run.started_at))),
            ("waits since", run.waiting_since.map(time)),
            ("finished", run.finished_at.map(time)),
            ("took", has_begun.then(|| look.took(Some(run.started_at), run.finished_at))),
            ("asked by", Some(format!("{} {}", shown(&run.requested_by_principal.kind), shown(&run.requested_by_principal.id)))),
        ];
        for (name, value) in rows {
            if let Some(value) = value {
                out.line(format!("{name:<13}{value}"))?;
            }
        }
        for line in folded(run.error.as_deref(), self.errors) {
            out.line(format!("{:<13}{line}", "error"))?;
        }
        Ok(())
    }
}

/// An error's lines, or its first with a word on how many there are.
pub(super) fn folded(error: Option<&str>, whole: bool) -> Vec<String> {
    let lines: Vec<&str> = error.unwrap_or_default().lines().collect();
    match &lines[..] {
        [first, rest @ ..] if !whole && !rest.is_empty() => {
            vec![format!("{} (and {}: --errors)", shown(first), counted(rest.len() as u64, "more line"))]
        }
        lines => lines.iter().map(|line| shown(line).into_owned()).collect(),
    }
}
