//! Files that are damaged, cut, mixed up or not ours, and what a store may make of them.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use runledger_backend_redb::RedbBackend;
use runledger_backend_sqlite::SqliteBackend;
use runledger_core::{
    Backend, Code, Error, ExpiredRuns, GetAgent, GetNode, GetRun, GetRunStats, Ledger, ListAgents, ListNodes, ListRuns, Mode, OpenOptions,
    Result, Time, VerifyStore,
};

use crate::{Around, Change, Dice, Image, Workload, model, state_of};

/// What is done to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "each says what it is")]
pub enum Damage {
    FlipBit,
    FlipBytes,
    ZeroPage,
    GarbagePage,
    SwapPages,
    Cut,
    CutToPages,
    Append,
    /// One bit of the first 100 bytes, which say what the file is.
    Header,
}

impl Damage {
    /// Each of them.
    pub const ALL: [Damage; 9] = [
        Damage::FlipBit,
        Damage::FlipBytes,
        Damage::ZeroPage,
        Damage::GarbagePage,
        Damage::SwapPages,
        Damage::Cut,
        Damage::CutToPages,
        Damage::Append,
        Damage::Header,
    ];

    /// Damages a file, which is not empty, and says where.
    pub fn make(self, bytes: &mut Vec<u8>, dice: &mut Dice) -> String {
        const PAGE: usize = 4096;
        let at = dice.below(bytes.len());
        let page = at / PAGE * PAGE;
        let end = (page + PAGE).min(bytes.len());
        match self {
            Damage::FlipBit => bytes[at] ^= 1 << dice.below(8),
            Damage::FlipBytes => {
                let end = (at + 1 + dice.below(16)).min(bytes.len());
                bytes[at..end].iter_mut().for_each(|byte| *byte ^= 1 + dice.below(255) as u8);
            }
            Damage::ZeroPage => bytes[page..end].fill(0),
            Damage::GarbagePage => bytes[page..end].iter_mut().for_each(|byte| *byte = dice.roll() as u8),
            Damage::SwapPages => {
                let other = dice.below(bytes.len()) / PAGE * PAGE;
                let len = (end - page).min(bytes.len() - other);
                let (first, second) = (bytes[page..page + len].to_vec(), bytes[other..other + len].to_vec());
                bytes[page..page + len].copy_from_slice(&second);
                bytes[other..other + len].copy_from_slice(&first);
            }
            Damage::Cut => bytes.truncate(at.max(1)),
            Damage::CutToPages => bytes.truncate(page.max(PAGE)),
            Damage::Append => {
                let more = 1 + dice.below(10_000);
                bytes.extend((0..more).map(|_| dice.roll() as u8));
            }
            Damage::Header => {
                let at = at % bytes.len().min(100);
                bytes[at] ^= 1 << dice.below(8);
                return format!("{self:?} at {at}");
            }
        }
        format!("{self:?} at {at}")
    }
}

/// What is damaged, and how it is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "each says what it is")]
pub enum Kind {
    Sqlite,
    Redb,
    /// With a verification that looks at nothing.
    SqliteVerifyingNothing,
    /// With a verification that looks at nothing.
    RedbVerifyingNothing,
}

impl Kind {
    fn open(self, path: &Path, options: &OpenOptions) -> Result<Ledger> {
        fn blind<B: Backend>(backend: B, options: &OpenOptions) -> Ledger {
            Ledger::new(Around::new(backend, Change::VerifiesNothing), options)
        }
        Ok(match self {
            Kind::Sqlite => Ledger::new(SqliteBackend::open(path, options)?, options),
            Kind::Redb => Ledger::new(RedbBackend::open(path, options)?, options),
            Kind::SqliteVerifyingNothing => blind(SqliteBackend::open(path, options)?, options),
            Kind::RedbVerifyingNothing => blind(RedbBackend::open(path, options)?, options),
        })
    }
}

/// A store as it was before the damage.
pub struct Healthy {
    kind: Kind,
    /// Its files: as it was closed, or as it was left by a process that was killed.
    pub files: Image,
    /// The states that it ever had, the last one last.
    states: Vec<Vec<u8>>,
    last: Ledger,
}

/// What came of a damaged store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was refused when it was opened.
    Refused(Code),
    /// It was opened, and the damage was found.
    Found,
    /// Nothing of what the store holds was hurt.
    Harmless,
    /// It holds what it held at an earlier moment, as after a log was lost.
    Earlier,
}

const NAME: &str = "store";

/// Longer than any honest work on a store so small.
const HANGS_AFTER: Duration = Duration::from_secs(30);

