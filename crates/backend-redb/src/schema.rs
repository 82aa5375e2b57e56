//! The layout: tables, keys, index entries, and versions.
//!
//! Every key is a tuple of [`runledger_core::keys::Key`], every value is encoded here or in [`crate::value`]; the engine
//! sees bytes alone, so that none of its own encodings becomes part of the format.

use redb::{ReadTransaction, ReadableTable, TableDefinition, TableError, TableHandle, WriteTransaction};
use runledger_core::keys::{Key, KeyReader, lease_bucket};
use runledger_core::{AgentRun, Code, Entity, Error, Id, NodeRun, Position, Record, Result, Run, Status, Time, Window};

use crate::error::Coded;

/// The type of every key and value.
pub(crate) type Bytes = &'static [u8];
/// The definition of a table.
pub(crate) type Definition = TableDefinition<'static, Bytes, Bytes>;
/// A table of a transaction that reads.
pub(crate) type Reads = redb::ReadOnlyTable<Bytes, Bytes>;
/// A table of a transaction that writes.
pub(crate) type Writes<'t> = redb::Table<'t, Bytes, Bytes>;

/// The steps that bring an older layout up to date: the step at index `n` makes version `n + 2` of version `n + 1`.
pub(crate) type Migrations = &'static [fn(&WriteTransaction) -> Result<()>];

/// The steps to the layout that this code writes.
pub(crate) const MIGRATIONS: Migrations = &[];

/// The version of the layout after all of these steps.
pub(crate) const fn version_after(migrations: Migrations) -> u32 {
    migrations.len() as u32 + 1
}

/// What the store is, and the version of its layout.
pub(crate) const META: Definition = TableDefinition::new("runledger");
/// (project, id) → run.
pub(crate) const RUNS: Definition = TableDefinition::new("runs");
/// (project, run, startedAt, nodeIndex, id) → node run: the node runs of a run stand together, in the order of lists.
pub(crate) const NODES: Definition = TableDefinition::new("nodes");
/// (project, id) → (run, startedAt, nodeIndex), the rest of the node run's key.
pub(crate) const NODE_IDS: Definition = TableDefinition::new("node ids");
/// (project, nodeRunId) → agent run.
pub(crate) const AGENTS: Definition = TableDefinition::new("agents");
/// (entity, project, id, slot) → a large value that is too long to stand in its record.
pub(crate) const LARGE: Definition = TableDefinition::new("large values");
/// (project, workflow, status) → how many runs; with an empty workflow, which none has, those of all workflows.
pub(crate) const RUN_COUNTS: Definition = TableDefinition::new("run counts");
/// (project, agent, status) → how many agent runs; with an empty agent, which none has, those of all agents.
pub(crate) const AGENT_COUNTS: Definition = TableDefinition::new("agent counts");
/// (project) → how many runs.
pub(crate) const PROJECTS: Definition = TableDefinition::new("projects");
/// (project, status, startedAt, id).
pub(crate) const RUNS_BY_STATUS: Definition = TableDefinition::new("runs by status");
/// (project, workflow, status, startedAt, id).
pub(crate) const RUNS_BY_WORKFLOW: Definition = TableDefinition::new("runs by workflow");
/// (project, finishedAt, id) → (status, workflow), by which a purge filters without reading the run.
pub(crate) const RUNS_BY_END: Definition = TableDefinition::new("runs by end");
/// (bucket of the lease's end, project, id), over all projects.
pub(crate) const RUN_LEASES: Definition = TableDefinition::new("run leases");
/// (project, status, createdAt, nodeRunId).
pub(crate) const AGENTS_BY_STATUS: Definition = TableDefinition::new("agents by status");
/// (project, agent, status, createdAt, nodeRunId).
pub(crate) const AGENTS_BY_AGENT: Definition = TableDefinition::new("agents by agent");
/// (bucket of the lease's end, project, nodeRunId), over all projects.
pub(crate) const AGENT_LEASES: Definition = TableDefinition::new("agent leases");

