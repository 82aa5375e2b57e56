//! Damage within a store that opens: on reading it is `corrupt`, and a verification finds it.

use std::fs;

use redb::{Database, ReadableTable};
use runledger_core::{
    AgentRun, AnswerForm, Backend, Code, Entity, NodeRun, PageRequest, PageStart, Put, Result, Run, RunFilter, Status, StatusSet,
    VerifyReport, Window,
};

use super::{Place, agent, at, id, node, payload, refused, run, write};
use crate::RedbBackend;
use crate::schema::{self, Definition};

const LONG: usize = 50_000;

/// A store with a run, a node run and an agent run, whose large values stand both ways.
fn filled() -> Place {
    let place = Place::new();
    let mut large = run("p", "r", "workflow", Status::Running, at(0));
    large.source = Some(payload(&"L".repeat(LONG)));
    let step = node(&large, "n", 0, Status::Running, at(0));
    let worker = agent(&step, "somebody", Status::Running, at(0));
    let backend = place.open();
    write(&backend, |tx| {
        tx.put_run(&Put::insert(large.clone()))?;
        tx.put_run(&Put::insert(run("p", "done", "workflow", Status::Failed, at(1))))?;
        tx.put_node(&Put::insert(step.clone()))?;
        tx.put_agent(&Put::insert(worker.clone()))
    })
    .unwrap();
    backend.close().unwrap();
    place
}

/// Changes one byte of the file behind every place where `text` stands.
fn damage(place: &Place, text: &[u8]) {
    let mut bytes = fs::read(place.path()).unwrap();
    let places: Vec<usize> = (0..bytes.len() - text.len()).filter(|at| bytes[*at..].starts_with(text)).collect();
    assert!(!places.is_empty());
    places.into_iter().for_each(|at| bytes[at + text.len() / 2] ^= 1);
    fs::write(place.path(), bytes).unwrap();
}

#[test]
fn a_record_that_is_not_as_it_was_written_is_never_an_answer() {
    let get = |backend: &RedbBackend, form| -> Result<Option<Run>> { backend.get_run(&id("p"), &id("r"), form) };
    // The state, a short large value beside it, and a long one apart.
    for (text, form) in
        [(&b"token"[..], AnswerForm::State), (b"input of r", AnswerForm::State), ("L".repeat(100).as_bytes(), AnswerForm::Record)]
    {
        let place = filled();
        damage(&place, text);
        let backend = place.open();
        let error = get(&backend, form).unwrap_err();
        assert_eq!((error.code(), error.details().entity), (Code::Corrupt, Some(Entity::Run)), "{error}");
        assert_eq!(error.details().id, Some(id("r")));
        assert_eq!(refused(get(&backend, AnswerForm::Record)), Code::Corrupt);
        let filter = RunFilter { project_id: id("p"), workflow_ids: None, statuses: StatusSet::ALL, started: Window::default() };
        let page = PageRequest { order: runledger_core::Order::Asc, limit: 9, start: PageStart::Offset(0), with_total: true, form };
        assert_eq!(refused(backend.list_runs(&filter, &page)), Code::Corrupt);
        assert_eq!(refused(write(&backend, |tx| tx.run(&id("p"), &id("r"), form).map(drop))), Code::Corrupt);
        assert_eq!(refused(backend.export(&mut |_| Ok(()))), Code::Corrupt);
        let report = backend.verify().unwrap();
        assert_eq!(kinds(&report, "engine"), 1, "{report:?}");
        assert!(kinds(&report, "checksum") > 0, "{report:?}");
        // What is not touched is still answered.
        assert!(backend.get_run(&id("p"), &id("done"), AnswerForm::Record).unwrap().is_some());
    }
    let place = filled();
    damage(&place, b"node input");
    damage(&place, b"do it");
    let backend = place.open();
    let node: Result<Option<NodeRun>> = backend.get_node(&id("p"), &id("n"), AnswerForm::State);
    let agent: Result<Option<AgentRun>> = backend.get_agent(&id("p"), &id("n"), AnswerForm::State);
    assert_eq!((refused(node), refused(agent)), (Code::Corrupt, Code::Corrupt));
}

