//! One caller at full durability: the ledger, the same work by hand, and the disk alone.

use runledger::{Command, Durability, Ledger};
use runledger_benches::drive::{alone, alone_watched, command};
use runledger_benches::floor::{Disk, Floor, Redb, Sqlite, connect};
use runledger_benches::measure::{Contest, Results, Summary};
use runledger_benches::report::{Report, Row};
use runledger_benches::store::{self, Kind};
use runledger_benches::workload::{IdKind, Maker};
use runledger_benches::{Result, floor};

use crate::Context;

const SECTION: &str = "One caller, full: transitions a second";
const OURS: &str = "ledger";
const HAND: &str = "by hand";
const DISK: &str = "disk";

pub(crate) fn measure(context: &Context, report: &mut Report) -> Result<()> {
    for kind in context.backends(&[Kind::Sqlite, Kind::Redb]) {
        for ids in [IdKind::Growing, IdKind::Random] {
            let results = contest(context, kind, Durability::Full, ids)?;
            let ids = format!("{ids:?} ids").to_lowercase();
            let (ours, hand, disk) = (results.of(OURS)?, results.of(HAND)?, results.of(DISK)?);
            let least = if kind == Kind::Sqlite { 0.92 } else { 0.90 };
            report.push(Row::rate(SECTION, kind.as_str(), format!("lifecycle, {ids}"), ours).against(HAND, ours.to(hand)).at_least(least));
            report.push(Row::rate(SECTION, kind.as_str(), format!("lifecycle, {ids}"), ours).against("flush of 4 KiB", ours.to(disk)));
            let beyond = Row::new(SECTION, kind.as_str(), format!("beyond a flush, {ids}"), ours.micros_beyond(disk), "µs");
            report.push(if kind == Kind::Sqlite { beyond.at_most(65.0) } else { beyond });
            let (ours_p50, hand_p50, disk_p50) = (ours.p50_micros()?, hand.p50_micros()?, disk.p50_micros()?);
            let row = |what: &str, micros| Row::new(SECTION, kind.as_str(), format!("{what}, {ids}"), Summary::of([micros]), "µs");
            report.push(row("call in the middle", ours_p50).against("that by hand", Summary::of([ours_p50 / hand_p50])));
            report.push(row("call in the middle, beyond a flush", ours_p50 - disk_p50));
            report.push(
                Row::rate(SECTION, "floor", format!("{} by hand, {ids}", kind.as_str()), hand).against("flush of 4 KiB", hand.to(disk)),
            );
            report.push(Row::rate(SECTION, "floor", "flush of 4 KiB", disk));
            // A commit that costs far less than a flush was not flushed.
            if ours_p50 < disk_p50 / 2.0 {
                return Err(format!("{} commits faster than the disk flushes", kind.as_str()).into());
            }
        }
    }
    Ok(())
}

/// The ledger, the loop by hand and the disk, each alone with the lifecycle.
pub(crate) fn contest(context: &Context, kind: Kind, durability: Durability, ids: IdKind) -> Result<Results> {
    let ledger = store::create(kind, durability, &context.dir, "one")?;
    let mut disk = Disk::create(&context.dir.join("one.disk"))?;
    let (ours, by_hand) = (maker(context, ids), maker(context, ids));
    store::remove(kind, &context.dir, "hand");
    let path = store::path(kind, &context.dir, "hand");
    let results = match kind {
        Kind::Sqlite => {
            let conn = connect(&path, durability, true)?;
            let mut floor = Sqlite::new(&conn)?;
            hold(context, &ledger, &ours, &mut floor, &by_hand, &mut disk)?
        }
        Kind::Redb => hold(context, &ledger, &ours, &mut Redb::create(&path)?, &by_hand, &mut disk)?,
        Kind::Memory => hold(context, &ledger, &ours, &mut floor::Map::default(), &by_hand, &mut disk)?,
    };
    ledger.close()?;
    store::remove(kind, &context.dir, "one");
    store::remove(kind, &context.dir, "hand");
    std::fs::remove_file(context.dir.join("one.disk"))?;
    Ok(results)
}

fn maker(context: &Context, ids: IdKind) -> Maker {
    Maker::new(ids).with_payload_bytes(context.payload)
}

fn hold(context: &Context, ledger: &Ledger, ours: &Maker, floor: &mut dyn Floor, by_hand: &Maker, disk: &mut Disk) -> Result<Results> {
    let mut contest = Contest::new();
    if ledger.store_info(runledger::GetStoreInfo::new())?.backend == "memory" {
        // A look at the clock costs a tenth of a transition here.
        contest.add(OURS, |each| alone(each, || ours.lifecycle(), |c| command(ledger, c)));
        contest.add(HAND, |each| alone(each, || by_hand.lifecycle(), |c: Command| floor.carry_out(&mut std::iter::once(c))));
    } else {
        contest.add(OURS, |each| alone_watched(each, || ours.lifecycle(), |c| command(ledger, c)));
        contest.add(DISK, |each| alone_watched(each, || Ok(vec![(); 100]), |()| disk.flush()));
        contest.add(HAND, |each| alone_watched(each, || by_hand.lifecycle(), |c: Command| floor.carry_out(&mut std::iter::once(c))));
    }
    contest.hold(context.rounds, context.each)
}
