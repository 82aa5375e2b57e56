//! What one caller alone would be answered: the runs of one project, said as plainly as possible.

use std::collections::BTreeMap;

use serde_json::Value;

/// A call, with its times given, so that the answer depends on nothing else. Leases end at minutes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "each is named as the operation")]
pub enum Op {
    Queue {
        run: u8,
        at: u8,
    },
    Start {
        run: u8,
        token: u16,
    },
    Claim {
        token: u16,
    },
    Reclaim {
        run: u8,
        token: u16,
        expired_by: Option<u8>,
    },
    Confirm {
        run: u8,
        token: u16,
        until: u8,
    },
    Wait {
        run: u8,
        token: u16,
    },
    Resume {
        run: u8,
        token: u16,
    },
    Finish {
        run: u8,
        token: u16,
        succeeds: bool,
    },
    Cancel {
        run: u8,
    },
    Get {
        run: u8,
    },
    /// The number of runs in each status.
    Stats,
    /// How many runs are listed in a status, and how many the total says.
    List {
        status: u8,
    },
    /// Two runs are queued in one step.
    QueueTwo {
        runs: [u8; 2],
        at: u8,
    },
    /// A run is cancelled and another one queued in one step.
    Replace {
        old: u8,
        new: u8,
    },
}

/// What is known of a run from an answer.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Seen {
    /// Its number.
    pub run: u8,
    /// Its status, as core numbers them.
    pub status: u8,
    /// Its attempt.
    pub attempt: u32,
    /// Who owns it, and the minute in which the lease ends.
    pub owner: Option<(u16, u8)>,
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "each is named as what it holds")]
pub enum Outcome {
    Run(Seen),
    Null,
    Counts([u8; 6]),
    Listed { rows: u8, total: u8 },
    Both,
    Refused(String),
}

/// The lease that every claim, start and reclaim takes.
const LEASE: u8 = 10;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Run {
    status: u8,
    attempt: u32,
    owner: Option<(u16, u8)>,
    queued_at: u8,
}

const QUEUED: u8 = 0;
const RUNNING: u8 = 1;
const WAITING: u8 = 2;
const SUCCEEDED: u8 = 3;
const FAILED: u8 = 4;
const CANCELLED: u8 = 5;
const STATUSES: [&str; 6] = ["queued", "running", "waiting", "succeeded", "failed", "cancelled"];

/// The runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct State(BTreeMap<u8, Run>);

fn time(minute: u8) -> String {
    format!("2026-01-01T{:02}:{:02}:00.000000Z", minute / 60, minute % 60)
}

