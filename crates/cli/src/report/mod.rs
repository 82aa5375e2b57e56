//! The page of a report: the runs of a store, to look at.

mod details;
mod rows;
mod select;

use std::io::{self, Write};

use runledger::transition::Stuck;
use runledger::{Error, GetRunStats, GetStoreInfo, Id, Ledger, Result, Run, Status, StoreInfo, Time};
use runledger_page::{Frame, Page};
use serde::Serialize;

use details::{ROOM, Reader};
use rows::{Counts, Instant, Names, RunRow};
pub(crate) use select::Asked;

use crate::interrupt;
use crate::outcome::stream_error;

/// How many runs have their details in one block: a page reads a block when one of its runs is opened.
const RUNS_PER_BLOCK: usize = 100;

const STYLE: &str = include_str!("page/report.css");

const BODY: &str = include_str!("page/body.html");

const SCRIPTS: &[&str] = &[
    include_str!("page/data.js"),
    include_str!("page/words.js"),
    include_str!("page/runs.js"),
    include_str!("page/timeline.js"),
    include_str!("page/sheet.js"),
    include_str!("page/workflows.js"),
    include_str!("page/main.js"),
];

/// What a report holds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Written {
    /// How many runs.
    pub runs: u64,
    /// How many of them somebody should look at.
    pub stuck: u64,
    /// How many runs the projects have.
    pub of_runs: u64,
}

/// Everything but the details.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Data<'a> {
    generated_at: Instant,
    longer_than: i64,
    store: Store<'a>,
    statuses: Vec<&'static str>,
    runs_per_block: usize,
    projects: &'a Names,
    workflows: &'a Names,
    counts: &'a [Counts],
    runs: &'a [RunRow<'a>],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Store<'a> {
    address: &'a str,
    backend: &'a str,
    engine: String,
    size_bytes: u64,
    library_version: &'a str,
}

impl<'a> Store<'a> {
    fn new(info: &'a StoreInfo) -> Store<'a> {
        Store {
            address: &info.address,
            backend: &info.backend,
            engine: format!("{} {}", info.engine_name, info.engine_version),
            size_bytes: info.size_bytes,
            library_version: &info.library_version,
        }
    }
}

/// Writes the page about a store. It asks queries only, one after the other: of a store that is written meanwhile, each run
/// shows as it was when it was read.
///
/// # Errors
/// Those of the store, and `io` or `full` of the output.
pub(crate) fn write(ledger: &Ledger, asked: &Asked, payload_bytes: usize, out: impl Write) -> Result<Written> {
    let info = ledger.store_info(GetStoreInfo::new())?;
    let (mut projects, mut workflows) = (Names::default(), Names::default());
    let (counts, of_runs) = counts(ledger, &asked.projects, &mut projects, &mut workflows)?;
    let runs = asked.runs(ledger)?;

    let frame = Frame { title: &format!("Runs of {}", info.address), styles: &[STYLE], scripts: SCRIPTS };
    let mut page = frame.begin(out).map_err(|e| output_error(&e))?;
    page.markup(BODY).map_err(|e| output_error(&e))?;
    // The details go first, since only they tell which agent runs are stuck; so no more than one block is ever held.
    let of_agents = write_details(&mut Reader::new(ledger, asked, payload_bytes, ROOM), &runs, &mut page)?;
    let row = |(run, agent): (_, _)| row(asked, run, agent, &mut projects, &mut workflows);
    let rows: Vec<RunRow<'_>> = runs.iter().zip(of_agents).map(row).collect();
    let data = Data {
        generated_at: asked.now.into(),
        longer_than: asked.longer_than_us,
        store: Store::new(&info),
        statuses: Status::ALL.iter().map(|status| status.as_str()).collect(),
        runs_per_block: RUNS_PER_BLOCK,
        projects: &projects,
        workflows: &workflows,
        counts: &counts,
        runs: &rows,
    };
    page.data("data", &data).and_then(|()| page.end()).map_err(|e| output_error(&e))?;
    Ok(Written { runs: rows.len() as u64, stuck: rows.iter().filter(|row| row.is_stuck()).count() as u64, of_runs })
}

/// How many runs of each workflow the store has, and in all.
fn counts(ledger: &Ledger, ids: &[Id], projects: &mut Names, workflows: &mut Names) -> Result<(Vec<Counts>, u64)> {
    let (mut counts, mut total) = (Vec::new(), 0);
    for id in ids {
        let project = projects.place(id);
        let stats = ledger.run_stats(GetRunStats::new(id))?;
        total += stats.by_status.total();
        counts.extend(stats.by_workflow.iter().map(|(workflow, of)| Counts::new(project, workflows.place(workflow), of)));
    }
    Ok((counts, total))
}

/// Writes the details of all runs, and gives what is stuck among the agent runs of each.
fn write_details<W: Write>(reader: &mut Reader<'_>, runs: &[Run], page: &mut Page<W>) -> Result<Vec<Option<(Stuck, Time)>>> {
    let mut stuck = Vec::with_capacity(runs.len());
    for (block, runs) in runs.chunks(RUNS_PER_BLOCK).enumerate() {
        interrupt::check()?;
        let mut details = Vec::with_capacity(runs.len());
        for run in runs {
            let (of_run, of_agents) = reader.read(run)?;
            details.push(of_run);
            stuck.push(of_agents);
        }
        page.data(&format!("details-{block}"), &details).map_err(|e| output_error(&e))?;
    }
    Ok(stuck)
}

fn row<'a>(asked: &Asked, run: &'a Run, agent: Option<(Stuck, Time)>, projects: &mut Names, workflows: &mut Names) -> RunRow<'a> {
    let stuck = Stuck::of_run(run, asked.now, asked.longer_than_us);
    RunRow::new(run, projects.place(&run.project_id), workflows.place(&run.workflow_id), stuck, agent)
}

