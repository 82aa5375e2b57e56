//! Atomicity, isolation, locks, and what is kept of a record that was loaded in part.

use std::cell::OnceCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::Duration;

use runledger_core::{
    AnswerForm, Backend, Code, Durability, Error, ExpiredFilter, Held, Journal, Mode, OpenOptions, Order, PageRequest, PageStart, Put,
    Record, Result, Status, Stored, Time, Tx,
};

use super::store::random_store;
use super::{Numbers, agent, assert_sound, at, change_run, content, id, load_run, node, open, payload, run, write_anywhere, write_in};
use crate::MemoryBackend;

/// Two projects with a run each, of which the first has node runs and an agent run.
fn small_store() -> MemoryBackend {
    let backend = open();
    let written = write_anywhere(&backend, |tx| {
        for project in ["a", "b"] {
            tx.put_run(&Put::insert(run(project, "r", "w", Status::Running, 1)))?;
        }
        let run = run("a", "r", "w", Status::Running, 1);
        for (index, name) in ["n1", "n2", "n3"].into_iter().enumerate() {
            tx.put_node(&Put::insert(node(&run, name, Status::Running, 5, index as u32)))?;
        }
        tx.put_agent(&Put::insert(agent(&node(&run, "n2", Status::Running, 5, 1), "ann", Status::Running, 6)))
    });
    written.unwrap();
    backend
}

/// One change of every kind.
fn change_everything(tx: &mut dyn Tx) -> Result<()> {
    let again = run("a", "new", "other", Status::Queued, 3);
    tx.put_run(&Put::insert(again.clone()))?;
    tx.put_node(&Put::insert(node(&again, "n9", Status::Running, 1, 0)))?;
    change_run(tx, "a", "r", |run| run.execution = None)?;
    change_run(tx, "a", "r", |run| {
        run.status = Status::Succeeded;
        run.finished_at = Some(at(9));
        run.output = Some(payload("done"));
    })?;
    let stored = load_run(tx, "a", "r").unwrap();
    let deleted = tx.delete_run(&stored)?;
    assert_eq!((deleted.runs, deleted.nodes, deleted.agents), (1, 3, 1));
    tx.put_run(&Put::insert(run("a", "r", "elsewhere", Status::Waiting, 4)))?;
    change_run(tx, "b", "r", |run| run.attempt += 1)
}

#[test]
fn an_error_undoes_everything() {
    let backend = small_store();
    let before = content(&backend);
    let size = backend.info().unwrap().size_bytes;
    let failed = write_in(&backend, &["a", "b"], |tx| {
        change_everything(tx)?;
        Err(Error::corrupt("on purpose"))
    });
    assert_eq!(failed.unwrap_err().code(), Code::Corrupt);
    assert_eq!(content(&backend), before);
    assert_eq!(backend.info().unwrap().size_bytes, size);
    assert_sound(&backend);
}

#[test]
fn a_panic_undoes_everything_and_the_store_stays_usable() {
    let backend = small_store();
    let before = content(&backend);
    for is_whole in [false, true] {
        let act = |tx: &mut dyn Tx| {
            change_everything(tx)?;
            if is_whole {
                tx.clear()?;
                tx.put_run(&Put::insert(run("fresh", "r", "w", Status::Queued, 1)))?;
            }
            panic!("on purpose")
        };
        let panicked = catch_unwind(AssertUnwindSafe(|| match is_whole {
            true => write_anywhere(&backend, act),
            false => write_in(&backend, &["a", "b"], act),
        }));
        assert!(panicked.is_err());
        assert_eq!(content(&backend), before);
        assert_sound(&backend);
    }
    write_in(&backend, &["a", "b"], change_everything).unwrap();
    assert_eq!(backend.get_run(&id("a"), &id("r"), AnswerForm::Record).unwrap().unwrap().workflow_id, "elsewhere");
    assert_sound(&backend);
}

#[test]
fn an_undo_returns_to_the_last_mark() {
    let backend = small_store();
    let written = write_in(&backend, &["a", "b"], |tx| {
        change_run(tx, "b", "r", |run| run.attempt = 7)?;
        assert!(tx.mark()?);
        change_everything(tx)?;
        tx.undo()?;
        let restored = load_run(tx, "a", "r").unwrap();
        assert_eq!(tx.nodes_of(&restored)?.len(), 3);
        tx.mark()?;
        change_run(tx, "b", "r", |run| run.attempt = 8)?;
        tx.undo()?;
        change_run(tx, "a", "r", |run| run.attempt = 9)
    });
    written.unwrap();
    let attempt = |project: &str| backend.get_run(&id(project), &id("r"), AnswerForm::State).unwrap().unwrap().attempt;
    assert_eq!((attempt("a"), attempt("b")), (9, 7));
    assert_eq!(content(&backend).nodes.len(), 3);
    assert_sound(&backend);
}

