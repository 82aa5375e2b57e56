//! apalis with its SQLite storage, called as apalis's worker calls it.
//!
//! The worker itself would make a poorer figure for one caller: it looks for tasks at an interval. What is called is public
//! (`apalis_sqlite::queries`), each call in a transaction of its own as the storage does it. apalis knows tasks and no runs
//! with nodes; a run is a task, and each of its steps is one, as a workflow of apalis has it:
//!
//! | the lifecycle | calls | |
//! |---|---|---|
//! | the run is queued, and each of its steps | 4 | `push_tasks` |
//! | a worker claims each | 4 | `fetch_next` |
//! | and notes that it runs | 4 | `lock_tasks` |
//! | each is finished, with its result | 4 | `ack_tasks` |
//! | the worker is alive | 1 | `keep_alive` |
//!
//! apalis's worker goes on while a lock or a result is on its way to the file, and so several may share a transaction. Here each
//! is waited for, because nothing else has survived anything. What sharing gains is measured as ten runs at a time, which is
//! apalis's own default for a batch.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use apalis_core::task::Task;
use apalis_core::task::builder::TaskBuilder;
use apalis_core::task::status::Status;
use apalis_core::worker::context::WorkerContext;
use apalis_sqlite::queries::{AckPayload, ack_tasks, fetch_next, keep_alive, lock_tasks, push_tasks, register_worker};
use apalis_sqlite::{Config, SqliteStorage};
use peers_harness::{Beside, CALLERS, Calls, Contender, Entry, Result, STEPS, number, payload, runtime, serve, sqlite_durability, tasks};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{Sqlite, SqlitePool, Transaction};
use tokio::runtime::Runtime;

const VERSION: &str = "1.0.0";
const TRANSITIONS: u64 = 17;
const WORKER: &str = "worker";

/// Runs and steps wait in queues of their own, so that who wants a step gets a step.
const RUNS: &str = "runs";
const STEP_TASKS: &str = "steps";

/// How the pool is made.
#[derive(Clone, Copy)]
enum Setting {
    /// As the documentation shows it: `SqlitePool::connect` and `SqliteStorage::setup`, which makes its settings on one connection.
    Documented,
    /// By options that reach every connection, and the migrations alone.
    Synchronous(SqliteSynchronous),
}

fn main() -> Result<()> {
    let directory = peers_harness::directory()?;
    let runtime = runtime()?;
    let settings = [Setting::Documented, Setting::Synchronous(SqliteSynchronous::Normal), Setting::Synchronous(SqliteSynchronous::Full)];
    let mut entries = Vec::new();
    for setting in settings {
        for (callers, group) in CALLERS.map(|callers| (callers, 1)).into_iter().chain([(1, 10)]) {
            let file = directory.join(format!("apalis-{}.db", entries.len()));
            entries.push(entry(&runtime, &file, setting, callers, group)?);
        }
    }
    serve(entries)
}

fn entry<'a>(runtime: &'a Runtime, file: &Path, setting: Setting, callers: usize, group: usize) -> Result<Entry<'a>> {
    let store = Arc::new(runtime.block_on(Store::create(file, setting, group))?);
    let own = Arc::clone(&store);
    let turn = move |each| {
        let store = Arc::clone(&own);
        tasks(runtime, callers, each, move |calls| lifecycle(Arc::clone(&store), calls))
    };
    // So that the pool has as many connections as it will have.
    turn(Duration::from_millis(200))?;
    let (durability, beside) = runtime.block_on(durability(&store.pool))?;
    let setting = match setting {
        Setting::Documented => "as documented",
        Setting::Synchronous(_) => "pool with own options",
    };
    let store = format!("apalis-sqlite {VERSION}");
    let contender = Contender { store, setting: setting.to_owned(), durability, beside, callers, group, transitions: TRANSITIONS };
    Ok((contender, Box::new(turn)))
}

struct Store {
    pool: SqlitePool,
    runs: Config,
    steps: Config,
    worker: WorkerContext,
    group: usize,
}

impl Store {
    async fn create(file: &Path, setting: Setting, group: usize) -> Result<Store> {
        let pool = match setting {
            Setting::Documented => {
                let pool = SqlitePool::connect(&format!("sqlite:{}?mode=rwc", file.display())).await?;
                SqliteStorage::setup(&pool).await?;
                pool
            }
            Setting::Synchronous(synchronous) => {
                let options = SqliteConnectOptions::new().filename(file).create_if_missing(true);
                let options = options.journal_mode(SqliteJournalMode::Wal).synchronous(synchronous);
                let pool = SqlitePoolOptions::new().connect_with(options).await?;
                SqliteStorage::migrations().run(&pool).await?;
                pool
            }
        };
        let config = |queue| Config::default().queue(queue).batch_size(group);
        let (runs, steps, worker) = (config(RUNS), config(STEP_TASKS), WorkerContext::new(WORKER));
        register_worker(&pool, &runs, &worker, "SqliteStorage").await?;
        Ok(Store { pool, runs, steps, worker, group })
    }

    async fn push(&self, config: &Config, payloads: &[String]) -> Result<Option<()>> {
        let tasks: Vec<_> = payloads.iter().map(|payload| TaskBuilder::new(payload.clone().into_bytes()).build()).collect();
        let mut tx = self.pool.begin().await?;
        let pushed = push_tasks(&mut *tx, config.queue.as_ref(), &tasks).await;
        unless_busy(match pushed {
            Ok(()) => Ok(tx.commit().await?),
            Err(apalis_sqlite::Error::Database(error)) => Err(error),
            Err(error) => return Err(error.into()),
        })
    }

