//! A complete backend in one file, and the suite that says whether it behaves: `cargo run --example custom_backend`.
//!
//! A backend only stores: core decides, and hands it whole records. This one keeps them in three sorted maps and answers
//! lists by looking at every record, which is right and slow. A real one keeps an index for each order.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::{Mutex, MutexGuard, PoisonError};

use runledger::{
    AgentFilter, AgentRun, AnswerForm, Backend, Code, CompactReport, Deleted, EndedFilter, Entity, Error, ExpiredFilter, ExportRecord, Id,
    Ledger, Listed, Mode, NodeFilter, NodeRun, OpenOptions, Order, PageRequest, PageStart, ProjectSummary, Put, Record, Result, Rows, Run,
    RunFilter, RunStats, Status, StatusCounts, StoreInfo, Stored, Time, Tx, VerifyReport, Work,
};
use runledger_conformance::{LedgerHarness, Traits, run_all};

type Records<R> = BTreeMap<(Id, Id), R>;

#[derive(Default)]
struct Store {
    runs: Records<Run>,
    nodes: Records<NodeRun>,
    agents: Records<AgentRun>,
}

/// How to take one change back.
type Undo = Box<dyn FnOnce(&mut Store)>;

/// One transaction: it changes the store in place and remembers how to take each change back.
struct Transaction<'a> {
    store: MutexGuard<'a, Store>,
    undo: Vec<Undo>,
    mark: usize,
}

impl Transaction<'_> {
    fn rewind(&mut self, to: usize) {
        for undo in self.undo.drain(to..).rev() {
            undo(&mut self.store);
        }
    }
}

/// A transaction that was not committed leaves nothing behind, even where the work in it panicked.
impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        self.rewind(0);
    }
}

fn key(project: &Id, id: &Id) -> (Id, Id) {
    (project.clone(), id.clone())
}

fn in_form<R: Record>(record: &R, form: AnswerForm) -> R {
    match form {
        AnswerForm::Record => record.clone(),
        AnswerForm::State => record.clone().into_state(),
    }
}

fn load<R: Record>(record: Option<&R>, form: AnswerForm) -> Option<Stored<R>> {
    record.map(|record| Stored { record: in_form(record, form), held: record.held(), handle: 0 })
}

/// The record as it must be from now on: a change does not carry the large values that it leaves as they are.
fn merged<R: Record>(put: &Put<R>, present: Option<&R>) -> R {
    let mut record = put.after.record.clone();
    for slot in put.after.held.slots() {
        if let (None, Some(value)) = (record.large(slot), present.and_then(|present| present.large(slot))) {
            record.set_large(slot, value.into());
        }
    }
    record
}

/// Inserts, replaces or removes a record; `records` says which map is its own.
fn change<R: Record>(tx: &mut Transaction<'_>, records: fn(&mut Store) -> &mut Records<R>, key: (Id, Id), record: Option<R>) {
    let set = move |store: &mut Store, key: (Id, Id), record: Option<R>| match record {
        Some(record) => records(store).insert(key, record),
        None => records(store).remove(&key),
    };
    let before = set(&mut tx.store, key.clone(), record);
    tx.undo.push(Box::new(move |store| drop(set(store, key, before))));
}

