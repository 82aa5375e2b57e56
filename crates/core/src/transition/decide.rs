//! What becomes of the loaded records, or why the command is refused.

use super::scope::Loaded;
use crate::{
    AgentRun, CancelAgent, CancelRun, ClaimAgent, ClaimRun, Code, Command, ConfirmAgent, ConfirmRun, CreateAgent, DEFAULT_ROWS, DeleteRun,
    EndStatus, Entity, Error, Execution, FinishAgent, FinishNode, FinishRun, Held, Id, NodeRun, Payload, Principal, PurgeRuns, Put,
    QueueRun, ReclaimAgent, ReclaimRun, Record, Result, ResumeRun, Run, StartAgent, StartNode, StartRun, Status, Stored, Text, Time,
    WaitNode, WaitRun,
};

/// What a command does to the store.
#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant, reason = "one is alive at a time")]
pub enum Decision {
    /// Store this run, and answer it.
    Run(Put<Run>),
    /// Store the run that was claimed, if there was one, and answer it.
    ClaimedRun(Option<Put<Run>>),
    /// Store this node run, and answer it.
    Node(Put<NodeRun>),
    /// Store this agent run, and answer it.
    Agent(Put<AgentRun>),
    /// Store the agent run that was claimed, if there was one, and answer it.
    ClaimedAgent(Option<Put<AgentRun>>),
    /// Store a cancelled run with all that was active under it, and answer the run.
    Cancelled {
        /// The run.
        run: Put<Run>,
        /// Its active node runs.
        nodes: Vec<Put<NodeRun>>,
        /// The active agent runs under it.
        agents: Vec<Put<AgentRun>>,
    },
    /// Delete this run with all that is under it.
    Deleted(Stored<Run>),
    /// Delete these runs with all that is under them.
    Purged {
        /// The runs.
        runs: Vec<Stored<Run>>,
        /// Whether more match.
        has_more: bool,
    },
}

/// Decides a command: checks what it needs, in the contract's order, and says what it does.
///
/// # Errors
/// The refusal of the first check that fails. `internal` when the records are not those of the command's scope.
pub fn decide(now: Time, loaded: Loaded, command: &Command) -> Result<Decision> {
    let project = command.project_id();
    Ok(match (command, loaded) {
        (Command::QueueRun(c), Loaded::Run(run)) => Decision::Run(queue_run(now, run, c)?),
        (Command::StartRun(c), Loaded::Run(run)) => Decision::Run(start_run(now, run, c)?),
        (Command::ClaimRun(c), Loaded::Run(run)) => Decision::ClaimedRun(claim_run(now, run, c)?),
        (Command::ReclaimRun(c), Loaded::Run(run)) => Decision::Run(reclaim_run(found(run, project, &c.id)?, c)?),
        (Command::ConfirmRun(c), Loaded::Run(run)) => Decision::Run(confirm_run(found(run, project, &c.id)?, c)?),
        (Command::WaitRun(c), Loaded::Run(run)) => Decision::Run(wait_run(now, found(run, project, &c.id)?, c)?),
        (Command::ResumeRun(c), Loaded::Run(run)) => Decision::Run(resume_run(found(run, project, &c.id)?, c)?),
        (Command::FinishRun(c), Loaded::Run(run)) => Decision::Run(finish_run(now, found(run, project, &c.id)?, c)?),
        (Command::CancelRun(c), Loaded::RunTree(run, nodes, agents)) => cancel_run(now, found(run, project, &c.id)?, nodes, agents, c)?,
        (Command::DeleteRun(c), Loaded::Run(run)) => Decision::Deleted(delete_run(found(run, project, &c.id)?, c)?),
        (Command::PurgeRuns(c), Loaded::EndedRuns(runs)) => purge_runs(runs, c),
        (Command::StartNode(c), Loaded::NewNode(run, is_taken)) => Decision::Node(start_node(now, run, is_taken, c)?),
        (Command::WaitNode(c), Loaded::Node(both)) => Decision::Node(wait_node(now, node_found(both, project, &c.id)?, c)?),
        (Command::FinishNode(c), Loaded::Node(both)) => Decision::Node(finish_node(now, node_found(both, project, &c.id)?, c)?),
        (Command::CreateAgent(c), Loaded::NewAgent(node, run, is_taken)) => Decision::Agent(create_agent(now, node, run, is_taken, c)?),
        (Command::ClaimAgent(c), Loaded::Agent(agent)) => Decision::ClaimedAgent(claim_agent(now, agent, c)?),
        (Command::StartAgent(c), Loaded::Agent(agent)) => Decision::Agent(start_agent(now, found(agent, project, &c.node_run_id)?, c)?),
        (Command::ReclaimAgent(c), Loaded::Agent(agent)) => Decision::Agent(reclaim_agent(found(agent, project, &c.node_run_id)?, c)?),
        (Command::ConfirmAgent(c), Loaded::Agent(agent)) => Decision::Agent(confirm_agent(found(agent, project, &c.node_run_id)?, c)?),
        (Command::FinishAgent(c), Loaded::Agent(agent)) => Decision::Agent(finish_agent(now, found(agent, project, &c.node_run_id)?, c)?),
        (Command::CancelAgent(c), Loaded::Agent(agent)) => Decision::Agent(cancel_agent(now, found(agent, project, &c.node_run_id)?, c)?),
        _ => return Err(Error::new(Code::Internal, "a command was decided about records that are not its own")),
    })
}

