//! Loss of power at every moment.

use std::collections::HashSet;
use std::fmt;
use std::ops::ControlFlow;

use runledger_core::{Code, Ledger, Mode, VerifyStore};
use xxhash_rust::xxh3::Xxh3Default;

use crate::workload::essence;
use crate::{Dice, Disk, Event, Fate, Floor, Image, Plant, Recording, Rig, Site, Unit, Workload, state_of};

/// How many images are made.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Where the random subsets come from.
    pub seed: u64,
    /// How many random subsets of the changes that are not flushed, at each point.
    pub subsets: usize,
    /// Of how many changes, at each point, each one is left out, torn, or kept alone.
    pub singles: usize,
    /// The first event that is looked at.
    pub from: usize,
    /// Of how many moments between two flushes one is looked at.
    pub moments_one_in: usize,
    /// How many images are made at most.
    pub images: usize,
    /// Of how many images one has its recovery interrupted too; 0 for none.
    pub recoveries_one_in: usize,
    /// After how many violations to stop.
    pub violations: usize,
}

impl Plan {
    /// What fits into a minute, or many times as much.
    pub fn of_seed(seed: u64) -> Plan {
        let (subsets, singles, recoveries_one_in) = if crate::is_long() { (64, usize::MAX, 16) } else { (4, 10, 150) };
        Plan { seed, subsets, singles, from: 0, moments_one_in: 1, images: usize::MAX, recoveries_one_in, violations: 5 }
    }

    /// Enough to find that a layer was broken on purpose, and no more.
    pub fn until_the_first(seed: u64) -> Plan {
        Plan { subsets: 12, singles: 12, recoveries_one_in: 0, violations: 1, ..Plan::of_seed(seed) }
    }
}

/// What came of it.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// The events recorded.
    pub events: usize,
    /// The moments at which changes were left out.
    pub points: usize,
    /// The images made.
    pub images: usize,
    /// The images opened: each that differs from all before.
    pub opened: usize,
    /// Those of them that were made of the recovery of another.
    pub of_recoveries: usize,
    /// What must not be.
    pub violations: Vec<String>,
}

impl Tally {
    /// Adds another.
    pub fn add(&mut self, other: Tally) {
        self.events += other.events;
        self.points += other.points;
        self.images += other.images;
        self.opened += other.opened;
        self.of_recoveries += other.of_recoveries;
        self.violations.extend(other.violations);
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Tally { events, points, images, opened, of_recoveries, violations } = self;
        write!(f, "{events} events, {points} points, {images} images, {opened} differ and were opened, ")?;
        write!(f, "{of_recoveries} of them from interrupted recoveries, {} violations", violations.len())
    }
}

/// A loss of power.
#[derive(Clone, Copy, Debug, Default)]
struct Crash {
    event: usize,
    acknowledged: usize,
    at_last_sync: usize,
    at_last_directory_sync: usize,
}

impl Crash {
    fn floor(&self, floor: Floor) -> usize {
        match floor {
            Floor::Acknowledged => self.acknowledged,
            Floor::LastSync => self.at_last_sync,
            Floor::LastDirectorySync => self.at_last_directory_sync,
        }
    }
}

/// Runs a workload, and records what it does to the files.
pub fn record(rig: &dyn Rig, workload: &Workload, plant: Plant) -> Recording {
    let files = rig.fresh();
    let site = rig.site(&files);
    site.watch().record(&files);
    site.watch().plant(plant);
    let mut ledger = site.open(&rig.options()).unwrap();
    for (unit, expected) in workload.units.iter().zip(&workload.answers) {
        match unit {
            Unit::Reopen => {
                ledger.close().unwrap();
                ledger = site.open(&rig.options()).unwrap();
            }
            Unit::Compact => drop(ledger.compact_store(runledger_core::CompactStore::new()).unwrap()),
            Unit::Checkpoint => site.checkpoint(),
            Unit::One(_) | Unit::Group(_) => {
                let answers = unit.carry_out(&ledger).unwrap_or_default();
                assert!(answers.iter().map(|answer| essence(answer)).eq(expected), "{unit:?}: {answers:?}");
            }
        }
        site.acknowledge();
    }
    assert!(state_of(&ledger).unwrap() == workload.states[workload.units.len()]);
    ledger.close().unwrap();
    site.watch().recording()
}

