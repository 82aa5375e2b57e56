//! Whether the workspace keeps its word about the oldest Rust that it takes.
//!
//! The standard library is watched by clippy's `incompatible_msrv`, and the dependencies are looked at here. A real build
//! with that version is made where it is installed.

use crate::Result;
use crate::command::{output, program, run_command};
use crate::metadata::Metadata;

pub(crate) fn check(metadata: &Metadata) -> Result<()> {
    let msrv = metadata.package("runledger")?["rust_version"].as_str().ok_or("the workspace names no rust-version")?;
    println!("\n# no dependency needs a newer Rust than {msrv}");
    let needs_newer = |needed: &str| version(needed) > version(msrv);
    let newer: Vec<String> = metadata
        .packages()
        .filter_map(|package| {
            let needed = package["rust_version"].as_str().filter(|needed| needs_newer(needed))?;
            Some(format!("{} {} needs {needed}", package["name"].as_str()?, package["version"].as_str()?))
        })
        .collect();
    if !newer.is_empty() {
        return Err(format!("dependencies need a newer Rust than {msrv}: {}", newer.join(", ")));
    }
    if output(&mut program(&format!("rustup run {msrv} cargo --version"))).is_none() {
        println!("skipped: a build with Rust {msrv}, which is not installed");
        return Ok(());
    }
    let build = format!("rustup run {msrv} cargo check --locked --workspace --all-targets --all-features");
    // In a folder of its own: two versions of Rust in one would build everything anew each time.
    run_command(&build, program(&build).env("CARGO_TARGET_DIR", metadata.target_directory()?.join("msrv")))
}

fn version(text: &str) -> Vec<u64> {
    let mut parts: Vec<u64> = text.split('.').map(|part| part.parse().unwrap_or(0)).collect();
    parts.resize(3, 0);
    parts
}
