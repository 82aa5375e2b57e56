//! What the tests share: a store behind the C functions, with answers and errors read out and freed.

use std::ffi::{CStr, CString, c_char, c_void};
use std::path::Path;
use std::{ptr, slice};

use runledger_ffi::*;

pub(crate) fn c(text: &str) -> CString {
    CString::new(text).unwrap()
}

/// An error, read out.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Refused {
    pub(crate) status: i32,
    pub(crate) name: String,
    pub(crate) message: String,
    pub(crate) is_retryable: bool,
    pub(crate) details: String,
}

impl Refused {
    /// Reads an error out and frees it.
    pub(crate) unsafe fn take(status: i32, err: *mut runledger_error) -> Refused {
        unsafe {
            assert!(!err.is_null(), "a failure comes with an error");
            assert_eq!(runledger_error_code(err), status);
            let refused = Refused {
                status,
                name: CStr::from_ptr(runledger_status_name(status)).to_str().unwrap().to_owned(),
                message: text(|len| runledger_error_message(err, len)),
                is_retryable: runledger_error_retryable(err),
                details: text(|len| runledger_error_details(err, len)),
            };
            runledger_error_free(err);
            refused
        }
    }

    pub(crate) fn field(&self) -> Option<String> {
        let details: serde_json::Value = serde_json::from_str(&self.details).unwrap();
        details["field"].as_str().map(str::to_owned)
    }

    /// The error object of the JSON form.
    pub(crate) fn to_json(&self) -> String {
        let message = serde_json::Value::from(self.message.as_str());
        format!(r#"{{"code":"{}","message":{message},"retryable":{},"details":{}}}"#, self.name, self.is_retryable, self.details)
    }
}

/// A text that a function gives with its length; the byte behind it is NUL.
pub(crate) fn text(get: impl FnOnce(*mut usize) -> *const c_char) -> String {
    let mut len = usize::MAX;
    let start = get(&mut len);
    let bytes = unsafe { slice::from_raw_parts(start.cast::<u8>(), len + 1) };
    assert_eq!(bytes[len], 0);
    String::from_utf8(bytes[..len].to_vec()).unwrap()
}

/// Reads a doc out and frees it.
pub(crate) unsafe fn take_doc(doc: *mut runledger_doc) -> String {
    unsafe {
        assert!(!doc.is_null(), "a success comes with a doc");
        let json = text(|len| runledger_doc_json(doc, len));
        runledger_doc_free(doc);
        json
    }
}

/// Runs a function that answers a doc.
pub(crate) fn answer(call: impl FnOnce(*mut *mut runledger_doc, *mut *mut runledger_error) -> i32) -> Result<String, Refused> {
    let (mut doc, mut err) = (ptr::null_mut(), ptr::null_mut());
    match call(&mut doc, &mut err) {
        RUNLEDGER_OK => {
            assert!(err.is_null());
            Ok(unsafe { take_doc(doc) })
        }
        status => {
            assert!(doc.is_null());
            Err(unsafe { Refused::take(status, err) })
        }
    }
}

/// An open store.
#[derive(Debug)]
pub(crate) struct Store(pub(crate) *mut runledger_store);

unsafe impl Send for Store {}
unsafe impl Sync for Store {}

impl Store {
    pub(crate) fn try_open(url: &str, options: Option<&str>) -> Result<Store, Refused> {
        let (url, options) = (c(url), options.map(c));
        let options = options.as_ref().map_or(ptr::null(), |options| options.as_ptr());
        let (mut store, mut err) = (ptr::null_mut(), ptr::null_mut());
        match unsafe { runledger_store_open(url.as_ptr(), options, &mut store, &mut err) } {
            RUNLEDGER_OK => Ok(Store(store)),
            status => {
                assert!(store.is_null());
                Err(unsafe { Refused::take(status, err) })
            }
        }
    }

    pub(crate) fn open(url: &str) -> Store {
        Store::try_open(url, None).unwrap()
    }

