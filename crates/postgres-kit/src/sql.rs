//! Statements of a test to a server.

use tokio_postgres::{NoTls, SimpleQueryMessage};

/// Runs statements and answers the rows of all of them as text.
///
/// # Errors
/// What the server or the connection says.
pub fn try_sql(url: &str, statements: &str) -> Result<Vec<Vec<Option<String>>>, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|e| e.to_string())?;
    let why = |e: tokio_postgres::Error| {
        e.as_db_error().map_or_else(|| e.to_string(), |error| format!("{} {}", error.code().code(), error.message()))
    };
    runtime.block_on(async {
        let (client, connection) = tokio_postgres::connect(url, NoTls).await.map_err(why)?;
        let driven = tokio::spawn(connection);
        let messages = client.simple_query(statements).await.map_err(why)?;
        drop(client);
        let _ended = driven.await;
        let rows = messages.iter().filter_map(|message| match message {
            SimpleQueryMessage::Row(row) => Some((0..row.len()).map(|n| row.get(n).map(str::to_owned)).collect()),
            _ => None,
        });
        Ok(rows.collect())
    })
}

/// As [`try_sql`], for statements that must succeed.
///
/// # Panics
/// When they don't.
pub fn sql(url: &str, statements: &str) -> Vec<Vec<Option<String>>> {
    try_sql(url, statements).unwrap_or_else(|why| panic!("{statements}: {why}"))
}
