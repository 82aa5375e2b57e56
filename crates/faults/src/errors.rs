//! Every operation of the engine fails in turn.

use std::collections::BTreeMap;
use std::fmt;

use runledger_core::{Code, CompactStore, Error, GetRun, Id, Ledger, Mode, Payload, QueueRun, Snapshot, VerifyStore};

use crate::workload::{code_of, essence};
use crate::{Disk, Event, Failure, Fate, Fault, Floor, Op, Plant, Rig, Site, Unit, Workload, model, state_of};

/// What came of it.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// The runs of the workload, each with a fault of its own.
    pub runs: usize,
    /// The operations that failed.
    pub injected: usize,
    /// How often a store had to be opened again.
    pub reopened: usize,
    /// How often an open failed.
    pub refused_opens: usize,
    /// The answers that were errors, by their code.
    pub answers: BTreeMap<&'static str, usize>,
    /// What must not be.
    pub violations: Vec<String>,
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Tally { runs, injected, reopened, refused_opens, answers, violations } = self;
        write!(f, "{runs} runs, {injected} operations failed, {reopened} reopened, {refused_opens} opens refused, ")?;
        write!(f, "answers {answers:?}, {} violations", violations.len())
    }
}

/// What is to fail, and what then.
#[derive(Clone, Copy, Debug)]
pub struct Plan<'p> {
    /// The operations.
    pub ops: &'p [Op],
    /// In how many ways each of them fails; the ways take turns.
    pub ways: usize,
    /// Whether the process is killed, rather than the store closed, when it must be reopened.
    pub kills: bool,
    /// How the layer below is broken.
    pub plant: Plant,
    /// After how many violations to stop.
    pub violations: usize,
}

impl<'p> Plan<'p> {
    /// Each of these operations fails, in one way or in all.
    pub fn of(ops: &'p [Op]) -> Plan<'p> {
        let ways = if crate::is_long() { usize::MAX } else { 1 };
        Plan { ops, ways, kills: false, plant: Plant::Nothing, violations: 5 }
    }

    fn faults(self, op: Op, count: usize) -> impl Iterator<Item = Fault> {
        let failures = failures(op);
        let ways = failures.iter().flat_map(|failure| [false, true].map(|stays| (*failure, stays)));
        // The engine itself waits ten seconds for shared locks that nobody gives up.
        let ways: Vec<_> = ways.filter(|way| (op, *way) != (Op::SharedLock, (Failure::Busy, true))).collect();
        (0..count).flat_map(move |nth| {
            let ways = ways.clone();
            (0..self.ways.min(ways.len())).map(move |way| {
                let (failure, stays) = ways[(nth + way) % ways.len()];
                Fault { op, nth, failure, stays }
            })
        })
    }
}

/// How an operation can fail.
fn failures(op: Op) -> &'static [Failure] {
    match op {
        Op::Write => &[Failure::Full, Failure::Io, Failure::ShortFull, Failure::ShortIo],
        Op::SetLen | Op::SharedMap => &[Failure::Full, Failure::Io],
        Op::Lock | Op::SharedLock => &[Failure::Busy, Failure::Io],
        _ => &[Failure::Io],
    }
}

/// Has each operation fail in turn.
pub fn try_all(rig: &dyn Rig, workload: &Workload, plan: Plan<'_>) -> Tally {
    let mut tally = Tally::default();
    let counts = {
        let mut run = Run::new(rig, workload, None, plan, &mut tally);
        run.all().unwrap_or_else(|what| panic!("{} without a fault: {what}", rig.name()));
        run.site.watch().counts()
    };
    tally = Tally::default();
    for fault in plan.ops.iter().flat_map(|op| plan.faults(*op, counts.get(op).copied().unwrap_or(0))) {
        tally.runs += 1;
        let mut run = Run::new(rig, workload, Some(fault), plan, &mut tally);
        let outcome = run.all();
        run.injected += run.site.watch().fired();
        run.tally.injected += run.injected;
        if let Err(what) = outcome {
            tally.violations.push(format!("{} with {fault:?}: {what}", rig.name()));
            if tally.violations.len() >= plan.violations {
                break;
            }
        }
    }
    tally
}

