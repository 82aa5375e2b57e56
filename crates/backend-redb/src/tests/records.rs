//! Records as they are put, loaded, changed and removed.

use std::sync::atomic::Ordering::Relaxed;

use runledger_core::{
    AnswerForm, Backend, Code, Deleted, EndedFilter, Error, Held, OpenOptions, PageRequest, PageStart, Payload, Put, Record, RunFilter,
    Status, StatusSet, Stored, Text, Window,
};

use super::{Place, agent, at, change_run, id, node, payload, refused, refused_with, run, write};
use crate::value::MAX_INLINE_BYTES;

fn everything() -> RunFilter {
    RunFilter { project_id: id("p"), workflow_ids: None, statuses: StatusSet::ALL, started: Window::default() }
}

fn first_page() -> PageRequest {
    PageRequest { order: runledger_core::Order::Asc, limit: 50, start: PageStart::Offset(0), with_total: true, form: AnswerForm::Record }
}

#[test]
fn what_is_put_is_read_again_and_survives_a_reopen() {
    let place = Place::new();
    let (mut long, short) = (run("p", "long", "w", Status::Running, at(1)), run("p", "short", "w", Status::Queued, at(-3_000_000_000)));
    long.input = Some(payload(&"x".repeat(100_000)));
    long.source = Some(Payload::from_json("null").unwrap());
    let step = node(&long, "n", 7, Status::Waiting, at(2));
    let mut worker = agent(&step, "a", Status::Running, at(3));
    worker.prompt = Some(Text::from("\0".repeat(5000)));
    let backend = place.open();
    write(&backend, |tx| {
        tx.put_run(&Put::insert(long.clone()))?;
        tx.put_run(&Put::insert(short.clone()))?;
        tx.put_node(&Put::insert(step.clone()))?;
        tx.put_agent(&Put::insert(worker.clone()))
    })
    .unwrap();
    backend.close().unwrap();
    assert_eq!(refused(backend.get_run(&id("p"), &id("long"), AnswerForm::Record)), Code::Closed);
    assert_eq!(refused(write(&backend, |_| Ok(()))), Code::Closed);

    let backend = place.open();
    assert_eq!(backend.get_run(&id("p"), &id("long"), AnswerForm::Record).unwrap(), Some(long.clone()));
    assert_eq!(backend.get_run(&id("p"), &id("long"), AnswerForm::State).unwrap(), Some(long.clone().into_state()));
    assert_eq!(backend.get_run(&id("p"), &id("short"), AnswerForm::Record).unwrap(), Some(short));
    assert_eq!(backend.get_run(&id("q"), &id("short"), AnswerForm::Record).unwrap(), None);
    assert_eq!(backend.get_node(&id("p"), &id("n"), AnswerForm::Record).unwrap(), Some(step));
    assert_eq!(backend.get_agent(&id("p"), &id("n"), AnswerForm::Record).unwrap(), Some(worker));
    let report = backend.verify().unwrap();
    assert!(report.is_ok() && report.engine_check_done, "{report:?}");
    assert_eq!(report.checked, Deleted { runs: 2, nodes: 1, agents: 1 });
}

#[test]
fn a_large_value_moves_between_its_record_and_its_own_row() {
    let place = Place::new();
    let backend = place.open();
    write(&backend, |tx| tx.put_run(&Put::insert(run("p", "r", "w", Status::Running, at(0))))).unwrap();
    // Two bytes of quotes: at the bound, one over it, and back.
    for len in [MAX_INLINE_BYTES - 2, MAX_INLINE_BYTES - 1, 5, 1_000_000, 20, 2_000, 3_000, MAX_INLINE_BYTES - 2] {
        let text = payload(&"é".repeat(len / 2)[..]);
        write(&backend, |tx| change_run(tx, "p", "r", |run| run.input = Some(text.clone()))).unwrap();
        write(&backend, |tx| change_run(tx, "p", "r", |run| run.attempt += 1)).unwrap();
        assert_eq!(backend.get_run(&id("p"), &id("r"), AnswerForm::Record).unwrap().unwrap().input, Some(text));
        assert!(backend.verify().unwrap().is_ok());
    }
    // What the record does not have any more goes, wherever it stood.
    for text in ["short".to_owned(), "x".repeat(5000)] {
        write(&backend, |tx| change_run(tx, "p", "r", |run| run.source = Some(payload(&text)))).unwrap();
        write(&backend, |tx| {
            let before = tx.run(&id("p"), &id("r"), AnswerForm::State)?.unwrap();
            let mut held = Held::default();
            held.insert(0);
            let after = Stored { record: before.record.clone(), held, handle: 0 };
            tx.put_run(&Put { before: Some(before), after, written: Held::default() })
        })
        .unwrap();
        assert_eq!(backend.get_run(&id("p"), &id("r"), AnswerForm::Record).unwrap().unwrap().source, None);
        assert!(backend.verify().unwrap().is_ok());
    }
}

