//! Whose turn it is, and what is checked when nothing is under way.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use runledger_core::{
    AgentRun, AnswerForm, ExpiredAgents, ExpiredRuns, GetRunStats, Id, ListAgents, ListNodes, ListProjects, ListRuns, Run, Status,
    StatusCounts, Time, VerifyStore,
};

use super::people::{Agent, Hold, PROJECTS, Reaper, SECOND, Worker};
use super::shadow::{Key, must};
use super::world::{Checked, World};
use super::{Plan, Stage, Tally};
use crate::Dice;

/// Who can be next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Turn {
    Producer,
    Worker(usize),
    Agent(usize),
    Reaper(usize),
    Ghost,
    Operator,
}

/// All who take part.
pub(super) struct Fleet<'s> {
    pub(super) world: World<'s>,
    pub(super) dice: Dice,
    pub(super) workers: Vec<Worker>,
    pub(super) agents: Vec<Agent>,
    pub(super) reapers: Vec<Reaper>,
    /// Holds that are lost, and that somebody may use all the same.
    pub(super) ghosts: Vec<Hold>,
    /// How many names were made.
    pub(super) made: u64,
    /// Whose turn comes when; the number keeps those of one moment in their order.
    turns: BinaryHeap<Reverse<(i64, u64, Turn)>>,
    turned: u64,
}

/// Plays a simulation.
///
/// # Errors
/// What must not be, with the seed that shows it again and the steps that led there.
pub fn simulate(stage: &Stage, plan: Plan) -> Result<Tally, String> {
    let mut fleet = Fleet::new(stage, plan).map_err(|what| format!("{}: {what}", stage.name()))?;
    let outcome = fleet.play();
    outcome.map_err(|what| {
        let (seed, steps) = (plan.seed, fleet.world.tally.steps);
        format!("RUNLEDGER_SEED={seed} on {}: step {steps}: {what}\nthe last steps:\n{}", stage.name(), fleet.world.told())
    })?;
    Ok(fleet.world.finish())
}