// ---- the checks

fn refused<R: Record>(code: Code, record: &R, found_and_needed: impl std::fmt::Display) -> Error {
    Error::refused(code, R::ENTITY, record.project_id(), record.key_id(), found_and_needed)
}

fn not_found(entity: Entity, project: &Id, id: &Id) -> Error {
    Error::refused(Code::NotFound, entity, project, id, "there is none")
}

fn found<R: Record>(stored: Option<Stored<R>>, project: &Id, id: &Id) -> Result<Stored<R>> {
    stored.ok_or_else(|| not_found(R::ENTITY, project, id))
}

fn node_found(both: Option<(Stored<NodeRun>, Stored<Run>)>, project: &Id, id: &Id) -> Result<(Stored<NodeRun>, Stored<Run>)> {
    both.ok_or_else(|| not_found(Entity::Node, project, id))
}

fn already_exists(entity: Entity, project: &Id, id: &Id) -> Error {
    Error::refused(Code::AlreadyExists, entity, project, id, "there is one already; a new id was needed")
}

fn need_status<R: Record>(record: &R, allowed: &[Status]) -> Result<()> {
    let status = record.status();
    if allowed.contains(&status) {
        return Ok(());
    }
    let allowed = allowed.iter().map(|status| status.as_str()).collect::<Vec<_>>().join(" or ");
    Err(refused(Code::InvalidTransition, record, format_args!("it is {status}; {allowed} was needed")).with_status(status))
}

/// The given token must be the current one; absent equals absent.
fn need_owner<R: Record>(record: &R, execution: Option<&Execution>, token: Option<&Id>) -> Result<()> {
    match (execution.map(|execution| &execution.token), token) {
        (current, given) if current == given => Ok(()),
        (Some(_), Some(_)) => Err(refused(Code::StaleToken, record, "another execution owns it; the given token is not the current one")),
        (Some(_), None) => Err(refused(Code::StaleToken, record, "an execution owns it; its token was needed")),
        (None, _) => Err(refused(Code::StaleToken, record, "no execution owns it (any more); no token was to be given")),
    }
}

/// Of a guarded reclaim: the current lease must end at or before the given time.
fn need_expired<R: Record>(record: &R, execution: Option<&Execution>, expired_by: Option<Time>) -> Result<()> {
    let Some(by) = expired_by else { return Ok(()) };
    match execution {
        Some(execution) if execution.lease_expires_at <= by => Ok(()),
        Some(execution) => {
            let end = execution.lease_expires_at;
            Err(refused(Code::LeaseActive, record, format_args!("its lease ends at {end}; an end at or before {by} was needed")))
        }
        None => Err(refused(Code::LeaseActive, record, "it has no lease that could have ended")),
    }
}

fn next_attempt<R: Record>(record: &R, attempt: u32) -> Result<u32> {
    let status = record.status();
    attempt.checked_add(1).ok_or_else(|| {
        refused(Code::InvalidTransition, record, format_args!("attempt {attempt} is the last one that can be counted")).with_status(status)
    })
}

// ---- changing a record

/// The record after a change of its state, and of the large values that the change sets.
fn changed<R: Record>(before: Stored<R>, change: impl FnOnce(&mut Changing<R>)) -> Put<R> {
    let mut changing = Changing { after: before.clone(), written: Held::default() };
    change(&mut changing);
    Put { before: Some(before), after: changing.after, written: changing.written }
}