#[test]
fn an_undo_brings_back_what_a_clear_removed() {
    let backend = small_store();
    let before = content(&backend);
    let cleared = |tx: &mut dyn Tx| {
        tx.put_run(&Put::insert(run("c", "r", "w", Status::Queued, 1)))?;
        tx.mark()?;
        tx.clear()?;
        assert!(load_run(tx, "a", "r").is_none() && load_run(tx, "c", "r").is_none());
        tx.put_run(&Put::insert(run("a", "other", "w", Status::Queued, 1)))?;
        tx.undo()?;
        assert!(load_run(tx, "c", "r").is_some() && load_run(tx, "a", "other").is_none());
        tx.clear()
    };
    let failed = write_anywhere(&backend, |tx| cleared(tx).and(Err(Error::corrupt("on purpose"))));
    assert!(failed.is_err());
    assert_eq!(content(&backend), before);
    assert_sound(&backend);
    write_anywhere(&backend, cleared).unwrap();
    assert_eq!(content(&backend), super::Content::default());
    assert!(crate::read(&backend.projects).is_empty());
}

#[test]
fn what_was_not_loaded_is_kept() {
    let backend = small_store();
    let written = write_in(&backend, &["a"], |tx| {
        let before = tx.run(&id("a"), &id("r"), AnswerForm::State)?.unwrap();
        assert_eq!((before.record.input.is_none(), before.held), (true, Held(0b101)));
        let mut after = before.clone();
        after.record.status = Status::Succeeded;
        after.record.finished_at = Some(at(3));
        after.record.execution = None;
        after.record.output = Some(payload("done"));
        let mut written = Held::default();
        written.insert(1);
        after.held = after.held.union(written);
        tx.put_run(&Put { before: Some(before), after, written })
    });
    written.unwrap();
    let kept = backend.get_run(&id("a"), &id("r"), AnswerForm::Record).unwrap().unwrap();
    assert_eq!(kept.input, Some(payload("in")));
    assert_eq!(kept.source, Some(payload("source")));
    assert_eq!(kept.output, Some(payload("done")));
    assert_sound(&backend);
}

#[test]
fn a_large_value_is_never_copied() {
    let backend = small_store();
    let address = |backend: &MemoryBackend| {
        let run = backend.get_run(&id("a"), &id("r"), AnswerForm::Record).unwrap().unwrap();
        run.input.unwrap().as_json().as_ptr()
    };
    let before = address(&backend);
    let written = write_in(&backend, &["a"], |tx| {
        let before = tx.run(&id("a"), &id("r"), AnswerForm::State)?.unwrap();
        let mut after = before.clone();
        after.record.attempt += 1;
        tx.put_run(&Put { before: Some(before), after, written: Held::default() })
    });
    written.unwrap();
    assert_eq!(address(&backend), before);
}

#[test]
fn a_record_without_its_parent_is_refused() {
    let backend = small_store();
    let orphan = node(&run("a", "nowhere", "w", Status::Running, 1), "n", Status::Running, 1, 0);
    let before = content(&backend);
    let put_node = write_in(&backend, &["a"], |tx| tx.put_node(&Put::insert(orphan.clone())));
    let put_agent = write_in(&backend, &["a"], |tx| tx.put_agent(&Put::insert(agent(&orphan, "ann", Status::Queued, 1))));
    assert_eq!(put_node.unwrap_err().code(), Code::Internal);
    assert_eq!(put_agent.unwrap_err().code(), Code::Internal);
    assert_eq!(content(&backend), before);
}

#[test]
fn a_transaction_keeps_to_the_projects_it_names() {
    let backend = small_store();
    let before = content(&backend);
    let reads = write_in(&backend, &["a"], |tx| tx.run(&id("b"), &id("r"), AnswerForm::State).map(drop));
    assert_eq!(reads.unwrap_err().code(), Code::Internal);
    let writes = write_in(&backend, &["a"], |tx| tx.put_run(&Put::insert(run("b", "x", "w", Status::Queued, 1))));
    assert_eq!(writes.unwrap_err().code(), Code::Internal);
    assert_eq!(write_in(&backend, &["a"], |tx| tx.clear()).unwrap_err().code(), Code::Internal);
    assert_eq!(content(&backend), before);
}

