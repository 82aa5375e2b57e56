//! The PostgreSQL backend of runledger: one ledger for many machines, on the server that its users already operate.

mod address;
mod error;
mod export;
mod flush;
mod listen;
mod load;
mod overlay;
mod pool;
mod query;
mod rows;
mod schema;
mod statement;
mod tls;
mod transact;
mod verify;
mod wanted;

pub use schema::{grants, read_options};

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use runledger_core::{
    AgentFilter, AgentRun, AnswerForm, Backend, Code, Command, CompactReport, Durability, Entity, Error, ExpiredFilter, ExportRecord, Id,
    Mode, NodeFilter, NodeRun, OnQueued, OpenOptions, PageRequest, ProjectSummary, QueueKey, Result, Rows, Run, RunFilter, RunStats,
    StoreInfo, VerifyReport, Work,
};

use crate::address::Address;
use crate::error::{Fault, Outcome};
use crate::listen::{LOOK, News};
use crate::pool::{Connector, Pool, Session};
use crate::query::{Answers, Selection, rows_of};
use crate::rows::Columns;
use crate::statement::Statement;
use crate::transact::PostgresTx;
use crate::wanted::Wanted;

/// How often a transaction that others were in the way of is made again before the caller is told so.
const MAX_TRIES: u32 = 12;

/// Each handle counts on one of so many shards.
const SHARDS: u64 = 16;

/// A store in a schema of a PostgreSQL database.
pub struct PostgresBackend {
    pool: Pool,
    durability: Durability,
    mode: Mode,
    timeout: Duration,
    /// Whether times that are not given are the server's.
    uses_server_clock: bool,
    shard: i16,
    news: Arc<News>,
}

impl std::fmt::Debug for PostgresBackend {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PostgresBackend").field("address", &self.connector().address.shown()).finish_non_exhaustive()
    }
}

impl PostgresBackend {
    /// Opens the store at an address, `postgres://USER@HOST/DATABASE?schema=runledger`, and makes its schema where the
    /// options say so. What the address gives goes before the same option in `options`, which are changed accordingly.
    ///
    /// # Errors
    /// `invalid_input`, naming the option, for an address that is wrong; `unavailable` where the server can't be reached;
    /// `io` where it does not let us in, or has no ledger and none is to be made; `not_a_ledger` and `schema_too_new`
    /// for tables that are left untouched; `unsupported` for a database that is not in UTF8.
    pub fn open(url: &str, options: &mut OpenOptions) -> Result<PostgresBackend> {
        let address = Address::read(url, options)?;
        let connector = Arc::new(Connector::new(address)?);
        static OPENED: AtomicU64 = AtomicU64::new(0);
        // Handles of one process, and processes that are started one after the other, count apart.
        let shard = (u64::from(std::process::id()) + OPENED.fetch_add(1, Ordering::Relaxed)) % SHARDS;
        let backend = PostgresBackend {
            news: News::new(Arc::clone(&connector)),
            pool: Pool::new(connector),
            durability: options.durability,
            mode: options.mode,
            timeout: Duration::from_millis(options.busy_timeout_ms),
            uses_server_clock: options.clock.is_system(),
            shard: shard as i16,
        };
        backend.told(backend.prepare())?;
        Ok(backend)
    }

    fn prepare(&self) -> Outcome<()> {
        let mut lent = self.pool.lend(self.deadline())?;
        schema::prepare(self.connector(), lent.session()?, self.mode)?;
        lent.is_clean = true;
        Ok(())
    }

    fn connector(&self) -> &Arc<Connector> {
        &self.pool.connector
    }

    fn deadline(&self) -> Instant {
        Instant::now() + self.timeout
    }

    fn told<T>(&self, outcome: Outcome<T>) -> Result<T> {
        outcome.map_err(|fault| fault.into_error(&self.connector().address.place()))
    }

    /// Makes the layout at an address, or brings it to this version, without opening the store, and says which it is.
    /// What the role of the address may do decides; others need no more than [`grants`] then.
    ///
    /// # Errors
    /// As [`PostgresBackend::open`].
    pub fn migrate(url: &str, options: &mut OpenOptions) -> Result<u32> {
        options.mode = Mode::Create;
        PostgresBackend::open(url, options)?.close()?;
        Ok(schema::VERSION)
    }

