//! The redb backend: a ledger in one file, for one process at a time and all its threads.
//!
//! An acknowledged command is always durable: redb flushes each commit once (its default, one-phase commit), and after
//! a crash its checksums tell a commit that is whole from one that is not. The option `relaxed` is accepted and is as
//! strong as `full`. Two-phase commit would add a second flush and guard only against content that is made to deceive
//! those checksums. After a crash the next open reads the whole file to repair it, and tells its progress to
//! `on_repair`, which can stop it.
//!
//! Writers take turns. A verification has the engine check its pages while no command writes, and a compaction needs the
//! store alone; whoever waits longer than the busy timeout is answered `busy`.

mod backup;
mod error;
mod gate;
mod open;
mod query;
mod schema;
mod storage;
mod transact;
mod value;
mod verify;

// The tests make symbolic links and kill processes.
#[cfg(test)]
#[cfg(unix)]
mod tests;

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use redb::{Database, StorageBackend};
use runledger_core::{
    AgentFilter, AgentRun, AnswerForm, Backend, Code, CompactReport, Entity, Error, ExpiredFilter, ExportRecord, Id, Mode, NewFile,
    NodeFilter, NodeRun, OnProgress, OpenOptions, PageRequest, ProjectSummary, Result, Rows, Run, RunFilter, RunStats, StoreInfo,
    VerifyReport, Work, unwatched,
};

use crate::error::{Coded, guarded, io_error, located};
use crate::gate::{Gate, Taken, Turn};
use crate::open::Opened;
use crate::query::View;
use crate::schema::Migrations;
use crate::storage::{Fault, Storage};
use crate::transact::WriteTx;

/// The version of redb that this is built with.
const ENGINE_VERSION: &str = "4.6.0";

/// Migrations that this library does not have.
#[doc(hidden)]
pub type Later = &'static [fn(&redb::WriteTransaction) -> Result<()>];

fn after_ours(later: Later) -> Migrations {
    let migrations: Vec<_> = schema::MIGRATIONS.iter().chain(later).copied().collect();
    migrations.leak()
}

/// A ledger in a redb file.
#[derive(Debug)]
pub struct RedbBackend {
    path: PathBuf,
    mode: Mode,
    schema_version: u32,
    storage: Storage,
    /// The engine; not there where it could not be opened again yet.
    db: Gate<Option<Database>>,
    /// Writers, and whoever needs that nobody writes, take turns.
    turn: Turn,
    /// Set once nobody knows what the disk holds.
    broken: OnceLock<Error>,
}

impl RedbBackend {
    /// Opens the store at a path.
    ///
    /// # Errors
    /// `invalid_input` for an empty path, `io` where no file can be, or is to be, there, `locked` when another handle
    /// holds the store, `read_only` when it can't be written, `not_a_ledger`, `schema_too_new`, `unsupported` (an older
    /// format of redb) and `corrupt` for a file that can't be used, which is left as it is, and `interrupted` when a
    /// repair was stopped.
    ///
    /// ```
    /// use runledger_backend_redb::RedbBackend;
    /// use runledger_core::{Backend, OpenOptions};
    /// let directory = tempfile::tempdir().unwrap();
    /// let backend = RedbBackend::open(&directory.path().join("runs.redb"), &OpenOptions::new())?;
    /// assert_eq!(backend.info()?.durability, "full");
    /// # Ok::<(), runledger_core::Error>(())
    /// ```
    pub fn open(path: &Path, options: &OpenOptions) -> Result<RedbBackend> {
        let opened = open::open(path, options, schema::MIGRATIONS)?;
        Ok(RedbBackend::of(opened, path, options, schema::MIGRATIONS))
    }

    /// Opens the store with migrations that come after those of this library, as a later version of it would: for the
    /// tests of migration.
    #[doc(hidden)]
    pub fn open_with_later_migrations(path: &Path, options: &OpenOptions, later: Later) -> Result<RedbBackend> {
        let migrations = after_ours(later);
        Ok(RedbBackend::of(open::open(path, options, migrations)?, path, options, migrations))
    }

