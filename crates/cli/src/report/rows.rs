//! What a page says of the records: names are places in lists, times microseconds, long texts cut.

use std::collections::HashMap;

use runledger::transition::Stuck;
use runledger::{AgentRun, Execution, Id, NodeRun, Principal, Run, StatusCounts, Text, Time};
use serde::{Serialize, Serializer};

/// How much of a run's error its row has, in bytes; the whole is among the run's details.
const ERROR_IN_ROW_BYTES: usize = 240;

/// Names, each with its place in their list.
#[derive(Debug, Default)]
pub(super) struct Names {
    list: Vec<Id>,
    places: HashMap<Id, usize>,
}

impl Names {
    pub(super) fn place(&mut self, name: &Id) -> usize {
        if let Some(place) = self.places.get(name) {
            return *place;
        }
        let place = self.list.len();
        self.list.push(name.clone());
        self.places.insert(name.clone(), place);
        place
    }
}

impl Serialize for Names {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.list.iter().map(|name| &**name))
    }
}

/// An instant in microseconds: exact as far as a script's numbers are, and cut to milliseconds beyond.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Instant(i64);

impl From<Time> for Instant {
    fn from(time: Time) -> Instant {
        const EXACT_BELOW: u64 = 1 << 53;
        let us = time.unix_us();
        Instant(if us.unsigned_abs() < EXACT_BELOW { us } else { us.div_euclid(1000) * 1000 })
    }
}

/// The beginning of a text, and how long the whole is.
#[derive(Debug, PartialEq, Serialize)]
pub(super) struct Cut {
    text: String,
    bytes: usize,
}

impl Cut {
    /// At most `limit_bytes` of a text; no character is torn.
    pub(super) fn of(text: &str, limit_bytes: usize) -> Cut {
        let end = (0..=limit_bytes.min(text.len())).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
        Cut { text: text[..end].to_owned(), bytes: text.len() }
    }

    /// How much of the text is here, in bytes.
    pub(super) fn held_bytes(&self) -> usize {
        self.text.len()
    }
}

/// How many runs of a workflow the store has, those too that are not in the report.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Counts {
    project: usize,
    workflow: usize,
    by_status: [u64; 6],
}

impl Counts {
    pub(super) fn new(project: usize, workflow: usize, counts: &StatusCounts) -> Counts {
        Counts { project, workflow, by_status: counts.0 }
    }
}

/// Why something is stuck, and since when.
#[derive(Debug, Serialize)]
pub(super) struct StuckRow {
    why: &'static str,
    since: Instant,
}

impl From<(Stuck, Time)> for StuckRow {
    fn from((why, since): (Stuck, Time)) -> StuckRow {
        StuckRow { why: why.as_str(), since: since.into() }
    }
}

/// A run, as the list shows it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RunRow<'a> {
    project: usize,
    id: &'a str,
    workflow: usize,
    /// The place among all statuses.
    status: u8,
    #[serde(skip_serializing_if = "Option::is_none")]
    queued_at: Option<Instant>,
    started_at: Instant,
    #[serde(skip_serializing_if = "Option::is_none")]
    waiting_since: Option<Instant>,
    #[serde(skip_serializing_if = "Option::is_none")]
    finished_at: Option<Instant>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Cut>,
    #[serde(skip_serializing_if = "Option::is_none")]
    requested_by: Option<(&'a str, &'a str)>,
    attempt: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    execution: Option<Owner>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stuck: Option<StuckRow>,
    /// What is stuck among its agent runs, if the run itself is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    agent_stuck: Option<StuckRow>,
}

impl<'a> RunRow<'a> {
    pub(super) fn new(run: &'a Run, project: usize, workflow: usize, stuck: Option<(Stuck, Time)>, agent: Option<(Stuck, Time)>) -> Self {
        let Principal { kind, id } = &run.requested_by_principal;
        RunRow {
            project,
            id: &run.id,
            workflow,
            status: run.status as u8,
            queued_at: run.queued_at.map(Into::into),
            started_at: run.started_at.into(),
            waiting_since: run.waiting_since.map(Into::into),
            finished_at: run.finished_at.map(Into::into),
            error: run.error.as_ref().map(|error| Cut::of(error, ERROR_IN_ROW_BYTES)),
            // Nobody in particular is not worth a word.
            requested_by: (run.requested_by_principal != Principal::system()).then_some((&**kind, &**id)),
            attempt: run.attempt,
            execution: run.execution.as_ref().map(Into::into),
            stuck: stuck.map(Into::into),
            agent_stuck: agent.filter(|_| stuck.is_none()).map(Into::into),
        }
    }

