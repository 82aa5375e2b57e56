//! Which records a command needs, how they are loaded, and how a decision about them is stored.

use super::decide::Decision;
use crate::{
    AgentRun, Answer, AnswerForm, Command, DEFAULT_ROWS, Deleted, EndedFilter, Id, NodeRun, Purged, Record, Result, Run, Status, StatusSet,
    Stored, Tx,
};

/// The records that a command needs.
#[derive(Clone, Debug)]
pub enum Scope<'a> {
    /// A run that is there, or is to be made.
    Run(&'a Id),
    /// The queued run that comes first; of these workflows only, in byte order.
    NextRun(Option<Vec<Id>>),
    /// A run with its node runs and their agent runs.
    RunTree(&'a Id),
    /// Ended runs, and whether more of them match than the limit.
    EndedRuns(EndedFilter, usize),
    /// A node run and its run.
    Node(&'a Id),
    /// A node run that is to be made, and its run.
    NewNode {
        /// The run.
        run: &'a Id,
        /// The new node run.
        id: &'a Id,
    },
    /// An agent run alone.
    Agent(&'a Id),
    /// The queued agent run that comes first; of these agents only, in byte order.
    NextAgent(Option<Vec<Id>>),
    /// An agent run that is to be made, with its node run, and that one's run if it is needed.
    NewAgent {
        /// The node run.
        node_run: &'a Id,
        /// Whether the run is needed: a token was given.
        with_run: bool,
    },
}

/// The records that a [`Scope`] names, as they are in the store.
#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant, reason = "one is alive at a time, and it is moved into the decision")]
pub enum Loaded {
    /// Of [`Scope::Run`] and [`Scope::NextRun`].
    Run(Option<Stored<Run>>),
    /// Of [`Scope::RunTree`]; the rest is empty when there is no run.
    RunTree(Option<Stored<Run>>, Vec<Stored<NodeRun>>, Vec<Stored<AgentRun>>),
    /// Of [`Scope::EndedRuns`].
    EndedRuns(Vec<Stored<Run>>),
    /// Of [`Scope::Node`]: the node run, and its run.
    Node(Option<(Stored<NodeRun>, Stored<Run>)>),
    /// Of [`Scope::NewNode`]: the run, and whether the node run's id is taken.
    NewNode(Option<Stored<Run>>, bool),
    /// Of [`Scope::Agent`] and [`Scope::NextAgent`].
    Agent(Option<Stored<AgentRun>>),
    /// Of [`Scope::NewAgent`]: the node run, the run if it is needed, and whether there is an agent run.
    NewAgent(Option<Stored<NodeRun>>, Option<Stored<Run>>, bool),
}

/// A list of identifiers in byte order and without repeats.
pub(crate) fn sorted(ids: &[Id]) -> Vec<Id> {
    let mut ids = ids.to_vec();
    ids.sort_unstable();
    ids.dedup();
    ids
}

impl Command {
    /// The records that the command needs.
    pub fn scope(&self) -> Scope<'_> {
        match self {
            Command::QueueRun(c) => Scope::Run(&c.id),
            Command::StartRun(c) => Scope::Run(&c.id),
            Command::ClaimRun(c) => Scope::NextRun(c.workflow_ids.as_deref().map(sorted)),
            Command::ReclaimRun(c) => Scope::Run(&c.id),
            Command::ConfirmRun(c) => Scope::Run(&c.id),
            Command::WaitRun(c) => Scope::Run(&c.id),
            Command::ResumeRun(c) => Scope::Run(&c.id),
            Command::FinishRun(c) => Scope::Run(&c.id),
            Command::DeleteRun(c) => Scope::Run(&c.id),
            Command::CancelRun(c) => Scope::RunTree(&c.id),
            Command::PurgeRuns(c) => {
                let ended: StatusSet = Status::ALL.iter().copied().filter(|status| status.is_terminal()).collect();
                let filter = EndedFilter {
                    project_id: c.project_id.clone(),
                    finished_before: c.finished_before,
                    statuses: c.statuses.as_deref().map_or(ended, |statuses| StatusSet::of_filter(Some(statuses))),
                    workflow_ids: c.workflow_ids.as_deref().map(sorted),
                };
                Scope::EndedRuns(filter, c.limit.unwrap_or(DEFAULT_ROWS) as usize)
            }
            Command::StartNode(c) => Scope::NewNode { run: &c.workflow_run_id, id: &c.id },
            Command::WaitNode(c) => Scope::Node(&c.id),
            Command::FinishNode(c) => Scope::Node(&c.id),
            Command::CreateAgent(c) => Scope::NewAgent { node_run: &c.node_run_id, with_run: c.execution_token.is_some() },
            Command::ClaimAgent(c) => Scope::NextAgent(c.agent_ids.as_deref().map(sorted)),
            Command::StartAgent(c) => Scope::Agent(&c.node_run_id),
            Command::ReclaimAgent(c) => Scope::Agent(&c.node_run_id),
            Command::ConfirmAgent(c) => Scope::Agent(&c.node_run_id),
            Command::FinishAgent(c) => Scope::Agent(&c.node_run_id),
            Command::CancelAgent(c) => Scope::Agent(&c.node_run_id),
        }
    }

    /// Whether the command leaves out a time that it then takes from the clock.
    pub(crate) fn takes_clock(&self) -> bool {
        match self {
            Command::QueueRun(c) => c.queued_at.is_none(),
            Command::StartRun(c) => c.started_at.is_none(),
            Command::ClaimRun(c) => c.started_at.is_none(),
            Command::WaitRun(c) => c.waiting_at.is_none(),
            Command::FinishRun(c) => c.finished_at.is_none(),
            Command::CancelRun(c) => c.finished_at.is_none(),
            Command::StartNode(c) => c.started_at.is_none(),
            Command::WaitNode(c) => c.waiting_at.is_none(),
            Command::FinishNode(c) => c.finished_at.is_none(),
            Command::CreateAgent(c) => c.created_at.is_none(),
            Command::ClaimAgent(c) => c.started_at.is_none(),
            Command::StartAgent(c) => c.started_at.is_none(),
            Command::FinishAgent(c) => c.completed_at.is_none(),
            Command::CancelAgent(c) => c.completed_at.is_none(),
            Command::ReclaimRun(_)
            | Command::ConfirmRun(_)
            | Command::ResumeRun(_)
            | Command::DeleteRun(_)
            | Command::PurgeRuns(_)
            | Command::ReclaimAgent(_)
            | Command::ConfirmAgent(_) => false,
        }
    }

    /// How much of the record the command answers.
    pub fn answer_form(&self) -> AnswerForm {
        let form = match self {
            Command::QueueRun(c) => c.answer,
            Command::StartRun(c) => c.answer,
            Command::ClaimRun(c) => c.answer,
            Command::ReclaimRun(c) => c.answer,
            Command::ConfirmRun(c) => c.answer,
            Command::WaitRun(c) => c.answer,
            Command::ResumeRun(c) => c.answer,
            Command::FinishRun(c) => c.answer,
            Command::CancelRun(c) => c.answer,
            Command::DeleteRun(_) | Command::PurgeRuns(_) => Some(AnswerForm::State),
            Command::StartNode(c) => c.answer,
            Command::WaitNode(c) => c.answer,
            Command::FinishNode(c) => c.answer,
            Command::CreateAgent(c) => c.answer,
            Command::ClaimAgent(c) => c.answer,
            Command::StartAgent(c) => c.answer,
            Command::ReclaimAgent(c) => c.answer,
            Command::ConfirmAgent(c) => c.answer,
            Command::FinishAgent(c) => c.answer,
            Command::CancelAgent(c) => c.answer,
        };
        form.unwrap_or(AnswerForm::Record)
    }
}

/// Loads the records that a command needs. Only what is answered is loaded whole.
pub(crate) fn load(tx: &mut dyn Tx, command: &Command) -> Result<Loaded> {
    const STATE: AnswerForm = AnswerForm::State;
    let (project, form) = (command.project_id(), command.answer_form());
    let none = |ids: &Option<Vec<Id>>| ids.as_ref().is_some_and(Vec::is_empty);
    Ok(match command.scope() {
        Scope::Run(id) => Loaded::Run(tx.run(project, id, form)?),
        Scope::NextRun(workflows) if none(&workflows) => Loaded::Run(None),
        Scope::NextRun(workflows) => Loaded::Run(tx.next_run(project, workflows.as_deref(), form)?),
        Scope::RunTree(id) => match tx.run(project, id, form)? {
            None => Loaded::RunTree(None, Vec::new(), Vec::new()),
            Some(run) => {
                let nodes = tx.nodes_of(&run)?;
                let mut agents = Vec::new();
                for node in &nodes {
                    agents.extend(tx.agent(project, &node.record.id, STATE)?);
                }
                Loaded::RunTree(Some(run), nodes, agents)
            }
        },
        Scope::EndedRuns(filter, _) if filter.statuses.is_empty() || none(&filter.workflow_ids) => Loaded::EndedRuns(Vec::new()),
        Scope::EndedRuns(filter, limit) => Loaded::EndedRuns(tx.ended_runs(&filter, limit + 1)?),
        Scope::Node(id) => Loaded::Node(tx.node_and_run(project, id, form)?),
        Scope::NewNode { run, id } => match tx.run(project, run, STATE)? {
            None => Loaded::NewNode(None, false),
            Some(run) => Loaded::NewNode(Some(run), tx.has_node(project, id)?),
        },
        Scope::Agent(id) => Loaded::Agent(tx.agent(project, id, form)?),
        Scope::NextAgent(agents) if none(&agents) => Loaded::Agent(None),
        Scope::NextAgent(agents) => Loaded::Agent(tx.next_agent(project, agents.as_deref(), form)?),
        Scope::NewAgent { node_run, with_run: true } => match tx.node_and_run(project, node_run, STATE)? {
            None => Loaded::NewAgent(None, None, false),
            Some((node, run)) => Loaded::NewAgent(Some(node), Some(run), tx.agent(project, node_run, STATE)?.is_some()),
        },
        Scope::NewAgent { node_run, with_run: false } => match tx.node(project, node_run, STATE)? {
            None => Loaded::NewAgent(None, None, false),
            Some(node) => Loaded::NewAgent(Some(node), None, tx.agent(project, node_run, STATE)?.is_some()),
        },
    })
}

/// Stores what was decided, and says what the command answers and whether anything was changed.
pub(crate) fn apply(tx: &mut dyn Tx, decision: Decision, form: AnswerForm) -> Result<(Answer, bool)> {
    fn answered<R: Record>(record: R, form: AnswerForm) -> R {
        match form {
            AnswerForm::Record => record,
            AnswerForm::State => record.into_state(),
        }
    }
    Ok(match decision {
        Decision::Run(put) => {
            tx.put_run(&put)?;
            (answered(put.after.record, form).into(), true)
        }
        Decision::ClaimedRun(None) => (Answer::MaybeRun(None), false),
        Decision::ClaimedRun(Some(put)) => {
            tx.put_run(&put)?;
            (Some(answered(put.after.record, form)).into(), true)
        }
        Decision::Node(put) => {
            tx.put_node(&put)?;
            (answered(put.after.record, form).into(), true)
        }
        Decision::Agent(put) => {
            tx.put_agent(&put)?;
            (answered(put.after.record, form).into(), true)
        }
        Decision::ClaimedAgent(None) => (Answer::MaybeAgent(None), false),
        Decision::ClaimedAgent(Some(put)) => {
            tx.put_agent(&put)?;
            (Some(answered(put.after.record, form)).into(), true)
        }
        Decision::Cancelled { run, nodes, agents } => {
            for agent in &agents {
                tx.put_agent(agent)?;
            }
            for node in &nodes {
                tx.put_node(node)?;
            }
            tx.put_run(&run)?;
            (answered(run.after.record, form).into(), true)
        }
        Decision::Deleted(run) => (tx.delete_run(&run)?.into(), true),
        Decision::Purged { runs, has_more } => {
            let mut sum = Deleted::default();
            for run in &runs {
                let deleted = tx.delete_run(run)?;
                sum.runs += deleted.runs;
                sum.nodes += deleted.nodes;
                sum.agents += deleted.agents;
            }
            let purged = Purged { runs: sum.runs, nodes: sum.nodes, agents: sum.agents, has_more };
            (purged.into(), !runs.is_empty())
        }
    })
}
