//! What commands and queries answer.

use crate::json::write::{self, Object};
use crate::shape::Shape;
use crate::{AgentRun, Entity, Id, NodeRun, Run, Status};

/// A page of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Page<T> {
    /// The rows, in order.
    pub rows: Vec<T>,
    /// How many rows match in all, those before a cursor too; absent if it was not asked.
    pub total: Option<u64>,
    /// Whether another row follows the page.
    pub has_more: bool,
    /// Where the next page begins; there exactly when `has_more` is true and the page is not empty.
    pub next_cursor: Option<String>,
}

/// Expired leases.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Expired<T> {
    /// The rows, in order.
    pub rows: Vec<T>,
    /// Whether there are more than the limit.
    pub has_more: bool,
}

/// The latest run of each workflow.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Runs {
    /// The runs, in the order in which their workflows were first asked.
    pub runs: Vec<Run>,
}

/// What a delete removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Deleted {
    /// How many runs.
    pub runs: u64,
    /// How many node runs.
    pub nodes: u64,
    /// How many agent runs.
    pub agents: u64,
}

/// What a purge removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Purged {
    /// How many runs.
    pub runs: u64,
    /// How many node runs.
    pub nodes: u64,
    /// How many agent runs.
    pub agents: u64,
    /// Whether more runs match than the limit.
    pub has_more: bool,
}

/// How many runs there are in each status.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StatusCounts(
    /// A count for each of [`Status::ALL`].
    pub [u64; 6],
);

impl StatusCounts {
    /// How many there are in one status.
    pub fn of(&self, status: Status) -> u64 {
        self.0[status as usize]
    }

    /// How many there are in all.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Adds other counts.
    pub fn add(&mut self, other: &StatusCounts) {
        for (sum, count) in self.0.iter_mut().zip(other.0) {
            *sum += count;
        }
    }
}

/// How many runs of a project there are, by status and by workflow.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RunStats {
    /// Over the workflows that were asked for.
    pub by_status: StatusCounts,
    /// The workflows that have runs, in byte order.
    pub by_workflow: Vec<(Id, StatusCounts)>,
}

impl RunStats {
    /// From the counts of each workflow, in byte order; those without runs are left out.
    pub fn from_workflows(counts: impl IntoIterator<Item = (Id, StatusCounts)>) -> Self {
        let mut stats = RunStats::default();
        for (workflow, counts) in counts {
            if counts.total() > 0 {
                stats.by_status.add(&counts);
                stats.by_workflow.push((workflow, counts));
            }
        }
        stats
    }
}

/// A project that has runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProjectSummary {
    /// The project.
    pub project_id: Id,
    /// How many runs it has.
    pub runs: u64,
}

/// What a store is and how it was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreInfo {
    /// The backend: `memory`, `sqlite`, `redb`, …
    pub backend: String,
    /// Where the store is, without a password.
    pub address: String,
    /// The version of the store's layout.
    pub schema_version: u32,
    /// The version of this library.
    pub library_version: String,
    /// The engine's name.
    pub engine_name: String,
    /// The engine's version.
    pub engine_version: String,
    /// `full` or `relaxed`, as it is in effect.
    pub durability: String,
    /// `create`, `existing` or `read_only`, as it was opened.
    pub mode: String,
    /// The bytes that the store takes up.
    pub size_bytes: u64,
}

/// Something in a store that is not as it must be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// What kind of problem: `index`, `counter`, `checksum`, `reference`, `record` or `engine`.
    pub kind: &'static str,
    /// What was found, and what was expected.
    pub message: String,
    /// What kind of record it concerns.
    pub entity: Option<Entity>,
    /// The record's project.
    pub project_id: Option<Id>,
    /// The record's id.
    pub id: Option<Id>,
}

impl Problem {
    /// A problem of a kind; the record is added by [`Problem::of`].
    pub fn new(kind: &'static str, message: impl Into<String>) -> Self {
        Problem { kind, message: message.into(), entity: None, project_id: None, id: None }
    }

