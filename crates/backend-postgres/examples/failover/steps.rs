//! The steps, each told as it is done. A test takes them too, and holds docs/POSTGRES.md against what they tell.

#![allow(clippy::unwrap_used, clippy::panic, reason = "whatever does not go as it must ends it")]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use runledger_backend_postgres::PostgresBackend;
use runledger_core::{Code, GetRun, Ledger, OpenOptions, Payload, QueueRun, VerifyStore};
use runledger_postgres_kit::{Server, sql};

const WORKERS: usize = 4;

/// So many runs are queued before the primary dies, and again once the standby has taken over.
const RUNS: usize = 400;

/// What the workers were told.
#[derive(Default)]
struct Told {
    acknowledged: AtomicUsize,
    not_applied: AtomicUsize,
    unknown: AtomicUsize,
    /// At how many acknowledged runs they stop; 0 as long as that is not known.
    goal: AtomicUsize,
}

impl Told {
    fn is_over(&self) -> bool {
        let goal = self.goal.load(Ordering::SeqCst);
        goal > 0 && self.acknowledged.load(Ordering::SeqCst) >= goal
    }

    /// Queues runs with one handle, whatever becomes of the server; answers those that were acknowledged.
    fn work(&self, ledger: &Ledger, worker: usize) -> Vec<String> {
        let mut acknowledged = Vec::new();
        for n in 0.. {
            if self.is_over() {
                break;
            }
            let id = format!("run-{worker}-{n}");
            match ledger.queue_run(QueueRun::new("shop", id.clone(), "order", Payload::from_json("{}").unwrap())) {
                Ok(_) => {
                    acknowledged.push(id);
                    self.acknowledged.fetch_add(1, Ordering::SeqCst);
                }
                Err(error) if error.details().applied == Some("unknown") => {
                    self.unknown.fetch_add(1, Ordering::SeqCst);
                }
                Err(error) => {
                    assert!(matches!(error.code(), Code::Unavailable | Code::Busy), "{error}");
                    self.not_applied.fetch_add(1, Ordering::SeqCst);
                    // Nobody is there to be asked: a worker waits a moment.
                    std::thread::sleep(Duration::from_millis(20));
                }
            }
        }
        acknowledged
    }
}

/// Does it, and hands each step to `tell`.
///
/// # Panics
/// When anything is not as it must be.
pub(crate) fn failover(tell: &mut dyn FnMut(String)) {
    let mut primary = Server::start(&[]);
    tell(format!("A primary runs on port {}.", primary.port()));
    let standby = Server::standby_of(&primary, "second", &[]);
    tell(format!("A standby named 'second' follows it on port {}.", standby.port()));
    sql(&primary.url(), "ALTER SYSTEM SET synchronous_standby_names = 'second'");
    sql(&primary.url(), "SELECT pg_reload_conf()");
    while sql(&primary.url(), "SELECT 1 FROM pg_stat_replication WHERE sync_state = 'sync'").is_empty() {}
    tell("The primary has synchronous_standby_names = 'second': a commit waits for the standby.".to_owned());
    let hosts = format!("127.0.0.1:{},127.0.0.1:{}", primary.port(), standby.port());
    let url = format!("postgres://runledger@{hosts}/postgres?target_session_attrs=read-write&statement_timeout_ms=5000");
    let ledger = {
        let mut options = OpenOptions::new();
        let backend = PostgresBackend::open(&url, &mut options).unwrap();
        Ledger::new(backend, &options)
    };
    tell(format!("{WORKERS} workers queue runs at {url}"));
    let told = Told::default();
    let acknowledged: Vec<String> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..WORKERS)
            .map(|worker| {
                let (ledger, told) = (&ledger, &told);
                scope.spawn(move || told.work(ledger, worker))
            })
            .collect();
        while told.acknowledged.load(Ordering::SeqCst) < RUNS {
            std::thread::yield_now();
        }
        primary.kill();
        // It is fenced: whatever it might still say, nobody hears.
        let before = told.acknowledged.load(Ordering::SeqCst);
        tell(format!("The primary is killed; {before} runs were acknowledged."));
        standby.promote();
        told.goal.store(told.acknowledged.load(Ordering::SeqCst) + RUNS, Ordering::SeqCst);
        tell("pg_ctl promote: the standby is the primary now.".to_owned());
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
    });
    let (not_applied, unknown) = (told.not_applied.load(Ordering::SeqCst), told.unknown.load(Ordering::SeqCst));
    tell(format!("The workers went on with the handle that they had; {} runs were acknowledged in all.", acknowledged.len()));
    tell(format!("Meanwhile {not_applied} calls were told that nothing was applied, and {unknown} that it is not known."));
    for id in &acknowledged {
        assert!(ledger.get_run(GetRun::new("shop", id.as_str())).unwrap().is_some(), "{id} was acknowledged and is lost");
    }
    tell("Every acknowledged run is there.".to_owned());
    let report = ledger.verify_store(VerifyStore::new()).unwrap();
    assert!(report.is_ok(), "{report:?}");
    let there = report.checked.runs as usize;
    assert!((acknowledged.len()..=acknowledged.len() + unknown).contains(&there), "{there} runs are there");
    tell(format!("The store is verified: {there} runs, nothing is wrong."));
}