struct Changing<R> {
    after: Stored<R>,
    written: Held,
}

impl<R: Record> Changing<R> {
    /// Sets the large value of a slot, where one is given.
    fn set_large(&mut self, slot: usize, payload: Option<&Payload>) {
        if let Some(payload) = payload {
            self.after.record.set_large(slot, payload.clone().into());
            self.after.held.insert(slot);
            self.written.insert(slot);
        }
    }
}

/// The slots of large values, as [`Record::LARGE`] has them.
mod slot {
    pub(super) const INPUT: usize = 0;
    pub(super) const OUTPUT: usize = 1;
    pub(super) const SOURCE: usize = 2;
    pub(super) const USAGE: usize = 1;
    pub(super) const TRACE: usize = 2;
    pub(super) const DIAGNOSTICS: usize = 3;
}

/// The error that an ended record keeps: none if it succeeded.
fn kept_error(status: EndStatus, error: Option<&Text>) -> Option<Text> {
    if status == EndStatus::Succeeded { None } else { error.cloned() }
}

/// The output that an ended record keeps: none unless it succeeded.
fn kept_output(status: EndStatus, output: Option<&Payload>) -> Option<&Payload> {
    if status == EndStatus::Succeeded { output } else { None }
}

fn end_run(run: &mut Run, status: Status, finished_at: Time, error: Option<Text>) {
    run.status = status;
    run.finished_at = Some(finished_at);
    run.waiting_since = None;
    run.execution = None;
    run.error = error;
}

fn end_node(node: &mut NodeRun, status: Status, finished_at: Time, error: Option<Text>) {
    node.status = status;
    node.finished_at = Some(finished_at);
    node.waiting_since = None;
    node.error = error;
}

fn end_agent(agent: &mut AgentRun, status: Status, completed_at: Time, error: Option<Text>) {
    agent.status = status;
    agent.completed_at = Some(completed_at);
    agent.execution = None;
    agent.error = error;
}

// ---- runs

fn queue_run(now: Time, run: Option<Stored<Run>>, c: &QueueRun) -> Result<Put<Run>> {
    if run.is_some() {
        return Err(already_exists(Entity::Run, &c.project_id, &c.id));
    }
    let queued_at = c.queued_at.unwrap_or(now);
    Ok(Put::insert(Run {
        project_id: c.project_id.clone(),
        id: c.id.clone(),
        workflow_id: c.workflow_id.clone(),
        status: Status::Queued,
        input: Some(c.input.clone()),
        queued_at: Some(queued_at),
        started_at: queued_at,
        waiting_since: None,
        finished_at: None,
        output: None,
        error: None,
        source: c.source.clone(),
        requested_by_principal: c.requested_by_principal.clone().unwrap_or_else(Principal::system),
        attempt: 0,
        execution: None,
    }))
}

fn start_run(now: Time, run: Option<Stored<Run>>, c: &StartRun) -> Result<Put<Run>> {
    let started_at = c.started_at.unwrap_or(now);
    let Some(run) = run else {
        return Ok(Put::insert(Run {
            project_id: c.project_id.clone(),
            id: c.id.clone(),
            workflow_id: c.workflow_id.clone(),
            status: Status::Running,
            input: Some(c.input.clone()),
            queued_at: None,
            started_at,
            waiting_since: None,
            finished_at: None,
            output: None,
            error: None,
            source: c.source.clone(),
            requested_by_principal: c.requested_by_principal.clone().unwrap_or_else(Principal::system),
            attempt: 1,
            execution: c.execution.clone(),
        }));
    };
    if run.record.status != Status::Queued {
        return Err(already_exists(Entity::Run, &c.project_id, &c.id));
    }
    need_workflow(&run.record, &c.workflow_id)?;
    let had_source = run.held.contains(slot::SOURCE);
    let mut put = begin_run(run, started_at, c.execution.as_ref(), c.source.as_ref().filter(|_| !had_source))?;
    put.after.record.input = Some(c.input.clone());
    put.written.insert(slot::INPUT);
    Ok(put)
}

/// A queued run begins.
fn begin_run(run: Stored<Run>, started_at: Time, execution: Option<&Execution>, source: Option<&Payload>) -> Result<Put<Run>> {
    let attempt = next_attempt(&run.record, run.record.attempt)?;
    Ok(changed(run, |changing| {
        let run = &mut changing.after.record;
        run.status = Status::Running;
        run.attempt = attempt;
        run.started_at = started_at;
        run.execution = execution.cloned();
        changing.set_large(slot::SOURCE, source);
    }))
}

