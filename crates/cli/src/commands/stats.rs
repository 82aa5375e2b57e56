//! `runledger stats`.

use std::fmt::Write;

use clap::Args;
use runledger::{
    Answer, ExpiredAgents, ExpiredRuns, GetRunStats, GetStoreInfo, Id, Ledger, ListRuns, MAX_ROWS, Order, RunStats, Status, StatusCounts,
};

use super::args::ids;
use crate::context::{Context, Form};
use crate::outcome::{Outcome, Result};
use crate::screen::out::{Out, note};
use crate::screen::table::Sheet;
use crate::screen::text::shown;
use crate::screen::time::us_between;

/// Count runs by project, workflow and status
///
/// Without a project, of all projects. The counts are kept by the store, and cost the same however many runs there are.
#[derive(Args)]
pub(crate) struct Stats {
    /// The store's address
    url: Option<String>,
    /// Only runs of these workflows
    #[arg(long, value_name = "ID")]
    workflow: Vec<String>,
    /// Write metrics for a scraper, in the text format of Prometheus
    #[arg(long, conflicts_with = "output")]
    metrics: bool,
}

impl Stats {
    pub(crate) fn run(self, cx: &Context) -> Result<Outcome> {
        cx.reading(self.url.as_deref(), |ledger| {
            let mut all = Vec::new();
            for project in cx.projects(ledger)? {
                let mut query = GetRunStats::new(&project);
                query.workflow_ids = ids(&self.workflow);
                all.push((project, ledger.run_stats(query)?));
            }
            let mut out = cx.out();
            match out.form {
                _ if self.metrics => {
                    let text = metrics(cx, ledger, &all)?;
                    // A scraper needs every name as it is, and a terminal must not obey one.
                    text.lines().try_for_each(|line| if out.is_terminal() { out.line(shown(line)) } else { out.line(line) })?;
                }
                Form::Table => print_table(&mut out, &all)?,
                Form::Json => print_json(cx, &mut out, all)?,
                Form::Ndjson => all.into_iter().try_for_each(|(project, stats)| out.json(&project_json(&project, stats)))?,
            }
            out.flush()?;
            Ok(Outcome::Done)
        })
    }
}

fn print_table(out: &mut Out, all: &[(Id, RunStats)]) -> Result<()> {
    let headers = ["PROJECT", "WORKFLOW", "TOTAL", "QUEUED", "RUNNING", "WAITING", "SUCCEEDED", "FAILED", "CANCELLED"];
    let mut sheet = Sheet::new(&headers).right(2..headers.len());
    for (project, stats) in all {
        let mut row = |workflow: String, counts: &StatusCounts| {
            let mut cells = vec![shown(project).into_owned(), workflow, counts.total().to_string()];
            cells.extend(Status::ALL.iter().map(|status| counts.of(*status).to_string()));
            sheet.row(cells);
        };
        stats.by_workflow.iter().for_each(|(workflow, counts)| row(shown(workflow).into_owned(), counts));
        if stats.by_workflow.len() > 1 {
            row("(all)".to_owned(), &stats.by_status);
        }
    }
    if sheet.is_empty() {
        note(out.form, "no runs");
        return Ok(());
    }
    out.table(&sheet)
}

/// Of a project that was named, the contract's answer; of all, one for each.
fn print_json(cx: &Context, out: &mut Out, all: Vec<(Id, RunStats)>) -> Result<()> {
    if cx.named_project().is_some() {
        return all.into_iter().try_for_each(|(_, stats)| out.json(&Answer::from(stats).to_json()));
    }
    let projects: Vec<String> = all.into_iter().map(|(project, stats)| project_json(&project, stats)).collect();
    out.json(&format!("{{\"projects\":[{}]}}", projects.join(",")))
}

fn project_json(project: &Id, stats: RunStats) -> String {
    let stats = Answer::from(stats).to_json();
    format!("{{\"projectId\":{},{}", serde_json::Value::from(&**project), &stats[1..])
}

/// What a scraper wants to know: how many runs there are, how many leases ended, and how long the queue's oldest waits.
fn metrics(cx: &Context, ledger: &Ledger, all: &[(Id, RunStats)]) -> Result<String> {
    let mut text = String::new();
    head(&mut text, "runledger_runs", "Runs by project, workflow and status.");
    for (project, stats) in all {
        for (workflow, counts) in &stats.by_workflow {
            for status in Status::ALL {
                let labels = format!("project=\"{}\",workflow=\"{}\",status=\"{status}\"", label(project), label(workflow));
                let _ = writeln!(text, "runledger_runs{{{labels}}} {}", counts.of(*status));
            }
        }
    }
    head(&mut text, "runledger_leases_ended", "Runs and agent runs whose owner's lease ended, 10000 at most.");
    for (project, _) in all {
        let runs = ledger.expired_runs(
            ExpiredRuns::new(cx.now).with_project_id(project).with_limit(MAX_ROWS).with_answer(runledger::AnswerForm::State),
        )?;
        let agents = ledger.expired_agents(
            ExpiredAgents::new(cx.now).with_project_id(project).with_limit(MAX_ROWS).with_answer(runledger::AnswerForm::State),
        )?;
        for (record, count) in [("run", runs.rows.len()), ("agent", agents.rows.len())] {
            let _ = writeln!(text, "runledger_leases_ended{{project=\"{}\",record=\"{record}\"}} {count}", label(project));
        }
    }
    head(&mut text, "runledger_oldest_queued_seconds", "For how long the longest queued run has been queued; 0 when none is.");
    for (project, _) in all {
        let oldest =
            ListRuns::new(project).with_statuses(vec![Status::Queued]).with_order(Order::Asc).with_limit(1_u32).with_with_total(false);
        let page = ledger.list_runs(oldest.with_answer(runledger::AnswerForm::State))?;
        let seconds = page.rows.first().map_or(0.0, |run| us_between(run.started_at, cx.now).max(0) as f64 / 1e6);
        let _ = writeln!(text, "runledger_oldest_queued_seconds{{project=\"{}\"}} {seconds}", label(project));
    }
    head(&mut text, "runledger_store_size_bytes", "What the store takes up.");
    let _ = writeln!(text, "runledger_store_size_bytes {}", ledger.store_info(GetStoreInfo::new())?.size_bytes);
    Ok(text)
}

fn head(text: &mut String, name: &str, help: &str) {
    let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} gauge");
}

/// A value of a label, as the format has it escaped, and in no other way: it must stay the identifier that it is.
fn label(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
