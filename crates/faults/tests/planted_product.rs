//! Defects in the product that only many callers at the same time can show, and the histories that show them; and
//! defects in a backend that the simulation must notice.

#![allow(clippy::unwrap_used, clippy::panic, reason = "the lints' exception for tests does not reach their helpers")]

use std::path::Path;

use runledger_backend_memory::MemoryBackend;
use runledger_backend_sqlite::SqliteBackend;
use runledger_conformance::mutants::{BackendFault, Broken};
use runledger_core::planted::{Defect, plant};
use runledger_core::{Backend, Durability, Journal, Ledger, OpenOptions};
use runledger_faults::crash;
use runledger_faults::damage::{self, Damage, Healthy};
use runledger_faults::errors::{self, Plan};
use runledger_faults::fork::fork;
use runledger_faults::history::{Load, drive};
use runledger_faults::migration::{Kind, lose_power};
use runledger_faults::simulation::{self, Stage, simulate};
use runledger_faults::{Around, Change, Dice, Op, Sqlite, Workload, scratch_directory};

/// Has callers race on handles until a history can't be explained.
fn find_in_a_race(handles: &[Ledger], rounds: u64) -> Option<String> {
    (0..rounds).find_map(|seed| {
        let drivers: Vec<Ledger> = (0..6).map(|caller| handles[caller % handles.len()].clone()).collect();
        let load = Load { seed, projects: 4, calls: 12, runs: 3 };
        let histories = drive(drivers, load, |number| format!("p{seed}-{number}")).unwrap();
        histories.iter().find_map(|history| history.check().err())
    })
}

fn assert_found_in_a_race(handles: &[Ledger], what: &str) {
    let found = find_in_a_race(handles, 200).unwrap_or_else(|| panic!("{what} went unnoticed"));
    println!("{what}:\n{found}");
}

fn sqlite_with<B: Backend>(path: &Path, wrap: impl Fn(SqliteBackend) -> B) -> Ledger {
    let options = OpenOptions::new().with_durability(Durability::Relaxed);
    Ledger::new(wrap(SqliteBackend::open(path, &options).unwrap()), &options)
}

fn slow_sqlite(path: &Path) -> Ledger {
    sqlite_with(path, |backend| Around::new(backend, Change::SlowCommits))
}

fn memory_with(change: Change) -> Ledger {
    let options = OpenOptions::new();
    Ledger::new(Around::new(MemoryBackend::open(&options).unwrap(), change), &options)
}

#[test]
fn followers_answered_before_the_commit_are_found() {
    let directory = scratch_directory();
    let ledger = slow_sqlite(&directory.path().join("store"));
    let _planted = plant(Defect::FollowersAreAnsweredBeforeTheCommit);
    assert_found_in_a_race(&[ledger], "a follower that is answered before the commit");
}

#[test]
fn refusals_answered_before_the_commit_they_depend_on_are_found() {
    let directory = scratch_directory();
    let ledger = slow_sqlite(&directory.path().join("store"));
    let _planted = plant(Defect::RefusalsAreAnsweredBeforeTheCommit);
    assert_found_in_a_race(&[ledger], "a refusal that is answered before the commit");
}

#[test]
fn sqlite_beginning_deferred_is_found() {
    let directory = scratch_directory();
    let handles = [(); 2].map(|()| slow_sqlite(&directory.path().join("store")));
    let _planted = plant(Defect::SqliteBeginsDeferred);
    assert_found_in_a_race(&handles, "a transaction that takes the lock only when it writes");
}

#[test]
fn sqlite_without_a_busy_timeout_is_found() {
    let directory = scratch_directory();
    let handles = [(); 2].map(|()| slow_sqlite(&directory.path().join("store")));
    let _planted = plant(Defect::SqliteDoesNotWaitForLocks);
    assert_found_in_a_race(&handles, "a store that does not wait for the lock");
}

#[test]
fn a_lease_read_before_the_lock_is_found() {
    assert_found_in_a_race(&[memory_with(Change::ReadsBeforeTheLock)], "a lease that is read before the lock");
    let directory = scratch_directory();
    let open = || sqlite_with(&directory.path().join("store"), |backend| Around::new(backend, Change::ReadsBeforeTheLock));
    assert_found_in_a_race(&[open(), open()], "a lease that is read before the lock, by several processes");
}

#[test]
fn counters_after_the_commit_are_found() {
    assert_found_in_a_race(&[memory_with(Change::CountsAfterTheCommit)], "counters that follow after the commit");
}

/// What makes the defects easier to see is no defect itself.
#[test]
fn slow_commits_alone_are_explained() {
    // Nothing may be planted meanwhile.
    let _planted = plant(Defect::MigrationHasNoTransaction);
    let directory = scratch_directory();
    let handles = [(); 2].map(|()| slow_sqlite(&directory.path().join("store")));
    assert_eq!(find_in_a_race(&handles, 12), None);
}

#[test]
fn a_migration_without_a_transaction_is_found() {
    let _planted = plant(Defect::MigrationHasNoTransaction);
    for kind in [Kind::Sqlite, Kind::Redb] {
        let tally = lose_power(kind, &crash::Plan::until_the_first(5));
        println!("a migration of {kind:?} without a transaction: {tally}: {:?}", tally.violations.first());
        assert!(!tally.violations.is_empty(), "{kind:?}: it went unnoticed");
    }
}

