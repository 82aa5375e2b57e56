//! `runledger projects`.

use clap::Args;
use runledger::{ListProjects, Order};

use super::args::order;
use crate::context::Context;
use crate::outcome::{Outcome, Result};
use crate::screen::rows::{print_all, print_page};

/// List the projects that have runs
#[derive(Args)]
pub(crate) struct Projects {
    /// The store's address
    url: Option<String>,
    /// The most rows
    #[arg(long, default_value_t = runledger::DEFAULT_PAGE, value_name = "N")]
    limit: u32,
    /// All rows, however many
    #[arg(long, conflicts_with_all = ["limit", "cursor"])]
    all: bool,
    /// Go on where an earlier page ended
    #[arg(long, value_name = "CURSOR")]
    cursor: Option<String>,
    /// The direction
    #[arg(long, value_parser = order, default_value = "asc", value_name = "asc|desc")]
    order: Order,
}

impl Projects {
    pub(crate) fn run(self, cx: &Context) -> Result<Outcome> {
        cx.reading(self.url.as_deref(), |ledger| {
            let mut query = ListProjects::new().with_order(self.order);
            if self.all {
                print_all(cx, ledger.walk_projects(query))?;
            } else {
                query.cursor = self.cursor;
                print_page(cx, ledger.list_projects(query.with_limit(self.limit))?)?;
            }
            Ok(Outcome::Done)
        })
    }
}
