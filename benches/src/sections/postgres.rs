//! A ledger in PostgreSQL: one caller and many, and claims, beside updates of single rows by hand on the same server.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use runledger::{ClaimRun, Execution, Ledger, Payload, QueueRun, Request, Time};
use runledger_benches::Result;
use runledger_benches::drive::{alone, alone_watched, command, make_for, threads};
use runledger_benches::measure::{Contest, Sample, Summary};
use runledger_benches::report::{Report, Row};
use runledger_benches::workload::Maker;
use runledger_postgres_kit::{Programs, Proxy, Server};
use tokio_postgres::{Client, NoTls};

use crate::Context;

const SECTION: &str = "PostgreSQL, full";
const POSTGRES: &str = "postgres";
const ONE: &str = "transitions, 1 caller";
const BY_HAND: &str = "updates of one row by hand, 1 connection";

/// More than the server does, so that no caller runs out of work.
const MOST_PER_SECOND: f64 = 40_000.0;

/// What 64 callers gain at least over one.
const LEAST_GAIN: f64 = 5.0;

/// Who claims: as many threads in one process, or two in each of eight.
const CLAIMERS: usize = 16;
const PROCESSES: usize = 8;

/// So many runs are queued for the claims of one measurement.
const BACKLOG: usize = 30_000;

pub(crate) fn measure(context: &Context, report: &mut Report) -> Result<()> {
    if Programs::find().is_none() {
        eprintln!("skipped: there is no PostgreSQL here");
        return Ok(());
    }
    let server = Server::start(&[("shared_buffers", "256MB"), ("max_wal_size", "4GB")]);
    let ledger = runledger::open(&server.socket_url())?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let client = runtime.block_on(connect(&server))?;
    transitions(context, report, &ledger, &runtime, &client)?;
    round_trips(context, report, &server)?;
    claims(context, report, &server, &ledger)?;
    ledger.close()?;
    Ok(())
}

/// How often a caller waits for the server, counted by a proxy between them, on which what is sent at once may come in
/// pieces: the fewest of some lifecycles are what it takes.
fn round_trips(context: &Context, report: &mut Report, server: &Server) -> Result<()> {
    let proxy = Proxy::start(server.port());
    let url = format!("postgres://runledger@127.0.0.1:{}/postgres?schema=counted&sslmode=disable&pool_size=1", proxy.port());
    let ledger = runledger::open(&url)?;
    let maker = Maker::new(context.ids).with_payload_bytes(context.payload);
    let (mut single, mut together) = (Vec::new(), Vec::new());
    for _ in 0..=context.rounds {
        let commands = maker.lifecycle()?;
        let (before, count) = (proxy.turns(), commands.len());
        commands.into_iter().try_for_each(|c| command(&ledger, c))?;
        single.push((proxy.turns() - before) as f64 / count as f64);
        let starts = (0..64).map(|_| maker.running().map(|(_, start)| Request::Command(start))).collect::<Result<Vec<_>>>()?;
        let before = proxy.turns();
        ledger.execute_each(starts).into_iter().try_for_each(|answer| answer.map(drop))?;
        together.push((proxy.turns() - before) as f64);
    }
    let fewest = |counted: Vec<f64>| Summary::of([counted.into_iter().fold(f64::INFINITY, f64::min)]);
    report.push(Row::new(SECTION, POSTGRES, "round trips of a command, alone", fewest(single), "times"));
    report.push(Row::new(SECTION, POSTGRES, "round trips of a group of 64", fewest(together), "times").at_most(6.0));
    ledger.close()?;
    Ok(())
}

fn transitions(context: &Context, report: &mut Report, ledger: &Ledger, runtime: &tokio::runtime::Runtime, client: &Client) -> Result<()> {
    let maker = &Maker::new(context.ids).with_payload_bytes(context.payload);
    let update = runtime.block_on(client.prepare("UPDATE by_hand SET n = n + 1 WHERE id = $1"))?;
    let mut contest = Contest::new();
    contest.add(BY_HAND, |each| {
        let mut id = 0;
        let make = || {
            id = (id + 1) % 1000;
            Ok(vec![id])
        };
        alone(each, make, |id: i32| {
            runtime.block_on(client.execute(&update, &[&id]))?;
            Ok(())
        })
    });
    contest.add(ONE, |each| alone_watched(each, || maker.lifecycle(), |c| command(ledger, c)));
    for callers in [16, 64] {
        contest.add(format!("transitions, {callers} callers"), move |each| {
            threads(each, make_for(callers, each, MOST_PER_SECOND, || maker.lifecycle())?, |c| command(ledger, c))
        });
    }
    let results = contest.hold(context.rounds, context.each)?;
    let (by_hand, one) = (results.of(BY_HAND)?, results.of(ONE)?);
    report.push(Row::rate(SECTION, "floor", BY_HAND, by_hand));
    report.push(Row::rate(SECTION, POSTGRES, ONE, one).against("by hand", one.to(by_hand)));
    for (name, least) in [("transitions, 16 callers", None), ("transitions, 64 callers", Some(LEAST_GAIN))] {
        let row = Row::rate(SECTION, POSTGRES, name, results.of(name)?).against(ONE, results.of(name)?.to(one));
        report.push(match least {
            Some(least) => row.at_least(least),
            None => row,
        });
    }
    Ok(())
}

