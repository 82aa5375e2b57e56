//! The parts of the table.

mod agents;
pub(crate) mod footprint;
mod json;
mod large;
mod lists;
mod memory;
mod one;
pub(crate) mod postgres;
mod queue;
mod relaxed;
mod together;
mod traces;

use runledger_benches::Result;
use runledger_benches::report::Report;

use crate::Context;

type Section = (&'static str, &'static str, fn(&Context, &mut Report) -> Result<()>);

/// Every part: its name, what it shows, and how it is measured.
pub(crate) const SECTIONS: [Section; 12] = [
    ("one", "one caller, full durability", one::measure),
    ("together", "many callers, full durability", together::measure),
    ("relaxed", "SQLite without a flush for each commit", relaxed::measure),
    ("memory", "the store in memory", memory::measure),
    ("lists", "lists as the ledger grows", lists::measure),
    ("large", "inputs of 10 MiB", large::measure),
    ("footprint", "the room that a lifecycle takes", footprint::measure),
    ("queue", "claims from a backlog", queue::measure),
    ("agents", "agent runs", agents::measure),
    ("traces", "commands from a file", traces::measure),
    ("postgres", "a ledger in PostgreSQL", postgres::measure),
    ("json", "what the JSON form adds", json::measure),
];
