//! A redb file with keys and values that no store wrote, put there by the engine itself, so that its own checksums are
//! right: every query answers or says `corrupt`, and the verification ends.
#![no_main]

use std::path::PathBuf;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use redb::{Database, TableDefinition};
use runledger_backend_redb::RedbBackend;
use runledger_core::{Ledger, OpenOptions};

const TABLES: [&str; 16] = [
    "runledger",
    "runs",
    "nodes",
    "node ids",
    "agents",
    "large values",
    "run counts",
    "agent counts",
    "projects",
    "runs by status",
    "runs by workflow",
    "runs by end",
    "run leases",
    "agents by status",
    "agents by agent",
    "agent leases",
];

static STORE: LazyLock<(tempfile::TempDir, Vec<u8>)> = LazyLock::new(|| {
    let directory = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a directory can be made");
    let path = directory.path().join("healthy");
    let ledger = open(&path).expect("a new store opens");
    for request in [
        r#"{"op":"runs.start","projectId":"p","id":"r","workflowId":"w","input":1,"execution":{"token":"t","queueLeaseExpiresAt":"2026-01-01T00:00:00Z"}}"#,
        r#"{"op":"nodes.start","projectId":"p","id":"n","workflowRunId":"r","workflowId":"w","nodeIndex":0,"nodeType":"agent","nodeId":"n","nodeKey":"k","input":1,"executionToken":"t"}"#,
        r#"{"op":"agents.create","projectId":"p","nodeRunId":"n","agentId":"a","prompt":"p"}"#,
        r#"{"op":"runs.queue","projectId":"p","id":"q","workflowId":"w","input":1}"#,
    ] {
        assert!(ledger.call_json(request).starts_with(r#"{"ok""#));
    }
    ledger.close().expect("it closes");
    let bytes = std::fs::read(path).expect("it is there");
    (directory, bytes)
});

fn open(path: &std::path::Path) -> runledger_core::Result<Ledger> {
    let options = OpenOptions::new();
    Ok(Ledger::new(RedbBackend::open(path, &options)?, &options))
}

/// Puts rows into tables: each is a byte for the table, two for the lengths, and the key and the value.
fn spoil(path: &PathBuf, mut bytes: &[u8]) {
    let db = Database::create(path).expect("the engine opens its own file");
    let txn = db.begin_write().expect("it can be written");
    while let [table, key_len, value_len, rest @ ..] = bytes {
        let (key, rest) = rest.split_at(usize::from(*key_len).min(rest.len()));
        let (value, rest) = rest.split_at(usize::from(*value_len).min(rest.len()));
        let definition: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new(TABLES[usize::from(*table) % TABLES.len()]);
        let mut table = txn.open_table(definition).expect("the table is there");
        table.insert(key, value).expect("a row can be put");
        bytes = rest;
    }
    txn.commit().expect("it can be committed");
}

fuzz_target!(|bytes: &[u8]| {
    let (directory, healthy) = &*STORE;
    let path = directory.path().join("spoiled");
    std::fs::write(&path, healthy).expect("it can be written");
    spoil(&path, bytes);
    let ledger = match open(&path) {
        Ok(ledger) => ledger,
        Err(error) => return assert!(matches!(error.code().as_str(), "corrupt" | "not_a_ledger" | "schema_too_new"), "{error}"),
    };
    for request in [
        r#"{"op":"store.verify"}"#,
        r#"{"op":"runs.get","projectId":"p","id":"r"}"#,
        r#"{"op":"nodes.get","projectId":"p","id":"n"}"#,
        r#"{"op":"agents.get","projectId":"p","nodeRunId":"n"}"#,
        r#"{"op":"runs.list","projectId":"p"}"#,
        r#"{"op":"nodes.list","projectId":"p"}"#,
        r#"{"op":"agents.list","projectId":"p"}"#,
        r#"{"op":"runs.latest","projectId":"p","workflowIds":["w"]}"#,
        r#"{"op":"runs.stats","projectId":"p"}"#,
        r#"{"op":"runs.expired","expiredBy":"9999-01-01T00:00:00Z"}"#,
        r#"{"op":"agents.expired","expiredBy":"9999-01-01T00:00:00Z"}"#,
        r#"{"op":"projects.list"}"#,
        r#"{"op":"runs.claim","projectId":"p","execution":{"token":"t","queueLeaseExpiresAt":"2026-01-01T00:00:00Z"}}"#,
        r#"{"op":"runs.cancel","projectId":"p","id":"r"}"#,
        r#"{"op":"runs.purge","projectId":"p","finishedBefore":"9999-01-01T00:00:00Z"}"#,
    ] {
        let answer = ledger.call_json(request);
        let is_defect = answer.contains(r#""code":"internal""#) || answer.contains(r#""code":"io""#);
        assert!(!is_defect, "{request} is answered {answer}");
    }
    let mut stream = Vec::new();
    if let Err(error) = ledger.export(&mut stream) {
        assert_eq!(error.code().as_str(), "corrupt", "{error}");
    }
});
