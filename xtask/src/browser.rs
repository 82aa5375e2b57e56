//! The pages of the command line, used in a browser as people use them.

use std::env::consts::EXE_SUFFIX;
use std::path::PathBuf;

use crate::command::{output, program, root, run, run_command};
use crate::metadata::Metadata;
use crate::{Result, tools};

/// What drives the browser.
const FOLDER: &str = "crates/cli/tests/browser";

/// The programs that it takes, each with the Debian package that has it.
const PROGRAMS: &[(&str, &str)] = &[("node", "nodejs"), ("npm", "npm"), ("chromium", "chromium")];

pub(crate) fn check(metadata: &Metadata) -> Result<()> {
    let missing = missing();
    if !missing.is_empty() {
        println!("\nskipped: the pages in a browser, for which these are not installed: {}", missing.join(", "));
        return Ok(());
    }
    // With the features and in the profile of the other tests, so that nothing is built once more.
    run("cargo build --locked --workspace --all-features --profile test --bins")?;
    let install = "npm ci --no-audit --no-fund";
    run_command(install, program(install).current_dir(folder()))?;
    let command = metadata.target_directory()?.join(format!("debug/runledger{EXE_SUFFIX}"));
    let test = "node --test --test-concurrency=1";
    run_command(test, program(test).current_dir(folder()).env("RUNLEDGER_BIN", command))
}

/// The check alone, for whoever works on a page.
pub(crate) fn task() -> Result<()> {
    check(&Metadata::read()?)
}

/// Installs what is missing, on a machine that has Debian's packages.
pub(crate) fn install() -> Result<()> {
    let missing = missing();
    if missing.is_empty() {
        return Ok(());
    }
    tools::apt_install(&missing)
}

/// The packages of the programs that are not there.
fn missing() -> Vec<&'static str> {
    let is_there = |name: &str| output(&mut program(&format!("{name} --version"))).is_some();
    PROGRAMS.iter().filter(|(name, _)| !is_there(name)).map(|(_, package)| *package).collect()
}

fn folder() -> PathBuf {
    root().join(FOLDER)
}