    /// Adds the record that it concerns.
    #[must_use]
    pub fn of(mut self, entity: Entity, project: &Id, id: &Id) -> Self {
        (self.entity, self.project_id, self.id) = (Some(entity), Some(project.clone()), Some(id.clone()));
        self
    }
}

/// What a verification found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VerifyReport {
    /// How many records were read.
    pub checked: Deleted,
    /// What is not as it must be; empty when all is well. At most [`VerifyReport::MAX_PROBLEMS`] are listed.
    pub problems: Vec<Problem>,
    /// Whether the engine's own check was made too; it needs the store alone.
    pub engine_check_done: bool,
}

impl VerifyReport {
    /// The most problems that are listed: a store with more is not better understood by reading them all.
    pub const MAX_PROBLEMS: usize = 1000;

    /// Adds a problem, unless there are enough.
    pub fn push(&mut self, problem: Problem) {
        if self.problems.len() < VerifyReport::MAX_PROBLEMS {
            self.problems.push(problem);
        }
    }

    /// Whether nothing is wrong.
    pub fn is_ok(&self) -> bool {
        self.problems.is_empty()
    }
}

/// What a compaction gained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompactReport {
    /// The size before, in bytes.
    pub bytes_before: u64,
    /// The size after, in bytes.
    pub bytes_after: u64,
}

