//! The questions of lists, asked by hand of a SQLite file that the backend has written: one statement each.

use std::path::Path;

use runledger::{Id, Run, Status, StatusCounts};
use rusqlite::{Connection, OpenFlags, PrepFlags, Row, Statement, params_from_iter};

use super::sqlite::{RUN, RUN_COLUMNS, checked_value, read_run};
use crate::Result;

/// How many rows a page has, and one more to know whether there is one.
pub(super) const PAGE: usize = 51;

/// A connection that reads.
#[derive(Debug)]
pub struct Queries(Connection);

/// Which ranges of an index a page is merged from.
#[derive(Clone, Debug)]
pub enum Arms {
    /// Those of some statuses of the whole project.
    Project(Vec<Status>),
    /// Those of some statuses of some workflows.
    Workflows(Vec<String>, Vec<Status>),
}

/// A page that can be asked for again and again.
pub struct List<'c> {
    statement: Statement<'c>,
    begin: Statement<'c>,
    end: Statement<'c>,
    total: Option<Statement<'c>>,
    project: Id,
    parameters: Vec<i64>,
}

impl Queries {
    /// Opens a file.
    ///
    /// # Errors
    /// Those of the engine.
    pub fn open(path: &Path) -> Result<Queries> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let conn = Connection::open_with_flags(path, flags)?;
        conn.pragma_update(None, "cache_size", -8192)?;
        Ok(Queries(conn))
    }

    fn held(&self, sql: &str) -> Result<Statement<'_>> {
        Ok(self.0.prepare_with_flags(sql, PrepFlags::SQLITE_PREPARE_PERSISTENT)?)
    }

    /// Prepares a page, newest first: of the runs that started between these times, passing over `offset`, with the total if asked.
    ///
    /// # Errors
    /// Those of the engine.
    pub fn list(&self, project: &str, arms: &Arms, (low, high): (i64, i64), offset: usize, with_total: bool) -> Result<List<'_>> {
        let key: i64 = self.0.query_row("SELECT key FROM project WHERE id = ?1", [project], |row| row.get(0))?;
        let (index, scope, scopes, statuses) = match arms {
            Arms::Project(statuses) => ("run_by_status", "project", vec![key], statuses),
            Arms::Workflows(workflows, statuses) => {
                let mut keys = Vec::new();
                for workflow in workflows {
                    let sql = "SELECT key FROM workflow WHERE project = ?1 AND id = ?2";
                    keys.push(self.0.query_row(sql, (key, workflow), |row| row.get(0))?);
                }
                ("run_by_workflow", "workflow", keys, statuses)
            }
        };
        let mut parameters = Vec::new();
        let mut arms = Vec::new();
        for scope_key in &scopes {
            for status in statuses {
                let place = parameters.len();
                parameters.extend([*scope_key, *status as i64, low, high]);
                arms.push(format!(
                    "SELECT started_at, id, key FROM run INDEXED BY {index} WHERE {scope} = ?{} AND status = ?{} \
                     AND started_at BETWEEN ?{} AND ?{}",
                    place + 1,
                    place + 2,
                    place + 3,
                    place + 4
                ));
            }
        }
        let sql = format!(
            "SELECT r.id, {RUN}, i.checksum, i.value, o.checksum, o.value, s.checksum, s.value \
             FROM ({} ORDER BY 1 DESC, 2 DESC LIMIT {PAGE} OFFSET {offset}) AS page CROSS JOIN run r CROSS JOIN workflow w \
             LEFT JOIN large_value i ON i.key = r.input LEFT JOIN large_value o ON o.key = r.output \
             LEFT JOIN large_value s ON s.key = r.source WHERE r.key = page.key AND w.key = r.workflow",
            arms.join(" UNION ALL ")
        );
        let sums = statuses.iter().map(|status| status.as_str()).collect::<Vec<_>>().join(" + ");
        let keys = scopes.iter().map(i64::to_string).collect::<Vec<_>>().join(", ");
        let total = with_total.then(|| self.held(&format!("SELECT sum({sums}) FROM {scope} WHERE key IN ({keys})"))).transpose()?;
        Ok(List {
            statement: self.held(&sql)?,
            begin: self.held("BEGIN")?,
            end: self.held("COMMIT")?,
            total,
            project: Id::from(project),
            parameters,
        })
    }

    /// Prepares a look at one run.
    ///
    /// # Errors
    /// Those of the engine.
    pub fn get(&self) -> Result<Statement<'_>> {
        self.held(&format!(
            "SELECT r.id, {RUN}, i.checksum, i.value, o.checksum, o.value, s.checksum, s.value \
             FROM project p CROSS JOIN run r INDEXED BY run_by_id CROSS JOIN workflow w LEFT JOIN large_value i ON i.key = r.input \
             LEFT JOIN large_value o ON o.key = r.output LEFT JOIN large_value s ON s.key = r.source \
             WHERE p.id = ?1 AND r.project = p.key AND r.id = ?2 AND w.key = r.workflow"
        ))
    }

    /// Prepares the counters of some workflows.
    ///
    /// # Errors
    /// Those of the engine.
    pub fn stats(&self) -> Result<Statement<'_>> {
        self.held(
            "SELECT w.id, w.queued, w.running, w.waiting, w.succeeded, w.failed, w.cancelled \
             FROM project p CROSS JOIN workflow w WHERE p.id = ?1 AND w.project = p.key AND w.id = ?2",
        )
    }
}

