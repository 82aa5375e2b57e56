//! A copy of one state of the store, table by table, in a file of its own.

use std::fs::File;

use redb::backends::FileBackend;
use redb::{ReadableTableMetadata, WriteTransaction};
use runledger_core::{Meter, OnProgress, Result, Stage};

use crate::error::{Coded, guarded};
use crate::open;
use crate::query::View;
use crate::schema::{self, Definition};

/// Copies every table that the view sees to the empty `file`.
pub(crate) fn backup(view: &View, file: File, on_progress: OnProgress<'_>) -> Result<()> {
    let rows = guarded(|| schema::all_tables().map(|table| view.table(table)?.len().coded()).sum::<Result<u64>>())?;
    let mut meter = Meter::start(on_progress, Stage::Copying, Some(rows))?;
    let (db, txn) = guarded(|| {
        let db = open::database(FileBackend::new(file).coded()?, None)?;
        let txn = db.begin_write().coded()?;
        Ok((db, txn))
    })?;
    for table in schema::all_tables() {
        copy_table(view, &txn, table, &mut meter)?;
    }
    guarded(|| {
        txn.commit().coded()?;
        db.close().coded()
    })?;
    meter.finish()
}

fn copy_table(view: &View, txn: &WriteTransaction, definition: Definition, meter: &mut Meter<'_>) -> Result<()> {
    let (from, mut to) = guarded(|| Ok((view.table(definition)?, txn.open_table(definition).coded()?)))?;
    let mut rows = guarded(|| from.range::<&[u8]>(..).coded())?;
    loop {
        // The engine may panic on damage; what the callback does is its own affair.
        let is_copied = guarded(|| {
            let Some((key, row)) = rows.next().transpose().coded()? else { return Ok(false) };
            to.insert(key.value(), row.value()).coded()?;
            Ok(true)
        })?;
        if !is_copied {
            return Ok(());
        }
        meter.advance(1)?;
    }
}
