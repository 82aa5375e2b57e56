//! Commands and queries, aimed at the records that are there.

use runledger_core::{
    AgentRun, AnswerForm, CancelAgent, CancelRun, ClaimAgent, ClaimRun, Command, ConfirmAgent, ConfirmRun, CreateAgent, DeleteRun,
    EndStatus, Execution, ExpiredAgents, ExpiredRuns, FinishAgent, FinishNode, FinishRun, GetAgent, GetNode, GetRun, GetRunStats, Id,
    LatestRuns, ListAgents, ListNodes, ListProjects, ListRuns, NodeRun, Order, Payload, Principal, PurgeRuns, Query, QueueRun,
    ReclaimAgent, ReclaimRun, ResumeRun, Run, StartAgent, StartNode, StartRun, Status, Text, Time, WaitNode, WaitRun,
};

use super::dice::Dice;
use super::pools::{AGENTS, BAD_IDS, KEYS, NODES, PAYLOADS, PROJECTS, RUNS, TEXTS, TIMES, TOKENS, TYPES, WORKFLOWS, time};
use crate::oracle::Oracle;

/// A generator over the present state of the oracle.
pub(super) struct Generator<'a, 'd> {
    oracle: &'a Oracle,
    dice: &'a mut Dice<'d>,
}

type Make<'a, 'd> = fn(&mut Generator<'a, 'd>) -> Command;

/// A request with those of the optional fields for which there is a value.
macro_rules! with {
    ($request:expr; $($with:ident($value:expr)),* $(,)?) => {{
        let request = $request;
        $(let request = match $value {
            Some(value) => request.$with(value),
            None => request,
        };)*
        request
    }};
}

impl<'a, 'd> Generator<'a, 'd> {
    pub(super) fn new(oracle: &'a Oracle, dice: &'a mut Dice<'d>) -> Self {
        Generator { oracle, dice }
    }

    fn time(&mut self) -> Time {
        self.dice.one(&TIMES)
    }

    /// A time mostly; otherwise the store's clock decides.
    fn when(&mut self) -> Option<Time> {
        if self.dice.chance(15) { None } else { Some(self.time()) }
    }

    /// A time just at, before or after the one given.
    fn near(&mut self, time: Time) -> Time {
        time.plus_us(self.dice.one(&[0, 0, 1, -1]))
    }

    fn payload(&mut self) -> Payload {
        self.dice.one(&PAYLOADS)
    }

    fn maybe_payload(&mut self) -> Option<Payload> {
        self.dice.maybe(50, |dice| dice.one(&PAYLOADS))
    }

    fn maybe_text(&mut self) -> Option<Text> {
        self.dice.maybe(50, |dice| dice.one(&TEXTS))
    }

    fn form(&mut self) -> Option<AnswerForm> {
        self.dice.maybe(25, |dice| dice.one(&[AnswerForm::State, AnswerForm::Record]))
    }

    fn end_status(&mut self) -> EndStatus {
        self.dice.one(EndStatus::ALL)
    }

    fn principal(&mut self) -> Option<Principal> {
        self.dice.maybe(40, |dice| Principal::new(dice.one(&KEYS), dice.one(&RUNS)))
    }

    fn execution(&mut self) -> Execution {
        Execution::new(self.dice.one(&TOKENS), self.time())
    }

    /// The owner's token mostly.
    fn token(&mut self, execution: Option<&Execution>) -> Option<Id> {
        if self.dice.chance(20) {
            self.dice.maybe(70, |dice| dice.one(&TOKENS))
        } else {
            execution.map(|execution| execution.token.clone())
        }
    }

    /// A token where one must be given.
    fn sure_token(&mut self, execution: Option<&Execution>) -> Id {
        self.token(execution).unwrap_or_else(|| TOKENS[0].clone())
    }