    /// As [`RedbBackend::open_on`], with later migrations.
    #[doc(hidden)]
    pub fn open_on_with_later_migrations(
        storage: impl StorageBackend,
        path: &Path,
        options: &OpenOptions,
        later: Later,
    ) -> Result<RedbBackend> {
        let migrations = after_ours(later);
        let opened = open::open_storage(storage, options, migrations).map_err(|error| located(error, path))?;
        Ok(RedbBackend::of(opened, path, options, migrations))
    }

    /// Opens a store that was made before, over any storage: below it, tests fail and lose what is written. The path only
    /// names it.
    #[doc(hidden)]
    pub fn open_on(storage: impl StorageBackend, path: &Path, options: &OpenOptions) -> Result<RedbBackend> {
        let opened = open::open_storage(storage, options, schema::MIGRATIONS).map_err(|error| located(error, path))?;
        Ok(RedbBackend::of(opened, path, options, schema::MIGRATIONS))
    }

    fn of(opened: Opened, path: &Path, options: &OpenOptions, migrations: Migrations) -> RedbBackend {
        let Opened { db, storage } = opened;
        let busy_timeout = Duration::from_millis(options.busy_timeout_ms);
        RedbBackend {
            path: path.to_path_buf(),
            mode: options.mode,
            schema_version: schema::version_after(migrations),
            storage,
            db: Gate::new(Some(db), busy_timeout),
            turn: Turn::new(busy_timeout),
            broken: OnceLock::new(),
        }
    }

    fn check_usable(&self) -> Result<()> {
        self.broken.get().map_or(Ok(()), |broken| Err(broken.clone()))
    }

    fn break_for(&self, cause: &Error) {
        let text = format!("a commit failed ({}): the store must be reopened", cause.message());
        let _ = self.broken.set(Error::new(Code::Io, text).with_entity(Entity::Store));
    }

    fn located(&self, error: Error) -> Error {
        located(error, &self.path)
    }

    /// Has what an earlier call has left dealt with.
    fn ready(&self) -> Result<()> {
        self.check_usable()?;
        if self.storage.fault().is_some() {
            let _turn = self.turn.take()?;
            self.heal()?;
        }
        Ok(())
    }

    /// Opens the engine again, over the same locked file, where it has met an error and refuses everything since. Without
    /// its header, a commit that was cut short by it never was. What is written to recover is held back, so that one can
    /// read where nothing can be written. Whoever calls has the turn.
    fn heal(&self) -> Result<()> {
        match self.storage.fault() {
            None => return Ok(()),
            Some((Fault::Flush, cause)) => self.break_for(&cause),
            Some((Fault::Refused, _)) => {}
        }
        self.check_usable()?;
        let db = self.db.take_out(false)?;
        self.storage.keep_locks(true);
        // That it can't close as it would is why it is opened again.
        let _ = guarded(|| db.map_or(Ok(()), |db| db.close().coded()));
        let opened = guarded(|| {
            self.storage.hold_back().map_err(|error| io_error(&error))?;
            open::database(self.storage.clone(), None)
        });
        self.storage.keep_locks(opened.is_err());
        if opened.is_ok() {
            self.storage.forget_fault();
        }
        let (db, healed) = opened.map_or_else(|error| (None, Err(error)), |db| (Some(db), Ok(())));
        self.db.put_back(db);
        healed
    }

