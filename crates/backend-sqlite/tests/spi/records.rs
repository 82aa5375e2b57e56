//! Records are kept exactly, and transactions are all or nothing.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use runledger_core::{AnswerForm, Backend, Code, Durability, Error, Journal, OpenOptions, Principal, Put, Record, Status};

use crate::kit::{new_agent, new_node, new_run, open, place, set_agent, set_run, time, update, write};

const WHOLE: AnswerForm = AnswerForm::Record;
const STATE: AnswerForm = AnswerForm::State;

#[test]
fn every_field_of_every_kind_comes_back() {
    let (_directory, path) = place();
    let backend = open(&path);
    let mut run = new_run("p:1", "r\u{e9}", "wf", -5);
    run.source = Some(crate::kit::json("null"));
    run.requested_by_principal = Principal::new("user", "u");
    set_run(&mut run, Status::Running, Some(1_000_000_000), 7);
    let mut node = new_node(&run, "n", u32::MAX, "agent", 8);
    node.status = Status::Failed;
    node.finished_at = Some(time(9));
    node.error = Some("".into());
    let mut agent = new_agent(&node, "a", 10);
    set_agent(&mut agent, Status::Running, 11, 12);
    agent.execution_principal = Some(Principal::new("bot", "b"));
    agent.finish_reason = Some("stop\0".into());
    agent.trace = Some(crate::kit::json("[]"));
    agent.diagnostics = Some(crate::kit::json("{}"));
    let mut other = new_node(&run, "n2", 0, "task", 8);
    other.workflow_id = "another".into();
    write(&backend, |tx| {
        tx.put_run(&Put::insert(run.clone()))?;
        tx.put_node(&Put::insert(node.clone()))?;
        tx.put_node(&Put::insert(other.clone()))?;
        tx.put_agent(&Put::insert(agent.clone()))
    })
    .unwrap();
    for _ in 0..2 {
        // The second time from a fresh handle.
        let backend = open(&path);
        let (project, id) = (&run.project_id, &run.id);
        assert_eq!(backend.get_run(project, id, WHOLE).unwrap().unwrap(), run);
        assert_eq!(backend.get_run(project, id, STATE).unwrap().unwrap(), run.clone().into_state());
        assert_eq!(backend.get_node(project, &node.id, WHOLE).unwrap().unwrap(), node);
        assert_eq!(backend.get_node(project, &other.id, WHOLE).unwrap().unwrap(), other);
        assert_eq!(backend.get_agent(project, &node.id, WHOLE).unwrap().unwrap(), agent);
        assert_eq!(backend.get_agent(project, &node.id, STATE).unwrap().unwrap(), agent.clone().into_state());
        assert!(backend.get_run(&"p".into(), id, WHOLE).unwrap().is_none());
        assert!(backend.verify().unwrap().is_ok(), "{:?}", backend.verify());
        backend.close().unwrap();
    }
}

#[test]
fn large_values_are_kept_replaced_and_dropped() {
    let (_directory, path) = place();
    let backend = open(&path);
    let mut run = new_run("p", "r", "wf", 1);
    run.input = Some(crate::kit::json(&format!("\"{}\"", "x".repeat(3_000_000))));
    set_run(&mut run, Status::Running, None, 1);
    write(&backend, |tx| tx.put_run(&Put::insert(run.clone()))).unwrap();
    // A change of the state alone, made without the values at hand.
    write(&backend, |tx| {
        let before = tx.run(&"p".into(), &"r".into(), STATE)?.unwrap();
        let mut put = update(before.clone(), before.record.clone());
        put.after.record.attempt = 7;
        put.after.held = before.held;
        tx.put_run(&put)
    })
    .unwrap();
    run.attempt = 7;
    assert_eq!(backend.get_run(&"p".into(), &"r".into(), WHOLE).unwrap().unwrap(), run);
    for (input, source) in [("2", Some("3")), ("4", None), ("5", Some("6"))] {
        run.input = Some(crate::kit::json(input));
        run.source = source.map(crate::kit::json);
        write(&backend, |tx| {
            let before = tx.run(&"p".into(), &"r".into(), WHOLE)?.unwrap();
            tx.put_run(&update(before, run.clone()))
        })
        .unwrap();
        assert_eq!(backend.get_run(&"p".into(), &"r".into(), WHOLE).unwrap().unwrap(), run);
        assert!(backend.verify().unwrap().is_ok(), "{:?}", backend.verify());
    }
}

