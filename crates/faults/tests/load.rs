//! What stays bounded however long it goes on.

#![allow(clippy::unwrap_used, clippy::panic, reason = "the lints' exception for tests does not reach their helpers")]

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use runledger_backend_redb::RedbBackend;
use runledger_backend_sqlite::SqliteBackend;
use runledger_core::{
    AnswerForm, ConfirmRun, Durability, Execution, GetStoreInfo, Ledger, ListRuns, OpenOptions, Payload, QueueRun, StartRun, Time,
    VerifyStore,
};
use runledger_faults::process::{Process, serve};
use runledger_faults::{is_long, scratch_directory};

fn open_sqlite(path: &Path) -> Ledger {
    let options = OpenOptions::new();
    Ledger::new(SqliteBackend::open(path, &options).unwrap(), &options)
}

/// What the other processes do; without their environment it does nothing.
#[test]
fn child() {
    serve(open_sqlite);
}

/// A heartbeat that goes on for ever leaves the store as large as it was.
#[test]
fn confirms_leave_the_size_flat() {
    let confirms = if is_long() { 200_000 } else { 6000 };
    for name in ["sqlite", "redb"] {
        let directory = scratch_directory();
        let path = directory.path().join("store");
        let options = OpenOptions::new().with_durability(Durability::Relaxed);
        let ledger = match name {
            "sqlite" => Ledger::new(SqliteBackend::open(&path, &options).unwrap(), &options),
            _ => Ledger::new(RedbBackend::open(&path, &options).unwrap(), &options),
        };
        let execution = Execution::new("t", Time::from_unix_us(0).unwrap());
        let input = Payload::from_json(format!("\"{}\"", "x".repeat(100_000))).unwrap();
        ledger.start_run(StartRun::new("p", "r", "w", input).with_execution(execution)).unwrap();
        let size = || ledger.store_info(GetStoreInfo::new()).unwrap().size_bytes;
        let mut confirm = |number: i64| {
            // A minute each, so that the index of the leases moves too.
            let end = Time::from_unix_us(number * 60_000_000).unwrap();
            let confirm = ConfirmRun::new("p", "r", "t", end).with_answer(AnswerForm::State);
            ledger.confirm_run(confirm).unwrap();
        };
        (1..3000).for_each(&mut confirm);
        let (before, mut most) = (size(), 0);
        for number in 3000..confirms {
            confirm(number);
            if number % 500 == 0 {
                most = most.max(size());
            }
        }
        println!("{name}: {before} bytes after 3000 confirms, at most {most} until {confirms}");
        // What is in the log until it is copied back comes and goes.
        const LOG: u64 = 10 << 20;
        assert!(most <= before + LOG, "{name} grows");
        ledger.close().unwrap();
        let len = std::fs::metadata(&path).unwrap().len();
        assert!(len < 8 << 20, "{name}: the file has {len} bytes at the end");
    }
}

/// Readers that overlap all the time keep the engine from beginning its log anew; the log stays bounded all the same.
#[test]
fn the_log_stays_bounded_while_readers_of_other_processes_never_pause() {
    let directory = scratch_directory();
    let path = directory.path().join("store");
    let writer = open_sqlite(&path);
    let stop = AtomicBool::new(false);
    let mut most = 0;
    std::thread::scope(|scope| {
        for _ in 0..3 {
            let (path, stop) = (&path, &stop);
            scope.spawn(move || {
                let mut reader = Process::start(path, None);
                let request = r#"{"op":"runs.list","projectId":"p","limit":200}"#;
                while !stop.load(Ordering::SeqCst) {
                    assert!(reader.ask(request).unwrap().starts_with(r#"{"ok""#));
                }
            });
        }
        let input = Payload::from_json(format!("\"{}\"", "x".repeat(20_000))).unwrap();
        let log = directory.path().join("store-wal");
        let runs = if is_long() { 60_000 } else { 2500 };
        for number in 0..runs {
            writer.queue_run(QueueRun::new("p", format!("r{number}"), "w", input.clone()).with_answer(AnswerForm::State)).unwrap();
            most = most.max(std::fs::metadata(&log).map_or(0, |meta| meta.len()));
        }
        stop.store(true, Ordering::SeqCst);
        println!("{runs} runs of 20 kB beside readers that never pause: the log had at most {most} bytes");
    });
    const BOUND: u64 = 40 << 20;
    assert!(most < BOUND, "the log grew to {most} bytes");
    assert!(writer.verify_store(VerifyStore::new()).unwrap().is_ok());
}

/// Five processes write and five read for as long as it takes; nobody is ever told `busy`.
#[test]
fn five_writing_and_five_reading_processes_are_never_busy() {
    let directory = scratch_directory();
    let path = directory.path().join("store");
    open_sqlite(&path).close().unwrap();
    let lasts = Duration::from_secs(if is_long() { 120 } else { 4 });
    let until = Instant::now() + lasts;
    let reads = AtomicU64::new(0);
    let mut waits: Vec<Duration> = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..5)
            .map(|number| {
                let path = &path;
                scope.spawn(move || {
                    let mut writer = Process::start(path, None);
                    let (mut waits, mut made) = (Vec::new(), 0);
                    while Instant::now() < until {
                        made += 1;
                        let request =
                            format!(r#"{{"op":"runs.queue","projectId":"p{number}","id":"r{made}","workflowId":"w","input":{made}}}"#);
                        let began = Instant::now();
                        let answer = writer.ask(&request).unwrap();
                        waits.push(began.elapsed());
                        assert!(answer.starts_with(r#"{"ok""#), "{answer}");
                    }
                    waits
                })
            })
            .collect();
        for number in 0..5 {
            let (path, reads) = (&path, &reads);
            scope.spawn(move || {
                let mut reader = Process::start(path, None);
                while Instant::now() < until {
                    let answer = reader.ask(&format!(r#"{{"op":"runs.list","projectId":"p{number}","limit":20}}"#)).unwrap();
                    assert!(answer.starts_with(r#"{"ok""#), "{answer}");
                    reads.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        writers.into_iter().flat_map(|writer| writer.join().unwrap()).collect()
    });
    waits.sort();
    let part = |share: f64| waits[((waits.len() - 1) as f64 * share) as usize];
    println!(
        "{} writes and {} reads in {lasts:?}: a write and its wait for the lock took {:?} (median), {:?} (p99), {:?} (most)",
        waits.len(),
        reads.into_inner(),
        part(0.5),
        part(0.99),
        part(1.0)
    );
    let ledger = open_sqlite(&path);
    let written: u64 = (0..5).map(|number| ledger.list_runs(ListRuns::new(format!("p{number}"))).unwrap().total.unwrap()).sum();
    assert_eq!(written, waits.len() as u64);
    assert!(ledger.verify_store(VerifyStore::new()).unwrap().is_ok());
}
