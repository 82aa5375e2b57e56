//! Cursors: a place in the order of one list, as opaque text.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use xxhash_rust::xxh3::xxh3_64;

use crate::codec::Reader;
use crate::{Error, Id, Order, Position, Result, Time};

/// Which list a cursor is of: it fits no other.
pub(crate) struct List<'a> {
    pub(crate) op: &'static str,
    pub(crate) project_id: Option<&'a Id>,
    pub(crate) order: Order,
}

impl List<'_> {
    /// What binds a place to this list, and shows damage to either.
    fn seal(&self, place: &[u8]) -> u64 {
        let project = self.project_id.map_or("", |project| project);
        let mut bytes = Vec::with_capacity(place.len() + project.len() + self.op.len() + 8);
        // No identifier and no name of an operation holds a NUL.
        for part in [self.op.as_bytes(), project.as_bytes(), self.order.as_str().as_bytes(), place] {
            bytes.extend_from_slice(part);
            bytes.push(0);
        }
        xxh3_64(&bytes)
    }

    pub(crate) fn write(&self, position: &Position) -> String {
        let mut place = Vec::with_capacity(position.id.len() + 20);
        place.extend_from_slice(&position.time.unix_us().to_le_bytes());
        place.extend_from_slice(&position.node_index.to_le_bytes());
        place.extend_from_slice(position.id.as_bytes());
        place.extend_from_slice(&self.seal(&place).to_le_bytes());
        URL_SAFE_NO_PAD.encode(place)
    }

    pub(crate) fn read(&self, cursor: &str) -> Result<Position> {
        let parse = || {
            let bytes = URL_SAFE_NO_PAD.decode(cursor).ok()?;
            let (place, seal) = bytes.split_last_chunk()?;
            if u64::from_le_bytes(*seal) != self.seal(place) {
                return None;
            }
            let mut reader = Reader(place);
            let time = Time::from_unix_us(reader.u64()? as i64)?;
            let node_index = reader.u32()?;
            Some(Position { time, node_index, id: Id::from(std::str::from_utf8(reader.0).ok()?) })
        };
        parse().ok_or_else(|| Error::invalid("cursor", "not a cursor of this list, project and order"))
    }
}
