//! A transaction that writes. It keeps every table open from its first command to its last.

use std::cell::{OnceCell, RefCell};
use std::collections::BTreeMap;

use redb::{ReadableTable, WriteTransaction};
use runledger_core::codec::{StateCodec, damaged};
use runledger_core::keys::{Key, KeyReader};
use runledger_core::{
    AgentRun, AnswerForm, Code, Deleted, EndedFilter, Entity, Error, Id, NodeRun, Order, Put, Record, Result, Run, Status, Stored, Tx,
};

use crate::error::{Coded, guarded};
use crate::query::{count_of, counts, ended, first_of};
use crate::schema::{self, Definition, Entry, Span, Writes};
use crate::value;

/// A table that is opened when it is first used: opening one costs about as much as a change in it.
pub(crate) struct Table<'t> {
    txn: &'t WriteTransaction,
    definition: Definition,
    open: OnceCell<Writes<'t>>,
}

impl<'t> Table<'t> {
    fn new(txn: &'t WriteTransaction, definition: Definition) -> Self {
        Table { txn, definition, open: OnceCell::new() }
    }

    pub(crate) fn get(&self) -> Result<&Writes<'t>> {
        if let Some(table) = self.open.get() {
            return Ok(table);
        }
        let table = self.txn.open_table(self.definition).coded()?;
        Ok(self.open.get_or_init(|| table))
    }

    pub(crate) fn get_mut(&mut self) -> Result<&mut Writes<'t>> {
        self.get()?;
        self.open.get_mut().ok_or_else(|| Error::new(Code::Internal, "a table was not opened"))
    }
}

/// A table of counters. What a transaction adds to one is gathered, since all commands of a group count the same few.
struct Counters<'t> {
    table: Table<'t>,
    gathered: BTreeMap<Key, i64>,
}

impl<'t> Counters<'t> {
    fn new(txn: &'t WriteTransaction, definition: Definition) -> Self {
        Counters { table: Table::new(txn, definition), gathered: BTreeMap::new() }
    }

    fn add(&mut self, key: Key, by: i64) {
        *self.gathered.entry(key).or_default() += by;
    }

    /// Moves a record from the counters that counted it to those that must.
    fn recount(&mut self, before: Option<[Key; 2]>, after: Option<[Key; 2]>) {
        if before != after {
            before.into_iter().flatten().for_each(|key| self.add(key, -1));
            after.into_iter().flatten().for_each(|key| self.add(key, 1));
        }
    }

    /// Writes what was gathered. A counter that comes to nothing is removed, so that only what exists is ever counted.
    fn settle(&mut self) -> Result<&Writes<'t>> {
        for (key, by) in std::mem::take(&mut self.gathered) {
            if by == 0 {
                continue;
            }
            let counts = self.table.get_mut()?;
            let old = counts.get(key.0.as_slice()).coded()?.map_or(Ok(0), |row| count_of(row.value()))?;
            match old.checked_add_signed(by) {
                None => return Err(Error::corrupt("a counter is smaller than what it counts")),
                Some(0) => drop(counts.remove(key.0.as_slice()).coded()?),
                Some(new) => drop(counts.insert(key.0.as_slice(), new.to_le_bytes().as_slice()).coded()?),
            }
        }
        self.table.get()
    }
}

/// The row that was read last, of which record and under which key: what a command loads it puts next.
type LastRow = RefCell<Option<(Entity, Key, Vec<u8>)>>;

