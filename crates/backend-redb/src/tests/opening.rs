//! Whose a file is, who may open it, and that a refusal leaves it alone.

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::{Duration, SystemTime};

use redb::{Database, TableDefinition};
use runledger_core::{AnswerForm, Backend, Code, Journal, Mode, OpenOptions, Put, Status};

use super::{Place, at, id, refused, run, write};
use crate::{RedbBackend, schema};

fn mode(mode: Mode) -> OpenOptions {
    OpenOptions::new().with_mode(mode)
}

const MODES: [Mode; 3] = [Mode::Create, Mode::Existing, Mode::ReadOnly];

/// Asserts that every mode refuses the file with a code, and that neither it nor its directory changes.
fn assert_left_alone(place: &Place, code: Code) -> Vec<runledger_core::Error> {
    let long_ago = SystemTime::now() - Duration::from_secs(1_000_000);
    File::options().write(true).open(place.path()).unwrap().set_modified(long_ago).unwrap();
    let (bytes, names) = (fs::read(place.path()).unwrap(), place.names());
    let errors = MODES.map(|as_mode| {
        let error = place.open_with(&mode(as_mode)).unwrap_err();
        assert_eq!(error.code(), code, "{as_mode}: {error}");
        assert_eq!(error.details().path.as_deref(), place.path().to_str());
        error
    });
    assert!(fs::read(place.path()).unwrap() == bytes);
    assert_eq!(fs::metadata(place.path()).unwrap().modified().unwrap(), long_ago);
    assert_eq!(place.names(), names);
    errors.into()
}

fn filled() -> Place {
    let place = Place::new();
    let backend = place.open();
    write(&backend, |tx| tx.put_run(&Put::insert(run("p", "r", "w", Status::Running, at(0))))).unwrap();
    backend.close().unwrap();
    place
}

#[test]
fn a_path_that_can_be_no_store_is_refused_and_nothing_is_made() {
    let place = Place::new();
    let open = |path: &Path, as_mode| RedbBackend::open(path, &mode(as_mode)).unwrap_err();
    assert_eq!(open(Path::new(""), Mode::Create).details().field.as_deref(), Some("path"));
    for path in [place.directory().join("no/such/runs.redb"), place.directory().to_path_buf()] {
        for as_mode in MODES {
            let error = open(&path, as_mode);
            assert_eq!((error.code(), error.details().path.as_deref()), (Code::Io, path.to_str()));
        }
    }
    for as_mode in [Mode::Existing, Mode::ReadOnly] {
        assert_eq!(open(&place.path(), as_mode).code(), Code::Io);
    }
    assert_eq!(refused(place.open_with(&OpenOptions::new().with_journal(Journal::Wal))), Code::Unsupported);
    assert!(place.names().is_empty());
    let odd = place.directory().join("a b ü?x#y%z");
    let backend = RedbBackend::open(&odd, &OpenOptions::new()).unwrap();
    assert!(backend.info().unwrap().address.ends_with("/a b ü%3Fx%23y%25z"));
    assert_eq!(place.names(), ["a b ü?x#y%z"]);
}

#[test]
fn a_file_of_another_program_is_left_alone() {
    let place = Place::new();
    for content in [&b"hello"[..], b"redb", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", b"SQLite format 3\0", &[0; 10_000]] {
        fs::write(place.path(), content).unwrap();
        assert_left_alone(&place, Code::NotALedger);
    }
    // A database of the same engine, closed well and not, with other tables or one of the same name.
    for name in ["theirs", "runledger"] {
        for closes in [true, false] {
            fs::remove_file(place.path()).unwrap();
            let theirs = Database::create(place.directory().join("theirs")).unwrap();
            let txn = theirs.begin_write().unwrap();
            txn.open_table(TableDefinition::<u64, &str>::new(name)).unwrap().insert(1, "one").unwrap();
            txn.commit().unwrap();
            if closes {
                drop(theirs);
            }
            fs::copy(place.directory().join("theirs"), place.path()).unwrap();
            fs::remove_file(place.directory().join("theirs")).unwrap();
            assert_left_alone(&place, Code::NotALedger);
        }
    }
}