#[test]
fn a_refused_work_leaves_nothing() {
    let (_directory, path) = place();
    let backend = open(&path);
    let refusal = || Error::new(Code::AlreadyExists, "no");
    let error = write(&backend, |tx| {
        tx.put_run(&Put::insert(new_run("p", "r", "wf", 1)))?;
        Err(refusal())
    });
    assert_eq!(error.unwrap_err().code(), Code::AlreadyExists);
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        write(&backend, |tx| {
            tx.put_run(&Put::insert(new_run("p", "r", "wf", 1)))?;
            panic!("on purpose")
        })
    }));
    assert!(panicked.is_err());
    assert!(backend.get_run(&"p".into(), &"r".into(), WHOLE).unwrap().is_none());
    // The numbers of the names went with it: what is written now must find its own.
    write(&open(&path), |tx| tx.put_run(&Put::insert(new_run("q", "r", "other", 1)))).unwrap();
    write(&backend, |tx| tx.put_run(&Put::insert(new_run("p", "r", "wf", 1)))).unwrap();
    assert_eq!(backend.get_run(&"p".into(), &"r".into(), WHOLE).unwrap().unwrap().workflow_id, "wf");
    assert!(backend.verify().unwrap().is_ok());
}

#[test]
fn undo_returns_to_the_last_mark() {
    let (_directory, path) = place();
    let backend = open(&path);
    write(&backend, |tx| {
        tx.put_run(&Put::insert(new_run("p", "1", "wf", 1)))?;
        assert!(tx.mark()?);
        tx.put_run(&Put::insert(new_run("q", "2", "wf2", 1)))?;
        tx.undo()?;
        assert!(tx.run(&"q".into(), &"2".into(), WHOLE)?.is_none());
        tx.put_run(&Put::insert(new_run("r", "3", "wf3", 1)))?;
        assert!(tx.mark()?);
        tx.put_run(&Put::insert(new_run("p", "4", "wf4", 1)))?;
        tx.undo()?;
        tx.put_run(&Put::insert(new_run("p", "5", "wf5", 1)))
    })
    .unwrap();
    let exists = |project: &str, id: &str| backend.get_run(&project.into(), &id.into(), WHOLE).unwrap().is_some();
    assert!(exists("p", "1") && !exists("q", "2") && exists("r", "3") && !exists("p", "4") && exists("p", "5"));
    assert!(backend.verify().unwrap().is_ok(), "{:?}", backend.verify());
}

#[test]
fn deleting_takes_the_tree_and_unused_names() {
    let (_directory, path) = place();
    let backend = open(&path);
    let run = new_run("p", "r", "wf", 1);
    let nodes: Vec<_> = (0..5).map(|at| new_node(&run, &format!("n{at}"), at, if at < 3 { "agent" } else { "task" }, 2)).collect();
    write(&backend, |tx| {
        tx.put_run(&Put::insert(run.clone()))?;
        for node in &nodes {
            tx.put_node(&Put::insert(node.clone()))?;
        }
        tx.put_agent(&Put::insert(new_agent(&nodes[0], "a", 3)))?;
        tx.put_agent(&Put::insert(new_agent(&nodes[1], "b", 3)))
    })
    .unwrap();
    write(&backend, |tx| {
        let stored = tx.run(&"p".into(), &"r".into(), STATE)?.unwrap();
        assert_eq!(tx.nodes_of(&stored)?.len(), 5);
        let deleted = tx.delete_run(&stored)?;
        assert_eq!((deleted.runs, deleted.nodes, deleted.agents), (1, 5, 2));
        Ok(())
    })
    .unwrap();
    let report = backend.verify().unwrap();
    assert!(report.is_ok(), "{report:?}");
    let raw = rusqlite::Connection::open(&path).unwrap();
    for table in ["project", "workflow", "agent", "run", "node_run", "agent_run", "large_value"] {
        let left: i64 = raw.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).unwrap();
        assert_eq!(left, 0, "{table}");
    }
    write(&backend, |tx| tx.put_run(&Put::insert(run.clone()))).unwrap();
    write(&backend, |tx| tx.clear()).unwrap();
    assert!(backend.get_run(&"p".into(), &"r".into(), WHOLE).unwrap().is_none());
}

