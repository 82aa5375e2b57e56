//! The layer below is broken on purpose, or the product's back is gone behind: each of these must be found.

#![allow(clippy::unwrap_used, clippy::panic, reason = "the lints' exception for tests does not reach their helpers")]

use std::path::Path;

use runledger_core::{Durability, Journal};
use runledger_faults::crash::{self, record};
use runledger_faults::errors;
use runledger_faults::{Floor, Image, Op, Plant, Redb, Rig, Sqlite, Unit, Workload, state_of};

/// Loses power until a violation is found, and asserts that one is.
fn assert_power_loss_finds(rig: &dyn Rig, plant: Plant) -> String {
    let workload = Workload::new(3, 12, 5);
    let recording = record(rig, &workload, plant);
    let tally = crash::try_all(rig, &workload, &recording, &crash::Plan::until_the_first(3));
    println!("{plant:?} on {}: {tally}", rig.name());
    tally.violations.into_iter().next().unwrap_or_else(|| panic!("{plant:?} on {} went unnoticed", rig.name()))
}

/// Has operations fail until a violation is found, and asserts that one is.
fn assert_errors_find(rig: &dyn Rig, op: Op, plant: Plant) {
    let ops = [op];
    let plan = errors::Plan { plant, violations: 1, ..errors::Plan::of(&ops) };
    let tally = errors::try_all(rig, &Workload::new(4, 8, 3), plan);
    println!("{plant:?} on {}: {tally}", rig.name());
    assert!(!tally.violations.is_empty(), "{plant:?} on {} went unnoticed", rig.name());
}

fn sqlite(journal: Journal) -> Sqlite {
    Sqlite::new(journal, Durability::Full)
}

#[test]
fn redb_acknowledging_without_a_flush_is_found() {
    assert_power_loss_finds(&Redb, Plant::SwallowSyncs(""));
}

#[test]
fn redb_acknowledging_before_the_flush_is_found() {
    assert_power_loss_finds(&Redb, Plant::SyncAfterAnswer);
}

#[test]
fn redb_taking_a_write_that_failed_for_done_is_found() {
    assert_errors_find(&Redb, Op::Write, Plant::SwallowWriteErrors);
}

#[test]
fn redb_taking_a_flush_that_failed_for_done_is_found() {
    assert_errors_find(&Redb, Op::Sync, Plant::SwallowSyncErrors);
}

#[test]
fn sqlite_acknowledging_before_the_flush_is_found() {
    assert_power_loss_finds(&sqlite(Journal::Wal), Plant::SyncAfterAnswer);
}

#[test]
fn sqlite_with_synchronous_off_is_found() {
    for journal in [Journal::Wal, Journal::Delete] {
        let rig = sqlite(journal).with_behind_its_back(c"PRAGMA synchronous = OFF");
        assert_power_loss_finds(&rig, Plant::Nothing);
    }
}

#[test]
fn sqlite_with_synchronous_normal_for_full_is_found() {
    for journal in [Journal::Wal, Journal::Delete] {
        let rig = sqlite(journal).with_behind_its_back(c"PRAGMA synchronous = NORMAL");
        assert_power_loss_finds(&rig, Plant::Nothing);
    }
}

#[test]
fn sqlite_without_a_log_with_synchronous_normal_for_relaxed_is_found() {
    let rig = Sqlite::new(Journal::Delete, Durability::Relaxed).with_behind_its_back(c"PRAGMA synchronous = NORMAL");
    assert_power_loss_finds(&rig, Plant::Nothing);
}

#[test]
fn sqlite_without_a_flush_of_the_directory_is_found() {
    assert_power_loss_finds(&sqlite(Journal::Delete), Plant::SwallowDirectorySyncs);
    let rig = sqlite(Journal::Delete).with_behind_its_back(c"PRAGMA synchronous = FULL");
    assert_power_loss_finds(&rig, Plant::Nothing);
}

#[test]
fn sqlite_without_a_flush_of_the_log_is_found() {
    assert_power_loss_finds(&sqlite(Journal::Wal), Plant::SwallowSyncs("-wal"));
}

#[test]
fn sqlite_without_a_flush_of_the_journal_is_found() {
    assert_power_loss_finds(&sqlite(Journal::Delete), Plant::SwallowSyncs("-journal"));
}

#[test]
fn sqlite_without_a_flush_of_the_file_at_a_checkpoint_is_found() {
    assert_power_loss_finds(&sqlite(Journal::Wal), Plant::SwallowSyncs("store"));
}

#[test]
fn sqlite_relaxed_is_held_to_less_than_full() {
    let relaxed = Sqlite::new(Journal::Wal, Durability::Relaxed).with_floor(Floor::Acknowledged);
    assert_power_loss_finds(&relaxed, Plant::Nothing);
}

#[test]
fn sqlite_taking_a_write_that_failed_for_done_is_found() {
    assert_errors_find(&sqlite(Journal::Wal), Op::Write, Plant::SwallowWriteErrors);
}

#[test]
fn sqlite_taking_a_flush_that_failed_for_done_is_found() {
    assert_errors_find(&sqlite(Journal::Wal), Op::Sync, Plant::SwallowSyncErrors);
}

/// The counters are changed by a transaction of their own: power that is lost in between leaves them wrong, and nothing
/// but the verification can say so.
#[test]
fn sqlite_counting_outside_of_the_transaction_is_found() {
    let rig = sqlite(Journal::Wal);
    let site = rig.site(&Image::new());
    let ledger = site.open(&rig.options()).unwrap();
    let queue = |number: usize| {
        let run = format!(r#""projectId":"p","id":"r{number}","workflowId":"w","input":1,"queuedAt":"2026-01-01T00:00:00Z""#);
        assert!(ledger.call_json(format!(r#"{{"op":"runs.queue",{run}}}"#)).starts_with(r#"{"ok""#));
        state_of(&ledger).unwrap()
    };
    let mut states = vec![queue(0)];
    site.watch().record(&files_at(site.path().unwrap()));
    for number in 1..=4 {
        // What a count of its own comes to: for a moment it is made, and the run is not there.
        let count = |by: i64| {
            let conn = rusqlite::Connection::open(site.path().unwrap()).unwrap();
            conn.execute_batch(&format!("UPDATE project SET queued = queued + {by}; UPDATE workflow SET queued = queued + {by};")).unwrap();
        };
        count(1);
        states.push(queue(number));
        count(-1);
        site.acknowledge();
    }
    let workload = Workload { units: vec![Unit::Checkpoint; 4], answers: vec![Vec::new(); 4], states };
    let tally = crash::try_all(&rig, &workload, &site.watch().recording(), &crash::Plan::until_the_first(3));
    println!("counting outside of the transaction: {tally}");
    assert!(tally.violations.iter().any(|what| what.contains("verify")), "it went unnoticed: {:?}", tally.violations);
}

fn files_at(path: &Path) -> Image {
    let files = std::fs::read_dir(path.parent().unwrap()).unwrap().map(|entry| entry.unwrap());
    let named = files.map(|entry| (entry.file_name().into_string().unwrap(), std::fs::read(entry.path()).unwrap()));
    named.filter(|(name, _)| !name.ends_with("-shm")).collect()
}
