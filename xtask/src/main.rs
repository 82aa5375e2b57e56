//! The tasks of this workspace: `cargo xtask` lists them.

mod browser;
mod check;
mod command;
mod fuzz;
mod install;
mod metadata;
mod msrv;
mod peers;
mod peers_bench;
mod python;
mod tools;

use std::process::ExitCode;
use std::time::Instant;

/// What went wrong, for the one who called.
type Result<T, E = String> = std::result::Result<T, E>;

struct Task {
    name: &'static str,
    does: &'static str,
    run: fn() -> Result<()>,
}

const TASKS: &[Task] = &[
    Task { name: "ci", does: "install-tools, then check: the one command for a fresh machine", run: ci },
    Task { name: "check", does: "verify all that CI verifies; writes nothing but build output", run: check::check },
    Task { name: "browser", does: "only the tests of the command line's pages, in a browser", run: browser::task },
    Task { name: "docs", does: "write the parts of the documents that are made from the code", run: check::docs },
    Task { name: "long", does: "the long runs: kills, random sequences and faults with many seeds", run: check::long },
    Task { name: "fuzz-short", does: "build the fuzzers once, and run each for a few seconds", run: fuzz::short },
    Task { name: "fuzz", does: "an hour for each of the fuzzers: once per release", run: fuzz::long },
    Task { name: "python", does: "build the wheel, install it in a fresh environment under target/, and test it there", run: python_alone },
    Task {
        name: "failover",
        does: "kill a PostgreSQL primary under load and promote its standby, on this machine, step by step",
        run: failover,
    },
    Task { name: "fix", does: "format, and mend what clippy can mend", run: check::fix },
    Task { name: "install-tools", does: "install the tools that check uses and this machine lacks", run: tools::install },
];

fn ci() -> Result<()> {
    tools::install()?;
    check::check()
}

/// With the conformance suite over it.
fn python_alone() -> Result<()> {
    let python = python::check(&metadata::Metadata::read()?, false)?;
    let suite = "cargo nextest run --locked --package runledger-python-conformance";
    command::run_command(suite, command::program(suite).env(python::PYTHON, python))
}

/// In the profile of the tests, whose build is there.
fn failover() -> Result<()> {
    command::run("cargo run --quiet --locked --package runledger-backend-postgres --profile test --example failover")
}

fn bench(arguments: &[String]) -> Result<()> {
    let runner = "cargo run --release --locked --package runledger-benches --bin bench --";
    command::run_command(runner, command::program(runner).args(arguments))
}

/// The end of a task that takes arguments.
fn ended(name: &str, done: Result<()>) -> ExitCode {
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("\n{name}: {why}");
            ExitCode::FAILURE
        }
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let task = match &arguments[..] {
        // What follows is for the program that measures.
        [name, rest @ ..] if name == "bench" => return ended(name, bench(rest)),
        [name, rest @ ..] if name == "peers-bench" => return ended(name, peers_bench::measure(rest)),
        [name, rest @ ..] if name == "install" => return install::task(rest),
        [name] => TASKS.iter().find(|task| task.name == *name),
        _ => None,
    };
    let Some(task) = task else {
        eprintln!("usage: cargo xtask TASK\n");
        for task in TASKS {
            eprintln!("  {:<14} {}", task.name, task.does);
        }
        eprintln!("  {:<14} measure every backend against its floors, on this machine; `bench --help` lists what else", "bench");
        eprintln!("  {:<14} measure runledger beside other stores that do the same work; `peers-bench --help` likewise", "peers-bench");
        eprintln!("  {:<14} build the C library and put it, its headers and what finds them under `--prefix`", "install");
        return ExitCode::from(2);
    };
    let began = Instant::now();
    match (task.run)() {
        Ok(()) => {
            println!("\n{}: all well after {} s", task.name, began.elapsed().as_secs());
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("\n{}: failed after {} s: {why}", task.name, began.elapsed().as_secs());
            ExitCode::FAILURE
        }
    }
}
