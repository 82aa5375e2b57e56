//! Holds a store against itself.

use std::collections::HashMap;

use runledger_core::codec;
use runledger_core::{AgentRun, Code, Entity, Id, NodeRun, Problem, Run, VerifyReport};
use tokio_postgres::Row;

use crate::error::{Fault, Outcome};
use crate::export::{each_row, whole};
use crate::pool::{Connector, Session};
use crate::rows::{Columns, Kept, read_unchecked, read_values};
use crate::schema::TABLES;
use crate::statement::Statement;

/// A counter: project, kind, name and status.
type Counter = (Id, i16, Id, i16);

struct Check<'a> {
    connector: &'a Connector,
    session: &'a Session,
    report: VerifyReport,
    /// What the counters must say.
    counted: HashMap<Counter, i64>,
    large_values: u64,
}

/// Checks everything that one state of the store can tell, within the transaction that the session has open.
pub(crate) fn verify(connector: &Connector, session: &Session) -> Outcome<VerifyReport> {
    let mut check = Check { connector, session, report: VerifyReport::default(), counted: HashMap::new(), large_values: 0 };
    check.report.checked.runs = check.records::<Run>()?;
    check.report.checked.nodes = check.records::<NodeRun>()?;
    check.report.checked.agents = check.records::<AgentRun>()?;
    check.references()?;
    check.leases()?;
    check.values()?;
    check.counters()?;
    Ok(check.report)
}

impl Check<'_> {
    fn records<R: Kept>(&mut self) -> Outcome<u64> {
        let (connector, session) = (self.connector, self.session);
        let mut checked = 0;
        each_row(connector, session, &whole::<R>(), &mut |row| {
            checked += 1;
            self.record::<R>(row)
        })?;
        Ok(checked)
    }

    fn record<R: Kept>(&mut self, row: &Row) -> Outcome<()> {
        let (stored, checksum) = match read_unchecked::<R>(row) {
            Ok(read) => read,
            Err(fault) => return self.unreadable(R::ENTITY, fault),
        };
        let record = &stored.record;
        let (project, id) = (record.project_id(), record.key_id());
        if let Some(name) = record.counted_under() {
            for name in [Id::from(""), name.clone()] {
                *self.counted.entry((project.clone(), R::kind(), name, record.status() as i16)).or_default() += 1;
            }
        }
        let report = &mut self.report;
        let mut push = |kind, message: &str| report.push(Problem::new(kind, message).of(R::ENTITY, project, id));
        if codec::state_checksum(record, stored.held) as i64 != checksum {
            push("checksum", "its state does not match its checksum");
        }
        let mut whole = record.clone();
        let Some(values) = read_values::<R>(row, record) else {
            push("record", "its large values can't be read");
            return Ok(());
        };
        self.large_values += values.len() as u64;
        for large in values {
            let name = R::LARGE.get(large.slot).unwrap_or(&"value");
            if !large.is_sound {
                push("checksum", &format!("its {name} does not match its checksum"));
            }
            if stored.held.contains(large.slot) {
                whole.set_large(large.slot, large.value);
            } else {
                push("reference", &format!("it has a {name} that it should not have"));
            }
        }
        for slot in stored.held.slots().filter(|slot| whole.large(*slot).is_none()) {
            push("reference", &format!("its {} is missing", R::LARGE.get(slot).unwrap_or(&"value")));
        }
        if let Err(broken) = whole.coherence() {
            push("record", broken);
        }
        Ok(())
    }

    /// A record that can't be read at all is a problem like any other.
    fn unreadable(&mut self, entity: Entity, fault: Fault) -> Outcome<()> {
        let Fault::Ledger(error) = fault else { return Err(fault) };
        if error.code() != Code::Corrupt {
            return Err(error.into());
        }
        let problem = Problem::new("record", error.message());
        self.report.push(match (&error.details().project_id, &error.details().id) {
            (Some(project), Some(id)) => problem.of(entity, project, id),
            _ => Problem { entity: Some(entity), ..problem },
        });
        Ok(())
    }

    /// What refers to something that is not there.
    fn references(&mut self) -> Outcome<()> {
        let runs = "SELECT n.project, n.id FROM @.node_run n WHERE NOT EXISTS \
                    (SELECT FROM @.run r WHERE r.project = n.project AND r.id = n.run)";
        self.each_found("reference", Entity::Node, runs, "its run is missing")?;
        let nodes = "SELECT a.project, a.id FROM @.agent_run a WHERE NOT EXISTS \
                     (SELECT FROM @.node_run n WHERE n.project = a.project AND n.id = a.id AND n.node_type = 'agent')";
        self.each_found("reference", Entity::Agent, nodes, "its node run is missing or not of type agent")
    }

    /// The bucket of a lease is stored beside its end.
    fn leases(&mut self) -> Outcome<()> {
        for (entity, table) in [(Entity::Run, "run"), (Entity::Agent, "agent_run")] {
            let sql = format!("SELECT t.project, t.id FROM @.{table} t WHERE t.lease_bucket IS DISTINCT FROM t.lease_ends_at >> 26");
            self.each_found("index", entity, &sql, "the index of leases has it in another place than its lease's end")?;
        }
        Ok(())
    }

    /// Makes a problem of each record, given by project and id, that a statement finds.
    fn each_found(&mut self, kind: &'static str, entity: Entity, sql: &str, what: &str) -> Outcome<()> {
        let report = &mut self.report;
        each_row(self.connector, self.session, sql, &mut |row| {
            let (columns, problem) = (Columns(row), Problem::new(kind, what));
            report.push(match (columns.id(0), columns.id(1)) {
                (Some(project), Some(id)) => problem.of(entity, &project, &id),
                _ => Problem { entity: Some(entity), ..problem },
            });
            Ok(())
        })
    }

    /// The large values were counted through their records, so that any others belong to none.
    fn values(&mut self) -> Outcome<()> {
        let mut stored = 0;
        each_row(self.connector, self.session, "SELECT count(*) FROM @.large_value", &mut |row| {
            stored = Columns(row).get::<i64>(0).and_then(|count| u64::try_from(count).ok()).unwrap_or(0);
            Ok(())
        })?;
        if stored != self.large_values {
            let what = format!("{stored} large values are stored, and {} belong to records", self.large_values);
            self.report.push(Problem::new("reference", what));
        }
        Ok(())
    }

    fn counters(&mut self) -> Outcome<()> {
        let mut counted = std::mem::take(&mut self.counted);
        let sql =
            "SELECT project, kind, name, status, sum(n)::bigint FROM @.counter GROUP BY project, kind, name, status HAVING sum(n) <> 0";
        let report = &mut self.report;
        each_row(self.connector, self.session, sql, &mut |row| {
            let columns = Columns(row);
            let read = || Some(((columns.id(0)?, columns.get::<i16>(1)?, columns.id(2)?, columns.get::<i16>(3)?), columns.get::<i64>(4)?));
            match read() {
                Some((counter, n)) => {
                    let records = counted.remove(&counter).unwrap_or_default();
                    if n != records {
                        report.push(wrong_counter(&counter, n, records));
                    }
                }
                None => report.push(Problem::new("counter", "a counter can't be read")),
            }
            Ok(())
        })?;
        for (counter, records) in counted {
            self.report.push(wrong_counter(&counter, 0, records));
        }
        Ok(())
    }
}

