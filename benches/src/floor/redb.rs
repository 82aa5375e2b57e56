//! redb by hand: the tables and keys of the backend, of which a transaction opens only what it needs.

use std::path::Path;
use std::sync::Arc;

use redb::{Database, ReadableTable, Table, TableDefinition, WriteTransaction};
use runledger::codec::{self, STATE, StateCodec, checksum, large_checksum};
use runledger::keys::{Key, lease_bucket};
use runledger::{AnswerForm, Command, Entity, Held, Id, NodeRun, Record, Run, StartNode, Status};

use super::{Floor, rules, unknown};
use crate::Result;

pub(super) type Bytes = &'static [u8];

const CACHE_BYTES: usize = 128 << 20;
const CHECKSUM_BYTES: usize = 8;
const MAX_INLINE_BYTES: usize = 1024;

pub(super) const TABLES: [TableDefinition<'static, Bytes, Bytes>; 9] = [
    TableDefinition::new("runs"),
    TableDefinition::new("nodes"),
    TableDefinition::new("node ids"),
    TableDefinition::new("run counts"),
    TableDefinition::new("projects"),
    TableDefinition::new("runs by status"),
    TableDefinition::new("runs by workflow"),
    TableDefinition::new("runs by end"),
    TableDefinition::new("run leases"),
];
pub(super) const LARGE: TableDefinition<'static, Bytes, Bytes> = TableDefinition::new("large values");

pub(super) const RUNS: usize = 0;
const NODES: usize = 1;
const NODE_IDS: usize = 2;
const COUNTS: usize = 3;
const PROJECTS: usize = 4;
pub(super) const BY_STATUS: usize = 5;
pub(super) const BY_WORKFLOW: usize = 6;
const BY_END: usize = 7;
const LEASES: usize = 8;

/// The loop.
#[derive(Debug)]
pub struct Redb {
    db: Database,
}

impl Redb {
    /// Makes a database, in place of one that is there.
    ///
    /// # Errors
    /// Those of the engine.
    pub fn create(path: &Path) -> Result<Redb> {
        if path.exists() {
            std::fs::remove_file(path)?;
        }
        let db = Database::builder().set_cache_size(CACHE_BYTES).create(path)?;
        let txn = db.begin_write()?;
        for table in TABLES {
            txn.open_table(table)?;
        }
        txn.open_table(LARGE)?;
        txn.commit()?;
        Ok(Redb { db })
    }
}

impl Floor for Redb {
    fn carry_out(&mut self, commands: &mut dyn Iterator<Item = Command>) -> Result<()> {
        let txn = self.db.begin_write()?;
        let mut tx = Tx { txn: &txn, tables: [const { None }; TABLES.len()], large: None, answered: (None, None) };
        for command in commands {
            tx.one(command)?;
        }
        drop(tx);
        txn.commit()?;
        Ok(())
    }
}

struct Tx<'t> {
    txn: &'t WriteTransaction,
    tables: [Option<Table<'t, Bytes, Bytes>>; TABLES.len()],
    large: Option<Table<'t, Bytes, Bytes>>,
    answered: (Option<Run>, Option<NodeRun>),
}

/// The payloads that stand in a record.
pub(super) type Inline = [Option<Arc<str>>; 3];