#[test]
fn a_transaction_sees_what_it_put_and_a_failed_one_leaves_nothing() {
    let place = Place::new();
    let backend = place.open();
    write(&backend, |tx| tx.put_run(&Put::insert(run("p", "old", "w", Status::Queued, at(0))))).unwrap();
    let failed = write(&backend, |tx| {
        let new = run("p", "new", "w", Status::Queued, at(-1));
        tx.put_run(&Put::insert(new.clone()))?;
        assert_eq!(tx.run(&id("p"), &id("new"), AnswerForm::Record)?.unwrap().record, new);
        assert_eq!(tx.next_run(&id("p"), None, AnswerForm::State)?.unwrap().record.id, "new");
        assert!(!tx.mark()?);
        change_run(tx, "p", "old", |run| {
            run.status = Status::Running;
            run.queued_at = None;
        })?;
        Err(Error::new(Code::StaleToken, "refused"))
    });
    assert_eq!(refused(failed), Code::StaleToken);
    let page = backend.list_runs(&everything(), &first_page()).unwrap();
    assert_eq!((page.rows.len(), page.total, page.has_more), (1, Some(1), false));
    assert_eq!(page.rows[0].status, Status::Queued);
    assert!(backend.verify().unwrap().is_ok());
    assert!(backend.broken().is_none());
}

#[test]
fn a_run_goes_with_its_tree_and_clear_takes_all() {
    let place = Place::new();
    let backend = place.open();
    write(&backend, |tx| {
        for name in ["a", "b"] {
            let mut ended = run("p", name, "w", Status::Succeeded, at(0));
            ended.output = Some(payload(&"o".repeat(3000)));
            tx.put_run(&Put::insert(ended.clone()))?;
            for index in 0..5 {
                let step = node(&ended, &format!("{name}{index}"), index, Status::Succeeded, at(1));
                tx.put_node(&Put::insert(step.clone()))?;
                if index % 2 == 0 {
                    let mut worker = agent(&step, "a", Status::Running, at(2));
                    worker.prompt = Some(Text::from("p".repeat(3000)));
                    tx.put_agent(&Put::insert(worker))?;
                }
            }
        }
        Ok(())
    })
    .unwrap();
    let mut deleted = Deleted::default();
    write(&backend, |tx| {
        let filter = EndedFilter { project_id: id("p"), finished_before: at(100), statuses: StatusSet::ALL, workflow_ids: None };
        let ended = tx.ended_runs(&filter, 1)?;
        assert_eq!(ended.len(), 1);
        assert_eq!(tx.nodes_of(&ended[0])?.len(), 5);
        deleted = tx.delete_run(&ended[0])?;
        Ok(())
    })
    .unwrap();
    assert_eq!(deleted, Deleted { runs: 1, nodes: 5, agents: 3 });
    let report = backend.verify().unwrap();
    assert!(report.is_ok(), "{report:?}");
    assert_eq!(report.checked, deleted);
    write(&backend, |tx| tx.clear()).unwrap();
    let report = backend.verify().unwrap();
    assert!(report.is_ok() && report.checked == Deleted::default(), "{report:?}");
    assert_eq!(backend.list_runs(&everything(), &first_page()).unwrap().total, Some(0));
}

#[test]
fn a_heartbeat_on_a_large_run_writes_little() {
    let place = Place::new();
    let (backend, bends) = place.open_bent();
    let mut large = run("p", "r", "w", Status::Running, at(0));
    large.input = Some(payload(&"x".repeat(10 << 20)));
    write(&backend, |tx| tx.put_run(&Put::insert(large.clone()))).unwrap();
    let written = || bends.written_bytes.load(Relaxed);
    for seconds in [1, 120, 121] {
        let before = written();
        write(&backend, |tx| {
            change_run(tx, "p", "r", |run| {
                run.execution.as_mut().unwrap().lease_expires_at = at(60 + seconds);
            })
        })
        .unwrap();
        let written = written() - before;
        assert!(written > 0 && written < 64 << 10, "{written} bytes");
    }
    assert_eq!(backend.get_run(&id("p"), &id("r"), AnswerForm::Record).unwrap().unwrap().input, large.input);
}

