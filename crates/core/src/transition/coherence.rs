//! What every stored record looks like, since every transition leaves it so.

use crate::{AgentRun, NodeRun, Put, Record, Run, Status};

impl Status {
    /// Whether nothing can follow it: succeeded, failed or cancelled.
    pub const fn is_terminal(self) -> bool {
        matches!(self, Status::Succeeded | Status::Failed | Status::Cancelled)
    }
}

impl<R: Record> Put<R> {
    /// Whether the record comes to a status that it did not have.
    pub fn changes_status(&self) -> bool {
        self.before.as_ref().is_none_or(|before| before.record.status() != self.after.record.status())
    }
}

/// The first rule that is broken.
fn first_broken(rules: &[(bool, &'static str)]) -> Result<(), &'static str> {
    rules.iter().find(|(holds, _)| !holds).map_or(Ok(()), |(_, broken)| Err(broken))
}

const fn may_have_error(status: Status) -> bool {
    matches!(status, Status::Failed | Status::Cancelled)
}

impl Run {
    pub(crate) fn check_coherence(&self) -> Result<(), &'static str> {
        let status = self.status;
        first_broken(&[
            (self.waiting_since.is_some() == (status == Status::Waiting), "waitingSince belongs to a waiting run"),
            (self.finished_at.is_some() == status.is_terminal(), "finishedAt belongs to an ended run"),
            (self.output.is_none() || status == Status::Succeeded, "output belongs to a succeeded run"),
            (self.error.is_none() || may_have_error(status), "error belongs to a failed or cancelled run"),
            (self.execution.is_none() || status == Status::Running, "execution belongs to a running run"),
            (status != Status::Queued || self.queued_at == Some(self.started_at), "a queued run's startedAt is its queuedAt"),
            (status != Status::Queued || self.attempt == 0, "a queued run has attempt 0"),
        ])
    }
}

impl NodeRun {
    pub(crate) fn check_coherence(&self) -> Result<(), &'static str> {
        let status = self.status;
        first_broken(&[
            (status != Status::Queued, "a node run is never queued"),
            (self.waiting_since.is_some() == (status == Status::Waiting), "waitingSince belongs to a waiting node run"),
            (self.finished_at.is_some() == status.is_terminal(), "finishedAt belongs to an ended node run"),
            (self.output.is_none() || status == Status::Succeeded, "output belongs to a succeeded node run"),
            (self.error.is_none() || may_have_error(status), "error belongs to a failed or cancelled node run"),
        ])
    }
}

impl AgentRun {
    pub(crate) fn check_coherence(&self) -> Result<(), &'static str> {
        let status = self.status;
        first_broken(&[
            (status != Status::Waiting, "an agent run is never waiting"),
            (self.completed_at.is_some() == status.is_terminal(), "completedAt belongs to an ended agent run"),
            (self.error.is_none() || may_have_error(status), "error belongs to a failed or cancelled agent run"),
            (self.execution.is_some() == (status == Status::Running), "execution belongs to a running agent run"),
            (status != Status::Queued || self.attempt == 0, "a queued agent run has attempt 0"),
        ])
    }
}
