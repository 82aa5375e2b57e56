//! `runledger exec`: requests in, answers out, one a line.

use std::io::{self, BufReader, ErrorKind, Write};
use std::process::ExitCode;

use clap::Args;
use runledger::{Error, Ledger, MAX_REQUEST_BYTES, Result, error_to_json};

use super::closing;
use crate::lines::{Line, Lines};
use crate::outcome::{print_answer, report, stream_error};

/// Answer requests: one request a line on standard input, one answer a line on standard output.
///
/// A request is a JSON object such as {"op":"runs.get","projectId":"shop","id":"r1"}; its answer is {"ok":…} or
/// {"error":{…}}. Each answer is written before the next request is read. Ends with status 0 at the end of the input; if
/// the store can't be opened, writes that one error and ends with status 1.
#[derive(Args)]
pub(crate) struct Exec {
    /// The store's address
    store_url: String,
}

impl Exec {
    pub(crate) fn run(self) -> ExitCode {
        let ledger = match runledger::open(&self.store_url) {
            Ok(ledger) => ledger,
            Err(error) => {
                // On standard output for the program that waits for an answer, and on standard error for the log.
                let told = print_answer(&error_to_json(&error));
                report(told.and(Err(error)));
                return ExitCode::FAILURE;
            }
        };
        // The buffer is larger than the one that standard input has, and so takes its place.
        let requests = Lines::new(BufReader::with_capacity(256 * 1024, io::stdin().lock()), MAX_REQUEST_BYTES);
        report(closing(&ledger, |ledger| serve(ledger, requests, io::stdout().lock())))
    }
}

fn serve(ledger: &Ledger, mut requests: Lines<impl io::BufRead>, mut answers: impl Write) -> Result<()> {
    while let Some(line) = requests.next().map_err(|e| stream_error("reading standard input", &e))? {
        let mut answer = answer(ledger, &line);
        answer.push('\n');
        match answers.write_all(answer.as_bytes()).and_then(|()| answers.flush()) {
            Ok(()) => {}
            // Whoever asked has left, and there is nobody to tell.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => return Ok(()),
            Err(error) => return Err(stream_error("writing standard output", &error)),
        }
    }
    Ok(())
}

fn answer(ledger: &Ledger, line: &Line<'_>) -> String {
    match line {
        Line::Whole(request) => ledger.call_json(request),
        Line::TooLong { size_bytes } => error_to_json(&Error::too_large("request", *size_bytes, MAX_REQUEST_BYTES)),
    }
}
