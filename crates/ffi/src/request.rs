//! A request that is put together field by field.

use std::ffi::c_char;

use runledger::{Error, Result, Time};
use serde_json::value::RawValue;

use crate::error::runledger_error;
use crate::wall::{Out, borrow, borrow_mut, entry, give, take_back, text, text_of};

/// The field of a batch that holds its commands.
const COMMANDS: &str = "commands";

/// A request that is put together field by field. The first field that is refused is remembered, and answered by
/// runledger_call_request, so that a program need not look at every single setting.
#[derive(Debug)]
pub struct runledger_request {
    op: String,
    fields: Vec<(String, Value)>,
    refused: Option<Error>,
}

#[derive(Debug)]
enum Value {
    Json(String),
    /// The commands of a batch.
    List(Vec<String>),
    Object(Vec<(String, Value)>),
}

impl runledger_request {
    pub(crate) fn op(&self) -> &str {
        &self.op
    }

    /// The request in the JSON form.
    pub(crate) fn to_json(&self) -> Result<String> {
        if let Some(refused) = &self.refused {
            return Err(refused.clone());
        }
        let mut json = String::with_capacity(256);
        write(&mut json, &self.fields);
        Ok(json)
    }

    /// The request as a command of a batch, which names its operation.
    fn to_command(&self) -> Result<String> {
        let fields = self.to_json()?;
        let comma = if self.fields.is_empty() { "" } else { "," };
        Ok(format!("{{\"op\":{}{comma}{}", quoted(&self.op), &fields[1..]))
    }

    fn add(&mut self, command: Result<String>) -> Result<()> {
        let command = command.inspect_err(|error| {
            self.refused.get_or_insert_with(|| error.clone());
        })?;
        let place = self.fields.iter().position(|(name, _)| name == COMMANDS).unwrap_or_else(|| {
            self.fields.push((COMMANDS.to_owned(), Value::List(Vec::new())));
            self.fields.len() - 1
        });
        match &mut self.fields[place].1 {
            Value::List(commands) => commands.push(command),
            value => *value = Value::List(vec![command]),
        }
        Ok(())
    }

    fn set(&mut self, path: &str, json: Result<String>) -> Result<()> {
        let set = json.and_then(|json| put(&mut self.fields, path, path, json));
        if let Err(error) = &set {
            self.refused.get_or_insert_with(|| error.clone());
        }
        set
    }
}

/// Puts a value at a dotted path; one that is there already is replaced.
fn put(fields: &mut Vec<(String, Value)>, path: &str, rest: &str, json: String) -> Result<()> {
    let (name, below) = rest.split_once('.').map_or((rest, None), |(name, below)| (name, Some(below)));
    if name.is_empty() || name.contains('\0') {
        return Err(Error::invalid(path, "no name of a field, such as id or execution.token"));
    }
    let place = fields.iter().position(|(there, _)| there == name).unwrap_or_else(|| {
        fields.push((name.to_owned(), Value::Object(Vec::new())));
        fields.len() - 1
    });
    let value = &mut fields[place].1;
    let Some(below) = below else {
        *value = Value::Json(json);
        return Ok(());
    };
    if !matches!(value, Value::Object(_)) {
        *value = Value::Object(Vec::new());
    }
    match value {
        Value::Object(nested) => put(nested, path, below, json),
        _ => Ok(()),
    }
}

