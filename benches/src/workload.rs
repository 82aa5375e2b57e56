//! The work that is measured, as commands that are made ahead, so that making them is not measured.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};

use runledger::{
    AnswerForm, ClaimRun, Command, ConfirmAgent, ConfirmRun, CreateAgent, EndStatus, Execution, FinishAgent, FinishNode, FinishRun,
    Payload, QueueRun, StartAgent, StartNode, StartRun, Time, WaitRun,
};

use crate::Result;

/// The project of every workload, but for those that need two.
pub const PROJECT: &str = "shop";

/// How many workflows the runs are of.
pub const WORKFLOWS: u64 = 10;

/// How many transitions a lifecycle has.
pub const TRANSITIONS: usize = 10;

/// How many bytes a payload has unless another size is asked for.
pub const PAYLOAD_BYTES: usize = 310;

/// 2026-01-05T00:00:00Z, where all times begin, in microseconds.
const EPOCH_US: i64 = 1_767_571_200_000_000;

/// How long a lease is.
const LEASE_SECONDS: i64 = 60;

/// How ids of runs follow each other. Both are common, and trees like the first one better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdKind {
    /// The later, the greater, as in UUID 7.
    Growing,
    /// In no order, as in UUID 4.
    Random,
}

/// Spreads numbers over all 64 bits, the same way every time.
pub fn mix(n: u64) -> u64 {
    let mut bits = n.wrapping_add(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

/// An instant so many microseconds after all times begin.
pub fn time(after_us: i64) -> Time {
    Time::MIN.plus_us(EPOCH_US - Time::MIN.unix_us() + after_us)
}

/// The name of a workflow.
pub fn workflow(n: u64) -> String {
    format!("order-fulfilment-{}", n % WORKFLOWS)
}

/// A JSON object of about so many bytes, unlike any other.
pub fn json(n: u64, part: u64, bytes: usize) -> String {
    let noise = mix(n ^ part << 56);
    let mut text = format!(
        r#"{{"order":{n},"part":{part},"customer":{{"id":"c-{:06x}","country":"CH","since":"2021-04-0{}"}},"items":[{{"sku":"A-{:04}","quantity":{},"price":{}.{:02}}}],"paid":{},"note":""#,
        noise & 0xff_ffff,
        1 + noise % 9,
        noise % 10_000,
        1 + noise % 7,
        noise % 300,
        noise % 100,
        noise.is_multiple_of(2),
    );
    let end = r#""}"#;
    while text.len() + end.len() < bytes {
        let left = bytes - text.len() - end.len();
        let words = "the customer asked for delivery before noon, else to the neighbour; ";
        text.push_str(&words[..left.min(words.len())]);
    }
    text.push_str(end);
    text
}

/// A payload of [`json`].
///
/// # Errors
/// None, as long as [`json`] makes JSON.
pub fn payload(n: u64, part: u64, bytes: usize) -> Result<Payload> {
    Ok(Payload::from_json(json(n, part, bytes))?)
}

/// Makes the commands of a workload, each run another one.
#[derive(Debug)]
pub struct Maker {
    /// The project of the runs.
    pub project: &'static str,
    /// How their ids follow each other.
    pub ids: IdKind,
    /// The size of what runs are given.
    pub input_bytes: usize,
    /// The size of all other payloads.
    pub payload_bytes: usize,
    /// What the commands answer.
    pub answer: AnswerForm,
    next: AtomicU64,
}

impl Maker {
    /// With payloads of the common size and whole records as answers.
    pub fn new(ids: IdKind) -> Maker {
        Maker {
            project: PROJECT,
            ids,
            input_bytes: PAYLOAD_BYTES,
            payload_bytes: PAYLOAD_BYTES,
            answer: AnswerForm::Record,
            next: AtomicU64::new(1),
        }
    }

    /// With another size of all payloads.
    #[must_use]
    pub fn with_payload_bytes(mut self, bytes: usize) -> Maker {
        (self.input_bytes, self.payload_bytes) = (bytes, bytes);
        self
    }

    /// Begins with another run, so that two makers never make the same one.
    #[must_use]
    pub fn starting_at(self, n: u64) -> Maker {
        self.next.store(n, Ordering::Relaxed);
        self
    }

    fn take(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// The id of a run, of 20 characters.
    pub fn run_id(&self, n: u64) -> String {
        let noise = mix(n) >> 16;
        match self.ids {
            IdKind::Growing => format!("{n:08x}{noise:012x}"),
            IdKind::Random => format!("{:08x}{noise:012x}", mix(noise) >> 32),
        }
    }

    fn queue(&self, n: u64) -> Result<QueueRun> {
        let run = QueueRun::new(self.project, self.run_id(n), workflow(n), payload(n, 0, self.input_bytes)?);
        Ok(run.with_queued_at(at(n, 0)).with_answer(self.answer))
    }

    fn start(&self, n: u64) -> Result<StartRun> {
        let run = StartRun::new(self.project, self.run_id(n), workflow(n), payload(n, 1, self.input_bytes)?);
        Ok(run.with_started_at(at(n, 1)).with_execution(execution(n)).with_answer(self.answer))
    }

    /// The ten transitions of one run, in their order: queued, started with a token and a lease, three node runs started
    /// and finished, the lease confirmed, finished.
    ///
    /// # Errors
    /// As [`payload`].
    pub fn lifecycle(&self) -> Result<Vec<Command>> {
        let n = self.take();
        let mut commands = Vec::with_capacity(TRANSITIONS);
        commands.push(self.queue(n)?.into());
        commands.push(self.start(n)?.into());
        for step in 0..3 {
            commands.extend(self.node(n, step, "http")?);
        }
        commands.push(self.confirm(n, 20).into());
        let finish = FinishRun::new(self.project, self.run_id(n), EndStatus::Succeeded);
        let finish = finish.with_output(payload(n, 9, self.payload_bytes)?).with_finished_at(at(n, 9));
        commands.push(finish.with_execution_token(token(n)).with_answer(self.answer).into());
        Ok(commands)
    }

    fn node(&self, n: u64, step: u32, kind: &str) -> Result<[Command; 2]> {
        let part = u64::from(step);
        let id = format!("{}-{step}", self.run_id(n));
        let (node, key) = (format!("step-{step}"), format!("step-key-{step}"));
        let input = payload(n, 2 + part, self.payload_bytes)?;
        let start = StartNode::new(self.project, id.as_str(), self.run_id(n), workflow(n), step, kind, node, key, input);
        let start = start.with_started_at(at(n, 2 + i64::from(step))).with_execution_token(token(n)).with_answer(self.answer);
        let finish = FinishNode::new(self.project, id, EndStatus::Succeeded).with_output(payload(n, 5 + part, self.payload_bytes)?);
        let finish = finish.with_finished_at(at(n, 5)).with_execution_token(token(n)).with_answer(self.answer);
        Ok([start.into(), finish.into()])
    }

    fn confirm(&self, n: u64, seconds: i64) -> ConfirmRun {
        let end = at(n, 1).plus_seconds(LEASE_SECONDS + seconds);
        ConfirmRun::new(self.project, self.run_id(n), token(n), end).with_answer(self.answer)
    }

    /// Ten lifecycles, a step at a time over all of them: a batch of 100.
    ///
    /// # Errors
    /// As [`payload`].
    pub fn hundred(&self) -> Result<Vec<Command>> {
        let lives = (0..10).map(|_| self.lifecycle()).collect::<Result<Vec<_>>>()?;
        let mut lives: Vec<_> = lives.into_iter().map(VecDeque::from).collect();
        let mut commands = Vec::with_capacity(10 * TRANSITIONS);
        for _ in 0..TRANSITIONS {
            commands.extend(lives.iter_mut().filter_map(VecDeque::pop_front));
        }
        Ok(commands)
    }

    /// A run that runs, and its number.
    ///
    /// # Errors
    /// As [`payload`].
    pub fn running(&self) -> Result<(u64, Command)> {
        let n = self.take();
        Ok((n, self.start(n)?.into()))
    }

    /// A heartbeat of a running run, its lease to end so many seconds later than at first.
    pub fn heartbeat(&self, n: u64, seconds: i64) -> Command {
        self.confirm(n, seconds).into()
    }

    /// A run that waits in the queue, and its number.
    ///
    /// # Errors
    /// As [`payload`].
    pub fn queued(&self) -> Result<(u64, Command)> {
        let n = self.take();
        Ok((n, self.queue(n)?.into()))
    }

    /// The start of a run that was queued.
    ///
    /// # Errors
    /// As [`payload`].
    pub fn start_queued(&self, n: u64) -> Result<Command> {
        Ok(self.start(n)?.into())
    }

    /// A claim of whatever run is next.
    pub fn claim(&self) -> Command {
        let n = self.take();
        ClaimRun::new(self.project, execution(n)).with_started_at(at(n, 1)).with_answer(self.answer).into()
    }

    /// The end of a run that was claimed or started with this token.
    ///
    /// # Errors
    /// As [`payload`].
    pub fn finish(&self, run: &str, token: &str) -> Result<Command> {
        let finish = FinishRun::new(self.project, run, EndStatus::Succeeded).with_output(payload(1, 9, self.payload_bytes)?);
        Ok(finish.with_execution_token(token).with_answer(self.answer).into())
    }

    /// An agent's work, after what it needs: a run and a node run of type `agent` that run.
    ///
    /// # Errors
    /// As [`payload`].
    pub fn agent(&self) -> Result<(Vec<Command>, Vec<Command>)> {
        let n = self.take();
        let [node, _] = self.node(n, 0, "agent")?;
        let id = format!("{}-0", self.run_id(n));
        let create = CreateAgent::new(self.project, id.as_str(), format!("agent-{}", n % 10), json(n, 3, self.payload_bytes));
        let create = create.with_created_at(at(n, 3)).with_execution_token(token(n)).with_answer(self.answer);
        let start = StartAgent::new(self.project, id.as_str(), execution(n)).with_started_at(at(n, 4)).with_answer(self.answer);
        let end = at(n, 1).plus_seconds(LEASE_SECONDS + 20);
        let confirm = ConfirmAgent::new(self.project, id.as_str(), token(n), end).with_answer(self.answer);
        let finish = FinishAgent::new(self.project, id, token(n), EndStatus::Succeeded).with_completed_at(at(n, 9));
        let finish = finish.with_usage(payload(n, 4, 80)?).with_trace(payload(n, 5, self.payload_bytes)?).with_answer(self.answer);
        Ok((vec![self.start(n)?.into(), node], vec![create.into(), start.into(), confirm.into(), finish.into()]))
    }

    /// A run as it stands in a ledger of some age, with what led there: one of 100 failed, most succeeded, few are active.
    ///
    /// # Errors
    /// As [`payload`].
    pub fn aged(&self) -> Result<Vec<Command>> {
        let n = self.take();
        let (id, began) = (self.run_id(n), time(n as i64 * 1_000_000));
        let input = payload(n, 0, self.input_bytes)?;
        let kind = mix(n ^ 0x5eed) % 1000;
        if kind < 2 {
            let queue = QueueRun::new(self.project, id, workflow(n), input).with_queued_at(began);
            return Ok(vec![queue.with_answer(AnswerForm::State).into()]);
        }
        let start = StartRun::new(self.project, id.as_str(), workflow(n), input).with_started_at(began);
        let execution = Execution::new(token(n), began.plus_seconds(LEASE_SECONDS));
        let mut commands = vec![Command::from(start.with_execution(execution).with_answer(AnswerForm::State))];
        let ended = began.plus_seconds(30);
        let finish = |status| {
            let finish = FinishRun::new(self.project, id.as_str(), status).with_finished_at(ended).with_execution_token(token(n));
            finish.with_answer(AnswerForm::State)
        };
        match kind {
            2..5 => {}
            5..7 => {
                let wait = WaitRun::new(self.project, id.as_str()).with_waiting_at(ended).with_execution_token(token(n));
                commands.push(wait.with_answer(AnswerForm::State).into());
            }
            7..17 => commands.push(finish(EndStatus::Failed).with_error("the courier refused the parcel").into()),
            17..22 => commands.push(finish(EndStatus::Cancelled).with_error("stopped by the operator").into()),
            _ => commands.push(finish(EndStatus::Succeeded).with_output(payload(n, 9, self.payload_bytes)?).into()),
        }
        Ok(commands)
    }
}

/// A moment in the life of a run.
fn at(n: u64, step: i64) -> Time {
    time(n as i64 * 1000 + step * 1_000_000)
}

/// The token of the owner of a run.
pub fn token(n: u64) -> String {
    format!("worker-{n:010x}")
}

fn execution(n: u64) -> Execution {
    Execution::new(token(n), at(n, 1).plus_seconds(LEASE_SECONDS))
}