#[test]
fn projects_do_not_wait_for_each_other() {
    let backend = small_store();
    let (to_b, from_a) = sync_channel(0);
    let (to_a, from_b) = sync_channel(0);
    let patience = Duration::from_secs(60);
    let backend = &backend;
    thread::scope(|scope| {
        // Each transaction ends only once it has heard from the other.
        scope.spawn(move || {
            let met = write_in(backend, &["a"], |tx| {
                to_b.send(()).unwrap();
                from_b.recv_timeout(patience).unwrap();
                change_run(tx, "a", "r", |run| run.attempt += 1)
            });
            met.unwrap();
        });
        scope.spawn(move || {
            let met = write_in(backend, &["b"], |tx| {
                from_a.recv_timeout(patience).unwrap();
                to_a.send(()).unwrap();
                change_run(tx, "b", "r", |run| run.attempt += 1)
            });
            met.unwrap();
        });
    });
    assert_sound(backend);
}

#[test]
fn all_locks_are_taken_in_one_order() {
    let backend = small_store();
    let page = PageRequest { order: Order::Asc, limit: 9, start: PageStart::Offset(0), with_total: true, form: AnswerForm::State };
    let expired = ExpiredFilter { project_id: None, expired_by: Time::MAX, limit: 10 };
    let rounds = 300;
    let add = |tx: &mut dyn Tx| {
        change_run(tx, "a", "r", |run| run.attempt += 1)?;
        change_run(tx, "b", "r", |run| run.attempt += 1)
    };
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        let writers = [
            scope.spawn(|| (0..rounds).for_each(|_| write_in(&backend, &["a", "b"], add).unwrap())),
            scope.spawn(|| (0..rounds).for_each(|_| write_in(&backend, &["b", "a"], add).unwrap())),
            scope.spawn(|| (0..rounds).for_each(|_| write_anywhere(&backend, add).unwrap())),
        ];
        scope.spawn(|| {
            while !is_done.load(Ordering::Relaxed) {
                // Both attempts change in one step, so that no state has them apart.
                let (runs, _) = backend.expired_runs(&expired, AnswerForm::State).unwrap();
                assert_eq!(runs[0].attempt, runs[1].attempt);
                assert_eq!(backend.list_projects(&page).unwrap().total, Some(2));
                assert_eq!(content(&backend).runs.len(), 2);
            }
        });
        let joined: Vec<_> = writers.into_iter().map(thread::ScopedJoinHandle::join).collect();
        is_done.store(true, Ordering::Relaxed);
        joined.into_iter().for_each(|joined| joined.unwrap());
    });
    let run = backend.get_run(&id("a"), &id("r"), AnswerForm::State).unwrap().unwrap();
    assert_eq!(run.attempt, 1 + 3 * rounds);
}

#[test]
fn a_project_without_records_is_forgotten_and_never_in_the_way() {
    let backend = open();
    let is_there = |project: &str| crate::read(&backend.projects).contains_key(project);
    write_in(&backend, &["asked"], |tx| tx.run(&id("asked"), &id("r"), AnswerForm::State).map(drop)).unwrap();
    write_in(&backend, &["failed"], |_| Err(Error::corrupt("on purpose"))).unwrap_err();
    write_anywhere(&backend, |tx| tx.run(&id("nowhere"), &id("r"), AnswerForm::State).map(drop)).unwrap();
    assert!(!is_there("asked") && !is_there("failed") && !is_there("nowhere"));
    // Threads make and remove the same project under each other; each must find its own run.
    thread::scope(|scope| {
        for thread in 0..4 {
            let backend = &backend;
            scope.spawn(move || {
                let name = format!("r{thread}");
                for round in 0..300 {
                    let put = |tx: &mut dyn Tx| tx.put_run(&Put::insert(run("p", &name, "w", Status::Failed, round)));
                    if round % 50 == 0 {
                        write_anywhere(backend, put).unwrap()
                    } else {
                        write_in(backend, &["p"], put).unwrap()
                    }
                    let found = backend.get_run(&id("p"), &id(&name), AnswerForm::State).unwrap();
                    assert_eq!(found.map(|run| run.started_at), Some(at(round)));
                    let delete = |tx: &mut dyn Tx| {
                        let stored = load_run(tx, "p", &name).unwrap();
                        tx.delete_run(&stored).map(drop)
                    };
                    write_in(backend, &["p"], delete).unwrap();
                }
            });
        }
    });
    assert!(!is_there("p"));
    assert_eq!(content(&backend), super::Content::default());
}

