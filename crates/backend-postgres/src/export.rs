//! Every record, in order, a row at a time.

use std::pin::pin;
use std::time::{Duration, Instant};

use futures_util::TryStreamExt;
use runledger_core::{AgentRun, AnswerForm, ExportRecord, NodeRun, Result, Run, wait_until};
use tokio_postgres::Row;
use tokio_postgres::types::{ToSql, Type};

use crate::error::{Fault, Outcome};
use crate::pool::{Connector, Session};
use crate::rows::{Kept, VALUES, read_record, values_of};

/// A server that sends nothing for so long while rows are due is given up.
const SILENCE: Duration = Duration::from_secs(300);

/// All records of a kind with their large values, by project and id.
pub(crate) fn whole<R: Kept>() -> String {
    // In order before the large values come, so that they are never sorted.
    let states = format!("(SELECT * FROM @.{} t ORDER BY t.project, t.id OFFSET 0) t", R::TABLE);
    format!("SELECT {}{VALUES} FROM {states}{} ORDER BY t.project, t.id", R::selected(), values_of::<R>())
}

/// Hands the rows of a statement on as they come, so that they never stand in memory together.
pub(crate) fn each_row(connector: &Connector, session: &Session, sql: &str, sink: &mut dyn FnMut(&Row) -> Outcome<()>) -> Outcome<()> {
    let sql = sql.replace("@.", &connector.prefix);
    let silent = || Fault::Connection("the server did not answer in time".to_owned());
    let none: Vec<(&(dyn ToSql + Sync), Type)> = Vec::new();
    let asked = wait_until(session.client.query_typed_raw(&sql, none), Instant::now() + SILENCE).ok_or_else(silent)??;
    let mut rows = pin!(asked);
    while let Some(row) = wait_until(rows.try_next(), Instant::now() + SILENCE).ok_or_else(silent)?? {
        sink(&row)?;
    }
    Ok(())
}

/// Hands everything to `sink`, within the transaction that the session has open.
pub(crate) fn export(connector: &Connector, session: &Session, sink: &mut dyn FnMut(ExportRecord) -> Result<()>) -> Outcome<()> {
    let mut hand_on = |record| sink(record).map_err(Fault::from);
    each::<Run>(connector, session, &mut |run| hand_on(ExportRecord::Run(run)))?;
    each::<NodeRun>(connector, session, &mut |node| hand_on(ExportRecord::Node(node)))?;
    each::<AgentRun>(connector, session, &mut |agent| hand_on(ExportRecord::Agent(agent)))
}

fn each<R: Kept>(connector: &Connector, session: &Session, sink: &mut dyn FnMut(R) -> Outcome<()>) -> Outcome<()> {
    each_row(connector, session, &whole::<R>(), &mut |row| sink(read_record::<R>(row, AnswerForm::Record)?.record))
}
