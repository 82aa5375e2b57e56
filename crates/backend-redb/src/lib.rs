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

use redb::Database;
use runledger_core::{
    AgentFilter, AgentRun, AnswerForm, Backend, Code, CompactReport, Entity, Error, ExpiredFilter, ExportRecord, Id, Mode, NodeFilter,
    NodeRun, OpenOptions, PageRequest, ProjectSummary, Result, Rows, Run, RunFilter, RunStats, StoreInfo, VerifyReport, Work,
};

use crate::error::{Coded, guarded, io_error, located};
use crate::gate::{Gate, Turn};
use crate::open::Opened;
use crate::query::View;
use crate::storage::{Fault, Storage};
use crate::transact::WriteTx;

/// The version of redb that this is built with.
const ENGINE_VERSION: &str = "4.6.0";

/// How long a reader waits before it looks again whether a full disk was dealt with.
const PAUSE: Duration = Duration::from_millis(1);

/// A ledger in a redb file.
#[derive(Debug)]
pub struct RedbBackend {
    path: PathBuf,
    mode: Mode,
    storage: Storage,
    db: Gate<Database>,
    /// Writers, and whoever needs that nobody writes, take turns.
    turn: Turn,
    /// The first error after which nobody knows what the disk holds.
    broken: OnceLock<Error>,
    busy_timeout: Duration,
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
        Ok(RedbBackend::of(open::open(path, options)?, path, options))
    }

    /// Opens a store that was made before, over any storage: below it, tests fail and lose what is written.
    #[doc(hidden)]
    pub fn open_on(storage: impl redb::StorageBackend, options: &OpenOptions) -> Result<RedbBackend> {
        Ok(RedbBackend::of(open::open_storage(storage, false, options)?, Path::new(""), options))
    }

    fn of(opened: Opened, path: &Path, options: &OpenOptions) -> RedbBackend {
        let Opened { db, storage } = opened;
        let busy_timeout = Duration::from_millis(options.busy_timeout_ms);
        RedbBackend {
            path: path.to_path_buf(),
            mode: options.mode,
            storage,
            db: Gate::new(db, busy_timeout),
            turn: Turn::new(busy_timeout),
            broken: OnceLock::new(),
            busy_timeout,
        }
    }

    fn check_usable(&self) -> Result<()> {
        match self.broken.get() {
            Some(first) => {
                let text = format!("an earlier commit failed ({}): the store must be reopened", first.message());
                Err(self.located(Error::new(Code::Io, text).with_entity(Entity::Store)))
            }
            None => Ok(()),
        }
    }

    fn located(&self, error: Error) -> Error {
        located(error, &self.path)
    }

    /// Answers from one state.
    fn read<T>(&self, query: impl Fn(&View) -> Result<T>) -> Result<T> {
        let began = std::time::Instant::now();
        loop {
            self.check_usable()?;
            let answer = {
                let db = self.db.share()?;
                guarded(|| query(&View::of(&*db)?))
            };
            match answer {
                // The engine refuses everything once a disk was full, until the writer that met it has reopened it.
                Err(error)
                    if error.code() == Code::Io && self.storage.fault() == Some(Fault::Full) && began.elapsed() < self.busy_timeout =>
                {
                    std::thread::sleep(PAUSE);
                }
                answer => return answer.map_err(|error| self.located(error)),
            }
        }
    }

    /// Runs `work` in a transaction of the engine.
    fn transact(&self, work: &mut dyn Work) -> Result<()> {
        let db = self.db.share()?;
        let txn = guarded(|| db.begin_write().coded())?;
        let mut tx = guarded(|| WriteTx::open(&txn))?;
        let done = work.run(&mut tx);
        let changed = tx.changed;
        guarded(|| {
            drop(tx);
            Ok(())
        })?;
        match done {
            Ok(()) if changed => guarded(|| txn.commit().coded()).inspect_err(|error| {
                if self.storage.fault() != Some(Fault::Full) {
                    let _ = self.broken.set(error.clone());
                }
            }),
            // Nothing was put, or it must not stay.
            done => {
                let aborted = guarded(|| txn.abort().coded());
                done.and(aborted)
            }
        }
    }

    /// Deals with what a call that failed has left: the engine refuses everything after a write that failed. Where the
    /// disk was full a commit is either durable already or can't last, since not all of it reached the file: the engine is
    /// opened again over the same locked file, and finds the last one that is whole.
    fn recover(&self) {
        let Some(fault) = self.storage.fault() else { return };
        let reopened = match fault {
            Fault::Full => self.reopen(),
            Fault::Unknown => Err(Error::new(Code::Io, "a write or flush failed").with_entity(Entity::Store)),
        };
        match reopened {
            Ok(()) => self.storage.begin(),
            Err(error) => drop(self.broken.set(error)),
        }
    }

    fn reopen(&self) -> Result<()> {
        let db = self.db.take_out(false)?;
        self.storage.keep_locks(true);
        // That it can't close as it would is why it is opened again.
        let _ = guarded(|| db.close().coded());
        self.storage.keep_locks(false);
        match guarded(|| open::database(self.storage.clone(), None)) {
            Ok(db) => self.db.put_back(db),
            Err(error) => {
                let _ = self.broken.set(error);
                self.db.close();
            }
        }
        Ok(())
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
        self.refuse_read_only()?;
        let _turn = self.turn.take()?;
        self.check_usable()?;
        self.storage.begin();
        self.transact(work).or_else(|error| {
            let is_committed = self.storage.is_committed();
            self.recover();
            if is_committed { Ok(()) } else { Err(self.located(error)) }
        })
    }

    fn shares_commits(&self) -> bool {
        true
    }

    fn broken(&self) -> Option<Error> {
        self.broken.get().cloned()
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
        self.check_usable()?;
        let db = self.db.share()?;
        let exported = guarded(|| View::of(&*db)).and_then(|view| view.export(sink));
        exported.map_err(|error| self.located(error))
    }

    fn info(&self) -> Result<StoreInfo> {
        let size_bytes = self.storage.file_len().map_err(|error| self.located(io_error(&error)))?;
        Ok(StoreInfo {
            backend: "redb".into(),
            address: address(&self.path),
            schema_version: schema::SCHEMA_VERSION,
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
        self.check_usable()?;
        let db = self.db.share()?;
        let mut report = VerifyReport::default();
        {
            // The engine's check needs the file to stay as it is; where the turn can't be had in time it is left out.
            if let Ok(_turn) = self.turn.take() {
                let sound = open::check_engine(&self.storage).map_err(|error| self.located(error))?;
                verify::note_engine(&mut report, sound);
            }
        }
        let view = guarded(|| View::of(&*db)).map_err(|error| self.located(error))?;
        verify::verify(&view, &mut report).map_err(|error| self.located(error))?;
        Ok(report)
    }

    fn compact(&self) -> Result<CompactReport> {
        self.refuse_read_only()?;
        let _turn = self.turn.take()?;
        self.check_usable()?;
        let len = || self.storage.file_len().map_err(|error| self.located(io_error(&error)));
        let bytes_before = len()?;
        self.storage.begin();
        let mut db = self.db.take_out(false).map_err(|error| self.located(error))?;
        let compacted = guarded(|| {
            while db.compact().coded()? {}
            Ok(())
        });
        self.db.put_back(db);
        compacted.map_err(|error| {
            self.recover();
            self.located(error)
        })?;
        Ok(CompactReport { bytes_before, bytes_after: len()? })
    }

    fn close(&self) -> Result<()> {
        // To close what is closed, because it broke for good, is no error.
        let Ok(db) = self.db.take_out(true) else { return Ok(()) };
        self.db.close();
        let closed = guarded(|| db.close().coded());
        // What a broken handle can't write at its end was said when it broke.
        if self.broken.get().is_some() { Ok(()) } else { closed.map_err(|error| self.located(error)) }
    }
}

/// The address of a store: in a path, the characters with a meaning of their own are escaped.
fn address(path: &Path) -> String {
    let path = path.to_string_lossy().replace('%', "%25").replace('?', "%3F").replace('#', "%23");
    format!("redb:{path}")
}
