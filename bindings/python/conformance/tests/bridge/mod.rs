//! A Python process that holds ledgers, as a harness.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex};

use runledger_conformance::{Harness, Options, Place, Store, Traits};
use serde_json::{Value, json};
use tempfile::TempDir;

/// The process, and the connections to it that nobody is using. Each call has one to itself, so calls meet as threads do.
pub(crate) struct Bridge {
    child: Child,
    stdout: BufReader<ChildStdout>,
    folder: TempDir,
    idle: Mutex<Vec<UnixStream>>,
}

impl Bridge {
    pub(crate) fn start(python: &OsStr) -> Bridge {
        let folder = TempDir::new().unwrap();
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/bridge.py");
        let mut command = Command::new(python);
        command.arg(script).arg(folder.path().join("socket")).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut ready = String::new();
        stdout.read_line(&mut ready).unwrap();
        assert_eq!(ready, "ready\n", "the bridge does not start");
        Bridge { child, stdout, folder, idle: Mutex::default() }
    }

    /// Ends the process and gives what it counted.
    pub(crate) fn end(mut self) -> Value {
        drop(self.child.stdin.take());
        let mut counts = String::new();
        self.stdout.read_line(&mut counts).unwrap();
        assert!(self.child.wait().unwrap().success(), "the bridge ends badly");
        serde_json::from_str(&counts).unwrap()
    }

    fn ask(&self, head: &Value, body: &[u8]) -> Result<Vec<u8>, String> {
        let idle = self.idle.lock().unwrap().pop();
        let mut stream = idle.unwrap_or_else(|| UnixStream::connect(self.folder.path().join("socket")).unwrap());
        let head = head.to_string();
        let mut frame = (head.len() as u32).to_le_bytes().to_vec();
        frame.extend_from_slice(&(body.len() as u64).to_le_bytes());
        frame.extend_from_slice(head.as_bytes());
        stream.write_all(&frame).unwrap();
        stream.write_all(body).unwrap();
        let mut sizes = [0; 9];
        stream.read_exact(&mut sizes).unwrap();
        let mut answer = vec![0; u64::from_le_bytes(sizes[1..].try_into().unwrap()) as usize];
        stream.read_exact(&mut answer).unwrap();
        self.idle.lock().unwrap().push(stream);
        if sizes[0] == 1 { Ok(answer) } else { Err(String::from_utf8(answer).unwrap()) }
    }
}

pub(crate) struct PythonHarness {
    bridge: Arc<Bridge>,
    traits: Traits,
}

impl PythonHarness {
    pub(crate) fn new(bridge: Arc<Bridge>, traits: Traits) -> PythonHarness {
        PythonHarness { bridge, traits }
    }
}

impl Harness for PythonHarness {
    fn name(&self) -> String {
        format!("python on {}", self.traits.backend)
    }

    fn traits(&self) -> Traits {
        self.traits
    }

    fn place(&self) -> Box<dyn Place> {
        let folder = self.traits.is_file.then(|| Arc::new(TempDir::new().unwrap()));
        let path = folder.as_ref().map_or_else(PathBuf::new, |folder| folder.path().join("store"));
        Box::new(PythonPlace { bridge: Arc::clone(&self.bridge), backend: self.traits.backend, folder, path })
    }
}

struct PythonPlace {
    bridge: Arc<Bridge>,
    backend: &'static str,
    folder: Option<Arc<TempDir>>,
    path: PathBuf,
}

impl Place for PythonPlace {
    fn open(&self, options: &Options) -> Result<Arc<dyn Store>, String> {
        let values: serde_json::Map<String, Value> = options.values.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
        let head = json!({"do": "open", "backend": self.backend, "path": self.path.to_str().unwrap(), "options": values});
        let number = self.bridge.ask(&head, &[])?;
        let number = String::from_utf8(number).unwrap().parse().unwrap();
        Ok(Arc::new(PythonStore { bridge: Arc::clone(&self.bridge), number }))
    }

    fn path(&self) -> Option<PathBuf> {
        self.folder.as_ref().map(|_| self.path.clone())
    }

    fn at(&self, path: &Path) -> Box<dyn Place> {
        Box::new(PythonPlace {
            bridge: Arc::clone(&self.bridge),
            backend: self.backend,
            folder: self.folder.clone(),
            path: path.to_owned(),
        })
    }
}

struct PythonStore {
    bridge: Arc<Bridge>,
    number: u64,
}

impl PythonStore {
    fn ask(&self, what: &str, body: &[u8]) -> Result<Vec<u8>, String> {
        self.bridge.ask(&json!({"do": what, "store": self.number}), body)
    }
}

impl Store for PythonStore {
    fn call(&self, request: &str) -> String {
        match self.ask("call", request.as_bytes()) {
            Ok(answer) => format!("{{\"ok\":{}}}", String::from_utf8(answer).unwrap()),
            Err(error) => format!("{{\"error\":{error}}}"),
        }
    }

    fn export(&self) -> Result<Vec<u8>, String> {
        self.ask("export", &[])
    }

    fn import(&self, stream: &[u8]) -> Result<String, String> {
        self.ask("import", stream).map(|imported| String::from_utf8(imported).unwrap())
    }

    fn snapshot(&self) -> Result<Vec<u8>, String> {
        self.ask("snapshot", &[])
    }

    fn restore(&self, snapshot: &[u8]) -> Result<(), String> {
        self.ask("restore", snapshot).map(drop)
    }

    fn close(&self) -> Result<(), String> {
        self.ask("close", &[]).map(drop)
    }
}

impl Drop for PythonStore {
    fn drop(&mut self) {
        // A store that is dropped is freed before the next one is opened, as in Rust.
        let _ = self.ask("drop", &[]);
    }
}
