//! `runledger backup`.

use std::path::PathBuf;

use clap::Args;
use runledger::BackupForm;

use crate::context::{Context, Form, advise_on_lock};
use crate::outcome::{Outcome, Result};
use crate::progress::Bar;
use crate::screen::text::{bytes, shown};

/// Copy a store to a new file, while others use it
///
/// A store in a file becomes a store of the same backend, which is opened at its path. A store on a server becomes an
/// export stream, which is imported. The file appears only when it is whole; one that is there is not replaced.
#[derive(Args)]
pub(crate) struct Backup {
    /// The store's address
    url: Option<String>,
    /// The file to make
    #[arg(short, long, value_name = "FILE")]
    out: PathBuf,
}

impl Backup {
    pub(crate) fn run(self, cx: &Context) -> Result<Outcome> {
        let mut bar = Bar::new();
        let made = cx.reading(self.url.as_deref(), |ledger| Ok(ledger.backup_with(&self.out, &mut |progress| bar.tell(progress))?));
        drop(bar);
        let made = made.map_err(|stop| {
            advise_on_lock(stop, "while a process holds this store, only that process can back it up (Ledger::backup in its own code)")
        })?;
        let mut out = cx.out();
        if out.form == Form::Table {
            let what = match made.form {
                BackupForm::Store => "a store, to be opened at this path",
                BackupForm::Stream => "an export stream, to be imported",
            };
            out.line(format!("{}: {}, {what}", shown(&self.out.to_string_lossy()), bytes(made.size_bytes)))?;
        } else {
            out.json(&made.to_json())?;
        }
        out.flush()?;
        Ok(Outcome::Done)
    }
}
