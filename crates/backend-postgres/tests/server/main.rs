//! What a server can do to a store, and a store to its server.

#![allow(clippy::unwrap_used, clippy::panic, reason = "in a test a panic is a failure")]

mod faults;
mod histories;
mod kit;
mod opening;
mod plans;
mod pooler;
mod rounds;
mod standby;
mod together;
mod traces;
mod verifying;
mod waiting;
