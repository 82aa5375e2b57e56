//! The rules are decided in core's transitions: no other file compares a status, a token or the end of a lease.

#![allow(clippy::unwrap_used, clippy::panic, reason = "the lints' exception for tests does not reach their helpers")]

use std::path::{Path, PathBuf};

/// Where comparisons may stand: the transitions, and the suite that judges them from outside.
const ALLOWED: &[&str] = &["crates/core/src/transition/", "crates/conformance/", "crates/faults/"];

/// What a comparison looks like, without white space.
const COMPARISONS: &[&str] = &[
    "==Status::",
    "!=Status::",
    "Status::Queued==",
    "Status::Running==",
    "Status::Waiting==",
    ".status==",
    ".status!=",
    ".status()==",
    ".status()!=",
    "matches!(run.status",
    "matches!(node.status",
    "matches!(agent.status",
    "matchrun.status",
    "matchnode.status",
    "matchagent.status",
    ".token==",
    ".token!=",
    "==token",
    "!=token",
    "_token==",
    "_token!=",
    "lease_expires_at<",
    "lease_expires_at>",
    "lease_expires_at==",
    "<execution.lease_expires_at",
    ">execution.lease_expires_at",
    "=execution.lease_expires_at",
    "lease_expires_at.max(",
    "lease_expires_at.min(",
    "lease_expires_at.cmp(",
    "status.is_terminal()",
    "status().is_terminal()",
];

fn rust_files(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            rust_files(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}

/// The comparisons in a file, but for its tests and comments.
fn comparisons(text: &str) -> Vec<String> {
    let product = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
    let lines = product.lines().filter(|line| !line.trim_start().starts_with("//"));
    let tight: String = lines.collect::<String>().split_whitespace().collect();
    COMPARISONS.iter().filter(|comparison| tight.contains(**comparison)).map(|comparison| (*comparison).to_owned()).collect()
}

#[test]
fn no_other_file_compares_a_status_a_token_or_a_lease() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
    let mut files = Vec::new();
    rust_files(&root.join("src"), &mut files);
    for package in std::fs::read_dir(root.join("crates")).unwrap() {
        let source = package.unwrap().path().join("src");
        if source.is_dir() {
            rust_files(&source, &mut files);
        }
    }
    assert!(files.len() > 30, "the sources were not found");
    let mut wrong = Vec::new();
    for file in files {
        let name = file.strip_prefix(&root).unwrap().to_string_lossy().replace('\\', "/");
        let is_test = name.ends_with("/tests.rs") || name.contains("/tests/");
        if is_test || ALLOWED.iter().any(|allowed| name.starts_with(allowed)) {
            continue;
        }
        let found = comparisons(&std::fs::read_to_string(&file).unwrap());
        if !found.is_empty() {
            wrong.push(format!("{name}: {found:?}"));
        }
    }
    assert!(wrong.is_empty(), "comparisons outside the transitions:\n{}", wrong.join("\n"));
}

#[test]
fn the_search_finds_what_it_looks_for() {
    assert_eq!(comparisons("if run.status == Status::Running {}"), ["==Status::", ".status=="]);
    assert_eq!(comparisons("let owns = execution\n    .token\n    == given;"), [".token=="]);
    assert!(comparisons("// run.status == Status::Running\nlet x = 1;").is_empty());
}