impl Tx for Transaction<'_> {
    fn run(&mut self, project: &Id, id: &Id, form: AnswerForm) -> Result<Option<Stored<Run>>> {
        Ok(load(self.store.runs.get(&key(project, id)), form))
    }

    fn node(&mut self, project: &Id, id: &Id, form: AnswerForm) -> Result<Option<Stored<NodeRun>>> {
        Ok(load(self.store.nodes.get(&key(project, id)), form))
    }

    fn agent(&mut self, project: &Id, node_run_id: &Id, form: AnswerForm) -> Result<Option<Stored<AgentRun>>> {
        Ok(load(self.store.agents.get(&key(project, node_run_id)), form))
    }

    fn next_run(&mut self, project: &Id, workflow_ids: Option<&[Id]>, form: AnswerForm) -> Result<Option<Stored<Run>>> {
        let is_wanted = |run: &&Run| workflow_ids.is_none_or(|ids| ids.binary_search(&run.workflow_id).is_ok());
        let queued = self.store.runs.values().filter(|run| run.project_id == *project && run.status == Status::Queued);
        Ok(load(queued.filter(is_wanted).min_by_key(|run| (run.queued_at, &run.id)), form))
    }

    fn next_agent(&mut self, project: &Id, agent_ids: Option<&[Id]>, form: AnswerForm) -> Result<Option<Stored<AgentRun>>> {
        let is_wanted = |agent: &&AgentRun| agent_ids.is_none_or(|ids| ids.binary_search(&agent.agent_id).is_ok());
        let queued = self.store.agents.values().filter(|agent| agent.project_id == *project && agent.status == Status::Queued);
        Ok(load(queued.filter(is_wanted).min_by_key(|agent| (agent.created_at, &agent.node_run_id)), form))
    }

    fn nodes_of(&mut self, run: &Stored<Run>) -> Result<Vec<Stored<NodeRun>>> {
        let run = &run.record;
        let nodes = self.store.nodes.values().filter(|node| node.project_id == run.project_id && node.workflow_run_id == run.id);
        Ok(nodes.filter_map(|node| load(Some(node), AnswerForm::State)).collect())
    }

    fn ended_runs(&mut self, filter: &EndedFilter, limit: usize) -> Result<Vec<Stored<Run>>> {
        let mut runs: Vec<&Run> = self.store.runs.values().filter(|run| filter.matches(run)).collect();
        runs.sort_by_key(|run| (run.finished_at, &run.id));
        Ok(runs.into_iter().take(limit).filter_map(|run| load(Some(run), AnswerForm::State)).collect())
    }

    fn put_run(&mut self, put: &Put<Run>) -> Result<()> {
        let key = key(&put.after.record.project_id, &put.after.record.id);
        let run = merged(put, self.store.runs.get(&key));
        change(self, |store| &mut store.runs, key, Some(run));
        Ok(())
    }

    fn put_node(&mut self, put: &Put<NodeRun>) -> Result<()> {
        let key = key(&put.after.record.project_id, &put.after.record.id);
        let node = merged(put, self.store.nodes.get(&key));
        change(self, |store| &mut store.nodes, key, Some(node));
        Ok(())
    }

    fn put_agent(&mut self, put: &Put<AgentRun>) -> Result<()> {
        let key = key(&put.after.record.project_id, &put.after.record.node_run_id);
        let agent = merged(put, self.store.agents.get(&key));
        change(self, |store| &mut store.agents, key, Some(agent));
        Ok(())
    }

    fn delete_run(&mut self, run: &Stored<Run>) -> Result<Deleted> {
        let mut deleted = Deleted { runs: 1, ..Deleted::default() };
        for node in self.nodes_of(run)? {
            let key = key(&node.record.project_id, &node.record.id);
            if self.store.agents.contains_key(&key) {
                change(self, |store| &mut store.agents, key.clone(), None);
                deleted.agents += 1;
            }
            change(self, |store| &mut store.nodes, key, None);
            deleted.nodes += 1;
        }
        change(self, |store| &mut store.runs, key(&run.record.project_id, &run.record.id), None);
        Ok(deleted)
    }

    fn clear(&mut self) -> Result<()> {
        let before = std::mem::take(&mut *self.store);
        self.undo.push(Box::new(move |store| *store = before));
        Ok(())
    }

    fn mark(&mut self) -> Result<bool> {
        self.mark = self.undo.len();
        Ok(true)
    }

    fn undo(&mut self) -> Result<()> {
        self.rewind(self.mark);
        Ok(())
    }
}

/// A backend that keeps its records in maps.
struct MapBackend {
    store: Mutex<Store>,
    options: OpenOptions,
}

