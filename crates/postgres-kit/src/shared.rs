//! The server that all test processes of a run share.

use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::server::Server;
use crate::sql::try_sql;

/// The name of a variable that has the address of a server to be used instead.
const URL: &str = "RUNLEDGER_TEST_POSTGRES_URL";

/// The address of a server in which each test makes schemas of its own.
///
/// It is that of the environment variable `RUNLEDGER_TEST_POSTGRES_URL`, if it is set. Else it is of a server that is
/// started by whoever comes first and stops some seconds after the last test process ended.
///
/// # Panics
/// When there is no server to be had.
pub fn shared_url() -> String {
    if let Ok(url) = std::env::var(URL) {
        return url;
    }
    static SHARED: OnceLock<(String, File)> = OnceLock::new();
    SHARED.get_or_init(join).0.clone()
}

/// An address with a schema.
pub fn with_schema(url: &str, schema: &str) -> String {
    format!("{url}{}schema={schema}", if url.contains('?') { '&' } else { '?' })
}

/// The name of a schema that no other test has.
pub fn unique_schema() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    format!("t{}_{}_{}", std::process::id(), since.as_millis() % 1_000_000_000, COUNT.fetch_add(1, Ordering::Relaxed))
}

/// The place of the shared server of this checkout.
fn folder() -> PathBuf {
    let checkout: u64 = env!("CARGO_MANIFEST_DIR").bytes().fold(7, |hash, byte| hash.wrapping_mul(31).wrapping_add(u64::from(byte)));
    std::env::temp_dir().join(format!("runledger-postgres-shared-{checkout:x}"))
}

fn lock_file(path: &Path) -> File {
    File::options().create(true).append(true).open(path).unwrap()
}

/// Notes that this process uses the server, for as long as it lives, and starts the server if it does not run.
fn join() -> (String, File) {
    let folder = folder();
    std::fs::create_dir_all(&folder).unwrap();
    let users = lock_file(&folder.join("users"));
    // Waits for one that is just being stopped.
    users.lock_shared().unwrap();
    let starting = lock_file(&folder.join("starting"));
    starting.lock().unwrap();
    let known = std::fs::read_to_string(folder.join("url")).ok().filter(|url| try_sql(url, "SELECT 1").is_ok());
    (known.unwrap_or_else(|| start(&folder)), users)
}

#[allow(clippy::zombie_processes, reason = "both processes outlive this one")]
fn start(folder: &Path) -> String {
    let place = folder.join("server");
    let _old = std::fs::remove_dir_all(&place);
    std::fs::create_dir_all(&place).unwrap();
    let server = Server::create(&place, &[("max_connections", "400"), ("max_locks_per_transaction", "256")]);
    // In a group of its own, since a test that is stopped has its whole group killed.
    let process = server.server_command().process_group(0).spawn().unwrap();
    server.wait_until_ready();
    let url = server.url();
    std::fs::write(folder.join("url"), &url).unwrap();
    // It holds the lock of the users alone while it stops the server, so that a test that comes meanwhile starts anew.
    let stop = format!("rm -f url; kill -QUIT {0}; while kill -0 {0} 2>/dev/null; do sleep 0.1; done; rm -rf server", process.id());
    let script = format!(
        "idle=0; while sleep 1; do if flock -n users true; then idle=$((idle+1)); else idle=0; fi; \
         if [ $idle -ge 10 ]; then flock -n users sh -c '{stop}' && exit; fi; done"
    );
    Command::new("sh")
        .args(["-c", &script])
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
        .unwrap();
    // Dropped without its process, it stops nothing.
    drop(server);
    url
}
