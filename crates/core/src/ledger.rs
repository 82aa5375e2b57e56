//! What users hold: one method per operation over any backend.

use std::collections::BTreeSet;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::cursor::List;
use crate::gate::{Gate, Pass};
use crate::group::{Queues, Step, commit_all};
use crate::transition::sorted;
use crate::wait::Waiters;
use crate::*;

/// A store of workflow runs. Cheap to clone; every clone is the same handle, usable from any number of threads.
///
/// Every method that changes something is one command: one atomic step, answered once it is as durable as the store was
/// opened to make it. Every other method is a query: it sees one consistent state that includes every command that was
/// acknowledged before it was asked. Each may answer the errors of its row in the contract, and those of the store:
/// `busy`, `io`, `full`, `corrupt`, `closed`, `internal`, `read_only` for commands.
#[derive(Clone)]
pub struct Ledger(Arc<Inner>);

struct Inner {
    gate: Gate,
    queues: Queues,
    waiters: Arc<Waiters>,
    limits: Limits,
    clock: Arc<dyn Clock>,
    is_read_only: bool,
    shares_commits: bool,
}

/// No wait is longer than this.
const LONGEST_WAIT: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// A place among those who wait for something to be queued.
pub struct Waiting {
    /// Where signals arrive.
    pub place: WaitingPlace,
    /// How often to look without a signal, where others may queue without being heard of.
    pub interval: Option<Duration>,
    _watch: Option<Box<dyn Send + Sync>>,
}

impl fmt::Debug for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Waiting").field("place", &self.place).field("interval", &self.interval).finish_non_exhaustive()
    }
}

impl fmt::Debug for Ledger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ledger").field("limits", &self.0.limits).field("is_read_only", &self.0.is_read_only).finish_non_exhaustive()
    }
}

/// Runs code of a backend; a panic in it is a defect of this library, answered as `internal`.
pub(crate) fn without_panic<T>(call: impl FnOnce() -> Result<T>) -> Result<T> {
    // Backends restore their state when they unwind, so nothing half changed can be seen afterwards.
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
        #[cfg(feature = "tracing")]
        tracing::error!(panic = %text, "a defect in runledger was caught");
        Err(Error::new(Code::Internal, format!("a defect in this library: {text}")).with_entity(Entity::Store))
    })
}

impl Ledger {
    /// A ledger over a backend that has been opened.
    pub fn new(backend: impl Backend, options: &OpenOptions) -> Ledger {
        Ledger(Arc::new(Inner {
            is_read_only: backend.is_read_only(),
            shares_commits: backend.shares_commits(),
            queues: Queues::new(backend.groups_by_project()),
            gate: Gate::new(Box::new(backend)),
            waiters: Arc::default(),
            limits: options.limits(),
            clock: options.clock.clone(),
        }))
    }

    /// Carries out a command or query, whichever its type.
    ///
    /// ```no_run
    /// # fn example(ledger: &runledger_core::Ledger) -> runledger_core::Result<()> {
    /// use runledger_core::{GetRun, Request};
    /// let answer = ledger.request(Request::Query(GetRun::new("shop", "r1").into()))?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Those of the operation.
    pub fn request(&self, request: Request) -> Result<Answer> {
        let backend = self.0.gate.enter()?;
        request.check(&self.0.limits)?;
        self.carry_out(&backend, request)
    }

    /// Carries out a request of the JSON form and answers the line `{"ok": …}` or `{"error": …}`.
    pub fn call_json(&self, request: impl AsRef<[u8]>) -> String {
        answer_to_json(&self.call(None, request.as_ref()))
    }

    /// Carries out a request of the JSON form. Where `op` is given the request need not name its operation; one that it
    /// names must be the same.
    ///
    /// # Errors
    /// Those of [`Request::from_json_as`], and those of the operation.
    pub fn call(&self, op: Option<&str>, request: &[u8]) -> Result<Answer> {
        let backend = self.0.gate.enter()?;
        let request = Request::from_json_as(op, request, &self.0.limits)?;
        self.carry_out(&backend, request)
    }

