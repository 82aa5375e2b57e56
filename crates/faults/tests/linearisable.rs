//! What many callers at the same time were answered can be explained by an order of their calls.

#![allow(clippy::unwrap_used, clippy::panic, reason = "the lints' exception for tests does not reach their helpers")]

use std::path::Path;

use runledger_backend_memory::MemoryBackend;
use runledger_backend_redb::RedbBackend;
use runledger_backend_sqlite::SqliteBackend;
use runledger_core::{Ledger, OpenOptions, VerifyStore};
use runledger_faults::history::{Call, History, Load, Op, Outcome, Seen, drive};
use runledger_faults::process::{Process, serve};
use runledger_faults::{is_long, scratch_directory};

const CALLERS: usize = 6;

fn rounds(quick: u64) -> u64 {
    if is_long() { quick * 25 } else { quick }
}

/// Checks every history, and that the callers met at all.
fn check(name: &str, histories: &[History]) {
    let (mut calls, mut overlapping) = (0, 0);
    for history in histories {
        history.check().unwrap_or_else(|what| panic!("{name}: {what}"));
        calls += history.calls.len();
        overlapping += history.overlapping();
    }
    println!("{name}: {} histories of {calls} calls, {overlapping} of them at the same time as another", histories.len());
    assert!(overlapping > 0, "the callers never met");
}

/// Rounds of callers on handles of one store, and its verification at each quiet point in between.
fn check_threads(name: &str, handles: &[Ledger], quick_rounds: u64, load: Load) {
    let mut histories = Vec::new();
    for round in 0..rounds(quick_rounds) {
        let drivers: Vec<Ledger> = (0..CALLERS).map(|caller| handles[caller % handles.len()].clone()).collect();
        let load = Load { seed: load.seed + round, ..load };
        let made = drive(drivers, load, |number| format!("p{round}-{number}")).unwrap();
        at_quiet_point(&handles[0], (0..load.projects).map(|number| format!("p{round}-{number}")));
        histories.extend(made);
    }
    check(name, &histories);
}

/// The counters equal the records: by the store's own verification, and by counting what is listed.
fn at_quiet_point(ledger: &Ledger, projects: impl Iterator<Item = String>) {
    let report = ledger.verify_store(VerifyStore::new()).unwrap();
    assert!(report.is_ok(), "{:?}", report.problems);
    for project in projects {
        let runs = ledger.list_runs(runledger_core::ListRuns::new(project.clone())).unwrap();
        let stats = ledger.run_stats(runledger_core::GetRunStats::new(project)).unwrap();
        assert_eq!(stats.by_status.total(), runs.rows.len() as u64);
        for status in runledger_core::Status::ALL {
            assert_eq!(stats.by_status.of(*status), runs.rows.iter().filter(|run| run.status == *status).count() as u64);
        }
    }
}

const LOAD: Load = Load { seed: 1, projects: 12, calls: 12, runs: 4 };

#[test]
fn threads_on_memory() {
    let options = OpenOptions::new();
    check_threads("memory", &[Ledger::new(MemoryBackend::open(&options).unwrap(), &options)], 40, LOAD);
}

#[test]
fn threads_on_redb() {
    let directory = scratch_directory();
    let options = OpenOptions::new();
    let backend = RedbBackend::open(&directory.path().join("store"), &options).unwrap();
    check_threads("redb", &[Ledger::new(backend, &options)], 8, LOAD);
}

#[test]
fn threads_on_three_handles_of_sqlite() {
    let directory = scratch_directory();
    let handles = [(); 3].map(|()| open_sqlite(&directory.path().join("store")));
    check_threads("sqlite, three handles", &handles, 8, LOAD);
}

#[test]
fn threads_on_sqlite_without_a_log() {
    let directory = scratch_directory();
    let options = OpenOptions::new().with_journal(runledger_core::Journal::Delete);
    let backend = SqliteBackend::open(&directory.path().join("store"), &options).unwrap();
    let handles = [Ledger::new(backend, &options), open_sqlite(&directory.path().join("store"))];
    check_threads("sqlite without a log, two handles", &handles, 3, LOAD);
}

fn open_sqlite(path: &Path) -> Ledger {
    let options = OpenOptions::new().with_busy_timeout_ms(60_000);
    Ledger::new(SqliteBackend::open(path, &options).unwrap(), &options)
}

