//! The binary form of a record's state, and the checksums that cover what a store holds.
//!
//! The state is every field but the key (project and id), which the store has anyway, and the large values, which are
//! stored apart. The form is fixed by the store's schema version: it changes only with a migration.

use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use crate::{AgentRun, Entity, Error, Execution, Held, Id, NodeRun, Principal, Record, Result, Run, Status, Stored, Text, Time};

/// A record whose state has a binary form.
pub trait StateCodec: Record {
    /// Appends the state.
    fn encode_state(&self, out: &mut Vec<u8>);

    /// Reads a state; `None` when the bytes are none.
    fn decode_state(project: &Id, id: &Id, reader: &mut Reader<'_>) -> Option<Self>;
}

/// Appends the set of large values and the state of a record.
pub fn encode<R: StateCodec>(record: &R, held: Held, out: &mut Vec<u8>) {
    out.push(held.0);
    record.encode_state(out);
}

/// Reads what [`encode`] wrote from the front of `bytes`, and what follows it.
///
/// # Errors
/// `corrupt` when the bytes are no such thing.
pub fn decode<'a, R: StateCodec>(project: &Id, id: &Id, bytes: &'a [u8]) -> Result<(Stored<R>, &'a [u8])> {
    let mut reader = Reader(bytes);
    let read = |reader: &mut Reader<'_>| {
        let held = Held(reader.u8()?);
        Some(Stored { record: R::decode_state(project, id, reader)?, held, handle: 0 })
    };
    match read(&mut reader) {
        Some(stored) => Ok((stored, reader.0)),
        None => Err(damaged(R::ENTITY, project, id, "its state can't be read")),
    }
}

/// The error of a record that is not as it was written.
pub fn damaged(entity: Entity, project: &Id, id: &Id, what: &str) -> Error {
    Error::refused(crate::Code::Corrupt, entity, project, id, what)
}

/// The checksum of a record's state, bound to its key.
pub fn state_checksum<R: StateCodec>(record: &R, held: Held) -> u64 {
    let mut bytes = Vec::with_capacity(256);
    encode(record, held, &mut bytes);
    checksum(R::ENTITY, record.project_id(), record.key_id(), STATE, &bytes)
}

/// The checksum of a large value, bound to its record and slot.
pub fn large_checksum(entity: Entity, project: &Id, id: &Id, slot: usize, value: &str) -> u64 {
    checksum(entity, project, id, slot as u8, value.as_bytes())
}

/// The part of [`checksum`] that is a record's state.
pub const STATE: u8 = u8::MAX;

/// The checksum of some bytes, bound to a record's key and to which part of it they are: a slot, or [`STATE`].
pub fn checksum(entity: Entity, project: &Id, id: &Id, part: u8, bytes: &[u8]) -> u64 {
    // No identifier holds a NUL, so that different keys are different bytes here.
    let mut key = [0; 2 * crate::MAX_ID_BYTES + 4];
    let mut len = 0;
    for piece in [&[entity as u8, part][..], project.as_bytes(), &[0], id.as_bytes()] {
        let end = (len + piece.len()).min(key.len());
        key[len..end].copy_from_slice(&piece[..end - len]);
        len = end;
    }
    xxh3_64_with_seed(bytes, xxh3_64(&key[..len]))
}

/// Takes values from the front of bytes.
#[derive(Debug)]
pub struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    /// One byte.
    pub fn u8(&mut self) -> Option<u8> {
        self.take(1).map(|bytes| bytes[0])
    }

    /// Four bytes.
    pub fn u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.take(4)?.try_into().ok()?))
    }

    /// Eight bytes.
    pub fn u64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }

    /// A text with its length before it.
    pub fn str(&mut self) -> Option<&'a str> {
        let len = match self.u8()? {
            u8::MAX => self.u32()? as usize,
            short => usize::from(short),
        };
        std::str::from_utf8(self.take(len)?).ok()
    }
}

