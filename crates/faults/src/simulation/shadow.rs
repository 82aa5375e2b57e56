//! What must hold whatever happens: the state that was last seen of every record, and what a command may make of it.

use std::collections::{BTreeMap, BTreeSet};

use runledger_core::{
    AgentRun, Code, Command, ConfirmAgent, ConfirmRun, CreateAgent, FinishAgent, FinishRun, Id, NodeRun, Run, StartNode, Status, Time,
    WaitRun,
};

/// The key of a record: its project and id.
pub(super) type Key = (Id, Id);

/// What is known of a store.
#[derive(Default)]
pub(super) struct Shadow {
    pub(super) runs: BTreeMap<Key, Run>,
    pub(super) nodes: BTreeMap<Key, NodeRun>,
    pub(super) agents: BTreeMap<Key, AgentRun>,
    pub(super) nodes_of: BTreeMap<Key, Vec<Id>>,
    queued_runs: BTreeSet<(Id, Time, Id)>,
    queued_agents: BTreeSet<(Id, Time, Id)>,
}

pub(super) fn token_of(execution: &Option<runledger_core::Execution>) -> Option<&Id> {
    execution.as_ref().map(|execution| &execution.token)
}

/// Says that something is not as it must be.
pub(super) fn must(holds: bool, what: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(what()) }
}

impl Shadow {
    /// Takes a run as it is now.
    pub(super) fn note_run(&mut self, run: Run) {
        let key = (run.project_id.clone(), run.id.clone());
        let place = |run: &Run| (run.project_id.clone(), run.started_at, run.id.clone());
        if let Some(before) = self.runs.get(&key).filter(|before| before.status == Status::Queued) {
            self.queued_runs.remove(&place(before));
        }
        if run.status == Status::Queued {
            self.queued_runs.insert(place(&run));
        }
        self.runs.insert(key, run);
    }

    /// Takes an agent run as it is now.
    pub(super) fn note_agent(&mut self, agent: AgentRun) {
        let place = (agent.project_id.clone(), agent.created_at, agent.node_run_id.clone());
        if agent.status == Status::Queued {
            self.queued_agents.insert(place);
        } else {
            self.queued_agents.remove(&place);
        }
        self.agents.insert((agent.project_id.clone(), agent.node_run_id.clone()), agent);
    }

    /// Takes a node run as it is now.
    pub(super) fn note_node(&mut self, node: NodeRun) {
        let key = (node.project_id.clone(), node.id.clone());
        if !self.nodes.contains_key(&key) {
            self.nodes_of.entry((node.project_id.clone(), node.workflow_run_id.clone())).or_default().push(node.id.clone());
        }
        self.nodes.insert(key, node);
    }

    /// Forgets a run with all under it; answers the keys of its node runs.
    pub(super) fn forget(&mut self, key: &Key) -> Vec<Key> {
        self.runs.remove(key);
        let nodes = self.nodes_of.remove(key).unwrap_or_default();
        let keys: Vec<Key> = nodes.into_iter().map(|node| (key.0.clone(), node)).collect();
        for node in &keys {
            self.nodes.remove(node);
            if let Some(agent) = self.agents.remove(node) {
                self.queued_agents.remove(&(agent.project_id, agent.created_at, agent.node_run_id));
            }
        }
        keys
    }

    /// The queued run that must be claimed next.
    pub(super) fn next_run(&self, project: &Id, workflows: Option<&[Id]>) -> Option<Key> {
        let from = (project.clone(), Time::MIN, Id::from(""));
        let queued = self.queued_runs.range(from..).take_while(|(of, ..)| of == project);
        let mut keys = queued.map(|(project, _, id)| (project.clone(), id.clone()));
        keys.find(|key| workflows.is_none_or(|workflows| workflows.contains(&self.runs[key].workflow_id)))
    }

    /// The queued agent run that must be claimed next.
    pub(super) fn next_agent(&self, project: &Id) -> Option<Key> {
        let from = (project.clone(), Time::MIN, Id::from(""));
        self.queued_agents.range(from..).next().filter(|(of, ..)| of == project).map(|(project, _, node)| (project.clone(), node.clone()))
    }

