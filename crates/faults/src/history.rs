//! Histories of concurrent calls, and whether they are linearisable.
//!
//! A [`History`] is what several callers asked of one project and were answered, with the times. It is right if there is
//! an order of all the calls, each somewhere between its beginning and its end, in which one caller alone would have got
//! the same answers. The search for it is Wing and Gong's, with the memory of Lowe's: a call that may come next is
//! tried, and what was tried with the same state is never tried again. A whole project is one object, so that claims,
//! which choose among its runs, and counters, which count them, are checked as they are.

mod load;
mod model;

use std::collections::HashSet;
use std::fmt;

pub use load::{Driver, Load, Reply, drive};
pub use model::{Op, Outcome, Seen, State};

/// A call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// Who made it: a caller makes one call after the other, but does not wait for what is never answered.
    pub caller: usize,
    /// When it began, in nanoseconds.
    pub began: u64,
    /// When it was answered; `None` if it never was, and may or may not have taken effect.
    pub ended: Option<u64>,
    /// What was asked.
    pub op: Op,
    /// What was answered; `None` if nothing was.
    pub outcome: Option<Outcome>,
}

/// The calls to one project.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// In any order.
    pub calls: Vec<Call>,
}

impl fmt::Display for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut calls: Vec<&Call> = self.calls.iter().collect();
        calls.sort_by_key(|call| call.began);
        let first = calls.first().map_or(0, |call| call.began);
        for call in calls {
            let ended = call.ended.map_or("never".into(), |ended| format!("{}", (ended - first) / 1000));
            let Call { caller, began, op, outcome, .. } = call;
            writeln!(f, "{caller}: {:>8} to {ended:>8} µs: {op:?} -> {outcome:?}", (began - first) / 1000)?;
        }
        Ok(())
    }
}

impl History {
    /// Looks for an order that explains the history.
    ///
    /// # Errors
    /// That there is none, with the history.
    pub fn check(&self) -> Result<(), String> {
        let mut search = Search::new(self);
        if search.run() { Ok(()) } else { Err(format!("no order explains this (at most {} calls of it):\n{self}", search.most)) }
    }

    /// How many calls had another under way at the same time.
    pub fn overlapping(&self) -> usize {
        let ended = |call: &Call| call.ended.unwrap_or(u64::MAX);
        let overlaps = |a: &Call, b: &Call| a.caller != b.caller && a.began < ended(b) && b.began < ended(a);
        self.calls.iter().filter(|call| self.calls.iter().any(|other| overlaps(call, other))).count()
    }
}

/// The calls that were put in order already, one bit each.
type Bits = Vec<u64>;

struct Search<'h> {
    calls: Vec<&'h Call>,
    seen: HashSet<(Bits, State)>,
    most: usize,
}

/// A call that was put in order, and what to go on with should that lead nowhere.
struct Tried {
    call: usize,
    before: State,
}

impl<'h> Search<'h> {
    fn new(history: &'h History) -> Self {
        let mut calls: Vec<&Call> = history.calls.iter().collect();
        calls.sort_by_key(|call| call.began);
        Search { calls, seen: HashSet::new(), most: 0 }
    }

    /// Depth first, with the way so far on a stack of its own: histories are long.
    fn run(&mut self) -> bool {
        let count = self.calls.len();
        let mut done: Bits = vec![0; count.div_ceil(64)];
        let mut way: Vec<Tried> = Vec::new();
        let mut state = State::default();
        let mut from = 0;
        loop {
            // Nothing that began after the earliest end of what is left can be next.
            let left = (0..count).filter(|call| !is_set(&done, *call));
            let Some(earliest_end) = left.filter_map(|call| self.calls[call].ended).min() else {
                // What was never answered may never have taken effect.
                return true;
            };
            let mut next = None;
            for call in from..count {
                if is_set(&done, call) {
                    continue;
                }
                if self.calls[call].began > earliest_end {
                    break;
                }
                let Some(after) = state.after(&self.calls[call].op, self.calls[call].outcome.as_ref()) else { continue };
                set(&mut done, call, true);
                if self.seen.insert((done.clone(), after.clone())) {
                    next = Some((call, after));
                    break;
                }
                set(&mut done, call, false);
            }
            match next {
                Some((call, after)) => {
                    way.push(Tried { call, before: std::mem::replace(&mut state, after) });
                    self.most = self.most.max(way.len());
                    from = 0;
                }
                None => {
                    let Some(Tried { call, before }) = way.pop() else { return false };
                    set(&mut done, call, false);
                    state = before;
                    from = call + 1;
                }
            }
        }
    }
}

fn is_set(bits: &Bits, bit: usize) -> bool {
    bits[bit / 64] >> (bit % 64) & 1 == 1
}

fn set(bits: &mut Bits, bit: usize, value: bool) {
    let mask = 1 << (bit % 64);
    if value { bits[bit / 64] |= mask } else { bits[bit / 64] &= !mask }
}
