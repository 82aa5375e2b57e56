//! Queries of ledgers of several sizes, and beside them the same by hand.

use std::time::Duration;

use runledger::{
    Answer, Durability, GetRun, GetRunStats, Id, LatestRuns, Ledger, ListNodes, ListRuns, Query, Request, Run, StartNode, Status, Time,
};
use runledger_benches::Result;
use runledger_benches::drive::{asking, fill};
use runledger_benches::floor::{self, Arms, MapPages, Pages, Queries, RedbPages};
use runledger_benches::measure::{Contest, Results};
use runledger_benches::report::{Report, Row};
use runledger_benches::store::{self, Kind};
use runledger_benches::workload::{Maker, PROJECT, WORKFLOWS, payload, time, workflow};

use crate::Context;

const SECTION: &str = "Lists of 50 whole records: µs a query";

/// How many runs are in the time window that is asked for.
const WINDOW: u64 = 1000;

/// What a query may take on each backend, in µs, where all rows of a page are read.
fn page_goal(kind: Kind) -> f64 {
    match kind {
        Kind::Memory => 5.0,
        Kind::Sqlite => 90.0,
        Kind::Redb => 45.0,
    }
}

pub(crate) fn measure(context: &Context, report: &mut Report) -> Result<()> {
    for kind in context.backends(&Kind::ALL) {
        let ledgers = context.runs.iter().map(|runs| grown(context, kind, *runs)).collect::<Result<Vec<_>>>()?;
        let results = hold(context, kind, &ledgers)?;
        report_queries(context, report, kind, &results)?;
        for (runs, ledger) in context.runs.iter().zip(ledgers) {
            ledger.close()?;
            if !context.keep {
                store::remove(kind, &context.dir, &name_of(*runs));
                store::remove(kind, &context.dir, &copy_of(*runs));
            }
        }
    }
    Ok(())
}

fn name_of(runs: u64) -> String {
    format!("lists-{runs}")
}

/// A ledger with so many runs, the newest with 60 node runs.
fn grown(context: &Context, kind: Kind, runs: u64) -> Result<Ledger> {
    let name = name_of(runs);
    if context.keep && kind != Kind::Memory {
        let ledger = store::open(kind, Durability::Full, &context.dir, &name)?;
        if ledger.run_stats(GetRunStats::new(PROJECT))?.by_status.total() == runs + 1 {
            return Ok(ledger);
        }
        ledger.close()?;
    }
    eprintln!("  growing {} to {runs} runs", kind.as_str());
    let ledger = store::create(kind, Durability::Relaxed, &context.dir, &name)?;
    let maker = Maker::new(context.ids).with_payload_bytes(context.payload);
    let mut made = Vec::new().into_iter();
    let mut left = runs;
    let commands = std::iter::from_fn(|| {
        loop {
            if let Some(command) = made.next() {
                return Some(Ok(command));
            }
            left = left.checked_sub(1)?;
            match maker.aged() {
                Ok(commands) => made = commands.into_iter(),
                Err(error) => return Some(Err(error)),
            }
        }
    });
    fill(&ledger, commands)?;
    let start = runledger::StartRun::new(PROJECT, "with-nodes", workflow(0), payload(0, 0, context.payload)?);
    ledger.start_run(start.with_started_at(time(0)))?;
    for index in 0..60 {
        let (id, node) = (format!("node-{index}"), format!("step-{index}"));
        let input = payload(index, 1, context.payload)?;
        let start = StartNode::new(PROJECT, id, "with-nodes", workflow(0), index as u32, "http", node.as_str(), node.as_str(), input);
        ledger.start_node(start.with_started_at(time(index as i64)))?;
    }
    if kind == Kind::Memory {
        return Ok(ledger);
    }
    ledger.close()?;
    store::open(kind, Durability::Full, &context.dir, &name)
}

/// The queries, by name, over a ledger with so many runs. The last five are not pages of runs.
fn queries(ledger: &Ledger, runs: u64) -> Result<Vec<(&'static str, Query)>> {
    let list = || ListRuns::new(PROJECT).with_with_total(false);
    let some: Vec<Id> = (0..3).map(|n| workflow(n).into()).collect();
    let ten: Vec<Id> = (0..WORKFLOWS).map(|n| workflow(n).into()).collect();
    let middle = ledger.list_runs(list().with_offset(runs / 2))?;
    let cursor = middle.next_cursor.ok_or("the ledger has too few runs")?;
    let a_run = middle.rows.first().ok_or("the ledger has too few runs")?.id.clone();
    let (from, to) = window(runs);
    Ok(vec![
        ("newest", list().into()),
        ("newest, with total", list().with_with_total(true).into()),
        ("one workflow", list().with_workflow_id(workflow(3)).into()),
        ("failed", list().with_statuses(vec![Status::Failed]).into()),
        ("3 workflows × 2 statuses", list().with_workflow_ids(some).with_statuses(vec![Status::Failed, Status::Cancelled]).into()),
        ("middle, by cursor", list().with_cursor(cursor).into()),
        ("offset 500", list().with_offset(500_u64).into()),
        ("window of 1,000", list().with_started_after(time(from)).with_started_before(time(to)).into()),
        ("window of 1,000, with total", ListRuns::new(PROJECT).with_started_after(time(from)).with_started_before(time(to)).into()),
        ("latest of 10", LatestRuns::new(PROJECT, ten.clone()).into()),
        ("stats of 10", GetRunStats::new(PROJECT).with_workflow_ids(ten).into()),
        ("get", GetRun::new(PROJECT, a_run).into()),
        ("nodes of a run", ListNodes::new(PROJECT).with_workflow_run_id("with-nodes").with_with_total(false).into()),
    ])
}

