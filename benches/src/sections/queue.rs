//! Claims from backlogs of several sizes, against starts of runs that are known by their ids.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use runledger::{Answer, Durability, Ledger, Request};
use runledger_benches::Result;
use runledger_benches::drive::{alone, command, fill};
use runledger_benches::measure::{Contest, Sample, Summary};
use runledger_benches::report::{Report, Row};
use runledger_benches::store::{self, Kind};
use runledger_benches::workload::{Maker, token};

use crate::Context;

const SECTION: &str = "Queue";
const BACKLOGS: [u64; 3] = [1_000, 10_000, 100_000];
const WORKERS: [usize; 2] = [4, 16];
const RAN_EMPTY: &str = "the queue ran empty";

pub(crate) fn measure(context: &Context, report: &mut Report) -> Result<()> {
    for kind in context.backends(&Kind::ALL) {
        measure_at(context, report, kind, Durability::Full)?;
        if kind == Kind::Sqlite {
            measure_at(context, report, kind, Durability::Relaxed)?;
        }
    }
    Ok(())
}

fn measure_at(context: &Context, report: &mut Report, kind: Kind, durability: Durability) -> Result<()> {
    let open = |name: String, backlog| -> Result<_> {
        let ledger = store::create(kind, durability, &context.dir, &name)?;
        let maker = Maker::new(context.ids).with_payload_bytes(context.payload);
        let known = Mutex::new(VecDeque::from(enqueue(&ledger, &maker, backlog)?));
        Ok((name, ledger, maker, known))
    };
    // Those who know their runs take them out of ledgers of their own, where they know all; the oldest first, as a claim does.
    let backlogs = BACKLOGS.map(|backlog| (backlog, open(format!("queue-{backlog}"), backlog), open(format!("known-{backlog}"), backlog)));
    let backlogs = backlogs.into_iter().map(|(n, claims, starts)| Ok((n, claims?, starts?))).collect::<Result<Vec<_>>>()?;
    let mut contest = Contest::new();
    for (backlog, (_, ledger, maker, _), (_, by_id, by_id_maker, known)) in &backlogs {
        contest.add(format!("claim {backlog}"), move |each| {
            // As many join the queue as leave it, with the clock stopped.
            let make = || enqueue(ledger, maker, 100).map(|_| (0..100).map(|_| maker.claim()).collect());
            alone(each, make, |c| claimed(ledger.request(Request::Command(c))?))
        });
        contest.add(format!("start {backlog}"), move |each| {
            let make = || {
                let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
                known.extend(enqueue(by_id, by_id_maker, 100)?);
                known.drain(..100).map(|n| by_id_maker.start_queued(n)).collect()
            };
            alone(each, make, |c| command(by_id, c))
        });
    }
    if let Some((_, (_, ledger, maker, _), (_, by_id, by_id_maker, known))) = backlogs.last() {
        for workers in WORKERS {
            contest.add(format!("{workers} workers claim"), move |each| work(ledger, maker, workers, each, None));
            contest.add(format!("{workers} workers start"), move |each| work(by_id, by_id_maker, workers, each, Some(known)));
        }
    }
    let results = contest.hold(context.rounds, context.each)?;
    let subject = kind.as_str();
    let few = results.of(&format!("claim {}", BACKLOGS[0]))?;
    for backlog in BACKLOGS {
        let (claim, start) = (results.of(&format!("claim {backlog}"))?, results.of(&format!("start {backlog}"))?);
        let row =
            Row::rate(SECTION, subject, format!("claims, {durability}, of {backlog} queued"), claim).against("starts", claim.to(start));
        report.push(if backlog == 100_000 { row.at_least(0.8) } else { row });
        if backlog == 100_000 {
            let row = Row::rate(SECTION, subject, format!("claims, {durability}, of {backlog} queued"), claim);
            let ratio: Summary = claim.to(few);
            report.push(row.against("of 1000 queued", ratio).at_least(0.8));
        }
    }
    for workers in WORKERS {
        let (claim, start) = (results.of(&format!("{workers} workers claim"))?, results.of(&format!("{workers} workers start"))?);
        let row = Row::rate(SECTION, subject, format!("{workers} workers claim and finish, {durability}"), claim);
        report.push(row.against("start and finish", claim.to(start)).at_least(0.8));
    }
    for (name, ledger, ..) in backlogs.into_iter().flat_map(|(_, claims, starts)| [claims, starts]) {
        ledger.close()?;
        store::remove(kind, &context.dir, &name);
    }
    Ok(())
}

fn enqueue(ledger: &Ledger, maker: &Maker, count: u64) -> Result<Vec<u64>> {
    let made = (0..count).map(|_| maker.queued()).collect::<Result<Vec<_>>>()?;
    let (numbers, commands): (Vec<_>, Vec<_>) = made.into_iter().unzip();
    fill(ledger, commands.into_iter().map(Ok))?;
    Ok(numbers)
}

fn claimed(answer: Answer) -> Result<()> {
    match answer {
        Answer::MaybeRun(Some(_)) => Ok(()),
        _ => Err(RAN_EMPTY.into()),
    }
}

/// The runs that are queued, for workers that know them.
type Known = Mutex<VecDeque<u64>>;

/// Workers that each take a run and finish it, and so on; counted are both. As many are queued again afterwards.
fn work(ledger: &Ledger, maker: &Maker, workers: usize, each: Duration, known: Option<&Known>) -> Result<Sample> {
    let began = Instant::now();
    // A store in memory may be done before its time is.
    let left = AtomicI64::new(BACKLOGS[2] as i64 - 100);
    let take = || -> Result<(String, String)> {
        if let Some(known) = known {
            let n = known.lock().unwrap_or_else(PoisonError::into_inner).pop_front().ok_or(RAN_EMPTY)?;
            command(ledger, maker.start_queued(n)?)?;
            return Ok((maker.run_id(n), token(n)));
        }
        let Answer::MaybeRun(Some(run)) = ledger.request(Request::Command(maker.claim()))? else { return Err(RAN_EMPTY.into()) };
        let own = run.execution.ok_or("a claimed run has an owner")?.token;
        Ok((run.id.to_string(), own.to_string()))
    };
    let worker = || -> Result<u64> {
        let mut done = 0;
        while began.elapsed() < each && left.fetch_sub(1, Ordering::Relaxed) > 0 {
            let (run, own) = take()?;
            command(ledger, maker.finish(&run, &own)?)?;
            done += 2;
        }
        Ok(done)
    };
    let done = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..workers).map(|_| scope.spawn(worker)).collect();
        workers.into_iter().map(|worker| worker.join().map_err(|_| "a worker panicked")?).sum::<Result<u64>>()
    })?;
    let elapsed = began.elapsed();
    let queued = enqueue(ledger, maker, done / 2)?;
    if let Some(known) = known {
        known.lock().unwrap_or_else(PoisonError::into_inner).extend(queued);
    }
    Ok(Sample { count: done, elapsed, busy: None, latency: None })
}
