//! What a transaction writes: one statement for each table and kind of change.

use std::collections::BTreeMap;

use runledger_core::codec;
use runledger_core::{AgentRun, Entity, Id, NodeRun, Run, Stored};

use crate::overlay::{Overlay, Slot};
use crate::rows::{self, Kept};
use crate::statement::Statement;

/// The records of one kind that change.
pub(crate) struct Kinds<'t, R> {
    inserted: Vec<&'t Stored<R>>,
    updated: Vec<&'t Stored<R>>,
    removed: Vec<(&'t Id, &'t Id)>,
}

impl<R> Default for Kinds<'_, R> {
    fn default() -> Self {
        Kinds { inserted: Vec::new(), updated: Vec::new(), removed: Vec::new() }
    }
}

/// A large value that is written.
struct Value<'t> {
    project: &'t Id,
    kind: i16,
    id: &'t Id,
    slot: i16,
    checksum: i64,
    text: &'t str,
    is_prompt: bool,
}

/// A counter: project, kind, name (empty for the whole project) and status.
type Counter<'t> = (&'t str, i16, &'t str, i16);

/// See the module.
pub(crate) struct Changes<'t> {
    shard: i16,
    runs: Kinds<'t, Run>,
    nodes: Kinds<'t, NodeRun>,
    agents: Kinds<'t, AgentRun>,
    values: Vec<Value<'t>>,
    /// Records all of whose large values go.
    emptied: Vec<(&'t Id, i16, &'t Id)>,
    counters: BTreeMap<Counter<'t>, i64>,
}

/// A kind of record that changes.
pub(crate) trait Changing: Kept {
    fn kinds<'c, 't>(changes: &'c mut Changes<'t>) -> &'c mut Kinds<'t, Self>;
}

macro_rules! changing {
    ($($type:ty => $field:ident),*) => {$(
        impl Changing for $type {
            fn kinds<'c, 't>(changes: &'c mut Changes<'t>) -> &'c mut Kinds<'t, Self> {
                &mut changes.$field
            }
        }
    )*};
}

changing!(Run => runs, NodeRun => nodes, AgentRun => agents);

impl<'t> Changes<'t> {
    pub(crate) fn new(shard: i16) -> Self {
        Changes {
            shard,
            runs: Kinds::default(),
            nodes: Kinds::default(),
            agents: Kinds::default(),
            values: Vec::new(),
            emptied: Vec::new(),
            counters: BTreeMap::new(),
        }
    }

    pub(crate) fn add<R: Changing>(&mut self, overlay: &'t Overlay<R>) {
        // In the order of their keys, in which the indexes have them.
        let mut changed: Vec<_> = overlay.iter().filter(|(_, slot)| slot.is_changed).collect();
        changed.sort_unstable_by_key(|(key, _)| *key);
        changed.into_iter().for_each(|(_, slot)| self.add_slot(slot));
    }

    fn add_slot<R: Changing>(&mut self, slot: &'t Slot<R>) {
        if let Some(stored) = slot.stored.as_ref().filter(|_| slot.is_removed) {
            let (project, id) = (stored.record.project_id(), stored.record.key_id());
            R::kinds(self).removed.push((project, id));
            if !stored.held.is_empty() {
                self.emptied.push((project, R::kind(), id));
            }
        }
        if let Some(stored) = &slot.stored {
            self.count(&stored.record, -1);
        }
        if let Some(now) = &slot.now {
            self.count(&now.record, 1);
            self.add_values(slot, now);
            let kinds = R::kinds(self);
            if slot.is_new() { kinds.inserted.push(now) } else { kinds.updated.push(now) }
        }
    }

    fn count<R: Kept>(&mut self, record: &'t R, change: i64) {
        let Some(name) = record.counted_under() else { return };
        for name in ["", name] {
            let counter = (&**record.project_id(), R::kind(), name, record.status() as i16);
            *self.counters.entry(counter).or_default() += change;
        }
    }

    fn add_values<R: Kept>(&mut self, slot: &'t Slot<R>, now: &'t Stored<R>) {
        let (project, id) = (now.record.project_id(), now.record.key_id());
        for place in slot.written.slots() {
            let Some(text) = slot.values[place].as_deref() else { continue };
            let checksum = codec::large_checksum(R::ENTITY, project, id, place, text) as i64;
            let is_prompt = R::ENTITY == Entity::Agent && R::LARGE.get(place) == Some(&"prompt");
            self.values.push(Value { project, kind: R::kind(), id, slot: place as i16, checksum, text, is_prompt });
        }
    }

