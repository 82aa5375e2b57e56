//! Other processes that work on a store: this test program again, told by variables what to do.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use runledger_core::Ledger;

use crate::history::{Driver, Reply};

const STORE: &str = "RUNLEDGER_TEST_STORE";
const BEGIN: &str = "ready for requests";

/// What a test named `child` must do: answer the requests of the one who started it. Of the program that runs the tests
/// it is an empty test.
pub fn serve(open: impl FnOnce(&Path) -> Ledger) {
    let Some(path) = std::env::var_os(STORE) else { return };
    let ledger = open(path.as_ref());
    let mut out = std::io::stdout();
    writeln!(out, "{BEGIN}").unwrap();
    for line in std::io::stdin().lines() {
        writeln!(out, "{}", ledger.call_json(line.unwrap())).unwrap();
        out.flush().unwrap();
    }
    ledger.close().unwrap();
}

/// A process that answers requests.
pub struct Process {
    child: Child,
    input: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    /// After how many calls it is killed in the midst of one.
    killed_after: Option<usize>,
}

impl Process {
    /// Starts the test `child` of this program on a store.
    pub fn start(path: &Path, killed_after: Option<usize>) -> Process {
        Process::start_with(&mut Command::new(std::env::current_exe().unwrap()), path, killed_after)
    }

    /// Starts it by a command that starts this program.
    pub fn start_with(command: &mut Command, path: &Path, killed_after: Option<usize>) -> Process {
        let mut child = command
            .args(["--exact", "child", "--nocapture", "--test-threads=1"])
            .env(STORE, path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let input = child.stdin.take();
        let mut answers = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        // The test program itself may write in front of what the child says, on the same line.
        while !line.ends_with(&format!("{BEGIN}\n")) {
            line.clear();
            assert!(answers.read_line(&mut line).unwrap() > 0, "the child did not begin");
        }
        Process { child, input, answers, killed_after }
    }

    /// Asks one request; `None` when the process is gone.
    pub fn ask(&mut self, request: &str) -> Option<String> {
        writeln!(self.input.as_mut()?, "{request}").ok()?;
        if let Some(left) = &mut self.killed_after {
            if *left == 0 {
                self.child.kill().unwrap();
            }
            *left = left.saturating_sub(1);
        }
        let mut answer = String::new();
        // An answer that was cut short is none.
        (self.answers.read_line(&mut answer).ok()? > 0 && answer.ends_with('\n')).then_some(answer)
    }
}

impl Driver for Process {
    fn call(&mut self, request: &str) -> Reply {
        self.ask(request).map_or(Reply::Gone, Reply::Answer)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.input.take());
        let _ = self.child.wait();
    }
}
