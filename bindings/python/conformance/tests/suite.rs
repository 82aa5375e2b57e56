//! Every case of the conformance suite, through the typed methods of the Python package.
//!
//! `RUNLEDGER_PYTHON` names the Python that has the package installed: `cargo xtask check` builds the wheel, installs it in a
//! fresh environment and sets this. Without it the tests say that they are skipped.

#![allow(clippy::unwrap_used, reason = "the lint's exception for tests does not reach their helpers")]

mod bridge;

use std::sync::Arc;

use runledger_conformance::{Traits, run_all};

use bridge::{Bridge, PythonHarness};

/// Why a request may be one that a typed method can't express. Every other one must go through a typed method.
const UNTYPED: &[&str] = &[
    "a batch or query in a batch",
    "a field is given twice",
    "a request over the limit",
    "a required field is missing",
    "a time that no datetime can be",
    "an integer in a spelling that Python does not keep",
    "an unknown field",
    "an unknown or missing field",
    "an unknown or missing field of an object",
    "nested deeper than Python reads",
    "no JSON object",
    "no text",
    "there is no such operation",
];

fn run(traits: Traits) {
    let Some(python) = std::env::var_os("RUNLEDGER_PYTHON") else {
        println!("skipped: RUNLEDGER_PYTHON does not name a Python that has the package");
        return;
    };
    let bridge = Arc::new(Bridge::start(&python));
    let report = run_all(&PythonHarness::new(Arc::clone(&bridge), traits.without_clock()));
    let counts = Arc::into_inner(bridge).unwrap().end();
    println!("{counts}");
    assert_eq!(report.failed(), 0, "{report}");
    assert!(report.passed() > 150, "{report}");

    let untyped = counts["untyped"].as_object().unwrap();
    assert!(untyped.keys().all(|reason| UNTYPED.contains(&reason.as_str())), "{counts}");
    let around: u64 = untyped.values().map(|count| count.as_u64().unwrap()).sum();
    assert!(counts["typed"].as_u64().unwrap() > 20 * around, "most requests go through typed methods: {counts}");
    assert_eq!(counts["liveObjects"], 0, "all that the library gave was given back: {counts}");
}

#[test]
fn python_on_memory() {
    run(Traits::memory());
}

#[test]
fn python_on_sqlite() {
    run(Traits::sqlite());
}

#[test]
fn python_on_redb() {
    run(Traits::redb());
}
