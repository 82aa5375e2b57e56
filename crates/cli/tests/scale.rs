//! Stores of many runs: pages cost a page, and transfers take bounded memory. A million runs with `RUNLEDGER_LONG=1`.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "the lints' exception for tests does not reach their helpers")]

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use runledger::{Payload, QueueRun, Time};

fn runs() -> usize {
    if std::env::var_os("RUNLEDGER_LONG").is_some() { 1_000_000 } else { 30_000 }
}

/// The most memory that a transfer may take: caches of the engine, and 16 bytes for each key, whatever the records hold.
const MOST_TRANSFER_KIB: u64 = 320 * 1024;
/// The most memory for a page of a list.
const MOST_PAGE_KIB: u64 = 64 * 1024;

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_runledger"));
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null());
    command
}

fn fill(url: &str, runs: usize) {
    let ledger = runledger::open(&format!("{url}?durability=relaxed")).unwrap();
    let begin: Time = "2026-01-01T00:00:00Z".parse().unwrap();
    let queue = |id: usize| {
        let input = Payload::from_json(format!("{{\"n\":{id},\"text\":\"{}\"}}", "x".repeat(1000))).unwrap();
        let queued_at = begin.plus_seconds(i64::try_from(id).unwrap());
        QueueRun::new("bulk", format!("run-{id:07}"), format!("wf-{}", id % 20), input).with_queued_at(queued_at).into()
    };
    for ids in (0..runs).collect::<Vec<_>>().chunks(1000) {
        ledger.batch(ids.iter().copied().map(queue).collect()).unwrap();
    }
    ledger.close().unwrap();
}

/// Waits for a process, and gives the most memory that it took in KiB.
fn peak_kib(mut child: Child) -> u64 {
    let mut peak = 0;
    loop {
        let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        peak = line.and_then(|line| line.trim().trim_end_matches("kB").trim().parse().ok()).unwrap_or(0).max(peak);
        if let Some(status) = child.try_wait().unwrap() {
            assert!(status.success());
            return peak;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn url(scheme: &str, directory: &Path, name: &str) -> String {
    format!("{scheme}:{}", directory.join(name).display())
}

/// The quickest of several, in milliseconds: for the eye, not for a judgement.
fn quickest(arguments: &[&str]) -> f64 {
    let time = |_| {
        let began = Instant::now();
        assert!(command(arguments).status().unwrap().success());
        began.elapsed().as_secs_f64() * 1000.0
    };
    (0..7).map(time).fold(f64::MAX, f64::min)
}

fn at_scale(scheme: &str) {
    let directory = tempfile::tempdir().unwrap();
    let [small, large, moved] = ["small", "large", "moved"].map(|name| url(scheme, directory.path(), name));
    fill(&small, 1000);
    fill(&large, runs());

    let list = |url: &str| ["runs", "list", "-s", url].map(str::to_owned);
    let [of_small, of_large] = [&small, &large].map(|url| quickest(&list(url).each_ref().map(String::as_str)));
    let page = peak_kib(command(&list(&large).each_ref().map(String::as_str)).spawn().unwrap());
    assert!(page < MOST_PAGE_KIB, "{scheme}: a page took {page} KiB");

    let all = peak_kib(command(&["runs", "list", "--all", "-s", &large, "--output", "json"]).spawn().unwrap());
    assert!(all < MOST_PAGE_KIB * 2, "{scheme}: a whole list took {all} KiB");

    let began = Instant::now();
    let mut export = command(&["export", &large]).stdout(Stdio::piped()).spawn().unwrap();
    let import = command(&["import", &moved]).stdin(export.stdout.take().unwrap()).spawn().unwrap();
    let exporting = std::thread::spawn(move || peak_kib(export));
    let (import, export) = (peak_kib(import), exporting.join().unwrap());
    let took = began.elapsed().as_secs_f64();
    assert!(import < MOST_TRANSFER_KIB && export < MOST_TRANSFER_KIB, "{scheme}: export took {export} KiB, import {import} KiB");
    println!(
        "{scheme}: list of 1000 runs {of_small:.1} ms, of {} runs {of_large:.1} ms ({page} KiB, all of them {all} KiB); \
         export | import {took:.1} s, {export} and {import} KiB",
        runs()
    );
}

#[test]
fn sqlite_at_scale() {
    at_scale("sqlite");
}

#[test]
fn redb_at_scale() {
    at_scale("redb");
}
