//! `runledger report`.

use std::path::PathBuf;

use clap::Args;

use crate::context::{Context, Form};
use crate::outcome::{Outcome, Result};
use crate::report::{Asked, Written, write};
use crate::screen::text::{bytes, counted, shown};
use crate::screen::time::Span;
use crate::whole_file;

/// Write one HTML file that shows the runs: what is stuck, what runs, waits and fails, and a timeline of each run
///
/// The file needs nothing else and sends nothing: open it in a browser, or attach it to a ticket. It holds the newest runs
/// and all that are active, with what is beneath them; the payloads and tokens in it are to be kept as the store is.
#[derive(Args)]
pub(crate) struct Report {
    /// The store's address
    url: Option<String>,
    /// The file to write; a page that is there is replaced, anything else is left alone
    #[arg(short, long, value_name = "FILE")]
    out: PathBuf,
    /// How many of the newest runs to show, beside all that are queued, running or waiting
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    limit: usize,
    /// How long something may be queued or waiting before it counts as stuck
    #[arg(long, value_name = "SPAN", default_value = "1h")]
    older_than: Span,
    /// How much to show of each payload and prompt; 0 leaves them out
    #[arg(long, value_name = "BYTES", default_value_t = 1024)]
    payload_bytes: usize,
}

impl Report {
    pub(crate) fn run(self, cx: &Context) -> Result<Outcome> {
        whole_file::check_place_of_page(&self.out)?;
        let (written, size_bytes) = cx.reading(self.url.as_deref(), |ledger| {
            let asked = Asked { projects: cx.projects(ledger)?, limit: self.limit, now: cx.now, longer_than_us: self.older_than.us };
            whole_file::write(&self.out, |out| Ok(write(ledger, &asked, self.payload_bytes, out)?))
        })?;
        let Written { runs, stuck, of_runs } = written;
        let mut out = cx.out();
        if out.form == Form::Table {
            let (path, of_runs, size) = (self.out.to_string_lossy(), counted(of_runs, "run"), bytes(size_bytes));
            out.line(format!("{}: {runs} of {of_runs}, {stuck} stuck; {size}", shown(&path)))?;
        } else {
            out.json(&format!(r#"{{"runs":{runs},"stuck":{stuck},"ofRuns":{of_runs},"sizeBytes":{size_bytes}}}"#))?;
        }
        out.flush()?;
        Ok(Outcome::Done)
    }
}
