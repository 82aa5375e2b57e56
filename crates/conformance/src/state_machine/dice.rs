//! Choices made from bytes: all zeros choose the plainest of everything, which is where shrinking leads.

/// A row of bytes that decides, one after the other; after the last they are all 0.
pub(super) struct Dice<'a> {
    bytes: std::slice::Iter<'a, u8>,
}

impl<'a> Dice<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Dice { bytes: bytes.iter() }
    }

    /// A number below `n`, which is at most 256.
    pub(super) fn below(&mut self, n: usize) -> usize {
        usize::from(self.bytes.next().copied().unwrap_or(0)) % n.max(1)
    }

    /// True in so many of a hundred throws.
    pub(super) fn chance(&mut self, percent: usize) -> bool {
        self.below(100) >= 100 - percent
    }

    /// One of several.
    pub(super) fn one<T: Clone>(&mut self, pool: &[T]) -> T {
        pool[self.below(pool.len())].clone()
    }

    /// One of several, if there are any.
    pub(super) fn any<T: Clone>(&mut self, pool: &[T]) -> Option<T> {
        (!pool.is_empty()).then(|| self.one(pool))
    }

    /// Up to `most` of several, with repeats.
    pub(super) fn some<T: Clone>(&mut self, pool: &[T], most: usize) -> Vec<T> {
        (0..self.below(most + 1)).map(|_| self.one(pool)).collect()
    }

    /// A value in so many of a hundred throws.
    pub(super) fn maybe<T>(&mut self, percent: usize, value: impl FnOnce(&mut Self) -> T) -> Option<T> {
        if self.chance(percent) { Some(value(self)) } else { None }
    }
}
