//! Agent runs: created, started, confirmed, finished.

use runledger::Durability;
use runledger_benches::Result;
use runledger_benches::drive::{alone_watched, command, fill};
use runledger_benches::measure::Contest;
use runledger_benches::report::{Report, Row};
use runledger_benches::store::{self, Kind};
use runledger_benches::workload::Maker;

use crate::Context;

const SECTION: &str = "Agent runs: transitions a second";

pub(crate) fn measure(context: &Context, report: &mut Report) -> Result<()> {
    for kind in context.backends(&Kind::ALL) {
        let ledger = store::create(kind, Durability::Full, &context.dir, "agents")?;
        let maker = Maker::new(context.ids).with_payload_bytes(context.payload);
        let mut contest = Contest::new();
        contest.add("ledger", |each| {
            let make = || {
                let (before, work): (Vec<_>, Vec<_>) = (0..50).map(|_| maker.agent()).collect::<Result<Vec<_>>>()?.into_iter().unzip();
                fill(&ledger, before.into_iter().flatten().map(Ok))?;
                Ok(work.into_iter().flatten().collect())
            };
            alone_watched(each, make, |c| command(&ledger, c))
        });
        let results = contest.hold(context.rounds, context.each)?;
        report.push(Row::rate(SECTION, kind.as_str(), "create, start, confirm, finish, full", results.of("ledger")?));
        ledger.close()?;
        store::remove(kind, &context.dir, "agents");
    }
    Ok(())
}
