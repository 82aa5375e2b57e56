//! Records as rows, and back.

use std::sync::{Arc, LazyLock};

use runledger_core::codec::{self, StateCodec, damaged};
use runledger_core::keys::lease_bucket;
use runledger_core::{
    AgentRun, AnswerForm, Entity, Error, Execution, Held, Id, MAX_LARGE, NodeRun, Principal, Record, Run, Status, Stored, Text, Time,
};
use tokio_postgres::Row;
use tokio_postgres::types::FromSql;

use crate::error::Outcome;
use crate::statement::Statement;

/// What a column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Text,
    Small,
    Big,
    Bytes,
}

impl Kind {
    const fn array(self) -> &'static str {
        match self {
            Kind::Text => "text[]",
            Kind::Small => "smallint[]",
            Kind::Big => "bigint[]",
            Kind::Bytes => "bytea[]",
        }
    }
}

/// The value of one column of one row.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Cell<'a> {
    Text(Option<&'a str>),
    Small(i16),
    Big(Option<i64>),
    Bytes(Option<&'a [u8]>),
}

/// A kind of record as a table has it.
pub(crate) trait Kept: StateCodec {
    const TABLE: &'static str;
    /// The columns; the first two are the key.
    const COLUMNS: &'static [(&'static str, Kind)];
    /// The name by which records of the kind are counted: the workflow or agent. Node runs are not counted.
    fn counted_under(&self) -> Option<&Id>;
    /// The parent's key, in which a tree is found.
    fn cells(&self, held: Held, checksum: i64) -> Vec<Cell<'_>>;
    /// Reads what the columns hold besides the key and the last two, which are `held` and the checksum.
    fn read(project: Id, id: Id, columns: &Columns<'_>) -> Option<Self>;

    /// The number of the kind in the tables.
    fn kind() -> i16 {
        match Self::ENTITY {
            Entity::Node => 1,
            Entity::Agent => 2,
            _ => 0,
        }
    }

    /// The columns as they are selected from the table under its own name `t`.
    fn selected() -> String {
        Self::COLUMNS.iter().map(|(name, _)| format!("t.{name}")).collect::<Vec<_>>().join(", ")
    }
}

/// Large values of the record `t` as arrays behind its columns.
pub(crate) const VALUES: &str = ", v.slots, v.checksums, v.jsons, v.prompts";

/// Where [`VALUES`] come from. As a subquery of its own it is asked once for each row of a page, never for the table.
pub(crate) fn values_of<R: Kept>() -> String {
    format!(
        " CROSS JOIN LATERAL (SELECT array_agg(l.slot) AS slots, array_agg(l.checksum) AS checksums, array_agg(l.json) AS jsons, \
         array_agg(l.prompt) AS prompts FROM @.large_value l WHERE l.project = t.project AND l.kind = {} AND l.id = t.id) v",
        R::kind()
    )
}

const RUN_COLUMNS: &[(&str, Kind)] = &[
    ("project", Kind::Text),
    ("id", Kind::Text),
    ("workflow", Kind::Text),
    ("status", Kind::Small),
    ("attempt", Kind::Big),
    ("queued_at", Kind::Big),
    ("started_at", Kind::Big),
    ("waiting_since", Kind::Big),
    ("finished_at", Kind::Big),
    ("principal_type", Kind::Text),
    ("principal_id", Kind::Text),
    ("token", Kind::Text),
    ("lease_ends_at", Kind::Big),
    ("lease_bucket", Kind::Big),
    ("error", Kind::Bytes),
    ("held", Kind::Small),
    ("checksum", Kind::Big),
];

const NODE_COLUMNS: &[(&str, Kind)] = &[
    ("project", Kind::Text),
    ("id", Kind::Text),
    ("run", Kind::Text),
    ("workflow", Kind::Text),
    ("node_index", Kind::Big),
    ("node_type", Kind::Text),
    ("node_id", Kind::Text),
    ("node_key", Kind::Text),
    ("status", Kind::Small),
    ("started_at", Kind::Big),
    ("waiting_since", Kind::Big),
    ("finished_at", Kind::Big),
    ("error", Kind::Bytes),
    ("held", Kind::Small),
    ("checksum", Kind::Big),
];

