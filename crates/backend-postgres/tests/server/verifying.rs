//! The server's own check of its indexes, and who may have it made.

use std::io::{Seek, SeekFrom, Write};

use runledger_core::VerifyStore;
use runledger_postgres_kit::{Server, sql};

use crate::kit::{open, start};

/// A server that has the extension in its files, if there is one.
fn with_amcheck() -> Option<Server> {
    let server = Server::start(&[]);
    if sql(&server.url(), "SELECT 1 FROM pg_available_extensions WHERE name = 'amcheck'").is_empty() {
        println!("skipped: the server has no extension amcheck to be installed");
        return None;
    }
    Some(server)
}

#[test]
fn the_engines_check_is_made_where_it_is_installed_and_permitted() {
    let Some(server) = with_amcheck() else { return };
    let owner = open(&server.url()).unwrap();
    owner.start_run(start("p", "r")).unwrap();
    sql(&server.url(), &format!("CREATE ROLE worker LOGIN; {}", runledger_backend_postgres::grants("runledger", "worker")));
    let worker = open(&server.url().replace("runledger@", "worker@")).unwrap();
    let checks = || {
        [&owner, &worker].map(|ledger| {
            let report = ledger.verify_store(VerifyStore::new()).unwrap();
            assert!(report.is_ok() && report.checked.runs == 1, "{report:?}");
            report.engine_check_done
        })
    };
    assert_eq!(checks(), [false, false], "it is not installed");
    sql(&server.url(), "CREATE SCHEMA \"its Own\"; CREATE EXTENSION amcheck SCHEMA \"its Own\"");
    assert_eq!(checks(), [true, false], "the worker may neither look into the schema nor call the function");
    sql(&server.url(), "GRANT EXECUTE ON FUNCTION \"its Own\".bt_index_check(regclass, boolean) TO worker");
    assert_eq!(checks(), [true, false], "the worker may not look into the schema");
    sql(&server.url(), "GRANT USAGE ON SCHEMA \"its Own\" TO worker");
    assert_eq!(checks(), [true, true]);
    sql(&server.url(), "DROP EXTENSION amcheck");
    assert_eq!(checks(), [false, false]);
}

#[test]
fn an_index_that_lost_a_page_is_found_by_the_engines_check() {
    let Some(mut server) = with_amcheck() else { return };
    let ledger = open(&server.url()).unwrap();
    (0..20).for_each(|n| drop(ledger.start_run(start("p", &format!("r{n}"))).unwrap()));
    ledger.close().unwrap();
    sql(&server.url(), "CREATE EXTENSION amcheck");
    // An index that no part of the store's own check reads, so that the engine's alone can tell.
    let leases = "SELECT indexrelid::regclass::text, pg_relation_filepath(indexrelid) FROM pg_index \
                  WHERE indrelid = 'runledger.run'::regclass AND pg_get_indexdef(indexrelid) LIKE '%(lease_bucket%'";
    let found = sql(&server.url(), leases);
    let [Some(name), Some(path)] = &found[0][..] else { panic!("{found:?}") };
    server.stop();
    let mut file = std::fs::OpenOptions::new().write(true).open(server.data().join(path)).unwrap();
    // Behind the first page, which describes the others.
    file.seek(SeekFrom::Start(8192)).unwrap();
    file.write_all(&[0; 8192]).unwrap();
    drop(file);
    server.run();
    let report = open(&server.url()).unwrap().verify_store(VerifyStore::new()).unwrap();
    let name = name.trim_start_matches("runledger.");
    let [problem] = &report.problems[..] else { panic!("{report:?}") };
    assert!(report.engine_check_done && problem.kind == "index" && problem.message.contains(name), "{report:?}");
}
