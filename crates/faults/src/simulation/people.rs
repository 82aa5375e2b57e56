//! Who takes part, and what each does when its turn comes.

use runledger_core::{
    AgentRun, CancelAgent, CancelRun, ClaimAgent, ClaimRun, Code, Command, ConfirmAgent, ConfirmRun, CreateAgent, DeleteRun, EndStatus,
    Execution, FinishAgent, FinishNode, FinishRun, Id, Payload, PurgeRuns, QueueRun, ReclaimAgent, ReclaimRun, ResumeRun, Run, StartNode,
    StartRun, Status, WaitNode, WaitRun,
};

use super::fleet::Fleet;
use super::shadow::Key;
use super::world::Checked;

pub(super) const PROJECTS: [&str; 3] = ["alpha", "beta", "gamma"];
const WORKFLOWS: [&str; 3] = ["build", "deploy", "report"];
const AGENTS: [&str; 2] = ["writer", "critic"];
pub(super) const SECOND: i64 = 1_000_000;

/// How long a lease lasts, by the clock of whoever takes it.
const LEASE: i64 = 30 * SECOND;

/// A run as its worker knows it, which may be long out of date.
#[derive(Clone)]
pub(super) struct Hold {
    run: Key,
    workflow: Id,
    token: Option<Id>,
    nodes: Vec<Id>,
}

/// Somebody who works on runs.
pub(super) struct Worker {
    pub(super) handle: usize,
    /// How far its clock is from the simulation's.
    pub(super) skew_us: i64,
    pub(super) hold: Option<Hold>,
}

/// Somebody who works on agent runs.
pub(super) struct Agent {
    pub(super) handle: usize,
    pub(super) skew_us: i64,
    pub(super) hold: Option<(Key, Id)>,
}

/// Somebody who takes expired leases over, from lists that may be out of date by the time they are used.
#[derive(Default)]
pub(super) struct Reaper {
    pub(super) skew_us: i64,
    pub(super) runs: Vec<Run>,
    pub(super) agents: Vec<AgentRun>,
}

