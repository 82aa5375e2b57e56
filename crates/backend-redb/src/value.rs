//! How records stand in their tables: a checksum, the short ones of their large values, and the state.
//!
//! `[checksum: u64][length of the next: u32]([slot: u8][length: u16][text])*[state, as core encodes it]`, numbers with
//! their lowest byte first. The short values stand before the state, so that a transition carries them over without
//! knowing where the state ends. Longer ones have a row of their own, `[checksum: u64][text]`, which no transition touches.

use std::sync::Arc;

use redb::ReadableTable;
use runledger_core::codec::{self, Reader, STATE, StateCodec, damaged};
use runledger_core::planted::{Defect, is_planted};
use runledger_core::{AnswerForm, Code, Entity, Error, Held, Id, Put, Result, Stored};

use crate::error::Coded;
use crate::schema::{Bytes, Writes, large_key};
use crate::transact::Table;

/// The longest large value that stands in its record. It saves a row on every write and a look-up on every read, at the
/// price of being written again with each transition.
pub(crate) const MAX_INLINE_BYTES: usize = 1024;

const CHECKSUM_BYTES: usize = 8;

/// The large values that stand in a record.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Inline<'a>([Option<&'a str>; runledger_core::MAX_LARGE]);

impl<'a> Inline<'a> {
    fn parse(bytes: &'a [u8]) -> Option<Self> {
        let mut inline = Inline::default();
        let mut rest = bytes;
        while let Some((head, tail)) = rest.split_first_chunk::<3>() {
            let (text, tail) = tail.split_at_checked(usize::from(u16::from_le_bytes([head[1], head[2]])))?;
            *inline.0.get_mut(usize::from(head[0]))? = Some(std::str::from_utf8(text).ok()?);
            rest = tail;
        }
        rest.is_empty().then_some(inline)
    }

    fn append_to(&self, out: &mut Vec<u8>) {
        for (slot, text) in self.0.iter().enumerate() {
            if let Some(text) = text {
                out.push(slot as u8);
                // At most MAX_INLINE_BYTES.
                out.extend_from_slice(&(text.len() as u16).to_le_bytes());
                out.extend_from_slice(text.as_bytes());
            }
        }
    }

    /// The large value of a slot, if it stands here.
    pub(crate) fn get(&self, slot: usize) -> Option<&'a str> {
        self.0[slot]
    }

    /// Those of `held` that do not stand here, and so have a row of their own.
    pub(crate) fn apart(&self, held: Held) -> impl Iterator<Item = usize> {
        held.slots().filter(|slot| self.0[*slot].is_none())
    }

    fn held(&self) -> Held {
        (0..self.0.len()).filter(|slot| self.0[*slot].is_some()).fold(Held::default(), |mut held, slot| {
            held.insert(slot);
            held
        })
    }
}

/// Takes a record's value apart, once its checksum is found right.
pub(crate) fn parse<'a, R: StateCodec>(project: &Id, id: &Id, value: &'a [u8]) -> Result<(Stored<R>, Inline<'a>)> {
    let (inline, state) = split::<R>(project, id, value)?;
    let (stored, rest) = codec::decode::<R>(project, id, state)?;
    if !rest.is_empty() || inline.held().union(stored.held) != stored.held {
        return Err(damaged(R::ENTITY, project, id, "its parts do not fit each other"));
    }
    Ok((stored, inline))
}

fn split<'a, R: StateCodec>(project: &Id, id: &Id, value: &'a [u8]) -> Result<(Inline<'a>, &'a [u8])> {
    let body =
        checked(R::ENTITY, project, id, STATE, value).ok_or_else(|| damaged(R::ENTITY, project, id, "its checksum does not match"))?;
    let parts = || {
        let mut reader = Reader(body);
        let len = reader.u32()? as usize;
        let (inline, state) = reader.0.split_at_checked(len)?;
        Some((Inline::parse(inline)?, state))
    };
    parts().ok_or_else(|| damaged(R::ENTITY, project, id, "its parts do not fit each other"))
}

/// What follows the checksum, if that matches.
fn checked<'a>(entity: Entity, project: &Id, id: &Id, part: u8, value: &'a [u8]) -> Option<&'a [u8]> {
    let (checksum, body) = value.split_first_chunk::<CHECKSUM_BYTES>()?;
    let matches = codec::checksum(entity, project, id, part, body) == u64::from_le_bytes(*checksum);
    (matches || is_planted(Defect::ChecksumsAreNotCompared)).then_some(body)
}

