//! A connection together with the statements that were prepared on it, which stay from one transaction to the next.

use rusqlite::{Connection, Statement};
use self_cell::self_cell;

use crate::db::Db;
use crate::error::Outcome;

/// Statements by their texts, the last used last. The engine's own cache finds one by hashing its text, and clears what was
/// bound, which costs as much as half of what the statement then does.
pub(crate) type Statements<'c> = Vec<(&'static str, Statement<'c>)>;

self_cell!(
    /// See the module.
    pub(crate) struct Session {
        owner: Connection,
        #[not_covariant]
        dependent: Statements,
    }

    impl {Debug}
);

// SAFETY: a statement may not leave its thread only because it refers to its connection, which may be used by one thread at
// a time. A session is the one owner of both, so that they can only move together; nothing hands a statement out but to a
// closure that has the session borrowed.
#[allow(unsafe_code, reason = "held statements save an eighth of a transition, and nothing else can send them with their connection")]
unsafe impl Send for Session {}

impl Session {
    pub(crate) fn of(conn: Connection) -> Session {
        Session::new(conn, |_| Statements::new())
    }

    pub(crate) fn conn(&self) -> &Connection {
        self.borrow_owner()
    }

    /// Has `use_it` work with the connection and its statements.
    pub(crate) fn with_db<T>(&mut self, use_it: impl FnOnce(&Db<'_>) -> Outcome<T>) -> Outcome<T> {
        self.with_dependent_mut(|conn, statements| {
            let db = Db::new(conn, std::mem::take(statements));
            let used = use_it(&db);
            *statements = db.into_statements();
            used
        })
    }
}