    // ---- reading

    /// Asks statements that see one state together, on a connection of the pool.
    fn read(&self, statements: Vec<Statement<'_>>) -> Outcome<Answers> {
        let begin = format!(
            "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL statement_timeout = {}",
            self.connector().address.statement_timeout_ms
        );
        let mut whole = vec![Statement::simple(begin)];
        whole.extend(statements);
        whole.push(Statement::simple("COMMIT"));
        let deadline = self.deadline();
        loop {
            let mut lent = self.pool.lend(deadline)?;
            match self.connector().ask(lent.session()?, &whole) {
                Ok(answers) => {
                    lent.is_clean = true;
                    return Ok(answers.into_iter().skip(1).collect());
                }
                // A connection that was idle may have been broken for long; a new one tells whether the server is there.
                Err(fault) if fault.is_of_connection() && !lent.is_fresh => {}
                Err(fault) => {
                    // What is sent after a failed statement is passed over until the commit, which is then a rollback.
                    lent.is_clean = !fault.is_of_connection();
                    return Err(fault);
                }
            }
        }
    }

    /// Has `use_it` work on a connection of its own, in one state of the store, for as long as it needs.
    fn read_at_length<T>(&self, use_it: impl FnOnce(&Session) -> Outcome<T>) -> Outcome<T> {
        let session = self.connector().connect()?;
        // Whatever is read in order is read from an index: a sort of all that there is would fill the server's disk.
        let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL statement_timeout = 0; SET LOCAL enable_sort = off";
        self.connector().ask(&session, &[Statement::simple(begin)])?;
        let used = use_it(&session)?;
        self.connector().ask(&session, &[Statement::simple("COMMIT")])?;
        Ok(used)
    }

    // ---- writing