fn claims(context: &Context, report: &mut Report, server: &Server, ledger: &Ledger) -> Result<()> {
    let mut rates = [Vec::new(), Vec::new()];
    for round in 0..context.rounds {
        for (place, rates) in rates.iter_mut().enumerate() {
            let project = format!("claims-{round}-{place}");
            backlog(ledger, &project)?;
            let sample = if place == 0 {
                claim_with(ledger, &project, CLAIMERS, context.each)?
            } else {
                in_processes(server, &project, context.each)?
            };
            rates.push(sample.count as f64 / sample.elapsed.as_secs_f64());
        }
    }
    let [one, many] = rates;
    report.push(Row::new(SECTION, POSTGRES, format!("claims, {CLAIMERS} workers in one process"), Summary::of(one), "a second"));
    report.push(Row::new(SECTION, POSTGRES, format!("claims, {CLAIMERS} workers in {PROCESSES} processes"), Summary::of(many), "a second"));
    Ok(())
}

fn backlog(ledger: &Ledger, project: &str) -> Result<()> {
    let input = Payload::from_json("{}")?;
    for chunk in (0..BACKLOG).collect::<Vec<_>>().chunks(500) {
        let queue = |n: &usize| Request::Command(QueueRun::new(project, format!("r{n:06}"), "wf", input.clone()).into());
        for answer in ledger.execute_each(chunk.iter().map(queue).collect()) {
            answer?;
        }
    }
    Ok(())
}

/// Claims with so many threads for as long as told.
fn claim_with(ledger: &Ledger, project: &str, workers: usize, each: Duration) -> Result<Sample> {
    let began = Instant::now();
    let end = began + each;
    let count = std::thread::scope(|scope| {
        let claiming: Vec<_> = (0..workers)
            .map(|worker| {
                scope.spawn(move || {
                    let mut count = 0;
                    while Instant::now() < end {
                        let execution = Execution::new(format!("{}-{worker}-{count}", std::process::id()), Time::MAX);
                        count += u64::from(ledger.claim_run(ClaimRun::new(project, execution))?.is_some());
                    }
                    runledger::Result::Ok(count)
                })
            })
            .collect();
        claiming.into_iter().map(|claiming| claiming.join().map_err(|_| "a worker panicked")?.map_err(Into::into)).sum::<Result<u64>>()
    })?;
    Ok(Sample { count, elapsed: began.elapsed(), busy: None, latency: None })
}

fn in_processes(server: &Server, project: &str, each: Duration) -> Result<Sample> {
    let asked = format!("{} {project} {}", server.socket_url(), each.as_millis());
    let program = std::env::current_exe()?;
    let spawn = |_| Command::new(&program).args(["--claims", &asked]).stdout(Stdio::piped()).spawn();
    let processes = (0..PROCESSES).map(spawn).collect::<std::io::Result<Vec<_>>>()?;
    let mut count = 0;
    for process in processes {
        let output = process.wait_with_output()?;
        count += String::from_utf8(output.stdout)?.trim().parse::<u64>()?;
    }
    // Each process measures its own time, which does not begin before it is connected.
    Ok(Sample { count, elapsed: each, busy: None, latency: None })
}

/// What a process of its own does for another one: claims with its share of the workers, and prints how often.
pub(crate) fn print_claims(asked: &str) -> Result<()> {
    let [url, project, each] = asked.split(' ').collect::<Vec<_>>()[..] else { return Err("what to claim can't be read".into()) };
    let ledger = runledger::open(url)?;
    let sample = claim_with(&ledger, project, CLAIMERS / PROCESSES, Duration::from_millis(each.parse()?))?;
    println!("{}", sample.count);
    ledger.close()?;
    Ok(())
}

async fn connect(server: &Server) -> Result<Client> {
    let (client, connection) = tokio_postgres::connect(&server.socket_url(), NoTls).await?;
    tokio::spawn(connection);
    client.batch_execute("CREATE TABLE by_hand (id int PRIMARY KEY, n int NOT NULL) WITH (fillfactor = 50)").await?;
    client.batch_execute("INSERT INTO by_hand SELECT n, 0 FROM generate_series(0, 999) AS s(n)").await?;
    Ok(client)
}
