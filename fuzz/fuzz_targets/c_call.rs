//! Calls over the C ABI: whatever is asked, a status comes back, with a doc or an error, and nothing is left over.
#![no_main]

use std::ffi::CString;
use std::ptr::{null, null_mut};

use libfuzzer_sys::fuzz_target;
use runledger_ffi::*;

fuzz_target!(|bytes: &[u8]| {
    let before = runledger_live_objects();
    // SAFETY: every pointer is null, made by the library, or of a value that outlives the call, as the header asks.
    unsafe {
        let (mut store, mut error) = (null_mut(), null_mut());
        assert_eq!(runledger_store_open(c"memory:".as_ptr(), null(), &raw mut store, &raw mut error), 0);
        for line in bytes.split(|byte| *byte == b'\n') {
            // What stands before a tab is the name of the operation.
            let mut parts = line.splitn(2, |byte| *byte == b'\t');
            let (first, second) = (parts.next().unwrap_or_default(), parts.next());
            let op = second.and_then(|_| CString::new(first).ok());
            let request = second.unwrap_or(first);
            let mut doc = null_mut();
            let op = op.as_ref().map_or(null(), |op| op.as_ptr());
            let status = runledger_call(store, op, request.as_ptr().cast(), request.len(), &raw mut doc, &raw mut error);
            assert_eq!(status == 0, error.is_null());
            assert_eq!(status != 0, doc.is_null());
            if status == 0 {
                let mut len = 0;
                assert!(!runledger_doc_json(doc, &raw mut len).is_null() && len > 0);
            } else {
                assert_eq!(runledger_error_code(error), status);
                assert_ne!(status, runledger_core::Code::Internal.number());
            }
            runledger_doc_free(doc);
            runledger_error_free(error);
            error = null_mut();
        }
        assert_eq!(runledger_store_close(store, &raw mut error), 0);
        runledger_store_free(store);
    }
    assert_eq!(runledger_live_objects(), before);
});