fn need_workflow(run: &Run, workflow_id: &Id) -> Result<()> {
    if run.workflow_id == *workflow_id {
        return Ok(());
    }
    let found = &run.workflow_id;
    Err(refused(Code::WorkflowMismatch, run, format_args!("it is of workflow '{found}'; workflow '{workflow_id}' was given")))
}

fn claim_run(now: Time, run: Option<Stored<Run>>, c: &ClaimRun) -> Result<Option<Put<Run>>> {
    run.map(|run| begin_run(run, c.started_at.unwrap_or(now), Some(&c.execution), None)).transpose()
}

fn reclaim_run(run: Stored<Run>, c: &ReclaimRun) -> Result<Put<Run>> {
    need_status(&run.record, &[Status::Running])?;
    need_expired(&run.record, run.record.execution.as_ref(), c.lease_expired_by)?;
    let attempt = next_attempt(&run.record, run.record.attempt)?;
    Ok(changed(run, |changing| {
        let run = &mut changing.after.record;
        run.attempt = attempt;
        run.execution = Some(c.execution.clone());
    }))
}

/// A heartbeat never moves the end of a lease back.
fn confirm(execution: &mut Option<Execution>, lease_expires_at: Time) {
    if let Some(execution) = execution {
        execution.lease_expires_at = execution.lease_expires_at.max(lease_expires_at);
    }
}

fn confirm_run(run: Stored<Run>, c: &ConfirmRun) -> Result<Put<Run>> {
    need_status(&run.record, &[Status::Running])?;
    need_owner(&run.record, run.record.execution.as_ref(), Some(&c.execution_token))?;
    Ok(changed(run, |changing| confirm(&mut changing.after.record.execution, c.lease_expires_at)))
}

fn wait_run(now: Time, run: Stored<Run>, c: &WaitRun) -> Result<Put<Run>> {
    need_status(&run.record, &[Status::Running])?;
    need_owner(&run.record, run.record.execution.as_ref(), c.execution_token.as_ref())?;
    Ok(changed(run, |changing| {
        let run = &mut changing.after.record;
        run.status = Status::Waiting;
        run.waiting_since = Some(c.waiting_at.unwrap_or(now));
        run.execution = None;
    }))
}

fn resume_run(run: Stored<Run>, c: &ResumeRun) -> Result<Put<Run>> {
    need_status(&run.record, &[Status::Waiting])?;
    let attempt = next_attempt(&run.record, run.record.attempt)?;
    Ok(changed(run, |changing| {
        let run = &mut changing.after.record;
        run.status = Status::Running;
        run.waiting_since = None;
        run.attempt = attempt;
        run.execution = c.execution.clone();
    }))
}

fn finish_run(now: Time, run: Stored<Run>, c: &FinishRun) -> Result<Put<Run>> {
    let allowed: &[Status] = match c.status {
        EndStatus::Succeeded => &[Status::Running],
        EndStatus::Failed | EndStatus::Cancelled => &[Status::Running, Status::Queued, Status::Waiting],
    };
    need_status(&run.record, allowed)?;
    need_owner(&run.record, run.record.execution.as_ref(), c.execution_token.as_ref())?;
    Ok(changed(run, |changing| {
        let error = kept_error(c.status, c.error.as_ref());
        end_run(&mut changing.after.record, c.status.into(), c.finished_at.unwrap_or(now), error);
        changing.set_large(slot::OUTPUT, kept_output(c.status, c.output.as_ref()));
    }))
}

fn cancel_run(now: Time, run: Stored<Run>, nodes: Vec<Stored<NodeRun>>, agents: Vec<Stored<AgentRun>>, c: &CancelRun) -> Result<Decision> {
    need_status(&run.record, &[Status::Queued, Status::Running, Status::Waiting])?;
    let finished_at = c.finished_at.unwrap_or(now);
    let nodes = nodes.into_iter().filter(|node| !node.record.status.is_terminal());
    let nodes =
        nodes.map(|node| changed(node, |changing| end_node(&mut changing.after.record, Status::Cancelled, finished_at, c.error.clone())));
    let agents = agents.into_iter().filter(|agent| !agent.record.status.is_terminal());
    let agents = agents
        .map(|agent| changed(agent, |changing| end_agent(&mut changing.after.record, Status::Cancelled, finished_at, c.error.clone())));
    let (nodes, agents) = (nodes.collect(), agents.collect());
    let run = changed(run, |changing| end_run(&mut changing.after.record, Status::Cancelled, finished_at, c.error.clone()));
    Ok(Decision::Cancelled { run, nodes, agents })
}

