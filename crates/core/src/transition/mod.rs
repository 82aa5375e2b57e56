//! The rules: what every command needs and does, as pure functions.
//!
//! Every comparison of a status, a token or a lease is made here and nowhere else. A command names its [`Scope`], the
//! records that it needs; they are loaded; [`decide`] says what becomes of them; the result is stored. Nothing here
//! knows a backend.

mod coherence;
mod decide;
mod scope;
mod stuck;
mod table;

pub use decide::{Decision, decide};
pub use scope::{Loaded, Scope};
pub use stuck::Stuck;
pub use table::{Outcome, Row, table, table_as_markdown};

pub(crate) use scope::{apply, load, sorted};