fn payload() -> Payload {
    Payload::from_json(r#"{"n":1}"#).expect("it is JSON")
}

/// What a refusal says to a worker that minds it: stop.
fn is_lost(code: Code) -> bool {
    matches!(code, Code::StaleToken | Code::InvalidTransition | Code::NotFound)
}

impl Fleet<'_> {
    fn lease(&mut self, skew_us: i64) -> Execution {
        self.made += 1;
        Execution::new(format!("token-{}", self.made), self.world.clock(skew_us + LEASE))
    }

    fn name(&mut self, kind: &str) -> Id {
        self.made += 1;
        format!("{kind}-{}", self.made).into()
    }

    /// Queues a run, or starts one that nobody queued or that is queued already; answers when to come again.
    pub(super) fn produce(&mut self) -> Checked<i64> {
        let handle = self.any_handle();
        let (project, workflow) = (self.dice.one_of(&PROJECTS), self.dice.one_of(&WORKFLOWS));
        match self.dice.below(10) {
            0 => {
                // Without an execution, whoever calls without a token owns it.
                let id = self.name("run");
                let start = StartRun::new(project, id.clone(), workflow, payload());
                let execution = (!self.dice.once_in(3)).then(|| self.lease(0));
                let token = execution.as_ref().map(|execution| execution.token.clone());
                let start = match execution {
                    Some(execution) => start.with_execution(execution),
                    None => start,
                };
                if self.world.command(handle, start)?.is_ok() {
                    self.hand_out(Hold { run: (project.into(), id), workflow: workflow.into(), token, nodes: Vec::new() });
                }
            }
            1 => {
                let keys = self.keys_of(|_| true);
                let Some(key) = self.pick(&keys) else { return Ok(SECOND) };
                let start = StartRun::new(key.0.clone(), key.1.clone(), workflow, payload()).with_execution(self.lease(0));
                self.world.command(handle, start)?.ok();
            }
            2 => {
                // An id that may be taken.
                let keys = self.keys_of(|_| true);
                let Some(key) = self.pick(&keys) else { return Ok(SECOND) };
                self.world.command(handle, QueueRun::new(key.0, key.1, workflow, payload()))?.ok();
            }
            _ => {
                let id = self.name("run");
                let queue = QueueRun::new(project, id, workflow, payload());
                // Some queue with a time of their own, so that the queue's order is not that of arrival.
                let skew_us = self.dice.below(60) as i64 * SECOND;
                let queue = if self.dice.once_in(3) { queue.with_queued_at(self.world.clock(-skew_us)) } else { queue };
                self.world.command(handle, queue)?.ok();
            }
        }
        // About as fast as the workers work, so that the queue is now empty and now long.
        Ok(self.within(5 * SECOND))
    }

    /// Gives a hold to an idle worker; without one nobody has it, as when the answer of a claim is lost.
    fn hand_out(&mut self, hold: Hold) {
        let idle: Vec<usize> = (0..self.workers.len()).filter(|worker| self.workers[*worker].hold.is_none()).collect();
        match self.pick(&idle) {
            Some(worker) => self.workers[worker].hold = Some(hold),
            None => self.give_up(hold),
        }
    }

    /// One turn of a worker; answers when to come again.
    pub(super) fn work(&mut self, worker: usize) -> Checked<i64> {
        let Worker { handle, skew_us, hold } = &self.workers[worker];
        let (handle, skew_us) = (*handle, *skew_us);
        let Some(mut hold) = hold.clone() else { return self.claim(worker, handle, skew_us) };
        match self.dice.below(40) {
            0 => {
                // It crashes: what it knew is a token that somebody may still use.
                self.world.tally.crashes += 1;
                self.lose(worker);
                return Ok(self.within(20 * SECOND));
            }
            1..=2 => {
                // It stands still past the end of its lease, and goes on as if nothing had been.
                self.world.tally.pauses += 1;
                return Ok(LEASE + self.within(3 * LEASE));
            }
            _ => {}
        }
        let refused = self.use_hold(handle, skew_us, &mut hold)?;
        let ended = self.world.shadow.runs.get(&hold.run).is_none_or(|run| run.status != Status::Running);
        match refused {
            // Most mind; some go on with what is not theirs.
            Some(code) if is_lost(code) && !self.dice.once_in(4) => self.lose(worker),
            _ if ended && self.dice.once_in(2) => self.lose(worker),
            _ => self.workers[worker].hold = Some(hold),
        }
        Ok(self.within(4 * SECOND))
    }

    fn lose(&mut self, worker: usize) {
        if let Some(hold) = self.workers[worker].hold.take() {
            self.give_up(hold);
        }
    }

    /// Nobody minds a hold any more, but somebody may come back with it.
    fn give_up(&mut self, hold: Hold) {
        const MOST: usize = 64;
        self.ghosts.push(hold);
        if self.ghosts.len() > MOST {
            let old = self.dice.below(MOST);
            self.ghosts.swap_remove(old);
        }
    }

    fn claim(&mut self, worker: usize, handle: usize, skew_us: i64) -> Checked<i64> {
        let project = self.dice.one_of(&PROJECTS);
        let claim = ClaimRun::new(project, self.lease(skew_us)).with_started_at(self.world.clock(skew_us));
        let claim = match self.dice.below(3) {
            0 => claim.with_workflow_ids(vec![Id::from(self.dice.one_of(&WORKFLOWS)), self.dice.one_of(&WORKFLOWS).into()]),
            _ => claim,
        };
        let token = claim.execution.token.clone();
        match self.world.command(handle, claim)? {
            Ok(runledger_core::Answer::MaybeRun(Some(run))) => {
                let hold = Hold { run: (run.project_id, run.id), workflow: run.workflow_id, token: Some(token), nodes: Vec::new() };
                if self.dice.once_in(20) {
                    // The answer is lost on its way.
                    self.give_up(hold);
                } else {
                    self.workers[worker].hold = Some(hold);
                }
                Ok(self.within(SECOND))
            }
            _ => Ok(self.within(3 * SECOND)),
        }
    }

    /// Does something with a hold, whether it is still good or not; answers the refusal, if it was refused.
    fn use_hold(&mut self, handle: usize, skew_us: i64, hold: &mut Hold) -> Checked<Option<Code>> {
        let (project, run) = hold.run.clone();
        let now = self.world.clock(skew_us);
        let token = |command: Command| with_token(command, hold.token.as_ref());
        let command = match self.dice.below(20) {
            0..=5 if hold.token.is_some() => {
                let own = hold.token.clone().unwrap_or_else(|| Id::from("none"));
                // A lease that was confirmed late, or by a slow clock, must never move back.
                let end = self.world.clock(skew_us + self.dice.below(2 * LEASE as usize) as i64);
                ConfirmRun::new(project, run, own, end).into()
            }
            6..=10 => {
                let id = self.name("node");
                let node_type = if self.dice.once_in(2) { "agent" } else { "task" };
                let index = self.dice.below(50) as u32;
                let start =
                    StartNode::new(project.clone(), id.clone(), run, hold.workflow.clone(), index, node_type, "step", "key", payload());
                let start = token(start.with_started_at(now).into());
                if self.dice.once_in(3) {
                    return self.start_with_agent(handle, hold, start, &id, node_type);
                }
                let refused = self.world.command(handle, start)?.err();
                if refused.is_none() {
                    hold.nodes.push(id);
                }
                return Ok(refused);
            }
            11..=14 if !hold.nodes.is_empty() => {
                let node = self.dice.one_of(&hold.nodes);
                let waits = self.dice.once_in(4);
                if !waits && self.dice.once_in(2) {
                    hold.nodes.retain(|id| *id != node);
                }
                match waits {
                    true => token(WaitNode::new(project, node).into()),
                    false => token(FinishNode::new(project, node, self.an_end()).with_finished_at(now).into()),
                }
            }
            15 if !hold.nodes.is_empty() => {
                let node = self.dice.one_of(&hold.nodes);
                let create = CreateAgent::new(project, node, self.dice.one_of(&AGENTS), "do");
                token(create.into())
            }
            16 => token(WaitRun::new(project, run).into()),
            17..=18 => token(FinishRun::new(project, run, self.an_end()).with_finished_at(now).into()),
            _ => return Ok(None),
        };
        Ok(self.world.command(handle, command)?.err())
    }

    /// Starts a node run and its agent run in one step, which fails whole where the node run can have none.
    fn start_with_agent(&mut self, handle: usize, hold: &mut Hold, start: Command, id: &Id, node_type: &str) -> Checked<Option<Code>> {
        let create = CreateAgent::new(hold.run.0.clone(), id, self.dice.one_of(&AGENTS), "do");
        let create = with_token(create.into(), hold.token.as_ref());
        let second_refused = (node_type != "agent").then_some(Code::NotAgentNode);
        let refused = self.world.pair(handle, [start, create], second_refused)?.err();
        if refused.is_none() {
            hold.nodes.push(id.clone());
        }
        Ok(refused)
    }

    fn an_end(&mut self) -> EndStatus {
        self.dice.one_of(&[EndStatus::Succeeded, EndStatus::Succeeded, EndStatus::Failed, EndStatus::Cancelled])
    }

    /// Somebody comes back with a token that was lost; answers when the next one does.
    pub(super) fn haunt(&mut self) -> Checked<i64> {
        let number = self.dice.below(1 << 20);
        if let Some(mut ghost) = self.ghosts.get(number % self.ghosts.len().max(1)).cloned() {
            self.world.tally.ghosts += 1;
            let handle = self.any_handle();
            self.use_hold(handle, 0, &mut ghost)?;
        }
        Ok(self.within(SECOND))
    }

    /// One turn of an agent.
    pub(super) fn act(&mut self, agent: usize) -> Checked<i64> {
        let Agent { handle, skew_us, hold } = &self.agents[agent];
        let (handle, skew_us) = (*handle, *skew_us);
        let Some(((project, node), token)) = hold.clone() else {
            let claim = ClaimAgent::new(self.dice.one_of(&PROJECTS), self.lease(skew_us));
            let token = claim.execution.token.clone();
            if let Ok(runledger_core::Answer::MaybeAgent(Some(run))) = self.world.command(handle, claim)? {
                self.agents[agent].hold = Some(((run.project_id, run.node_run_id), token));
            }
            return Ok(self.within(12 * SECOND));
        };
        let refused = match self.dice.below(10) {
            0 => {
                self.world.tally.crashes += 1;
                self.agents[agent].hold = None;
                return Ok(self.within(20 * SECOND));
            }
            1 => {
                self.world.tally.pauses += 1;
                return Ok(LEASE + self.within(LEASE));
            }
            2..=5 => self.world.command(handle, ConfirmAgent::new(project, node, token, self.world.clock(skew_us + LEASE)))?.err(),
            _ => {
                let finish = FinishAgent::new(project, node, token, self.an_end()).with_usage(payload());
                let refused = self.world.command(handle, finish)?.err();
                if refused.is_none() && !self.dice.once_in(5) {
                    self.agents[agent].hold = None;
                }
                refused
            }
        };
        if refused.is_some_and(is_lost) && !self.dice.once_in(4) {
            self.agents[agent].hold = None;
        }
        Ok(self.within(5 * SECOND))
    }

    /// One turn of a reaper: it takes over one lease of its list, or makes a new list.
    pub(super) fn reap(&mut self, reaper: usize) -> Checked<i64> {
        let skew_us = self.reapers[reaper].skew_us;
        let (handle, by) = (self.any_handle(), self.world.clock(skew_us));
        if let Some(run) = self.reapers[reaper].runs.pop() {
            let reclaim = ReclaimRun::new(run.project_id.clone(), run.id.clone(), self.lease(skew_us));
            // One in a while forgets to guard itself, and takes over what is not expired.
            let reclaim = if self.dice.once_in(30) { reclaim } else { reclaim.with_lease_expired_by(by) };
            let token = reclaim.execution.token.clone();
            if self.world.command(handle, reclaim)?.is_ok() {
                self.hand_out(Hold { run: (run.project_id, run.id), workflow: run.workflow_id, token: Some(token), nodes: Vec::new() });
            }
            return Ok(self.within(SECOND));
        }
        if let Some(agent) = self.reapers[reaper].agents.pop() {
            let reclaim = ReclaimAgent::new(agent.project_id.clone(), agent.node_run_id.clone(), self.lease(skew_us));
            let token = reclaim.execution.token.clone();
            let taken = self.world.command(handle, reclaim.with_lease_expired_by(by))?.is_ok();
            if let Some(idle) = self.agents.iter_mut().find(|agent| taken && agent.hold.is_none()) {
                idle.hold = Some(((agent.project_id, agent.node_run_id), token));
            }
            return Ok(self.within(SECOND));
        }
        // To the microsecond, now and then: a lease that ends at the bound has ended.
        let ends: Vec<_> =
            self.world.shadow.runs.values().filter_map(|run| run.execution.as_ref()).map(|own| own.lease_expires_at).collect();
        let end = self.pick(&ends).filter(|_| reaper == 0);
        self.reapers[reaper].runs = self.world.expired_runs(handle, end.unwrap_or(by))?;
        self.reapers[reaper].agents = self.world.expired_agents(handle, by)?;
        Ok(self.within(10 * SECOND))
    }

    /// One turn of the operators: they stop, set to work again, and clear away.
    pub(super) fn operate(&mut self) -> Checked<i64> {
        let handle = self.any_handle();
        let command: Option<Command> = match self.dice.below(10) {
            0..=1 => {
                let keys = self.keys_of(|status| status != Status::Succeeded);
                self.pick(&keys).map(|key| CancelRun::new(key.0, key.1).with_error("an operator's stop").into())
            }
            2 => {
                let keys = self.keys_of(|_| true);
                self.pick(&keys).map(|key| DeleteRun::new(key.0, key.1).into())
            }
            3..=4 => {
                let before = self.world.clock(-120 * SECOND);
                let project = self.dice.one_of(&PROJECTS);
                Some(PurgeRuns::new(project, before).with_limit(1 + self.dice.below(40) as u32).into())
            }
            5 => {
                let keys: Vec<Key> = self.world.shadow.agents.keys().cloned().collect();
                self.pick(&keys).map(|key| CancelAgent::new(key.0, key.1).into())
            }
            6 => {
                // A run that was queued or waits can be given up without a token; one that is owned can't.
                let keys = self.keys_of(|_| true);
                self.pick(&keys).map(|key| FinishRun::new(key.0, key.1, EndStatus::Failed).into())
            }
            _ => return self.resume(handle),
        };
        if let Some(command) = command {
            self.world.command(handle, command)?.ok();
        }
        Ok(self.within(4 * SECOND))
    }

    fn resume(&mut self, handle: usize) -> Checked<i64> {
        let keys = self.keys_of(|status| status == Status::Waiting);
        let any = self.keys_of(|_| true);
        let key = if self.dice.once_in(5) { self.pick(&any) } else { self.pick(&keys) };
        let Some(key) = key else { return Ok(SECOND) };
        let execution = (!self.dice.once_in(4)).then(|| self.lease(0));
        let token = execution.as_ref().map(|execution| execution.token.clone());
        let resume = ResumeRun::new(key.0.clone(), key.1.clone());
        let resume = match execution {
            Some(execution) => resume.with_execution(execution),
            None => resume,
        };
        if let Ok(runledger_core::Answer::Run(run)) = self.world.command(handle, resume)? {
            self.hand_out(Hold { run: key, workflow: run.workflow_id, token, nodes: Vec::new() });
        }
        Ok(self.within(2 * SECOND))
    }
}

/// The command with the owner's token, where there is one.
fn with_token(command: Command, token: Option<&Id>) -> Command {
    let Some(token) = token else { return command };
    match command {
        Command::StartNode(c) => c.with_execution_token(token).into(),
        Command::WaitNode(c) => c.with_execution_token(token).into(),
        Command::FinishNode(c) => c.with_execution_token(token).into(),
        Command::CreateAgent(c) => c.with_execution_token(token).into(),
        Command::WaitRun(c) => c.with_execution_token(token).into(),
        Command::FinishRun(c) => c.with_execution_token(token).into(),
        other => other,
    }
}
