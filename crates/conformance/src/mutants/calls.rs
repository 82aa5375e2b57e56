//! Stores that answer requests of the JSON form wrongly in one point, whatever is below them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Map, Value};

use super::{CallFault, CallFault as F};
use crate::{Harness, Options, Place, Store, Traits};

/// A harness whose stores have a fault.
pub struct Mangled<H> {
    inner: H,
    fault: CallFault,
}

impl<H: Harness> Mangled<H> {
    /// Breaks the stores of a harness.
    pub fn new(inner: H, fault: CallFault) -> Self {
        Mangled { inner, fault }
    }
}

impl<H: Harness> Harness for Mangled<H> {
    fn name(&self) -> String {
        format!("{} with {:?}", self.inner.name(), self.fault)
    }

    fn traits(&self) -> Traits {
        self.inner.traits()
    }

    fn place(&self) -> Box<dyn Place> {
        Box::new(MangledPlace { inner: self.inner.place(), fault: self.fault })
    }
}

struct MangledPlace {
    inner: Box<dyn Place>,
    fault: CallFault,
}

impl Place for MangledPlace {
    fn open(&self, options: &Options) -> Result<Arc<dyn Store>, String> {
        Ok(Arc::new(MangledStore { inner: self.inner.open(options)?, fault: self.fault }))
    }

    fn path(&self) -> Option<PathBuf> {
        self.inner.path()
    }

    fn at(&self, path: &Path) -> Box<dyn Place> {
        Box::new(MangledPlace { inner: self.inner.at(path), fault: self.fault })
    }
}

struct MangledStore {
    inner: Arc<dyn Store>,
    fault: CallFault,
}

/// The names of the fields whose values are free texts, and of those that are payloads.
const TEXTS: [&str; 4] = ["prompt", "error", "modelId", "finishReason"];
const PAYLOADS: [&str; 6] = ["input", "output", "source", "usage", "trace", "diagnostics"];

impl Store for MangledStore {
    fn call(&self, request: &str) -> String {
        // Only what is an object can be read wrongly in one point.
        let Ok(Value::Object(fields)) = serde_json::from_str(request) else { return self.inner.call(request) };
        let answer = match self.misread(fields.clone()) {
            Some(misread) => self.inner.call(&Value::Object(misread).to_string()),
            None => self.inner.call(request),
        };
        self.miswrite(&fields, answer)
    }

    fn export(&self) -> Result<Vec<u8>, String> {
        self.inner.export()
    }

    fn import(&self, stream: &[u8]) -> Result<String, String> {
        let answer = self.inner.import(stream)?;
        if self.fault != F::ImportAnswersNothingSkipped {
            return Ok(answer);
        }
        let mut counts: Value = serde_json::from_str(&answer).map_err(|e| e.to_string())?;
        counts["skipped"] = 0.into();
        Ok(counts.to_string())
    }

    fn snapshot(&self) -> Result<Vec<u8>, String> {
        self.inner.snapshot()
    }

    fn restore(&self, snapshot: &[u8]) -> Result<(), String> {
        if self.fault == F::RestoreKeepsWhatIsThere {
            return self.inner.import(snapshot).map(drop);
        }
        self.inner.restore(snapshot)
    }

    fn close(&self) -> Result<(), String> {
        if self.fault == F::ClosedStillAnswers { Ok(()) } else { self.inner.close() }
    }
}

fn op(fields: &Map<String, Value>) -> &str {
    fields.get("op").and_then(Value::as_str).unwrap_or_default()
}

impl MangledStore {
    /// The request as it is read wrongly; `None` where it is read as it is.
    fn misread(&self, mut fields: Map<String, Value>) -> Option<Map<String, Value>> {
        let before = fields.clone();
        match self.fault {
            F::FinishAsksNoToken if op(&fields) == "runs.finish" => self.use_current_token(&mut fields),
            F::IdsAreTrimmed => change_text(&mut fields, &["id"], |id| id.trim().to_owned()),
            F::IdsAreLowerCase => change_text(&mut fields, &["id"], str::to_lowercase),
            F::TextsEndAtNul => change_text(&mut fields, &TEXTS, |text| text.split('\0').next().unwrap_or_default().to_owned()),
            F::EmptyTextIsAbsence => fields.retain(|name, value| !(TEXTS.contains(&name.as_str()) && name != "prompt" && value == "")),
            F::NullPayloadIsAbsence => {
                fields.retain(|name, value| !(PAYLOADS.contains(&name.as_str()) && name != "input" && value.is_null()))
            }
            F::PayloadsAreWrittenAnew => return Some(fields),
            F::LimitIsClamped if fields.get("limit").and_then(Value::as_u64).is_some_and(|limit| limit > 10_000) => {
                fields.insert("limit".to_owned(), 10_000.into());
            }
            F::DefaultPageIsLonger if op(&fields).ends_with(".list") => {
                fields.entry("limit").or_insert_with(|| 100.into());
            }
            F::EmptyListIsNoFilter => fields.retain(|name, value| !(name == "statuses" && value.as_array().is_some_and(Vec::is_empty))),
            F::TotalIsAlwaysThere => fields.retain(|name, _| name != "withTotal"),
            F::StateHasTheInput => fields.retain(|name, _| name != "answer"),
            _ => {}
        }
        (fields != before).then_some(fields)
    }

