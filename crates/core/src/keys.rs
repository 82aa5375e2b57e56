//! Keys of ordered stores: tuples whose bytes sort as their values do, and walks over several ordered ranges at once.
//!
//! No identifier holds a NUL, so an identifier that is ended by one is length-safe and keeps its byte order.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use crate::{Id, Order, PageRequest, PageStart, Result, Status, Time};

/// A key that is being built, or a prefix of keys.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key(pub Vec<u8>);

impl Key {
    /// An empty key, which is a prefix of all.
    pub fn new() -> Self {
        Key(Vec::with_capacity(96))
    }

    /// Adds an identifier.
    #[must_use]
    pub fn id(mut self, id: &str) -> Self {
        self.0.extend_from_slice(id.as_bytes());
        self.0.push(0);
        self
    }

    /// Adds a time.
    #[must_use]
    pub fn time(mut self, time: Time) -> Self {
        // With the sign flipped, times before 1970 sort before those after.
        self.0.extend_from_slice(&(time.unix_us() as u64 ^ 1 << 63).to_be_bytes());
        self
    }

    /// Adds a number.
    #[must_use]
    pub fn u32(mut self, number: u32) -> Self {
        self.0.extend_from_slice(&number.to_be_bytes());
        self
    }

    /// Adds a signed number.
    #[must_use]
    pub fn i64(mut self, number: i64) -> Self {
        self.0.extend_from_slice(&(number as u64 ^ 1 << 63).to_be_bytes());
        self
    }

    /// Adds a status.
    #[must_use]
    pub fn status(mut self, status: Status) -> Self {
        self.0.push(status as u8);
        self
    }

    /// The smallest key that is greater than every key with this prefix; `None` when there is none.
    pub fn prefix_end(&self) -> Option<Key> {
        let mut end = self.0.clone();
        while let Some(last) = end.pop() {
            if last < u8::MAX {
                end.push(last + 1);
                return Some(Key(end));
            }
        }
        None
    }
}

/// Takes a key apart again. Each method answers `None` when the bytes are no such part.
#[derive(Debug)]
pub struct KeyReader<'a>(pub &'a [u8]);

impl<'a> KeyReader<'a> {
    /// Takes an identifier.
    pub fn id(&mut self) -> Option<Id> {
        let len = self.0.iter().position(|byte| *byte == 0)?;
        let id = std::str::from_utf8(&self.0[..len]).ok()?;
        self.0 = &self.0[len + 1..];
        Some(id.into())
    }

    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*taken)
    }

    /// Takes a time.
    pub fn time(&mut self) -> Option<Time> {
        Time::from_unix_us(self.i64()?)
    }

    /// Takes a signed number.
    pub fn i64(&mut self) -> Option<i64> {
        self.take().map(|bytes| (u64::from_be_bytes(bytes) ^ 1 << 63) as i64)
    }

    /// Takes a number.
    pub fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_be_bytes)
    }

    /// Takes a status.
    pub fn status(&mut self) -> Option<Status> {
        self.take::<1>().and_then(|[number]| Status::from_number(number))
    }
}

/// Leases are indexed by the bucket that their end falls in, about 67 seconds wide, not by the exact end: a heartbeat
/// that stays in its bucket writes no index at all.
const LEASE_BUCKET_BITS: u32 = 26;

/// The bucket that a lease's end falls in. Buckets are in the order of time.
pub const fn lease_bucket(lease_expires_at: Time) -> i64 {
    lease_expires_at.unix_us() >> LEASE_BUCKET_BITS
}

/// Walks several ordered sources as one, in `order`. Each source must itself be in that order; equal keys do not occur.
pub fn merge<K: Ord, V, I: Iterator<Item = Result<(K, V)>>>(order: Order, sources: impl IntoIterator<Item = I>) -> Merge<K, V, I> {
    let mut merge = Merge { order, sources: Vec::new(), heads: BinaryHeap::new(), failed: None };
    for source in sources {
        merge.sources.push(source);
        merge.advance(merge.sources.len() - 1);
    }
    merge
}

/// See [`merge`].
#[derive(Debug)]
pub struct Merge<K, V, I> {
    order: Order,
    sources: Vec<I>,
    heads: BinaryHeap<Head<K, V>>,
    failed: Option<crate::Error>,
}

#[derive(Debug)]
struct Head<K, V> {
    order: Order,
    key: K,
    value: V,
    source: usize,
}

impl<K: Ord, V> Ord for Head<K, V> {
    fn cmp(&self, other: &Self) -> Ordering {
        // The heap gives its greatest first.
        self.order.apply(self.key.cmp(&other.key)).reverse()
    }
}

impl<K: Ord, V> PartialOrd for Head<K, V> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<K: Ord, V> PartialEq for Head<K, V> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<K: Ord, V> Eq for Head<K, V> {}

impl<K: Ord, V, I: Iterator<Item = Result<(K, V)>>> Merge<K, V, I> {
    fn advance(&mut self, source: usize) {
        match self.sources[source].next() {
            Some(Ok((key, value))) => self.heads.push(Head { order: self.order, key, value, source }),
            Some(Err(error)) => self.failed = Some(error),
            None => {}
        }
    }
}

impl<K: Ord, V, I: Iterator<Item = Result<(K, V)>>> Iterator for Merge<K, V, I> {
    type Item = Result<(K, V)>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(error) = self.failed.take() {
            self.heads.clear();
            return Some(Err(error));
        }
        let mut head = self.heads.peek_mut()?;
        // The next of the same source takes the place of the one that leaves, which is less work than to leave and come.
        match self.sources[head.source].next() {
            Some(Ok((key, value))) => {
                let key = std::mem::replace(&mut head.key, key);
                let value = std::mem::replace(&mut head.value, value);
                Some(Ok((key, value)))
            }
            ended => {
                if let Some(Err(error)) = ended {
                    self.failed = Some(error);
                }
                let head = std::collections::binary_heap::PeekMut::pop(head);
                Some(Ok((head.key, head.value)))
            }
        }
    }
}

/// Takes a page from rows that are in order and begin after the page's cursor, if it has one: passes over its offset,
/// takes its limit, and looks whether another row follows.
///
/// # Errors
/// The first error among the rows that it reads.
pub fn take_page<T>(mut rows: impl Iterator<Item = Result<T>>, page: &PageRequest) -> Result<(Vec<T>, bool)> {
    if let PageStart::Offset(offset) = page.start {
        for _ in 0..offset {
            match rows.next() {
                Some(row) => row?,
                None => return Ok((Vec::new(), false)),
            };
        }
    }
    let mut taken = Vec::with_capacity(page.limit.min(1024));
    for row in rows.by_ref().take(page.limit) {
        taken.push(row?);
    }
    let has_more = rows.next().transpose()?.is_some();
    Ok((taken, has_more))
}
