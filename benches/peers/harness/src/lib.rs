//! What every store that is compared does the same way: it is a process that says what it can be measured at, and then takes
//! turns as it is told, a line of JSON for each.
//!
//! A process for each, because Cargo allows one package in a program that links SQLite, and every store wants another version.

use std::future::Future;
use std::io::{BufRead, Write};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tokio::runtime::Runtime;

/// Any error ends a measurement: a figure of work that failed would be none.
pub type Result<T, E = Box<dyn std::error::Error + Send + Sync>> = std::result::Result<T, E>;

/// How many callers there are.
pub const CALLERS: [usize; 3] = [1, 16, 64];

/// How many bytes a payload has, about.
pub const PAYLOAD_BYTES: usize = 310;

/// How long a caller waits before it makes a call again that was refused because the store was busy. With none at all
/// less is done where many call.
const PAUSE: Duration = Duration::from_millis(1);

/// How many steps a run has, each of which is started and finished.
pub const STEPS: u64 = 3;

/// The setting of our SQLite store that is as durable, or where none is, the next more durable one: a store is held against that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Beside {
    /// A commit survives loss of power.
    #[serde(rename = "full")]
    Full,
    /// It survives the process being killed; loss of power may take the last commits, and nothing else.
    #[serde(rename = "relaxed")]
    Relaxed,
    /// The same without a write-ahead log.
    #[serde(rename = "relaxed, journal=delete")]
    RelaxedDelete,
    /// Nothing survives: the store is in memory.
    #[serde(rename = "memory")]
    Memory,
}

/// A store as it is measured.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Contender {
    /// Its name and version.
    pub store: String,
    /// What is done otherwise than by default, or nothing.
    pub setting: String,
    /// The durability as it was read back, in the engine's words, with what it means.
    pub durability: String,
    /// What it is held against.
    pub beside: Beside,
    /// Who calls at the same time.
    pub callers: usize,
    /// How many runs a call is for.
    pub group: usize,
    /// How many transitions a lifecycle has, each of which is acknowledged.
    pub transitions: u64,
}

/// What came out of a turn.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Turn {
    /// Whole lifecycles.
    pub lifecycles: u64,
    /// In so many seconds.
    pub seconds: f64,
    /// Half of the calls took no longer, in microseconds.
    pub p50_us: f64,
    /// All calls but one of a hundred took no longer.
    pub p99_us: f64,
    /// How often a call was refused because the store was busy, and made again.
    pub retries: u64,
}

/// A turn, as the process is told to take it: a line on its standard input.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Take {
    /// Which of its contenders.
    pub contender: usize,
    /// For how long.
    pub milliseconds: u64,
}

/// A contender and how it takes its turn.
pub type Entry<'a> = (Contender, Box<dyn FnMut(Duration) -> Result<Turn> + 'a>);

/// The directory for the store's files, which the process is given.
///
/// # Errors
/// It was given none.
pub fn directory() -> Result<PathBuf> {
    Ok(std::env::args_os().nth(1).ok_or("usage: PROGRAM DIRECTORY")?.into())
}

/// Writes what there is, and then takes turns until the input ends.
///
/// # Errors
/// That of a turn; or of the pipes.
pub fn serve(mut entries: Vec<Entry<'_>>) -> Result<()> {
    let contenders: Vec<&Contender> = entries.iter().map(|(contender, _)| contender).collect();
    say(&contenders)?;
    for line in std::io::stdin().lock().lines() {
        let take: Take = serde_json::from_str(&line?)?;
        let (_, turn) = entries.get_mut(take.contender).ok_or("there is no such contender")?;
        say(&turn(Duration::from_millis(take.milliseconds))?)?;
    }
    Ok(())
}

fn say(what: &impl Serialize) -> Result<()> {
    let mut out = std::io::stdout().lock();
    serde_json::to_writer(&mut out, what)?;
    out.write_all(b"\n")?;
    Ok(out.flush()?)
}

/// The calls of one caller.
#[derive(Debug, Default)]
pub struct Calls {
    nanos: Vec<u64>,
    lifecycles: u64,
    retries: u64,
}

impl Calls {
    /// Notes how long a call took that began then.
    pub fn ended(&mut self, began: Instant) {
        self.nanos.push(began.elapsed().as_nanos() as u64);
    }

    /// Makes a call.
    ///
    /// # Errors
    /// Its own.
    pub async fn make<T, E>(&mut self, call: impl Future<Output = Result<T, E>>) -> Result<T>
    where
        Box<dyn std::error::Error + Send + Sync>: From<E>,
    {
        let began = Instant::now();
        let answer = call.await?;
        self.ended(began);
        Ok(answer)
    }

