//! The memory backend of runledger: the fastest store there is, gone when it is dropped.
//!
//! Each project has a lock of its own, so that projects do not wait for each other; what concerns several of them takes
//! their locks in the order of their ids. Records are shared, never changed in place: a page or an export holds the locks
//! only while it collects references.

mod query;
mod schema;
mod transact;
mod verify;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use runledger_core::{
    AgentFilter, AgentRun, AnswerForm, Backend, Code, CompactReport, Entity, Error, ExpiredFilter, ExportRecord, Id, Mode, NodeFilter,
    NodeRun, OpenOptions, PageRequest, ProjectSummary, Record, Result, Rows, Run, RunFilter, RunStats, StoreInfo, VerifyReport, Work,
};

use schema::{Project, Ranked};
use transact::{Cell, Cells, Outcome, transact};

/// The version of the layout, which no file ever holds.
const SCHEMA_VERSION: u32 = 1;

/// A store in memory.
///
/// ```
/// use runledger_backend_memory::MemoryBackend;
/// use runledger_core::{Backend, OpenOptions};
/// let backend = MemoryBackend::open(&OpenOptions::new())?;
/// assert_eq!(backend.info()?.backend, "memory");
/// # Ok::<(), runledger_core::Error>(())
/// ```
#[derive(Debug)]
pub struct MemoryBackend {
    /// The lock of the map is taken before that of a project, and by nobody who holds one.
    projects: RwLock<BTreeMap<Id, Arc<Cell>>>,
    durability: &'static str,
}

impl MemoryBackend {
    /// Makes an empty store. The durability and the busy timeout are accepted and change nothing.
    ///
    /// # Errors
    /// `io` when an existing store is asked for or one for reading only, since there is nothing to open; `unsupported`
    /// when a journal is given.
    pub fn open(options: &OpenOptions) -> Result<MemoryBackend> {
        options.refuse_journal("memory")?;
        if options.mode != Mode::Create {
            let message = format!("memory: there is no store to open with mode {}, only one to create", options.mode);
            return Err(Error::new(Code::Io, message).with_entity(Entity::Store));
        }
        Ok(MemoryBackend { projects: RwLock::default(), durability: options.durability.as_str() })
    }

    fn cell(&self, project: &Id) -> Option<Arc<Cell>> {
        read(&self.projects).get(project).cloned()
    }

    /// Has `look` look at one project; `None` when there is none of this id.
    fn look<T>(&self, project: &Id, look: impl FnOnce(&Project) -> T) -> Option<T> {
        let cell = self.cell(project)?;
        let project = read(&cell);
        Some(look(&project))
    }

