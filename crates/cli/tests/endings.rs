//! How commands end that are killed, interrupted, refused for a lock, or find damage; the transcripts have the other endings.

#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::panic, reason = "the lints' exception for tests does not reach their helpers")]

use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, SystemTime};

use runledger::{Ledger, Payload, QueueRun};

fn spawn(arguments: &[&str]) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_runledger"));
    command.args(arguments).env("RUNLEDGER_NOW", "2026-03-01T12:00:00Z");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn run(arguments: &[&str]) -> Output {
    let mut child = spawn(arguments);
    drop(child.stdin.take());
    child.wait_with_output().unwrap()
}

fn status(output: &Output) -> Option<i32> {
    output.status.code()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

fn interrupt(child: &Child) {
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
}

fn url(scheme: &str, path: &Path) -> String {
    format!("{scheme}:{}", path.display())
}

fn fill(url: &str, project: &str, runs: usize) {
    let ledger = runledger::open(url).unwrap();
    // The same whenever it is filled.
    let queued_at: runledger::Time = "2026-03-01T11:00:00Z".parse().unwrap();
    let queue = |id: usize| {
        let input = Payload::from_json(format!("\"needle-{id:06}\"")).unwrap();
        QueueRun::new(project, format!("run-{id:06}"), "wf", input).with_queued_at(queued_at).into()
    };
    for ids in (0..runs).collect::<Vec<_>>().chunks(1000) {
        ledger.batch(ids.iter().copied().map(queue).collect()).unwrap();
    }
    ledger.close().unwrap();
}

fn exported(url: &str) -> Vec<u8> {
    let ledger: Ledger = runledger::open(url).unwrap();
    let snapshot = ledger.snapshot().unwrap();
    ledger.close().unwrap();
    snapshot.as_bytes().to_vec()
}

/// A pseudo-random wait, other in each test and run.
fn random_wait(most: Duration) -> Duration {
    let ns = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().subsec_nanos();
    most.mul_f64(f64::from(ns.wrapping_mul(2_654_435_761) >> 8) / f64::from(u32::MAX >> 8))
}

/// Copies and kills the copier at a random moment, again and again: the target has what it had, or all of it.
fn killed_copies(scheme: &str) {
    let rounds = if std::env::var_os("RUNLEDGER_LONG").is_some() { 200 } else { 12 };
    let directory = tempfile::tempdir().unwrap();
    let source = url("sqlite", &directory.path().join("source"));
    fill(&source, "copied", 3000);
    let whole = {
        let target = url(scheme, &directory.path().join("whole"));
        fill(&target, "there", 10);
        let began = SystemTime::now();
        assert_eq!(status(&run(&["copy", &source, &target])), Some(0));
        (exported(&target), began.elapsed().unwrap())
    };
    let (mut killed, mut finished) = (0, 0);
    for round in 0..rounds {
        let target = url(scheme, &directory.path().join(format!("target-{round}")));
        fill(&target, "there", 10);
        let before = exported(&target);
        let mut copier = spawn(&["copy", &source, &target]);
        // Not a wait for something to happen: the moment of the kill is what is random here.
        std::thread::sleep(random_wait(whole.1));
        copier.kill().unwrap();
        let was_killed = copier.wait().unwrap().code().is_none();
        let after = exported(&target);
        assert!(after == before || after == whole.0, "{scheme}: a part of a copy was kept");
        killed += u32::from(was_killed && after == before);
        finished += u32::from(after == whole.0);
        assert_eq!(status(&run(&["copy", &source, &target])), Some(0), "{scheme}: it can be made again");
        assert!(exported(&target) == whole.0, "{scheme}: round {round}");
        assert_eq!(status(&run(&["verify", &target])), Some(0));
    }
    println!("{scheme}: of {rounds} copies {killed} were killed before they took effect, {finished} had");
    assert!(killed > 0, "no copy was killed while it was under way");
}

#[test]
fn a_killed_copy_into_sqlite_leaves_the_target_as_it_was() {
    killed_copies("sqlite");
}

#[test]
fn a_killed_copy_into_redb_leaves_the_target_as_it_was() {
    killed_copies("redb");
}

#[test]
fn an_interrupted_command_ends_with_130_and_leaves_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let target = url("sqlite", &directory.path().join("never"));
    // It waits for a stream that does not come.
    let mut import = spawn(&["import", &target]);
    import.stdin.as_mut().unwrap().write_all(b"{\"runledger\":{\"format\":1}}\n").unwrap();
    // Until its handler is there, an interrupt ends it as a signal does. A shell says 130 of both.
    let status = interrupted_until_it_ends(import);
    assert_eq!(status, 130);
    assert_eq!(directory.path().read_dir().unwrap().count(), 0);

    let source = url("sqlite", &directory.path().join("source"));
    fill(&source, "p", 10);
    let watch = spawn(&["runs", "watch", "-s", &source, "--interval", "10s"]);
    assert_eq!(interrupted_until_it_ends(watch), 130);
}

/// Interrupts a process a little after its start, and gives the status that a shell would tell.
fn interrupted_until_it_ends(mut child: Child) -> i32 {
    use std::os::unix::process::ExitStatusExt;
    let mut tries = 0;
    loop {
        std::thread::sleep(Duration::from_millis(50));
        if let Some(status) = child.try_wait().unwrap() {
            return status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or_default());
        }
        tries += 1;
        assert!(tries < 1000, "it does not end");
        if tries > 5 {
            interrupt(&child);
        }
    }
}

