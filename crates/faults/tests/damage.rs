//! Damaged files, files of others, and logs that are missing or left over.

#![allow(clippy::unwrap_used, clippy::panic, reason = "the lints' exception for tests does not reach their helpers")]

use std::collections::BTreeMap;

use runledger_core::{Code, Journal, OpenOptions};
use runledger_faults::damage::{Damage, Healthy, Kind, Outcome};
use runledger_faults::{Dice, Image, Workload, is_long};

fn healthy(kind: Kind, journal: Option<Journal>, is_closed: bool) -> Healthy {
    let options = OpenOptions::new();
    let options = match journal {
        Some(journal) => options.with_journal(journal),
        None => options,
    };
    Healthy::new(kind, &options, &Workload::new(8, 30, 0), is_closed)
}

fn count() -> usize {
    if is_long() { 5000 } else { 120 }
}

/// Damages one of the files again and again; answers how often each outcome came.
fn damage(name: &str, healthy: &Healthy, file: &str, seed: u64) -> BTreeMap<String, usize> {
    let mut dice = Dice::new(seed);
    let mut outcomes = BTreeMap::new();
    for number in 0..count() {
        let mut image = healthy.files.clone();
        let kind = Damage::ALL[number % Damage::ALL.len()];
        let how = kind.make(image.get_mut(file).unwrap(), &mut dice);
        let outcome = healthy.examine(&image).unwrap_or_else(|what| panic!("{name}, {file}, number {number}, {how}: {what}"));
        *outcomes.entry(format!("{outcome:?}")).or_default() += 1;
    }
    println!("damage to {file} of {name}: {} files: {outcomes:?}", count());
    outcomes
}

#[test]
fn damage_to_a_file_of_sqlite_is_found_or_harmless() {
    for journal in [Journal::Wal, Journal::Delete] {
        let outcomes = damage(&format!("sqlite, journal={journal}"), &healthy(Kind::Sqlite, Some(journal), true), "store", 1);
        assert!(outcomes["Found"] > 0 && outcomes["Refused(Corrupt)"] > 0);
        // Without a log there is no earlier state to go back to.
        assert_eq!(outcomes.get("Earlier"), None);
    }
}

#[test]
fn damage_to_a_file_of_redb_is_found_or_harmless() {
    let outcomes = damage("redb", &healthy(Kind::Redb, None, true), "store", 2);
    assert!(outcomes["Found"] > 0 && outcomes["Refused(Corrupt)"] > 0);
}

#[test]
fn damage_to_a_store_that_was_not_closed_is_found_or_harmless() {
    let unclosed = healthy(Kind::Sqlite, Some(Journal::Wal), false);
    damage("sqlite, not closed", &unclosed, "store", 3);
    // A log ends where it is damaged: what was acknowledged after that is lost with it, and never half.
    let outcomes = damage("sqlite, not closed", &unclosed, "store-wal", 4);
    assert!(outcomes["Earlier"] > 0);
    damage("redb, not closed", &healthy(Kind::Redb, None, false), "store", 5);
}

/// What was found so: a file that lacked its end was refused, but only after its log had been copied into it.
#[test]
fn a_file_that_lacks_its_end_and_has_a_log_keeps_its_bytes_when_it_is_refused() {
    let unclosed = healthy(Kind::Sqlite, Some(Journal::Wal), false);
    let mut refused = 0;
    for pages in 1..unclosed.files["store"].len() / 4096 {
        let mut image = unclosed.files.clone();
        image.get_mut("store").unwrap().truncate(pages * 4096);
        let outcome = unclosed.examine(&image).unwrap_or_else(|what| panic!("{pages} pages: {what}"));
        refused += usize::from(matches!(outcome, Outcome::Refused(Code::Corrupt)));
    }
    assert!(refused > 0);
}

/// What was found so: a file whose tables were not as they must be was refused, but only after it had been marked as open.
#[test]
fn a_file_of_redb_whose_tables_are_others_keeps_its_bytes_when_it_is_refused() {
    let store = healthy(Kind::Redb, None, true);
    let bytes = &store.files["store"];
    let mut refused = 0;
    for at in (0..bytes.len() - 5).filter(|at| bytes[*at..].starts_with(b"&[u8]")) {
        let mut image = store.files.clone();
        image.get_mut("store").unwrap()[at] ^= 2;
        let outcome = store.examine(&image).unwrap_or_else(|what| panic!("at {at}: {what}"));
        refused += usize::from(matches!(outcome, Outcome::Refused(Code::Corrupt)));
    }
    assert!(refused > 0);
}