    /// Takes the turn to write, with everything ready for it.
    fn begin_writing(&self) -> Result<Taken<'_>> {
        self.refuse_read_only()?;
        let turn = self.turn.take()?;
        self.check_usable()?;
        self.heal()?;
        self.storage.let_through().map_err(|error| io_error(&error))?;
        self.storage.begin();
        Ok(turn)
    }

    /// Answers from one state.
    fn read<T>(&self, query: impl Fn(&View) -> Result<T>) -> Result<T> {
        let ask = || {
            self.ready()?;
            let db = self.db.share()?;
            guarded(|| query(&View::of(engine(&db)?)?))
        };
        // What another call has met meanwhile is no reason to refuse this one.
        let answer = ask().or_else(|error| if self.storage.fault().is_some() { ask() } else { Err(error) });
        answer.map_err(|error| self.located(error))
    }

    /// Runs `work` in a transaction of the engine.
    fn transact(&self, work: &mut dyn Work) -> Result<()> {
        let db = self.db.share()?;
        let txn = guarded(|| engine(&db)?.begin_write().coded())?;
        let mut tx = WriteTx::new(&txn);
        let done = work.run(&mut tx).and_then(|()| guarded(|| tx.settle()));
        let changed = tx.changed;
        guarded(|| {
            drop(tx);
            Ok(())
        })?;
        match done {
            Ok(()) if changed => guarded(|| txn.commit().coded()).inspect_err(|error| {
                if self.storage.fault().is_none() {
                    self.break_for(error);
                }
            }),
            // Nothing was put, or it must not stay.
            done => {
                let aborted = guarded(|| txn.abort().coded());
                done.and(aborted)
            }
        }
    }

    fn refuse_read_only(&self) -> Result<()> {
        if self.is_read_only() {
            return Err(self.located(Error::new(Code::ReadOnly, "the store was opened read-only").with_entity(Entity::Store)));
        }
        Ok(())
    }
}

impl Backend for RedbBackend {
    fn write(&self, work: &mut dyn Work) -> Result<()> {
        let _turn = self.begin_writing().map_err(|error| self.located(error))?;
        self.transact(work).or_else(|error| {
            let is_committed = self.storage.is_committed();
            // What can't be healed now is said to the next call.
            let _ = self.heal();
            if is_committed { Ok(()) } else { Err(self.located(error)) }
        })
    }

    fn shares_commits(&self) -> bool {
        true
    }

    fn broken(&self) -> Option<Error> {
        self.broken.get().cloned().map(|error| self.located(error))
    }

    fn get_run(&self, project: &Id, id: &Id, form: AnswerForm) -> Result<Option<Run>> {
        self.read(|view| view.get_run(project, id, form))
    }

    fn get_node(&self, project: &Id, id: &Id, form: AnswerForm) -> Result<Option<NodeRun>> {
        self.read(|view| view.get_node(project, id, form))
    }

    fn get_agent(&self, project: &Id, node_run_id: &Id, form: AnswerForm) -> Result<Option<AgentRun>> {
        self.read(|view| view.get_agent(project, node_run_id, form))
    }

    fn list_runs(&self, filter: &RunFilter, page: &PageRequest) -> Result<Rows<Run>> {
        self.read(|view| view.list_runs(filter, page))
    }

    fn list_nodes(&self, filter: &NodeFilter, page: &PageRequest) -> Result<Rows<NodeRun>> {
        self.read(|view| view.list_nodes(filter, page))
    }

    fn list_agents(&self, filter: &AgentFilter, page: &PageRequest) -> Result<Rows<AgentRun>> {
        self.read(|view| view.list_agents(filter, page))
    }

    fn list_projects(&self, page: &PageRequest) -> Result<Rows<ProjectSummary>> {
        self.read(|view| view.list_projects(page))
    }

    fn latest_runs(&self, project: &Id, workflow_ids: &[Id], form: AnswerForm) -> Result<Vec<Run>> {
        self.read(|view| view.latest_runs(project, workflow_ids, form))
    }

    fn expired_runs(&self, filter: &ExpiredFilter, form: AnswerForm) -> Result<(Vec<Run>, bool)> {
        self.read(|view| view.expired_runs(filter, form))
    }

    fn expired_agents(&self, filter: &ExpiredFilter, form: AnswerForm) -> Result<(Vec<AgentRun>, bool)> {
        self.read(|view| view.expired_agents(filter, form))
    }

    fn run_stats(&self, project: &Id, workflow_ids: Option<&[Id]>) -> Result<RunStats> {
        self.read(|view| view.run_stats(project, workflow_ids))
    }