fn window(runs: u64) -> (i64, i64) {
    let from = (runs / 2) as i64 * 1_000_000;
    (from, from + (WINDOW as i64 - 1) * 1_000_000)
}

fn hold(context: &Context, kind: Kind, ledgers: &[Ledger]) -> Result<Results> {
    let opened = context.runs.iter().map(|runs| Queries::open(&store::path(kind, &context.dir, &name_of(*runs))));
    let by_hand = if kind == Kind::Sqlite { opened.collect::<Result<Vec<_>>>()? } else { Vec::new() };
    let pages = ledgers.iter().zip(&context.runs).filter_map(|(ledger, runs)| pages_by_hand(context, kind, ledger, *runs).transpose());
    let pages = pages.collect::<Result<Vec<_>>>()?;
    let mut contest = Contest::new();
    for (runs, ledger) in context.runs.iter().zip(ledgers) {
        for (name, query) in queries(ledger, *runs)? {
            let request = Request::Query(query);
            ledger.request(request.clone())?;
            contest.add(format!("{runs} {name}"), move |each| {
                asking(each, || {
                    drop(ledger.request(request.clone())?);
                    Ok(())
                })
            });
        }
    }
    for (runs, queries) in context.runs.iter().zip(&by_hand) {
        add_by_hand(&mut contest, *runs, queries)?;
    }
    for ((runs, ledger), pages) in context.runs.iter().zip(ledgers).zip(&pages) {
        let asked = queries(ledger, *runs)?;
        for (name, arms, until) in arms(*runs) {
            check_same(ledger, &asked, name, &pages.page(&arms, until)?)?;
            contest.add(format!("{runs} {name} by hand"), move |each| {
                asking(each, || {
                    drop(pages.page(&arms, until)?);
                    Ok(())
                })
            });
        }
    }
    contest.hold(context.rounds, (context.each / 10).max(Duration::from_millis(10)))
}

/// The pages of a ledger by hand, where it is not its own file that is asked.
fn pages_by_hand(context: &Context, kind: Kind, ledger: &Ledger, runs: u64) -> Result<Option<Box<dyn Pages>>> {
    match kind {
        Kind::Sqlite => Ok(None),
        Kind::Memory => Ok(Some(Box::new(MapPages::of(ledger, PROJECT)?))),
        Kind::Redb => {
            let copy = copy_of(runs);
            store::remove(kind, &context.dir, &copy);
            let path = store::path(kind, &context.dir, &copy);
            ledger.backup(&path)?;
            Ok(Some(Box::new(RedbPages::open(&path, PROJECT)?)))
        }
    }
}

/// A page by hand has the runs of the ledger's, and the one after them.
fn check_same(ledger: &Ledger, queries: &[(&str, Query)], name: &str, by_hand: &[Run]) -> Result<()> {
    let (_, query) = queries.iter().find(|(asked, _)| *asked == name).ok_or("the ledger is not asked this")?;
    match ledger.request(Request::Query(query.clone()))? {
        Answer::RunPage(page) if by_hand.starts_with(&page.rows) && by_hand.len() <= page.rows.len() + 1 => Ok(()),
        Answer::RunPage(page) => {
            let first = |runs: &[Run]| runs.first().map_or(String::new(), |run| format!("{} of {}", run.id, run.started_at));
            Err(format!("{name}: the page by hand begins with {}, the ledger's with {}", first(by_hand), first(&page.rows)).into())
        }
        _ => Err(format!("{name}: the ledger's answer is no page of runs").into()),
    }
}

fn copy_of(runs: u64) -> String {
    format!("lists-{runs}-copy")
}