/// Has operations fail while several threads use one handle: each queues runs of its own and reads them back. Answers
/// how many runs were acknowledged.
pub fn try_threads(rig: &dyn Rig, fault: Fault, runs: usize) -> Result<usize, String> {
    let files = rig.fresh();
    let site = rig.site(&files);
    let ledger = site.open(&rig.options()).map_err(|error| error.to_string())?;
    site.watch().arm(Some(fault));
    let work = |thread: usize| {
        let (mut acknowledged, mut refused) = (Vec::new(), Vec::new());
        for number in 0..runs {
            let run = QueueRun::new("p", format!("{thread}-{number}"), "w", Payload::from_json("1").expect("1 is JSON"));
            let id = run.id.clone();
            let queued = ledger.queue_run(run);
            let is_acknowledged = queued.is_ok();
            match queued {
                Ok(_) => acknowledged.push(id.clone()),
                Err(error) => refused.push((id.clone(), error.code())),
            }
            match ledger.get_run(GetRun::new("p", id)) {
                Ok(found) if found.is_some() != is_acknowledged => {
                    return Err("a run is there and was refused, or is not and was acknowledged".to_owned());
                }
                Ok(_) => {}
                Err(error) if matches!(error.code(), Code::Io | Code::Full | Code::Busy) => {}
                Err(error) => return Err(error.to_string()),
            }
        }
        Ok((acknowledged, refused))
    };
    let done: Vec<_> = std::thread::scope(|scope| {
        let work = &work;
        let threads: Vec<_> = (0..4).map(|thread| scope.spawn(move || work(thread))).collect();
        threads.into_iter().map(|thread| thread.join().expect("a thread that panics is a defect")).collect()
    });
    site.watch().mend();
    let _ = ledger.close();
    let ledger = site.open(&rig.options()).map_err(|error| error.to_string())?;
    let mut count = 0;
    for outcome in done {
        let (acknowledged, refused) = outcome?;
        count += acknowledged.len();
        let is_there = |id: &Id| ledger.get_run(GetRun::new("p", id.clone())).map(|run| run.is_some()).map_err(|error| error.to_string());
        for id in &acknowledged {
            is_there(id)?.then_some(()).ok_or_else(|| format!("run {id} was acknowledged and is not there"))?;
        }
        for (id, code) in &refused {
            // Where it was io its flush may have failed, and then nobody knows.
            if *code != Code::Io && is_there(id)? {
                return Err(format!("run {id} was refused ({code}) and is there"));
            }
        }
    }
    let report = ledger.verify_store(VerifyStore::new()).map_err(|error| error.to_string())?;
    if report.is_ok() { Ok(count) } else { Err(format!("verify: {:?}", report.problems)) }
}

/// After how many failures a fault that stays is mended.
const FAILURES_UNTIL_MENDED: usize = 3;

type Outcome<T> = Result<T, String>;

/// One run of the workload.
struct Run<'r> {
    rig: &'r dyn Rig,
    site: Box<dyn Site>,
    workload: &'r Workload,
    fault: Option<Fault>,
    plan: Plan<'r>,
    injected: usize,
    /// What was acknowledged.
    model: Ledger,
    /// Requests that may have taken effect: the flush that would have said so failed.
    unknown: Vec<String>,
    failures: usize,
    /// What belonged to processes that were killed.
    dead: Vec<(Ledger, Box<dyn Site>)>,
    tally: &'r mut Tally,
}

impl<'r> Run<'r> {
    fn new(rig: &'r dyn Rig, workload: &'r Workload, fault: Option<Fault>, plan: Plan<'r>, tally: &'r mut Tally) -> Self {
        let files = rig.fresh();
        let site = rig.site(&files);
        site.watch().record(&files);
        site.watch().arm(fault);
        site.watch().plant(plan.plant);
        Run { rig, site, workload, fault, plan, injected: 0, model: model(), unknown: Vec::new(), failures: 0, dead: Vec::new(), tally }
    }

    fn all(&mut self) -> Outcome<()> {
        let mut ledger = self.open()?;
        let workload = self.workload;
        for unit in &workload.units {
            let failed = match unit {
                Unit::Checkpoint => {
                    self.site.checkpoint();
                    false
                }
                Unit::Compact => match ledger.compact_store(CompactStore::new()) {
                    Ok(_) => false,
                    Err(error) => self.note_error(&error).map(|()| true)?,
                },
                Unit::Reopen => {
                    self.close(&ledger)?;
                    drop(ledger);
                    ledger = self.open()?;
                    self.check_reopened(&ledger)?;
                    false
                }
                Unit::One(_) | Unit::Group(_) => self.requests(&ledger, unit)?,
            };
            if failed {
                ledger = self.after_failure(ledger)?;
            }
            self.site.acknowledge();
        }
        self.at_end(ledger)
    }