/// The indexes of runs, in the order of [`run_entries`].
pub(crate) const RUN_INDEXES: [Definition; 4] = [RUNS_BY_STATUS, RUNS_BY_WORKFLOW, RUNS_BY_END, RUN_LEASES];
/// The indexes of agent runs, in the order of [`agent_entries`].
pub(crate) const AGENT_INDEXES: [Definition; 3] = [AGENTS_BY_STATUS, AGENTS_BY_AGENT, AGENT_LEASES];
/// The tables that are no index.
const PLAIN: [Definition; 9] = [META, RUNS, NODES, NODE_IDS, AGENTS, LARGE, RUN_COUNTS, AGENT_COUNTS, PROJECTS];

/// Every table.
pub(crate) fn all_tables() -> impl Iterator<Item = Definition> {
    PLAIN.into_iter().chain(RUN_INDEXES).chain(AGENT_INDEXES)
}

const MARK: (&[u8], &[u8]) = (b"mark", b"runledger store");
const VERSION: &[u8] = b"schema version";

/// Makes all tables, empty, and marks the store as ours.
pub(crate) fn create(txn: &WriteTransaction, migrations: Migrations) -> Result<()> {
    for table in all_tables() {
        txn.open_table(table).coded()?;
    }
    txn.open_table(META).coded()?.insert(MARK.0, MARK.1).coded()?;
    migrate(txn, 1, migrations)
}

pub(crate) fn set_version(txn: &WriteTransaction, version: u32) -> Result<()> {
    txn.open_table(META).coded()?.insert(VERSION, version.to_le_bytes().as_slice()).coded()?;
    Ok(())
}

/// The version of the store's layout.
///
/// # Errors
/// `not_a_ledger` when the store is of another program.
pub(crate) fn version(txn: &ReadTransaction) -> Result<u32> {
    let foreign = || Error::new(Code::NotALedger, "the file is a redb database of another program").with_entity(Entity::Store);
    let meta = match txn.open_table(META) {
        Ok(meta) => meta,
        Err(TableError::Storage(error)) => return Err(error).coded(),
        Err(_) => return Err(foreign()),
    };
    if meta.get(MARK.0).coded()?.is_none_or(|mark| mark.value() != MARK.1) {
        return Err(foreign());
    }
    let version = meta.get(VERSION).coded()?;
    let version = version.and_then(|version| version.value().try_into().ok());
    version.map(u32::from_le_bytes).ok_or_else(|| Error::corrupt("the version of the store's layout can't be read"))
}

/// Whether a store of version `found` must be migrated before it can be used.
///
/// # Errors
/// `schema_too_new`, naming both versions.
pub(crate) fn needs_migration(found: u32, migrations: Migrations) -> Result<bool> {
    let known = version_after(migrations);
    match found {
        0 => Err(Error::corrupt("there never was a layout of version 0")),
        found if found <= known => Ok(found < known),
        newer => {
            let text = format!("the store has schema version {newer}; this library knows versions up to {known}");
            Err(Error::new(Code::SchemaTooNew, text).with_entity(Entity::Store))
        }
    }
}

/// Brings a store of version `found` up to date, in one transaction.
pub(crate) fn migrate(txn: &WriteTransaction, found: u32, migrations: Migrations) -> Result<()> {
    for step in migrations.iter().skip(found as usize - 1) {
        step(txn)?;
    }
    set_version(txn, version_after(migrations))
}

/// Looks whether every table is there.
pub(crate) fn check_tables(txn: &ReadTransaction) -> Result<()> {
    all_tables().try_for_each(|table| txn.open_table(table).coded().map(drop))
}

/// The key of a record that is found by its project and id, and of a node run's entry in [`NODE_IDS`].
pub(crate) fn record_key(project: &Id, id: &Id) -> Key {
    Key::new().id(project).id(id)
}

pub(crate) fn node_key(node: &NodeRun) -> Key {
    nodes_of_run(&node.project_id, &node.workflow_run_id).time(node.started_at).u32(node.node_index).id(&node.id)
}

/// The prefix of the keys of a run's node runs.
pub(crate) fn nodes_of_run(project: &Id, run: &Id) -> Key {
    Key::new().id(project).id(run)
}

