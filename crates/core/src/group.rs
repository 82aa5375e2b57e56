//! Group commit: commands that arrive while a commit is under way are committed together by the next one.
//!
//! A flush costs a thousand times what the work costs. The caller that finds the writer free leads: it commits its own
//! command, alone if nobody else waits, without any hop to another thread. Whoever arrives meanwhile follows: it queues
//! its command and waits. A leader that is done names the first of those who wait the next leader, which takes along
//! all that wait with it. Everybody is answered after the flush that holds its change; refusals and empty claims too,
//! since they may rest on a neighbour's change in the same group.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::Thread;

use crate::gate::lock;
use crate::ledger::without_panic;
#[cfg(feature = "planted")]
use crate::planted::{Defect, is_planted};
use crate::transition::{apply, decide, load};
use crate::{Answer, Backend, Clock, Code, Command, Error, Id, QueueKey, QueueKind, Result, Time, Tx, Work};

/// The most steps of one group. Larger ones gain nothing and make everybody wait.
const MAX_STEPS: usize = 512;

/// The most bytes of payload in one group, about: a neighbour's large payload must not delay everybody.
const MAX_BYTES: usize = 8 * 1024 * 1024;

/// How often a follower gives its time slice away before it parks: a commit on a quick disk is done by then.
const YIELDS_BEFORE_PARK: usize = 20;

/// One atomic unit: a command, or the commands of a batch, of which all or none take effect.
#[derive(Debug)]
pub(crate) struct Step {
    commands: Vec<Command>,
    is_batch: bool,
    outcome: Option<Result<Answer>>,
    /// Refused for good: it is passed over when its group is made again.
    is_settled: bool,
    /// Who waits for it, should it be answered too early.
    #[cfg(feature = "planted")]
    waits: Option<Arc<Follower>>,
}

impl Step {
    pub(crate) fn single(command: Command) -> Self {
        Step::new(vec![command], false)
    }

    pub(crate) fn batch(commands: Vec<Command>) -> Self {
        Step::new(commands, true)
    }

    fn new(commands: Vec<Command>, is_batch: bool) -> Self {
        Step {
            commands,
            is_batch,
            outcome: None,
            is_settled: false,
            #[cfg(feature = "planted")]
            waits: None,
        }
    }

    fn size_bytes(&self) -> usize {
        self.commands.iter().map(Command::size_bytes).sum()
    }

    /// The project of all its commands; `None` when there are several.
    fn project(&self) -> Option<&Id> {
        let first = self.commands.first()?.project_id();
        self.commands.iter().all(|command| command.project_id() == first).then_some(first)
    }

    /// The queues into which the step has put something, once it has its outcome.
    pub(crate) fn queued(&self) -> impl Iterator<Item = QueueKey> {
        let has_succeeded = matches!(self.outcome, Some(Ok(_)));
        self.commands.iter().filter(move |_| has_succeeded).filter_map(|command| match command {
            Command::QueueRun(c) => Some((QueueKind::Runs, c.project_id.clone())),
            Command::CreateAgent(c) => Some((QueueKind::Agents, c.project_id.clone())),
            _ => None,
        })
    }

    pub(crate) fn into_outcome(self) -> Result<Answer> {
        self.outcome.unwrap_or_else(|| Err(Error::new(Code::Internal, "a command was not carried out")))
    }

    /// Runs the step in a transaction. `Err` is the engine's; a refusal is an outcome.
    fn run(&mut self, tx: &mut dyn Tx, clock: &dyn Clock) -> Result<Ran> {
        let mut now = Now { clock, read: None };
        if !self.is_batch {
            let (outcome, _) = run_command(tx, &self.commands[0], &mut now)?;
            self.outcome = Some(outcome);
            return Ok(Ran::Through);
        }
        let can_undo = tx.mark()?;
        let mut answers = Vec::with_capacity(self.commands.len());
        let mut has_changed = false;
        for (index, command) in self.commands.iter().enumerate() {
            match run_command(tx, command, &mut now)? {
                (Ok(answer), changed) => {
                    answers.push(answer);
                    has_changed |= changed;
                }
                (Err(refusal), _) => {
                    self.outcome = Some(Err(refusal.with_index(index)));
                    if has_changed && !can_undo {
                        self.is_settled = true;
                        return Ok(Ran::Again);
                    }
                    if has_changed {
                        tx.undo()?;
                    }
                    return Ok(Ran::Through);
                }
            }
        }
        self.outcome = Some(Ok(Answer::Batch(answers)));
        Ok(Ran::Through)
    }
}