/// The ranges of the pages whose time is a goal, each up to a time.
fn arms(runs: u64) -> [(&'static str, Arms, Time); 5] {
    let all = || Status::ALL.to_vec();
    let some = (0..3).map(workflow).collect();
    [
        ("newest", Arms::Project(all()), Time::MAX),
        ("one workflow", Arms::Workflows(vec![workflow(3)], all()), Time::MAX),
        ("failed", Arms::Project(vec![Status::Failed]), Time::MAX),
        ("3 workflows × 2 statuses", Arms::Workflows(some, vec![Status::Failed, Status::Cancelled]), Time::MAX),
        ("middle, by cursor", Arms::Project(all()), middle(runs)),
    ]
}

/// When the run started with which the page behind the cursor begins: it is that of the page in the middle.
fn middle(runs: u64) -> Time {
    const PAGE: u64 = 50;
    // They are counted from 1.
    let passed = runs / 2 + PAGE;
    time((runs - passed) as i64 * 1_000_000)
}

fn add_by_hand<'a>(contest: &mut Contest<'a>, runs: u64, queries: &'a Queries) -> Result<()> {
    let (from, to) = window(runs);
    let (lowest, highest) = (i64::MIN, i64::MAX);
    let mut pages: Vec<_> = arms(runs).into_iter().map(|(name, arms, until)| (name, arms, (lowest, until.unix_us()), 0, false)).collect();
    let all = || Arms::Project(Status::ALL.to_vec());
    pages.push(("newest, with total", all(), (lowest, highest), 0, true));
    pages.push(("offset 500", all(), (lowest, highest), 500, false));
    pages.push(("window of 1,000", all(), (time(from).unix_us(), time(to).unix_us()), 0, false));
    for (name, arms, window, offset, with_total) in pages {
        let mut list = queries.list(PROJECT, &arms, window, offset, with_total)?;
        contest.add(format!("{runs} {name} by hand"), move |each| {
            asking(each, || {
                drop(list.ask()?);
                Ok(())
            })
        });
    }
    let mut get = queries.get()?;
    let project = Id::from(PROJECT);
    contest.add(format!("{runs} get by hand"), move |each| {
        asking(each, || {
            drop(floor::get(&mut get, &project, "with-nodes")?);
            Ok(())
        })
    });
    let mut stats = queries.stats()?;
    let ten: Vec<String> = (0..WORKFLOWS).map(workflow).collect();
    contest.add(format!("{runs} stats of 10 by hand"), move |each| {
        asking(each, || {
            drop(floor::stats(&mut stats, PROJECT, &ten)?);
            Ok(())
        })
    });
    Ok(())
}

/// The queries whose time is a goal.
const PAGES: [&str; 5] = ["newest", "one workflow", "failed", "3 workflows × 2 statuses", "middle, by cursor"];

fn report_queries(context: &Context, report: &mut Report, kind: Kind, results: &Results) -> Result<()> {
    let subject = kind.as_str();
    let most = context.runs.iter().copied().max().ok_or("no size was asked for")?;
    let names = [
        &PAGES[..],
        &["newest, with total", "offset 500", "window of 1,000", "window of 1,000, with total"],
        &["latest of 10", "stats of 10", "get", "nodes of a run"],
    ];
    for name in names.concat() {
        for runs in &context.runs {
            let measured = results.of(&format!("{runs} {name}"))?;
            let mut row = Row::micros(SECTION, subject, format!("{name}, {runs} runs"), measured);
            let by_hand = results.of(&format!("{runs} {name} by hand")).ok();
            // Ratios of times are those of rates the other way round.
            if let Some(hand) = by_hand {
                row = row.against("by hand", hand.to(measured));
            }
            if *runs == most && PAGES.contains(&name) {
                let is_met = measured.micros().median <= page_goal(kind) || by_hand.is_some_and(|hand| hand.to(measured).median <= 1.4);
                let or_hand = if by_hand.is_some() { " µs or 1.4 of by hand" } else { " µs" };
                row = row.goal(format!("≤ {}{or_hand}", page_goal(kind)), is_met);
            }
            if *runs == most && name == "latest of 10" {
                row = row.goal("≤ 60 µs", measured.micros().median <= 60.0);
            }
            if *runs == most && name == "stats of 10" {
                row = row.goal("≤ 15 µs", measured.micros().median <= 15.0);
            }
            report.push(row);
            if let Some(hand) = by_hand {
                report.push(Row::micros(SECTION, "floor", format!("{name}, {runs} runs, by hand"), hand));
            }
        }
    }
    let newest = results.of(&format!("{most} newest"))?;
    let total = results.of(&format!("{most} newest, with total"))?;
    report.push(Row::new(SECTION, subject, "a total, beyond the page", total.micros_beyond(newest), "µs").at_most(5.0));
    if let Some(fewer) = context.runs.iter().find(|runs| **runs == 10_000)
        && most > 10_000
    {
        for name in PAGES {
            let (large, small) = (results.of(&format!("{most} {name}"))?, results.of(&format!("{fewer} {name}"))?);
            let row = Row::micros(SECTION, subject, format!("{name}, {most} runs"), large).against("10,000 runs", small.to(large));
            report.push(row.at_most(if kind == Kind::Redb { 1.5 } else { 1.3 }));
        }
    }
    Ok(())
}
