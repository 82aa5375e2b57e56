//! What an operator should look at: records that are not done, and that nobody may be at work on.

use crate::record::names;
use crate::{AgentRun, Execution, Run, Status, Time};

names! {
    /// Why a run or agent run is held to be stuck. It is a reading of the record, not a part of it: a worker whose lease
    /// ended still owns its run until somebody reclaims it.
    Stuck {
        /// It is running, and its owner's lease ended.
        LeaseEnded = 0, "leaseEnded";
        /// It has been queued for too long.
        Queued = 1, "queued";
        /// It has been waiting for too long.
        Waiting = 2, "waiting";
    }
}

impl Stuck {
    /// Why a run is stuck at `now`, if it is: its lease ended at or before it, or it has been queued or waiting for longer
    /// than `longer_than_us` microseconds. The answer has the time since when.
    pub fn of_run(run: &Run, now: Time, longer_than_us: i64) -> Option<(Stuck, Time)> {
        match run.status {
            Status::Queued => long(Stuck::Queued, run.started_at, now, longer_than_us),
            Status::Waiting => long(Stuck::Waiting, run.waiting_since?, now, longer_than_us),
            Status::Running => lease_ended(run.execution.as_ref(), now),
            Status::Succeeded | Status::Failed | Status::Cancelled => None,
        }
    }

    /// Why an agent run is stuck at `now`, as [`Stuck::of_run`] says it of a run.
    pub fn of_agent(agent: &AgentRun, now: Time, longer_than_us: i64) -> Option<(Stuck, Time)> {
        match agent.status {
            Status::Queued => long(Stuck::Queued, agent.created_at, now, longer_than_us),
            Status::Running => lease_ended(agent.execution.as_ref(), now),
            Status::Waiting | Status::Succeeded | Status::Failed | Status::Cancelled => None,
        }
    }
}

fn long(stuck: Stuck, since: Time, now: Time, longer_than_us: i64) -> Option<(Stuck, Time)> {
    let for_us = now.unix_us().saturating_sub(since.unix_us());
    (for_us > longer_than_us).then_some((stuck, since))
}

fn lease_ended(execution: Option<&Execution>, now: Time) -> Option<(Stuck, Time)> {
    let end = execution?.lease_expires_at;
    (end <= now).then_some((Stuck::LeaseEnded, end))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR_US: i64 = 3_600_000_000;

    fn time(text: &str) -> Time {
        text.parse().unwrap()
    }

    fn run(rest: &str) -> Run {
        Run::from_json(&format!(
            r#"{{"projectId":"p","id":"r","workflowId":"w","input":{{}},"startedAt":"2026-01-01T10:00:00Z",
                "requestedByPrincipal":{{"type":"user","id":"u"}},"attempt":1,{rest}}}"#
        ))
        .unwrap()
    }

    fn agent(rest: &str) -> AgentRun {
        AgentRun::from_json(&format!(
            r#"{{"projectId":"p","nodeRunId":"n","agentId":"a","prompt":"","attempt":1,"createdAt":"2026-01-01T10:00:00Z",{rest}}}"#
        ))
        .unwrap()
    }

    #[test]
    fn a_lease_counts_from_its_end_on() {
        let execution = r#""status":"running","execution":{"token":"t","queueLeaseExpiresAt":"2026-01-01T10:05:00Z"}"#;
        let end = time("2026-01-01T10:05:00Z");
        assert_eq!(Stuck::of_run(&run(execution), end, HOUR_US), Some((Stuck::LeaseEnded, end)));
        assert_eq!(Stuck::of_run(&run(execution), end.plus_us(-1), HOUR_US), None);
        assert_eq!(Stuck::of_agent(&agent(execution), end, HOUR_US), Some((Stuck::LeaseEnded, end)));
        assert_eq!(Stuck::of_agent(&agent(execution), end.plus_us(-1), HOUR_US), None);
        assert_eq!(Stuck::of_run(&run(r#""status":"running""#), Time::MAX, 0), None, "nobody promised anything");
    }

    #[test]
    fn queued_and_waiting_count_once_longer_than_asked() {
        let began = time("2026-01-01T10:00:00Z");
        let hour = began.plus_us(HOUR_US);
        let queued = r#""status":"queued","queuedAt":"2026-01-01T10:00:00Z""#;
        let waiting = r#""status":"waiting","waitingSince":"2026-01-01T10:00:00Z""#;
        for (rest, stuck) in [(queued, Stuck::Queued), (waiting, Stuck::Waiting)] {
            assert_eq!(Stuck::of_run(&run(rest), hour, HOUR_US), None);
            assert_eq!(Stuck::of_run(&run(rest), hour.plus_us(1), HOUR_US), Some((stuck, began)));
        }
        assert_eq!(Stuck::of_agent(&agent(r#""status":"queued""#), hour.plus_us(1), HOUR_US), Some((Stuck::Queued, began)));
    }

    #[test]
    fn what_is_done_is_not_stuck() {
        for status in ["succeeded", "failed", "cancelled"] {
            let run = run(&format!(r#""status":"{status}","finishedAt":"2026-01-01T10:00:01Z""#));
            assert_eq!(Stuck::of_run(&run, Time::MAX, 0), None);
            let agent = agent(&format!(r#""status":"{status}","completedAt":"2026-01-01T10:00:01Z""#));
            assert_eq!(Stuck::of_agent(&agent, Time::MAX, 0), None);
        }
    }
}