#[test]
fn sqlite_swallowing_a_failed_commit_is_found() {
    let _planted = plant(Defect::SqliteSwallowsAFailedCommit);
    let ops = [Op::Sync, Op::Write];
    let rig = Sqlite::new(Journal::Wal, Durability::Full);
    let tally = errors::try_all(&rig, &Workload::new(4, 8, 3), Plan { violations: 1, ..Plan::of(&ops) });
    println!("a commit that failed and was taken for done: {tally}");
    assert!(!tally.violations.is_empty(), "it went unnoticed");
}

/// Without the guard a fork's acknowledged commands are lost: what makes that guard necessary.
#[test]
fn sqlite_opened_in_a_fork_of_its_holder_is_found() {
    let _planted = plant(Defect::SqliteOpensInAFork);
    let directory = scratch_directory();
    let path = directory.path().join("store");
    let open = || Ledger::new(SqliteBackend::open(&path, &OpenOptions::new()).unwrap(), &OpenOptions::new());
    let queue = |ledger: &Ledger, id: &str| {
        let request = format!(r#"{{"op":"runs.queue","projectId":"p","id":"{id}","workflowId":"w","input":1}}"#);
        ledger.call_json(request).starts_with(r#"{"ok""#)
    };
    let ledger = open();
    assert!(queue(&ledger, "of the parent"));
    let (told, tell) = (directory.path().join("opened"), directory.path().join("closed"));
    let wait_for = |path: &Path| {
        while !path.exists() {
            std::thread::yield_now()
        }
    };
    let wait = fork(|| {
        let ledger = open();
        std::fs::write(&told, "").unwrap();
        wait_for(&tell);
        let is_acknowledged = queue(&ledger, "of the fork");
        // It is killed before it closes.
        std::mem::forget(ledger);
        is_acknowledged
    });
    wait_for(&told);
    ledger.close().unwrap();
    std::fs::write(&tell, "").unwrap();
    let is_acknowledged = wait();
    let is_there = open().get_run(runledger_core::GetRun::new("p", "of the fork")).unwrap().is_some();
    println!("the fork's command was acknowledged: {is_acknowledged}, and is there: {is_there}");
    assert!(is_acknowledged && !is_there, "it went unnoticed");
}

/// Damages files until a violation is found, and asserts that one is.
fn assert_damage_finds(kind: damage::Kind, what: &str) {
    let healthy = Healthy::new(kind, &OpenOptions::new(), &Workload::new(8, 30, 0), true);
    let mut dice = Dice::new(1);
    let found = (0..2000).find_map(|number| {
        let mut image = healthy.files.clone();
        let how = Damage::ALL[number % Damage::ALL.len()].make(image.get_mut("store").unwrap(), &mut dice);
        healthy.examine(&image).err().map(|what| format!("{how}: {what}"))
    });
    let found = found.unwrap_or_else(|| panic!("{what} on {kind:?} went unnoticed"));
    println!("{what} on {kind:?}: {}", found.chars().take(300).collect::<String>());
}

#[test]
fn checksums_that_are_not_compared_are_found() {
    let _planted = plant(Defect::ChecksumsAreNotCompared);
    for kind in [damage::Kind::Sqlite, damage::Kind::Redb] {
        assert_damage_finds(kind, "a checksum that is not compared");
    }
}

#[test]
fn a_verification_that_looks_at_nothing_is_found() {
    // Nothing else may be planted meanwhile.
    let _planted = plant(Defect::MigrationHasNoTransaction);
    for kind in [damage::Kind::SqliteVerifyingNothing, damage::Kind::RedbVerifyingNothing] {
        assert_damage_finds(kind, "a verification that looks at nothing");
    }
}

/// Each must be noticed by the simulation within so many steps.
const NOTICED_BY_THE_SIMULATION: [BackendFault; 15] = [
    BackendFault::ChangeOfANodeIsDropped,
    BackendFault::CancelledAgentStaysRunning,
    BackendFault::NewestQueuedRunIsClaimed,
    BackendFault::ClaimIgnoresTheWorkflows,
    BackendFault::NodesOfARunAreNotFound,
    BackendFault::UndoDoesNothing,
    BackendFault::PurgeTakesTheLatest,
    BackendFault::DeletedNodesCanStillBeRead,
    BackendFault::ConfirmMovesTheLeaseBack,
    BackendFault::ResumeIsNoAttempt,
    BackendFault::WaitKeepsTheExecution,
    BackendFault::GetIsStale,
    BackendFault::ExpiredLeavesOutTheBound,
    BackendFault::ExpiredComeById,
    BackendFault::StatsLoseARun,
];

#[test]
fn the_simulation_notices_what_breaks_its_rules() {
    // Nothing else may be planted meanwhile.
    let _planted = plant(Defect::MigrationHasNoTransaction);
    for fault in NOTICED_BY_THE_SIMULATION {
        let found = simulation::seeds(1, 3).into_iter().find_map(|seed| {
            let stage = Stage::memory_as(&format!("memory with {fault:?}"), move |backend| Broken::new(backend, fault));
            simulate(&stage, simulation::Plan { quiet_every: 500, ..simulation::Plan::of_seed(seed, 30_000) }).err()
        });
        let found = found.unwrap_or_else(|| panic!("{fault:?} went unnoticed"));
        // A seed that fails says how to make it fail again.
        assert!(found.starts_with("RUNLEDGER_SEED="), "{found}");
        println!("{fault:?}: {}", found.lines().next().unwrap_or_default());
    }
}
