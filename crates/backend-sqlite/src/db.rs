//! What one transaction works with: its statements, and the names behind the numbers.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ops::{Deref, DerefMut};
use std::sync::LazyLock;

use runledger_core::{Error, Id, Status, StatusCounts, StatusSet};
use rusqlite::{Connection, OptionalExtension, PrepFlags, Row, Statement, params};

use crate::error::Outcome;
use crate::session::Statements;

/// One transaction on one connection. Everything it remembers of the store holds only as long as the transaction.
pub(crate) struct Db<'c> {
    pub(crate) conn: &'c Connection,
    statements: RefCell<Statements<'c>>,
    names: RefCell<Names>,
}

#[derive(Default)]
struct Names {
    /// The first ones, which are all that most transactions meet: to look through them is quicker than to hash.
    few: Vec<(Kind, i64, i64, Id)>,
    keys: HashMap<(Kind, i64, Id), i64>,
    ids: HashMap<(Kind, i64), Id>,
    runs: HashMap<i64, RunName>,
    /// The run that was last loaded by its id: its project, id, number and workflow.
    last_run: Option<(i64, Id, i64, i64)>,
}

/// How many names are looked through.
const FEW_NAMES: usize = 16;

impl Names {
    fn key(&self, name: &(Kind, i64, &Id)) -> Option<i64> {
        let few = self.few.iter().find(|(kind, project, _, id)| (*kind, *project, id) == *name);
        match few {
            Some((_, _, key, _)) => Some(*key),
            None if self.keys.is_empty() => None,
            None => self.keys.get(&(name.0, name.1, name.2.clone())).copied(),
        }
    }

    fn id(&self, kind: Kind, key: i64) -> Option<&Id> {
        let few = self.few.iter().find(|(of, _, own, _)| (*of, *own) == (kind, key));
        match few {
            Some((.., id)) => Some(id),
            None if self.ids.is_empty() => None,
            None => self.ids.get(&(kind, key)),
        }
    }
}

/// A run as its node runs refer to it.
#[derive(Clone, Debug)]
pub(crate) struct RunName {
    pub(crate) id: Id,
    pub(crate) workflow: i64,
}

/// How many names are remembered at most, so that an export stays in bounded memory.
const MAX_REMEMBERED: usize = 10_000;

/// What has a table of names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    Project,
    Workflow,
    Agent,
}

/// The statements that a table of names needs. Projects have no project above them: theirs is 0.
struct NameSql {
    key: &'static str,
    insert: &'static str,
    id: &'static str,
    all: &'static str,
    one: &'static str,
    remove_unused: &'static str,
}

macro_rules! counts {
    () => {
        "queued, running, waiting, succeeded, failed, cancelled"
    };
}

macro_rules! scoped_name_sql {
    ($table:literal) => {
        NameSql {
            key: concat!("SELECT key FROM ", $table, " WHERE project = ?1 AND id = ?2"),
            insert: concat!("INSERT INTO ", $table, " (project, id) VALUES (?1, ?2)"),
            id: concat!("SELECT id FROM ", $table, " WHERE key = ?1"),
            all: concat!("SELECT key, id, ", counts!(), " FROM ", $table, " WHERE project = ?1 ORDER BY id"),
            one: concat!("SELECT key, id, ", counts!(), " FROM ", $table, " WHERE project = ?1 AND id = ?2"),
            remove_unused: concat!(
                "DELETE FROM ",
                $table,
                " WHERE key = ?1 AND queued + running + waiting + succeeded + failed + cancelled = 0"
            ),
        }
    };
}

static PROJECT: NameSql = NameSql {
    key: "SELECT key FROM project WHERE id = ?2 AND ?1 = 0",
    insert: "INSERT INTO project (id) SELECT ?2 WHERE ?1 = 0",
    id: "SELECT id FROM project WHERE key = ?1",
    all: concat!("SELECT key, id, ", counts!(), " FROM project WHERE ?1 = 0 ORDER BY id"),
    one: concat!("SELECT key, id, ", counts!(), " FROM project WHERE id = ?2 AND ?1 = 0"),
    remove_unused: "DELETE FROM project WHERE key = ?1 AND queued + running + waiting + succeeded + failed + cancelled = 0",
};
static WORKFLOW: NameSql = scoped_name_sql!("workflow");
static AGENT: NameSql = scoped_name_sql!("agent");

