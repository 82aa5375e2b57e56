//! Processes that are killed. The child is this test program itself, told by a variable what to do.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::ops::ControlFlow;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use runledger_core::{AnswerForm, Backend, Code, Mode, OpenOptions, Put, Status};

use super::{Dice, Place, at, change_run, id, node, payload, refused, run, write};
use crate::RedbBackend;

const TASK: &str = "RUNLEDGER_REDB_TEST_TASK";
const PATH: &str = "RUNLEDGER_REDB_TEST_PATH";

/// What a child does; of the program that runs the tests it is an empty test.
#[test]
fn child() {
    let (Ok(task), Ok(path)) = (std::env::var(TASK), std::env::var(PATH)) else { return };
    let mut out = std::io::stdout();
    let mut say = |text: &str| {
        writeln!(out, "{text}").unwrap();
        out.flush().unwrap();
    };
    say("begin");
    if task == "look" {
        for as_mode in [Mode::Create, Mode::Existing, Mode::ReadOnly] {
            let opened = RedbBackend::open(Path::new(&path), &OpenOptions::new().with_mode(as_mode));
            say(&match opened {
                Ok(backend) => format!("runs {}", backend.verify().unwrap().checked.runs),
                Err(error) => error.code().to_string(),
            });
        }
        return;
    }
    let backend = RedbBackend::open(Path::new(&path), &OpenOptions::new()).unwrap();
    if task == "work" {
        for number in 0.. {
            let mut new = run("p", &format!("{number:06}"), "w", Status::Running, at(number));
            new.input = Some(payload(&"x".repeat(number as usize % 5000)));
            write(&backend, |tx| {
                tx.put_run(&Put::insert(new.clone()))?;
                tx.put_node(&Put::insert(node(&new, &format!("n{number}"), 0, Status::Running, at(0))))
            })
            .unwrap();
            write(&backend, |tx| change_run(tx, "p", &new.id, |run| run.attempt = 2)).unwrap();
            say(&number.to_string());
        }
    }
}

/// Starts a child, and waits until it begins.
fn start(task: &str, place: &Place) -> (Child, impl Iterator<Item = String> + use<>) {
    start_as(&mut Command::new(std::env::current_exe().unwrap()), task, place)
}

