//! A fleet of workers in virtual time, over every backend.

#![allow(clippy::unwrap_used, clippy::panic, reason = "the lints' exception for tests does not reach their helpers")]

use std::time::Instant;

use runledger_core::Journal;
use runledger_faults::is_long;
use runledger_faults::simulation::{Plan, Stage, Tally, seeds, simulate};

/// Plays one simulation, which must find nothing.
fn play(stage: &Stage, plan: Plan) -> Tally {
    simulate(stage, plan).unwrap_or_else(|what| panic!("{what}"))
}

/// Plays many, each on a stage of its own.
fn play_all(make: impl Fn() -> Stage, count: (u64, u64), steps: (u64, u64), plan: impl Fn(u64, u64) -> Plan) {
    let (count, steps) = if is_long() { (count.1, steps.1) } else { (count.0, steps.0) };
    let began = Instant::now();
    let (mut all, mut ghosts, mut lost) = (0, 0, 0);
    for seed in seeds(1, count) {
        let stage = make();
        let tally = play(&stage, plan(seed, steps));
        println!("simulation on {}, seed {seed}: {tally}", stage.name());
        all += tally.steps;
        ghosts += tally.ghosts;
        lost += tally.refused.get("stale_token").copied().unwrap_or(0);
        for op in ["runs.queue", "runs.claim", "runs.reclaim", "runs.confirm", "nodes.start", "agents.claim", "runs.cancel", "runs.purge"] {
            assert!(tally.done.get(op).is_some_and(|count| *count > 0), "{op} was never played");
        }
    }
    let steps_per_minute = all as f64 / began.elapsed().as_secs_f64() * 60.0;
    println!("simulation: {all} steps in all, {steps_per_minute:.0} a minute");
    assert!(ghosts > 0 && lost > 0);
}

#[test]
fn on_memory_nothing_that_may_never_happen_happens() {
    let plan = |seed, steps| Plan { quiet_every: 5000, ..Plan::of_seed(seed, steps) };
    play_all(Stage::memory, (4, 40), (50_000, 500_000), plan);
}

#[test]
fn on_sqlite_with_three_handles_nothing_that_may_never_happen_happens() {
    play_all(|| Stage::sqlite(Journal::Wal, 3), (1, 20), (5000, 20_000), Plan::of_seed);
}

#[test]
fn on_sqlite_without_a_log_nothing_that_may_never_happen_happens() {
    play_all(|| Stage::sqlite(Journal::Delete, 2), (1, 10), (3000, 20_000), Plan::of_seed);
}

#[test]
fn on_redb_nothing_that_may_never_happen_happens() {
    play_all(Stage::redb, (1, 20), (4000, 20_000), Plan::of_seed);
}

/// A seed is all there is to a simulation: twice, and on every backend, it is the same history.
#[test]
fn a_seed_gives_the_same_history_on_every_backend() {
    let plan = Plan { workers: 6, ..Plan::of_seed(77, 1500) };
    let history = |stage: Stage| play(&stage, plan).history;
    let memory = history(Stage::memory());
    assert_eq!(memory, history(Stage::memory()));
    assert_eq!(memory, history(Stage::redb()));
    assert_eq!(memory, history(Stage::sqlite(Journal::Wal, 1)));
    assert_ne!(memory, play(&Stage::memory(), Plan { seed: 78, ..plan }).history);
}