    /// The code with which a command must be refused, or `None` if it must succeed.
    pub(super) fn verdict(&self, command: &Command) -> Option<Code> {
        let run = |project: &Id, id: &Id| self.runs.get(&(project.clone(), id.clone()));
        let agent = |project: &Id, id: &Id| self.agents.get(&(project.clone(), id.clone()));
        match command {
            Command::QueueRun(c) => run(&c.project_id, &c.id).map(|_| Code::AlreadyExists),
            Command::StartRun(c) => match run(&c.project_id, &c.id) {
                Some(found) if found.status != Status::Queued => Some(Code::AlreadyExists),
                Some(found) if found.workflow_id != c.workflow_id => Some(Code::WorkflowMismatch),
                _ => None,
            },
            Command::ReclaimRun(c) => reclaim(run(&c.project_id, &c.id).map(|run| (run.status, &run.execution)), c.lease_expired_by),
            Command::ConfirmRun(ConfirmRun { project_id, id, execution_token, .. }) => {
                owned(run(project_id, id), Some(execution_token), &[Status::Running])
            }
            Command::WaitRun(WaitRun { project_id, id, execution_token, .. }) => {
                owned(run(project_id, id), execution_token.as_ref(), &[Status::Running])
            }
            Command::ResumeRun(c) => only_in(run(&c.project_id, &c.id).map(|run| run.status), &[Status::Waiting]),
            Command::FinishRun(FinishRun { project_id, id, status, execution_token, .. }) => {
                let succeeds = Status::from(*status) == Status::Succeeded;
                let from: &[Status] = if succeeds { &[Status::Running] } else { &[Status::Running, Status::Queued, Status::Waiting] };
                owned(run(project_id, id), execution_token.as_ref(), from)
            }
            Command::CancelRun(c) => only_in(run(&c.project_id, &c.id).map(|run| run.status), &ACTIVE),
            Command::DeleteRun(c) => only_in(run(&c.project_id, &c.id).map(|run| run.status), &ENDED),
            Command::StartNode(c) => self.start_node(c),
            Command::WaitNode(c) => self.change_node(&c.project_id, &c.id, c.execution_token.as_ref(), true),
            Command::FinishNode(c) => self.change_node(&c.project_id, &c.id, c.execution_token.as_ref(), false),
            Command::CreateAgent(c) => self.create_agent(c),
            Command::ReclaimAgent(c) => {
                reclaim(agent(&c.project_id, &c.node_run_id).map(|agent| (agent.status, &agent.execution)), c.lease_expired_by)
            }
            Command::ConfirmAgent(ConfirmAgent { project_id, node_run_id, execution_token, .. })
            | Command::FinishAgent(FinishAgent { project_id, node_run_id, execution_token, .. }) => match agent(project_id, node_run_id) {
                None => Some(Code::NotFound),
                Some(found) if found.status != Status::Running => Some(Code::InvalidTransition),
                Some(found) => (token_of(&found.execution) != Some(execution_token)).then_some(Code::StaleToken),
            },
            Command::CancelAgent(c) => only_in(agent(&c.project_id, &c.node_run_id).map(|agent| agent.status), &ACTIVE),
            // Claims and purges take what they find; the rest is not played.
            _ => None,
        }
    }

    fn start_node(&self, c: &StartNode) -> Option<Code> {
        let run = self.runs.get(&(c.project_id.clone(), c.workflow_run_id.clone()));
        owned(run, c.execution_token.as_ref(), &[Status::Running]).or_else(|| {
            let is_taken = self.nodes.contains_key(&(c.project_id.clone(), c.id.clone()));
            is_taken.then_some(Code::AlreadyExists)
        })
    }

    fn change_node(&self, project: &Id, id: &Id, token: Option<&Id>, waits: bool) -> Option<Code> {
        let Some(node) = self.nodes.get(&(project.clone(), id.clone())) else { return Some(Code::NotFound) };
        let run = &self.runs[&(project.clone(), node.workflow_run_id.clone())];
        if token_of(&run.execution) != token {
            return Some(Code::StaleToken);
        }
        let is_allowed = match waits {
            true => matches!(run.status, Status::Running | Status::Waiting) && node.status == Status::Running,
            false => matches!(node.status, Status::Running | Status::Waiting),
        };
        (!is_allowed).then_some(Code::InvalidTransition)
    }

    fn create_agent(&self, c: &CreateAgent) -> Option<Code> {
        let key = (c.project_id.clone(), c.node_run_id.clone());
        let Some(node) = self.nodes.get(&key) else { return Some(Code::NotFound) };
        let run = &self.runs[&(c.project_id.clone(), node.workflow_run_id.clone())];
        if &*node.node_type != "agent" {
            Some(Code::NotAgentNode)
        } else if node.status != Status::Running {
            Some(Code::InvalidTransition)
        } else if c.execution_token.is_some() && token_of(&run.execution) != c.execution_token.as_ref() {
            Some(Code::StaleToken)
        } else {
            self.agents.contains_key(&key).then_some(Code::AlreadyExists)
        }
    }
}

const ACTIVE: [Status; 3] = [Status::Queued, Status::Running, Status::Waiting];
const ENDED: [Status; 3] = [Status::Succeeded, Status::Failed, Status::Cancelled];

fn only_in(found: Option<Status>, statuses: &[Status]) -> Option<Code> {
    match found {
        None => Some(Code::NotFound),
        Some(status) => (!statuses.contains(&status)).then_some(Code::InvalidTransition),
    }
}

fn owned(run: Option<&Run>, token: Option<&Id>, statuses: &[Status]) -> Option<Code> {
    only_in(run.map(|run| run.status), statuses)
        .or_else(|| run.and_then(|run| (token_of(&run.execution) != token).then_some(Code::StaleToken)))
}

fn reclaim(found: Option<(Status, &Option<runledger_core::Execution>)>, expired_by: Option<Time>) -> Option<Code> {
    let status = only_in(found.map(|(status, _)| status), &[Status::Running]);
    status.or_else(|| {
        let (_, execution) = found?;
        let is_over = |by: Time| execution.as_ref().is_some_and(|execution| execution.lease_expires_at <= by);
        expired_by.is_some_and(|by| !is_over(by)).then_some(Code::LeaseActive)
    })
}