    /// The statements, in the order in which every transaction sends them: what goes before what comes, and the counters,
    /// which many wait for, last and in the order of their keys.
    pub(crate) fn statements(&self) -> Vec<Statement<'_>> {
        let mut statements = Vec::new();
        remove(&mut statements, &self.agents);
        remove(&mut statements, &self.nodes);
        remove(&mut statements, &self.runs);
        if !self.emptied.is_empty() {
            let sql = "DELETE FROM @.large_value t USING unnest($1::text[], $2::smallint[], $3::text[]) AS k(project, kind, id) \
                       WHERE t.project = k.project AND t.kind = k.kind AND t.id = k.id";
            let projects = self.emptied.iter().map(|(project, ..)| &***project);
            let kinds = self.emptied.iter().map(|(_, kind, _)| Some(*kind)).collect();
            let ids = self.emptied.iter().map(|(.., id)| &***id);
            statements.push(Statement::new(sql).texts(projects).smalls(kinds).texts(ids));
        }
        store(&mut statements, &self.runs);
        store(&mut statements, &self.nodes);
        store(&mut statements, &self.agents);
        if !self.values.is_empty() {
            statements.push(self.store_values());
        }
        self.store_counters(&mut statements);
        statements
    }

    fn store_values(&self) -> Statement<'_> {
        let sql = "INSERT INTO @.large_value (project, kind, id, slot, checksum, json, prompt) \
                   SELECT * FROM unnest($1::text[], $2::smallint[], $3::text[], $4::smallint[], $5::bigint[], $6::text[], $7::bytea[]) \
                   ON CONFLICT (project, kind, id, slot) \
                   DO UPDATE SET checksum = excluded.checksum, json = excluded.json, prompt = excluded.prompt";
        let values = &self.values;
        Statement::new(sql)
            .texts(values.iter().map(|value| &**value.project))
            .smalls(values.iter().map(|value| Some(value.kind)).collect())
            .texts(values.iter().map(|value| &**value.id))
            .smalls(values.iter().map(|value| Some(value.slot)).collect())
            .bigs(values.iter().map(|value| Some(value.checksum)).collect())
            .optional_texts(values.iter().map(|value| (!value.is_prompt).then_some(value.text)).collect())
            .bytes(values.iter().map(|value| value.is_prompt.then_some(value.text.as_bytes())).collect())
    }

    fn store_counters<'s>(&'s self, statements: &mut Vec<Statement<'s>>) {
        let moved: Vec<(&Counter<'_>, i64)> =
            self.counters.iter().filter(|(_, change)| **change != 0).map(|(counter, change)| (counter, *change)).collect();
        if moved.is_empty() {
            return;
        }
        let keys = |sql: &str| {
            Statement::new(sql)
                .texts(moved.iter().map(|((project, ..), _)| *project))
                .smalls(moved.iter().map(|((_, kind, ..), _)| Some(*kind)).collect())
                .texts(moved.iter().map(|((_, _, name, _), _)| *name))
                .smalls(moved.iter().map(|((.., status), _)| Some(*status)).collect())
                .small(self.shard)
        };
        let sql = "INSERT INTO @.counter AS t (project, kind, name, status, shard, n) \
                   SELECT k.project, k.kind, k.name, k.status, $5, k.n \
                   FROM unnest($1::text[], $2::smallint[], $3::text[], $4::smallint[], $6::bigint[]) AS k(project, kind, name, status, n) \
                   ON CONFLICT (project, kind, name, status, shard) DO UPDATE SET n = t.n + excluded.n";
        statements.push(keys(sql).bigs(moved.iter().map(|(_, change)| Some(*change)).collect()));
        // Where records were removed, a name that nothing has any more should not be kept for ever.
        if !self.runs.removed.is_empty() {
            let sql = "DELETE FROM @.counter t USING unnest($1::text[], $2::smallint[], $3::text[], $4::smallint[]) \
                       AS k(project, kind, name, status) WHERE t.project = k.project AND t.kind = k.kind AND t.name = k.name \
                       AND t.status = k.status AND t.shard = $5 AND t.n = 0";
            statements.push(keys(sql));
        }
    }
}

fn remove<'s, R: Kept>(statements: &mut Vec<Statement<'s>>, kinds: &Kinds<'s, R>) {
    if !kinds.removed.is_empty() {
        let sql = format!(
            "DELETE FROM @.{} t USING unnest($1::text[], $2::text[]) AS k(project, id) WHERE t.project = k.project AND t.id = k.id",
            R::TABLE
        );
        let projects = kinds.removed.iter().map(|(project, _)| &***project);
        statements.push(Statement::new(sql).texts(projects).texts(kinds.removed.iter().map(|(_, id)| &***id)));
    }
}

fn store<'s, R: Kept>(statements: &mut Vec<Statement<'s>>, kinds: &Kinds<'s, R>) {
    if !kinds.inserted.is_empty() {
        statements.push(rows::insert(&kinds.inserted));
    }
    if !kinds.updated.is_empty() {
        statements.push(rows::update(&kinds.updated));
    }
}