    /// Opens a transaction that writes.
    fn begin(&self) -> Statement<'static> {
        let commit = match self.durability {
            // Raised where it is lower, never lowered: a server may wait for standbys to apply.
            Durability::Full => {
                "SELECT set_config('synchronous_commit', CASE WHEN current_setting('synchronous_commit') IN ('on', 'remote_apply') \
                 THEN current_setting('synchronous_commit') ELSE 'on' END, true)"
            }
            Durability::Relaxed => "SET LOCAL synchronous_commit = off",
        };
        let statement_ms = self.connector().address.statement_timeout_ms;
        // To the server 0 is no limit; to us it is no patience.
        let lock_ms = self.timeout.as_millis().clamp(1, i32::MAX as u128);
        Statement::simple(format!(
            "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL lock_timeout = {lock_ms}; \
             SET LOCAL statement_timeout = {statement_ms}; {commit}"
        ))
    }

    fn transact(&self, work: &mut dyn Work) -> Outcome<()> {
        let wanted = {
            let commands: Option<Vec<&Command>> = work.commands();
            Wanted::new(&self.connector().address.schema, commands.as_deref())
        };
        let is_bulk = work.commands().is_none();
        let deadline = self.deadline();
        let mut tries = 0;
        loop {
            tries += 1;
            let mut lent = self.pool.lend(deadline)?;
            let tried = self.try_once(lent.session()?, &wanted, tries, is_bulk, work);
            lent.is_clean = tried.as_ref().err().is_none_or(|(_, is_clean)| *is_clean);
            match tried {
                Ok(()) => return Ok(()),
                // Not yet committed: a connection that had been idle may have been broken for long.
                Err((fault, _)) if fault.is_of_connection() && !lent.is_fresh => {}
                Err((fault, _)) if fault.is_to_be_made_again() && tries < MAX_TRIES => {
                    drop(lent);
                    std::thread::sleep(Duration::from_micros(u64::from(200 * tries * tries)));
                }
                Err((fault, _)) => return Err(fault),
            }
        }
    }

    /// Makes the transaction once. A fault comes with whether the connection is free of it.
    fn try_once(
        &self,
        session: &Session,
        wanted: &Wanted,
        tries: u32,
        is_bulk: bool,
        work: &mut dyn Work,
    ) -> std::result::Result<(), (Fault, bool)> {
        let mut tx = PostgresTx::new(self.connector(), session, self.shard);
        let begun = match is_bulk {
            true => tx.begin_bulk(self.begin(), wanted),
            false => tx.lock_and_load(self.begin(), wanted, tries, self.uses_server_clock),
        };
        let done = begun.and_then(|()| {
            let worked = work.run(&mut tx);
            match tx.fault.take() {
                Some(fault) => Err(fault),
                None => worked.map_err(Fault::from),
            }
        });
        if let Err(fault) = done {
            let is_clean = !fault.is_of_connection() && self.connector().ask(session, &[Statement::simple("ROLLBACK")]).is_ok();
            return Err((fault, is_clean));
        }
        self.commit(session, &tx)
    }

    fn commit(&self, session: &Session, tx: &PostgresTx<'_>) -> std::result::Result<(), (Fault, bool)> {
        let changes = tx.changes();
        let mut statements = changes.statements();
        let before = statements.len();
        statements.push(Statement::simple("COMMIT"));
        session.take_warning();
        match self.connector().ask_at(session, &statements) {
            Ok(_) if session.take_warning() => {
                let why = "the commit was not waited for on a standby, or something else was warned of";
                Err((Fault::Unknown(why.to_owned()), true))
            }
            Ok(_) => Ok(()),
            // The server refused a statement: the commit after it was a rollback.
            Err((place, fault @ Fault::Server { is_fatal, .. })) if place < before => Err((fault, !is_fatal)),
            Err((_, fault @ Fault::Server { is_fatal: false, .. })) => Err((fault, true)),
            Err((_, Fault::Ledger(error))) => Err((Fault::Ledger(error), false)),
            Err((_, Fault::Connection(why))) => Err((Fault::Unknown(why), false)),
            Err((_, fault)) => Err((Fault::Unknown(format!("SQLSTATE {}", fault.state().unwrap_or("none"))), false)),
        }
    }

    // ---- the rest

    fn read_info(&self) -> Outcome<StoreInfo> {
        // Pages alone count: the server's notes about free space come and go as it likes.
        let sizes = "WITH tables AS (SELECT c.oid, c.reltoastrelid FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
                     WHERE n.nspname = $1 AND c.relname = ANY($2::text[])), \
                     heaps AS (SELECT oid FROM tables UNION SELECT reltoastrelid FROM tables WHERE reltoastrelid <> 0), \
                     files AS (SELECT oid FROM heaps UNION SELECT i.indexrelid FROM pg_index i JOIN heaps h ON h.oid = i.indrelid) \
                     SELECT current_setting('fsync'), current_setting('server_version'), \
                     (SELECT coalesce(sum(pg_relation_size(oid)), 0)::bigint FROM files), (SELECT version::bigint FROM @.ledger LIMIT 1)";
        let schema = self.connector().address.schema.as_str();
        let statement = Statement::new(sizes).text(schema).texts(schema::TABLES.iter().copied());
        let answers = self.read(vec![statement])?;
        let row = rows_of(&answers, 0).first().map(Columns).ok_or_else(|| Error::corrupt("the ledger has no version"))?;
        let is_flushed = row.get::<&str>(0) != Some("off");
        let durability = self.durability.as_str();
        Ok(StoreInfo {
            backend: "postgres".to_owned(),
            address: self.connector().address.shown(),
            schema_version: row.get::<i64>(3).and_then(|version| u32::try_from(version).ok()).unwrap_or(0),
            library_version: String::new(),
            engine_name: "PostgreSQL".to_owned(),
            engine_version: row.get::<&str>(1).unwrap_or_default().to_owned(),
            durability: if is_flushed { durability.to_owned() } else { format!("{durability}, but the server runs with fsync off") },
            mode: self.mode.as_str().to_owned(),
            size_bytes: row.get::<i64>(2).and_then(|size| u64::try_from(size).ok()).unwrap_or(0),
        })
    }

    fn verify_all(&self) -> Outcome<VerifyReport> {
        let mut report = self.read_at_length(|session| verify::verify(self.connector(), session))?;
        let session = self.connector().connect()?;
        verify::check_engine(self.connector(), &session, &mut report)?;
        Ok(report)
    }

    /// Sums up the counters and has the server reclaim what no transaction sees any more.
    fn compact_all(&self) -> Outcome<CompactReport> {
        let bytes_before = self.read_info()?.size_bytes;
        let session = self.connector().connect()?;
        // The server passes over the tables that the role may not have vacuumed, and no more than warns of it.
        let may = "SELECT bool_and(CASE WHEN current_setting('server_version_num')::integer < 170000 THEN pg_has_role(c.relowner, 'USAGE') \
                   ELSE has_table_privilege(c.oid, 'MAINTAIN') END OR pg_has_role(d.datdba, 'USAGE')) FROM pg_class c \
                   JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_database d ON d.datname = current_database() \
                   WHERE n.nspname = $1 AND c.relname = ANY($2::text[])";
        let may = Statement::new(may).text(&self.connector().address.schema).texts(schema::TABLES.iter().copied());
        let answers = self.connector().ask(&session, &[may])?;
        if rows_of(&answers, 0).first().and_then(|row| Columns(row).get(0)) != Some(true) {
            let what = format!("{}: only the owner of the tables may have them vacuumed", self.connector().address.place());
            return Err(Error::new(Code::ReadOnly, what).with_entity(Entity::Store).into());
        }
        let everything = Wanted::new(&self.connector().address.schema, None);
        let sum_up = "WITH several AS (SELECT project, kind, name, status FROM @.counter GROUP BY project, kind, name, status \
                      HAVING count(*) > 1 OR sum(n) = 0), gone AS (DELETE FROM @.counter t USING several s WHERE t.project = s.project \
                      AND t.kind = s.kind AND t.name = s.name AND t.status = s.status RETURNING t.*) INSERT INTO @.counter (project, kind, name, status, shard, n) \
                      SELECT project, kind, name, status, 0, sum(n) FROM gone GROUP BY project, kind, name, status HAVING sum(n) <> 0";
        let statements = [self.begin(), everything.take_locks(), Statement::new(sum_up), Statement::simple("COMMIT")];
        self.connector().ask_patiently(&session, &statements)?;
        let tables: Vec<String> = schema::TABLES.iter().map(|table| format!("@.{table}")).collect();
        self.connector().ask_patiently(&session, &[Statement::simple(format!("VACUUM (ANALYZE) {}", tables.join(", ")))])?;
        Ok(CompactReport { bytes_before, bytes_after: self.read_info()?.size_bytes })
    }

    fn page<T>(
        &self,
        statements: Vec<Statement<'_>>,
        page: &PageRequest,
        read: fn(&Answers, &PageRequest) -> Outcome<Rows<T>>,
    ) -> Result<Rows<T>> {
        self.told(self.read(statements).and_then(|answers| read(&answers, page)))
    }

    fn expired<R: query::Executed>(&self, filter: &ExpiredFilter, form: AnswerForm) -> Outcome<(Vec<R>, bool)> {
        let answers = self.read(vec![in_order(), query::expired::<R>(filter, form)])?;
        let mut records = query::read_all::<R>(rows_of(&answers, 1), form)?;
        let has_more = records.len() > filter.limit;
        records.truncate(filter.limit);
        Ok((records, has_more))
    }

    fn get<R: rows::Kept>(&self, project: &Id, id: &Id, form: AnswerForm) -> Result<Option<R>> {
        let answers = self.read(vec![query::by_id::<R>(project, id, form)]);
        self.told(answers.and_then(|answers| query::read_one(&answers, form)))
    }
}