/// Parts steps, in their order, so that each part is within the bounds of a group (or is one step alone).
fn parts(steps: Vec<Step>) -> Vec<Vec<Step>> {
    let mut parts: Vec<Vec<Step>> = Vec::new();
    let mut bytes = 0;
    for step in steps {
        bytes += step.size_bytes();
        match parts.last_mut() {
            Some(part) if part.len() < MAX_STEPS && bytes <= MAX_BYTES => part.push(step),
            _ => {
                bytes = step.size_bytes();
                parts.push(vec![step]);
            }
        }
    }
    parts
}

enum Ran {
    Through,
    /// The transaction must be rolled back and made again without this step.
    Again,
}

/// The time of a step: read once, inside the transaction, and only if a command needs it.
struct Now<'a> {
    clock: &'a dyn Clock,
    read: Option<Time>,
}

impl Now<'_> {
    fn get(&mut self, tx: &mut dyn Tx) -> Result<Time> {
        if let Some(time) = self.read {
            return Ok(time);
        }
        let time = match tx.server_time()? {
            Some(time) => time,
            None => self.clock.now(),
        };
        Ok(*self.read.insert(time))
    }
}

/// Loads, decides and stores one command; the outer error is the engine's, the inner one a refusal.
fn run_command(tx: &mut dyn Tx, command: &Command, now: &mut Now<'_>) -> Result<(Result<Answer>, bool)> {
    let loaded = load(tx, command)?;
    // A command that gives its times gets none; what it then sees here is not used.
    let time = if command.takes_clock() { now.get(tx)? } else { Time::MIN };
    match decide(time, loaded, command) {
        Ok(decision) => {
            let (answer, changed) = apply(tx, decision, command.answer_form())?;
            Ok((Ok(answer), changed))
        }
        Err(refusal) => Ok((Err(refusal), false)),
    }
}

/// A group of steps in one transaction.
struct Group<'a, 'b> {
    steps: &'a mut [&'b mut Step],
    clock: &'a dyn Clock,
    again: bool,
}

impl Work for Group<'_, '_> {
    fn commands(&self) -> Option<Vec<&Command>> {
        Some(self.steps.iter().flat_map(|step| &step.commands).collect())
    }

    fn run(&mut self, tx: &mut dyn Tx) -> Result<()> {
        for step in self.steps.iter_mut().filter(|step| !step.is_settled) {
            if let Ran::Again = step.run(tx, self.clock)? {
                self.again = true;
                return Err(Error::new(Code::Internal, "the group is made again without a refused batch"));
            }
        }
        #[cfg(feature = "planted")]
        self.answer_too_early();
        Ok(())
    }
}

/// Commits steps in one transaction, without the batches that are refused.
fn commit(backend: &dyn Backend, clock: &dyn Clock, steps: &mut [&mut Step]) -> Result<()> {
    loop {
        let mut group = Group { steps, clock, again: false };
        let written = without_panic(|| backend.write(&mut group));
        if written.is_err() && group.again {
            continue;
        }
        #[cfg(feature = "tracing")]
        match &written {
            Ok(()) => tracing::trace!(steps = steps.len(), "committed"),
            Err(error) if backend.broken().is_some() => tracing::error!(%error, "a flush failed; the store must be reopened"),
            Err(error) => tracing::warn!(%error, steps = steps.len(), "rolled back"),
        }
        return written;
    }
}

/// Commits steps and leaves every one with its outcome.
pub(crate) fn commit_all(backend: &dyn Backend, clock: &dyn Clock, steps: &mut [&mut Step]) {
    if let Some(broken) = backend.broken() {
        return fail_all(steps, &broken);
    }
    let Err(error) = commit(backend, clock, steps) else { return };
    // One step may have failed its neighbours, with a large payload on a full disk, say: each is tried alone, once. A
    // lock that was not had, or a flush that failed, concerns them all.
    let concerns_all = matches!(error.code(), Code::Busy | Code::Locked | Code::ReadOnly | Code::Unavailable);
    if steps.len() == 1 || concerns_all || backend.broken().is_some() {
        return fail_all(steps, &error);
    }
    for step in steps {
        step.is_settled = false;
        let alone = match backend.broken() {
            Some(broken) => Err(broken),
            None => commit(backend, clock, &mut [step]),
        };
        if let Err(error) = alone {
            step.outcome = Some(Err(error));
        }
    }
}

fn fail_all(steps: &mut [&mut Step], error: &Error) {
    for step in steps {
        step.outcome = Some(Err(error.clone()));
    }
}

