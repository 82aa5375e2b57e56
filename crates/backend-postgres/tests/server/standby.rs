//! A standby that takes over.

use std::sync::atomic::{AtomicBool, Ordering};

use runledger_core::{Code, GetRun, VerifyStore};
use runledger_postgres_kit::{Server, sql};

use crate::kit::{open, queue};

#[test]
fn a_synchronous_standby_that_is_promoted_has_everything_acknowledged() {
    let mut primary = Server::start(&[("wal_level", "replica"), ("synchronous_standby_names", "")]);
    let standby = Server::standby_of(&primary, "second", &[]);
    sql(&primary.url(), "ALTER SYSTEM SET synchronous_standby_names = 'second'");
    sql(&primary.url(), "SELECT pg_reload_conf()");
    while sql(&primary.url(), "SELECT 1 FROM pg_stat_replication WHERE sync_state = 'sync'").is_empty() {}
    let (first, second) = (primary.port(), standby.port());
    let url = format!(
        "postgres://runledger@127.0.0.1:{first},127.0.0.1:{second}/postgres?target_session_attrs=read-write&statement_timeout_ms=5000"
    );
    let ledger = open(&url).unwrap();
    let stop = AtomicBool::new(false);
    let acknowledged: Vec<String> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..4)
            .map(|worker| {
                let (ledger, stop) = (&ledger, &stop);
                scope.spawn(move || {
                    let (mut acknowledged, mut after) = (Vec::new(), 0);
                    for n in 0.. {
                        let id = format!("q-{worker}-{n}");
                        match ledger.queue_run(queue("p", &id)) {
                            Ok(_) => {
                                acknowledged.push(id);
                                after += usize::from(stop.load(Ordering::SeqCst));
                            }
                            Err(error) => assert!(matches!(error.code(), Code::Unavailable | Code::ReadOnly | Code::Busy), "{error}"),
                        }
                        if after >= 20 {
                            break;
                        }
                    }
                    acknowledged
                })
            })
            .collect();
        while ledger.get_run(GetRun::new("p", "q-0-100")).unwrap().is_none() {}
        // Fenced: what it might still say, nobody hears.
        primary.kill();
        standby.promote();
        stop.store(true, Ordering::SeqCst);
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
    });
    assert!(acknowledged.len() > 180);
    for id in &acknowledged {
        assert!(ledger.get_run(GetRun::new("p", id.as_str())).unwrap().is_some(), "{id} was acknowledged and is lost");
    }
    assert!(ledger.verify_store(VerifyStore::new()).unwrap().is_ok());
}

#[test]
fn a_commit_that_no_standby_confirmed_is_not_known_to_hold() {
    let server = Server::start(&[]);
    let ledger = open(&format!("{}?statement_timeout_ms=1000", server.url())).unwrap();
    ledger.queue_run(queue("p", "before")).unwrap();
    // A standby that does not exist is waited for until the wait is cancelled: the server then warns, and commits here.
    sql(&server.url(), "ALTER SYSTEM SET synchronous_standby_names = 'nobody'");
    sql(&server.url(), "SELECT pg_reload_conf()");
    let error = loop {
        match ledger.queue_run(queue("p", "after")) {
            Err(error) if error.code() != Code::AlreadyExists => break error,
            // The setting had not arrived yet.
            _ => continue,
        }
    };
    assert_eq!((error.code(), error.details().applied, error.is_retryable()), (Code::Unavailable, Some("unknown"), false));
    // With less durability nobody is waited for.
    let relaxed = open(&format!("{}?durability=relaxed", server.url())).unwrap();
    relaxed.queue_run(queue("p", "relaxed")).unwrap();
}