    /// An identifier from a pool, and seldom one that is not allowed.
    fn id(&mut self, pool: &[Id]) -> Id {
        if self.dice.chance(1) { self.dice.one(&BAD_IDS) } else { self.dice.one(pool) }
    }

    /// A run in one of the statuses mostly; it may be none.
    fn run(&mut self, wanted: &[Status]) -> Option<Run> {
        let any = self.dice.chance(20);
        let fitting: Vec<&Run> = self.oracle.runs().iter().filter(|run| any || wanted.contains(&run.status)).collect();
        self.dice.any(&fitting).cloned()
    }

    fn node(&mut self, wanted: &[Status]) -> Option<NodeRun> {
        let any = self.dice.chance(20);
        let fitting: Vec<&NodeRun> = self.oracle.nodes().iter().filter(|node| any || wanted.contains(&node.status)).collect();
        self.dice.any(&fitting).cloned()
    }

    fn agent(&mut self, wanted: &[Status]) -> Option<AgentRun> {
        let any = self.dice.chance(20);
        let fitting: Vec<&AgentRun> = self.oracle.agents().iter().filter(|agent| any || wanted.contains(&agent.status)).collect();
        self.dice.any(&fitting).cloned()
    }

    /// The key of a record mostly, otherwise any of the pools.
    fn key(&mut self, found: Option<(&Id, &Id)>, pool: &[Id]) -> (Id, Id) {
        match found.filter(|_| !self.dice.chance(8)) {
            Some((project, id)) => (project.clone(), id.clone()),
            None => (self.id(&PROJECTS), self.id(pool)),
        }
    }

    fn run_key(&mut self, run: Option<&Run>) -> (Id, Id) {
        self.key(run.map(|run| (&run.project_id, &run.id)), &RUNS)
    }

    fn node_key(&mut self, node: Option<&NodeRun>) -> (Id, Id) {
        self.key(node.map(|node| (&node.project_id, &node.id)), &NODES)
    }

    fn agent_key(&mut self, agent: Option<&AgentRun>) -> (Id, Id) {
        self.key(agent.map(|agent| (&agent.project_id, &agent.node_run_id)), &NODES)
    }

    /// A key that is mostly not taken.
    fn new_key(&mut self, pool: &[Id], is_taken: impl Fn(&Id, &Id) -> bool) -> (Id, Id) {
        let project = self.id(&PROJECTS);
        let free: Vec<&Id> = pool.iter().filter(|id| !is_taken(&project, id)).collect();
        match self.dice.any(&free).filter(|_| !self.dice.chance(15)) {
            Some(id) => (project, id.clone()),
            None => (project, self.id(pool)),
        }
    }

    /// Any command. One for which there is no record makes what it lacks instead, mostly.
    pub(super) fn command(&mut self) -> Command {
        // Each command, and how often it is made among all.
        let commands: [(usize, Make<'a, 'd>); 21] = [
            (16, Self::queue_run),
            (16, Self::start_run),
            (20, Self::start_node),
            (18, Self::create_agent),
            (8, Self::claim_run),
            (9, Self::reclaim_run),
            (10, Self::confirm_run),
            (10, Self::wait_run),
            (12, Self::resume_run),
            (12, Self::finish_run),
            (4, Self::cancel_run),
            (3, Self::delete_run),
            (4, Self::purge_runs),
            (12, Self::wait_node),
            (12, Self::finish_node),
            (8, Self::claim_agent),
            (14, Self::start_agent),
            (9, Self::reclaim_agent),
            (10, Self::confirm_agent),
            (12, Self::finish_agent),
            (5, Self::cancel_agent),
        ];
        let mut left = self.dice.below(commands.iter().map(|(weight, _)| weight).sum());
        for (weight, make) in commands {
            match left.checked_sub(weight) {
                Some(rest) => left = rest,
                None => return make(self),
            }
        }
        self.queue_run()
    }

    /// Whether a record that is lacking should be made first.
    fn lacks<T>(&mut self, found: &Option<T>) -> bool {
        found.is_none() && !self.dice.chance(15)
    }

