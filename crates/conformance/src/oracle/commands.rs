//! What each command needs, in the contract's order, and what it does.

use runledger_core::{
    AgentRun, AnswerForm, CancelAgent, CancelRun, ClaimAgent, ClaimRun, Code, Command, ConfirmAgent, ConfirmRun, CreateAgent, DeleteRun,
    EndStatus, Entity, Execution, FinishAgent, FinishNode, FinishRun, Id, NodeRun, Principal, PurgeRuns, QueueRun, ReclaimAgent,
    ReclaimRun, ResumeRun, Run, StartAgent, StartNode, StartRun, Status, Text, Time, WaitNode, WaitRun,
};

use super::render::{agent, agent_state, node, node_state, object, run, run_state};
use super::{Oracle, Refusal};

type Outcome = Result<String, Refusal>;

const ACTIVE: [Status; 3] = [Status::Queued, Status::Running, Status::Waiting];

impl Oracle {
    pub(super) fn apply(&mut self, command: &Command, now: Time) -> Outcome {
        match command {
            Command::QueueRun(c) => self.queue_run(c, now),
            Command::StartRun(c) => self.start_run(c, now),
            Command::ClaimRun(c) => self.claim_run(c, now),
            Command::ReclaimRun(c) => self.reclaim_run(c),
            Command::ConfirmRun(c) => self.confirm_run(c),
            Command::WaitRun(c) => self.wait_run(c, now),
            Command::ResumeRun(c) => self.resume_run(c),
            Command::FinishRun(c) => self.finish_run(c, now),
            Command::CancelRun(c) => self.cancel_run(c, now),
            Command::DeleteRun(c) => self.delete_run(c),
            Command::PurgeRuns(c) => Ok(self.purge_runs(c)),
            Command::StartNode(c) => self.start_node(c, now),
            Command::WaitNode(c) => self.wait_node(c, now),
            Command::FinishNode(c) => self.finish_node(c, now),
            Command::CreateAgent(c) => self.create_agent(c, now),
            Command::ClaimAgent(c) => self.claim_agent(c, now),
            Command::StartAgent(c) => self.start_agent(c, now),
            Command::ReclaimAgent(c) => self.reclaim_agent(c),
            Command::ConfirmAgent(c) => self.confirm_agent(c),
            Command::FinishAgent(c) => self.finish_agent(c, now),
            Command::CancelAgent(c) => self.cancel_agent(c, now),
            _ => Err(Refusal::new(Code::Unsupported)),
        }
    }

    fn find_run(&self, project: &Id, id: &Id) -> Option<usize> {
        self.runs.iter().position(|run| run.project_id == *project && run.id == *id)
    }

    fn find_node(&self, project: &Id, id: &Id) -> Option<usize> {
        self.nodes.iter().position(|node| node.project_id == *project && node.id == *id)
    }

    fn find_agent(&self, project: &Id, node_run_id: &Id) -> Option<usize> {
        self.agents.iter().position(|agent| agent.project_id == *project && agent.node_run_id == *node_run_id)
    }

    /// The place of a run that must be there.
    fn need_run(&self, project: &Id, id: &Id) -> Result<usize, Refusal> {
        self.find_run(project, id).ok_or_else(|| Refusal::of(Code::NotFound, Entity::Run, project, id))
    }

    fn need_node(&self, project: &Id, id: &Id) -> Result<usize, Refusal> {
        self.find_node(project, id).ok_or_else(|| Refusal::of(Code::NotFound, Entity::Node, project, id))
    }

    fn need_agent(&self, project: &Id, node_run_id: &Id) -> Result<usize, Refusal> {
        self.find_agent(project, node_run_id).ok_or_else(|| Refusal::of(Code::NotFound, Entity::Agent, project, node_run_id))
    }

    fn run_of(&self, node: &NodeRun) -> Result<&Run, Refusal> {
        self.need_run(&node.project_id, &node.workflow_run_id).map(|at| &self.runs[at])
    }