/// What the other processes do; without their environment it does nothing.
#[test]
fn child() {
    serve(open_sqlite);
}

#[test]
fn processes_on_one_file_of_sqlite() {
    let mut histories = Vec::new();
    for round in 0..rounds(2) {
        let directory = scratch_directory();
        let path = directory.path().join("store");
        let processes = (0..CALLERS).map(|_| Process::start(&path, None)).collect();
        histories.extend(drive(processes, Load { seed: 500 + round, ..LOAD }, |number| format!("p{number}")).unwrap());
        at_quiet_point(&open_sqlite(&path), (0..LOAD.projects).map(|number| format!("p{number}")));
    }
    check("sqlite, processes", &histories);
}

/// What a process was asked when it was killed has taken effect or not, but never half, and never later than that.
#[test]
fn processes_that_are_killed_on_one_file_of_sqlite() {
    let mut histories = Vec::new();
    for round in 0..rounds(4) {
        let directory = scratch_directory();
        let path = directory.path().join("store");
        let killed_after = |caller: usize| caller.is_multiple_of(2).then_some(10 + 7 * caller + round as usize % 5);
        let processes = (0..CALLERS).map(|caller| Process::start(&path, killed_after(caller))).collect();
        histories.extend(drive(processes, Load { seed: 900 + round, projects: 6, ..LOAD }, |number| format!("p{number}")).unwrap());
        at_quiet_point(&open_sqlite(&path), (0..6).map(|number| format!("p{number}")));
    }
    let unanswered = histories.iter().flat_map(|history| &history.calls).filter(|call| call.ended.is_none()).count();
    println!("{unanswered} calls were never answered");
    assert!(unanswered > 0);
    check("sqlite, processes that are killed", &histories);
}

fn call(caller: usize, began: u64, ended: u64, op: Op, outcome: Outcome) -> Call {
    Call { caller, began, ended: Some(ended), op, outcome: Some(outcome) }
}

fn run(run: u8, status: u8, attempt: u32, owner: Option<(u16, u8)>) -> Outcome {
    Outcome::Run(Seen { run, status, attempt, owner })
}

fn refused(code: &str) -> Outcome {
    Outcome::Refused(code.into())
}

fn queued(n: u8) -> Call {
    call(0, 0, 1, Op::Queue { run: n, at: 0 }, run(n, 0, 0, None))
}