    /// Has `look` look at one state of all projects, in the order of their ids.
    fn look_at_all<T>(&self, look: impl FnOnce(&[(&Id, &Project)]) -> T) -> T {
        let map = read(&self.projects);
        let locked: Vec<(&Id, RwLockReadGuard<'_, Project>)> = map.iter().map(|(id, cell)| (id, read(cell))).collect();
        let projects: Vec<(&Id, &Project)> = locked.iter().map(|(id, project)| (*id, &**project)).collect();
        look(&projects)
    }

    fn get<R: Record>(&self, project: &Id, form: AnswerForm, find: impl FnOnce(&Project) -> Option<Arc<R>>) -> Option<R> {
        let found = self.look(project, find).flatten();
        found.map(|record| query::copy(&record, form))
    }

    fn page<R: Record>(&self, project: &Id, page: &PageRequest, list: impl FnOnce(&Project) -> Result<Rows<Arc<R>>>) -> Result<Rows<R>> {
        match self.look(project, list) {
            Some(rows) => Ok(query::copy_rows(rows?, page.form)),
            None => Ok(Rows::none(page.with_total)),
        }
    }

    fn expired<R: Ranked>(&self, filter: &ExpiredFilter, form: AnswerForm) -> Result<(Vec<R>, bool)> {
        let found = match &filter.project_id {
            Some(id) => self.look(id, |project| query::expired::<R>(&[(id, project)], filter)).unwrap_or(Ok((Vec::new(), false))),
            None => self.look_at_all(|projects| query::expired::<R>(projects, filter)),
        };
        let (records, has_more) = found?;
        Ok((query::copy_all(&records, form), has_more))
    }

    /// Runs `work` over the projects that its commands name.
    fn write_projects(&self, ids: Vec<Id>, work: &mut dyn Work) -> Result<()> {
        let mut cells = self.cells(ids);
        loop {
            let Outcome { done, retired, .. } = transact(&cells, false, work);
            if !retired.is_empty() {
                forget(&mut write(&self.projects), &retired);
            }
            match done {
                Some(done) => return done,
                None => cells = self.cells(cells.into_iter().map(|(id, _)| id).collect()),
            }
        }
    }

    /// Runs `work` over everything, while nobody else can do anything.
    fn write_all(&self, work: &mut dyn Work) -> Result<()> {
        let mut map = write(&self.projects);
        loop {
            let cells: Cells = map.iter().map(|(id, cell)| (id.clone(), cell.clone())).collect();
            let Outcome { done, fresh, retired } = transact(&cells, true, work);
            forget(&mut map, &retired);
            if let Some(done) = done {
                let fresh = fresh.into_iter().filter(|(_, project)| !project.is_empty());
                map.extend(fresh.map(|(id, project)| (id, Arc::new(RwLock::new(project)))));
                return done;
            }
        }
    }

    /// The cells of these projects; those that there are not yet are made.
    fn cells(&self, ids: Vec<Id>) -> Cells {
        let map = read(&self.projects);
        let all_there: Option<Cells> = ids.iter().map(|id| Some((id.clone(), map.get(id)?.clone()))).collect();
        drop(map);
        all_there.unwrap_or_else(|| {
            let mut map = write(&self.projects);
            ids.into_iter().map(|id| (id.clone(), map.entry(id).or_default().clone())).collect()
        })
    }

    fn size_bytes(&self) -> u64 {
        self.look_at_all(|projects| projects.iter().map(|(_, project)| project.bytes).sum())
    }
}

/// Locks for reading. A transaction that panicked has restored its project before it let go of the lock.
fn read<T>(lock: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    lock.read().unwrap_or_else(PoisonError::into_inner)
}

/// Locks for writing, as [`read`] does.
fn write<T>(lock: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
    lock.write().unwrap_or_else(PoisonError::into_inner)
}

/// Takes retired cells out of the map, unless others stand there by now.
fn forget(map: &mut BTreeMap<Id, Arc<Cell>>, retired: &Cells) {
    for (id, cell) in retired {
        if map.get(id).is_some_and(|current| Arc::ptr_eq(current, cell)) {
            map.remove(id);
        }
    }
}

/// The projects that the commands of a work name, in the order of their ids; `None` when it may touch any.
fn projects_of(work: &dyn Work) -> Option<Vec<Id>> {
    let mut ids: Vec<Id> = work.commands()?.into_iter().map(|command| command.project_id().clone()).collect();
    ids.sort_unstable();
    ids.dedup();
    Some(ids)
}

impl Backend for MemoryBackend {
    fn write(&self, work: &mut dyn Work) -> Result<()> {
        match projects_of(work) {
            Some(ids) => self.write_projects(ids, work),
            None => self.write_all(work),
        }
    }

    fn shares_commits(&self) -> bool {
        false
    }

    fn broken(&self) -> Option<Error> {
        None
    }

    fn get_run(&self, project: &Id, id: &Id, form: AnswerForm) -> Result<Option<Run>> {
        Ok(self.get(project, form, |project| project.run(id).cloned()))
    }

    fn get_node(&self, project: &Id, id: &Id, form: AnswerForm) -> Result<Option<NodeRun>> {
        Ok(self.get(project, form, |project| project.node(id).cloned()))
    }

    fn get_agent(&self, project: &Id, node_run_id: &Id, form: AnswerForm) -> Result<Option<AgentRun>> {
        Ok(self.get(project, form, |project| project.agent(node_run_id).cloned()))
    }

