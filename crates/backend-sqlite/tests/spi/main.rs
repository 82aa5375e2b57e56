//! The backend by itself, through the interface that core uses.

#![allow(clippy::unwrap_used, clippy::panic, reason = "in tests a panic is how a case fails")]

mod damage;
mod kit;
mod lists;
mod opening;
mod processes;
mod records;
mod shared;