/// The value of a node run in [`NODE_IDS`].
pub(crate) fn node_place(node: &NodeRun) -> Key {
    Key::new().id(&node.workflow_run_id).time(node.started_at).u32(node.node_index)
}

/// The key of a node run, from its entry in [`NODE_IDS`].
pub(crate) fn placed_node_key(project: &Id, id: &Id, place: &[u8]) -> Key {
    let mut key = Key::new().id(project);
    key.0.extend_from_slice(place);
    key.id(id)
}

/// The id of a node run, from its key.
pub(crate) fn node_id(key: &[u8]) -> Option<Id> {
    let mut reader = KeyReader(key);
    reader.id()?;
    reader.id()?;
    reader.time()?;
    reader.u32()?;
    reader.id()
}

/// When a node run started, from its key.
pub(crate) fn node_started_at(key: &[u8]) -> Option<Time> {
    let mut reader = KeyReader(key);
    reader.id()?;
    reader.id()?;
    reader.time()
}

pub(crate) fn large_key(entity: Entity, project: &Id, id: &Id, slot: usize) -> Key {
    let mut key = Key::new();
    key.0.push(entity as u8);
    let mut key = key.id(project).id(id);
    key.0.push(slot as u8);
    key
}

/// Takes the key of a large value apart.
pub(crate) fn read_large_key(key: &[u8]) -> Option<(Entity, Id, Id, usize)> {
    let (entity, rest) = key.split_first()?;
    let entity = [Entity::Run, Entity::Node, Entity::Agent].into_iter().find(|known| *known as u8 == *entity)?;
    let mut reader = KeyReader(rest);
    let (project, id) = reader.id().zip(reader.id())?;
    match reader.0 {
        [slot] => Some((entity, project, id, usize::from(*slot))),
        _ => None,
    }
}

/// The project and id of the record that an index key is of: the ids stand first (but for a lease, which begins with its
/// bucket) and last.
pub(crate) fn indexed_record(index: Definition, key: &[u8]) -> Option<(Id, Id)> {
    let mut reader = KeyReader(key);
    match index.name() {
        name if name == RUN_LEASES.name() || name == AGENT_LEASES.name() => {
            reader.i64()?;
            reader.id().zip(reader.id())
        }
        name => {
            let project = reader.id()?;
            if name == RUNS_BY_WORKFLOW.name() || name == AGENTS_BY_AGENT.name() {
                reader.id()?;
            }
            if name != RUNS_BY_END.name() {
                reader.status()?;
            }
            reader.time()?;
            Some((project, reader.id()?))
        }
    }
}

/// The counters that count a run.
pub(crate) fn run_counters(run: &Run) -> [Key; 2] {
    counters(&run.project_id, &run.workflow_id, run.status)
}

/// The counters that count an agent run.
pub(crate) fn agent_counters(agent: &AgentRun) -> [Key; 2] {
    counters(&agent.project_id, &agent.agent_id, agent.status)
}

fn counters(project: &Id, owner: &Id, status: Status) -> [Key; 2] {
    [owner.as_ref(), ALL_OWNERS].map(|owner| Key::new().id(project).id(owner).status(status))
}

/// Stands in the key of a counter over all workflows or agents of a project. No identifier is empty.
pub(crate) const ALL_OWNERS: &str = "";

/// An entry of an index: its key and value.
pub(crate) type Entry = (Key, Vec<u8>);

/// The index entries that a run has, in the order of [`RUN_INDEXES`].
pub(crate) fn run_entries(run: &Run) -> [Option<Entry>; 4] {
    let (project, id) = (&run.project_id, &run.id);
    let bare = |key: Key| Some((key, Vec::new()));
    [
        bare(Key::new().id(project).status(run.status).time(run.started_at).id(id)),
        bare(Key::new().id(project).id(&run.workflow_id).status(run.status).time(run.started_at).id(id)),
        run.finished_at.map(|at| (Key::new().id(project).time(at).id(id), ended_value(run))),
        run.execution.as_ref().and_then(|execution| bare(lease_key(execution.lease_expires_at, project, id))),
    ]
}

