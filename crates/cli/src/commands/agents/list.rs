//! `runledger agents list`.

use clap::Args;
use runledger::{ListAgents, Status};

use crate::commands::args::{Paging, Span, status};
use crate::context::Context;
use crate::outcome::{Outcome, Result};
use crate::screen::rows::{print_all, print_page};

/// List agent runs, the newest first
#[derive(Args)]
pub(crate) struct List {
    /// Only runs of this agent
    #[arg(long, value_name = "ID")]
    agent: Option<String>,
    /// Only agent runs in these statuses
    #[arg(long, value_parser = status, value_delimiter = ',', value_name = "STATUS")]
    status: Vec<Status>,
    #[command(flatten)]
    created: Span,
    #[command(flatten)]
    paging: Paging,
}

impl List {
    pub(crate) fn run(self, cx: &Context) -> Result<Outcome> {
        cx.reading(None, |ledger| {
            let mut query = ListAgents::new(cx.project(ledger)?).with_order(self.paging.order).with_answer(self.paging.answer());
            query.agent_id = self.agent.map(Into::into);
            query.statuses = (!self.status.is_empty()).then_some(self.status);
            (query.created_after, query.created_before) = (self.created.after(cx), self.created.before(cx));
            if self.paging.all {
                print_all(cx, ledger.walk_agents(query))?;
            } else {
                query.cursor = self.paging.cursor;
                print_page(cx, ledger.list_agents(query.with_limit(self.paging.limit))?)?;
            }
            Ok(Outcome::Done)
        })
    }
}