fn start_as(command: &mut Command, task: &str, place: &Place) -> (Child, impl Iterator<Item = String> + use<>) {
    let mut child = command
        .args(["--exact", "tests::crash::child", "--nocapture", "--test-threads=1"])
        .env(TASK, task)
        .env(PATH, place.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    // The test program itself may write in front of what the child says, on the same line.
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut lines = lines.map_while(|line| line.ok());
    assert!(lines.any(|line| line.ends_with("begin")));
    (child, lines)
}

fn kill(mut child: Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn killed_while_creating_leaves_a_store_or_nothing() {
    let mut dice = Dice(99);
    for _ in 0..100 {
        let place = Place::new();
        let (child, _lines) = start("create", &place);
        let until = Instant::now() + Duration::from_micros(dice.below(8000));
        while Instant::now() < until {
            std::hint::spin_loop();
        }
        kill(child);
        let backend = place.open();
        assert_eq!(backend.verify().unwrap().checked.runs, 0);
        assert_eq!(place.names(), ["runs.redb"]);
        backend.close().unwrap();
    }
}

/// A store whose writer was killed, and how many runs it had acknowledged.
fn unclean(dice: &mut Dice) -> (Place, usize) {
    let place = Place::new();
    let (child, lines) = start("work", &place);
    let acknowledged = lines.take(1 + dice.below(60) as usize).count();
    let until = Instant::now() + Duration::from_micros(dice.below(1000));
    while Instant::now() < until {
        std::hint::spin_loop();
    }
    kill(child);
    (place, acknowledged)
}

fn assert_holds(backend: &RedbBackend, acknowledged: usize) {
    for number in 0..acknowledged {
        let name = format!("{number:06}");
        let found = backend.get_run(&id("p"), &id(&name), AnswerForm::Record).unwrap().unwrap();
        assert_eq!((found.attempt, found.input), (2, Some(payload(&"x".repeat(number % 5000)))));
    }
    let report = backend.verify().unwrap();
    assert!(report.is_ok() && report.engine_check_done, "{report:?}");
    assert_eq!(report.checked.runs, report.checked.nodes);
}

#[test]
fn killed_at_work_keeps_what_was_acknowledged() {
    let mut dice = Dice(5);
    for _ in 0..25 {
        let (place, acknowledged) = unclean(&mut dice);
        let before = fs::read(place.path()).unwrap();
        let reader = place.open_with(&OpenOptions::new().with_mode(Mode::ReadOnly)).unwrap();
        assert_holds(&reader, acknowledged);
        assert_eq!(refused(place.open_with(&OpenOptions::new())), Code::Locked);
        reader.close().unwrap();
        assert!(fs::read(place.path()).unwrap() == before, "a reader changed the file");
        let backend = place.open();
        assert_holds(&backend, acknowledged);
        write(&backend, |tx| tx.put_run(&Put::insert(run("p", "more", "w", Status::Queued, at(0))))).unwrap();
        backend.close().unwrap();
        assert_eq!(place.names(), ["runs.redb"]);
    }
}

#[test]
fn a_repair_tells_its_progress_and_can_be_stopped() {
    let (place, acknowledged) = unclean(&mut Dice(1));
    let before = fs::read(place.path()).unwrap();
    for stop_at in [0, 1] {
        let calls = Arc::new(AtomicUsize::new(0));
        let seen = calls.clone();
        let stopping = OpenOptions::new().with_on_repair(move |progress| {
            assert!((0.0..=1.0).contains(&progress));
            if seen.fetch_add(1, Ordering::Relaxed) == stop_at { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        assert_eq!(refused(place.open_with(&stopping)), Code::Interrupted);
        assert_eq!(calls.load(Ordering::Relaxed), stop_at + 1);
        assert!(fs::read(place.path()).unwrap() == before);
    }
    let calls = Arc::new(AtomicUsize::new(0));
    let seen = calls.clone();
    let watching = OpenOptions::new().with_on_repair(move |_| {
        seen.fetch_add(1, Ordering::Relaxed);
        ControlFlow::Continue(())
    });
    let backend = place.open_with(&watching).unwrap();
    assert!(calls.load(Ordering::Relaxed) > 0);
    assert_holds(&backend, acknowledged);
    backend.close().unwrap();
    // What was closed well needs no repair.
    let calls = Arc::new(AtomicUsize::new(0));
    let seen = calls.clone();
    let watching = OpenOptions::new().with_on_repair(move |_| {
        seen.fetch_add(1, Ordering::Relaxed);
        ControlFlow::Break(())
    });
    place.open_with(&watching).unwrap();
    assert_eq!(calls.load(Ordering::Relaxed), 0);
}

/// As an ordinary user, to whom permissions mean something.
#[test]
fn what_can_not_be_written_is_told_at_once() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    use std::os::unix::process::CommandExt;
    const NOBODY: u32 = 65534;
    let place = Place::new();
    let look = |place: &Place| {
        let program = place.directory().join("program");
        fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
        let mut command = Command::new(&program);
        if fs::metadata("/proc/self").unwrap().uid() == 0 {
            command.uid(NOBODY).gid(NOBODY);
        }
        let permit = |mode| fs::set_permissions(place.directory(), fs::Permissions::from_mode(mode)).unwrap();
        permit(0o555);
        let (mut child, lines) = start_as(&mut command, "look", place);
        let said: Vec<String> = lines.take(3).collect();
        child.wait().unwrap();
        permit(0o755);
        fs::remove_file(program).unwrap();
        said
    };
    assert_eq!(look(&place), ["read_only", "io", "io"]);
    let backend = place.open();
    write(&backend, |tx| tx.put_run(&Put::insert(run("p", "r", "w", Status::Queued, at(0))))).unwrap();
    backend.close().unwrap();
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o444)).unwrap();
    let before = fs::read(place.path()).unwrap();
    assert_eq!(look(&place), ["read_only", "read_only", "runs 1"]);
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o666)).unwrap();
    assert!(fs::read(place.path()).unwrap() == before);
    assert_eq!(look(&place), ["runs 1", "runs 1", "runs 1"]);
    fs::write(place.path(), b"").unwrap();
    assert_eq!(look(&place), ["read_only", "read_only", "read_only"]);
    assert_eq!(place.names(), ["runs.redb"]);
}
