//! Pages of runs by hand: from maps, and from a copy of a redb file that the backend has written.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use redb::{Database, ReadOnlyTable, ReadableDatabase};
use runledger::keys::Key;
use runledger::{Id, Ledger, ListRuns, Record, Run, Status, Time};

use super::queries::{Arms, PAGE};
use super::redb::{BY_STATUS, BY_WORKFLOW, Bytes, LARGE, RUNS, TABLES, checked_text, decode, large_key, record_key};
use crate::Result;

/// Something that has pages of runs, newest first.
pub trait Pages {
    /// A page, of the runs that started no later than `until`.
    ///
    /// # Errors
    /// Those of the engine; or a run is not as it was written.
    fn page(&self, arms: &Arms, until: Time) -> Result<Vec<Run>>;
}

type Place = (Status, Time, Id);

/// The orders of one project, in maps of shared records.
#[derive(Debug, Default)]
pub struct MapPages {
    by_status: BTreeMap<Place, Arc<Run>>,
    by_workflow: BTreeMap<Id, BTreeMap<Place, Arc<Run>>>,
}

impl MapPages {
    /// Takes over the runs that a ledger has in a project.
    ///
    /// # Errors
    /// Those of the ledger.
    pub fn of(ledger: &Ledger, project: &str) -> Result<MapPages> {
        let mut pages = MapPages::default();
        let mut list = ListRuns::new(project).with_with_total(false).with_limit(1000_u32);
        loop {
            let page = ledger.list_runs(list.clone())?;
            for run in page.rows {
                let (place, workflow) = ((run.status, run.started_at, run.id.clone()), run.workflow_id.clone());
                let run = Arc::new(run);
                pages.by_workflow.entry(workflow).or_default().insert(place.clone(), run.clone());
                pages.by_status.insert(place, run);
            }
            match page.next_cursor {
                Some(cursor) => list = list.with_cursor(cursor),
                None => return Ok(pages),
            }
        }
    }
}

impl Pages for MapPages {
    fn page(&self, arms: &Arms, until: Time) -> Result<Vec<Run>> {
        let mut walks = Vec::new();
        let (maps, statuses): (Vec<_>, _) = match arms {
            Arms::Project(statuses) => (vec![&self.by_status], statuses),
            Arms::Workflows(workflows, statuses) => {
                (workflows.iter().filter_map(|workflow| self.by_workflow.get(workflow.as_str())).collect(), statuses)
            }
        };
        for map in maps {
            for status in statuses {
                let mut walk = map.range((*status, Time::MIN, Id::from(""))..=(*status, until, last_id())).rev();
                walks.push((walk.next(), walk));
            }
        }
        let mut runs = Vec::with_capacity(PAGE);
        while runs.len() < PAGE {
            let newest = walks.iter_mut().max_by_key(|(head, _)| head.map(|((_, time, id), _)| (time, id)));
            let Some((head, walk)) = newest else { break };
            let Some((_, run)) = *head else { break };
            runs.push(Run::clone(run));
            *head = walk.next();
        }
        Ok(runs)
    }
}

/// After every id of the workload.
fn last_id() -> Id {
    Id::from("\u{10ffff}")
}

/// The orders of one project, in a redb file.
#[derive(Debug)]
pub struct RedbPages {
    db: Database,
    project: Id,
}

impl RedbPages {
    /// Opens a file that nobody else has open.
    ///
    /// # Errors
    /// Those of the engine.
    pub fn open(path: &Path, project: &str) -> Result<RedbPages> {
        Ok(RedbPages { db: Database::open(path)?, project: Id::from(project) })
    }

    fn run(&self, runs: &ReadOnlyTable<Bytes, Bytes>, large: &ReadOnlyTable<Bytes, Bytes>, id: &Id) -> Result<Run> {
        let row = runs.get(record_key(&self.project, id).as_slice())?.ok_or("an index names no run")?;
        let (mut run, held, inline) = decode::<Run>(&self.project, id, row.value())?;
        for (slot, inline) in inline.into_iter().enumerate().filter(|(slot, _)| held.contains(*slot)) {
            let text = match inline {
                Some(text) => text,
                None => {
                    let row = large.get(large_key(Run::ENTITY, &self.project, id, slot).as_slice())?;
                    checked_text::<Run>(&self.project, id, slot, row.ok_or("a payload is missing")?.value())?
                }
            };
            run.set_large(slot, text);
        }
        Ok(run)
    }
}

impl Pages for RedbPages {
    fn page(&self, arms: &Arms, until: Time) -> Result<Vec<Run>> {
        let txn = self.db.begin_read()?;
        let (runs, large) = (txn.open_table(TABLES[RUNS])?, txn.open_table(LARGE)?);
        let project = Key::new().id(&self.project);
        let (index, scopes, statuses) = match arms {
            Arms::Project(statuses) => (BY_STATUS, vec![project], statuses),
            Arms::Workflows(workflows, statuses) => {
                (BY_WORKFLOW, workflows.iter().map(|workflow| project.clone().id(workflow)).collect(), statuses)
            }
        };
        let index = txn.open_table(TABLES[index])?;
        let mut walks = Vec::new();
        for scope in scopes {
            for status in statuses {
                let low = scope.clone().status(*status).0;
                let mut high = scope.clone().status(*status).time(until).0;
                high.push(u8::MAX);
                let walk = index.range::<&[u8]>(low.as_slice()..high.as_slice())?.rev();
                let mut walk = walk.map(move |row| row.map(|(key, _)| key.value()[low.len()..].to_vec()));
                walks.push((walk.next().transpose()?, walk));
            }
        }
        let mut page = Vec::with_capacity(PAGE);
        while page.len() < PAGE {
            let newest = walks.iter_mut().max_by(|(a, _), (b, _)| a.cmp(b));
            let Some((head, walk)) = newest else { break };
            let Some(place) = head.take() else { break };
            let id = place.get(TIME_BYTES..place.len() - 1).ok_or("an index key is cut")?;
            page.push(self.run(&runs, &large, &Id::from(std::str::from_utf8(id)?))?);
            *head = walk.next().transpose()?;
        }
        Ok(page)
    }
}

const TIME_BYTES: usize = 8;
