//! Random sequences of commands, batches, queries, cursors, exports, snapshots and reopenings: every store must answer
//! each step as the oracle does. A sequence that shows a difference is shrunk and printed as request lines.

mod dice;
mod generate;
mod pools;

use std::sync::Arc;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestError, TestRng, TestRunner};
use runledger_core::{ManualClock, Order, Query, Time, VerifyStore};

use crate::oracle::{Bookmark, Expected, Oracle, difference, split_cursor};
use crate::{Harness, Options, Place, Store};
use dice::Dice;
use generate::Generator;
use pools::{MAX_PAYLOAD_BYTES, time};

/// What happens next. The bytes decide which records and values, once it is known what there is.
#[derive(Clone, Debug)]
enum Step {
    Command(Vec<u8>),
    Query(Vec<u8>),
    /// A list with the cursor that the last page gave.
    Follow(Vec<u8>),
    Batch(Vec<u8>),
    /// The stores' clock moves.
    Tick(u8),
    Export,
    Verify,
    Reopen,
    /// A fresh store takes in what a store exports, twice.
    Copy,
    /// Takes a snapshot of every store.
    Snapshot,
    /// Restores the last snapshots.
    Restore,
}

fn step() -> impl Strategy<Value = Step> {
    let one = || vec(any::<u8>(), 40);
    prop_oneof![
        60 => one().prop_map(Step::Command),
        25 => one().prop_map(Step::Query),
        8 => one().prop_map(Step::Follow),
        5 => vec(any::<u8>(), 160).prop_map(Step::Batch),
        3 => any::<u8>().prop_map(Step::Tick),
        1 => Just(Step::Export),
        1 => Just(Step::Verify),
        1 => Just(Step::Reopen),
        1 => Just(Step::Copy),
        1 => Just(Step::Snapshot),
        1 => Just(Step::Restore),
    ]
}

/// Steps stores of all harnesses through `cases` sequences of up to `steps` steps, together with the oracle.
///
/// The sequences are the same at every run, unless the environment variable `RUNLEDGER_SEED` has another number.
///
/// # Panics
/// When a store answers otherwise than the oracle.
pub fn run_state_machine(harnesses: &[&dyn Harness], cases: u32, steps: usize) {
    let seed = std::env::var("RUNLEDGER_SEED").ok().and_then(|seed| seed.parse::<u64>().ok()).unwrap_or(0);
    const MAX_SHRINK_STEPS: u32 = 20_000;
    if let Some(failure) = find_difference(harnesses, cases, steps, seed, MAX_SHRINK_STEPS) {
        panic!("{failure}\n(RUNLEDGER_SEED={seed})");
    }
}

/// A sequence on which a store differs from the oracle, as text, after so many attempts to make it shorter; `None` when
/// there is none.
pub fn find_difference(harnesses: &[&dyn Harness], cases: u32, steps: usize, seed: u64, max_shrink_steps: u32) -> Option<String> {
    const MAX_SHRINK_MS: u32 = 120_000;
    let config = Config {
        cases,
        failure_persistence: None,
        max_shrink_iters: max_shrink_steps,
        max_shrink_time: MAX_SHRINK_MS,
        ..Config::default()
    };
    let mut seed_bytes = [0; 32];
    seed_bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let mut runner = TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &seed_bytes));
    let outcome = runner.run(&vec(step(), 1..=steps), |sequence| {
        let mut machine = Machine::open(harnesses).map_err(TestCaseError::fail)?;
        let ran = sequence.iter().try_for_each(|step| machine.step(step)).and_then(|()| machine.end());
        ran.map_err(|why| TestCaseError::fail(machine.report(&why)))
    });
    match outcome {
        Ok(()) => None,
        Err(TestError::Fail(reason, _)) => Some(reason.message().to_owned()),
        Err(TestError::Abort(reason)) => Some(format!("the run was given up: {reason}")),
    }
}

