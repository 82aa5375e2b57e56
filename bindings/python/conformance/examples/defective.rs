//! The library of the package with a function more: tests of the package load it in place of the package's own, and see what
//! becomes of a panic inside a call.

#![allow(missing_docs, unreachable_pub, reason = "it is loaded, not linked")]

use runledger::{Ledger, OpenOptions};
use runledger_conformance::Defective;
use runledger_ffi::runledger_store;

/// A store of which every call is a defect of the library.
#[unsafe(no_mangle)]
pub extern "C" fn runledger_test_defective() -> *mut runledger_store {
    runledger_store::of(Ledger::new(Defective, &OpenOptions::new()))
}