impl Healthy {
    /// A store that holds what a workload leaves, closed or not.
    pub fn new(kind: Kind, options: &OpenOptions, workload: &Workload, is_closed: bool) -> Healthy {
        let directory = crate::scratch_directory();
        let path = directory.path().join(NAME);
        let ledger = kind.open(&path, options).unwrap();
        let last = model();
        for unit in &workload.units {
            unit.carry_out(&ledger);
            unit.carry_out(&last);
        }
        if is_closed {
            ledger.close().unwrap();
        }
        let files = files_in(directory.path());
        Healthy { kind, files, states: workload.states.clone(), last }
    }

    /// Holds a damaged store against what it was: whatever is answered must be right, or an error; whatever is wrong must
    /// be named by the verification.
    ///
    /// # Errors
    /// What must not be.
    pub fn examine(&self, damaged: &Image) -> std::result::Result<Outcome, String> {
        let began = Instant::now();
        let directory = crate::scratch_directory();
        for (name, content) in damaged {
            fs::write(directory.path().join(name), content).unwrap();
        }
        let path = directory.path().join(NAME);
        let reading = OpenOptions::new().with_mode(Mode::ReadOnly).with_busy_timeout_ms(100);
        let mut seen = None;
        match self.kind.open(&path, &reading) {
            Ok(ledger) => {
                seen = Some(self.look(&ledger)?);
                ledger.close().map_err(|error| format!("a reader closes: {error}"))?;
            }
            Err(error) => check_refusal(&error, true)?,
        }
        if files_in(directory.path()) != *damaged {
            return Err("a reader has changed the files".into());
        }
        let outcome = match self.kind.open(&path, &OpenOptions::new().with_busy_timeout_ms(100)) {
            Ok(ledger) => {
                let outcome = self.look(&ledger)?;
                self.work(&ledger, outcome)?;
                // It may be too late to save anything, but not to say so.
                if let Err(error) = ledger.close() {
                    check_error(&error)?;
                }
                outcome
            }
            Err(error) => {
                check_refusal(&error, false)?;
                if files_in(directory.path()) != *damaged {
                    return Err(format!("it was refused ({error}), and the files were changed"));
                }
                Outcome::Refused(error.code())
            }
        };
        if began.elapsed() > HANGS_AFTER {
            return Err(format!("it took {:?}", began.elapsed()));
        }
        match (seen, outcome) {
            (Some(Outcome::Harmless), Outcome::Harmless) | (None, _) | (Some(Outcome::Found | Outcome::Earlier), _) => Ok(outcome),
            (Some(seen), outcome) => Err(format!("a reader found it {seen:?}, and a writer {outcome:?}")),
        }
    }

    fn look(&self, ledger: &Ledger) -> std::result::Result<Outcome, String> {
        let is_found = match ledger.verify_store(VerifyStore::new()) {
            Ok(report) => !report.is_ok(),
            Err(error) => check_error(&error).map(|()| true)?,
        };
        let state = state_of(ledger);
        if let Err(error) = &state {
            check_error(error)?;
        }
        if !is_found {
            // Nothing is wrong: then everything must be as it was, now or once.
            let state = state.map_err(|error| format!("nothing is found, and it can't be exported: {error}"))?;
            if Some(&state) == self.states.last() {
                return self.compare(ledger, true).map(|()| Outcome::Harmless);
            }
            return match self.states.contains(&state) {
                true => Ok(Outcome::Earlier),
                false => Err("nothing is found, and it holds what it never held".into()),
            };
        }
        self.compare(ledger, false)?;
        Ok(Outcome::Found)
    }

    /// Every record is as it was, or an error; with `all` every answer is as it was.
    fn compare(&self, ledger: &Ledger, all: bool) -> std::result::Result<(), String> {
        for project in ["p", "q"] {
            for run in self.last.list_runs(ListRuns::new(project).with_limit(1000_u32)).unwrap().rows {
                same(ledger.get_run(GetRun::new(project, &run.id)), &Some(run), all)?;
            }
            for node in self.last.list_nodes(ListNodes::new(project).with_limit(1000_u32)).unwrap().rows {
                same(ledger.get_node(GetNode::new(project, &node.id)), &Some(node), all)?;
            }
            for agent in self.last.list_agents(ListAgents::new(project).with_limit(1000_u32)).unwrap().rows {
                same(ledger.get_agent(GetAgent::new(project, &agent.node_run_id)), &Some(agent), all)?;
            }
            // Of what is listed some may be missing, and counted wrongly, once that is found; nothing may be made up.
            let runs = |ledger: &Ledger| ledger.list_runs(ListRuns::new(project).with_limit(1000_u32)).map(|page| page.rows);
            rows(runs(ledger), &runs(&self.last).unwrap_or_default(), all)?;
            let nodes = |ledger: &Ledger| ledger.list_nodes(ListNodes::new(project).with_limit(1000_u32)).map(|page| page.rows);
            rows(nodes(ledger), &nodes(&self.last).unwrap_or_default(), all)?;
            let agents = |ledger: &Ledger| ledger.list_agents(ListAgents::new(project).with_limit(1000_u32)).map(|page| page.rows);
            rows(agents(ledger), &agents(&self.last).unwrap_or_default(), all)?;
            let stats = ledger.run_stats(GetRunStats::new(project));
            if all {
                same(stats, &self.last.run_stats(GetRunStats::new(project)).unwrap(), true)?;
            } else if let Err(error) = stats {
                check_error(&error)?;
            }
        }
        let expired = |ledger: &Ledger| ledger.expired_runs(ExpiredRuns::new(Time::MAX)).map(|expired| expired.rows);
        rows(expired(ledger), &expired(&self.last).unwrap_or_default(), all)
    }

