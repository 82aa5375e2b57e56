//! Power is lost at every moment of a workload on SQLite.

use runledger_core::{Durability, Journal};
use runledger_faults::crash::{Plan, Tally, record, try_all};
use runledger_faults::{Event, Plant, Shm, Sqlite, Workload, is_long};

fn lose_power(rig: &Sqlite, length: usize) {
    let seeds = if is_long() { 40 } else { 1 };
    let mut tally = Tally::default();
    for seed in 0..seeds {
        let workload = Workload::new(seed, if is_long() { 4 * length } else { length }, 4);
        let recording = record(rig, &workload, Plant::Nothing);
        tally.add(try_all(rig, &workload, &recording, &Plan::of_seed(seed)));
        assert!(tally.violations.is_empty(), "seed {seed}: {:#?}", tally.violations);
    }
    println!("power loss on {rig}: {seeds} seeds: {tally}");
}

fn with_shm(journal: Journal, durability: Durability, shm: Shm) -> Sqlite {
    Sqlite::new(journal, durability).with_shm(shm)
}

#[test]
fn with_a_log_all_that_was_acknowledged_is_held_and_nothing_half() {
    lose_power(&with_shm(Journal::Wal, Durability::Full, Shm::None), 10);
}

#[test]
fn with_a_log_stale_shared_memory_changes_nothing() {
    lose_power(&with_shm(Journal::Wal, Durability::Full, Shm::Stale), 6);
}

#[test]
fn with_a_log_garbage_for_shared_memory_changes_nothing() {
    lose_power(&with_shm(Journal::Wal, Durability::Full, Shm::Garbage), 6);
}

#[test]
fn with_a_journal_all_that_was_acknowledged_is_held_and_nothing_half() {
    lose_power(&Sqlite::new(Journal::Delete, Durability::Full), 8);
}

#[test]
fn with_a_log_and_relaxed_the_loss_is_a_suffix() {
    lose_power(&Sqlite::new(Journal::Wal, Durability::Relaxed), 10);
}

#[test]
fn with_a_journal_and_relaxed_the_loss_is_a_suffix() {
    lose_power(&Sqlite::new(Journal::Delete, Durability::Relaxed), 8);
}

/// The engine copies the log into the file by itself when it has grown.
#[test]
fn when_the_log_is_copied_into_the_file_nothing_is_lost() {
    let rig = Sqlite::new(Journal::Wal, Durability::Full);
    let workload = Workload::of_large(90, 100_000);
    let recording = record(&rig, &workload, Plant::Nothing);
    // The first file is the store's own.
    let is_of_store = |event: &Event| matches!(event, Event::Write { file: 0, .. });
    let created = recording.events.iter().position(|event| matches!(event, Event::Acknowledged)).unwrap();
    let copied = created + recording.events[created..].iter().position(is_of_store).expect("the log was copied");
    let few = Plan { from: copied - 2, images: 24, moments_one_in: 100, singles: 3, subsets: 3, recoveries_one_in: 0, ..Plan::of_seed(1) };
    let plan = if is_long() { Plan { images: 3000, moments_one_in: 20, singles: 40, ..few } } else { few };
    let tally = try_all(&rig, &workload, &recording, &plan);
    println!("power loss while the log is copied: {tally}");
    assert!(tally.violations.is_empty(), "{:#?}", tally.violations);
}
