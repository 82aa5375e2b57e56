//! The same ledger for tasks, which never blocks a thread of the runtime.

use std::future::{Future, poll_fn};
use std::io::{Read, Write};
use std::pin::{Pin, pin};
use std::task::Poll;
use std::thread;
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};

use crate::alarms::Alarms;
use crate::*;

/// No wait is longer than this.
const LONGEST_WAIT: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// The most commands that the writer hands over at once: as many as one commit takes.
const MAX_TAKEN: usize = 512;

/// How many commands may wait for the writer. Further tasks wait for room, so that a store that stands still does not
/// fill the memory.
const MAX_WAITING: usize = 4096;

/// A ledger for tasks. Cheap to clone; every clone is the same handle.
///
/// Commands go to one thread, which hands all that wait to the store together, so that many tasks share one flush. Queries
/// run on the runtime's threads for blocking work. Dropping a future does not undo its command: once the writer has
/// it, it takes effect.
///
/// ```
/// # #[cfg(feature = "memory")]
/// # fn main() -> runledger::Result<()> {
/// use runledger::{AsyncLedger, GetRun, Payload, QueueRun};
///
/// let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
/// runtime.block_on(async {
///     let ledger = AsyncLedger::new(runledger::open("memory:")?)?;
///     ledger.queue_run(QueueRun::new("shop", "r1", "checkout", Payload::from_json("{}")?)).await?;
///     assert!(ledger.get_run(GetRun::new("shop", "r1")).await?.is_some());
///     ledger.close().await
/// })
/// # }
/// # #[cfg(not(feature = "memory"))]
/// # fn main() {}
/// ```
#[derive(Clone, Debug)]
pub struct AsyncLedger {
    ledger: Ledger,
    writer: mpsc::Sender<Job>,
    alarms: Alarms,
    process: u32,
}

/// What the writer is asked to do.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "all jobs but the last are of the large kind")]
enum Job {
    CarryOut(Request, oneshot::Sender<Result<Answer>>),
    Close(oneshot::Sender<Result<()>>),
}

impl AsyncLedger {
    /// An asynchronous handle on a ledger. The ledger itself stays usable; closing either closes both.
    ///
    /// # Errors
    /// `io` when the system refuses a thread.
    pub fn new(ledger: Ledger) -> Result<AsyncLedger> {
        let (writer, jobs) = mpsc::channel(MAX_WAITING);
        let writers = ledger.clone();
        let started = thread::Builder::new().name("runledger-writer".to_owned()).spawn(move || write(&writers, jobs));
        started.map_err(|e| Error::new(Code::Io, format!("starting the writer's thread: {e}")))?;
        Ok(AsyncLedger { ledger, writer, alarms: Alarms::default(), process: std::process::id() })
    }

    /// The ledger behind this handle, for code that may block.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Carries out a command, batch or query, whichever its type.
    ///
    /// # Errors
    /// As [`Ledger::request`]; a query outside of a tokio runtime is `unsupported`.
    pub async fn request(&self, request: Request) -> Result<Answer> {
        if matches!(request, Request::Query(_)) {
            return self.blocking(move |ledger| ledger.request(request)).await;
        }
        if self.is_inherited() {
            return self.ledger.request(request);
        }
        self.ask(|answer| Job::CarryOut(request, answer)).await
    }

    /// Carries out 1 to 1,000 commands in one atomic step, as [`Ledger::batch`].
    ///
    /// # Errors
    /// As [`Ledger::batch`].
    pub async fn batch(&self, commands: Vec<Command>) -> Result<Vec<Answer>> {
        match self.request(Request::Batch(commands)).await? {
            Answer::Batch(answers) => Ok(answers),
            _ => Err(wrong_answer()),
        }
    }

    /// Takes a queued run, and waits for one, as [`Ledger::claim_run_wait`]. A future that is dropped while it waits
    /// claims nothing any more.
    ///
    /// # Errors
    /// As [`Ledger::claim_run_wait`].
    pub async fn claim_run_wait(&self, claim: ClaimRun, timeout: Duration) -> Result<Option<Run>> {
        let queue = (QueueKind::Runs, claim.project_id.clone());
        self.wait_for(queue, timeout, || self.claim_run(claim.clone())).await
    }

    /// Takes a queued agent run, and waits for one, as [`Ledger::claim_agent_wait`].
    ///
    /// # Errors
    /// As [`Ledger::claim_agent_wait`].
    pub async fn claim_agent_wait(&self, claim: ClaimAgent, timeout: Duration) -> Result<Option<AgentRun>> {
        let queue = (QueueKind::Agents, claim.project_id.clone());
        self.wait_for(queue, timeout, || self.claim_agent(claim.clone())).await
    }

