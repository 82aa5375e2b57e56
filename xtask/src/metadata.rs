//! What cargo knows about the workspace.

use std::path::PathBuf;

use serde_json::Value;

use crate::Result;
use crate::command::{output, program};

/// The packages of the workspace and all that they depend on.
pub(crate) struct Metadata(Value);

impl Metadata {
    pub(crate) fn read() -> Result<Metadata> {
        let read = output(&mut program("cargo metadata --format-version 1 --locked --all-features"));
        let read = read.ok_or("cargo metadata --locked failed: is Cargo.lock up to date?")?;
        serde_json::from_slice(&read.stdout).map(Metadata).map_err(|e| e.to_string())
    }

    pub(crate) fn packages(&self) -> impl Iterator<Item = &Value> {
        self.0["packages"].as_array().into_iter().flatten()
    }

    pub(crate) fn target_directory(&self) -> Result<PathBuf> {
        self.0["target_directory"].as_str().map(PathBuf::from).ok_or_else(|| "cargo names no target directory".to_owned())
    }

    pub(crate) fn package(&self, name: &str) -> Result<&Value> {
        self.packages().find(|package| package["name"] == name).ok_or_else(|| format!("there is no package {name}"))
    }
}
