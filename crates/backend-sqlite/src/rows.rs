//! Records as rows, and back.

use std::sync::Arc;

use runledger_core::codec::{self, StateCodec, damaged};
use runledger_core::planted::{Defect, is_planted};
use runledger_core::{
    AgentRun, AnswerForm, Error, Execution, Held, Id, MAX_LARGE, NodeRun, Principal, Record, Run, Status, Stored, Text, Time,
};
use rusqlite::Row;
use rusqlite::types::{FromSql, ValueRef};

use crate::db::{Db, Kind, RunName};
use crate::error::Outcome;

/// The columns of a run, in the order in which they are read; of a table by another name where one is given, with its dot.
macro_rules! run_columns {
    () => {
        run_columns!("")
    };
    ($of:literal) => {
        concat!(
            $of,
            "key, ",
            $of,
            "project, ",
            $of,
            "id, ",
            $of,
            "workflow, ",
            $of,
            "status, ",
            $of,
            "attempt, ",
            $of,
            "queued_at, ",
            $of,
            "started_at, ",
            $of,
            "waiting_since, ",
            $of,
            "finished_at, ",
            $of,
            "principal_type, ",
            $of,
            "principal_id, ",
            $of,
            "token, ",
            $of,
            "lease_ends_at, ",
            $of,
            "error, ",
            $of,
            "checksum, ",
            $of,
            "input, ",
            $of,
            "output, ",
            $of,
            "source"
        )
    };
}

/// The columns of a node run, likewise.
macro_rules! node_columns {
    () => {
        node_columns!("")
    };
    ($of:literal) => {
        concat!(
            $of,
            "run, ",
            $of,
            "project, ",
            $of,
            "id, ",
            $of,
            "workflow, ",
            $of,
            "started_at, ",
            $of,
            "node_index, ",
            $of,
            "node_type, ",
            $of,
            "node_id, ",
            $of,
            "node_key, ",
            $of,
            "status, ",
            $of,
            "waiting_since, ",
            $of,
            "finished_at, ",
            $of,
            "error, ",
            $of,
            "checksum, ",
            $of,
            "input, ",
            $of,
            "output"
        )
    };
}

/// The columns of an agent run, in the order in which they are read.
macro_rules! agent_columns {
    () => {
        agent_columns!("")
    };
    ($of:literal) => {
        concat!(
            $of,
            "key, ",
            $of,
            "project, ",
            $of,
            "id, ",
            $of,
            "agent, ",
            $of,
            "status, ",
            $of,
            "attempt, ",
            $of,
            "created_at, ",
            $of,
            "started_at, ",
            $of,
            "completed_at, ",
            $of,
            "principal_type, ",
            $of,
            "principal_id, ",
            $of,
            "model_id, ",
            $of,
            "finish_reason, ",
            $of,
            "token, ",
            $of,
            "lease_ends_at, ",
            $of,
            "error, ",
            $of,
            "checksum, ",
            $of,
            "prompt, ",
            $of,
            "usage, ",
            $of,
            "trace, ",
            $of,
            "diagnostics"
        )
    };
}
pub(crate) use {agent_columns, node_columns, run_columns};

/// The columns of a record in a row, which may have other columns before and after them.
pub(crate) struct Columns<'r, 's> {
    row: &'r Row<'s>,
    first: usize,
}

impl<'r, 's> Columns<'r, 's> {
    pub(crate) fn of(row: &'r Row<'s>) -> Self {
        Columns { row, first: 0 }
    }

    /// What comes after a record's `count` columns.
    pub(crate) fn after(&self, count: usize) -> Self {
        Columns { row: self.row, first: self.first + count }
    }

    pub(crate) fn get<T: FromSql>(&self, column: usize) -> rusqlite::Result<T> {
        self.row.get(self.first + column)
    }

    fn get_ref(&self, column: usize) -> rusqlite::Result<ValueRef<'_>> {
        self.row.get_ref(self.first + column)
    }
}

/// A record as its row has it, its state checked, its large values not read yet.
#[derive(Debug)]
pub(crate) struct Loaded<R> {
    pub(crate) stored: Stored<R>,
    /// The rows of its large values.
    pub(crate) values: [Option<i64>; MAX_LARGE],
}