    fn list_runs(&self, filter: &RunFilter, page: &PageRequest) -> Result<Rows<Run>> {
        let workflows = filter.workflow_ids.as_deref();
        self.page(&filter.project_id, page, |project| query::list(project, workflows, filter.statuses, &filter.started, page))
    }

    fn list_nodes(&self, filter: &NodeFilter, page: &PageRequest) -> Result<Rows<NodeRun>> {
        self.page(&filter.project_id, page, |project| query::list_nodes(project, filter, page))
    }

    fn list_agents(&self, filter: &AgentFilter, page: &PageRequest) -> Result<Rows<AgentRun>> {
        let agents = filter.agent_id.as_ref().map(std::slice::from_ref);
        self.page(&filter.project_id, page, |project| query::list(project, agents, filter.statuses, &filter.created, page))
    }

    fn list_projects(&self, page: &PageRequest) -> Result<Rows<ProjectSummary>> {
        self.look_at_all(|projects| query::list_projects(projects, page))
    }

    fn latest_runs(&self, project: &Id, workflow_ids: &[Id], form: AnswerForm) -> Result<Vec<Run>> {
        let runs = self.look(project, |project| query::latest(project, workflow_ids));
        Ok(query::copy_all(&runs.unwrap_or_default(), form))
    }

    fn expired_runs(&self, filter: &ExpiredFilter, form: AnswerForm) -> Result<(Vec<Run>, bool)> {
        self.expired(filter, form)
    }

    fn expired_agents(&self, filter: &ExpiredFilter, form: AnswerForm) -> Result<(Vec<AgentRun>, bool)> {
        self.expired(filter, form)
    }

    fn run_stats(&self, project: &Id, workflow_ids: Option<&[Id]>) -> Result<RunStats> {
        Ok(self.look(project, |project| query::stats(project, workflow_ids)).unwrap_or_default())
    }

    fn export(&self, sink: &mut dyn FnMut(ExportRecord) -> Result<()>) -> Result<()> {
        let (mut runs, mut nodes, mut agents) = self.look_at_all(|projects| {
            let (mut runs, mut nodes, mut agents) = (Vec::new(), Vec::new(), Vec::new());
            for (_, project) in projects {
                runs.extend(project.runs.iter().map(|(_, entry)| entry.run.clone()));
                nodes.extend(project.nodes.iter().map(|(_, entry)| entry.node.clone()));
                agents.extend(project.nodes.iter().filter_map(|(_, entry)| entry.agent.clone()));
            }
            (runs, nodes, agents)
        });
        hand_out(&mut runs, |run| sink(ExportRecord::Run(run)))?;
        hand_out(&mut nodes, |node| sink(ExportRecord::Node(node)))?;
        hand_out(&mut agents, |agent| sink(ExportRecord::Agent(agent)))
    }

    fn info(&self) -> Result<StoreInfo> {
        Ok(StoreInfo {
            backend: "memory".into(),
            address: "memory:".into(),
            schema_version: SCHEMA_VERSION,
            library_version: String::new(),
            engine_name: "memory".into(),
            engine_version: env!("CARGO_PKG_VERSION").into(),
            durability: self.durability.into(),
            mode: Mode::Create.as_str().into(),
            size_bytes: self.size_bytes(),
        })
    }

    fn is_read_only(&self) -> bool {
        false
    }

    fn verify(&self) -> Result<VerifyReport> {
        Ok(self.look_at_all(verify::verify))
    }

    fn compact(&self) -> Result<CompactReport> {
        // Freed memory goes back to the allocator at once.
        let bytes = self.size_bytes();
        Ok(CompactReport { bytes_before: bytes, bytes_after: bytes })
    }

    fn close(&self) -> Result<()> {
        write(&self.projects).clear();
        Ok(())
    }
}

/// Hands out records that stand project by project, each project's by id.
fn hand_out<R: Record>(records: &mut [Arc<R>], mut sink: impl FnMut(R) -> Result<()>) -> Result<()> {
    for records in records.chunk_by_mut(|a, b| a.project_id() == b.project_id()) {
        records.sort_unstable_by(|a, b| a.key_id().cmp(b.key_id()));
        records.iter().try_for_each(|record| sink(R::clone(record)))?;
    }
    Ok(())
}
