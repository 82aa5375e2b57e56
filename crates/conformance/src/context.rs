//! What a case is given: fresh stores, and a way to say that it does not apply.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use runledger_core::ManualClock;

use crate::check::{Caller, time};
use crate::{Harness, Options, Place, Sharing, Traits};

/// What a case is given.
pub struct Context<'a> {
    harness: &'a dyn Harness,
    skipped: Mutex<Option<String>>,
    opened: Mutex<Vec<Caller>>,
}

impl<'a> Context<'a> {
    pub(crate) fn new(harness: &'a dyn Harness) -> Self {
        Context { harness, skipped: Mutex::default(), opened: Mutex::default() }
    }

    /// What the harness's places can do.
    pub fn traits(&self) -> Traits {
        self.harness.traits()
    }

    /// Says that the case does not apply, or not in full.
    pub fn skip(&self, reason: &str) {
        *self.skipped.lock().unwrap() = Some(reason.to_owned());
    }

    fn needs(&self, has: bool, reason: &str) -> bool {
        if !has {
            self.skip(reason);
        }
        has
    }

    /// Whether times can be set; otherwise the case is skipped.
    pub(crate) fn has_clock(&self) -> bool {
        self.needs(self.traits().has_clock, "needs a manual clock")
    }

    /// Whether a store survives its handle; otherwise the case is skipped.
    pub(crate) fn is_lasting(&self) -> bool {
        self.needs(self.traits().is_lasting, "needs a store that lasts")
    }

    /// Whether several handles can be open; otherwise the case is skipped.
    pub(crate) fn is_shared(&self) -> bool {
        self.needs(self.traits().sharing == Sharing::Many, "needs several handles on one store")
    }

    /// A fresh place of a store that is a file, with its path; without one the case is skipped.
    pub(crate) fn file(&self) -> Option<(Arc<dyn Place>, PathBuf)> {
        let place = self.place();
        let path = place.path().filter(|_| self.traits().is_file);
        self.needs(path.is_some(), "needs a store that is a file");
        path.map(|path| (place, path))
    }

    /// A fresh place.
    pub(crate) fn place(&self) -> Arc<dyn Place> {
        self.harness.place().into()
    }

    /// The usual options: a manual clock that stands at T0, where one can be given.
    pub(crate) fn options(&self) -> Options {
        let options = Options::new();
        if self.traits().has_clock { options.with_clock(Arc::new(ManualClock::new(time(0)))) } else { options }
    }

    /// A fresh store, which is verified when the case has ended.
    pub(crate) fn open(&self) -> Caller {
        self.open_with(&[])
    }

    /// A fresh store with options.
    pub(crate) fn open_with(&self, values: &[(&str, &str)]) -> Caller {
        let options = values.iter().fold(self.options(), |options, (name, value)| options.with(name, value));
        self.open_at(self.place(), options)
    }

    /// The store of a place.
    pub(crate) fn open_at(&self, place: Arc<dyn Place>, options: Options) -> Caller {
        match Caller::open(place, options) {
            Ok(caller) => self.watch(caller),
            Err(error) => panic!("the store does not open: {error}"),
        }
    }

    fn watch(&self, caller: Caller) -> Caller {
        self.opened.lock().unwrap().push(caller.clone());
        caller
    }

    /// Closes a store and opens it again; where a store does not outlive its handle, it stays as it is.
    pub(crate) fn reopen(&self, caller: &Caller) -> Caller {
        if !self.traits().is_lasting {
            return caller.clone();
        }
        caller.verify();
        caller.close();
        self.open_at(Arc::clone(&caller.place), caller.options.clone())
    }

    /// Verifies every store that the case left open, closes it, and says why the case was skipped, if it was.
    pub(crate) fn finish(&self) -> Option<String> {
        for caller in self.opened.lock().unwrap().drain(..) {
            caller.verify_if_open();
            caller.close();
        }
        self.skipped.lock().unwrap().take()
    }
}