    pub(crate) fn memory() -> Store {
        Store::open("memory:")
    }

    pub(crate) fn call(&self, op: &str, request: &str) -> Result<String, Refused> {
        let op = c(op);
        answer(|out, err| unsafe { runledger_call(self.0, op.as_ptr(), request.as_ptr().cast(), request.len(), out, err) })
    }

    /// A call that must succeed.
    pub(crate) fn ok(&self, op: &str, request: &str) -> String {
        self.call(op, request).unwrap_or_else(|refused| panic!("{op} {request}: {refused:?}"))
    }

    pub(crate) fn queue(&self, id: &str) -> Result<String, Refused> {
        self.call("runs.queue", &format!(r#"{{"projectId":"shop","id":"{id}","workflowId":"wf","input":{{"n":1}}}}"#))
    }

    pub(crate) fn get(&self, id: &str) -> Result<String, Refused> {
        self.call("runs.get", &format!(r#"{{"projectId":"shop","id":"{id}"}}"#))
    }

    /// Starts a run that is owned by token "t".
    pub(crate) fn start_owned(&self, id: &str) {
        let execution = r#"{"token":"t","queueLeaseExpiresAt":"2030-01-01T00:00:00Z"}"#;
        let request = format!(r#"{{"projectId":"shop","id":"{id}","workflowId":"wf","input":{{}},"execution":{execution}}}"#);
        self.ok("runs.start", &request);
    }

    pub(crate) fn total(&self) -> u64 {
        let page: serde_json::Value = serde_json::from_str(&self.ok("runs.list", r#"{"projectId":"shop","limit":0}"#)).unwrap();
        page["total"].as_u64().unwrap()
    }

    pub(crate) fn verify(&self) {
        let report = self.ok("store.verify", "{}");
        assert!(report.starts_with(r#"{"ok":true"#), "{report}");
    }

    pub(crate) fn close(&self) -> Result<(), Refused> {
        let mut err = ptr::null_mut();
        match unsafe { runledger_store_close(self.0, &mut err) } {
            RUNLEDGER_OK => Ok(()),
            status => Err(unsafe { Refused::take(status, err) }),
        }
    }

    pub(crate) fn export(&self) -> Result<Vec<u8>, Refused> {
        let mut stream: Vec<u8> = Vec::new();
        let user = ptr::from_mut(&mut stream).cast();
        answer(|out, err| unsafe { runledger_export(self.0, Some(append), None, user, out, err) }).map(|_| stream)
    }

    pub(crate) fn import(&self, stream: &[u8]) -> Result<String, Refused> {
        let mut rest = stream;
        let user = ptr::from_mut(&mut rest).cast();
        answer(|out, err| unsafe { runledger_import(self.0, Some(read_on), None, user, out, err) })
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        unsafe { runledger_store_free(self.0) };
    }
}

/// A callback that takes everything.
pub(crate) unsafe extern "C" fn append(user: *mut c_void, bytes: *const u8, len: usize) -> i32 {
    unsafe { (*user.cast::<Vec<u8>>()).extend_from_slice(slice::from_raw_parts(bytes, len)) };
    0
}

/// A callback that gives a slice bit by bit.
pub(crate) unsafe extern "C" fn read_on(user: *mut c_void, buffer: *mut u8, capacity: usize, len: *mut usize) -> i32 {
    unsafe {
        let rest = &mut *user.cast::<&[u8]>();
        let given = rest.len().min(capacity).min(1000);
        ptr::copy_nonoverlapping(rest.as_ptr(), buffer, given);
        *rest = &rest[given..];
        *len = given;
    }
    0
}

/// The address of a file.
pub(crate) fn url(scheme: &str, path: &Path) -> String {
    format!("{scheme}:{}", path.to_str().unwrap().replace('%', "%25").replace('?', "%3F").replace('#', "%23"))
}

/// How many descriptors this process has open.
#[cfg(target_os = "linux")]
pub(crate) fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}