fn output_error(error: &io::Error) -> Error {
    stream_error("writing the page", error)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(commands: &[String]) -> (String, Written) {
        let ledger = runledger::open("memory:").unwrap();
        for command in commands {
            let answer = ledger.call_json(command.as_bytes());
            assert!(answer.starts_with(r#"{"ok":"#), "{command}: {answer}");
        }
        let now = "2026-01-01T12:00:00Z".parse().unwrap();
        let asked = Asked { projects: vec!["p".into()], limit: 250, now, longer_than_us: 3_600_000_000 };
        let mut out = Vec::new();
        let written = write(&ledger, &asked, 100, &mut out).unwrap();
        (String::from_utf8(out).unwrap(), written)
    }

    /// What the page's element of an id holds.
    fn data(page: &str, id: &str) -> serde_json::Value {
        let (_, rest) = page.split_once(&format!("id=\"{id}\">")).unwrap();
        serde_json::from_str(rest.split_once("</script>").unwrap().0).unwrap()
    }

    fn queue(id: &str, workflow: &str) -> String {
        let (id, workflow) = (serde_json::Value::from(id), serde_json::Value::from(workflow));
        format!(r#"{{"op":"runs.queue","projectId":"p","id":{id},"workflowId":{workflow},"input":{id},"queuedAt":"2026-01-01T10:00:00Z"}}"#)
    }

    #[test]
    fn stored_texts_add_no_markup() {
        let tags = |page: &str| page.matches('<').count();
        let (harmless, _) = page(&[queue("a", "b")]);
        let hostile = "</script><script>alert(1)</script><!--";
        let (page, written) = page(&[queue(hostile, hostile)]);
        assert_eq!(tags(&page), tags(&harmless));
        assert_eq!((written.runs, written.stuck, written.of_runs), (1, 1, 1));
        let data = data(&page, "data");
        assert_eq!((&data["runs"][0]["id"], &data["workflows"][0]), (&hostile.into(), &hostile.into()));
        assert_eq!(data["runs"][0]["stuck"]["why"], "queued");
    }

    #[test]
    fn details_stand_in_blocks_in_the_order_of_the_runs() {
        let commands: Vec<String> = (0..120).map(|number| queue(&format!("r{number:03}"), "w")).collect();
        let (page, _) = page(&commands);
        let all = data(&page, "data");
        assert_eq!(all["counts"], serde_json::json!([{"project": 0, "workflow": 0, "byStatus": [120, 0, 0, 0, 0, 0]}]));
        for (block, runs) in [(0, 100), (1, 20)] {
            let details = data(&page, &format!("details-{block}"));
            assert_eq!(details.as_array().unwrap().len(), runs);
            let (id, input) = (&all["runs"][block * 100]["id"], &details[0]["large"][0][1]["text"]);
            assert_eq!(*input, format!("\"{}\"", id.as_str().unwrap()));
        }
        assert!(!page.contains("details-2"));
    }

    #[test]
    fn a_store_without_runs_has_a_page_too() {
        let (page, written) = page(&[]);
        assert_eq!((written.runs, &data(&page, "data")["runs"]), (0, &serde_json::json!([])));
    }
}
