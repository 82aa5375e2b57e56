//! Every change as data: one value, one atomic step.

use crate::json::read::Fields;
use crate::json::write::Object;
use crate::shape::{Shape, shape};
use crate::{
    AgentRun, AnswerForm, Deleted, EndStatus, Error, Execution, Id, Limits, NodeRun, Payload, Principal, Purged, Result, Run, Text, Time,
};

/// The most commands in one batch.
pub const MAX_BATCH: usize = 1000;

/// The most runs that one purge deletes, and the most rows of one page or list of expired leases.
pub const MAX_ROWS: u32 = 10_000;

/// How many runs a purge deletes, and how many expired leases are listed, unless the caller says.
pub const DEFAULT_ROWS: u32 = 1000;

/// What every operation has: a name, a JSON form, and the type that answers it.
macro_rules! operation {
    (
        $(#[$doc:meta])*
        $name:ident = $op:literal -> $answer:ty {
            $($(#[$field_doc:meta])* $field:ident: $type:ty = $json:literal,)*
            ;
            $($(#[$optional_doc:meta])* $optional:ident, $with:ident: $optional_type:ty = $optional_json:literal,)*
        }
        $(where $rules:expr)?
    ) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq)]
        #[non_exhaustive]
        pub struct $name {
            $($(#[$field_doc])* pub $field: $type,)*
            $($(#[$optional_doc])* pub $optional: Option<$optional_type>,)*
        }

        $crate::shape::shape!($name {
            $($field: $type = $json,)*
            $($optional: Option<$optional_type> = $optional_json,)*
        } $(where $rules)?);

        impl $name {
            /// With what it must have; the rest is added by the `with_*` methods.
            #[allow(clippy::too_many_arguments, clippy::new_without_default, reason = "the contract's required fields, in its order")]
            pub fn new($($field: impl Into<$type>),*) -> Self {
                $name { $($field: $field.into(),)* $($optional: None,)* }
            }

            $(
                $(#[$optional_doc])*
                #[must_use]
                pub fn $with(mut self, value: impl Into<$optional_type>) -> Self {
                    self.$optional = Some(value.into());
                    self
                }
            )*
        }

        impl $crate::Operation for $name {
            const OP: &'static str = $op;
            type Answer = $answer;
        }
    };
}
pub(crate) use operation;

operation! {
    /// Queues a new run.
    QueueRun = "runs.queue" -> Run {
        /// The project.
        project_id: Id = "projectId",
        /// The new run's id.
        id: Id = "id",
        /// The workflow.
        workflow_id: Id = "workflowId",
        /// What the workflow is given.
        input: Payload = "input",
        ;
        /// When it is queued; the clock's time when not given.
        queued_at, with_queued_at: Time = "queuedAt",
        /// What triggered it.
        source, with_source: Payload = "source",
        /// Who asked for it; `system`, `system` when not given.
        requested_by_principal, with_requested_by_principal: Principal = "requestedByPrincipal",
        /// How much of the record to answer.
        answer, with_answer: AnswerForm = "answer",
    }
}

operation! {
    /// Starts a new run, or one that is queued.
    StartRun = "runs.start" -> Run {
        /// The project.
        project_id: Id = "projectId",
        /// The run's id.
        id: Id = "id",
        /// The workflow; a queued run must be of it.
        workflow_id: Id = "workflowId",
        /// What the workflow is given; it replaces a queued run's.
        input: Payload = "input",
        ;
        /// When it starts; the clock's time when not given.
        started_at, with_started_at: Time = "startedAt",
        /// What triggered it; a queued run that has one keeps its own.
        source, with_source: Payload = "source",
        /// Who asked for it; a queued run keeps its own.
        requested_by_principal, with_requested_by_principal: Principal = "requestedByPrincipal",
        /// Who owns it from now on; without one, calls without a token own it.
        execution, with_execution: Execution = "execution",
        /// How much of the record to answer.
        answer, with_answer: AnswerForm = "answer",
    }
}

operation! {
    /// Takes the queued run with the smallest (queuedAt, id), if there is one. Two claimers never get the same run.
    ClaimRun = "runs.claim" -> Option<Run> {
        /// The project.
        project_id: Id = "projectId",
        /// Who owns the run from now on.
        execution: Execution = "execution",
        ;
        /// Only runs of these workflows.
        workflow_ids, with_workflow_ids: Vec<Id> = "workflowIds",
        /// When it starts; the clock's time when not given.
        started_at, with_started_at: Time = "startedAt",
        /// How much of the record to answer.
        answer, with_answer: AnswerForm = "answer",
    }
}

operation! {
    /// Takes a running run over from its owner.
    ReclaimRun = "runs.reclaim" -> Run {
        /// The project.
        project_id: Id = "projectId",
        /// The run's id.
        id: Id = "id",
        /// Who owns it from now on.
        execution: Execution = "execution",
        ;
        /// Refuse unless the current lease ends at or before this time.
        lease_expired_by, with_lease_expired_by: Time = "leaseExpiredBy",
        /// How much of the record to answer.
        answer, with_answer: AnswerForm = "answer",
    }
}

operation! {
    /// Says that the owner is alive: the lease ends at the later of its current end and the given one.
    ConfirmRun = "runs.confirm" -> Run {
        /// The project.
        project_id: Id = "projectId",
        /// The run's id.
        id: Id = "id",
        /// The owner's token.
        execution_token: Id = "executionToken",
        /// The new end of the lease.
        lease_expires_at: Time = "queueLeaseExpiresAt",
        ;
        /// How much of the record to answer.
        answer, with_answer: AnswerForm = "answer",
    }
}

operation! {
    /// Suspends a running run; nobody owns it then.
    WaitRun = "runs.wait" -> Run {
        /// The project.
        project_id: Id = "projectId",
        /// The run's id.
        id: Id = "id",
        ;
        /// The owner's token, if the run has an execution.
        execution_token, with_execution_token: Id = "executionToken",
        /// Since when it waits; the clock's time when not given.
        waiting_at, with_waiting_at: Time = "waitingAt",
        /// How much of the record to answer.
        answer, with_answer: AnswerForm = "answer",
    }
}

operation! {
    /// Sets a waiting run to work again.
    ResumeRun = "runs.resume" -> Run {
        /// The project.
        project_id: Id = "projectId",
        /// The run's id.
        id: Id = "id",
        ;
        /// Who owns it from now on; without one, calls without a token own it.
        execution, with_execution: Execution = "execution",
        /// How much of the record to answer.
        answer, with_answer: AnswerForm = "answer",
    }
}

operation! {
    /// Ends a run. What is under it stays as it is; [`CancelRun`] cancels that too.
    FinishRun = "runs.finish" -> Run {
        /// The project.
        project_id: Id = "projectId",
        /// The run's id.
        id: Id = "id",
        /// How it ends; only a running run can succeed.
        status: EndStatus = "status",
        ;
        /// When it ended; the clock's time when not given.
        finished_at, with_finished_at: Time = "finishedAt",
        /// What it came to; kept only if it succeeded.
        output, with_output: Payload = "output",
        /// Why it failed or was cancelled; kept only if it did not succeed.
        error, with_error: Text = "error",
        /// The owner's token, if the run has an execution.
        execution_token, with_execution_token: Id = "executionToken",
        /// How much of the record to answer.
        answer, with_answer: AnswerForm = "answer",
    }
}

operation! {
    /// Cancels a run and, in the same step, every active node run and agent run under it. No token is asked.
    CancelRun = "runs.cancel" -> Run {
        /// The project.
        project_id: Id = "projectId",
        /// The run's id.
        id: Id = "id",
        ;
        /// Why.
        error, with_error: Text = "error",
        /// When; the clock's time when not given.
        finished_at, with_finished_at: Time = "finishedAt",
        /// How much of the record to answer.
        answer, with_answer: AnswerForm = "answer",
    }
}

operation! {
    /// Deletes an ended run with its node runs and their agent runs.
    DeleteRun = "runs.delete" -> Deleted {
        /// The project.
        project_id: Id = "projectId",
        /// The run's id.
        id: Id = "id",
        ;
    }
}

operation! {
    /// Deletes ended runs by (finishedAt, id), with what is under them.
    PurgeRuns = "runs.purge" -> Purged {
        /// The project.
        project_id: Id = "projectId",
        /// Only runs that ended strictly before this time.
        finished_before: Time = "finishedBefore",
        ;
        /// Only runs that ended so.
        statuses, with_statuses: Vec<EndStatus> = "statuses",
        /// Only runs of these workflows.
        workflow_ids, with_workflow_ids: Vec<Id> = "workflowIds",
        /// The most runs to delete in this step: 1 to 10,000, and 1,000 when not given.
        limit, with_limit: u32 = "limit",
    }
    where |purge: &PurgeRuns| check_rows(purge.limit)
}

operation! {
    /// Starts a new node run under a running run.
    StartNode = "nodes.start" -> NodeRun {
        /// The project.
        project_id: Id = "projectId",
        /// The new node run's id.
        id: Id = "id",
        /// The run of which it is a step.
        workflow_run_id: Id = "workflowRunId",
        /// The run's workflow.
        workflow_id: Id = "workflowId",
        /// The step's place in its workflow.
        node_index: u32 = "nodeIndex",
        /// What kind of step; one of type `agent` can have an agent run.
        node_type: Id = "nodeType",
        /// The step's id in its workflow.
        node_id: Id = "nodeId",
        /// The step's key in its workflow.
        node_key: Id = "nodeKey",
        /// What the step is given.
        input: Payload = "input",
        ;
        /// When it starts; the clock's time when not given.
        started_at, with_started_at: Time = "startedAt",
        /// The token of the run's owner, if the run has an execution.
        execution_token, with_execution_token: Id = "executionToken",
        /// How much of the record to answer.
        answer, with_answer: AnswerForm = "answer",
    }
}

operation! {
    /// Suspends a running node run.
    WaitNode = "nodes.wait" -> NodeRun {
        /// The project.
        project_id: Id = "projectId",
        /// The node run's id.
        id: Id = "id",
        ;
        /// The token of the run's owner, if the run has an execution.
        execution_token, with_execution_token: Id = "executionToken",
        /// Since when it waits; the clock's time when not given.
        waiting_at, with_waiting_at: Time = "waitingAt",
        /// How much of the record to answer.
        answer, with_answer: AnswerForm = "answer",
    }
}

operation! {
    /// Ends a running or waiting node run.
    FinishNode = "nodes.finish" -> NodeRun {
        /// The project.
        project_id: Id = "projectId",
        /// The node run's id.
        id: Id = "id",
        /// How it ends.
        status: EndStatus = "status",
        ;
        /// When it ended; the clock's time when not given.
        finished_at, with_finished_at: Time = "finishedAt",
        /// What it came to; kept only if it succeeded.
        output, with_output: Payload = "output",
        /// Why it failed or was cancelled; kept only if it did not succeed.
        error, with_error: Text = "error",
        /// The token of the run's owner, if the run has an execution.
        execution_token, with_execution_token: Id = "executionToken",
        /// How much of the record to answer.
        answer, with_answer: AnswerForm = "answer",
    }
}

operation! {
    /// Creates the agent run of a running node run of type `agent`.
    CreateAgent = "agents.create" -> AgentRun {
        /// The project.
        project_id: Id = "projectId",
        /// The node run.
        node_run_id: Id = "nodeRunId",
        /// The agent.
        agent_id: Id = "agentId",
        /// What the agent is asked.
        prompt: Text = "prompt",
        ;
        /// When it is created; the clock's time when not given.
        created_at, with_created_at: Time = "createdAt",
        /// The token of the run's owner; where it is given it must be the right one.
        execution_token, with_execution_token: Id = "executionToken",
        /// How much of the record to answer.
        answer, with_answer: AnswerForm = "answer",
    }
}

operation! {
    /// Takes the queued agent run with the smallest (createdAt, nodeRunId), if there is one.
    ClaimAgent = "agents.claim" -> Option<AgentRun> {
        /// The project.
        project_id: Id = "projectId",
        /// Who owns the agent run from now on.
        execution: Execution = "execution",
        ;
        /// Only runs of these agents.
        agent_ids, with_agent_ids: Vec<Id> = "agentIds",
        /// On whose behalf it runs.
        execution_principal, with_execution_principal: Principal = "executionPrincipal",
        /// The model it uses.
        model_id, with_model_id: Text = "modelId",
        /// When it starts; the clock's time when not given.
        started_at, with_started_at: Time = "startedAt",
        /// How much of the record to answer.
        answer, with_answer: AnswerForm = "answer",
    }
}

operation! {
    /// Starts a queued agent run.
    StartAgent = "agents.start" -> AgentRun {
        /// The project.
        project_id: Id = "projectId",
        /// The node run.
        node_run_id: Id = "nodeRunId",
        /// Who owns the agent run from now on.
        execution: Execution = "execution",
        ;
        /// On whose behalf it runs.
        execution_principal, with_execution_principal: Principal = "executionPrincipal",
        /// The model it uses.
        model_id, with_model_id: Text = "modelId",
        /// When it starts; the clock's time when not given.
        started_at, with_started_at: Time = "startedAt",
        /// How much of the record to answer.
        answer, with_answer: AnswerForm = "answer",
    }
}

operation! {
    /// Takes a running agent run over from its owner.
    ReclaimAgent = "agents.reclaim" -> AgentRun {
        /// The project.
        project_id: Id = "projectId",
        /// The node run.
        node_run_id: Id = "nodeRunId",
        /// Who owns it from now on.
        execution: Execution = "execution",
        ;
        /// Refuse unless the current lease ends at or before this time.
        lease_expired_by, with_lease_expired_by: Time = "leaseExpiredBy",
        /// How much of the record to answer.
        answer, with_answer: AnswerForm = "answer",
    }
}

operation! {
    /// Says that the agent run's owner is alive: its lease ends at the later of its current end and the given one.
    ConfirmAgent = "agents.confirm" -> AgentRun {
        /// The project.
        project_id: Id = "projectId",
        /// The node run.
        node_run_id: Id = "nodeRunId",
        /// The owner's token.
        execution_token: Id = "executionToken",
        /// The new end of the lease.
        lease_expires_at: Time = "queueLeaseExpiresAt",
        ;
        /// How much of the record to answer.
        answer, with_answer: AnswerForm = "answer",
    }
}

operation! {
    /// Ends a running agent run. What is not given keeps its value.
    FinishAgent = "agents.finish" -> AgentRun {
        /// The project.
        project_id: Id = "projectId",
        /// The node run.
        node_run_id: Id = "nodeRunId",
        /// The owner's token.
        execution_token: Id = "executionToken",
        /// How it ends.
        status: EndStatus = "status",
        ;
        /// The model it used.
        model_id, with_model_id: Text = "modelId",
        /// Why the model stopped.
        finish_reason, with_finish_reason: Text = "finishReason",
        /// What it used up.
        usage, with_usage: Payload = "usage",
        /// What it did.
        trace, with_trace: Payload = "trace",
        /// What it noted about itself.
        diagnostics, with_diagnostics: Payload = "diagnostics",
        /// Why it failed or was cancelled; kept only if it did not succeed.
        error, with_error: Text = "error",
        /// When it ended; the clock's time when not given.
        completed_at, with_completed_at: Time = "completedAt",
        /// How much of the record to answer.
        answer, with_answer: AnswerForm = "answer",
    }
}

operation! {
    /// Cancels a queued or running agent run. No token is asked.
    CancelAgent = "agents.cancel" -> AgentRun {
        /// The project.
        project_id: Id = "projectId",
        /// The node run.
        node_run_id: Id = "nodeRunId",
        ;
        /// Why.
        error, with_error: Text = "error",
        /// When; the clock's time when not given.
        completed_at, with_completed_at: Time = "completedAt",
        /// How much of the record to answer.
        answer, with_answer: AnswerForm = "answer",
    }
}

/// A limit of 1 to [`MAX_ROWS`].
pub(crate) fn check_rows(limit: Option<u32>) -> Result<()> {
    match limit {
        Some(0) => Err(Error::invalid("limit", "at least 1")),
        Some(limit) if limit > MAX_ROWS => Err(Error::invalid("limit", format_args!("at most {MAX_ROWS}, not {limit}"))),
        _ => Ok(()),
    }
}

macro_rules! commands {
    ($($name:ident),*) => {
        /// Any command but a batch.
        #[derive(Clone, Debug, PartialEq)]
        #[non_exhaustive]
        pub enum Command { $(#[doc = concat!("See [`", stringify!($name), "`].")] $name($name),)* }

        $(
            impl From<$name> for Command {
                fn from(command: $name) -> Command {
                    Command::$name(command)
                }
            }
        )*

        impl Command {
            /// Every command's name, as in `runs.queue`.
            pub const OPS: &'static [&'static str] = &[$(<$name as crate::Operation>::OP),*];

            /// The command's name, as in `runs.queue`.
            pub fn op(&self) -> &'static str {
                match self { $(Command::$name(_) => <$name as crate::Operation>::OP,)* }
            }

            /// The project whose records it changes.
            pub fn project_id(&self) -> &Id {
                match self { $(Command::$name(command) => &command.project_id,)* }
            }

            /// Reads the fields of the command named `op`; `None` when there is none of that name.
            pub(crate) fn read(op: &str, fields: &mut Fields<'_>) -> Option<Result<Command>> {
                $(if op == <$name as crate::Operation>::OP {
                    return Some($name::read(fields).map(Command::$name));
                })*
                None
            }

            pub(crate) fn check(&self, limits: &Limits) -> Result<()> {
                match self { $(Command::$name(command) => Shape::check(command, limits),)* }
            }

            fn write(&self, object: &mut Object<'_>) {
                match self { $(Command::$name(command) => Shape::write(command, object),)* }
            }
        }
    };
}

commands!(
    QueueRun,
    StartRun,
    ClaimRun,
    ReclaimRun,
    ConfirmRun,
    WaitRun,
    ResumeRun,
    FinishRun,
    CancelRun,
    DeleteRun,
    PurgeRuns,
    StartNode,
    WaitNode,
    FinishNode,
    CreateAgent,
    ClaimAgent,
    StartAgent,
    ReclaimAgent,
    ConfirmAgent,
    FinishAgent,
    CancelAgent
);

impl Command {
    /// The command as a request of the JSON form.
    ///
    /// ```
    /// use runledger_core::{Command, DeleteRun};
    /// let command = Command::from(DeleteRun::new("shop", "r1"));
    /// assert_eq!(command.to_json(), r#"{"op":"runs.delete","projectId":"shop","id":"r1"}"#);
    /// ```
    pub fn to_json(&self) -> String {
        let mut out = Vec::with_capacity(256);
        self.append_json(&mut out);
        crate::json::write::into_string(out)
    }

    pub(crate) fn append_json(&self, out: &mut Vec<u8>) {
        let mut object = Object::new(out);
        object.str("op", self.op());
        self.write(&mut object);
        object.end();
    }

    /// How many bytes of payload and text it carries, about.
    pub(crate) fn size_bytes(&self) -> usize {
        let payload = |payload: &Option<Payload>| payload.as_ref().map_or(0, |payload| payload.as_json().len());
        let text = |text: &Option<Text>| text.as_ref().map_or(0, |text| text.len());
        const BASE: usize = 256;
        BASE + match self {
            Command::QueueRun(c) => c.input.as_json().len() + payload(&c.source),
            Command::StartRun(c) => c.input.as_json().len() + payload(&c.source),
            Command::FinishRun(c) => payload(&c.output) + text(&c.error),
            Command::CancelRun(c) => text(&c.error),
            Command::StartNode(c) => c.input.as_json().len(),
            Command::FinishNode(c) => payload(&c.output) + text(&c.error),
            Command::CreateAgent(c) => c.prompt.len(),
            Command::FinishAgent(c) => payload(&c.usage) + payload(&c.trace) + payload(&c.diagnostics) + text(&c.error),
            Command::CancelAgent(c) => text(&c.error),
            _ => 0,
        }
    }
}

/// An operation of the contract as a type: a command or a query.
pub trait Operation {
    /// The name of the operation in the JSON form, as in `runs.queue`.
    const OP: &'static str;
    /// What answers it.
    type Answer;
}

shape!(Deleted { runs: u64 = "runs", nodes: u64 = "nodes", agents: u64 = "agents" });
shape!(Purged { runs: u64 = "runs", nodes: u64 = "nodes", agents: u64 = "agents", has_more: bool = "hasMore" });
