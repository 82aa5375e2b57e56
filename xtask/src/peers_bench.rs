//! Other stores that do the same work, measured beside ours: `benches/peers`.
//!
//! Each is a workspace of its own, for Cargo allows one package in a workspace that links SQLite, and is built here alone: what
//! CI verifies does not depend on them.

use std::env::consts::EXE_EXTENSION;
use std::process::Command;

use crate::Result;
use crate::command::{program, root, run, run_command};
use crate::metadata::Metadata;

/// The folders with a program. That of `runledger` has the one that lets them take turns, too.
const PROGRAMS: [&str; 4] = ["runledger", "duroxide", "apalis", "effectum"];

/// What the programs share.
const HARNESS: &str = "harness";

/// Builds them all, and has them take turns.
pub(crate) fn measure(arguments: &[String]) -> Result<()> {
    let built = Metadata::read()?.target_directory()?.join("peers-bench");
    for name in PROGRAMS {
        // Without `--locked`: what we depend on ourselves may have changed, and the others keep their versions all the same.
        let build = format!("cargo build --release --manifest-path benches/peers/{name}/Cargo.toml");
        run_command(&build, program(&build).arg("--target-dir").arg(&built))?;
    }
    let environment = built.join("venv");
    let make = "python3 -m venv";
    run_command(make, program(make).arg(&environment))?;
    let install = "-m pip install --quiet --disable-pip-version-check --requirement benches/peers/python/requirements.txt";
    let python = environment.join("bin/python");
    run_command(&format!("python {install}"), Command::new(python).args(install.split(' ')).current_dir(root()))?;
    let compare = built.join("release/compare").with_extension(EXE_EXTENSION);
    run_command("compare", Command::new(compare).arg("--built").arg(&built).args(arguments))
}

/// Has all of them formatted, or with `--check` only looked at. More than that takes building them.
pub(crate) fn format(check: &str) -> Result<()> {
    PROGRAMS
        .iter()
        .chain([&HARNESS])
        .try_for_each(|name| run(&format!("cargo fmt --manifest-path benches/peers/{name}/Cargo.toml {check}")))
}
