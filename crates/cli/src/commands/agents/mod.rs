//! `runledger agents`: the agent runs behind node runs.

mod cancel;
mod list;
mod reclaim;
mod show;

pub(super) use show::print_large;

use clap::Subcommand;

use crate::context::Context;
use crate::outcome::{Outcome, Result};

/// Look at agent runs, and act on them
#[derive(Subcommand)]
pub(crate) enum Agents {
    List(list::List),
    Show(show::Show),
    Cancel(cancel::Cancel),
    Reclaim(reclaim::Reclaim),
}

impl Agents {
    pub(crate) fn run(self, cx: &Context) -> Result<Outcome> {
        match self {
            Agents::List(list) => list.run(cx),
            Agents::Show(show) => show.run(cx),
            Agents::Cancel(cancel) => cancel.run(cx),
            Agents::Reclaim(reclaim) => reclaim.run(cx),
        }
    }
}
