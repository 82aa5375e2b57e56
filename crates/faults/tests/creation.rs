//! What the system is asked to do when a store is created, as the system itself saw it: power that is lost at any moment
//! leaves no store, or a whole one.

#![allow(clippy::unwrap_used, clippy::panic, reason = "the lints' exception for tests does not reach their helpers")]
#![cfg(target_os = "linux")]

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

use runledger_backend_redb::RedbBackend;
use runledger_backend_sqlite::SqliteBackend;
use runledger_core::{Journal, Ledger, OpenOptions};
use runledger_faults::scratch_directory;

const STORE: &str = "RUNLEDGER_TEST_STORE";
const KIND: &str = "RUNLEDGER_TEST_KIND";
const READY: &str = "the store is there";

/// What the other process does; without its environment it does nothing.
#[test]
fn child() {
    let Some(path) = std::env::var_os(STORE) else { return };
    let path: &Path = path.as_ref();
    let options = OpenOptions::new();
    let ledger = match std::env::var(KIND).unwrap().as_str() {
        "redb" => Ledger::new(RedbBackend::open(path, &options).unwrap(), &options),
        journal => {
            let options = options.with_journal(if journal == "wal" { Journal::Wal } else { Journal::Delete });
            Ledger::new(SqliteBackend::open(path, &options).unwrap(), &options)
        }
    };
    // The answer: what comes after it is no concern of the creation.
    println!("{READY}");
    drop(ledger);
}

/// A call to the system.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Call {
    Wrote(String),
    Flushed(String),
    Moved(String, String),
    Answered,
}

/// The calls of the child up to its answer; `None` where no call can be watched.
fn calls(kind: &str, path: &Path) -> Option<Vec<Call>> {
    let log = path.with_extension("trace");
    let mut command = Command::new("strace");
    command.args(["-f", "-y", "-s", "64", "-e", "trace=write,pwrite64,pwritev,fsync,fdatasync,link,linkat,rename,renameat,renameat2"]);
    command.arg("-o").arg(&log).arg(std::env::current_exe().unwrap());
    command.args(["--exact", "child", "--nocapture", "--test-threads=1"]).env(STORE, path).env(KIND, kind).stdout(Stdio::null());
    match command.output() {
        Ok(output) if output.status.success() => {}
        Ok(output) => {
            println!("SKIPPED: calls to the system can't be watched here: {}", String::from_utf8_lossy(&output.stderr).trim());
            return None;
        }
        Err(error) => {
            println!("SKIPPED: strace is not there: {error}");
            return None;
        }
    }
    let text = std::fs::read_to_string(log).unwrap();
    let calls: Vec<Call> = text.lines().filter_map(|line| parse(line, path.parent().unwrap())).collect();
    let answered = calls.iter().position(|call| *call == Call::Answered).expect("the child has answered");
    Some(calls[..answered].to_vec())
}

/// A call on a file in the directory, by its name there; the directory itself is `.`.
fn parse(line: &str, directory: &Path) -> Option<Call> {
    let (_, call) = line.split_once(' ')?;
    let call = call.trim_start();
    let (name, arguments) = call.split_once('(')?;
    if name == "write" && arguments.contains(READY) {
        return Some(Call::Answered);
    }
    let directory = directory.to_str()?;
    let named = |path: &str| match path.strip_prefix(directory)? {
        "" => Some(".".to_owned()),
        rest => rest.strip_prefix('/').map(str::to_owned),
    };
    // The descriptor is written as NUMBER<PATH>; a file that has no name yet or any more has `(deleted)` behind it.
    let of_descriptor = || named(arguments.split_once('<')?.1.split_once('>')?.0);
    let quoted = || arguments.split('"').skip(1).step_by(2).map(named).collect::<Option<Vec<String>>>();
    match name {
        "write" | "pwrite64" | "pwritev" => of_descriptor().map(Call::Wrote),
        "fsync" | "fdatasync" => of_descriptor().map(Call::Flushed),
        _ if !line.ends_with("= 0") => None,
        _ => match &quoted()?[..] {
            [from, to] => Some(Call::Moved(from.clone(), to.clone())),
            _ => None,
        },
    }
}

#[test]
fn a_redb_store_is_whole_and_flushed_before_it_has_its_name() {
    let directory = scratch_directory();
    let path = std::fs::canonicalize(directory.path()).unwrap().join("store");
    let Some(calls) = calls("redb", &path) else { return };
    let of = |wanted: &dyn Fn(&Call) -> bool| calls.iter().rposition(wanted);
    let moved = of(&|call| matches!(call, Call::Moved(_, to) if to == "store")).expect("it is moved to its name");
    let Call::Moved(temporary, _) = &calls[moved] else { unreachable!() };
    let first_of = |wanted: &Call| calls.iter().position(|call| call == wanted);
    let flushed = first_of(&Call::Flushed(temporary.clone())).expect("the new file is flushed");
    let last_write = calls[..moved].iter().rposition(|call| *call == Call::Wrote(temporary.clone())).expect("it is written");
    assert!(last_write < flushed && flushed < moved, "{calls:#?}");
    let directory_flushed = calls[moved..].iter().position(|call| *call == Call::Flushed(".".into()));
    assert!(directory_flushed.is_some(), "the name is not flushed before the answer: {calls:#?}");
}

#[test]
fn a_sqlite_store_and_its_name_are_flushed_before_the_answer() {
    for journal in ["wal", "delete"] {
        let directory = scratch_directory();
        let path = std::fs::canonicalize(directory.path()).unwrap().join("store");
        let Some(calls) = calls(journal, &path) else { return };
        // Whatever was written was flushed after that, but for a journal that is gone and what connections share. That the log is
        // cut once it was copied back need not last.
        let mut unflushed = BTreeMap::new();
        for (number, call) in calls.iter().enumerate() {
            match call {
                Call::Wrote(name) if matches!(name.as_str(), "store" | "store-wal") => drop(unflushed.insert(name.clone(), number)),
                Call::Flushed(name) => drop(unflushed.remove(name)),
                _ => {}
            }
        }
        assert!(unflushed.is_empty(), "journal={journal}: {unflushed:?} of {calls:#?}");
        assert!(calls.contains(&Call::Flushed("store".into())), "journal={journal}: {calls:#?}");
        let first_write = calls.iter().position(|call| *call == Call::Wrote("store".into())).expect("it is written");
        assert!(calls[first_write..].contains(&Call::Flushed(".".into())), "journal={journal}: its name is not flushed: {calls:#?}");
    }
}
