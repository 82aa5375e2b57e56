//! The commands, each a module of its own.

mod agents;
mod args;
mod backup;
mod bench;
mod compact;
mod completions;
mod confirm;
mod copy;
mod exec;
mod export;
mod import;
mod info;
mod man;
#[cfg(feature = "postgres")]
mod migrate;
mod nodes;
mod projects;
mod purge;
mod report;
mod runs;
mod stats;
mod verify;

use std::process::ExitCode;

use clap::Subcommand;

use crate::context::Context;
use crate::outcome::report;

/// What the command line can be asked to do.
#[derive(Subcommand)]
pub(crate) enum Command {
    #[command(subcommand)]
    Runs(runs::Runs),
    #[command(subcommand)]
    Nodes(nodes::Nodes),
    #[command(subcommand)]
    Agents(agents::Agents),
    Projects(projects::Projects),
    Stats(stats::Stats),
    Info(info::Info),
    Verify(verify::Verify),
    Compact(compact::Compact),
    #[cfg(feature = "postgres")]
    Migrate(migrate::Migrate),
    Backup(backup::Backup),
    Export(export::Export),
    Import(import::Import),
    Copy(copy::Copy),
    Purge(purge::Purge),
    Bench(bench::Bench),
    Report(report::Report),
    Exec(exec::Exec),
    Completions(completions::Completions),
    Man(man::Man),
}

impl Command {
    pub(crate) fn run(self, cx: &Context) -> ExitCode {
        let done = match self {
            // Its status is the contract's own.
            Command::Exec(exec) => return exec.run(cx),
            Command::Runs(runs) => runs.run(cx),
            Command::Nodes(nodes) => nodes.run(cx),
            Command::Agents(agents) => agents.run(cx),
            Command::Projects(projects) => projects.run(cx),
            Command::Stats(stats) => stats.run(cx),
            Command::Info(info) => info.run(cx),
            Command::Verify(verify) => verify.run(cx),
            Command::Compact(compact) => compact.run(cx),
            #[cfg(feature = "postgres")]
            Command::Migrate(migrate) => migrate.run(cx),
            Command::Backup(backup) => backup.run(cx),
            Command::Export(export) => export.run(cx),
            Command::Import(import) => import.run(cx),
            Command::Copy(copy) => copy.run(cx),
            Command::Purge(purge) => purge.run(cx),
            Command::Bench(bench) => bench.run(cx),
            Command::Report(report) => report.run(cx),
            Command::Completions(completions) => completions.run(),
            Command::Man(man) => man.run(),
        };
        report(cx.error_form(), done)
    }
}