impl Kind {
    fn sql(self) -> &'static NameSql {
        match self {
            Kind::Project => &PROJECT,
            Kind::Workflow => &WORKFLOW,
            Kind::Agent => &AGENT,
        }
    }
}

/// A name with what it counts.
#[derive(Clone, Debug)]
pub(crate) struct Counted {
    pub(crate) key: i64,
    pub(crate) id: Id,
    pub(crate) counts: StatusCounts,
}

impl Counted {
    fn read(row: &Row<'_>) -> rusqlite::Result<Counted> {
        Ok(Counted { key: row.get(0)?, id: Id::from(row.get_ref(1)?.as_str()?), counts: read_counts(row, 2)? })
    }
}

/// Six counters, from a column on. One below zero can't be right, and counts as none until verify names it.
pub(crate) fn read_counts(row: &Row<'_>, first: usize) -> rusqlite::Result<StatusCounts> {
    let mut counts = StatusCounts::default();
    for (place, count) in counts.0.iter_mut().enumerate() {
        *count = u64::try_from(row.get::<_, i64>(first + place)?).unwrap_or(0);
    }
    Ok(counts)
}

/// The sum of some of the counters.
pub(crate) fn sum(counts: &StatusCounts, statuses: StatusSet) -> u64 {
    statuses.iter().map(|status| counts.of(status)).sum()
}

/// Past this many names it is cheaper to walk through all that there are than to look each up.
const MANY_NAMES: usize = 256;

