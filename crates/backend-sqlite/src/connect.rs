//! Connections: how they are opened and set, how long they wait for locks, and the few that read.

use std::cell::Cell;
use std::ops::{Deref, DerefMut};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use runledger_core::planted::{Defect, is_planted};
use runledger_core::{Code, Durability, Error, Journal};
use rusqlite::config::DbConfig;
use rusqlite::ffi::{SQLITE_CANTOPEN, SQLITE_READONLY};
use rusqlite::{Connection, OpenFlags};

use crate::error::{Fault, Outcome};
use crate::place::Place;
use crate::session::Session;

/// The most connections that read at a time; more readers than that wait for one of them.
const MAX_READERS: usize = 4;

/// The most statements that a connection keeps prepared: all that are fixed, and the commonest shapes of lists.
const KEPT_STATEMENTS: usize = 128;

/// The log is copied back into the file when it has this many pages, at the commit that brings it there.
const CHECKPOINT_PAGES: i64 = 2000;

/// The page cache of a connection, in KiB.
const CACHE_KIB: i64 = 8192;

thread_local! {
    /// Until when the call that this thread makes may wait. The engine asks on the calling thread.
    static DEADLINE: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// Lets the calls that follow on this thread wait for locks as long as `timeout`, all together.
pub(crate) fn wait_at_most(timeout: Duration) -> Option<Instant> {
    // A deadline past the clock's range is none at all: the call waits for as long as it takes.
    let deadline = Instant::now().checked_add(timeout);
    DEADLINE.set(Some(deadline.unwrap_or_else(|| Instant::now() + Duration::from_secs(u32::MAX.into()))));
    DEADLINE.get()
}

/// Sleeps a little, longer at each further try; `false` when the deadline has passed.
///
/// The engine's own handler sleeps up to 100 ms between tries, so that a process that asks often starves one that
/// waits: this one asks at least once a millisecond until the deadline.
pub(crate) fn wait_a_little(tries: i32) -> bool {
    let Some(left) = DEADLINE.get().and_then(|deadline| deadline.checked_duration_since(Instant::now())) else { return false };
    if left.is_zero() || is_planted(Defect::SqliteDoesNotWaitForLocks) {
        return false;
    }
    let pause = Duration::from_micros(50 << tries.clamp(0, 5)).min(Duration::from_millis(1));
    std::thread::sleep(pause.min(left));
    true
}

/// How a connection sees the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Reads and writes; creates the file if it is not there.
    Create,
    /// Reads and writes.
    Write,
    /// Only reads.
    Read,
    /// Only reads, and takes the file for one that nobody changes: no lock, no log, no file beside it.
    Frozen,
}

/// Opens a connection that never touches the log when it closes; [`keep_log_short`] ends that once the store is known to be
/// whole: a file that is refused keeps its bytes.
pub(crate) fn connect(place: &Place, access: Access) -> Outcome<Connection> {
    let flags = match access {
        Access::Create => OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE,
        Access::Write => OpenFlags::SQLITE_OPEN_READ_WRITE,
        Access::Read => OpenFlags::SQLITE_OPEN_READ_ONLY,
        Access::Frozen => OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI,
    };
    // Every connection is used by one thread at a time.
    let flags = flags | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    #[allow(unused_mut, reason = "setting the busy handler takes it mutably in newer versions of rusqlite only")]
    let mut conn = match access {
        Access::Frozen => Connection::open_with_flags(place.uri("immutable=1"), flags)?,
        _ => Connection::open_with_flags(&place.path, flags)?,
    };
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    // Without this the planner looks at bound values, and has many statements prepared anew at every use.
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    conn.busy_handler(Some(wait_a_little as fn(i32) -> bool))?;
    conn.set_prepared_statement_cache_capacity(KEPT_STATEMENTS);
    Ok(conn)
}

