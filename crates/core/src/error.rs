//! The one error type: a stable code, a message for people, and the same facts as data.

use std::fmt;

use crate::json::write::Object;
use crate::{Id, Status};

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $number:literal, $text:literal;)*) => {
        /// What went wrong, as a stable code. Numbers and names never change.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        #[repr(i32)]
        pub enum Code { $($(#[$doc])* $name = $number,)* }

        impl Code {
            /// Every code, in the order of its number.
            pub const ALL: &'static [Code] = &[$(Code::$name,)*];

            /// The name used in the JSON form, such as `stale_token`.
            pub const fn as_str(self) -> &'static str {
                match self { $(Code::$name => $text,)* }
            }
        }
    };
}

codes! {
    /// The request itself is wrong; `details.field` names where.
    InvalidInput = 1, "invalid_input";
    /// A record that the command needs is not there.
    NotFound = 2, "not_found";
    /// The id is taken.
    AlreadyExists = 3, "already_exists";
    /// A record's status does not allow it; `details.status` has it.
    InvalidTransition = 4, "invalid_transition";
    /// The caller does not own the execution (any more): stop work.
    StaleToken = 5, "stale_token";
    /// The run belongs to another workflow.
    WorkflowMismatch = 6, "workflow_mismatch";
    /// The node run is not of type `agent`.
    NotAgentNode = 7, "not_agent_node";
    /// A guarded reclaim came before the lease ended.
    LeaseActive = 8, "lease_active";
    /// An import found another record under the same key.
    Conflict = 9, "conflict";
    /// The store's lock was not had within the busy timeout.
    Busy = 10, "busy";
    /// Another process or handle holds the store open.
    Locked = 11, "locked";
    /// The store, file or directory can't be written.
    ReadOnly = 12, "read_only";
    /// The disk is full; nothing of the command was kept.
    Full = 13, "full";
    /// The system refused an open, read, write or flush.
    Io = 14, "io";
    /// The content of the file or stream is damaged.
    Corrupt = 15, "corrupt";
    /// Written by a newer version; left untouched.
    SchemaTooNew = 16, "schema_too_new";
    /// The file is of another program; left untouched.
    NotALedger = 17, "not_a_ledger";
    /// This build or backend lacks it.
    Unsupported = 18, "unsupported";
    /// The handle was closed, or was carried over a fork.
    Closed = 19, "closed";
    /// The database server can't be reached or dropped the connection.
    Unavailable = 20, "unavailable";
    /// A defect in this library (a caught panic); other calls still work.
    Internal = 21, "internal";
    /// A payload, text or request is over the limit.
    TooLarge = 22, "too_large";
    /// The caller stopped it; nothing was kept.
    Interrupted = 23, "interrupted";
}

impl Code {
    /// The number of the C ABI; 0 is success and never a code.
    pub const fn number(self) -> i32 {
        self as i32
    }

    /// The code of a name of the JSON form.
    pub fn from_name(name: &str) -> Option<Code> {
        Code::ALL.iter().copied().find(|code| code.as_str() == name)
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What kind of thing an error speaks of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Entity {
    /// A run.
    Run,
    /// A node run.
    Node,
    /// An agent run.
    Agent,
    /// The store itself.
    Store,
}

impl Entity {
    /// The name used in the JSON form.
    pub const fn as_str(self) -> &'static str {
        match self {
            Entity::Run => "run",
            Entity::Node => "node",
            Entity::Agent => "agent",
            Entity::Store => "store",
        }
    }
}

/// The facts of an error as data; each is there where it applies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Details {
    /// What kind of record refused.
    pub entity: Option<Entity>,
    /// The record's project.
    pub project_id: Option<Id>,
    /// The record's id; of an agent run, its nodeRunId.
    pub id: Option<Id>,
    /// The field that is wrong, as a dotted path of JSON names.
    pub field: Option<String>,
    /// The status that does not allow the command.
    pub status: Option<Status>,
    /// The size that was too large, in bytes.
    pub size_bytes: Option<u64>,
    /// The limit that it passed, in bytes.
    pub limit_bytes: Option<u64>,
    /// The place in the batch of the command that failed, from 0.
    pub index: Option<usize>,
    /// The path of the file concerned.
    pub path: Option<String>,
    /// Of `unavailable`: `no`, or `unknown` when the command may have been applied.
    pub applied: Option<&'static str>,
}

/// The error of every call of this library.
///
/// ```
/// use runledger_core::{Code, Time};
/// let error = "yesterday".parse::<Time>().unwrap_err();
/// assert_eq!(error.code(), Code::InvalidInput);
/// assert!(!error.is_retryable());
/// ```
#[derive(Clone)]
pub struct Error(Box<Inner>);

#[derive(Clone)]
struct Inner {
    code: Code,
    message: String,
    details: Details,
}

impl Error {
    /// An error with a code and a message; details are added by the `with_*` methods.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Error(Box::new(Inner { code, message: message.into(), details: Details::default() }))
    }

    /// The request itself is wrong at `field`.
    pub fn invalid(field: impl Into<String>, message: impl fmt::Display) -> Self {
        let field = field.into();
        let text = format!("{}: {message}", shorten(&field));
        Error::new(Code::InvalidInput, text).with_field(field)
    }

    /// A value of `size_bytes` at `field` is over `limit_bytes`.
    pub fn too_large(field: impl Into<String>, size_bytes: usize, limit_bytes: usize) -> Self {
        let field = field.into();
        let text = format!("{field}: {size_bytes} bytes are over the limit of {limit_bytes}");
        let mut error = Error::new(Code::TooLarge, text).with_field(field);
        error.0.details.size_bytes = Some(size_bytes as u64);
        error.0.details.limit_bytes = Some(limit_bytes as u64);
        error
    }

    /// A record refused the command: the message names it and says what was found and needed.
    pub fn refused(code: Code, entity: Entity, project: &Id, id: &Id, found_and_needed: impl fmt::Display) -> Self {
        let text = format!("{} '{}' in project '{}': {found_and_needed}", entity.as_str(), shorten(id), shorten(project));
        Error::new(code, text).with_record(entity, project, id)
    }

    /// Stored content that can't be right.
    pub fn corrupt(what: impl Into<String>) -> Self {
        Error::new(Code::Corrupt, what).with_entity(Entity::Store)
    }

    /// Adds the record that the error speaks of.
    #[must_use]
    pub fn with_record(mut self, entity: Entity, project: &Id, id: &Id) -> Self {
        let details = &mut self.0.details;
        (details.entity, details.project_id, details.id) = (Some(entity), Some(project.clone()), Some(id.clone()));
        self
    }

    /// Adds what kind of thing the error speaks of.
    #[must_use]
    pub fn with_entity(mut self, entity: Entity) -> Self {
        self.0.details.entity = Some(entity);
        self
    }

    /// Adds the field that is wrong.
    #[must_use]
    pub fn with_field(mut self, field: impl Into<String>) -> Self {
        self.0.details.field = Some(field.into());
        self
    }

    /// Puts the name of the enclosing object before the field that is wrong.
    pub(crate) fn under(mut self, object: &str) -> Self {
        if let Some(field) = &mut self.0.details.field {
            *field = format!("{object}.{field}");
            self.0.message = format!("{object}.{}", self.0.message);
        }
        self
    }

    /// Adds the status that does not allow the command.
    #[must_use]
    pub fn with_status(mut self, status: Status) -> Self {
        self.0.details.status = Some(status);
        self
    }

    /// Adds the place of the failed command in its batch, from 0.
    #[must_use]
    pub fn with_index(mut self, index: usize) -> Self {
        self.0.details.index = Some(index);
        self
    }

    /// Adds the path of the file concerned.
    #[must_use]
    pub fn with_path(mut self, path: impl Into<String>) -> Self {
        self.0.details.path = Some(path.into());
        self
    }

    /// Adds whether a command that lost its server was applied: `no` or `unknown`.
    #[must_use]
    pub fn with_applied(mut self, applied: &'static str) -> Self {
        self.0.details.applied = Some(applied);
        self
    }

    /// The stable code.
    pub fn code(&self) -> Code {
        self.0.code
    }

    /// What happened, for people. It holds no payload, no SQL and no name of an engine's constraint.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The same facts as data.
    pub fn details(&self) -> &Details {
        &self.0.details
    }

    /// Whether the same call may succeed when it is made again.
    pub fn is_retryable(&self) -> bool {
        match self.0.code {
            Code::Busy | Code::Locked => true,
            Code::Unavailable => self.0.details.applied != Some("unknown"),
            _ => false,
        }
    }

    /// The error as the object of the JSON form: `{"code":…,"message":…,"retryable":…,"details":{…}}`.
    pub fn to_json(&self) -> String {
        let mut out = Vec::with_capacity(160);
        let mut object = Object::new(&mut out);
        object.str("code", self.0.code.as_str());
        object.str("message", &self.0.message);
        object.bool("retryable", self.is_retryable());
        object.nested("details", |details| self.0.details.write(details));
        object.end();
        crate::json::write::into_string(out)
    }
}