fn write(json: &mut String, fields: &[(String, Value)]) {
    json.push('{');
    for (index, (name, value)) in fields.iter().enumerate() {
        if index > 0 {
            json.push(',');
        }
        json.push_str(&quoted(name));
        json.push(':');
        match value {
            Value::Json(value) => json.push_str(value),
            Value::List(items) => {
                json.push('[');
                json.push_str(&items.join(","));
                json.push(']');
            }
            Value::Object(nested) => write(json, nested),
        }
    }
    json.push('}');
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// Begins a request of an operation, such as "runs.queue".
#[unsafe(no_mangle)]
pub unsafe extern "C" fn runledger_request_new(op: *const c_char, out: *mut *mut runledger_request, err: *mut *mut runledger_error) -> i32 {
    let body = || {
        // SAFETY: the caller answers for the text and the place.
        let (out, op) = unsafe { (Out::needed(out, std::ptr::null_mut(), "out")?, text(op, "op")?) };
        out.put(give(runledger_request { op: op.to_owned(), fields: Vec::new(), refused: None }));
        Ok(())
    };
    // SAFETY: the caller answers for the place of the error.
    unsafe { entry(err, body) }
}

/// # Safety
/// `request` and `field` are NULL or what their names say.
unsafe fn set(request: *mut runledger_request, field: *const c_char, json: impl FnOnce(&str) -> Result<String>) -> i32 {
    let body = || {
        // SAFETY: as of this function.
        let request = unsafe { borrow_mut(request, "request")? };
        // SAFETY: as of this function.
        match unsafe { text(field, "field") } {
            Ok(field) => request.set(field, json(field)),
            Err(error) => request.set("field", Err(error)),
        }
    };
    // SAFETY: no error is asked for.
    unsafe { entry(std::ptr::null_mut(), body) }
}

/// Sets a field to a string. `field` is its JSON name, with a dot for one inside of another: "projectId", "execution.token".
/// `len` may be RUNLEDGER_NTS; with a length the text may hold NUL. Setting a field again replaces it.
///
/// Answers 0, or what is wrong with the value, which is also remembered; the same holds for every other function that sets.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn runledger_request_set_str(
    request: *mut runledger_request,
    field: *const c_char,
    value: *const c_char,
    len: usize,
) -> i32 {
    // SAFETY: the caller answers for the handle, the texts and the length.
    unsafe { set(request, field, |name| text_of(value, len, name).map(quoted)) }
}

/// Sets a field to an integer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn runledger_request_set_i64(request: *mut runledger_request, field: *const c_char, value: i64) -> i32 {
    // SAFETY: the caller answers for the handle and the text.
    unsafe { set(request, field, |_| Ok(value.to_string())) }
}

/// Sets a field to a truth value.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn runledger_request_set_bool(request: *mut runledger_request, field: *const c_char, value: bool) -> i32 {
    // SAFETY: the caller answers for the handle and the text.
    unsafe { set(request, field, |_| Ok(value.to_string())) }
}

/// Sets a field to a time, in microseconds since 1970-01-01T00:00:00Z.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn runledger_request_set_time_us(request: *mut runledger_request, field: *const c_char, value: i64) -> i32 {
    let json = |name: &str| {
        let time = Time::from_unix_us(value).ok_or_else(|| Error::invalid(name, "not a time of the years 0001 to 9999"))?;
        Ok(format!("\"{time}\""))
    };
    // SAFETY: the caller answers for the handle and the text.
    unsafe { set(request, field, json) }
}

/// Sets a field to a JSON value: a payload, which is kept byte for byte, or a list. `len` may be RUNLEDGER_NTS.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn runledger_request_set_json(
    request: *mut runledger_request,
    field: *const c_char,
    value: *const c_char,
    len: usize,
) -> i32 {
    let json = |name: &str| {
        // SAFETY: the caller answers for the text and the length.
        let text = unsafe { text_of(value, len, name) }?;
        // Only one whole value may stand here: anything else could add fields of its own to the request.
        let one: &RawValue = serde_json::from_str(text).map_err(|e| Error::invalid(name, format_args!("not JSON: {e}")))?;
        Ok(one.get().to_owned())
    };
    // SAFETY: the caller answers for the handle and the text.
    unsafe { set(request, field, json) }
}

/// Adds a command to a request of the operation "batch", which carries out all of its commands or none, in one step. The
/// command stays yours. A field of it that was refused is remembered by the batch too.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn runledger_request_add_command(batch: *mut runledger_request, command: *const runledger_request) -> i32 {
    let body = || {
        if std::ptr::eq(batch, command) {
            return Err(Error::invalid("command", "a batch can't be a command of itself"));
        }
        // SAFETY: the caller answers for the handles, which are two.
        let (batch, command) = unsafe { (borrow_mut(batch, "batch")?, borrow(command, "command")?) };
        batch.add(command.to_command())
    };
    // SAFETY: no error is asked for.
    unsafe { entry(std::ptr::null_mut(), body) }
}

/// Frees a request; NULL is nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn runledger_request_free(request: *mut runledger_request) {
    // SAFETY: the caller answers for the handle.
    unsafe { take_back(request) };
}