/// Makes the images of a recording, and holds each against the states of the workload.
pub fn try_all(rig: &dyn Rig, workload: &Workload, recording: &Recording, plan: &Plan) -> Tally {
    let mut tally = Tally { events: recording.events.len(), ..Tally::default() };
    let mut seen = HashSet::new();
    let mut dice = Dice::new(plan.seed);
    let mut maker = Images { recording, plan, dice: dice.clone(), points: 0 };
    let _ = maker.each(&mut |crash, how, image| {
        if tally.images == plan.images {
            return ControlFlow::Break(());
        }
        tally.images += 1;
        if !seen.insert((hash_of(image), crash.acknowledged)) {
            return ControlFlow::Continue(());
        }
        let top = (crash.acknowledged + 1).min(workload.units.len());
        let allowed = crash.floor(rig.floor())..=top;
        tally.opened += 1;
        let looked = look(rig, image, &mut dice, |state| find_state(workload, state, allowed.clone())).and_then(|found| {
            if plan.recoveries_one_in > 0 && dice.once_in(plan.recoveries_one_in) {
                tally.of_recoveries += try_recovery(rig, image, &workload.states[found], plan, &mut dice)?;
            }
            Ok(())
        });
        if let Err(what) = looked {
            tally.violations.push(format!("{} with {crash:?}, {how}: {what}", rig.name()));
        }
        if tally.violations.len() >= plan.violations { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    tally.points = maker.points;
    tally.opened += tally.of_recoveries;
    tally
}

/// Which of the states that are allowed this is; the latest of equal ones.
fn find_state(workload: &Workload, state: &[u8], allowed: std::ops::RangeInclusive<usize>) -> Result<usize, String> {
    let is_it = |number: &usize| workload.states[*number] == state;
    let (low, high) = (*allowed.start(), *allowed.end());
    allowed.rev().find(is_it).ok_or_else(|| match (0..workload.states.len()).rev().find(is_it) {
        Some(other) => format!("it holds state {other}, not one of {low} to {high}"),
        None => format!("it holds a state that never was, not one of {low} to {high}"),
    })
}

fn hash_of(image: &Image) -> u64 {
    let mut hasher = Xxh3Default::new();
    for (name, content) in image {
        hasher.update(name.as_bytes());
        hasher.update(&content.len().to_le_bytes());
        hasher.update(content);
    }
    hasher.digest()
}

/// Opens an image, and checks what it holds.
fn look<T>(rig: &dyn Rig, image: &Image, dice: &mut Dice, judge: impl Fn(&[u8]) -> Result<T, String>) -> Result<T, String> {
    let site = rig.site(image);
    let mut seen_by_reader = None;
    if dice.once_in(6) {
        match site.open(&rig.options().with_mode(Mode::ReadOnly)) {
            Ok(reader) => {
                let state = state_of(&reader).map_err(|error| format!("a reader: {error}"))?;
                judge(&state).map_err(|what| format!("a reader: {what}"))?;
                reader.close().map_err(|error| format!("a reader closes: {error}"))?;
                seen_by_reader = Some(state);
            }
            // It would have to recover, or to create.
            Err(error) if matches!(error.code(), Code::ReadOnly | Code::Io) => {}
            Err(error) => return Err(format!("a reader: {error}")),
        }
    }
    let ledger = site.open(&rig.options()).map_err(|error| format!("it does not open: {error}"))?;
    let state = checked_state(&ledger)?;
    let judged = judge(&state)?;
    if seen_by_reader.is_some_and(|seen| seen != state) {
        return Err("it holds another state than a reader saw before".into());
    }
    if dice.once_in(4) {
        work_on(rig, site.as_ref(), ledger)?;
    } else {
        ledger.close().map_err(|error| format!("it does not close: {error}"))?;
    }
    Ok(judged)
}

fn checked_state(ledger: &Ledger) -> Result<Vec<u8>, String> {
    let state = state_of(ledger).map_err(|error| format!("it can't be exported: {error}"))?;
    let report = ledger.verify_store(VerifyStore::new()).map_err(|error| format!("it can't be verified: {error}"))?;
    if report.is_ok() { Ok(state) } else { Err(format!("verify: {:?}", report.problems)) }
}

/// A store that was recovered takes commands and keeps them.
fn work_on(rig: &dyn Rig, site: &dyn Site, ledger: Ledger) -> Result<(), String> {
    let request = r#"{"op":"runs.start","projectId":"p","id":"one more","workflowId":"w1","input":1}"#;
    let answer = ledger.call_json(request);
    let state = checked_state(&ledger)?;
    ledger.close().map_err(|error| format!("it does not close: {error}"))?;
    let ledger = site.open(&rig.options()).map_err(|error| format!("it does not open again: {error}"))?;
    let again = checked_state(&ledger)?;
    ledger.close().map_err(|error| format!("it does not close again: {error}"))?;
    if answer.starts_with(r#"{"ok""#) && again == state { Ok(()) } else { Err(format!("one more command is lost: {answer}")) }
}

/// Has power fail again while an image is recovered: what was seen once must stay.
fn try_recovery(rig: &dyn Rig, image: &Image, state: &[u8], plan: &Plan, dice: &mut Dice) -> Result<usize, String> {
    let site = rig.site(image);
    site.watch().record(image);
    let ledger = site.open(&rig.options()).map_err(|error| format!("it does not open a second time: {error}"))?;
    site.acknowledge();
    ledger.close().map_err(|error| format!("it does not close: {error}"))?;
    let recording = site.watch().recording();
    let plan = Plan { subsets: 4, singles: 6, from: 0, moments_one_in: 1, images: usize::MAX, seed: plan.seed + 1, ..*plan };
    let (mut opened, mut outcome) = (0, Ok(()));
    let mut seen = HashSet::new();
    let _ = Images { recording: &recording, plan: &plan, dice: dice.clone(), points: 0 }.each(&mut |crash, how, image| {
        if seen.insert(hash_of(image)) {
            opened += 1;
            let same = |found: &[u8]| if found == state { Ok(()) } else { Err("it holds another state than before".to_owned()) };
            outcome = look(rig, image, dice, same).map_err(|what| format!("recovery interrupted with {crash:?}, {how}: {what}"));
        }
        if outcome.is_err() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    outcome.map(|()| opened)
}

type Visit<'v> = dyn FnMut(&Crash, &str, &Image) -> ControlFlow<()> + 'v;

/// Makes the images of a recording.
struct Images<'r> {
    recording: &'r Recording,
    plan: &'r Plan,
    dice: Dice,
    points: usize,
}

impl Images<'_> {
    fn each(&mut self, visit: &mut Visit<'_>) -> ControlFlow<()> {
        let mut disk = Disk::new(&self.recording.base);
        let mut crash = Crash::default();
        for (number, event) in self.recording.events.iter().enumerate() {
            crash.event = number;
            // Before a flush the most can be lost, and what can be lost elsewhere is a part of it.
            let is_passed_over = number < self.plan.from;
            if !is_passed_over && matches!(event, Event::Sync { .. } | Event::LostSync { .. } | Event::SyncDirectory | Event::Acknowledged)
            {
                self.at_point(&disk, &crash, visit)?;
            }
            disk.pass(event);
            match event {
                Event::Acknowledged => crash.acknowledged += 1,
                Event::Sync { .. } => crash.at_last_sync = crash.acknowledged,
                Event::SyncDirectory => crash.at_last_directory_sync = crash.acknowledged,
                _ => {}
            }
            if is_passed_over {
                continue;
            }
            if matches!(event, Event::Acknowledged) {
                // The answer is out: whatever is not flushed may be lost now.
                self.at_point(&disk, &crash, visit)?;
            } else if self.dice.once_in(self.plan.moments_one_in) {
                visit(&crash, "with all that was done", &disk.image(|_| Fate::Kept, false))?;
            }
        }
        crash.event = self.recording.events.len();
        self.at_point(&disk, &crash, visit)
    }

    fn at_point(&mut self, disk: &Disk, crash: &Crash, visit: &mut Visit<'_>) -> ControlFlow<()> {
        self.points += 1;
        visit(crash, "with all of the rest", &disk.image(|_| Fate::Kept, false))?;
        if disk.pending().is_empty() {
            return ControlFlow::Continue(());
        }
        visit(crash, "with nothing of the rest", &disk.image(|_| Fate::Dropped, false))?;
        visit(crash, "with only the lengths of the rest", &disk.image(|_| Fate::Dropped, true))?;
        self.singles(disk, crash, visit)?;
        self.subsets(disk, crash, visit)
    }

    /// Each change left out, torn or kept alone.
    fn singles(&mut self, disk: &Disk, crash: &Crash, visit: &mut Visit<'_>) -> ControlFlow<()> {
        let count = disk.pending().len();
        let step = count.div_ceil(self.plan.singles);
        let first = self.dice.below(step);
        for single in (first..count).step_by(step) {
            let words = disk.pending()[single].words();
            let only = |fate| move |index| if index == single { fate } else { Fate::Kept };
            visit(crash, &format!("without the {words}"), &disk.image(only(Fate::Dropped), false))?;
            visit(crash, &format!("with only the length of the {words}"), &disk.image(only(Fate::Dropped), true))?;
            let alone = |index| if index == single { Fate::Kept } else { Fate::Dropped };
            visit(crash, &format!("with only the {words} of the rest"), &disk.image(alone, false))?;
            let Event::Write { offset, data, .. } = &disk.pending()[single] else { continue };
            for sector in [512, 4096] {
                let sectors = (offset + data.len() as u64).div_ceil(sector) - offset / sector;
                if sectors < 2 {
                    continue;
                }
                let half = (1_u64 << (sectors / 2).min(32)) - 1;
                for kept in [half, !half, self.dice.roll()] {
                    let how = format!("with the {words} torn at {sector} ({kept:x})");
                    visit(crash, &how, &disk.image(only(Fate::Torn { sector, kept }), self.dice.once_in(2)))?;
                }
            }
        }
        ControlFlow::Continue(())
    }

    /// Random subsets, with random tears.
    fn subsets(&mut self, disk: &Disk, crash: &Crash, visit: &mut Visit<'_>) -> ControlFlow<()> {
        for number in 0..self.plan.subsets {
            let likely = self.dice.one_of(&[2, 5, 8]);
            let dice = &mut self.dice;
            let mut fate = || match dice.below(10) {
                0 => Fate::Torn { sector: dice.one_of(&[512, 4096]), kept: dice.roll() },
                roll if roll <= likely => Fate::Kept,
                _ => Fate::Dropped,
            };
            let fates: Vec<Fate> = disk.pending().iter().map(|_| fate()).collect();
            let lengths_last = dice.once_in(2);
            let how = format!("with subset {number} of the {} that are left", fates.len());
            visit(crash, &how, &disk.image(|index| fates[index], lengths_last))?;
        }
        ControlFlow::Continue(())
    }
}
