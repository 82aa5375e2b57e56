//! Acting on what was found stuck, and on nothing else: a run that recovered since it was found is left alone.
//!
//! Between looking and acting a worker may confirm its lease, claim the queued run or resume the waiting one. Each act
//! here is therefore refused by the store itself unless the run still stands as it was found:
//!
//! - A lease that ended: a reclaim guarded by the time of the look, and the cancel in the same step.
//! - Queued: a start, which only a queued run takes, with the input and time that it has, and the cancel in the same step.
//!   No run is ever queued twice, so it is the same one.
//! - Waiting: a resume, which only a waiting run takes, and the cancel in the same step. No command can tell that a run has
//!   gone on and waits anew; that is looked at the moment before, by its attempt and since when it waits.
//!
//! Each is one atomic step: stopped at any moment, it leaves a run cancelled or untouched.

use runledger::transition::Stuck;
use runledger::{
    Answer, AnswerForm, CancelRun, Code, Command, Error, Execution, GetRun, Ledger, ReclaimRun, Result, ResumeRun, Run, StartRun, Text,
    Time,
};
use uuid::Uuid;

use super::found::Found;
use crate::interrupt;

/// How long an operator holds what is about to be cancelled.
const HELD_SECONDS: i64 = 60;

/// What became of one run.
#[allow(clippy::large_enum_variant, reason = "most are of the large kind")]
pub(crate) enum Fate {
    /// It was done.
    Done(Run),
    /// It is not stuck any more, or gone.
    Recovered,
    /// The store refused for another reason.
    Failed(Run, Error),
}

/// A token that nobody else has.
pub(crate) fn fresh_token(prefix: &str) -> String {
    format!("{prefix}{}", Uuid::new_v4().simple())
}

/// Reclaims a run whose lease ended, unless it was confirmed or reclaimed since `looked`.
pub(crate) fn reclaim(ledger: &Ledger, run: &Run, execution: Execution, looked: Time) -> Result<Run> {
    let reclaim = ReclaimRun::new(&run.project_id, &run.id, execution).with_lease_expired_by(looked);
    ledger.reclaim_run(reclaim.with_answer(AnswerForm::State))
}

/// Cancels a run that was found stuck, unless it recovered since `looked`. `now` is the present.
pub(crate) fn cancel(ledger: &Ledger, found: &Found<Run>, error: &Text, looked: Time, now: Time) -> Result<Run> {
    let run = &found.record;
    let execution = Execution::new(fresh_token("operator/"), now.plus_seconds(HELD_SECONDS));
    let hold: Command = match found.why {
        Stuck::LeaseEnded => ReclaimRun::new(&run.project_id, &run.id, execution).with_lease_expired_by(looked).into(),
        Stuck::Queued => {
            let whole = ledger.get_run(GetRun::new(&run.project_id, &run.id))?;
            let input = whole.and_then(|whole| whole.input).ok_or_else(|| Error::new(Code::NotFound, "the run is gone"))?;
            StartRun::new(&run.project_id, &run.id, &run.workflow_id, input)
                .with_started_at(run.started_at)
                .with_execution(execution)
                .into()
        }
        Stuck::Waiting => {
            let there = ledger.get_run(GetRun::new(&run.project_id, &run.id).with_answer(AnswerForm::State))?;
            if there.is_none_or(|there| (there.attempt, there.waiting_since) != (run.attempt, run.waiting_since)) {
                return Err(Error::new(Code::InvalidTransition, "the run went on"));
            }
            ResumeRun::new(&run.project_id, &run.id).with_execution(execution).with_answer(AnswerForm::State).into()
        }
    };
    let cancel = CancelRun::new(&run.project_id, &run.id).with_error(error).with_answer(AnswerForm::State);
    match ledger.batch(vec![hold, cancel.into()])?.pop() {
        Some(Answer::Run(run)) => Ok(run),
        _ => Err(Error::new(Code::Internal, "a batch was answered with the answers of another")),
    }
}

/// Acts on each, and tells what became of it. Interrupted, it stops before the next one.
pub(crate) fn each(found: Vec<Found<Run>>, act: impl Fn(&Found<Run>) -> Result<Run>) -> Result<Vec<Fate>> {
    let mut fates = Vec::with_capacity(found.len());
    for found in found {
        interrupt::check()?;
        fates.push(match act(&found) {
            Ok(run) => Fate::Done(run),
            Err(error) if is_recovery(error.code()) => Fate::Recovered,
            Err(error) => Fate::Failed(found.record, error),
        });
    }
    Ok(fates)
}

/// What a store answers when the run does not stand any more as it was found.
fn is_recovery(code: Code) -> bool {
    matches!(code, Code::NotFound | Code::AlreadyExists | Code::InvalidTransition | Code::LeaseActive | Code::StaleToken)
}

#[cfg(test)]
mod tests {
    use super::*;
    use runledger::{ClaimRun, ConfirmRun, EndStatus, FinishRun, Payload, QueueRun, Status, WaitRun};

    const LOOKED: &str = "2026-03-01T12:00:00Z";

    fn looked() -> Time {
        LOOKED.parse().unwrap()
    }

    fn ledger() -> Ledger {
        let ledger = runledger::open("memory:").unwrap();
        ledger
            .queue_run(
                QueueRun::new("p", "r", "w", Payload::from_json("{\"a\": 1.0}").unwrap()).with_queued_at(looked().plus_seconds(-9000)),
            )
            .unwrap();
        ledger
    }

    fn claim(ledger: &Ledger, lease_seconds: i64) -> Run {
        let execution = Execution::new("worker", looked().plus_seconds(lease_seconds));
        ledger.claim_run(ClaimRun::new("p", execution)).unwrap().unwrap()
    }