#[test]
fn exec_that_is_interrupted_closes_the_store() {
    let directory = tempfile::tempdir().unwrap();
    let store = url("redb", &directory.path().join("store"));
    let mut exec = spawn(&["exec", &store]);
    let mut input = exec.stdin.take().unwrap();
    let mut answers = std::io::BufReader::new(exec.stdout.take().unwrap());
    input.write_all(b"{\"op\":\"store.info\"}\n").unwrap();
    let mut answer = String::new();
    std::io::BufRead::read_line(&mut answers, &mut answer).unwrap();
    // It answered, so that its handler is there.
    interrupt(&exec);
    assert_eq!(exec.wait().unwrap().code(), Some(130));
    let recovered = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let seen = recovered.clone();
    let options = runledger::OpenOptions::new().with_on_repair(move |_| {
        seen.store(true, std::sync::atomic::Ordering::Relaxed);
        std::ops::ControlFlow::Continue(())
    });
    runledger::open_with(&store, options).unwrap().close().unwrap();
    assert!(!recovered.load(std::sync::atomic::Ordering::Relaxed), "the store had not been closed");
}

#[test]
fn a_store_that_another_process_holds_is_not_to_be_had() {
    let directory = tempfile::tempdir().unwrap();
    let store = url("redb", &directory.path().join("store"));
    let holder = runledger::open(&store).unwrap();
    for arguments in [&["info", &store][..], &["verify", &store], &["runs", "list", "-s", &store], &["export", &store]] {
        let output = run(arguments);
        assert_eq!(status(&output), Some(6), "{arguments:?}");
        assert!(text(&output.stderr).starts_with(r#"{"error":{"code":"locked""#), "{}", text(&output.stderr));
    }
    let copy = directory.path().join("copy");
    let output = run(&["backup", &store, "-o", copy.to_str().unwrap()]);
    assert_eq!(status(&output), Some(6));
    assert!(text(&output.stderr).contains("only that process can back it up"), "{}", text(&output.stderr));
    assert_eq!(directory.path().read_dir().unwrap().count(), 1);
    drop(holder);

    // SQLite's lock is waited for, and then `busy`.
    let store = url("sqlite", &directory.path().join("busy"));
    fill(&store, "p", 1000);
    let holder = runledger::open(&store).unwrap();
    let mut output = TriesToCompact { store: format!("{store}?busy_timeout_ms=50"), has_tried: false };
    holder.export(&mut output).unwrap();
    assert!(output.has_tried);
}

/// An output that is written while the store is read, and has another process try to compact it then.
struct TriesToCompact {
    store: String,
    has_tried: bool,
}

impl Write for TriesToCompact {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if !std::mem::replace(&mut self.has_tried, true) {
            let output = run(&["compact", &self.store]);
            assert_eq!(status(&output), Some(6), "{}", text(&output.stderr));
            assert!(text(&output.stderr).starts_with(r#"{"error":{"code":"busy""#), "{}", text(&output.stderr));
        }
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn damage_is_a_finding() {
    for scheme in ["sqlite", "redb"] {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("store");
        let store = url(scheme, &path);
        fill(&store, "p", 50);
        let mut bytes = std::fs::read(&path).unwrap();
        let needle = b"needle-000017";
        let places: Vec<usize> =
            bytes.windows(needle.len()).enumerate().filter(|(_, window)| *window == needle).map(|(at, _)| at).collect();
        assert!(!places.is_empty());
        places.into_iter().for_each(|at| bytes[at] = b'N');
        std::fs::write(&path, bytes).unwrap();
        let output = run(&["verify", &store]);
        assert_eq!(status(&output), Some(5), "{scheme}: {}{}", text(&output.stdout), text(&output.stderr));
        let output = run(&["runs", "list", "-s", &store, "--payloads", "--output", "json"]);
        assert_eq!(status(&output), Some(5), "{scheme}");
        assert!(text(&output.stderr).starts_with(r#"{"error":{"code":"corrupt""#), "{}", text(&output.stderr));
    }
}

#[test]
fn a_bulk_action_that_fails_in_part_ends_with_1() {
    let directory = tempfile::tempdir().unwrap();
    let store = url("sqlite", &directory.path().join("store"));
    let mut exec = spawn(&["exec", &store]);
    let start = r#"{"op":"runs.start","projectId":"p","id":"r","workflowId":"w","input":1,"execution":{"token":"t","queueLeaseExpiresAt":"2026-03-01T11:00:00Z"}}"#;
    writeln!(exec.stdin.take().unwrap(), "{start}").unwrap();
    assert!(exec.wait_with_output().unwrap().status.success());
    // No token of this length is taken.
    let prefix = "x".repeat(600);
    let output = run(&["runs", "reclaim", "--stuck", "--token-prefix", &prefix, "--lease", "5m", "-y", "-s", &store, "--output", "json"]);
    assert_eq!(status(&output), Some(1));
    assert!(text(&output.stdout).starts_with(r#"{"runs":[],"recovered":0,"errors":[{"code":"invalid_input""#), "{}", text(&output.stdout));
}

#[test]
fn a_reader_that_leaves_is_no_error() {
    let directory = tempfile::tempdir().unwrap();
    let store = url("sqlite", &directory.path().join("store"));
    fill(&store, "p", 5000);
    for arguments in [
        &["export", &store][..],
        &["runs", "list", "--all", "-s", &store],
        &["runs", "list", "--all", "-s", &store, "--output", "json"],
        &["runs", "list", "--all", "-s", &store, "--output", "ndjson"],
        &["completions", "bash"],
        &["man"],
    ] {
        let mut child = spawn(arguments);
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert_eq!((status(&output), text(&output.stderr)), (Some(0), ""), "{arguments:?}");
    }
}
