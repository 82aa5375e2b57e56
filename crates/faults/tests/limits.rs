//! Few files, small stacks, long filters, and processes that fork.

#![allow(clippy::unwrap_used, clippy::panic, reason = "the lints' exception for tests does not reach their helpers")]
#![cfg(unix)]

use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};

use runledger_backend_memory::MemoryBackend;
use runledger_backend_redb::RedbBackend;
use runledger_backend_sqlite::SqliteBackend;
use runledger_core::{
    ClaimAgent, ClaimRun, Code, Execution, GetRun, GetRunStats, Id, LatestRuns, Ledger, ListAgents, ListRuns, MAX_LIST_VALUES, OpenOptions,
    Payload, PurgeRuns, QueueRun, Result, Snapshot, Time, VerifyStore,
};
use runledger_faults::scratch_directory;
use rustix::process::{Resource, getrlimit, setrlimit};

type Open = fn(&Path, &OpenOptions) -> Result<Ledger>;

const MEMORY: (&str, Open) = ("memory", |_, options| Ok(Ledger::new(MemoryBackend::open(options)?, options)));
const SQLITE: (&str, Open) = ("sqlite", |path, options| Ok(Ledger::new(SqliteBackend::open(path, options)?, options)));
const REDB: (&str, Open) = ("redb", |path, options| Ok(Ledger::new(RedbBackend::open(path, options)?, options)));

fn queue(ledger: &Ledger, id: &str) -> Result<runledger_core::Run> {
    ledger.queue_run(QueueRun::new("p", id, "w", Payload::from_json("1").unwrap()))
}

const FEW_FILES: &str = "RUNLEDGER_TEST_FEW_FILES";

/// What a process does that may have only 64 files open; without its environment it does nothing.
#[test]
fn child() {
    if std::env::var_os(FEW_FILES).is_none() {
        return;
    }
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = Some(64);
    setrlimit(Resource::Nofile, limit).unwrap();
    let open_files = || std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
    for (name, open) in [SQLITE, REDB] {
        let directory = scratch_directory();
        let path = directory.path().join("store");
        let options = OpenOptions::new();
        open(&path, &options).unwrap().close().unwrap();
        let before = open_files();
        for round in 0..300 {
            let ledger = open(&path, &options).unwrap();
            queue(&ledger, &format!("r{round}")).unwrap();
            assert_eq!(ledger.list_runs(ListRuns::new("p")).unwrap().total, Some(round + 1));
            // Every other one is dropped without being closed.
            if round % 2 == 0 {
                ledger.close().unwrap();
            }
        }
        assert_eq!(open_files(), before, "{name} leaves files open");
        // More stores than there can be files: the last one is refused, and the others work on.
        let ledger = open(&path, &options).unwrap();
        let mut stores = Vec::new();
        let error = loop {
            match open(&directory.path().join(format!("store-{}", stores.len())), &options) {
                Ok(store) => stores.push(store),
                Err(error) => break error,
            }
            assert!(stores.len() < 64, "{name} opened more stores than there can be files");
        };
        assert_eq!(error.code(), Code::Io, "{name}: {error}");
        assert!(error.details().path.is_some(), "{name}: {error}");
        // What is open works on, be there not one file left for it.
        let others: Vec<File> = std::iter::from_fn(|| File::open("/dev/null").ok()).collect();
        queue(&ledger, "one more").unwrap();
        assert!(ledger.get_run(GetRun::new("p", "one more")).unwrap().is_some());
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| assert_eq!(ledger.list_runs(ListRuns::new("p")).unwrap().total, Some(301), "{name}"));
            }
        });
        assert!(ledger.verify_store(VerifyStore::new()).unwrap().problems.is_empty(), "{name}");
        assert!(!ledger.snapshot().unwrap().as_bytes().is_empty(), "{name}");
        drop((stores, others));
        open(&directory.path().join("store-again"), &options).unwrap().close().unwrap();
        println!("{name}: 300 opens with 64 files");
    }
}

#[test]
fn hundreds_of_opens_leave_no_file_open() {
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "child", "--nocapture"]).env(FEW_FILES, "1").stdin(Stdio::null());
    let output = child.output().unwrap();
    println!("{}", String::from_utf8_lossy(&output.stdout));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// The deepest payload goes through everything on a stack of 256 KiB.
