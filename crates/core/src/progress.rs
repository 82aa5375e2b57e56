//! How far a long call has come, and whether it is to go on.

use std::ops::ControlFlow;

use crate::record::names;
use crate::{Code, Error, Result};

names! {
    /// What a long call is at.
    Stage {
        /// A stream is read to a temporary file. Counted in bytes; the total is not known.
        Reading = 0, "reading";
        /// Records are written to a stream. The total is not known.
        Exporting = 1, "exporting";
        /// The records of a stream are checked, before the store is touched.
        Checking = 2, "checking";
        /// Records are stored, all in one step that takes effect at its end.
        Storing = 3, "storing";
        /// A store is copied to a backup. Counted in pages or rows of its engine.
        Copying = 4, "copying";
        /// A store is held against itself. Counted in records and entries of indexes.
        Verifying = 5, "verifying";
    }
}

/// How far a long call has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress {
    /// What it is at.
    pub stage: Stage,
    /// How much of the stage is done: records, unless the stage says otherwise.
    pub done: u64,
    /// How much there is to do in this stage, where that is known.
    pub total: Option<u64>,
}

/// Told how far a long call has come: at the beginning and the end of each stage, and now and then between. With `Break`
/// it stops the call, which then answers `interrupted` and keeps nothing.
pub type OnProgress<'a> = &'a mut dyn FnMut(Progress) -> ControlFlow<()>;

/// How much is done between two calls of the callback: little enough to stop soon, enough to cost nothing.
const TOLD_EVERY: u64 = 64;

/// Counts what a stage does and tells its caller; for backends too.
pub struct Meter<'a> {
    on_progress: OnProgress<'a>,
    progress: Progress,
    told: u64,
}

impl<'a> Meter<'a> {
    /// Begins a stage.
    ///
    /// # Errors
    /// `interrupted` when the caller stops it; so for every method here.
    pub fn start(on_progress: OnProgress<'a>, stage: Stage, total: Option<u64>) -> Result<Self> {
        let mut meter = Meter { on_progress, progress: Progress { stage, done: 0, total }, told: 0 };
        meter.tell()?;
        Ok(meter)
    }

    /// Another `count` are done.
    ///
    /// # Errors
    /// As [`Meter::start`].
    pub fn advance(&mut self, count: u64) -> Result<()> {
        self.progress.done += count;
        if self.progress.done - self.told < TOLD_EVERY { Ok(()) } else { self.tell() }
    }

    /// The stage is done.
    ///
    /// # Errors
    /// As [`Meter::start`].
    pub fn finish(mut self) -> Result<()> {
        self.tell()
    }

    fn tell(&mut self) -> Result<()> {
        self.told = self.progress.done;
        match (self.on_progress)(self.progress) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(Error::new(Code::Interrupted, "the caller stopped it; nothing was kept")),
        }
    }
}

/// The callback of a call that nobody watches.
pub fn unwatched() -> impl FnMut(Progress) -> ControlFlow<()> {
    |_| ControlFlow::Continue(())
}