    fn queue_run(&mut self, c: &QueueRun, now: Time) -> Outcome {
        if self.find_run(&c.project_id, &c.id).is_some() {
            return Err(Refusal::of(Code::AlreadyExists, Entity::Run, &c.project_id, &c.id));
        }
        let queued_at = c.queued_at.unwrap_or(now);
        self.runs.push(Run {
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
            requested_by_principal: c.requested_by_principal.clone().unwrap_or_else(|| Principal::new("system", "system")),
            attempt: 0,
            execution: None,
        });
        Ok(run_answer(&self.runs[self.runs.len() - 1], c.answer))
    }

    fn start_run(&mut self, c: &StartRun, now: Time) -> Outcome {
        let started_at = c.started_at.unwrap_or(now);
        let Some(at) = self.find_run(&c.project_id, &c.id) else {
            self.runs.push(Run {
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
                requested_by_principal: c.requested_by_principal.clone().unwrap_or_else(|| Principal::new("system", "system")),
                attempt: 1,
                execution: c.execution.clone(),
            });
            return Ok(run_answer(&self.runs[self.runs.len() - 1], c.answer));
        };
        let run = &mut self.runs[at];
        if run.status != Status::Queued {
            return Err(Refusal::of(Code::AlreadyExists, Entity::Run, &c.project_id, &c.id));
        }
        if run.workflow_id != c.workflow_id {
            return Err(Refusal::of(Code::WorkflowMismatch, Entity::Run, &c.project_id, &c.id));
        }
        run.attempt = next_attempt_of_run(run)?;
        run.status = Status::Running;
        run.started_at = started_at;
        run.execution = c.execution.clone();
        run.input = Some(c.input.clone());
        if run.source.is_none() {
            run.source = c.source.clone();
        }
        Ok(run_answer(run, c.answer))
    }

    fn claim_run(&mut self, c: &ClaimRun, now: Time) -> Outcome {
        let queued = self.runs.iter_mut().filter(|run| {
            run.project_id == c.project_id
                && run.status == Status::Queued
                && c.workflow_ids.as_ref().is_none_or(|ids| ids.contains(&run.workflow_id))
        });
        let Some(run) = queued.min_by(|a, b| (a.queued_at, &*a.id).cmp(&(b.queued_at, &*b.id))) else {
            return Ok("null".to_owned());
        };
        run.attempt = next_attempt_of_run(run)?;
        run.status = Status::Running;
        run.started_at = c.started_at.unwrap_or(now);
        run.execution = Some(c.execution.clone());
        Ok(run_answer(run, c.answer))
    }

    fn reclaim_run(&mut self, c: &ReclaimRun) -> Outcome {
        let at = self.need_run(&c.project_id, &c.id)?;
        let run = &mut self.runs[at];
        run_status(run, &[Status::Running])?;
        if lease_is_active(&run.execution, c.lease_expired_by) {
            return Err(Refusal::of(Code::LeaseActive, Entity::Run, &c.project_id, &c.id));
        }
        run.attempt = next_attempt_of_run(run)?;
        run.execution = Some(c.execution.clone());
        Ok(run_answer(run, c.answer))
    }

    fn confirm_run(&mut self, c: &ConfirmRun) -> Outcome {
        let at = self.need_run(&c.project_id, &c.id)?;
        let run = &mut self.runs[at];
        run_status(run, &[Status::Running])?;
        run_owner(run, Some(&c.execution_token))?;
        run.execution = later_lease(&run.execution, c.lease_expires_at);
        Ok(run_answer(run, c.answer))
    }

    fn wait_run(&mut self, c: &WaitRun, now: Time) -> Outcome {
        let at = self.need_run(&c.project_id, &c.id)?;
        let run = &mut self.runs[at];
        run_status(run, &[Status::Running])?;
        run_owner(run, c.execution_token.as_ref())?;
        run.status = Status::Waiting;
        run.waiting_since = Some(c.waiting_at.unwrap_or(now));
        run.execution = None;
        Ok(run_answer(run, c.answer))
    }

