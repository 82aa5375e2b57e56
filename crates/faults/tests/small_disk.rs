//! A real file system with little room, which only the superuser can mount: elsewhere this is skipped, and says so.

#![allow(clippy::unwrap_used, clippy::panic, reason = "the lints' exception for tests does not reach their helpers")]
#![cfg(target_os = "linux")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use runledger_backend_redb::RedbBackend;
use runledger_backend_sqlite::SqliteBackend;
use runledger_core::{Code, Durability, GetRun, Journal, Ledger, OpenOptions, Payload, QueueRun, Result, VerifyStore};
use runledger_faults::{model, state_of};
use tempfile::TempDir;

const SIZE_BYTES: usize = 8 << 20;

/// A file system in memory, of a fixed size.
struct SmallDisk(TempDir);

impl SmallDisk {
    fn mount() -> Option<SmallDisk> {
        let directory = tempfile::tempdir().unwrap();
        let size = format!("size={SIZE_BYTES}");
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", &size, "runledger"]).arg(directory.path()).output();
        match mounted {
            Ok(output) if output.status.success() => Some(SmallDisk(directory)),
            Ok(output) => {
                println!("SKIPPED: a file system can't be mounted here: {}", String::from_utf8_lossy(&output.stderr).trim());
                None
            }
            Err(error) => {
                println!("SKIPPED: a file system can't be mounted here: {error}");
                None
            }
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0.path()).status();
    }
}

fn run(number: usize, len: usize) -> QueueRun {
    let text = format!("{number:08}").repeat(len / 8);
    QueueRun::new("p", format!("r{number:06}"), "w", Payload::from_json(format!("\"{text}\"")).unwrap())
        .with_queued_at("2026-01-01T00:00:00Z".parse::<runledger_core::Time>().unwrap())
}

/// Fills the disk until it is full, makes room, and goes on; three times over.
fn fill(name: &str, open: impl Fn(&Path) -> Result<Ledger>) {
    let Some(disk) = SmallDisk::mount() else { return };
    let (path, ballast) = (disk.path("store"), disk.path("ballast"));
    let model = model();
    let ledger = open(&path).unwrap();
    let (mut number, mut refused) = (0, 0);
    for round in 0..3_usize {
        // What is left of the disk at each round is taken by something else.
        fs::write(&ballast, vec![1; SIZE_BYTES / 2]).unwrap_or_else(|error| assert!(round > 0, "{error}"));
        let mut refused_now = 0;
        while refused_now < 20 {
            let command = run(number, [40, 2000, 30_000, 200_000][number % 4]);
            number += 1;
            match ledger.queue_run(command.clone()) {
                Ok(_) => drop(model.queue_run(command).unwrap()),
                Err(error) => {
                    assert_eq!(error.code(), Code::Full, "{name}: {error}");
                    refused_now += 1;
                    // Reads go on, and nothing of it was kept.
                    assert!(ledger.get_run(GetRun::new("p", command.id.clone())).unwrap().is_none(), "{name}");
                }
            }
        }
        refused += refused_now;
        assert!(state_of(&ledger).unwrap() == state_of(&model).unwrap(), "{name}");
        fs::remove_file(&ballast).unwrap();
        let command = run(number, 40);
        number += 1;
        ledger.queue_run(command.clone()).unwrap_or_else(|error| panic!("{name}: there is room again: {error}"));
        model.queue_run(command).unwrap();
        if round == 1 {
            // Room that the store itself gives back.
            let runs = model.list_runs(runledger_core::ListRuns::new("p").with_limit(1000_u32)).unwrap().rows;
            for run in runs.iter().step_by(2) {
                for ledger in [&ledger, &model] {
                    let cancel = runledger_core::CancelRun::new("p", run.id.clone()).with_finished_at(run.started_at);
                    ledger.cancel_run(cancel).unwrap_or_else(|error| panic!("{name}: {error}"));
                    ledger
                        .delete_run(runledger_core::DeleteRun::new("p", run.id.clone()))
                        .unwrap_or_else(|error| panic!("{name}: {error}"));
                }
            }
        }
    }
    assert!(ledger.verify_store(VerifyStore::new()).unwrap().is_ok(), "{name}");
    ledger.close().unwrap();
    let ledger = open(&path).unwrap();
    assert!(state_of(&ledger).unwrap() == state_of(&model).unwrap(), "{name}");
    assert!(ledger.verify_store(VerifyStore::new()).unwrap().is_ok(), "{name}");
    println!("{name} on a disk of {SIZE_BYTES} bytes: {number} commands, {refused} refused for want of room");
}

#[test]
fn redb_on_a_full_disk_refuses_reads_on_and_works_again() {
    let options = OpenOptions::new();
    fill("redb", |path| Ok(Ledger::new(RedbBackend::open(path, &options)?, &options)));
}

#[test]
fn sqlite_on_a_full_disk_refuses_reads_on_and_works_again() {
    for (journal, durability) in
        [(Journal::Wal, Durability::Full), (Journal::Wal, Durability::Relaxed), (Journal::Delete, Durability::Full)]
    {
        let options = OpenOptions::new().with_journal(journal).with_durability(durability);
        fill(&format!("sqlite, journal={journal}, durability={durability}"), |path| {
            Ok(Ledger::new(SqliteBackend::open(path, &options)?, &options))
        });
    }
}
