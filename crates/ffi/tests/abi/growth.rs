//! Calls without end leave nothing behind: a million with `RUNLEDGER_LONG=1`, and a twentieth of that otherwise.

use tempfile::tempdir;

use crate::kit::{Store, url};

fn long() -> bool {
    std::env::var_os("RUNLEDGER_LONG").is_some()
}

/// The memory of this process that is in use, in KiB.
#[cfg(target_os = "linux")]
fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[test]
#[cfg(target_os = "linux")]
fn calls_without_end_grow_neither_memory_nor_file_handles() {
    use crate::kit::descriptors;

    let calls = if long() { 1_000_000 } else { 50_000 };
    for scheme in ["memory", "sqlite", "redb"] {
        let dir = tempdir().unwrap();
        let address = if scheme == "memory" { "memory:".to_owned() } else { url(scheme, &dir.path().join("store")) };
        let store = Store::open(&address);
        (0..20).for_each(|n| drop(store.queue(&format!("r{n}")).unwrap()));
        let round = |calls: u64| {
            for n in 0..calls {
                match n % 10 {
                    0 => drop(store.ok("runs.list", r#"{"projectId":"shop","limit":20}"#)),
                    1 => drop(store.call("runs.get", "{").unwrap_err()),
                    _ => drop(store.get("r7").unwrap()),
                }
            }
        };
        // The first calls fill what is kept on purpose: statements, caches, arenas.
        round(calls / 10);
        let before = (resident_kib(), descriptors());
        round(calls - calls / 10);
        let after = (resident_kib(), descriptors());
        println!("{scheme}: {calls} calls, {} to {} KiB, {} to {} descriptors", before.0, after.0, before.1, after.1);
        assert_eq!(before.1, after.1, "{scheme}");
        // A leak of a single byte a call would be 45 KiB here, and 900 in the long run; allocators move by less than this.
        assert!(after.0 <= before.0 + 2048, "{scheme}: {before:?} {after:?}");
    }
    assert_eq!(runledger_ffi::runledger_live_objects(), 0);
}

#[test]
#[cfg(target_os = "linux")]
fn opening_and_closing_without_end_piles_up_no_file_handles() {
    use crate::kit::descriptors;

    let rounds = if long() { 5000 } else { 100 };
    for scheme in ["sqlite", "redb"] {
        let dir = tempdir().unwrap();
        let before = descriptors();
        for n in 0..rounds {
            for path in [dir.path().join("one"), dir.path().join(format!("new-{n}"))] {
                let store = Store::open(&format!("{}?durability=relaxed", url(scheme, &path)));
                store.queue(&format!("r{n}")).unwrap();
                store.close().unwrap();
            }
            std::fs::remove_file(dir.path().join(format!("new-{n}"))).unwrap();
        }
        assert_eq!(descriptors(), before, "{scheme}");
        assert_eq!(Store::open(&url(scheme, &dir.path().join("one"))).total(), rounds);
    }
}

/// A page that a program keeps pins nothing: the log stays within its bound while others write.
#[test]
#[cfg(target_os = "linux")]
fn a_kept_result_does_not_pin_the_log() {
    let runs = if long() { 5000 } else { 3000 };
    let dir = tempdir().unwrap();
    let path = dir.path().join("runs.db");
    let address = format!("{}?durability=relaxed", url("sqlite", &path));
    let (reader, writer) = (Store::open(&address), Store::open(&address));
    (0..100).for_each(|n| drop(writer.queue(&format!("first-{n}")).unwrap()));
    let mut doc = std::ptr::null_mut();
    let (op, request) = (c"runs.list", c"{\"projectId\":\"shop\",\"limit\":100}");
    let status = unsafe {
        runledger_ffi::runledger_call(reader.0, op.as_ptr(), request.as_ptr(), runledger_ffi::RUNLEDGER_NTS, &mut doc, std::ptr::null_mut())
    };
    assert_eq!(status, runledger_ffi::RUNLEDGER_OK);
    let input = "x".repeat(8 << 10);
    for n in 0..runs {
        let request = format!(r#"{{"projectId":"shop","id":"r{n}","workflowId":"wf","input":"{input}"}}"#);
        writer.ok("runs.queue", &request);
    }
    let log = std::fs::metadata(dir.path().join("runs.db-wal")).unwrap().len();
    assert!(log <= 17 << 20, "{log}");
    unsafe { runledger_ffi::runledger_doc_free(doc) };
}