impl List<'_> {
    /// The rows, and the total if it was asked.
    ///
    /// # Errors
    /// Those of the engine; or a run is not as it was written.
    pub fn ask(&mut self) -> Result<(Vec<Run>, Option<u64>)> {
        self.begin.raw_execute()?;
        let total = match &mut self.total {
            Some(total) => Some(total.query_row([], |row| row.get::<_, i64>(0))? as u64),
            None => None,
        };
        let mut runs = Vec::with_capacity(PAGE);
        {
            let mut rows = self.statement.query(params_from_iter(&self.parameters))?;
            while let Some(row) = rows.next()? {
                runs.push(whole_run(row, &self.project)?);
            }
        }
        self.end.raw_execute()?;
        Ok((runs, total))
    }
}

/// A run with its payloads, from one row.
fn whole_run(row: &Row<'_>, project: &Id) -> Result<Run> {
    let id = Id::from(row.get_ref(0)?.as_str()?);
    let (mut run, keys) = read_run(row, 1, project, &id)?;
    for (slot, key) in keys.values.iter().enumerate() {
        if key.is_some() {
            let value = checked_value(row, 1 + RUN_COLUMNS + 2 * slot, &run, slot)?;
            runledger::Record::set_large(&mut run, slot, value);
        }
    }
    Ok(run)
}

/// One run, by a statement of [`Queries::get`].
///
/// # Errors
/// As [`List::ask`].
pub fn get(statement: &mut Statement<'_>, project: &Id, id: &str) -> Result<Run> {
    let mut rows = statement.query((&**project, id))?;
    whole_run(rows.next()?.ok_or("there is no such run")?, project)
}

/// The counts of workflows, by a statement of [`Queries::stats`].
///
/// # Errors
/// Those of the engine.
pub fn stats(statement: &mut Statement<'_>, project: &str, workflows: &[String]) -> Result<Vec<(Id, StatusCounts)>> {
    let mut counts = Vec::with_capacity(workflows.len());
    for workflow in workflows {
        let counted = statement.query_row((project, workflow), |row| {
            let mut counts = StatusCounts::default();
            for (place, count) in counts.0.iter_mut().enumerate() {
                *count = row.get::<_, i64>(1 + place)? as u64;
            }
            Ok((Id::from(row.get_ref(0)?.as_str()?), counts))
        })?;
        counts.push(counted);
    }
    Ok(counts)
}
