//! `runledger runs`: what there is, what is stuck, and what an operator may do about it.

mod cancel;
mod delete;
mod found;
mod guarded;
mod latest;
mod list;
mod reclaim;
mod show;
mod stuck;
mod timeline;
mod watch;

use clap::Subcommand;

use crate::context::Context;
use crate::outcome::{Outcome, Result};

/// Look at runs, and act on them
#[derive(Subcommand)]
pub(crate) enum Runs {
    List(list::List),
    Show(show::Show),
    Latest(latest::Latest),
    Watch(watch::Watch),
    Stuck(stuck::StuckRuns),
    Cancel(cancel::Cancel),
    Reclaim(reclaim::Reclaim),
    Delete(delete::Delete),
}

impl Runs {
    pub(crate) fn run(self, cx: &Context) -> Result<Outcome> {
        match self {
            Runs::List(list) => list.run(cx),
            Runs::Show(show) => show.run(cx),
            Runs::Latest(latest) => latest.run(cx),
            Runs::Watch(watch) => watch.run(cx),
            Runs::Stuck(stuck) => stuck.run(cx),
            Runs::Cancel(cancel) => cancel.run(cx),
            Runs::Reclaim(reclaim) => reclaim.run(cx),
            Runs::Delete(delete) => delete.run(cx),
        }
    }
}
