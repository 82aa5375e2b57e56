//! Commands from a file, one after the other in the JSON form.

use std::path::Path;
use std::process::Command as Program;
use std::time::Instant;

use runledger::Durability;
use runledger_benches::Result;
use runledger_benches::measure::{Contest, Sample, histogram};
use runledger_benches::report::{Report, Row};
use runledger_benches::store::{self, Kind};

use crate::Context;

const SECTION: &str = "Commands from a file: a second, JSON form";

pub(crate) fn measure(context: &Context, report: &mut Report) -> Result<()> {
    let Some(path) = &context.traces else {
        eprintln!("  left out: no file was given with --traces");
        return Ok(());
    };
    let text = read(path)?;
    let kinds = context.backends(&Kind::ALL);
    let mut contest = Contest::new();
    for kind in &kinds {
        let text = &text;
        contest.add(kind.as_str(), move |_| replay(context, *kind, text));
    }
    let results = contest.hold(context.rounds, context.each)?;
    for kind in kinds {
        report.push(Row::rate(SECTION, kind.as_str(), "the whole file, full", results.of(kind.as_str())?));
    }
    Ok(())
}

fn read(path: &Path) -> Result<String> {
    if path.extension().is_some_and(|extension| extension == "gz") {
        let output = Program::new("gzip").arg("-dc").arg(path).output()?;
        if !output.status.success() {
            return Err(format!("gzip can't read {}", path.display()).into());
        }
        return Ok(String::from_utf8(output.stdout)?);
    }
    Ok(std::fs::read_to_string(path)?)
}

/// Carries out all commands on a new store.
fn replay(context: &Context, kind: Kind, text: &str) -> Result<Sample> {
    let ledger = store::create(kind, Durability::Full, &context.dir, "traces")?;
    let (mut count, mut latency) = (0, histogram()?);
    let began = Instant::now();
    for line in text.lines() {
        let asked = Instant::now();
        let answer = ledger.call_json(line);
        latency.saturating_record(asked.elapsed().as_nanos() as u64);
        if !answer.starts_with("{\"ok\":") {
            return Err(answer.into());
        }
        count += 1;
    }
    let elapsed = began.elapsed();
    ledger.close()?;
    store::remove(kind, &context.dir, "traces");
    Ok(Sample { count, elapsed, busy: None, latency: Some(latency) })
}