#[test]
fn a_newer_or_foreign_version_is_left_alone() {
    let place = filled();
    let db = Database::create(place.path()).unwrap();
    let txn = db.begin_write().unwrap();
    schema::set_version(&txn, schema::version_after(schema::MIGRATIONS) + 1).unwrap();
    txn.commit().unwrap();
    drop(db);
    for error in assert_left_alone(&place, Code::SchemaTooNew) {
        let versions = [schema::version_after(schema::MIGRATIONS), schema::version_after(schema::MIGRATIONS) + 1];
        assert!(versions.iter().all(|version| error.message().contains(&version.to_string())), "{error}");
    }
    // The version of the engine's own format is the first byte of each commit slot.
    let place = filled();
    let mut bytes = fs::read(place.path()).unwrap();
    (bytes[64], bytes[64 + 128]) = (2, 2);
    fs::write(place.path(), &bytes).unwrap();
    assert_left_alone(&place, Code::Unsupported);
}

#[test]
fn what_is_cut_or_damaged_is_corrupt_and_left_alone() {
    let place = filled();
    let whole = fs::read(place.path()).unwrap();
    for len in [9, 300, 4096, 8192, whole.len() / 2, whole.len() - 1] {
        fs::write(place.path(), &whole[..len]).unwrap();
        assert_left_alone(&place, Code::Corrupt);
    }
    let mut longer = whole.clone();
    longer.push(0);
    fs::write(place.path(), &longer).unwrap();
    assert_left_alone(&place, Code::Corrupt);
    for (from, to) in [(9, 300), (64, 320), (4096, whole.len())] {
        let mut bytes = whole.clone();
        bytes[from..to].fill(0xA5);
        fs::write(place.path(), &bytes).unwrap();
        let code = refused(place.open_with(&OpenOptions::new()));
        assert!(matches!(code, Code::Corrupt | Code::Unsupported), "{code}");
        assert!(fs::read(place.path()).unwrap() == bytes);
    }
}

/// Whatever bytes change, opening answers: with an error, or with a store that answers.
#[test]
fn random_damage_never_panics() {
    let place = filled();
    let whole = fs::read(place.path()).unwrap();
    let mut dice = super::Dice(7);
    for _ in 0..300 {
        let mut bytes = whole.clone();
        for _ in 0..1 + dice.below(4) {
            let bound = if dice.below(2) == 0 { 400 } else { bytes.len() as u64 };
            bytes[dice.below(bound) as usize] ^= 1 << dice.below(8);
        }
        fs::write(place.path(), &bytes).unwrap();
        for as_mode in [Mode::ReadOnly, Mode::Existing] {
            if let Ok(backend) = place.open_with(&mode(as_mode)) {
                let _ = backend.get_run(&id("p"), &id("r"), AnswerForm::Record);
                let _ = backend.verify();
                let _ = write(&backend, |tx| tx.put_run(&Put::insert(run("p", "s", "w", Status::Queued, at(0)))));
                let _ = backend.close();
            }
        }
    }
}

#[test]
fn an_empty_file_is_a_fresh_store() {
    for as_mode in [Mode::Create, Mode::Existing] {
        let place = Place::new();
        fs::write(place.path(), b"").unwrap();
        let backend = place.open_with(&mode(as_mode)).unwrap();
        assert_eq!(backend.verify().unwrap().checked.runs, 0);
        assert_eq!(refused(place.open_with(&mode(Mode::Existing))), Code::Locked);
        write(&backend, |tx| tx.put_run(&Put::insert(run("p", "r", "w", Status::Queued, at(0))))).unwrap();
        assert_eq!(place.names(), ["runs.redb"]);
        backend.close().unwrap();
        assert!(place.open().get_run(&id("p"), &id("r"), AnswerForm::State).unwrap().is_some());
    }
    // To be read it would have to be made first.
    let place = Place::new();
    fs::write(place.path(), b"").unwrap();
    assert_eq!(refused(place.open_with(&mode(Mode::ReadOnly))), Code::ReadOnly);
    assert_eq!(fs::metadata(place.path()).unwrap().len(), 0);
    // One that another program holds is its own.
    let place = Place::new();
    let held = File::create(place.path()).unwrap();
    held.lock().unwrap();
    assert_eq!(refused(place.open_with(&mode(Mode::Create))), Code::Locked);
    assert_eq!(held.metadata().unwrap().len(), 0);
}

