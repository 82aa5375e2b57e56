//! Iterators that walk a whole list by cursor, a page at a time.

use std::collections::VecDeque;

use crate::{AgentRun, Ledger, ListAgents, ListNodes, ListProjects, ListRuns, NodeRun, Page, ProjectSummary, Result, Run};

/// How many rows a walk reads at once when its query does not say.
const ROWS_PER_READ: u32 = 500;

/// Walks every row of a list in order, a page at a time. Nothing is held open in the store between two pages; every
/// record that existed and kept its place throughout comes exactly once. Ends after the first error.
///
/// ```no_run
/// # fn example(ledger: &runledger_core::Ledger) -> runledger_core::Result<()> {
/// for run in ledger.walk_runs(runledger_core::ListRuns::new("shop")) {
///     println!("{}", run?.id);
/// }
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Walk<Q, T> {
    ledger: Ledger,
    /// The query for the next page; `None` when there is none.
    next: Option<Q>,
    read: fn(&Ledger, Q) -> Result<Page<T>>,
    rows: VecDeque<T>,
}

/// A list query whose pages can be walked.
pub(crate) trait Walkable: Clone {
    fn begin(self) -> Self;
    fn continue_at(self, cursor: String) -> Self;
}

macro_rules! walks {
    ($($method:ident, $list:ident: $query:ident -> $row:ty;)*) => {$(
        impl Walkable for $query {
            fn begin(mut self) -> Self {
                self.with_total = Some(false);
                // A page of no rows would walk nowhere.
                self.limit = Some(self.limit.filter(|limit| *limit > 0).unwrap_or(ROWS_PER_READ));
                self
            }
            fn continue_at(mut self, cursor: String) -> Self {
                self.offset = None;
                self.cursor = Some(cursor);
                self
            }
        }

        impl Ledger {
            #[doc = concat!("Walks every row of a [`", stringify!($query), "`], a page of its limit at a time.")]
            pub fn $method(&self, query: $query) -> Walk<$query, $row> {
                Walk { ledger: self.clone(), next: Some(query.begin()), read: Ledger::$list, rows: VecDeque::new() }
            }
        }
    )*};
}

walks! {
    walk_runs, list_runs: ListRuns -> Run;
    walk_nodes, list_nodes: ListNodes -> NodeRun;
    walk_agents, list_agents: ListAgents -> AgentRun;
    walk_projects, list_projects: ListProjects -> ProjectSummary;
}

#[allow(private_bounds, reason = "the list queries are the only ones that can be walked")]
impl<Q: Walkable, T> Iterator for Walk<Q, T> {
    type Item = Result<T>;

    fn next(&mut self) -> Option<Result<T>> {
        while self.rows.is_empty() {
            let query = self.next.take()?;
            match (self.read)(&self.ledger, query.clone()) {
                Ok(page) => {
                    self.rows = page.rows.into();
                    self.next = page.next_cursor.map(|cursor| query.continue_at(cursor));
                }
                Err(error) => return Some(Err(error)),
            }
        }
        self.rows.pop_front().map(Ok)
    }
}
