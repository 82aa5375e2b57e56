//! The room that a lifecycle takes, of which about 2.2 kB are payloads.

use std::process::Command as Program;

use runledger::{CompactStore, Durability};
use runledger_benches::Result;
use runledger_benches::drive::{command, fill};
use runledger_benches::measure::Summary;
use runledger_benches::report::{Report, Row};
use runledger_benches::store::{self, Kind};
use runledger_benches::workload::{IdKind, Maker};

use crate::Context;

const SECTION: &str = "Room for a lifecycle";
const LIVES: u64 = 20_000;

pub(crate) fn measure(context: &Context, report: &mut Report) -> Result<()> {
    for kind in context.backends(&Kind::ALL) {
        let (what, bytes, most) = match kind {
            Kind::Memory => ("resident", resident()?, 4.8),
            Kind::Sqlite => ("file, compacted", on_disk(context, kind)?, 3.4),
            Kind::Redb => ("file, compacted", on_disk(context, kind)?, 5.5),
        };
        report.push(Row::new(SECTION, kind.as_str(), what, Summary::of([bytes / 1000.0]), "kB").at_most(most));
    }
    Ok(())
}

fn on_disk(context: &Context, kind: Kind) -> Result<f64> {
    let ledger = store::create(kind, Durability::Relaxed, &context.dir, "room")?;
    let maker = Maker::new(context.ids);
    for _ in 0..LIVES / 100 {
        let batches = (0..10).map(|_| maker.hundred()).collect::<Result<Vec<_>>>()?;
        fill(&ledger, batches.into_iter().flatten().map(Ok))?;
    }
    ledger.compact_store(CompactStore::new())?;
    ledger.close()?;
    let bytes = std::fs::metadata(store::path(kind, &context.dir, "room"))?.len();
    store::remove(kind, &context.dir, "room");
    Ok(bytes as f64 / LIVES as f64)
}

/// Asks another process, whose memory holds nothing of what was measured before.
fn resident() -> Result<f64> {
    let output = Program::new(std::env::current_exe()?).arg("--resident").output()?;
    let text = String::from_utf8(output.stdout)?;
    Ok(text.trim().parse().map_err(|_| format!("the other process said {text}"))?)
}

/// Prints how many bytes of memory a lifecycle takes.
pub(crate) fn print_resident() -> Result<()> {
    let ledger = store::open(Kind::Memory, Durability::Full, &std::env::temp_dir(), "")?;
    let maker = Maker::new(IdKind::Growing);
    let live = |count: u64| -> Result<()> {
        for _ in 0..count {
            maker.lifecycle()?.into_iter().try_for_each(|c| command(&ledger, c))?;
        }
        Ok(())
    };
    live(1000)?;
    let before = resident_bytes()?;
    live(2 * LIVES)?;
    println!("{}", (resident_bytes()? - before) as f64 / (2 * LIVES) as f64);
    Ok(())
}

fn resident_bytes() -> Result<u64> {
    const PAGE_BYTES: u64 = 4096;
    let statm = std::fs::read_to_string("/proc/self/statm")?;
    let pages: u64 = statm.split(' ').nth(1).ok_or("the system does not say what is resident")?.parse()?;
    Ok(pages * PAGE_BYTES)
}