/// Has the server take an index whose order is the one asked for, though it thinks that a sort of all that matches is
/// cheaper: whatever it thinks, it is not when much matches.
fn in_order() -> Statement<'static> {
    Statement::simple("SET LOCAL enable_sort = off")
}

impl Backend for PostgresBackend {
    fn write(&self, work: &mut dyn Work) -> Result<()> {
        if self.mode == Mode::ReadOnly {
            let error = Error::new(runledger_core::Code::ReadOnly, "the store was opened read-only");
            return Err(error.with_entity(Entity::Store));
        }
        self.told(self.transact(work))
    }

    fn shares_commits(&self) -> bool {
        true
    }

    fn groups_by_project(&self) -> bool {
        true
    }

    fn announce(&self, queues: &[QueueKey]) {
        self.news.tell(queues);
    }

    fn watch(&self, on_queued: OnQueued) -> Option<Box<dyn Send + Sync>> {
        Some(self.news.watch(on_queued))
    }

    fn poll_interval(&self) -> Option<Duration> {
        Some(LOOK)
    }

    fn broken(&self) -> Option<Error> {
        // A commit whose outcome is not known concerns its callers, not the server: other connections see what holds.
        None
    }

    fn get_run(&self, project: &Id, id: &Id, form: AnswerForm) -> Result<Option<Run>> {
        self.get(project, id, form)
    }

