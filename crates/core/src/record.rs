//! What is stored: runs, node runs and agent runs.

use std::fmt;
use std::sync::Arc;

use serde::{Serialize, Serializer};

use crate::payload::serialize_json;
use crate::shape::{Shape, shape};
use crate::{Entity, Id, Payload, Result, Text, Time};

macro_rules! names {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $number:literal, $text:literal;)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum $name { $($(#[$variant_doc])* $variant = $number,)* }

        impl $name {
            /// Every value.
            pub const ALL: &'static [$name] = &[$($name::$variant,)*];

            /// The name used in the JSON form.
            pub const fn as_str(self) -> &'static str {
                match self { $($name::$variant => $text,)* }
            }

            /// The value of a name of the JSON form.
            pub fn from_name(name: &str) -> Option<$name> {
                match name { $($text => Some($name::$variant),)* _ => None }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}
pub(crate) use names;

names! {
    /// The status of a run, node run or agent run. A node run is never queued, an agent run never waiting.
    Status {
        /// Known, and not begun.
        Queued = 0, "queued";
        /// At work.
        Running = 1, "running";
        /// Suspended until something outside happens.
        Waiting = 2, "waiting";
        /// Ended well.
        Succeeded = 3, "succeeded";
        /// Ended with an error.
        Failed = 4, "failed";
        /// Ended because somebody stopped it.
        Cancelled = 5, "cancelled";
    }
}

names! {
    /// A status that ends a run, node run or agent run.
    EndStatus {
        /// Ended well.
        Succeeded = 3, "succeeded";
        /// Ended with an error.
        Failed = 4, "failed";
        /// Ended because somebody stopped it.
        Cancelled = 5, "cancelled";
    }
}

impl Status {
    /// The status that is stored as this number.
    pub fn from_number(number: u8) -> Option<Status> {
        Status::ALL.get(usize::from(number)).copied()
    }
}

impl From<EndStatus> for Status {
    fn from(status: EndStatus) -> Status {
        match status {
            EndStatus::Succeeded => Status::Succeeded,
            EndStatus::Failed => Status::Failed,
            EndStatus::Cancelled => Status::Cancelled,
        }
    }
}

names! {
    /// How much of a record an answer holds.
    AnswerForm {
        /// The whole record.
        Record = 0, "record";
        /// The record without its payloads and prompt, which are then not even read.
        State = 1, "state";
    }
}

/// Who asked for something.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Principal {
    /// What kind of principal: `user`, `system`, …
    pub kind: Id,
    /// Its id among its kind.
    pub id: Id,
}

shape!(Principal { kind: Id = "type", id: Id = "id" });

impl Principal {
    /// A principal of a kind, which is the field `type` of the JSON form.
    pub fn new(kind: impl Into<Id>, id: impl Into<Id>) -> Self {
        Principal { kind: kind.into(), id: id.into() }
    }

    /// The principal of a run that names none: `system`, `system`.
    pub fn system() -> Self {
        static SYSTEM: std::sync::LazyLock<Principal> = std::sync::LazyLock::new(|| Principal::new("system", "system"));
        SYSTEM.clone()
    }
}

/// Who owns a run or agent run now, and until when.
///
/// The token alone decides who owns it; the lease's end is data, judged only where a command is given a time to judge
/// it by. Tokens must be unique per claim: the store can't tell two workers with one token apart.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Execution {
    /// The owner's token.
    pub token: Id,
    /// When the owner's lease ends, unless it is confirmed before; `queueLeaseExpiresAt` in the JSON form.
    pub lease_expires_at: Time,
}

shape!(Execution { token: Id = "token", lease_expires_at: Time = "queueLeaseExpiresAt" });

impl Execution {
    /// An execution by the holder of `token`, whose lease ends at `lease_expires_at`.
    pub fn new(token: impl Into<Id>, lease_expires_at: Time) -> Self {
        Execution { token: token.into(), lease_expires_at }
    }
}

macro_rules! record {
    (
        $(#[$doc:meta])* $name:ident {
            $($(#[$field_doc:meta])* $field:ident: $type:ty = $json:literal,)*
        }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct $name { $($(#[$field_doc])* pub $field: $type,)* }

        shape!($name { $($field: $type = $json,)* });

        impl $name {
            /// The record in the JSON form, its fields in the contract's order.
            pub fn to_json(&self) -> String {
                Shape::to_json(self)
            }

            /// Reads a record from the JSON form.
            ///
            /// # Errors
            /// `invalid_input`, naming the field.
            pub fn from_json(json: &str) -> Result<Self> {
                let mut fields = crate::json::read::Fields::of_text(json)?;
                let record = <Self as Shape>::read(&mut fields)?;
                fields.finish()?;
                Ok(record)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
                serialize_json(self.to_json(), serializer)
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
                let raw = Box::<serde_json::value::RawValue>::deserialize(deserializer)?;
                $name::from_json(raw.get()).map_err(serde::de::Error::custom)
            }
        }
    };
}

record! {
    /// One execution of a workflow.
    Run {
        /// The project that the run belongs to; with `id`, the key.
        project_id: Id = "projectId",
        /// The run's id within its project.
        id: Id = "id",
        /// The workflow of which this is an execution.
        workflow_id: Id = "workflowId",
        /// Where the run stands.
        status: Status = "status",
        /// What the workflow was given; absent only in a `state` answer.
        input: Option<Payload> = "input",
        /// When it was queued, if it went through the queue.
        queued_at: Option<Time> = "queuedAt",
        /// When it started; equals `queued_at` until then.
        started_at: Time = "startedAt",
        /// Since when it waits, only while it does.
        waiting_since: Option<Time> = "waitingSince",
        /// When it ended, only once it has.
        finished_at: Option<Time> = "finishedAt",
        /// What it came to, only if it succeeded and gave something; absent in a `state` answer.
        output: Option<Payload> = "output",
        /// Why it failed or was cancelled, if that was given.
        error: Option<Text> = "error",
        /// What triggered it, if that was given; absent in a `state` answer.
        source: Option<Payload> = "source",
        /// Who asked for it.
        requested_by_principal: Principal = "requestedByPrincipal",
        /// How often it was started, claimed, reclaimed or resumed; 0 while it was never begun.
        attempt: u32 = "attempt",
        /// Who owns it now, and until when.
        execution: Option<Execution> = "execution",
    }
}

record! {
    /// One step of a run. It has no token of its own: the run's owner owns its nodes.
    NodeRun {
        /// The project that the node run belongs to; with `id`, the key.
        project_id: Id = "projectId",
        /// The node run's id within its project.
        id: Id = "id",
        /// The run of which this is a step.
        workflow_run_id: Id = "workflowRunId",
        /// The workflow of that run.
        workflow_id: Id = "workflowId",
        /// The step's place in its workflow.
        node_index: u32 = "nodeIndex",
        /// What kind of step; `agent` is the one with a meaning here.
        node_type: Id = "nodeType",
        /// The step's id in its workflow.
        node_id: Id = "nodeId",
        /// The step's key in its workflow.
        node_key: Id = "nodeKey",
        /// Where the step stands.
        status: Status = "status",
        /// What the step was given; absent only in a `state` answer.
        input: Option<Payload> = "input",
        /// When it started.
        started_at: Time = "startedAt",
        /// Since when it waits, only while it does.
        waiting_since: Option<Time> = "waitingSince",
        /// When it ended, only once it has.
        finished_at: Option<Time> = "finishedAt",
        /// What it came to, only if it succeeded and gave something; absent in a `state` answer.
        output: Option<Payload> = "output",
        /// Why it failed or was cancelled, if that was given.
        error: Option<Text> = "error",
    }
}

record! {
    /// The agent execution behind a node run of type `agent`; a node run has at most one.
    AgentRun {
        /// The project that the agent run belongs to; with `node_run_id`, the key.
        project_id: Id = "projectId",
        /// The node run that it executes.
        node_run_id: Id = "nodeRunId",
        /// The agent that does it.
        agent_id: Id = "agentId",
        /// Where the agent run stands.
        status: Status = "status",
        /// What the agent was asked; absent only in a `state` answer.
        prompt: Option<Text> = "prompt",
        /// On whose behalf it runs.
        execution_principal: Option<Principal> = "executionPrincipal",
        /// The model it uses.
        model_id: Option<Text> = "modelId",
        /// Why the model stopped.
        finish_reason: Option<Text> = "finishReason",
        /// What it used up; absent in a `state` answer.
        usage: Option<Payload> = "usage",
        /// What it did; absent in a `state` answer.
        trace: Option<Payload> = "trace",
        /// What it noted about itself; absent in a `state` answer.
        diagnostics: Option<Payload> = "diagnostics",
        /// Why it failed or was cancelled, if that was given.
        error: Option<Text> = "error",
        /// How often it was started, claimed or reclaimed; 0 while it was never begun.
        attempt: u32 = "attempt",
        /// Who owns it now, and until when.
        execution: Option<Execution> = "execution",
        /// When it was created.
        created_at: Time = "createdAt",
        /// When it was started, if it was.
        started_at: Option<Time> = "startedAt",
        /// When it ended, only once it has.
        completed_at: Option<Time> = "completedAt",
    }
}

/// The most large values that one record has.
pub const MAX_LARGE: usize = 4;

/// What the three kinds of record have in common, for code that stores any of them.
///
/// The payloads and the prompt of a record are its **large values**. They are stored apart from its state, so that a
/// transition never rewrites one.
pub trait Record: Clone + fmt::Debug + PartialEq + Send + Sync + Sized + 'static {
    /// What kind of record this is.
    const ENTITY: Entity;
    /// The JSON names of its large values; the place in this list is the slot of the value.
    const LARGE: &'static [&'static str];

    /// The project.
    fn project_id(&self) -> &Id;
    /// The id within the project; of an agent run, its nodeRunId.
    fn key_id(&self) -> &Id;
    /// The status.
    fn status(&self) -> Status;
    /// Takes a large value out.
    fn take_large(&mut self, slot: usize) -> Option<Arc<str>>;
    /// A large value, if it is there.
    fn large(&self, slot: usize) -> Option<&str>;
    /// Puts a large value in, as it was stored.
    fn set_large(&mut self, slot: usize, value: Arc<str>);
    /// Whether the record's fields fit each other as every transition leaves them; the text says what does not.
    fn coherence(&self) -> std::result::Result<(), &'static str>;

    /// The record without its large values.
    #[must_use]
    fn into_state(mut self) -> Self {
        for slot in 0..Self::LARGE.len() {
            self.take_large(slot);
        }
        self
    }

    /// The set of large values that are there.
    fn held(&self) -> Held {
        let mut held = Held::default();
        for slot in 0..Self::LARGE.len() {
            if self.large(slot).is_some() {
                held.insert(slot);
            }
        }
        held
    }
}

/// A set of slots of large values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held(pub u8);

impl Held {
    /// Adds a slot.
    pub fn insert(&mut self, slot: usize) {
        self.0 |= 1 << slot;
    }

    /// Whether a slot is in the set.
    pub const fn contains(self, slot: usize) -> bool {
        self.0 >> slot & 1 == 1
    }

    /// The slots in the set, in order.
    pub fn slots(self) -> impl Iterator<Item = usize> {
        (0..MAX_LARGE).filter(move |slot| self.contains(*slot))
    }

    /// Both sets together.
    #[must_use]
    pub const fn union(self, other: Held) -> Held {
        Held(self.0 | other.0)
    }

    /// Whether the set has no slot.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }
}

macro_rules! large_values {
    ($name:ident, $entity:expr, $id:ident, [$($slot:literal => $field:ident: $type:ident = $json:literal),*]) => {
        impl Record for $name {
            const ENTITY: Entity = $entity;
            const LARGE: &'static [&'static str] = &[$($json),*];

            fn project_id(&self) -> &Id {
                &self.project_id
            }
            fn key_id(&self) -> &Id {
                &self.$id
            }
            fn status(&self) -> Status {
                self.status
            }
            fn take_large(&mut self, slot: usize) -> Option<Arc<str>> {
                match slot { $($slot => self.$field.take().map(Into::into),)* _ => None }
            }
            fn large(&self, slot: usize) -> Option<&str> {
                match slot { $($slot => self.$field.as_ref().map(large_values!(@str $type)),)* _ => None }
            }
            fn set_large(&mut self, slot: usize, value: Arc<str>) {
                match slot { $($slot => self.$field = Some(large_values!(@new $type, value)),)* _ => {} }
            }
            fn coherence(&self) -> std::result::Result<(), &'static str> {
                self.check_coherence()
            }
        }
    };
    (@str Payload) => { Payload::as_json };
    (@str Text) => { Text::as_ref };
    (@new Payload, $value:ident) => { Payload::from_stored($value) };
    (@new Text, $value:ident) => { Text::from($value) };
}

large_values!(Run, Entity::Run, id, [0 => input: Payload = "input", 1 => output: Payload = "output", 2 => source: Payload = "source"]);
large_values!(NodeRun, Entity::Node, id, [0 => input: Payload = "input", 1 => output: Payload = "output"]);
large_values!(AgentRun, Entity::Agent, node_run_id, [
    0 => prompt: Text = "prompt", 1 => usage: Payload = "usage", 2 => trace: Payload = "trace", 3 => diagnostics: Payload = "diagnostics"
]);
