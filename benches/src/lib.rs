//! What runledger costs, held against floors: what a disk, an engine or a map needs alone for the same work.
//!
//! The figures are ratios within one round, since a disk's own rate drifts: contenders take turns for a fixed time each,
//! several rounds over, and the median round counts. `cargo xtask bench` prints the table.

pub mod drive;
pub mod floor;
pub mod measure;
pub mod report;
pub mod store;
pub mod workload;

/// Any error ends a measurement: a figure of work that failed would be none.
pub type Result<T, E = Box<dyn std::error::Error + Send + Sync>> = std::result::Result<T, E>;
