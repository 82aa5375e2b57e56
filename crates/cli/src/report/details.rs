//! Reads what is beneath the runs of a report, within what a page can hold.

use runledger::transition::Stuck;
use runledger::{AgentRun, AnswerForm, GetAgent, GetNode, GetRun, Ledger, ListNodes, NodeRun, Order, Record, Result, Run, Text, Time};

use super::rows::{AgentDetails, Cut, Details, Large, NodeDetails};
use super::select::Asked;

/// How much a page holds beside the runs themselves.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room {
    /// The most node runs of one run: nobody reads a longer timeline.
    pub nodes_of_a_run: usize,
    /// The most node runs of all runs together.
    pub nodes: usize,
    /// The most bytes of payloads and prompts together.
    pub payloads_bytes: usize,
}

/// As much as a browser opens without a pause: about 50 MB when all of it is used.
pub(super) const ROOM: Room = Room { nodes_of_a_run: 1_000, nodes: 100_000, payloads_bytes: 16 * 1024 * 1024 };

/// The most bytes of an error.
const MAX_ERROR_BYTES: usize = 4096;

/// The one type of node run that has an agent run.
const AGENT: &str = "agent";

/// Reads the details of one run after the other. The most urgent runs come first, and so are the last to go short.
pub(super) struct Reader<'a> {
    ledger: &'a Ledger,
    asked: &'a Asked,
    /// How much of each payload and prompt is kept, in bytes.
    payload_bytes: usize,
    /// What is left of the room.
    room: Room,
}

impl<'a> Reader<'a> {
    pub(super) fn new(ledger: &'a Ledger, asked: &'a Asked, payload_bytes: usize, room: Room) -> Reader<'a> {
        Reader { ledger, asked, payload_bytes, room }
    }

    /// What is beneath a run, and the worst that is stuck among its agent runs.
    pub(super) fn read(&mut self, run: &Run) -> Result<(Details, Option<(Stuck, Time)>)> {
        let mut details = Details { error: run.error.as_ref().map(cut_error), ..Details::default() };
        let limit = self.room.nodes.min(self.room.nodes_of_a_run);
        let list = ListNodes::new(&run.project_id).with_workflow_run_id(&run.id).with_order(Order::Asc).with_answer(AnswerForm::State);
        let page = self.ledger.list_nodes(list.with_limit(limit as u32).with_with_total(false))?;
        self.room.nodes -= page.rows.len();
        details.has_more_nodes = page.has_more;
        // Large values are read one record at a time: a page of them could take any amount of memory.
        if self.takes_payloads() {
            let whole = self.ledger.get_run(GetRun::new(&run.project_id, &run.id))?;
            details.large = whole.map(|whole| self.large(&whole)).unwrap_or_default();
        }
        let mut stuck = None;
        for node in &page.rows {
            let (node, of_agent) = self.node(node)?;
            details.nodes.push(node);
            // A lease that ended is worse than a long queue.
            stuck = stuck.into_iter().chain(of_agent).min_by_key(|(why, since)| (*why as u8, *since));
        }
        details.lacks_payloads = !self.takes_payloads();
        Ok((details, stuck))
    }

    fn node(&mut self, node: &NodeRun) -> Result<(NodeDetails, Option<(Stuck, Time)>)> {
        let (project, id) = (&node.project_id, &node.id);
        let mut large = Large::new();
        if self.takes_payloads() {
            let whole = self.ledger.get_node(GetNode::new(project, id))?;
            large = whole.map(|whole| self.large(&whole)).unwrap_or_default();
        }
        let agent = if node.node_type == AGENT {
            let form = if self.takes_payloads() { AnswerForm::Record } else { AnswerForm::State };
            self.ledger.get_agent(GetAgent::new(project, id).with_answer(form))?
        } else {
            None
        };
        let stuck = agent.as_ref().and_then(|agent| Stuck::of_agent(agent, self.asked.now, self.asked.longer_than_us));
        let agent = agent.map(|agent| self.agent(&agent, stuck));
        Ok((NodeDetails::new(node, node.error.as_ref().map(cut_error), large, agent), stuck))
    }

    fn agent(&mut self, agent: &AgentRun, stuck: Option<(Stuck, Time)>) -> AgentDetails {
        let large = self.large(agent);
        AgentDetails::new(agent, cut_error, large, stuck)
    }

    fn takes_payloads(&self) -> bool {
        self.payload_bytes > 0 && self.room.payloads_bytes > 0
    }

    /// The large values of a record, as far as they are wanted and have room.
    fn large<R: Record>(&mut self, record: &R) -> Large {
        let mut large = Large::new();
        for (slot, name) in R::LARGE.iter().enumerate() {
            let Some(text) = record.large(slot).filter(|_| self.takes_payloads()) else { continue };
            let cut = Cut::of(text, self.payload_bytes);
            self.room.payloads_bytes = self.room.payloads_bytes.saturating_sub(cut.held_bytes());
            large.push((name, cut));
        }
        large
    }
}

