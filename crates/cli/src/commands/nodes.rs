//! `runledger nodes`: the steps of runs.

use clap::{Args, Subcommand};
use runledger::{ListNodes, Status};

use super::args::{Paging, Span, status};
use crate::context::Context;
use crate::outcome::{Outcome, Result};
use crate::screen::rows::{print_all, print_page};

/// Look at node runs
#[derive(Subcommand)]
pub(crate) enum Nodes {
    List(List),
}

/// List node runs, of one run or of the whole project
///
/// The nodes of one run come from an index; a list across a project reads all its node runs.
#[derive(Args)]
pub(crate) struct List {
    /// Only steps of this run
    #[arg(long, value_name = "ID")]
    run: Option<String>,
    /// Only steps of runs of this workflow
    #[arg(long, value_name = "ID")]
    workflow: Option<String>,
    /// Only steps of this type
    #[arg(long = "type", value_name = "TYPE")]
    node_type: Option<String>,
    /// Only steps with this key
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
    /// Only steps with this id in their workflow
    #[arg(long, value_name = "ID")]
    node: Option<String>,
    /// Only steps in these statuses
    #[arg(long, value_parser = status, value_delimiter = ',', value_name = "STATUS")]
    status: Vec<Status>,
    #[command(flatten)]
    started: Span,
    #[command(flatten)]
    paging: Paging,
}

impl Nodes {
    pub(crate) fn run(self, cx: &Context) -> Result<Outcome> {
        let Nodes::List(list) = self;
        list.run(cx)
    }
}

impl List {
    fn run(self, cx: &Context) -> Result<Outcome> {
        cx.reading(None, |ledger| {
            let mut query = ListNodes::new(cx.project(ledger)?).with_order(self.paging.order).with_answer(self.paging.answer());
            query.workflow_run_id = self.run.map(Into::into);
            query.workflow_id = self.workflow.map(Into::into);
            query.node_type = self.node_type.map(Into::into);
            query.node_key = self.key.map(Into::into);
            query.node_id = self.node.map(Into::into);
            query.statuses = (!self.status.is_empty()).then_some(self.status);
            (query.started_after, query.started_before) = (self.started.after(cx), self.started.before(cx));
            if self.paging.all {
                print_all(cx, ledger.walk_nodes(query))?;
            } else {
                query.cursor = self.paging.cursor;
                print_page(cx, ledger.list_nodes(query.with_limit(self.paging.limit))?)?;
            }
            Ok(Outcome::Done)
        })
    }
}
