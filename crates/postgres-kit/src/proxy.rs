//! Something between a client and its server that cuts their connections.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// Hands bytes on between its port and a server's, until it is told to cut.
#[derive(Debug)]
pub struct Proxy {
    port: u16,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    streams: Mutex<Vec<TcpStream>>,
    is_refusing: AtomicBool,
    /// After how many more bytes towards the client all connections are cut; 0 for never.
    cut_after: AtomicU64,
    /// How often the client spoke after the server had.
    turns: AtomicU64,
    client_spoke_last: AtomicBool,
}

impl Proxy {
    /// A proxy before the server on this port.
    pub fn start(server_port: u16) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let shared = Arc::new(Shared::default());
        let inside = Arc::clone(&shared);
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                if inside.is_refusing.load(Ordering::SeqCst) {
                    continue;
                }
                let Ok(server) = TcpStream::connect(("127.0.0.1", server_port)) else { continue };
                let _quick = (client.set_nodelay(true), server.set_nodelay(true));
                inside.streams.lock().unwrap().extend([client.try_clone().unwrap(), server.try_clone().unwrap()]);
                for (from, to, is_answer) in [(client.try_clone().unwrap(), server.try_clone().unwrap(), false), (server, client, true)] {
                    let inside = Arc::clone(&inside);
                    std::thread::spawn(move || inside.hand_on(from, to, is_answer));
                }
            }
        });
        Proxy { port, shared }
    }

    /// The port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Cuts every connection now.
    pub fn cut(&self) {
        self.shared.cut();
    }

    /// Cuts every connection once the server has answered so many more bytes, which may be in the midst of an answer.
    pub fn cut_after(&self, bytes: u64) {
        self.shared.cut_after.store(bytes.max(1), Ordering::SeqCst);
    }

    /// How often the client spoke after the server had: the round trips, as long as there is one connection.
    pub fn turns(&self) -> u64 {
        self.shared.turns.load(Ordering::SeqCst)
    }

    /// Refuses new connections from now on, or takes them again.
    pub fn refuse(&self, is_refusing: bool) {
        self.shared.is_refusing.store(is_refusing, Ordering::SeqCst);
    }
}

impl Shared {
    fn cut(&self) {
        for stream in self.streams.lock().unwrap().drain(..) {
            let _cut = stream.shutdown(Shutdown::Both);
        }
    }

    fn hand_on(&self, mut from: TcpStream, mut to: TcpStream, is_answer: bool) {
        let mut buffer = [0; 16 * 1024];
        while let Ok(read) = from.read(&mut buffer) {
            if self.client_spoke_last.swap(!is_answer, Ordering::SeqCst) == is_answer && !is_answer {
                self.turns.fetch_add(1, Ordering::SeqCst);
            }
            let mut passed = read;
            let left = self.cut_after.load(Ordering::SeqCst);
            let is_cut = is_answer && left > 0 && left <= read as u64;
            if is_cut {
                passed = left as usize - 1;
                self.cut_after.store(0, Ordering::SeqCst);
            } else if is_answer && left > 0 {
                self.cut_after.fetch_sub(read as u64, Ordering::SeqCst);
            }
            if read == 0 || to.write_all(&buffer[..passed]).is_err() {
                break;
            }
            if is_cut {
                self.cut();
                return;
            }
        }
        let _end = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
    }
}