/// The tables of a transaction that writes.
pub(crate) struct WriteTx<'t> {
    runs: Table<'t>,
    nodes: Table<'t>,
    node_ids: Table<'t>,
    agents: Table<'t>,
    large: Table<'t>,
    run_counts: Counters<'t>,
    agent_counts: Counters<'t>,
    projects: Counters<'t>,
    run_indexes: [Table<'t>; 4],
    agent_indexes: [Table<'t>; 3],
    last_row: LastRow,
    /// Whether anything was put, so that there is something to commit.
    pub(crate) changed: bool,
}

const BY_STATUS: usize = 0;
const BY_OWNER: usize = 1;
const BY_END: usize = 2;

impl<'t> WriteTx<'t> {
    /// Opens no table yet.
    pub(crate) fn new(txn: &'t WriteTransaction) -> Self {
        let open = |definition| Table::new(txn, definition);
        let [by_status, by_workflow, by_end, leases] = schema::RUN_INDEXES;
        let [agents_by_status, by_agent, agent_leases] = schema::AGENT_INDEXES;
        WriteTx {
            runs: open(schema::RUNS),
            nodes: open(schema::NODES),
            node_ids: open(schema::NODE_IDS),
            agents: open(schema::AGENTS),
            large: open(schema::LARGE),
            run_counts: Counters::new(txn, schema::RUN_COUNTS),
            agent_counts: Counters::new(txn, schema::AGENT_COUNTS),
            projects: Counters::new(txn, schema::PROJECTS),
            run_indexes: [open(by_status), open(by_workflow), open(by_end), open(leases)],
            agent_indexes: [open(agents_by_status), open(by_agent), open(agent_leases)],
            last_row: LastRow::default(),
            changed: false,
        }
    }

    fn load_run(&self, project: &Id, id: &Id, form: AnswerForm) -> Result<Option<Stored<Run>>> {
        load(self.runs.get()?, &self.large, &self.last_row, schema::record_key(project, id), project, id, form)
    }

    /// The run that an index names.
    fn indexed_run(&self, project: &Id, id: &Id, form: AnswerForm) -> Result<Stored<Run>> {
        self.load_run(project, id, form)?.ok_or_else(|| schema::dangling::<Run>(project, id))
    }

    fn load_agent(&self, project: &Id, id: &Id, form: AnswerForm) -> Result<Option<Stored<AgentRun>>> {
        load(self.agents.get()?, &self.large, &self.last_row, schema::record_key(project, id), project, id, form)
    }

    fn load_node(&self, project: &Id, id: &Id, form: AnswerForm) -> Result<Option<Stored<NodeRun>>> {
        let place = self.node_ids.get()?.get(schema::record_key(project, id).0.as_slice()).coded()?;
        let Some(place) = place else { return Ok(None) };
        let key = schema::placed_node_key(project, id, place.value());
        load(self.nodes.get()?, &self.large, &self.last_row, key, project, id, form)?
            .map(Some)
            .ok_or_else(|| schema::dangling::<NodeRun>(project, id))
    }

    fn store_run(&mut self, put: &Put<Run>) -> Result<()> {
        let (before, after) = (put.before.as_ref().map(|before| &before.record), &put.after.record);
        let key = schema::record_key(&after.project_id, &after.id);
        let old = old_value(self.runs.get()?, &self.last_row, &key, before)?;
        value::store(self.runs.get_mut()?, &mut self.large, &key.0, old.as_deref(), put)?;
        reindex(&mut self.run_indexes, before.map(schema::run_entries), Some(schema::run_entries(after)))?;
        self.run_counts.recount(before.map(schema::run_counters), Some(schema::run_counters(after)));
        if before.is_none() {
            self.projects.add(Key::new().id(&after.project_id), 1);
        }
        Ok(())
    }

    fn store_node(&mut self, put: &Put<NodeRun>) -> Result<()> {
        let (before, after) = (put.before.as_ref().map(|before| &before.record), &put.after.record);
        let key = schema::node_key(after);
        let old_key = before.map(schema::node_key);
        let old = old_key.as_ref().map(|key| old_value(self.nodes.get()?, &self.last_row, key, before)).transpose()?.flatten();
        value::store(self.nodes.get_mut()?, &mut self.large, &key.0, old.as_deref(), put)?;
        if old_key.as_ref() != Some(&key) {
            if let Some(old_key) = old_key {
                self.nodes.get_mut()?.remove(old_key.0.as_slice()).coded()?;
            }
            let id_key = schema::record_key(&after.project_id, &after.id);
            self.node_ids.get_mut()?.insert(id_key.0.as_slice(), schema::node_place(after).0.as_slice()).coded()?;
        }
        Ok(())
    }

    fn store_agent(&mut self, put: &Put<AgentRun>) -> Result<()> {
        let (before, after) = (put.before.as_ref().map(|before| &before.record), &put.after.record);
        let key = schema::record_key(&after.project_id, &after.node_run_id);
        let old = old_value(self.agents.get()?, &self.last_row, &key, before)?;
        value::store(self.agents.get_mut()?, &mut self.large, &key.0, old.as_deref(), put)?;
        reindex(&mut self.agent_indexes, before.map(schema::agent_entries), Some(schema::agent_entries(after)))?;
        self.agent_counts.recount(before.map(schema::agent_counters), Some(schema::agent_counters(after)));
        Ok(())
    }

    fn remove_run(&mut self, run: &Stored<Run>) -> Result<Deleted> {
        self.last_row.take();
        let (project, id) = (&run.record.project_id, &run.record.id);
        let Some(run) = remove::<Run>(self.runs.get_mut()?, &mut self.large, &schema::record_key(project, id), project, id)? else {
            return Err(damaged(Run::ENTITY, project, id, "it is not there"));
        };
        reindex(&mut self.run_indexes, Some(schema::run_entries(&run)), None)?;
        self.run_counts.recount(Some(schema::run_counters(&run)), None);
        self.projects.add(Key::new().id(project), -1);
        let mut deleted = Deleted { runs: 1, ..Deleted::default() };
        for node in self.node_states(project, id)? {
            let node_id = &node.record.id;
            remove::<NodeRun>(self.nodes.get_mut()?, &mut self.large, &schema::node_key(&node.record), project, node_id)?;
            let key = schema::record_key(project, node_id);
            self.node_ids.get_mut()?.remove(key.0.as_slice()).coded()?;
            deleted.nodes += 1;
            if let Some(agent) = remove::<AgentRun>(self.agents.get_mut()?, &mut self.large, &key, project, node_id)? {
                reindex(&mut self.agent_indexes, Some(schema::agent_entries(&agent)), None)?;
                self.agent_counts.recount(Some(schema::agent_counters(&agent)), None);
                deleted.agents += 1;
            }
        }
        Ok(deleted)
    }

    fn node_states(&self, project: &Id, run: &Id) -> Result<Vec<Stored<NodeRun>>> {
        let mut nodes = Vec::new();
        for row in Span::of(&schema::nodes_of_run(project, run)).range(self.nodes.get()?)?.into_iter().flatten() {
            let (key, row) = row.coded()?;
            let id = schema::node_id(key.value()).ok_or_else(schema::bad_index)?;
            nodes.push(value::parse::<NodeRun>(project, &id, row.value())?.0);
        }
        Ok(nodes)
    }

    fn ended_states(&self, filter: &EndedFilter, limit: usize) -> Result<Vec<Stored<Run>>> {
        let ids = ended(self.run_indexes[BY_END].get()?, filter, limit)?;
        ids.iter().map(|id| self.indexed_run(&filter.project_id, id, AnswerForm::State)).collect()
    }

    /// Writes what was gathered, before the engine commits.
    pub(crate) fn settle(&mut self) -> Result<()> {
        for counters in [&mut self.run_counts, &mut self.agent_counts, &mut self.projects] {
            if !counters.gathered.is_empty() {
                counters.settle()?;
            }
        }
        Ok(())
    }

    fn tables(&mut self) -> impl Iterator<Item = &mut Table<'t>> {
        let plain = [
            &mut self.runs,
            &mut self.nodes,
            &mut self.node_ids,
            &mut self.agents,
            &mut self.large,
            &mut self.run_counts.table,
            &mut self.agent_counts.table,
            &mut self.projects.table,
        ];
        plain.into_iter().chain(&mut self.run_indexes).chain(&mut self.agent_indexes)
    }
}

