//! `runledger migrate`: the owner makes the tables, and what it prints lets a role work with them and do nothing else.

#![cfg(all(unix, feature = "postgres"))]
#![allow(clippy::unwrap_used, clippy::panic, reason = "the lints' exception for tests does not reach their helpers")]

use std::io::Write;
use std::process::{Child, Command, Output, Stdio};

use runledger_postgres_kit::{shared_url, sql, unique_schema, with_schema};

fn spawn(arguments: &[&str]) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_runledger"));
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn run(arguments: &[&str], input: &str) -> Output {
    let mut child = spawn(arguments);
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// What a command prints that goes well.
fn printed(output: &Output) -> &str {
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout)
}

#[test]
fn ten_at_once_make_one_ledger_and_all_print_the_rights_that_a_role_needs() {
    let (server, schema) = (shared_url(), unique_schema());
    let url = with_schema(&server, &schema);
    let at_once: Vec<Child> = (0..10).map(|_| spawn(&["migrate", &url, "--role", "Ann \"A\""])).collect();
    let outputs: Vec<Output> = at_once.into_iter().map(|child| child.wait_with_output().unwrap()).collect();
    let rights = printed(&outputs[0]);
    assert!(rights.contains(&format!("\"{schema}\"")) && rights.contains("TO \"Ann \"\"A\"\"\";"), "{rights}");
    assert!(outputs.iter().all(|output| printed(output) == rights));
    // What is there already is left as it is.
    let queue = r#"{"op":"runs.queue","projectId":"p","id":"r","workflowId":"w","input":1}"#;
    assert!(printed(&run(&["exec", &url], queue)).starts_with(r#"{"ok""#));
    assert_eq!(printed(&run(&["migrate", &url, "--role", "Ann \"A\""], "")), rights);
    let get = r#"{"op":"runs.get","projectId":"p","id":"r"}"#;
    assert!(printed(&run(&["exec", &url], get)).contains(r#""status":"queued""#));
    sql(&server, &format!("DROP SCHEMA {schema} CASCADE"));
}

#[test]
fn a_role_that_was_given_what_is_printed_works_and_can_not_migrate() {
    let (server, schema) = (shared_url(), unique_schema());
    let url = with_schema(&server, &schema);
    let role = format!("worker_{schema}");
    sql(&server, &format!("CREATE ROLE {role} LOGIN"));
    let as_role = |url: &str| url.replace("runledger@", &format!("{role}@"));
    let refused = |url: &str| {
        let output = run(&["migrate", url], "");
        let told = text(&output.stderr);
        assert!(!output.status.success() && output.stdout.is_empty() && told.contains("read_only"), "{told}");
    };
    refused(&as_role(&url));
    let rights = run(&["migrate", &url, "--role", &role], "");
    // As it is: the first line is a remark to the server too.
    sql(&server, printed(&rights));
    let url_of_role = as_role(&url);
    let requests = [
        r#"{"op":"runs.queue","projectId":"p","id":"r","workflowId":"w","input":1}"#,
        r#"{"op":"runs.claim","projectId":"p","execution":{"token":"t","queueLeaseExpiresAt":"2030-01-01T00:00:00Z"}}"#,
        r#"{"op":"runs.finish","projectId":"p","id":"r","status":"succeeded","executionToken":"t"}"#,
        r#"{"op":"store.verify"}"#,
        r#"{"op":"runs.delete","projectId":"p","id":"r"}"#,
    ];
    let answers = run(&["exec", &url_of_role], &requests.join("\n"));
    let answers: Vec<&str> = printed(&answers).lines().collect();
    assert!(answers.len() == requests.len() && answers.iter().all(|answer| answer.starts_with(r#"{"ok""#)), "{answers:#?}");
    // Where all is there already nothing is to be made, and the role is told so like anybody.
    assert!(run(&["migrate", &url_of_role], "").status.success());
    let elsewhere = unique_schema();
    refused(&as_role(&with_schema(&server, &elsewhere)));
    assert!(sql(&server, &format!("SELECT 1 FROM pg_namespace WHERE nspname = '{elsewhere}'")).is_empty());
    sql(&server, &format!("DROP SCHEMA {schema} CASCADE; DROP ROLE {role}"));
}

#[test]
fn only_a_ledger_in_a_server_is_migrated_so() {
    let output = run(&["migrate", "sqlite:/nowhere/store.db"], "");
    assert!(!output.status.success() && text(&output.stderr).contains("PostgreSQL"), "{}", text(&output.stderr));
}
