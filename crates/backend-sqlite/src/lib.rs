//! The SQLite backend of runledger: a store in one file, for several threads and processes at once.

mod arms;
mod backup;
mod connect;
mod db;
mod error;
mod export;
mod nodes;
mod place;
mod query;
mod rows;
mod schema;
mod session;
mod shared;
mod transact;
mod verify;

use std::path::Path;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use runledger_core::planted::{Defect, is_planted};
use runledger_core::{
    AgentFilter, AgentRun, AnswerForm, Backend, Code, CompactReport, Durability, Error, ExpiredFilter, ExportRecord, Id, Mode, NewFile,
    NodeFilter, NodeRun, OnProgress, OpenOptions, PageRequest, ProjectSummary, Result, Rows, Run, RunFilter, RunStats, StoreInfo,
    VerifyReport, Work, unwatched,
};
use rusqlite::Connection;

use crate::connect::{Abandoned, Access, Readers, checkpoint, closed, pragma, reader, retry, run, set, wait_at_most};
use crate::db::Db;
use crate::error::{Fault, Outcome};
use crate::place::Place;
use crate::session::Session;
use crate::shared::Held;
use crate::transact::SqliteTx;

pub use crate::shared::tell_forks_apart;

/// The log is cut back when it has grown past this, in bytes. The engine begins it anew by itself whenever no reader is
/// in it at the right moment; readers that overlap all the time would let it grow without end.
const MAX_LOG_BYTES: u64 = 16 << 20;

/// At every how many commits the log's size is looked at, which takes a call to the system.
const LOOK_AT_LOG: u32 = 16;

/// How long a commit that finds the log too long waits for readers to leave it: the longer the log, the longer, so that
/// readers that stay long can't let it grow without end either.
const LOG_PATIENCE: Duration = Duration::from_millis(50);

/// A worker that waits looks so often what other processes queued, which nothing tells it.
const LOOK_FOR_OTHERS: Duration = Duration::from_millis(200);

/// A store in a SQLite file.
///
/// ```
/// use runledger_backend_sqlite::SqliteBackend;
/// use runledger_core::{Backend, OpenOptions};
/// # let directory = tempfile::tempdir().map_err(|_| runledger_core::Error::corrupt("no temporary directory"))?;
/// let backend = SqliteBackend::open(&directory.path().join("runs.db"), &OpenOptions::new())?;
/// assert_eq!(backend.info()?.schema_version, 1);
/// backend.close()?;
/// # Ok::<(), runledger_core::Error>(())
/// ```
#[derive(Debug)]
pub struct SqliteBackend {
    place: Place,
    durability: Durability,
    mode: Mode,
    timeout: Duration,
    /// How reading connections see the file.
    access: Access,
    // Dropped before the writer, so that the last connection to close is one that can clear the log away.
    readers: Readers,
    writer: Mutex<Writer>,
    broken: OnceLock<Error>,
}

#[derive(Debug)]
struct Writer {
    /// `None` on a store that is opened read-only or closed.
    session: Option<Session>,
    log: LogWatch,
    // After the connections, which are what it is about.
    held: Option<Held>,
}

#[derive(Debug)]
struct LogWatch {
    /// The log's size past which it is cut back. It moves on when readers were in the way.
    max_bytes: u64,
    /// How many commits there were since its size was looked at.
    commits: u32,
}

impl SqliteBackend {
    /// Opens the store in the file at `path`, which is created where the options say so.
    ///
    /// # Errors
    /// `invalid_input` for an empty path, or a file that this process has open by other means; `io` where there is no such
    /// directory or file, or the system refuses; `read_only` where the file or its directory can't be written; `not_a_ledger` and `schema_too_new` for a file that
    /// is left untouched; `corrupt` for a damaged one; `busy` where another process holds it for longer than the options
    /// allow to wait.
    pub fn open(path: &Path, options: &OpenOptions) -> Result<SqliteBackend> {
        SqliteBackend::open_at(Place::new(path)?, options)
    }