    fn resume_run(&mut self, c: &ResumeRun) -> Outcome {
        let at = self.need_run(&c.project_id, &c.id)?;
        let run = &mut self.runs[at];
        run_status(run, &[Status::Waiting])?;
        run.attempt = next_attempt_of_run(run)?;
        run.status = Status::Running;
        run.waiting_since = None;
        run.execution = c.execution.clone();
        Ok(run_answer(run, c.answer))
    }

    fn finish_run(&mut self, c: &FinishRun, now: Time) -> Outcome {
        let at = self.need_run(&c.project_id, &c.id)?;
        let run = &mut self.runs[at];
        let succeeded = c.status == EndStatus::Succeeded;
        run_status(run, if succeeded { &[Status::Running] } else { &ACTIVE })?;
        run_owner(run, c.execution_token.as_ref())?;
        run.status = ended(c.status);
        run.finished_at = Some(c.finished_at.unwrap_or(now));
        run.waiting_since = None;
        run.output = c.output.clone().filter(|_| succeeded);
        run.error = c.error.clone().filter(|_| !succeeded);
        run.execution = None;
        Ok(run_answer(run, c.answer))
    }

    fn cancel_run(&mut self, c: &CancelRun, now: Time) -> Outcome {
        let at = self.need_run(&c.project_id, &c.id)?;
        run_status(&self.runs[at], &ACTIVE)?;
        let finished_at = c.finished_at.unwrap_or(now);
        for node in self.nodes.iter_mut().filter(|node| node.project_id == c.project_id && node.workflow_run_id == c.id) {
            for agent in self.agents.iter_mut().filter(|agent| agent.project_id == c.project_id && agent.node_run_id == node.id) {
                if ACTIVE.contains(&agent.status) {
                    stop_agent(agent, &c.error, finished_at);
                }
            }
            if ACTIVE.contains(&node.status) {
                node.status = Status::Cancelled;
                node.waiting_since = None;
                node.finished_at = Some(finished_at);
                node.error = c.error.clone();
            }
        }
        let run = &mut self.runs[at];
        run.status = Status::Cancelled;
        run.waiting_since = None;
        run.finished_at = Some(finished_at);
        run.error = c.error.clone();
        run.execution = None;
        Ok(run_answer(run, c.answer))
    }

    /// Removes a run with all that is under it, and says how many node runs and agent runs that were.
    fn remove_run(&mut self, project: &Id, id: &Id) -> (usize, usize) {
        let nodes: Vec<Id> = self
            .nodes
            .iter()
            .filter(|node| node.project_id == *project && node.workflow_run_id == *id)
            .map(|node| node.id.clone())
            .collect();
        let agents_before = self.agents.len();
        self.agents.retain(|agent| !(agent.project_id == *project && nodes.contains(&agent.node_run_id)));
        self.nodes.retain(|node| !(node.project_id == *project && node.workflow_run_id == *id));
        self.runs.retain(|run| !(run.project_id == *project && run.id == *id));
        (nodes.len(), agents_before - self.agents.len())
    }

    fn delete_run(&mut self, c: &DeleteRun) -> Outcome {
        let at = self.need_run(&c.project_id, &c.id)?;
        run_status(&self.runs[at], &[Status::Succeeded, Status::Failed, Status::Cancelled])?;
        let (nodes, agents) = self.remove_run(&c.project_id, &c.id);
        Ok(object([("runs", Some("1".to_owned())), ("nodes", Some(nodes.to_string())), ("agents", Some(agents.to_string()))]))
    }