impl Op {
    /// The request.
    pub fn request(&self, project: &str) -> String {
        let execution = |token: u16| format!(r#""execution":{{"token":"t{token}","queueLeaseExpiresAt":"{}"}}"#, time(LEASE));
        let queue = |run: u8, at: u8| {
            let (project, at) = (project, time(at));
            format!(r#"{{"op":"runs.queue","projectId":"{project}","id":"r{run}","workflowId":"w","input":{run},"queuedAt":"{at}"}}"#)
        };
        let cancel = |run: u8| format!(r#"{{"op":"runs.cancel","projectId":"{project}","id":"r{run}"}}"#);
        let (op, rest) = match self {
            Op::Queue { run, at } => return queue(*run, *at),
            Op::Cancel { run } => return cancel(*run),
            Op::QueueTwo { runs: [a, b], at } => return format!(r#"{{"op":"batch","commands":[{},{}]}}"#, queue(*a, *at), queue(*b, *at)),
            Op::Replace { old, new } => return format!(r#"{{"op":"batch","commands":[{},{}]}}"#, cancel(*old), queue(*new, 5)),
            Op::Start { run, token } => {
                ("runs.start", format!(r#""id":"r{run}","workflowId":"w","input":{run},"startedAt":"{}",{}"#, time(20), execution(*token)))
            }
            Op::Claim { token } => ("runs.claim", format!(r#""startedAt":"{}",{}"#, time(20), execution(*token))),
            Op::Reclaim { run, token, expired_by } => {
                let guard = expired_by.map_or(String::new(), |by| format!(r#","leaseExpiredBy":"{}""#, time(by)));
                ("runs.reclaim", format!(r#""id":"r{run}",{}{guard}"#, execution(*token)))
            }
            Op::Confirm { run, token, until } => {
                ("runs.confirm", format!(r#""id":"r{run}","executionToken":"t{token}","queueLeaseExpiresAt":"{}""#, time(*until)))
            }
            Op::Wait { run, token } => ("runs.wait", format!(r#""id":"r{run}","executionToken":"t{token}""#)),
            Op::Resume { run, token } => ("runs.resume", format!(r#""id":"r{run}",{}"#, execution(*token))),
            Op::Finish { run, token, succeeds } => {
                let status = if *succeeds { "succeeded" } else { "failed" };
                ("runs.finish", format!(r#""id":"r{run}","status":"{status}","executionToken":"t{token}""#))
            }
            Op::Get { run } => ("runs.get", format!(r#""id":"r{run}""#)),
            Op::Stats => return format!(r#"{{"op":"runs.stats","projectId":"{project}"}}"#),
            Op::List { status } => ("runs.list", format!(r#""statuses":["{}"]"#, STATUSES[usize::from(*status)])),
        };
        format!(r#"{{"op":"{op}","projectId":"{project}",{rest}}}"#)
    }

    /// Reads the answer to the request.
    ///
    /// # Errors
    /// That it is none that this operation can have.
    pub fn outcome(&self, answer: &str) -> Result<Outcome, String> {
        let strange = || format!("{self:?} is answered {answer}");
        let answer: Value = serde_json::from_str(answer).map_err(|_| strange())?;
        if let Some(code) = answer["error"]["code"].as_str() {
            return Ok(Outcome::Refused(code.to_owned()));
        }
        let small = |value: &Value| value.as_u64().and_then(|value| u8::try_from(value).ok());
        let ok = &answer["ok"];
        let read = match self {
            Op::Stats => {
                let mut counts = [0; 6];
                for (count, status) in counts.iter_mut().zip(STATUSES) {
                    *count = small(&ok["byStatus"][status]).ok_or_else(strange)?;
                }
                Some(Outcome::Counts(counts))
            }
            Op::List { .. } => {
                let rows = ok["runs"].as_array().and_then(|rows| u8::try_from(rows.len()).ok());
                rows.zip(small(&ok["total"])).map(|(rows, total)| Outcome::Listed { rows, total })
            }
            Op::QueueTwo { .. } | Op::Replace { .. } => ok["results"].as_array().filter(|both| both.len() == 2).map(|_| Outcome::Both),
            _ if ok.is_null() => Some(Outcome::Null),
            _ => read_run(ok).map(Outcome::Run),
        };
        read.ok_or_else(strange)
    }
}

fn read_run(run: &Value) -> Option<Seen> {
    let status = STATUSES.iter().position(|status| run["status"] == *status)? as u8;
    let owner = match run.get("execution") {
        None => None,
        Some(execution) => {
            let until = execution["queueLeaseExpiresAt"].as_str()?;
            let minute = until.get(11..13)?.parse::<u8>().ok()? * 60 + until.get(14..16)?.parse::<u8>().ok()?;
            Some((execution["token"].as_str()?.strip_prefix('t')?.parse().ok()?, minute))
        }
    };
    let id = run["id"].as_str()?.strip_prefix('r')?.parse().ok()?;
    Some(Seen { run: id, status, attempt: u32::try_from(run["attempt"].as_u64()?).ok()?, owner })
}

fn refused<T>(code: &str) -> Result<T, Outcome> {
    Err(Outcome::Refused(code.to_owned()))
}

impl State {
    /// The state after a call, if the call can have had this answer; without an answer any will do.
    pub(super) fn after(&self, op: &Op, outcome: Option<&Outcome>) -> Option<State> {
        let mut after = self.clone();
        let answered = match after.carry_out(op) {
            Ok(answered) => answered,
            Err(refusal) => {
                after = self.clone();
                refusal
            }
        };
        outcome.is_none_or(|outcome| *outcome == answered).then_some(after)
    }

    fn carry_out(&mut self, op: &Op) -> Result<Outcome, Outcome> {
        match *op {
            Op::Queue { run, at } => self.queue(run, at),
            Op::Start { run, token } => {
                let attempt = match self.0.get(&run) {
                    Some(found) if found.status != QUEUED => return refused("already_exists"),
                    Some(found) => found.attempt,
                    None => 0,
                };
                self.0.insert(run, Run { status: RUNNING, attempt: attempt + 1, owner: Some((token, LEASE)), queued_at: 0 });
                self.seen(run)
            }
            Op::Claim { token } => {
                let queued = self.0.iter().filter(|(_, run)| run.status == QUEUED);
                let Some((_, first)) = queued.map(|(id, run)| (run.queued_at, *id)).min() else { return Ok(Outcome::Null) };
                self.change(first, |run| (run.status, run.attempt, run.owner) = (RUNNING, run.attempt + 1, Some((token, LEASE))))
            }
            Op::Reclaim { run, token, expired_by } => {
                let found = self.in_status(run, &[RUNNING])?;
                if expired_by.is_some_and(|by| found.owner.is_none_or(|(_, until)| until > by)) {
                    return refused("lease_active");
                }
                self.change(run, |run| (run.attempt, run.owner) = (run.attempt + 1, Some((token, LEASE))))
            }
            Op::Confirm { run, token, until } => {
                let (_, end) = self.owned(run, token, &[RUNNING])?;
                self.change(run, |run| run.owner = Some((token, end.max(until))))
            }
            Op::Wait { run, token } => {
                self.owned(run, token, &[RUNNING])?;
                self.change(run, |run| (run.status, run.owner) = (WAITING, None))
            }
            Op::Resume { run, token } => {
                self.in_status(run, &[WAITING])?;
                self.change(run, |run| (run.status, run.attempt, run.owner) = (RUNNING, run.attempt + 1, Some((token, LEASE))))
            }
            Op::Finish { run, token, succeeds } => {
                self.owned(run, token, if succeeds { &[RUNNING] } else { &[QUEUED, RUNNING, WAITING] })?;
                self.change(run, |run| (run.status, run.owner) = (if succeeds { SUCCEEDED } else { FAILED }, None))
            }
            Op::Cancel { run } => self.cancel(run),
            Op::Get { run } => Ok(self.seen(run).unwrap_or(Outcome::Null)),
            Op::Stats => Ok(Outcome::Counts(std::array::from_fn(|status| self.count(status as u8)))),
            Op::List { status } => Ok(Outcome::Listed { rows: self.count(status), total: self.count(status) }),
            Op::QueueTwo { runs, at } => {
                runs.into_iter().try_for_each(|run| self.queue(run, at).map(drop))?;
                Ok(Outcome::Both)
            }
            Op::Replace { old, new } => {
                self.cancel(old)?;
                self.queue(new, 5)?;
                Ok(Outcome::Both)
            }
        }
    }

    fn queue(&mut self, run: u8, at: u8) -> Result<Outcome, Outcome> {
        if self.0.contains_key(&run) {
            return refused("already_exists");
        }
        self.0.insert(run, Run { status: QUEUED, attempt: 0, owner: None, queued_at: at });
        self.seen(run)
    }

    fn cancel(&mut self, run: u8) -> Result<Outcome, Outcome> {
        self.in_status(run, &[QUEUED, RUNNING, WAITING])?;
        self.change(run, |run| (run.status, run.owner) = (CANCELLED, None))
    }

    fn count(&self, status: u8) -> u8 {
        self.0.values().filter(|run| run.status == status).count() as u8
    }

    fn in_status(&self, run: u8, statuses: &[u8]) -> Result<&Run, Outcome> {
        match self.0.get(&run) {
            None => refused("not_found"),
            Some(found) if !statuses.contains(&found.status) => refused("invalid_transition"),
            Some(found) => Ok(found),
        }
    }

    fn owned(&self, run: u8, token: u16, statuses: &[u8]) -> Result<(u16, u8), Outcome> {
        match self.in_status(run, statuses)?.owner {
            Some(owner) if owner.0 == token => Ok(owner),
            _ => refused("stale_token"),
        }
    }

    fn change(&mut self, run: u8, change: impl FnOnce(&mut Run)) -> Result<Outcome, Outcome> {
        if let Some(found) = self.0.get_mut(&run) {
            change(found);
        }
        self.seen(run)
    }

    fn seen(&self, run: u8) -> Result<Outcome, Outcome> {
        let Some(Run { status, attempt, owner, .. }) = self.0.get(&run).cloned() else { return refused("not_found") };
        Ok(Outcome::Run(Seen { run, status, attempt, owner }))
    }
}
