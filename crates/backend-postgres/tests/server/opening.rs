//! Opening: whose the tables are, who may what, and how it is connected.

use std::sync::Barrier;

use runledger_backend_postgres::PostgresBackend;
use runledger_conformance::state_machine::run_state_machine;
use runledger_conformance::{LedgerHarness, Traits};
use runledger_core::{Code, CompactStore, GetRun, GetStoreInfo, Ledger, VerifyStore};
use runledger_faults::is_long;
use runledger_postgres_kit::{Certificates, Server, shared_url, sql, try_sql, unique_schema, with_schema};

use crate::kit::{fresh_url, open, queue};

fn code_of(url: &str) -> Code {
    match open(url) {
        Ok(_) => panic!("{url} was opened"),
        Err(error) => error.code(),
    }
}

#[test]
fn ten_that_open_at_once_make_one_ledger() {
    let url = fresh_url();
    let gate = Barrier::new(10);
    std::thread::scope(|scope| {
        for n in 0..10 {
            let (url, gate) = (&url, &gate);
            scope.spawn(move || {
                gate.wait();
                let ledger = open(url).unwrap();
                ledger.queue_run(queue("p", &format!("r{n}"))).unwrap();
                ledger.close().unwrap();
            });
        }
    });
    let ledger = open(&url).unwrap();
    assert_eq!(ledger.verify_store(VerifyStore::new()).unwrap().checked.runs, 10);
}

#[test]
fn tables_of_another_program_are_left_untouched() {
    let (server, schema) = (shared_url(), unique_schema());
    sql(&server, &format!("CREATE SCHEMA {schema}; CREATE TABLE {schema}.run (x int); INSERT INTO {schema}.run VALUES (7)"));
    for mode in ["create", "existing", "read_only"] {
        assert_eq!(code_of(&format!("{}&mode={mode}", with_schema(&server, &schema))), Code::NotALedger);
    }
    sql(&server, &format!("CREATE TABLE {schema}.ledger (application text, version int); INSERT INTO {schema}.ledger VALUES ('other', 1)"));
    assert_eq!(code_of(&with_schema(&server, &schema)), Code::NotALedger);
    assert_eq!(sql(&server, &format!("SELECT x FROM {schema}.run")), [[Some("7".to_owned())]]);
    sql(&server, &format!("DROP SCHEMA {schema} CASCADE"));
}

#[test]
fn a_newer_layout_is_refused_and_nothing_is_no_ledger() {
    let (server, schema) = (shared_url(), unique_schema());
    let url = with_schema(&server, &schema);
    for mode in ["existing", "read_only"] {
        assert_eq!(code_of(&format!("{url}&mode={mode}")), Code::Io);
    }
    assert_eq!(sql(&server, &format!("SELECT count(*) FROM pg_namespace WHERE nspname = '{schema}'")), [[Some("0".to_owned())]]);
    open(&url).unwrap().close().unwrap();
    sql(&server, &format!("UPDATE {schema}.ledger SET version = 2"));
    assert_eq!(code_of(&url), Code::SchemaTooNew);
}

/// The name of a role that may come in and nothing else, and addresses with it.
fn fresh_role() -> (String, impl Fn(&str) -> String) {
    let role = format!("worker_{}", unique_schema());
    sql(&shared_url(), &format!("CREATE ROLE {role} LOGIN"));
    let user = format!("{role}@");
    (role, move |url: &str| url.replace("runledger@", &user))
}

#[test]
fn a_role_with_the_granted_rights_can_work_and_not_migrate() {
    let (server, schema) = (shared_url(), unique_schema());
    let url = with_schema(&server, &schema);
    open(&url).unwrap().close().unwrap();
    let (role, as_role) = fresh_role();
    assert_eq!(code_of(&as_role(&url)), Code::ReadOnly);
    sql(&server, &runledger_backend_postgres::grants(&schema, &role));
    let ledger = open(&as_role(&url)).unwrap();
    ledger.queue_run(queue("p", "r")).unwrap();
    assert!(ledger.verify_store(VerifyStore::new()).unwrap().is_ok());
    assert_eq!(ledger.compact_store(CompactStore::new()).unwrap_err().code(), Code::ReadOnly);
    assert_eq!(code_of(&as_role(&with_schema(&server, &unique_schema()))), Code::ReadOnly);
    ledger.close().unwrap();
    sql(&server, &format!("DROP SCHEMA {schema} CASCADE; DROP ROLE {role}"));
}

/// Commands, queries, transfers and verifications of every kind.
#[test]
fn a_role_with_the_granted_rights_is_answered_as_the_oracle_says() {
    let (role, as_role) = fresh_role();
    let granted = role.clone();
    let harness = LedgerHarness::new("postgres, granted", Traits::postgres(), move |name, options| {
        let schema = name.to_string_lossy();
        let (url, mut options) = (with_schema(&shared_url(), &schema), options.clone());
        PostgresBackend::migrate(&url, &mut options.clone())?;
        sql(&shared_url(), &runledger_backend_postgres::grants(&schema, &granted));
        let backend = PostgresBackend::open(&as_role(&url), &mut options)?;
        Ok(Ledger::new(backend, &options))
    })
    .removed_by(|name| drop(try_sql(&shared_url(), &format!("DROP SCHEMA IF EXISTS \"{}\" CASCADE", name.display()))));
    run_state_machine(&[&harness], if is_long() { 60 } else { 6 }, 60);
    drop(harness);
    sql(&shared_url(), &format!("DROP ROLE {role}"));
}

