//! A worker that renews its leases, one that crashes, and the next one that takes its run over: `cargo run --example worker`.

use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use runledger::{
    ClaimRun, Code, ConfirmRun, EndStatus, Error, Execution, ExpiredRuns, FinishRun, Ledger, Payload, QueueRun, ReclaimRun, Result, Run,
    Time,
};

const PROJECT: &str = "shop";

/// Short, so that the example is quick; in earnest it is some time that a worker may be out of reach without having died.
const LEASE: Duration = Duration::from_millis(300);

fn main() -> Result<()> {
    let ledger = runledger::open("memory:")?;
    let began = Instant::now();
    for id in ["r1", "r2"] {
        ledger.queue_run(QueueRun::new(PROJECT, id, "report", Payload::from_json("{}")?))?;
    }

    // A job that takes longer than the lease: the worker keeps its run, since it renews the lease meanwhile.
    let ada = Worker { name: "ada", ledger: ledger.clone(), began };
    let (done, work) = channel::<()>();
    let adas = thread::spawn(move || ada.claim_and_work(&work));

    // A worker that claims a run and is never heard of again. Its token is kept here to see what became of it.
    let bob = Worker { name: "bob", ledger: ledger.clone(), began };
    let lost = bob.claim()?;
    bob.says(format_args!("crashes with {} in hand", lost.run.id));

    // A third one looks for runs whose lease has ended, and takes them over.
    let cyd = Worker { name: "cyd", ledger: ledger.clone(), began };
    let taken = cyd.take_over_what_expires()?;

    // If the crash was only a long pause, the first owner finds out at its next call, before it does harm.
    match bob.finish(&lost) {
        Err(error) if error.code() == Code::StaleToken => bob.says(format_args!("wakes up and is refused: {error}")),
        other => other?,
    }
    cyd.finish(&taken)?;

    drop(done);
    adas.join().map_err(|_| Error::new(Code::Internal, "ada's thread failed"))??;
    ledger.close()
}

/// A run that a worker owns, and the token that says so.
struct Owned {
    run: Run,
    token: String,
}

struct Worker {
    name: &'static str,
    ledger: Ledger,
    began: Instant,
}

impl Worker {
    fn says(&self, what: std::fmt::Arguments<'_>) {
        println!("{:>4} ms  {} {what}", self.began.elapsed().as_millis(), self.name);
    }

    /// A token must never come twice, so it holds more than the worker's name.
    fn new_token(&self) -> String {
        format!("{}/{}/{}", self.name, std::process::id(), now().unix_us())
    }

    /// Takes the oldest queued run.
    fn claim(&self) -> Result<Owned> {
        let token = self.new_token();
        let claimed = self.ledger.claim_run(ClaimRun::new(PROJECT, Execution::new(&*token, lease_end())))?;
        let run = claimed.ok_or_else(|| Error::new(Code::NotFound, "nothing is queued"))?;
        self.says(format_args!("claimed {}", run.id));
        Ok(Owned { run, token })
    }

    /// Claims a run and works on it, which here is to wait until the sender of `work` is gone. Another thread renews the
    /// lease meanwhile.
    fn claim_and_work(&self, work: &Receiver<()>) -> Result<()> {
        let owned = &self.claim()?;
        let (working, stopped) = channel::<()>();
        thread::scope(|scope| {
            let renewing = scope.spawn(move || self.renew(owned, &stopped));
            let _ended = work.recv();
            drop(working);
            renewing.join().map_err(|_| Error::new(Code::Internal, "the renewal failed"))?
        })?;
        self.finish(owned)
    }

    /// Renews the lease three times in its length, so that one late renewal costs nothing.
    fn renew(&self, owned: &Owned, stopped: &Receiver<()>) -> Result<()> {
        let mut renewals = 0;
        while stopped.recv_timeout(LEASE / 3) == Err(RecvTimeoutError::Timeout) {
            // An error here, `stale_token` above all, means that the run is lost: the worker must stop.
            self.ledger.confirm_run(ConfirmRun::new(PROJECT, &owned.run.id, &owned.token, lease_end()))?;
            renewals += 1;
        }
        self.says(format_args!("renewed its lease on {} {renewals} times", owned.run.id));
        Ok(())
    }

    /// Waits for a lease to end and reclaims its run. The reclaim says by when the lease must have ended: if the owner
    /// renews it in between, the answer is `lease_active`, and of two workers that try, only the first gets the run.
    fn take_over_what_expires(&self) -> Result<Owned> {
        loop {
            let now = now();
            for run in self.ledger.expired_runs(ExpiredRuns::new(now).with_project_id(PROJECT))?.rows {
                let token = self.new_token();
                let reclaim = ReclaimRun::new(PROJECT, &run.id, Execution::new(&*token, lease_end())).with_lease_expired_by(now);
                match self.ledger.reclaim_run(reclaim) {
                    Ok(run) => {
                        self.says(format_args!("took {} over, attempt {}", run.id, run.attempt));
                        return Ok(Owned { run, token });
                    }
                    Err(error) if matches!(error.code(), Code::LeaseActive | Code::InvalidTransition | Code::NotFound) => {}
                    Err(error) => return Err(error),
                }
            }
            thread::sleep(LEASE / 10);
        }
    }

    fn finish(&self, owned: &Owned) -> Result<()> {
        let finish = FinishRun::new(PROJECT, &owned.run.id, EndStatus::Succeeded).with_execution_token(&owned.token);
        let run = self.ledger.finish_run(finish)?;
        self.says(format_args!("finished {}: {} with attempt {}", run.id, run.status, run.attempt));
        Ok(())
    }
}

fn now() -> Time {
    SystemTime::now().into()
}

fn lease_end() -> Time {
    now().plus_us(LEASE.as_micros() as i64)
}