/// Appends a text with its length before it: one byte for the common short ones.
pub fn put_str(out: &mut Vec<u8>, text: &str) {
    match u8::try_from(text.len()) {
        Ok(short) if short < u8::MAX => out.push(short),
        _ => {
            out.push(u8::MAX);
            // A text is at most as long as a request, which is far below 4 GiB.
            out.extend_from_slice(&(text.len() as u32).to_le_bytes());
        }
    }
    out.extend_from_slice(text.as_bytes());
}

trait Part: Sized {
    fn put(&self, out: &mut Vec<u8>);
    fn get(reader: &mut Reader<'_>) -> Option<Self>;
}

impl Part for Id {
    fn put(&self, out: &mut Vec<u8>) {
        put_str(out, self);
    }
    fn get(reader: &mut Reader<'_>) -> Option<Self> {
        reader.str().map(Id::from)
    }
}

impl Part for Text {
    fn put(&self, out: &mut Vec<u8>) {
        put_str(out, self);
    }
    fn get(reader: &mut Reader<'_>) -> Option<Self> {
        reader.str().map(Text::from)
    }
}

impl Part for Time {
    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.unix_us().to_le_bytes());
    }
    fn get(reader: &mut Reader<'_>) -> Option<Self> {
        Time::from_unix_us(reader.u64()? as i64)
    }
}

impl Part for u32 {
    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.to_le_bytes());
    }
    fn get(reader: &mut Reader<'_>) -> Option<Self> {
        reader.u32()
    }
}

impl Part for Status {
    fn put(&self, out: &mut Vec<u8>) {
        out.push(*self as u8);
    }
    fn get(reader: &mut Reader<'_>) -> Option<Self> {
        Status::from_number(reader.u8()?)
    }
}

impl Part for Principal {
    fn put(&self, out: &mut Vec<u8>) {
        self.kind.put(out);
        self.id.put(out);
    }
    fn get(reader: &mut Reader<'_>) -> Option<Self> {
        Some(Principal { kind: Part::get(reader)?, id: Part::get(reader)? })
    }
}

impl Part for Execution {
    fn put(&self, out: &mut Vec<u8>) {
        self.token.put(out);
        self.lease_expires_at.put(out);
    }
    fn get(reader: &mut Reader<'_>) -> Option<Self> {
        Some(Execution { token: Part::get(reader)?, lease_expires_at: Part::get(reader)? })
    }
}

impl<P: Part> Part for Option<P> {
    fn put(&self, out: &mut Vec<u8>) {
        out.push(u8::from(self.is_some()));
        if let Some(part) = self {
            part.put(out);
        }
    }
    fn get(reader: &mut Reader<'_>) -> Option<Self> {
        match reader.u8()? {
            0 => Some(None),
            1 => P::get(reader).map(Some),
            _ => None,
        }
    }
}

macro_rules! state {
    ($name:ident($project:ident, $id:ident): [$($field:ident),*], large [$($large:ident),*]) => {
        impl StateCodec for $name {
            fn encode_state(&self, out: &mut Vec<u8>) {
                $(self.$field.put(out);)*
            }
            fn decode_state(project: &Id, id: &Id, reader: &mut Reader<'_>) -> Option<Self> {
                Some($name {
                    $project: project.clone(),
                    $id: id.clone(),
                    $($field: Part::get(reader)?,)*
                    $($large: None,)*
                })
            }
        }
    };
}

state!(Run(project_id, id): [
    workflow_id, status, queued_at, started_at, waiting_since, finished_at, error, requested_by_principal, attempt, execution
], large [input, output, source]);
state!(NodeRun(project_id, id): [
    workflow_run_id, workflow_id, node_index, node_type, node_id, node_key, status, started_at, waiting_since, finished_at, error
], large [input, output]);
state!(AgentRun(project_id, node_run_id): [
    agent_id, status, execution_principal, model_id, finish_reason, error, attempt, execution, created_at, started_at, completed_at
], large [prompt, usage, trace, diagnostics]);
