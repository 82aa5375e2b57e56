//! Every operation of redb on its file fails in turn.

use runledger_faults::errors::{Plan, try_all, try_threads};
use runledger_faults::{Failure, Fault, Op, Redb, Workload, is_long};

fn fail(plan: Plan<'_>) {
    for seed in 0..if is_long() { 30 } else { 1 } {
        let workload = Workload::new(seed + 100, if is_long() { 30 } else { 8 }, 4);
        let tally = try_all(&Redb, &workload, plan);
        println!("redb, errors of {:?}: {tally}", plan.ops);
        assert!(tally.violations.is_empty(), "seed {seed}: {:#?}", tally.violations);
        assert!(tally.injected >= tally.runs);
    }
}

#[test]
fn writes_that_fail_cost_nothing_that_was_acknowledged() {
    fail(Plan::of(&[Op::Write, Op::SetLen]));
}

#[test]
fn flushes_that_fail_cost_nothing_that_was_acknowledged() {
    fail(Plan::of(&[Op::Sync]));
}

#[test]
fn reads_that_fail_are_answered_so() {
    fail(Plan::of(&[Op::Read, Op::Len]));
}

#[test]
fn locks_that_fail_are_answered_so() {
    fail(Plan::of(&[Op::Lock, Op::Unlock, Op::Close]));
}

#[test]
fn after_a_flush_that_failed_and_a_kill_nothing_is_built_on_what_was_not_written() {
    fail(Plan { kills: true, ..Plan::of(&[Op::Sync]) });
}

#[test]
fn errors_while_many_threads_work_cost_nothing_that_was_acknowledged() {
    let (mut runs, mut acknowledged) = (0, 0);
    for op in [Op::Write, Op::Read, Op::Sync] {
        for nth in (1..30).step_by(if is_long() { 1 } else { 4 }) {
            for (failure, stays) in [(Failure::Io, false), (Failure::Full, false), (Failure::Io, true), (Failure::Full, true)] {
                let fault = Fault { op, nth, failure, stays };
                acknowledged += try_threads(&Redb, fault, 10).unwrap_or_else(|what| panic!("{fault:?}: {what}"));
                runs += 1;
            }
        }
    }
    println!("redb, errors under four threads: {runs} faults, {acknowledged} runs acknowledged");
    assert!(acknowledged > runs);
}
