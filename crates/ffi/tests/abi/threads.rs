//! One store, many threads.

use std::thread;

use tempfile::tempdir;

use crate::kit::{Store, url};

#[test]
fn sixteen_threads_use_one_store() {
    for scheme in ["memory", "sqlite", "redb"] {
        let dir = tempdir().unwrap();
        let address = if scheme == "memory" { "memory:".to_owned() } else { url(scheme, &dir.path().join("store")) };
        let store = Store::open(&format!("{address}?durability=relaxed"));
        thread::scope(|scope| {
            for caller in 0..16 {
                let store = &store;
                scope.spawn(move || {
                    for n in 0..25 {
                        let id = format!("{caller}-{n}");
                        store.queue(&id).unwrap();
                        assert!(store.get(&id).unwrap().contains(&id));
                        // Whoever claims one takes it alone, which the counts below show.
                        let claim = format!(
                            r#"{{"projectId":"shop","execution":{{"token":"{id}","queueLeaseExpiresAt":"2030-01-01T00:00:00Z"}}}}"#
                        );
                        assert!(store.ok("runs.claim", &claim).contains(r#""attempt":1"#));
                    }
                });
            }
        });
        let stats = store.ok("runs.stats", r#"{"projectId":"shop"}"#);
        assert!(stats.starts_with(r#"{"total":400,"byStatus":{"queued":0,"running":400,"#), "{stats}");
        store.verify();
    }
    assert_eq!(runledger_ffi::runledger_live_objects(), 0);
}
