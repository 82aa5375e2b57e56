//! The status that most functions answer: 0, or the number of what went wrong.

use std::ffi::c_char;

use runledger::Code;

use crate::version::terminated;
use crate::wall::quiet;

/// All went well.
pub const RUNLEDGER_OK: i32 = 0;
/// The request itself is wrong; details.field names where.
pub const RUNLEDGER_INVALID_INPUT: i32 = 1;
/// A record that the command needs is not there.
pub const RUNLEDGER_NOT_FOUND: i32 = 2;
/// The id is taken.
pub const RUNLEDGER_ALREADY_EXISTS: i32 = 3;
/// A record's status does not allow it; details.status has it.
pub const RUNLEDGER_INVALID_TRANSITION: i32 = 4;
/// The caller does not own the execution (any more): stop work.
pub const RUNLEDGER_STALE_TOKEN: i32 = 5;
/// The run belongs to another workflow.
pub const RUNLEDGER_WORKFLOW_MISMATCH: i32 = 6;
/// The node run is not of type agent.
pub const RUNLEDGER_NOT_AGENT_NODE: i32 = 7;
/// A guarded reclaim came before the lease ended.
pub const RUNLEDGER_LEASE_ACTIVE: i32 = 8;
/// An import found another record under the same key.
pub const RUNLEDGER_CONFLICT: i32 = 9;
/// The store's lock was not had within the busy timeout.
pub const RUNLEDGER_BUSY: i32 = 10;
/// Another process or handle holds the store open.
pub const RUNLEDGER_LOCKED: i32 = 11;
/// The store, file or directory can't be written.
pub const RUNLEDGER_READ_ONLY: i32 = 12;
/// The disk is full; nothing of the command was kept.
pub const RUNLEDGER_FULL: i32 = 13;
/// The system refused an open, read, write or flush.
pub const RUNLEDGER_IO: i32 = 14;
/// The content of the file or stream is damaged.
pub const RUNLEDGER_CORRUPT: i32 = 15;
/// Written by a newer version; left untouched.
pub const RUNLEDGER_SCHEMA_TOO_NEW: i32 = 16;
/// The file is of another program; left untouched.
pub const RUNLEDGER_NOT_A_LEDGER: i32 = 17;
/// This build or backend lacks it.
pub const RUNLEDGER_UNSUPPORTED: i32 = 18;
/// The handle was closed, or was carried over a fork.
pub const RUNLEDGER_CLOSED: i32 = 19;
/// The database server can't be reached or dropped the connection.
pub const RUNLEDGER_UNAVAILABLE: i32 = 20;
/// A defect in this library (a caught panic); other calls still work.
pub const RUNLEDGER_INTERNAL: i32 = 21;
/// A payload, text or request is over the limit.
pub const RUNLEDGER_TOO_LARGE: i32 = 22;
/// The caller stopped it; nothing was kept.
pub const RUNLEDGER_INTERRUPTED: i32 = 23;

/// Makes the function that names a status, with each name ending in NUL.
macro_rules! names {
    ($($status:ident = $name:literal,)*) => {
        fn name(status: i32) -> &'static str {
            match status {
                $($status => concat!($name, "\0"),)*
                _ => "unknown\0",
            }
        }
    };
}

names! {
    RUNLEDGER_OK = "ok",
    RUNLEDGER_INVALID_INPUT = "invalid_input",
    RUNLEDGER_NOT_FOUND = "not_found",
    RUNLEDGER_ALREADY_EXISTS = "already_exists",
    RUNLEDGER_INVALID_TRANSITION = "invalid_transition",
    RUNLEDGER_STALE_TOKEN = "stale_token",
    RUNLEDGER_WORKFLOW_MISMATCH = "workflow_mismatch",
    RUNLEDGER_NOT_AGENT_NODE = "not_agent_node",
    RUNLEDGER_LEASE_ACTIVE = "lease_active",
    RUNLEDGER_CONFLICT = "conflict",
    RUNLEDGER_BUSY = "busy",
    RUNLEDGER_LOCKED = "locked",
    RUNLEDGER_READ_ONLY = "read_only",
    RUNLEDGER_FULL = "full",
    RUNLEDGER_IO = "io",
    RUNLEDGER_CORRUPT = "corrupt",
    RUNLEDGER_SCHEMA_TOO_NEW = "schema_too_new",
    RUNLEDGER_NOT_A_LEDGER = "not_a_ledger",
    RUNLEDGER_UNSUPPORTED = "unsupported",
    RUNLEDGER_CLOSED = "closed",
    RUNLEDGER_UNAVAILABLE = "unavailable",
    RUNLEDGER_INTERNAL = "internal",
    RUNLEDGER_TOO_LARGE = "too_large",
    RUNLEDGER_INTERRUPTED = "interrupted",
}

/// The name of a status as the JSON form has it, such as "not_found"; "ok" for 0, "unknown" for a number that is none.
/// Never NULL, never freed.
#[unsafe(no_mangle)]
pub extern "C" fn runledger_status_name(status: i32) -> *const c_char {
    quiet(c"".as_ptr(), || terminated(name(status)))
}

/// The status of an outcome.
pub(crate) fn status_of(code: Code) -> i32 {
    code.number()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_constants_are_the_codes_of_the_contract() {
        for code in Code::ALL {
            assert_eq!(name(code.number()), format!("{}\0", code.as_str()));
        }
        let beyond = Code::ALL.len() as i32 + 1;
        assert_eq!([name(0), name(beyond), name(-1)], ["ok\0", "unknown\0", "unknown\0"]);
    }
}
