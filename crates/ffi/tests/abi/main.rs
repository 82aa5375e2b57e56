//! The C ABI, as a C program meets it: through the exported functions alone.

#![allow(clippy::unwrap_used, clippy::panic, reason = "in tests a panic is how a case fails")]
#![allow(clippy::undocumented_unsafe_blocks, reason = "every block is a call of the interface under test, with what it asks for")]

mod boundary;
mod close;
mod conformance;
mod docs;
mod exports;
#[cfg(unix)]
mod fork;
mod growth;
mod kit;
mod log;
mod nulls;
mod panics;
mod threads;
mod transfer;
#[cfg(target_os = "linux")]
mod trap;
mod waiting;
