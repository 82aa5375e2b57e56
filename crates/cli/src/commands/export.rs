//! `runledger export`: all records of a store as a stream.

use std::io::{self, BufWriter, ErrorKind, Write};

use clap::Args;
use runledger::Result;

use super::{closing, open_source};
use crate::outcome::stream_error;

/// Write all records of a store to standard output, as a stream that import reads.
///
/// The stream is one consistent state, even while others write. A store that is not there is an error and is not created,
/// unless the address says mode=create.
#[derive(Args)]
pub(crate) struct Export {
    /// The store's address
    url: String,
}

impl Export {
    pub(crate) fn run(self) -> Result<()> {
        let mut output = Output { inner: BufWriter::with_capacity(256 * 1024, io::stdout().lock()), reader_left: false };
        let exported = closing(&open_source(&self.url)?, |ledger| {
            ledger.export(&mut output)?;
            output.flush().map_err(|e| stream_error("writing standard output", &e))
        });
        // Whoever read the stream has left, and there is nobody to tell.
        if output.reader_left { Ok(()) } else { exported }
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