#[test]
fn a_server_that_does_not_let_us_in_or_is_not_there_is_named() {
    let server = shared_url();
    let Err(error) = open(&server.replace("/postgres", "/nowhere").replace("runledger@", "runledger:topsecret@")) else {
        panic!("a database that is not there was opened")
    };
    assert_eq!(error.code(), Code::Io);
    assert!(error.message().contains("nowhere") && !error.to_json().contains("topsecret"), "{error}");
    let Err(error) = open("postgres://ann:topsecret@127.0.0.1:1/runs") else { panic!("nothing was opened") };
    assert_eq!((error.code(), error.details().applied), (Code::Unavailable, Some("no")));
    assert!(error.message().contains("127.0.0.1:1/runs") && !error.to_json().contains("topsecret"), "{error}");
}

#[test]
fn only_utf8_databases_hold_ledgers() {
    let server = shared_url();
    let name = unique_schema();
    sql(&server, &format!("CREATE DATABASE {name} TEMPLATE template0 ENCODING 'SQL_ASCII' LC_COLLATE 'C' LC_CTYPE 'C'"));
    assert_eq!(code_of(&server.replace("/postgres", &format!("/{name}"))), Code::Unsupported);
    sql(&server, &format!("DROP DATABASE {name} WITH (FORCE)"));
}

#[test]
fn info_says_what_it_is_and_that_nothing_is_flushed() {
    let server = Server::start(&[("fsync", "off")]);
    for (url, durability) in [(server.socket_url(), "full"), (format!("{}?durability=relaxed", server.url()), "relaxed")] {
        let ledger = open(&url).unwrap();
        let info = ledger.store_info(GetStoreInfo::new()).unwrap();
        assert_eq!((info.backend.as_str(), info.engine_name.as_str(), info.schema_version), ("postgres", "PostgreSQL", 1));
        assert_eq!(info.durability, format!("{durability}, but the server runs with fsync off"));
        assert!(info.size_bytes > 0 && !info.engine_version.is_empty());
        ledger.close().unwrap();
    }
}

#[test]
fn encrypted_connections_verify_what_their_mode_says() {
    let folder = tempfile::tempdir().unwrap();
    let certificates = Certificates::make(folder.path(), "db.example");
    let strangers = tempfile::tempdir().unwrap();
    let other = Certificates::make(strangers.path(), "db.example");
    let mut server = Server::start(&[]);
    certificates.give_to(server.programs());
    server.stop();
    server.configure(&[
        ("ssl", "on"),
        ("ssl_cert_file", &certificates.path("server.crt")),
        ("ssl_key_file", &certificates.path("server.key")),
        ("ssl_ca_file", &certificates.path("root.crt")),
    ]);
    std::fs::write(server.data().join("pg_hba.conf"), "hostssl all all all cert\nlocal all all trust\nhostnossl all all all trust\n")
        .unwrap();
    server.run();
    let (root, stranger) = (certificates.path("root.crt"), other.path("root.crt"));
    let shown = format!("sslcert={}&sslkey={}", certificates.path("client.crt"), certificates.path("client.key"));
    let url = |host: &str, rest: &str| format!("postgres://runledger@{host}:{}/postgres?hostaddr=127.0.0.1&{rest}", server.port());
    for (host, rest, is_let_in) in [
        ("db.example", format!("sslmode=verify-full&sslrootcert={root}&{shown}"), true),
        ("elsewhere.example", format!("sslmode=verify-full&sslrootcert={root}&{shown}"), false),
        ("elsewhere.example", format!("sslmode=verify-ca&sslrootcert={root}&{shown}"), true),
        ("db.example", format!("sslmode=verify-ca&sslrootcert={stranger}&{shown}"), false),
        ("elsewhere.example", format!("sslmode=require&{shown}"), true),
        ("db.example", format!("sslmode=require&sslrootcert={stranger}&{shown}"), false),
        // Without a certificate of ours this server wants none of us; without encryption it asks for none.
        ("db.example", "sslmode=require".to_owned(), false),
        ("db.example", "sslmode=disable".to_owned(), true),
    ] {
        match open(&url(host, &rest)) {
            Ok(ledger) => {
                assert!(is_let_in, "{host} {rest}");
                assert_eq!(ledger.get_run(GetRun::new("p", "r")).unwrap(), None);
                ledger.close().unwrap();
            }
            Err(error) => {
                assert!(!is_let_in, "{host} {rest}: {error}");
                assert_eq!(error.code(), Code::Io, "{host} {rest}: {error}");
            }
        }
    }
    assert_eq!(code_of(&url("db.example", "sslmode=verify-full&sslrootcert=/no/such/file")), Code::Io);
}