/// A log that is missing, that is left over from another moment or another store, or that is no log.
#[test]
fn logs_that_do_not_belong_are_never_half_a_state() {
    let unclosed = healthy(Kind::Sqlite, Some(Journal::Wal), false);
    let closed = healthy(Kind::Sqlite, Some(Journal::Wal), true);
    let other = Healthy::new(Kind::Sqlite, &OpenOptions::new(), &Workload::new(9, 30, 0), false);
    let with = |store: &Healthy, name: &str, content: Option<Vec<u8>>| {
        let mut image = Image::from([("store".to_owned(), store.files["store"].clone())]);
        content.map(|content| image.insert(name.to_owned(), content));
        image
    };
    let garbage: Vec<u8> = (0..9000_u32).map(|n| (n * 7 % 251) as u8).collect();
    let log = || unclosed.files["store-wal"].clone();
    for (what, store, image) in [
        ("the log is missing", &unclosed, with(&unclosed, "", None)),
        ("a garbage log", &closed, with(&closed, "store-wal", Some(garbage.clone()))),
        ("a garbage log instead of the log", &unclosed, with(&unclosed, "store-wal", Some(garbage.clone()))),
        ("a garbage journal", &closed, with(&closed, "store-journal", Some(garbage.clone()))),
        ("a log that was copied back already", &closed, with(&closed, "store-wal", Some(log()))),
    ] {
        let outcome = store.examine(&image).unwrap_or_else(|why| panic!("{what}: {why}"));
        println!("{what}: {outcome:?}");
    }
    // The engine can't tell the log of another store from the file's own. Nothing is promised then, and yet it is one of the
    // two, or the damage is found.
    let mixed = with(&unclosed, "store-wal", Some(other.files["store-wal"].clone()));
    let outcomes = [unclosed.examine(&mixed), other.examine(&mixed)];
    println!("the log of another store: {outcomes:?}");
    assert!(outcomes.iter().any(Result::is_ok), "{outcomes:?}");
}

/// Files of others are refused, whatever they are, and keep their bytes.
#[test]
fn files_of_other_programs_are_refused_and_keep_their_bytes() {
    let mut dice = Dice::new(6);
    let directory = runledger_faults::scratch_directory();
    let other_sqlite = directory.path().join("other.db");
    let conn = rusqlite::Connection::open(&other_sqlite).unwrap();
    conn.execute_batch("CREATE TABLE run (id TEXT); INSERT INTO run VALUES ('theirs')").unwrap();
    drop(conn);
    let other_redb = directory.path().join("other.redb");
    let db = redb::Database::create(&other_redb).unwrap();
    let txn = db.begin_write().unwrap();
    txn.open_table(redb::TableDefinition::<&str, u64>::new("runs")).unwrap().insert("theirs", 1).unwrap();
    txn.commit().unwrap();
    drop(db);
    let mut random: Vec<u8> = (0..50_000).map(|_| dice.roll() as u8).collect();
    random[0] = b'R';
    let foreign: Vec<(&str, Vec<u8>)> = vec![
        ("a text", b"to do: buy milk\n".to_vec()),
        ("one byte", vec![0]),
        ("zeros", vec![0; 65_536]),
        ("random bytes", random),
        ("a picture", [b"\x89PNG\r\n\x1a\n".to_vec(), vec![1; 5000]].concat()),
        ("the mark of SQLite alone", b"SQLite format 3\0".to_vec()),
        ("the mark of redb alone", b"redb\x1A\x0A\xA9\x0D\x0A".to_vec()),
        ("a SQLite file", std::fs::read(&other_sqlite).unwrap()),
        ("a redb file", std::fs::read(&other_redb).unwrap()),
    ];
    for (kind, journal) in [(Kind::Sqlite, Some(Journal::Wal)), (Kind::Redb, None)] {
        let store = healthy(kind, journal, true);
        for (what, content) in &foreign {
            let outcome = store.examine(&Image::from([("store".to_owned(), content.clone())]));
            let outcome = outcome.unwrap_or_else(|why| panic!("{what} for {kind:?}: {why}"));
            println!("{what} for {kind:?}: {outcome:?}");
            assert!(matches!(outcome, Outcome::Refused(Code::NotALedger | Code::Corrupt)), "{what} for {kind:?}: {outcome:?}");
        }
    }
}
