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
    c_tools()?;
    postgres()?;
    crate::fuzz::install();
    // The tests of creation watch the calls to the system with it, and say so where it is not there.
    if output(&mut program("strace --version")).is_none()
        && let Err(why) = apt_install(&["strace"])
    {
        println!("\ngoing on without strace: {why}");
    }
    browser::install()
}

/// What builds and watches the C and C++ programs, and the SQLite of the system: Debian's package, and a command of it.
const C_TOOLS: [(&str, &str); 6] =
    [("gcc", "gcc"), ("g++", "g++"), ("clang", "clang"), ("valgrind", "valgrind"), ("cmake", "cmake"), ("pkg-config", "pkg-config")];

fn c_tools() -> Result<()> {
    let missing = |command: &&(&str, &str)| output(&mut program(&format!("{} --version", command.1))).is_none();
    let mut packages: Vec<&str> = C_TOOLS.iter().filter(missing).map(|(package, _)| *package).collect();
    if output(&mut program("pkg-config --exists sqlite3")).is_none() {
        packages.push("libsqlite3-dev");
    }
    if packages.is_empty() { Ok(()) } else { apt_install(&packages) }
}

/// The tests of the PostgreSQL backend start servers of their own, unless they are given one.
fn postgres() -> Result<()> {
    let is_given = std::env::var_os("RUNLEDGER_TEST_POSTGRES_URL").is_some();
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let is_installed = versions.into_iter().any(|version| version.path().join("bin/initdb").is_file());
    if is_given || is_installed || output(&mut program("initdb --version")).is_some() {
        return Ok(());
    }
    apt_install(&["postgresql", "pgbouncer"])
}

/// Installs Debian packages, which takes root.
pub(crate) fn apt_install(packages: &[&str]) -> Result<()> {
    run("apt-get update --quiet")?;
    run(&format!("apt-get install --quiet --yes --no-install-recommends {}", packages.join(" ")))
}
