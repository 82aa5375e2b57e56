//! A fleet of workers in virtual time: one thread, one seed, and the same history at every run.
//!
//! Workers claim runs, confirm their leases, start and end steps, wait, finish; they crash, stand still past the end of
//! their lease and come back with tokens that are no longer theirs; their clocks differ. Reapers take expired leases over,
//! agents do their part, operators cancel and delete in between. After every single command the records that it touched
//! are held against a shadow, which knows what was last seen and what may never happen; now and then everything is.

mod fleet;
mod people;
mod shadow;
mod stage;
mod world;

use std::collections::BTreeMap;
use std::fmt;

pub use fleet::simulate;
pub use stage::Stage;

/// How long, and how large.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Where all chance comes from.
    pub seed: u64,
    /// The commands to carry out.
    pub steps: u64,
    /// The workers that claim runs; half as many claim agent runs.
    pub workers: usize,
    /// After how many commands everything is held against the shadow.
    pub quiet_every: u64,
    /// After how many commands a store that lasts is closed and opened again.
    pub reopen_every: u64,
}

impl Plan {
    /// A fleet of a dozen.
    pub fn of_seed(seed: u64, steps: u64) -> Plan {
        Plan { seed, steps, workers: 12, quiet_every: 1000, reopen_every: 2500 }
    }
}

/// What came of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// The commands that were carried out, each followed by its checks.
    pub steps: u64,
    /// The commands that succeeded, by their name.
    pub done: BTreeMap<&'static str, u64>,
    /// The commands that were refused, by the code.
    pub refused: BTreeMap<&'static str, u64>,
    /// How often a worker crashed.
    pub crashes: u64,
    /// How often a worker stood still past its lease.
    pub pauses: u64,
    /// How often one used a token that was no longer its own.
    pub ghosts: u64,
    /// How often everything was checked.
    pub quiet: u64,
    /// How often a handle was closed and opened again.
    pub reopened: u64,
    /// The seconds that passed in the simulation.
    pub virtual_s: u64,
    /// A hash over all that was answered: the same seed gives the same one on every backend.
    pub history: u64,
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Tally { steps, crashes, pauses, ghosts, quiet, reopened, virtual_s, history, .. } = self;
        write!(f, "{steps} steps over {virtual_s} virtual seconds, {crashes} crashes, {pauses} pauses past the lease, ")?;
        write!(f, "{ghosts} uses of a lost token, {quiet} full checks, {reopened} handles reopened, history {history:016x}, ")?;
        write!(f, "done {:?}, refused {:?}", self.done, self.refused)
    }
}

/// The seeds to try: that of the variable `RUNLEDGER_SEED` alone, where it has one.
pub fn seeds(first: u64, count: u64) -> Vec<u64> {
    let given = std::env::var("RUNLEDGER_SEED").ok().and_then(|seed| seed.parse().ok());
    given.map_or_else(|| (first..first + count).collect(), |seed| vec![seed])
}