/// Steps stores of all harnesses through the sequence that some bytes stand for, together with the oracle: for a fuzzer.
///
/// # Errors
/// What a store answers otherwise than the oracle, and the requests that led there.
pub fn replay(harnesses: &[&dyn Harness], bytes: &[u8]) -> Result<(), String> {
    const MAX_STEPS: usize = 60;
    let mut machine = Machine::open(harnesses)?;
    let mut rest = bytes;
    for _ in 0..MAX_STEPS {
        let [kind, after @ ..] = rest else { break };
        let mut take = |len: usize| {
            let (taken, left) = after.split_at(len.min(after.len()));
            rest = left;
            taken.to_vec()
        };
        let step = match kind % 32 {
            0..=16 => Step::Command(take(40)),
            17..=22 => Step::Query(take(40)),
            23..=24 => Step::Follow(take(40)),
            25..=26 => Step::Batch(take(160)),
            27 => Step::Tick(take(1).first().copied().unwrap_or(0)),
            other => {
                take(0);
                match other {
                    28 => Step::Export,
                    29 => Step::Copy,
                    30 => Step::Snapshot,
                    _ => Step::Restore,
                }
            }
        };
        machine.step(&step).map_err(|why| machine.report(&why))?;
    }
    machine.end().map_err(|why| machine.report(&why))
}

struct Opened<'a> {
    harness: &'a dyn Harness,
    place: Box<dyn Place>,
    store: Arc<dyn Store>,
}

/// A list that has another page, and the cursor to it in each store.
struct Followed {
    list: Query,
    bookmark: Bookmark,
    cursors: Vec<String>,
}

struct Machine<'a> {
    oracle: Oracle,
    clock: Arc<ManualClock>,
    options: Options,
    opened: Vec<Opened<'a>>,
    followed: Option<Followed>,
    snapshots: Option<(Oracle, Vec<Vec<u8>>)>,
    log: Vec<String>,
}

type Checked = Result<(), String>;