#[test]
fn every_durability_and_journal_keeps_what_was_written() {
    for durability in [Durability::Full, Durability::Relaxed] {
        for journal in [Journal::Wal, Journal::Delete] {
            let (_directory, path) = place();
            let options = OpenOptions::new().with_durability(durability).with_journal(journal);
            let backend = runledger_backend_sqlite::SqliteBackend::open(&path, &options).unwrap();
            write(&backend, |tx| tx.put_run(&Put::insert(new_run("p", "r", "wf", 1)))).unwrap();
            assert_eq!(path.with_file_name("runs.db-wal").exists(), journal == Journal::Wal);
            assert_eq!(backend.info().unwrap().durability, durability.as_str());
            backend.close().unwrap();
            assert!(!path.with_file_name("runs.db-wal").exists());
            assert!(open(&path).get_run(&"p".into(), &"r".into(), WHOLE).unwrap().is_some());
        }
    }
}

#[test]
fn the_log_stays_within_its_bound() {
    let (directory, path) = place();
    let backend = open(&path);
    let big = crate::kit::json(&format!("\"{}\"", "x".repeat(40_000)));
    // Readers that overlap: there is always one in the log, and none begins where another ends.
    let done = AtomicBool::new(false);
    let mut longest = 0;
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let conn = rusqlite::Connection::open(&path).unwrap();
                while !done.load(Ordering::Relaxed) {
                    conn.execute_batch("BEGIN; SELECT count(*) FROM run;").unwrap();
                    std::thread::sleep(Duration::from_millis(15));
                    conn.execute_batch("COMMIT").unwrap();
                }
            });
        }
        for at in 0..2500 {
            let mut run = new_run("p", &format!("r{at}"), "wf", at);
            run.input = Some(big.clone());
            write(&backend, |tx| tx.put_run(&Put::insert(run.clone()))).unwrap();
            longest = longest.max(std::fs::metadata(directory.path().join("runs.db-wal")).unwrap().len());
        }
        done.store(true, Ordering::Relaxed);
    });
    eprintln!("longest {longest}");
    // 100 MB are written. How far past its bound the log gets depends on when the machine lets the readers go on.
    assert!(longest < 70 << 20, "{longest}");
}

#[test]
fn compacting_gives_space_back_and_closing_ends_everything() {
    let (_directory, path) = place();
    let backend = open(&path);
    let runs: Vec<_> = (0..300).map(|at| new_run("p", &format!("r{at}"), "wf", at)).collect();
    write(&backend, |tx| runs.iter().try_for_each(|run| tx.put_run(&Put::insert(run.clone())))).unwrap();
    write(&backend, |tx| {
        for run in &runs[..290] {
            let stored = tx.run(&run.project_id, &run.id, STATE)?.unwrap();
            tx.delete_run(&stored)?;
        }
        Ok(())
    })
    .unwrap();
    let first = backend.compact().unwrap();
    assert!(first.bytes_after < first.bytes_before / 2, "{first:?}");
    let second = backend.compact().unwrap();
    assert!(second.bytes_after <= second.bytes_before, "{second:?}");
    assert_eq!(backend.get_run(&"p".into(), &"r295".into(), WHOLE).unwrap().unwrap(), runs[295]);
    assert!(backend.verify().unwrap().is_ok());
    backend.close().unwrap();
    backend.close().unwrap();
    assert_eq!(backend.get_run(&"p".into(), &"r295".into(), WHOLE).unwrap_err().code(), Code::Closed);
    assert_eq!(write(&backend, |_| Ok(())).unwrap_err().code(), Code::Closed);
    assert_eq!(backend.export(&mut |_| Ok(())).unwrap_err().code(), Code::Closed);
}

#[test]
fn a_lock_that_is_held_too_long_is_busy() {
    let (_directory, path) = place();
    let options = OpenOptions::new().with_busy_timeout_ms(100);
    let backend = runledger_backend_sqlite::SqliteBackend::open(&path, &options).unwrap();
    let raw = rusqlite::Connection::open(&path).unwrap();
    raw.execute_batch("BEGIN IMMEDIATE").unwrap();
    let begun = std::time::Instant::now();
    let error = write(&backend, |tx| tx.put_run(&Put::insert(new_run("p", "r", "wf", 1)))).unwrap_err();
    assert_eq!(error.code(), Code::Busy);
    assert!(begun.elapsed().as_millis() >= 100);
    raw.execute_batch("ROLLBACK").unwrap();
    write(&backend, |tx| tx.put_run(&Put::insert(new_run("p", "r", "wf", 1)))).unwrap();
    raw.execute_batch("BEGIN; SELECT count(*) FROM run").unwrap();
    assert_eq!(backend.compact().unwrap_err().code(), Code::Busy);
}
