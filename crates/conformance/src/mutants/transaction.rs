//! Transactions that are broken in one point.

use std::sync::{Mutex, PoisonError};

use runledger_core::{
    AgentRun, AnswerForm, Command, Deleted, EndedFilter, Held, Id, NodeRun, Put, Record, Result, Run, Status, Stored, Time, Tx,
};

use super::BackendFault as F;
use super::backend::Seen;

/// The slots of a run's large values.
const INPUT: usize = 0;
const OUTPUT: usize = 1;
const SOURCE: usize = 2;

/// The time that a server whose clock stands still says it is.
const SERVER_TIME: Time = Time::MIN;

/// A transaction with a fault.
pub(super) struct BrokenTx<'a> {
    pub(super) tx: &'a mut dyn Tx,
    pub(super) fault: F,
    /// The only command of the transaction, if it has only one.
    pub(super) command: Option<Command>,
    pub(super) seen: &'a Mutex<Seen>,
}

impl BrokenTx<'_> {
    fn is(&self, fault: F) -> bool {
        self.fault == fault
    }

    /// The queued run that comes last: those before it are put aside, and back afterwards.
    fn last_run(&mut self, project: &Id, workflow_ids: Option<&[Id]>, form: AnswerForm) -> Result<Option<Stored<Run>>> {
        let mut aside = Vec::new();
        while let Some(run) = self.tx.next_run(project, workflow_ids, form)? {
            let mut after = run.clone();
            after.record.status = Status::Running;
            self.tx.put_run(&Put { before: Some(run.clone()), after: after.clone(), written: Held::default() })?;
            aside.push((run, after));
        }
        let mut last = None;
        for (run, after) in aside {
            self.tx.put_run(&Put { before: Some(after), after: run.clone(), written: Held::default() })?;
            last = self.tx.run(project, &run.record.id, form)?;
        }
        Ok(last)
    }
}

/// Takes a large value out of what is stored.
fn lose<R: Record>(put: &mut Put<R>, slot: usize) {
    put.after.record.take_large(slot);
    put.after.held.0 &= !(1 << slot);
    put.written.0 &= !(1 << slot);
}

impl Tx for BrokenTx<'_> {
    fn run(&mut self, project: &Id, id: &Id, form: AnswerForm) -> Result<Option<Stored<Run>>> {
        let mut found = self.tx.run(project, id, form)?;
        if let (F::SourceIsForgottenToBeHeld, Some(run)) = (self.fault, &mut found) {
            run.record.take_large(SOURCE);
            run.held.0 &= !(1 << SOURCE);
        }
        Ok(found)
    }

    fn node(&mut self, project: &Id, id: &Id, form: AnswerForm) -> Result<Option<Stored<NodeRun>>> {
        self.tx.node(project, id, form)
    }

    fn agent(&mut self, project: &Id, node_run_id: &Id, form: AnswerForm) -> Result<Option<Stored<AgentRun>>> {
        self.tx.agent(project, node_run_id, form)
    }

    fn next_run(&mut self, project: &Id, workflow_ids: Option<&[Id]>, form: AnswerForm) -> Result<Option<Stored<Run>>> {
        match self.fault {
            F::NewestQueuedRunIsClaimed => self.last_run(project, workflow_ids, form),
            F::ClaimIgnoresTheWorkflows => self.tx.next_run(project, None, form),
            _ => self.tx.next_run(project, workflow_ids, form),
        }
    }

    fn next_agent(&mut self, project: &Id, agent_ids: Option<&[Id]>, form: AnswerForm) -> Result<Option<Stored<AgentRun>>> {
        let agent_ids = if self.is(F::ClaimOfAnAgentIgnoresTheAgents) { None } else { agent_ids };
        self.tx.next_agent(project, agent_ids, form)
    }

    fn nodes_of(&mut self, run: &Stored<Run>) -> Result<Vec<Stored<NodeRun>>> {
        if self.is(F::NodesOfARunAreNotFound) {
            return Ok(Vec::new());
        }
        self.tx.nodes_of(run)
    }

    fn ended_runs(&mut self, filter: &EndedFilter, limit: usize) -> Result<Vec<Stored<Run>>> {
        if !self.is(F::PurgeTakesTheLatest) {
            return self.tx.ended_runs(filter, limit);
        }
        let mut runs = self.tx.ended_runs(filter, usize::MAX)?;
        runs.reverse();
        runs.truncate(limit);
        Ok(runs)
    }

    fn put_run(&mut self, put: &Put<Run>) -> Result<()> {
        let mut put = put.clone();
        let before = put.before.as_ref().map(|before| &before.record);
        let was = before.map(|run| run.status);
        match self.fault {
            F::OutputIsLost => lose(&mut put, OUTPUT),
            F::InputOfAQueuedRunStays if was == Some(Status::Queued) && put.written.contains(INPUT) => {
                // The store keeps a value that is not written; the record must not bring a new one.
                put.written.0 &= !(1 << INPUT);
                let kept = self.tx.run(&put.after.record.project_id, &put.after.record.id, AnswerForm::Record)?;
                put.after.record.input = kept.and_then(|run| run.record.input);
            }
            F::ConfirmMovesTheLeaseBack => {
                if let (Some(Command::ConfirmRun(confirm)), Some(execution)) = (&self.command, &mut put.after.record.execution) {
                    execution.lease_expires_at = confirm.lease_expires_at;
                }
            }
            F::ResumeIsNoAttempt if was == Some(Status::Waiting) && put.after.record.status == Status::Running => {
                put.after.record.attempt -= 1;
            }
            F::WaitKeepsTheExecution if put.after.record.status == Status::Waiting => {
                put.after.record.execution = before.and_then(|run| run.execution.clone());
            }
            _ => {}
        }
        self.tx.put_run(&put)
    }

    fn put_node(&mut self, put: &Put<NodeRun>) -> Result<()> {
        if self.is(F::ChangeOfANodeIsDropped) && put.before.is_some() {
            return Ok(());
        }
        self.tx.put_node(put)
    }

    fn put_agent(&mut self, put: &Put<AgentRun>) -> Result<()> {
        if self.is(F::CancelledAgentStaysRunning) && put.after.record.status == Status::Cancelled {
            return Ok(());
        }
        self.tx.put_agent(put)
    }

    fn delete_run(&mut self, run: &Stored<Run>) -> Result<Deleted> {
        if self.is(F::DeletedNodesCanStillBeRead) {
            let nodes = self.tx.nodes_of(run)?;
            let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
            seen.deleted_nodes.extend(nodes.into_iter().map(|node| node.record));
        }
        let mut deleted = self.tx.delete_run(run)?;
        if self.is(F::DeleteMiscountsTheAgents) {
            deleted.agents = deleted.nodes;
        }
        Ok(deleted)
    }

    fn clear(&mut self) -> Result<()> {
        self.tx.clear()
    }

    fn mark(&mut self) -> Result<bool> {
        self.tx.mark()
    }

    fn undo(&mut self) -> Result<()> {
        if self.is(F::UndoDoesNothing) { Ok(()) } else { self.tx.undo() }
    }

    fn server_time(&mut self) -> Result<Option<Time>> {
        if self.is(F::ClockIsTheServers) { Ok(Some(SERVER_TIME)) } else { self.tx.server_time() }
    }
}