#[test]
fn a_full_disk_is_answered_as_such_and_costs_nothing_that_was_kept() {
    let place = Place::new();
    let (backend, bends) = place.open_bent();
    write(&backend, |tx| tx.put_run(&Put::insert(run("p", "kept", "w", Status::Queued, at(0))))).unwrap();
    bends.room.store(backend.info().unwrap().size_bytes, Relaxed);
    let mut large = run("p", "large", "w", Status::Queued, at(0));
    large.input = Some(payload(&"x".repeat(4 << 20)));
    for _ in 0..3 {
        let refusal = write(&backend, |tx| tx.put_run(&Put::insert(large.clone()))).unwrap_err();
        assert_eq!(refusal.code(), Code::Full);
        assert_eq!(refusal.details().path.as_deref(), place.path().to_str());
        let page = backend.list_runs(&everything(), &first_page()).unwrap();
        assert_eq!(page.rows.iter().map(|run| &*run.id).collect::<Vec<_>>(), ["kept"]);
        // The locks were held throughout.
        assert_eq!(refused(place.open_with(&OpenOptions::new())), Code::Locked);
    }
    bends.room.store(u64::MAX, Relaxed);
    write(&backend, |tx| tx.put_run(&Put::insert(large.clone()))).unwrap();
    assert!(backend.verify().unwrap().is_ok());
    backend.close().unwrap();
    assert_eq!(place.open().list_runs(&everything(), &first_page()).unwrap().total, Some(2));
}

/// The engine gives space back behind a commit: a commit that is durable is no error, whatever comes then.
#[test]
fn a_commit_that_is_durable_is_acknowledged() {
    let place = Place::new();
    let (backend, bends) = place.open_bent();
    write(&backend, |tx| {
        for number in 0..60 {
            let mut large = run("p", &number.to_string(), "w", Status::Succeeded, at(number));
            large.input = Some(payload(&"x".repeat(100_000)));
            tx.put_run(&Put::insert(large))?;
        }
        Ok(())
    })
    .unwrap();
    bends.cuts_fail.store(true, Relaxed);
    write(&backend, |tx| tx.clear()).unwrap();
    let mut faults = 0;
    for number in 0..8 {
        write(&backend, |tx| tx.put_run(&Put::insert(run("p", &format!("n{number}"), "w", Status::Queued, at(0))))).unwrap();
        faults += bends.cuts_failed.swap(0, Relaxed);
        assert_eq!(backend.list_runs(&everything(), &first_page()).unwrap().total, Some(number + 1));
        assert!(backend.broken().is_none());
    }
    assert!(faults > 0, "nothing was ever given back");
    bends.cuts_fail.store(false, Relaxed);
    assert!(backend.verify().unwrap().is_ok());
    backend.close().unwrap();
    assert_eq!(place.open().list_runs(&everything(), &first_page()).unwrap().total, Some(8));
}

#[test]
fn after_a_flush_that_failed_the_handle_answers_io() {
    let place = Place::new();
    let (backend, bends) = place.open_bent();
    write(&backend, |tx| tx.put_run(&Put::insert(run("p", "r", "w", Status::Queued, at(0))))).unwrap();
    bends.flushes_fail.store(true, Relaxed);
    let put = |name: &str| write(&backend, |tx| tx.put_run(&Put::insert(run("p", name, "w", Status::Queued, at(0)))));
    assert_eq!(refused(put("s")), Code::Io);
    bends.flushes_fail.store(false, Relaxed);
    assert_eq!(backend.broken().unwrap().code(), Code::Io);
    assert_eq!(refused(put("t")), Code::Io);
    assert_eq!(refused(backend.get_run(&id("p"), &id("r"), AnswerForm::State)), Code::Io);
    assert_eq!(refused(backend.verify()), Code::Io);
    assert_eq!(refused(backend.compact()), Code::Io);
    assert!(backend.broken().unwrap().message().contains("made to fail"));
    backend.close().unwrap();
    let backend = place.open();
    assert!(backend.get_run(&id("p"), &id("r"), AnswerForm::Record).unwrap().is_some());
    // What was not flushed is not built on: the system may show it and yet have dropped it.
    assert!(backend.get_run(&id("p"), &id("s"), AnswerForm::Record).unwrap().is_none());
    assert!(backend.get_run(&id("p"), &id("t"), AnswerForm::Record).unwrap().is_none());
    assert!(backend.verify().unwrap().is_ok());
}