/// What a follower is to do.
const WAIT: u8 = 0;
const LEAD: u8 = 1;
const DONE: u8 = 2;

#[cfg(feature = "planted")]
const ANSWERED_TOO_EARLY: u8 = 3;

#[cfg(feature = "planted")]
impl Group<'_, '_> {
    /// The planted defects that break the rule that all are answered after the commit.
    fn answer_too_early(&self) {
        let all = is_planted(Defect::FollowersAreAnsweredBeforeTheCommit);
        let refusals = is_planted(Defect::RefusalsAreAnsweredBeforeTheCommit);
        for step in self.steps.iter().filter(|_| all || refusals) {
            let (Some(follower), Some(outcome)) = (&step.waits, &step.outcome) else { continue };
            if all || outcome.is_err() {
                *lock(&follower.early) = Some(outcome.clone());
                follower.send(ANSWERED_TOO_EARLY);
            }
        }
    }
}

/// Steps that wait for a leader, and the thread that waits for them.
#[derive(Debug)]
struct Follower {
    steps: Mutex<Vec<Step>>,
    #[cfg(feature = "planted")]
    early: Mutex<Option<Result<Answer>>>,
    signal: AtomicU8,
    thread: Thread,
}

impl Follower {
    fn send(&self, signal: u8) {
        self.signal.store(signal, Ordering::Release);
        self.thread.unpark();
    }

    fn wait(&self) -> u8 {
        for _ in 0..YIELDS_BEFORE_PARK {
            match self.signal.load(Ordering::Acquire) {
                WAIT => std::thread::yield_now(),
                signal => return signal,
            }
        }
        loop {
            match self.signal.load(Ordering::Acquire) {
                WAIT => std::thread::park(),
                signal => return signal,
            }
        }
    }
}

/// The most lanes that are carried out at the same time for one caller: as many as a pool has connections.
const MAX_LANES: usize = 8;

/// Steps of one project, with their places among those of the caller.
struct Lane {
    /// `None` for a single step that is of several projects.
    project: Option<Id>,
    places: Vec<usize>,
    steps: Vec<Step>,
}

/// The queues of a store's writers: one, or one for each project that is written to at the moment.
#[derive(Default)]
pub(crate) struct Queues {
    are_by_project: bool,
    whole: Queue,
    projects: Mutex<HashMap<Id, Arc<Queue>>>,
}

impl Queues {
    pub(crate) fn new(are_by_project: bool) -> Self {
        Queues { are_by_project, ..Queues::default() }
    }

    /// As [`Queue::submit`]. The order is kept among steps of one project, and around steps of several.
    pub(crate) fn submit(&self, backend: &dyn Backend, clock: &dyn Clock, steps: Vec<Step>) -> Vec<Step> {
        if !self.are_by_project && steps.len() == 1 {
            return self.whole.submit(backend, clock, steps);
        }
        if !self.are_by_project {
            return parts(steps).into_iter().flat_map(|part| self.whole.submit(backend, clock, part)).collect();
        }
        let mut done: Vec<(usize, Step)> = Vec::with_capacity(steps.len());
        let mut lanes: Vec<Lane> = Vec::new();
        for (place, step) in steps.into_iter().enumerate() {
            let project = step.project().cloned();
            match lanes.iter_mut().find(|lane| project.is_some() && lane.project == project) {
                Some(lane) => {
                    lane.places.push(place);
                    lane.steps.push(step);
                }
                None => {
                    let lane = Lane { project, places: vec![place], steps: vec![step] };
                    if lane.project.is_none() {
                        done.extend(self.run_lanes(backend, clock, std::mem::take(&mut lanes)));
                        done.extend(self.run_lane(backend, clock, lane));
                    } else {
                        lanes.push(lane);
                    }
                }
            }
        }
        done.extend(self.run_lanes(backend, clock, lanes));
        done.sort_unstable_by_key(|(place, _)| *place);
        done.into_iter().map(|(_, step)| step).collect()
    }

    fn run_lanes(&self, backend: &dyn Backend, clock: &dyn Clock, mut lanes: Vec<Lane>) -> Vec<(usize, Step)> {
        let mut done = Vec::new();
        while lanes.len() > 1 {
            let some = lanes.split_off(lanes.len() - lanes.len().min(MAX_LANES));
            std::thread::scope(|scope| {
                let running: Vec<_> = some.into_iter().map(|lane| scope.spawn(|| self.run_lane(backend, clock, lane))).collect();
                // A lane catches its panics itself, so that every step comes back.
                done.extend(running.into_iter().filter_map(|lane| lane.join().ok()).flatten());
            });
        }
        done.extend(lanes.into_iter().flat_map(|lane| self.run_lane(backend, clock, lane)));
        done
    }