    fn queue_run(&mut self) -> Command {
        let oracle = self.oracle;
        let (project, id) = self.new_key(&RUNS, |project, id| oracle.runs().iter().any(|run| run.project_id == *project && run.id == *id));
        with!(QueueRun::new(project, id, self.id(&WORKFLOWS), self.payload());
            with_queued_at(self.when()), with_source(self.maybe_payload()), with_requested_by_principal(self.principal()),
            with_answer(self.form()))
        .into()
    }

    fn start_run(&mut self) -> Command {
        let queued = if self.dice.chance(50) { self.run(&[Status::Queued]) } else { None };
        let oracle = self.oracle;
        let is_taken = |project: &Id, id: &Id| oracle.runs().iter().any(|run| run.project_id == *project && run.id == *id);
        let (project, id) = if queued.is_some() { self.run_key(queued.as_ref()) } else { self.new_key(&RUNS, is_taken) };
        let workflow = match queued.filter(|_| !self.dice.chance(10)) {
            Some(run) => run.workflow_id,
            None => self.id(&WORKFLOWS),
        };
        let execution = self.dice.chance(60).then(|| self.execution());
        with!(StartRun::new(project, id, workflow, self.payload());
            with_started_at(self.when()), with_source(self.maybe_payload()), with_requested_by_principal(self.principal()),
            with_execution(execution), with_answer(self.form()))
        .into()
    }

    fn claim_run(&mut self) -> Command {
        let run = self.run(&[Status::Queued]);
        if self.lacks(&run) {
            return self.queue_run();
        }
        let project = run.map_or_else(|| self.id(&PROJECTS), |run| run.project_id);
        with!(ClaimRun::new(project, self.execution());
            with_workflow_ids(self.workflow_ids(30)), with_started_at(self.when()), with_answer(self.form()))
        .into()
    }

    fn reclaim_run(&mut self) -> Command {
        let run = self.run(&[Status::Running]);
        if self.lacks(&run) {
            return self.start_run();
        }
        let lease_end = run.as_ref().and_then(|run| run.execution.as_ref()).map(|execution| execution.lease_expires_at);
        let (project, id) = self.run_key(run.as_ref());
        with!(ReclaimRun::new(project, id, self.execution()); with_lease_expired_by(self.guard(lease_end)), with_answer(self.form())).into()
    }

    /// The guard of a reclaim: close to the lease's end mostly.
    fn guard(&mut self, lease_end: Option<Time>) -> Option<Time> {
        if self.dice.chance(40) {
            return None;
        }
        Some(match lease_end.filter(|_| !self.dice.chance(20)) {
            Some(lease_end) => self.near(lease_end),
            None => self.time(),
        })
    }

    fn confirm_run(&mut self) -> Command {
        let run = self.run(&[Status::Running]);
        if self.lacks(&run) {
            return self.start_run();
        }
        let token = self.sure_token(run.as_ref().and_then(|run| run.execution.as_ref()));
        let (project, id) = self.run_key(run.as_ref());
        with!(ConfirmRun::new(project, id, token, self.time()); with_answer(self.form())).into()
    }

    fn wait_run(&mut self) -> Command {
        let run = self.run(&[Status::Running]);
        if self.lacks(&run) {
            return self.start_run();
        }
        let token = self.token(run.as_ref().and_then(|run| run.execution.as_ref()));
        let (project, id) = self.run_key(run.as_ref());
        with!(WaitRun::new(project, id); with_execution_token(token), with_waiting_at(self.when()), with_answer(self.form())).into()
    }

    fn resume_run(&mut self) -> Command {
        let run = self.run(&[Status::Waiting]);
        if self.lacks(&run) {
            return self.wait_run();
        }
        let (project, id) = self.run_key(run.as_ref());
        let execution = self.dice.chance(60).then(|| self.execution());
        with!(ResumeRun::new(project, id); with_execution(execution), with_answer(self.form())).into()
    }