    /// Opens the store with steps of the schema that come after those of this library, as a later version of it would:
    /// for the tests of migration.
    #[doc(hidden)]
    pub fn open_with_later_steps(path: &Path, options: &OpenOptions, later: &[&'static str]) -> Result<SqliteBackend> {
        let steps: Vec<&'static str> = schema::STEPS.iter().chain(later).copied().collect();
        SqliteBackend::open_at(Place { steps: steps.leak(), ..Place::new(path)? }, options)
    }

    fn open_at(mut place: Place, options: &OpenOptions) -> Result<SqliteBackend> {
        let timeout = Duration::from_millis(options.busy_timeout_ms);
        wait_at_most(timeout);
        let mut held = Held::claim(&place, options.allow_shared_file)?;
        let (conn, access) = match options.mode {
            Mode::ReadOnly => (None, schema::open_read_only(&place, options)?),
            Mode::Create | Mode::Existing => (Some(schema::open_writer(&mut place, options)?), Access::Write),
        };
        held.opened(&place);
        let backend = SqliteBackend {
            place,
            durability: options.durability,
            mode: options.mode,
            timeout,
            access,
            readers: Readers::default(),
            writer: Mutex::new(Writer {
                session: conn.map(Session::of),
                log: LogWatch { max_bytes: MAX_LOG_BYTES, commits: 0 },
                held: Some(held),
            }),
            broken: OnceLock::new(),
        };
        // A store that is open can be read, whatever other files the process opens later.
        backend.readers.keep(backend.told(backend.make_reader())?);
        Ok(backend)
    }

    fn writer(&self) -> MutexGuard<'_, Writer> {
        // A work that panicked left nothing half done: its transaction was rolled back.
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn told<T>(&self, outcome: Outcome<T>) -> Result<T> {
        outcome.map_err(|fault| fault.into_error(&self.place.shown))
    }

    /// Refuses everything once a commit's flush has failed.
    fn check_whole(&self) -> Result<()> {
        self.broken.get().map_or(Ok(()), |error| Err(error.clone()))
    }

    fn make_reader(&self) -> Outcome<Session> {
        self.readers.check_open()?;
        retry(|| reader(&self.place, self.access, self.durability)).map(Session::of)
    }

    /// Has `ask` look at one state of the store.
    fn read<T>(&self, ask: impl FnOnce(&Db<'_>) -> Outcome<T>) -> Result<T> {
        self.check_whole()?;
        let deadline = wait_at_most(self.timeout);
        let answer = || {
            let mut reader = self.readers.lend(deadline, || self.make_reader())?;
            in_one_state(&mut reader, ask)
        };
        self.told(answer())
    }

    /// Has `ask` look at one state of the store for as long as it needs, for which it must not keep a connection from the
    /// queries; unless the system has no file left for a further one.
    fn read_at_length<T>(&self, ask: impl FnOnce(&Db<'_>) -> Outcome<T>) -> Outcome<T> {
        let deadline = wait_at_most(self.timeout);
        match self.make_reader() {
            Err(fault) if fault.primary() == rusqlite::ffi::SQLITE_CANTOPEN => {
                let mut lent = self.readers.lend(deadline, || self.make_reader())?;
                in_one_state(&mut lent, ask)
            }
            made => in_one_state(&mut made?, ask),
        }
    }

    /// Has `use_it` work with the connection that writes, outside of a transaction.
    fn with_writer<T>(&self, use_it: impl FnOnce(&mut Session, &mut LogWatch) -> Outcome<T>) -> Result<T> {
        self.check_whole()?;
        if self.mode == Mode::ReadOnly {
            return Err(self.place.error(Code::ReadOnly, "it was opened read-only"));
        }
        let mut writer = self.writer();
        // Another thread may have met a failed flush while this one waited.
        self.check_whole()?;
        let Writer { session, log, .. } = &mut *writer;
        let session = session.as_mut().ok_or_else(closed)?;
        wait_at_most(self.timeout);
        let used = use_it(session, log);
        self.told(used)
    }

    fn transact(&self, session: &mut Session, work: &mut dyn Work) -> Outcome<bool> {
        session.with_db(|db| {
            db.run(if is_planted(Defect::SqliteBeginsDeferred) { "BEGIN" } else { "BEGIN IMMEDIATE" })?;
            // Even a work that panics must not leave the store locked.
            let _rollback = Abandoned(db.conn);
            let mut tx = SqliteTx::new(db, &self.place.shown);
            work.run(&mut tx)?;
            let changed = tx.changed;
            match db.run("COMMIT") {
                Err(_) if is_planted(Defect::SqliteSwallowsAFailedCommit) => {}
                committed => committed.map_err(|fault| self.after_failed_commit(fault))?,
            }
            Ok(changed)
        })
    }

    /// When the system refused a write or flush of a commit, nobody knows whether it will show after a crash.
    fn after_failed_commit(&self, fault: Fault) -> Fault {
        if fault.primary() != rusqlite::ffi::SQLITE_IOERR {
            return fault;
        }
        let what = format!("a commit could not be made durable (result {}): reopen the store, read, then decide", fault.result());
        let error = self.place.error(Code::Io, &what);
        self.broken.get_or_init(|| error).clone().into()
    }

    /// Cuts the log back when readers have kept the engine from doing so.
    fn bound_log(&self, conn: &Connection, log: &mut LogWatch) {
        log.commits += 1;
        if log.commits < LOOK_AT_LOG {
            return;
        }
        log.commits = 0;
        let bytes = self.place.log_len();
        if bytes <= log.max_bytes {
            return;
        }
        let times = u32::try_from(bytes / MAX_LOG_BYTES).unwrap_or(u32::MAX);
        wait_at_most(LOG_PATIENCE.saturating_mul(times).min(self.timeout));
        // The commit is made: whatever goes wrong here is for the next try.
        log.max_bytes = match checkpoint(conn) {
            Ok(true) => MAX_LOG_BYTES,
            _ => bytes + MAX_LOG_BYTES,
        };
    }

    fn compact_with(&self, conn: &Connection) -> Outcome<CompactReport> {
        let in_use = || Error::new(Code::Busy, "the store can't be compacted while it is in use").with_path(&self.place.shown);
        let bytes_before = self.place.size_bytes()?;
        // A log that somebody reads could not be cleared away afterwards, and the store would be larger than before.
        if !checkpoint(conn)? {
            return Err(in_use().into());
        }
        // The copy is made in a temporary file, not in memory.
        set(conn, &self.place, "temp_store", 1)?;
        let compacted = run(conn, "VACUUM");
        set(conn, &self.place, "temp_store", 2)?;
        compacted?;
        wait_at_most(self.timeout);
        if !checkpoint(conn)? {
            return Err(in_use().into());
        }
        Ok(CompactReport { bytes_before, bytes_after: self.place.size_bytes()? })
    }

    fn read_info(&self, conn: &Connection) -> Outcome<StoreInfo> {
        Ok(StoreInfo {
            backend: "sqlite".to_owned(),
            address: self.place.address(),
            schema_version: u32::try_from(pragma(conn, "user_version")?).unwrap_or(0),
            library_version: String::new(),
            engine_name: "SQLite".to_owned(),
            engine_version: rusqlite::version().to_owned(),
            durability: self.durability.as_str().to_owned(),
            mode: self.mode.as_str().to_owned(),
            size_bytes: self.place.size_bytes()?,
        })
    }
}

/// Has `ask` look at the one state that the store has now. Nothing stays open afterwards.
fn in_one_state<T>(session: &mut Session, ask: impl FnOnce(&Db<'_>) -> Outcome<T>) -> Outcome<T> {
    session.with_db(|db| {
        db.run("BEGIN")?;
        let _end = Abandoned(db.conn);
        ask(db)
    })
}

impl Backend for SqliteBackend {
    fn write(&self, work: &mut dyn Work) -> Result<()> {
        self.with_writer(|session, log| {
            if self.transact(session, work)? {
                self.bound_log(session.conn(), log);
            }
            Ok(())
        })
    }

    fn shares_commits(&self) -> bool {
        true
    }

    fn poll_interval(&self) -> Option<Duration> {
        Some(LOOK_FOR_OTHERS)
    }

    fn broken(&self) -> Option<Error> {
        self.broken.get().cloned()
    }

    fn get_run(&self, project: &Id, id: &Id, form: AnswerForm) -> Result<Option<Run>> {
        self.read(|db| Ok(query::by_id(db, query::RUN_BY_ID, project, id, form)?.map(|stored| stored.record)))
    }

    fn get_node(&self, project: &Id, id: &Id, form: AnswerForm) -> Result<Option<NodeRun>> {
        self.read(|db| Ok(query::by_id(db, query::NODE_BY_ID, project, id, form)?.map(|stored| stored.record)))
    }

    fn get_agent(&self, project: &Id, node_run_id: &Id, form: AnswerForm) -> Result<Option<AgentRun>> {
        self.read(|db| Ok(query::by_id(db, query::AGENT_BY_ID, project, node_run_id, form)?.map(|stored| stored.record)))
    }

    fn list_runs(&self, filter: &RunFilter, page: &PageRequest) -> Result<Rows<Run>> {
        self.read(|db| query::list_runs(db, filter, page))
    }

    fn list_nodes(&self, filter: &NodeFilter, page: &PageRequest) -> Result<Rows<NodeRun>> {
        self.read(|db| nodes::list_nodes(db, filter, page))
    }

    fn list_agents(&self, filter: &AgentFilter, page: &PageRequest) -> Result<Rows<AgentRun>> {
        self.read(|db| query::list_agents(db, filter, page))
    }

    fn list_projects(&self, page: &PageRequest) -> Result<Rows<ProjectSummary>> {
        self.read(|db| query::list_projects(db, page))
    }

    fn latest_runs(&self, project: &Id, workflow_ids: &[Id], form: AnswerForm) -> Result<Vec<Run>> {
        self.read(|db| query::latest_runs(db, project, workflow_ids, form))
    }

    fn expired_runs(&self, filter: &ExpiredFilter, form: AnswerForm) -> Result<(Vec<Run>, bool)> {
        self.read(|db| query::expired(db, filter, form))
    }

    fn expired_agents(&self, filter: &ExpiredFilter, form: AnswerForm) -> Result<(Vec<AgentRun>, bool)> {
        self.read(|db| query::expired(db, filter, form))
    }

    fn run_stats(&self, project: &Id, workflow_ids: Option<&[Id]>) -> Result<RunStats> {
        self.read(|db| query::run_stats(db, project, workflow_ids))
    }

    fn export(&self, sink: &mut dyn FnMut(ExportRecord) -> Result<()>) -> Result<()> {
        self.check_whole()?;
        self.told(self.read_at_length(|db| export::export(db, sink)))
    }

    fn backup(&self, file: &NewFile, on_progress: OnProgress<'_>) -> Result<bool> {
        self.check_whole()?;
        match self.read_at_length(|db| backup::backup(db.conn, file.path(), on_progress)) {
            Err(fault) if fault.code() == Code::Full => Err(file.located(Error::new(Code::Full, "the disk is full"))),
            copied => self.told(copied).map(|()| true),
        }
    }

    fn info(&self) -> Result<StoreInfo> {
        self.read(|db| self.read_info(db.conn))
    }

    fn is_read_only(&self) -> bool {
        self.mode == Mode::ReadOnly
    }

    fn verify(&self) -> Result<VerifyReport> {
        self.verify_with(&mut unwatched())
    }

    fn verify_with(&self, on_progress: OnProgress<'_>) -> Result<VerifyReport> {
        self.check_whole()?;
        self.told(self.read_at_length(|db| verify::verify(db, on_progress)))
    }

    fn compact(&self) -> Result<CompactReport> {
        self.with_writer(|session, _| self.compact_with(session.conn()))
    }

    fn close(&self) -> Result<()> {
        self.readers.close();
        let mut writer = self.writer();
        let conn = writer.session.take().map(Session::into_owner);
        wait_at_most(self.timeout);
        // The last connection to a store copies its log into the file and removes it.
        let closed = conn.map_or(Ok(()), |conn| conn.close().map_err(|(_, error)| Fault::Engine(error)));
        writer.held = None;
        self.told(closed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use runledger_core::{Command, Payload, Principal, Put, Status, Stored, Tx};
    use rusqlite::StatementStatus;

    struct Confirm(i64);

    impl Work for Confirm {
        fn commands(&self) -> Option<Vec<&Command>> {
            None
        }
        fn run(&mut self, tx: &mut dyn Tx) -> Result<()> {
            let time = runledger_core::Time::MIN.plus_us(self.0);
            let Some(before) = tx.run(&"p".into(), &"r".into(), AnswerForm::State)? else {
                let run = Run {
                    project_id: "p".into(),
                    id: "r".into(),
                    workflow_id: "w".into(),
                    status: Status::Queued,
                    input: Some(Payload::from_json("1")?),
                    queued_at: Some(time),
                    started_at: time,
                    waiting_since: None,
                    finished_at: None,
                    output: None,
                    error: None,
                    source: None,
                    requested_by_principal: Principal::system(),
                    attempt: 0,
                    execution: None,
                };
                return tx.put_run(&Put::insert(run));
            };
            let mut record = before.record.clone();
            record.attempt += 1;
            record.status = if record.status == Status::Queued { Status::Running } else { Status::Queued };
            let after = Stored { record, held: before.held, handle: before.handle };
            tx.put_run(&Put { before: Some(before), after, written: runledger_core::Held::default() })
        }
    }

    #[test]
    fn no_statement_is_prepared_anew() {
        let directory = tempfile::tempdir().unwrap();
        let backend = SqliteBackend::open(&directory.path().join("runs.db"), &OpenOptions::new()).unwrap();
        let check = |runs: i32| {
            let mut writer = backend.writer();
            let session = writer.session.as_mut().expect("it was opened to write");
            let looked = session.with_db(|db| {
                let mut confirms = 0;
                for (sql, statement) in db.held().iter() {
                    confirms += i32::from(statement.reset_status(StatementStatus::Run) >= runs);
                    let prepared_again = statement.reset_status(StatementStatus::RePrepare);
                    assert!(runs == 1 || prepared_again == 0, "{sql} was prepared again {prepared_again} times");
                }
                Ok(confirms)
            });
            // To begin and end, to load, to store, and two counters that go to and fro.
            assert!(looked.expect("nothing is asked of the engine") >= 4, "a statement was thrown away");
        };
        backend.write(&mut Confirm(0)).unwrap();
        check(1);
        for at in 0..50 {
            backend.write(&mut Confirm(at)).unwrap();
        }
        check(50);
    }
}