    /// Whether somebody should look at it.
    pub(super) fn is_stuck(&self) -> bool {
        self.stuck.is_some() || self.agent_stuck.is_some()
    }
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Owner {
    token: String,
    lease_end: Instant,
}

impl From<&Execution> for Owner {
    fn from(execution: &Execution) -> Owner {
        Owner { token: execution.token.to_string(), lease_end: execution.lease_expires_at.into() }
    }
}

/// Large values by their names, cut.
pub(super) type Large = Vec<(&'static str, Cut)>;

/// What a run's row leaves out.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Details {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<Cut>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) large: Large,
    pub(super) nodes: Vec<NodeDetails>,
    /// Whether it has more node runs than these.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) has_more_nodes: bool,
    /// Whether payloads and prompts were left out, here or among its node runs.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) lacks_payloads: bool,
}

/// A node run.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct NodeDetails {
    id: String,
    node_index: u32,
    node_type: String,
    node_id: String,
    node_key: String,
    status: u8,
    started_at: Instant,
    #[serde(skip_serializing_if = "Option::is_none")]
    waiting_since: Option<Instant>,
    #[serde(skip_serializing_if = "Option::is_none")]
    finished_at: Option<Instant>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Cut>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    large: Large,
    #[serde(skip_serializing_if = "Option::is_none")]
    agent: Option<AgentDetails>,
}

impl NodeDetails {
    pub(super) fn new(node: &NodeRun, error: Option<Cut>, large: Large, agent: Option<AgentDetails>) -> NodeDetails {
        NodeDetails {
            id: node.id.to_string(),
            node_index: node.node_index,
            node_type: node.node_type.to_string(),
            node_id: node.node_id.to_string(),
            node_key: node.node_key.to_string(),
            status: node.status as u8,
            started_at: node.started_at.into(),
            waiting_since: node.waiting_since.map(Into::into),
            finished_at: node.finished_at.map(Into::into),
            error,
            large,
            agent,
        }
    }
}

/// An agent run.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct AgentDetails {
    agent_id: String,
    status: u8,
    created_at: Instant,
    #[serde(skip_serializing_if = "Option::is_none")]
    started_at: Option<Instant>,
    #[serde(skip_serializing_if = "Option::is_none")]
    completed_at: Option<Instant>,
    #[serde(skip_serializing_if = "Option::is_none")]
    execution_principal: Option<(String, String)>,
    #[serde(skip_serializing_if = "Option::is_none")]
    model_id: Option<Cut>,
    #[serde(skip_serializing_if = "Option::is_none")]
    finish_reason: Option<Cut>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Cut>,
    attempt: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    execution: Option<Owner>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stuck: Option<StuckRow>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    large: Large,
}

impl AgentDetails {
    pub(super) fn new(agent: &AgentRun, cut: impl Fn(&Text) -> Cut, large: Large, stuck: Option<(Stuck, Time)>) -> AgentDetails {
        AgentDetails {
            agent_id: agent.agent_id.to_string(),
            status: agent.status as u8,
            created_at: agent.created_at.into(),
            started_at: agent.started_at.map(Into::into),
            completed_at: agent.completed_at.map(Into::into),
            execution_principal: agent.execution_principal.as_ref().map(|by| (by.kind.to_string(), by.id.to_string())),
            model_id: agent.model_id.as_ref().map(&cut),
            finish_reason: agent.finish_reason.as_ref().map(&cut),
            error: agent.error.as_ref().map(&cut),
            attempt: agent.attempt,
            execution: agent.execution.as_ref().map(Into::into),
            stuck: stuck.map(Into::into),
            large,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_tears_no_character_and_tells_the_whole_length() {
        let cut = |limit| Cut::of("aé😀", limit);
        let is = |text: &str| Cut { text: text.into(), bytes: 7 };
        assert_eq!([0, 1, 2, 3, 6, 7, 99].map(cut), ["", "a", "a", "aé", "aé", "aé😀", "aé😀"].map(is));
    }

    #[test]
    fn an_instant_is_exact_where_a_script_can_hold_it() {
        let instant = |text: &str| Instant::from(text.parse::<Time>().unwrap());
        assert_eq!(instant("2026-03-01T09:30:00.000001Z"), Instant(1_772_357_400_000_001));
        assert_eq!(instant("9999-12-31T23:59:59.999999Z"), Instant(253_402_300_799_999_000));
        assert_eq!(instant("0001-01-01T00:00:00.000001Z"), Instant(-62_135_596_800_000_000));
    }

    #[test]
    fn a_name_has_one_place() {
        let mut names = Names::default();
        let places = ["b", "a", "b"].map(|name| names.place(&name.into()));
        assert_eq!((places, serde_json::to_string(&names).unwrap().as_str()), ([0, 1, 0], r#"["b","a"]"#));
    }
}
