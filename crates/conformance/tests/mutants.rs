//! The suite and the state machine notice when a store is wrong.

#![allow(clippy::unwrap_used, clippy::panic, reason = "in a test a panic is a failure")]

use runledger_backend_memory::MemoryBackend;
use runledger_conformance::mutants::{BackendFault, Broken, CallFault, Mangled};
use runledger_conformance::state_machine::find_difference;
use runledger_conformance::{CASES, Harness, LedgerHarness, Outcome, Traits, run_case};
use runledger_core::Ledger;

fn unbroken() -> LedgerHarness {
    LedgerHarness::new("memory", Traits::memory(), |_, options| Ok(Ledger::new(MemoryBackend::open(options)?, options)))
}

fn broken(fault: BackendFault) -> LedgerHarness {
    LedgerHarness::new("memory with a fault", Traits::memory(), move |_, options| {
        Ok(Ledger::new(Broken::new(MemoryBackend::open(options)?, fault), options))
    })
}

/// What came of the case with this name, as `group::name`.
fn run(harness: &dyn Harness, name: &str) -> Outcome {
    let case = CASES.iter().find(|case| format!("{}::{}", case.group, case.name) == name);
    run_case(harness, case.unwrap_or_else(|| panic!("there is no case {name}")))
}

/// Why the case does not tell the store with a fault from one without.
fn missed(mutant: &dyn Harness, fault: &str, case: &str) -> Option<String> {
    match (run(&unbroken(), case), run(mutant, case)) {
        (Outcome::Passed, Outcome::Failed(_)) => None,
        (on_unbroken, on_mutant) => Some(format!("{fault}, {case}: {on_unbroken:?} without the fault, {on_mutant:?} with it")),
    }
}

#[test]
fn each_broken_backend_fails_its_case() {
    let missed: Vec<String> =
        BackendFault::ALL.iter().filter_map(|fault| missed(&broken(*fault), &format!("{fault:?}"), fault.caught_by())).collect();
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}

#[test]
fn each_store_with_broken_calls_fails_its_case() {
    let missed: Vec<String> = CallFault::ALL
        .iter()
        .filter_map(|fault| missed(&Mangled::new(unbroken(), *fault), &format!("{fault:?}"), fault.caught_by()))
        .collect();
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}

#[test]
fn the_state_machine_notices_each_broken_backend() {
    // It reads no record that was deleted by its key again, and imports nothing that conflicts.
    const BEYOND_IT: [BackendFault; 2] = [BackendFault::DeletedNodesCanStillBeRead, BackendFault::FailedWorkIsCommitted];
    let missed: Vec<_> = BackendFault::ALL
        .iter()
        .filter(|fault| !BEYOND_IT.contains(fault))
        .filter(|fault| find_difference(&[&broken(**fault)], 500, 120, 0, 0).is_none())
        .collect();
    assert!(missed.is_empty(), "{missed:?}");
}
