//! The tools that check uses beside those that come with Rust.

use crate::Result;
use crate::command::{output, program, run};

/// Whether cargo has the subcommand `name`.
pub(crate) fn is_there(name: &str) -> bool {
    output(&mut program(&format!("cargo {name} --version"))).is_some()
}

pub(crate) fn install() -> Result<()> {
    if !is_there("nextest") {
        run("cargo install cargo-nextest --locked")?;
    }
    if !is_there("deny")
        && let Err(why) = run("cargo install cargo-deny --locked")
    {
        println!("\ngoing on without cargo-deny: {why}");
    }
    Ok(())
}