    /// The codes that an error from below may have.
    fn allowed(&self) -> &'static [Code] {
        match self.fault.map(|fault| (fault.op, fault.failure)) {
            None => &[],
            Some((Op::SetLen, Failure::Full)) => &[Code::Full, Code::Io],
            Some((_, Failure::Full | Failure::ShortFull)) => &[Code::Full],
            // A lock that can't be given up is in everybody's way.
            Some((Op::Unlock, _)) => &[Code::Io, Code::Busy],
            Some((_, Failure::Io | Failure::ShortIo)) => &[Code::Io],
            Some((_, Failure::Busy)) => &[Code::Busy, Code::Locked],
        }
    }

    fn note_error(&mut self, error: &Error) -> Outcome<()> {
        self.note(error.code().as_str(), error.message())
    }

    fn note(&mut self, code: &str, message: &str) -> Outcome<()> {
        let code = self.allowed().iter().find(|allowed| allowed.as_str() == code).ok_or_else(|| format!("answered {code}: {message}"))?;
        *self.tally.answers.entry(code.as_str()).or_default() += 1;
        if matches!(code, Code::Io | Code::Full) && !message.contains(self.rig.cause()) {
            return Err(format!("the answer has no cause: {code}: {message}"));
        }
        self.failures += 1;
        if self.failures >= FAILURES_UNTIL_MENDED {
            self.site.watch().mend();
        }
        Ok(())
    }

    fn open(&mut self) -> Outcome<Ledger> {
        loop {
            match self.site.open(&self.rig.options()) {
                Ok(ledger) => return Ok(ledger),
                Err(error) => {
                    self.tally.refused_opens += 1;
                    self.note_error(&error).map_err(|what| format!("an open {what}"))?;
                }
            }
        }
    }

    /// To close may fail; what was acknowledged must last all the same.
    fn close(&mut self, ledger: &Ledger) -> Outcome<()> {
        match ledger.close() {
            Ok(()) => Ok(()),
            Err(error) => self.note_error(&error).map_err(|what| format!("a close {what}")),
        }
    }

    /// Says whether any was refused for what happened below.
    fn requests(&mut self, ledger: &Ledger, unit: &Unit) -> Outcome<bool> {
        let answers = unit.carry_out(ledger).unwrap_or_default();
        let mut failed = false;
        for (request, answer) in unit.requests().iter().zip(answers) {
            let code = code_of(&answer).and_then(Code::from_name);
            if matches!(code, Some(Code::Full | Code::Io | Code::Busy | Code::Locked | Code::Corrupt | Code::Internal | Code::ReadOnly)) {
                self.note(code.map_or("", Code::as_str), &answer)?;
                self.unknown.push(request.clone());
                failed = true;
                continue;
            }
            let expected = self.model.call_json(request);
            if essence(&answer) != essence(&expected) {
                return Err(format!("{request} is answered {answer}, not {expected}"));
            }
        }
        Ok(failed)
    }

    /// Reads go on, or the store says that it must be reopened.
    fn after_failure(&mut self, ledger: Ledger) -> Outcome<Ledger> {
        let expected = state_of(&self.model).map_err(|error| error.to_string())?;
        let is_felt_by_reads = |fault: Fault| self.rig.reads_may_write() || !matches!(fault.op, Op::Write | Op::SetLen | Op::Sync);
        let fault_is_on_reads = self.fault.is_some_and(is_felt_by_reads);
        let only_full =
            self.fault.is_some_and(|fault| fault.op == Op::Write && matches!(fault.failure, Failure::Full | Failure::ShortFull));
        for attempt in 0.. {
            match state_of(&ledger) {
                Ok(state) if state == expected => {
                    // While every write fails nothing can be undone, should one have reached the file all the same.
                    if !self.site.watch().is_armed() || !self.fault.is_some_and(|fault| fault.stays) {
                        self.unknown.clear();
                    }
                    return Ok(ledger);
                }
                Ok(_) => return Err("it does not hold what was acknowledged, and nothing else, after a failure".into()),
                Err(error) if error.code() == Code::Io && error.message().contains("reopen") => break,
                Err(error) if fault_is_on_reads && attempt < FAILURES_UNTIL_MENDED => self.note_error(&error)?,
                Err(error) => return Err(format!("a read does not go on: {error}")),
            }
        }
        if only_full {
            return Err("a full disk alone makes it be reopened".into());
        }
        if self.plan.kills {
            self.kill(ledger);
        } else {
            self.close(&ledger)?;
        }
        self.tally.reopened += 1;
        let ledger = self.open()?;
        self.check_reopened(&ledger)?;
        Ok(ledger)
    }

    /// The process is gone; the files are there as the system shows them, and on the disk as they are there.
    fn kill(&mut self, ledger: Ledger) {
        let recording = self.site.watch().recording();
        let (mut shown, mut durable) = (Disk::new(&recording.base), Disk::new(&recording.base));
        for event in &recording.events {
            durable.pass(event);
            if !matches!(event, Event::LostSync { .. }) {
                shown.pass(event);
            }
        }
        self.injected += self.site.watch().fired();
        let site = self.rig.site(&shown.image(|_| Fate::Kept, false));
        site.watch().record(&durable.image(|_| Fate::Dropped, false));
        if self.site.watch().is_armed() && self.fault.is_some_and(|fault| fault.stays) {
            site.watch().arm(self.fault.map(|fault| Fault { nth: 0, ..fault }));
        }
        // What was left open must not be closed while anybody could see it.
        self.dead.push((ledger, std::mem::replace(&mut self.site, site)));
    }

    /// After an open the store holds what was acknowledged, and a command whose own flush failed wholly or not at all.
    fn check_reopened(&mut self, ledger: &Ledger) -> Outcome<()> {
        let mut found = state_of(ledger);
        for _ in 0..FAILURES_UNTIL_MENDED {
            let Err(error) = &found else { break };
            self.note_error(error)?;
            found = state_of(ledger);
        }
        let found = found.map_err(|error| format!("a read does not go on after an open: {error}"))?;
        let unknown = std::mem::take(&mut self.unknown);
        let acknowledged = state_of(&self.model).map_err(|error| error.to_string())?;
        let with = |requests: &[String]| {
            let other = model();
            other.restore(&Snapshot::from_bytes(acknowledged.clone())).expect("the model's own state can be restored");
            requests.iter().for_each(|request| drop(other.call_json(request)));
            other
        };
        let candidates = [&[][..], &unknown].into_iter().chain(unknown.iter().map(std::slice::from_ref));
        for candidate in candidates {
            let other = with(candidate);
            if state_of(&other).is_ok_and(|state| state == found) {
                self.model = other;
                return Ok(());
            }
        }
        Err("it does not hold what was acknowledged after an open".into())
    }

    /// The fault is over: the store works, and so does what is left when power fails now.
    fn at_end(&mut self, ledger: Ledger) -> Outcome<()> {
        self.site.watch().mend();
        let request =
            r#"{"op":"runs.start","projectId":"p","id":"at the end","workflowId":"w1","input":1,"startedAt":"2026-02-01T00:00:00Z"}"#;
        let expected = self.model.call_json(request);
        let mut ledger = ledger;
        let mut answer = ledger.call_json(request);
        if answer != expected {
            // The last unit may have left a handle that must be reopened.
            self.note(code_of(&answer).unwrap_or_default(), &answer)?;
            self.close(&ledger)?;
            drop(ledger);
            ledger = self.open()?;
            answer = ledger.call_json(request);
        }
        if answer != expected {
            return Err(format!("the fault is over, and a command is answered {answer}"));
        }
        self.site.acknowledge();
        let state = state_of(&self.model).map_err(|error| error.to_string())?;
        if state_of(&ledger).map_err(|error| format!("the fault is over: {error}"))? != state {
            return Err("it does not hold what was acknowledged at the end".into());
        }
        let report = ledger.verify_store(VerifyStore::new()).map_err(|error| format!("it can't be verified: {error}"))?;
        if !report.is_ok() {
            return Err(format!("verify: {:?}", report.problems));
        }
        self.check_power_loss(&state)?;
        ledger.close().map_err(|error| format!("the fault is over, and it does not close: {error}"))?;
        drop(ledger);
        let ledger = self.site.open(&self.rig.options()).map_err(|error| format!("the fault is over: {error}"))?;
        if state_of(&ledger).is_ok_and(|found| found == state) { Ok(()) } else { Err("what was acknowledged is lost at the end".into()) }
    }

    fn check_power_loss(&self, state: &[u8]) -> Outcome<()> {
        if self.rig.floor() != Floor::Acknowledged {
            return Ok(());
        }
        let recording = self.site.watch().recording();
        let mut disk = Disk::new(&recording.base);
        recording.events.iter().for_each(|event| disk.pass(event));
        for fate in [Fate::Dropped, Fate::Kept] {
            let site = self.rig.site(&disk.image(|_| fate, false));
            let ledger = site.open(&self.rig.options().with_mode(Mode::Existing)).map_err(|error| format!("after power loss: {error}"))?;
            if state_of(&ledger).map_err(|error| format!("after power loss: {error}"))? != state {
                return Err(format!("what was acknowledged is lost with the power (what was not flushed is {fate:?})"));
            }
        }
        Ok(())
    }
}
