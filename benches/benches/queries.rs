//! Lists on every backend, and commands from a file that `RUNLEDGER_TRACES` names: `cargo bench --bench queries`.

use std::time::{Duration, Instant};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use runledger::{Durability, GetRunStats, Id, LatestRuns, Ledger, ListRuns, Request, Status};
use runledger_benches::drive::fill;
use runledger_benches::store::{self, Kind};
use runledger_benches::workload::{IdKind, Maker, PROJECT, WORKFLOWS, workflow};

const RUNS: u64 = 5000;

fn grown(kind: Kind, directory: &std::path::Path) -> Ledger {
    let ledger = store::create(kind, Durability::Relaxed, directory, "lists").expect("a store");
    let maker = Maker::new(IdKind::Growing);
    let commands = (0..RUNS).flat_map(|_| maker.aged().expect("payloads are JSON")).map(Ok);
    fill(&ledger, commands).expect("every command succeeds");
    ledger
}

fn lists(criterion: &mut Criterion) {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory to measure in");
    let mut group = criterion.benchmark_group("list");
    for kind in Kind::ALL {
        let ledger = grown(kind, directory.path());
        let list = || ListRuns::new(PROJECT).with_with_total(false);
        let ten: Vec<Id> = (0..WORKFLOWS).map(|n| workflow(n).into()).collect();
        for (name, query) in [
            ("newest", list().into()),
            ("newest, with total", ListRuns::new(PROJECT).into()),
            ("one workflow", list().with_workflow_id(workflow(3)).into()),
            ("failed", list().with_statuses(vec![Status::Failed]).into()),
            ("latest of 10", LatestRuns::new(PROJECT, ten.clone()).into()),
            ("stats of 10", GetRunStats::new(PROJECT).with_workflow_ids(ten).into()),
        ] {
            let request = Request::Query(query);
            group.bench_function(format!("{}, {name}", kind.as_str()), |bencher| {
                bencher.iter(|| ledger.request(request.clone()).expect("the query is sound"))
            });
        }
        ledger.close().expect("no call is under way");
    }
}

fn traces(criterion: &mut Criterion) {
    let Ok(path) = std::env::var("RUNLEDGER_TRACES") else { return };
    let text = std::fs::read_to_string(path).expect("a file of commands, one a line");
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory to measure in");
    let mut group = criterion.benchmark_group("traces");
    group.throughput(Throughput::Elements(text.lines().count() as u64));
    for kind in Kind::ALL {
        group.bench_function(kind.as_str(), |bencher| {
            bencher.iter_custom(|iterations| {
                let mut elapsed = Duration::ZERO;
                for _ in 0..iterations {
                    let ledger = store::create(kind, Durability::Full, directory.path(), "traces").expect("a store");
                    let began = Instant::now();
                    text.lines().for_each(|line| drop(ledger.call_json(line)));
                    elapsed += began.elapsed();
                    ledger.close().expect("no call is under way");
                }
                elapsed
            })
        });
    }
}

fn quick() -> Criterion {
    Criterion::default().sample_size(10).warm_up_time(Duration::from_millis(300)).measurement_time(Duration::from_secs(1)).without_plots()
}

criterion_group! { name = queries; config = quick(); targets = lists, traces }
criterion_main!(queries);