    fn finish_run(&mut self) -> Command {
        let run = self.run(&[Status::Running, Status::Waiting, Status::Queued]);
        if self.lacks(&run) {
            return self.queue_run();
        }
        let token = self.token(run.as_ref().and_then(|run| run.execution.as_ref()));
        let (project, id) = self.run_key(run.as_ref());
        with!(FinishRun::new(project, id, self.end_status());
            with_finished_at(self.when()), with_output(self.maybe_payload()), with_error(self.maybe_text()), with_execution_token(token),
            with_answer(self.form()))
        .into()
    }

    fn cancel_run(&mut self) -> Command {
        let run = self.run(&[Status::Running, Status::Waiting, Status::Queued]);
        if self.lacks(&run) {
            return self.queue_run();
        }
        let (project, id) = self.run_key(run.as_ref());
        with!(CancelRun::new(project, id); with_error(self.maybe_text()), with_finished_at(self.when()), with_answer(self.form())).into()
    }

    fn delete_run(&mut self) -> Command {
        let run = self.run(&[Status::Succeeded, Status::Failed, Status::Cancelled]);
        if self.lacks(&run) {
            return self.finish_run();
        }
        let (project, id) = self.run_key(run.as_ref());
        DeleteRun::new(project, id).into()
    }

    fn purge_runs(&mut self) -> Command {
        let run = self.run(&[Status::Succeeded, Status::Failed, Status::Cancelled]);
        if self.lacks(&run) {
            return self.finish_run();
        }
        let before = match run.as_ref().and_then(|run| run.finished_at).filter(|_| !self.dice.chance(50)) {
            Some(finished_at) => self.near(finished_at),
            None => self.dice.one(&[Time::MAX, time(60)]),
        };
        let project = run.map_or_else(|| self.id(&PROJECTS), |run| run.project_id);
        let statuses = self.dice.maybe(30, |dice| dice.some(EndStatus::ALL, 3));
        let workflow_ids = self.workflow_ids(30);
        let limit = self.dice.maybe(80, |dice| dice.one(&[1_u32, 1, 1, 2, 2, 2, 3, 10_000, 0, 10_001]));
        with!(PurgeRuns::new(project, before); with_statuses(statuses), with_workflow_ids(workflow_ids), with_limit(limit)).into()
    }

    fn start_node(&mut self) -> Command {
        let run = self.run(&[Status::Running]);
        if self.lacks(&run) {
            return self.start_run();
        }
        let oracle = self.oracle;
        let taken = |project: &Id, id: &Id| oracle.nodes().iter().any(|node| node.project_id == *project && node.id == *id);
        let (mut project, id) = self.new_key(&NODES, taken);
        let (mut run_id, mut workflow) = (self.id(&RUNS), self.id(&WORKFLOWS));
        let token = self.token(run.as_ref().and_then(|run| run.execution.as_ref()));
        if let Some(run) = run.filter(|_| !self.dice.chance(8)) {
            (project, run_id) = (run.project_id, run.id);
            if !self.dice.chance(8) {
                workflow = run.workflow_id;
            }
        }
        let index = self.dice.one(&[0_u32, 0, 1, 2, u32::MAX]);
        let (node_type, node_id, node_key) = (self.id(&TYPES), self.id(&KEYS), self.id(&KEYS));
        with!(StartNode::new(project, id, run_id, workflow, index, node_type, node_id, node_key, self.payload());
            with_started_at(self.when()), with_execution_token(token), with_answer(self.form()))
        .into()
    }

    /// The execution of the run that a node run belongs to.
    fn owner_of(&self, node: Option<&NodeRun>) -> Option<Execution> {
        let node = node?;
        let run = self.oracle.runs().iter().find(|run| run.project_id == node.project_id && run.id == node.workflow_run_id)?;
        run.execution.clone()
    }

