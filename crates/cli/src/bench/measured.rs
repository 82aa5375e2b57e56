//! What `bench` measured, as it is written in JSON: every number with its unit in its name.

use serde::Serialize;

/// The version of this form.
pub(crate) const FORMAT: u32 = 1;

/// All that was measured.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Measured {
    pub(crate) format: u32,
    pub(crate) library_version: String,
    pub(crate) machine: Machine,
    pub(crate) workload: Workload,
    pub(crate) backends: Vec<BackendMeasured>,
    /// Backends that could not be measured.
    pub(crate) skipped: Vec<Skipped>,
}

/// Where it was measured.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Machine {
    pub(crate) cores: usize,
    pub(crate) os: String,
    pub(crate) arch: String,
    /// The directory on whose disk the stores were.
    pub(crate) directory: String,
}

/// What every backend was given to do.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Workload {
    /// Threads that each take a run from the queue to its end, one after another.
    pub(crate) callers: usize,
    /// The input of each run and of its node, in bytes.
    pub(crate) payload_bytes: usize,
    /// What was asked for; what is in effect stands with each backend.
    pub(crate) durability: String,
    /// How long the transitions were measured.
    pub(crate) seconds: f64,
    /// How many runs the store had when its lists were measured.
    pub(crate) list_sizes: Vec<u64>,
    /// The commands that take one run from the queue to its end.
    pub(crate) transitions_per_run: u32,
}

/// One backend.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct BackendMeasured {
    pub(crate) backend: String,
    pub(crate) engine: String,
    /// What an acknowledged command survives, as it was in effect.
    pub(crate) durability: String,
    pub(crate) transitions: Transitions,
    /// One page of 50 of the newest runs, as the store grows.
    pub(crate) lists: Vec<ListMeasured>,
    /// How many runs the store held in the end, and what they took up.
    pub(crate) runs: u64,
    pub(crate) bytes_on_disk: u64,
}

/// Commands under load.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Transitions {
    pub(crate) count: u64,
    pub(crate) seconds: f64,
    pub(crate) per_second: f64,
    pub(crate) latency_us: Latency,
    /// How many took up to so many microseconds, and longer than the pair before.
    pub(crate) histogram_us: Vec<(f64, u64)>,
}

/// How long a list took.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ListMeasured {
    /// How many runs there were.
    pub(crate) runs: u64,
    pub(crate) latency_us: Latency,
}

/// Percentiles, in microseconds.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Latency {
    pub(crate) p50: f64,
    pub(crate) p90: f64,
    pub(crate) p99: f64,
    pub(crate) p999: f64,
    pub(crate) max: f64,
    pub(crate) mean: f64,
}

/// A backend that was not measured.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Skipped {
    pub(crate) backend: String,
    pub(crate) why: String,
}
