//! Servers that die, sessions that are ended, connections that are cut: nothing acknowledged is lost, nothing is applied
//! twice, and the handles come back by themselves.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use runledger_core::{Code, Error, GetRun, Ledger, ListRuns, ReclaimRun, VerifyStore};
use runledger_postgres_kit::{Proxy, Server, sql, unique_schema, with_schema};

use crate::kit::{execution, fresh_url, open, payload, queue, start};

const WORKERS: usize = 6;

/// What workers were told.
#[derive(Default)]
struct Told {
    acknowledged: Mutex<BTreeSet<String>>,
    unknown: Mutex<BTreeSet<String>>,
    /// Of each worker's run: reclaims that were acknowledged, and those of which nothing is known.
    reclaims: [(AtomicU64, AtomicU64); WORKERS],
    stop: AtomicBool,
    errors: Mutex<BTreeSet<String>>,
}

impl Told {
    fn count(&self) -> usize {
        self.acknowledged.lock().unwrap().len()
    }

    fn wait_for(&self, count: usize) {
        let goal = self.count() + count;
        while self.count() < goal {
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
    }

    fn note(&self, error: &Error) -> bool {
        self.errors.lock().unwrap().insert(error.to_string());
        match (error.code(), error.details().applied) {
            (Code::Unavailable, Some("unknown")) => true,
            (Code::Unavailable, Some("no")) | (Code::Busy | Code::Full, None) => false,
            _ => panic!("an error that nobody should see: {error:?}"),
        }
    }

    fn work(&self, ledger: &Ledger, worker: usize) {
        for n in 0.. {
            if self.stop.load(Ordering::SeqCst) {
                return;
            }
            let id = format!("q-{worker}-{n}");
            // Whatever is said not to be applied is asked again: were it there, it would be refused.
            loop {
                match ledger.queue_run(queue("p", &id)) {
                    Ok(_) => break self.acknowledged.lock().unwrap().extend([id.clone()]),
                    Err(error) if self.note(&error) => break self.unknown.lock().unwrap().extend([id.clone()]),
                    Err(_) if self.stop.load(Ordering::SeqCst) => return,
                    Err(_) => std::thread::sleep(std::time::Duration::from_millis(5)),
                }
            }
            match ledger.reclaim_run(ReclaimRun::new("p", format!("own-{worker}"), execution("t"))) {
                Ok(_) => self.reclaims[worker].0.fetch_add(1, Ordering::SeqCst),
                Err(error) if self.note(&error) => self.reclaims[worker].1.fetch_add(1, Ordering::SeqCst),
                Err(_) => 0,
            };
        }
    }

    /// Holds the store against what was told of it.
    fn check(&self, ledger: &Ledger) {
        let there: BTreeSet<String> =
            ledger.walk_runs(ListRuns::new("p")).map(|run| run.unwrap().id.to_string()).filter(|id| id.starts_with("q-")).collect();
        let (acknowledged, unknown) = (self.acknowledged.lock().unwrap(), self.unknown.lock().unwrap());
        let lost: Vec<_> = acknowledged.difference(&there).collect();
        assert!(lost.is_empty(), "acknowledged, and not there: {lost:?}");
        let strange: Vec<_> = there.iter().filter(|id| !acknowledged.contains(*id) && !unknown.contains(*id)).collect();
        assert!(strange.is_empty(), "said not to be applied, and there: {strange:?}");
        for (worker, (sure, unsure)) in self.reclaims.iter().enumerate() {
            let attempt = u64::from(ledger.get_run(GetRun::new("p", format!("own-{worker}"))).unwrap().unwrap().attempt);
            let (sure, unsure) = (sure.load(Ordering::SeqCst), unsure.load(Ordering::SeqCst));
            assert!((1 + sure..=1 + sure + unsure).contains(&attempt), "attempt {attempt}, {sure} acknowledged, {unsure} unknown");
        }
        let report = ledger.verify_store(VerifyStore::new()).unwrap();
        assert!(report.is_ok(), "{report:?}");
        println!("{} acknowledged, {} unknown; seen: {:#?}", acknowledged.len(), unknown.len(), self.errors.lock().unwrap());
    }
}

/// Runs workers on a ledger while something happens to it.
fn under_load(ledger: &Ledger, disturb: impl FnOnce(&Told)) -> Told {
    for worker in 0..WORKERS {
        ledger.start_run(start("p", &format!("own-{worker}"))).unwrap();
    }
    let told = Told::default();
    std::thread::scope(|scope| {
        for worker in 0..WORKERS {
            let told = &told;
            scope.spawn(move || told.work(ledger, worker));
        }
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| disturb(&told)));
        told.stop.store(true, Ordering::SeqCst);
        done.unwrap();
    });
    told
}

