//! What is wrong with a request by itself: identifiers, sizes, limits, lists.

use std::collections::BTreeMap;

use runledger_core::Code;
use serde_json::value::RawValue;

use super::Refusal;

const IDENTIFIERS: &[&str] = &[
    "projectId",
    "id",
    "workflowId",
    "workflowRunId",
    "nodeRunId",
    "nodeType",
    "nodeId",
    "nodeKey",
    "agentId",
    "executionToken",
    "execution.token",
    "requestedByPrincipal.type",
    "requestedByPrincipal.id",
    "executionPrincipal.type",
    "executionPrincipal.id",
];
const LISTS_OF_IDENTIFIERS: &[&str] = &["workflowIds", "agentIds"];
const TEXTS: &[&str] = &["prompt", "error", "modelId", "finishReason"];
const PAYLOADS: &[&str] = &["input", "output", "source", "usage", "trace", "diagnostics"];

/// Everything that is wrong with a request that has the right fields of the right kinds.
pub(super) fn faults(request: &str, max_payload_bytes: usize) -> Vec<Refusal> {
    let fields = flatten(request);
    let op = fields.get("op").map(|json| text(json)).unwrap_or_default();
    let mut faults: Vec<Refusal> = fields.iter().filter_map(|(name, json)| fault(&op, name, json, max_payload_bytes)).collect();
    if fields.contains_key("cursor") && fields.contains_key("offset") {
        faults.extend([Refusal::invalid("cursor"), Refusal::invalid("offset")]);
    }
    faults
}

fn fault(op: &str, name: &str, json: &str, max_payload_bytes: usize) -> Option<Refusal> {
    let bad = match name {
        _ if IDENTIFIERS.contains(&name) => !is_identifier(&text(json)),
        _ if LISTS_OF_IDENTIFIERS.contains(&name) => {
            let ids = texts(json);
            ids.len() > 100_000 || !ids.iter().all(|id| is_identifier(id))
        }
        _ if TEXTS.contains(&name) => return too_large(name, text(json).len(), max_payload_bytes),
        _ if PAYLOADS.contains(&name) => return too_large(name, json.len(), max_payload_bytes),
        "limit" => {
            let limit = number(json);
            limit > 10_000 || (limit == 0 && !op.ends_with(".list"))
        }
        "offset" => number(json) > i64::MAX as u64,
        "statuses" => {
            let never = match op {
                "nodes.list" => "queued",
                "agents.list" => "waiting",
                _ => "",
            };
            texts(json).iter().any(|status| status == never)
        }
        _ => false,
    };
    bad.then(|| Refusal::invalid(name))
}

fn is_identifier(text: &str) -> bool {
    !text.is_empty() && text.len() <= 512 && !text.contains('\0')
}

fn too_large(name: &str, size: usize, limit: usize) -> Option<Refusal> {
    let refusal = || Refusal { code: Code::TooLarge, ..Refusal::invalid(name) };
    (size > limit).then(|| refusal().with("size", size).with("limit", limit))
}

/// The request's members by their dotted paths, each as JSON text.
fn flatten(request: &str) -> BTreeMap<String, String> {
    let mut flat = BTreeMap::new();
    for (name, json) in members(request) {
        if ["execution", "requestedByPrincipal", "executionPrincipal"].contains(&&*name) {
            flat.extend(members(json.get()).into_iter().map(|(inner, json)| (format!("{name}.{inner}"), json.get().to_owned())));
        } else {
            flat.insert(name, json.get().to_owned());
        }
    }
    flat
}

const KINDS: &str = "a typed command or query writes its fields in the kinds of the contract";

fn members(json: &str) -> BTreeMap<String, Box<RawValue>> {
    serde_json::from_str(json).expect(KINDS)
}

fn text(json: &str) -> String {
    serde_json::from_str(json).expect(KINDS)
}

fn texts(json: &str) -> Vec<String> {
    serde_json::from_str(json).expect(KINDS)
}

fn number(json: &str) -> u64 {
    serde_json::from_str(json).expect(KINDS)
}
