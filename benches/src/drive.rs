//! Callers: one, threads, tasks, batches. Each carries out commands that were made ahead.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use runledger::{AsyncLedger, Command, Ledger, Request};
use tokio::runtime::Runtime;

use crate::Result;
use crate::measure::{Sample, histogram};

/// A clock, and that of the processor, both of which run only while there is work.
#[derive(Default)]
struct Watch {
    elapsed: Duration,
    busy: Duration,
}

impl Watch {
    fn time<T>(&mut self, work: impl FnOnce() -> T) -> T {
        let (busy, began) = (busy(), Instant::now());
        let done = work();
        self.elapsed += began.elapsed();
        self.busy += self::busy() - busy;
        done
    }

    fn sample(self, count: u64) -> Sample {
        Sample { count, elapsed: self.elapsed, busy: Some(self.busy), latency: None }
    }
}

/// How long the processor has worked for this thread.
fn busy() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}

/// How many commands are made at a time, about. So few that those of a memory store are still in the processor's cache.
const MADE_AHEAD: usize = 200;

/// One caller: makes some work, does it with the clock running, and so on.
///
/// # Errors
/// That of making or doing it.
pub fn alone<W>(each: Duration, mut make: impl FnMut() -> Result<Vec<W>>, mut call: impl FnMut(W) -> Result<()>) -> Result<Sample> {
    let (mut count, mut watch) = (0, Watch::default());
    let mut made = Vec::with_capacity(2 * MADE_AHEAD);
    while watch.elapsed < each {
        while made.len() < MADE_AHEAD {
            made.extend(make()?);
        }
        count += made.len() as u64;
        watch.time(|| made.drain(..).try_for_each(&mut call))?;
    }
    Ok(watch.sample(count))
}

/// The same, with a look at the clock after every call.
///
/// # Errors
/// As [`alone`].
pub fn alone_watched<W>(each: Duration, make: impl FnMut() -> Result<Vec<W>>, mut call: impl FnMut(W) -> Result<()>) -> Result<Sample> {
    let mut latency = histogram()?;
    let sample = alone(each, make, |work| {
        let began = Instant::now();
        call(work)?;
        latency.saturating_record(began.elapsed().as_nanos() as u64);
        Ok(())
    })?;
    Ok(Sample { latency: Some(latency), ..sample })
}

/// Carries out a command.
///
/// # Errors
/// Its refusal: every workload succeeds.
pub fn command(ledger: &Ledger, command: Command) -> Result<()> {
    ledger.request(Request::Command(command))?;
    Ok(())
}

/// Makes the work of several callers, each as much as it may get done. They take turns with a lifecycle each, so that ids
/// which grow do so with the time at which they are used, whoever uses them.
///
/// # Errors
/// That of making it.
pub fn make_for(
    callers: usize,
    each: Duration,
    most_per_second: f64,
    make: impl Fn() -> Result<Vec<Command>>,
) -> Result<Vec<Vec<Command>>> {
    let wanted = (most_per_second * each.as_secs_f64() / callers as f64) as usize + 200;
    let mut all = vec![Vec::with_capacity(wanted + 10); callers];
    while all[0].len() < wanted {
        for commands in &mut all {
            commands.extend(make()?);
        }
    }
    Ok(all)
}

/// Threads that each carry out their commands in turn, for as long as told.
///
/// # Errors
/// The first refusal; or a thread had no work left, so that the figure would be too small.
pub fn threads(each: Duration, work: Vec<Vec<Command>>, call: impl Fn(Command) -> Result<()> + Sync) -> Result<Sample> {
    let (ready, stop) = (Barrier::new(work.len() + 1), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let callers: Vec<_> = work.into_iter().map(|commands| scope.spawn(|| caller(commands, &ready, &stop, &call))).collect();
        ready.wait();
        let began = Instant::now();
        std::thread::sleep(each);
        stop.store(true, Ordering::Relaxed);
        let (mut count, mut latency) = (0, histogram()?);
        for caller in callers {
            let (own_count, own_latency) = caller.join().map_err(|_| "a caller panicked")??;
            count += own_count;
            latency.add(own_latency)?;
        }
        Ok(Sample { count, elapsed: began.elapsed(), busy: None, latency: Some(latency) })
    })
}

fn caller(
    commands: Vec<Command>,
    ready: &Barrier,
    stop: &AtomicBool,
    call: &impl Fn(Command) -> Result<()>,
) -> Result<(u64, Histogram<u64>)> {
    let (mut count, mut latency) = (0, histogram()?);
    ready.wait();
    for command in commands {
        let began = Instant::now();
        call(command)?;
        latency.saturating_record(began.elapsed().as_nanos() as u64);
        count += 1;
        if stop.load(Ordering::Relaxed) {
            return Ok((count, latency));
        }
    }
    Err(OUT_OF_WORK.into())
}

const OUT_OF_WORK: &str = "a caller ran out of work that was made ahead";