    fn wait_node(&mut self) -> Command {
        let node = self.node(&[Status::Running]);
        if self.lacks(&node) {
            return self.start_node();
        }
        let token = self.token(self.owner_of(node.as_ref()).as_ref());
        let (project, id) = self.node_key(node.as_ref());
        with!(WaitNode::new(project, id); with_execution_token(token), with_waiting_at(self.when()), with_answer(self.form())).into()
    }

    fn finish_node(&mut self) -> Command {
        let node = self.node(&[Status::Running, Status::Waiting]);
        if self.lacks(&node) {
            return self.start_node();
        }
        let token = self.token(self.owner_of(node.as_ref()).as_ref());
        let (project, id) = self.node_key(node.as_ref());
        with!(FinishNode::new(project, id, self.end_status());
            with_finished_at(self.when()), with_output(self.maybe_payload()), with_error(self.maybe_text()), with_execution_token(token),
            with_answer(self.form()))
        .into()
    }

    fn create_agent(&mut self) -> Command {
        let oracle = self.oracle;
        let is_taken = |node: &NodeRun| oracle.agents().iter().any(|a| a.project_id == node.project_id && a.node_run_id == node.id);
        let free = |node: &&NodeRun| node.status == Status::Running && node.node_type == "agent" && !is_taken(node);
        let fitting: Vec<&NodeRun> = oracle.nodes().iter().filter(free).collect();
        let node = if self.dice.chance(20) { self.node(&[Status::Running]) } else { self.dice.any(&fitting).cloned() };
        if self.lacks(&node) {
            return self.start_node();
        }
        let token = if self.dice.chance(50) { self.token(self.owner_of(node.as_ref()).as_ref()) } else { None };
        let (project, id) = self.node_key(node.as_ref());
        with!(CreateAgent::new(project, id, self.id(&AGENTS), self.dice.one(&TEXTS));
            with_created_at(self.when()), with_execution_token(token), with_answer(self.form()))
        .into()
    }

    fn claim_agent(&mut self) -> Command {
        let agent = self.agent(&[Status::Queued]);
        if self.lacks(&agent) {
            return self.create_agent();
        }
        let project = agent.map_or_else(|| self.id(&PROJECTS), |agent| agent.project_id);
        let agent_ids = self.dice.maybe(30, |dice| dice.some(&AGENTS, 3));
        with!(ClaimAgent::new(project, self.execution());
            with_agent_ids(agent_ids), with_execution_principal(self.principal()), with_model_id(self.maybe_text()),
            with_started_at(self.when()), with_answer(self.form()))
        .into()
    }

    fn start_agent(&mut self) -> Command {
        let agent = self.agent(&[Status::Queued]);
        if self.lacks(&agent) {
            return self.create_agent();
        }
        let (project, id) = self.agent_key(agent.as_ref());
        with!(StartAgent::new(project, id, self.execution());
            with_execution_principal(self.principal()), with_model_id(self.maybe_text()), with_started_at(self.when()),
            with_answer(self.form()))
        .into()
    }

    fn reclaim_agent(&mut self) -> Command {
        let agent = self.agent(&[Status::Running]);
        if self.lacks(&agent) {
            return self.start_agent();
        }
        let lease_end = agent.as_ref().and_then(|agent| agent.execution.as_ref()).map(|execution| execution.lease_expires_at);
        let (project, id) = self.agent_key(agent.as_ref());
        with!(ReclaimAgent::new(project, id, self.execution()); with_lease_expired_by(self.guard(lease_end)), with_answer(self.form()))
            .into()
    }

    fn confirm_agent(&mut self) -> Command {
        let agent = self.agent(&[Status::Running]);
        if self.lacks(&agent) {
            return self.start_agent();
        }
        let token = self.sure_token(agent.as_ref().and_then(|agent| agent.execution.as_ref()));
        let (project, id) = self.agent_key(agent.as_ref());
        with!(ConfirmAgent::new(project, id, token, self.time()); with_answer(self.form())).into()
    }