    fn wait(ledger: &Ledger) -> Run {
        ledger.wait_run(WaitRun::new("p", "r").with_execution_token("worker")).unwrap()
    }

    fn run(ledger: &Ledger) -> Run {
        ledger.get_run(GetRun::new("p", "r")).unwrap().unwrap()
    }

    fn cancel_found(ledger: &Ledger, record: Run, why: Stuck) -> Result<Run> {
        let since = record.started_at;
        cancel(ledger, &Found { record, why, since }, &Text::from("stuck"), looked(), looked())
    }

    #[test]
    fn what_is_still_stuck_is_cancelled() {
        type Prepare = fn(&Ledger);
        let cases: [(Stuck, Prepare); 3] = [
            (Stuck::Queued, |_| {}),
            (Stuck::LeaseEnded, |ledger| drop(claim(ledger, -1))),
            (Stuck::Waiting, |ledger| {
                claim(ledger, 60);
                wait(ledger);
            }),
        ];
        for (why, prepare) in cases {
            let ledger = ledger();
            prepare(&ledger);
            let before = run(&ledger);
            cancel_found(&ledger, before.clone(), why).unwrap();
            let after = run(&ledger);
            assert_eq!((after.status, after.error.as_deref()), (Status::Cancelled, Some("stuck")), "{why}");
            assert_eq!((after.input, after.started_at, after.execution), (before.input, before.started_at, None), "{why}");
        }
    }

    #[test]
    fn what_recovered_is_left_alone() {
        type Recover = fn(&Ledger);
        let confirm: Recover = |ledger| drop(ledger.confirm_run(ConfirmRun::new("p", "r", "worker", looked().plus_seconds(60))).unwrap());
        let finish: Recover =
            |ledger| drop(ledger.finish_run(FinishRun::new("p", "r", EndStatus::Succeeded).with_execution_token("worker")).unwrap());
        let claimed: Recover = |ledger| drop(claim(ledger, 60));
        let started_unowned: Recover =
            |ledger| drop(ledger.start_run(StartRun::new("p", "r", "w", Payload::from_json("2").unwrap())).unwrap());
        let resumed: Recover = |ledger| {
            ledger.resume_run(ResumeRun::new("p", "r").with_execution(Execution::new("worker", looked().plus_seconds(60)))).unwrap();
        };
        let resumed_unowned: Recover = |ledger| drop(ledger.resume_run(ResumeRun::new("p", "r")).unwrap());
        let waits: Recover = |ledger| drop(wait(ledger));
        let deleted: Recover = |ledger| {
            ledger.cancel_run(CancelRun::new("p", "r")).unwrap();
            ledger.delete_run(runledger::DeleteRun::new("p", "r")).unwrap();
        };
        let leased: Recover = |ledger| drop(claim(ledger, -1));
        let nothing: Recover = |_| {};
        let waiting: Recover = |ledger| {
            claim(ledger, 60);
            wait(ledger);
        };
        for (why, prepare, recover) in [
            (Stuck::Queued, nothing, claimed),
            (Stuck::Queued, nothing, started_unowned),
            (Stuck::Queued, nothing, deleted),
            (Stuck::LeaseEnded, leased, confirm),
            (Stuck::LeaseEnded, leased, finish),
            (Stuck::LeaseEnded, leased, waits),
            (Stuck::LeaseEnded, leased, deleted),
            (Stuck::Waiting, waiting, resumed),
            (Stuck::Waiting, waiting, resumed_unowned),
            (Stuck::Waiting, waiting, deleted),
        ] {
            let ledger = ledger();
            prepare(&ledger);
            let found = run(&ledger);
            recover(&ledger);
            let recovered = ledger.get_run(GetRun::new("p", "r")).unwrap();
            let error = cancel_found(&ledger, found, why).unwrap_err();
            assert!(is_recovery(error.code()), "{why}: {error}");
            assert_eq!(ledger.get_run(GetRun::new("p", "r")).unwrap(), recovered, "{why}");
        }
    }

    #[test]
    fn a_run_that_went_on_and_waits_anew_goes_on_waiting() {
        let ledger = ledger();
        claim(&ledger, 60);
        let found = wait(&ledger);
        ledger.resume_run(ResumeRun::new("p", "r").with_execution(Execution::new("worker", looked()))).unwrap();
        wait(&ledger);
        let error = cancel_found(&ledger, found, Stuck::Waiting).unwrap_err();
        assert!(is_recovery(error.code()), "{error}");
        assert_eq!(run(&ledger).status, Status::Waiting);
    }

    #[test]
    fn a_reclaim_takes_only_what_nobody_confirmed() {
        let ledger = ledger();
        let found = claim(&ledger, -1);
        let execution = Execution::new(fresh_token("op/"), looked().plus_seconds(300));
        ledger.confirm_run(ConfirmRun::new("p", "r", "worker", looked().plus_seconds(1))).unwrap();
        assert_eq!(reclaim(&ledger, &found, execution.clone(), looked()).unwrap_err().code(), Code::LeaseActive);
        let reclaimed = reclaim(&ledger, &found, execution.clone(), looked().plus_seconds(1)).unwrap();
        assert_eq!((reclaimed.attempt, reclaimed.execution), (2, Some(execution)));
    }

    #[test]
    fn tokens_are_fresh() {
        let tokens: std::collections::HashSet<String> = (0..1000).map(|_| fresh_token("p-")).collect();
        assert!(tokens.len() == 1000 && tokens.iter().all(|token| token.starts_with("p-") && token.len() == 34));
    }
}
