//! The transitions as a table, made by asking [`decide`] about every status and operation.

use super::{Decision, Loaded, decide};
use crate::{
    AgentRun, CancelAgent, CancelRun, Code, Command, ConfirmAgent, ConfirmRun, CreateAgent, DeleteRun, EndStatus, Entity, Execution,
    FinishAgent, FinishNode, FinishRun, Id, NodeRun, Payload, Principal, QueueRun, ReclaimAgent, ReclaimRun, Record, ResumeRun, Run,
    StartAgent, StartNode, StartRun, Status, Stored, Text, Time, WaitNode, WaitRun,
};

/// What an operation does to a record in a status, when it comes from the owner and everything else is as it needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The record is in this status then.
    Becomes(Status),
    /// The record is gone.
    Deleted,
    /// The operation is refused.
    Refused(Code),
}

/// One row of the table: an operation, and what it does to a record that is not there, and to one in each status.
#[derive(Clone, Debug)]
pub struct Row {
    /// What kind of record the columns speak of.
    pub entity: Entity,
    /// The operation, with the end it is asked for where it has one.
    pub operation: String,
    /// When there is no such record.
    pub absent: Outcome,
    /// For each of [`Status::ALL`]; `None` where the record is never in it.
    pub by_status: [Option<Outcome>; 6],
}

const ENDS: [EndStatus; 3] = [EndStatus::Succeeded, EndStatus::Failed, EndStatus::Cancelled];

/// The whole table: every operation on a run, then what a run's status means for operations on its node runs, then every
/// operation on a node run and an agent run.
pub fn table() -> Vec<Row> {
    let mut rows = Vec::new();
    let mut runs = |operation: &str, command: Command, load: fn(Option<Stored<Run>>) -> Loaded| {
        rows.push(row(Entity::Run, operation, &command, run, load, &[]));
    };
    runs("runs.queue", QueueRun::new("p", "r", "w", null()).into(), Loaded::Run);
    runs("runs.start", StartRun::new("p", "r", "w", null()).into(), Loaded::Run);
    runs("runs.reclaim", ReclaimRun::new("p", "r", owner()).into(), Loaded::Run);
    runs("runs.confirm", ConfirmRun::new("p", "r", "t", Time::MAX).into(), Loaded::Run);
    runs("runs.wait", WaitRun::new("p", "r").with_execution_token("t").into(), Loaded::Run);
    runs("runs.resume", ResumeRun::new("p", "r").into(), Loaded::Run);
    for end in ENDS {
        // Only a running run has an execution, so only there is a token to be given.
        rows.push(row_by(Entity::Run, &format!("runs.finish {end}"), run, &[], |there| {
            let mut finish = FinishRun::new("p", "r", end);
            finish.execution_token = there.as_ref().and_then(|run| Some(run.record.execution.as_ref()?.token.clone()));
            (finish.into(), Loaded::Run(there))
        }));
    }
    let mut runs = |operation: &str, command: Command, load: fn(Option<Stored<Run>>) -> Loaded| {
        rows.push(row(Entity::Run, operation, &command, run, load, &[]));
    };
    runs("runs.cancel", CancelRun::new("p", "r").into(), |run| Loaded::RunTree(run, Vec::new(), Vec::new()));
    runs("runs.delete", DeleteRun::new("p", "r").into(), Loaded::Run);
    under_a_run(&mut rows);
    nodes(&mut rows);
    agents(&mut rows);
    rows
}

