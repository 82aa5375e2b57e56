//! A transaction that writes.

use std::sync::LazyLock;

use runledger_core::codec::{self, StateCodec, damaged};
use runledger_core::keys::lease_bucket;
use runledger_core::{
    AgentRun, AnswerForm, Deleted, EndedFilter, Error, Execution, Held, Id, MAX_LARGE, NodeRun, Put, Record, Result, Run, Status, Stored,
    Tx, orphan,
};
use rusqlite::{Row, params};

use crate::db::{Counters, Db, Kind};
use crate::error::{Fault, Outcome};
use crate::query;
use crate::rows::{Columns, FromRow, node_columns};

/// See [`Tx`].
pub(crate) struct SqliteTx<'t, 'c> {
    pub(crate) db: &'t Db<'c>,
    /// The file, for errors.
    pub(crate) shown: &'t str,
    /// Whether anything was put.
    pub(crate) changed: bool,
    marked: bool,
}

/// The value of a column of a large value's row that stays as it is. Row numbers are positive.
const KEEP: Option<i64> = Some(-1);

/// The rows of a record's large values, by slot.
type Values = [Option<i64>; MAX_LARGE];

impl<'t, 'c> SqliteTx<'t, 'c> {
    pub(crate) fn new(db: &'t Db<'c>, shown: &'t str) -> Self {
        SqliteTx { db, shown, changed: false, marked: false }
    }

    fn told<T>(&self, outcome: Outcome<T>) -> Result<T> {
        outcome.map_err(|fault| fault.into_error(self.shown))
    }

    fn by_id<R: FromRow>(&self, sql: &'static str, project: &Id, id: &Id, form: AnswerForm) -> Outcome<Option<Stored<R>>> {
        query::by_id(self.db, sql, project, id, form)
    }

    /// Stores the large values that a record has anew, and says what its columns for them must hold.
    fn put_values<R: StateCodec>(&self, put: &Put<R>, held_now: &'static str, at: impl rusqlite::Params) -> Outcome<Values> {
        let record = &put.after.record;
        let (project, id) = (record.project_id(), record.key_id());
        let before = put.before.as_ref().map_or(Held::default(), |before| before.held);
        let stale = before.slots().any(|slot| put.written.contains(slot) || !put.after.held.contains(slot));
        let rows = if stale { self.db.query_one(held_now, at, |row| read_values(row, 0, R::LARGE.len()))? } else { None };
        let rows = rows.unwrap_or_default();
        let mut columns = [KEEP; MAX_LARGE];
        for slot in 0..R::LARGE.len() {
            let old = rows[slot];
            if put.written.contains(slot) {
                let value = record.large(slot).ok_or_else(|| damaged(R::ENTITY, project, id, "a value to write is missing"))?;
                let checksum = codec::large_checksum(R::ENTITY, project, id, slot, value) as i64;
                if let Some(key) = old {
                    let sql = "UPDATE large_value SET checksum = ?2, value = ?3 WHERE key = ?1";
                    self.db.execute(sql, params![key, checksum, value.as_bytes()])?;
                } else {
                    let sql = "INSERT INTO large_value (checksum, value) VALUES (?1, ?2)";
                    self.db.execute(sql, params![checksum, value.as_bytes()])?;
                    columns[slot] = Some(self.db.conn.last_insert_rowid());
                }
            } else if !put.after.held.contains(slot) {
                columns[slot] = None;
                if let Some(key) = old {
                    self.remove_value(key)?;
                }
            }
        }
        Ok(columns)
    }

    fn remove_value(&self, key: i64) -> Outcome<()> {
        self.db.execute("DELETE FROM large_value WHERE key = ?1", [key])?;
        Ok(())
    }

    fn remove_values(&self, values: Values) -> Outcome<()> {
        values.into_iter().flatten().try_for_each(|key| self.remove_value(key))
    }