const AGENT_COLUMNS: &[(&str, Kind)] = &[
    ("project", Kind::Text),
    ("id", Kind::Text),
    ("agent", Kind::Text),
    ("status", Kind::Small),
    ("attempt", Kind::Big),
    ("created_at", Kind::Big),
    ("started_at", Kind::Big),
    ("completed_at", Kind::Big),
    ("principal_type", Kind::Text),
    ("principal_id", Kind::Text),
    ("model_id", Kind::Bytes),
    ("finish_reason", Kind::Bytes),
    ("token", Kind::Text),
    ("lease_ends_at", Kind::Big),
    ("lease_bucket", Kind::Big),
    ("error", Kind::Bytes),
    ("held", Kind::Small),
    ("checksum", Kind::Big),
];

impl Kept for Run {
    const TABLE: &'static str = "run";
    const COLUMNS: &'static [(&'static str, Kind)] = RUN_COLUMNS;

    fn counted_under(&self) -> Option<&Id> {
        Some(&self.workflow_id)
    }

    fn cells(&self, held: Held, checksum: i64) -> Vec<Cell<'_>> {
        vec![
            id(&self.project_id),
            id(&self.id),
            id(&self.workflow_id),
            Cell::Small(self.status as i16),
            Cell::Big(Some(i64::from(self.attempt))),
            time(self.queued_at),
            time(Some(self.started_at)),
            time(self.waiting_since),
            time(self.finished_at),
            id(&self.requested_by_principal.kind),
            id(&self.requested_by_principal.id),
            token(&self.execution),
            lease(&self.execution),
            bucket(&self.execution),
            text(&self.error),
            Cell::Small(i16::from(held.0)),
            Cell::Big(Some(checksum)),
        ]
    }

    fn read(project: Id, run: Id, columns: &Columns<'_>) -> Option<Run> {
        Some(Run {
            project_id: project,
            id: run,
            workflow_id: columns.id(2)?,
            status: columns.status(3)?,
            input: None,
            queued_at: columns.time(5)?,
            started_at: columns.time(6)??,
            waiting_since: columns.time(7)?,
            finished_at: columns.time(8)?,
            output: None,
            error: columns.text(14)?,
            source: None,
            requested_by_principal: columns.principal(9)??,
            attempt: columns.number(4)?,
            execution: columns.execution(11)?,
        })
    }
}

impl Kept for NodeRun {
    const TABLE: &'static str = "node_run";
    const COLUMNS: &'static [(&'static str, Kind)] = NODE_COLUMNS;

    fn counted_under(&self) -> Option<&Id> {
        None
    }

    fn cells(&self, held: Held, checksum: i64) -> Vec<Cell<'_>> {
        vec![
            id(&self.project_id),
            id(&self.id),
            id(&self.workflow_run_id),
            id(&self.workflow_id),
            Cell::Big(Some(i64::from(self.node_index))),
            id(&self.node_type),
            id(&self.node_id),
            id(&self.node_key),
            Cell::Small(self.status as i16),
            time(Some(self.started_at)),
            time(self.waiting_since),
            time(self.finished_at),
            text(&self.error),
            Cell::Small(i16::from(held.0)),
            Cell::Big(Some(checksum)),
        ]
    }

    fn read(project: Id, node: Id, columns: &Columns<'_>) -> Option<NodeRun> {
        Some(NodeRun {
            project_id: project,
            id: node,
            workflow_run_id: columns.id(2)?,
            workflow_id: columns.id(3)?,
            node_index: columns.number(4)?,
            node_type: columns.id(5)?,
            node_id: columns.id(6)?,
            node_key: columns.id(7)?,
            status: columns.status(8)?,
            input: None,
            started_at: columns.time(9)??,
            waiting_since: columns.time(10)?,
            finished_at: columns.time(11)?,
            output: None,
            error: columns.text(12)?,
        })
    }
}