    fn export(&self, sink: &mut dyn FnMut(ExportRecord) -> Result<()>) -> Result<()> {
        let mut export = || {
            self.ready()?;
            let db = self.db.share()?;
            let view = guarded(|| View::of(engine(&db)?))?;
            view.export(sink)
        };
        export().map_err(|error| self.located(error))
    }

    fn backup(&self, file: &NewFile, on_progress: OnProgress<'_>) -> Result<bool> {
        self.ready().map_err(|error| self.located(error))?;
        let copy = file.file().try_clone().map_err(|error| file.located(io_error(&error)))?;
        let db = self.db.share().map_err(|error| self.located(error))?;
        let view = guarded(|| View::of(engine(&db)?)).map_err(|error| self.located(error))?;
        backup::backup(&view, copy, on_progress).map(|()| true)
    }

    fn info(&self) -> Result<StoreInfo> {
        let size_bytes = self.storage.file_len().map_err(|error| self.located(io_error(&error)))?;
        Ok(StoreInfo {
            backend: "redb".into(),
            address: address(&self.path),
            schema_version: self.schema_version,
            library_version: String::new(),
            engine_name: "redb".into(),
            engine_version: ENGINE_VERSION.into(),
            durability: "full".into(),
            mode: self.mode.as_str().into(),
            size_bytes,
        })
    }

    fn is_read_only(&self) -> bool {
        self.mode == Mode::ReadOnly
    }

    fn verify(&self) -> Result<VerifyReport> {
        self.verify_with(&mut unwatched())
    }

    fn verify_with(&self, on_progress: OnProgress<'_>) -> Result<VerifyReport> {
        let mut verify = || {
            self.ready()?;
            let db = self.db.share()?;
            let mut report = VerifyReport::default();
            {
                // The engine's check needs the file to stay as it is; where the turn can't be had in time it is left out.
                if let Ok(_turn) = self.turn.take() {
                    let sound = open::check_engine(&self.storage)?;
                    verify::note_engine(&mut report, sound);
                }
            }
            let view = guarded(|| View::of(engine(&db)?))?;
            verify::verify(&view, &mut report, on_progress)?;
            Ok(report)
        };
        verify().map_err(|error| self.located(error))
    }

    fn compact(&self) -> Result<CompactReport> {
        let compact = || {
            let _turn = self.begin_writing()?;
            let len = || self.storage.file_len().map_err(|error| io_error(&error));
            let bytes_before = len()?;
            let mut db = self.db.take_out(false)?;
            let compacted = guarded(|| {
                while let Some(db) = &mut db
                    && db.compact().coded()?
                {}
                Ok(())
            });
            self.db.put_back(db);
            self.heal().and(compacted)?;
            Ok(CompactReport { bytes_before, bytes_after: len()? })
        };
        compact().map_err(|error| self.located(error))
    }

    fn close(&self) -> Result<()> {
        // To close what is closed, because it broke for good, is no error.
        let Ok(db) = self.db.take_out(true) else { return Ok(()) };
        self.db.close();
        self.storage.keep_locks(false);
        let closed = match db {
            Some(db) => guarded(|| {
                // Or else the next open recovers once more.
                let _ = self.storage.let_through();
                db.close().coded()
            }),
            None => self.storage.close().map_err(|error| io_error(&error)),
        };
        // What a broken handle can't write at its end was said when it broke.
        if self.broken.get().is_some() { Ok(()) } else { closed.map_err(|error| self.located(error)) }
    }
}

fn engine(db: &Option<Database>) -> Result<&Database> {
    let not_there = || Error::new(Code::Io, "the engine could not be opened again after an error").with_entity(Entity::Store);
    db.as_ref().ok_or_else(not_there)
}

/// The address of a store: in a path, the characters with a meaning of their own are escaped.
fn address(path: &Path) -> String {
    let path = path.to_string_lossy().replace('%', "%25").replace('?', "%3F").replace('#', "%23");
    format!("redb:{path}")
}