    fn run_lane(&self, backend: &dyn Backend, clock: &dyn Clock, lane: Lane) -> Vec<(usize, Step)> {
        let Lane { project, places, mut steps } = lane;
        match project {
            None => commit_all(backend, clock, &mut steps.iter_mut().collect::<Vec<_>>()),
            Some(project) => {
                let queue = Arc::clone(lock(&self.projects).entry(project.clone()).or_default());
                steps = parts(steps).into_iter().flat_map(|part| queue.submit(backend, clock, part)).collect();
                drop(queue);
                let mut projects = lock(&self.projects);
                if projects.get(&project).is_some_and(|queue| Arc::strong_count(queue) == 1) {
                    projects.remove(&project);
                }
            }
        }
        places.into_iter().zip(steps).collect()
    }
}

/// The queue of writers that are committed together.
#[derive(Default)]
struct Queue {
    state: Mutex<State>,
    /// How many steps the last group had.
    last_group: AtomicUsize,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Arc<Follower>>,
    has_leader: bool,
}

impl Queue {
    /// Carries out steps, each atomic in itself, in their order, and leaves every one with its outcome.
    fn submit(&self, backend: &dyn Backend, clock: &dyn Clock, mut steps: Vec<Step>) -> Vec<Step> {
        let follower = {
            let mut state = lock(&self.state);
            if state.has_leader {
                let thread = std::thread::current();
                let follower = Follower {
                    steps: Mutex::new(std::mem::take(&mut steps)),
                    #[cfg(feature = "planted")]
                    early: Mutex::default(),
                    signal: AtomicU8::new(WAIT),
                    thread,
                };
                let follower = Arc::new(follower);
                #[cfg(feature = "planted")]
                if let [step] = &mut lock(&follower.steps)[..] {
                    step.waits = Some(follower.clone());
                }
                state.waiting.push_back(follower.clone());
                Some(follower)
            } else {
                state.has_leader = true;
                None
            }
        };
        let Some(follower) = follower else {
            self.lead(backend, clock, &mut steps, false);
            return steps;
        };
        let signal = follower.wait();
        #[cfg(feature = "planted")]
        if signal == ANSWERED_TOO_EARLY {
            let mut step = Step::new(Vec::new(), false);
            step.outcome = lock(&follower.early).take();
            return vec![step];
        }
        let mut steps = std::mem::take(&mut *lock(&follower.steps));
        if signal == LEAD {
            self.lead(backend, clock, &mut steps, true);
        }
        steps
    }

    /// Commits the leader's own steps with those of all who wait, and hands on the lead.
    fn lead(&self, backend: &dyn Backend, clock: &dyn Clock, own: &mut [Step], was_handed: bool) {
        if was_handed || self.last_group.load(Ordering::Relaxed) > 1 {
            // Those who were just answered are about to come back: let them join this group.
            std::thread::yield_now();
            std::thread::yield_now();
        }
        let followers = self.take_followers(own);
        let mut taken: Vec<_> = followers.iter().map(|follower| lock(&follower.steps)).collect();
        let mut steps: Vec<&mut Step> = own.iter_mut().chain(taken.iter_mut().flat_map(|steps| steps.iter_mut())).collect();
        self.last_group.store(steps.len(), Ordering::Relaxed);
        commit_all(backend, clock, &mut steps);
        drop(taken);
        // The next leader first: its commit can begin while the others are woken.
        let next = {
            let mut state = lock(&self.state);
            let next = state.waiting.pop_front();
            state.has_leader = next.is_some();
            next
        };
        if let Some(next) = next {
            next.send(LEAD);
        }
        for follower in followers {
            follower.send(DONE);
        }
    }

    fn take_followers(&self, own: &[Step]) -> Vec<Arc<Follower>> {
        let mut followers = Vec::new();
        let (mut count, mut bytes) = (own.len(), own.iter().map(Step::size_bytes).sum::<usize>());
        let mut state = lock(&self.state);
        while let Some(next) = state.waiting.front() {
            {
                let steps = lock(&next.steps);
                count += steps.len();
                bytes += steps.iter().map(Step::size_bytes).sum::<usize>();
            }
            if count > MAX_STEPS || bytes > MAX_BYTES {
                break;
            }
            followers.extend(state.waiting.pop_front());
        }
        followers
    }
}
