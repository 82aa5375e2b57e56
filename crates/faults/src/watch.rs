//! What a layer below an engine does besides its work: it records, it fails on order, and it can be broken on purpose.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::{Event, FileId, Image, Recording};

/// The operations that an engine asks of the layer below.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs, reason = "each says what it is")]
pub enum Op {
    Open,
    Delete,
    Access,
    Read,
    Write,
    SetLen,
    Sync,
    Len,
    Lock,
    Unlock,
    CheckLock,
    SharedMap,
    SharedLock,
    Close,
}

impl Op {
    /// Each of them.
    pub const ALL: [Op; 14] = [
        Op::Open,
        Op::Delete,
        Op::Access,
        Op::Read,
        Op::Write,
        Op::SetLen,
        Op::Sync,
        Op::Len,
        Op::Lock,
        Op::Unlock,
        Op::CheckLock,
        Op::SharedMap,
        Op::SharedLock,
        Op::Close,
    ];
}

/// How an operation fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "each says what it is")]
pub enum Failure {
    Full,
    Io,
    /// Half of a write is made, then there is no room.
    ShortFull,
    /// Half of a write is made, then it fails.
    ShortIo,
    /// A lock is held by somebody else.
    Busy,
}

/// An order to fail.
#[derive(Clone, Copy, Debug)]
pub struct Fault {
    /// The operations that fail.
    pub op: Op,
    /// Which of them, from 0.
    pub nth: usize,
    /// How.
    pub failure: Failure,
    /// Whether all that follow fail too, until the fault is mended.
    pub stays: bool,
}

/// How the layer below is broken on purpose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Plant {
    /// Not at all.
    #[default]
    Nothing,
    /// Flushes of the files whose name ends so do nothing, and say that they did.
    SwallowSyncs(&'static str),
    /// Flushes of the directory do nothing.
    SwallowDirectorySyncs,
    /// A flush does its work only after the caller was answered.
    SyncAfterAnswer,
    /// A write that fails says that it did not.
    SwallowWriteErrors,
    /// A flush that fails says that it did not.
    SwallowSyncErrors,
}

/// What the layer below one store does besides its work.
#[derive(Debug, Default)]
pub struct Watch(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    recording: Option<Recording>,
    /// The present file of each name, and how many there were.
    files: BTreeMap<String, FileId>,
    next_file: FileId,
    counts: BTreeMap<Op, usize>,
    fault: Option<Fault>,
    fired: usize,
    plant: Plant,
    late: Vec<Event>,
}

impl Watch {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records from now on, over the files that are there.
    pub fn record(&self, base: &Image) {
        let mut state = self.state();
        state.files = base.keys().cloned().zip(0..).collect();
        state.next_file = base.len() as FileId;
        state.recording = Some(Recording { base: base.clone(), events: Vec::new() });
    }

    /// What was recorded since.
    pub fn recording(&self) -> Recording {
        self.state().recording.clone().unwrap_or_default()
    }

    /// Breaks the layer.
    pub fn plant(&self, plant: Plant) {
        self.state().plant = plant;
    }

    /// Orders a fault, and counts from 0 again.
    pub fn arm(&self, fault: Option<Fault>) {
        let mut state = self.state();
        state.counts.clear();
        (state.fault, state.fired) = (fault, 0);
    }

    /// Ends the fault.
    pub fn mend(&self) {
        self.state().fault = None;
    }

    /// Whether the fault was not mended.
    pub fn is_armed(&self) -> bool {
        self.state().fault.is_some()
    }

    /// How often the fault was felt.
    pub fn fired(&self) -> usize {
        self.state().fired
    }

    /// How often each operation was asked for.
    pub fn counts(&self) -> BTreeMap<Op, usize> {
        self.state().counts.clone()
    }

    /// Notes that the caller was answered.
    pub fn acknowledge(&self) {
        let mut state = self.state();
        state.push(Event::Acknowledged);
        let late = std::mem::take(&mut state.late);
        late.into_iter().for_each(|event| state.push(event));
    }

    /// Counts an operation, and says how it fails.
    pub(crate) fn begin(&self, op: Op) -> Option<Failure> {
        let mut state = self.state();
        let count = state.counts.entry(op).or_default();
        let number = *count;
        *count += 1;
        let fault = state.fault.filter(|fault| fault.op == op && (fault.nth == number || fault.stays && fault.nth < number))?;
        state.fired += 1;
        Some(fault.failure)
    }

    /// Whether a failure of this operation is kept from the engine.
    pub(crate) fn swallows_error(&self, op: Op) -> bool {
        let plant = self.state().plant;
        plant == Plant::SwallowWriteErrors && op == Op::Write || plant == Plant::SwallowSyncErrors && op == Op::Sync
    }

    pub(crate) fn created(&self, name: &str) {
        let mut state = self.state();
        let file = state.next_file;
        state.next_file += 1;
        state.files.insert(name.to_owned(), file);
        state.push(Event::Create { file, name: name.to_owned() });
    }

    pub(crate) fn unlinked(&self, name: &str) {
        let mut state = self.state();
        state.files.remove(name);
        state.push(Event::Unlink { name: name.to_owned() });
    }

    pub(crate) fn wrote(&self, name: &str, offset: u64, data: &[u8]) {
        self.push_of(name, |file| Event::Write { file, offset, data: data.into() });
    }

    pub(crate) fn cut(&self, name: &str, len: u64) {
        self.push_of(name, |file| Event::SetLen { file, len });
    }

    pub(crate) fn synced(&self, name: &str) {
        let mut state = self.state();
        let Some(file) = state.files.get(name).copied() else { return };
        match state.plant {
            Plant::SwallowSyncs(suffix) if name.ends_with(suffix) => {}
            Plant::SyncAfterAnswer => state.late.push(Event::Sync { file }),
            _ => state.push(Event::Sync { file }),
        }
    }

    pub(crate) fn lost_sync(&self, name: &str) {
        self.push_of(name, |file| Event::LostSync { file });
    }

    pub(crate) fn synced_directory(&self) {
        let mut state = self.state();
        if state.plant != Plant::SwallowDirectorySyncs {
            state.push(Event::SyncDirectory);
        }
    }

    fn push_of(&self, name: &str, event: impl FnOnce(FileId) -> Event) {
        let mut state = self.state();
        if let Some(file) = state.files.get(name).copied() {
            state.push(event(file));
        }
    }
}

impl State {
    fn push(&mut self, event: Event) {
        if let Some(recording) = &mut self.recording {
            recording.events.push(event);
        }
    }
}
