//! Holds a store against itself.

use std::collections::HashMap;

use runledger_core::codec::{self, StateCodec};
use runledger_core::{
    AgentRun, Code, Entity, Error, Id, Meter, NodeRun, OnProgress, Problem, Run, Stage, Status, StatusCounts, VerifyReport,
};

use crate::db::{Db, Kind, read_counts};
use crate::error::{Fault, Outcome};
use crate::rows::{Columns, FromRow, Loaded, agent_columns, node_columns, read_large_value, run_columns};
use crate::schema;

/// The most lines of the engine's own check that are listed.
const MAX_ENGINE_LINES: usize = 100;

/// What was found while the records were read, to be held against what is stored about them.
struct Check<'a, 'c, 'p> {
    db: &'a Db<'c>,
    meter: Meter<'p>,
    report: VerifyReport,
    /// The records of each project, workflow or agent, by status.
    counted: HashMap<(Entity, Kind, i64), StatusCounts>,
    large_values: u64,
}

pub(crate) fn verify(db: &Db<'_>, on_progress: OnProgress<'_>) -> Outcome<VerifyReport> {
    const RECORDS: &str = "SELECT (SELECT count(*) FROM run) + (SELECT count(*) FROM node_run) + (SELECT count(*) FROM agent_run)";
    // A count that can't be had is no fault of its own: what is damaged shows below.
    let total = db.conn.query_row(RECORDS, [], |row| row.get::<_, i64>(0)).ok().and_then(|total| u64::try_from(total).ok());
    let meter = Meter::start(on_progress, Stage::Verifying, total)?;
    let mut check = Check { db, meter, report: VerifyReport::default(), counted: HashMap::new(), large_values: 0 };
    check.step(Check::engine)?;
    check.step(Check::layout)?;
    check.step(Check::runs)?;
    check.step(Check::nodes)?;
    check.step(Check::agents)?;
    check.step(Check::references)?;
    check.step(Check::leases)?;
    check.step(Check::values)?;
    check.step(Check::counters)?;
    check.meter.finish()?;
    Ok(check.report)
}

