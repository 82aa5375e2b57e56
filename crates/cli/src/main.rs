//! The command `runledger`.

mod bench;
mod commands;
mod context;
mod interrupt;
mod lines;
mod outcome;
mod progress;
mod report;
mod screen;
mod whole_file;

use std::process::ExitCode;

use clap::Parser;

use crate::context::{Context, Global};

/// Keeps the state of workflow runs, and says at 3 a.m. what is stuck, who owns it, and what it did.
///
/// A store is named by its address: memory:, sqlite:PATH, redb:PATH or postgres://USER@HOST/DATABASE. In a path, %, ? and # are written %25, %3F and %23.
/// Options follow as a query, as in sqlite:runs.db?durability=relaxed. Most commands take it from -s/--store or the
/// variable RUNLEDGER_URL.
///
/// Commands that only read open the store for reading only. Data goes to standard output, everything else to standard
/// error.
#[derive(Parser)]
#[command(name = "runledger", version, max_term_width = 100, after_help = EXIT_STATUS, subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct Arguments {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    command: commands::Command,
}

/// What `outcome` decides, for people.
const EXIT_STATUS: &str = "\
Exit status:
  0    all went well
  1    anything not named here; a bulk action that failed in part
  2    wrong usage or input
  3    something is not there
  4    the records refuse it: taken, not in that status, owned by another, leased, in conflict
  5    findings: verify found a problem, something is stuck, the store or stream is damaged
  6    the store can't be had now: busy, locked, unavailable
  7    this build or backend lacks it
  130  interrupted
exec ends with 0, or with 1 when the store can't be opened.";

fn main() -> ExitCode {
    let Arguments { global, command } = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return outcome::refuse_usage(&error),
    };
    let context = Context::new(global);
    interrupt::watch();
    command.run(&context)
}