#[test]
fn whoever_waited_for_a_project_that_was_retired_looks_again() {
    let backend = open();
    // Held by the map, by its transaction and by the one that waits for it, which locks the map if it is over everything.
    let is_waited_for = || match backend.projects.try_read() {
        Ok(map) => map.get("p").map_or(0, Arc::strong_count) >= 3,
        Err(_) => true,
    };
    let insert = |tx: &mut dyn Tx| tx.put_run(&Put::insert(run("p", "r", "w", Status::Queued, 1)));
    for is_whole in [false, true] {
        thread::scope(|scope| {
            let waiter = OnceCell::new();
            let first = write_in(&backend, &["p"], |_| {
                let follow = || if is_whole { write_anywhere(&backend, insert) } else { write_in(&backend, &["p"], insert) };
                waiter.set(scope.spawn(follow)).unwrap();
                while !is_waited_for() {
                    thread::yield_now();
                }
                Ok(())
            });
            first.unwrap();
            waiter.into_inner().unwrap().join().unwrap().unwrap();
        });
        assert!(backend.get_run(&id("p"), &id("r"), AnswerForm::State).unwrap().is_some());
        write_anywhere(&backend, |tx| tx.clear()).unwrap();
    }
}

#[test]
fn options_are_taken_or_refused() {
    let relaxed = MemoryBackend::open(&OpenOptions::new().with_durability(Durability::Relaxed).with_busy_timeout_ms(1)).unwrap();
    let info = relaxed.info().unwrap();
    assert_eq!((&*info.backend, &*info.address, &*info.engine_name), ("memory", "memory:", "memory"));
    assert_eq!((&*info.durability, &*info.mode, info.size_bytes), ("relaxed", "create", 0));
    assert_eq!(open().info().unwrap().durability, "full");
    for mode in [Mode::Existing, Mode::ReadOnly] {
        assert_eq!(MemoryBackend::open(&OpenOptions::new().with_mode(mode)).unwrap_err().code(), Code::Io);
    }
    let journal = OpenOptions::new().with_journal(Journal::Wal);
    assert_eq!(MemoryBackend::open(&journal).unwrap_err().code(), Code::Unsupported);
}

#[test]
fn the_size_follows_the_records() {
    let backend = small_store();
    let before = backend.info().unwrap().size_bytes;
    let large = 1 << 20;
    let grow = |tx: &mut dyn Tx| {
        change_run(tx, "a", "r", |run| run.input = Some(payload(&"x".repeat(large))))?;
        tx.put_run(&Put::insert(run("a", "other", "w", Status::Queued, 1)))
    };
    write_in(&backend, &["a"], grow).unwrap();
    let grown = backend.info().unwrap().size_bytes - before;
    assert!((large as u64..large as u64 + 4096).contains(&grown), "{grown}");
    let compacted = backend.compact().unwrap();
    assert_eq!(compacted.bytes_before, compacted.bytes_after);
    assert_eq!(compacted.bytes_after, backend.info().unwrap().size_bytes);
    backend.close().unwrap();
    assert_eq!(backend.info().unwrap().size_bytes, 0);
    assert_eq!(content(&backend), super::Content::default());
}

#[test]
fn a_store_can_be_filled_again_from_its_own_content() {
    let (backend, model) = random_store(&mut Numbers(3), 400);
    let target = small_store();
    let written = write_anywhere(&target, |tx| {
        tx.clear()?;
        model.runs.values().try_for_each(|run| tx.put_run(&Put::insert(run.clone())))?;
        model.nodes.values().try_for_each(|node| tx.put_node(&Put::insert(node.clone())))?;
        model.agents.values().try_for_each(|agent| tx.put_agent(&Put::insert(agent.clone())))
    });
    written.unwrap();
    assert_eq!(content(&target), model);
    assert_eq!(target.info().unwrap().size_bytes, backend.info().unwrap().size_bytes);
    let stored = Stored::new(model.runs.values().next().unwrap().clone());
    assert_eq!(stored.held, stored.record.held());
    assert_sound(&target);
}