/// What the status of a run means for operations on its node runs.
fn under_a_run(rows: &mut Vec<Row>) {
    type Under = fn(&mut Option<Id>) -> Command;
    let operations: [(&str, Under); 3] = [
        ("nodes.start under it", |token| {
            let mut start = StartNode::new("p", "n", "r", "w", 0_u32, "agent", "i", "k", null());
            start.execution_token = token.take();
            start.into()
        }),
        ("nodes.wait under it", |token| {
            let mut wait = WaitNode::new("p", "n");
            wait.execution_token = token.take();
            wait.into()
        }),
        ("nodes.finish under it", |token| {
            let mut finish = FinishNode::new("p", "n", EndStatus::Failed);
            finish.execution_token = token.take();
            finish.into()
        }),
    ];
    for (operation, command) in operations {
        rows.push(row_by(Entity::Run, operation, run, &[], |there| {
            let mut token = there.as_ref().and_then(|run| Some(run.record.execution.as_ref()?.token.clone()));
            let command = command(&mut token);
            let loaded = match (&command, there) {
                (Command::StartNode(_), run) => Loaded::NewNode(run, false),
                (_, run) => Loaded::Node(run.map(|run| (Stored::new(node(Status::Running)), run))),
            };
            (command, loaded)
        }));
    }
}

fn nodes(rows: &mut Vec<Row>) {
    const NEVER: &[Status] = &[Status::Queued];
    let under = |there: Option<Stored<NodeRun>>| Loaded::Node(there.map(|node| (node, Stored::new(run(Status::Running)))));
    let mut add = |operation: &str, command: Command| {
        rows.push(row(Entity::Node, operation, &command, node, under, NEVER));
    };
    add("nodes.wait", WaitNode::new("p", "n").with_execution_token("t").into());
    for end in ENDS {
        add(&format!("nodes.finish {end}"), FinishNode::new("p", "n", end).with_execution_token("t").into());
    }
    let create = CreateAgent::new("p", "n", "a", "").into();
    rows.push(row(Entity::Node, "agents.create on it", &create, node, |node| Loaded::NewAgent(node, None, false), NEVER));
}

fn agents(rows: &mut Vec<Row>) {
    let mut add = |operation: &str, command: Command| {
        rows.push(row(Entity::Agent, operation, &command, agent, Loaded::Agent, &[Status::Waiting]));
    };
    add("agents.start", StartAgent::new("p", "n", owner()).into());
    add("agents.reclaim", ReclaimAgent::new("p", "n", owner()).into());
    add("agents.confirm", ConfirmAgent::new("p", "n", "t", Time::MAX).into());
    for end in ENDS {
        add(&format!("agents.finish {end}"), FinishAgent::new("p", "n", "t", end).into());
    }
    add("agents.cancel", CancelAgent::new("p", "n").into());
}

fn row<R: Record>(
    entity: Entity,
    operation: &str,
    command: &Command,
    in_status: fn(Status) -> R,
    load: impl Fn(Option<Stored<R>>) -> Loaded,
    never: &[Status],
) -> Row {
    row_by(entity, operation, in_status, never, |there| (command.clone(), load(there)))
}

fn row_by<R: Record>(
    entity: Entity,
    operation: &str,
    in_status: fn(Status) -> R,
    never: &[Status],
    ask: impl Fn(Option<Stored<R>>) -> (Command, Loaded),
) -> Row {
    let outcome = |there| {
        let (command, loaded) = ask(there);
        outcome(decide(Time::MAX, loaded, &command))
    };
    let mut by_status = [None; 6];
    for status in Status::ALL.iter().filter(|status| !never.contains(status)) {
        by_status[*status as usize] = Some(outcome(Some(Stored::new(in_status(*status)))));
    }
    Row { entity, operation: operation.to_owned(), absent: outcome(None), by_status }
}

fn outcome(decided: crate::Result<Decision>) -> Outcome {
    match decided {
        Ok(Decision::Run(put) | Decision::Cancelled { run: put, .. }) => Outcome::Becomes(put.after.record.status),
        Ok(Decision::ClaimedRun(put)) => put.map_or(Outcome::Refused(Code::NotFound), |put| Outcome::Becomes(put.after.record.status)),
        Ok(Decision::Node(put)) => Outcome::Becomes(put.after.record.status),
        Ok(Decision::Agent(put)) => Outcome::Becomes(put.after.record.status),
        Ok(Decision::ClaimedAgent(put)) => put.map_or(Outcome::Refused(Code::NotFound), |put| Outcome::Becomes(put.after.record.status)),
        Ok(Decision::Deleted(_) | Decision::Purged { .. }) => Outcome::Deleted,
        Err(refusal) => Outcome::Refused(refusal.code()),
    }
}

