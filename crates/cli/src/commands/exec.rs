//! `runledger exec`: requests in, answers out, one a line.

use std::io::{self, BufReader, Write};
use std::process::ExitCode;

use clap::Args;
use runledger::{Error, Ledger, MAX_REQUEST_BYTES, Mode, error_to_json};

use crate::context::{Context, closing};
use crate::interrupt;
use crate::lines::{Line, Lines};
use crate::outcome::{ErrorForm, Outcome, Result, report, stream_error};

/// Answer requests: one request a line on standard input, one answer a line on standard output
///
/// A request is a JSON object such as {"op":"runs.get","projectId":"shop","id":"r1"}; its answer is {"ok":…} or
/// {"error":{…}}. Each answer is written before the next request is read. Ends with status 0 at the end of the input; if
/// the store can't be opened, writes that one error and ends with status 1.
#[derive(Args)]
pub(crate) struct Exec {
    /// The store's address
    store_url: Option<String>,
}

impl Exec {
    pub(crate) fn run(self, cx: &Context) -> ExitCode {
        let address = match cx.address(self.store_url.as_deref()) {
            Ok(address) => address,
            Err(stop) => return report(ErrorForm::Json, Err(stop)),
        };
        let ledger = match runledger::open_with(address, cx.options(Mode::Create)) {
            Ok(ledger) => ledger,
            Err(error) => {
                // On standard output for the program that waits for an answer, and on standard error for the log. If nobody
                // reads the one there is still the other.
                let _ = writeln!(io::stdout(), "{}", error_to_json(&error));
                report(ErrorForm::Json, Err(error.into()));
                return ExitCode::FAILURE;
            }
        };
        interrupt::close_on_interrupt(&ledger);
        // The buffer is larger than the one that standard input has, and so takes its place.
        let requests = Lines::new(BufReader::with_capacity(256 * 1024, io::stdin().lock()), MAX_REQUEST_BYTES);
        report(ErrorForm::Json, closing(&ledger, |ledger| serve(ledger, requests, io::stdout().lock())))
    }
}

fn serve(ledger: &Ledger, mut requests: Lines<impl io::BufRead>, mut answers: impl Write) -> Result<Outcome> {
    while let Some(line) = requests.next().map_err(|e| stream_error("reading standard input", &e))? {
        let mut answer = answer(ledger, &line);
        answer.push('\n');
        answers.write_all(answer.as_bytes()).and_then(|()| answers.flush())?;
    }
    Ok(Outcome::Done)
}

fn answer(ledger: &Ledger, line: &Line<'_>) -> String {
    match line {
        Line::Whole(request) => ledger.call_json(request),
        Line::TooLong { size_bytes } => error_to_json(&Error::too_large("request", *size_bytes, MAX_REQUEST_BYTES)),
    }
}
