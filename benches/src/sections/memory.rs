//! The store in memory: against a map, on two threads, and with readers beside a writer.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use runledger::{Durability, Ledger, ListRuns};
use runledger_benches::Result;
use runledger_benches::drive::{alone_watched, command, side_by_side};
use runledger_benches::measure::{Contest, Sample, Summary, histogram};
use runledger_benches::report::{Report, Row};
use runledger_benches::store::{self, Kind};
use runledger_benches::workload::{Maker, PROJECT};

use super::one;
use crate::Context;

const SECTION: &str = "Memory: transitions a second";

pub(crate) fn measure(context: &Context, report: &mut Report) -> Result<()> {
    for kind in context.backends(&[Kind::Memory]) {
        let results = one::contest(context, kind, Durability::Full, context.ids)?;
        let (ours, map) = (results.of("ledger")?, results.of("by hand")?);
        let is_met = ours.to(map).median >= 0.5 || ours.rate().median >= 550_000.0;
        let row = Row::rate(SECTION, kind.as_str(), "lifecycle", ours).against("two maps", ours.to(map));
        report.push(row.goal("≥ 0.5 or 550,000 /s", is_met));
        report.push(Row::rate(SECTION, "floor", "two maps of shared records", map));
        projects(context, report)?;
        readers(context, report)?;
    }
    Ok(())
}

fn maker(context: &Context, project: &'static str) -> Maker {
    let mut maker = Maker::new(context.ids).with_payload_bytes(context.payload);
    maker.project = project;
    maker
}

/// Two projects, each with a thread of its own, against one.
fn projects(context: &Context, report: &mut Report) -> Result<()> {
    let open = || store::open(Kind::Memory, Durability::Full, &context.dir, "");
    let (single, double): (Ledger, Ledger) = (open()?, open()?);
    let (shop, depot) = (&maker(context, PROJECT), &maker(context, "depot"));
    let alone = &maker(context, PROJECT);
    let mut contest = Contest::new();
    contest.add("one", |each| side_by_side(each, vec![|| alone.lifecycle()], |c| command(&single, c)));
    let both = [shop, depot];
    contest.add("two", |each| side_by_side(each, both.map(|maker| || maker.lifecycle()).into(), |c| command(&double, c)));
    let results = contest.hold(context.rounds, context.each)?;
    let (one, two) = (results.of("one")?, results.of("two")?);
    report.push(Row::rate(SECTION, "memory", "one project, one thread", one));
    report.push(Row::rate(SECTION, "memory", "two projects, two threads", two).against("one", two.to(one)).at_least(1.6));
    Ok(())
}

/// A writer, alone and beside two readers of pages in its project; and what a page takes beside it.
fn readers(context: &Context, report: &mut Report) -> Result<()> {
    let ledger = store::open(Kind::Memory, Durability::Full, &context.dir, "")?;
    let maker = maker(context, PROJECT);
    for _ in 0..1000 {
        maker.lifecycle()?.into_iter().try_for_each(|c| command(&ledger, c))?;
    }
    let page = || ListRuns::new(PROJECT).with_with_total(false);
    let mut pages = histogram()?;
    let mut contest = Contest::new();
    contest.add("alone", |each| alone_watched(each, || maker.lifecycle(), |c| command(&ledger, c)));
    contest.add("page alone", |each| {
        alone_watched(
            each,
            || Ok((0..100).map(|_| page()).collect()),
            |page| {
                drop(ledger.list_runs(page)?);
                Ok(())
            },
        )
    });
    contest.add("beside readers", |each| {
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let readers: Vec<_> = (0..2).map(|_| scope.spawn(|| read_pages(&ledger, &stop))).collect();
            let written = alone_watched(each, || maker.lifecycle(), |c| command(&ledger, c));
            stop.store(true, Ordering::Relaxed);
            for reader in readers {
                let sample = reader.join().map_err(|_| "a reader panicked")??;
                pages.add(sample.latency.ok_or("a reader did not watch")?)?;
            }
            written
        })
    });
    let results = contest.hold(context.rounds, context.each)?;
    report.push(Row::rate(SECTION, "memory", "writer alone, watched", results.of("alone")?));
    report.push(Row::rate(SECTION, "memory", "writer beside two readers", results.of("beside readers")?));
    report.push(Row::rate(SECTION, "memory", "pages of 50, one reader alone", results.of("page alone")?));
    let half = pages.value_at_percentile(50.0) as f64 / 1000.0;
    report.push(Row::new(SECTION, "memory", "page of 50 beside the writer, p50", Summary::of([half]), "µs"));
    Ok(())
}

fn read_pages(ledger: &Ledger, stop: &AtomicBool) -> Result<Sample> {
    let (mut latency, began) = (histogram()?, Instant::now());
    let mut count = 0;
    while !stop.load(Ordering::Relaxed) {
        let asked = Instant::now();
        ledger.list_runs(ListRuns::new(PROJECT).with_with_total(false))?;
        latency.saturating_record(asked.elapsed().as_nanos() as u64);
        count += 1;
    }
    Ok(Sample { count, elapsed: began.elapsed(), busy: None, latency: Some(latency) })
}