impl Check<'_, '_, '_> {
    /// Takes one step, and has what is damaged past reading be a problem like any other.
    fn step(&mut self, step: impl FnOnce(&mut Self) -> Outcome<()>) -> Outcome<()> {
        match step(self) {
            Err(fault) if fault.code() == Code::Corrupt => {
                self.report.push(Problem::new("engine", format!("a table can't be read to its end (result {})", fault.result())));
                Ok(())
            }
            other => other,
        }
    }

    fn engine(&mut self) -> Outcome<()> {
        let mut statement = self.db.conn.prepare(&format!("PRAGMA integrity_check({MAX_ENGINE_LINES})"))?;
        let lines = statement.query_map([], |row| row.get::<_, String>(0))?.collect::<rusqlite::Result<Vec<_>>>()?;
        for line in lines.iter().filter(|line| *line != "ok") {
            let kind = if line.contains("index") { "index" } else { "engine" };
            self.report.push(Problem::new(kind, line));
        }
        self.report.engine_check_done = true;
        Ok(())
    }

    /// The tables and indexes must be as this library made them.
    fn layout(&mut self) -> Outcome<()> {
        let found: HashMap<String, String> = schema::parts(self.db.conn)?.into_iter().collect();
        for (name, sql) in schema::expected_parts()? {
            let kind = if sql.starts_with("CREATE TABLE") { "engine" } else { "index" };
            match found.get(&name) {
                Some(as_found) if *as_found == sql => {}
                Some(_) => self.report.push(Problem::new(kind, format!("{name} is not as it was made"))),
                None => self.report.push(Problem::new(kind, format!("{name} is missing"))),
            }
        }
        Ok(())
    }

    fn runs(&mut self) -> Outcome<()> {
        let sql = concat!("SELECT ", run_columns!(), " FROM run");
        self.report.checked.runs = self.records::<Run>(sql, Some(Kind::Workflow))?;
        Ok(())
    }

    fn nodes(&mut self) -> Outcome<()> {
        let sql = concat!("SELECT ", node_columns!(), " FROM node_run");
        self.report.checked.nodes = self.records::<NodeRun>(sql, None)?;
        Ok(())
    }

    fn agents(&mut self) -> Outcome<()> {
        let sql = concat!("SELECT ", agent_columns!(), " FROM agent_run");
        self.report.checked.agents = self.records::<AgentRun>(sql, Some(Kind::Agent))?;
        Ok(())
    }

    /// Checks all records of a kind by themselves, and counts them by their project and `group`.
    fn records<R: FromRow>(&mut self, sql: &'static str, group: Option<Kind>) -> Outcome<u64> {
        let db = self.db;
        let mut statement = db.statement(sql)?;
        let mut rows = statement.query([])?;
        let mut checked = 0;
        while let Some(row) = rows.next()? {
            checked += 1;
            self.meter.advance(1)?;
            let (loaded, checksum) = match R::from_row_unchecked(db, &Columns::of(row)) {
                Ok(read) => read,
                Err(fault) if fault.code() == Code::Corrupt => {
                    self.report.push(problem_of(R::ENTITY, fault));
                    continue;
                }
                Err(fault) => return Err(fault),
            };
            self.record(&loaded, checksum)?;
            if let Some(group) = group {
                // The columns of the project, and of the workflow or agent.
                for (kind, key) in [(Kind::Project, row.get(1)?), (group, row.get(3)?)] {
                    let counts = self.counted.entry((R::ENTITY, kind, key)).or_default();
                    counts.0[loaded.stored.record.status() as usize] += 1;
                }
            }
        }
        Ok(checked)
    }

    fn record<R: StateCodec>(&mut self, loaded: &Loaded<R>, checksum: i64) -> Outcome<()> {
        let (record, held) = (&loaded.stored.record, loaded.stored.held);
        let mut push = |kind, message: String| {
            self.report.push(Problem::new(kind, message).of(R::ENTITY, record.project_id(), record.key_id()));
        };
        if codec::state_checksum(record, held) as i64 != checksum {
            push("checksum", "its state does not match its checksum".to_owned());
        }
        let mut whole = record.clone();
        for (slot, key) in loaded.values.iter().enumerate() {
            let Some(key) = key else { continue };
            self.large_values += 1;
            match read_large_value(self.db, record, slot, *key)? {
                Ok(value) => whole.set_large(slot, value),
                Err(fault) => push(fault.kind(), format!("its {} {}", R::LARGE.get(slot).unwrap_or(&"value"), fault.words())),
            }
        }
        if let Err(broken) = whole.coherence() {
            push("record", broken.to_owned());
        }
        Ok(())
    }

    /// What refers to something that is not there.
    fn references(&mut self) -> Outcome<()> {
        let checks = [
            (
                Entity::Run,
                "SELECT r.project, r.id FROM run r LEFT JOIN workflow w ON w.key = r.workflow WHERE w.project IS NOT r.project",
                "its workflow is missing or of another project",
            ),
            (
                Entity::Node,
                "SELECT n.project, n.id FROM node_run n LEFT JOIN run r ON r.key = n.run WHERE r.project IS NOT n.project",
                "its run is missing or of another project",
            ),
            (
                Entity::Agent,
                "SELECT a.project, a.id FROM agent_run a LEFT JOIN node_run n ON n.project = a.project AND n.id = a.id \
                 WHERE n.node_type IS NOT 'agent'",
                "its node run is missing or not of type agent",
            ),
            (
                Entity::Agent,
                "SELECT a.project, a.id FROM agent_run a LEFT JOIN agent g ON g.key = a.agent WHERE g.project IS NOT a.project",
                "its agent is missing or of another project",
            ),
        ];
        checks.into_iter().try_for_each(|(entity, sql, what)| self.each_found("reference", entity, sql, what))
    }

    /// The bucket of a lease is stored beside its end.
    fn leases(&mut self) -> Outcome<()> {
        let checks = [
            (Entity::Run, "SELECT project, id FROM run WHERE lease_bucket IS NOT iif(status = 1, lease_ends_at >> 26, NULL)"),
            (Entity::Agent, "SELECT project, id FROM agent_run WHERE lease_bucket IS NOT iif(status = 1, lease_ends_at >> 26, NULL)"),
        ];
        let what = "the index of leases has it in another place than its lease's end";
        checks.into_iter().try_for_each(|(entity, sql)| self.each_found("index", entity, sql, what))
    }

    /// Makes a problem of each record, given by project and id, that a statement finds.
    fn each_found(&mut self, kind: &'static str, entity: Entity, sql: &'static str, what: &str) -> Outcome<()> {
        let db = self.db;
        let mut statement = db.statement(sql)?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let id = Id::from(row.get::<_, String>(1)?);
            let problem = Problem::new(kind, what);
            self.report.push(match db.name(Kind::Project, 0, row.get(0)?) {
                Ok(project) => problem.of(entity, &project, &id),
                Err(_) => problem,
            });
        }
        Ok(())
    }

    /// The large values were counted through their records, so that any others belong to none.
    fn values(&mut self) -> Outcome<()> {
        let stored = self.db.query_one("SELECT count(*) FROM large_value", [], |row| row.get::<_, i64>(0))?.unwrap_or(0) as u64;
        if stored != self.large_values {
            let what = format!("{stored} large values are stored, and {} belong to records", self.large_values);
            self.report.push(Problem::new("reference", what));
        }
        Ok(())
    }

    fn counters(&mut self) -> Outcome<()> {
        let checks = [
            (Entity::Run, Kind::Project, "", "project"),
            (Entity::Agent, Kind::Project, "agents_", "project"),
            (Entity::Run, Kind::Workflow, "", "workflow"),
            (Entity::Agent, Kind::Agent, "", "agent"),
        ];
        for (entity, kind, prefix, table) in checks {
            let columns: Vec<String> = Status::ALL.iter().map(|status| format!("{prefix}{status}")).collect();
            let project = if kind == Kind::Project { "key" } else { "project" };
            let mut statement = self.db.conn.prepare(&format!("SELECT {}, key, id, {project} FROM {table}", columns.join(", ")))?;
            let mut rows = statement.query([])?;
            while let Some(row) = rows.next()? {
                let stored = read_counts(row, 0)?;
                let counted = self.counted.remove(&(entity, kind, row.get(6)?)).unwrap_or_default();
                // A project without agent runs is nothing unusual; a name that no record has should be gone.
                let unused = counted.total() == 0 && prefix.is_empty();
                if stored == counted && !unused {
                    continue;
                }
                let id = row.get::<_, String>(7)?;
                let what = format!("{table} '{id}' counts {:?} {}s by status, and there are {:?}", stored.0, entity.as_str(), counted.0);
                let mut problem = Problem::new("counter", what);
                problem.entity = Some(entity);
                problem.project_id = self.db.name(Kind::Project, 0, row.get(8)?).ok();
                self.report.push(problem);
            }
        }
        Ok(())
    }
}

/// A record that can't be read at all.
fn problem_of(entity: Entity, fault: Fault) -> Problem {
    let error = match fault {
        Fault::Ledger(error) => error,
        Fault::Engine(_) => Error::corrupt("a row can't be read"),
    };
    let details = error.details();
    let problem = Problem::new("record", error.message());
    match (&details.project_id, &details.id) {
        (Some(project), Some(id)) => problem.of(entity, project, id),
        _ => Problem { entity: Some(entity), ..problem },
    }
}