/// Threads that each make some work and then do it, all at the same time, with the clock running only while they do it.
/// What is made elsewhere, or long before, would be fetched and freed at a price that has nothing to do with the ledger.
///
/// # Errors
/// That of making or doing it; or a thread panicked.
pub fn side_by_side<M>(each: Duration, makers: Vec<M>, call: impl Fn(Command) -> Result<()> + Sync) -> Result<Sample>
where
    M: FnMut() -> Result<Vec<Command>> + Send,
{
    let threads = makers.len();
    let (together, stop) = (&Barrier::new(threads), &AtomicBool::new(false));
    let work = |mut make: M| {
        let (mut count, mut watch) = (0, Watch::default());
        let mut failed = None;
        while !stop.load(Ordering::Relaxed) {
            let mut made = Vec::with_capacity(20 * MADE_AHEAD);
            while made.len() < 10 * MADE_AHEAD && failed.is_none() {
                make().map_or_else(|error| failed = Some(error), |commands| made.extend(commands));
            }
            count += made.len() as u64;
            together.wait();
            let done = watch.time(|| made.into_iter().try_for_each(&call));
            failed = failed.take().or(done.err());
            if failed.is_some() || watch.elapsed >= each {
                stop.store(true, Ordering::Relaxed);
            }
            // Nobody looks whether to stop before everybody could say so.
            together.wait();
        }
        failed.map_or(Ok((count, watch.elapsed)), Err)
    };
    std::thread::scope(|scope| {
        let work = &work;
        let workers: Vec<_> = makers.into_iter().map(|make| scope.spawn(move || work(make))).collect();
        let (mut count, mut elapsed) = (0, Duration::ZERO);
        for worker in workers {
            let (own_count, own_elapsed) = worker.join().map_err(|_| "a thread panicked")??;
            count += own_count;
            elapsed += own_elapsed / threads as u32;
        }
        Ok(Sample { count, elapsed, busy: None, latency: None })
    })
}

/// Tasks that each carry out their commands in turn, for as long as told.
///
/// # Errors
/// As [`threads`].
pub fn tasks(runtime: &Runtime, ledger: &AsyncLedger, each: Duration, work: Vec<Vec<Command>>) -> Result<Sample> {
    runtime.block_on(async {
        let began = Instant::now();
        let tasks: Vec<_> = work.into_iter().map(|commands| runtime.spawn(task(ledger.clone(), commands, began + each))).collect();
        let (mut count, mut latency) = (0, histogram()?);
        for task in tasks {
            let (own_count, own_latency) = task.await??;
            count += own_count;
            latency.add(own_latency)?;
        }
        Ok(Sample { count, elapsed: began.elapsed(), busy: None, latency: Some(latency) })
    })
}

async fn task(ledger: AsyncLedger, commands: Vec<Command>, end: Instant) -> Result<(u64, Histogram<u64>)> {
    let (mut count, mut latency) = (0, histogram()?);
    for command in commands {
        let began = Instant::now();
        ledger.request(Request::Command(command)).await?;
        let now = Instant::now();
        latency.saturating_record((now - began).as_nanos() as u64);
        count += 1;
        if now >= end {
            return Ok((count, latency));
        }
    }
    Err(OUT_OF_WORK.into())
}

/// One caller that hands over 100 commands at a time.
///
/// # Errors
/// As [`alone`].
pub fn batches<B>(each: Duration, mut make: impl FnMut() -> Result<B>, mut call: impl FnMut(B) -> Result<()>) -> Result<Sample> {
    let sample = alone_few(each, 5, &mut make, &mut call)?;
    Ok(Sample { count: sample.count * 100, ..sample })
}

/// [`alone`] for work of which little is made at a time.
///
/// # Errors
/// As [`alone`].
pub fn alone_few<W>(
    each: Duration,
    few: usize,
    mut make: impl FnMut() -> Result<W>,
    mut call: impl FnMut(W) -> Result<()>,
) -> Result<Sample> {
    let (mut count, mut watch) = (0, Watch::default());
    while watch.elapsed < each {
        let made = (0..few).map(|_| make()).collect::<Result<Vec<_>>>()?;
        count += few as u64;
        watch.time(|| made.into_iter().try_for_each(&mut call))?;
    }
    Ok(watch.sample(count))
}

/// One caller that asks the same question again and again.
///
/// # Errors
/// That of the question.
pub fn asking(each: Duration, mut ask: impl FnMut() -> Result<()>) -> Result<Sample> {
    const AT_A_TIME: u64 = 20;
    let (mut count, mut watch) = (0, Watch::default());
    while watch.elapsed < each {
        watch.time(|| (0..AT_A_TIME).try_for_each(|_| ask()))?;
        count += AT_A_TIME;
    }
    Ok(watch.sample(count))
}

/// Fills a store, a thousand commands at a time.
///
/// # Errors
/// That of making the commands or carrying them out.
pub fn fill(ledger: &Ledger, mut commands: impl Iterator<Item = Result<Command>>) -> Result<()> {
    loop {
        let batch = commands.by_ref().take(runledger::MAX_BATCH).collect::<Result<Vec<_>>>()?;
        if batch.is_empty() {
            return Ok(());
        }
        ledger.batch(batch)?;
    }
}