    fn carry_out(&self, backend: &Pass<'_>, request: Request) -> Result<Answer> {
        #[cfg(feature = "tracing")]
        let op = request.op();
        let answer = self.carry_out_untraced(backend, request);
        #[cfg(feature = "tracing")]
        if let Err(error) = &answer {
            tracing::debug!(op, code = %error.code(), message = error.message(), "refused");
        }
        answer
    }

    fn carry_out_untraced(&self, backend: &Pass<'_>, request: Request) -> Result<Answer> {
        let step = match request {
            Request::Query(query) => return self.query(backend, query),
            Request::Command(command) => Step::single(command),
            Request::Batch(commands) => Step::batch(commands),
        };
        let mut steps = self.write(backend, vec![step])?;
        steps.pop().map_or_else(|| Err(Error::new(Code::Internal, "a command was lost")), Step::into_outcome)
    }

    /// Carries out checked steps, together with those of other callers where commits are shared.
    fn write(&self, backend: &Pass<'_>, mut steps: Vec<Step>) -> Result<Vec<Step>> {
        if self.0.is_read_only {
            return Err(Error::new(Code::ReadOnly, "the store was opened read-only").with_entity(Entity::Store));
        }
        let clock = &*self.0.clock;
        if self.0.shares_commits {
            steps = self.0.queues.submit(&**backend, clock, steps);
        } else {
            for step in &mut steps {
                commit_all(&**backend, clock, &mut [step]);
            }
        }
        let queues: BTreeSet<QueueKey> = steps.iter().flat_map(Step::queued).collect();
        if !queues.is_empty() {
            let queues: Vec<QueueKey> = queues.into_iter().collect();
            queues.iter().for_each(|queue| self.0.waiters.signal(queue));
            backend.announce(&queues);
        }
        Ok(steps)
    }

    /// Tells everybody who waits for anything to look again.
    pub(crate) fn signal_all(&self) {
        self.0.waiters.signal_all();
    }

    /// Takes a queued run as [`Ledger::claim_run`] does, and waits up to `timeout` for one to be queued. `None` when none came.
    ///
    /// It wakes when a run is queued: at once where that was done with this ledger or heard of by its backend, within
    /// the backend's interval of looking otherwise.
    ///
    /// ```no_run
    /// # fn example(ledger: &runledger_core::Ledger) -> runledger_core::Result<()> {
    /// use runledger_core::{ClaimRun, Execution, Time};
    /// use std::time::Duration;
    /// let lease_end = Time::from(std::time::SystemTime::now()).plus_seconds(60);
    /// let claim = ClaimRun::new("shop", Execution::new("worker-7/claim-1", lease_end));
    /// let claimed = ledger.claim_run_wait(claim, Duration::from_secs(20))?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As [`Ledger::claim_run`]; `closed` when the ledger is closed meanwhile.
    pub fn claim_run_wait(&self, claim: ClaimRun, timeout: Duration) -> Result<Option<Run>> {
        let queue = (QueueKind::Runs, claim.project_id.clone());
        self.wait_for(queue, timeout, || self.claim_run(claim.clone()))
    }

    /// Takes a queued agent run as [`Ledger::claim_agent`] does, and waits for one as [`Ledger::claim_run_wait`] does.
    ///
    /// # Errors
    /// As [`Ledger::claim_agent`]; `closed` when the ledger is closed meanwhile.
    pub fn claim_agent_wait(&self, claim: ClaimAgent, timeout: Duration) -> Result<Option<AgentRun>> {
        let queue = (QueueKind::Agents, claim.project_id.clone());
        self.wait_for(queue, timeout, || self.claim_agent(claim.clone()))
    }

    fn wait_for<T>(&self, queue: QueueKey, timeout: Duration, claim: impl Fn() -> Result<Option<T>>) -> Result<Option<T>> {
        // What can't be reached in the life of a computer is as good as any time.
        let deadline = Instant::now() + timeout.min(LONGEST_WAIT);
        let waiting = self.wait_in(queue)?;
        loop {
            let seen = waiting.place.signals();
            let claimed = claim()?;
            let now = Instant::now();
            if claimed.is_some() || now >= deadline {
                return Ok(claimed);
            }
            let look_again = waiting.interval.map_or(deadline, |interval| deadline.min(now + interval));
            wait_until(waiting.place.next_signal(seen), look_again);
        }
    }