impl<'t> Tx<'t> {
    fn table(&mut self, which: usize) -> Result<&mut Table<'t, Bytes, Bytes>> {
        let slot = &mut self.tables[which];
        if slot.is_none() {
            *slot = Some(self.txn.open_table(TABLES[which])?);
        }
        slot.as_mut().ok_or_else(|| "a table was not opened".into())
    }

    fn large(&mut self) -> Result<&mut Table<'t, Bytes, Bytes>> {
        if self.large.is_none() {
            self.large = Some(self.txn.open_table(LARGE)?);
        }
        self.large.as_mut().ok_or_else(|| "a table was not opened".into())
    }

    fn load<R: StateCodec>(&mut self, which: usize, key: &[u8], project: &Id, id: &Id) -> Result<(R, Held, Inline)> {
        let row = self.table(which)?.get(key)?.ok_or("there is no such record")?;
        decode(project, id, row.value())
    }

    /// Stores a record; `written` are the slots of payloads that are new, `held` all that it has.
    fn store<R: StateCodec>(
        &mut self,
        which: usize,
        key: &[u8],
        record: &R,
        held: Held,
        mut inline: Inline,
        written: &[usize],
    ) -> Result<()> {
        for slot in written {
            let text = record.large(*slot).ok_or("a payload is missing")?;
            if text.len() > MAX_INLINE_BYTES {
                let (project, id) = (record.project_id(), record.key_id());
                let mut row = large_checksum(R::ENTITY, project, id, *slot, text).to_le_bytes().to_vec();
                row.extend_from_slice(text.as_bytes());
                let key = large_key(R::ENTITY, project, id, *slot);
                self.large()?.insert(key.as_slice(), row.as_slice())?;
                inline[*slot] = None;
            } else {
                inline[*slot] = Some(text.into());
            }
        }
        let value = encode(record, held, &inline);
        self.table(which)?.insert(key, value.as_slice())?;
        Ok(())
    }

    /// Reads the payloads that an answer has and the record does not.
    fn fill<R: Record>(&mut self, record: &mut R, held: Held, inline: &Inline) -> Result<()> {
        for slot in held.slots().filter(|slot| record.large(*slot).is_none()).collect::<Vec<_>>() {
            let text = match &inline[slot] {
                Some(text) => text.clone(),
                None => {
                    let key = large_key(R::ENTITY, record.project_id(), record.key_id(), slot);
                    let row = self.large()?.get(key.as_slice())?.ok_or("a payload is missing")?;
                    checked_text::<R>(record.project_id(), record.key_id(), slot, row.value())?
                }
            };
            record.set_large(slot, text);
        }
        Ok(())
    }

    fn answer_run(&mut self, mut run: Run, held: Held, inline: &Inline, form: AnswerForm) -> Result<()> {
        if form == AnswerForm::Record {
            self.fill(&mut run, held, inline)?;
        }
        self.answered.0 = Some(run);
        Ok(())
    }

    fn answer_node(&mut self, mut node: NodeRun, held: Held, inline: &Inline, form: AnswerForm) -> Result<()> {
        if form == AnswerForm::Record {
            self.fill(&mut node, held, inline)?;
        }
        self.answered.1 = Some(node);
        Ok(())
    }

    fn count(&mut self, run: &Run, status: Status, by: i64) -> Result<()> {
        for owner in [&*run.workflow_id, ""] {
            let key = Key::new().id(&run.project_id).id(owner).status(status).0;
            add(self.table(COUNTS)?, &key, by)?;
        }
        Ok(())
    }

    /// Moves a run in the two orders of lists.
    fn list(&mut self, run: &Run, before: Option<(Status, runledger::Time)>) -> Result<()> {
        let project = Key::new().id(&run.project_id);
        let workflow = project.clone().id(&run.workflow_id);
        for (which, prefix) in [(BY_STATUS, project), (BY_WORKFLOW, workflow)] {
            let table = self.table(which)?;
            if let Some((status, time)) = before {
                table.remove(prefix.clone().status(status).time(time).id(&run.id).0.as_slice())?;
            }
            table.insert(prefix.status(run.status).time(run.started_at).id(&run.id).0.as_slice(), &[][..])?;
        }
        if let Some((status, _)) = before {
            self.count(run, status, -1)?;
        }
        self.count(run, run.status, 1)
    }

    fn one(&mut self, command: Command) -> Result<()> {
        let form = command.answer_form();
        match command {
            Command::QueueRun(c) => {
                let run = rules::queue(c)?;
                let key = record_key(&run.project_id, &run.id);
                if self.table(RUNS)?.get(key.as_slice())?.is_some() {
                    return Err("there is such a run".into());
                }
                let held = run.held();
                self.store(RUNS, &key, &run, held, Inline::default(), &[0])?;
                self.list(&run, None)?;
                add(self.table(PROJECTS)?, &Key::new().id(&run.project_id).0, 1)?;
                self.answer_run(run, held, &Inline::default(), form)
            }
            Command::StartRun(c) => {
                let key = record_key(&c.project_id, &c.id);
                let (mut run, held, inline) = self.load::<Run>(RUNS, &key, &c.project_id, &c.id)?;
                let before = (run.status, run.started_at);
                rules::start(&mut run, c)?;
                self.store(RUNS, &key, &run, held, inline.clone(), &[0])?;
                self.list(&run, Some(before))?;
                let lease = lease_key(&run).ok_or("every run of the workload has an owner")?;
                self.table(LEASES)?.insert(lease.as_slice(), &[][..])?;
                self.answer_run(run, held, &inline, form)
            }
            Command::ConfirmRun(c) => {
                let key = record_key(&c.project_id, &c.id);
                let (mut run, held, inline) = self.load::<Run>(RUNS, &key, &c.project_id, &c.id)?;
                let before = lease_key(&run);
                rules::confirm(&mut run, &c)?;
                self.store(RUNS, &key, &run, held, inline.clone(), &[])?;
                let after = lease_key(&run);
                if let (Some(before), Some(after)) = (before, after)
                    && before != after
                {
                    self.table(LEASES)?.remove(before.as_slice())?;
                    self.table(LEASES)?.insert(after.as_slice(), &[][..])?;
                }
                self.answer_run(run, held, &inline, form)
            }
            Command::FinishRun(c) => {
                let key = record_key(&c.project_id, &c.id);
                let (mut run, mut held, inline) = self.load::<Run>(RUNS, &key, &c.project_id, &c.id)?;
                let (before, lease) = ((run.status, run.started_at), lease_key(&run));
                rules::finish(&mut run, c)?;
                held.insert(1);
                self.store(RUNS, &key, &run, held, inline.clone(), &[1])?;
                self.list(&run, Some(before))?;
                if let Some(lease) = lease {
                    self.table(LEASES)?.remove(lease.as_slice())?;
                }
                let finished_at = run.finished_at.ok_or("a time is missing")?;
                let end = Key::new().id(&run.project_id).time(finished_at).id(&run.id);
                let value = Key::new().status(run.status).id(&run.workflow_id);
                self.table(BY_END)?.insert(end.0.as_slice(), value.0.as_slice())?;
                self.answer_run(run, held, &inline, form)
            }
            Command::StartNode(c) => self.start_node(c, form),
            Command::FinishNode(c) => {
                let place = {
                    let row = self.table(NODE_IDS)?.get(record_key(&c.project_id, &c.id).as_slice())?;
                    row.ok_or("there is no such node run")?.value().to_vec()
                };
                let key = [Key::new().id(&c.project_id).0, place, Key::new().id(&c.id).0].concat();
                let (mut node, mut held, inline) = self.load::<NodeRun>(NODES, &key, &c.project_id, &c.id)?;
                let run_key = record_key(&c.project_id, &node.workflow_run_id);
                let (run, ..) = self.load::<Run>(RUNS, &run_key, &c.project_id, &node.workflow_run_id)?;
                rules::finish_node(&mut node, &run, c)?;
                held.insert(1);
                self.store(NODES, &key, &node, held, inline.clone(), &[1])?;
                self.answer_node(node, held, &inline, form)
            }
            other => Err(unknown(&other)),
        }
    }

    fn start_node(&mut self, c: StartNode, form: AnswerForm) -> Result<()> {
        let run_key = record_key(&c.project_id, &c.workflow_run_id);
        let (run, ..) = self.load::<Run>(RUNS, &run_key, &c.project_id, &c.workflow_run_id)?;
        let id_key = record_key(&c.project_id, &c.id);
        let is_taken = self.table(NODE_IDS)?.get(id_key.as_slice())?.is_some();
        let node = rules::start_node(&run, is_taken, c)?;
        let place = Key::new().id(&node.workflow_run_id).time(node.started_at).u32(node.node_index);
        self.table(NODE_IDS)?.insert(id_key.as_slice(), place.0.as_slice())?;
        let key = [Key::new().id(&node.project_id).0, place.0, Key::new().id(&node.id).0].concat();
        let held = node.held();
        self.store(NODES, &key, &node, held, Inline::default(), &[0])?;
        self.answer_node(node, held, &Inline::default(), form)
    }
}

