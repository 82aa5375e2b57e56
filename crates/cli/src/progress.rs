//! Bars for those who wait: on standard error, and only where that is a terminal.

use std::fmt::Write;
use std::ops::ControlFlow;
use std::time::Duration;

use indicatif::{HumanDuration, ProgressBar, ProgressState, ProgressStyle};
use runledger::{Progress, Stage};

use crate::interrupt::{self, Stoppable};

/// Shows how far a long call has come, and stops it when the command is interrupted.
pub(crate) struct Bar {
    shown: Option<(Stage, ProgressBar)>,
    _stoppable: Option<Stoppable>,
}

impl Bar {
    /// For a call that an interrupt asks to stop.
    pub(crate) fn new() -> Bar {
        Bar { shown: None, _stoppable: Some(Stoppable::new()) }
    }

    /// For a call that may wait for somebody else and has nothing to clean up: an interrupt ends the command at once.
    pub(crate) fn of_waiting() -> Bar {
        Bar { shown: None, _stoppable: None }
    }

    /// What to hand to a call that tells its progress.
    pub(crate) fn tell(&mut self, progress: Progress) -> ControlFlow<()> {
        if self.shown.as_ref().is_none_or(|(stage, _)| *stage != progress.stage) {
            self.clear();
            self.shown = Some((progress.stage, counting(progress.stage.as_str(), unit(progress.stage), progress.total)));
        }
        if let Some((_, bar)) = &self.shown {
            bar.set_position(progress.done);
        }
        interrupt::asked()
    }

    fn clear(&mut self) {
        if let Some((_, bar)) = self.shown.take() {
            bar.finish_and_clear();
        }
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.clear();
    }
}

enum Unit {
    Count,
    Bytes,
}

fn unit(stage: Stage) -> Unit {
    match stage {
        Stage::Reading => Unit::Bytes,
        _ => Unit::Count,
    }
}

fn counting(name: &str, unit: Unit, total: Option<u64>) -> ProgressBar {
    let template = match (&unit, total) {
        (Unit::Bytes, _) => "{msg:>10} {spinner} {bytes}, {bytes_per_sec}, {elapsed}",
        (Unit::Count, None) => "{msg:>10} {spinner} {human_pos}, {rate}, {elapsed}",
        (Unit::Count, Some(_)) => "{msg:>10} [{bar:32}] {human_pos}/{human_len}, {rate}, {left}",
    };
    let bar = total.map_or_else(ProgressBar::no_length, ProgressBar::new);
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style.progress_chars("=> ").with_key("rate", rate).with_key("left", left));
    }
    bar.with_message(name.to_owned())
}

/// How much is done in a second, in whole numbers.
fn rate(state: &ProgressState, text: &mut dyn Write) {
    let _ = write!(text, "{:.0}/s", state.per_sec());
}

/// How long it will still take, once something is done to tell it by.
fn left(state: &ProgressState, text: &mut dyn Write) {
    if state.pos() > 0 {
        let _ = write!(text, "{} left", HumanDuration(state.eta()));
    }
}

/// A bar over a known number of things.
pub(crate) fn bar(name: &str, total: u64) -> ProgressBar {
    counting(name, Unit::Count, Some(total))
}

/// A sign of life, for what can't say how far it has come.
pub(crate) fn spinner(name: &str) -> ProgressBar {
    let spinner = ProgressBar::new_spinner().with_message(name.to_owned());
    if let Ok(style) = ProgressStyle::with_template("{msg:>10} {spinner} {elapsed}") {
        spinner.set_style(style);
    }
    spinner.enable_steady_tick(Duration::from_millis(100));
    spinner
}
