//! The fuzzers, which need a nightly compiler and `cargo fuzz`.

use std::fs;

use crate::Result;
use crate::command::{output, program, root, run, run_command};
use crate::tools::is_there;

/// The targets, each a file of its own in `fuzz/fuzz_targets`.
const TARGETS: &[&str] = &["json", "import", "cursor", "redb_values", "redb_file", "commands", "c_call"];

/// How long each target runs in CI: together about a minute.
const SHORT_SECONDS: u32 = 7;

/// How long each runs before a release.
const LONG_SECONDS: u32 = 3600;

fn has_nightly() -> bool {
    output(&mut program("rustc +nightly --version")).is_some()
}

pub(crate) fn install() {
    if !has_nightly()
        && let Err(why) = run("rustup toolchain install nightly --profile minimal")
    {
        println!("\ngoing on without a nightly compiler: {why}");
    }
    if has_nightly()
        && !is_there("fuzz")
        && let Err(why) = run("cargo install cargo-fuzz --locked")
    {
        println!("\ngoing on without cargo-fuzz: {why}");
    }
}

pub(crate) fn short() -> Result<()> {
    fuzz(SHORT_SECONDS)
}

pub(crate) fn long() -> Result<()> {
    fuzz(LONG_SECONDS)
}

fn fuzz(seconds: u32) -> Result<()> {
    if !has_nightly() || !is_there("fuzz") {
        println!("\nskipped: the fuzzers, since there is no nightly compiler with cargo-fuzz");
        return Ok(());
    }
    run("cargo +nightly fuzz build")?;
    TARGETS.iter().try_for_each(|target| one(target, seconds))
}

/// Runs a target on what it was found to be worth before, which stays out of the repository, and on its seeds.
fn one(target: &str, seconds: u32) -> Result<()> {
    let found = root().join("fuzz/corpus").join(target);
    fs::create_dir_all(&found).map_err(|e| e.to_string())?;
    let line = format!(
        "cargo +nightly fuzz run {target} fuzz/corpus/{target} fuzz/seeds/{target} -- -max_total_time={seconds} -print_final_stats=1 \
         -rss_limit_mb=4096 -timeout=60 -max_len=8192 -verbosity=0"
    );
    run_command(&line, &mut program(&line))
}