    async fn wait_for<T, F: Future<Output = Result<Option<T>>>>(
        &self,
        queue: QueueKey,
        timeout: Duration,
        claim: impl Fn() -> F,
    ) -> Result<Option<T>> {
        let deadline = Instant::now() + timeout.min(LONGEST_WAIT);
        let waiting = self.ledger.wait_in(queue)?;
        loop {
            let seen = waiting.place.signals();
            let claimed = claim().await?;
            let now = Instant::now();
            if claimed.is_some() || now >= deadline {
                return Ok(claimed);
            }
            let mut alarm = self.alarms.at(waiting.interval.map_or(deadline, |interval| deadline.min(now + interval)))?;
            let mut signal = pin!(waiting.place.next_signal(seen));
            poll_fn(|context| match signal.as_mut().poll(context) {
                Poll::Ready(()) => Poll::Ready(()),
                // Rung, or gone with its thread: either way there is nothing more to wait for.
                Poll::Pending => Pin::new(&mut alarm).poll(context).map(drop),
            })
            .await;
        }
    }

    /// Carries out a request of the JSON form, as [`Ledger::call_json`].
    pub async fn call_json(&self, request: impl AsRef<[u8]> + Send + 'static) -> String {
        let called = self.blocking(move |ledger| Ok(ledger.call_json(request))).await;
        called.unwrap_or_else(|error| error_to_json(&error))
    }

    /// Writes all records to `output` and gives it back, as [`Ledger::export`].
    ///
    /// # Errors
    /// As [`Ledger::export`].
    pub async fn export<W: Write + Send + 'static>(&self, mut output: W) -> Result<(Counts, W)> {
        self.blocking(move |ledger| ledger.export(&mut output).map(|counts| (counts, output))).await
    }

    /// Stores the records of a stream, as [`Ledger::import`].
    ///
    /// # Errors
    /// As [`Ledger::import`].
    pub async fn import(&self, mut input: impl Read + Send + 'static) -> Result<Imported> {
        self.blocking(move |ledger| ledger.import(&mut input)).await
    }

    /// Adds all records of this store to another one, as [`Ledger::copy_to`].
    ///
    /// # Errors
    /// As [`Ledger::copy_to`].
    pub async fn copy_to(&self, target: &AsyncLedger) -> Result<Imported> {
        let target = target.ledger.clone();
        self.blocking(move |ledger| ledger.copy_to(&target)).await
    }

    /// Copies the store to a new file, as [`Ledger::backup`].
    ///
    /// # Errors
    /// As [`Ledger::backup`].
    pub async fn backup(&self, target: impl Into<std::path::PathBuf>) -> Result<Backup> {
        let target = target.into();
        self.blocking(move |ledger| ledger.backup(target)).await
    }

    /// Takes all records as one value, as [`Ledger::snapshot`].
    ///
    /// # Errors
    /// As [`Ledger::snapshot`].
    pub async fn snapshot(&self) -> Result<Snapshot> {
        self.blocking(Ledger::snapshot).await
    }

    /// Replaces all records, as [`Ledger::restore`].
    ///
    /// # Errors
    /// As [`Ledger::restore`].
    pub async fn restore(&self, snapshot: Snapshot) -> Result<Imported> {
        self.blocking(move |ledger| ledger.restore(&snapshot)).await
    }

    /// Waits for the commands that were accepted and closes the ledger, as [`Ledger::close`].
    ///
    /// # Errors
    /// As [`Ledger::close`].
    pub async fn close(&self) -> Result<()> {
        if self.is_inherited() {
            return self.ledger.close();
        }
        // Behind the commands that wait, so that each of them takes effect.
        self.ask(Job::Close).await
    }

    /// Whether this handle was carried over a fork: neither the writer nor the runtime's threads came along, and the ledger
    /// itself answers `closed` at once.
    fn is_inherited(&self) -> bool {
        self.process != std::process::id()
    }

    async fn ask<T>(&self, job: impl FnOnce(oneshot::Sender<Result<T>>) -> Job) -> Result<T> {
        let (sender, answer) = oneshot::channel();
        let lost = || Error::new(Code::Internal, "the writer's thread has ended");
        // A command for which there is room is accepted at the first poll, whatever the runtime's budget says.
        if let Err(refused) = self.writer.try_send(job(sender)) {
            self.writer.send(refused.into_inner()).await.map_err(|_| lost())?;
        }
        answer.await.unwrap_or_else(|_| Err(lost()))
    }

    async fn blocking<T: Send + 'static>(&self, call: impl FnOnce(&Ledger) -> Result<T> + Send + 'static) -> Result<T> {
        if self.is_inherited() {
            return call(&self.ledger);
        }
        let runtime = Handle::try_current().map_err(|_| Error::new(Code::Unsupported, "this call needs a tokio runtime around it"))?;
        let ledger = self.ledger.clone();
        let called = runtime.spawn_blocking(move || call(&ledger)).await;
        called.unwrap_or_else(|lost| Err(Error::new(Code::Internal, format!("a call was lost: {lost}"))))
    }

    async fn typed<A: TryFrom<Answer>>(&self, request: Request) -> Result<A> {
        self.request(request).await?.try_into().map_err(|_| wrong_answer())
    }
}

