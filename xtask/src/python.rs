//! The Python package: built as a wheel, installed in a fresh environment, and tested there.

use std::env::consts::{DLL_PREFIX, DLL_SUFFIX};
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Result;
use crate::command::{output, program, root, run, run_command};
use crate::metadata::Metadata;

/// The environment variable by which the conformance suite over Python finds the environment with the package.
pub(crate) const PYTHON: &str = "RUNLEDGER_PYTHON";

/// What must be there: Debian has the module without what makes it work in a package of its own.
const CAN_MAKE_ENVIRONMENTS: [&str; 2] = ["-c", "import ensurepip, venv"];

/// The package's library with a function that gives a store of which every call panics, in the profile of the tests.
const DEFECTIVE: &str = "cargo build --locked --package runledger-python-conformance --profile test --example defective";

/// Whether there is a Python that can make environments.
fn is_there() -> bool {
    output(Command::new("python3").args(CAN_MAKE_ENVIRONMENTS)).is_some()
}

pub(crate) fn install() -> Result<()> {
    if is_there() {
        return Ok(());
    }
    run("apt-get update --quiet")?;
    run("apt-get install --yes --quiet --no-install-recommends python3 python3-venv")
}

/// Builds the wheel, installs it in a fresh environment and tests it there. Gives the Python of that environment.
///
/// The tests that take a number of rounds take many when `is_long`.
pub(crate) fn check(metadata: &Metadata, is_long: bool) -> Result<PathBuf> {
    if !is_there() {
        return Err("python3 can't make environments (python3-venv): cargo xtask install-tools".to_owned());
    }
    let folder = metadata.target_directory()?.join("python");
    let (environment, wheels) = (folder.join("venv"), folder.join("wheels"));
    for old in [&environment, &wheels] {
        if old.exists() {
            fs::remove_dir_all(old).map_err(|e| format!("{}: {e}", old.display()))?;
        }
    }
    let make = "python3 -m venv";
    run_command(make, program(make).arg(&environment))?;
    let python = environment.join("bin/python");
    let package = root().join("bindings/python");
    let defective = metadata.target_directory()?.join("debug/examples").join(format!("{DLL_PREFIX}defective{DLL_SUFFIX}"));
    let tools = Tools { python: &python, package: &package, defective: &defective, is_long };

    tools.run(&["pip", "install", "--quiet", "--disable-pip-version-check", "--requirement", "requirements-dev.txt"])?;
    // The profile of the examples and the command: most of what it needs is there already.
    tools.run_with(
        &["maturin", "build", "--quiet", "--locked", "--profile", "dev", "--compatibility", "linux", "--out"],
        &[wheels.clone().into()],
    )?;
    let wheel = fs::read_dir(&wheels).map_err(|e| e.to_string())?.filter_map(|entry| Some(entry.ok()?.path())).next();
    let wheel = wheel.ok_or("maturin left no wheel")?;
    tools.run_with(&["pip", "install", "--quiet", "--disable-pip-version-check"], &[wheel.into()])?;
    run(DEFECTIVE)?;
    tools.run(&["mypy", "src/runledger", "tools", "conformance/bridge.py", "tests"])?;
    // What users write is checked against the package as it is installed.
    tools.run(&["mypy", "--strict", "--config-file=", "--cache-dir=../../target/python/mypy-examples", "examples"])?;
    tools.run(&["pytest", "--quiet"])?;
    Ok(python)
}

/// The modules of the environment that are run, in the folder of the package.
struct Tools<'a> {
    python: &'a Path,
    package: &'a Path,
    defective: &'a Path,
    is_long: bool,
}

impl Tools<'_> {
    fn run(&self, words: &[&str]) -> Result<()> {
        self.run_with(words, &[])
    }

    fn run_with(&self, words: &[&str], paths: &[OsString]) -> Result<()> {
        let mut command = Command::new(self.python);
        command.arg("-m").args(words).args(paths).current_dir(self.package);
        // The folder stays as it is: what is compiled would be written beside the sources.
        command.env("PYTHONDONTWRITEBYTECODE", "1").env("RUNLEDGER_DEFECTIVE", self.defective);
        if self.is_long {
            command.env("RUNLEDGER_LONG", "1");
        }
        run_command(&format!("python -m {}", words.join(" ")), &mut command)
    }
}
