//! Who may use the engine when: many at once, one alone, or in turn.

use std::ops::Deref;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use runledger_core::{Code, Entity, Error, Result};

fn closed() -> Error {
    Error::new(Code::Closed, "the store was closed").with_entity(Entity::Store)
}

fn busy(what: &str) -> Error {
    Error::new(Code::Busy, format!("{what} within the busy timeout")).with_entity(Entity::Store)
}

/// Something that many use at once, and sometimes one alone, until it is closed.
#[derive(Debug)]
pub(crate) struct Gate<T> {
    state: Mutex<State<T>>,
    changed: Condvar,
    timeout: Duration,
}

#[derive(Debug)]
struct State<T> {
    /// Not there while somebody is alone with it, and once it is closed.
    inside: Option<Arc<T>>,
    users: usize,
    /// How many wait to be alone: who comes meanwhile waits too, or they would never be.
    waiting: usize,
    closed: bool,
}

/// One of those who use what is behind a gate.
#[derive(Debug)]
pub(crate) struct Shared<'g, T> {
    /// Taken only when this is dropped.
    inside: Option<Arc<T>>,
    gate: &'g Gate<T>,
}

impl<T> Gate<T> {
    pub(crate) fn new(inside: T, timeout: Duration) -> Self {
        let state = State { inside: Some(Arc::new(inside)), users: 0, waiting: 0, closed: false };
        Gate { state: Mutex::new(state), changed: Condvar::new(), timeout }
    }

    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Uses it along with others.
    ///
    /// # Errors
    /// `closed`; `busy` when somebody is alone with it for longer than the busy timeout.
    pub(crate) fn share(&self) -> Result<Shared<'_, T>> {
        let must_wait = |state: &mut State<T>| !state.closed && (state.inside.is_none() || state.waiting > 0);
        let mut state = self.state();
        if must_wait(&mut state) {
            state = self.changed.wait_timeout_while(state, self.timeout, must_wait).unwrap_or_else(PoisonError::into_inner).0;
        }
        match &state.inside {
            _ if state.closed => Err(closed()),
            Some(inside) if state.waiting == 0 => {
                let inside = Some(inside.clone());
                state.users += 1;
                Ok(Shared { inside, gate: self })
            }
            _ => Err(busy("a compaction did not end")),
        }
    }

    /// Takes it out once nobody uses it, to be put back or not.
    ///
    /// # Errors
    /// `closed`; `busy` when others use it for longer than the busy timeout, unless `patient`.
    pub(crate) fn take_out(&self, patient: bool) -> Result<T> {
        let is_used = |state: &mut State<T>| !state.closed && (state.inside.is_none() || state.users > 0);
        let mut state = self.state();
        state.waiting += 1;
        state = if patient {
            self.changed.wait_while(state, is_used).unwrap_or_else(PoisonError::into_inner)
        } else {
            self.changed.wait_timeout_while(state, self.timeout, is_used).unwrap_or_else(PoisonError::into_inner).0
        };
        state.waiting -= 1;
        if state.closed {
            return Err(closed());
        }
        // The last user gave up its share before it left, so that the one here is the only one.
        let inside = if state.users == 0 { state.inside.take().and_then(Arc::into_inner) } else { None };
        self.changed.notify_all();
        inside.ok_or_else(|| busy("the calls under way did not end"))
    }

    pub(crate) fn put_back(&self, inside: T) {
        self.state().inside = Some(Arc::new(inside));
        self.changed.notify_all();
    }

    /// Lets nobody in any more.
    pub(crate) fn close(&self) {
        self.state().closed = true;
        self.changed.notify_all();
    }
}

impl<T> Deref for Shared<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.inside.as_ref().expect("a share is given up only when it is dropped")
    }
}

impl<T> Drop for Shared<'_, T> {
    fn drop(&mut self) {
        self.inside = None;
        let mut state = self.gate.state();
        state.users -= 1;
        if state.users == 0 && state.waiting > 0 {
            self.gate.changed.notify_all();
        }
    }
}

/// What one has at a time.
#[derive(Debug)]
pub(crate) struct Turn {
    taken: Mutex<bool>,
    free: Condvar,
    timeout: Duration,
}

/// The turn, until this is dropped.
#[derive(Debug)]
pub(crate) struct Taken<'t>(&'t Turn);

impl Turn {
    pub(crate) fn new(timeout: Duration) -> Self {
        Turn { taken: Mutex::new(false), free: Condvar::new(), timeout }
    }

    /// Waits for the turn.
    ///
    /// # Errors
    /// `busy` when it does not come within the busy timeout.
    pub(crate) fn take(&self) -> Result<Taken<'_>> {
        let taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let wait = self.free.wait_timeout_while(taken, self.timeout, |taken| *taken);
        let mut taken = wait.unwrap_or_else(PoisonError::into_inner).0;
        if *taken {
            return Err(busy("another writer did not end"));
        }
        *taken = true;
        Ok(Taken(self))
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        *self.0.taken.lock().unwrap_or_else(PoisonError::into_inner) = false;
        self.0.free.notify_one();
    }
}
