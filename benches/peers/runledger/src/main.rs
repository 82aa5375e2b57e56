//! runledger: the lifecycle of `cargo xtask bench`, whose ten commands are ten transitions.

use std::path::Path;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use peers_harness::{Beside, CALLERS, Calls, Contender, Entry, Result, Turn, serve, sqlite_durability};
use runledger::{Command, Durability, GetStoreInfo, Journal, Ledger, OpenOptions, Request};
use runledger_benches::workload::{IdKind, Maker, TRANSITIONS};
use rusqlite::{Connection, OpenFlags};

/// Lifecycles that go through together where a call is a batch: one command of each.
const GROUP: usize = 10;

fn main() -> Result<()> {
    let directory = peers_harness::directory()?;
    let full = OpenOptions::new();
    let relaxed = OpenOptions::new().with_durability(Durability::Relaxed);
    let without_log = relaxed.clone().with_journal(Journal::Delete);
    let stores = [
        ("SQLite", "full", sqlite(&directory.join("full.db"), &full)?),
        ("SQLite", "relaxed", sqlite(&directory.join("relaxed.db"), &relaxed)?),
        ("SQLite", "relaxed, journal=delete", sqlite(&directory.join("delete.db"), &without_log)?),
        ("redb", "full", redb(&directory.join("full.redb"), &full)?),
        ("memory", "", (runledger::open_memory(&full)?, "nothing survives".to_owned(), Beside::Memory)),
    ];
    let maker = &Maker::new(IdKind::Growing);
    let mut entries: Vec<Entry<'_>> = Vec::new();
    for (engine, setting, (ledger, durability, beside)) in &stores {
        for (callers, group) in CALLERS.map(|callers| (callers, 1)).into_iter().chain([(1, GROUP)]) {
            let contender = Contender {
                store: format!("runledger, {engine}"),
                setting: (*setting).to_owned(),
                durability: durability.clone(),
                beside: *beside,
                callers,
                group,
                transitions: TRANSITIONS as u64,
            };
            let turn = move |each| if group == 1 { threads(ledger, maker, callers, each) } else { groups(ledger, maker, each) };
            entries.push((contender, Box::new(turn)));
        }
    }
    serve(entries)
}

/// The backend reads each of its settings back when it opens, and says in `store.info` what is in effect. The journal is read
/// from the file here.
fn sqlite(path: &Path, options: &OpenOptions) -> Result<(Ledger, String, Beside)> {
    let ledger = runledger::open_sqlite(path, options)?;
    let conn = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    let journal: String = conn.pragma_query_value(None, "journal_mode", |row| row.get(0))?;
    // What `settle` of the backend's connect.rs sets for each, and checks.
    let synchronous = match (ledger.store_info(GetStoreInfo::new())?.durability.as_str(), journal.as_str()) {
        ("full", _) => 3,
        ("relaxed", "wal") => 1,
        ("relaxed", "delete") => 2,
        other => return Err(format!("a store with {other:?} was not asked for").into()),
    };
    let (durability, beside) = sqlite_durability(&journal, synchronous);
    Ok((ledger, durability, beside))
}

fn redb(path: &Path, options: &OpenOptions) -> Result<(Ledger, String, Beside)> {
    let ledger = runledger::open_redb(path, options)?;
    let durability = ledger.store_info(GetStoreInfo::new())?.durability;
    if durability != "full" {
        return Err(format!("the store promises durability {durability}").into());
    }
    Ok((ledger, "full: a commit survives power loss".to_owned(), Beside::Full))
}

/// Threads that each go through whole lifecycles until the time is over. What they began then they end, and it counts.
fn threads(ledger: &Ledger, maker: &Maker, callers: usize, each: Duration) -> Result<Turn> {
    let ready = Barrier::new(callers);
    std::thread::scope(|scope| {
        let running: Vec<_> = (0..callers).map(|_| scope.spawn(|| caller(ledger, maker, &ready, each))).collect();
        let mut all = Calls::default();
        let mut elapsed = Duration::ZERO;
        for caller in running {
            let (calls, took) = caller.join().map_err(|_| "a caller panicked")??;
            all.add(calls);
            elapsed = elapsed.max(took);
        }
        Ok(all.turn(elapsed))
    })
}

fn caller(ledger: &Ledger, maker: &Maker, ready: &Barrier, each: Duration) -> Result<(Calls, Duration)> {
    let mut calls = Calls::default();
    ready.wait();
    let began = Instant::now();
    while began.elapsed() < each {
        for command in maker.lifecycle()? {
            let began = Instant::now();
            ledger.request(Request::Command(command))?;
            calls.ended(began);
        }
        calls.lived();
    }
    Ok((calls, began.elapsed()))
}

fn groups(ledger: &Ledger, maker: &Maker, each: Duration) -> Result<Turn> {
    let mut calls = Calls::default();
    let began = Instant::now();
    while began.elapsed() < each {
        // Ten lifecycles, a step at a time over all of them.
        let mut commands = maker.hundred()?.into_iter();
        for _ in 0..TRANSITIONS {
            let batch: Vec<Command> = commands.by_ref().take(GROUP).collect();
            let began = Instant::now();
            ledger.batch(batch)?;
            calls.ended(began);
        }
        (0..GROUP).for_each(|_| calls.lived());
    }
    Ok(calls.turn(began.elapsed()))
}
