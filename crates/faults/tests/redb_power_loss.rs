//! Power is lost at every moment of a workload on redb.

use runledger_faults::crash::{Plan, Tally, record, try_all};
use runledger_faults::{Plant, Redb, Workload, is_long};

#[test]
fn whatever_power_loss_leaves_holds_all_that_was_acknowledged_and_nothing_half() {
    let seeds = if is_long() { 40 } else { 1 };
    let mut tally = Tally::default();
    for seed in 0..seeds {
        let workload = Workload::new(seed, if is_long() { 100 } else { 24 }, 6);
        let recording = record(&Redb, &workload, Plant::Nothing);
        tally.add(try_all(&Redb, &workload, &recording, &Plan::of_seed(seed)));
        assert!(tally.violations.is_empty(), "seed {seed}: {:#?}", tally.violations);
    }
    println!("redb, power loss: {seeds} seeds: {tally}");
}
