//! Who may use the engine: nobody after the handle was closed, and nobody in a process that inherited it over a fork.

use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use crate::{Backend, Code, Entity, Error, Result};

/// Locks a mutex. What it guards is never left half changed, so a panic elsewhere does not make it unusable.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) struct Gate {
    /// Taken out only when the last handle is dropped.
    backend: Option<Box<dyn Backend>>,
    process: u32,
    is_closed: AtomicBool,
    /// How many calls are under way.
    inside: AtomicUsize,
    /// Whether the engine has been closed, and how that went.
    outcome: Mutex<Option<Result<()>>>,
    changed: Condvar,
}

impl Gate {
    pub(crate) fn new(backend: Box<dyn Backend>) -> Self {
        Gate {
            backend: Some(backend),
            process: std::process::id(),
            is_closed: AtomicBool::new(false),
            inside: AtomicUsize::new(0),
            outcome: Mutex::new(None),
            changed: Condvar::new(),
        }
    }

    fn closed(why: &str) -> Error {
        Error::new(Code::Closed, why).with_entity(Entity::Store)
    }

    /// Lets one call in. The process is compared before anything else: after a fork no lock of this handle may be
    /// touched, since another thread may have held it when the process was copied.
    pub(crate) fn enter(&self) -> Result<Pass<'_>> {
        let backend = match &self.backend {
            Some(backend) if self.process == std::process::id() => backend,
            _ => return Err(Gate::closed("the handle was carried over a fork, where it can't be used")),
        };
        self.inside.fetch_add(1, Ordering::SeqCst);
        let pass = Pass { gate: self, backend: backend.as_ref() };
        if self.is_closed.load(Ordering::SeqCst) {
            return Err(Gate::closed("the handle was closed"));
        }
        Ok(pass)
    }

    /// Whether the handle was carried over a fork.
    pub(crate) fn is_inherited(&self) -> bool {
        self.process != std::process::id()
    }

    /// Waits for the calls under way and closes the engine. A second close answers `Ok` once the first is through.
    pub(crate) fn close(&self) -> Result<()> {
        let backend = match &self.backend {
            Some(backend) if self.process == std::process::id() => backend,
            // The engine belongs to the parent: nothing of it may run here.
            _ => return Ok(()),
        };
        let is_first = !self.is_closed.swap(true, Ordering::SeqCst);
        let mut outcome = lock(&self.outcome);
        if is_first {
            while self.inside.load(Ordering::SeqCst) > 0 {
                outcome = self.changed.wait(outcome).unwrap_or_else(PoisonError::into_inner);
            }
            let closed = crate::ledger::without_panic(|| backend.close());
            *outcome = Some(closed.clone());
            self.changed.notify_all();
            return closed;
        }
        while outcome.is_none() {
            outcome = self.changed.wait(outcome).unwrap_or_else(PoisonError::into_inner);
        }
        Ok(())
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        if self.process == std::process::id() {
            // Nobody is left to hear of an error here; whoever wants to know calls close.
            let _unheard = self.close();
        } else {
            // Dropping the engine would run its code on locks, files and connections that are the parent's.
            std::mem::forget(self.backend.take());
        }
    }
}

/// One call that is under way.
pub(crate) struct Pass<'a> {
    gate: &'a Gate,
    backend: &'a dyn Backend,
}

impl Deref for Pass<'_> {
    type Target = dyn Backend;
    fn deref(&self) -> &(dyn Backend + 'static) {
        self.backend
    }
}

impl Drop for Pass<'_> {
    fn drop(&mut self) {
        let was_last = self.gate.inside.fetch_sub(1, Ordering::SeqCst) == 1;
        if was_last && self.gate.is_closed.load(Ordering::SeqCst) {
            // Under the lock, so that a closer between its look and its wait can't miss this.
            let _outcome = lock(&self.gate.outcome);
            self.gate.changed.notify_all();
        }
    }
}
