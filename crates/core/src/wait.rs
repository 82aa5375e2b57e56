//! Waiting for something to be queued, without asking again and again.

use std::collections::HashMap;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::Instant;

use crate::Id;
use crate::gate::lock;

/// What a worker waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum QueueKind {
    /// A queued run.
    Runs,
    /// A queued agent run.
    Agents,
}

/// A queue: of a kind, in a project.
pub type QueueKey = (QueueKind, Id);

/// Told of a queue in which something may be found now; `None` stands for any.
pub type OnQueued = Arc<dyn Fn(Option<&QueueKey>) + Send + Sync>;

/// Who waits in this process.
#[derive(Default)]
pub(crate) struct Waiters(Mutex<HashMap<QueueKey, Entry>>);

#[derive(Default)]
struct Entry {
    places: usize,
    /// Moves on with every signal.
    signals: u64,
    wakers: Vec<Waker>,
}

impl Entry {
    fn signal(&mut self) {
        self.signals += 1;
        self.wakers.drain(..).for_each(Waker::wake);
    }
}

impl Waiters {
    /// A place among those who wait for a queue, until it is dropped.
    pub(crate) fn enter(self: &Arc<Self>, key: QueueKey) -> WaitingPlace {
        lock(&self.0).entry(key.clone()).or_default().places += 1;
        WaitingPlace { waiters: Arc::clone(self), key }
    }

    pub(crate) fn signal(&self, key: &QueueKey) {
        if let Some(entry) = lock(&self.0).get_mut(key) {
            entry.signal();
        }
    }

    pub(crate) fn signal_all(&self) {
        lock(&self.0).values_mut().for_each(Entry::signal);
    }
}

/// A place among those who wait for a queue.
pub struct WaitingPlace {
    waiters: Arc<Waiters>,
    key: QueueKey,
}

impl std::fmt::Debug for WaitingPlace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WaitingPlace").field("key", &self.key).finish_non_exhaustive()
    }
}

impl WaitingPlace {
    /// How many signals there were. Read before the queue is looked into, so that none is missed.
    pub fn signals(&self) -> u64 {
        lock(&self.waiters.0).get(&self.key).map_or(0, |entry| entry.signals)
    }

    /// Ready once there was another signal than those `seen`.
    pub fn next_signal(&self, seen: u64) -> impl Future<Output = ()> + Send + '_ {
        NextSignal { place: self, seen }
    }
}

impl Drop for WaitingPlace {
    fn drop(&mut self) {
        let mut entries = lock(&self.waiters.0);
        if let Some(entry) = entries.get_mut(&self.key) {
            entry.places -= 1;
            if entry.places == 0 {
                entries.remove(&self.key);
            }
        }
    }
}

struct NextSignal<'p> {
    place: &'p WaitingPlace,
    seen: u64,
}

impl Future for NextSignal<'_> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let mut entries = lock(&self.place.waiters.0);
        match entries.get_mut(&self.place.key) {
            Some(entry) if entry.signals == self.seen => {
                if !entry.wakers.iter().any(|waker| waker.will_wake(context.waker())) {
                    entry.wakers.push(context.waker().clone());
                }
                Poll::Pending
            }
            _ => Poll::Ready(()),
        }
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Waits on this thread for a future that others drive; `None` when the deadline came first.
pub fn wait_until<F: Future>(future: F, deadline: Instant) -> Option<F::Output> {
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut context = Context::from_waker(&waker);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return Some(output);
        }
        match deadline.checked_duration_since(Instant::now()) {
            Some(left) if !left.is_zero() => std::thread::park_timeout(left),
            _ => return None,
        }
    }
}
