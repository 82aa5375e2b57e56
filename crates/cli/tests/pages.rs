//! The commands that write pages, as far as it takes no browser.

#![allow(clippy::unwrap_used, clippy::panic, reason = "the lints' exception for tests does not reach their helpers")]

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

fn run(arguments: &[&str], input: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_runledger"));
    command.args(arguments).env_remove("RUNLEDGER_URL").env_remove("RUNLEDGER_PROJECT");
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// A store with two projects of two runs each, of which one is queued since long ago.
fn store(folder: &Path) -> String {
    let url = format!("sqlite:{}", folder.join("runs.db").display());
    let mut requests = String::new();
    for project in ["a", "b"] {
        for (id, day) in [("old", 1), ("new", 2)] {
            requests += &format!(
                r#"{{"op":"runs.queue","projectId":"{project}","id":"{id}","workflowId":"w","input":{{}},"queuedAt":"2026-01-0{day}T00:00:00Z"}}"#
            );
            requests += "\n";
        }
    }
    assert!(run(&["exec", &url], &requests).status.success());
    url
}

const NOW: [&str; 2] = ["--now", "2026-01-02T00:30:00Z"];

#[test]
fn a_report_tells_what_is_in_it_and_leaves_the_store_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let (url, page) = (store(folder.path()), folder.path().join("page.html"));
    let page_arg = page.to_str().unwrap();
    let before = run(&["export", &url], "").stdout;

    let output = run(&[&["report", &url, "-o", page_arg, "--output", "json"], &NOW[..]].concat(), "");
    let size = std::fs::metadata(&page).unwrap().len();
    assert_eq!(text(&output.stdout), format!("{{\"runs\":4,\"stuck\":2,\"ofRuns\":4,\"sizeBytes\":{size}}}\n"), "{}", text(&output.stderr));
    assert!(std::fs::read_to_string(&page).unwrap().starts_with("<!doctype html>"));
    assert_eq!(run(&["export", &url], "").stdout, before);

    // The options of the command line count: one project, another span.
    let output = run(&[&["report", &url, "-o", page_arg, "-p", "a", "--older-than", "20m"], &NOW[..]].concat(), "");
    assert!(text(&output.stdout).starts_with(&format!("{page_arg}: 2 of 2 runs, 2 stuck; ")), "{}", text(&output.stdout));
}

#[test]
fn a_report_that_can_not_be_made_leaves_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let url = store(folder.path());
    let inside = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    assert_eq!(run(&["report", &url], "").status.code(), Some(2), "no file was named");
    let missing = format!("sqlite:{}", inside("missing.db"));
    assert_eq!(run(&["report", &missing, "-o", &inside("page.html")], "").status.code(), Some(1));
    let refused = run(&["report", &url, "-o", &inside("missing/page.html"), "--output", "json"], "");
    assert_eq!(refused.status.code(), Some(1));
    assert!(text(&refused.stderr).contains(r#""code":"io""#) && text(&refused.stderr).contains("missing/page.html"));
    let names: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(names.iter().all(|name| name.to_string_lossy().starts_with("runs.db")), "{names:?}");
}