/// A page of the rows that match, given in any order.
fn page<T: Listed>(rows: impl Iterator<Item = T>, page: &PageRequest) -> Rows<T> {
    let mut rows: Vec<T> = rows.collect();
    match page.order {
        Order::Asc => rows.sort_by_cached_key(T::position),
        Order::Desc => rows.sort_by_cached_key(|row| Reverse(row.position())),
    }
    let total = rows.len();
    let passed_over = match &page.start {
        PageStart::Offset(offset) => usize::try_from(*offset).unwrap_or(usize::MAX).min(total),
        PageStart::After(place) => rows.partition_point(|row| page.order.apply(row.position().cmp(place)).is_le()),
    };
    let has_more = total - passed_over > page.limit;
    let rows = rows.into_iter().skip(passed_over).take(page.limit).collect();
    Rows { rows, total: page.with_total.then_some(total as u64), has_more }
}

/// Those with the earliest leases, and whether there are more.
fn expired<'a, R: Record>(leased: impl Iterator<Item = (Time, &'a R)>, filter: &ExpiredFilter, form: AnswerForm) -> (Vec<R>, bool) {
    let is_wanted = |record: &R| filter.project_id.as_ref().is_none_or(|project| project == record.project_id());
    let mut found: Vec<_> = leased.filter(|(end, record)| *end <= filter.expired_by && is_wanted(record)).collect();
    found.sort_by_key(|(end, record)| (*end, record.project_id(), record.key_id()));
    let has_more = found.len() > filter.limit;
    (found.into_iter().take(filter.limit).map(|(_, record)| in_form(record, form)).collect(), has_more)
}

impl MapBackend {
    /// Always a new store, so an option that asks for one that is there can't be kept.
    fn open(options: &OpenOptions) -> Result<Self> {
        options.refuse_journal("maps")?;
        if options.mode != Mode::Create {
            return Err(Error::new(Code::Io, "a store in maps is never there before it is opened").with_entity(Entity::Store));
        }
        Ok(MapBackend { store: Mutex::default(), options: options.clone() })
    }

    fn store(&self) -> MutexGuard<'_, Store> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Backend for MapBackend {
    fn write(&self, work: &mut dyn Work) -> Result<()> {
        let mut tx = Transaction { store: self.store(), undo: Vec::new(), mark: 0 };
        work.run(&mut tx)?;
        // Nothing is left to take back: this is the commit.
        tx.undo.clear();
        Ok(())
    }

    fn shares_commits(&self) -> bool {
        false
    }

    fn broken(&self) -> Option<Error> {
        None
    }

    fn get_run(&self, project: &Id, id: &Id, form: AnswerForm) -> Result<Option<Run>> {
        Ok(self.store().runs.get(&key(project, id)).map(|run| in_form(run, form)))
    }

    fn get_node(&self, project: &Id, id: &Id, form: AnswerForm) -> Result<Option<NodeRun>> {
        Ok(self.store().nodes.get(&key(project, id)).map(|node| in_form(node, form)))
    }

    fn get_agent(&self, project: &Id, node_run_id: &Id, form: AnswerForm) -> Result<Option<AgentRun>> {
        Ok(self.store().agents.get(&key(project, node_run_id)).map(|agent| in_form(agent, form)))
    }

    fn list_runs(&self, filter: &RunFilter, request: &PageRequest) -> Result<Rows<Run>> {
        let store = self.store();
        Ok(page(store.runs.values().filter(|run| filter.matches(run)).map(|run| in_form(run, request.form)), request))
    }

    fn list_nodes(&self, filter: &NodeFilter, request: &PageRequest) -> Result<Rows<NodeRun>> {
        let store = self.store();
        Ok(page(store.nodes.values().filter(|node| filter.matches(node)).map(|node| in_form(node, request.form)), request))
    }

    fn list_agents(&self, filter: &AgentFilter, request: &PageRequest) -> Result<Rows<AgentRun>> {
        let store = self.store();
        Ok(page(store.agents.values().filter(|agent| filter.matches(agent)).map(|agent| in_form(agent, request.form)), request))
    }

