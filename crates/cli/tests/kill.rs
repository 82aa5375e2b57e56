//! Processes that are killed under load lose nothing that was acknowledged.
//!
//! A child runs `runledger exec` on a file and is killed with SIGKILL at a random moment. Every acknowledged command must be
//! there afterwards, at most the one that was under way may be there too, and the store must verify. What is right comes
//! from a memory store that is given the same commands.

#![allow(clippy::unwrap_used, clippy::panic, reason = "the lints' exception for tests does not reach their helpers")]

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, SystemTime};

/// How many times a child is killed: more with `RUNLEDGER_LONG=1`.
fn rounds() -> u32 {
    if std::env::var_os("RUNLEDGER_LONG").is_some() { 200 } else { 20 }
}

/// A small generator of pseudo-random numbers (xorshift), seeded by the clock and printed on failure.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }
}

/// The `k`th command of a project's history, which is the same whenever it is asked: seven commands to a run.
fn command(project: &str, k: usize) -> String {
    let (run, step) = (k / 7, k % 7);
    let at = format!("2026-01-05T{:02}:{:02}:{:02}.{:06}Z", run / 3600 % 24, run / 60 % 60, run % 60, step);
    let owner = format!(r#""executionToken":"t{run}""#);
    // Of a project so named every payload is large, so that the log is copied back again and again.
    let large = if project.starts_with("large") || run % 9 == 0 { 70_000 } else { 300 };
    let payload = format!(r#"{{"n":{k},"text":"{}"}}"#, "x".repeat(large));
    let (op, rest) = match step {
        0 => ("runs.queue", format!(r#""id":"r{run}","workflowId":"wf{}","input":{payload},"queuedAt":"{at}""#, run % 3)),
        1 => ("runs.claim", format!(r#""execution":{{"token":"t{run}","queueLeaseExpiresAt":"{at}"}},"startedAt":"{at}""#)),
        2 => (
            "nodes.start",
            format!(
                r#""id":"n{run}","workflowRunId":"r{run}","workflowId":"wf{}","nodeIndex":0,"nodeType":"agent","nodeId":"a","nodeKey":"k","input":{payload},"startedAt":"{at}",{owner}"#,
                run % 3
            ),
        ),
        3 => ("agents.create", format!(r#""nodeRunId":"n{run}","agentId":"a","prompt":"do {k}","createdAt":"{at}",{owner}"#)),
        4 => ("runs.confirm", format!(r#""id":"r{run}","queueLeaseExpiresAt":"2026-02-01T00:00:00Z",{owner}"#)),
        5 => ("nodes.finish", format!(r#""id":"n{run}","status":"succeeded","output":{payload},"finishedAt":"{at}",{owner}"#)),
        _ if run % 4 == 0 => ("runs.cancel", format!(r#""id":"r{run}","error":"stop","finishedAt":"{at}""#)),
        _ => ("runs.finish", format!(r#""id":"r{run}","status":"failed","error":"boom","finishedAt":"{at}",{owner}"#)),
    };
    format!(r#"{{"op":"{op}","projectId":"{project}","answer":"state",{rest}}}"#)
}

/// All that a project holds, as answers of the JSON form.
fn contents(ledger: &runledger::Ledger, project: &str) -> Vec<String> {
    let lists = ["runs", "nodes", "agents"].map(|records| format!(r#"{{"op":"{records}.list","projectId":"{project}","limit":10000}}"#));
    let stats = format!(r#"{{"op":"runs.stats","projectId":"{project}"}}"#);
    lists.iter().chain([&stats]).map(|request| ledger.call_json(request)).collect()
}

/// A writer of one project, and how much of the project's history is known to be there.
struct Writer {
    project: String,
    done: usize,
    model: runledger::Ledger,
}

impl Writer {
    fn new(project: String) -> Writer {
        Writer { project, done: 0, model: runledger::open("memory:").unwrap() }
    }

    /// Sends commands, one after the other's answer, until the child is gone; answers how many were acknowledged.
    fn write(&self, input: &mut ChildStdin, answers: &mut impl BufRead) -> usize {
        let mut acknowledged = self.done;
        loop {
            let mut line = command(&self.project, acknowledged);
            line.push('\n');
            let mut answer = String::new();
            if input.write_all(line.as_bytes()).is_err() || !matches!(answers.read_line(&mut answer), Ok(1..)) || !answer.ends_with('\n') {
                return acknowledged;
            }
            assert!(answer.starts_with("{\"ok\""), "{line} -> {answer}");
            acknowledged += 1;
        }
    }

    /// The store must hold what was acknowledged, and at most the command that was under way.
    fn judge(&mut self, ledger: &runledger::Ledger, acknowledged: usize, seed: u64) {
        let mut advance = |to: usize| {
            for k in self.done..to {
                let answer = self.model.call_json(command(&self.project, k));
                assert!(answer.starts_with("{\"ok\""), "{answer}");
            }
            self.done = to;
        };
        advance(acknowledged);
        let found = contents(ledger, &self.project);
        if found != contents(&self.model, &self.project) {
            advance(acknowledged + 1);
            assert_eq!(found, contents(&self.model, &self.project), "seed {seed}: after {acknowledged} acknowledged commands");
        }
    }
}

fn spawn(url: &str) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_runledger"));
    command.args(["exec", url]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap()
}

fn killed_under_load(scheme: &str, kind: &str, processes: usize) {
    let seed = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_nanos() as u64 | 1;
    let mut dice = Dice(seed);
    let dir = tempfile::tempdir().unwrap();
    let mut acknowledged_in_all = 0;
    for life in 0..rounds().div_ceil(10) {
        // A store lives through ten rounds.
        let url = format!("{scheme}:{}", dir.path().join(format!("store-{life}")).display());
        let mut writers: Vec<Writer> = (0..processes).map(|k| Writer::new(format!("{kind}{k}"))).collect();
        for _ in 0..10 {
            let wait = Duration::from_micros(dice.roll(60_000));
            let acknowledged: Vec<usize> = std::thread::scope(|scope| {
                let mut children: Vec<Child> = writers.iter().map(|_| spawn(&url)).collect();
                let writing: Vec<_> = children
                    .iter_mut()
                    .zip(&writers)
                    .map(|(child, writer)| {
                        let (mut input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
                        scope.spawn(move || writer.write(&mut input, &mut BufReader::new(output)))
                    })
                    .collect();
                // Not a wait for something to happen: the moment of the kill is what is random here.
                std::thread::sleep(wait);
                for child in &mut children {
                    child.kill().unwrap();
                    child.wait().unwrap();
                }
                writing.into_iter().map(|writing| writing.join().unwrap()).collect()
            });
            let ledger = runledger::open(&url).unwrap();
            for (writer, acknowledged) in writers.iter_mut().zip(acknowledged) {
                acknowledged_in_all += acknowledged - writer.done;
                writer.judge(&ledger, acknowledged, seed);
            }
            let verified = ledger.call_json(r#"{"op":"store.verify"}"#);
            assert!(verified.starts_with(r#"{"ok":{"ok":true"#), "seed {seed}: {verified}");
            ledger.close().unwrap();
        }
    }
    println!("{scheme}: {} kills, {acknowledged_in_all} acknowledged commands, none lost", rounds() as usize * processes);
    assert!(acknowledged_in_all > 0, "the children were killed before they did anything");
}

#[test]
fn sqlite_with_two_writing_processes_loses_nothing_acknowledged() {
    killed_under_load("sqlite", "p", 2);
}

/// Every few commands fill the log, which is then copied back.
#[test]
fn sqlite_killed_while_its_log_is_copied_back_loses_nothing_acknowledged() {
    killed_under_load("sqlite", "large", 1);
}

#[test]
fn redb_loses_nothing_acknowledged() {
    killed_under_load("redb", "p", 1);
}

/// A store with runs, of which half were deleted; and all that it holds.
fn filled(url: &str, runs: usize) -> Vec<u8> {
    let ledger = runledger::open(url).unwrap();
    for k in 0..runs * 7 {
        assert!(ledger.call_json(command("p", k)).starts_with("{\"ok\""));
    }
    for run in (0..runs).step_by(2) {
        let delete = format!(r#"{{"op":"runs.delete","projectId":"p","id":"r{run}"}}"#);
        assert!(ledger.call_json(delete).starts_with("{\"ok\""));
    }
    let stream = export(&ledger);
    ledger.close().unwrap();
    stream
}

fn export(ledger: &runledger::Ledger) -> Vec<u8> {
    let mut stream = Vec::new();
    ledger.export(&mut stream).unwrap();
    stream
}

fn dice() -> (Dice, u64) {
    let seed = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_nanos() as u64 | 1;
    (Dice(seed), seed)
}

/// Opens a store after a kill, verifies it, and answers all that it holds.
fn survived(url: &str, seed: u64) -> Vec<u8> {
    let ledger = runledger::open(url).unwrap_or_else(|error| panic!("seed {seed}: it does not open: {error}"));
    let verified = ledger.call_json(r#"{"op":"store.verify"}"#);
    assert!(verified.starts_with(r#"{"ok":{"ok":true"#), "seed {seed}: {verified}");
    let stream = export(&ledger);
    ledger.close().unwrap();
    stream
}

/// Kills a process at a random moment of what it does; answers whether it was still at it.
fn kill_within(mut child: Child, most_us: u64, dice: &mut Dice) -> bool {
    // Not a wait for something to happen: the moment of the kill is what is random here.
    std::thread::sleep(Duration::from_micros(dice.roll(most_us)));
    let was_at_it = child.try_wait().unwrap().is_none();
    child.kill().unwrap();
    child.wait().unwrap();
    was_at_it
}

/// Processes that are killed while they open a store that was left as a kill left it, again and again.
#[test]
fn killed_while_opening_a_store_changes_nothing() {
    let (mut dice, seed) = dice();
    for scheme in ["sqlite", "redb"] {
        let dir = tempfile::tempdir().unwrap();
        let url = format!("{scheme}:{}", dir.path().join("store").display());
        filled(&url, 20);
        let mut child = spawn(&url);
        let mut input = child.stdin.take().unwrap();
        let mut answers = BufReader::new(child.stdout.take().unwrap());
        for k in 0..40 {
            writeln!(input, "{}", command("q", k)).unwrap();
            answers.read_line(&mut String::new()).unwrap();
        }
        // It has a log, or is marked as open.
        child.kill().unwrap();
        child.wait().unwrap();
        let mut kills = 0;
        for _ in 0..rounds() {
            kills += u32::from(kill_within(spawn(&url), 12_000, &mut dice));
        }
        let stream = survived(&url, seed);
        let model = runledger::open("memory:").unwrap();
        model.import(&mut stream.as_slice()).unwrap();
        let runs = |project: &str| model.call_json(format!(r#"{{"op":"runs.list","projectId":"{project}","limit":0}}"#));
        assert!(runs("p").contains(r#""total":10"#) && runs("q").contains(r#""total":6"#), "seed {seed}: {} {}", runs("p"), runs("q"));
        println!("{scheme}: {kills} kills of processes that had a store open or were opening it");
    }
}

/// An import that is killed has left nothing, or all.
#[test]
fn killed_while_importing_leaves_nothing_or_all() {
    let (mut dice, seed) = dice();
    for scheme in ["sqlite", "redb"] {
        let dir = tempfile::tempdir().unwrap();
        let stream = dir.path().join("stream");
        let source = runledger::open("memory:").unwrap();
        (0..7 * 300).for_each(|k| drop(source.call_json(command("p", k))));
        let all = export(&source);
        std::fs::write(&stream, &all).unwrap();
        let (mut kills, mut whole) = (0, 0);
        for round in 0..rounds() {
            let url = format!("{scheme}:{}", dir.path().join(format!("store{round}")).display());
            let nothing = {
                let ledger = runledger::open(&url).unwrap();
                let nothing = export(&ledger);
                ledger.close().unwrap();
                nothing
            };
            let mut command = Command::new(env!("CARGO_BIN_EXE_runledger"));
            command.args(["import", &url]).stdin(std::fs::File::open(&stream).unwrap()).stdout(Stdio::null()).stderr(Stdio::null());
            kills += u32::from(kill_within(command.spawn().unwrap(), 120_000, &mut dice));
            let found = survived(&url, seed);
            assert!(found == nothing || found == all, "seed {seed}: an import that was killed has left a part");
            whole += u32::from(found == all);
            // What it left is no hindrance.
            let ledger = runledger::open(&url).unwrap();
            ledger.import(&mut all.as_slice()).unwrap();
            assert!(export(&ledger) == all, "seed {seed}");
        }
        println!("{scheme}: {kills} imports killed, {whole} had been made whole");
    }
}

/// A compaction that is killed changes nothing that is held.
#[test]
fn killed_while_compacting_a_store_keeps_all() {
    let (mut dice, seed) = dice();
    for scheme in ["sqlite", "redb"] {
        let dir = tempfile::tempdir().unwrap();
        let url = format!("{scheme}:{}", dir.path().join("store").display());
        let all = filled(&url, 150);
        let mut kills = 0;
        for _ in 0..rounds() {
            let mut child = spawn(&url);
            let mut input = child.stdin.take().unwrap();
            // The pipe takes all of them; what is not read when the child dies is lost.
            let _ = input.write_all("{\"op\":\"store.compact\"}\n".repeat(200).as_bytes());
            kills += u32::from(kill_within(child, 60_000, &mut dice));
            assert!(survived(&url, seed) == all, "seed {seed}: {scheme} holds something else after a compaction that was killed");
        }
        println!("{scheme}: {kills} compactions killed");
    }
}
