//! The tools that check uses beside those that come with Rust.

use crate::command::{output, program, run};
use crate::{Result, browser};

/// Whether cargo has the subcommand `name`.
pub(crate) fn is_there(name: &str) -> bool {
    output(&mut program(&format!("cargo {name} --version"))).is_some()
}

pub(crate) fn install() -> Result<()> {
    crate::python::install()?;
    if !is_there("nextest") {
        run("cargo install cargo-nextest --locked")?;
    }
    if !is_there("deny")
        && let Err(why) = run("cargo install cargo-deny --locked")
    {
        println!("\ngoing on without cargo-deny: {why}");
    }
    browser::install()
}

/// Installs Debian packages, which takes root.
pub(crate) fn apt_install(packages: &[&str]) -> Result<()> {
    run("apt-get update --quiet")?;
    run(&format!("apt-get install --quiet --yes --no-install-recommends {}", packages.join(" ")))
}
