//! Behind a pooler that hands out its connections a transaction at a time.

use std::collections::BTreeSet;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Stdio};

use runledger_core::{Ledger, VerifyStore};
use runledger_postgres_kit::{Server, try_sql};

use crate::kit::{claim, open, queue};

const PGBOUNCER: &str = "/usr/sbin/pgbouncer";

struct Pooler(Child);

impl Drop for Pooler {
    fn drop(&mut self) {
        let _ended = (self.0.kill(), self.0.wait());
    }
}

fn start(server: &Server, folder: &Path) -> (Pooler, String) {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let settings = format!(
        "[databases]\npostgres = host=127.0.0.1 port={} user=runledger\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\n\
         unix_socket_dir =\nauth_type = any\npool_mode = transaction\ndefault_pool_size = 3\nmax_client_conn = 200\nlogfile = {}/log\n",
        server.port(),
        folder.display()
    );
    let path = folder.join("pgbouncer.ini");
    std::fs::write(&path, settings).unwrap();
    server.programs().give(folder);
    server.programs().give(&path);
    let mut command = server.programs().as_user(Path::new(PGBOUNCER));
    let process = command.arg(&path).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let url = format!("postgres://runledger@127.0.0.1:{port}/postgres");
    let (pooler, mut tries) = (Pooler(process), 0);
    while let Err(why) = try_sql(&url, "SELECT 1") {
        tries += 1;
        assert!(tries < 500, "the pooler does not answer: {why}");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    (pooler, url)
}

#[test]
fn many_handles_share_the_few_connections_of_a_pooler() {
    if !Path::new(PGBOUNCER).is_file() {
        println!("skipped: pgbouncer is not installed");
        return;
    }
    let server = Server::start(&[]);
    let folder = tempfile::tempdir().unwrap();
    let (_pooler, url) = start(&server, folder.path());
    let url = format!("{url}?sslmode=disable&pool_size=4");
    let handles: Vec<Ledger> = (0..6).map(|_| open(&url).unwrap()).collect();
    let claimed: Vec<String> = std::thread::scope(|scope| {
        for (n, handle) in handles.iter().enumerate() {
            scope.spawn(move || (0..40).for_each(|m| drop(handle.queue_run(queue("p", &format!("r{n}-{m}"))).unwrap())));
        }
        let claiming: Vec<_> = handles
            .iter()
            .enumerate()
            .map(|(n, handle)| {
                scope.spawn(move || {
                    let claims =
                        (0..40).map(|m| handle.claim_run_wait(claim("p", &format!("t{n}-{m}")), std::time::Duration::from_secs(60)));
                    claims.map(|claimed| claimed.unwrap().unwrap().id.to_string()).collect::<Vec<_>>()
                })
            })
            .collect();
        claiming.into_iter().flat_map(|claiming| claiming.join().unwrap()).collect()
    });
    assert_eq!((claimed.len(), claimed.iter().collect::<BTreeSet<_>>().len()), (240, 240));
    let report = handles[0].verify_store(VerifyStore::new()).unwrap();
    assert!(report.is_ok(), "{report:?}");
}