/// The checker finds what is wrong, and only that: each pair differs in one point.
#[test]
fn the_checker_tells_right_histories_from_wrong_ones() {
    let right = |what: &str, calls: Vec<Call>| assert!(History { calls }.check().is_ok(), "{what} is right");
    let wrong = |what: &str, calls: Vec<Call>| assert!(History { calls }.check().is_err(), "{what} is wrong");
    let claim = |caller: usize, began, ended, token, got: Option<u8>| {
        let outcome = got.map_or(Outcome::Null, |got| run(got, 1, 1, Some((token, 10))));
        call(caller, began, ended, Op::Claim { token }, outcome)
    };
    right("a claim of what is queued", vec![queued(1), claim(1, 2, 3, 7, Some(1))]);
    wrong("a claim that finds nothing while a run is queued", vec![queued(1), claim(1, 2, 3, 7, None)]);
    right(
        "a claim that finds nothing before a run is queued",
        vec![call(0, 0, 5, queued(1).op, run(1, 0, 0, None)), claim(1, 2, 3, 7, None)],
    );
    right("two claims of two runs", vec![queued(1), queued(2), claim(1, 2, 9, 7, Some(2)), claim(2, 2, 9, 8, Some(1))]);
    wrong("two claims of one run", vec![queued(1), queued(2), claim(1, 2, 9, 7, Some(1)), claim(2, 2, 9, 8, Some(1))]);
    wrong("a claim of the second run first", vec![queued(1), queued(2), claim(1, 2, 3, 7, Some(2)), claim(2, 4, 5, 8, Some(1))]);

    let confirm = |began, ended, token, outcome| call(1, began, ended, Op::Confirm { run: 1, token, until: 20 }, outcome);
    let reclaim = |began, ended| call(2, began, ended, Op::Reclaim { run: 1, token: 8, expired_by: None }, run(1, 1, 2, Some((8, 10))));
    let held = || vec![queued(1), claim(1, 2, 3, 7, Some(1))];
    let with = |more: Vec<Call>| [held(), more].concat();
    right("a confirm while it is reclaimed", with(vec![reclaim(4, 9), confirm(5, 8, 7, run(1, 1, 1, Some((7, 20))))]));
    wrong("a confirm by the old owner after that", with(vec![reclaim(4, 5), confirm(6, 8, 7, run(1, 1, 1, Some((7, 20))))]));
    right("a refusal of the old owner", with(vec![reclaim(4, 5), confirm(6, 8, 7, refused("stale_token"))]));
    wrong("a refusal of the owner", with(vec![confirm(6, 8, 7, refused("stale_token"))]));
    let guarded = |until, outcome| call(2, 6, 7, Op::Reclaim { run: 1, token: 8, expired_by: Some(until) }, outcome);
    wrong("a guarded reclaim of a lease that was confirmed", {
        with(vec![confirm(4, 5, 7, run(1, 1, 1, Some((7, 20)))), guarded(15, run(1, 1, 2, Some((8, 10))))])
    });
    right("its refusal", with(vec![confirm(4, 5, 7, run(1, 1, 1, Some((7, 20)))), guarded(15, refused("lease_active"))]));

    let finish = |caller, began, ended, succeeds, outcome| call(caller, began, ended, Op::Finish { run: 1, token: 7, succeeds }, outcome);
    wrong("two ends", with(vec![finish(1, 4, 9, true, run(1, 3, 1, None)), finish(2, 4, 9, false, run(1, 4, 1, None))]));
    right("one end", with(vec![finish(1, 4, 9, true, run(1, 3, 1, None)), finish(2, 4, 9, false, refused("invalid_transition"))]));
    let resume = |caller, token, outcome| call(caller, 6, 9, Op::Resume { run: 1, token }, outcome);
    let waits = || call(1, 4, 5, Op::Wait { run: 1, token: 7 }, run(1, 2, 1, None));
    wrong("two resumes", with(vec![waits(), resume(1, 8, run(1, 1, 2, Some((8, 10)))), resume(2, 9, run(1, 1, 2, Some((9, 10))))]));
    right("one resume", with(vec![waits(), resume(1, 8, run(1, 1, 2, Some((8, 10)))), resume(2, 9, refused("invalid_transition"))]));

    let get = |began, ended, outcome| call(3, began, ended, Op::Get { run: 1 }, outcome);
    wrong("a read that misses what was acknowledged", vec![queued(1), get(2, 3, Outcome::Null)]);
    wrong("a read that goes back", with(vec![get(4, 5, run(1, 0, 0, None))]));
    wrong("a start refused for a run that nobody sees", {
        let start = call(1, 2, 3, Op::Start { run: 1, token: 9 }, refused("already_exists"));
        vec![start, get(4, 5, Outcome::Null)]
    });
    let stats = |counts| call(3, 4, 5, Op::Stats, Outcome::Counts(counts));
    right("counters that count", with(vec![stats([0, 1, 0, 0, 0, 0])]));
    wrong("a counter that lags behind", with(vec![stats([1, 0, 0, 0, 0, 0])]));
    wrong("a total that is not that of the rows", with(vec![call(3, 4, 5, Op::List { status: 1 }, Outcome::Listed { rows: 1, total: 2 })]));
    let replace = || call(1, 4, 6, Op::Replace { old: 1, new: 2 }, Outcome::Both);
    wrong("half a batch", with(vec![replace(), call(3, 4, 6, Op::Stats, Outcome::Counts([1, 1, 0, 0, 0, 0]))]));
    right("a whole batch", with(vec![replace(), call(3, 4, 6, Op::Stats, Outcome::Counts([1, 0, 0, 0, 0, 1]))]));

    let unanswered = |op: Op| Call { caller: 5, began: 2, ended: None, op, outcome: None };
    right("what was never answered took effect", vec![queued(1), unanswered(Op::Cancel { run: 1 }), get(4, 5, run(1, 5, 0, None))]);
    right("or did not", vec![queued(1), unanswered(Op::Cancel { run: 1 }), get(4, 5, run(1, 0, 0, None))]);
    wrong("but not both", {
        vec![queued(1), unanswered(Op::Cancel { run: 1 }), get(4, 5, run(1, 5, 0, None)), get(6, 7, run(1, 0, 0, None))]
    });
}