    fn get_node(&self, project: &Id, id: &Id, form: AnswerForm) -> Result<Option<NodeRun>> {
        self.get(project, id, form)
    }

    fn get_agent(&self, project: &Id, node_run_id: &Id, form: AnswerForm) -> Result<Option<AgentRun>> {
        self.get(project, node_run_id, form)
    }

    fn list_runs(&self, filter: &RunFilter, page: &PageRequest) -> Result<Rows<Run>> {
        self.page(Selection::of_runs(filter).statements::<Run>(page), page, query::read_page)
    }

    fn list_nodes(&self, filter: &NodeFilter, page: &PageRequest) -> Result<Rows<NodeRun>> {
        self.page(query::list_nodes(filter, page), page, query::read_page)
    }

    fn list_agents(&self, filter: &AgentFilter, page: &PageRequest) -> Result<Rows<AgentRun>> {
        self.page(Selection::of_agents(filter).statements::<AgentRun>(page), page, query::read_page)
    }

    fn list_projects(&self, page: &PageRequest) -> Result<Rows<ProjectSummary>> {
        self.page(query::list_projects(page), page, query::read_projects)
    }

    fn latest_runs(&self, project: &Id, workflow_ids: &[Id], form: AnswerForm) -> Result<Vec<Run>> {
        let answers = self.read(vec![query::latest_runs(project, workflow_ids, form)]);
        self.told(answers.and_then(|answers| query::read_all(rows_of(&answers, 0), form)))
    }

    fn expired_runs(&self, filter: &ExpiredFilter, form: AnswerForm) -> Result<(Vec<Run>, bool)> {
        self.told(self.expired(filter, form))
    }

    fn expired_agents(&self, filter: &ExpiredFilter, form: AnswerForm) -> Result<(Vec<AgentRun>, bool)> {
        self.told(self.expired(filter, form))
    }

    fn run_stats(&self, project: &Id, workflow_ids: Option<&[Id]>) -> Result<RunStats> {
        let answers = self.read(vec![in_order(), query::run_stats(project, workflow_ids)]);
        self.told(answers.and_then(|answers| query::read_stats(rows_of(&answers, 1))))
    }

    fn export(&self, sink: &mut dyn FnMut(ExportRecord) -> Result<()>) -> Result<()> {
        self.told(self.read_at_length(|session| export::export(self.connector(), session, sink)))
    }

    fn info(&self) -> Result<StoreInfo> {
        self.told(self.read_info())
    }

    fn is_read_only(&self) -> bool {
        self.mode == Mode::ReadOnly
    }

    fn verify(&self) -> Result<VerifyReport> {
        self.told(self.verify_all())
    }

    fn compact(&self) -> Result<CompactReport> {
        self.told(self.compact_all())
    }

    fn close(&self) -> Result<()> {
        self.pool.close();
        Ok(())
    }
}

impl Drop for PostgresBackend {
    fn drop(&mut self) {
        self.pool.close();
    }
}
