//! Commands on every backend: `cargo bench --bench commands`. Small and quick; `cargo xtask bench` measures with more care.

use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use runledger::{Command, Durability, Ledger};
use runledger_benches::drive::{command, fill};
use runledger_benches::store::{self, Kind};
use runledger_benches::workload::{IdKind, Maker, TRANSITIONS};

/// Has `measure` work with a fresh store of each backend.
fn on_each(mut measure: impl FnMut(Kind, &Ledger)) {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory to measure in");
    for kind in Kind::ALL {
        let ledger = store::create(kind, Durability::Full, directory.path(), "bench").expect("a store");
        measure(kind, &ledger);
        ledger.close().expect("no call is under way");
    }
}

/// The time that some work takes once it is made.
fn timed(iterations: u64, mut make: impl FnMut() -> Vec<Command>, ledger: &Ledger) -> Duration {
    let mut elapsed = Duration::ZERO;
    for _ in 0..iterations {
        let made = black_box(make());
        let began = Instant::now();
        made.into_iter().for_each(|c| command(ledger, c).expect("every command of the workload succeeds"));
        elapsed += began.elapsed();
    }
    elapsed
}

fn lifecycle(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("lifecycle");
    group.throughput(Throughput::Elements(TRANSITIONS as u64));
    on_each(|kind, ledger| {
        let maker = Maker::new(IdKind::Growing);
        let make = || maker.lifecycle().expect("payloads are JSON");
        group.bench_function(kind.as_str(), |bencher| bencher.iter_custom(|iterations| timed(iterations, make, ledger)));
        group.bench_function(format!("{}, batch of 100", kind.as_str()), |bencher| {
            bencher.iter_custom(|iterations| {
                let batches: Vec<_> = (0..iterations).map(|_| maker.hundred().expect("payloads are JSON")).collect();
                let began = Instant::now();
                batches.into_iter().for_each(|batch| drop(ledger.batch(batch).expect("every command succeeds")));
                began.elapsed() / 10
            })
        });
    });
}

fn agents(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("agent run");
    group.throughput(Throughput::Elements(4));
    on_each(|kind, ledger| {
        let maker = Maker::new(IdKind::Growing);
        let make = || {
            let (before, work) = maker.agent().expect("payloads are JSON");
            fill(ledger, before.into_iter().map(Ok)).expect("a run and a node run");
            work
        };
        group.bench_function(kind.as_str(), |bencher| bencher.iter_custom(|iterations| timed(iterations, make, ledger)));
    });
}

fn heartbeats(criterion: &mut Criterion) {
    const RUNNING: u64 = 1000;
    let mut group = criterion.benchmark_group("heartbeat");
    on_each(|kind, ledger| {
        let maker = Maker::new(IdKind::Growing);
        let starts = (0..RUNNING).map(|_| maker.running().map(|(_, start)| start));
        fill(ledger, starts).expect("runs that run");
        let mut beat = 0;
        group.bench_function(kind.as_str(), |bencher| {
            bencher.iter_custom(|iterations| {
                let make = || {
                    beat += 1;
                    vec![maker.heartbeat(1 + beat * 7 % RUNNING, (beat / RUNNING) as i64 + 1)]
                };
                timed(iterations, make, ledger)
            })
        });
    });
}

fn claims(criterion: &mut Criterion) {
    const BACKLOG: u64 = 2000;
    let mut group = criterion.benchmark_group("claim");
    on_each(|kind, ledger| {
        let maker = Maker::new(IdKind::Growing);
        let queue = |count| fill(ledger, (0..count).map(|_| maker.queued().map(|(_, queue)| queue))).expect("runs that are queued");
        queue(BACKLOG);
        group.bench_function(kind.as_str(), |bencher| {
            bencher.iter_custom(|iterations| {
                queue(iterations);
                timed(iterations, || vec![maker.claim()], ledger)
            })
        });
    });
}

fn quick() -> Criterion {
    Criterion::default().sample_size(10).warm_up_time(Duration::from_millis(300)).measurement_time(Duration::from_secs(1)).without_plots()
}

criterion_group! { name = commands; config = quick(); targets = lifecycle, agents, heartbeats, claims }
criterion_main!(commands);
