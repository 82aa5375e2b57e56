//! duroxide's SQLite provider, called as duroxide's runtime calls it.
//!
//! The runtime itself would make a poorer figure: it looks for work ten times a second when it found none. What is called is
//! public (`duroxide::providers::Provider`); each call is one transaction. A lifecycle is an orchestration with three activities:
//!
//! | the lifecycle | calls | |
//! |---|---|---|
//! | the run is queued | 1 | `enqueue_for_orchestrator` (StartOrchestration) |
//! | the run, or the next turn of it, is taken up | 4 | `fetch_orchestration_item` |
//! | what the turn decided: a node to start (three times), or the end of the run | 4 | `ack_orchestration_item` |
//! | the node is started by a worker | 3 | `fetch_work_item` |
//! | the node is finished | 3 | `ack_work_item` (ActivityCompleted) |
//! | the lease is confirmed | 1 | `renew_work_item_lock` |
//!
//! Callers are workers of one queue: they take what is next, which need not be what they queued.

use std::sync::Arc;
use std::time::Duration;

use duroxide::providers::sqlite::SqliteProvider;
use duroxide::providers::{DispatcherCapabilityFilter, ExecutionMetadata, Provider, ProviderError, TagFilter, WorkItem};
use duroxide::{Event, EventKind};
use peers_harness::{
    Beside, CALLERS, Calls, Contender, Entry, Result, STEPS, number, payload, run_id, runtime, serve, sqlite_durability, tasks,
};
use sqlx::Connection;

const VERSION: &str = "0.1.32";
const TRANSITIONS: u64 = 16;
const ORCHESTRATION: &str = "order-fulfilment";

/// The lock timeouts of `RuntimeOptions::default()`.
const TURN_LOCK: Duration = Duration::from_secs(5);
const WORK_LOCK: Duration = Duration::from_secs(30);

/// SQLite is asked and answers at once.
const NO_WAIT: Duration = Duration::ZERO;

fn main() -> Result<()> {
    let file = peers_harness::directory()?.join("duroxide.db");
    let runtime = runtime()?;
    let provider = runtime.block_on(SqliteProvider::new(&format!("sqlite:{}?mode=rwc", file.display()), None))?;
    let provider: Arc<dyn Provider> = Arc::new(provider);
    let (durability, beside) = runtime.block_on(durability(&file.to_string_lossy()))?;
    let entries = CALLERS.map(|callers| {
        let contender = Contender {
            store: format!("duroxide {VERSION}"),
            setting: String::new(),
            durability: durability.clone(),
            beside,
            callers,
            group: 1,
            transitions: TRANSITIONS,
        };
        let (provider, runtime) = (&provider, &runtime);
        let turn = move |each| {
            let provider = Arc::clone(provider);
            tasks(runtime, callers, each, move |calls| lifecycle(Arc::clone(&provider), calls))
        };
        let entry: Entry<'_> = (contender, Box::new(turn));
        entry
    });
    serve(entries.into())
}

/// The provider's connections are its own, and no setting of it reaches them: each executes `PRAGMA synchronous = WAL`, which
/// is no value of that setting. What SQLite makes of it is read back from a connection of the same SQLite to the same file.
async fn durability(file: &str) -> Result<(String, Beside)> {
    let mut conn = sqlx::SqliteConnection::connect(&format!("sqlite:{file}")).await?;
    let journal: String = sqlx::query_scalar("PRAGMA journal_mode").fetch_one(&mut conn).await?;
    sqlx::query("PRAGMA synchronous = WAL").execute(&mut conn).await?;
    let synchronous: i64 = sqlx::query_scalar("PRAGMA synchronous").fetch_one(&mut conn).await?;
    conn.close().await?;
    Ok(sqlite_durability(&journal, synchronous))
}

async fn lifecycle(provider: Arc<dyn Provider>, mut calls: Calls) -> Result<Calls> {
    let provider = provider.as_ref();
    let n = number();
    let instance = run_id(n);
    let start = WorkItem::StartOrchestration {
        instance,
        orchestration: ORCHESTRATION.to_owned(),
        input: payload(n, 0),
        version: Some("1.0.0".to_owned()),
        parent_instance: None,
        parent_id: None,
        parent_execution_id: None,
        execution_id: 1,
    };
    calls.insist(|| async { answered(provider.enqueue_for_orchestrator(start.clone(), None).await) }).await?;
    for step in 0..STEPS {
        turn(provider, &mut calls).await?;
        work(provider, &mut calls, step == 0).await?;
    }
    turn(provider, &mut calls).await?;
    Ok(calls)
}