    fn insert_run(&self, put: &Put<Run>) -> Outcome<()> {
        let run = &put.after.record;
        let project = self.db.intern(Kind::Project, 0, &run.project_id)?;
        let workflow = self.db.intern(Kind::Workflow, project, &run.workflow_id)?;
        let [input, output, source, _] = self.put_values(put, RUN_VALUES, [0])?;
        self.db.execute(
            "INSERT INTO run (project, id, workflow, status, attempt, queued_at, started_at, waiting_since, finished_at, principal_type, \
             principal_id, token, lease_ends_at, lease_bucket, error, checksum, input, output, source) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19)",
            params![
                project,
                &*run.id,
                workflow,
                run.status as i64,
                run.attempt,
                run.queued_at.map(|time| time.unix_us()),
                run.started_at.unix_us(),
                run.waiting_since.map(|time| time.unix_us()),
                run.finished_at.map(|time| time.unix_us()),
                &*run.requested_by_principal.kind,
                &*run.requested_by_principal.id,
                token(&run.execution),
                lease(&run.execution),
                bucket(&run.execution),
                run.error.as_ref().map(|text| text.as_bytes()),
                codec::state_checksum(run, put.after.held) as i64,
                input,
                output,
                source,
            ],
        )?;
        self.db.count(Counters::ProjectRuns, project, None, Some(run.status))?;
        self.db.count(Counters::Workflow, workflow, None, Some(run.status))
    }

    fn update_run(&self, put: &Put<Run>, before: &Stored<Run>) -> Outcome<()> {
        let (run, was, key) = (&put.after.record, &before.record, before.handle as i64);
        let values @ [input, output, source, _] = self.put_values(put, RUN_VALUES, [key])?;
        let bucket_now = bucket(&run.execution);
        let moved = (run.status, run.started_at) != (was.status, was.started_at);
        let ended = run.finished_at != was.finished_at;
        let leased = bucket_now != bucket(&was.execution);
        let changed = self.db.execute(
            &RUN_UPDATES[usize::from(moved) | usize::from(ended) << 1 | usize::from(leased) << 2 | named_values(&values) << 3],
            params![
                run.status as i64,
                run.started_at.unix_us(),
                run.finished_at.map(|time| time.unix_us()),
                bucket_now,
                run.attempt,
                run.queued_at.map(|time| time.unix_us()),
                run.waiting_since.map(|time| time.unix_us()),
                token(&run.execution),
                lease(&run.execution),
                run.error.as_ref().map(|text| text.as_bytes()),
                codec::state_checksum(run, put.after.held) as i64,
                input,
                output,
                source,
                key,
            ],
        )?;
        check_found(changed, run)?;
        if put.changes_status() {
            let project = self.db.intern(Kind::Project, 0, &run.project_id)?;
            let workflow = self.db.intern(Kind::Workflow, project, &run.workflow_id)?;
            self.db.count(Counters::ProjectRuns, project, Some(was.status), Some(run.status))?;
            self.db.count(Counters::Workflow, workflow, Some(was.status), Some(run.status))?;
        }
        Ok(())
    }

    fn insert_node(&self, put: &Put<NodeRun>) -> Outcome<()> {
        let node = &put.after.record;
        let project = self.db.intern(Kind::Project, 0, &node.project_id)?;
        let run = self.db.run_key(project, &node.workflow_run_id)?;
        let (run, workflow) = run.ok_or_else(|| damaged(NodeRun::ENTITY, &node.project_id, &node.id, "its run is missing"))?;
        let of_run = self.db.name(Kind::Workflow, project, workflow)?;
        let [input, output, ..] = self.put_values(put, NODE_VALUES, params![0, 0, 0, ""])?;
        self.db.execute(
            "INSERT INTO node_run (run, started_at, node_index, id, project, workflow, node_type, node_id, node_key, status, \
             waiting_since, finished_at, error, checksum, input, output) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16)",
            params![
                run,
                node.started_at.unix_us(),
                node.node_index,
                &*node.id,
                project,
                (of_run != node.workflow_id).then_some(&*node.workflow_id),
                &*node.node_type,
                &*node.node_id,
                &*node.node_key,
                node.status as i64,
                node.waiting_since.map(|time| time.unix_us()),
                node.finished_at.map(|time| time.unix_us()),
                node.error.as_ref().map(|text| text.as_bytes()),
                codec::state_checksum(node, put.after.held) as i64,
                input,
                output,
            ],
        )?;
        Ok(())
    }

