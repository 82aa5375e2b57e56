//! All that CI verifies, and what can be mended without thought.

use std::env::consts::EXE_EXTENSION;
use std::process::{Command, Stdio};

use crate::command::{program, root, run, run_command};
use crate::metadata::Metadata;
use crate::{Result, browser, fuzz, msrv, peers, peers_bench, python, tools};

/// The facade: whose features and examples are tried one by one.
const FACADE: &str = "runledger";

/// The tests come last, so that their summary closes the output.
pub(crate) fn check() -> Result<()> {
    let metadata = Metadata::read()?;
    run("cargo fmt --all --check")?;
    peers_bench::format("--check")?;
    run("cargo clippy --locked --workspace --all-targets --all-features -- -D warnings")?;
    every_feature_alone(&metadata)?;
    let doc = "cargo doc --locked --workspace --all-features --no-deps";
    run_command(doc, program(doc).env("RUSTDOCFLAGS", "-D warnings"))?;
    msrv::check(&metadata)?;
    dependencies()?;
    peers::check(&metadata)?;
    examples(&metadata)?;
    browser::check(&metadata)?;
    let python = python::check(&metadata, false)?;
    run("cargo test --locked --workspace --all-features --doc")?;
    system_sqlite()?;
    fuzz::short()?;
    let tests = "cargo nextest run --locked --workspace --all-features";
    run_command(tests, program(tests).env(python::PYTHON, python))
}

/// The same store, with the SQLite of the system where it has the functions that the newest rusqlite binds.
fn system_sqlite() -> Result<()> {
    if crate::command::output(&mut program("pkg-config --atleast-version=3.45.3 sqlite3")).is_some() {
        return run("cargo nextest run --locked --package runledger-backend-sqlite --no-default-features");
    }
    println!("\nskipped: the SQLite of the system, which is not there or older than 3.45.3");
    Ok(())
}

/// A feature that works only beside another one is found by building it alone.
fn every_feature_alone(metadata: &Metadata) -> Result<()> {
    let lint = |features: &str| {
        run(&format!("cargo clippy --locked --package {FACADE} --all-targets --no-default-features --features={features} -- -D warnings"))
    };
    lint("")?;
    let features = metadata.package(FACADE)?["features"].as_object().ok_or("the facade has no features")?;
    features.keys().try_for_each(|feature| lint(feature))
}

/// The examples are built with the workspace and in the profile of the tests, so that nothing is built once more for them.
fn examples(metadata: &Metadata) -> Result<()> {
    run("cargo build --locked --workspace --all-features --profile test --examples")?;
    let targets = metadata.package(FACADE)?["targets"].as_array().ok_or("the facade has no targets")?;
    let examples = targets.iter().filter(|target| target["kind"][0] == "example").filter_map(|target| target["name"].as_str());
    let folder = metadata.target_directory()?.join("debug/examples");
    examples.into_iter().try_for_each(|example| {
        let path = folder.join(example).with_extension(EXE_EXTENSION);
        run_command(&format!("examples/{example}"), Command::new(path).current_dir(root()).stdin(Stdio::null()))
    })
}

/// Advisories are left out: their database is fetched from the network, and CI must not fail for news.
fn dependencies() -> Result<()> {
    if tools::is_there("deny") {
        return run("cargo deny --locked --all-features check --hide-inclusion-graph bans licenses sources");
    }
    println!("\nskipped: licences, bans and sources of the dependencies, since cargo-deny is not installed");
    Ok(())
}

pub(crate) fn fix() -> Result<()> {
    run("cargo clippy --workspace --all-targets --all-features --fix --allow-dirty --allow-staged")?;
    run("cargo fmt --all")?;
    peers_bench::format("")
}

/// The documents have parts that tests hold against the code; the same tests write them.
pub(crate) fn docs() -> Result<()> {
    [
        "cargo test --package runledger --test readme",
        "cargo test --package runledger-cli --test transcripts",
        "cargo test --package runledger-ffi --test header",
    ]
    .into_iter()
    .try_for_each(|write| run_command(write, program(write).env("RUNLEDGER_WRITE_DOCS", "1")))
}

/// The tests that take a number of rounds or seeds take many then.
pub(crate) fn long() -> Result<()> {
    let python = python::check(&Metadata::read()?, true)?;
    let tests = "cargo nextest run --locked --workspace --all-features --cargo-profile release --profile long";
    run_command(tests, program(tests).env("RUNLEDGER_LONG", "1").env(python::PYTHON, python))
}