impl Kept for AgentRun {
    const TABLE: &'static str = "agent_run";
    const COLUMNS: &'static [(&'static str, Kind)] = AGENT_COLUMNS;

    fn counted_under(&self) -> Option<&Id> {
        Some(&self.agent_id)
    }

    fn cells(&self, held: Held, checksum: i64) -> Vec<Cell<'_>> {
        let principal = self.execution_principal.as_ref();
        vec![
            id(&self.project_id),
            id(&self.node_run_id),
            id(&self.agent_id),
            Cell::Small(self.status as i16),
            Cell::Big(Some(i64::from(self.attempt))),
            time(Some(self.created_at)),
            time(self.started_at),
            time(self.completed_at),
            Cell::Text(principal.map(|principal| &*principal.kind)),
            Cell::Text(principal.map(|principal| &*principal.id)),
            text(&self.model_id),
            text(&self.finish_reason),
            token(&self.execution),
            lease(&self.execution),
            bucket(&self.execution),
            text(&self.error),
            Cell::Small(i16::from(held.0)),
            Cell::Big(Some(checksum)),
        ]
    }

    fn read(project: Id, node: Id, columns: &Columns<'_>) -> Option<AgentRun> {
        Some(AgentRun {
            project_id: project,
            node_run_id: node,
            agent_id: columns.id(2)?,
            status: columns.status(3)?,
            prompt: None,
            execution_principal: columns.principal(8)?,
            model_id: columns.text(10)?,
            finish_reason: columns.text(11)?,
            usage: None,
            trace: None,
            diagnostics: None,
            error: columns.text(15)?,
            attempt: columns.number(4)?,
            execution: columns.execution(12)?,
            created_at: columns.time(5)??,
            started_at: columns.time(6)?,
            completed_at: columns.time(7)?,
        })
    }
}

fn id(id: &Id) -> Cell<'_> {
    Cell::Text(Some(id))
}

fn text(text: &Option<Text>) -> Cell<'_> {
    Cell::Bytes(text.as_ref().map(|text| text.as_bytes()))
}

fn time<'a>(time: Option<Time>) -> Cell<'a> {
    Cell::Big(time.map(Time::unix_us))
}

fn token(execution: &Option<Execution>) -> Cell<'_> {
    Cell::Text(execution.as_ref().map(|execution| &*execution.token))
}

fn lease<'a>(execution: &Option<Execution>) -> Cell<'a> {
    Cell::Big(execution.as_ref().map(|execution| execution.lease_expires_at.unix_us()))
}

fn bucket<'a>(execution: &Option<Execution>) -> Cell<'a> {
    Cell::Big(execution.as_ref().map(|execution| lease_bucket(execution.lease_expires_at)))
}

/// Reads the columns of a row. Each method answers `None` for what no record has; those of optional columns have absence
/// inside.
pub(crate) struct Columns<'r>(pub(crate) &'r Row);

impl<'r> Columns<'r> {
    pub(crate) fn get<T: FromSql<'r>>(&self, place: usize) -> Option<T> {
        self.0.try_get(place).ok()
    }

    pub(crate) fn id(&self, place: usize) -> Option<Id> {
        self.get::<&str>(place).map(Id::from)
    }

    fn status(&self, place: usize) -> Option<Status> {
        Status::from_number(u8::try_from(self.get::<i16>(place)?).ok()?)
    }

    fn number(&self, place: usize) -> Option<u32> {
        u32::try_from(self.get::<i64>(place)?).ok()
    }

    fn time(&self, place: usize) -> Option<Option<Time>> {
        match self.get::<Option<i64>>(place)? {
            None => Some(None),
            Some(us) => Time::from_unix_us(us).map(Some),
        }
    }

    fn text(&self, place: usize) -> Option<Option<Text>> {
        match self.get::<Option<&[u8]>>(place)? {
            None => Some(None),
            Some(bytes) => std::str::from_utf8(bytes).ok().map(|text| Some(Text::from(text))),
        }
    }

    fn principal(&self, place: usize) -> Option<Option<Principal>> {
        match (self.get::<Option<&str>>(place)?, self.get::<Option<&str>>(place + 1)?) {
            (Some(kind), Some(id)) => Some(Some(Principal::new(kind, id))),
            (None, None) => Some(None),
            _ => None,
        }
    }

    fn execution(&self, place: usize) -> Option<Option<Execution>> {
        match (self.get::<Option<&str>>(place)?, self.time(place + 1)?) {
            (Some(token), Some(lease_expires_at)) => Some(Some(Execution::new(token, lease_expires_at))),
            (None, None) => Some(None),
            _ => None,
        }
    }
}