impl<'c> Db<'c> {
    pub(crate) fn new(conn: &'c Connection, statements: Statements<'c>) -> Db<'c> {
        Db { conn, statements: RefCell::new(statements), names: RefCell::default() }
    }

    pub(crate) fn into_statements(self) -> Statements<'c> {
        self.statements.into_inner()
    }

    #[cfg(test)]
    pub(crate) fn held(&self) -> std::cell::Ref<'_, Statements<'c>> {
        self.statements.borrow()
    }

    /// A statement, prepared once on the connection.
    pub(crate) fn statement(&self, sql: &'static str) -> Outcome<Lent<'_, 'c>> {
        let held = {
            let mut statements = self.statements.borrow_mut();
            // Texts at one place are one text. One that the compiler has put in two places is prepared twice, that is all.
            let place = statements.iter().rposition(|(held, _)| std::ptr::eq(*held, sql));
            place.map(|place| statements.swap_remove(place).1)
        };
        let statement = match held {
            Some(statement) => statement,
            None => self.conn.prepare_with_flags(sql, PrepFlags::SQLITE_PREPARE_PERSISTENT)?,
        };
        Ok(Lent { db: self, sql, statement: Some(statement) })
    }

    /// Runs a statement without parameters.
    pub(crate) fn run(&self, sql: &'static str) -> Outcome<()> {
        self.statement(sql)?.raw_execute()?;
        Ok(())
    }

    /// Runs a statement that changes rows, and says how many it changed.
    pub(crate) fn execute(&self, sql: &'static str, params: impl rusqlite::Params) -> Outcome<usize> {
        Ok(self.statement(sql)?.execute(params)?)
    }

    /// Runs a statement that answers one row or none.
    pub(crate) fn query_one<T>(
        &self,
        sql: &'static str,
        params: impl rusqlite::Params,
        read: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Outcome<Option<T>> {
        Ok(self.statement(sql)?.query_row(params, read).optional()?)
    }

    /// The number of a name, if it has one.
    pub(crate) fn key(&self, kind: Kind, project: i64, id: &Id) -> Outcome<Option<i64>> {
        if let Some(key) = self.names.borrow().key(&(kind, project, id)) {
            return Ok(Some(key));
        }
        let found = self.query_one(kind.sql().key, params![project, &**id], |row| row.get(0))?;
        if let Some(key) = found {
            self.remember((kind, project, id.clone()), key);
        }
        Ok(found)
    }

    /// The number of a project, if it has one.
    pub(crate) fn project(&self, id: &Id) -> Outcome<Option<i64>> {
        self.key(Kind::Project, 0, id)
    }

    /// The number of a name, which is given one now if it has none.
    pub(crate) fn intern(&self, kind: Kind, project: i64, id: &Id) -> Outcome<i64> {
        if let Some(key) = self.key(kind, project, id)? {
            return Ok(key);
        }
        self.execute(kind.sql().insert, params![project, &**id])?;
        let key = self.conn.last_insert_rowid();
        self.remember((kind, project, id.clone()), key);
        Ok(key)
    }

    fn remember(&self, name: (Kind, i64, Id), key: i64) {
        let mut names = self.names.borrow_mut();
        if names.few.len() < FEW_NAMES {
            names.few.push((name.0, name.1, key, name.2));
            return;
        }
        if names.keys.len() >= MAX_REMEMBERED {
            names.keys.clear();
            names.ids.clear();
        }
        names.ids.insert((name.0, key), name.2.clone());
        names.keys.insert(name, key);
    }

    /// The name behind a number, in a project (0 for a project itself).
    pub(crate) fn name(&self, kind: Kind, project: i64, key: i64) -> Outcome<Id> {
        if let Some(id) = self.names.borrow().id(kind, key) {
            return Ok(id.clone());
        }
        let found = self.query_one(kind.sql().id, [key], |row| Ok(Id::from(row.get_ref(0)?.as_str()?)))?;
        let id =
            found.ok_or_else(|| Error::corrupt(format!("the {kind:?} that a record names by number {key} is missing").to_lowercase()))?;
        self.remember((kind, project, id.clone()), key);
        Ok(id)
    }

    /// Takes note of a name that a row has brought along.
    pub(crate) fn note(&self, kind: Kind, project: i64, key: i64, id: Id) {
        if self.names.borrow().id(kind, key).is_none() {
            self.remember((kind, project, id), key);
        }
    }

    /// Takes note of a run that was loaded by its id.
    pub(crate) fn note_run(&self, project: i64, id: Id, key: i64, workflow: i64) {
        self.names.borrow_mut().last_run = Some((project, id, key, workflow));
    }

    /// The number of a run and that of its workflow, if there is such a run.
    pub(crate) fn run_key(&self, project: i64, id: &Id) -> Outcome<Option<(i64, i64)>> {
        if let Some((of, last, key, workflow)) = &self.names.borrow().last_run
            && (*of, last) == (project, id)
        {
            return Ok(Some((*key, *workflow)));
        }
        let sql = "SELECT key, workflow FROM run INDEXED BY run_by_id WHERE project = ?1 AND id = ?2";
        self.query_one(sql, params![project, &**id], |row| Ok((row.get(0)?, row.get(1)?)))
    }

    /// Takes note of the run behind a number.
    pub(crate) fn note_run_name(&self, key: i64, run: RunName) {
        self.names.borrow_mut().runs.insert(key, run);
    }

    /// The run behind a number.
    pub(crate) fn run_name(&self, key: i64) -> Outcome<RunName> {
        if let Some(run) = self.names.borrow().runs.get(&key) {
            return Ok(run.clone());
        }
        let found = self.query_one("SELECT id, workflow FROM run WHERE key = ?1", [key], |row| {
            Ok(RunName { id: Id::from(row.get_ref(0)?.as_str()?), workflow: row.get(1)? })
        })?;
        let run = found.ok_or_else(|| Error::corrupt(format!("the run that a node run names by number {key} is missing")))?;
        let mut names = self.names.borrow_mut();
        if names.runs.len() >= MAX_REMEMBERED {
            names.runs.clear();
        }
        names.runs.insert(key, run.clone());
        Ok(run)
    }

    /// Forgets the names, because some may have gone.
    pub(crate) fn forget_names(&self) {
        *self.names.borrow_mut() = Names::default();
    }

    /// All names of a project, in byte order; with project 0, all projects.
    pub(crate) fn all_counted(&self, kind: Kind, project: i64) -> Outcome<Vec<Counted>> {
        let mut statement = self.statement(kind.sql().all)?;
        let rows = statement.query_map([project], Counted::read)?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }

    pub(crate) fn counted(&self, kind: Kind, project: i64, id: &Id) -> Outcome<Option<Counted>> {
        self.query_one(kind.sql().one, params![project, &**id], Counted::read)
    }

    /// Those of some names that exist, in the order given. There may be many more names than exist.
    pub(crate) fn some_counted(&self, kind: Kind, project: i64, ids: &[Id]) -> Outcome<Vec<Counted>> {
        if ids.len() <= MANY_NAMES {
            let mut found = Vec::with_capacity(ids.len());
            for id in ids {
                found.extend(self.counted(kind, project, id)?);
            }
            return Ok(found);
        }
        let places: HashMap<&str, usize> = ids.iter().enumerate().map(|(place, id)| (&**id, place)).collect();
        let mut found = Vec::new();
        let mut statement = self.statement(kind.sql().all)?;
        let mut rows = statement.query([project])?;
        while let Some(row) = rows.next()? {
            if let Some(place) = places.get(row.get_ref(1)?.as_str().map_err(rusqlite::Error::from)?) {
                found.push((*place, Counted::read(row)?));
            }
        }
        found.sort_unstable_by_key(|(place, _)| *place);
        Ok(found.into_iter().map(|(_, counted)| counted).collect())
    }

    /// Counts a record that has come, changed its status, or gone.
    pub(crate) fn count(&self, counters: Counters, key: i64, before: Option<Status>, after: Option<Status>) -> Outcome<()> {
        if before == after {
            return Ok(());
        }
        let changed = self.execute(counters.sql(before, after), [key])?;
        if changed == 1 { Ok(()) } else { Err(Error::corrupt("the counters of a record are missing").into()) }
    }

    /// Removes a name that counts nothing any more.
    pub(crate) fn remove_unused(&self, kind: Kind, key: i64) -> Outcome<()> {
        if self.execute(kind.sql().remove_unused, [key])? > 0 {
            self.forget_names();
        }
        Ok(())
    }
}

