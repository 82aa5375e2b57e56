//! A standby that takes over.

#[path = "../../examples/failover/steps.rs"]
mod steps;

use std::path::Path;

use runledger_core::Code;
use runledger_postgres_kit::{Server, sql};

use crate::kit::{open, queue};

/// What the document shows has numbers of one run.
fn without_numbers(line: &str) -> String {
    line.split(|c: char| c.is_ascii_digit()).filter(|part| !part.is_empty()).collect::<Vec<_>>().join("0")
}

#[test]
fn a_synchronous_standby_that_is_promoted_has_everything_acknowledged_as_the_document_shows() {
    let document = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/POSTGRES.md")).unwrap();
    let shown = document.split("$ cargo xtask failover\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let mut told = String::new();
    steps::failover(&mut |step| told.extend([&step, "\n"]));
    println!("{told}");
    assert_eq!(without_numbers(shown), without_numbers(&told));
}

#[test]
fn a_commit_that_no_standby_confirmed_is_not_known_to_hold() {
    let server = Server::start(&[]);
    let ledger = open(&format!("{}?statement_timeout_ms=1000", server.url())).unwrap();
    ledger.queue_run(queue("p", "before")).unwrap();
    // A standby that does not exist is waited for until the wait is cancelled: the server then warns, and commits here.
    sql(&server.url(), "ALTER SYSTEM SET synchronous_standby_names = 'nobody'");
    sql(&server.url(), "SELECT pg_reload_conf()");
    let error = loop {
        match ledger.queue_run(queue("p", "after")) {
            Err(error) if error.code() != Code::AlreadyExists => break error,
            // The setting had not arrived yet.
            _ => continue,
        }
    };
    assert_eq!((error.code(), error.details().applied, error.is_retryable()), (Code::Unavailable, Some("unknown"), false));
    // With less durability nobody is waited for.
    let relaxed = open(&format!("{}?durability=relaxed", server.url())).unwrap();
    relaxed.queue_run(queue("p", "relaxed")).unwrap();
}
