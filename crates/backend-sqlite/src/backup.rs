//! A copy of the store, page by page, while others use it.

use std::path::Path;

use runledger_core::{Meter, OnProgress, Stage};
use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, OpenFlags};

use crate::connect::{pragma, wait_a_little};
use crate::error::{Fault, Outcome};

/// How many pages are copied at once.
const PAGES_PER_STEP: i32 = 64;

/// Copies the state that `source` sees to the empty file at `target`. The caller is in a transaction, so that it is one
/// state from the first page to the last, whatever is committed meanwhile.
pub(crate) fn backup(source: &Connection, target: &Path, on_progress: OnProgress<'_>) -> Outcome<()> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut copy = Connection::open_with_flags(target, flags)?;
    // Core flushes the whole file at its end, and one that was cut short is thrown away.
    copy.pragma_update_and_check(None, "journal_mode", "off", |_| Ok(()))?;
    copy.pragma_update(None, "synchronous", 0)?;
    // A transaction sees its state from its first read on, and the engine begins one of its own for each step otherwise.
    let total = pragma(source, "page_count")?;
    let mut meter = Meter::start(on_progress, Stage::Copying, u64::try_from(total).ok())?;
    let backup = Backup::new(source, &mut copy)?;
    let (mut copied, mut tries) = (0, 0);
    loop {
        let step = backup.step(PAGES_PER_STEP)?;
        let progress = backup.progress();
        let now = u64::try_from(progress.pagecount - progress.remaining).unwrap_or(copied);
        meter.advance(now.saturating_sub(copied))?;
        copied = now;
        match step {
            StepResult::Done => break,
            StepResult::More => {}
            _ if wait_a_little(tries) => tries += 1,
            _ => return Err(busy()),
        }
    }
    drop(backup);
    meter.finish()?;
    copy.close().map_err(|(_, error)| Fault::Engine(error))
}

fn busy() -> Fault {
    Fault::Engine(rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_BUSY), None))
}