fn wrong_answer() -> Error {
    Error::new(Code::Internal, "an operation was answered with the answer of another")
}

/// What the writer's thread does: it sleeps while nothing waits, and ends once every handle is gone.
fn write(ledger: &Ledger, mut jobs: mpsc::Receiver<Job>) {
    let mut taken = Vec::with_capacity(MAX_TAKEN);
    while jobs.blocking_recv_many(&mut taken, MAX_TAKEN) > 0 {
        let (mut requests, mut askers, mut closers) = (Vec::with_capacity(taken.len()), Vec::with_capacity(taken.len()), Vec::new());
        for job in taken.drain(..) {
            match job {
                Job::CarryOut(request, asker) => {
                    requests.push(request);
                    askers.push(asker);
                }
                Job::Close(closer) => closers.push(closer),
            }
        }
        // Whoever asked may have dropped the future meanwhile, and then hears nothing.
        for (asker, answer) in askers.into_iter().zip(ledger.execute_each(requests)) {
            let _unheard = asker.send(answer);
        }
        for closer in closers {
            let _unheard = closer.send(ledger.close());
        }
    }
}

macro_rules! methods {
    ($($kind:ident { $($method:ident($operation:ident);)* })*) => {
        impl AsyncLedger {
            $($(
                #[doc = concat!("See [`", stringify!($operation), "`].")]
                ///
                /// # Errors
                /// Those of the operation, and those of the store.
                pub async fn $method(&self, operation: $operation) -> Result<<$operation as Operation>::Answer> {
                    self.typed(Request::$kind(operation.into())).await
                }
            )*)*
        }

        #[cfg(test)]
        #[cfg(feature = "memory")]
        const OPS: &[&str] = &[$($(<$operation as Operation>::OP),*),*];
    };
}

methods! {
    Command {
        queue_run(QueueRun);
        start_run(StartRun);
        claim_run(ClaimRun);
        reclaim_run(ReclaimRun);
        confirm_run(ConfirmRun);
        wait_run(WaitRun);
        resume_run(ResumeRun);
        finish_run(FinishRun);
        cancel_run(CancelRun);
        delete_run(DeleteRun);
        purge_runs(PurgeRuns);
        start_node(StartNode);
        wait_node(WaitNode);
        finish_node(FinishNode);
        create_agent(CreateAgent);
        claim_agent(ClaimAgent);
        start_agent(StartAgent);
        reclaim_agent(ReclaimAgent);
        confirm_agent(ConfirmAgent);
        finish_agent(FinishAgent);
        cancel_agent(CancelAgent);
    }
    Query {
        get_run(GetRun);
        get_node(GetNode);
        get_agent(GetAgent);
        list_runs(ListRuns);
        list_nodes(ListNodes);
        list_agents(ListAgents);
        latest_runs(LatestRuns);
        expired_runs(ExpiredRuns);
        expired_agents(ExpiredAgents);
        run_stats(GetRunStats);
        list_projects(ListProjects);
        store_info(GetStoreInfo);
        verify_store(VerifyStore);
        compact_store(CompactStore);
    }
}

#[cfg(test)]
#[cfg(feature = "memory")]
mod tests {
    use super::*;
    use std::task::{Context, Waker};

