//! What is damaged is never an answer, and verify names it.

use std::path::Path;

use runledger_backend_sqlite::SqliteBackend;
use runledger_core::{AnswerForm, Backend, Code, OpenOptions, Put, Status};

use crate::kit::{new_agent, new_node, new_run, open, place, set_run, write};

fn store(path: &Path) -> SqliteBackend {
    let backend = open(path);
    let mut run = new_run("p", "r", "wf", 1);
    set_run(&mut run, Status::Running, Some(5_000_000_000), 2);
    let node = new_node(&run, "n", 0, "agent", 3);
    write(&backend, |tx| {
        tx.put_run(&Put::insert(run.clone()))?;
        tx.put_run(&Put::insert(new_run("p", "other", "wf", 1)))?;
        tx.put_node(&Put::insert(node.clone()))?;
        tx.put_agent(&Put::insert(new_agent(&node, "a", 4)))
    })
    .unwrap();
    assert!(backend.verify().unwrap().is_ok());
    backend
}

/// Damages a store by statements of another connection, and says what verify finds.
fn kinds_after(sql: &str) -> Vec<&'static str> {
    let (_directory, path) = place();
    let backend = store(&path);
    rusqlite::Connection::open(&path).unwrap().execute_batch(&format!("PRAGMA foreign_keys = 0; {sql}")).unwrap();
    let report = backend.verify().unwrap();
    assert!(report.engine_check_done);
    let mut kinds: Vec<_> = report.problems.iter().map(|problem| problem.kind).collect();
    kinds.sort();
    kinds.dedup();
    kinds
}

#[test]
fn a_changed_state_or_value_is_corrupt() {
    for (sql, whole_only) in [
        ("UPDATE run SET attempt = attempt + 1 WHERE id = 'r'", false),
        ("UPDATE run SET token = 'mine' WHERE id = 'r'", false),
        ("UPDATE run SET input = NULL WHERE id = 'r'", false),
        ("UPDATE run SET status = 77 WHERE id = 'r'", false),
        ("UPDATE large_value SET value = x'7B7D'", true),
        ("UPDATE large_value SET value = x'FF'", true),
        ("DELETE FROM large_value", true),
    ] {
        let (_directory, path) = place();
        let backend = store(&path);
        rusqlite::Connection::open(&path).unwrap().execute_batch(sql).unwrap();
        let error = backend.get_run(&"p".into(), &"r".into(), AnswerForm::Record).unwrap_err();
        assert_eq!(error.code(), Code::Corrupt, "{sql}");
        assert_eq!(error.details().id.as_deref(), Some("r"));
        let state = backend.get_run(&"p".into(), &"r".into(), AnswerForm::State);
        assert_eq!(state.is_ok(), whole_only, "{sql}");
        let decided = write(&backend, |tx| tx.run(&"p".into(), &"r".into(), AnswerForm::State).map(|_| ()));
        assert_eq!(decided.is_ok(), whole_only, "{sql}");
        assert!(!backend.verify().unwrap().is_ok());
    }
}

#[test]
fn verify_names_each_kind_of_damage() {
    assert_eq!(kinds_after("UPDATE run SET attempt = 9 WHERE id = 'r'"), ["checksum"]);
    assert_eq!(kinds_after("UPDATE large_value SET value = x'7B7D' WHERE key = 1"), ["checksum"]);
    assert_eq!(kinds_after("UPDATE workflow SET running = 5"), ["counter"]);
    assert_eq!(kinds_after("UPDATE project SET agents_queued = 0"), ["counter"]);
    assert_eq!(kinds_after("INSERT INTO workflow (project, id) VALUES (1, 'unused')"), ["counter"]);
    assert_eq!(kinds_after("INSERT INTO large_value (checksum, value) VALUES (1, x'31')"), ["reference"]);
    assert_eq!(kinds_after("DELETE FROM large_value WHERE key = 1"), ["reference"]);
    assert_eq!(kinds_after("UPDATE node_run SET node_type = 'task'"), ["checksum", "reference"]);
    assert_eq!(kinds_after("DELETE FROM node_run"), ["reference"]);
    assert_eq!(kinds_after("UPDATE node_run SET run = 99"), ["record", "reference"]);
    assert_eq!(kinds_after("UPDATE run SET lease_bucket = 3 WHERE id = 'r'"), ["index"]);
    assert_eq!(kinds_after("DROP INDEX run_by_workflow"), ["index"]);
}

#[test]
fn an_index_that_disagrees_is_named_and_never_answers() {
    let (_directory, path) = place();
    let backend = store(&path);
    // The index is hidden from the engine while a row is changed, and then shown again as it was.
    let with_schema = |sql: &str| {
        let raw = rusqlite::Connection::open(&path).unwrap();
        let version: i64 = raw.query_row("PRAGMA schema_version", [], |row| row.get(0)).unwrap();
        raw.execute_batch(&format!("PRAGMA writable_schema = 1; {sql}; PRAGMA schema_version = {};", version + 1)).unwrap();
    };
    let raw = rusqlite::Connection::open(&path).unwrap();
    let sql = "SELECT rootpage FROM sqlite_schema WHERE name = 'run_by_status'";
    let root: i64 = raw.query_row(sql, [], |row| row.get(0)).unwrap();
    drop(raw);
    with_schema("DELETE FROM sqlite_schema WHERE name = 'run_by_status'");
    rusqlite::Connection::open(&path).unwrap().execute_batch("UPDATE run SET status = 2 WHERE id = 'other'").unwrap();
    with_schema(&format!(
        "INSERT INTO sqlite_schema VALUES ('index', 'run_by_status', 'run', {root}, \
         'CREATE INDEX run_by_status ON run (project, status, started_at, id)')"
    ));
    let report = backend.verify().unwrap();
    assert!(report.problems.iter().any(|problem| problem.kind == "index"), "{report:?}");
    let error = write(&backend, |tx| tx.next_run(&"p".into(), None, AnswerForm::State).map(|_| ())).unwrap_err();
    assert_eq!(error.code(), Code::Corrupt);
}

#[test]
fn a_flipped_byte_anywhere_is_never_a_wrong_answer() {
    let (_directory, path) = place();
    let backend = store(&path);
    let whole = backend.get_run(&"p".into(), &"r".into(), AnswerForm::Record).unwrap().unwrap();
    backend.close().unwrap();
    let bytes = std::fs::read(&path).unwrap();
    let read_only = OpenOptions::new().with_mode(runledger_core::Mode::ReadOnly);
    let mut refused = 0;
    for at in (0..bytes.len()).step_by(97) {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x55;
        std::fs::write(&path, &damaged).unwrap();
        let backend = match SqliteBackend::open(&path, &read_only) {
            Ok(backend) => backend,
            Err(error) => {
                assert!(!matches!(error.code(), Code::Internal | Code::Busy), "{at}: {error:?}");
                refused += 1;
                continue;
            }
        };
        match backend.get_run(&"p".into(), &"r".into(), AnswerForm::Record) {
            Ok(Some(run)) => assert_eq!(run, whole, "{at}"),
            Ok(None) => {}
            Err(error) => {
                assert_eq!(error.code(), Code::Corrupt, "{at}: {error:?}");
                refused += 1;
            }
        }
        backend.close().unwrap();
    }
    assert!(refused > 10, "{refused}");
}