fn delete_run(run: Stored<Run>, _c: &DeleteRun) -> Result<Stored<Run>> {
    need_status(&run.record, &[Status::Succeeded, Status::Failed, Status::Cancelled])?;
    Ok(run)
}

fn purge_runs(mut runs: Vec<Stored<Run>>, c: &PurgeRuns) -> Decision {
    let limit = c.limit.unwrap_or(DEFAULT_ROWS) as usize;
    let has_more = runs.len() > limit;
    runs.truncate(limit);
    Decision::Purged { runs, has_more }
}

// ---- node runs

fn start_node(now: Time, run: Option<Stored<Run>>, is_taken: bool, c: &StartNode) -> Result<Put<NodeRun>> {
    let run = found(run, &c.project_id, &c.workflow_run_id)?.record;
    need_status(&run, &[Status::Running])?;
    need_owner(&run, run.execution.as_ref(), c.execution_token.as_ref())?;
    need_workflow(&run, &c.workflow_id)?;
    if is_taken {
        return Err(already_exists(Entity::Node, &c.project_id, &c.id));
    }
    Ok(Put::insert(NodeRun {
        // Equal texts, but shared with the run, where a store shares its own.
        project_id: run.project_id.clone(),
        id: c.id.clone(),
        workflow_run_id: run.id.clone(),
        workflow_id: run.workflow_id.clone(),
        node_index: c.node_index,
        node_type: c.node_type.clone(),
        node_id: c.node_id.clone(),
        node_key: c.node_key.clone(),
        status: Status::Running,
        input: Some(c.input.clone()),
        started_at: c.started_at.unwrap_or(now),
        waiting_since: None,
        finished_at: None,
        output: None,
        error: None,
    }))
}

fn wait_node(now: Time, (node, run): (Stored<NodeRun>, Stored<Run>), c: &WaitNode) -> Result<Put<NodeRun>> {
    // A worker that lost its run must learn that before anything else.
    need_owner(&run.record, run.record.execution.as_ref(), c.execution_token.as_ref())?;
    need_status(&run.record, &[Status::Running, Status::Waiting])?;
    need_status(&node.record, &[Status::Running])?;
    Ok(changed(node, |changing| {
        let node = &mut changing.after.record;
        node.status = Status::Waiting;
        node.waiting_since = Some(c.waiting_at.unwrap_or(now));
    }))
}

fn finish_node(now: Time, (node, run): (Stored<NodeRun>, Stored<Run>), c: &FinishNode) -> Result<Put<NodeRun>> {
    need_owner(&run.record, run.record.execution.as_ref(), c.execution_token.as_ref())?;
    need_status(&node.record, &[Status::Running, Status::Waiting])?;
    Ok(changed(node, |changing| {
        let error = kept_error(c.status, c.error.as_ref());
        end_node(&mut changing.after.record, c.status.into(), c.finished_at.unwrap_or(now), error);
        changing.set_large(slot::OUTPUT, kept_output(c.status, c.output.as_ref()));
    }))
}

// ---- agent runs

impl NodeRun {
    /// The type of the node runs that can have an agent run.
    pub const AGENT_TYPE: &str = "agent";

    /// Whether the node run can have an agent run.
    pub fn is_agent_node(&self) -> bool {
        self.node_type == NodeRun::AGENT_TYPE
    }
}

