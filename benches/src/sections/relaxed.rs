//! SQLite without a flush for each commit, and heartbeats.

use runledger::{Command, Durability, Ledger};
use runledger_benches::Result;
use runledger_benches::drive::{alone, alone_watched, command, fill};
use runledger_benches::floor::{Floor, Sqlite, connect};
use runledger_benches::measure::Contest;
use runledger_benches::report::{Report, Row};
use runledger_benches::store::{self, Kind};
use runledger_benches::workload::{Maker, mix};

use super::one;
use crate::Context;

const SECTION: &str = "Relaxed, and heartbeats";

/// How many runs have a heartbeat.
const RUNNING: u64 = 10_000;

pub(crate) fn measure(context: &Context, report: &mut Report) -> Result<()> {
    for kind in context.backends(&[Kind::Sqlite]) {
        let results = one::contest(context, kind, Durability::Relaxed, context.ids)?;
        let (ours, hand) = (results.of("ledger")?, results.of("by hand")?);
        report.push(Row::rate(SECTION, kind.as_str(), "lifecycle, relaxed", ours).against("by hand", ours.to(hand)).at_least(0.80));
        report.push(Row::rate(SECTION, "floor", "lifecycle by hand, relaxed", hand));
        for (seconds, durability) in [(1, Durability::Relaxed), (15, Durability::Relaxed), (1, Durability::Full)] {
            heartbeats(context, report, durability, seconds)?;
        }
    }
    for kind in context.backends(&[Kind::Memory, Kind::Redb]) {
        let ledger = store::create(kind, Durability::Full, &context.dir, "beats")?;
        let mut beats = Beats::new(context, 1);
        fill(&ledger, beats.running()?.into_iter().map(Ok))?;
        let mut contest = Contest::new();
        contest.add("ledger", |each| beats.beat(each, &ledger));
        let results = contest.hold(context.rounds, context.each)?;
        report.push(Row::rate(SECTION, kind.as_str(), "heartbeats, full", results.of("ledger")?));
        ledger.close()?;
        store::remove(kind, &context.dir, "beats");
    }
    Ok(())
}

/// Heartbeats on one of many running runs, each moving the end of a lease by some seconds.
struct Beats {
    maker: Maker,
    seconds: i64,
    next: u64,
    runs: Vec<u64>,
}

impl Beats {
    fn new(context: &Context, seconds: i64) -> Beats {
        let maker = Maker::new(context.ids).with_payload_bytes(context.payload);
        Beats { maker, seconds, next: 0, runs: Vec::new() }
    }

    /// The runs, and a first heartbeat for each, which moves it into a bucket of its own time.
    fn running(&mut self) -> Result<Vec<Command>> {
        let mut commands = Vec::new();
        for _ in 0..RUNNING {
            let (n, start) = self.maker.running()?;
            self.runs.push(n);
            commands.push(start);
        }
        commands.extend((0..RUNNING).map(|_| self.next()));
        Ok(commands)
    }

    /// Another run each time, in no order that an index has, all of them once before any is there again.
    fn next(&mut self) -> Command {
        const PLACES: u64 = RUNNING.next_power_of_two();
        loop {
            let (round, step) = (self.next / PLACES, self.next % PLACES);
            self.next += 1;
            // An odd factor, and bits that are turned over, lead to every place once; those beyond the runs are passed over.
            let place = (step.wrapping_mul(0x9e37) ^ mix(round)) % PLACES;
            if let Some(n) = self.runs.get(place as usize) {
                return self.maker.heartbeat(*n, (round as i64 + 1) * self.seconds);
            }
        }
    }

    fn beat(&mut self, each: std::time::Duration, ledger: &Ledger) -> Result<runledger_benches::measure::Sample> {
        alone_watched(each, || Ok((0..100).map(|_| self.next()).collect()), |c| command(ledger, c))
    }
}

fn heartbeats(context: &Context, report: &mut Report, durability: Durability, seconds: i64) -> Result<()> {
    let ledger = store::create(Kind::Sqlite, durability, &context.dir, "beats")?;
    let mut ours = Beats::new(context, seconds);
    fill(&ledger, ours.running()?.into_iter().map(Ok))?;
    let (mut bare, mut indexed) = (Beats::new(context, seconds), Beats::new(context, seconds));
    let mut floors = Vec::new();
    for (name, has_lease_index) in [("bare", false), ("indexed", true)] {
        store::remove(Kind::Sqlite, &context.dir, name);
        floors.push(connect(&store::path(Kind::Sqlite, &context.dir, name), durability, has_lease_index)?);
    }
    let mut loops = floors.iter().map(Sqlite::new).collect::<Result<Vec<_>>>()?;
    for (floor, beats) in loops.iter_mut().zip([&mut bare, &mut indexed]) {
        for start in beats.running()? {
            // A floor knows only starts of queued runs.
            if let Command::StartRun(c) = &start {
                let queue = runledger::QueueRun::new(&c.project_id, &c.id, &c.workflow_id, c.input.clone());
                let queue = c.started_at.map_or(queue.clone(), |at| queue.with_queued_at(at));
                floor.carry_out(&mut [queue.into(), start].into_iter())?;
            } else {
                floor.carry_out(&mut std::iter::once(start))?;
            }
        }
    }
    let mut contest = Contest::new();
    contest.add("ledger", |each| ours.beat(each, &ledger));
    for ((name, floor), beats) in ["no lease index", "by hand"].into_iter().zip(&mut loops).zip([&mut bare, &mut indexed]) {
        contest.add(name, move |each| {
            alone(each, || Ok((0..100).map(|_| beats.next()).collect()), |c| floor.carry_out(&mut std::iter::once(c)))
        });
    }
    let results = contest.hold(context.rounds, context.each)?;
    let (ours, bare, hand) = (results.of("ledger")?, results.of("no lease index")?, results.of("by hand")?);
    let what = format!("heartbeats of {seconds} s, {durability}");
    let row = Row::rate(SECTION, "sqlite", what.clone(), ours).against("no lease index", ours.to(bare));
    let is_met = ours.to(bare).median >= 0.75 || ours.rate().median >= 42_000.0;
    report.push(if durability == Durability::Relaxed { row.goal("≥ 0.75 or 42,000 /s", is_met) } else { row });
    report.push(Row::rate(SECTION, "sqlite", what.clone(), ours).against("by hand", ours.to(hand)));
    report.push(Row::rate(SECTION, "floor", format!("{what}, by hand"), hand));
    report.push(Row::rate(SECTION, "floor", format!("{what}, no lease index"), bare));
    drop(loops);
    drop(floors);
    ledger.close()?;
    ["beats", "bare", "indexed"].iter().for_each(|name| store::remove(Kind::Sqlite, &context.dir, name));
    Ok(())
}
