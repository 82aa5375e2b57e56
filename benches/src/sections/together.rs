//! Many callers at full durability, held against one.

use std::cell::RefCell;

use runledger::{AsyncLedger, Durability, Ledger};
use runledger_benches::Result;
use runledger_benches::drive::{alone_watched, batches, command, make_for, tasks, threads};
use runledger_benches::floor::{Floor, Redb, Sqlite, connect};
use runledger_benches::measure::{Contest, Results};
use runledger_benches::report::{Report, Row};
use runledger_benches::store::{self, Kind};
use runledger_benches::workload::Maker;

use crate::Context;

const SECTION: &str = "Together, full: transitions a second";
const ONE: &str = "1 caller";
const BATCH: &str = "batch of 100";
const JSON_BATCH: &str = "batch of 100, JSON form";
const HAND_BATCH: &str = "batch of 100 by hand";

/// Those who keep a ledger.
const CONTENDERS: usize = 8;

/// More than any backend does, so that no caller runs out of work.
const MOST_PER_SECOND: f64 = 200_000.0;

/// What the ledger gains at least over one caller: with so many threads, tasks, or in batches.
fn goals(kind: Kind) -> [(&'static str, f64); 5] {
    match kind {
        Kind::Redb => [("16 threads", 5.0), ("64 threads", 9.0), ("64 tasks", 11.0), ("256 tasks", 20.0), (BATCH, 22.0)],
        _ => [("16 threads", 4.0), ("64 threads", 7.0), ("64 tasks", 9.0), ("256 tasks", 12.0), (BATCH, 13.0)],
    }
}

pub(crate) fn measure(context: &Context, report: &mut Report) -> Result<()> {
    for kind in context.backends(&[Kind::Sqlite, Kind::Redb]) {
        // Each has a store of its own: one that others fill too would be larger than that of the work by hand.
        let names: Vec<String> = (0..CONTENDERS).map(|n| format!("together-{n}")).collect();
        let create = |name: &String| store::create(kind, Durability::Full, &context.dir, name);
        let ledgers = names.iter().map(create).collect::<Result<Vec<_>>>()?;
        store::remove(kind, &context.dir, "hand");
        let path = store::path(kind, &context.dir, "hand");
        let results = if kind == Kind::Sqlite {
            let conn = connect(&path, Durability::Full, true)?;
            let mut floor = Sqlite::new(&conn)?;
            hold(context, &ledgers, &mut floor)?
        } else {
            hold(context, &ledgers, &mut Redb::create(&path)?)?
        };
        let one = results.of(ONE)?;
        report.push(Row::rate(SECTION, kind.as_str(), ONE, one));
        report
            .push(Row::rate(SECTION, kind.as_str(), "4 threads", results.of("4 threads")?).against(ONE, results.of("4 threads")?.to(one)));
        for (name, least) in goals(kind) {
            let measured = results.of(name)?;
            report.push(Row::rate(SECTION, kind.as_str(), name, measured).against(ONE, measured.to(one)).at_least(least));
            if name == "64 threads"
                && let Some(latency) = &measured.latency
            {
                let ratio = latency.value_at_percentile(99.0) as f64 / latency.value_at_percentile(50.0) as f64;
                let figure = runledger_benches::measure::Summary::of([ratio]);
                report.push(Row::new(SECTION, kind.as_str(), "64 threads, p99 to p50", figure, "times").at_most(6.0));
            }
        }
        let json = results.of(JSON_BATCH)?;
        report.push(Row::rate(SECTION, kind.as_str(), JSON_BATCH, json).against(ONE, json.to(one)));
        let (batch, by_hand) = (results.of(BATCH)?, results.of(HAND_BATCH)?);
        report.push(Row::rate(SECTION, kind.as_str(), BATCH, batch).against("by hand", batch.to(by_hand)));
        report.push(Row::rate(SECTION, "floor", format!("{} by hand, groups of 100", kind.as_str()), by_hand));
        ledgers.iter().try_for_each(Ledger::close)?;
        names.iter().for_each(|name| store::remove(kind, &context.dir, name));
        store::remove(kind, &context.dir, "hand");
    }
    Ok(())
}

fn hold(context: &Context, ledgers: &[Ledger], floor: &mut dyn Floor) -> Result<Results> {
    let maker = &Maker::new(context.ids).with_payload_bytes(context.payload);
    let by_hand = &Maker::new(context.ids).with_payload_bytes(context.payload);
    let runtime = &tokio::runtime::Builder::new_multi_thread().build()?;
    let floor = RefCell::new(floor);
    let mut ledgers = ledgers.iter();
    let mut next = || ledgers.next().ok_or("there are fewer ledgers than contenders");
    let mut contest = Contest::new();
    let ledger = next()?;
    contest.add(ONE, |each| alone_watched(each, || maker.lifecycle(), |c| command(ledger, c)));
    for callers in [4, 16, 64] {
        let ledger = next()?;
        contest.add(format!("{callers} threads"), move |each| {
            threads(each, make_for(callers, each, MOST_PER_SECOND, || maker.lifecycle())?, |c| command(ledger, c))
        });
    }
    for callers in [64, 256] {
        let handle = AsyncLedger::new(next()?.clone())?;
        contest.add(format!("{callers} tasks"), move |each| {
            tasks(runtime, &handle, each, make_for(callers, each, MOST_PER_SECOND, || maker.lifecycle())?)
        });
    }
    let ledger = next()?;
    contest.add(BATCH, |each| {
        batches(
            each,
            || maker.hundred(),
            |batch| {
                drop(ledger.batch(batch)?);
                Ok(())
            },
        )
    });
    let ledger = next()?;
    contest.add(JSON_BATCH, |each| batches(each, || json_batch(maker), |batch| answered(&ledger.call_json(batch))));
    contest.add(HAND_BATCH, |each| batches(each, || by_hand.hundred(), |batch| floor.borrow_mut().carry_out(&mut batch.into_iter())));
    contest.hold(context.rounds, context.each)
}

fn json_batch(maker: &Maker) -> Result<String> {
    Ok(runledger::Request::Batch(maker.hundred()?).to_json())
}

fn answered(answer: &str) -> Result<()> {
    if answer.starts_with("{\"ok\":") { Ok(()) } else { Err(answer.into()) }
}
