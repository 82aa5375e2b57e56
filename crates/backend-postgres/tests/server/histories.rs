//! What callers were answered while their server died, their sessions were ended or their connections cut can be
//! explained by an order of their calls.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use runledger_core::{Ledger, VerifyStore};
use runledger_faults::history::{Driver, Load, Reply, drive};
use runledger_faults::is_long;
use runledger_postgres_kit::{Proxy, Server, sql};
use serde_json::Value;

use crate::kit::open;

const CALLERS: usize = 6;

/// What the callers met.
#[derive(Default)]
struct Met {
    answers: AtomicUsize,
    not_applied: AtomicUsize,
    unknown: AtomicUsize,
    is_over: AtomicBool,
}

impl Met {
    /// Waits for so many answers; answers whether there will be more.
    fn wait_for(&self, answers: usize) -> bool {
        let goal = self.answers.load(Ordering::SeqCst) + answers;
        while self.answers.load(Ordering::SeqCst) < goal && !self.is_over.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(1));
        }
        !self.is_over.load(Ordering::SeqCst)
    }
}

/// Has everybody stop, even when one of them panics.
struct Over<'m>(&'m Met);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.is_over.store(true, Ordering::SeqCst);
    }
}

/// A caller that asks again where nothing was applied: to the history it is one call.
struct Stubborn {
    ledger: Ledger,
    met: Arc<Met>,
}

impl Driver for Stubborn {
    fn call(&mut self, request: &str) -> Reply {
        loop {
            let answer = self.ledger.call_json(request);
            let read: Value = serde_json::from_str(&answer).unwrap();
            match (read["error"]["code"].as_str(), read["error"]["details"]["applied"].as_str()) {
                (Some("unavailable"), Some("unknown")) => {
                    self.met.unknown.fetch_add(1, Ordering::SeqCst);
                    return Reply::Unknown;
                }
                (Some("unavailable" | "busy"), _) if self.met.is_over.load(Ordering::SeqCst) => return Reply::Gone,
                (Some("unavailable" | "busy"), _) => {
                    self.met.not_applied.fetch_add(1, Ordering::SeqCst);
                    std::thread::sleep(Duration::from_millis(5));
                }
                _ => {
                    self.met.answers.fetch_add(1, Ordering::SeqCst);
                    return Reply::Answer(answer);
                }
            }
        }
    }
}

/// Has callers meet while `disturb` is called again and again, and looks for the order of each history.
fn check(name: &str, ledger: &Ledger, projects: usize, mut disturb: impl FnMut(&Met) + Send) {
    let projects = if is_long() { projects * 10 } else { projects };
    let met = Arc::new(Met::default());
    let drivers = (0..CALLERS).map(|_| Stubborn { ledger: ledger.clone(), met: Arc::clone(&met) }).collect();
    let load = Load { seed: 77, projects, calls: 12, runs: 4 };
    let histories = std::thread::scope(|scope| {
        scope.spawn(|| {
            let _over = Over(&met);
            while !met.is_over.load(Ordering::SeqCst) {
                disturb(&met);
            }
        });
        let _over = Over(&met);
        drive(drivers, load, |number| format!("p{number}")).unwrap()
    });
    let (mut calls, mut overlapping) = (0, 0);
    for history in &histories {
        history.check().unwrap_or_else(|what| panic!("{name}: {what}"));
        calls += history.calls.len();
        overlapping += history.overlapping();
    }
    let (not_applied, unknown) = (met.not_applied.load(Ordering::SeqCst), met.unknown.load(Ordering::SeqCst));
    println!(
        "{name}: {} histories of {calls} calls, {overlapping} at the same time as another; {not_applied} times nothing was applied, \
         {unknown} calls were never answered",
        histories.len()
    );
    assert!(overlapping > 0 && not_applied + unknown > 0, "nobody met, or nothing happened");
    let report = loop {
        match ledger.verify_store(VerifyStore::new()) {
            // The last cut may be due yet.
            Err(error) if error.is_retryable() => {}
            verified => break verified.unwrap(),
        }
    };
    assert!(report.is_ok(), "{:?}", report.problems);
}

#[test]
fn a_server_that_is_killed_and_started_again() {
    let mut server = Server::start(&[]);
    let ledger = open(&format!("{}?busy_timeout_ms=2000", server.url())).unwrap();
    check("killed servers", &ledger, 12, |met| {
        if met.wait_for(150) {
            server.kill();
            server.run();
        }
    });
}

#[test]
fn sessions_that_are_ended_at_random() {
    let server = Server::start(&[]);
    let ledger = open(&format!("{}?application_name=prey", server.url())).unwrap();
    check("ended sessions", &ledger, 30, |met| {
        if met.wait_for(7) {
            let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'prey' ORDER BY random() LIMIT 2";
            sql(&server.url(), end);
        }
    });
}

#[test]
fn connections_that_are_cut_in_the_midst_of_a_command() {
    let server = Server::start(&[]);
    let proxy = Proxy::start(server.port());
    let ledger = open(&format!("postgres://runledger@127.0.0.1:{}/postgres?sslmode=disable", proxy.port())).unwrap();
    let mut cuts = 0;
    check("cut connections", &ledger, 30, |met| {
        if met.wait_for(8) {
            cuts += 1;
            // At ever other places of the answers.
            proxy.cut_after(1 + cuts * 37 % 900);
        }
    });
}