    fn finish_agent(&mut self) -> Command {
        let agent = self.agent(&[Status::Running]);
        if self.lacks(&agent) {
            return self.start_agent();
        }
        let token = self.sure_token(agent.as_ref().and_then(|agent| agent.execution.as_ref()));
        let (project, id) = self.agent_key(agent.as_ref());
        with!(FinishAgent::new(project, id, token, self.end_status());
            with_model_id(self.maybe_text()), with_finish_reason(self.maybe_text()), with_usage(self.maybe_payload()),
            with_trace(self.maybe_payload()), with_diagnostics(self.maybe_payload()), with_error(self.maybe_text()),
            with_completed_at(self.when()), with_answer(self.form()))
        .into()
    }

    fn cancel_agent(&mut self) -> Command {
        let agent = self.agent(&[Status::Queued, Status::Running]);
        if self.lacks(&agent) {
            return self.create_agent();
        }
        let (project, id) = self.agent_key(agent.as_ref());
        with!(CancelAgent::new(project, id); with_error(self.maybe_text()), with_completed_at(self.when()), with_answer(self.form())).into()
    }

    fn workflow_ids(&mut self, percent: usize) -> Option<Vec<Id>> {
        self.dice.maybe(percent, |dice| dice.some(&WORKFLOWS, 4))
    }

    /// A project that has records mostly.
    fn project(&mut self) -> Id {
        self.run(Status::ALL).filter(|_| !self.dice.chance(10)).map_or_else(|| self.id(&PROJECTS), |run| run.project_id)
    }

    /// Any query but those on the store itself.
    pub(super) fn query(&mut self) -> Query {
        match self.dice.below(13) {
            0 | 1 => self.list_runs(),
            2 | 3 => self.list_nodes(),
            4 => self.list_agents(),
            5 => self.list_projects(),
            6 => {
                let run = self.run(Status::ALL);
                let (project, id) = self.run_key(run.as_ref());
                with!(GetRun::new(project, id); with_answer(self.form())).into()
            }
            7 => {
                let node = self.node(Status::ALL);
                let (project, id) = self.node_key(node.as_ref());
                with!(GetNode::new(project, id); with_answer(self.form())).into()
            }
            8 => {
                let agent = self.agent(Status::ALL);
                let (project, id) = self.agent_key(agent.as_ref());
                with!(GetAgent::new(project, id); with_answer(self.form())).into()
            }
            9 => with!(LatestRuns::new(self.project(), self.dice.some(&WORKFLOWS, 6)); with_answer(self.form())).into(),
            10 => with!(GetRunStats::new(self.project()); with_workflow_ids(self.workflow_ids(40))).into(),
            11 => self.expired_runs(),
            _ => self.expired_agents(),
        }
    }

    /// Any list.
    pub(super) fn list(&mut self) -> Query {
        match self.dice.below(4) {
            0 => self.list_runs(),
            1 => self.list_nodes(),
            2 => self.list_agents(),
            _ => self.list_projects(),
        }
    }

    fn order(&mut self) -> Option<Order> {
        self.dice.maybe(60, |dice| dice.one(Order::ALL))
    }

    fn limit(&mut self) -> Option<u32> {
        self.dice.maybe(70, |dice| dice.one(&[1_u32, 1, 1, 2, 2, 2, 3, 3, 5, 5, 0, 10_000, 10_001]))
    }

    fn offset(&mut self) -> Option<u64> {
        self.dice.maybe(20, |dice| dice.one(&[0_u64, 1, 1, 1, 2, 2, 3, 50, i64::MAX as u64, u64::MAX]))
    }

    fn total(&mut self) -> Option<bool> {
        self.dice.maybe(40, |dice| dice.one(&[false, true]))
    }