fn null() -> Payload {
    Payload::from_stored("null")
}

fn owner() -> Execution {
    Execution::new("t", Time::MIN)
}

fn run(status: Status) -> Run {
    Run {
        project_id: "p".into(),
        id: "r".into(),
        workflow_id: "w".into(),
        status,
        input: Some(null()),
        queued_at: (status == Status::Queued).then_some(Time::MIN),
        started_at: Time::MIN,
        waiting_since: (status == Status::Waiting).then_some(Time::MIN),
        finished_at: status.is_terminal().then_some(Time::MIN),
        output: None,
        error: None,
        source: None,
        requested_by_principal: Principal::system(),
        attempt: u32::from(status != Status::Queued),
        execution: (status == Status::Running).then(owner),
    }
}

fn node(status: Status) -> NodeRun {
    NodeRun {
        project_id: "p".into(),
        id: "n".into(),
        workflow_run_id: "r".into(),
        workflow_id: "w".into(),
        node_index: 0,
        node_type: "agent".into(),
        node_id: "i".into(),
        node_key: "k".into(),
        status,
        input: Some(null()),
        started_at: Time::MIN,
        waiting_since: (status == Status::Waiting).then_some(Time::MIN),
        finished_at: status.is_terminal().then_some(Time::MIN),
        output: None,
        error: None,
    }
}

fn agent(status: Status) -> AgentRun {
    AgentRun {
        project_id: "p".into(),
        node_run_id: "n".into(),
        agent_id: "a".into(),
        status,
        prompt: Some(Text::from("")),
        execution_principal: None,
        model_id: None,
        finish_reason: None,
        usage: None,
        trace: None,
        diagnostics: None,
        error: None,
        attempt: u32::from(status != Status::Queued),
        execution: (status == Status::Running).then(owner),
        created_at: Time::MIN,
        started_at: (status != Status::Queued).then_some(Time::MIN),
        completed_at: status.is_terminal().then_some(Time::MIN),
    }
}

/// The table as Markdown, for the README.
///
/// ```
/// let markdown = runledger_core::transition::table_as_markdown();
/// assert!(markdown.contains("| runs.resume | not_found | invalid_transition | invalid_transition | **running** |"));
/// ```
pub fn table_as_markdown() -> String {
    let mut text = String::new();
    let mut last = None;
    for row in table() {
        if last != Some(row.entity) {
            let title = row.entity.as_str();
            let statuses = Status::ALL.iter().map(|status| status.as_str()).collect::<Vec<_>>().join(" | ");
            let gap = if last.is_some() { "\n" } else { "" };
            text += &format!("{gap}| the {title} is | absent | {statuses} |\n|---|---|---|---|---|---|---|---|\n");
            last = Some(row.entity);
        }
        let cells = row.by_status.iter().map(|outcome| outcome.map_or_else(|| "–".to_owned(), show)).collect::<Vec<_>>().join(" | ");
        text += &format!("| {} | {} | {cells} |\n", row.operation, show(row.absent));
    }
    text
}

