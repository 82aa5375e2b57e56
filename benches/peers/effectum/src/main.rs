//! effectum, with its worker, since claiming and finishing are not public without it.
//!
//! effectum knows jobs, and no runs with nodes: a run is a job, and each of its steps ends with a checkpoint of the job.
//!
//! | the lifecycle | calls | |
//! |---|---|---|
//! | the run is queued | 1 | `Job::add_to` |
//! | the worker claims it | 1 | its own, which nobody can time; it claims all that are there at once |
//! | a node is finished | 3 | `RunningJob::checkpoint_blob` |
//! | the lease is confirmed | 1 | `RunningJob::heartbeat` |
//! | the run is finished | 1 | `RunningJob::complete` |
//!
//! That a node was started is not noted, which saves effectum three calls. All writes go through one thread of effectum's, which takes
//! up to 50 that wait into one transaction.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use effectum::{Error, Job, JobRunner, Queue, RunningJob, Worker};
use peers_harness::{Beside, CALLERS, Calls, Contender, Entry, Result, STEPS, number, payload, runtime, serve, sqlite_durability, tasks};
use rusqlite::Connection;
use tokio::runtime::Runtime;
use tokio::sync::oneshot;

const VERSION: &str = "0.7.0";
const TRANSITIONS: u64 = 7;
const JOB: &str = "order-fulfilment";

/// As many jobs may run at the same time as there can be callers.
const CONCURRENCY: u16 = 64;

/// Long enough that no job is taken for lost when the machine stands still for a while.
const LEASE: Duration = Duration::from_secs(3600);

/// Which journal the file has.
#[derive(Clone, Copy)]
enum Journal {
    /// effectum executes `PRAGMA journal = wal`, which is no setting of SQLite's and is passed over.
    AsMade,
    /// What effectum means: the file is put into that mode before effectum opens it, which SQLite keeps in the file.
    Wal,
}

fn main() -> Result<()> {
    let directory = peers_harness::directory()?;
    let runtime = runtime()?;
    // The queue and the worker spawn tasks when they are dropped.
    let _entered = runtime.enter();
    let (mut entries, mut stores) = (Vec::new(), Vec::new());
    for (journal, name) in [(Journal::AsMade, "effectum.db"), (Journal::Wal, "effectum-wal.db")] {
        let file = directory.join(name);
        let setting = match journal {
            Journal::AsMade => "",
            Journal::Wal => {
                Connection::open(&file)?.pragma_update_and_check(None, "journal_mode", "wal", |_| Ok(()))?;
                "file put into WAL mode before"
            }
        };
        let store = Arc::new(runtime.block_on(Store::open(&file))?);
        entries.extend(measured(&runtime, &store, setting, &file)?);
        stores.push(store);
    }
    serve(entries)?;
    // Its thread must not be the last one that has the queue.
    stores.into_iter().try_for_each(|store| Ok(runtime.block_on(store.queue.close(Duration::from_secs(5)))?))
}

fn measured<'a>(runtime: &'a Runtime, store: &Arc<Store>, setting: &str, file: &Path) -> Result<Vec<Entry<'a>>> {
    let (durability, beside) = durability(file)?;
    let entries = CALLERS.into_iter().map(|callers| {
        let store = Arc::clone(store);
        let contender = Contender {
            store: format!("effectum {VERSION}"),
            setting: setting.to_owned(),
            durability: durability.clone(),
            beside,
            callers,
            group: 1,
            transitions: TRANSITIONS,
        };
        let turn = move |each| {
            let store = Arc::clone(&store);
            tasks(runtime, callers, each, move |calls| lifecycle(Arc::clone(&store), calls))
        };
        let entry: Entry<'a> = (contender, Box::new(turn));
        entry
    });
    Ok(entries.collect())
}

/// The queue's connection is its own, and no setting of it reaches it. The journal is read from the file. The other setting
/// is that of effectum's source: `pragma_update(None, "synchronous", "normal")`, done here on a connection of the same SQLite.
fn durability(file: &Path) -> Result<(String, Beside)> {
    let conn = Connection::open(file)?;
    let journal: String = conn.pragma_query_value(None, "journal_mode", |row| row.get(0))?;
    conn.pragma_update(None, "synchronous", "normal")?;
    let synchronous: i64 = conn.pragma_query_value(None, "synchronous", |row| row.get(0))?;
    Ok(sqlite_durability(&journal, synchronous))
}

/// Who waits for a run to end, by the run's number.
type Waiting = Arc<Mutex<HashMap<u64, oneshot::Sender<Result<Calls, Error>>>>>;

struct Store {
    queue: Queue,
    waiting: Waiting,
    /// Works for as long as it is there.
    _worker: Worker,
}

impl Store {
    async fn open(file: &Path) -> Result<Store> {
        let queue = Queue::new(file).await?;
        let waiting = Waiting::default();
        let runner = JobRunner::builder(JOB, run).build();
        let worker = Worker::builder(&queue, Arc::clone(&waiting)).max_concurrency(CONCURRENCY).jobs([runner]).build().await?;
        Ok(Store { queue, waiting, _worker: worker })
    }
}

/// What the worker does with a run: the calls that come after the claim.
async fn run(job: RunningJob, waiting: Waiting) -> Result<(), Error> {
    let n = job.name.as_deref().and_then(|name| name.parse().ok()).unwrap_or_default();
    let result = steps(&job, n).await;
    let waits = waiting.lock().ok().and_then(|mut waiting| waiting.remove(&n));
    // Who does not wait any more has met an error of its own.
    let _nobody = waits.map(|waits| waits.send(result));
    Ok(())
}

async fn steps(job: &RunningJob, n: u64) -> Result<Calls, Error> {
    let mut calls = Calls::default();
    for step in 0..STEPS {
        let began = Instant::now();
        job.checkpoint_blob(payload(n, 5 + step).into_bytes()).await?;
        calls.ended(began);
        if step == 0 {
            let began = Instant::now();
            job.heartbeat().await?;
            calls.ended(began);
        }
    }
    let began = Instant::now();
    job.complete(payload(n, 9)).await?;
    calls.ended(began);
    Ok(calls)
}

async fn lifecycle(store: Arc<Store>, mut calls: Calls) -> Result<Calls> {
    let n = number();
    let (ends, end) = oneshot::channel();
    store.waiting.lock().map_err(|_| "a caller panicked")?.insert(n, ends);
    // The number goes as the name, which the job keeps when a checkpoint replaces its payload.
    let job = Job::builder(JOB).name(n).payload(payload(n, 0).into_bytes()).timeout(LEASE).heartbeat_increment(LEASE);
    calls.make(job.add_to(&store.queue)).await?;
    calls.add(end.await??);
    Ok(calls)
}
