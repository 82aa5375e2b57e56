//! Any backend behind a [`Ledger`], as a harness.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use runledger_core::{Error, Ledger, OpenOptions, Snapshot};
use tempfile::TempDir;

use crate::{Harness, Options, Place, Store, Traits};

type Open = dyn Fn(&Path, &OpenOptions) -> Result<Ledger, Error> + Send + Sync;

type Remove = dyn Fn(&Path) + Send + Sync;

/// A harness for a backend in Rust: it opens a ledger at a path, which a backend in memory ignores. Where a store outlasts
/// its handle without being a file, the path is a name that no other place has.
pub struct LedgerHarness {
    name: String,
    traits: Traits,
    open: Arc<Open>,
    remove: Option<Arc<Remove>>,
}

impl LedgerHarness {
    /// A harness whose places are fresh temporary directories.
    pub fn new(name: &str, traits: Traits, open: impl Fn(&Path, &OpenOptions) -> Result<Ledger, Error> + Send + Sync + 'static) -> Self {
        LedgerHarness { name: name.to_owned(), traits, open: Arc::new(open), remove: None }
    }

    /// The same with something that removes the store of a place once the place is dropped.
    #[must_use]
    pub fn removed_by(mut self, remove: impl Fn(&Path) + Send + Sync + 'static) -> Self {
        self.remove = Some(Arc::new(remove));
        self
    }
}

impl Harness for LedgerHarness {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn traits(&self) -> Traits {
        self.traits
    }

    fn place(&self) -> Box<dyn Place> {
        let directory = self.traits.is_file.then(|| Arc::new(TempDir::new().expect("a temporary directory can be made")));
        let path = match &directory {
            Some(directory) => directory.path().join("store"),
            None if self.traits.is_lasting => unique_name(),
            None => PathBuf::new(),
        };
        Box::new(LedgerPlace { directory, path, open: Arc::clone(&self.open), remove: self.remove.clone() })
    }
}

struct LedgerPlace {
    directory: Option<Arc<TempDir>>,
    path: PathBuf,
    open: Arc<Open>,
    remove: Option<Arc<Remove>>,
}

/// A name of letters, digits and underscores that no other process or place has.
fn unique_name() -> PathBuf {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    format!("place_{}_{}_{}", std::process::id(), since.as_nanos(), COUNT.fetch_add(1, Ordering::Relaxed)).into()
}

impl Drop for LedgerPlace {
    fn drop(&mut self) {
        if let Some(remove) = &self.remove {
            remove(&self.path);
        }
    }
}

impl Place for LedgerPlace {
    fn open(&self, options: &Options) -> Result<Arc<dyn Store>, String> {
        let open = || {
            let mut typed = OpenOptions::new();
            for (name, value) in &options.values {
                typed.set(name, value)?;
            }
            if let Some(clock) = &options.clock {
                typed = typed.with_clock(Arc::clone(clock));
            }
            (self.open)(&self.path, &typed)
        };
        match open() {
            Ok(ledger) => Ok(Arc::new(LedgerStore(ledger))),
            Err(error) => Err(error.to_json()),
        }
    }

    fn path(&self) -> Option<PathBuf> {
        self.directory.as_ref().map(|_| self.path.clone())
    }

    fn at(&self, path: &Path) -> Box<dyn Place> {
        Box::new(LedgerPlace { directory: self.directory.clone(), path: path.to_owned(), open: Arc::clone(&self.open), remove: None })
    }
}

struct LedgerStore(Ledger);

fn as_json<T>(result: Result<T, Error>) -> Result<T, String> {
    result.map_err(|error| error.to_json())
}

impl Store for LedgerStore {
    fn call(&self, request: &str) -> String {
        self.0.call_json(request)
    }

    fn export(&self) -> Result<Vec<u8>, String> {
        let mut stream = Vec::new();
        as_json(self.0.export(&mut stream)).map(|_| stream)
    }

    fn import(&self, stream: &[u8]) -> Result<String, String> {
        let mut stream = stream;
        as_json(self.0.import(&mut stream)).map(|imported| imported.to_json())
    }

    fn snapshot(&self) -> Result<Vec<u8>, String> {
        as_json(self.0.snapshot()).map(|snapshot| snapshot.as_bytes().to_vec())
    }

    fn restore(&self, snapshot: &[u8]) -> Result<(), String> {
        as_json(self.0.restore(&Snapshot::from_bytes(snapshot.to_vec()))).map(drop)
    }

    fn close(&self) -> Result<(), String> {
        as_json(self.0.close())
    }
}