    fn list_projects(&self, request: &PageRequest) -> Result<Rows<ProjectSummary>> {
        let mut counts: BTreeMap<Id, u64> = BTreeMap::new();
        for run in self.store().runs.values() {
            *counts.entry(run.project_id.clone()).or_default() += 1;
        }
        Ok(page(counts.into_iter().map(|(project_id, runs)| ProjectSummary { project_id, runs }), request))
    }

    fn latest_runs(&self, project: &Id, workflow_ids: &[Id], form: AnswerForm) -> Result<Vec<Run>> {
        let store = self.store();
        let latest = |workflow: &Id| {
            let runs = store.runs.values().filter(|run| run.project_id == *project && run.workflow_id == *workflow);
            runs.max_by_key(|run| (run.started_at, &run.id))
        };
        Ok(workflow_ids.iter().filter_map(latest).map(|run| in_form(run, form)).collect())
    }

    fn expired_runs(&self, filter: &ExpiredFilter, form: AnswerForm) -> Result<(Vec<Run>, bool)> {
        let store = self.store();
        let leased = store.runs.values().filter_map(|run| Some((run.execution.as_ref()?.lease_expires_at, run)));
        Ok(expired(leased, filter, form))
    }

    fn expired_agents(&self, filter: &ExpiredFilter, form: AnswerForm) -> Result<(Vec<AgentRun>, bool)> {
        let store = self.store();
        let leased = store.agents.values().filter_map(|agent| Some((agent.execution.as_ref()?.lease_expires_at, agent)));
        Ok(expired(leased, filter, form))
    }

    fn run_stats(&self, project: &Id, workflow_ids: Option<&[Id]>) -> Result<RunStats> {
        let mut counts: BTreeMap<Id, StatusCounts> = BTreeMap::new();
        for run in self.store().runs.values().filter(|run| run.project_id == *project) {
            if workflow_ids.is_none_or(|ids| ids.binary_search(&run.workflow_id).is_ok()) {
                counts.entry(run.workflow_id.clone()).or_default().0[run.status as usize] += 1;
            }
        }
        Ok(RunStats::from_workflows(counts))
    }

    fn export(&self, sink: &mut dyn FnMut(ExportRecord) -> Result<()>) -> Result<()> {
        let store = self.store();
        store.runs.values().cloned().map(ExportRecord::Run).try_for_each(&mut *sink)?;
        store.nodes.values().cloned().map(ExportRecord::Node).try_for_each(&mut *sink)?;
        store.agents.values().cloned().map(ExportRecord::Agent).try_for_each(sink)
    }

    fn info(&self) -> Result<StoreInfo> {
        Ok(StoreInfo {
            backend: "maps".to_owned(),
            address: "maps:".to_owned(),
            schema_version: 1,
            library_version: String::new(),
            engine_name: "std::collections".to_owned(),
            engine_version: "1".to_owned(),
            durability: self.options.durability.to_string(),
            mode: self.options.mode.to_string(),
            size_bytes: 0,
        })
    }

    fn is_read_only(&self) -> bool {
        false
    }

    fn verify(&self) -> Result<VerifyReport> {
        let store = self.store();
        let count = |len: usize| len as u64;
        let checked = Deleted { runs: count(store.runs.len()), nodes: count(store.nodes.len()), agents: count(store.agents.len()) };
        Ok(VerifyReport { checked, ..VerifyReport::default() })
    }

    fn compact(&self) -> Result<CompactReport> {
        Ok(CompactReport { bytes_before: 0, bytes_after: 0 })
    }

    fn close(&self) -> Result<()> {
        Ok(())
    }
}

fn main() -> ExitCode {
    let traits = Traits { backend: "maps", ..Traits::memory() };
    let harness = LedgerHarness::new("maps", traits, |_path, options| Ok(Ledger::new(MapBackend::open(options)?, options)));
    let report = run_all(&harness);
    if report.failed() == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
