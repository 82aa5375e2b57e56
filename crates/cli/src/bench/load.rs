//! The workload: runs taken from the queue to their end, and lists of the newest.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use runledger::{
    AnswerForm, ClaimRun, Code, EndStatus, Error, Execution, FinishNode, FinishRun, Id, Ledger, ListProjects, ListRuns, Payload, QueueRun,
    Result, StartNode, Time,
};

use super::measured::Transitions;
use super::{latency, us};
use crate::interrupt;

/// Queue, claim, start of a node, its end, the run's end.
pub(super) const TRANSITIONS_PER_RUN: u32 = 5;

/// The project whose runs are listed, and that whose runs go through the queue.
const LISTED: &str = "bench-lists";
const WORKED: &str = "bench-transitions";

/// How many runs are added in one step when a store is filled.
const FILLED_AT_ONCE: u64 = 500;

/// How often a page is listed for one measurement.
const LISTS: u32 = 200;

/// The longest that is told apart, in nanoseconds: a minute.
const MAX_NS: u64 = 60_000_000_000;

/// The workload on one store.
pub(super) struct Load<'l> {
    ledger: &'l Ledger,
    payload: Payload,
}

impl<'l> Load<'l> {
    pub(super) fn new(ledger: &'l Ledger, payload_bytes: usize) -> Result<Load<'l>> {
        // Two quotes are bytes of the payload too.
        let payload = Payload::from_json(format!("\"{}\"", "x".repeat(payload_bytes.saturating_sub(2))))?;
        Ok(Load { ledger, payload })
    }

    /// Fills the listed project until it has so many runs.
    pub(super) fn fill_to(&self, size: u64) -> Result<()> {
        let mut there = self.ledger.list_runs(ListRuns::new(LISTED).with_limit(0_u32))?.total.unwrap_or(0);
        while there < size {
            interrupt::check()?;
            let end = size.min(there + FILLED_AT_ONCE);
            let queue = |at: u64| {
                // A second apart, so that their order is known.
                let queued_at = Time::MIN.plus_seconds(i64::try_from(at).unwrap_or(i64::MAX));
                QueueRun::new(LISTED, format!("run-{at:09}"), format!("workflow-{}", at % 10), self.payload.clone())
                    .with_queued_at(queued_at)
                    .with_answer(AnswerForm::State)
                    .into()
            };
            self.ledger.batch((there..end).map(queue).collect())?;
            there = end;
        }
        Ok(())
    }

    /// Lists the newest page again and again.
    pub(super) fn lists(&self) -> Result<Histogram<u64>> {
        let mut histogram = histogram()?;
        for _ in 0..LISTS {
            interrupt::check()?;
            let began = Instant::now();
            self.ledger.list_runs(ListRuns::new(LISTED))?;
            record(&mut histogram, began);
        }
        Ok(histogram)
    }

    /// Has so many threads take runs from the queue to their end, for so long.
    pub(super) fn transitions(&self, callers: usize, seconds: f64) -> Result<Transitions> {
        let next = AtomicU64::new(0);
        let began = Instant::now();
        let until = began + Duration::try_from_secs_f64(seconds).unwrap_or_default();
        let measured: Vec<Result<Histogram<u64>>> = thread::scope(|scope| {
            let callers: Vec<_> = (0..callers).map(|_| scope.spawn(|| self.call_until(until, &next))).collect();
            let lost = || Err(Error::new(Code::Internal, "a caller of the benchmark panicked"));
            callers.into_iter().map(|caller| caller.join().unwrap_or_else(|_| lost())).collect()
        });
        let elapsed = began.elapsed().as_secs_f64();
        let mut all = histogram()?;
        for one in measured {
            all.add(one?).map_err(|error| unmeasured(&error))?;
        }
        Ok(Transitions {
            count: all.len(),
            seconds: elapsed,
            per_second: (all.len() as f64 / elapsed).round(),
            latency_us: latency(&all),
            // Twice as long from one to the next: fine enough to be drawn on a logarithmic scale.
            histogram_us: all.iter_log(1000, 2.0).map(|step| (us(step.value_iterated_to()), step.count_since_last_iteration())).collect(),
        })
    }

    fn call_until(&self, until: Instant, next: &AtomicU64) -> Result<Histogram<u64>> {
        let mut histogram = histogram()?;
        while Instant::now() < until {
            interrupt::check()?;
            self.one_run(&mut histogram, next.fetch_add(1, Ordering::Relaxed))?;
        }
        Ok(histogram)
    }

    fn one_run(&self, histogram: &mut Histogram<u64>, number: u64) -> Result<()> {
        let state = AnswerForm::State;
        let mut timed = |call: &mut dyn FnMut() -> Result<()>| {
            let began = Instant::now();
            call()?;
            record(histogram, began);
            Ok::<(), Error>(())
        };
        let queue = QueueRun::new(WORKED, format!("run-{number}"), "workflow", self.payload.clone()).with_answer(state);
        timed(&mut || self.ledger.queue_run(queue.clone()).map(drop))?;
        let token = Id::from(format!("caller/{number}"));
        let lease_end = Time::from(std::time::SystemTime::now()).plus_seconds(60);
        let mut run = None;
        let claim = ClaimRun::new(WORKED, Execution::new(&token, lease_end)).with_answer(state);
        timed(&mut || self.ledger.claim_run(claim.clone()).map(|claimed| run = claimed))?;
        let run = run.ok_or_else(|| Error::new(Code::Internal, "a run that was queued could not be claimed"))?;
        let node = format!("{}/step", run.id);
        let start = StartNode::new(WORKED, &node, &run.id, "workflow", 0_u32, "task", "step", "step", self.payload.clone());
        let start = start.with_execution_token(&token).with_answer(state);
        timed(&mut || self.ledger.start_node(start.clone()).map(drop))?;
        let end = FinishNode::new(WORKED, &node, EndStatus::Succeeded).with_execution_token(&token).with_answer(state);
        timed(&mut || self.ledger.finish_node(end.clone()).map(drop))?;
        let end = FinishRun::new(WORKED, &run.id, EndStatus::Succeeded).with_execution_token(&token).with_answer(state);
        timed(&mut || self.ledger.finish_run(end.clone()).map(drop))
    }

    /// How many runs the store holds.
    pub(super) fn runs(&self) -> Result<u64> {
        self.ledger.walk_projects(ListProjects::new()).map(|project| Ok(project?.runs)).sum()
    }
}

/// Nanoseconds up to a minute, to a thousandth of each value.
fn histogram() -> Result<Histogram<u64>> {
    Histogram::new_with_bounds(1, MAX_NS, 3).map_err(|error| unmeasured(&error))
}

fn record(histogram: &mut Histogram<u64>, began: Instant) {
    histogram.saturating_record(u64::try_from(began.elapsed().as_nanos()).unwrap_or(MAX_NS));
}

fn unmeasured(error: &dyn std::fmt::Display) -> Error {
    Error::new(Code::Internal, format!("the measurement failed: {error}"))
}
