//! Connections: made on a thread of ours, kept in a small pool, and replaced when they break.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use runledger_core::{Code, Error, Result, wait_until};
use tokio::runtime::{Builder, Handle};
use tokio::sync::{mpsc, oneshot};
use tokio_postgres::error::Severity;
use tokio_postgres::{AsyncMessage, Client, Row};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::address::Address;
use crate::error::{Fault, Outcome};
use crate::statement::{Statement, pipeline};

/// How much longer than the server's own limits a call waits for the server before it gives the connection up.
const GRACE: Duration = Duration::from_secs(10);

/// How long a call waits for the server where no statement is limited.
const FOR_EVER: Duration = Duration::from_secs(365 * 24 * 3600);

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What the mutexes guard is never left half changed.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The thread on which all connections of a handle live, so that they work whatever runtime the callers have or lack.
pub(crate) struct Runtime {
    pub(crate) handle: Handle,
    stop: Mutex<Option<oneshot::Sender<()>>>,
}

impl Runtime {
    fn start() -> Result<Runtime> {
        let failed = |e: std::io::Error| Error::new(Code::Io, format!("starting the thread of the connections: {e}"));
        let runtime = Builder::new_current_thread().enable_all().build().map_err(failed)?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel::<()>();
        let run = move || {
            // Both a message and a dropped sender mean that it is over.
            let _over = runtime.block_on(stopped);
            runtime.shutdown_background();
        };
        std::thread::Builder::new().name("runledger-postgres".to_owned()).spawn(run).map_err(failed)?;
        Ok(Runtime { handle, stop: Mutex::new(Some(stop)) })
    }

    fn stop(&self) {
        drop(lock(&self.stop).take());
    }
}

/// One connection.
pub(crate) struct Session {
    pub(crate) client: Client,
    /// Whether a warning came since this was last looked at.
    has_warned: Arc<AtomicBool>,
    /// What was notified, for the connection that listens.
    pub(crate) news: mpsc::UnboundedReceiver<String>,
}

impl Session {
    /// Whether the server warned of something since the last call.
    pub(crate) fn take_warning(&self) -> bool {
        self.has_warned.swap(false, Ordering::AcqRel)
    }
}

/// Makes connections.
pub(crate) struct Connector {
    pub(crate) address: Address,
    tls: MakeRustlsConnect,
    pub(crate) runtime: Runtime,
    /// What stands before the name of a table.
    pub(crate) prefix: String,
}

impl Connector {
    pub(crate) fn new(address: Address) -> Result<Connector> {
        let prefix = format!("\"{}\".", address.schema);
        Ok(Connector { tls: address.tls.connector()?, runtime: Runtime::start()?, prefix, address })
    }

    /// How long a call waits for an answer before it gives the connection up.
    fn patience(&self) -> Duration {
        match self.address.statement_timeout_ms {
            0 => FOR_EVER,
            limit => Duration::from_millis(limit) + GRACE,
        }
    }

    /// Makes a connection, on this thread's time.
    pub(crate) fn connect(self: &Arc<Self>) -> Outcome<Session> {
        let hosts = self.address.config.get_hosts().len().max(1) as u32;
        let timeout = self.address.config.get_connect_timeout().copied().unwrap_or(GRACE);
        let deadline = Instant::now() + timeout * hosts + GRACE;
        let connector = Arc::clone(self);
        let mut connecting = self.runtime.handle.spawn(async move { connector.connect_here().await });
        match wait_until(&mut connecting, deadline) {
            Some(Ok(session)) => session,
            Some(Err(_)) => Err(Fault::Connection("the thread of the connections has ended".to_owned())),
            None => {
                connecting.abort();
                Err(Fault::Connection("the server did not answer in time".to_owned()))
            }
        }
    }

