//! SQLite by hand: the tables, indexes and settings of the backend, and held statements made for each transition.

use std::path::Path;
use std::sync::Arc;

use runledger::codec::{large_checksum, state_checksum};
use runledger::keys::lease_bucket;
use runledger::{
    AnswerForm, Command, Durability, Entity, Execution, Held, Id, NodeRun, Payload, Principal, Record, Run, StartNode, Status, Text, Time,
};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, OptionalExtension, PrepFlags, Row, Statement, params};

use super::{Floor, rules, unknown};
use crate::Result;

const SCHEMA: &str = include_str!("../../../crates/backend-sqlite/src/schema_1.sql");

/// Makes a database with the backend's tables and settings, each of which is read back.
///
/// # Errors
/// Those of the engine; or a setting was not taken.
pub fn connect(path: &Path, durability: Durability, has_lease_index: bool) -> Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let conn = Connection::open_with_flags(path, flags)?;
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    let synchronous = if durability == Durability::Full { 3 } else { 1 };
    set(&conn, "page_size", 4096)?;
    let journal: String = conn.pragma_update_and_check(None, "journal_mode", "wal", |row| row.get(0))?;
    if journal != "wal" {
        return Err(format!("the engine took {journal} for its journal").into());
    }
    for (name, value) in [
        ("synchronous", synchronous),
        ("wal_autocheckpoint", 2000),
        ("foreign_keys", 0),
        ("cell_size_check", 1),
        ("trusted_schema", 0),
        ("temp_store", 2),
        ("mmap_size", 0),
        ("cache_size", -8192),
    ] {
        set(&conn, name, value)?;
    }
    conn.execute_batch(SCHEMA)?;
    if !has_lease_index {
        conn.execute_batch("DROP INDEX run_by_lease")?;
    }
    Ok(conn)
}

fn set(conn: &Connection, name: &str, value: i64) -> Result<()> {
    conn.pragma_update(None, name, value)?;
    let taken: i64 = conn.pragma_query_value(None, name, |row| row.get(0))?;
    if taken == value { Ok(()) } else { Err(format!("the engine took {taken} for {value} as its setting {name}").into()) }
}

/// The columns of a run `r` of a workflow `w`, as [`read_run`] reads them.
pub(super) const RUN: &str = "r.key, r.project, r.workflow, w.id, r.status, r.attempt, r.queued_at, r.started_at, r.waiting_since, \
    r.finished_at, r.principal_type, r.principal_id, r.token, r.lease_ends_at, r.error, r.checksum, r.input, r.output, r.source";
pub(super) const RUN_COLUMNS: usize = 19;

/// The columns of a node run `n`, as [`read_node`] reads them.
const NODE: &str = "n.run, n.workflow, n.started_at, n.node_index, n.node_type, n.node_id, n.node_key, n.status, n.waiting_since, \
    n.finished_at, n.error, n.checksum, n.input, n.output";
const NODE_COLUMNS: usize = 14;

/// Where a run is kept.
pub(super) struct Keys {
    run: i64,
    project: i64,
    workflow: i64,
    pub(super) values: [Option<i64>; 3],
}