fn cut_error(text: &Text) -> Cut {
    Cut::of(text, MAX_ERROR_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOMY: Room = Room { nodes_of_a_run: 9, nodes: 9, payloads_bytes: 999 };

    /// A run with two node runs, of which the second has an agent run whose lease ended at 10:05.
    fn ledger() -> Ledger {
        let ledger = runledger::open("memory:").unwrap();
        let node = |id: &str, node_type: &str| {
            format!(
                r#"{{"op":"nodes.start","projectId":"p","id":"{id}","workflowRunId":"r","workflowId":"w","nodeIndex":0,"nodeType":"{node_type}",
                    "nodeId":"n","nodeKey":"k","input":"input of {id}","startedAt":"2026-01-01T10:00:00Z"}}"#
            )
        };
        let commands = [
            r#"{"op":"runs.start","projectId":"p","id":"r","workflowId":"w","input":"input of r","source":1,"startedAt":"2026-01-01T10:00:00Z"}"#.to_owned(),
            node("a", "step"),
            node("b", "agent"),
            r#"{"op":"agents.create","projectId":"p","nodeRunId":"b","agentId":"helper","prompt":"do it","createdAt":"2026-01-01T10:00:00Z"}"#.to_owned(),
            r#"{"op":"agents.start","projectId":"p","nodeRunId":"b","execution":{"token":"t","queueLeaseExpiresAt":"2026-01-01T10:05:00Z"}}"#.to_owned(),
        ];
        for command in commands {
            let answer = ledger.call_json(command.as_bytes());
            assert!(answer.starts_with(r#"{"ok":"#), "{command}: {answer}");
        }
        ledger
    }

    fn read(payload_bytes: usize, room: Room) -> (serde_json::Value, Option<(Stuck, Time)>) {
        let ledger = ledger();
        let now = "2026-01-01T12:00:00Z".parse().unwrap();
        let asked = Asked { projects: vec!["p".into()], limit: 1, now, longer_than_us: 0 };
        let run = ledger.get_run(GetRun::new("p", "r")).unwrap().unwrap();
        let (details, stuck) = Reader::new(&ledger, &asked, payload_bytes, room).read(&run).unwrap();
        (serde_json::to_value(details).unwrap(), stuck)
    }

    #[test]
    fn what_is_beneath_a_run_is_read_and_cut() {
        let (details, stuck) = read(5, ROOMY);
        assert_eq!(stuck, Some((Stuck::LeaseEnded, "2026-01-01T10:05:00Z".parse().unwrap())));
        assert_eq!(
            details["large"],
            serde_json::json!([["input", {"text": "\"inpu", "bytes": 12}], ["source", {"text": "1", "bytes": 1}]])
        );
        assert_eq!(details["nodes"][0]["large"][0][1]["text"], "\"inpu");
        assert!(details["nodes"][0].get("agent").is_none() && details.get("lacksPayloads").is_none());
        assert_eq!(details["nodes"][1]["agent"]["large"], serde_json::json!([["prompt", {"text": "do it", "bytes": 5}]]));
    }

    #[test]
    fn what_has_no_room_is_left_out_and_that_is_said() {
        let (details, stuck) = read(0, ROOMY);
        assert_eq!((&details["lacksPayloads"], details.get("large")), (&true.into(), None));
        assert!(stuck.is_some() && details["nodes"][1]["agent"].get("large").is_none());
        let (details, _) = read(99, Room { payloads_bytes: 12, ..ROOMY });
        assert_eq!((&details["lacksPayloads"], details["large"].as_array().unwrap().len()), (&true.into(), 1));
        for room in [Room { nodes: 1, ..ROOMY }, Room { nodes_of_a_run: 1, ..ROOMY }] {
            let (details, _) = read(0, room);
            assert_eq!((&details["hasMoreNodes"], details["nodes"].as_array().unwrap().len()), (&true.into(), 1));
        }
        assert_eq!(read(0, Room { nodes: 0, ..ROOMY }).0["hasMoreNodes"], true);
    }
}
