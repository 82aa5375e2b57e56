//! What the JSON form adds to a call, on the store that takes the least time itself.

use runledger::{Durability, GetRun, Limits, ListRuns, Query, Request};
use runledger_benches::Result;
use runledger_benches::drive::{alone, asking, command};
use runledger_benches::measure::Contest;
use runledger_benches::report::{Report, Row};
use runledger_benches::store::{self, Kind};
use runledger_benches::workload::{Maker, PROJECT};

use crate::Context;

const SECTION: &str = "The JSON form: µs a call, in memory";

pub(crate) fn measure(context: &Context, report: &mut Report) -> Result<()> {
    let ledger = store::open(Kind::Memory, Durability::Full, &context.dir, "")?;
    let json = store::open(Kind::Memory, Durability::Full, &context.dir, "")?;
    let (typed, texts) = (Maker::new(context.ids), Maker::new(context.ids));
    let parsed = Maker::new(context.ids);
    let lines =
        |maker: &Maker| -> Result<Vec<String>> { Ok(maker.lifecycle()?.into_iter().map(|c| Request::Command(c).to_json()).collect()) };
    let limits = Limits::default();
    let mut contest = Contest::new();
    contest.add("typed", |each| alone(each, || typed.lifecycle(), |c| command(&ledger, c)));
    contest.add("json", |each| alone(each, || lines(&texts), |line| answered(&json.call_json(line))));
    contest.add("read", |each| {
        alone(
            each,
            || lines(&parsed),
            |line| {
                drop(Request::from_json(line.as_bytes(), &limits)?);
                Ok(())
            },
        )
    });
    let get = Query::from(GetRun::new(PROJECT, typed.run_id(1)));
    let page = Query::from(ListRuns::new(PROJECT));
    for (name, query) in [("get", get), ("page", page)] {
        let (line, request) = (query.to_json(), Request::Query(query));
        let (ledger, json) = (&ledger, &json);
        contest.add(format!("{name} typed"), move |each| {
            asking(each, || {
                drop(ledger.request(request.clone())?);
                Ok(())
            })
        });
        contest.add(format!("{name} json"), move |each| asking(each, || answered(&json.call_json(&line))));
    }
    let results = contest.hold(context.rounds, context.each / 2)?;
    report.push(Row::micros(SECTION, "memory", "a command of a lifecycle, typed", results.of("typed")?));
    report.push(Row::micros(SECTION, "memory", "a command of a lifecycle, JSON", results.of("json")?));
    let (read, typed, json) = (results.of("read")?, results.of("typed")?, results.of("json")?);
    report.push(Row::new(SECTION, "memory", "what JSON adds to a command", json.micros_beyond(typed), "µs"));
    report.push(Row::micros(SECTION, "memory", "of that, reading and checking it", read));
    for (name, what) in [("get", "a get"), ("page", "a page of 50")] {
        let (typed, json) = (results.of(&format!("{name} typed"))?, results.of(&format!("{name} json"))?);
        report.push(Row::micros(SECTION, "memory", format!("{what}, typed"), typed));
        report.push(Row::new(SECTION, "memory", format!("what JSON adds to {what}"), json.micros_beyond(typed), "µs"));
    }
    Ok(())
}

fn answered(answer: &str) -> Result<()> {
    if answer.starts_with("{\"ok\":") { Ok(()) } else { Err(answer.into()) }
}