    fn update_node(&self, put: &Put<NodeRun>, before: &Stored<NodeRun>) -> Outcome<()> {
        let (node, run) = (&put.after.record, before.handle as i64);
        let at = params![run, before.record.started_at.unix_us(), before.record.node_index, &*node.id];
        let values @ [input, output, ..] = self.put_values(put, NODE_VALUES, at)?;
        let changed = self.db.execute(
            &NODE_UPDATES[named_values(&values)],
            params![
                run,
                before.record.started_at.unix_us(),
                before.record.node_index,
                &*node.id,
                node.status as i64,
                node.waiting_since.map(|time| time.unix_us()),
                node.finished_at.map(|time| time.unix_us()),
                node.error.as_ref().map(|text| text.as_bytes()),
                codec::state_checksum(node, put.after.held) as i64,
                input,
                output,
            ],
        )?;
        check_found(changed, node)
    }

    fn is_node(&self, project: &Id, id: &Id) -> Outcome<bool> {
        let Some(project) = self.db.project(project)? else { return Ok(false) };
        let sql = "SELECT 1 FROM node_run INDEXED BY node_run_by_id WHERE project = ?1 AND id = ?2";
        Ok(self.db.query_one(sql, params![project, &**id], |_| Ok(()))?.is_some())
    }

    fn insert_agent(&self, put: &Put<AgentRun>) -> Outcome<()> {
        let agent = &put.after.record;
        let project = self.db.intern(Kind::Project, 0, &agent.project_id)?;
        let name = self.db.intern(Kind::Agent, project, &agent.agent_id)?;
        let [prompt, usage, trace, diagnostics] = self.put_values(put, AGENT_VALUES, [0])?;
        self.db.execute(
            "INSERT INTO agent_run (project, id, agent, status, attempt, created_at, started_at, completed_at, principal_type, \
             principal_id, model_id, finish_reason, token, lease_ends_at, lease_bucket, error, checksum, prompt, usage, trace, diagnostics) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21)",
            params![
                project,
                &*agent.node_run_id,
                name,
                agent.status as i64,
                agent.attempt,
                agent.created_at.unix_us(),
                agent.started_at.map(|time| time.unix_us()),
                agent.completed_at.map(|time| time.unix_us()),
                agent.execution_principal.as_ref().map(|principal| &*principal.kind),
                agent.execution_principal.as_ref().map(|principal| &*principal.id),
                agent.model_id.as_ref().map(|text| text.as_bytes()),
                agent.finish_reason.as_ref().map(|text| text.as_bytes()),
                token(&agent.execution),
                lease(&agent.execution),
                bucket(&agent.execution),
                agent.error.as_ref().map(|text| text.as_bytes()),
                codec::state_checksum(agent, put.after.held) as i64,
                prompt,
                usage,
                trace,
                diagnostics,
            ],
        )?;
        self.db.count(Counters::ProjectAgents, project, None, Some(agent.status))?;
        self.db.count(Counters::Agent, name, None, Some(agent.status))
    }

    fn update_agent(&self, put: &Put<AgentRun>, before: &Stored<AgentRun>) -> Outcome<()> {
        let (agent, was, key) = (&put.after.record, &before.record, before.handle as i64);
        let values @ [prompt, usage, trace, diagnostics] = self.put_values(put, AGENT_VALUES, [key])?;
        let bucket_now = bucket(&agent.execution);
        let moved = put.changes_status();
        let leased = bucket_now != bucket(&was.execution);
        let changed = self.db.execute(
            &AGENT_UPDATES[usize::from(moved) | usize::from(leased) << 1 | named_values(&values) << 2],
            params![
                agent.status as i64,
                bucket_now,
                agent.attempt,
                agent.started_at.map(|time| time.unix_us()),
                agent.completed_at.map(|time| time.unix_us()),
                agent.execution_principal.as_ref().map(|principal| &*principal.kind),
                agent.execution_principal.as_ref().map(|principal| &*principal.id),
                agent.model_id.as_ref().map(|text| text.as_bytes()),
                agent.finish_reason.as_ref().map(|text| text.as_bytes()),
                token(&agent.execution),
                lease(&agent.execution),
                agent.error.as_ref().map(|text| text.as_bytes()),
                codec::state_checksum(agent, put.after.held) as i64,
                prompt,
                usage,
                trace,
                diagnostics,
                key,
            ],
        )?;
        check_found(changed, agent)?;
        if moved {
            let project = self.db.intern(Kind::Project, 0, &agent.project_id)?;
            let name = self.db.intern(Kind::Agent, project, &agent.agent_id)?;
            self.db.count(Counters::ProjectAgents, project, Some(was.status), Some(agent.status))?;
            self.db.count(Counters::Agent, name, Some(was.status), Some(agent.status))?;
        }
        Ok(())
    }