fn create_agent(
    now: Time,
    node: Option<Stored<NodeRun>>,
    run: Option<Stored<Run>>,
    is_taken: bool,
    c: &CreateAgent,
) -> Result<Put<AgentRun>> {
    let node = found(node, &c.project_id, &c.node_run_id)?.record;
    if !node.is_agent_node() {
        let (found, needed) = (&node.node_type, NodeRun::AGENT_TYPE);
        return Err(refused(Code::NotAgentNode, &node, format_args!("it is of type '{found}'; type '{needed}' was needed")));
    }
    need_status(&node, &[Status::Running])?;
    if let (Some(token), Some(run)) = (&c.execution_token, &run) {
        need_owner(&run.record, run.record.execution.as_ref(), Some(token))?;
    }
    if is_taken {
        return Err(already_exists(Entity::Agent, &c.project_id, &c.node_run_id));
    }
    Ok(Put::insert(AgentRun {
        project_id: c.project_id.clone(),
        node_run_id: c.node_run_id.clone(),
        agent_id: c.agent_id.clone(),
        status: Status::Queued,
        prompt: Some(c.prompt.clone()),
        execution_principal: None,
        model_id: None,
        finish_reason: None,
        usage: None,
        trace: None,
        diagnostics: None,
        error: None,
        attempt: 0,
        execution: None,
        created_at: c.created_at.unwrap_or(now),
        started_at: None,
        completed_at: None,
    }))
}

/// A queued agent run begins.
fn begin_agent(
    agent: Stored<AgentRun>,
    started_at: Time,
    execution: &Execution,
    principal: Option<&Principal>,
    model_id: Option<&Text>,
) -> Result<Put<AgentRun>> {
    let attempt = next_attempt(&agent.record, agent.record.attempt)?;
    Ok(changed(agent, |changing| {
        let agent = &mut changing.after.record;
        agent.status = Status::Running;
        agent.attempt = attempt;
        agent.started_at = Some(started_at);
        agent.execution = Some(execution.clone());
        agent.execution_principal = principal.cloned();
        agent.model_id = model_id.cloned();
    }))
}

fn claim_agent(now: Time, agent: Option<Stored<AgentRun>>, c: &ClaimAgent) -> Result<Option<Put<AgentRun>>> {
    let begin = |agent| begin_agent(agent, c.started_at.unwrap_or(now), &c.execution, c.execution_principal.as_ref(), c.model_id.as_ref());
    agent.map(begin).transpose()
}

fn start_agent(now: Time, agent: Stored<AgentRun>, c: &StartAgent) -> Result<Put<AgentRun>> {
    need_status(&agent.record, &[Status::Queued])?;
    begin_agent(agent, c.started_at.unwrap_or(now), &c.execution, c.execution_principal.as_ref(), c.model_id.as_ref())
}

fn reclaim_agent(agent: Stored<AgentRun>, c: &ReclaimAgent) -> Result<Put<AgentRun>> {
    need_status(&agent.record, &[Status::Running])?;
    need_expired(&agent.record, agent.record.execution.as_ref(), c.lease_expired_by)?;
    let attempt = next_attempt(&agent.record, agent.record.attempt)?;
    Ok(changed(agent, |changing| {
        let agent = &mut changing.after.record;
        agent.attempt = attempt;
        agent.execution = Some(c.execution.clone());
    }))
}

fn confirm_agent(agent: Stored<AgentRun>, c: &ConfirmAgent) -> Result<Put<AgentRun>> {
    need_status(&agent.record, &[Status::Running])?;
    need_owner(&agent.record, agent.record.execution.as_ref(), Some(&c.execution_token))?;
    Ok(changed(agent, |changing| confirm(&mut changing.after.record.execution, c.lease_expires_at)))
}

fn finish_agent(now: Time, agent: Stored<AgentRun>, c: &FinishAgent) -> Result<Put<AgentRun>> {
    need_status(&agent.record, &[Status::Running])?;
    need_owner(&agent.record, agent.record.execution.as_ref(), Some(&c.execution_token))?;
    Ok(changed(agent, |changing| {
        let agent = &mut changing.after.record;
        end_agent(agent, c.status.into(), c.completed_at.unwrap_or(now), kept_error(c.status, c.error.as_ref()));
        if c.model_id.is_some() {
            agent.model_id = c.model_id.clone();
        }
        if c.finish_reason.is_some() {
            agent.finish_reason = c.finish_reason.clone();
        }
        changing.set_large(slot::USAGE, c.usage.as_ref());
        changing.set_large(slot::TRACE, c.trace.as_ref());
        changing.set_large(slot::DIAGNOSTICS, c.diagnostics.as_ref());
    }))
}

fn cancel_agent(now: Time, agent: Stored<AgentRun>, c: &CancelAgent) -> Result<Put<AgentRun>> {
    need_status(&agent.record, &[Status::Queued, Status::Running])?;
    Ok(changed(agent, |changing| {
        end_agent(&mut changing.after.record, Status::Cancelled, c.completed_at.unwrap_or(now), c.error.clone());
    }))
}
