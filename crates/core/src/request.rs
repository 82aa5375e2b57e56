//! A request of the JSON form: one command, one batch or one query.

use std::borrow::Cow;

use crate::json::read::{Fields, elements, wrong_kind};
use crate::json::scan::{Kind, Raw};
use crate::json::write::{self, Object};
use crate::{Answer, Code, Command, Error, Limits, MAX_BATCH, MAX_REQUEST_BYTES, Query, Result};

/// The name of the operation that is a batch.
const BATCH: &str = "batch";

/// A request.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Request {
    /// A command.
    Command(Command),
    /// Commands that all take effect in one step, or none.
    Batch(Vec<Command>),
    /// A query.
    Query(Query),
}

impl Request {
    /// Reads a request and checks its shape and limits.
    ///
    /// ```
    /// use runledger_core::{Limits, Request};
    /// let error = Request::from_json(br#"{"op":"runs.get","projectId":"shop"}"#, &Limits::default()).unwrap_err();
    /// assert_eq!(error.details().field.as_deref(), Some("id"));
    /// ```
    ///
    /// # Errors
    /// `invalid_input`, naming the field, or `too_large`.
    pub fn from_json(json: &[u8], limits: &Limits) -> Result<Request> {
        Request::from_json_as(None, json, limits)
    }

    /// As [`Request::from_json`], of a request that need not name its operation where `op` does.
    ///
    /// # Errors
    /// As [`Request::from_json`]; `invalid_input` at `op` when both name one, and not the same.
    pub fn from_json_as(op: Option<&str>, json: &[u8], limits: &Limits) -> Result<Request> {
        if json.len() > MAX_REQUEST_BYTES {
            return Err(Error::too_large("request", json.len(), MAX_REQUEST_BYTES));
        }
        let text = std::str::from_utf8(json).map_err(|_| Error::new(Code::InvalidInput, "not JSON: not well-formed UTF-8"))?;
        let mut fields = Fields::of_text(text)?;
        let op = match (op, fields.take("op")) {
            (Some(op), None) => Cow::Borrowed(op),
            (given, named) => {
                let named = op_of(named)?;
                if given.is_some_and(|given| given != named) {
                    return Err(Error::invalid("op", "the call and the request name different operations"));
                }
                named
            }
        };
        if op == BATCH {
            return read_batch(fields, limits).map(Request::Batch);
        }
        if let Some(command) = Command::read(&op, &mut fields) {
            let command = command?;
            fields.finish()?;
            command.check(limits)?;
            return Ok(Request::Command(command));
        }
        let query = Query::read(&op, &mut fields).ok_or_else(|| Error::invalid("op", "there is no such operation"))??;
        fields.finish()?;
        query.check(limits)?;
        Ok(Request::Query(query))
    }

    /// The name of its operation, as in `runs.queue`.
    pub fn op(&self) -> &'static str {
        match self {
            Request::Command(command) => command.op(),
            Request::Batch(_) => BATCH,
            Request::Query(query) => query.op(),
        }
    }

    /// Checks shape and limits of a request that was not read from JSON.
    pub(crate) fn check(&self, limits: &Limits) -> Result<()> {
        match self {
            Request::Command(command) => command.check(limits),
            Request::Query(query) => query.check(limits),
            Request::Batch(commands) => {
                check_batch_len(commands.len())?;
                let checked = |(index, command): (usize, &Command)| command.check(limits).map_err(|e| e.with_index(index));
                commands.iter().enumerate().try_for_each(checked)
            }
        }
    }

    /// The request in the JSON form.
    pub fn to_json(&self) -> String {
        match self {
            Request::Command(command) => command.to_json(),
            Request::Query(query) => query.to_json(),
            Request::Batch(commands) => {
                let mut out = Vec::with_capacity(256);
                let mut object = Object::new(&mut out);
                object.str("op", BATCH);
                object.list("commands", commands, |out, command| command.append_json(out));
                object.end();
                write::into_string(out)
            }
        }
    }
}

fn op_of(raw: Option<Raw<'_>>) -> Result<Cow<'_, str>> {
    let raw = raw.ok_or_else(|| Error::invalid("op", "is required"))?;
    raw.as_text().ok_or_else(|| wrong_kind("op", "a string", &raw))
}

fn check_batch_len(len: usize) -> Result<()> {
    match len {
        1..=MAX_BATCH => Ok(()),
        _ => Err(Error::invalid("commands", format_args!("1 to {MAX_BATCH} commands, not {len}"))),
    }
}

fn read_batch(mut fields: Fields<'_>, limits: &Limits) -> Result<Vec<Command>> {
    let raw = fields.take("commands").ok_or_else(|| Error::invalid("commands", "is required"))?;
    let commands = elements("commands", &raw)?;
    fields.finish()?;
    check_batch_len(commands.len())?;
    let read = |(index, raw): (usize, &_)| read_batched(raw, limits).map_err(|e| e.with_index(index));
    commands.iter().enumerate().map(read).collect()
}

fn read_batched(raw: &Raw<'_>, limits: &Limits) -> Result<Command> {
    if raw.kind != Kind::Object {
        return Err(Error::invalid("commands", "a command is an object"));
    }
    let mut fields = Fields::of_text(raw.text)?;
    let op = op_of(fields.take("op"))?;
    let no_command = || Error::invalid("op", "a batch holds commands, and there is none of this name");
    let command = Command::read(&op, &mut fields).ok_or_else(no_command)??;
    fields.finish()?;
    command.check(limits)?;
    Ok(command)
}

/// The line that answers a request: `{"ok": …}` or `{"error": …}`.
pub fn answer_to_json(answer: &Result<Answer>) -> String {
    match answer {
        Ok(answer) => {
            let mut out = Vec::with_capacity(512);
            out.extend_from_slice(b"{\"ok\":");
            answer.append_json(&mut out);
            out.push(b'}');
            write::into_string(out)
        }
        Err(error) => error_to_json(error),
    }
}

/// The line that answers a request which was refused: `{"error": …}`.
pub fn error_to_json(error: &Error) -> String {
    format!("{{\"error\":{}}}", error.to_json())
}
