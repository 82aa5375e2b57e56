//! In step with the other backends.

use runledger_backend_memory::MemoryBackend;
use runledger_backend_postgres::PostgresBackend;
use runledger_backend_sqlite::SqliteBackend;
use runledger_conformance::state_machine::run_state_machine;
use runledger_conformance::{LedgerHarness, Traits};
use runledger_core::{Command, FinishNode, Ledger, QueueRun, Request, StartNode, StartRun, Time};
use runledger_faults::is_long;
use runledger_postgres_kit::{shared_url, try_sql, with_schema};

use crate::kit::{copied_round, execution, payload, sqlite};

fn postgres() -> LedgerHarness {
    LedgerHarness::new("postgres", Traits::postgres(), |name, options| {
        let mut options = options.clone();
        let backend = PostgresBackend::open(&with_schema(&shared_url(), &name.to_string_lossy()), &mut options)?;
        Ok(Ledger::new(backend, &options))
    })
    .removed_by(|name| drop(try_sql(&shared_url(), &format!("DROP SCHEMA IF EXISTS \"{}\" CASCADE", name.display()))))
}

#[test]
fn every_answer_is_that_of_the_oracle_and_of_the_other_backends() {
    let memory = LedgerHarness::new("memory", Traits::memory(), |_, options| Ok(Ledger::new(MemoryBackend::open(options)?, options)));
    let sqlite = LedgerHarness::new("sqlite", Traits::sqlite(), |path, options| {
        let options = options.clone().with_durability(runledger_core::Durability::Relaxed);
        Ok(Ledger::new(SqliteBackend::open(path, &options)?, &options))
    });
    let cases = if is_long() { 2000 } else { 25 };
    run_state_machine(&[&postgres(), &memory, &sqlite], cases, 60);
}

/// A ledger with runs in every status, nodes and agents under some.
fn generated(ledger: &Ledger, runs: usize) {
    let at = |n: usize| Time::from_unix_us(1_700_000_000_000_000 + n as i64 * 1_000_000).unwrap();
    for chunk in (0..runs).collect::<Vec<_>>().chunks(100) {
        let mut commands: Vec<Command> = Vec::new();
        for n in chunk {
            let (project, id, workflow) = (format!("p{}", n % 3), format!("r{n:06}"), format!("wf{}", n % 7));
            if n % 5 == 0 {
                commands.push(QueueRun::new(project, id, workflow, payload(r#"{"a":1.0}"#)).with_queued_at(at(*n)).into());
                continue;
            }
            let start = StartRun::new(project.clone(), id.clone(), workflow.clone(), payload("[]")).with_started_at(at(*n));
            commands.push(start.with_execution(execution("t")).into());
            let node = StartNode::new(project.clone(), format!("n{n:06}"), id, workflow, 0_u32, "task", "a", "b", payload("null"));
            commands.push(node.with_execution_token("t").with_started_at(at(*n)).into());
            let finish = FinishNode::new(project, format!("n{n:06}"), runledger_core::EndStatus::Failed).with_error("a\0b");
            commands.push(finish.with_execution_token("t").with_finished_at(at(*n)).into());
        }
        for answer in ledger.execute_each(commands.into_iter().map(Request::Command).collect()) {
            answer.unwrap();
        }
    }
}

#[test]
fn a_copy_goes_round_and_comes_back_equal() {
    let directory = tempfile::tempdir().unwrap();
    let runs = if is_long() { 100_000 } else { 3_000 };
    let first = sqlite(&directory.path().join("first.db"));
    generated(&first, runs);
    let postgres = copied_round(&first, directory.path());
    // Once more, all is there already.
    let again = first.copy_to(&postgres).unwrap();
    let report = postgres.verify_store(runledger_core::VerifyStore::new()).unwrap();
    assert_eq!((again.runs, again.nodes, again.skipped), (0, 0, report.checked.runs + report.checked.nodes));
    assert!(report.is_ok() && report.checked.runs == runs as u64, "{report:?}");
}