impl Tx for WriteTx<'_> {
    fn run(&mut self, project: &Id, id: &Id, form: AnswerForm) -> Result<Option<Stored<Run>>> {
        guarded(|| self.load_run(project, id, form))
    }

    fn node(&mut self, project: &Id, id: &Id, form: AnswerForm) -> Result<Option<Stored<NodeRun>>> {
        guarded(|| self.load_node(project, id, form))
    }

    fn agent(&mut self, project: &Id, node_run_id: &Id, form: AnswerForm) -> Result<Option<Stored<AgentRun>>> {
        guarded(|| self.load_agent(project, node_run_id, form))
    }

    fn next_run(&mut self, project: &Id, workflow_ids: Option<&[Id]>, form: AnswerForm) -> Result<Option<Stored<Run>>> {
        guarded(|| {
            let id = next_queued(&self.run_indexes, &mut self.run_counts, project, workflow_ids)?;
            id.map(|id| self.indexed_run(project, &id, form)).transpose()
        })
    }

    fn next_agent(&mut self, project: &Id, agent_ids: Option<&[Id]>, form: AnswerForm) -> Result<Option<Stored<AgentRun>>> {
        guarded(|| {
            let Some(id) = next_queued(&self.agent_indexes, &mut self.agent_counts, project, agent_ids)? else { return Ok(None) };
            self.load_agent(project, &id, form)?.map(Some).ok_or_else(|| schema::dangling::<AgentRun>(project, &id))
        })
    }

    fn nodes_of(&mut self, run: &Stored<Run>) -> Result<Vec<Stored<NodeRun>>> {
        guarded(|| self.node_states(&run.record.project_id, &run.record.id))
    }

    fn ended_runs(&mut self, filter: &EndedFilter, limit: usize) -> Result<Vec<Stored<Run>>> {
        guarded(|| self.ended_states(filter, limit))
    }

    fn put_run(&mut self, put: &Put<Run>) -> Result<()> {
        self.changed = true;
        guarded(|| self.store_run(put))
    }

    fn put_node(&mut self, put: &Put<NodeRun>) -> Result<()> {
        self.changed = true;
        guarded(|| self.store_node(put))
    }

    fn put_agent(&mut self, put: &Put<AgentRun>) -> Result<()> {
        self.changed = true;
        guarded(|| self.store_agent(put))
    }

    fn delete_run(&mut self, run: &Stored<Run>) -> Result<Deleted> {
        self.changed = true;
        guarded(|| self.remove_run(run))
    }

    fn clear(&mut self) -> Result<()> {
        self.changed = true;
        guarded(|| {
            self.settle()?;
            self.tables().try_for_each(|table| table.get_mut()?.retain(|_, _| false).coded())
        })
    }

    fn mark(&mut self) -> Result<bool> {
        // The engine takes a savepoint only of a transaction that has opened no table.
        Ok(false)
    }

    fn undo(&mut self) -> Result<()> {
        Err(Error::new(Code::Internal, "there is no mark to return to"))
    }
}

