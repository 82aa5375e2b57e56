//! Claims from backlogs of several sizes, against starts of runs that are known by their ids.

use std::collections::VecDeque;
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
const BY_ID: &str = "queue-by-id";

pub(crate) fn measure(context: &Context, report: &mut Report) -> Result<()> {
    for kind in context.backends(&Kind::ALL) {
        measure_at(context, report, kind, Durability::Full)?;
        if kind == Kind::Sqlite {
            measure_at(context, report, kind, Durability::Relaxed)?;
        }
    }
    Ok(())
}

fn name_of(backlog: u64) -> String {
    format!("queue-{backlog}")
}

fn measure_at(context: &Context, report: &mut Report, kind: Kind, durability: Durability) -> Result<()> {
    let mut backlogs = Vec::new();
    for backlog in BACKLOGS {
        let ledger = store::create(kind, durability, &context.dir, &name_of(backlog))?;
        let maker = Maker::new(context.ids).with_payload_bytes(context.payload);
        enqueue(&ledger, &maker, backlog)?;
        backlogs.push((backlog, ledger, maker));
    }
    // Those who know their runs take them out of a ledger of their own, so that theirs is known whole.
    let by_id = store::create(kind, durability, &context.dir, BY_ID)?;
    let by_id_maker = &Maker::new(context.ids).with_payload_bytes(context.payload);
    let known = &Mutex::new(VecDeque::from(enqueue(&by_id, by_id_maker, BACKLOGS[2])?));
    let by_id = &by_id;
    let mut contest = Contest::new();
    for (backlog, ledger, maker) in &backlogs {
        contest.add(format!("claim {backlog}"), move |each| {
            // As many join the queue as leave it, with the clock stopped.
            let make = || enqueue(ledger, maker, 100).map(|_| (0..100).map(|_| maker.claim()).collect());
            alone(each, make, |c| claimed(ledger.request(Request::Command(c))?))
        });
        contest.add(format!("start {backlog}"), move |each| {
            let make = || enqueue(ledger, maker, 100)?.into_iter().map(|n| maker.start_queued(n)).collect();
            alone(each, make, |c| command(ledger, c))
        });
    }
    if let Some((_, ledger, maker)) = backlogs.last() {
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
    by_id.close()?;
    store::remove(kind, &context.dir, BY_ID);
    for (backlog, ledger, _) in backlogs {
        ledger.close()?;
        store::remove(kind, &context.dir, &name_of(backlog));
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
        while began.elapsed() < each {
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
