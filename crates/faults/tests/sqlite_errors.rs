//! Every operation of SQLite on its files fails in turn.

use runledger_core::{Durability, Journal};
use runledger_faults::errors::{Plan, try_all, try_threads};
use runledger_faults::{Failure, Fault, Op, Sqlite, Workload, is_long};

fn fail(journal: Journal, plan: Plan<'_>) {
    for seed in 0..if is_long() { 30 } else { 1 } {
        let workload = Workload::new(seed + 100, if is_long() { 30 } else { 5 }, 2);
        let rig = Sqlite::new(journal, Durability::Full);
        let tally = try_all(&rig, &workload, plan);
        println!("errors of {:?} on {rig}: {tally}", plan.ops);
        assert!(tally.violations.is_empty(), "seed {seed}: {:#?}", tally.violations);
        assert!(tally.injected > 0);
    }
}

const WRITES: [Op; 4] = [Op::Write, Op::SetLen, Op::Open, Op::Delete];
const READS: [Op; 3] = [Op::Read, Op::Len, Op::Access];
const LOCKS: [Op; 5] = [Op::Lock, Op::Unlock, Op::CheckLock, Op::SharedMap, Op::SharedLock];

#[test]
fn with_a_log_writes_that_fail_cost_nothing_that_was_acknowledged() {
    fail(Journal::Wal, Plan::of(&WRITES));
}

#[test]
fn with_a_log_flushes_that_fail_cost_nothing_that_was_acknowledged() {
    fail(Journal::Wal, Plan::of(&[Op::Sync]));
}

#[test]
fn with_a_log_reads_that_fail_are_answered_so() {
    fail(Journal::Wal, Plan::of(&READS));
}

#[test]
fn with_a_log_locks_that_fail_are_answered_so() {
    fail(Journal::Wal, Plan::of(&LOCKS));
}

#[test]
fn with_a_journal_writes_that_fail_cost_nothing_that_was_acknowledged() {
    fail(Journal::Delete, Plan::of(&WRITES));
}

#[test]
fn with_a_journal_flushes_that_fail_cost_nothing_that_was_acknowledged() {
    fail(Journal::Delete, Plan::of(&[Op::Sync]));
}

#[test]
fn with_a_journal_reads_that_fail_are_answered_so() {
    fail(Journal::Delete, Plan::of(&READS));
}

#[test]
fn with_a_journal_locks_that_fail_are_answered_so() {
    fail(Journal::Delete, Plan::of(&LOCKS));
}

#[test]
fn with_a_log_after_a_flush_that_failed_and_a_kill_nothing_is_built_on_what_was_not_written() {
    fail(Journal::Wal, Plan { kills: true, ..Plan::of(&[Op::Sync]) });
}

#[test]
fn with_a_journal_after_a_flush_that_failed_and_a_kill_nothing_is_built_on_what_was_not_written() {
    fail(Journal::Delete, Plan { kills: true, ..Plan::of(&[Op::Sync]) });
}

#[test]
fn relaxed_errors_cost_nothing_that_was_acknowledged_either() {
    let ops = [Op::Write, Op::Sync];
    let tally = try_all(&Sqlite::new(Journal::Wal, Durability::Relaxed), &Workload::new(100, 5, 2), Plan::of(&ops));
    println!("errors of {ops:?} on sqlite with durability=relaxed: {tally}");
    assert!(tally.violations.is_empty(), "{:#?}", tally.violations);
}

#[test]
fn errors_while_many_threads_work_cost_nothing_that_was_acknowledged() {
    let (mut runs, mut acknowledged) = (0, 0);
    for op in [Op::Write, Op::Read, Op::Sync, Op::SharedLock] {
        for nth in (1..60).step_by(if is_long() { 1 } else { 9 }) {
            for (failure, stays) in [(Failure::Io, false), (Failure::Full, false), (Failure::Io, true), (Failure::Full, true)] {
                let fault = Fault { op, nth, failure, stays };
                let rig = Sqlite::new(Journal::Wal, Durability::Full);
                acknowledged += try_threads(&rig, fault, 10).unwrap_or_else(|what| panic!("{fault:?}: {what}"));
                runs += 1;
            }
        }
    }
    println!("sqlite, errors under four threads: {runs} faults, {acknowledged} runs acknowledged");
    assert!(acknowledged > runs);
}
