//! Every record, in order.

use runledger_core::{AgentRun, AnswerForm, ExportRecord, NodeRun, Result, Run};

use crate::db::Db;
use crate::error::Outcome;
use crate::rows::{Columns, FromRow, agent_columns, node_columns, run_columns};

const RUNS: &str = concat!("SELECT ", run_columns!(), " FROM run INDEXED BY run_by_id WHERE project = ?1 ORDER BY id");
const NODES: &str = concat!("SELECT ", node_columns!(), " FROM node_run INDEXED BY node_run_by_id WHERE project = ?1 ORDER BY id");
const AGENTS: &str = concat!("SELECT ", agent_columns!(), " FROM agent_run INDEXED BY agent_run_by_id WHERE project = ?1 ORDER BY id");

/// Hands everything to `sink`, one record at a time.
pub(crate) fn export(db: &Db<'_>, sink: &mut dyn FnMut(ExportRecord) -> Result<()>) -> Outcome<()> {
    each::<Run>(db, RUNS, &mut |run| sink(ExportRecord::Run(run)))?;
    each::<NodeRun>(db, NODES, &mut |node| sink(ExportRecord::Node(node)))?;
    each::<AgentRun>(db, AGENTS, &mut |agent| sink(ExportRecord::Agent(agent)))
}

/// The records of one kind, by project and id. Numbers of projects say nothing of their order.
fn each<R: FromRow>(db: &Db<'_>, sql: &'static str, sink: &mut dyn FnMut(R) -> Result<()>) -> Outcome<()> {
    let mut projects = db.statement("SELECT key FROM project INDEXED BY project_by_id WHERE id > '' ORDER BY id")?;
    let mut projects = projects.query([])?;
    while let Some(project) = projects.next()? {
        let mut records = db.statement(sql)?;
        let mut records = records.query([project.get::<_, i64>(0)?])?;
        while let Some(row) = records.next()? {
            sink(R::from_row(db, &Columns::of(row))?.finish(db, AnswerForm::Record)?.record)?;
        }
    }
    Ok(())
}
