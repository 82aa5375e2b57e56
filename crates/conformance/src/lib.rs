//! The conformance suite of runledger: one list of cases that every backend and every binding runs.
//!
//! A case drives a store through the JSON form alone, so that whatever speaks it can be held against the contract: a
//! backend in Rust by [`LedgerHarness`], a binding by its own [`Harness`]. [`conformance_tests!`] makes a `#[test]` of
//! each case, [`run_all`] runs them all and reports.
//!
//! A case that a harness can't run (it needs a file, a manual clock, …) says so and counts as skipped.

#![deny(dead_code, reason = "a case that is not in the list would be dead code, and must not go unnoticed")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "in this crate a panic is how a case fails")]

mod cases;
mod check;
mod context;
mod defective;
mod harness;
mod ledger;
pub mod mutants;
pub mod oracle;
mod report;
pub mod state_machine;

pub use cases::CASES;
pub use context::Context;
pub use defective::Defective;
pub use harness::{Harness, Options, Place, Sharing, Store, Traits};
pub use ledger::LedgerHarness;
pub use report::{Case, Outcome, Report, run_all, run_case, run_test};

/// Makes a `#[test]` of every case, on the harness that the expression makes.
///
/// The expression is evaluated once for each case, so that the tests share nothing.
#[macro_export]
macro_rules! conformance_tests {
    ($harness:expr) => {
        fn harness() -> impl $crate::Harness {
            $harness
        }

        $crate::for_each_case! { harness }

        #[test]
        fn the_suite_has_every_case() {
            println!("{} cases", $crate::CASES.len());
            assert!($crate::CASES.len() >= 150);
        }
    };
}