    /// Makes a connection, on the thread of the connections.
    pub(crate) async fn connect_here(&self) -> Outcome<Session> {
        let (client, mut connection) = self.address.config.connect(self.tls.clone()).await?;
        let parameter = |name: &str| connection.parameter(name).unwrap_or_default().to_owned();
        let encoding = parameter("server_encoding");
        if encoding != "UTF8" {
            let what = format!("a database with the encoding {encoding}; UTF8 is needed");
            return Err(Error::new(Code::Unsupported, format!("{}: {what}", self.address.place())).into());
        }
        let has_warned = Arc::new(AtomicBool::new(false));
        let (told, news) = mpsc::unbounded_channel();
        let warned = Arc::clone(&has_warned);
        tokio::spawn(async move {
            while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
                match message {
                    AsyncMessage::Notice(notice) if notice.parsed_severity() == Some(Severity::Warning) => {
                        warned.store(true, Ordering::Release);
                    }
                    AsyncMessage::Notification(notification) => {
                        // Only the connection that listens reads them.
                        let _unread = told.send(notification.payload().to_owned());
                    }
                    _ => {}
                }
            }
        });
        Ok(Session { client, has_warned, news })
    }

    /// Sends statements at once and waits for their rows: one round trip. The fault comes with the place of its statement.
    pub(crate) fn ask_at(&self, session: &Session, statements: &[Statement<'_>]) -> std::result::Result<Vec<Vec<Row>>, (usize, Fault)> {
        self.ask_for(session, statements, self.patience())
    }

    fn ask_for(
        &self,
        session: &Session,
        statements: &[Statement<'_>],
        patience: Duration,
    ) -> std::result::Result<Vec<Vec<Row>>, (usize, Fault)> {
        match wait_until(pipeline(&session.client, &self.prefix, statements), Instant::now() + patience) {
            Some(answered) => answered.map_err(|(place, error)| (place, error.into())),
            None => Err((statements.len(), Fault::Connection("the server did not answer in time".to_owned()))),
        }
    }

    /// As [`Connector::ask_at`], for those whom only the fault concerns.
    pub(crate) fn ask(&self, session: &Session, statements: &[Statement<'_>]) -> Outcome<Vec<Vec<Row>>> {
        self.ask_at(session, statements).map_err(|(_, fault)| fault)
    }

    /// The same for statements that may take as long as they need.
    pub(crate) fn ask_patiently(&self, session: &Session, statements: &[Statement<'_>]) -> Outcome<Vec<Vec<Row>>> {
        self.ask_for(session, statements, FOR_EVER).map_err(|(_, fault)| fault)
    }
}

/// The connections of a handle that are shared by its callers.
pub(crate) struct Pool {
    pub(crate) connector: Arc<Connector>,
    state: Mutex<State>,
    returned: Condvar,
}

#[derive(Default)]
struct State {
    /// The one used last is taken first, so that those which are not needed stay idle.
    idle: VecDeque<Session>,
    /// How many connections there are, idle or lent.
    open: usize,
    is_closed: bool,
}

impl Pool {
    pub(crate) fn new(connector: Arc<Connector>) -> Pool {
        Pool { connector, state: Mutex::default(), returned: Condvar::new() }
    }

    /// Lends a connection; waits for one until the deadline when all are lent.
    pub(crate) fn lend(&self, deadline: Instant) -> Outcome<Lent<'_>> {
        let mut state = lock(&self.state);
        loop {
            if state.is_closed {
                return Err(Error::new(Code::Closed, "the handle was closed").into());
            }
            while let Some(session) = state.idle.pop_back() {
                if !session.client.is_closed() {
                    return Ok(Lent { pool: self, session: Some(session), is_fresh: false, is_clean: false });
                }
                state.open -= 1;
            }
            if state.open < self.connector.address.pool_size {
                state.open += 1;
                drop(state);
                // The place is given back if this fails or unwinds.
                let mut lent = Lent { pool: self, session: None, is_fresh: true, is_clean: false };
                lent.session = Some(self.connector.connect()?);
                return Ok(lent);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let what = "no connection of the pool was free within the busy timeout";
                return Err(Error::new(Code::Busy, format!("{}: {what}", self.connector.address.place())).into());
            }
            state = self.returned.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Ends all connections.
    pub(crate) fn close(&self) {
        {
            let mut state = lock(&self.state);
            state.is_closed = true;
            state.idle.clear();
        }
        self.returned.notify_all();
        self.connector.runtime.stop();
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.connector.runtime.stop();
    }
}

/// A connection that is lent. Given back unless its transaction may still be open.
pub(crate) struct Lent<'p> {
    pool: &'p Pool,
    session: Option<Session>,
    /// Whether it was made just now: what fails on it fails on another one too.
    pub(crate) is_fresh: bool,
    /// Whether it has no transaction open, so that another caller may have it.
    pub(crate) is_clean: bool,
}

impl Lent<'_> {
    pub(crate) fn session(&self) -> Outcome<&Session> {
        self.session.as_ref().ok_or_else(|| Fault::Connection("there is none".to_owned()))
    }
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        let mut state = lock(&self.pool.state);
        match self.session.take() {
            Some(session) if self.is_clean && !session.client.is_closed() && !state.is_closed => state.idle.push_back(session),
            _ => state.open -= 1,
        }
        drop(state);
        self.pool.returned.notify_one();
    }
}
