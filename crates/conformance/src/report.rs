//! Runs cases and says what came of them.

use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use crate::{CASES, Context, Harness};

/// One case: a name that says what it shows, and the code that shows it.
pub struct Case {
    /// What it shows.
    pub name: &'static str,
    /// What it is about.
    pub group: &'static str,
    /// Shows it, or panics.
    pub run: fn(&Context<'_>),
}

/// What came of a case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It holds.
    Passed,
    /// It does not apply to the harness, for this reason.
    Skipped(String),
    /// It does not hold.
    Failed(String),
}

/// Runs one case. The store is verified after it.
pub fn run_case(harness: &dyn Harness, case: &Case) -> Outcome {
    let run = || {
        let context = Context::new(harness);
        (case.run)(&context);
        context.finish()
    };
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok(None) => Outcome::Passed,
        Ok(Some(reason)) => Outcome::Skipped(reason),
        Err(panic) => Outcome::Failed(text_of(&*panic)),
    }
}

fn text_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_else(|| "a panic without a text".to_owned())
}

/// Runs the case of a group with a name as a test: it panics when the case does not hold.
pub fn run_test(harness: &dyn Harness, group: &str, name: &str) {
    let Some(case) = CASES.iter().find(|case| case.group == group && case.name == name) else {
        panic!("there is no case {group}::{name}");
    };
    let context = Context::new(harness);
    (case.run)(&context);
    if let Some(reason) = context.finish() {
        println!("skipped on {}: {reason}", harness.name());
    }
}

/// What came of all cases.
#[derive(Debug)]
pub struct Report {
    /// What was tested.
    pub harness: String,
    /// Each case, with what came of it and how long it took.
    pub results: Vec<(String, Outcome, Duration)>,
}

impl Report {
    /// How many cases hold.
    pub fn passed(&self) -> usize {
        self.count(|outcome| *outcome == Outcome::Passed)
    }

    /// How many cases do not apply.
    pub fn skipped(&self) -> usize {
        self.count(|outcome| matches!(outcome, Outcome::Skipped(_)))
    }

    /// How many cases do not hold.
    pub fn failed(&self) -> usize {
        self.count(|outcome| matches!(outcome, Outcome::Failed(_)))
    }

    fn count(&self, wanted: impl Fn(&Outcome) -> bool) -> usize {
        self.results.iter().filter(|(_, outcome, _)| wanted(outcome)).count()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, outcome, _) in &self.results {
            match outcome {
                Outcome::Passed => {}
                Outcome::Skipped(reason) => writeln!(f, "skipped {name}: {reason}")?,
                Outcome::Failed(why) => writeln!(f, "FAILED  {name}: {why}")?,
            }
        }
        let (all, passed, skipped, failed) = (self.results.len(), self.passed(), self.skipped(), self.failed());
        write!(f, "{}: {all} cases, {passed} passed, {skipped} skipped, {failed} failed", self.harness)
    }
}

/// Runs every case, one after the other, and prints the report.
pub fn run_all(harness: &dyn Harness) -> Report {
    let mut report = Report { harness: harness.name(), results: Vec::with_capacity(CASES.len()) };
    for case in CASES {
        let began = Instant::now();
        let outcome = run_case(harness, case);
        report.results.push((format!("{}::{}", case.group, case.name), outcome, began.elapsed()));
    }
    println!("{report}");
    report
}