    /// Takes a place among those who wait for a queue, for handles that wait in their own way.
    ///
    /// # Errors
    /// `closed`.
    pub fn wait_in(&self, queue: QueueKey) -> Result<Waiting> {
        let backend = self.0.gate.enter()?;
        let place = self.0.waiters.enter(queue);
        let waiters = Arc::clone(&self.0.waiters);
        let on_queued: OnQueued = Arc::new(move |queue| match queue {
            Some(queue) => waiters.signal(queue),
            None => waiters.signal_all(),
        });
        Ok(Waiting { place, interval: backend.poll_interval(), _watch: backend.watch(on_queued) })
    }

    /// Carries out commands that take effect each for itself, in their order, committed together where that is cheaper.
    /// This is how a thread that gathers the commands of many tasks hands them over.
    pub fn execute_each(&self, requests: Vec<Request>) -> Vec<Result<Answer>> {
        let count = requests.len();
        let all = |error: Error| (0..count).map(|_| Err(error.clone())).collect();
        let backend = match self.0.gate.enter() {
            Ok(backend) => backend,
            Err(error) => return all(error),
        };
        let mut answers: Vec<Option<Result<Answer>>> = Vec::with_capacity(count);
        let (mut steps, mut places) = (Vec::with_capacity(count), Vec::with_capacity(count));
        for (place, request) in requests.into_iter().enumerate() {
            let checked = request.check(&self.0.limits);
            answers.push(match (checked, request) {
                (Err(error), _) => Some(Err(error)),
                (Ok(()), Request::Query(query)) => Some(self.query(&backend, query)),
                (Ok(()), Request::Command(command)) => {
                    steps.push(Step::single(command));
                    places.push(place);
                    None
                }
                (Ok(()), Request::Batch(commands)) => {
                    steps.push(Step::batch(commands));
                    places.push(place);
                    None
                }
            });
        }
        if !steps.is_empty() {
            match self.write(&backend, steps) {
                Ok(steps) => places.into_iter().zip(steps).for_each(|(place, step)| answers[place] = Some(step.into_outcome())),
                Err(error) => places.into_iter().for_each(|place| answers[place] = Some(Err(error.clone()))),
            }
        }
        let lost = || Err(Error::new(Code::Internal, "a command was lost"));
        answers.into_iter().map(|answer| answer.unwrap_or_else(lost)).collect()
    }

    /// Carries out 1 to 1,000 commands in one atomic step, in order, later ones seeing earlier ones. All succeed, or
    /// nothing happens and `details.index` of the error says which one was refused.
    ///
    /// # Errors
    /// That of the first command that is refused.
    pub fn batch(&self, commands: Vec<Command>) -> Result<Vec<Answer>> {
        match self.request(Request::Batch(commands))? {
            Answer::Batch(answers) => Ok(answers),
            _ => Err(wrong_answer()),
        }
    }

    /// As [`Ledger::verify_store`], with a callback that is told the progress and can stop it.
    ///
    /// # Errors
    /// `interrupted` when the callback stopped it, else those of the store.
    pub fn verify_store_with(&self, on_progress: OnProgress<'_>) -> Result<VerifyReport> {
        let backend = self.enter()?;
        without_panic(|| backend.verify_with(on_progress))
    }

    /// Waits for the calls that are under way, closes the engine and gives up its locks. Later calls answer `closed`; a
    /// second close is `Ok`. Dropping the last clone closes too, but can't report an error.
    ///
    /// # Errors
    /// Those of the engine's own close.
    pub fn close(&self) -> Result<()> {
        let closed = self.0.gate.close();
        // Another thread may have held the list of those who wait when the process was copied.
        if !self.0.gate.is_inherited() {
            self.signal_all();
        }
        closed
    }

    /// The limits that the store was opened with.
    pub fn limits(&self) -> Limits {
        self.0.limits
    }