/// Reads a record from its value, and its large values if the form has them; `apart` gives those that have their own row.
pub(crate) fn read<R: StateCodec>(
    project: &Id,
    id: &Id,
    value: &[u8],
    form: AnswerForm,
    mut apart: impl FnMut(usize) -> Result<Arc<str>>,
) -> Result<Stored<R>> {
    let (mut stored, inline) = parse::<R>(project, id, value)?;
    if form == AnswerForm::Record {
        for slot in stored.held.slots() {
            let text = match inline.0[slot] {
                Some(text) => text.into(),
                None => apart(slot)?,
            };
            stored.record.set_large(slot, text);
        }
    }
    Ok(stored)
}

/// Reads a large value that a record holds from its own row.
pub(crate) fn read_apart(table: &impl ReadableTable<Bytes, Bytes>, entity: Entity, project: &Id, id: &Id, slot: usize) -> Result<Arc<str>> {
    let text = find_apart(table, entity, project, id, slot)?;
    text.ok_or_else(|| damaged(entity, project, id, "one of its large values is not there"))
}

/// Reads a large value from its own row, if there is one.
pub(crate) fn find_apart(
    table: &impl ReadableTable<Bytes, Bytes>,
    entity: Entity,
    project: &Id,
    id: &Id,
    slot: usize,
) -> Result<Option<Arc<str>>> {
    let Some(row) = table.get(large_key(entity, project, id, slot).0.as_slice()).coded()? else { return Ok(None) };
    let text = checked(entity, project, id, slot as u8, row.value()).and_then(|text| std::str::from_utf8(text).ok());
    text.map(|text| Some(text.into())).ok_or_else(|| damaged(entity, project, id, "the checksum of a large value does not match"))
}

/// Stores a record under `key`, with the large values that are to be written. `old` is its present value, if it has one.
pub(crate) fn store<R: StateCodec>(
    records: &mut Writes<'_>,
    large: &mut Table<'_>,
    key: &[u8],
    old: Option<&[u8]>,
    put: &Put<R>,
) -> Result<()> {
    let record = &put.after.record;
    let (project, id) = (record.project_id(), record.key_id());
    let before = put.before.as_ref().map_or(Held::default(), |before| before.held);
    let mut inline = match old {
        Some(old) => split::<R>(project, id, old)?.0,
        None => Inline::default(),
    };
    let apart_before = before.slots().filter(|slot| inline.0[*slot].is_none()).collect::<Vec<_>>();
    let mut apart_now = Held::default();
    for slot in 0..R::LARGE.len() {
        if put.written.contains(slot) {
            let text = record.large(slot).ok_or_else(|| Error::new(Code::Internal, "a large value to be written was not given"))?;
            inline.0[slot] = (text.len() <= MAX_INLINE_BYTES).then_some(text);
            if inline.0[slot].is_none() {
                store_apart(large, R::ENTITY, project, id, slot, text)?;
                apart_now.insert(slot);
            }
        } else if !put.after.held.contains(slot) {
            inline.0[slot] = None;
        } else if inline.0[slot].is_none() {
            apart_now.insert(slot);
        }
    }
    for slot in apart_before.into_iter().filter(|slot| !apart_now.contains(*slot)) {
        large.get_mut()?.remove(large_key(R::ENTITY, project, id, slot).0.as_slice()).coded()?;
    }
    records.insert(key, encode(record, put.after.held, &inline).as_slice()).coded()?;
    Ok(())
}

fn encode<R: StateCodec>(record: &R, held: Held, inline: &Inline<'_>) -> Vec<u8> {
    let mut value = Vec::with_capacity(512);
    value.extend_from_slice(&[0; CHECKSUM_BYTES + 4]);
    inline.append_to(&mut value);
    let inline_len = (value.len() - CHECKSUM_BYTES - 4) as u32;
    value[CHECKSUM_BYTES..CHECKSUM_BYTES + 4].copy_from_slice(&inline_len.to_le_bytes());
    codec::encode(record, held, &mut value);
    let checksum = codec::checksum(R::ENTITY, record.project_id(), record.key_id(), STATE, &value[CHECKSUM_BYTES..]);
    value[..CHECKSUM_BYTES].copy_from_slice(&checksum.to_le_bytes());
    value
}

fn store_apart(large: &mut Table<'_>, entity: Entity, project: &Id, id: &Id, slot: usize, text: &str) -> Result<()> {
    let checksum = codec::large_checksum(entity, project, id, slot, text);
    let key = large_key(entity, project, id, slot);
    let mut row = large.get_mut()?.insert_reserve(key.0.as_slice(), CHECKSUM_BYTES + text.len()).coded()?;
    let (head, body) = row.as_mut().split_at_mut(CHECKSUM_BYTES);
    head.copy_from_slice(&checksum.to_le_bytes());
    body.copy_from_slice(text.as_bytes());
    Ok(())
}