impl<R: StateCodec> Loaded<R> {
    /// The record in the form that is asked for.
    pub(crate) fn finish(self, db: &Db<'_>, form: AnswerForm) -> Outcome<Stored<R>> {
        self.finish_with(form, |record, slot, key| read_large_value(db, record, slot, key))
    }

    /// The same, with its large values from these columns: a checksum and a value for each that it may have.
    pub(crate) fn finish_from(self, values: &Columns<'_, '_>, form: AnswerForm) -> Outcome<Stored<R>> {
        self.finish_with(form, |record, slot, _| checked_value(&values.after(2 * slot), record, slot))
    }

    fn finish_with(mut self, form: AnswerForm, read: impl Fn(&R, usize, i64) -> Outcome<Checked>) -> Outcome<Stored<R>> {
        if form == AnswerForm::State {
            return Ok(self.stored);
        }
        for (slot, key) in self.values.iter().enumerate() {
            if let Some(key) = key {
                let record = &mut self.stored.record;
                match read(record, slot, *key)? {
                    Ok(value) => record.set_large(slot, value),
                    Err(fault) => {
                        let what = format!("its {} {}", R::LARGE.get(slot).unwrap_or(&"value"), fault.words());
                        return Err(damaged(R::ENTITY, record.project_id(), record.key_id(), &what).into());
                    }
                }
            }
        }
        Ok(self.stored)
    }
}

/// What can be wrong with a stored large value.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ValueFault {
    Missing,
    Unreadable,
    Altered,
}

impl ValueFault {
    pub(crate) fn words(self) -> &'static str {
        match self {
            ValueFault::Missing => "is missing",
            ValueFault::Unreadable => "can't be read",
            ValueFault::Altered => "does not match its checksum",
        }
    }

    /// The kind of problem that it is to verify.
    pub(crate) fn kind(self) -> &'static str {
        match self {
            ValueFault::Missing => "reference",
            ValueFault::Unreadable => "record",
            ValueFault::Altered => "checksum",
        }
    }
}

/// A large value, or what is wrong with it.
pub(crate) type Checked = std::result::Result<Arc<str>, ValueFault>;

/// Reads a large value, and holds it against its checksum.
pub(crate) fn read_large_value<R: StateCodec>(db: &Db<'_>, record: &R, slot: usize, key: i64) -> Outcome<Checked> {
    let mut statement = db.statement("SELECT checksum, value FROM large_value WHERE key = ?1")?;
    let mut rows = statement.query([key])?;
    match rows.next()? {
        Some(row) => checked_value(&Columns::of(row), record, slot),
        None => Ok(Err(ValueFault::Missing)),
    }
}

/// A large value from the columns of its checksum and itself.
fn checked_value<R: StateCodec>(row: &Columns<'_, '_>, record: &R, slot: usize) -> Outcome<Checked> {
    let Some(checksum) = row.get::<Option<i64>>(0)? else { return Ok(Err(ValueFault::Missing)) };
    let value = row.get_ref(1)?.as_blob().ok().and_then(|bytes| std::str::from_utf8(bytes).ok());
    let Some(value) = value else { return Ok(Err(ValueFault::Unreadable)) };
    let matches = codec::large_checksum(R::ENTITY, record.project_id(), record.key_id(), slot, value) as i64 == checksum;
    if !matches && !is_planted(Defect::ChecksumsAreNotCompared) {
        return Ok(Err(ValueFault::Altered));
    }
    Ok(Ok(value.into()))
}

/// A kind of record, for code that reads any of them.
pub(crate) trait FromRow: StateCodec {
    /// How many columns it has.
    const COLUMNS: usize;

    /// Reads a record whose columns were selected in order.
    fn from_row(db: &Db<'_>, row: &Columns<'_, '_>) -> Outcome<Loaded<Self>> {
        let (loaded, checksum) = Self::from_row_unchecked(db, row)?;
        let Stored { record, held, .. } = &loaded.stored;
        if codec::state_checksum(record, *held) as i64 != checksum && !is_planted(Defect::ChecksumsAreNotCompared) {
            return Err(damaged(Self::ENTITY, record.project_id(), record.key_id(), "its state does not match its checksum").into());
        }
        Ok(loaded)
    }

