//! Programs that a task runs.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::Result;

/// The root of the workspace, where every program runs.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("this package is a folder of the workspace")
}

/// A program with its arguments, which are separated by spaces.
pub(crate) fn program(line: &str) -> Command {
    let mut words = line.split_whitespace();
    let mut command = Command::new(words.next().unwrap_or_default());
    command.args(words).current_dir(root()).stdin(Stdio::null());
    command
}

/// Shows a program, runs it, and fails if it does.
pub(crate) fn run(line: &str) -> Result<()> {
    run_command(line, &mut program(line))
}

/// As [`run`], for a command that was changed in what need not be shown.
pub(crate) fn run_command(line: &str, command: &mut Command) -> Result<()> {
    println!("\n$ {line}");
    let status = command.status().map_err(|e| format!("{line}: {e}"))?;
    if status.success() { Ok(()) } else { Err(format!("{line}: {status}")) }
}

/// Runs a program without showing it, and gives what it wrote; `None` if it is not there or fails.
pub(crate) fn output(command: &mut Command) -> Option<Output> {
    command.output().ok().filter(|output| output.status.success())
}
