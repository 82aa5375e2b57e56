//! Throwaway PostgreSQL servers for tests.
//!
//! [`shared_url`] is a server that all test processes of a run share, each in schemas of its own; it ends by itself some
//! seconds after the last of them. [`Server`] is a server of one test, which may be killed, filled and promoted.
//!
//! The server's programs are found in `/usr/lib/postgresql/*/bin` or on the path. A server never runs as root: under root
//! it runs as the user `postgres`, or `nobody` where there is none.

#![allow(clippy::unwrap_used, clippy::panic, reason = "this crate is for tests, in which a panic is a failure")]

mod certificates;
mod programs;
mod proxy;
mod server;
mod shared;
mod sql;

pub use certificates::Certificates;
pub use programs::Programs;
pub use proxy::Proxy;
pub use server::Server;
pub use shared::{shared_url, unique_schema, with_schema};
pub use sql::{sql, try_sql};