fn load<R: StateCodec>(
    records: &Writes<'_>,
    large: &Table<'_>,
    last_row: &LastRow,
    key: Key,
    project: &Id,
    id: &Id,
    form: AnswerForm,
) -> Result<Option<Stored<R>>> {
    let row = records.get(key.0.as_slice()).coded()?;
    let apart = |slot| value::read_apart(large.get()?, R::ENTITY, project, id, slot);
    let Some(row) = row else { return Ok(None) };
    let stored = value::read(project, id, row.value(), form, apart)?;
    last_row.replace(Some((R::ENTITY, key, row.value().to_vec())));
    Ok(Some(stored))
}

/// The present value of a record that was loaded before; of a new one, none.
fn old_value<R: Record>(records: &Writes<'_>, last_row: &LastRow, key: &Key, before: Option<&R>) -> Result<Option<Vec<u8>>> {
    let last = last_row.take();
    let Some(before) = before else { return Ok(None) };
    if let Some((entity, last_key, row)) = last
        && (entity, &last_key) == (R::ENTITY, key)
    {
        return Ok(Some(row));
    }
    let row = records.get(key.0.as_slice()).coded()?;
    let row = row.ok_or_else(|| damaged(R::ENTITY, before.project_id(), before.key_id(), "it is not there"))?;
    Ok(Some(row.value().to_vec()))
}

/// Removes a record with its large values, and gives its state.
fn remove<R: StateCodec>(records: &mut Writes<'_>, large: &mut Table<'_>, key: &Key, project: &Id, id: &Id) -> Result<Option<R>> {
    let Some(row) = records.remove(key.0.as_slice()).coded()? else { return Ok(None) };
    let (stored, inline) = value::parse::<R>(project, id, row.value())?;
    for slot in inline.apart(stored.held) {
        large.get_mut()?.remove(schema::large_key(R::ENTITY, project, id, slot).0.as_slice()).coded()?;
    }
    Ok(Some(stored.record))
}

/// Brings the index entries of a record from what they were to what they must be.
fn reindex<const N: usize>(
    indexes: &mut [Table<'_>; N],
    before: Option<[Option<Entry>; N]>,
    after: Option<[Option<Entry>; N]>,
) -> Result<()> {
    let before = before.unwrap_or([const { None }; N]);
    let after = after.unwrap_or([const { None }; N]);
    for ((index, before), after) in indexes.iter_mut().zip(before).zip(after) {
        if before == after {
            continue;
        }
        if let Some((key, _)) = before {
            index.get_mut()?.remove(key.0.as_slice()).coded()?;
        }
        if let Some((key, value)) = after {
            index.get_mut()?.insert(key.0.as_slice(), value.as_slice()).coded()?;
        }
    }
    Ok(())
}

/// The id of the queued record that comes first; `owners` are its workflows or agents.
fn next_queued<const N: usize>(
    indexes: &[Table<'_>; N],
    counters: &mut Counters<'_>,
    project: &Id,
    owners: Option<&[Id]>,
) -> Result<Option<Id>> {
    let prefix = Key::new().id(project);
    let mut first = None;
    match owners {
        None => first = first_of(indexes[BY_STATUS].get()?, &Span::of(&prefix.status(Status::Queued)), Order::Asc)?,
        Some(_) => {
            for (owner, counts) in counts(counters.settle()?, project, owners)? {
                if counts.of(Status::Queued) == 0 {
                    continue;
                }
                let span = Span::of(&prefix.clone().id(&owner).status(Status::Queued));
                let rest = first_of(indexes[BY_OWNER].get()?, &span, Order::Asc)?;
                first = [first, rest].into_iter().flatten().min();
            }
        }
    }
    first.map(|rest| rest_id(&rest)).transpose()
}

/// The id in what follows the prefix of an index key: a time and an id.
pub(crate) fn rest_id(rest: &[u8]) -> Result<Id> {
    let mut reader = KeyReader(rest);
    reader.time().and_then(|_| reader.id()).ok_or_else(schema::bad_index)
}