#[test]
fn a_store_has_one_handle_if_either_can_write() {
    let place = filled();
    let link = place.directory().join("link");
    symlink(place.path(), &link).unwrap();
    let name = place.directory().file_name().unwrap();
    let roundabout = place.directory().join("..").join(name).join("runs.redb");
    let first = place.open();
    for path in [place.path(), link.clone(), roundabout] {
        for as_mode in MODES {
            let error = RedbBackend::open(&path, &mode(as_mode)).unwrap_err();
            assert!(error.code() == Code::Locked && error.is_retryable(), "{error}");
        }
    }
    assert!(Database::open(place.path()).is_err());
    first.close().unwrap();
    let readers = [place.path(), link.clone()].map(|path| RedbBackend::open(&path, &mode(Mode::ReadOnly)).unwrap());
    assert_eq!(refused(place.open_with(&mode(Mode::Existing))), Code::Locked);
    for reader in readers {
        assert!(reader.get_run(&id("p"), &id("r"), AnswerForm::Record).unwrap().is_some());
        assert_eq!(reader.info().unwrap().mode, "read_only");
        assert_eq!(refused(write(&reader, |_| Ok(()))), Code::ReadOnly);
        assert_eq!(refused(reader.compact()), Code::ReadOnly);
        assert!(reader.verify().unwrap().is_ok());
    }
    let last = RedbBackend::open(&link, &OpenOptions::new()).unwrap();
    drop(last);
    drop(place.open());
}

#[test]
fn a_link_that_leads_nowhere_is_followed_when_a_store_is_made() {
    let place = Place::new();
    let link = place.directory().join("link");
    symlink("runs.redb", &link).unwrap();
    assert_eq!(refused(RedbBackend::open(&link, &mode(Mode::Existing))), Code::Io);
    drop(RedbBackend::open(&link, &OpenOptions::new()).unwrap());
    assert_eq!(place.names(), ["link", "runs.redb"]);
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
}

#[test]
fn reading_leaves_a_store_as_it_is() {
    let place = filled();
    let before = fs::read(place.path()).unwrap();
    let backend = place.open_with(&mode(Mode::ReadOnly)).unwrap();
    assert!(backend.get_run(&id("p"), &id("r"), AnswerForm::Record).unwrap().is_some());
    backend.close().unwrap();
    assert!(fs::read(place.path()).unwrap() == before);
    assert_eq!(place.names(), ["runs.redb"]);
}

#[test]
fn many_who_create_one_store_get_the_same() {
    let place = Place::new();
    std::thread::scope(|scope| {
        let openers: Vec<_> = (0..8)
            .map(|number| {
                let place = &place;
                scope.spawn(move || {
                    loop {
                        match place.open_with(&OpenOptions::new()) {
                            Ok(backend) => {
                                let new = run("p", &number.to_string(), "w", Status::Queued, at(number));
                                write(&backend, |tx| tx.put_run(&Put::insert(new.clone()))).unwrap();
                                return;
                            }
                            Err(error) => assert_eq!(error.code(), Code::Locked, "{error}"),
                        }
                    }
                })
            })
            .collect();
        openers.into_iter().for_each(|opener| opener.join().unwrap());
    });
    assert_eq!(place.names(), ["runs.redb"]);
    assert_eq!(place.open().verify().unwrap().checked.runs, 8);
}