    pub(crate) fn enter(&self) -> Result<Pass<'_>> {
        let backend = self.0.gate.enter()?;
        match backend.broken() {
            Some(broken) => Err(broken),
            None => Ok(backend),
        }
    }

    pub(crate) fn is_read_only(&self) -> bool {
        self.0.is_read_only
    }

    fn query(&self, backend: &Pass<'_>, query: Query) -> Result<Answer> {
        if let Some(broken) = backend.broken() {
            return Err(broken);
        }
        if self.0.is_read_only && matches!(query, Query::CompactStore(_)) {
            return Err(Error::new(Code::ReadOnly, "the store was opened read-only").with_entity(Entity::Store));
        }
        without_panic(|| answer(&**backend, query))
    }

    fn typed<A: TryFrom<Answer>>(&self, request: Request) -> Result<A> {
        self.request(request)?.try_into().map_err(|_| wrong_answer())
    }
}

fn wrong_answer() -> Error {
    Error::new(Code::Internal, "an operation was answered with the answer of another")
}

macro_rules! methods {
    ($kind:ident: $($method:ident($operation:ident);)*) => {
        impl Ledger {
            $(
                #[doc = concat!("See [`", stringify!($operation), "`].")]
                ///
                /// # Errors
                /// Those of the operation, and those of the store.
                pub fn $method(&self, operation: $operation) -> Result<<$operation as Operation>::Answer> {
                    self.typed(Request::$kind(operation.into()))
                }
            )*
        }
    };
}