#[test]
fn a_server_that_is_killed_and_started_again() {
    let mut server = Server::start(&[]);
    let ledger = open(&format!("{}?busy_timeout_ms=2000", server.url())).unwrap();
    let told = under_load(&ledger, |told| {
        for _ in 0..3 {
            told.wait_for(200);
            server.kill();
            server.run();
        }
        told.wait_for(200);
    });
    told.check(&ledger);
}

#[test]
fn sessions_that_are_ended_at_random() {
    let server = Server::start(&[]);
    let ledger = open(&format!("{}?application_name=prey", server.url())).unwrap();
    let told = under_load(&ledger, |told| {
        for _ in 0..40 {
            told.wait_for(10);
            let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'prey' ORDER BY random() LIMIT 2";
            sql(&server.url(), end);
        }
        told.wait_for(100);
    });
    told.check(&ledger);
}

#[test]
fn connections_that_are_cut_in_the_midst_of_a_command() {
    let server = Server::start(&[]);
    let proxy = Proxy::start(server.port());
    let ledger = open(&format!("postgres://runledger@127.0.0.1:{}/postgres?sslmode=disable", proxy.port())).unwrap();
    let told = under_load(&ledger, |told| {
        for n in 0..60 {
            told.wait_for(8);
            // At ever other places of the answers.
            proxy.cut_after(1 + n * 37 % 900);
        }
        proxy.refuse(true);
        proxy.cut();
        while !told.errors.lock().unwrap().iter().any(|error| error.contains("reached")) {
            std::thread::yield_now();
        }
        proxy.refuse(false);
        told.wait_for(100);
    });
    told.check(&ledger);
}

#[test]
fn a_pool_whose_connections_are_all_in_use_is_busy() {
    let url = fresh_url();
    let ledger = open(&format!("{url}&pool_size=2&busy_timeout_ms=100&statement_timeout_ms=20000")).unwrap();
    ledger.queue_run(queue("p", "r")).unwrap();
    let schema = url.split("schema=").nth(1).unwrap();
    let codes: BTreeSet<&str> = std::thread::scope(|scope| {
        let hold = format!("BEGIN; LOCK TABLE {schema}.run IN ACCESS EXCLUSIVE MODE; SELECT pg_sleep(3); COMMIT");
        let holder = scope.spawn(move || sql(&runledger_postgres_kit::shared_url(), &hold));
        let locked =
            format!("SELECT 1 FROM pg_locks WHERE relation = '{schema}.run'::regclass AND mode = 'AccessExclusiveLock' AND granted");
        while sql(&runledger_postgres_kit::shared_url(), &locked).is_empty() {}
        let asked: Vec<_> = (0..8).map(|_| scope.spawn(|| ledger.get_run(GetRun::new("p", "r")))).collect();
        // Two of them have the connections by now, or soon.
        assert_eq!(ledger.queue_run(queue("p", "r2")).unwrap_err().code(), Code::Busy);
        let codes = asked.into_iter().map(|asked| asked.join().unwrap().map_or_else(|error| error.code().as_str(), |_| "ok")).collect();
        holder.join().unwrap();
        codes
    });
    assert_eq!(codes, BTreeSet::from(["busy", "ok"]));
    assert!(ledger.queue_run(queue("p", "r3")).is_ok());
}