/// Settings of every connection, read back: the engine passes over a setting that it can't take without a word.
pub(crate) fn settle(conn: &Connection, place: &Place, durability: Durability) -> Outcome<()> {
    let synchronous = match durability {
        // EXTRA differs from FULL only without a log, where it flushes the directory too after the journal is gone. Asking
        // for it always covers a store whose journal another process switches.
        Durability::Full => 3,
        // NORMAL with a log: what is not flushed is its end.
        Durability::Relaxed if has_log(conn)? => 1,
        // Without a log NORMAL takes a journal for whole whose pages may not have reached the disk, and undoes a
        // transaction with what it finds there.
        Durability::Relaxed => 2,
    };
    let settings = [
        ("synchronous", synchronous),
        ("wal_autocheckpoint", CHECKPOINT_PAGES),
        // The tables refer to each other only through what core has loaded and checked; declared references would be
        // checked a second time, at a price, and would be enforced in another order.
        ("foreign_keys", 0),
        ("cell_size_check", 1),
        ("trusted_schema", 0),
        ("temp_store", 2),
        ("mmap_size", 0),
        ("cache_size", -CACHE_KIB),
    ];
    for (name, value) in settings {
        set(conn, place, name, value)?;
    }
    if cfg!(target_vendor = "apple") {
        // There a plain flush leaves the data in the drive's own cache.
        set(conn, place, "fullfsync", 1)?;
        set(conn, place, "checkpoint_fullfsync", 1)?;
    }
    Ok(())
}

/// Has the last connection to close copy the log into the file and remove it.
pub(crate) fn keep_log_short(conn: &Connection) -> Outcome<()> {
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, false)?;
    Ok(())
}

fn has_log(conn: &Connection) -> Outcome<bool> {
    let journal: String = conn.pragma_query_value(None, "journal_mode", |row| row.get(0))?;
    Ok(journal == Journal::Wal.as_str())
}

/// Makes a setting, and checks that the engine took it.
pub(crate) fn set(conn: &Connection, place: &Place, name: &str, value: i64) -> Outcome<()> {
    conn.pragma_update(None, name, value)?;
    match pragma(conn, name)? {
        taken if taken == value => Ok(()),
        taken => Err(place.error(Code::Io, &format!("the engine took {taken} for {value} as its setting {name}")).into()),
    }
}

/// Reads a setting or mark that is a number.
pub(crate) fn pragma(conn: &Connection, name: &str) -> Outcome<i64> {
    Ok(conn.pragma_query_value(None, name, |row| row.get(0))?)
}

/// Makes a connection that reads a store of ours.
pub(crate) fn reader(place: &Place, access: Access, durability: Durability) -> Outcome<Connection> {
    let conn = connect(place, access)?;
    settle(&conn, place, durability)?;
    keep_log_short(&conn)?;
    set(&conn, place, "query_only", 1)?;
    Ok(conn)
}

/// The connections that read.
#[derive(Debug, Default)]
pub(crate) struct Readers {
    state: Mutex<ReadersState>,
    freed: Condvar,
}

#[derive(Debug, Default)]
struct ReadersState {
    idle: Vec<Session>,
    out: usize,
    closed: bool,
}