/// The runtime tries again what the provider calls retryable, and so does this.
fn answered<T>(answer: Result<T, ProviderError>) -> Result<Option<T>> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(error) if error.is_retryable() => Ok(None),
        Err(error) => Err(error.to_string().into()),
    }
}

/// Takes up a run, and has its next activity started, or ends it when all are through.
async fn turn(provider: &dyn Provider, calls: &mut Calls) -> Result<()> {
    let filter = DispatcherCapabilityFilter::default_for_current_build();
    let fetch = || async { answered(provider.fetch_orchestration_item(TURN_LOCK, NO_WAIT, Some(&filter)).await).map(Option::flatten) };
    let (item, token, _) = calls.insist(fetch).await?;
    let (mut next, mut delta, mut work, mut metadata) = (item.history.len() as u64 + 1, vec![], vec![], ExecutionMetadata::default());
    let mut event = |source, kind| {
        delta.push(Event::with_event_id(next, item.instance.as_str(), item.execution_id, source, kind));
        next += 1;
        next - 1
    };
    let n = u64::from_str_radix(&item.instance[..8], 16)?;
    let before = item.history.iter().filter(|event| matches!(event.kind, EventKind::ActivityCompleted { .. })).count() as u64;
    let mut done = before;
    for message in item.messages {
        match message {
            WorkItem::StartOrchestration { orchestration: name, input, .. } => {
                let version = "1.0.0".to_owned();
                metadata.orchestration_name = Some(name.clone());
                metadata.orchestration_version = Some(version.clone());
                metadata.pinned_duroxide_version = Some(VERSION.parse::<semver::Version>()?);
                event(
                    None,
                    EventKind::OrchestrationStarted {
                        name,
                        version,
                        input,
                        parent_instance: None,
                        parent_id: None,
                        parent_execution_id: None,
                        carry_forward_events: None,
                        initial_custom_status: None,
                    },
                );
            }
            WorkItem::ActivityCompleted { id, result, .. } => {
                event(Some(id), EventKind::ActivityCompleted { result });
                done += 1;
            }
            other => return Err(format!("nobody sent {other:?}").into()),
        }
    }
    if done < STEPS {
        let (name, input) = (format!("step-{done}"), payload(n, 2 + done));
        let kind = EventKind::ActivityScheduled { name: name.clone(), input: input.clone(), session_id: None, tag: None };
        let id = event(None, kind);
        let (instance, execution_id) = (item.instance.clone(), item.execution_id);
        work.push(WorkItem::ActivityExecute { instance, execution_id, id, name, input, session_id: None, tag: None });
    } else {
        let output = payload(n, 9);
        metadata.status = Some("Completed".to_owned());
        metadata.output = Some(output.clone());
        event(None, EventKind::OrchestrationCompleted { output });
    }
    let acknowledge = || async {
        let (delta, work, metadata) = (delta.clone(), work.clone(), metadata.clone());
        answered(provider.ack_orchestration_item(&token, item.execution_id, delta, work, vec![], metadata, vec![]).await)
    };
    calls.insist(acknowledge).await
}

/// Takes up an activity, confirms that it is under way if it is to, and finishes it.
async fn work(provider: &dyn Provider, calls: &mut Calls, with_heartbeat: bool) -> Result<()> {
    let fetch =
        || async { answered(provider.fetch_work_item(WORK_LOCK, NO_WAIT, None, &TagFilter::DefaultOnly).await).map(Option::flatten) };
    let (item, token, _) = calls.insist(fetch).await?;
    let WorkItem::ActivityExecute { instance, execution_id, id, .. } = item else {
        return Err(format!("nobody sent {item:?}").into());
    };
    if with_heartbeat {
        calls.insist(|| async { answered(provider.renew_work_item_lock(&token, WORK_LOCK).await) }).await?;
    }
    let result = payload(u64::from_str_radix(&instance[..8], 16)?, 5 + id);
    let completed = WorkItem::ActivityCompleted { instance, execution_id, id, result };
    calls.insist(|| async { answered(provider.ack_work_item(&token, Some(completed.clone())).await) }).await
}
