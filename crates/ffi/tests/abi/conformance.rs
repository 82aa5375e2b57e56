//! Every case of the conformance suite through `runledger_call` and its neighbours, on every backend.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use runledger_conformance::{Harness, Options, Place, Traits};
use runledger_ffi::*;
use tempfile::TempDir;

use crate::kit::{Refused, Store, answer, url};

/// Stores that are opened, called and closed by C functions alone. C can't set the clock, so the few cases that need one are
/// skipped, and say so.
struct CAbi {
    scheme: &'static str,
    traits: Traits,
}

impl Harness for CAbi {
    fn name(&self) -> String {
        format!("C ABI, {}", self.scheme)
    }

    fn traits(&self) -> Traits {
        self.traits.without_clock()
    }

    fn place(&self) -> Box<dyn Place> {
        let directory = self.traits.is_file.then(|| Arc::new(TempDir::new().unwrap()));
        let path = directory.as_ref().map(|directory| directory.path().join("store"));
        Box::new(CPlace { scheme: self.scheme, directory, path })
    }
}

struct CPlace {
    scheme: &'static str,
    directory: Option<Arc<TempDir>>,
    path: Option<PathBuf>,
}

impl Place for CPlace {
    fn open(&self, options: &Options) -> Result<Arc<dyn runledger_conformance::Store>, String> {
        let members: Vec<String> = options
            .values
            .iter()
            .map(|(name, value)| format!("{}:{}", serde_json::Value::from(name.as_str()), serde_json::Value::from(value.as_str())))
            .collect();
        let address = self.path.as_ref().map_or_else(|| "memory:".to_owned(), |path| url(self.scheme, path));
        match Store::try_open(&address, Some(&format!("{{{}}}", members.join(",")))) {
            Ok(store) => Ok(Arc::new(store)),
            Err(refused) => Err(refused.to_json()),
        }
    }

    fn path(&self) -> Option<PathBuf> {
        self.path.clone()
    }

    fn at(&self, path: &Path) -> Box<dyn Place> {
        Box::new(CPlace { scheme: self.scheme, directory: self.directory.clone(), path: Some(path.to_owned()) })
    }
}

fn as_json<T>(outcome: Result<T, Refused>) -> Result<T, String> {
    outcome.map_err(|refused| refused.to_json())
}

impl runledger_conformance::Store for Store {
    fn call(&self, request: &str) -> String {
        let bytes = request.as_bytes();
        let answered = answer(|out, err| unsafe { runledger_call(self.0, std::ptr::null(), bytes.as_ptr().cast(), bytes.len(), out, err) });
        match answered {
            Ok(json) => format!(r#"{{"ok":{json}}}"#),
            Err(refused) => format!(r#"{{"error":{}}}"#, refused.to_json()),
        }
    }

    fn export(&self) -> Result<Vec<u8>, String> {
        as_json(Store::export(self))
    }

    fn import(&self, stream: &[u8]) -> Result<String, String> {
        as_json(Store::import(self, stream))
    }

    fn snapshot(&self) -> Result<Vec<u8>, String> {
        as_json(answer(|out, err| unsafe { runledger_snapshot(self.0, out, err) })).map(String::into_bytes)
    }

    fn restore(&self, snapshot: &[u8]) -> Result<(), String> {
        let restored = answer(|out, err| unsafe { runledger_restore(self.0, snapshot.as_ptr().cast(), snapshot.len(), out, err) });
        as_json(restored).map(drop)
    }

    fn close(&self) -> Result<(), String> {
        as_json(Store::close(self))
    }
}

mod memory {
    use super::*;
    runledger_conformance::conformance_tests!(CAbi { scheme: "memory", traits: Traits::memory() });
}

mod sqlite {
    use super::*;
    runledger_conformance::conformance_tests!(CAbi { scheme: "sqlite", traits: Traits::sqlite() });
}

mod redb {
    use super::*;
    runledger_conformance::conformance_tests!(CAbi { scheme: "redb", traits: Traits::redb() });
}

/// The whole suite in one process leaves nothing behind.
#[test]
fn the_suite_frees_all_that_it_was_given() {
    let report = runledger_conformance::run_all(&CAbi { scheme: "memory", traits: Traits::memory() });
    assert_eq!(report.failed(), 0);
    assert_eq!(runledger_live_objects(), 0);
}
