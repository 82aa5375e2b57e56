//! The commands, each a module of its own.

mod copy;
mod exec;
mod export;
mod import;

use std::process::ExitCode;

use clap::Subcommand;
use runledger::{Ledger, Mode, OpenOptions, Result};

use crate::outcome::report;

/// What the command line can be asked to do.
#[derive(Subcommand)]
pub(crate) enum Command {
    Exec(exec::Exec),
    Export(export::Export),
    Import(import::Import),
    Copy(copy::Copy),
}

impl Command {
    pub(crate) fn run(self) -> ExitCode {
        match self {
            Command::Exec(exec) => exec.run(),
            Command::Export(export) => report(export.run()),
            Command::Import(import) => report(import.run()),
            Command::Copy(copy) => report(copy.run()),
        }
    }
}

/// Opens a store to read it all. Unless its address says so, a store that is not there is not created: an empty answer to
/// a mistyped path would pass for an empty store.
fn open_source(url: &str) -> Result<Ledger> {
    // A store in memory is always a new one.
    let mode = if url.starts_with("memory:") { Mode::Create } else { Mode::Existing };
    runledger::open_with(url, OpenOptions::new().with_mode(mode))
}

/// Works with a store and closes it, however the work ended.
fn closing<T>(ledger: &Ledger, work: impl FnOnce(&Ledger) -> Result<T>) -> Result<T> {
    let done = work(ledger);
    let closed = ledger.close();
    done.and_then(|value| closed.map(|()| value))
}
