//! Backends that are broken in one point.

use std::cmp::Reverse;
use std::sync::{Mutex, PoisonError};

use runledger_core::{
    AgentFilter, AgentRun, AnswerForm, Backend, Command, CompactReport, Error, ExpiredFilter, ExportRecord, Id, Listed, NodeFilter,
    NodeRun, Order, PageRequest, PageStart, Position, ProjectSummary, Record, Result, Rows, Run, RunFilter, RunStats, Status, StoreInfo,
    Tx, VerifyReport, Work,
};

use super::transaction::BrokenTx;
use super::{BackendFault, BackendFault as F};

/// A backend with a fault.
pub struct Broken<B> {
    inner: B,
    fault: BackendFault,
    seen: Mutex<Seen>,
}

/// What a broken backend remembers and should not.
#[derive(Default)]
pub(super) struct Seen {
    pub(super) runs: Vec<Run>,
    pub(super) deleted_nodes: Vec<NodeRun>,
    projects: Vec<Id>,
}

impl<B: Backend> Broken<B> {
    /// Breaks a backend.
    pub fn new(inner: B, fault: BackendFault) -> Self {
        Broken { inner, fault, seen: Mutex::default() }
    }

    fn is(&self, fault: BackendFault) -> bool {
        self.fault == fault
    }

    fn seen(&self) -> std::sync::MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn form(&self, form: AnswerForm) -> AnswerForm {
        if self.is(F::ListIgnoresTheForm) { AnswerForm::Record } else { form }
    }

    /// A page, with what is wrong in all lists.
    fn page<R: Listed>(&self, page: &PageRequest, list: impl Fn(&PageRequest) -> Result<Rows<R>>) -> Result<Rows<R>> {
        let mut asked = PageRequest { form: self.form(page.form), ..page.clone() };
        if let (true, PageStart::After(position)) = (self.is(F::CursorPassesOverTies), &mut asked.start) {
            let past_the_ties = if page.order == Order::Asc { position.time.plus_us(1) } else { position.time };
            *position = Position { time: past_the_ties, node_index: 0, id: Id::from("") };
        }
        let mut rows = list(&asked)?;
        match self.fault {
            F::TotalIsOneMore => rows.total = rows.total.map(|total| total + 1),
            F::TotalCountsOnlyThePage => rows.total = rows.total.map(|_| rows.rows.len() as u64),
            F::LastRowIsNotAnnounced if rows.has_more => {
                rows.has_more = list(&PageRequest { limit: asked.limit + 1, ..asked })?.has_more;
            }
            F::TiesComeInReverse => {
                rows.rows.sort_by_key(|row| (row.position().time, Reverse(row.position().id)));
                if page.order == Order::Desc {
                    rows.rows.reverse();
                }
            }
            _ => {}
        }
        Ok(rows)
    }

    /// The filter of expired leases with what is wrong in it, and the rows in the wrong order.
    fn expired<R: Record>(
        &self,
        filter: &ExpiredFilter,
        list: impl Fn(&ExpiredFilter) -> Result<(Vec<R>, bool)>,
    ) -> Result<(Vec<R>, bool)> {
        let mut asked = filter.clone();
        match self.fault {
            F::ExpiredLeavesOutTheBound => asked.expired_by = asked.expired_by.plus_us(-1),
            F::ExpiredIgnoresTheProject => asked.project_id = None,
            F::ExpiredComeById => asked.limit = usize::MAX - 1,
            _ => {}
        }
        let (mut rows, mut has_more) = list(&asked)?;
        if self.is(F::ExpiredComeById) {
            rows.sort_by_key(|row| row.key_id().clone());
            has_more = rows.len() > filter.limit;
            rows.truncate(filter.limit);
        }
        Ok((rows, has_more))
    }

    fn all_projects(&self) -> Result<Vec<Id>> {
        let page =
            PageRequest { order: Order::Asc, limit: 10_000, start: PageStart::Offset(0), with_total: false, form: AnswerForm::State };
        Ok(self.inner.list_projects(&page)?.rows.into_iter().map(|project| project.project_id).collect())
    }
}

struct BrokenWork<'a> {
    work: &'a mut dyn Work,
    fault: BackendFault,
    seen: &'a Mutex<Seen>,
    swallowed: Option<Error>,
}

impl Work for BrokenWork<'_> {
    fn commands(&self) -> Option<Vec<&Command>> {
        self.work.commands()
    }

    fn run(&mut self, tx: &mut dyn Tx) -> Result<()> {
        let command = match self.work.commands().as_deref() {
            Some([command]) => Some((*command).clone()),
            _ => None,
        };
        let done = self.work.run(&mut BrokenTx { tx, fault: self.fault, command, seen: self.seen });
        if self.fault != F::FailedWorkIsCommitted {
            return done;
        }
        self.swallowed = done.err();
        Ok(())
    }
}

impl<B: Backend> Backend for Broken<B> {
    fn write(&self, work: &mut dyn Work) -> Result<()> {
        let mut broken = BrokenWork { work, fault: self.fault, seen: &self.seen, swallowed: None };
        self.inner.write(&mut broken)?;
        broken.swallowed.map_or(Ok(()), Err)
    }

    fn shares_commits(&self) -> bool {
        self.inner.shares_commits()
    }

    fn broken(&self) -> Option<Error> {
        self.inner.broken()
    }