    fn remove_run(&self, run: &Stored<Run>) -> Outcome<Deleted> {
        let (record, key) = (&run.record, run.handle as i64);
        let project = self.db.intern(Kind::Project, 0, &record.project_id)?;
        let workflow = self.db.intern(Kind::Workflow, project, &record.workflow_id)?;
        let mut deleted = Deleted { runs: 1, nodes: 0, agents: 0 };
        for (node, is_agent, values) in self.nodes_to_remove(key)? {
            if is_agent {
                deleted.agents += self.remove_agent(project, &node)?;
            }
            self.remove_values(values)?;
        }
        deleted.nodes = self.db.execute("DELETE FROM node_run WHERE run = ?1", [key])? as u64;
        let values = self.db.query_one(RUN_VALUES, [key], |row| read_values(row, 0, 3))?;
        self.remove_values(values.unwrap_or_default())?;
        check_found(self.db.execute("DELETE FROM run WHERE key = ?1", [key])?, record)?;
        self.db.count(Counters::ProjectRuns, project, Some(record.status), None)?;
        self.db.count(Counters::Workflow, workflow, Some(record.status), None)?;
        self.db.remove_unused(Kind::Workflow, workflow)?;
        self.db.remove_unused(Kind::Project, project)?;
        // The number of the run may be given to another one now.
        self.db.forget_names();
        Ok(deleted)
    }

    /// The nodes of a run: the id, whether it can have an agent run, and its large values.
    fn nodes_to_remove(&self, run: i64) -> Outcome<Vec<(Id, bool, Values)>> {
        let mut statement = self.db.statement("SELECT id, node_type, input, output FROM node_run WHERE run = ?1")?;
        let nodes = statement.query_map([run], |row| {
            let id = Id::from(row.get_ref(0)?.as_str()?);
            Ok((id, row.get_ref(1)?.as_str()? == NodeRun::AGENT_TYPE, read_values(row, 2, 2)?))
        })?;
        Ok(nodes.collect::<rusqlite::Result<_>>()?)
    }

    fn remove_agent(&self, project: i64, node: &Id) -> Outcome<u64> {
        let sql = "SELECT key, agent, status, prompt, usage, trace, diagnostics FROM agent_run WHERE project = ?1 AND id = ?2";
        let found = self.db.query_one(sql, params![project, &**node], |row| {
            Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?, row.get::<_, u8>(2)?, read_values(row, 3, 4)?))
        })?;
        let Some((key, agent, status, values)) = found else { return Ok(0) };
        let status = Status::from_number(status).ok_or_else(|| Error::corrupt("the status of an agent run can't be read"))?;
        self.remove_values(values)?;
        self.db.execute("DELETE FROM agent_run WHERE key = ?1", [key])?;
        self.db.count(Counters::ProjectAgents, project, Some(status), None)?;
        self.db.count(Counters::Agent, agent, Some(status), None)?;
        self.db.remove_unused(Kind::Agent, agent)?;
        Ok(1)
    }

    fn load_nodes_of(&self, run: i64) -> Outcome<Vec<Stored<NodeRun>>> {
        let mut statement = self.db.statement(concat!("SELECT ", node_columns!(), " FROM node_run WHERE run = ?1"))?;
        let mut rows = statement.query([run])?;
        let mut nodes = Vec::new();
        while let Some(row) = rows.next()? {
            nodes.push(NodeRun::from_row(self.db, &Columns::of(row))?.finish(self.db, AnswerForm::State)?);
        }
        Ok(nodes)
    }

    fn remove_all(&self) -> Outcome<()> {
        for sql in [
            "DELETE FROM agent_run",
            "DELETE FROM node_run",
            "DELETE FROM run",
            "DELETE FROM large_value",
            "DELETE FROM agent",
            "DELETE FROM workflow",
            "DELETE FROM project",
        ] {
            self.db.execute(sql, [])?;
        }
        self.db.forget_names();
        Ok(())
    }

    fn set_mark(&mut self) -> Outcome<()> {
        if self.marked {
            self.db.run("RELEASE mark")?;
        }
        self.db.run("SAVEPOINT mark")?;
        self.marked = true;
        Ok(())
    }

    fn return_to_mark(&self) -> Outcome<()> {
        // The names may have got numbers since, which are void now.
        self.db.forget_names();
        self.db.run("ROLLBACK TO mark")
    }
}

