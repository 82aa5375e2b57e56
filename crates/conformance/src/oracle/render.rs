//! Records as JSON text, their fields in the contract's order.

use std::fmt::Display;

use runledger_core::{AgentRun, Execution, NodeRun, Payload, Principal, Run, Text};

/// A JSON string.
pub(super) fn quote(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

fn shown(value: &impl Display) -> String {
    format!("\"{value}\"")
}

fn text(text: &Option<Text>) -> Option<String> {
    text.as_ref().map(|text| quote(text))
}

fn payload(payload: &Option<Payload>) -> Option<String> {
    payload.as_ref().map(|payload| payload.as_json().to_owned())
}

fn execution(execution: &Option<Execution>) -> Option<String> {
    let execution = execution.as_ref()?;
    let lease = shown(&execution.lease_expires_at);
    Some(object([("token", Some(quote(&execution.token))), ("queueLeaseExpiresAt", Some(lease))]))
}

fn principal(principal: &Principal) -> String {
    object([("type", Some(quote(&principal.kind))), ("id", Some(quote(&principal.id)))])
}

/// An object of the members that are there.
pub(super) fn object<const N: usize>(members: [(&str, Option<String>); N]) -> String {
    let members = members.iter().filter_map(|(name, value)| value.as_ref().map(|value| format!("\"{name}\":{value}")));
    format!("{{{}}}", members.collect::<Vec<_>>().join(","))
}

pub(super) fn list(items: impl IntoIterator<Item = String>) -> String {
    format!("[{}]", items.into_iter().collect::<Vec<_>>().join(","))
}

pub(super) fn run(run: &Run) -> String {
    object([
        ("projectId", Some(quote(&run.project_id))),
        ("id", Some(quote(&run.id))),
        ("workflowId", Some(quote(&run.workflow_id))),
        ("status", Some(shown(&run.status))),
        ("input", payload(&run.input)),
        ("queuedAt", run.queued_at.as_ref().map(shown)),
        ("startedAt", Some(shown(&run.started_at))),
        ("waitingSince", run.waiting_since.as_ref().map(shown)),
        ("finishedAt", run.finished_at.as_ref().map(shown)),
        ("output", payload(&run.output)),
        ("error", text(&run.error)),
        ("source", payload(&run.source)),
        ("requestedByPrincipal", Some(principal(&run.requested_by_principal))),
        ("attempt", Some(run.attempt.to_string())),
        ("execution", execution(&run.execution)),
    ])
}

pub(super) fn node(node: &NodeRun) -> String {
    object([
        ("projectId", Some(quote(&node.project_id))),
        ("id", Some(quote(&node.id))),
        ("workflowRunId", Some(quote(&node.workflow_run_id))),
        ("workflowId", Some(quote(&node.workflow_id))),
        ("nodeIndex", Some(node.node_index.to_string())),
        ("nodeType", Some(quote(&node.node_type))),
        ("nodeId", Some(quote(&node.node_id))),
        ("nodeKey", Some(quote(&node.node_key))),
        ("status", Some(shown(&node.status))),
        ("input", payload(&node.input)),
        ("startedAt", Some(shown(&node.started_at))),
        ("waitingSince", node.waiting_since.as_ref().map(shown)),
        ("finishedAt", node.finished_at.as_ref().map(shown)),
        ("output", payload(&node.output)),
        ("error", text(&node.error)),
    ])
}

pub(super) fn agent(agent: &AgentRun) -> String {
    object([
        ("projectId", Some(quote(&agent.project_id))),
        ("nodeRunId", Some(quote(&agent.node_run_id))),
        ("agentId", Some(quote(&agent.agent_id))),
        ("status", Some(shown(&agent.status))),
        ("prompt", text(&agent.prompt)),
        ("executionPrincipal", agent.execution_principal.as_ref().map(principal)),
        ("modelId", text(&agent.model_id)),
        ("finishReason", text(&agent.finish_reason)),
        ("usage", payload(&agent.usage)),
        ("trace", payload(&agent.trace)),
        ("diagnostics", payload(&agent.diagnostics)),
        ("error", text(&agent.error)),
        ("attempt", Some(agent.attempt.to_string())),
        ("execution", execution(&agent.execution)),
        ("createdAt", Some(shown(&agent.created_at))),
        ("startedAt", agent.started_at.as_ref().map(shown)),
        ("completedAt", agent.completed_at.as_ref().map(shown)),
    ])
}

/// The run without its payloads.
pub(super) fn run_state(record: &Run) -> String {
    run(&Run { input: None, output: None, source: None, ..record.clone() })
}

/// The node run without its payloads.
pub(super) fn node_state(record: &NodeRun) -> String {
    node(&NodeRun { input: None, output: None, ..record.clone() })
}

/// The agent run without its payloads and prompt.
pub(super) fn agent_state(record: &AgentRun) -> String {
    agent(&AgentRun { prompt: None, usage: None, trace: None, diagnostics: None, ..record.clone() })
}