    fn runtime() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_current_thread().build().unwrap()
    }

    fn open() -> AsyncLedger {
        AsyncLedger::new(crate::open("memory:").unwrap()).unwrap()
    }

    fn queue(id: &str) -> QueueRun {
        QueueRun::new("shop", id, "checkout", Payload::from_json("{}").unwrap())
    }

    #[test]
    fn every_operation_has_its_method() {
        assert_eq!(OPS, [Command::OPS, Query::OPS].concat());
    }

    #[test]
    fn many_tasks_are_answered_each_with_its_own_record() {
        let runtime = runtime();
        runtime.block_on(async {
            let ledger = open();
            let tasks: Vec<_> = (0..2000)
                .map(|n| {
                    let ledger = ledger.clone();
                    runtime.spawn(async move { ledger.queue_run(queue(&format!("r{n}"))).await })
                })
                .collect();
            for (n, task) in tasks.into_iter().enumerate() {
                assert_eq!(task.await.unwrap().unwrap().id, format!("r{n}").as_str());
            }
            assert_eq!(ledger.run_stats(GetRunStats::new("shop")).await.unwrap().by_status.total(), 2000);
            let refused = ledger.queue_run(queue("r7")).await.unwrap_err();
            assert_eq!(refused.code(), Code::AlreadyExists);
        });
    }

    #[test]
    fn a_dropped_future_does_not_undo_its_command() {
        runtime().block_on(async {
            let ledger = open();
            {
                let mut asked = pin!(ledger.queue_run(queue("r1")));
                let _polled: Poll<_> = asked.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            }
            // Commands take effect in the order in which they were accepted, so this one comes after it.
            ledger.queue_run(queue("r2")).await.unwrap();
            assert!(ledger.get_run(GetRun::new("shop", "r1")).await.unwrap().is_some());
        });
    }

    #[test]
    fn close_waits_for_accepted_commands_and_later_ones_are_closed() {
        runtime().block_on(async {
            let ledger = open();
            let mut accepted = Vec::new();
            for n in 0..600 {
                let ledger = ledger.clone();
                let mut asked = Box::pin(async move { ledger.queue_run(queue(&format!("r{n}"))).await });
                match asked.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                    Poll::Pending => accepted.push(asked),
                    Poll::Ready(answer) => assert!(answer.is_ok()),
                }
            }
            ledger.close().await.unwrap();
            for asked in accepted {
                asked.await.unwrap();
            }
            assert_eq!(ledger.queue_run(queue("late")).await.unwrap_err().code(), Code::Closed);
            assert_eq!(ledger.get_run(GetRun::new("shop", "r1")).await.unwrap_err().code(), Code::Closed);
            ledger.close().await.unwrap();
        });
    }

    #[test]
    fn a_query_outside_of_a_runtime_is_refused() {
        let ledger = open();
        let asked = pin!(ledger.get_run(GetRun::new("shop", "r1")));
        let polled = asked.poll(&mut Context::from_waker(Waker::noop()));
        assert!(matches!(polled, Poll::Ready(Err(error)) if error.code() == Code::Unsupported));
    }

    #[test]
    fn the_json_form_and_batches_are_the_same() {
        runtime().block_on(async {
            let ledger = open();
            let answers = ledger.batch(vec![queue("r1").into(), queue("r2").into()]).await.unwrap();
            assert_eq!(answers.len(), 2);
            let failed = ledger.batch(vec![queue("r3").into(), queue("r1").into()]).await.unwrap_err();
            assert_eq!(failed.details().index, Some(1));
            let answer = ledger.call_json(r#"{"op":"runs.get","projectId":"shop","id":"r3"}"#).await;
            assert_eq!(answer, r#"{"ok":null}"#);
        });
    }

    #[test]
    fn a_task_that_waits_wakes_when_something_is_queued() {
        let runtime = runtime();
        runtime.block_on(async {
            let ledger = open();
            let claim = |token: &str| ClaimRun::new("shop", Execution::new(token, Time::MIN));
            assert_eq!(ledger.claim_run_wait(claim("t0"), Duration::from_millis(5)).await.unwrap(), None);
            let waiting = {
                let ledger = ledger.clone();
                runtime.spawn(async move { ledger.claim_run_wait(claim("t1"), Duration::from_secs(60)).await })
            };
            tokio::task::yield_now().await;
            ledger.queue_run(queue("r1")).await.unwrap();
            assert_eq!(waiting.await.unwrap().unwrap().unwrap().id, "r1");
            // Dropped while it waits, it takes nothing.
            {
                let mut dropped = Box::pin(ledger.claim_run_wait(claim("t2"), Duration::from_secs(60)));
                for _ in 0..100 {
                    let _pending = dropped.as_mut().poll(&mut Context::from_waker(Waker::noop()));
                    tokio::task::yield_now().await;
                }
            }
            ledger.queue_run(queue("r2")).await.unwrap();
            assert_eq!(ledger.get_run(GetRun::new("shop", "r2")).await.unwrap().unwrap().attempt, 0);
            let waiting = {
                let ledger = ledger.clone();
                runtime.spawn(async move {
                    ledger.claim_agent_wait(ClaimAgent::new("shop", Execution::new("t", Time::MIN)), Duration::from_secs(60)).await
                })
            };
            tokio::task::yield_now().await;
            ledger.close().await.unwrap();
            assert_eq!(waiting.await.unwrap().unwrap_err().code(), Code::Closed);
        });
    }

    #[test]
    fn a_ledger_can_be_moved_through_a_stream() {
        runtime().block_on(async {
            let (from, to) = (open(), open());
            from.queue_run(queue("r1")).await.unwrap();
            let (_, stream) = from.export(Vec::new()).await.unwrap();
            to.import(std::io::Cursor::new(stream)).await.unwrap();
            assert_eq!(to.get_run(GetRun::new("shop", "r1")).await.unwrap(), from.get_run(GetRun::new("shop", "r1")).await.unwrap());
            to.restore(open().snapshot().await.unwrap()).await.unwrap();
            assert_eq!(to.get_run(GetRun::new("shop", "r1")).await.unwrap(), None);
        });
    }
}
