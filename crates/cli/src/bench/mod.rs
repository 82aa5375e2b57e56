//! Measuring backends against each other, on the machine and disk of whoever asks.

mod load;
pub(crate) mod measured;
pub(crate) mod page;

use std::path::PathBuf;
use std::thread;

use hdrhistogram::Histogram;
use runledger::{Durability, GetStoreInfo, Ledger, OpenOptions, Result};

use crate::bench::load::{Load, TRANSITIONS_PER_RUN};
use crate::bench::measured::{BackendMeasured, FORMAT, Latency, ListMeasured, Machine, Measured, Skipped, Workload};
use crate::context::closing;
use crate::outcome::Stop;

/// What is to be measured.
pub(crate) struct Plan {
    pub(crate) callers: usize,
    pub(crate) payload_bytes: usize,
    pub(crate) durability: Durability,
    pub(crate) seconds: f64,
    pub(crate) list_sizes: Vec<u64>,
    pub(crate) directory: PathBuf,
}

/// A store that is to be measured: a new one.
pub(crate) struct Target {
    pub(crate) name: String,
    pub(crate) url: String,
}

/// Measures each target, one after the other. `tell` is told what is under way.
pub(crate) fn measure(plan: &Plan, targets: &[Target], tell: impl Fn(&str)) -> Result<Measured> {
    let (mut backends, mut skipped) = (Vec::new(), Vec::new());
    for target in targets {
        let options = OpenOptions::new().with_durability(plan.durability);
        match runledger::open_with(&target.url, options) {
            Ok(ledger) => {
                let measured = closing(&ledger, |ledger| Ok(backend(plan, ledger, &|what| tell(&format!("{}: {what}", target.name)))?));
                backends.push(measured.map_err(error_of)?);
            }
            Err(error) => skipped.push(Skipped { backend: target.name.clone(), why: error.to_string() }),
        }
    }
    Ok(Measured {
        format: FORMAT,
        library_version: env!("CARGO_PKG_VERSION").to_owned(),
        machine: Machine {
            cores: thread::available_parallelism().map_or(1, usize::from),
            os: std::env::consts::OS.to_owned(),
            arch: std::env::consts::ARCH.to_owned(),
            directory: plan.directory.display().to_string(),
        },
        workload: Workload {
            callers: plan.callers,
            payload_bytes: plan.payload_bytes,
            durability: plan.durability.to_string(),
            seconds: plan.seconds,
            list_sizes: plan.list_sizes.clone(),
            transitions_per_run: TRANSITIONS_PER_RUN,
        },
        backends,
        skipped,
    })
}

fn error_of(stop: Stop) -> runledger::Error {
    match stop {
        Stop::Error(error) => error,
        Stop::ReaderLeft => runledger::Error::new(runledger::Code::Io, "nobody reads the output"),
    }
}

fn backend(plan: &Plan, ledger: &Ledger, tell: &dyn Fn(&str)) -> Result<BackendMeasured> {
    let load = Load::new(ledger, plan.payload_bytes)?;
    let mut lists = Vec::new();
    for size in &plan.list_sizes {
        tell(&format!("a list of {size} runs"));
        load.fill_to(*size)?;
        lists.push(ListMeasured { runs: *size, latency_us: latency(&load.lists()?) });
    }
    tell("transitions");
    let transitions = load.transitions(plan.callers, plan.seconds)?;
    let info = ledger.store_info(GetStoreInfo::new())?;
    Ok(BackendMeasured {
        backend: info.backend,
        engine: format!("{} {}", info.engine_name, info.engine_version),
        durability: info.durability,
        transitions,
        lists,
        runs: load.runs()?,
        bytes_on_disk: info.size_bytes,
    })
}

/// A histogram of nanoseconds, as percentiles in microseconds.
fn latency(histogram: &Histogram<u64>) -> Latency {
    let at = |quantile| us(histogram.value_at_quantile(quantile));
    Latency {
        p50: at(0.5),
        p90: at(0.9),
        p99: at(0.99),
        p999: at(0.999),
        max: us(histogram.max()),
        mean: rounded(histogram.mean() / 1000.0),
    }
}

/// Microseconds, to a tenth.
fn us(ns: u64) -> f64 {
    rounded(ns as f64 / 1000.0)
}

fn rounded(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}