methods! { Command:
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

methods! { Query:
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

/// The fields of a list query that every page has.
struct Asked<'a> {
    limit: Option<u32>,
    offset: Option<u64>,
    cursor: Option<&'a str>,
    with_total: Option<bool>,
}

macro_rules! asked {
    ($query:expr) => {
        Asked { limit: $query.limit, offset: $query.offset, cursor: $query.cursor.as_deref(), with_total: $query.with_total }
    };
}
/// Answers a query that has been checked.
fn answer(backend: &dyn Backend, query: Query) -> Result<Answer> {
    Ok(match query {
        Query::GetRun(q) => backend.get_run(&q.project_id, &q.id, form(q.answer))?.into(),
        Query::GetNode(q) => backend.get_node(&q.project_id, &q.id, form(q.answer))?.into(),
        Query::GetAgent(q) => backend.get_agent(&q.project_id, &q.node_run_id, form(q.answer))?.into(),
        Query::ListRuns(q) => list_runs(backend, &q)?.into(),
        Query::ListNodes(q) => list_nodes(backend, &q)?.into(),
        Query::ListAgents(q) => list_agents(backend, &q)?.into(),
        Query::LatestRuns(q) => {
            let mut seen = std::collections::HashSet::with_capacity(q.workflow_ids.len());
            let workflows: Vec<Id> = q.workflow_ids.iter().filter(|id| seen.insert(*id)).cloned().collect();
            Runs { runs: backend.latest_runs(&q.project_id, &workflows, form(q.answer))? }.into()
        }
        Query::ExpiredRuns(q) => {
            let (rows, has_more) = backend.expired_runs(&expired(q.project_id, q.expired_by, q.limit), form(q.answer))?;
            Expired { rows, has_more }.into()
        }
        Query::ExpiredAgents(q) => {
            let (rows, has_more) = backend.expired_agents(&expired(q.project_id, q.expired_by, q.limit), form(q.answer))?;
            Expired { rows, has_more }.into()
        }
        Query::GetRunStats(q) => backend.run_stats(&q.project_id, q.workflow_ids.as_deref().map(sorted).as_deref())?.into(),
        Query::ListProjects(q) => {
            let list = List { op: ListProjects::OP, project_id: None, order: q.order.unwrap_or(Order::Asc) };
            page(&list, asked!(q), AnswerForm::State, false, |page| backend.list_projects(page))?.into()
        }
        Query::GetStoreInfo(_) => {
            let mut info = backend.info()?;
            info.library_version = env!("CARGO_PKG_VERSION").to_owned();
            info.into()
        }
        Query::VerifyStore(_) => backend.verify()?.into(),
        Query::CompactStore(_) => backend.compact()?.into(),
    })
}

fn form(answer: Option<AnswerForm>) -> AnswerForm {
    answer.unwrap_or(AnswerForm::Record)
}

fn expired(project_id: Option<Id>, expired_by: Time, limit: Option<u32>) -> ExpiredFilter {
    ExpiredFilter { project_id, expired_by, limit: limit.unwrap_or(DEFAULT_ROWS) as usize }
}

/// Asks for a page and gives it its cursor. A filter that nothing can match is answered here, so that no backend has to
/// know what an empty list means.
fn page<T: Listed>(
    list: &List<'_>,
    asked: Asked<'_>,
    form: AnswerForm,
    matches_nothing: bool,
    rows: impl FnOnce(&PageRequest) -> Result<Rows<T>>,
) -> Result<Page<T>> {
    let start = match asked.cursor {
        Some(cursor) => PageStart::After(list.read(cursor)?),
        None => PageStart::Offset(asked.offset.unwrap_or(0)),
    };
    let request = PageRequest {
        order: list.order,
        limit: asked.limit.unwrap_or(DEFAULT_PAGE) as usize,
        start,
        with_total: asked.with_total.unwrap_or(true),
        form,
    };
    let rows = if matches_nothing { Rows::none(request.with_total) } else { rows(&request)? };
    let next_cursor = rows.rows.last().filter(|_| rows.has_more).map(|last| list.write(&last.position()));
    Ok(Page { rows: rows.rows, total: rows.total, has_more: rows.has_more, next_cursor })
}

fn list_runs(backend: &dyn Backend, q: &ListRuns) -> Result<Page<Run>> {
    let workflow_ids = match (&q.workflow_id, q.workflow_ids.as_deref().map(sorted)) {
        (None, ids) => ids,
        (Some(id), None) => Some(vec![id.clone()]),
        (Some(id), Some(ids)) => Some(ids.into_iter().filter(|other| other == id).collect()),
    };
    let statuses = StatusSet::of_filter(q.statuses.as_deref());
    let matches_nothing = statuses.is_empty() || workflow_ids.as_ref().is_some_and(Vec::is_empty);
    let started = Window { after: q.started_after, before: q.started_before };
    let filter = RunFilter { project_id: q.project_id.clone(), workflow_ids, statuses, started };
    let list = List { op: ListRuns::OP, project_id: Some(&q.project_id), order: q.order.unwrap_or(Order::Desc) };
    page(&list, asked!(q), form(q.answer), matches_nothing, |page| backend.list_runs(&filter, page))
}

fn list_nodes(backend: &dyn Backend, q: &ListNodes) -> Result<Page<NodeRun>> {
    let filter = NodeFilter {
        project_id: q.project_id.clone(),
        workflow_run_id: q.workflow_run_id.clone(),
        workflow_id: q.workflow_id.clone(),
        node_type: q.node_type.clone(),
        node_id: q.node_id.clone(),
        node_key: q.node_key.clone(),
        statuses: StatusSet::of_filter(q.statuses.as_deref()),
        started: Window { after: q.started_after, before: q.started_before },
    };
    let list = List { op: ListNodes::OP, project_id: Some(&q.project_id), order: q.order.unwrap_or(Order::Desc) };
    page(&list, asked!(q), form(q.answer), filter.statuses.is_empty(), |page| backend.list_nodes(&filter, page))
}

fn list_agents(backend: &dyn Backend, q: &ListAgents) -> Result<Page<AgentRun>> {
    let filter = AgentFilter {
        project_id: q.project_id.clone(),
        agent_id: q.agent_id.clone(),
        statuses: StatusSet::of_filter(q.statuses.as_deref()),
        created: Window { after: q.created_after, before: q.created_before },
    };
    let list = List { op: ListAgents::OP, project_id: Some(&q.project_id), order: q.order.unwrap_or(Order::Desc) };
    page(&list, asked!(q), form(q.answer), filter.statuses.is_empty(), |page| backend.list_agents(&filter, page))
}