    fn purge_runs(&mut self, c: &PurgeRuns) -> String {
        let mut ended_runs: Vec<(Time, Id)> = self
            .runs
            .iter()
            .filter(|run| run.project_id == c.project_id)
            .filter(|run| c.statuses.as_ref().is_none_or(|statuses| statuses.iter().any(|status| ended(*status) == run.status)))
            .filter(|run| c.workflow_ids.as_ref().is_none_or(|ids| ids.contains(&run.workflow_id)))
            .filter_map(|run| run.finished_at.map(|finished_at| (finished_at, run.id.clone())))
            .filter(|(finished_at, _)| *finished_at < c.finished_before)
            .collect();
        ended_runs.sort();
        let limit = c.limit.unwrap_or(1000) as usize;
        let has_more = ended_runs.len() > limit;
        ended_runs.truncate(limit);
        let (mut nodes, mut agents) = (0, 0);
        for (_, id) in &ended_runs {
            let removed = self.remove_run(&c.project_id, id);
            nodes += removed.0;
            agents += removed.1;
        }
        object([
            ("runs", Some(ended_runs.len().to_string())),
            ("nodes", Some(nodes.to_string())),
            ("agents", Some(agents.to_string())),
            ("hasMore", Some(has_more.to_string())),
        ])
    }

    fn start_node(&mut self, c: &StartNode, now: Time) -> Outcome {
        let run = &self.runs[self.need_run(&c.project_id, &c.workflow_run_id)?];
        run_status(run, &[Status::Running])?;
        run_owner(run, c.execution_token.as_ref())?;
        if run.workflow_id != c.workflow_id {
            return Err(Refusal::of(Code::WorkflowMismatch, Entity::Run, &run.project_id, &run.id));
        }
        if self.find_node(&c.project_id, &c.id).is_some() {
            return Err(Refusal::of(Code::AlreadyExists, Entity::Node, &c.project_id, &c.id));
        }
        self.nodes.push(NodeRun {
            project_id: c.project_id.clone(),
            id: c.id.clone(),
            workflow_run_id: c.workflow_run_id.clone(),
            workflow_id: c.workflow_id.clone(),
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
        });
        Ok(node_answer(&self.nodes[self.nodes.len() - 1], c.answer))
    }

    fn wait_node(&mut self, c: &WaitNode, now: Time) -> Outcome {
        let at = self.need_node(&c.project_id, &c.id)?;
        let run = self.run_of(&self.nodes[at])?;
        run_owner(run, c.execution_token.as_ref())?;
        run_status(run, &[Status::Running, Status::Waiting])?;
        let node = &mut self.nodes[at];
        node_status(node, &[Status::Running])?;
        node.status = Status::Waiting;
        node.waiting_since = Some(c.waiting_at.unwrap_or(now));
        Ok(node_answer(node, c.answer))
    }

    fn finish_node(&mut self, c: &FinishNode, now: Time) -> Outcome {
        let at = self.need_node(&c.project_id, &c.id)?;
        run_owner(self.run_of(&self.nodes[at])?, c.execution_token.as_ref())?;
        let node = &mut self.nodes[at];
        node_status(node, &[Status::Running, Status::Waiting])?;
        let succeeded = c.status == EndStatus::Succeeded;
        node.status = ended(c.status);
        node.waiting_since = None;
        node.finished_at = Some(c.finished_at.unwrap_or(now));
        node.output = c.output.clone().filter(|_| succeeded);
        node.error = c.error.clone().filter(|_| !succeeded);
        Ok(node_answer(node, c.answer))
    }

    fn create_agent(&mut self, c: &CreateAgent, now: Time) -> Outcome {
        let node = &self.nodes[self.need_node(&c.project_id, &c.node_run_id)?];
        if node.node_type != "agent" {
            return Err(Refusal::of(Code::NotAgentNode, Entity::Node, &node.project_id, &node.id));
        }
        node_status(node, &[Status::Running])?;
        if c.execution_token.is_some() {
            run_owner(self.run_of(node)?, c.execution_token.as_ref())?;
        }
        if self.find_agent(&c.project_id, &c.node_run_id).is_some() {
            return Err(Refusal::of(Code::AlreadyExists, Entity::Agent, &c.project_id, &c.node_run_id));
        }
        self.agents.push(AgentRun {
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
        });
        Ok(agent_answer(&self.agents[self.agents.len() - 1], c.answer))
    }

