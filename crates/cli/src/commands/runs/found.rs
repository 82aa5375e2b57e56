//! Finding what is stuck.

use clap::{Args, ValueEnum};
use runledger::transition::Stuck;
use runledger::{AgentRun, AnswerForm, ExpiredAgents, ExpiredRuns, Id, Ledger, ListAgents, ListRuns, MAX_ROWS, Order, Run, Status, Time};

use crate::context::Context;
use crate::outcome::Result;
use crate::screen::rows::Look;
use crate::screen::table::Sheet;
use crate::screen::text::shown;
use crate::screen::time::{Span, local, span, us_between};

/// What counts as stuck.
#[derive(Args)]
pub(crate) struct Criteria {
    /// How long something may be queued or waiting
    #[arg(long, default_value = "1h", value_name = "SPAN")]
    older_than: Span,
    /// Only what is stuck for these reasons
    #[arg(long, value_enum, value_delimiter = ',', value_name = "REASON")]
    why: Vec<Why>,
}

/// Why something is stuck.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Why {
    /// It runs, and its owner's lease ended
    LeaseEnded,
    /// It has been queued for too long
    Queued,
    /// It has been waiting for too long
    Waiting,
}

impl Why {
    fn of(stuck: Stuck) -> Why {
        match stuck {
            Stuck::LeaseEnded => Why::LeaseEnded,
            Stuck::Queued => Why::Queued,
            Stuck::Waiting => Why::Waiting,
        }
    }
}

/// A record that is stuck.
pub(crate) struct Found<R> {
    pub(crate) record: R,
    pub(crate) why: Stuck,
    pub(crate) since: Time,
}

impl Criteria {
    /// What is stuck for one reason that needs no span.
    pub(crate) fn only(why: Why) -> Criteria {
        Criteria { older_than: Span { us: 0 }, why: vec![why] }
    }

    /// Whether this reason is looked for.
    pub(crate) fn wants(&self, why: Why) -> bool {
        self.why.is_empty() || self.why.contains(&why)
    }

    fn judge<R>(&self, record: R, stuck: Option<(Stuck, Time)>) -> Option<Found<R>> {
        stuck.filter(|(why, _)| self.wants(Why::of(*why))).map(|(why, since)| Found { record, why, since })
    }

    /// The runs of these projects that are stuck, each project's longest stuck first; at most `limit` for each reason and project.
    pub(crate) fn runs(&self, cx: &Context, ledger: &Ledger, projects: &[Id], limit: usize) -> Result<Vec<Found<Run>>> {
        let longest = cx.now.plus_us(self.older_than.us.saturating_neg());
        let mut found = Vec::new();
        for project in projects {
            let stuck = |run: Run| {
                let stuck = Stuck::of_run(&run, cx.now, self.older_than.us);
                self.judge(run, stuck)
            };
            let list = |status| ListRuns::new(project).with_statuses(vec![status]).with_order(Order::Asc).with_answer(AnswerForm::State);
            if self.wants(Why::LeaseEnded) {
                found.extend(expired_runs(cx, ledger, project, limit)?.into_iter().filter_map(stuck));
            }
            if self.wants(Why::Queued) {
                let queued = ledger.walk_runs(list(Status::Queued).with_started_before(longest));
                take(&mut found, queued.map(|run| run.map(stuck)), limit)?;
            }
            if self.wants(Why::Waiting) {
                // A list has runs by their start; since when they wait says only the run.
                take(&mut found, ledger.walk_runs(list(Status::Waiting)).map(|run| run.map(stuck)), limit)?;
            }
        }
        Ok(found)
    }

    /// The agent runs of these projects that are stuck, as [`Criteria::runs`].
    pub(crate) fn agents(&self, cx: &Context, ledger: &Ledger, projects: &[Id], limit: usize) -> Result<Vec<Found<AgentRun>>> {
        let longest = cx.now.plus_us(self.older_than.us.saturating_neg());
        let mut found = Vec::new();
        for project in projects {
            let stuck = |agent: AgentRun| {
                let stuck = Stuck::of_agent(&agent, cx.now, self.older_than.us);
                self.judge(agent, stuck)
            };
            if self.wants(Why::LeaseEnded) {
                let limit = u32::try_from(limit).unwrap_or(MAX_ROWS).clamp(1, MAX_ROWS);
                let expired = ExpiredAgents::new(cx.now).with_project_id(project).with_limit(limit).with_answer(AnswerForm::State);
                found.extend(ledger.expired_agents(expired)?.rows.into_iter().filter_map(stuck));
            }
            if self.wants(Why::Queued) {
                let queued = ListAgents::new(project).with_statuses(vec![Status::Queued]).with_created_before(longest);
                let walk = ledger.walk_agents(queued.with_order(Order::Asc).with_answer(AnswerForm::State));
                take(&mut found, walk.map(|agent| agent.map(stuck)), limit)?;
            }
        }
        Ok(found)
    }
}

fn expired_runs(cx: &Context, ledger: &Ledger, project: &Id, limit: usize) -> Result<Vec<Run>> {
    let limit = u32::try_from(limit).unwrap_or(MAX_ROWS).clamp(1, MAX_ROWS);
    let expired = ExpiredRuns::new(cx.now).with_project_id(project).with_limit(limit).with_answer(AnswerForm::State);
    Ok(ledger.expired_runs(expired)?.rows)
}

fn take<R>(found: &mut Vec<Found<R>>, walk: impl Iterator<Item = runledger::Result<Option<Found<R>>>>, limit: usize) -> Result<()> {
    for stuck in walk.filter_map(runledger::Result::transpose).take(limit) {
        found.push(stuck?);
    }
    Ok(())
}

const HEADERS: [&str; 9] = ["PROJECT", "RECORD", "ID", "OF", "WHY", "SINCE", "FOR", "ATTEMPT", "OWNER"];

/// A table of what is stuck.
pub(crate) fn sheet(look: Look, runs: &[Found<Run>], agents: &[Found<AgentRun>]) -> Sheet {
    let mut sheet = Sheet::new(&HEADERS).right([6, 7]).spare([7, 5, 3, 8]);
    for Found { record: run, why, since } in runs {
        let [owner, _] = look.owner(run.execution.as_ref());
        sheet.row(cells(look, [&run.project_id, &run.id, &run.workflow_id], "run", (*why, *since), run.attempt, owner));
    }
    for Found { record: agent, why, since } in agents {
        let [owner, _] = look.owner(agent.execution.as_ref());
        sheet.row(cells(look, [&agent.project_id, &agent.node_run_id, &agent.agent_id], "agent", (*why, *since), agent.attempt, owner));
    }
    sheet
}

fn cells(look: Look, [project, id, of]: [&Id; 3], record: &str, (why, since): (Stuck, Time), attempt: u32, owner: String) -> Vec<String> {
    vec![
        shown(project).into_owned(),
        record.to_owned(),
        shown(id).into_owned(),
        shown(of).into_owned(),
        words(why).to_owned(),
        local(since),
        span(us_between(since, look.now)),
        attempt.to_string(),
        owner,
    ]
}

/// The reason, for people.
pub(crate) fn words(why: Stuck) -> &'static str {
    match why {
        Stuck::LeaseEnded => "lease ended",
        Stuck::Queued => "queued",
        Stuck::Waiting => "waiting",
    }
}