impl Readers {
    fn state(&self) -> MutexGuard<'_, ReadersState> {
        // Nothing that holds it can panic half way through a change.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An idle connection, or a new one from `make`; waits for one until `deadline` when there are enough, or when the
    /// system has no file left for a further one.
    pub(crate) fn lend(&self, deadline: Option<Instant>, make: impl Fn() -> Outcome<Session>) -> Outcome<Reader<'_>> {
        let mut state = self.state();
        let mut refused: Option<Fault> = None;
        loop {
            if state.closed {
                return Err(closed().into());
            }
            if let Some(session) = state.idle.pop() {
                state.out += 1;
                return Ok(Reader { readers: self, session: Some(session) });
            }
            if state.out < MAX_READERS && refused.is_none() {
                state.out += 1;
                drop(state);
                // The place among the connections is given back by the guard even when there is nothing to put into it.
                let mut reader = Reader { readers: self, session: None };
                match make() {
                    Ok(session) => {
                        reader.session = Some(session);
                        return Ok(reader);
                    }
                    Err(fault) if fault.primary() == SQLITE_CANTOPEN => refused = Some(fault),
                    Err(fault) => return Err(fault),
                }
                drop(reader);
                state = self.state();
                continue;
            }
            let left = deadline.map_or(Duration::MAX, |deadline| deadline.saturating_duration_since(Instant::now()));
            if state.out == 0 || left.is_zero() {
                let nobody_done = || Error::new(Code::Busy, "no connection to read with came free within the busy timeout").into();
                return Err(refused.unwrap_or_else(nobody_done));
            }
            state = self.freed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Takes a connection among the idle ones.
    pub(crate) fn keep(&self, session: Session) {
        self.state().idle.push(session);
    }

    pub(crate) fn check_open(&self) -> Result<(), Error> {
        if self.state().closed { Err(closed()) } else { Ok(()) }
    }

    /// Closes all of them, now or when they come back.
    pub(crate) fn close(&self) {
        let mut state = self.state();
        state.closed = true;
        state.idle.clear();
        self.freed.notify_all();
    }
}

/// A connection that is given back when this is dropped.
#[derive(Debug)]
pub(crate) struct Reader<'a> {
    readers: &'a Readers,
    session: Option<Session>,
}

impl Deref for Reader<'_> {
    type Target = Session;
    fn deref(&self) -> &Session {
        self.session.as_ref().expect("there from its making until it is dropped")
    }
}

impl DerefMut for Reader<'_> {
    fn deref_mut(&mut self) -> &mut Session {
        self.session.as_mut().expect("there from its making until it is dropped")
    }
}

impl Drop for Reader<'_> {
    fn drop(&mut self) {
        if let Some(session) = &self.session {
            abandon(session.conn());
        }
        let mut state = self.readers.state();
        state.out -= 1;
        match self.session.take() {
            Some(session) if !state.closed => state.idle.push(session),
            _ => {}
        }
        drop(state);
        self.readers.freed.notify_one();
    }
}

/// Ends an open transaction without keeping anything. What goes wrong here has a cause that is reported already, and
/// the engine may have rolled back by itself.
pub(crate) fn abandon(conn: &Connection) {
    if !conn.is_autocommit() {
        let _ = run(conn, "ROLLBACK");
    }
}

/// Ends the transaction that is open when this is dropped, in whatever way that comes about.
pub(crate) struct Abandoned<'c>(pub(crate) &'c Connection);

impl Drop for Abandoned<'_> {
    fn drop(&mut self) {
        abandon(self.0);
    }
}

/// Runs a statement without parameters.
pub(crate) fn run(conn: &Connection, sql: &'static str) -> Outcome<()> {
    conn.prepare_cached(sql)?.raw_execute()?;
    Ok(())
}

/// Copies the whole log into the file and empties it; `false` when somebody was in the way.
pub(crate) fn checkpoint(conn: &Connection) -> Outcome<bool> {
    let busy = conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, i64>(0))?;
    Ok(busy == 0)
}

/// Tries until it is not refused for a lock, or the deadline passes.
pub(crate) fn retry<T>(mut attempt: impl FnMut() -> Outcome<T>) -> Outcome<T> {
    let mut tries = 0;
    loop {
        match attempt() {
            Err(fault) if fault.is_busy() && wait_a_little(tries) => tries += 1,
            other => return other,
        }
    }
}

pub(crate) fn closed() -> Error {
    Error::new(Code::Closed, "the store was closed").with_entity(runledger_core::Entity::Store)
}

impl Fault {
    /// Whether the file can't be used as it is because nothing may be created beside it.
    pub(crate) fn is_for_want_of_side_files(&self) -> bool {
        matches!(self.primary(), SQLITE_CANTOPEN | SQLITE_READONLY)
    }
}