#[test]
fn a_small_stack_is_enough_for_the_deepest_payload() {
    let work = || {
        let deep = format!("{}1{}", "[".repeat(127), "]".repeat(127));
        for (name, open) in [MEMORY, SQLITE, REDB] {
            let directory = scratch_directory();
            let options = OpenOptions::new();
            let ledger = open(&directory.path().join("store"), &options).unwrap();
            for request in [
                format!(r#"{{"op":"runs.start","projectId":"p","id":"r","workflowId":"w","input":{deep},"source":{deep}}}"#),
                format!(
                    r#"{{"op":"nodes.start","projectId":"p","id":"n","workflowRunId":"r","workflowId":"w","nodeIndex":0,"nodeType":"agent","nodeId":"n","nodeKey":"k","input":{deep}}}"#
                ),
                r#"{"op":"agents.create","projectId":"p","nodeRunId":"n","agentId":"a","prompt":"p"}"#.to_owned(),
                r#"{"op":"agents.claim","projectId":"p","execution":{"token":"t","queueLeaseExpiresAt":"2026-01-01T00:00:00Z"}}"#
                    .to_owned(),
                format!(
                    r#"{{"op":"agents.finish","projectId":"p","nodeRunId":"n","executionToken":"t","status":"succeeded","usage":{deep},"trace":{deep},"diagnostics":{deep}}}"#
                ),
                format!(r#"{{"op":"batch","commands":[{{"op":"runs.queue","projectId":"p","id":"q","workflowId":"w","input":{deep}}}]}}"#),
                r#"{"op":"runs.list","projectId":"p"}"#.to_owned(),
                r#"{"op":"agents.get","projectId":"p","nodeRunId":"n"}"#.to_owned(),
                r#"{"op":"runs.purge","projectId":"p","finishedBefore":"2026-01-01T00:00:00Z"}"#.to_owned(),
                r#"{"op":"store.verify"}"#.to_owned(),
                r#"{"op":"store.compact"}"#.to_owned(),
            ] {
                let answer = ledger.call_json(&request);
                assert!(answer.starts_with(r#"{"ok""#), "{name}: {answer}");
            }
            // One deeper is refused, and a thousand times deeper too.
            for depth in [128, 100_000] {
                let deeper = format!("{}1{}", "[".repeat(depth), "]".repeat(depth));
                let request = format!(r#"{{"op":"runs.queue","projectId":"p","id":"x","workflowId":"w","input":{deeper}}}"#);
                assert!(ledger.call_json(request).contains("invalid_input"), "{name}");
            }
            let mut stream = Vec::new();
            ledger.export(&mut stream).unwrap();
            let copy = open(&directory.path().join("copy"), &options).unwrap();
            copy.import(&mut stream.as_slice()).unwrap();
            copy.restore(&Snapshot::from_bytes(ledger.snapshot().unwrap().as_bytes().to_vec())).unwrap();
            ledger.close().unwrap();
        }
    };
    std::thread::Builder::new().stack_size(256 * 1024).spawn(work).unwrap().join().unwrap();
}

#[test]
fn filters_of_a_hundred_thousand_values_work_and_longer_ones_are_refused() {
    let ids = |count: usize| -> Vec<Id> { (0..count).map(|number| format!("w{number:06}").into()).collect() };
    let many = ids(MAX_LIST_VALUES);
    for (name, open) in [MEMORY, SQLITE, REDB] {
        let directory = scratch_directory();
        let options = OpenOptions::new();
        let ledger = open(&directory.path().join("store"), &options).unwrap();
        for number in [0, 50_000, 99_999] {
            let run = QueueRun::new("p", format!("r{number}"), format!("w{number:06}"), Payload::from_json("1").unwrap());
            ledger.queue_run(run).unwrap();
        }
        queue(&ledger, "other").unwrap();
        let execution = || Execution::new("t", Time::MAX);
        assert_eq!(ledger.list_runs(ListRuns::new("p").with_workflow_ids(many.clone())).unwrap().total, Some(3), "{name}");
        assert_eq!(ledger.latest_runs(LatestRuns::new("p", many.clone())).unwrap().runs.len(), 3, "{name}");
        assert_eq!(ledger.run_stats(GetRunStats::new("p").with_workflow_ids(many.clone())).unwrap().by_status.total(), 3, "{name}");
        for _ in 0..3 {
            let claim = ClaimRun::new("p", execution()).with_workflow_ids(many.clone());
            assert!(ledger.claim_run(claim.clone()).unwrap().is_some(), "{name}");
        }
        assert!(ledger.claim_run(ClaimRun::new("p", execution()).with_workflow_ids(many.clone())).unwrap().is_none(), "{name}");
        assert!(ledger.claim_agent(ClaimAgent::new("p", execution()).with_agent_ids(many.clone())).unwrap().is_none(), "{name}");
        let purge = PurgeRuns::new("p", Time::MAX).with_workflow_ids(many.clone());
        assert_eq!(ledger.purge_runs(purge).unwrap().runs, 0, "{name}");
        let too_many = ids(MAX_LIST_VALUES + 1);
        let error = ledger.list_runs(ListRuns::new("p").with_workflow_ids(too_many)).unwrap_err();
        assert_eq!((error.code(), error.details().field.as_deref()), (Code::InvalidInput, Some("workflowIds")), "{name}");
        assert_eq!(ledger.list_agents(ListAgents::new("p")).unwrap().total, Some(0), "{name}");
        assert!(ledger.verify_store(VerifyStore::new()).unwrap().is_ok(), "{name}");
    }
}