macro_rules! answers {
    ($($variant:ident($type:ty),)*) => {
        /// The answer of any operation.
        #[derive(Clone, Debug, PartialEq)]
        #[non_exhaustive]
        pub enum Answer {
            $(#[allow(missing_docs, reason = "named as the type that it holds")] $variant($type),)*
            /// The answers of a batch's commands, in their order.
            Batch(Vec<Answer>),
        }

        $(
            impl From<$type> for Answer {
                fn from(answer: $type) -> Answer {
                    Answer::$variant(answer)
                }
            }

            impl TryFrom<Answer> for $type {
                type Error = Answer;
                fn try_from(answer: Answer) -> Result<$type, Answer> {
                    match answer {
                        Answer::$variant(answer) => Ok(answer),
                        other => Err(other),
                    }
                }
            }
        )*
    };
}

answers! {
    Run(Run),
    Node(NodeRun),
    Agent(AgentRun),
    MaybeRun(Option<Run>),
    MaybeNode(Option<NodeRun>),
    MaybeAgent(Option<AgentRun>),
    Deleted(Deleted),
    Purged(Purged),
    RunPage(Page<Run>),
    NodePage(Page<NodeRun>),
    AgentPage(Page<AgentRun>),
    ProjectPage(Page<ProjectSummary>),
    Runs(Runs),
    ExpiredRuns(Expired<Run>),
    ExpiredAgents(Expired<AgentRun>),
    RunStats(RunStats),
    StoreInfo(StoreInfo),
    VerifyReport(VerifyReport),
    CompactReport(CompactReport),
}

impl Answer {
    /// The answer in the JSON form: the value of `ok`.
    pub fn to_json(&self) -> String {
        let mut out = Vec::with_capacity(512);
        self.append_json(&mut out);
        write::into_string(out)
    }

    pub(crate) fn append_json(&self, out: &mut Vec<u8>) {
        match self {
            Answer::Run(run) => run.append_json(out),
            Answer::Node(node) => node.append_json(out),
            Answer::Agent(agent) => agent.append_json(out),
            Answer::MaybeRun(run) => or_null(out, run.as_ref()),
            Answer::MaybeNode(node) => or_null(out, node.as_ref()),
            Answer::MaybeAgent(agent) => or_null(out, agent.as_ref()),
            Answer::Deleted(deleted) => deleted.append_json(out),
            Answer::Purged(purged) => purged.append_json(out),
            Answer::RunPage(page) => page.append_json(out, "runs", |out, run| run.append_json(out)),
            Answer::NodePage(page) => page.append_json(out, "nodes", |out, node| node.append_json(out)),
            Answer::AgentPage(page) => page.append_json(out, "agents", |out, agent| agent.append_json(out)),
            Answer::ProjectPage(page) => page.append_json(out, "projects", append_project),
            Answer::Runs(runs) => whole(out, |object| object.list("runs", &runs.runs, |out, run| run.append_json(out))),
            Answer::ExpiredRuns(expired) => append_expired(out, "runs", expired),
            Answer::ExpiredAgents(expired) => append_expired(out, "agents", expired),
            Answer::RunStats(stats) => whole(out, |object| stats.write(object)),
            Answer::StoreInfo(info) => whole(out, |object| info.write(object)),
            Answer::VerifyReport(report) => whole(out, |object| report.write(object)),
            Answer::CompactReport(report) => whole(out, |object| {
                object.u64("bytesBefore", report.bytes_before);
                object.u64("bytesAfter", report.bytes_after);
            }),
            Answer::Batch(results) => {
                whole(out, |object| object.list("results", results, |out, answer| answer.append_json(out)));
            }
        }
    }
}

fn whole(out: &mut Vec<u8>, write: impl FnOnce(&mut Object<'_>)) {
    let mut object = Object::new(out);
    write(&mut object);
    object.end();
}

fn or_null(out: &mut Vec<u8>, record: Option<&impl Shape>) {
    match record {
        Some(record) => record.append_json(out),
        None => out.extend_from_slice(b"null"),
    }
}

fn append_project(out: &mut Vec<u8>, project: &ProjectSummary) {
    whole(out, |object| {
        object.str("projectId", &project.project_id);
        object.u64("runs", project.runs);
    });
}

impl<T> Page<T> {
    fn append_json(&self, out: &mut Vec<u8>, name: &str, write: impl FnMut(&mut Vec<u8>, &T)) {
        whole(out, |object| {
            object.list(name, &self.rows, write);
            if let Some(total) = self.total {
                object.u64("total", total);
            }
            object.bool("hasMore", self.has_more);
            if let Some(cursor) = &self.next_cursor {
                object.str("nextCursor", cursor);
            }
        });
    }
}

fn append_expired<T: Shape>(out: &mut Vec<u8>, name: &str, expired: &Expired<T>) {
    whole(out, |object| {
        object.list(name, &expired.rows, |out, record| record.append_json(out));
        object.bool("hasMore", expired.has_more);
    });
}

impl StatusCounts {
    fn write(&self, object: &mut Object<'_>) {
        object.u64("total", self.total());
        object.nested("byStatus", |counts| {
            for (status, count) in Status::ALL.iter().zip(self.0) {
                counts.u64(status.as_str(), count);
            }
        });
    }
}

impl RunStats {
    fn write(&self, object: &mut Object<'_>) {
        self.by_status.write(object);
        object.list("byWorkflow", &self.by_workflow, |out, (workflow, counts)| {
            whole(out, |object| {
                object.str("workflowId", workflow);
                counts.write(object);
            });
        });
    }
}

impl StoreInfo {
    fn write(&self, object: &mut Object<'_>) {
        object.str("backend", &self.backend);
        object.str("address", &self.address);
        object.u64("schemaVersion", u64::from(self.schema_version));
        object.str("libraryVersion", &self.library_version);
        object.nested("engine", |engine| {
            engine.str("name", &self.engine_name);
            engine.str("version", &self.engine_version);
        });
        object.str("durability", &self.durability);
        object.str("mode", &self.mode);
        object.u64("sizeBytes", self.size_bytes);
    }
}

impl VerifyReport {
    fn write(&self, object: &mut Object<'_>) {
        object.bool("ok", self.is_ok());
        object.nested("checked", |checked| Shape::write(&self.checked, checked));
        object.list("problems", &self.problems, |out, problem| whole(out, |object| problem.write(object)));
        object.str("engineCheck", if self.engine_check_done { "done" } else { "skipped" });
    }
}

impl Problem {
    fn write(&self, object: &mut Object<'_>) {
        object.str("kind", self.kind);
        object.str("message", &self.message);
        if let Some(entity) = self.entity {
            object.str("entity", entity.as_str());
        }
        if let Some(project) = &self.project_id {
            object.str("projectId", project);
        }
        if let Some(id) = &self.id {
            object.str("id", id);
        }
    }
}