    fn claim_agent(&mut self, c: &ClaimAgent, now: Time) -> Outcome {
        let queued = self.agents.iter_mut().filter(|agent| {
            agent.project_id == c.project_id
                && agent.status == Status::Queued
                && c.agent_ids.as_ref().is_none_or(|ids| ids.contains(&agent.agent_id))
        });
        let Some(agent) = queued.min_by(|a, b| (a.created_at, &*a.node_run_id).cmp(&(b.created_at, &*b.node_run_id))) else {
            return Ok("null".to_owned());
        };
        begin_agent(agent, &c.execution, &c.execution_principal, &c.model_id, c.started_at.unwrap_or(now))?;
        Ok(agent_answer(agent, c.answer))
    }

    fn start_agent(&mut self, c: &StartAgent, now: Time) -> Outcome {
        let at = self.need_agent(&c.project_id, &c.node_run_id)?;
        let agent = &mut self.agents[at];
        agent_status(agent, &[Status::Queued])?;
        begin_agent(agent, &c.execution, &c.execution_principal, &c.model_id, c.started_at.unwrap_or(now))?;
        Ok(agent_answer(agent, c.answer))
    }

    fn reclaim_agent(&mut self, c: &ReclaimAgent) -> Outcome {
        let at = self.need_agent(&c.project_id, &c.node_run_id)?;
        let agent = &mut self.agents[at];
        agent_status(agent, &[Status::Running])?;
        if lease_is_active(&agent.execution, c.lease_expired_by) {
            return Err(Refusal::of(Code::LeaseActive, Entity::Agent, &c.project_id, &c.node_run_id));
        }
        agent.attempt = next_attempt_of_agent(agent)?;
        agent.execution = Some(c.execution.clone());
        Ok(agent_answer(agent, c.answer))
    }

    fn confirm_agent(&mut self, c: &ConfirmAgent) -> Outcome {
        let at = self.need_agent(&c.project_id, &c.node_run_id)?;
        let agent = &mut self.agents[at];
        agent_status(agent, &[Status::Running])?;
        agent_owner(agent, &c.execution_token)?;
        agent.execution = later_lease(&agent.execution, c.lease_expires_at);
        Ok(agent_answer(agent, c.answer))
    }

    fn finish_agent(&mut self, c: &FinishAgent, now: Time) -> Outcome {
        let at = self.need_agent(&c.project_id, &c.node_run_id)?;
        let agent = &mut self.agents[at];
        agent_status(agent, &[Status::Running])?;
        agent_owner(agent, &c.execution_token)?;
        agent.status = ended(c.status);
        agent.model_id = c.model_id.clone().or(agent.model_id.take());
        agent.finish_reason = c.finish_reason.clone().or(agent.finish_reason.take());
        agent.usage = c.usage.clone().or(agent.usage.take());
        agent.trace = c.trace.clone().or(agent.trace.take());
        agent.diagnostics = c.diagnostics.clone().or(agent.diagnostics.take());
        agent.error = c.error.clone().filter(|_| c.status != EndStatus::Succeeded);
        agent.completed_at = Some(c.completed_at.unwrap_or(now));
        agent.execution = None;
        Ok(agent_answer(agent, c.answer))
    }

    fn cancel_agent(&mut self, c: &CancelAgent, now: Time) -> Outcome {
        let at = self.need_agent(&c.project_id, &c.node_run_id)?;
        let agent = &mut self.agents[at];
        agent_status(agent, &[Status::Queued, Status::Running])?;
        stop_agent(agent, &c.error, c.completed_at.unwrap_or(now));
        Ok(agent_answer(agent, c.answer))
    }
}

