//! The header and the library have the same functions.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;

/// The functions that the header declares.
pub(crate) fn declared() -> BTreeSet<String> {
    let header = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/include/runledger.h")).unwrap();
    let mut functions = BTreeSet::new();
    let mut in_comment = false;
    for line in header.lines() {
        in_comment |= line.trim_start().starts_with("/*");
        if !in_comment && !line.starts_with("typedef") && !line.starts_with([' ', '#']) {
            let name = line.split('(').next().unwrap_or_default().rsplit([' ', '*']).next().unwrap_or_default();
            if line.contains('(') && name.starts_with("runledger_") {
                functions.insert(name.to_owned());
            }
        }
        in_comment &= !line.contains("*/");
    }
    assert!(functions.len() > 30, "{functions:?}");
    functions
}

/// The shared library that was built with this test.
fn library() -> PathBuf {
    std::env::current_exe().unwrap().parent().unwrap().join("librunledger_ffi.so")
}

#[test]
#[cfg(target_os = "linux")]
fn the_library_exports_what_the_header_declares_and_nothing_else() {
    let listed = Command::new("nm").args(["-D", "--defined-only", "--format=just-symbols"]).arg(library()).output().unwrap();
    assert!(listed.status.success(), "{listed:?}");
    let exported: BTreeSet<String> = String::from_utf8(listed.stdout).unwrap().lines().map(str::to_owned).collect();
    assert_eq!(exported, declared());
}

/// Every function is what its module exports, whatever the features: none of them is conditional.
#[test]
fn no_function_is_conditional_and_each_goes_through_the_wall() {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/src");
    let mut found = BTreeSet::new();
    for file in std::fs::read_dir(source).unwrap() {
        let text = std::fs::read_to_string(file.unwrap().path()).unwrap();
        let parts: Vec<&str> = text.split("#[unsafe(no_mangle)]").collect();
        for (before, function) in parts.iter().zip(&parts[1..]) {
            let attributes = before.rsplit("\n\n").next().unwrap();
            assert!(!attributes.contains("#[cfg"), "{attributes}");
            let (_, named) = function.split_once("fn ").unwrap();
            let body = named.split("\n}\n").next().unwrap();
            let wall = ["entry(", "quiet(", "take_back(", "read(", "read_text(", "set(request", "text_of(error"];
            assert!(wall.iter().any(|call| body.contains(call)), "{body}");
            found.insert(named.split('(').next().unwrap().to_owned());
        }
    }
    assert_eq!(found, declared());
}