impl<'s> Fleet<'s> {
    fn new(stage: &'s Stage, plan: Plan) -> Checked<Fleet<'s>> {
        let mut dice = Dice::new(plan.seed);
        let world = World::new(stage, plan)?;
        // Clocks differ by up to 40 seconds, which is more than a lease. Handles do not decide about anything but who asks, so
        // that the history is the same on every stage.
        let mut skew = || (dice.below(81) as i64 - 40) * SECOND;
        let workers: Vec<_> = (0..plan.workers).map(|n| Worker { handle: n % stage.handles, skew_us: skew(), hold: None }).collect();
        let agents: Vec<_> =
            (0..plan.workers.div_ceil(2)).map(|n| Agent { handle: n % stage.handles, skew_us: skew(), hold: None }).collect();
        let reapers: Vec<_> = (0..2).map(|_| Reaper { skew_us: skew(), ..Reaper::default() }).collect();
        let mut fleet = Fleet { world, dice, workers, agents, reapers, ghosts: Vec::new(), made: 0, turns: BinaryHeap::new(), turned: 0 };
        let turns = [Turn::Producer, Turn::Ghost, Turn::Operator].into_iter();
        let turns = turns.chain((0..fleet.workers.len()).map(Turn::Worker)).chain((0..fleet.agents.len()).map(Turn::Agent));
        for turn in turns.chain((0..fleet.reapers.len()).map(Turn::Reaper)).collect::<Vec<_>>() {
            let first = fleet.world.now_us + fleet.within(SECOND);
            fleet.again(first, turn);
        }
        Ok(fleet)
    }

    fn again(&mut self, at_us: i64, turn: Turn) {
        self.turned += 1;
        self.turns.push(Reverse((at_us, self.turned, turn)));
    }

    /// A span of time up to `most_us`.
    pub(super) fn within(&mut self, most_us: i64) -> i64 {
        1 + self.dice.below(most_us.max(1) as usize) as i64
    }

    pub(super) fn any_handle(&mut self) -> usize {
        let roll = self.dice.below(1 << 20);
        roll % self.world.ledgers.len()
    }

    pub(super) fn pick<T: Clone>(&mut self, of: &[T]) -> Option<T> {
        // The dice are thrown in any case, so that what follows does not depend on it.
        let roll = self.dice.below(1 << 30);
        (!of.is_empty()).then(|| of[roll % of.len()].clone())
    }

    pub(super) fn keys_of(&self, is_wanted: impl Fn(Status) -> bool) -> Vec<Key> {
        self.world.shadow.runs.iter().filter(|(_, run)| is_wanted(run.status)).map(|(key, _)| key.clone()).collect()
    }

    fn play(&mut self) -> Checked<()> {
        let plan = self.world.plan;
        let (mut next_quiet, mut next_reopening) = (plan.quiet_every, plan.reopen_every);
        while self.world.tally.steps < plan.steps {
            let Reverse((at_us, _, turn)) = self.turns.pop().ok_or("nobody has a turn any more")?;
            self.world.advance_to(at_us);
            let pause_us = match turn {
                Turn::Producer => self.produce(),
                Turn::Worker(worker) => self.work(worker),
                Turn::Agent(agent) => self.act(agent),
                Turn::Reaper(reaper) => self.reap(reaper),
                Turn::Ghost => self.haunt(),
                Turn::Operator => self.operate(),
            }?;
            self.again(at_us + pause_us, turn);
            if self.world.tally.steps >= next_quiet {
                next_quiet += plan.quiet_every;
                self.world.check_all()?;
            }
            if self.world.stage.is_lasting && self.world.tally.steps >= next_reopening {
                next_reopening += plan.reopen_every;
                self.world.reopen()?;
            }
        }
        self.world.check_all()
    }
}

impl World<'_> {
    /// The running runs whose lease ended, which must be those and in that order.
    pub(super) fn expired_runs(&self, handle: usize, by: Time) -> Checked<Vec<Run>> {
        let ask = ExpiredRuns::new(by).with_answer(AnswerForm::State);
        let expired = self.ledgers[handle].expired_runs(ask).map_err(|error| format!("runs.expired: {error}"))?;
        let ends = |run: &&Run| run.execution.as_ref().map(|execution| execution.lease_expires_at);
        let mut expected: Vec<&Run> = self.shadow.runs.values().filter(|run| ends(run).is_some_and(|end| end <= by)).collect();
        expected.sort_by_key(|run| (ends(run), run.project_id.clone(), run.id.clone()));
        must(expired.rows.iter().eq(expected.into_iter().take(1000)), || format!("runs.expired by {by} is not what is expired"))?;
        Ok(expired.rows)
    }

    pub(super) fn expired_agents(&self, handle: usize, by: Time) -> Checked<Vec<AgentRun>> {
        let ask = ExpiredAgents::new(by).with_answer(AnswerForm::State);
        let expired = self.ledgers[handle].expired_agents(ask).map_err(|error| format!("agents.expired: {error}"))?;
        let ends = |run: &&AgentRun| run.execution.as_ref().map(|execution| execution.lease_expires_at);
        let mut expected: Vec<&AgentRun> = self.shadow.agents.values().filter(|run| ends(run).is_some_and(|end| end <= by)).collect();
        expected.sort_by_key(|run| (ends(run), run.project_id.clone(), run.node_run_id.clone()));
        must(expired.rows.iter().eq(expected.into_iter().take(1000)), || format!("agents.expired by {by} is not what is expired"))?;
        Ok(expired.rows)
    }

    pub(super) fn reopen(&mut self) -> Checked<()> {
        for handle in 0..self.ledgers.len() {
            self.ledgers[handle].close().map_err(|error| format!("a close: {error}"))?;
            self.ledgers[handle] = self.stage.open().map_err(|error| format!("an open: {error}"))?;
            self.tally.reopened += 1;
        }
        Ok(())
    }

    /// Holds everything that is stored against the shadow: records, counters, lists, and the store's own verification.
    pub(super) fn check_all(&mut self) -> Checked<()> {
        self.tally.quiet += 1;
        for handle in 0..self.ledgers.len() {
            self.check_records(handle)?;
            self.check_counters(handle).map_err(|what| format!("counters: {what}"))?;
        }
        let report = self.ledgers[0].verify_store(VerifyStore::new()).map_err(|error| format!("store.verify: {error}"))?;
        must(report.is_ok(), || format!("store.verify: {:?}", report.problems))?;
        let checked = [report.checked.runs, report.checked.nodes, report.checked.agents];
        let known = [self.shadow.runs.len() as u64, self.shadow.nodes.len() as u64, self.shadow.agents.len() as u64];
        must(checked == known, || format!("store.verify has checked {checked:?} records, and there must be {known:?}"))
    }