/// The index entries that an agent run has, in the order of [`AGENT_INDEXES`].
pub(crate) fn agent_entries(agent: &AgentRun) -> [Option<Entry>; 3] {
    let (project, id) = (&agent.project_id, &agent.node_run_id);
    let bare = |key: Key| Some((key, Vec::new()));
    [
        bare(Key::new().id(project).status(agent.status).time(agent.created_at).id(id)),
        bare(Key::new().id(project).id(&agent.agent_id).status(agent.status).time(agent.created_at).id(id)),
        agent.execution.as_ref().and_then(|execution| bare(lease_key(execution.lease_expires_at, project, id))),
    ]
}

fn lease_key(end: Time, project: &Id, id: &Id) -> Key {
    Key::new().i64(lease_bucket(end)).id(project).id(id)
}

fn ended_value(run: &Run) -> Vec<u8> {
    Key::new().status(run.status).id(&run.workflow_id).0
}

/// The status and workflow of an ended run, from its entry in [`RUNS_BY_END`].
pub(crate) fn read_ended_value(value: &[u8]) -> Option<(Status, Id)> {
    let mut reader = KeyReader(value);
    Some((reader.status()?, reader.id()?))
}

/// The error of an index whose entry can't be what it must be.
pub(crate) fn bad_index() -> Error {
    Error::corrupt("an index has an entry that can't be read")
}

/// The error of an index entry whose record is not there.
pub(crate) fn dangling<R: Record>(project: &Id, id: &Id) -> Error {
    runledger_core::codec::damaged(R::ENTITY, project, id, "an index names it, but it is not there")
}

/// Keys from one, inclusive, to another, exclusive.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Span {
    from: Vec<u8>,
    to: Vec<u8>,
    /// How many bytes all keys of the span begin with.
    pub(crate) prefix_len: usize,
}

impl Span {
    /// All keys with a prefix, which is never empty.
    pub(crate) fn of(prefix: &Key) -> Self {
        // A prefix ends with the end of an identifier, a status or the bucket of a lease, and so is never all ones.
        let to = prefix.prefix_end().unwrap_or_default().0;
        Span { from: prefix.0.clone(), to, prefix_len: prefix.0.len() }
    }

    /// The keys with a prefix whose next part is a time of the window.
    pub(crate) fn in_window(prefix: &Key, window: &Window) -> Self {
        let mut span = Span::of(prefix);
        if let Some(after) = window.after {
            span.from = prefix.clone().time(after).0;
        }
        if let Some(before) = window.before {
            span.to = prefix.clone().time(before).prefix_end().unwrap_or_default().0;
        }
        span
    }

    /// Only the keys from this one on.
    #[must_use]
    pub(crate) fn starting_at(mut self, from: Vec<u8>) -> Self {
        self.from = self.from.max(from);
        self
    }

    /// Only the keys whose rest is greater than `rest`.
    #[must_use]
    pub(crate) fn after(mut self, rest: &[u8]) -> Self {
        let mut from = [&self.from[..self.prefix_len], rest].concat();
        // The smallest key that is greater.
        from.push(0);
        self.from = self.from.max(from);
        self
    }

    /// Only the keys whose rest is smaller than `rest`.
    #[must_use]
    pub(crate) fn before(mut self, rest: &[u8]) -> Self {
        self.to = [&self.from[..self.prefix_len], rest].concat().min(self.to);
        self
    }

    /// The entries of the span in a table; `None` when the span can have none.
    pub(crate) fn range<'t>(&self, table: &'t impl ReadableTable<Bytes, Bytes>) -> Result<Option<redb::Range<'t, Bytes, Bytes>>> {
        if self.from >= self.to {
            return Ok(None);
        }
        table.range::<&[u8]>(self.from.as_slice()..self.to.as_slice()).coded().map(Some)
    }
}

/// What follows the prefix of an index key at a place in a list of runs or agent runs.
pub(crate) fn position_rest(position: &Position) -> Vec<u8> {
    Key::new().time(position.time).id(&position.id).0
}

/// What follows the prefix of a node run's key at a place in a list.
pub(crate) fn node_position_rest(position: &Position) -> Vec<u8> {
    Key::new().time(position.time).u32(position.node_index).id(&position.id).0
}
