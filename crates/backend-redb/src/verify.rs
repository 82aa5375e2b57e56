//! Verification: whatever can be derived from the records is derived again, and held against what is stored.

use std::collections::BTreeMap;

use redb::ReadableTableMetadata;
use runledger_core::codec::StateCodec;
use runledger_core::keys::{Key, KeyReader};
use runledger_core::{
    AgentRun, AnswerForm, Code, Entity, Id, Meter, NodeRun, OnProgress, Problem, Record, Result, Run, Stage, Stored, VerifyReport,
};

use crate::error::{Coded, guarded};
use crate::query::{View, count_of};
use crate::schema::{self, Definition, Entry, Reads};
use crate::value;

/// Adds what the engine's own check found.
pub(crate) fn note_engine(report: &mut VerifyReport, sound: bool) {
    report.engine_check_done = true;
    if !sound {
        report.push(Problem::new("engine", "the engine found pages that are not as it wrote them"));
    }
}

/// Checks one state of the store. What can't be read at all is a problem of the engine's kind, and ends the part that
/// met it.
pub(crate) fn verify<'v>(view: &'v View, report: &'v mut VerifyReport, on_progress: OnProgress<'v>) -> Result<()> {
    let meter = Meter::start(on_progress, Stage::Verifying, rows_to_check(view).ok())?;
    let parts: [fn(&mut Check<'v>) -> Result<()>; 6] =
        [Check::runs, Check::nodes, Check::agents, Check::indexes, Check::large_values, Check::counters];
    let mut check = Check { view, report, meter, counters: BTreeMap::new() };
    for part in parts {
        match guarded(|| part(&mut check)) {
            Err(error) if error.code() == Code::Corrupt => check.report.push(Problem::new("engine", error.message())),
            result => result?,
        }
    }
    check.meter.finish()
}

/// How many rows are read to check the records and the entries that lead to them.
fn rows_to_check(view: &View) -> Result<u64> {
    let tables = [schema::RUNS, schema::NODES, schema::NODE_IDS, schema::AGENTS, schema::LARGE].into_iter();
    guarded(|| tables.chain(schema::RUN_INDEXES).chain(schema::AGENT_INDEXES).map(|table| view.table(table)?.len().coded()).sum())
}

struct Check<'v> {
    view: &'v View,
    report: &'v mut VerifyReport,
    meter: Meter<'v>,
    /// What each counter must be, by its table and key.
    counters: BTreeMap<(&'static str, Vec<u8>), u64>,
}

const RUN_COUNTS: &str = "runs of a workflow";
const AGENT_COUNTS: &str = "agent runs of an agent";
const PROJECTS: &str = "runs of a project";

impl Check<'_> {
    fn problem<R: Record>(&mut self, kind: &'static str, message: impl Into<String>, project: &Id, id: &Id) {
        self.report.push(Problem::new(kind, message).of(R::ENTITY, project, id));
    }

    /// Reads a record and checks all that it says by itself: checksums, large values, and whether its fields fit.
    fn record<R: StateCodec>(&mut self, project: &Id, id: &Id, row: &[u8]) -> Result<Option<R>> {
        let large = self.view.table(schema::LARGE)?;
        let (Stored { mut record, held, .. }, inline) = match value::parse::<R>(project, id, row) {
            Ok(parsed) => parsed,
            Err(error) => {
                self.problem::<R>("checksum", error.message(), project, id);
                return Ok(None);
            }
        };
        // The rules of a record speak of what is there and what is not, and so need the large values as much as the rest.
        for slot in held.slots() {
            let text = match inline.get(slot) {
                Some(text) => Ok(Some(text.into())),
                None => value::find_apart(&large, R::ENTITY, project, id, slot),
            };
            match text {
                Ok(Some(text)) => record.set_large(slot, text),
                Ok(None) => self.problem::<R>("reference", "one of its large values is not there", project, id),
                Err(error) => self.problem::<R>("checksum", error.message(), project, id),
            }
        }
        if let Err(broken) = record.coherence() {
            self.problem::<R>("record", broken, project, id);
        }
        Ok(Some(record))
    }

    fn entries<const N: usize, R: Record>(&mut self, record: &R, tables: [Definition; N], entries: [Option<Entry>; N]) -> Result<()> {
        for (table, entry) in tables.into_iter().zip(entries) {
            let Some((key, value)) = entry else { continue };
            let index = self.view.table(table)?;
            let found = index.get(key.0.as_slice()).coded()?;
            if found.is_none_or(|found| found.value() != value) {
                self.problem::<R>(
                    "index",
                    format!("its entry in '{}' is wrong or not there", name(table)),
                    record.project_id(),
                    record.key_id(),
                );
            }
        }
        Ok(())
    }

    fn expect(&mut self, table: &'static str, key: Key) {
        *self.counters.entry((table, key.0)).or_default() += 1;
    }

    fn runs(&mut self) -> Result<()> {
        for row in all(&self.view.table(schema::RUNS)?)? {
            self.meter.advance(1)?;
            let (key, row) = row.coded()?;
            let Some((project, id)) = self.record_key(Entity::Run, key.value()) else { continue };
            self.report.checked.runs += 1;
            let Some(run) = self.record::<Run>(&project, &id, row.value())? else { continue };
            self.entries(&run, schema::RUN_INDEXES, schema::run_entries(&run))?;
            schema::run_counters(&run).into_iter().for_each(|key| self.expect(RUN_COUNTS, key));
            self.expect(PROJECTS, Key::new().id(&project));
        }
        Ok(())
    }

    fn nodes(&mut self) -> Result<()> {
        let (node_ids, runs) = (self.view.table(schema::NODE_IDS)?, self.view.table(schema::RUNS)?);
        for row in all(&self.view.table(schema::NODES)?)? {
            self.meter.advance(1)?;
            let (key, row) = row.coded()?;
            let Some((project, id)) = KeyReader(key.value()).id().zip(schema::node_id(key.value())) else {
                self.bad_key(Entity::Node);
                continue;
            };
            self.report.checked.nodes += 1;
            let place = node_ids.get(schema::record_key(&project, &id).0.as_slice()).coded()?;
            if place.is_none_or(|place| schema::placed_node_key(&project, &id, place.value()).0 != key.value()) {
                self.problem::<NodeRun>("index", "its entry in 'node ids' is wrong or not there", &project, &id);
            }
            let Some(node) = self.record::<NodeRun>(&project, &id, row.value())? else { continue };
            if schema::node_key(&node).0 != key.value() {
                self.problem::<NodeRun>("index", "it stands in another place than its fields say", &project, &id);
            }
            let run = runs.get(schema::record_key(&project, &node.workflow_run_id).0.as_slice()).coded()?;
            match run.map(|run| value::parse::<Run>(&project, &node.workflow_run_id, run.value()).map(|(run, _)| run.record)) {
                None => self.problem::<NodeRun>("reference", "its run is not there", &project, &id),
                Some(Ok(run)) if run.workflow_id != node.workflow_id => {
                    self.problem::<NodeRun>("reference", "its run is of another workflow", &project, &id);
                }
                // A run that can't be read is a problem of its own.
                Some(_) => {}
            }
        }
        Ok(())
    }

    fn agents(&mut self) -> Result<()> {
        for row in all(&self.view.table(schema::AGENTS)?)? {
            self.meter.advance(1)?;
            let (key, row) = row.coded()?;
            let Some((project, id)) = self.record_key(Entity::Agent, key.value()) else { continue };
            self.report.checked.agents += 1;
            let Some(agent) = self.record::<AgentRun>(&project, &id, row.value())? else { continue };
            self.entries(&agent, schema::AGENT_INDEXES, schema::agent_entries(&agent))?;
            schema::agent_counters(&agent).into_iter().for_each(|key| self.expect(AGENT_COUNTS, key));
            match self.view.get_node(&project, &id, AnswerForm::State) {
                Ok(Some(node)) if node.is_agent_node() => {}
                Ok(Some(_)) => self.problem::<AgentRun>("reference", "its node run is not of type agent", &project, &id),
                Ok(None) => self.problem::<AgentRun>("reference", "its node run is not there", &project, &id),
                Err(error) => {
                    self.problem::<AgentRun>("reference", format!("its node run can't be read: {}", error.message()), &project, &id)
                }
            }
        }
        Ok(())
    }

    /// The other way: every entry of an index must be one that its record has.
    fn indexes(&mut self) -> Result<()> {
        for (at, table) in schema::RUN_INDEXES.into_iter().enumerate() {
            self.index::<Run, 4>(table, at, schema::RUNS, schema::run_entries)?;
        }
        for (at, table) in schema::AGENT_INDEXES.into_iter().enumerate() {
            self.index::<AgentRun, 3>(table, at, schema::AGENTS, schema::agent_entries)?;
        }
        let nodes = self.view.table(schema::NODES)?;
        for row in all(&self.view.table(schema::NODE_IDS)?)? {
            self.meter.advance(1)?;
            let (key, place) = row.coded()?;
            let Some((project, id)) = self.record_key(Entity::Node, key.value()) else { continue };
            let node_key = schema::placed_node_key(&project, &id, place.value());
            if nodes.get(node_key.0.as_slice()).coded()?.is_none() {
                self.problem::<NodeRun>("index", "'node ids' names a node run that is not there", &project, &id);
            }
        }
        Ok(())
    }

    fn index<R: StateCodec, const N: usize>(
        &mut self,
        table: Definition,
        at: usize,
        records: Definition,
        entries: fn(&R) -> [Option<Entry>; N],
    ) -> Result<()> {
        let records = self.view.table(records)?;
        for row in all(&self.view.table(table)?)? {
            self.meter.advance(1)?;
            let (key, _) = row.coded()?;
            let Some((project, id)) = schema::indexed_record(table, key.value()) else {
                self.bad_key(R::ENTITY);
                continue;
            };
            let Some(record) = records.get(schema::record_key(&project, &id).0.as_slice()).coded()? else {
                self.problem::<R>("index", format!("'{}' names it, but it is not there", name(table)), &project, &id);
                continue;
            };
            // A record that can't be read is a problem of its own, and so is a value that differs.
            let Ok((stored, _)) = value::parse::<R>(&project, &id, record.value()) else { continue };
            if entries(&stored.record)[at].as_ref().is_none_or(|(entry, _)| entry.0 != key.value()) {
                self.problem::<R>("index", format!("'{}' has an entry that it must not have", name(table)), &project, &id);
            }
        }
        Ok(())
    }

    /// Every large value apart must be one that a record holds.
    fn large_values(&mut self) -> Result<()> {
        for row in all(&self.view.table(schema::LARGE)?)? {
            self.meter.advance(1)?;
            let (key, _) = row.coded()?;
            match schema::read_large_key(key.value()) {
                Some((Entity::Run, project, id, slot)) => {
                    let record = self.view.table(schema::RUNS)?.get(schema::record_key(&project, &id).0.as_slice()).coded()?;
                    self.large_value::<Run>(record.map(|row| row.value().to_vec()), &project, &id, slot);
                }
                Some((Entity::Node, project, id, slot)) => {
                    let place = self.view.table(schema::NODE_IDS)?.get(schema::record_key(&project, &id).0.as_slice()).coded()?;
                    let key = place.map(|place| schema::placed_node_key(&project, &id, place.value()));
                    let record = key.map(|key| self.view.table(schema::NODES)?.get(key.0.as_slice()).coded()).transpose()?.flatten();
                    self.large_value::<NodeRun>(record.map(|row| row.value().to_vec()), &project, &id, slot);
                }
                Some((Entity::Agent, project, id, slot)) => {
                    let record = self.view.table(schema::AGENTS)?.get(schema::record_key(&project, &id).0.as_slice()).coded()?;
                    self.large_value::<AgentRun>(record.map(|row| row.value().to_vec()), &project, &id, slot);
                }
                _ => self.bad_key(Entity::Store),
            }
        }
        Ok(())
    }

    fn large_value<R: StateCodec>(&mut self, record: Option<Vec<u8>>, project: &Id, id: &Id, slot: usize) {
        let is_held = match &record {
            Some(row) => match value::parse::<R>(project, id, row) {
                Ok((stored, inline)) => inline.apart(stored.held).any(|held| held == slot),
                // A record that can't be read is a problem of its own.
                Err(_) => true,
            },
            None => false,
        };
        if !is_held {
            self.problem::<R>("reference", "a large value is stored that it does not have", project, id);
        }
    }

    fn counters(&mut self) -> Result<()> {
        for (what, table) in [(RUN_COUNTS, schema::RUN_COUNTS), (AGENT_COUNTS, schema::AGENT_COUNTS), (PROJECTS, schema::PROJECTS)] {
            for row in all(&self.view.table(table)?)? {
                let (key, count) = row.coded()?;
                let expected = self.counters.remove(&(what, key.value().to_vec())).unwrap_or(0);
                match count_of(count.value()) {
                    Ok(count) if count == expected => {}
                    Ok(count) => self.counter(what, key.value(), &format!("{count}"), expected),
                    Err(_) => self.counter(what, key.value(), "unreadable", expected),
                }
            }
        }
        for ((what, key), expected) in std::mem::take(&mut self.counters) {
            self.counter(what, &key, "not there", expected);
        }
        Ok(())
    }

    fn counter(&mut self, what: &str, key: &[u8], found: &str, expected: u64) {
        let mut problem = Problem::new("counter", format!("the counter of {what} is {found}, and must be {expected}"));
        problem.project_id = KeyReader(key).id();
        self.report.push(problem);
    }

    fn record_key(&mut self, entity: Entity, key: &[u8]) -> Option<(Id, Id)> {
        let mut reader = KeyReader(key);
        let parts = reader.id().zip(reader.id()).filter(|_| reader.0.is_empty());
        if parts.is_none() {
            self.bad_key(entity);
        }
        parts
    }

    fn bad_key(&mut self, entity: Entity) {
        let mut problem = Problem::new("index", "there is a key that can't be read");
        problem.entity = Some(entity);
        self.report.push(problem);
    }
}

fn all(table: &Reads) -> Result<redb::Range<'static, schema::Bytes, schema::Bytes>> {
    table.range::<&[u8]>(..).coded()
}

fn name(table: Definition) -> String {
    use redb::TableHandle;
    table.name().to_owned()
}