    async fn fetch(&self, config: &Config) -> Result<Option<Vec<Task<Vec<u8>>>>> {
        let mut tx = self.pool.begin().await?;
        let fetched = unless_busy(match fetch_next(&mut *tx, config, &self.worker).await {
            Ok(tasks) => tx.commit().await.map(|()| tasks),
            Err(apalis_sqlite::Error::Database(error)) => Err(error),
            Err(error) => return Err(error.into()),
        })?;
        match fetched {
            // It looks for tasks of the second in which it was called, and what was queued then may be another caller's by now.
            Some(tasks) if tasks.is_empty() => Ok(None),
            Some(tasks) if tasks.len() != self.group => Err(format!("{} tasks are there, not {}", tasks.len(), self.group).into()),
            fetched => Ok(fetched),
        }
    }

    async fn lock(&self, ids: &[String]) -> Result<Option<()>> {
        let mut tx = self.pool.begin().await?;
        let locked = lock_tasks(&mut *tx, ids, WORKER).await;
        self.all(unless_busy(commit(tx, locked).await)?)
    }

    async fn acknowledge(&self, results: &[AckPayload]) -> Result<Option<()>> {
        let mut tx = self.pool.begin().await?;
        let done = ack_tasks(&mut *tx, &results.iter().collect::<Vec<_>>(), WORKER).await;
        self.all(unless_busy(commit(tx, done).await)?)
    }

    async fn keep_alive(&self) -> Result<Option<()>> {
        let mut tx = self.pool.begin().await?;
        let kept = keep_alive(&mut *tx, &self.runs, &self.worker).await;
        unless_busy(commit(tx, kept).await)
    }

    /// A call that did not change what it was to change would be measured for nothing.
    fn all(&self, changed: Option<u64>) -> Result<Option<()>> {
        match changed {
            Some(changed) if changed != self.group as u64 => Err(format!("{changed} tasks changed, not {}", self.group).into()),
            changed => Ok(changed.map(drop)),
        }
    }
}

async fn commit<T>(tx: Transaction<'_, Sqlite>, done: Result<T, sqlx::Error>) -> Result<T, sqlx::Error> {
    let done = done?;
    tx.commit().await?;
    Ok(done)
}

/// What SQLite refuses because another connection writes can be tried again.
fn unless_busy<T>(done: Result<T, sqlx::Error>) -> Result<Option<T>> {
    match done {
        Ok(done) => Ok(Some(done)),
        Err(sqlx::Error::Database(error)) if error.message().contains("database is locked") => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Of every connection that the pool has.
async fn durability(pool: &SqlitePool) -> Result<(String, Beside)> {
    let mut connections = Vec::new();
    for _ in 0..pool.size() {
        connections.push(pool.acquire().await?);
    }
    let mut found = BTreeMap::new();
    for connection in &mut connections {
        let journal: String = sqlx::query_scalar("PRAGMA journal_mode").fetch_one(&mut **connection).await?;
        let synchronous: i64 = sqlx::query_scalar("PRAGMA synchronous").fetch_one(&mut **connection).await?;
        *found.entry(sqlite_durability(&journal, synchronous)).or_insert(0) += 1;
    }
    // The file is as safe as the weakest of those who write it.
    let beside = found.keys().map(|(_, beside)| *beside).max().ok_or("the pool has no connection")?;
    let each =
        found.iter().map(
            |((text, _), count)| {
                if found.len() == 1 { text.clone() } else { format!("{count} of {} connections {text}", connections.len()) }
            },
        );
    Ok((each.collect::<Vec<_>>().join("; "), beside))
}

async fn lifecycle(store: Arc<Store>, mut calls: Calls) -> Result<Calls> {
    let numbers: Vec<u64> = (0..store.group).map(|_| number()).collect();
    let payloads = |part| numbers.iter().map(|n| payload(*n, part)).collect::<Vec<_>>();
    let inputs = payloads(0);
    calls.insist(|| store.push(&store.runs, &inputs)).await?;
    let runs = take(&store, &store.runs, &mut calls).await?;
    for step in 0..STEPS {
        let inputs = payloads(2 + step);
        calls.insist(|| store.push(&store.steps, &inputs)).await?;
        let steps = take(&store, &store.steps, &mut calls).await?;
        let results = results(steps, &numbers, 5 + step)?;
        calls.insist(|| store.acknowledge(&results)).await?;
        if step == 0 {
            calls.insist(|| store.keep_alive()).await?;
        }
    }
    let results = results(runs, &numbers, 9)?;
    calls.insist(|| store.acknowledge(&results)).await?;
    // The one that this is part of is noted by who calls it.
    (1..store.group).for_each(|_| calls.lived());
    Ok(calls)
}

/// Claims tasks and notes that they run.
async fn take(store: &Store, config: &Config, calls: &mut Calls) -> Result<Vec<Task<Vec<u8>>>> {
    let tasks = calls.insist(|| store.fetch(config)).await?;
    let ids = tasks.iter().map(|task| Ok(task.task_id().ok_or("a task has no id")?.to_string())).collect::<Result<Vec<_>>>()?;
    calls.insist(|| store.lock(&ids)).await?;
    Ok(tasks)
}

fn results(tasks: Vec<Task<Vec<u8>>>, numbers: &[u64], part: u64) -> Result<Vec<AckPayload>> {
    let result = |(task, n): (Task<Vec<u8>>, &u64)| {
        let task_id = task.task_id().ok_or("a task has no id")?.to_owned();
        Ok(AckPayload { task_id, attempt: 1, status: Status::Done, result: Ok(serde_json::from_str(&payload(*n, part))?) })
    };
    tasks.into_iter().zip(numbers).map(result).collect()
}