pub(super) fn record_key(project: &Id, id: &Id) -> Vec<u8> {
    Key::new().id(project).id(id).0
}

pub(super) fn large_key(entity: Entity, project: &Id, id: &Id, slot: usize) -> Vec<u8> {
    let mut key = Key::new();
    key.0.push(entity as u8);
    let mut key = key.id(project).id(id).0;
    key.push(slot as u8);
    key
}

/// A payload that stands in a row of its own.
pub(super) fn checked_text<R: Record>(project: &Id, id: &Id, slot: usize, row: &[u8]) -> Result<Arc<str>> {
    let (checksum, text) = row.split_first_chunk::<CHECKSUM_BYTES>().ok_or("a payload is cut")?;
    let text = std::str::from_utf8(text)?;
    if large_checksum(R::ENTITY, project, id, slot, text) != u64::from_le_bytes(*checksum) {
        return Err("a payload is not as it was written".into());
    }
    Ok(text.into())
}

fn lease_key(run: &Run) -> Option<Vec<u8>> {
    let execution = run.execution.as_ref()?;
    Some(Key::new().i64(lease_bucket(execution.lease_expires_at)).id(&run.project_id).id(&run.id).0)
}

fn add(table: &mut Table<'_, Bytes, Bytes>, key: &[u8], by: i64) -> Result<()> {
    let old = match table.get(key)? {
        Some(row) => u64::from_le_bytes(row.value().try_into()?),
        None => 0,
    };
    match old.checked_add_signed(by).ok_or("a counter fell below none")? {
        0 => drop(table.remove(key)?),
        new => drop(table.insert(key, new.to_le_bytes().as_slice())?),
    }
    Ok(())
}