/// Reads a record whose columns were selected in order, and the checksum that its row has, which is not compared yet.
pub(crate) fn read_unchecked<R: Kept>(row: &Row) -> Outcome<(Stored<R>, i64)> {
    let columns = Columns(row);
    let key = columns.id(0).zip(columns.id(1));
    let (project, id) = key.ok_or_else(|| Error::corrupt(format!("the key of a {} can't be read", R::ENTITY.as_str())))?;
    let unreadable = || damaged(R::ENTITY, &project, &id, "its state can't be read");
    let last = R::COLUMNS.len() - 1;
    let held = columns.get::<i16>(last - 1).and_then(|held| u8::try_from(held).ok()).map(Held).ok_or_else(unreadable)?;
    let checksum = columns.get(last).ok_or_else(unreadable)?;
    let record = R::read(project.clone(), id.clone(), &columns).ok_or_else(unreadable)?;
    Ok((Stored { record, held, handle: 0 }, checksum))
}

/// Reads the state of a record, and holds it against its checksum.
pub(crate) fn read_state<R: Kept>(row: &Row) -> Outcome<Stored<R>> {
    let (stored, checksum) = read_unchecked::<R>(row)?;
    if codec::state_checksum(&stored.record, stored.held) as i64 != checksum {
        let (project, id) = (stored.record.project_id(), stored.record.key_id());
        return Err(damaged(R::ENTITY, project, id, "its state does not match its checksum").into());
    }
    Ok(stored)
}

/// A stored large value, and what can be wrong with it.
#[derive(Clone, Debug)]
pub(crate) struct Large {
    pub(crate) slot: usize,
    pub(crate) value: Arc<str>,
    pub(crate) is_sound: bool,
}

/// Reads a large value from its slot, checksum, text and bytes.
fn large(entity: Entity, project: &Id, id: &Id, slot: i16, checksum: i64, json: Option<&str>, prompt: Option<&[u8]>) -> Option<Large> {
    let slot = usize::try_from(slot).ok().filter(|slot| *slot < MAX_LARGE)?;
    let value = json.or_else(|| prompt.and_then(|bytes| std::str::from_utf8(bytes).ok()))?;
    let is_sound = codec::large_checksum(entity, project, id, slot, value) as i64 == checksum;
    Some(Large { slot, value: value.into(), is_sound })
}

/// The large values of a record from the columns of [`VALUES`]; `None` when they can't be read.
pub(crate) fn read_values<R: Kept>(row: &Row, record: &R) -> Option<Vec<Large>> {
    let (columns, first) = (Columns(row), R::COLUMNS.len());
    let Some(slots) = columns.get::<Option<Vec<i16>>>(first)? else { return Some(Vec::new()) };
    let checksums = columns.get::<Vec<i64>>(first + 1)?;
    let jsons = columns.get::<Vec<Option<&str>>>(first + 2)?;
    let prompts = columns.get::<Vec<Option<&[u8]>>>(first + 3)?;
    let rows = slots.into_iter().zip(checksums).zip(jsons).zip(prompts);
    rows.map(|(((slot, checksum), json), prompt)| large(R::ENTITY, record.project_id(), record.key_id(), slot, checksum, json, prompt))
        .collect()
}

/// One row of the table of large values: project, kind, id, slot, checksum, json, prompt.
pub(crate) fn read_value_row(row: &Row) -> Outcome<(Entity, Id, Id, Large)> {
    let columns = Columns(row);
    let read = || {
        let entity = match columns.get::<i16>(1)? {
            0 => Entity::Run,
            1 => Entity::Node,
            2 => Entity::Agent,
            _ => return None,
        };
        let (project, id) = (columns.id(0)?, columns.id(2)?);
        let (json, prompt) = (columns.get::<Option<&str>>(5)?, columns.get::<Option<&[u8]>>(6)?);
        let large = large(entity, &project, &id, columns.get(3)?, columns.get(4)?, json, prompt)?;
        Some((entity, project, id, large))
    };
    read().ok_or_else(|| Error::corrupt("a large value can't be read").into())
}

/// Why a record can't be answered whole.
pub(crate) fn value_fault<R: Record>(record: &R, slot: usize, what: &str) -> Error {
    damaged(R::ENTITY, record.project_id(), record.key_id(), &format!("its {} {what}", R::LARGE.get(slot).unwrap_or(&"value")))
}

/// Puts the large values that a record holds into it.
pub(crate) fn fill<R: Record>(stored: &mut Stored<R>, values: impl IntoIterator<Item = Large>) -> Outcome<()> {
    for large in values {
        if !large.is_sound {
            return Err(value_fault(&stored.record, large.slot, "does not match its checksum").into());
        }
        if stored.held.contains(large.slot) {
            stored.record.set_large(large.slot, large.value);
        }
    }
    match stored.held.slots().find(|slot| stored.record.large(*slot).is_none()) {
        Some(slot) => Err(value_fault(&stored.record, slot, "is missing").into()),
        None => Ok(()),
    }
}

