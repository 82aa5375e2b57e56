//! The C ABI of runledger.
//!
//! Programs in C and C++ use `include/runledger.h`, which is made from this crate, and `include/runledger.hpp`; what they
//! must know stands at the head of the first. In Rust use the package `runledger`.
//!
//! Every function goes through one wall (`wall.rs`), which catches panics, checks pointers and counts the objects
//! that are given out. Everything else is a translation: the rules are in `runledger-core`.

#![allow(non_camel_case_types, reason = "the names of C, which the header takes over")]
#![allow(clippy::missing_safety_doc, reason = "what a caller must keep to stands at the head of the header, once")]

mod abi;
mod doc;
mod error;
mod fork;
mod json;
mod log;
mod outline;
mod request;
mod status;
mod store;
mod transfer;
mod version;
mod wall;

pub use abi::*;
pub use doc::*;
pub use error::*;
pub use log::*;
pub use outline::*;
pub use request::*;
pub use status::*;
pub use store::*;
pub use transfer::*;
pub use version::*;
pub use wall::{RUNLEDGER_NTS, runledger_live_objects};