    fn get_run(&self, project: &Id, id: &Id, form: AnswerForm) -> Result<Option<Run>> {
        let found = self.inner.get_run(project, id, self.form(form))?;
        if !self.is(F::GetIsStale) {
            return Ok(found);
        }
        // The first answer about a run is kept for good.
        let mut seen = self.seen();
        if let Some(stale) = seen.runs.iter().find(|run| run.project_id == *project && run.id == *id) {
            return Ok(Some(stale.clone()));
        }
        seen.runs.extend(found.clone());
        Ok(found)
    }

    fn get_node(&self, project: &Id, id: &Id, form: AnswerForm) -> Result<Option<NodeRun>> {
        let found = self.inner.get_node(project, id, form)?;
        if found.is_none() && self.is(F::DeletedNodesCanStillBeRead) {
            return Ok(self.seen().deleted_nodes.iter().find(|node| node.project_id == *project && node.id == *id).cloned());
        }
        if found.is_none() && self.is(F::GetIgnoresTheProject) {
            for other in self.all_projects()? {
                if let Some(node) = self.inner.get_node(&other, id, form)? {
                    return Ok(Some(node));
                }
            }
        }
        Ok(found)
    }

    fn get_agent(&self, project: &Id, node_run_id: &Id, form: AnswerForm) -> Result<Option<AgentRun>> {
        self.inner.get_agent(project, node_run_id, form)
    }

    fn list_runs(&self, filter: &RunFilter, page: &PageRequest) -> Result<Rows<Run>> {
        let mut filter = filter.clone();
        if self.is(F::WindowIsOpenAtItsEnd) {
            filter.started.before = filter.started.before.map(|before| before.plus_us(-1));
        }
        self.page(page, |page| self.inner.list_runs(&filter, page))
    }

    fn list_nodes(&self, filter: &NodeFilter, page: &PageRequest) -> Result<Rows<NodeRun>> {
        let mut filter = filter.clone();
        if self.is(F::ListIgnoresTheNodeKey) {
            filter.node_key = None;
        }
        self.page(page, |page| self.inner.list_nodes(&filter, page))
    }

    fn list_agents(&self, filter: &AgentFilter, page: &PageRequest) -> Result<Rows<AgentRun>> {
        self.page(page, |page| self.inner.list_agents(filter, page))
    }

    fn list_projects(&self, page: &PageRequest) -> Result<Rows<ProjectSummary>> {
        let mut rows = self.inner.list_projects(page)?;
        if self.is(F::ProjectWithoutRunsIsListed) {
            let mut seen = self.seen();
            seen.projects.extend(rows.rows.iter().map(|row| row.project_id.clone()));
            seen.projects.sort();
            seen.projects.dedup();
            let gone = seen.projects.iter().filter(|project| !rows.rows.iter().any(|row| row.project_id == **project));
            let gone: Vec<ProjectSummary> = gone.map(|project| ProjectSummary { project_id: project.clone(), runs: 0 }).collect();
            rows.rows.extend(gone);
        }
        Ok(rows)
    }

    fn latest_runs(&self, project: &Id, workflow_ids: &[Id], form: AnswerForm) -> Result<Vec<Run>> {
        let mut runs = self.inner.latest_runs(project, workflow_ids, form)?;
        if self.is(F::LatestComeInByteOrder) {
            runs.sort_by_key(|run| run.workflow_id.clone());
        }
        Ok(runs)
    }

    fn expired_runs(&self, filter: &ExpiredFilter, form: AnswerForm) -> Result<(Vec<Run>, bool)> {
        self.expired(filter, |filter| self.inner.expired_runs(filter, form))
    }

    fn expired_agents(&self, filter: &ExpiredFilter, form: AnswerForm) -> Result<(Vec<AgentRun>, bool)> {
        self.expired(filter, |filter| self.inner.expired_agents(filter, form))
    }

    fn run_stats(&self, project: &Id, workflow_ids: Option<&[Id]>) -> Result<RunStats> {
        let mut stats = self.inner.run_stats(project, workflow_ids)?;
        if self.is(F::StatsLoseARun) {
            for counts in std::iter::once(&mut stats.by_status).chain(stats.by_workflow.iter_mut().map(|(_, counts)| counts)) {
                counts.0[Status::Running as usize] = counts.of(Status::Running).saturating_sub(1);
            }
        }
        Ok(stats)
    }

    fn export(&self, sink: &mut dyn FnMut(ExportRecord) -> Result<()>) -> Result<()> {
        let mut missed = false;
        let mut held_back = None;
        self.inner.export(&mut |record| match record {
            ExportRecord::Agent(_) if self.is(F::ExportMissesAnAgent) && !std::mem::replace(&mut missed, true) => Ok(()),
            // The first run comes after the second one.
            ExportRecord::Run(_) if self.is(F::ExportIsOutOfOrder) && !std::mem::replace(&mut missed, true) => {
                held_back = Some(record);
                Ok(())
            }
            record => {
                sink(record)?;
                held_back.take().map_or(Ok(()), &mut *sink)
            }
        })?;
        held_back.map_or(Ok(()), sink)
    }

    fn info(&self) -> Result<StoreInfo> {
        self.inner.info()
    }

    fn is_read_only(&self) -> bool {
        self.inner.is_read_only()
    }

    fn verify(&self) -> Result<VerifyReport> {
        if self.is(F::VerifyChecksNothing) {
            return Ok(VerifyReport::default());
        }
        self.inner.verify()
    }

    fn compact(&self) -> Result<CompactReport> {
        self.inner.compact()
    }

    fn close(&self) -> Result<()> {
        self.inner.close()
    }
}
