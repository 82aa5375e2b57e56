//! Callers that meet on purpose, and what they were answered.

use std::time::Instant;

use runledger_core::Ledger;

use super::{Call, History, Op};
use crate::Dice;

/// What becomes of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// The answer.
    Answer(String),
    /// Nobody knows whether it took effect, or will yet; the caller goes on.
    Unknown,
    /// As unknown, and the caller is gone too.
    Gone,
}

/// Something that answers requests, for one caller at a time.
pub trait Driver: Send {
    /// Makes a call.
    fn call(&mut self, request: &str) -> Reply;
}

impl Driver for Ledger {
    fn call(&mut self, request: &str) -> Reply {
        Reply::Answer(self.call_json(request))
    }
}

/// How much is asked at the same time.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Where all chance comes from; what the callers meet in is of the system's making.
    pub seed: u64,
    /// The projects, each a history of its own, that all callers go through one after the other.
    pub projects: usize,
    /// The calls of each caller to each project.
    pub calls: usize,
    /// The runs of each project: the fewer, the more the callers meet.
    pub runs: u8,
}

/// Has callers work at the same time, each with a driver of its own; answers a history for each project.
///
/// # Errors
/// An answer that no operation has.
pub fn drive<D: Driver>(drivers: Vec<D>, load: Load, project: impl Fn(usize) -> String + Sync) -> Result<Vec<History>, String> {
    let start = Instant::now();
    let gate = std::sync::Barrier::new(drivers.len());
    let of_caller = |caller: usize, mut driver: D| -> Result<Vec<Vec<Call>>, String> {
        let mut dice = Dice::new(load.seed.wrapping_mul(1000).wrapping_add(caller as u64));
        let mut own = Own { caller, made: 0, tokens: Vec::new() };
        let mut is_gone = false;
        let mut histories = Vec::new();
        gate.wait();
        for number in 0..load.projects {
            let project = project(number);
            own.tokens.clear();
            let mut calls = Vec::new();
            while !is_gone && calls.len() < load.calls {
                let op = own.op(&mut dice, load.runs);
                let request = op.request(&project);
                let began = start.elapsed().as_nanos() as u64;
                let reply = driver.call(&request);
                let ended = start.elapsed().as_nanos() as u64;
                is_gone = reply == Reply::Gone;
                let outcome = match reply {
                    Reply::Answer(answer) => Some(op.outcome(&answer)?),
                    Reply::Unknown | Reply::Gone => None,
                };
                if let Some(super::Outcome::Run(seen)) = &outcome {
                    own.note(&op, seen.run);
                }
                calls.push(Call { caller, began, ended: outcome.is_some().then_some(ended), op, outcome });
            }
            histories.push(calls);
        }
        Ok(histories)
    };
    let all: Vec<Vec<Vec<Call>>> = std::thread::scope(|scope| {
        let of_caller = &of_caller;
        let threads: Vec<_> =
            drivers.into_iter().enumerate().map(|(caller, driver)| scope.spawn(move || of_caller(caller, driver))).collect();
        threads.into_iter().map(|thread| thread.join().expect("a caller that panics is a defect")).collect::<Result<_, _>>()
    })?;
    let of_project = |number: usize| History { calls: all.iter().flat_map(|caller| caller[number].clone()).collect() };
    Ok((0..load.projects).map(of_project).collect())
}

/// What a caller knows.
struct Own {
    caller: usize,
    made: u16,
    /// The runs that it was given, and the tokens it was given them with.
    tokens: Vec<(u8, u16)>,
}

impl Own {
    fn note(&mut self, op: &Op, run: u8) {
        if let Op::Start { token, .. } | Op::Claim { token } | Op::Reclaim { token, .. } | Op::Resume { token, .. } = *op {
            self.tokens.push((run, token));
        }
    }

    /// The next call. Tokens are those of this caller, of which most are good; some are nobody's.
    fn op(&mut self, dice: &mut Dice, runs: u8) -> Op {
        self.made += 1;
        let token = self.caller as u16 * 1000 + self.made;
        let run = dice.below(usize::from(runs)) as u8;
        let at = dice.below(8) as u8;
        let own = if self.tokens.is_empty() { (run, 0) } else { dice.one_of(&self.tokens) };
        let own = if dice.once_in(3) { self.tokens.last().copied().unwrap_or(own) } else { own };
        match dice.below(36) {
            0..=5 => Op::Queue { run, at },
            6 => Op::QueueTwo { runs: [run, (run + 1) % runs], at },
            7 => Op::Replace { old: run, new: (run + 1) % runs },
            8..=9 => Op::Start { run, token },
            10..=15 => Op::Claim { token },
            16..=17 => Op::Reclaim { run, token, expired_by: dice.once_in(2).then(|| dice.below(25) as u8) },
            18..=20 => Op::Confirm { run: own.0, token: own.1, until: dice.below(30) as u8 },
            21..=22 => Op::Wait { run: own.0, token: own.1 },
            23..=24 => Op::Resume { run, token },
            25..=26 => Op::Finish { run: own.0, token: own.1, succeeds: dice.once_in(2) },
            27 => Op::Cancel { run },
            28..=29 => Op::Get { run },
            30..=33 => Op::Stats,
            _ => Op::List { status: dice.below(6) as u8 },
        }
    }
}
