//! The guards and changes of a lifecycle, the same for every floor.

use runledger::{
    ConfirmRun, EndStatus, Execution, FinishNode, FinishRun, Id, NodeRun, Principal, QueueRun, Run, StartNode, StartRun, Status,
};

use crate::Result;

fn need(holds: bool, what: &str) -> Result<()> {
    if holds { Ok(()) } else { Err(what.into()) }
}

fn need_owner(run: &Run, token: Option<&Id>) -> Result<()> {
    need(run.execution.as_ref().map(|execution| &execution.token) == token, "another execution owns the run")
}

pub(super) fn queue(c: QueueRun) -> Result<Run> {
    let queued_at = c.queued_at.ok_or("a time is missing")?;
    Ok(Run {
        project_id: c.project_id,
        id: c.id,
        workflow_id: c.workflow_id,
        status: Status::Queued,
        input: Some(c.input),
        queued_at: Some(queued_at),
        started_at: queued_at,
        waiting_since: None,
        finished_at: None,
        output: None,
        error: None,
        source: c.source,
        requested_by_principal: c.requested_by_principal.unwrap_or_else(Principal::system),
        attempt: 0,
        execution: None,
    })
}

pub(super) fn start(run: &mut Run, c: StartRun) -> Result<()> {
    need(run.status == Status::Queued, "the run is not queued")?;
    need(run.workflow_id == c.workflow_id, "the run is of another workflow")?;
    run.status = Status::Running;
    run.attempt += 1;
    run.started_at = c.started_at.ok_or("a time is missing")?;
    run.execution = c.execution;
    run.input = Some(c.input);
    Ok(())
}

pub(super) fn start_node(run: &Run, is_taken: bool, c: StartNode) -> Result<NodeRun> {
    need(run.status == Status::Running, "the run does not run")?;
    need_owner(run, c.execution_token.as_ref())?;
    need(run.workflow_id == c.workflow_id, "the run is of another workflow")?;
    need(!is_taken, "there is such a node run")?;
    Ok(NodeRun {
        project_id: c.project_id,
        id: c.id,
        workflow_run_id: c.workflow_run_id,
        workflow_id: c.workflow_id,
        node_index: c.node_index,
        node_type: c.node_type,
        node_id: c.node_id,
        node_key: c.node_key,
        status: Status::Running,
        input: Some(c.input),
        started_at: c.started_at.ok_or("a time is missing")?,
        waiting_since: None,
        finished_at: None,
        output: None,
        error: None,
    })
}

pub(super) fn finish_node(node: &mut NodeRun, run: &Run, c: FinishNode) -> Result<()> {
    need_owner(run, c.execution_token.as_ref())?;
    need(matches!(node.status, Status::Running | Status::Waiting), "the node run has ended")?;
    need(c.status == EndStatus::Succeeded, "every node run of the workload succeeds")?;
    node.status = Status::Succeeded;
    node.finished_at = c.finished_at;
    node.output = c.output;
    Ok(())
}

pub(super) fn confirm(run: &mut Run, c: &ConfirmRun) -> Result<()> {
    need(run.status == Status::Running, "the run does not run")?;
    need_owner(run, Some(&c.execution_token))?;
    let Some(Execution { lease_expires_at, .. }) = &mut run.execution else { return Err("the run has no lease".into()) };
    *lease_expires_at = c.lease_expires_at.max(*lease_expires_at);
    Ok(())
}

pub(super) fn finish(run: &mut Run, c: FinishRun) -> Result<()> {
    need(run.status == Status::Running, "the run does not run")?;
    need_owner(run, c.execution_token.as_ref())?;
    need(c.status == EndStatus::Succeeded, "every run of the workload succeeds")?;
    run.status = Status::Succeeded;
    run.finished_at = c.finished_at;
    run.output = c.output;
    run.execution = None;
    Ok(())
}