    fn check_records(&self, handle: usize) -> Checked<()> {
        let ledger = &self.ledgers[handle];
        for project in PROJECTS {
            let form = AnswerForm::State;
            let runs = ListRuns::new(project).with_limit(10_000_u32).with_answer(form);
            let mut runs = ledger.list_runs(runs).map_err(|error| error.to_string())?.rows;
            runs.sort_by(|a, b| a.id.cmp(&b.id));
            must(runs.iter().eq(self.of_project(&self.shadow.runs, project)), || format!("the runs of {project} are others"))?;
            let nodes = ListNodes::new(project).with_limit(10_000_u32).with_answer(form);
            let mut nodes = ledger.list_nodes(nodes).map_err(|error| error.to_string())?.rows;
            nodes.sort_by(|a, b| a.id.cmp(&b.id));
            must(nodes.iter().eq(self.of_project(&self.shadow.nodes, project)), || format!("the node runs of {project} are others"))?;
            let agents = ListAgents::new(project).with_limit(10_000_u32).with_answer(form);
            let mut agents = ledger.list_agents(agents).map_err(|error| error.to_string())?.rows;
            agents.sort_by(|a, b| a.node_run_id.cmp(&b.node_run_id));
            must(agents.iter().eq(self.of_project(&self.shadow.agents, project)), || format!("the agent runs of {project} are others"))?;
        }
        Ok(())
    }

    fn of_project<'a, R>(&self, of: &'a BTreeMap<Key, R>, project: &str) -> impl Iterator<Item = &'a R> {
        let project = Id::from(project);
        let from = (project.clone(), Id::from(""));
        of.range(from..).take_while(move |(key, _)| key.0 == project).map(|(_, record)| record)
    }

    fn check_counters(&self, handle: usize) -> Checked<()> {
        let ledger = &self.ledgers[handle];
        let mut projects = BTreeMap::new();
        for project in PROJECTS {
            let mut counted: BTreeMap<Id, [u64; 6]> = BTreeMap::new();
            for run in self.of_project(&self.shadow.runs, project) {
                counted.entry(run.workflow_id.clone()).or_default()[run.status as usize] += 1;
                *projects.entry(run.project_id.clone()).or_insert(0) += 1;
            }
            let stats = ledger.run_stats(GetRunStats::new(project)).map_err(|error| error.to_string())?;
            let found = stats.by_workflow.iter().map(|(workflow, counts)| (workflow.clone(), as_array(counts)));
            must(found.eq(counted.clone()), || format!("runs.stats of {project} is {stats:?}, not {counted:?}"))?;
            for status in Status::ALL {
                let list = ListRuns::new(project).with_statuses(vec![*status]).with_limit(0_u32);
                let total = ledger.list_runs(list).map_err(|error| error.to_string())?.total;
                let expected = counted.values().map(|counts| counts[*status as usize]).sum();
                must(total == Some(expected), || format!("{total:?} runs of {project} are {status}, not {expected}"))?;
            }
            for status in Status::ALL.iter().filter(|status| **status != Status::Waiting) {
                let list = ListAgents::new(project).with_statuses(vec![*status]).with_limit(0_u32);
                let total = ledger.list_agents(list).map_err(|error| error.to_string())?.total;
                let expected = self.of_project(&self.shadow.agents, project).filter(|agent| agent.status == *status).count() as u64;
                must(total == Some(expected), || format!("{total:?} agent runs of {project} are {status}, not {expected}"))?;
            }
        }
        let listed = ledger.list_projects(ListProjects::new()).map_err(|error| error.to_string())?.rows;
        let listed: BTreeMap<Id, u64> = listed.into_iter().map(|project| (project.project_id, project.runs)).collect();
        must(listed == projects, || format!("projects.list is {listed:?}, not {projects:?}"))
    }
}

fn as_array(counts: &StatusCounts) -> [u64; 6] {
    std::array::from_fn(|status| counts.of(Status::ALL[status]))
}
