//! Measures runledger on this machine and prints what it found; `cargo xtask bench` runs it.

mod sections;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, ValueEnum};
use runledger_benches::report::Report;
use runledger_benches::store::Kind;
use runledger_benches::workload::{IdKind, PAYLOAD_BYTES};
use runledger_benches::{Result, store};

use crate::sections::SECTIONS;

/// Measures runledger against floors: the disk alone, the same work by hand on the same engine, a map.
#[derive(Parser)]
struct Options {
    /// How many rounds; the median counts.
    #[arg(long, default_value_t = 7)]
    rounds: usize,
    /// How long each contender works in a round, in seconds.
    #[arg(long, default_value_t = 1.0)]
    seconds: f64,
    /// Only these parts, with commas between them; all when not given.
    #[arg(long, value_delimiter = ',')]
    sections: Vec<String>,
    /// Only these backends.
    #[arg(long, value_delimiter = ',', default_values = ["memory", "sqlite", "redb"])]
    backends: Vec<Backend>,
    /// How many runs the ledgers have whose lists are measured.
    #[arg(long, value_delimiter = ',', default_values_t = [1_000, 10_000, 200_000, 1_000_000])]
    runs: Vec<u64>,
    /// The size of a payload, in bytes.
    #[arg(long, default_value_t = PAYLOAD_BYTES)]
    payload: usize,
    /// How ids follow each other.
    #[arg(long, default_value = "growing")]
    ids: Ids,
    /// A file of commands in the JSON form, one a line, to be carried out as they stand; may be packed with gzip.
    #[arg(long)]
    traces: Option<PathBuf>,
    /// Where the stores are put, which must be on the disk that is meant.
    #[arg(long, default_value = "target/bench")]
    dir: PathBuf,
    /// Keeps the ledgers whose lists are measured, and uses those that were kept.
    #[arg(long)]
    keep: bool,
    /// Writes the figures to this file.
    #[arg(long)]
    json: Option<PathBuf>,
    /// Writes a page to this file.
    #[arg(long)]
    html: Option<PathBuf>,
    /// What a process of its own measures for another one: the memory that lifecycles take.
    #[arg(long, hide = true)]
    resident: bool,
    /// Likewise: claims from a ledger in PostgreSQL.
    #[arg(long, hide = true)]
    claims: Option<String>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Backend {
    Memory,
    Sqlite,
    Redb,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Ids {
    /// The later, the greater.
    Growing,
    /// In no order.
    Random,
}

/// How to measure.
struct Context {
    rounds: usize,
    each: Duration,
    dir: PathBuf,
    backends: Vec<Kind>,
    runs: Vec<u64>,
    payload: usize,
    ids: IdKind,
    traces: Option<PathBuf>,
    keep: bool,
}

impl Context {
    /// The backends that are asked for, of these.
    fn backends(&self, of: &[Kind]) -> Vec<Kind> {
        of.iter().copied().filter(|kind| self.backends.contains(kind)).collect()
    }
}

fn main() -> ExitCode {
    match run(Options::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("bench: {error}");
            ExitCode::from(2)
        }
    }
}

/// Measures, and says whether every goal is met.
fn run(options: Options) -> Result<bool> {
    if options.resident {
        return sections::footprint::print_resident().map(|()| true);
    }
    if let Some(asked) = options.claims {
        return sections::postgres::print_claims(&asked).map(|()| true);
    }
    let names: Vec<&str> = SECTIONS.iter().map(|(name, ..)| *name).collect();
    if let Some(unknown) = options.sections.iter().find(|asked| !names.contains(&asked.as_str())) {
        return Err(format!("there is no section {unknown}; there are {}", names.join(", ")).into());
    }
    let kind = |backend: &Backend| match backend {
        Backend::Memory => Kind::Memory,
        Backend::Sqlite => Kind::Sqlite,
        Backend::Redb => Kind::Redb,
    };
    let context = Context {
        rounds: options.rounds,
        each: Duration::from_secs_f64(options.seconds),
        dir: options.dir,
        backends: options.backends.iter().map(kind).collect(),
        runs: options.runs,
        payload: options.payload,
        ids: match options.ids {
            Ids::Growing => IdKind::Growing,
            Ids::Random => IdKind::Random,
        },
        traces: options.traces,
        keep: options.keep,
    };
    let mut report = Report::default();
    describe(&context, &mut report)?;
    for (name, about, measure) in SECTIONS {
        if options.sections.is_empty() || options.sections.iter().any(|asked| asked == name) {
            eprintln!("{name}: {about}");
            measure(&context, &mut report)?;
        }
    }
    println!("{}", report.table()?);
    if let Some(path) = options.json {
        std::fs::write(path, report.json()?)?;
    }
    if let Some(path) = options.html {
        std::fs::write(path, report.page()?)?;
    }
    let missed = report.rows.iter().filter(|row| row.goal.as_ref().is_some_and(|goal| !goal.is_met)).count();
    eprintln!("{} figures, {missed} goals missed", report.rows.len());
    Ok(missed == 0)
}

fn describe(context: &Context, report: &mut Report) -> Result<()> {
    let mut say = |name: &str, value: String| report.setting.push((name.to_owned(), value));
    say("rounds", format!("{} of {:?} each", context.rounds, context.each));
    say("payloads", format!("{} bytes", context.payload));
    say("ids", format!("{:?}", context.ids).to_lowercase());
    say("cores", std::thread::available_parallelism()?.to_string());
    let cpu = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    if let Some(model) = cpu.lines().find_map(|line| line.strip_prefix("model name")) {
        say("processor", model.trim_start_matches([' ', '\t', ':']).to_owned());
    }
    for kind in &context.backends {
        let ledger = store::create(*kind, runledger::Durability::Full, &context.dir, "described")?;
        let info = ledger.store_info(runledger::GetStoreInfo::new())?;
        say(kind.as_str(), format!("{} {}, durability {}", info.engine_name, info.engine_version, info.durability));
        ledger.close()?;
        store::remove(*kind, &context.dir, "described");
    }
    Ok(())
}
