//! Every question as data, with its meaning: which records match, and in which order they come.

use std::cmp::Ordering;

use crate::command::{MAX_ROWS, check_rows, operation};
use crate::json::read::Fields;
use crate::json::write::Object;
use crate::record::names;
use crate::shape::Shape;
use crate::{
    AgentRun, AnswerForm, CompactReport, Error, Expired, Id, Limits, NodeRun, Page, ProjectSummary, Result, Run, RunStats, Runs, Status,
    StoreInfo, Time, VerifyReport,
};

/// How many rows a page has unless the caller says.
pub const DEFAULT_PAGE: u32 = 50;

names! {
    /// The direction of a list. Both reverse the whole order, ties included.
    Order {
        /// Smallest first.
        Asc = 0, "asc";
        /// Greatest first.
        Desc = 1, "desc";
    }
}

impl Order {
    /// `ordering` as this direction sees it.
    pub fn apply(self, ordering: Ordering) -> Ordering {
        match self {
            Order::Asc => ordering,
            Order::Desc => ordering.reverse(),
        }
    }
}

operation! {
    /// Reads a run.
    GetRun = "runs.get" -> Option<Run> {
        /// The project.
        project_id: Id = "projectId",
        /// The run's id.
        id: Id = "id",
        ;
        /// How much of the record to answer.
        answer, with_answer: AnswerForm = "answer",
    }
}

operation! {
    /// Reads a node run.
    GetNode = "nodes.get" -> Option<NodeRun> {
        /// The project.
        project_id: Id = "projectId",
        /// The node run's id.
        id: Id = "id",
        ;
        /// How much of the record to answer.
        answer, with_answer: AnswerForm = "answer",
    }
}

operation! {
    /// Reads an agent run.
    GetAgent = "agents.get" -> Option<AgentRun> {
        /// The project.
        project_id: Id = "projectId",
        /// The node run that it executes.
        node_run_id: Id = "nodeRunId",
        ;
        /// How much of the record to answer.
        answer, with_answer: AnswerForm = "answer",
    }
}