impl Tx for SqliteTx<'_, '_> {
    fn run(&mut self, project: &Id, id: &Id, form: AnswerForm) -> Result<Option<Stored<Run>>> {
        self.told(self.by_id(query::RUN_BY_ID, project, id, form))
    }

    fn node(&mut self, project: &Id, id: &Id, form: AnswerForm) -> Result<Option<Stored<NodeRun>>> {
        self.told(self.by_id(query::NODE_BY_ID, project, id, form))
    }

    fn has_node(&mut self, project: &Id, id: &Id) -> Result<bool> {
        self.told(self.is_node(project, id))
    }

    fn node_and_run(&mut self, project: &Id, id: &Id, form: AnswerForm) -> Result<Option<(Stored<NodeRun>, Stored<Run>)>> {
        match self.told(query::node_and_run(self.db, project, id, form))? {
            None => Ok(None),
            Some((node, Some(run))) => Ok(Some((node, run))),
            Some((_, None)) => Err(orphan(project, id)),
        }
    }

    fn agent(&mut self, project: &Id, node_run_id: &Id, form: AnswerForm) -> Result<Option<Stored<AgentRun>>> {
        self.told(self.by_id(query::AGENT_BY_ID, project, node_run_id, form))
    }

    fn next_run(&mut self, project: &Id, workflow_ids: Option<&[Id]>, form: AnswerForm) -> Result<Option<Stored<Run>>> {
        self.told(query::next(self.db, project, workflow_ids, form))
    }

    fn next_agent(&mut self, project: &Id, agent_ids: Option<&[Id]>, form: AnswerForm) -> Result<Option<Stored<AgentRun>>> {
        self.told(query::next(self.db, project, agent_ids, form))
    }

    fn nodes_of(&mut self, run: &Stored<Run>) -> Result<Vec<Stored<NodeRun>>> {
        self.told(self.load_nodes_of(run.handle as i64))
    }

    fn ended_runs(&mut self, filter: &EndedFilter, limit: usize) -> Result<Vec<Stored<Run>>> {
        self.told(query::ended_runs(self.db, filter, limit))
    }

    fn put_run(&mut self, put: &Put<Run>) -> Result<()> {
        self.changed = true;
        self.told(match &put.before {
            None => self.insert_run(put),
            Some(before) => self.update_run(put, before),
        })
    }

    fn put_node(&mut self, put: &Put<NodeRun>) -> Result<()> {
        self.changed = true;
        self.told(match &put.before {
            None => self.insert_node(put),
            Some(before) => self.update_node(put, before),
        })
    }

    fn put_agent(&mut self, put: &Put<AgentRun>) -> Result<()> {
        self.changed = true;
        self.told(match &put.before {
            None => self.insert_agent(put),
            Some(before) => self.update_agent(put, before),
        })
    }

    fn delete_run(&mut self, run: &Stored<Run>) -> Result<Deleted> {
        self.changed = true;
        self.told(self.remove_run(run))
    }

    fn clear(&mut self) -> Result<()> {
        self.changed = true;
        self.told(self.remove_all())
    }

    fn mark(&mut self) -> Result<bool> {
        let marked = self.set_mark();
        self.told(marked.map(|()| true))
    }

    fn undo(&mut self) -> Result<()> {
        self.told(self.return_to_mark())
    }
}