/// The loop.
pub struct Sqlite<'c> {
    begin: Statement<'c>,
    commit: Statement<'c>,
    project: Statement<'c>,
    add_project: Statement<'c>,
    workflow: Statement<'c>,
    add_workflow: Statement<'c>,
    is_run: Statement<'c>,
    is_node: Statement<'c>,
    run: Statement<'c>,
    node: Statement<'c>,
    value: Statement<'c>,
    add_value: Statement<'c>,
    replace_value: Statement<'c>,
    add_run: Statement<'c>,
    start: Statement<'c>,
    confirm: Statement<'c>,
    confirm_into_bucket: Statement<'c>,
    finish: Statement<'c>,
    add_node: Statement<'c>,
    finish_node: Statement<'c>,
    count: [[Statement<'c>; 3]; 2],
    conn: &'c Connection,
    /// The answer to the last command, which the caller would have.
    answered: (Option<Run>, Option<NodeRun>),
}

impl<'c> Sqlite<'c> {
    /// Prepares every statement.
    ///
    /// # Errors
    /// Those of the engine.
    pub fn new(conn: &'c Connection) -> Result<Sqlite<'c>> {
        // Statements that are kept must not take up the memory that is meant for short-lived ones.
        let held = |sql: &str| conn.prepare_with_flags(sql, PrepFlags::SQLITE_PREPARE_PERSISTENT);
        let counting = |table: &str| -> rusqlite::Result<[Statement<'c>; 3]> {
            let by = |change: &str| held(&format!("UPDATE {table} SET {change} WHERE key = ?1"));
            Ok([
                by("queued = queued + 1")?,
                by("queued = queued - 1, running = running + 1")?,
                by("running = running - 1, succeeded = succeeded + 1")?,
            ])
        };
        let by_id = "FROM project p CROSS JOIN run r INDEXED BY run_by_id CROSS JOIN workflow w \
                     WHERE p.id = ?1 AND r.project = p.key AND r.id = ?2 AND w.key = r.workflow";
        let node_by_id = "FROM project p CROSS JOIN node_run n INDEXED BY node_run_by_id CROSS JOIN run r CROSS JOIN workflow w \
                          WHERE p.id = ?1 AND n.project = p.key AND n.id = ?2 AND r.key = n.run AND w.key = r.workflow";
        Ok(Sqlite {
            begin: held("BEGIN IMMEDIATE")?,
            commit: held("COMMIT")?,
            project: held("SELECT key FROM project WHERE id = ?1")?,
            add_project: held("INSERT INTO project (id) VALUES (?1)")?,
            workflow: held("SELECT key FROM workflow WHERE project = ?1 AND id = ?2")?,
            add_workflow: held("INSERT INTO workflow (project, id) VALUES (?1, ?2)")?,
            is_run: held("SELECT 1 FROM run INDEXED BY run_by_id WHERE project = ?1 AND id = ?2")?,
            is_node: held("SELECT 1 FROM node_run INDEXED BY node_run_by_id WHERE project = ?1 AND id = ?2")?,
            run: held(&format!("SELECT {RUN} {by_id}"))?,
            node: held(&format!("SELECT {NODE}, r.id, {RUN} {node_by_id}"))?,
            value: held("SELECT checksum, value FROM large_value WHERE key = ?1")?,
            add_value: held("INSERT INTO large_value (checksum, value) VALUES (?1, ?2)")?,
            replace_value: held("UPDATE large_value SET checksum = ?2, value = ?3 WHERE key = ?1")?,
            add_run: held(
                "INSERT INTO run (project, id, workflow, status, attempt, queued_at, started_at, principal_type, principal_id, checksum, \
                 input) VALUES (?1, ?2, ?3, 0, 0, ?4, ?5, ?6, ?7, ?8, ?9)",
            )?,
            start: held(
                "UPDATE run SET status = 1, started_at = ?2, attempt = ?3, token = ?4, lease_ends_at = ?5, lease_bucket = ?6, \
                 checksum = ?7 WHERE key = ?1",
            )?,
            confirm: held("UPDATE run SET lease_ends_at = ?2, checksum = ?3 WHERE key = ?1")?,
            confirm_into_bucket: held("UPDATE run SET lease_ends_at = ?2, checksum = ?3, lease_bucket = ?4 WHERE key = ?1")?,
            finish: held(
                "UPDATE run SET status = 3, finished_at = ?2, token = NULL, lease_ends_at = NULL, lease_bucket = NULL, output = ?3, \
                 checksum = ?4 WHERE key = ?1",
            )?,
            add_node: held(
                "INSERT INTO node_run (run, started_at, node_index, id, project, node_type, node_id, node_key, status, checksum, input) \
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, 1, ?9, ?10)",
            )?,
            finish_node: held(
                "UPDATE node_run SET status = 3, finished_at = ?5, output = ?6, checksum = ?7 \
                 WHERE run = ?1 AND started_at = ?2 AND node_index = ?3 AND id = ?4",
            )?,
            count: [counting("project")?, counting("workflow")?],
            conn,
            answered: (None, None),
        })
    }

    fn load(&mut self, project: &Id, id: &Id) -> Result<(Run, Keys)> {
        let mut rows = self.run.query(params![&**project, &**id])?;
        let row = rows.next()?.ok_or("there is no such run")?;
        read_run(row, 0, project, id)
    }

    /// Reads the payloads that an answer has.
    fn read_values<R: Record>(&mut self, record: &mut R, keys: &[Option<i64>], form: AnswerForm) -> Result<()> {
        if form == AnswerForm::Record {
            for (slot, key) in keys.iter().enumerate() {
                if let Some(key) = key {
                    let mut rows = self.value.query([key])?;
                    let row = rows.next()?.ok_or("a payload is missing")?;
                    let value = checked_value(row, 0, record, slot)?;
                    record.set_large(slot, value);
                }
            }
        }
        Ok(())
    }

    fn add_value(&mut self, entity: Entity, project: &Id, id: &Id, slot: usize, payload: &Payload) -> Result<i64> {
        let value = payload.as_json();
        self.add_value.execute(params![large_checksum(entity, project, id, slot, value) as i64, value.as_bytes()])?;
        Ok(self.conn.last_insert_rowid())
    }

    fn count(&mut self, project: i64, workflow: i64, change: usize) -> Result<()> {
        self.count[0][change].execute([project])?;
        self.count[1][change].execute([workflow])?;
        Ok(())
    }

    fn name(&mut self, project: &Id, workflow: &Id) -> Result<(i64, i64)> {
        let found: Option<i64> = self.project.query_row([&**project], |row| row.get(0)).optional()?;
        let project = match found {
            Some(key) => key,
            None => {
                self.add_project.execute([&**project])?;
                self.conn.last_insert_rowid()
            }
        };
        let found: Option<i64> = self.workflow.query_row(params![project, &**workflow], |row| row.get(0)).optional()?;
        let workflow = match found {
            Some(key) => key,
            None => {
                self.add_workflow.execute(params![project, &**workflow])?;
                self.conn.last_insert_rowid()
            }
        };
        Ok((project, workflow))
    }

    fn one(&mut self, command: Command) -> Result<()> {
        let form = command.answer_form();
        match command {
            Command::QueueRun(c) => {
                let run = rules::queue(c)?;
                self.queue(run, form)
            }
            Command::StartRun(c) => {
                let (mut run, keys) = self.load(&c.project_id, &c.id)?;
                rules::start(&mut run, c)?;
                self.start(run, &keys, form)
            }
            Command::ConfirmRun(c) => {
                let (mut run, keys) = self.load(&c.project_id, &c.id)?;
                let bucket = bucket(&run);
                rules::confirm(&mut run, &c)?;
                self.confirm(&run, &keys, bucket)?;
                self.read_values(&mut run, &keys.values, form)?;
                self.answered.0 = Some(run);
                Ok(())
            }
            Command::FinishRun(c) => {
                let (mut run, keys) = self.load(&c.project_id, &c.id)?;
                rules::finish(&mut run, c)?;
                self.finish(run, &keys, form)
            }
            Command::StartNode(c) => self.start_node(c, form),
            Command::FinishNode(c) => {
                let found = {
                    let mut rows = self.node.query(params![&*c.project_id, &*c.id])?;
                    let row = rows.next()?.ok_or("there is no such node run")?;
                    read_node(row, &c.project_id, &c.id)?
                };
                let (mut node, values, run, keys) = found;
                rules::finish_node(&mut node, &run, c)?;
                self.finish_node(node, values, &keys, form)
            }
            other => Err(unknown(&other)),
        }
    }

    fn queue(&mut self, run: Run, form: AnswerForm) -> Result<()> {
        let (project, workflow) = self.name(&run.project_id, &run.workflow_id)?;
        if self.is_run.exists(params![project, &*run.id])? {
            return Err("there is such a run".into());
        }
        let input = run.input.as_ref().ok_or("a run has an input")?;
        let input = self.add_value(Entity::Run, &run.project_id, &run.id, 0, input)?;
        let principal = &run.requested_by_principal;
        self.add_run.execute(params![
            project,
            &*run.id,
            workflow,
            run.queued_at.map(Time::unix_us),
            run.started_at.unix_us(),
            &*principal.kind,
            &*principal.id,
            state_checksum(&run, run.held()) as i64,
            input,
        ])?;
        self.count(project, workflow, 0)?;
        self.answered.0 = Some(if form == AnswerForm::State { run.into_state() } else { run });
        Ok(())
    }

    fn start(&mut self, run: Run, keys: &Keys, form: AnswerForm) -> Result<()> {
        let input = run.input.as_ref().ok_or("a run has an input")?.as_json();
        let checksum = large_checksum(Entity::Run, &run.project_id, &run.id, 0, input) as i64;
        self.replace_value.execute(params![keys.values[0], checksum, input.as_bytes()])?;
        let execution = run.execution.as_ref().ok_or("every run of the workload has an owner")?;
        self.start.execute(params![
            keys.run,
            run.started_at.unix_us(),
            run.attempt,
            &*execution.token,
            execution.lease_expires_at.unix_us(),
            lease_bucket(execution.lease_expires_at),
            state_checksum(&run, run.held()) as i64,
        ])?;
        self.count(keys.project, keys.workflow, 1)?;
        self.answered.0 = Some(if form == AnswerForm::State { run.into_state() } else { run });
        Ok(())
    }

    fn confirm(&mut self, run: &Run, keys: &Keys, bucket_before: Option<i64>) -> Result<()> {
        let end = run.execution.as_ref().map(|execution| execution.lease_expires_at.unix_us());
        let checksum = state_checksum(run, held(&keys.values)) as i64;
        let bucket = bucket(run);
        if bucket == bucket_before {
            self.confirm.execute(params![keys.run, end, checksum])?;
        } else {
            self.confirm_into_bucket.execute(params![keys.run, end, checksum, bucket])?;
        }
        Ok(())
    }

    fn finish(&mut self, mut run: Run, keys: &Keys, form: AnswerForm) -> Result<()> {
        let output = match &run.output {
            Some(output) => Some(self.add_value(Entity::Run, &run.project_id, &run.id, 1, output)?),
            None => None,
        };
        let values = [keys.values[0], output, keys.values[2]];
        let checksum = state_checksum(&run, held(&values)) as i64;
        self.finish.execute(params![keys.run, run.finished_at.map(Time::unix_us), output, checksum])?;
        self.count(keys.project, keys.workflow, 2)?;
        self.read_values(&mut run, &keys.values, form)?;
        self.answered.0 = Some(run);
        Ok(())
    }

    fn start_node(&mut self, c: StartNode, form: AnswerForm) -> Result<()> {
        let (run, keys) = self.load(&c.project_id, &c.workflow_run_id)?;
        let is_taken = self.is_node.exists(params![keys.project, &*c.id])?;
        let node = rules::start_node(&run, is_taken, c)?;
        let input = node.input.as_ref().ok_or("a node run has an input")?;
        let input = self.add_value(Entity::Node, &node.project_id, &node.id, 0, input)?;
        self.add_node.execute(params![
            keys.run,
            node.started_at.unix_us(),
            node.node_index,
            &*node.id,
            keys.project,
            &*node.node_type,
            &*node.node_id,
            &*node.node_key,
            state_checksum(&node, node.held()) as i64,
            input,
        ])?;
        self.answered.1 = Some(if form == AnswerForm::State { node.into_state() } else { node });
        Ok(())
    }

    fn finish_node(&mut self, mut node: NodeRun, values: [Option<i64>; 2], keys: &Keys, form: AnswerForm) -> Result<()> {
        let output = match &node.output {
            Some(output) => Some(self.add_value(Entity::Node, &node.project_id, &node.id, 1, output)?),
            None => None,
        };
        let checksum = state_checksum(&node, held(&[values[0], output])) as i64;
        let finished_at = node.finished_at.map(Time::unix_us);
        self.finish_node.execute(params![
            keys.run,
            node.started_at.unix_us(),
            node.node_index,
            &*node.id,
            finished_at,
            output,
            checksum
        ])?;
        self.read_values(&mut node, &values, form)?;
        self.answered.1 = Some(node);
        Ok(())
    }
}

impl Floor for Sqlite<'_> {
    fn carry_out(&mut self, commands: &mut dyn Iterator<Item = Command>) -> Result<()> {
        self.begin.raw_execute()?;
        for command in commands {
            self.one(command)?;
        }
        self.commit.raw_execute()?;
        Ok(())
    }
}

fn held(values: &[Option<i64>]) -> Held {
    let mut held = Held::default();
    values.iter().enumerate().filter(|(_, value)| value.is_some()).for_each(|(slot, _)| held.insert(slot));
    held
}

fn bucket(run: &Run) -> Option<i64> {
    run.execution.as_ref().map(|execution| lease_bucket(execution.lease_expires_at))
}

/// A payload that is what was written.
pub(super) fn checked_value<R: Record>(row: &Row<'_>, first: usize, record: &R, slot: usize) -> Result<Arc<str>> {
    let checksum: i64 = row.get(first)?;
    let value = std::str::from_utf8(row.get_ref(first + 1)?.as_blob()?)?;
    if large_checksum(R::ENTITY, record.project_id(), record.key_id(), slot, value) as i64 != checksum {
        return Err("a payload is not as it was written".into());
    }
    Ok(value.into())
}

pub(super) fn read_run(row: &Row<'_>, first: usize, project: &Id, id: &Id) -> Result<(Run, Keys)> {
    let keys = Keys {
        run: row.get(first)?,
        project: row.get(first + 1)?,
        workflow: row.get(first + 2)?,
        values: [row.get(first + 16)?, row.get(first + 17)?, row.get(first + 18)?],
    };
    let token = optional_id(row, first + 12)?;
    let lease = optional_time(row, first + 13)?;
    let run = Run {
        project_id: project.clone(),
        id: id.clone(),
        workflow_id: Id::from(row.get_ref(first + 3)?.as_str()?),
        status: status(row, first + 4)?,
        input: None,
        queued_at: optional_time(row, first + 6)?,
        started_at: optional_time(row, first + 7)?.ok_or("a time is missing")?,
        waiting_since: optional_time(row, first + 8)?,
        finished_at: optional_time(row, first + 9)?,
        output: None,
        error: optional_text(row, first + 14)?,
        source: None,
        requested_by_principal: Principal {
            kind: Id::from(row.get_ref(first + 10)?.as_str()?),
            id: Id::from(row.get_ref(first + 11)?.as_str()?),
        },
        attempt: row.get(first + 5)?,
        execution: token.zip(lease).map(|(token, lease_expires_at)| Execution { token, lease_expires_at }),
    };
    if state_checksum(&run, held(&keys.values)) as i64 != row.get::<_, i64>(first + 15)? {
        return Err("a run is not as it was written".into());
    }
    Ok((run, keys))
}

/// A node run, the rows of its payloads, and its run.
type FoundNode = (NodeRun, [Option<i64>; 2], Run, Keys);

fn read_node(row: &Row<'_>, project: &Id, id: &Id) -> Result<FoundNode> {
    let run_id = Id::from(row.get_ref(NODE_COLUMNS)?.as_str()?);
    let (run, keys) = read_run(row, NODE_COLUMNS + 1, project, &run_id)?;
    let values = [row.get(12)?, row.get(13)?];
    let node = NodeRun {
        project_id: project.clone(),
        id: id.clone(),
        workflow_run_id: run_id,
        workflow_id: optional_id(row, 1)?.unwrap_or_else(|| run.workflow_id.clone()),
        node_index: row.get(3)?,
        node_type: Id::from(row.get_ref(4)?.as_str()?),
        node_id: Id::from(row.get_ref(5)?.as_str()?),
        node_key: Id::from(row.get_ref(6)?.as_str()?),
        status: status(row, 7)?,
        input: None,
        started_at: optional_time(row, 2)?.ok_or("a time is missing")?,
        waiting_since: optional_time(row, 8)?,
        finished_at: optional_time(row, 9)?,
        output: None,
        error: optional_text(row, 10)?,
    };
    if state_checksum(&node, held(&values)) as i64 != row.get::<_, i64>(11)? {
        return Err("a node run is not as it was written".into());
    }
    Ok((node, values, run, keys))
}

fn status(row: &Row<'_>, column: usize) -> Result<Status> {
    Status::from_number(row.get(column)?).ok_or_else(|| "there is no such status".into())
}

fn optional_time(row: &Row<'_>, column: usize) -> Result<Option<Time>> {
    Ok(row.get::<_, Option<i64>>(column)?.and_then(Time::from_unix_us))
}

fn optional_id(row: &Row<'_>, column: usize) -> Result<Option<Id>> {
    Ok(row.get_ref(column)?.as_str_or_null()?.map(Id::from))
}

fn optional_text(row: &Row<'_>, column: usize) -> Result<Option<Text>> {
    Ok(row.get_ref(column)?.as_blob_or_null()?.map(std::str::from_utf8).transpose()?.map(Text::from))
}
