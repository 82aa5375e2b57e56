//! Random sequences step all backends together with the naive oracle, which must agree with each of them on every answer.

#![cfg(all(feature = "memory", feature = "sqlite", feature = "redb"))]

use runledger_conformance::state_machine::run_state_machine;
use runledger_conformance::{Harness, LedgerHarness, Traits};

/// How many sequences: more with `RUNLEDGER_LONG=1`. `RUNLEDGER_SEED` takes others.
fn sequences() -> u32 {
    if std::env::var_os("RUNLEDGER_LONG").is_some() { 2000 } else { 40 }
}

#[test]
fn all_backends_answer_as_the_oracle_does() {
    let memory = LedgerHarness::new("memory", Traits::memory(), |_, options| runledger::open_memory(options));
    let sqlite = LedgerHarness::new("sqlite", Traits::sqlite(), |path, options| runledger::open_sqlite(path, options));
    let redb = LedgerHarness::new("redb", Traits::redb(), |path, options| runledger::open_redb(path, options));
    let harnesses: [&dyn Harness; 3] = [&memory, &sqlite, &redb];
    run_state_machine(&harnesses, sequences(), 120);
    println!("{} sequences of up to 120 steps on {} backends, no difference", sequences(), harnesses.len());
}
