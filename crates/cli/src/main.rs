//! The command `runledger`.

mod commands;
mod lines;
mod outcome;

use std::process::ExitCode;

use clap::Parser;

/// Keeps the state of workflow runs.
///
/// A store is named by its address: memory:, sqlite:PATH or redb:PATH. In a path, %, ? and # are written %25, %3F and %23.
/// Options follow as a query, as in sqlite:runs.db?durability=relaxed.
///
/// Ends with 0 when all went well, 2 for wrong usage or input, 3 when something is not there, 4 when the records refuse it,
/// 5 when something is damaged, 6 when the store can't be had now, 7 when this build lacks it, 130 when interrupted, and 1
/// for the rest.
#[derive(Parser)]
#[command(name = "runledger", version, max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    command: commands::Command,
}

fn main() -> ExitCode {
    Arguments::parse().command.run()
}
