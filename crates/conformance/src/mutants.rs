//! Stores that are broken on purpose, each in one point, and the case that must notice it.
//!
//! A suite proves nothing by passing; it must also fail where a store is wrong.

mod backend;
mod calls;
mod transaction;

pub use backend::{BackendFault, Broken};
pub use calls::{CallFault, Mangled};