impl Details {
    /// The object of the JSON form, with what applies.
    pub fn to_json(&self) -> String {
        let mut out = Vec::with_capacity(96);
        let mut object = Object::new(&mut out);
        self.write(&mut object);
        object.end();
        crate::json::write::into_string(out)
    }

    fn write(&self, object: &mut Object<'_>) {
        let mut text = |name: &str, value: Option<&str>| {
            if let Some(value) = value {
                object.str(name, value);
            }
        };
        text("entity", self.entity.map(Entity::as_str));
        text("projectId", self.project_id.as_deref());
        text("id", self.id.as_deref());
        text("field", self.field.as_deref());
        text("status", self.status.map(Status::as_str));
        text("path", self.path.as_deref());
        text("applied", self.applied);
        let mut number = |name: &str, value: Option<u64>| {
            if let Some(value) = value {
                object.u64(name, value);
            }
        };
        number("size", self.size_bytes);
        number("limit", self.limit_bytes);
        number("index", self.index.map(|index| index as u64));
    }
}

/// The most characters of a caller's own text that a message repeats: an id may be refused for being a megabyte long.
const SHOWN_CHARS: usize = 64;

fn shorten(text: &str) -> std::borrow::Cow<'_, str> {
    match text.char_indices().nth(SHOWN_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]).into(),
        None => text.into(),
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.0.code, self.0.message)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Error").field("code", &self.0.code).field("message", &self.0.message).field("details", &self.0.details).finish()
    }
}

impl std::error::Error for Error {}