fn show(outcome: Outcome) -> String {
    match outcome {
        Outcome::Becomes(status) => format!("**{status}**"),
        Outcome::Deleted => "**deleted**".to_owned(),
        Outcome::Refused(code) => code.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The contract's table, written down a second time: absent, then queued, running, waiting, succeeded, failed, cancelled.
    /// `E` is already_exists, `I` invalid_transition, `N` not_found, `S` stale_token, `D` deleted, `-` never; a status by its
    /// first letter.
    const EXPECTED: &[(&str, &str)] = &[
        ("runs.queue", "q E E E E E E"),
        ("runs.start", "r r E E E E E"),
        ("runs.reclaim", "N I r I I I I"),
        ("runs.confirm", "N I r I I I I"),
        ("runs.wait", "N I w I I I I"),
        ("runs.resume", "N I I r I I I"),
        ("runs.finish succeeded", "N I s I I I I"),
        ("runs.finish failed", "N f f f I I I"),
        ("runs.finish cancelled", "N c c c I I I"),
        ("runs.cancel", "N c c c I I I"),
        ("runs.delete", "N I I I D D D"),
        ("nodes.start under it", "N I r I I I I"),
        ("nodes.wait under it", "N I w w I I I"),
        ("nodes.finish under it", "N f f f f f f"),
        ("nodes.wait", "N - w I I I I"),
        ("nodes.finish succeeded", "N - s s I I I"),
        ("nodes.finish failed", "N - f f I I I"),
        ("nodes.finish cancelled", "N - c c I I I"),
        ("agents.create on it", "N - q I I I I"),
        ("agents.start", "N r I - I I I"),
        ("agents.reclaim", "N I r - I I I"),
        ("agents.confirm", "N I r - I I I"),
        ("agents.finish succeeded", "N I s - I I I"),
        ("agents.finish failed", "N I f - I I I"),
        ("agents.finish cancelled", "N I c - I I I"),
        ("agents.cancel", "N c c - I I I"),
    ];

    fn letter(outcome: Outcome) -> char {
        match outcome {
            Outcome::Becomes(status) => status.as_str().chars().next().unwrap(),
            Outcome::Deleted => 'D',
            Outcome::Refused(Code::AlreadyExists) => 'E',
            Outcome::Refused(Code::InvalidTransition) => 'I',
            Outcome::Refused(Code::NotFound) => 'N',
            Outcome::Refused(Code::StaleToken) => 'S',
            Outcome::Refused(code) => panic!("{code}"),
        }
    }

    #[test]
    fn the_whole_product_of_operation_and_status_is_as_the_contract_has_it() {
        let found: Vec<(String, String)> = table()
            .into_iter()
            .map(|row| {
                let cells = row.by_status.iter().map(|outcome| outcome.map_or('-', letter));
                let cells = std::iter::once(letter(row.absent)).chain(cells).map(String::from).collect::<Vec<_>>();
                (row.operation, cells.join(" "))
            })
            .collect();
        let expected: Vec<(String, String)> = EXPECTED.iter().map(|(op, cells)| ((*op).into(), (*cells).into())).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn every_owner_is_told_first_that_it_lost_what_it_owned() {
        // A wrong token, an absent one, and one where none is needed: for each operation that asks for the owner.
        let running = || Some(Stored::new(run(Status::Running)));
        let unowned = || {
            let mut run = run(Status::Running);
            run.execution = None;
            Some(Stored::new(run))
        };
        type Asked = (Command, fn(Option<Stored<Run>>) -> Loaded);
        let with = |token: Option<&str>| -> Vec<Asked> {
            let token = token.map(Id::from);
            let (mut wait, mut finish) = (WaitRun::new("p", "r"), FinishRun::new("p", "r", EndStatus::Failed));
            let mut start = StartNode::new("p", "n", "r", "other", 0_u32, "agent", "i", "k", null());
            let (mut node_wait, mut node_finish) = (WaitNode::new("p", "n"), FinishNode::new("p", "n", EndStatus::Failed));
            (wait.execution_token, finish.execution_token) = (token.clone(), token.clone());
            (start.execution_token, node_wait.execution_token, node_finish.execution_token) = (token.clone(), token.clone(), token);
            // The node run has ended and the workflow is another: the owner is checked before either.
            let ended: fn(Option<Stored<Run>>) -> Loaded = |run| Loaded::Node(run.map(|run| (Stored::new(node(Status::Succeeded)), run)));
            vec![
                (wait.into(), Loaded::Run),
                (finish.into(), Loaded::Run),
                (start.into(), |run| Loaded::NewNode(run, true)),
                (node_wait.into(), ended),
                (node_finish.into(), ended),
            ]
        };
        for (token, there) in [(Some("x"), running()), (None, running()), (Some("t"), unowned())] {
            for (command, load) in with(token) {
                let refusal = decide(Time::MAX, load(there.clone()), &command).unwrap_err();
                assert_eq!(refusal.code(), Code::StaleToken, "{command:?}");
                assert_eq!(refusal.details().entity, Some(Entity::Run), "{command:?}");
            }
        }
    }
}