/// The rows of counters.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Counters {
    ProjectRuns,
    ProjectAgents,
    Workflow,
    Agent,
}

/// One statement for each kind of counter and each change, since a column that stays as it is costs as much as one that
/// does not: by the status before and the one after, 6 standing for none.
static COUNT_SQL: LazyLock<[[[String; 7]; 7]; 4]> = LazyLock::new(|| {
    let tables = [("project", ""), ("project", "agents_"), ("workflow", ""), ("agent", "")];
    let sql = |(table, prefix): (&str, &str), before: usize, after: usize| {
        let step = |status: usize, sign: &str| {
            let column = Status::ALL.get(status).map(|status| format!("{prefix}{status}"));
            column.map(|column| format!("{column} = {column} {sign} 1"))
        };
        let changes: Vec<String> = [step(before, "-"), step(after, "+")].into_iter().flatten().collect();
        format!("UPDATE {table} SET {} WHERE key = ?1", changes.join(", "))
    };
    tables.map(|table| std::array::from_fn(|before| std::array::from_fn(|after| sql(table, before, after))))
});

impl Counters {
    fn sql(self, before: Option<Status>, after: Option<Status>) -> &'static str {
        let place = |status: Option<Status>| status.map_or(6, |status| status as usize);
        &COUNT_SQL[self as usize][place(before)][place(after)]
    }
}

/// A statement that goes back to its transaction when this is dropped.
pub(crate) struct Lent<'a, 'c> {
    db: &'a Db<'c>,
    sql: &'static str,
    statement: Option<Statement<'c>>,
}

impl<'c> Deref for Lent<'_, 'c> {
    type Target = Statement<'c>;
    fn deref(&self) -> &Self::Target {
        self.statement.as_ref().expect("there until it is dropped")
    }
}

impl DerefMut for Lent<'_, '_> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        self.statement.as_mut().expect("there until it is dropped")
    }
}

impl Drop for Lent<'_, '_> {
    fn drop(&mut self) {
        if let Some(statement) = self.statement.take() {
            self.db.statements.borrow_mut().push((self.sql, statement));
        }
    }
}