    /// Takes note of the names that a row found by id has after its columns.
    fn note_names(_db: &Db<'_>, _row: &Columns<'_, '_>) -> Outcome<()> {
        Ok(())
    }

    /// The same without holding the state against its checksum, which is handed back.
    fn from_row_unchecked(db: &Db<'_>, row: &Columns<'_, '_>) -> Outcome<(Loaded<Self>, i64)>;
}

impl FromRow for Run {
    const COLUMNS: usize = 19;

    fn note_names(db: &Db<'_>, row: &Columns<'_, '_>) -> Outcome<()> {
        let (project, workflow) = (row.get(1)?, row.get(3)?);
        if let Some(Some(name)) = optional_id(row, Self::COLUMNS) {
            db.note(Kind::Workflow, project, workflow, name);
        }
        if let Some(Some(id)) = optional_id(row, 2) {
            db.note_run(project, id, row.get(0)?, workflow);
        }
        Ok(())
    }

    fn from_row_unchecked(db: &Db<'_>, row: &Columns<'_, '_>) -> Outcome<(Loaded<Run>, i64)> {
        let (project_id, id) = key_of(db, row, "run")?;
        let workflow_id = db.name(Kind::Workflow, row.get(1)?, row.get(3)?)?;
        let read = || {
            Some(Run {
                workflow_id,
                status: status(row, 4)?,
                input: None,
                queued_at: optional_time(row, 6)?,
                started_at: optional_time(row, 7)??,
                waiting_since: optional_time(row, 8)?,
                finished_at: optional_time(row, 9)?,
                output: None,
                error: optional_text(row, 14)?,
                source: None,
                requested_by_principal: principal(row, 10)??,
                attempt: attempt(row, 5)?,
                execution: execution(row, 12)?,
                project_id: project_id.clone(),
                id: id.clone(),
            })
        };
        let record = read().ok_or_else(|| damaged(Run::ENTITY, &project_id, &id, "its state can't be read"))?;
        loaded(row, record, 15)
    }
}

impl FromRow for NodeRun {
    const COLUMNS: usize = 16;

    fn note_names(db: &Db<'_>, row: &Columns<'_, '_>) -> Outcome<()> {
        // Those of its run, with which it shares its project and, in all but imported ledgers, its workflow.
        let run = row.after(Self::COLUMNS);
        if let (Some(Some(id)), Some(workflow)) = (optional_id(&run, 2), integer(&run, 3)) {
            db.note_run_name(row.get(0)?, RunName { id, workflow });
            Run::note_names(db, &run)?;
        }
        Ok(())
    }

    fn from_row_unchecked(db: &Db<'_>, row: &Columns<'_, '_>) -> Outcome<(Loaded<NodeRun>, i64)> {
        let (project_id, id) = key_of(db, row, "node")?;
        let run = db.run_name(row.get(0)?)?;
        let workflow_id = match optional_id(row, 3) {
            Some(None) => db.name(Kind::Workflow, row.get(1)?, run.workflow)?,
            Some(Some(own)) => own,
            None => return Err(damaged(NodeRun::ENTITY, &project_id, &id, "its state can't be read").into()),
        };
        let read = || {
            Some(NodeRun {
                workflow_run_id: run.id,
                workflow_id,
                node_index: u32::try_from(integer(row, 5)?).ok()?,
                node_type: optional_id(row, 6)??,
                node_id: optional_id(row, 7)??,
                node_key: optional_id(row, 8)??,
                status: status(row, 9)?,
                input: None,
                started_at: optional_time(row, 4)??,
                waiting_since: optional_time(row, 10)?,
                finished_at: optional_time(row, 11)?,
                output: None,
                error: optional_text(row, 12)?,
                project_id: project_id.clone(),
                id: id.clone(),
            })
        };
        let record = read().ok_or_else(|| damaged(NodeRun::ENTITY, &project_id, &id, "its state can't be read"))?;
        loaded(row, record, 13)
    }
}

impl FromRow for AgentRun {
    const COLUMNS: usize = 21;