fn kinds(report: &VerifyReport, kind: &str) -> usize {
    report.problems.iter().filter(|problem| problem.kind == kind).count()
}

/// Changes a table as only the engine can, so that all its own checksums are right.
fn edit(place: &Place, table: Definition, change: impl FnOnce(&mut schema::Writes<'_>)) {
    let db = Database::create(place.path()).unwrap();
    let txn = db.begin_write().unwrap();
    change(&mut txn.open_table(table).unwrap());
    txn.commit().unwrap();
}

fn first(table: &schema::Writes<'_>) -> (Vec<u8>, Vec<u8>) {
    let (key, value) = table.range::<&[u8]>(..).unwrap().next().unwrap().unwrap();
    (key.value().to_vec(), value.value().to_vec())
}

fn remove_first(table: &mut schema::Writes<'_>) {
    let (key, _) = first(table);
    table.remove(key.as_slice()).unwrap();
}

#[test]
fn a_verification_finds_what_does_not_fit() {
    let indexes = schema::RUN_INDEXES.into_iter().chain(schema::AGENT_INDEXES).chain([schema::NODE_IDS]);
    for index in indexes {
        let place = filled();
        edit(&place, index, remove_first);
        assert_found(&place, "index");
        let place = filled();
        edit(&place, index, |table| {
            let (mut key, value) = first(table);
            let at = key.len() - 2;
            key[at] ^= 1;
            table.insert(key.as_slice(), value.as_slice()).unwrap();
        });
        assert_found(&place, "index");
    }
    for counter in [schema::RUN_COUNTS, schema::AGENT_COUNTS, schema::PROJECTS] {
        let place = filled();
        edit(&place, counter, remove_first);
        assert_found(&place, "counter");
        let place = filled();
        edit(&place, counter, |table| {
            let (key, _) = first(table);
            table.insert(key.as_slice(), 7_u64.to_le_bytes().as_slice()).unwrap();
        });
        assert_found(&place, "counter");
        let place = filled();
        edit(&place, counter, |table| {
            table.insert(b"x\0".as_slice(), 1_u64.to_le_bytes().as_slice()).unwrap();
        });
        assert_found(&place, "counter");
    }
    let place = filled();
    edit(&place, schema::LARGE, remove_first);
    assert_found(&place, "reference");
    let place = filled();
    edit(&place, schema::LARGE, |table| {
        let key = schema::large_key(Entity::Node, &id("p"), &id("n"), 1);
        table.insert(key.0.as_slice(), b"left over".as_slice()).unwrap();
    });
    assert_found(&place, "reference");
    let place = filled();
    edit(&place, schema::RUNS, |table| {
        table.remove(schema::record_key(&id("p"), &id("r")).0.as_slice()).unwrap();
    });
    let report = assert_found(&place, "reference");
    assert!(kinds(&report, "index") > 0 && kinds(&report, "counter") > 0, "{report:?}");
    let place = filled();
    edit(&place, schema::NODES, remove_first);
    assert_found(&place, "reference");
}

fn assert_found(place: &Place, kind: &str) -> VerifyReport {
    let before = fs::read(place.path()).unwrap();
    let backend = place.open_with(&runledger_core::OpenOptions::new().with_mode(runledger_core::Mode::ReadOnly)).unwrap();
    let report = backend.verify().unwrap();
    assert!(kinds(&report, kind) > 0, "no {kind}: {report:?}");
    assert_eq!(kinds(&report, "engine"), 0, "{report:?}");
    backend.close().unwrap();
    assert!(fs::read(place.path()).unwrap() == before);
    report
}

#[test]
fn a_record_whose_fields_do_not_fit_is_found() {
    let place = Place::new();
    let backend = place.open();
    let mut odd = run("p", "r", "w", Status::Running, at(0));
    odd.finished_at = Some(at(9));
    write(&backend, |tx| tx.put_run(&Put::insert(odd.clone()))).unwrap();
    let report = backend.verify().unwrap();
    assert_eq!(report.problems.len(), 1, "{report:?}");
    assert_eq!((report.problems[0].kind, &report.problems[0].id), ("record", &Some(id("r"))));
}