fn begin_agent(
    agent: &mut AgentRun,
    execution: &Execution,
    principal: &Option<Principal>,
    model_id: &Option<Text>,
    started_at: Time,
) -> Result<(), Refusal> {
    agent.attempt = next_attempt_of_agent(agent)?;
    agent.status = Status::Running;
    agent.execution = Some(execution.clone());
    agent.execution_principal = principal.clone();
    agent.model_id = model_id.clone();
    agent.started_at = Some(started_at);
    Ok(())
}

fn stop_agent(agent: &mut AgentRun, error: &Option<Text>, completed_at: Time) {
    agent.status = Status::Cancelled;
    agent.error = error.clone();
    agent.completed_at = Some(completed_at);
    agent.execution = None;
}

fn ended(status: EndStatus) -> Status {
    match status {
        EndStatus::Succeeded => Status::Succeeded,
        EndStatus::Failed => Status::Failed,
        EndStatus::Cancelled => Status::Cancelled,
    }
}

fn next_attempt_of_run(run: &Run) -> Result<u32, Refusal> {
    run.attempt.checked_add(1).ok_or_else(|| Refusal::status(run.status, Entity::Run, &run.project_id, &run.id))
}

fn next_attempt_of_agent(agent: &AgentRun) -> Result<u32, Refusal> {
    agent.attempt.checked_add(1).ok_or_else(|| Refusal::status(agent.status, Entity::Agent, &agent.project_id, &agent.node_run_id))
}

fn run_status(run: &Run, allowed: &[Status]) -> Result<(), Refusal> {
    let refusal = || Refusal::status(run.status, Entity::Run, &run.project_id, &run.id);
    allowed.contains(&run.status).then_some(()).ok_or_else(refusal)
}

fn node_status(node: &NodeRun, allowed: &[Status]) -> Result<(), Refusal> {
    let refusal = || Refusal::status(node.status, Entity::Node, &node.project_id, &node.id);
    allowed.contains(&node.status).then_some(()).ok_or_else(refusal)
}

fn agent_status(agent: &AgentRun, allowed: &[Status]) -> Result<(), Refusal> {
    let refusal = || Refusal::status(agent.status, Entity::Agent, &agent.project_id, &agent.node_run_id);
    allowed.contains(&agent.status).then_some(()).ok_or_else(refusal)
}

fn run_owner(run: &Run, token: Option<&Id>) -> Result<(), Refusal> {
    let owns = run.execution.as_ref().map(|execution| &execution.token) == token;
    owns.then_some(()).ok_or_else(|| Refusal::of(Code::StaleToken, Entity::Run, &run.project_id, &run.id))
}

fn agent_owner(agent: &AgentRun, token: &Id) -> Result<(), Refusal> {
    let owns = agent.execution.as_ref().is_some_and(|execution| execution.token == *token);
    owns.then_some(()).ok_or_else(|| Refusal::of(Code::StaleToken, Entity::Agent, &agent.project_id, &agent.node_run_id))
}

/// Whether a guarded reclaim comes before the lease ended.
fn lease_is_active(execution: &Option<Execution>, expired_by: Option<Time>) -> bool {
    let Some(by) = expired_by else { return false };
    execution.as_ref().is_none_or(|execution| execution.lease_expires_at > by)
}

fn later_lease(execution: &Option<Execution>, until: Time) -> Option<Execution> {
    let execution = execution.as_ref()?;
    Some(Execution::new(execution.token.clone(), execution.lease_expires_at.max(until)))
}

pub(super) fn run_answer(record: &Run, form: Option<AnswerForm>) -> String {
    if form == Some(AnswerForm::State) { run_state(record) } else { run(record) }
}

pub(super) fn node_answer(record: &NodeRun, form: Option<AnswerForm>) -> String {
    if form == Some(AnswerForm::State) { node_state(record) } else { node(record) }
}

pub(super) fn agent_answer(record: &AgentRun, form: Option<AnswerForm>) -> String {
    if form == Some(AnswerForm::State) { agent_state(record) } else { agent(record) }
}