/// A list query: its own fields, then those that every page has.
macro_rules! list {
    (
        $(#[$doc:meta])*
        $name:ident = $op:literal -> $answer:ty {
            $($(#[$field_doc:meta])* $field:ident: $type:ty = $json:literal,)*
            ;
            $($(#[$optional_doc:meta])* $optional:ident, $with:ident: $optional_type:ty = $optional_json:literal,)*
        }
        $(where $rules:expr)?
    ) => {
        operation! {
            $(#[$doc])*
            $name = $op -> $answer {
                $($(#[$field_doc])* $field: $type = $json,)*
                ;
                $($(#[$optional_doc])* $optional, $with: $optional_type = $optional_json,)*
                /// The direction.
                order, with_order: Order = "order",
                /// The most rows: 0 to 10,000, and 50 when not given.
                limit, with_limit: u32 = "limit",
                /// How many matching rows to pass over; not together with a cursor.
                offset, with_offset: u64 = "offset",
                /// Where an earlier page ended: its `next_cursor`.
                cursor, with_cursor: String = "cursor",
                /// Whether to count all matches; it does when not given.
                with_total, with_with_total: bool = "withTotal",
            }
            where |list: &$name| {
                $($rules(list)?;)?
                check_page(list.limit, list.offset, list.cursor.as_deref())
            }
        }
    };
}

list! {
    /// Lists runs by (startedAt, id), the newest first unless the caller says.
    ListRuns = "runs.list" -> Page<Run> {
        /// The project.
        project_id: Id = "projectId",
        ;
        /// Only runs of this workflow.
        workflow_id, with_workflow_id: Id = "workflowId",
        /// Only runs of these workflows.
        workflow_ids, with_workflow_ids: Vec<Id> = "workflowIds",
        /// Only runs in these statuses.
        statuses, with_statuses: Vec<Status> = "statuses",
        /// Only runs started at or after this time.
        started_after, with_started_after: Time = "startedAfter",
        /// Only runs started at or before this time.
        started_before, with_started_before: Time = "startedBefore",
        /// How much of the records to answer.
        answer, with_answer: AnswerForm = "answer",
    }
}

list! {
    /// Lists node runs by (startedAt, nodeIndex, id), the newest first unless the caller says. The nodes of one run come
    /// in order from an index; a list across a whole project reads all its node runs.
    ListNodes = "nodes.list" -> Page<NodeRun> {
        /// The project.
        project_id: Id = "projectId",
        ;
        /// Only steps of this run.
        workflow_run_id, with_workflow_run_id: Id = "workflowRunId",
        /// Only steps of runs of this workflow.
        workflow_id, with_workflow_id: Id = "workflowId",
        /// Only steps of this type.
        node_type, with_node_type: Id = "nodeType",
        /// Only steps with this id in their workflow.
        node_id, with_node_id: Id = "nodeId",
        /// Only steps with this key in their workflow.
        node_key, with_node_key: Id = "nodeKey",
        /// Only steps in these statuses.
        statuses, with_statuses: Vec<Status> = "statuses",
        /// Only steps started at or after this time.
        started_after, with_started_after: Time = "startedAfter",
        /// Only steps started at or before this time.
        started_before, with_started_before: Time = "startedBefore",
        /// How much of the records to answer.
        answer, with_answer: AnswerForm = "answer",
    }
    where |list: &ListNodes| check_statuses(list.statuses.as_deref(), Status::Queued, "a node run")
}

list! {
    /// Lists agent runs by (createdAt, nodeRunId), the newest first unless the caller says.
    ListAgents = "agents.list" -> Page<AgentRun> {
        /// The project.
        project_id: Id = "projectId",
        ;
        /// Only runs of this agent.
        agent_id, with_agent_id: Id = "agentId",
        /// Only agent runs in these statuses.
        statuses, with_statuses: Vec<Status> = "statuses",
        /// Only agent runs created at or after this time.
        created_after, with_created_after: Time = "createdAfter",
        /// Only agent runs created at or before this time.
        created_before, with_created_before: Time = "createdBefore",
        /// How much of the records to answer.
        answer, with_answer: AnswerForm = "answer",
    }
    where |list: &ListAgents| check_statuses(list.statuses.as_deref(), Status::Waiting, "an agent run")
}

operation! {
    /// The run with the greatest (startedAt, id) of each workflow, in the order first asked.
    LatestRuns = "runs.latest" -> Runs {
        /// The project.
        project_id: Id = "projectId",
        /// The workflows; repeats count once.
        workflow_ids: Vec<Id> = "workflowIds",
        ;
        /// How much of the records to answer.
        answer, with_answer: AnswerForm = "answer",
    }
}

operation! {
    /// Running runs whose lease ended, by (lease end, projectId, id).
    ExpiredRuns = "runs.expired" -> Expired<Run> {
        /// Leases that end at or before this time.
        expired_by: Time = "expiredBy",
        ;
        /// Only runs of this project; of all when not given.
        project_id, with_project_id: Id = "projectId",
        /// The most rows: 1 to 10,000, and 1,000 when not given.
        limit, with_limit: u32 = "limit",
        /// How much of the records to answer.
        answer, with_answer: AnswerForm = "answer",
    }
    where |expired: &ExpiredRuns| check_rows(expired.limit)
}

operation! {
    /// Running agent runs whose lease ended, by (lease end, projectId, nodeRunId).
    ExpiredAgents = "agents.expired" -> Expired<AgentRun> {
        /// Leases that end at or before this time.
        expired_by: Time = "expiredBy",
        ;
        /// Only agent runs of this project; of all when not given.
        project_id, with_project_id: Id = "projectId",
        /// The most rows: 1 to 10,000, and 1,000 when not given.
        limit, with_limit: u32 = "limit",
        /// How much of the records to answer.
        answer, with_answer: AnswerForm = "answer",
    }
    where |expired: &ExpiredAgents| check_rows(expired.limit)
}

operation! {
    /// How many runs there are, by status and by workflow.
    GetRunStats = "runs.stats" -> RunStats {
        /// The project.
        project_id: Id = "projectId",
        ;
        /// Only runs of these workflows.
        workflow_ids, with_workflow_ids: Vec<Id> = "workflowIds",
    }
}

list! {
    /// Every project that has a run, in byte order.
    ListProjects = "projects.list" -> Page<ProjectSummary> {
        ;
    }
}

operation! {
    /// What the store is and how it was opened.
    GetStoreInfo = "store.info" -> StoreInfo {
        ;
    }
}

operation! {
    /// Holds indexes, counters, checksums and references against the records. It never repairs.
    VerifyStore = "store.verify" -> VerifyReport {
        ;
    }
}

operation! {
    /// Gives unused space back to the system.
    CompactStore = "store.compact" -> CompactReport {
        ;
    }
}

fn check_page(limit: Option<u32>, offset: Option<u64>, cursor: Option<&str>) -> Result<()> {
    match (limit, offset, cursor) {
        (_, Some(_), Some(_)) => Err(Error::invalid("cursor", "not together with an offset")),
        (Some(limit), ..) if limit > MAX_ROWS => Err(Error::invalid("limit", format_args!("at most {MAX_ROWS}, not {limit}"))),
        (_, Some(offset), _) if offset > i64::MAX as u64 => Err(Error::invalid("offset", "at most 9223372036854775807")),
        _ => Ok(()),
    }
}

fn check_statuses(statuses: Option<&[Status]>, never: Status, entity: &str) -> Result<()> {
    match statuses {
        Some(statuses) if statuses.contains(&never) => Err(Error::invalid("statuses", format_args!("{entity} is never {never}"))),
        _ => Ok(()),
    }
}

macro_rules! queries {
    ($($name:ident),*) => {
        /// Any query.
        #[derive(Clone, Debug, PartialEq)]
        #[non_exhaustive]
        pub enum Query { $(#[doc = concat!("See [`", stringify!($name), "`].")] $name($name),)* }

        $(
            impl From<$name> for Query {
                fn from(query: $name) -> Query {
                    Query::$name(query)
                }
            }
        )*

        impl Query {
            /// Every query's name, as in `runs.get`.
            pub const OPS: &'static [&'static str] = &[$(<$name as crate::Operation>::OP),*];

            /// The query's name, as in `runs.get`.
            pub fn op(&self) -> &'static str {
                match self { $(Query::$name(_) => <$name as crate::Operation>::OP,)* }
            }

            /// Reads the fields of the query named `op`; `None` when there is none of that name.
            pub(crate) fn read(op: &str, fields: &mut Fields<'_>) -> Option<Result<Query>> {
                $(if op == <$name as crate::Operation>::OP {
                    return Some($name::read(fields).map(Query::$name));
                })*
                None
            }

            pub(crate) fn check(&self, limits: &Limits) -> Result<()> {
                match self { $(Query::$name(query) => Shape::check(query, limits),)* }
            }

            /// The query as a request of the JSON form.
            ///
            /// ```
            /// use runledger_core::{GetRun, Query};
            /// let query = Query::from(GetRun::new("shop", "r1"));
            /// assert_eq!(query.to_json(), r#"{"op":"runs.get","projectId":"shop","id":"r1"}"#);
            /// ```
            pub fn to_json(&self) -> String {
                let mut out = Vec::with_capacity(128);
                let mut object = Object::new(&mut out);
                object.str("op", self.op());
                match self { $(Query::$name(query) => Shape::write(query, &mut object),)* }
                object.end();
                crate::json::write::into_string(out)
            }
        }
    };
}

queries!(
    GetRun,
    GetNode,
    GetAgent,
    ListRuns,
    ListNodes,
    ListAgents,
    LatestRuns,
    ExpiredRuns,
    ExpiredAgents,
    GetRunStats,
    ListProjects,
    GetStoreInfo,
    VerifyStore,
    CompactStore
);

/// A set of statuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatusSet(u8);

impl StatusSet {
    /// Every status.
    pub const ALL: StatusSet = StatusSet(0b11_1111);

    /// Only this status.
    pub const fn only(status: Status) -> StatusSet {
        StatusSet(1 << status as u8)
    }

    /// The statuses of a filter: all when there is none.
    pub fn of_filter<S: Copy + Into<Status>>(filter: Option<&[S]>) -> StatusSet {
        filter.map_or(StatusSet::ALL, |statuses| statuses.iter().copied().map(Into::into).collect())
    }

    /// Whether `status` is in the set.
    pub const fn contains(self, status: Status) -> bool {
        self.0 >> status as u8 & 1 == 1
    }

    /// Whether the set has no status.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether the set has every status.
    pub const fn is_all(self) -> bool {
        self.0 == StatusSet::ALL.0
    }

    /// The statuses in the set, in the order of their numbers.
    pub fn iter(self) -> impl Iterator<Item = Status> + Clone {
        Status::ALL.iter().copied().filter(move |status| self.contains(*status))
    }
}

impl FromIterator<Status> for StatusSet {
    fn from_iter<I: IntoIterator<Item = Status>>(statuses: I) -> Self {
        StatusSet(statuses.into_iter().fold(0, |bits, status| bits | 1 << status as u8))
    }
}

/// Both ends of a time window, inclusive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Window {
    /// No time before this one.
    pub after: Option<Time>,
    /// No time after this one.
    pub before: Option<Time>,
}

impl Window {
    /// Whether `time` is in the window.
    pub fn contains(&self, time: Time) -> bool {
        self.after.is_none_or(|after| after <= time) && self.before.is_none_or(|before| time <= before)
    }

    /// Whether every time is in the window.
    pub fn is_open(&self) -> bool {
        self.after.is_none() && self.before.is_none()
    }
}

/// Which runs a list holds, in the form that backends work with.
#[derive(Clone, Debug)]
pub struct RunFilter {
    /// The project.
    pub project_id: Id,
    /// Only these workflows, in byte order and without repeats; never empty.
    pub workflow_ids: Option<Vec<Id>>,
    /// Only these statuses; never empty.
    pub statuses: StatusSet,
    /// Only runs that started in this window.
    pub started: Window,
}

impl RunFilter {
    /// The reference meaning of the filter.
    pub fn matches(&self, run: &Run) -> bool {
        run.project_id == self.project_id
            && self.workflow_ids.as_ref().is_none_or(|ids| ids.binary_search(&run.workflow_id).is_ok())
            && self.statuses.contains(run.status)
            && self.started.contains(run.started_at)
    }
}

/// Which node runs a list holds, in the form that backends work with.
#[derive(Clone, Debug)]
pub struct NodeFilter {
    /// The project.
    pub project_id: Id,
    /// Only steps of this run.
    pub workflow_run_id: Option<Id>,
    /// Only steps of runs of this workflow.
    pub workflow_id: Option<Id>,
    /// Only steps of this type.
    pub node_type: Option<Id>,
    /// Only steps with this id in their workflow.
    pub node_id: Option<Id>,
    /// Only steps with this key in their workflow.
    pub node_key: Option<Id>,
    /// Only these statuses; never empty.
    pub statuses: StatusSet,
    /// Only steps that started in this window.
    pub started: Window,
}

impl NodeFilter {
    /// The reference meaning of the filter.
    pub fn matches(&self, node: &NodeRun) -> bool {
        let same = |wanted: &Option<Id>, found: &Id| wanted.as_ref().is_none_or(|wanted| wanted == found);
        node.project_id == self.project_id
            && same(&self.workflow_run_id, &node.workflow_run_id)
            && same(&self.workflow_id, &node.workflow_id)
            && same(&self.node_type, &node.node_type)
            && same(&self.node_id, &node.node_id)
            && same(&self.node_key, &node.node_key)
            && self.statuses.contains(node.status)
            && self.started.contains(node.started_at)
    }
}

/// Which agent runs a list holds, in the form that backends work with.
#[derive(Clone, Debug)]
pub struct AgentFilter {
    /// The project.
    pub project_id: Id,
    /// Only runs of this agent.
    pub agent_id: Option<Id>,
    /// Only these statuses; never empty.
    pub statuses: StatusSet,
    /// Only agent runs that were created in this window.
    pub created: Window,
}

impl AgentFilter {
    /// The reference meaning of the filter.
    pub fn matches(&self, agent: &AgentRun) -> bool {
        agent.project_id == self.project_id
            && self.agent_id.as_ref().is_none_or(|id| *id == agent.agent_id)
            && self.statuses.contains(agent.status)
            && self.created.contains(agent.created_at)
    }
}

/// Which ended runs a purge takes, in the form that backends work with.
#[derive(Clone, Debug)]
pub struct EndedFilter {
    /// The project.
    pub project_id: Id,
    /// Only runs that ended strictly before this time.
    pub finished_before: Time,
    /// Only these statuses, all of them terminal; never empty.
    pub statuses: StatusSet,
    /// Only these workflows, in byte order and without repeats; never empty.
    pub workflow_ids: Option<Vec<Id>>,
}

impl EndedFilter {
    /// The reference meaning of the filter.
    pub fn matches(&self, run: &Run) -> bool {
        run.project_id == self.project_id
            && run.finished_at.is_some_and(|finished| finished < self.finished_before)
            && self.statuses.contains(run.status)
            && self.workflow_ids.as_ref().is_none_or(|ids| ids.binary_search(&run.workflow_id).is_ok())
    }
}

/// Which leases have expired, in the form that backends work with.
#[derive(Clone, Debug)]
pub struct ExpiredFilter {
    /// Only this project.
    pub project_id: Option<Id>,
    /// Leases that end at or before this time.
    pub expired_by: Time,
    /// The most rows to answer.
    pub limit: usize,
}

/// A place in the order of a list: the sort key of one row. The node index is 0 where the order has none, and so is the
/// time in the list of projects.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// The time that the list is ordered by.
    pub time: Time,
    /// Of a node run, its node index.
    pub node_index: u32,
    /// The record's id, which settles ties.
    pub id: Id,
}

/// A record that is listed in an order.
pub trait Listed {
    /// The record's place in the order of its list.
    fn position(&self) -> Position;
}

impl Listed for Run {
    fn position(&self) -> Position {
        Position { time: self.started_at, node_index: 0, id: self.id.clone() }
    }
}

impl Listed for NodeRun {
    fn position(&self) -> Position {
        Position { time: self.started_at, node_index: self.node_index, id: self.id.clone() }
    }
}

impl Listed for AgentRun {
    fn position(&self) -> Position {
        Position { time: self.created_at, node_index: 0, id: self.node_run_id.clone() }
    }
}

impl Listed for ProjectSummary {
    fn position(&self) -> Position {
        Position { time: Time::MIN, node_index: 0, id: self.project_id.clone() }
    }
}

/// Where a page begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PageStart {
    /// After this many matching rows.
    Offset(u64),
    /// After this place in the order, which need not be a row any more.
    After(Position),
}

/// The page of a list that is asked for, in the form that backends work with.
#[derive(Clone, Debug)]
pub struct PageRequest {
    /// The direction.
    pub order: Order,
    /// The most rows; may be 0.
    pub limit: usize,
    /// Where it begins.
    pub start: PageStart,
    /// Whether all matches are to be counted.
    pub with_total: bool,
    /// How much of each record to answer.
    pub form: AnswerForm,
}

/// The rows of a page, as a backend answers them.
#[derive(Clone, Debug)]
pub struct Rows<T> {
    /// The rows, in order.
    pub rows: Vec<T>,
    /// How many rows match in all, if that was asked.
    pub total: Option<u64>,
    /// Whether another row follows the page.
    pub has_more: bool,
}

impl<T> Rows<T> {
    /// A page without rows, of a list that nothing matches.
    pub fn none(with_total: bool) -> Self {
        Rows { rows: Vec::new(), total: with_total.then_some(0), has_more: false }
    }
}