    /// Makes a call until there is an answer, which it has not while the store is busy. The wait counts as the caller's.
    ///
    /// # Errors
    /// Its own.
    pub async fn insist<T, F: Future<Output = Result<Option<T>>>>(&mut self, mut call: impl FnMut() -> F) -> Result<T> {
        let began = Instant::now();
        loop {
            if let Some(answer) = call().await? {
                self.ended(began);
                return Ok(answer);
            }
            self.retries += 1;
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Takes in those of another caller.
    pub fn add(&mut self, other: Calls) {
        self.nanos.extend(other.nanos);
        self.lifecycles += other.lifecycles;
        self.retries += other.retries;
    }

    /// Notes that a lifecycle is over.
    pub fn lived(&mut self) {
        self.lifecycles += 1;
    }

    /// What came out, of all callers.
    pub fn turn(mut self, elapsed: Duration) -> Turn {
        self.nanos.sort_unstable();
        let at = |percent: usize| {
            let place = (self.nanos.len() * percent / 100).min(self.nanos.len().saturating_sub(1));
            self.nanos.get(place).map_or(f64::NAN, |nanos| *nanos as f64 / 1000.0)
        };
        Turn { lifecycles: self.lifecycles, seconds: elapsed.as_secs_f64(), p50_us: at(50), p99_us: at(99), retries: self.retries }
    }
}

/// So many tasks that each go through whole lifecycles until the time is over. What they began then they end, and it counts.
///
/// # Errors
/// The first of a caller.
pub fn tasks<L, F>(runtime: &Runtime, callers: usize, each: Duration, life: L) -> Result<Turn>
where
    L: Fn(Calls) -> F + Clone + Send + 'static,
    F: Future<Output = Result<Calls>> + Send,
{
    runtime.block_on(async {
        let began = Instant::now();
        let running: Vec<_> = (0..callers)
            .map(|_| {
                let life = life.clone();
                tokio::spawn(async move {
                    let mut calls = Calls::default();
                    while began.elapsed() < each {
                        calls = life(calls).await?;
                        calls.lived();
                    }
                    Ok::<_, Box<dyn std::error::Error + Send + Sync>>(calls)
                })
            })
            .collect();
        let mut all = Calls::default();
        for caller in running {
            all.add(caller.await??);
        }
        Ok(all.turn(began.elapsed()))
    })
}

/// A runtime with a thread for each processor, as tokio makes it by default.
///
/// # Errors
/// Those of the system.
pub fn runtime() -> Result<Runtime> {
    Ok(tokio::runtime::Builder::new_multi_thread().enable_all().build()?)
}

/// A number that this process has not given before.
pub fn number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// The id of a run, as long as those of our own benchmarks and as these greater than those before.
pub fn run_id(n: u64) -> String {
    format!("{n:08x}{:012x}", n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 16)
}

/// A JSON object of [`PAYLOAD_BYTES`], unlike any other.
pub fn payload(n: u64, part: u64) -> String {
    let mut text = format!(r#"{{"order":{n},"part":{part},"customer":"c-{:06x}","note":""#, n.wrapping_mul(0x5eed) & 0xff_ffff);
    let words = "the customer asked for delivery before noon, else to the neighbour; ";
    let end = r#""}"#;
    text.extend(words.chars().cycle().take(PAYLOAD_BYTES.saturating_sub(text.len() + end.len())));
    text + end
}

/// SQLite's durability in words, from what was read back of a connection.
pub fn sqlite_durability(journal: &str, synchronous: i64) -> (String, Beside) {
    let journal = journal.to_uppercase();
    let name = ["OFF", "NORMAL", "FULL"].get(synchronous as usize).unwrap_or(&"EXTRA");
    let (means, beside) = match (journal.as_str(), synchronous) {
        ("WAL", 2..) | ("DELETE", 3..) => ("a commit survives power loss", Beside::Full),
        ("WAL", 1) => ("a power loss may lose the last commits", Beside::Relaxed),
        ("WAL", _) => ("a power loss may damage the file", Beside::Relaxed),
        ("DELETE", 2) => ("a power loss may undo the last commit", Beside::RelaxedDelete),
        _ => ("a power loss may undo the last commit, and in rare cases damage the file", Beside::RelaxedDelete),
    };
    (format!("{journal}, synchronous={name}: {means}"), beside)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payloads_have_their_size_and_differ() -> Result<()> {
        let payload = payload(17, 3);
        assert_eq!(payload.len(), PAYLOAD_BYTES);
        assert_eq!(serde_json::from_str::<serde_json::Value>(&payload)?["order"], 17);
        assert_ne!(payload, super::payload(17, 4));
        Ok(())
    }

    #[test]
    fn percentiles_are_those_of_all_callers() {
        let mut one = Calls { nanos: (1..=50).map(|n| n * 1000).collect(), lifecycles: 5, retries: 1 };
        one.add(Calls { nanos: (51..=100).map(|n| n * 1000).collect(), lifecycles: 6, retries: 2 });
        let turn = one.turn(Duration::from_secs(2));
        assert_eq!((turn.lifecycles, turn.retries, turn.p50_us, turn.p99_us), (11, 3, 51.0, 100.0));
    }
}
