//! Inputs of 10 MiB beside such of a common size, in one store.

use std::time::Instant;

use runledger::{AnswerForm, Command, Durability, GetRun, Ledger, Request};
use runledger_benches::Result;
use runledger_benches::drive::{alone_few, command, fill};
use runledger_benches::measure::{Contest, Summary};
use runledger_benches::report::{Report, Row};
use runledger_benches::store::{self, Kind};
use runledger_benches::workload::{Maker, PROJECT, TRANSITIONS};

use crate::Context;

const SECTION: &str = "Inputs of 10 MiB";
const LARGE_BYTES: usize = 10 << 20;

/// How many runs of a common size there are, and how many large ones.
const COMMON: u64 = 10_000;
const LARGE: u64 = 8;

/// How many lifecycles are lived in a round, with large inputs and without.
const LIVES: usize = 9;

pub(crate) fn measure(context: &Context, report: &mut Report) -> Result<()> {
    for kind in context.backends(&Kind::ALL) {
        let ledger = store::create(kind, Durability::Full, &context.dir, "large")?;
        lives(context, report, kind, &ledger)?;
        heartbeats(context, report, kind, &ledger)?;
        ledger.close()?;
        store::remove(kind, &context.dir, "large");
    }
    Ok(())
}

fn maker(context: &Context, input_bytes: usize, answer: AnswerForm, first: u64) -> Maker {
    let mut maker = Maker::new(context.ids).starting_at(first);
    (maker.input_bytes, maker.answer) = (input_bytes, answer);
    maker
}

/// Lifecycles, of which every command but the first two carries as much as any.
fn lives(context: &Context, report: &mut Report, kind: Kind, ledger: &Ledger) -> Result<()> {
    let common = maker(context, 310, AnswerForm::State, 1);
    let large = maker(context, LARGE_BYTES, AnswerForm::State, 1_000_000);
    let (mut common_rounds, mut large_rounds) = (Vec::new(), Vec::new());
    for _ in 0..=context.rounds {
        common_rounds.push(live(ledger, &common)?);
        large_rounds.push(live(ledger, &large)?);
    }
    // The first round does not count.
    for (place, what) in [(2, "nodes.start"), (3, "nodes.finish"), (8, "runs.confirm"), (9, "runs.finish")] {
        let micros = |rounds: &[Vec<f64>]| rounds[1..].iter().map(|round| round[place]).collect::<Vec<_>>();
        let (common, large) = (micros(&common_rounds), micros(&large_rounds));
        let ratio = Summary::of(large.iter().zip(&common).map(|(large, common)| large / common));
        let row = Row::new(SECTION, kind.as_str(), format!("{what} under a run of 10 MiB"), Summary::of(large), "µs");
        let row = row.against("310 bytes", ratio);
        // In memory it is a microsecond, in which the processor's cache tells more than the store.
        report.push(if kind == Kind::Memory { row } else { row.at_most(1.4) });
    }
    Ok(())
}

/// What each of the ten commands took, in µs: the median of some lives, which go forward together, so that the making and
/// storing of large inputs is over when the other commands come.
fn live(ledger: &Ledger, maker: &Maker) -> Result<Vec<f64>> {
    let lives = (0..LIVES).map(|_| maker.lifecycle()).collect::<Result<Vec<_>>>()?;
    let mut lives: Vec<_> = lives.into_iter().map(Vec::into_iter).collect();
    let mut medians = Vec::with_capacity(TRANSITIONS);
    for _ in 0..TRANSITIONS {
        let mut took = Vec::with_capacity(LIVES);
        for made in lives.iter_mut().filter_map(Iterator::next) {
            let began = Instant::now();
            command(ledger, made)?;
            took.push(began.elapsed().as_secs_f64() * 1e6);
        }
        medians.push(Summary::of(took).median);
    }
    Ok(medians)
}

/// Runs that run, and heartbeats of them.
struct Beats {
    maker: Maker,
    runs: Vec<u64>,
    next: u64,
}

impl Beats {
    fn start(ledger: &Ledger, maker: Maker, count: u64) -> Result<Beats> {
        let mut beats = Beats { maker, runs: Vec::new(), next: 0 };
        let mut starts = Vec::new();
        for _ in 0..count {
            let (n, start) = beats.maker.running()?;
            beats.runs.push(n);
            starts.push(start);
        }
        if beats.maker.input_bytes > 1 << 20 {
            starts.into_iter().try_for_each(|start| command(ledger, start))?;
        } else {
            fill(ledger, starts.into_iter().map(Ok))?;
        }
        (0..count).try_for_each(|_| command(ledger, beats.beat(AnswerForm::State)))?;
        Ok(beats)
    }