    fn statuses(&mut self) -> Option<Vec<Status>> {
        self.dice.maybe(25, |dice| dice.some(Status::ALL, 5))
    }

    fn bound(&mut self) -> Option<Time> {
        self.dice.maybe(8, |dice| dice.one(&TIMES))
    }

    fn list_runs(&mut self) -> Query {
        with!(ListRuns::new(self.project());
            with_order(self.order()), with_limit(self.limit()), with_offset(self.offset()), with_with_total(self.total()),
            with_workflow_id(self.dice.maybe(10, |dice| dice.one(&WORKFLOWS))), with_workflow_ids(self.workflow_ids(15)),
            with_statuses(self.statuses()), with_started_after(self.bound()), with_started_before(self.bound()), with_answer(self.form()))
        .into()
    }

    fn list_nodes(&mut self) -> Query {
        let node = self.node(Status::ALL);
        let run_id = node.as_ref().map(|node| node.workflow_run_id.clone()).filter(|_| self.dice.chance(40));
        let project = node.filter(|_| !self.dice.chance(10)).map_or_else(|| self.id(&PROJECTS), |node| node.project_id);
        with!(ListNodes::new(project);
            with_order(self.order()), with_limit(self.limit()), with_offset(self.offset()), with_with_total(self.total()),
            with_workflow_run_id(run_id), with_workflow_id(self.dice.maybe(8, |dice| dice.one(&WORKFLOWS))),
            with_node_type(self.dice.maybe(8, |dice| dice.one(&TYPES))), with_node_id(self.dice.maybe(8, |dice| dice.one(&KEYS))),
            with_node_key(self.dice.maybe(8, |dice| dice.one(&KEYS))), with_statuses(self.statuses()),
            with_started_after(self.bound()), with_started_before(self.bound()), with_answer(self.form()))
        .into()
    }

    fn list_agents(&mut self) -> Query {
        let agent = self.agent(Status::ALL).filter(|_| !self.dice.chance(10));
        let project = agent.map_or_else(|| self.id(&PROJECTS), |agent| agent.project_id);
        with!(ListAgents::new(project);
            with_order(self.order()), with_limit(self.limit()), with_offset(self.offset()), with_with_total(self.total()),
            with_agent_id(self.dice.maybe(15, |dice| dice.one(&AGENTS))), with_statuses(self.statuses()),
            with_created_after(self.bound()), with_created_before(self.bound()), with_answer(self.form()))
        .into()
    }

    fn list_projects(&mut self) -> Query {
        with!(ListProjects::new();
            with_order(self.order()), with_limit(self.limit()), with_offset(self.offset()), with_with_total(self.total()))
        .into()
    }

    fn expired_runs(&mut self) -> Query {
        let run = self.run(&[Status::Running]);
        let by = match run.as_ref().and_then(|run| run.execution.as_ref()) {
            Some(execution) => self.near(execution.lease_expires_at),
            None => self.time(),
        };
        with!(ExpiredRuns::new(by);
            with_project_id(self.dice.maybe(40, |dice| dice.one(&PROJECTS))),
            with_limit(self.dice.maybe(60, |dice| dice.one(&[1_u32, 1, 2, 2, 3, 3, 10_000, 0, 10_001]))), with_answer(self.form()))
        .into()
    }

    fn expired_agents(&mut self) -> Query {
        let agent = self.agent(&[Status::Running]);
        let by = match agent.as_ref().and_then(|agent| agent.execution.as_ref()) {
            Some(execution) => self.near(execution.lease_expires_at),
            None => self.time(),
        };
        with!(ExpiredAgents::new(by);
            with_project_id(self.dice.maybe(40, |dice| dice.one(&PROJECTS))),
            with_limit(self.dice.maybe(60, |dice| dice.one(&[1_u32, 1, 2, 2, 3, 3, 10_000, 0, 10_001]))), with_answer(self.form()))
        .into()
    }
}