/// The engine refuses everything after any error: it is opened again below the handle, without anybody else getting in.
#[test]
fn after_a_read_that_failed_the_handle_goes_on() {
    let place = Place::new();
    let (backend, bends) = place.open_bent();
    let put = |name: &str| write(&backend, |tx| tx.put_run(&Put::insert(run("p", name, "w", Status::Queued, at(0)))));
    put("r").unwrap();
    bends.reads_fail.store(true, Relaxed);
    // The engine has all of so small a store in memory. Its check reads the file itself.
    let failures =
        || [refused_with(backend.verify()), refused_with(backend.get_run(&id("p"), &id("r"), AnswerForm::Record)), refused_with(put("s"))];
    for error in [failures(), failures()].concat() {
        assert!(error.code() == Code::Io && error.message().contains("made to fail"), "{error}");
        assert_eq!(refused(place.open_with(&OpenOptions::new())), Code::Locked);
    }
    bends.reads_fail.store(false, Relaxed);
    put("t").unwrap();
    assert!(backend.broken().is_none() && backend.verify().unwrap().is_ok());
    assert_eq!(backend.list_runs(&everything(), &first_page()).unwrap().total, Some(2));
    backend.close().unwrap();
    assert_eq!(place.open().list_runs(&everything(), &first_page()).unwrap().total, Some(2));
}

/// Not even recovery has room then: what it writes waits.
#[test]
fn where_nothing_at_all_can_be_written_one_can_read() {
    let place = Place::new();
    let (backend, bends) = place.open_bent();
    let put = |name: &str| write(&backend, |tx| tx.put_run(&Put::insert(run("p", name, "w", Status::Queued, at(0)))));
    put("kept").unwrap();
    bends.room.store(0, Relaxed);
    bends.cuts_fail.store(true, Relaxed);
    for _ in 0..3 {
        assert_eq!(refused(put("refused")), Code::Full);
        assert_eq!(backend.list_runs(&everything(), &first_page()).unwrap().total, Some(1));
        assert!(backend.verify().unwrap().is_ok());
    }
    bends.room.store(u64::MAX, Relaxed);
    bends.cuts_fail.store(false, Relaxed);
    put("more").unwrap();
    backend.close().unwrap();
    let backend = place.open();
    assert!(backend.verify().unwrap().is_ok());
    assert_eq!(backend.list_runs(&everything(), &first_page()).unwrap().total, Some(2));
}

#[test]
fn compaction_gives_space_back_and_waits_for_nobody_for_ever() {
    let place = Place::new();
    let backend = place.open_with(&OpenOptions::new().with_busy_timeout_ms(50)).unwrap();
    write(&backend, |tx| {
        for number in 0..400 {
            let mut large = run("p", &number.to_string(), "w", Status::Succeeded, at(number));
            large.input = Some(payload(&"x".repeat(20_000)));
            tx.put_run(&Put::insert(large))?;
        }
        Ok(())
    })
    .unwrap();
    write(&backend, |tx| {
        for number in 20..400 {
            let loaded = tx.run(&id("p"), &id(&number.to_string()), AnswerForm::State)?.unwrap();
            tx.delete_run(&loaded)?;
        }
        Ok(())
    })
    .unwrap();
    let report = backend.compact().unwrap();
    assert!(report.bytes_after * 4 < report.bytes_before, "{report:?}");
    let again = backend.compact().unwrap();
    assert!(again.bytes_after <= again.bytes_before);
    // An export is under way, and then a write.
    let exported = backend.export(&mut |_| Err(backend.compact().unwrap_err()));
    assert_eq!(refused(exported), Code::Busy);
    assert_eq!(refused(write(&backend, |_| Err(backend.compact().unwrap_err()))), Code::Busy);
    assert_eq!(refused(write(&backend, |_| Err(write(&backend, |_| Ok(())).unwrap_err()))), Code::Busy);
    assert_eq!(backend.list_runs(&everything(), &first_page()).unwrap().total, Some(20));
    assert!(backend.verify().unwrap().is_ok());
    backend.close().unwrap();
    assert!(place.open().info().unwrap().size_bytes <= report.bytes_before);
}

#[test]
fn the_engine_has_the_version_that_info_says() {
    let lock = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../Cargo.lock")).unwrap();
    assert!(lock.contains(&format!("name = \"redb\"\nversion = \"{}\"", crate::ENGINE_VERSION)));
    let place = Place::new();
    let info = place.open_with(&OpenOptions::new().with_durability(runledger_core::Durability::Relaxed)).unwrap().info().unwrap();
    assert_eq!(info.address, format!("redb:{}", place.path().display()));
    assert_eq!((&*info.durability, &*info.mode, info.schema_version), ("full", "create", 1));
    assert_eq!(info.size_bytes, std::fs::metadata(place.path()).unwrap().len());
}