    fn from_row_unchecked(db: &Db<'_>, row: &Columns<'_, '_>) -> Outcome<(Loaded<AgentRun>, i64)> {
        let (project_id, id) = key_of(db, row, "agent")?;
        let agent_id = db.name(Kind::Agent, row.get(1)?, row.get(3)?)?;
        let read = || {
            Some(AgentRun {
                agent_id,
                status: status(row, 4)?,
                prompt: None,
                execution_principal: principal(row, 9)?,
                model_id: optional_text(row, 11)?,
                finish_reason: optional_text(row, 12)?,
                usage: None,
                trace: None,
                diagnostics: None,
                error: optional_text(row, 15)?,
                attempt: attempt(row, 5)?,
                execution: execution(row, 13)?,
                created_at: optional_time(row, 6)??,
                started_at: optional_time(row, 7)?,
                completed_at: optional_time(row, 8)?,
                project_id: project_id.clone(),
                node_run_id: id.clone(),
            })
        };
        let record = read().ok_or_else(|| damaged(AgentRun::ENTITY, &project_id, &id, "its state can't be read"))?;
        loaded(row, record, 16)
    }
}

/// Puts a record together with the columns that all kinds have: the checksum, and after it the large values.
fn loaded<R: StateCodec>(row: &Columns<'_, '_>, record: R, checksum: usize) -> Outcome<(Loaded<R>, i64)> {
    let mut values = [None; MAX_LARGE];
    let mut held = Held::default();
    for (slot, value) in values.iter_mut().enumerate().take(R::LARGE.len()) {
        *value = row.get(checksum + 1 + slot)?;
        if value.is_some() {
            held.insert(slot);
        }
    }
    // The first column is what the row is found by again; row numbers are never negative here.
    let handle = row.get::<i64>(0)? as u64;
    Ok((Loaded { stored: Stored { record, held, handle }, values }, row.get(checksum)?))
}

fn key_of(db: &Db<'_>, row: &Columns<'_, '_>, entity: &str) -> Outcome<(Id, Id)> {
    let project = db.name(Kind::Project, 0, row.get(1)?)?;
    match optional_id(row, 2) {
        Some(Some(id)) => Ok((project, id)),
        _ => Err(Error::corrupt(format!("the id of a {entity} of project '{project}' can't be read")).into()),
    }
}

// The readers of single columns answer `None` for what no record has. Those of optional ones have absence inside.

fn integer(row: &Columns<'_, '_>, column: usize) -> Option<i64> {
    row.get_ref(column).ok()?.as_i64().ok()
}

fn optional<T>(row: &Columns<'_, '_>, column: usize, read: impl FnOnce(ValueRef<'_>) -> Option<T>) -> Option<Option<T>> {
    match row.get_ref(column).ok()? {
        ValueRef::Null => Some(None),
        value => read(value).map(Some),
    }
}

fn status(row: &Columns<'_, '_>, column: usize) -> Option<Status> {
    Status::from_number(u8::try_from(integer(row, column)?).ok()?)
}

fn attempt(row: &Columns<'_, '_>, column: usize) -> Option<u32> {
    u32::try_from(integer(row, column)?).ok()
}

fn optional_time(row: &Columns<'_, '_>, column: usize) -> Option<Option<Time>> {
    optional(row, column, |value| Time::from_unix_us(value.as_i64().ok()?))
}

fn optional_id(row: &Columns<'_, '_>, column: usize) -> Option<Option<Id>> {
    optional(row, column, |value| value.as_str().ok().map(Id::from))
}

fn optional_text(row: &Columns<'_, '_>, column: usize) -> Option<Option<Text>> {
    optional(row, column, |value| std::str::from_utf8(value.as_blob().ok()?).ok().map(Text::from))
}

fn principal(row: &Columns<'_, '_>, column: usize) -> Option<Option<Principal>> {
    match (optional_id(row, column)?, optional_id(row, column + 1)?) {
        (Some(kind), Some(id)) => Some(Some(Principal { kind, id })),
        (None, None) => Some(None),
        _ => None,
    }
}

fn execution(row: &Columns<'_, '_>, column: usize) -> Option<Option<Execution>> {
    match (optional_id(row, column)?, optional_time(row, column + 1)?) {
        (Some(token), Some(lease_expires_at)) => Some(Some(Execution { token, lease_expires_at })),
        (None, None) => Some(None),
        _ => None,
    }
}
