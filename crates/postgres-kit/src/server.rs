//! A server of one test.

use std::io::Write;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::programs::Programs;
use crate::sql::try_sql;

/// How long a server may take to start or stop.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server with a data directory of its own, which is gone when this is dropped.
#[derive(Debug)]
pub struct Server {
    programs: Programs,
    /// Socket, log and data.
    folder: PathBuf,
    port: u16,
    process: Option<Child>,
    /// Ends the server if this process is killed before it can.
    guard: Option<Child>,
    _folder: Option<TempDir>,
}

impl Server {
    /// A new server with settings of `postgresql.conf`.
    pub fn start(settings: &[(&str, &str)]) -> Server {
        let folder = tempfile::Builder::new().prefix("runledger-postgres-").tempdir().unwrap();
        let mut server = Server::create(folder.path(), settings);
        server._folder = Some(folder);
        server.run();
        server
    }

    /// Makes a data directory in `folder`, and runs nothing yet.
    pub(crate) fn create(folder: &Path, settings: &[(&str, &str)]) -> Server {
        let programs = Programs::find().expect("no server can be started: PostgreSQL is not installed");
        programs.give(folder);
        let server = Server::in_folder(programs, folder);
        let data = server.data();
        let made = server
            .programs
            .command("initdb")
            .args(["--username=runledger", "--auth=trust", "--encoding=UTF8", "--locale=C.UTF-8", "--no-sync", "--no-instructions", "-D"])
            .arg(&data)
            .output()
            .unwrap();
        assert!(made.status.success(), "initdb: {}", String::from_utf8_lossy(&made.stderr));
        server.configure_first(settings);
        server
    }

    /// A copy of a running server that follows it, as a hot standby.
    pub fn standby_of(primary: &Server, name: &str, settings: &[(&str, &str)]) -> Server {
        let folder = tempfile::Builder::new().prefix("runledger-postgres-").tempdir().unwrap();
        primary.programs.give(folder.path());
        let mut server = Server::in_folder(primary.programs.clone(), folder.path());
        server._folder = Some(folder);
        let from = format!("host=127.0.0.1 port={} user=runledger application_name={name}", primary.port);
        let mut copy = server.programs.command("pg_basebackup");
        let copied = copy.arg("-D").arg(server.data()).args(["-R", "-X", "stream", "-c", "fast", "-d", &from]).output().unwrap();
        assert!(copied.status.success(), "pg_basebackup: {}", String::from_utf8_lossy(&copied.stderr));
        server.configure_first(settings);
        server.run();
        server
    }

    fn in_folder(programs: Programs, folder: &Path) -> Server {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        Server { programs, folder: folder.to_owned(), port, process: None, guard: None, _folder: None }
    }

    /// Adds settings to `postgresql.conf`, which hold from the next start.
    pub fn configure(&self, settings: &[(&str, &str)]) {
        let lines: String = settings.iter().map(|(name, value)| format!("{name} = '{value}'\n")).collect();
        let path = self.data().join("postgresql.conf");
        let mut file = std::fs::OpenOptions::new().append(true).open(path).unwrap();
        file.write_all(lines.as_bytes()).unwrap();
    }

    /// The settings of every server, and those of this one after them.
    fn configure_first(&self, settings: &[(&str, &str)]) {
        let (port, folder) = (self.port.to_string(), self.folder.display().to_string());
        self.configure(&[
            ("listen_addresses", "127.0.0.1"),
            ("port", &port),
            ("unix_socket_directories", &folder),
            ("max_connections", "200"),
            ("shared_buffers", "64MB"),
            ("log_min_messages", "fatal"),
        ]);
        self.configure(settings);
    }

    /// What the server has logged.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.folder.join("log")).unwrap_or_default()
    }

    /// The data directory.
    pub fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    /// The port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The server's programs.
    pub fn programs(&self) -> &Programs {
        &self.programs
    }

    /// The address over TCP.
    pub fn url(&self) -> String {
        format!("postgres://runledger@127.0.0.1:{}/postgres", self.port)
    }

    /// The address over the Unix socket.
    pub fn socket_url(&self) -> String {
        format!("postgres:///postgres?host={}&port={}&user=runledger", self.folder.display(), self.port)
    }

    /// Starts it, and waits until it answers.
    pub fn run(&mut self) {
        assert!(self.process.is_none(), "it runs already");
        let process = self.spawn_once_possible();
        // A shell that waits for the end of its input, which comes when this process is gone.
        let script = format!("cat; kill -QUIT {} 2>/dev/null", process.id());
        let guard = Command::new("sh").args(["-c", &script]).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        self.process = Some(process);
        self.guard = Some(guard.unwrap());
    }

    /// A process that was forked just when the server was killed may hold the shared memory for a moment, in which no new
    /// server starts.
    fn spawn_once_possible(&self) -> Child {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let mut process = self.server_command().spawn().unwrap();
            while try_sql(&self.url(), "SELECT 1").is_err() {
                if process.try_wait().unwrap().is_some() {
                    break;
                }
                assert!(Instant::now() < deadline, "the server does not start:\n{}", self.log());
                std::thread::sleep(Duration::from_millis(20));
            }
            if process.try_wait().unwrap().is_none() {
                return process;
            }
            assert!(Instant::now() < deadline, "the server ends as soon as it is started:\n{}", self.log());
        }
    }

    pub(crate) fn server_command(&self) -> Command {
        let log = std::fs::OpenOptions::new().create(true).append(true).open(self.folder.join("log")).unwrap();
        let mut command = self.programs.command("postgres");
        command.arg("-D").arg(self.data()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        command
    }

    pub(crate) fn wait_until_ready(&self) {
        let deadline = Instant::now() + PATIENCE;
        while let Err(why) = try_sql(&self.url(), "SELECT 1") {
            assert!(Instant::now() < deadline, "the server does not answer: {why}\n{}", self.log());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Kills it and all its processes with SIGKILL, as a loss of power would stop it short.
    pub fn kill(&mut self) {
        let Some(mut process) = self.process.take() else { return };
        // The server's processes end by themselves when the first one is gone; to be sure they are killed too.
        let pids = children_of(process.id());
        process.kill().unwrap();
        process.wait().unwrap();
        let _gone = Command::new("kill").arg("-9").args(pids).stderr(Stdio::null()).status();
        self.end_guard();
    }

    /// Stops it in good order, without waiting for its clients.
    pub fn stop(&mut self) {
        self.signal("-INT");
    }

    fn signal(&mut self, signal: &str) {
        let Some(mut process) = self.process.take() else { return };
        let _sent = Command::new("kill").args([signal, &process.id().to_string()]).status();
        let deadline = Instant::now() + PATIENCE;
        while process.try_wait().unwrap().is_none() {
            if Instant::now() > deadline {
                process.kill().unwrap();
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        self.end_guard();
    }

    fn end_guard(&mut self) {
        if let Some(mut guard) = self.guard.take() {
            drop(guard.stdin.take());
            guard.wait().unwrap();
        }
    }

    /// Makes a standby the primary.
    pub fn promote(&self) {
        let promoted = self.programs.command("pg_ctl").args(["promote", "-w", "-D"]).arg(self.data()).output().unwrap();
        assert!(promoted.status.success(), "pg_ctl promote: {}", String::from_utf8_lossy(&promoted.stderr));
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.signal("-QUIT");
    }
}

/// The processes under a process, by number.
fn children_of(pid: u32) -> Vec<String> {
    let listed = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    listed.split_whitespace().map(str::to_owned).collect()
}
