//! `runledger runs list`.

use clap::Args;
use runledger::{ListRuns, Status};

use crate::commands::args::{Paging, Span, ids, status};
use crate::context::Context;
use crate::outcome::{Outcome, Result};
use crate::screen::rows::{print_all, print_page};

/// List runs, the newest first
#[derive(Args)]
pub(crate) struct List {
    /// Only runs of these workflows
    #[arg(long, value_name = "ID")]
    workflow: Vec<String>,
    /// Only runs in these statuses
    #[arg(long, value_parser = status, value_delimiter = ',', value_name = "STATUS")]
    status: Vec<Status>,
    #[command(flatten)]
    started: Span,
    #[command(flatten)]
    paging: Paging,
}

impl List {
    pub(crate) fn run(self, cx: &Context) -> Result<Outcome> {
        cx.reading(None, |ledger| {
            let mut query = ListRuns::new(cx.project(ledger)?).with_order(self.paging.order).with_answer(self.paging.answer());
            query.workflow_ids = ids(&self.workflow);
            query.statuses = (!self.status.is_empty()).then_some(self.status);
            (query.started_after, query.started_before) = (self.started.after(cx), self.started.before(cx));
            if self.paging.all {
                print_all(cx, ledger.walk_runs(query))?;
            } else {
                query.cursor = self.paging.cursor;
                print_page(cx, ledger.list_runs(query.with_limit(self.paging.limit))?)?;
            }
            Ok(Outcome::Done)
        })
    }
}
