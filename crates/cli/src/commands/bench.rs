//! `runledger bench`.

use std::path::PathBuf;

use clap::Args;
use runledger::{COMPILED_BACKENDS, Durability};

use crate::bench::measured::{Latency, Measured};
use crate::bench::page::page;
use crate::bench::{Plan, Target, measure};
use crate::context::{Context, Form};
use crate::interrupt::Stoppable;
use crate::outcome::{Outcome, Result, stream_error, usage};
use crate::progress::spinner;
use crate::screen::out::{Out, note};
use crate::screen::table::Sheet;
use crate::screen::text::{bytes, shown};
use crate::whole_file;

/// Measure every backend against each other, on this machine and disk
///
/// Each new store is first filled and its lists are measured as it grows: a page of 50 of the newest runs. Then threads
/// take runs from the queue to their end, five transitions each: queue, claim, start of a node, its end, the run's end.
/// The stores are removed afterwards.
#[derive(Args)]
pub(crate) struct Bench {
    /// Addresses of empty stores to measure instead of new ones of every backend; what is put there stays
    url: Vec<String>,
    /// Threads at once
    #[arg(long, default_value_t = 8, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    callers: u16,
    /// The size of each input, in bytes
    #[arg(long, default_value_t = 1024, value_name = "BYTES")]
    payload: usize,
    /// What an acknowledged command is to survive: full is a loss of power, relaxed a kill
    #[arg(long, value_parser = durability, default_value = "full", value_name = "full|relaxed")]
    durability: Durability,
    /// For how long transitions are measured
    #[arg(long, default_value_t = 5.0, value_name = "SECONDS", value_parser = seconds)]
    seconds: f64,
    /// How many runs there are when lists are measured
    #[arg(long, default_values_t = [1_000, 10_000, 100_000], value_delimiter = ',', value_name = "N")]
    lists: Vec<u64>,
    /// Write a page with charts to this file as well
    #[arg(short, long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// The directory on whose disk to measure
    #[arg(long, default_value = ".", value_name = "DIR")]
    dir: PathBuf,
}

fn durability(name: &str) -> std::result::Result<Durability, String> {
    Durability::from_name(name).ok_or_else(|| "full or relaxed".to_owned())
}

fn seconds(text: &str) -> std::result::Result<f64, String> {
    text.parse().ok().filter(|seconds| (0.0..=86_400.0).contains(seconds)).ok_or_else(|| "a number of seconds, up to a day".to_owned())
}

impl Bench {
    pub(crate) fn run(self, cx: &Context) -> Result<Outcome> {
        if !self.lists.is_sorted() {
            return Err(usage("lists", "the sizes must grow").into());
        }
        if let Some(path) = &self.out {
            whole_file::check_place_of_page(path)?;
        }
        let _stoppable = Stoppable::new();
        // It goes with all stores in it, in whatever way this ends.
        let stores = tempfile::Builder::new().prefix("runledger-bench-").tempdir_in(&self.dir);
        let stores = stores.map_err(|error| stream_error(&format!("a directory in {}", self.dir.display()), &error))?;
        let plan = Plan {
            callers: usize::from(self.callers),
            payload_bytes: self.payload,
            durability: self.durability,
            seconds: self.seconds,
            list_sizes: self.lists,
            directory: self.dir.canonicalize().unwrap_or(self.dir),
        };
        let targets = if self.url.is_empty() { new_stores(stores.path()) } else { given(self.url) };
        let spinner = spinner("measuring");
        let measured = measure(&plan, &targets, |what| spinner.set_message(what.to_owned()));
        spinner.finish_and_clear();
        let measured = measured?;
        if let Some(path) = &self.out {
            whole_file::write(path, |out| Ok(out.write_all(page(&measured).as_bytes())?))?;
        }
        let mut out = cx.out();
        match out.form {
            Form::Table => print(&mut out, &measured)?,
            Form::Json => out.json(&json(&measured)?)?,
            Form::Ndjson => measured.backends.iter().try_for_each(|backend| out.json(&json(backend)?))?,
        }
        out.flush()?;
        Ok(Outcome::Done)
    }
}

fn new_stores(directory: &std::path::Path) -> Vec<Target> {
    let target = |backend: &runledger::CompiledBackend| {
        let path = directory.join(format!("bench.{}", backend.scheme)).display().to_string();
        let path = path.replace('%', "%25").replace('?', "%3F").replace('#', "%23");
        let path = if backend.has_file { path } else { String::new() };
        Target { name: backend.scheme.to_owned(), url: format!("{}:{path}", backend.scheme) }
    };
    // A server is measured only where its address is given.
    COMPILED_BACKENDS.iter().filter(|backend| backend.scheme != "postgres").map(target).collect()
}

fn given(urls: Vec<String>) -> Vec<Target> {
    let name = |url: &String| url.split_once(':').map_or("", |(scheme, _)| scheme).to_owned();
    urls.into_iter().map(|url| Target { name: name(&url), url }).collect()
}

fn json(value: &impl serde::Serialize) -> Result<String> {
    let failed = |error: serde_json::Error| runledger::Error::new(runledger::Code::Internal, error.to_string());
    Ok(serde_json::to_string(value).map_err(failed)?)
}

fn print(out: &mut Out, measured: &Measured) -> Result<()> {
    let (workload, machine) = (&measured.workload, &measured.machine);
    let payload = bytes(workload.payload_bytes as u64);
    out.line(format!(
        "{} callers, inputs of {payload}, durability {}, {} s; {} cores, {} {}, {}",
        workload.callers,
        workload.durability,
        workload.seconds,
        machine.cores,
        machine.os,
        machine.arch,
        shown(&machine.directory)
    ))?;
    out.text("\ntransitions, each as long as its caller waited\n")?;
    let mut sheet =
        Sheet::new(&["BACKEND", "ENGINE", "DURABILITY", "A SECOND", "MEDIAN", "P99", "P99.9", "LONGEST", "RUNS", "ON DISK"]).right(3..10);
    for backend in &measured.backends {
        let Latency { p50, p99, p999, max, .. } = backend.transitions.latency_us;
        let mut cells = vec![backend.backend.clone(), backend.engine.clone(), backend.durability.clone()];
        cells.push(backend.transitions.per_second.to_string());
        cells.extend([p50, p99, p999, max].map(micros));
        cells.extend([backend.runs.to_string(), bytes(backend.bytes_on_disk)]);
        sheet.row(cells);
    }
    out.table(&sheet)?;
    out.text("\na list of the 50 newest runs\n")?;
    let mut sheet = Sheet::new(&["BACKEND", "OF", "MEDIAN", "P99", "LONGEST"]).right(1..5);
    for backend in &measured.backends {
        for list in &backend.lists {
            let Latency { p50, p99, max, .. } = list.latency_us;
            let mut cells = vec![backend.backend.clone(), list.runs.to_string()];
            cells.extend([p50, p99, max].map(micros));
            sheet.row(cells);
        }
    }
    out.table(&sheet)?;
    out.flush()?;
    for skipped in &measured.skipped {
        note(out.form, format!("{} was skipped: {}", shown(&skipped.backend), shown(&skipped.why)));
    }
    Ok(())
}

/// A latency in the unit that suits it.
fn micros(us: f64) -> String {
    match us {
        ..100.0 => format!("{us:.1} µs"),
        ..10_000.0 => format!("{us:.0} µs"),
        ..1_000_000.0 => format!("{:.1} ms", us / 1000.0),
        _ => format!("{:.2} s", us / 1_000_000.0),
    }
}
