//! The records of a transaction in memory: as they were loaded, and as they are to be.

use std::collections::HashMap;
use std::sync::Arc;

use runledger_core::{AnswerForm, Code, Error, Held, MAX_LARGE, Put, Record, Result, Stored};

use crate::rows::{Large, value_fault};
use crate::wanted::Key;

/// One record. Its large values stand beside it, so that a state never carries them along.
#[derive(Clone, Debug)]
pub(crate) struct Slot<R> {
    /// The state as the store has it.
    pub(crate) stored: Option<Stored<R>>,
    /// The state as it is to be.
    pub(crate) now: Option<Stored<R>>,
    /// The large values that were loaded or are to be written.
    pub(crate) values: [Option<Arc<str>>; MAX_LARGE],
    /// The large values that are to be written.
    pub(crate) written: Held,
    /// Whether the stored record goes, even if another one comes under its key.
    pub(crate) is_removed: bool,
    pub(crate) is_changed: bool,
}

impl<R: Record> Slot<R> {
    fn new(stored: Option<Stored<R>>) -> Self {
        let now = stored.clone();
        Slot { stored, now, values: Default::default(), written: Held::default(), is_removed: false, is_changed: false }
    }

    /// Whether the record is to be inserted.
    pub(crate) fn is_new(&self) -> bool {
        self.now.is_some() && (self.stored.is_none() || self.is_removed)
    }

    fn answer(&self, form: AnswerForm) -> Result<Option<Stored<R>>> {
        let Some(mut stored) = self.now.clone() else { return Ok(None) };
        if form == AnswerForm::Record {
            for slot in stored.held.slots() {
                let value = self.values[slot].clone().ok_or_else(|| value_fault(&stored.record, slot, "is missing"))?;
                stored.record.set_large(slot, value);
            }
        }
        Ok(Some(stored))
    }

    fn put(&mut self, put: &Put<R>) {
        let mut record = put.after.record.clone();
        for (slot, value) in self.values.iter_mut().enumerate() {
            let given = record.take_large(slot);
            if put.written.contains(slot) {
                *value = given;
            }
        }
        self.written = self.written.union(put.written);
        self.now = Some(Stored { record, held: put.after.held, handle: 0 });
        self.is_changed = true;
    }

    fn remove(&mut self) {
        self.is_removed |= self.stored.is_some();
        self.now = None;
        self.values = Default::default();
        self.written = Held::default();
        self.is_changed = true;
    }
}

/// The records of one kind.
#[derive(Debug)]
pub(crate) struct Overlay<R> {
    slots: HashMap<Key, Slot<R>>,
    /// What was there before each change since the mark, if one was set.
    log: Option<Vec<(Key, Option<Slot<R>>)>>,
}

impl<R: Record> Overlay<R> {
    pub(crate) fn new() -> Self {
        Overlay { slots: HashMap::new(), log: None }
    }

    pub(crate) fn load(&mut self, key: Key, stored: Option<Stored<R>>) {
        self.slots.insert(key, Slot::new(stored));
    }

    /// Notes that there is no record under a key, unless one was loaded.
    pub(crate) fn load_absent(&mut self, key: Key) {
        self.slots.entry(key).or_insert_with(|| Slot::new(None));
    }

    pub(crate) fn load_value(&mut self, key: &Key, large: Large) -> Result<()> {
        let Some(slot) = self.slots.get_mut(key) else { return Ok(()) };
        match &slot.now {
            Some(stored) if !large.is_sound => Err(value_fault(&stored.record, large.slot, "does not match its checksum")),
            _ => {
                slot.values[large.slot] = Some(large.value);
                Ok(())
            }
        }
    }

    pub(crate) fn has(&self, key: &Key) -> bool {
        self.slots.contains_key(key)
    }

    /// The present state; the outer absence says that the record was not loaded.
    pub(crate) fn now(&self, key: &Key) -> Option<Option<&Stored<R>>> {
        self.slots.get(key).map(|slot| slot.now.as_ref())
    }

    pub(crate) fn answer(&self, key: &Key, form: AnswerForm) -> Result<Option<Stored<R>>> {
        match self.slots.get(key) {
            Some(slot) => slot.answer(form),
            None => {
                let what = "a transaction touched a record that none of its commands names";
                Err(Error::refused(Code::Internal, R::ENTITY, &key.0, &key.1, what))
            }
        }
    }

    pub(crate) fn slots(&self) -> impl Iterator<Item = &Slot<R>> {
        self.slots.values()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Key, &Slot<R>)> {
        self.slots.iter()
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    fn change(&mut self, key: Key, change: impl FnOnce(&mut Slot<R>)) {
        if let Some(log) = &mut self.log {
            log.push((key.clone(), self.slots.get(&key).cloned()));
        }
        change(self.slots.entry(key).or_insert_with(|| Slot::new(None)));
    }

    pub(crate) fn put(&mut self, key: Key, put: &Put<R>) {
        self.change(key, |slot| slot.put(put));
    }

    pub(crate) fn remove(&mut self, key: Key) {
        self.change(key, Slot::remove);
    }

    pub(crate) fn clear(&mut self) {
        self.slots.clear();
    }

    pub(crate) fn mark(&mut self) {
        self.log = Some(Vec::new());
    }

    pub(crate) fn undo(&mut self) {
        for (key, before) in self.log.take().unwrap_or_default().into_iter().rev() {
            match before {
                Some(slot) => self.slots.insert(key, slot),
                None => self.slots.remove(&key),
            };
        }
    }
}