impl<'a> Machine<'a> {
    fn open(harnesses: &[&'a dyn Harness]) -> Result<Self, String> {
        let clock = Arc::new(ManualClock::new(time(0)));
        let options = Options::new().with("max_payload_bytes", &MAX_PAYLOAD_BYTES.to_string()).with_clock(Arc::clone(&clock));
        let mut opened = Vec::new();
        for harness in harnesses {
            assert!(harness.traits().has_clock, "{}: the state machine needs a manual clock", harness.name());
            let place = harness.place();
            let store = place.open(&options)?;
            opened.push(Opened { harness: *harness, place, store });
        }
        let oracle = Oracle::new(MAX_PAYLOAD_BYTES);
        Ok(Machine { oracle, clock, options, opened, followed: None, snapshots: None, log: Vec::new() })
    }

    fn now(&self) -> Time {
        runledger_core::Clock::now(&*self.clock)
    }

    fn step(&mut self, step: &Step) -> Checked {
        match step {
            Step::Command(bytes) => {
                let command = Generator::new(&self.oracle, &mut Dice::new(bytes)).command();
                let expected = self.oracle.command(&command, self.now());
                self.ask(&command.to_json(), &expected)
            }
            Step::Batch(bytes) => self.batch(&mut Dice::new(bytes)),
            Step::Query(bytes) => {
                let query = Generator::new(&self.oracle, &mut Dice::new(bytes)).query();
                self.query(query)
            }
            Step::Follow(bytes) => self.follow(&mut Dice::new(bytes)),
            Step::Tick(ticks) => {
                // Only three quarters of the moves go forward.
                self.clock.advance_us((i64::from(*ticks) - 64) * 250_000);
                self.log.push(format!("# the stores' clock stands at {}", self.now()));
                Ok(())
            }
            Step::Export => self.export(),
            Step::Verify => self.verify(),
            Step::Reopen => self.reopen(),
            Step::Copy => self.copy(),
            Step::Snapshot => self.snapshot(),
            Step::Restore => self.restore(),
        }
    }

    /// What must hold after every sequence.
    fn end(&mut self) -> Checked {
        self.verify()?;
        self.export()?;
        self.reopen()?;
        self.verify()?;
        self.export()?;
        self.each("close", |opened| opened.store.close()).map(drop)
    }

    /// Commands that each fit what the ones before leave behind. Two of the same place in it may still collide.
    fn batch(&mut self, dice: &mut Dice<'_>) -> Checked {
        let mut ahead = self.oracle.clone();
        let mut commands = Vec::new();
        for _ in 0..=dice.below(6) {
            let command = Generator::new(&ahead, dice).command();
            // A command that is refused by itself is left out mostly, so that batches get through.
            if ahead.command(&command, self.now()).is_ok() || dice.chance(30) {
                commands.push(command);
            }
        }
        let request =
            format!(r#"{{"op":"batch","commands":[{}]}}"#, commands.iter().map(|command| command.to_json()).collect::<Vec<_>>().join(","));
        let expected = self.oracle.batch(&commands, self.now());
        self.ask(&request, &expected)
    }

    fn query(&mut self, query: Query) -> Checked {
        let expected = self.oracle.query(&query, None);
        let requests = vec![query.to_json(); self.opened.len()];
        self.ask_each(&requests, &expected, query)
    }

    fn follow(&mut self, dice: &mut Dice<'_>) -> Checked {
        let Some(Followed { list, bookmark, cursors }) = self.followed.take() else {
            let list = Generator::new(&self.oracle, dice).list();
            return self.query(with_cursor(list, "AAAA"));
        };
        // Mostly the next page of the list; otherwise a list that the cursor may not fit.
        let list = match dice.below(8) {
            0..=4 => without_offset(list),
            5 => with_order(without_offset(list), dice.one(Order::ALL)),
            _ => Generator::new(&self.oracle, dice).list(),
        };
        let requests: Vec<String> = cursors.iter().map(|cursor| with_cursor(list.clone(), cursor).to_json()).collect();
        let expected = self.oracle.query(&with_cursor(list.clone(), "given"), Some(&bookmark));
        self.ask_each(&requests, &expected, list)
    }

    fn ask(&mut self, request: &str, expected: &Expected) -> Checked {
        self.log.push(request.to_owned());
        for opened in &self.opened {
            let answer = opened.store.call(request);
            if let Some(difference) = difference(expected, &answer) {
                return Err(format!("{} answered: {answer}\n{difference}", opened.harness.name()));
            }
        }
        Ok(())
    }

    /// Asks each store with a request of its own, and keeps the cursors that they answer.
    fn ask_each(&mut self, requests: &[String], expected: &Expected, query: Query) -> Checked {
        self.log.extend(requests.first().cloned());
        let mut cursors = Vec::new();
        for (opened, request) in self.opened.iter().zip(requests) {
            let answer = opened.store.call(request);
            if let Some(difference) = difference(expected, &answer) {
                return Err(format!("{} answered: {answer}\n{difference}", opened.harness.name()));
            }
            cursors.extend(split_cursor(&answer).1.map(str::to_owned));
        }
        if let Ok(reply) = expected
            && let Some(bookmark) = reply.next.clone()
        {
            self.followed = Some(Followed { list: query, bookmark, cursors });
        }
        Ok(())
    }

    fn each<T>(&mut self, what: &str, mut act: impl FnMut(&mut Opened<'a>) -> Result<T, String>) -> Result<Vec<T>, String> {
        self.opened
            .iter_mut()
            .map(|opened| act(opened).map_err(|error| format!("{}: {what} answered {error}", opened.harness.name())))
            .collect()
    }

    fn export(&mut self) -> Checked {
        self.log.push("# export".to_owned());
        let wanted = self.oracle.export();
        self.each("export", |opened| {
            let stream = String::from_utf8_lossy(&opened.store.export()?).into_owned();
            let differing = wanted.lines().zip(stream.lines()).find(|(wanted, found)| wanted != found);
            match differing {
                _ if stream == wanted => Ok(()),
                Some((wanted, found)) => Err(format!("the line {found}\nwanted: {wanted}")),
                None => Err(format!("{} bytes, wanted: {}", stream.len(), wanted.len())),
            }
        })
        .map(drop)
    }

    fn verify(&mut self) -> Checked {
        let query = Query::from(VerifyStore::new());
        let expected = self.oracle.query(&query, None);
        let request = query.to_json();
        self.log.push(request.clone());
        self.each("store.verify", |opened| {
            let answer = opened.store.call(&request);
            let checked = answer.replace(r#""engineCheck":"skipped""#, r#""engineCheck":"done""#);
            difference(&expected, &checked).map_or(Ok(()), |difference| Err(format!("{answer}\n{difference}")))
        })
        .map(drop)
    }

    /// Closes and opens every store that outlives its handle.
    fn reopen(&mut self) -> Checked {
        self.log.push("# close and open again".to_owned());
        let options = self.options.clone();
        self.each("close or open", |opened| {
            if opened.harness.traits().is_lasting {
                opened.store.close()?;
                opened.store = opened.place.open(&options)?;
            }
            Ok(())
        })
        .map(drop)
    }

    /// The second time, every record is there already.
    fn copy(&mut self) -> Checked {
        self.log.push("# import of the export into a fresh store, twice".to_owned());
        let stream = self.oracle.export();
        let (runs, nodes, agents) = (self.oracle.runs().len(), self.oracle.nodes().len(), self.oracle.agents().len());
        let first = format!(r#"{{"runs":{runs},"nodes":{nodes},"agents":{agents},"skipped":0}}"#);
        let second = format!(r#"{{"runs":0,"nodes":0,"agents":0,"skipped":{}}}"#, runs + nodes + agents);
        let options = self.options.clone();
        self.each("copy", |opened| {
            let place = opened.harness.place();
            let copy = place.open(&options)?;
            for wanted in [&first, &second] {
                let imported = copy.import(stream.as_bytes())?;
                if imported != *wanted {
                    return Err(format!("{imported}\nwanted: {wanted}"));
                }
            }
            let is_same = copy.export()? == stream.as_bytes();
            copy.close()?;
            is_same.then_some(()).ok_or_else(|| "an export that is not what was imported".to_owned())
        })
        .map(drop)
    }

    fn snapshot(&mut self) -> Checked {
        self.log.push("# snapshot".to_owned());
        let snapshots = self.each("snapshot", |opened| opened.store.snapshot())?;
        self.snapshots = Some((self.oracle.clone(), snapshots));
        Ok(())
    }

    fn restore(&mut self) -> Checked {
        let Some((oracle, snapshots)) = self.snapshots.take() else { return Ok(()) };
        self.log.push("# restore".to_owned());
        let mut next = snapshots.iter();
        self.each("restore", |opened| next.next().map_or(Ok(()), |snapshot| opened.store.restore(snapshot)))?;
        self.oracle = oracle;
        Ok(())
    }

    fn report(&self, why: &str) -> String {
        format!("after these requests:\n{}\n{why}", self.log.join("\n"))
    }
}

/// A query with a change of the page fields, if it is a list.
macro_rules! changed {
    ($query:expr, $list:ident => $change:expr) => {
        match $query {
            Query::ListRuns(mut $list) => {
                $change;
                Query::from($list)
            }
            Query::ListNodes(mut $list) => {
                $change;
                Query::from($list)
            }
            Query::ListAgents(mut $list) => {
                $change;
                Query::from($list)
            }
            Query::ListProjects(mut $list) => {
                $change;
                Query::from($list)
            }
            other => other,
        }
    };
}

fn with_cursor(query: Query, cursor: &str) -> Query {
    changed!(query, list => list.cursor = Some(cursor.to_owned()))
}

fn without_offset(query: Query) -> Query {
    changed!(query, list => list.offset = None)
}

fn with_order(query: Query, order: Order) -> Query {
    changed!(query, list => list.order = Some(order))
}