const RUN_VALUES: &str = "SELECT input, output, source FROM run WHERE key = ?1";
const NODE_VALUES: &str = "SELECT input, output FROM node_run WHERE run = ?1 AND started_at = ?2 AND node_index = ?3 AND id = ?4";
const AGENT_VALUES: &str = "SELECT prompt, usage, trace, diagnostics FROM agent_run WHERE key = ?1";

/// One statement for each kind of change: a column that is named has its index entries written anew, changed or not, and
/// one that is not named costs nothing. Bit 0: the place in the lists; bit 1: the end; bit 2: the lease's bucket; from bit 3
/// on, the large values that come or go.
static RUN_UPDATES: LazyLock<[String; 64]> = LazyLock::new(|| {
    std::array::from_fn(|kind| {
        let columns = [
            ", status = ?1, started_at = ?2",
            ", finished_at = ?3",
            ", lease_bucket = ?4",
            ", input = ?12",
            ", output = ?13",
            ", source = ?14",
        ];
        format!(
            "UPDATE run SET attempt = ?5, queued_at = ?6, waiting_since = ?7, token = ?8, lease_ends_at = ?9, error = ?10, \
             checksum = ?11{} WHERE key = ?15",
            named(kind, &columns)
        )
    })
});

/// See [`RUN_UPDATES`]. Bit 0: the place in the lists; bit 1: the lease's bucket; from bit 2 on, the large values.
static AGENT_UPDATES: LazyLock<[String; 64]> = LazyLock::new(|| {
    std::array::from_fn(|kind| {
        let columns = [", status = ?1", ", lease_bucket = ?2", ", prompt = ?14", ", usage = ?15", ", trace = ?16", ", diagnostics = ?17"];
        format!(
            "UPDATE agent_run SET attempt = ?3, started_at = ?4, completed_at = ?5, principal_type = ?6, principal_id = ?7, \
             model_id = ?8, finish_reason = ?9, token = ?10, lease_ends_at = ?11, error = ?12, checksum = ?13{} WHERE key = ?18",
            named(kind, &columns)
        )
    })
});

/// See [`RUN_UPDATES`]. The bits are those of the large values.
static NODE_UPDATES: LazyLock<[String; 4]> = LazyLock::new(|| {
    std::array::from_fn(|kind| {
        format!(
            "UPDATE node_run SET status = ?5, waiting_since = ?6, finished_at = ?7, error = ?8, checksum = ?9{} \
             WHERE run = ?1 AND started_at = ?2 AND node_index = ?3 AND id = ?4",
            named(kind, &[", input = ?10", ", output = ?11"])
        )
    })
});

/// The bits of the large values whose columns change.
fn named_values(values: &Values) -> usize {
    values.iter().enumerate().map(|(slot, value)| usize::from(*value != KEEP) << slot).sum()
}

/// The columns whose bits are set.
fn named(kind: usize, columns: &[&str]) -> String {
    columns.iter().enumerate().filter(|(bit, _)| kind >> bit & 1 == 1).map(|(_, column)| *column).collect()
}

fn token(execution: &Option<Execution>) -> Option<&str> {
    execution.as_ref().map(|execution| &*execution.token)
}

fn lease(execution: &Option<Execution>) -> Option<i64> {
    execution.as_ref().map(|execution| execution.lease_expires_at.unix_us())
}

/// The bucket under which a record is found when its lease has expired.
pub(crate) fn bucket(execution: &Option<Execution>) -> Option<i64> {
    execution.as_ref().map(|execution| lease_bucket(execution.lease_expires_at))
}

fn read_values(row: &Row<'_>, first: usize, count: usize) -> rusqlite::Result<Values> {
    let mut values = [None; MAX_LARGE];
    for (slot, value) in values.iter_mut().enumerate().take(count) {
        *value = row.get(first + slot)?;
    }
    Ok(values)
}

fn check_found<R: StateCodec>(changed: usize, record: &R) -> Outcome<()> {
    match changed {
        1 => Ok(()),
        _ => Err(Fault::Ledger(damaged(R::ENTITY, record.project_id(), record.key_id(), "its row is missing"))),
    }
}