/// `[checksum][length of the next]([slot][length][text])*[state]`, as the backend has it.
fn encode<R: StateCodec>(record: &R, held: Held, inline: &Inline) -> Vec<u8> {
    let mut value = Vec::with_capacity(1024);
    value.extend_from_slice(&[0; CHECKSUM_BYTES + 4]);
    for (slot, text) in inline.iter().enumerate() {
        if let Some(text) = text {
            value.push(slot as u8);
            value.extend_from_slice(&(text.len() as u16).to_le_bytes());
            value.extend_from_slice(text.as_bytes());
        }
    }
    let len = (value.len() - CHECKSUM_BYTES - 4) as u32;
    value[CHECKSUM_BYTES..CHECKSUM_BYTES + 4].copy_from_slice(&len.to_le_bytes());
    codec::encode(record, held, &mut value);
    let sum = checksum(R::ENTITY, record.project_id(), record.key_id(), STATE, &value[CHECKSUM_BYTES..]);
    value[..CHECKSUM_BYTES].copy_from_slice(&sum.to_le_bytes());
    value
}

pub(super) fn decode<R: StateCodec>(project: &Id, id: &Id, value: &[u8]) -> Result<(R, Held, Inline)> {
    let (sum, body) = value.split_first_chunk::<CHECKSUM_BYTES>().ok_or("a record is cut")?;
    if checksum(R::ENTITY, project, id, STATE, body) != u64::from_le_bytes(*sum) {
        return Err("a record is not as it was written".into());
    }
    let (len, rest) = body.split_first_chunk::<4>().ok_or("a record is cut")?;
    let (mut texts, state) = rest.split_at_checked(u32::from_le_bytes(*len) as usize).ok_or("a record is cut")?;
    let mut inline = Inline::default();
    while let Some((head, tail)) = texts.split_first_chunk::<3>() {
        let (text, tail) = tail.split_at_checked(usize::from(u16::from_le_bytes([head[1], head[2]]))).ok_or("a record is cut")?;
        *inline.get_mut(usize::from(head[0])).ok_or("a record is cut")? = Some(std::str::from_utf8(text)?.into());
        texts = tail;
    }
    let (stored, _) = codec::decode::<R>(project, id, state)?;
    Ok((stored.record, stored.held, inline))
}