    /// A damaged store takes commands or refuses them, and says why.
    fn work(&self, ledger: &Ledger, outcome: Outcome) -> std::result::Result<(), String> {
        let time = "2027-01-01T00:00:00Z";
        for request in [
            format!(r#"{{"op":"runs.queue","projectId":"p","id":"after","workflowId":"w1","input":1,"queuedAt":"{time}"}}"#),
            format!(r#"{{"op":"runs.claim","projectId":"p","execution":{{"token":"t","queueLeaseExpiresAt":"{time}"}}}}"#),
            r#"{"op":"runs.cancel","projectId":"p","id":"after"}"#.to_owned(),
            r#"{"op":"runs.purge","projectId":"q","finishedBefore":"2030-01-01T00:00:00Z"}"#.to_owned(),
            r#"{"op":"store.compact"}"#.to_owned(),
            r#"{"op":"store.verify"}"#.to_owned(),
        ] {
            let answer = ledger.call_json(&request);
            let code = crate::workload::code_of(&answer).and_then(Code::from_name);
            let is_allowed = match code {
                None => true,
                Some(code) => outcome == Outcome::Found && matches!(code, Code::Corrupt | Code::Io | Code::NotFound | Code::AlreadyExists),
            };
            if !is_allowed {
                return Err(format!("it was {outcome:?}, and {request} is answered {answer}"));
            }
        }
        Ok(())
    }
}

fn same<T: PartialEq + std::fmt::Debug + MaybeMissing>(found: Result<T>, expected: &T, all: bool) -> std::result::Result<(), String> {
    match found {
        Ok(found) if found == *expected || !all && found.is_missing() => Ok(()),
        Ok(found) => Err(format!("{found:?} is answered, and {expected:?} is right")),
        Err(error) if all => Err(format!("nothing is found, and a read is answered {error}")),
        Err(error) => check_error(&error),
    }
}

/// Answers that say that there is nothing.
trait MaybeMissing {
    fn is_missing(&self) -> bool {
        false
    }
}

impl<T> MaybeMissing for Option<T> {
    fn is_missing(&self) -> bool {
        self.is_none()
    }
}

impl MaybeMissing for runledger_core::RunStats {}

fn rows<T: PartialEq + std::fmt::Debug>(found: Result<Vec<T>>, expected: &[T], all: bool) -> std::result::Result<(), String> {
    match found {
        Ok(found) if all && found != *expected => Err(format!("{found:?} are listed, and {expected:?} is right")),
        Ok(found) => match found.iter().find(|row| !expected.contains(row)) {
            Some(row) => Err(format!("{row:?} is listed, which never was")),
            None => Ok(()),
        },
        Err(error) if all => Err(format!("nothing is found, and a list is answered {error}")),
        Err(error) => check_error(&error),
    }
}

/// What a damaged store may answer.
fn check_error(error: &Error) -> std::result::Result<(), String> {
    match error.code() {
        Code::Corrupt | Code::Io => Ok(()),
        code => Err(format!("it is answered {code}: {error}")),
    }
}

/// What an open of a damaged file may answer.
fn check_refusal(error: &Error, reading: bool) -> std::result::Result<(), String> {
    match error.code() {
        Code::Corrupt | Code::NotALedger | Code::SchemaTooNew | Code::Unsupported => Ok(()),
        Code::ReadOnly if reading => Ok(()),
        code => Err(format!("an open is answered {code}: {error}")),
    }
}

/// The files beside each other, without what connections share in memory and without empty logs.
fn files_in(directory: &Path) -> Image {
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let name = |path: &PathBuf| path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let named = entries.map(|path| (name(&path), fs::read(&path).unwrap()));
    named.filter(|(name, content)| !(name.ends_with("-shm") || name.ends_with("-wal") && content.is_empty())).collect()
}