#[test]
fn a_full_disk_is_full_and_the_store_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let mount = |arguments: &[&str]| Command::new(arguments[0]).args(&arguments[1..]).status().is_ok_and(|status| status.success());
    let path = folder.path().to_str().unwrap();
    if !mount(&["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", path]) {
        println!("skipped: no small disk can be mounted here");
        return;
    }
    struct Unmount<'a>(&'a Path);
    impl Drop for Unmount<'_> {
        fn drop(&mut self) {
            let _unmounted = Command::new("umount").arg("-l").arg(self.0).status();
        }
    }
    let _unmount = Unmount(folder.path());
    let server = Server::start(&[]);
    let small = folder.path().join("small");
    std::fs::create_dir(&small).unwrap();
    server.programs().give(&small);
    sql(&server.url(), &format!("CREATE TABLESPACE small LOCATION '{}'", small.display()));
    sql(&server.url(), "CREATE DATABASE small TABLESPACE small");
    let ledger = open(&server.url().replace("/postgres", "/small")).unwrap();
    // What is not random would be stored smaller than it is.
    let mut state = 7_u64;
    let mut noise = || {
        let letters = (0..300_000).map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            char::from(b'a' + (state >> 60) as u8)
        });
        payload(&format!("\"{}\"", letters.collect::<String>()))
    };
    let mut kept = 0;
    let refused = loop {
        let mut command = queue("p", &format!("r{kept}"));
        command.input = noise();
        match ledger.queue_run(command) {
            Ok(_) => kept += 1,
            Err(error) => break error,
        }
        assert!(kept < 200, "the disk was to be full by now");
    };
    assert_eq!(refused.code(), Code::Full, "{refused}");
    assert!(ledger.get_run(GetRun::new("p", format!("r{kept}"))).unwrap().is_none());
    assert!(ledger.get_run(GetRun::new("p", "r0")).unwrap().is_some());
    let report = ledger.verify_store(VerifyStore::new()).unwrap();
    assert_eq!((report.is_ok(), report.checked.runs), (true, kept));
    ledger.close().unwrap();
}

#[test]
fn a_reader_that_stays_long_is_in_nobodys_way() {
    let url = fresh_url();
    let ledger = open(&url).unwrap();
    ledger.start_run(start("p", "r")).unwrap();
    let mut seen = 0;
    // The export holds its state open while every record of it is handed on.
    let mut slow = Slow { ledger: &ledger, seen: &mut seen };
    ledger.export(&mut slow).unwrap();
    assert!(seen > 0);
    assert_eq!(u64::from(ledger.get_run(GetRun::new("p", "r")).unwrap().unwrap().attempt), 1 + seen);
    assert!(ledger.verify_store(VerifyStore::new()).unwrap().is_ok());
}

/// Changes the store whenever something of it is written.
struct Slow<'a> {
    ledger: &'a Ledger,
    seen: &'a mut u64,
}

impl std::io::Write for Slow<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        for _ in 0..20 {
            self.ledger.reclaim_run(ReclaimRun::new("p", "r", execution("t"))).unwrap();
            *self.seen += 1;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn handles_of_one_store_apply_nothing_twice_when_they_meet() {
    let url = with_schema(&runledger_postgres_kit::shared_url(), &unique_schema());
    let handles: Vec<Ledger> = (0..4).map(|_| open(&url).unwrap()).collect();
    handles[0].start_run(start("p", "r")).unwrap();
    std::thread::scope(|scope| {
        for handle in &handles {
            for _ in 0..3 {
                scope.spawn(move || {
                    for _ in 0..50 {
                        handle.reclaim_run(ReclaimRun::new("p", "r", execution("t"))).unwrap();
                    }
                });
            }
        }
    });
    assert_eq!(handles[0].get_run(GetRun::new("p", "r")).unwrap().unwrap().attempt, 601);
}
