//! `runledger export`: records of a store as a stream.

use std::io::{self, BufWriter, ErrorKind, IsTerminal, Write};

use clap::Args;

use crate::context::Context;
use crate::outcome::{Outcome, Result, Stop, usage};
use crate::progress::Bar;

/// Write all records of a store, or of one run, to standard output, as a stream that import reads
///
/// The stream is one consistent state, even while others write. A store that is not there is an error and is not created.
#[derive(Args)]
pub(crate) struct Export {
    /// The store's address
    url: Option<String>,
    /// Only this run, with all that is under it
    #[arg(long, value_name = "ID")]
    run: Option<String>,
}

impl Export {
    pub(crate) fn run(self, cx: &Context) -> Result<Outcome> {
        if io::stdout().is_terminal() {
            return Err(usage(
                "stdout",
                "the stream holds text of others as it is, and is not for a terminal: send it to a file or a pipe",
            )
            .into());
        }
        let mut output = Output { inner: BufWriter::with_capacity(256 * 1024, io::stdout().lock()), reader_left: false };
        let mut bar = Bar::new();
        let exported = cx.reading(self.url.as_deref(), |ledger| {
            match &self.run {
                Some(id) => ledger.export_run(cx.project(ledger)?, id, &mut output)?,
                None => ledger.export_with(&mut output, &mut |progress| bar.tell(progress))?,
            };
            Ok(output.flush()?)
        });
        drop(bar);
        if output.reader_left {
            return Err(Stop::ReaderLeft);
        }
        exported.map(|()| Outcome::Done)
    }
}

/// An output that remembers whether its reader left.
struct Output<W> {
    inner: W,
    reader_left: bool,
}

impl<W: Write> Output<W> {
    fn note<T>(&mut self, done: io::Result<T>) -> io::Result<T> {
        self.reader_left |= done.as_ref().is_err_and(|error| error.kind() == ErrorKind::BrokenPipe);
        done
    }
}

impl<W: Write> Write for Output<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let done = self.inner.write(bytes);
        self.note(done)
    }

    fn flush(&mut self) -> io::Result<()> {
        let done = self.inner.flush();
        self.note(done)
    }
}