/// Reads a record that was selected with [`VALUES`] if its form is whole.
pub(crate) fn read_record<R: Kept>(row: &Row, form: AnswerForm) -> Outcome<Stored<R>> {
    let mut stored = read_state::<R>(row)?;
    if form == AnswerForm::Record {
        let values = read_values::<R>(row, &stored.record);
        let unreadable = || damaged(R::ENTITY, stored.record.project_id(), stored.record.key_id(), "its large values can't be read");
        let values = values.ok_or_else(unreadable)?;
        fill(&mut stored, values)?;
    }
    Ok(stored)
}

/// What is selected for a record in a form, and what is joined for it.
pub(crate) fn selection<R: Kept>(form: AnswerForm) -> (String, String) {
    match form {
        AnswerForm::Record => (R::selected() + VALUES, values_of::<R>()),
        AnswerForm::State => (R::selected(), String::new()),
    }
}

/// The statements that store records of a kind, all at once.
struct Texts {
    insert: String,
    update: String,
}

fn texts<R: Kept>() -> Texts {
    let names: Vec<&str> = R::COLUMNS.iter().map(|(name, _)| *name).collect();
    let arrays: Vec<String> = R::COLUMNS.iter().enumerate().map(|(n, (_, kind))| format!("${}::{}", n + 1, kind.array())).collect();
    let (names_list, arrays) = (names.join(", "), arrays.join(", "));
    let set: Vec<String> = names[2..].iter().map(|name| format!("{name} = u.{name}")).collect();
    Texts {
        insert: format!("INSERT INTO @.{} ({names_list}) SELECT * FROM unnest({arrays})", R::TABLE),
        update: format!(
            "UPDATE @.{} t SET {} FROM unnest({arrays}) AS u({names_list}) WHERE t.project = u.project AND t.id = u.id",
            R::TABLE,
            set.join(", ")
        ),
    }
}

static RUN_TEXTS: LazyLock<Texts> = LazyLock::new(texts::<Run>);
static NODE_TEXTS: LazyLock<Texts> = LazyLock::new(texts::<NodeRun>);
static AGENT_TEXTS: LazyLock<Texts> = LazyLock::new(texts::<AgentRun>);

fn texts_of<R: Kept>() -> &'static Texts {
    match R::ENTITY {
        Entity::Node => &NODE_TEXTS,
        Entity::Agent => &AGENT_TEXTS,
        _ => &RUN_TEXTS,
    }
}

/// Inserts records that are not in the table.
pub(crate) fn insert<'a, R: Kept>(records: &[&'a Stored<R>]) -> Statement<'a> {
    with_columns(Statement::new(texts_of::<R>().insert.as_str()), records)
}

/// Updates records that are in the table. What did not change is written with its old value, which writes no index.
pub(crate) fn update<'a, R: Kept>(records: &[&'a Stored<R>]) -> Statement<'a> {
    with_columns(Statement::new(texts_of::<R>().update.as_str()), records)
}

fn with_columns<'a, R: Kept>(statement: Statement<'a>, records: &[&'a Stored<R>]) -> Statement<'a> {
    let rows: Vec<Vec<Cell<'a>>> =
        records.iter().map(|stored| stored.record.cells(stored.held, codec::state_checksum(&stored.record, stored.held) as i64)).collect();
    let columns = R::COLUMNS.iter().enumerate();
    columns.fold(statement, |statement, (n, (_, kind))| {
        let cells = rows.iter().map(|row| row[n]);
        match kind {
            Kind::Text => statement.optional_texts(cells.map(|cell| if let Cell::Text(text) = cell { text } else { None }).collect()),
            Kind::Small => statement.smalls(cells.map(|cell| if let Cell::Small(number) = cell { Some(number) } else { None }).collect()),
            Kind::Big => statement.bigs(cells.map(|cell| if let Cell::Big(number) = cell { number } else { None }).collect()),
            Kind::Bytes => statement.bytes(cells.map(|cell| if let Cell::Bytes(bytes) = cell { bytes } else { None }).collect()),
        }
    })
}
