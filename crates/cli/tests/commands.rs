//! The command as a process: what it reads, writes and ends with.

#![allow(clippy::unwrap_used, reason = "the lint's exception for tests does not reach their helpers")]

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

const QUEUE: &str = r#"{"op":"runs.queue","projectId":"shop","id":"r1","workflowId":"checkout","input":{"order": 17}}"#;
const GET: &str = r#"{"op":"runs.get","projectId":"shop","id":"r1","answer":"state"}"#;

fn start(arguments: &[&str]) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_runledger"));
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Runs the command over an input, and gives all that it wrote.
fn run(arguments: &[&str], input: &[u8]) -> Output {
    let mut child = start(arguments);
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_vec();
    let writing = std::thread::spawn(move || {
        // The command may end without having read it all.
        let _ = stdin.write_all(&input);
    });
    let output = child.wait_with_output().unwrap();
    writing.join().unwrap();
    output
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

fn status(output: &Output) -> i32 {
    output.status.code().unwrap()
}

fn answers(output: &Output) -> Vec<&str> {
    text(&output.stdout).lines().collect()
}

fn url(scheme: &str, dir: &Path, name: &str) -> String {
    format!("{scheme}:{}", dir.join(name).display())
}

#[test]
fn exec_answers_every_line_in_order_and_ends_with_0() {
    let input = format!("{QUEUE}\n\nnonsense\n{QUEUE}\r\n{GET}");
    let output = run(&["exec", "memory:"], input.as_bytes());
    assert_eq!(status(&output), 0);
    assert_eq!(text(&output.stderr), "");
    let answers = answers(&output);
    assert_eq!(answers.len(), 5);
    assert!(answers[0].starts_with(r#"{"ok":{"projectId":"shop","id":"r1""#) && answers[0].contains(r#""input":{"order": 17}"#));
    assert!(answers[1].starts_with(r#"{"error":{"code":"invalid_input""#));
    assert!(answers[2].starts_with(r#"{"error":{"code":"invalid_input""#));
    assert!(answers[3].starts_with(r#"{"error":{"code":"already_exists""#));
    assert!(answers[4].starts_with(r#"{"ok":{"projectId":"shop""#));
}

#[test]
fn exec_goes_on_after_bytes_that_are_no_text() {
    let output = run(&["exec", "memory:"], b"{\"op\":\"\xff\"}\n{\"op\":\"store.info\"}\n");
    assert_eq!(status(&output), 0);
    let answers = answers(&output);
    assert!(answers[0].starts_with(r#"{"error":{"code":"invalid_input""#));
    assert!(answers[1].starts_with(r#"{"ok":{"backend":"memory""#));
}

#[test]
fn exec_writes_each_answer_before_it_reads_on() {
    let mut child = start(&["exec", "memory:"]);
    let (mut stdin, mut stdout) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
    for _ in 0..3 {
        writeln!(stdin, "{GET}").unwrap();
        let mut answer = String::new();
        stdout.read_line(&mut answer).unwrap();
        assert_eq!(answer, "{\"ok\":null}\n");
    }
    drop(stdin);
    assert!(child.wait().unwrap().success());
}

#[test]
fn exec_ends_quietly_when_nobody_reads_its_answers() {
    let mut child = start(&["exec", "memory:"]);
    drop(child.stdout.take());
    child.stdin.take().unwrap().write_all(format!("{GET}\n{GET}\n").as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!((status(&output), text(&output.stderr)), (0, ""));
}

#[test]
fn exec_says_on_its_output_that_a_store_cannot_be_opened() {
    for (url, code) in [("sqlite:/no/such/dir/runs.db", "io"), ("mysql:x", "invalid_input"), ("postgres://127.0.0.1:1/db", "unavailable")] {
        let output = run(&["exec", url], b"");
        assert_eq!(status(&output), 1, "{url}");
        assert_eq!(answers(&output).len(), 1);
        assert!(text(&output.stdout).starts_with(&format!(r#"{{"error":{{"code":"{code}""#)), "{}", text(&output.stdout));
        assert_eq!(output.stderr, output.stdout);
    }
}

#[test]
fn a_store_moves_through_streams_and_copies_between_backends() {
    let dir = tempfile::tempdir().unwrap();
    let [sqlite, redb, copied] = [url("sqlite", dir.path(), "a.db"), url("redb", dir.path(), "b.redb"), url("sqlite", dir.path(), "c.db")];
    assert_eq!(status(&run(&["exec", &sqlite], QUEUE.as_bytes())), 0);

    let exported = run(&["export", &sqlite], b"");
    assert_eq!(status(&exported), 0);
    assert!(text(&exported.stdout).starts_with("{\"runledger\":{\"format\":1}}\n"));

    let imported = run(&["import", &redb], &exported.stdout);
    assert_eq!((status(&imported), text(&imported.stdout)), (0, "{\"runs\":1,\"nodes\":0,\"agents\":0,\"skipped\":0}\n"));
    let again = run(&["import", &redb], &exported.stdout);
    assert_eq!(text(&again.stdout), "{\"runs\":0,\"nodes\":0,\"agents\":0,\"skipped\":1}\n");

    let copy = run(&["copy", &redb, &copied], b"");
    assert_eq!((status(&copy), text(&copy.stdout)), (0, "{\"runs\":1,\"nodes\":0,\"agents\":0,\"skipped\":0}\n"));
    assert_eq!(run(&["export", &copied], b"").stdout, exported.stdout);
}

#[test]
fn a_store_copied_onto_itself_stays_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let sqlite = url("sqlite", dir.path(), "a.db");
    run(&["exec", &sqlite], QUEUE.as_bytes());
    let copy = run(&["copy", &sqlite, &sqlite], b"");
    assert_eq!((status(&copy), text(&copy.stdout)), (0, "{\"runs\":0,\"nodes\":0,\"agents\":0,\"skipped\":1}\n"));
    // What is read is closed before what is written is opened, so that a store with one handle at a time is no exception.
    let redb = url("redb", dir.path(), "b.redb");
    run(&["exec", &redb], QUEUE.as_bytes());
    assert_eq!(text(&run(&["copy", &redb, &redb], b"").stdout), "{\"runs\":0,\"nodes\":0,\"agents\":0,\"skipped\":1}\n");
}

#[test]
fn an_export_or_copy_does_not_create_what_it_should_read() {
    let dir = tempfile::tempdir().unwrap();
    let (missing, other) = (url("sqlite", dir.path(), "missing.db"), url("sqlite", dir.path(), "other.db"));
    for arguments in [vec!["export", &missing], vec!["copy", &missing, &other]] {
        let output = run(&arguments, b"");
        assert_eq!(status(&output), 1);
        assert!(text(&output.stderr).starts_with(r#"{"error":{"code":"io""#), "{}", text(&output.stderr));
        assert_eq!(text(&output.stdout), "");
    }
    assert_eq!(dir.path().read_dir().unwrap().count(), 0);
}

#[test]
fn the_exit_status_tells_what_kind_of_error_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let sqlite = url("sqlite", dir.path(), "a.db");
    run(&["exec", &sqlite], QUEUE.as_bytes());
    let stream = run(&["export", &sqlite], b"").stdout;
    let other = url("sqlite", dir.path(), "b.db");
    run(&["exec", &other], QUEUE.replace("17", "18").as_bytes());
    let conflict = run(&["import", &other], &stream);
    assert_eq!(status(&conflict), 4);
    assert!(text(&conflict.stderr).starts_with(r#"{"error":{"code":"conflict""#));

    assert_eq!(status(&run(&["import", &other], &stream[..stream.len() - 20])), 5);
    assert_eq!(status(&run(&["import", "memory:x"], b"")), 2);
    assert_eq!(status(&run(&["export", "memory:?journal=wal"], b"")), 7);
    assert_eq!(status(&run(&["export", "postgres://127.0.0.1:1/db"], b"")), 6);
    assert_eq!(status(&run(&["export"], b"")), 2);
    assert_eq!(status(&run(&["nonsense"], b"")), 2);
    assert_eq!(status(&run(&["--version"], b"")), 0);
}

#[test]
fn an_export_whose_reader_leaves_ends_quietly() {
    let dir = tempfile::tempdir().unwrap();
    let sqlite = url("sqlite", dir.path(), "a.db");
    let large = QUEUE.replace("17", &format!("\"{}\"", "x".repeat(1_000_000)));
    run(&["exec", &sqlite], large.as_bytes());
    let mut child = start(&["export", &sqlite]);
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((status(&output), text(&output.stderr)), (0, ""));
}

/// The memory that a process holds and the time that it takes must not grow with a line that is refused anyway.
#[test]
fn a_line_over_the_limit_is_answered_and_not_kept() {
    const LIMIT: usize = 256 * 1024 * 1024;
    let mut child = start(&["exec", "memory:"]);
    let mut stdin = child.stdin.take().unwrap();
    let writing = std::thread::spawn(move || {
        let block = vec![b' '; 1024 * 1024];
        for _ in 0..2 * LIMIT / block.len() {
            stdin.write_all(&block).unwrap();
        }
        stdin.write_all(format!("\n{GET}\n").as_bytes()).unwrap();
    });
    let output = child.wait_with_output().unwrap();
    writing.join().unwrap();
    let answers = answers(&output);
    assert!(answers[0].contains(r#""code":"too_large""#) && answers[0].contains(&format!(r#""size":{},"limit":{LIMIT}"#, 2 * LIMIT)));
    assert_eq!(answers[1], r#"{"ok":null}"#);
    assert!(output.status.success());
}