    fn use_current_token(&self, fields: &mut Map<String, Value>) {
        let (Some(project), Some(id)) = (fields.get("projectId"), fields.get("id")) else { return };
        let get = serde_json::json!({"op": "runs.get", "projectId": project, "id": id});
        let run: Value = serde_json::from_str(&self.inner.call(&get.to_string())).unwrap_or_default();
        match run.pointer("/ok/execution/token") {
            Some(token) => fields.insert("executionToken".to_owned(), token.clone()),
            None => fields.remove("executionToken"),
        };
    }

    /// The answer as it is written wrongly.
    fn miswrite(&self, fields: &Map<String, Value>, answer: String) -> String {
        let Ok(mut value) = serde_json::from_str::<Value>(&answer) else { return answer };
        let is_refused_at = |value: &Value, field: &str| value.pointer("/error/details/field").is_some_and(|found| found == field);
        match self.fault {
            F::UnknownFieldIsIgnored => match value.pointer("/error/details/field").and_then(Value::as_str) {
                Some(field) if !is_known(field) && fields.contains_key(field) => {
                    let mut fields = fields.clone();
                    fields.remove(field);
                    return self.inner.call(&Value::Object(fields).to_string());
                }
                _ => return answer,
            },
            F::CursorFitsBothOrders if is_refused_at(&value, "cursor") && !fields.contains_key("offset") => {
                let mut fields = fields.clone();
                let order = fields.get("order").and_then(Value::as_str).unwrap_or("desc");
                let other = if order == "asc" { "desc" } else { "asc" };
                fields.insert("order".to_owned(), other.into());
                return self.inner.call(&Value::Object(fields).to_string());
            }
            F::RefusalIsSuccess if value.pointer("/error/code").is_some_and(|code| code == "lease_active") => {
                return r#"{"ok":null}"#.to_owned();
            }
            F::RecordIsNull if op(fields) == "nodes.finish" && value.get("ok").is_some() => return r#"{"ok":null}"#.to_owned(),
            F::FieldsAreSorted => return value.to_string(),
            F::MicrosecondsAreDropped => return without_microseconds(&answer),
            F::StaleTokenIsRetryable if value.pointer("/error/code").is_some_and(|code| code == "stale_token") => {
                value["error"]["retryable"] = true.into();
            }
            F::IndexCountsFromOne => match value.pointer_mut("/error/details/index") {
                Some(index) => *index = (index.as_u64().unwrap_or_default() + 1).into(),
                None => return answer,
            },
            F::FieldIsNotNamed => match value.pointer_mut("/error/details").and_then(Value::as_object_mut) {
                Some(details) => drop(details.remove("field")),
                None => return answer,
            },
            _ => return answer,
        }
        value.to_string()
    }
}

fn change_text(fields: &mut Map<String, Value>, names: &[&str], change: impl Fn(&str) -> String) {
    for (_, value) in fields.iter_mut().filter(|(name, _)| names.contains(&name.as_str())) {
        if let Value::String(text) = value {
            *text = change(text);
        }
    }
}

/// Whether some operation has a field of this name.
fn is_known(field: &str) -> bool {
    const FIELDS: &str = "op projectId id workflowId workflowIds input queuedAt source requestedByPrincipal startedAt execution \
        leaseExpiredBy executionToken queueLeaseExpiresAt waitingAt status finishedAt output error finishedBefore statuses limit \
        workflowRunId nodeIndex nodeType nodeId nodeKey nodeRunId agentId agentIds prompt createdAt executionPrincipal modelId \
        finishReason usage trace diagnostics completedAt answer commands startedAfter startedBefore createdAfter createdBefore expiredBy \
        order offset cursor withTotal";
    FIELDS.split_whitespace().any(|name| name == field)
}

/// The text with the last three of six fraction digits of every time as zeros.
fn without_microseconds(answer: &str) -> String {
    let mut bytes = answer.as_bytes().to_vec();
    for end in 8..bytes.len() {
        let is_fraction = bytes[end] == b'Z' && bytes[end - 7] == b'.' && bytes[end - 6..end].iter().all(u8::is_ascii_digit);
        if is_fraction {
            bytes[end - 3..end].fill(b'0');
        }
    }
    String::from_utf8(bytes).unwrap_or_else(|_| answer.to_owned())
}