    fn beat(&mut self, answer: AnswerForm) -> Command {
        let count = self.runs.len() as u64;
        // A step that has no factor in common with the count leads to every run.
        let (round, place) = (self.next / count, self.next.wrapping_mul(7919) % count);
        self.next += 1;
        self.maker.answer = answer;
        self.maker.heartbeat(self.runs[place as usize], round as i64 + 1)
    }
}

fn heartbeats(context: &Context, report: &mut Report, kind: Kind, ledger: &Ledger) -> Result<()> {
    const STATE: AnswerForm = AnswerForm::State;
    const RECORD: AnswerForm = AnswerForm::Record;
    let common = std::cell::RefCell::new(Beats::start(ledger, maker(context, 310, STATE, 2_000_000), COMMON)?);
    let large = std::cell::RefCell::new(Beats::start(ledger, maker(context, LARGE_BYTES, STATE, 3_000_000), LARGE)?);
    // All in turn, as the heartbeats: a single one would stay in the processor's cache.
    let ids: Vec<String> = large.borrow().runs.iter().map(|n| large.borrow().maker.run_id(*n)).collect();
    let mut ids = ids.iter().cycle();
    let mut get = || ids.next().map(|id| Request::Query(GetRun::new(PROJECT, id.as_str()).into())).ok_or("there are no large runs");
    let mut contest = Contest::new();
    for (name, beats, form) in [("common", &common, STATE), ("large", &large, STATE), ("large, whole", &large, RECORD)] {
        contest.add(name, move |each| alone_few(each, 20, || Ok(beats.borrow_mut().beat(form)), |c| command(ledger, c)));
    }
    contest.add("get", move |each| {
        alone_few(
            each,
            10,
            || Ok(get()?),
            |get| {
                drop(ledger.request(get)?);
                Ok(())
            },
        )
    });
    let results = contest.hold(context.rounds, context.each)?;
    let (common_time, large_time) = (results.of("common")?, results.of("large")?);
    let (whole, get) = (results.of("large, whole")?, results.of("get")?);
    let subject = kind.as_str();
    report.push(Row::micros(SECTION, subject, "heartbeat of 310 bytes, state", common_time));
    let row = Row::micros(SECTION, subject, "heartbeat of 10 MiB, state", large_time);
    report.push(row.against("310 bytes", common_time.to(large_time)).at_most(1.4));
    report.push(Row::micros(SECTION, subject, "get of 10 MiB", get));
    let more = Summary::of(
        whole.rates.iter().zip(&large_time.rates).zip(&get.rates).map(|((whole, state), get)| (1.0 / whole - 1.0 / state) * get),
    );
    let row = Row::micros(SECTION, subject, "heartbeat of 10 MiB, whole record", whole).against("one get, beyond state", more);
    // In memory both come down to counting a reference, and the ratio to noise.
    report.push(if kind == Kind::Memory { row } else { row.at_most(1.2) });
    if kind != Kind::Memory {
        for (what, beats) in [("310 bytes", &common), ("10 MiB", &large)] {
            let bytes = written_per_beat(ledger, &mut beats.borrow_mut())?;
            let row = Row::new(SECTION, subject, format!("written per heartbeat of {what}"), Summary::of([bytes]), "kB");
            report.push(row.at_most(if kind == Kind::Sqlite { 10.0 } else { 34.0 }));
        }
    }
    Ok(())
}

/// The bytes handed to the system per heartbeat, those of checkpoints too, in kB.
fn written_per_beat(ledger: &Ledger, beats: &mut Beats) -> Result<f64> {
    const BEATS: u32 = 10_000;
    let before = written()?;
    for _ in 0..BEATS {
        command(ledger, beats.beat(AnswerForm::State))?;
    }
    Ok((written()? - before) as f64 / f64::from(BEATS) / 1000.0)
}

fn written() -> Result<u64> {
    let io = std::fs::read_to_string("/proc/self/io")?;
    let line = io.lines().find_map(|line| line.strip_prefix("wchar: ")).ok_or("the system does not count what is written")?;
    Ok(line.parse()?)
}
