//! Several processes on one store.

use std::path::Path;
use std::process::{Child, Command};

use runledger_core::{AnswerForm, Backend, Order, PageRequest, PageStart, Put, RunFilter, Status, StatusSet, Window};

use crate::kit::{new_run, open, place, set_run, update, write};

const STORE: &str = "RUNLEDGER_TEST_STORE";
const NUMBER: &str = "RUNLEDGER_TEST_NUMBER";
const RUNS: &str = "RUNLEDGER_TEST_RUNS";

fn start(path: &Path, number: usize, runs: usize) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "processes::child", "--nocapture"])
        .env(STORE, path)
        .env(NUMBER, number.to_string())
        .env(RUNS, runs.to_string())
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap()
}

/// What the other processes do; without their environment it does nothing.
#[test]
fn child() {
    let Some(path) = std::env::var_os(STORE) else { return };
    let number = std::env::var(NUMBER).unwrap();
    let runs: i64 = std::env::var(RUNS).unwrap().parse().unwrap();
    let backend = open(path.as_ref());
    for at in 0..runs {
        let mut run = new_run("p", &format!("{number}-{at}"), "wf", at);
        write(&backend, |tx| tx.put_run(&Put::insert(run.clone()))).unwrap();
        write(&backend, |tx| {
            let before = tx.run(&run.project_id, &run.id, AnswerForm::Record)?.unwrap();
            set_run(&mut run, Status::Succeeded, None, at);
            tx.put_run(&update(before, run.clone()))
        })
        .unwrap();
        assert_eq!(backend.get_run(&run.project_id, &run.id, AnswerForm::Record).unwrap().unwrap(), run);
    }
    if number != "0" {
        backend.close().unwrap();
    }
}

fn count(path: &Path) -> u64 {
    let filter =
        RunFilter { project_id: "p".into(), workflow_ids: None, statuses: StatusSet::only(Status::Succeeded), started: Window::default() };
    let page = PageRequest { order: Order::Asc, limit: 1, start: PageStart::Offset(0), with_total: true, form: AnswerForm::State };
    let backend = open(path);
    assert!(backend.verify().unwrap().is_ok());
    backend.list_runs(&filter, &page).unwrap().total.unwrap()
}

#[test]
fn eight_create_one_store_at_once() {
    let rounds = if cfg!(debug_assertions) { 20 } else { 50 };
    for _ in 0..rounds {
        let (_directory, path) = place();
        let children: Vec<Child> = (0..8).map(|number| start(&path, number, 1)).collect();
        for mut child in children {
            assert!(child.wait().unwrap().success());
        }
        assert_eq!(count(&path), 8);
    }
}

#[test]
fn several_write_at_once() {
    let (_directory, path) = place();
    let children: Vec<Child> = (0..4).map(|number| start(&path, number, 150)).collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    assert_eq!(count(&path), 600);
}

#[test]
fn a_store_that_was_killed_while_created_opens() {
    for round in 0..40 {
        let (_directory, path) = place();
        let mut child = start(&path, 1, 50);
        std::thread::sleep(std::time::Duration::from_micros(round * 400));
        child.kill().unwrap();
        child.wait().unwrap();
        let backend = open(&path);
        assert!(backend.verify().unwrap().is_ok());
    }
}
