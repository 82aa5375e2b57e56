//! Statements with their values, and how several of them go to the server at once.

use std::task::Poll;

use runledger_core::Id;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Row};

type Value<'a> = Box<dyn ToSql + Sync + Send + 'a>;

/// A statement and the values of its parameters, in order.
///
/// Nothing is prepared under a name: the server keeps nothing of a statement past its transaction, so that a pooler may
/// stand between. In the text `@.` stands for the schema.
pub(crate) struct Statement<'a> {
    sql: String,
    /// `None` for text without parameters that may hold several statements.
    values: Option<Vec<(Value<'a>, Type)>>,
}

impl<'a> Statement<'a> {
    /// A statement that takes parameters and answers rows.
    pub(crate) fn new(sql: impl Into<String>) -> Self {
        Statement { sql: sql.into(), values: Some(Vec::new()) }
    }

    /// Statements that take no parameters and whose rows are of no interest.
    pub(crate) fn simple(sql: impl Into<String>) -> Self {
        Statement { sql: sql.into(), values: None }
    }

    fn with(mut self, value: impl ToSql + Sync + Send + 'a, kind: Type) -> Self {
        if let Some(values) = &mut self.values {
            values.push((Box::new(value), kind));
        }
        self
    }

    pub(crate) fn text(self, text: &'a str) -> Self {
        self.with(text, Type::TEXT)
    }

    /// An identifier of its own, for statements that outlive what they were made from.
    pub(crate) fn id(self, id: Id) -> Self {
        self.with(id.to_string(), Type::TEXT)
    }

    pub(crate) fn ids(self, ids: Vec<Id>) -> Self {
        self.with(ids.iter().map(|id| id.to_string()).collect::<Vec<_>>(), Type::TEXT_ARRAY)
    }

    pub(crate) fn big(self, number: i64) -> Self {
        self.with(number, Type::INT8)
    }

    pub(crate) fn small(self, number: i16) -> Self {
        self.with(number, Type::INT2)
    }

    pub(crate) fn texts(self, texts: impl IntoIterator<Item = &'a str>) -> Self {
        self.with(texts.into_iter().collect::<Vec<_>>(), Type::TEXT_ARRAY)
    }

    pub(crate) fn optional_texts(self, texts: Vec<Option<&'a str>>) -> Self {
        self.with(texts, Type::TEXT_ARRAY)
    }

    pub(crate) fn bytes(self, bytes: Vec<Option<&'a [u8]>>) -> Self {
        self.with(bytes, Type::BYTEA_ARRAY)
    }

    pub(crate) fn bigs(self, numbers: Vec<Option<i64>>) -> Self {
        self.with(numbers, Type::INT8_ARRAY)
    }

    pub(crate) fn smalls(self, numbers: Vec<Option<i16>>) -> Self {
        self.with(numbers, Type::INT2_ARRAY)
    }

    pub(crate) fn flags(self, flags: Vec<bool>) -> Self {
        self.with(flags, Type::BOOL_ARRAY)
    }

    /// The text as the server gets it.
    pub(crate) fn sql_in(&self, prefix: &str) -> String {
        self.sql.replace("@.", prefix)
    }

    /// The values with their types, as the driver takes them.
    pub(crate) fn typed(&self) -> Vec<(&(dyn ToSql + Sync), Type)> {
        let values = self.values.as_deref().unwrap_or_default();
        values.iter().map(|(value, kind)| (&**value as &(dyn ToSql + Sync), kind.clone())).collect()
    }

    async fn run(&self, client: &Client, prefix: &str) -> Result<Vec<Row>, tokio_postgres::Error> {
        let sql = self.sql_in(prefix);
        match self.values {
            None => client.batch_execute(&sql).await.map(|()| Vec::new()),
            Some(_) => client.query_typed(&sql, &self.typed()).await,
        }
    }
}

/// Sends statements without waiting in between, and answers the rows of each; or the place of the first one that failed.
pub(crate) async fn pipeline(
    client: &Client,
    prefix: &str,
    statements: &[Statement<'_>],
) -> Result<Vec<Vec<Row>>, (usize, tokio_postgres::Error)> {
    // A statement is sent when its future is polled for the first time, and answers come in the order of the statements.
    let mut running: Vec<_> = statements.iter().map(|statement| Box::pin(statement.run(client, prefix))).collect();
    let mut first: Vec<Poll<Result<Vec<Row>, tokio_postgres::Error>>> = Vec::with_capacity(running.len());
    std::future::poll_fn(|context| {
        if first.is_empty() {
            first.extend(running.iter_mut().map(|future| future.as_mut().poll(context)));
        }
        Poll::Ready(())
    })
    .await;
    let mut answers = Vec::with_capacity(running.len());
    for (place, (polled, future)) in first.into_iter().zip(&mut running).enumerate() {
        let answer = match polled {
            Poll::Ready(answer) => answer,
            Poll::Pending => future.await,
        };
        answers.push(answer.map_err(|error| (place, error))?);
    }
    Ok(answers)
}