fn wrong_counter((project, kind, name, status): &Counter, n: i64, records: i64) -> Problem {
    let entity = if *kind == AgentRun::kind() { Entity::Agent } else { Entity::Run };
    let of = if name.is_empty() { "the project".to_owned() } else { format!("'{name}'") };
    let what = format!("of status {status} {of} counts {n} {}s, and there are {records}", entity.as_str());
    let mut problem = Problem::new("counter", what);
    (problem.entity, problem.project_id) = (Some(entity), Some(project.clone()));
    problem
}

/// Has the server check its indexes against its tables, where the extension amcheck is installed and permitted.
pub(crate) fn check_engine(connector: &Connector, session: &Session, report: &mut VerifyReport) -> Outcome<()> {
    let may = "SELECT x.extname IS NOT NULL AND n.nspname IS NOT NULL \
               AND has_schema_privilege(n.oid, 'USAGE') AND has_function_privilege(p.oid, 'EXECUTE'), quote_ident(n.nspname) \
               FROM pg_extension x JOIN pg_namespace n ON n.oid = x.extnamespace \
               JOIN pg_proc p ON p.pronamespace = n.oid AND p.proname = 'bt_index_check' AND p.pronargs = 2 WHERE x.extname = 'amcheck'";
    let answers = connector.ask(session, &[Statement::new(may)])?;
    let row = answers.first().and_then(|rows| rows.first()).map(Columns);
    let Some(place) = row.filter(|row| row.get(0) == Some(true)).and_then(|row| row.get::<String>(1)) else { return Ok(()) };
    let indexes = Statement::new(
        "SELECT i.indexrelid::bigint, c.relname::text FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid \
         JOIN pg_class t ON t.oid = i.indrelid JOIN pg_namespace n ON n.oid = t.relnamespace \
         WHERE n.nspname = $1 AND t.relname = ANY($2::text[]) ORDER BY c.relname",
    );
    let answers = connector.ask(session, &[indexes.text(&connector.address.schema).texts(TABLES.iter().copied())])?;
    for row in answers.iter().flatten() {
        let columns = Columns(row);
        let (Some(oid), Some(name)) = (columns.get::<i64>(0), columns.get::<&str>(1)) else { continue };
        let sql = format!("SELECT {place}.bt_index_check({oid}::oid::regclass, true)");
        match connector.ask_patiently(session, &[Statement::simple(sql)]) {
            Ok(_) => {}
            Err(fault) if fault.state().is_some_and(|state| state.starts_with("XX")) => {
                report.push(Problem::new("index", format!("the index {name} does not hold what its table does")));
            }
            Err(fault) => return Err(fault),
        }
    }
    report.engine_check_done = true;
    Ok(())
}
