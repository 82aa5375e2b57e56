//! Queries over the projects that the caller has locked. They collect references; the caller copies the records once it
//! has let go of the locks.

use std::cmp::Ordering;
use std::collections::btree_map;
use std::ops::Bound;
use std::sync::Arc;

use runledger_core::keys::{merge, take_page};
use runledger_core::{
    AnswerForm, ExpiredFilter, Id, NodeFilter, NodeRun, Order, PageRequest, PageStart, ProjectSummary, Record, Result, Rows, Run, RunStats,
    Status, StatusCounts, StatusSet, Time, Window,
};

use crate::schema::{ByStatus, Lists, Place, Places, Project, Ranked};

/// A record as an answer holds it. Its texts and payloads are shared, so that none is copied.
pub(crate) fn copy<R: Record>(record: &Arc<R>, form: AnswerForm) -> R {
    let record = R::clone(record);
    match form {
        AnswerForm::Record => record,
        AnswerForm::State => record.into_state(),
    }
}

/// The records of a page as its answer holds them.
pub(crate) fn copy_rows<R: Record>(rows: Rows<Arc<R>>, form: AnswerForm) -> Rows<R> {
    Rows { rows: copy_all(&rows.rows, form), total: rows.total, has_more: rows.has_more }
}

/// Records as their answer holds them.
pub(crate) fn copy_all<R: Record>(records: &[Arc<R>], form: AnswerForm) -> Vec<R> {
    records.iter().map(|record| copy(record, form)).collect()
}

/// Up to the places of a time, those excluded.
pub(crate) fn before_time(time: Time) -> Bound<Place> {
    // The empty text is no id, and sorts before every one.
    Bound::Excluded((time, Id::from("")))
}

/// Up to the places of a time, those included.
fn until_time(time: Time) -> Bound<Place> {
    match time.plus_us(1) {
        next if next > time => before_time(next),
        _ => Bound::Unbounded,
    }
}

/// A stretch of an order.
struct Span {
    from: Bound<Place>,
    to: Bound<Place>,
}

impl Span {
    fn of_window(window: &Window) -> Self {
        Span {
            from: window.after.map_or(Bound::Unbounded, |time| Bound::Included((time, Id::from("")))),
            to: window.before.map_or(Bound::Unbounded, until_time),
        }
    }

    /// What a page that begins after a place has still to read.
    fn after(mut self, order: Order, start: &PageStart) -> Self {
        let PageStart::After(position) = start else { return self };
        let place = (position.time, position.id.clone());
        match order {
            Order::Asc if lies_after(&self.from, &place) => {}
            Order::Asc => self.from = Bound::Excluded(place),
            Order::Desc if lies_before(&self.to, &place) => {}
            Order::Desc => self.to = Bound::Excluded(place),
        }
        self
    }

    /// Walks the stretch of one order. A window may well end before it begins, which a range would not take.
    fn walk<'a>(&self, places: &'a Places, order: Order) -> Option<Walk<'a>> {
        if let (Bound::Included(from) | Bound::Excluded(from), Bound::Included(to) | Bound::Excluded(to)) = (&self.from, &self.to)
            && from >= to
        {
            return None;
        }
        let range = places.range((self.from.as_ref(), self.to.as_ref()));
        Some(Walk { range, order })
    }
}

fn lies_after(bound: &Bound<Place>, place: &Place) -> bool {
    matches!(bound, Bound::Included(bound) | Bound::Excluded(bound) if bound > place)
}

fn lies_before(bound: &Bound<Place>, place: &Place) -> bool {
    matches!(bound, Bound::Included(bound) | Bound::Excluded(bound) if bound < place)
}

/// A walk over a stretch of one order, in either direction.
struct Walk<'a> {
    range: btree_map::Range<'a, Place, usize>,
    order: Order,
}

impl<'a> Iterator for Walk<'a> {
    type Item = Result<(&'a Place, usize)>;

    fn next(&mut self) -> Option<Self::Item> {
        let (place, slot) = match self.order {
            Order::Asc => self.range.next()?,
            Order::Desc => self.range.next_back()?,
        };
        Some(Ok((place, *slot)))
    }
}

impl Lists {
    /// The orders of the workflows or agents that were asked for, in no order themselves. The list that was asked may be
    /// much longer than what there is, or much shorter.
    fn chosen(&self, under: Option<&[Id]>) -> Vec<(&Id, &ByStatus)> {
        match under {
            None => self.under.iter().collect(),
            Some(asked) if asked.len() <= self.under.len() => asked.iter().filter_map(|id| self.under.get_key_value(id)).collect(),
            Some(asked) => self.under.iter().filter(|(id, _)| asked.binary_search(id).is_ok()).collect(),
        }
    }

    /// The orders that together hold what a list asks for, without the empty ones.
    fn sources(&self, under: Option<&[Id]>, statuses: StatusSet) -> Vec<&Places> {
        let chosen = match under {
            None => vec![&self.all],
            Some(_) => self.chosen(under).into_iter().map(|(_, by_status)| by_status).collect(),
        };
        let places = chosen.into_iter().flat_map(|by_status| statuses.iter().map(|status| by_status.of(status)));
        places.filter(|places| !places.is_empty()).collect()
    }
}

/// The slot of the queued record with the smallest place.
pub(crate) fn first_queued(lists: &Lists, under: Option<&[Id]>) -> Option<usize> {
    let sources = lists.sources(under, StatusSet::only(Status::Queued));
    let first = sources.into_iter().filter_map(|queued| queued.first_key_value()).min();
    first.map(|(_, slot)| *slot)
}

/// A page of runs or agent runs.
pub(crate) fn list<R: Ranked>(
    project: &Project,
    under: Option<&[Id]>,
    statuses: StatusSet,
    window: &Window,
    page: &PageRequest,
) -> Result<Rows<Arc<R>>> {
    let sources = R::lists(project).sources(under, statuses);
    let whole = Span::of_window(window);
    let total = page.with_total.then(|| match window.is_open() {
        true => sources.iter().map(|places| places.len()).sum::<usize>() as u64,
        false => sources.iter().filter_map(|places| whole.walk(places, Order::Asc)).map(|walk| walk.range.count()).sum::<usize>() as u64,
    });
    let rest = whole.after(page.order, &page.start);
    let walks = sources.into_iter().filter_map(|places| rest.walk(places, page.order));
    let (slots, has_more) = take_page(merge(page.order, walks), page)?;
    let rows = slots.into_iter().filter_map(|(_, slot)| R::at(project, slot).cloned()).collect();
    Ok(Rows { rows, total, has_more })
}

/// A page of node runs: those of one run in its own order, else all of the project.
pub(crate) fn list_nodes(project: &Project, filter: &NodeFilter, page: &PageRequest) -> Result<Rows<Arc<NodeRun>>> {
    match &filter.workflow_run_id {
        Some(run) => list_nodes_of(project, run, filter, page),
        None => Ok(list_all_nodes(project, filter, page)),
    }
}

fn list_nodes_of(project: &Project, run: &Id, filter: &NodeFilter, page: &PageRequest) -> Result<Rows<Arc<NodeRun>>> {
    let all = project.run_entry(run).map_or(&[][..], |entry| &entry.nodes);
    let from = filter.started.after.map_or(0, |after| all.partition_point(|((time, ..), _)| *time < after));
    let to = filter.started.before.map_or(all.len(), |before| all.partition_point(|((time, ..), _)| *time <= before));
    let window = all.get(from..to).unwrap_or_default();
    let matching = |(_, slot): &(_, usize)| project.nodes.get(*slot).map(|entry| &entry.node).filter(|node| filter.matches(node));
    let total = page.with_total.then(|| match selects_within_run(filter) {
        true => window.iter().filter_map(matching).count() as u64,
        false => window.len() as u64,
    });
    let rest = match (&page.start, page.order) {
        (PageStart::Offset(_), _) => window,
        (PageStart::After(position), Order::Asc) => {
            &window
                [window.partition_point(|(place, _)| (place.0, place.1, &place.2) <= (position.time, position.node_index, &position.id))..]
        }
        (PageStart::After(position), Order::Desc) => {
            &window
                [..window.partition_point(|(place, _)| (place.0, place.1, &place.2) < (position.time, position.node_index, &position.id))]
        }
    };
    let (rows, has_more) = match page.order {
        Order::Asc => take_page(rest.iter().filter_map(matching).cloned().map(Ok), page)?,
        Order::Desc => take_page(rest.iter().rev().filter_map(matching).cloned().map(Ok), page)?,
    };
    Ok(Rows { rows, total, has_more })
}

/// Whether a filter asks for more than the node runs of one run in a window.
fn selects_within_run(filter: &NodeFilter) -> bool {
    let ids = [&filter.workflow_id, &filter.node_type, &filter.node_id, &filter.node_key];
    !filter.statuses.is_all() || ids.into_iter().any(Option::is_some)
}

/// Reads every node run of the project, and sorts no more of them than the page needs.
fn list_all_nodes(project: &Project, filter: &NodeFilter, page: &PageRequest) -> Rows<Arc<NodeRun>> {
    let all = project.nodes.iter().map(|(_, entry)| &entry.node);
    let mut rows: Vec<&Arc<NodeRun>> = all.filter(|node| filter.matches(node)).collect();
    let total = page.with_total.then_some(rows.len() as u64);
    let passed = match &page.start {
        PageStart::Offset(offset) => usize::try_from(*offset).unwrap_or(usize::MAX),
        PageStart::After(start) => {
            let start = (start.time, start.node_index, &start.id);
            rows.retain(|node| page.order.apply(place_of(node).cmp(&start)) == Ordering::Greater);
            0
        }
    };
    let by_place = |a: &&Arc<NodeRun>, b: &&Arc<NodeRun>| page.order.apply(place_of(a).cmp(&place_of(b)));
    let end = passed.saturating_add(page.limit);
    let has_more = end < rows.len();
    if has_more {
        rows.select_nth_unstable_by(end, by_place);
        rows.truncate(end);
    }
    rows.sort_unstable_by(by_place);
    Rows { rows: rows.into_iter().skip(passed).cloned().collect(), total, has_more }
}

fn place_of(node: &NodeRun) -> (Time, u32, &Id) {
    (node.started_at, node.node_index, &node.id)
}

/// A page of the projects that have runs.
pub(crate) fn list_projects(projects: &[(&Id, &Project)], page: &PageRequest) -> Result<Rows<ProjectSummary>> {
    let with_runs = || projects.iter().filter(|(_, project)| !project.is_empty());
    let follows = |id: &Id| match &page.start {
        PageStart::Offset(_) => true,
        PageStart::After(start) => page.order.apply(id.cmp(&start.id)) == Ordering::Greater,
    };
    let rest = with_runs().filter(|(id, _)| follows(id));
    let summary = |(id, project): &(&Id, &Project)| Ok(ProjectSummary { project_id: (*id).clone(), runs: project.run_slots.len() as u64 });
    let (rows, has_more) = match page.order {
        Order::Asc => take_page(rest.map(summary), page)?,
        Order::Desc => take_page(rest.rev().map(summary), page)?,
    };
    Ok(Rows { rows, total: page.with_total.then(|| with_runs().count() as u64), has_more })
}

/// The latest run of each workflow, in the order asked.
pub(crate) fn latest(project: &Project, workflow_ids: &[Id]) -> Vec<Arc<Run>> {
    let latest = |by_status: &ByStatus| by_status.0.iter().filter_map(|places| places.last_key_value()).max().map(|(_, slot)| *slot);
    let found = workflow_ids.iter().filter_map(|id| project.run_lists.under.get(id)).filter_map(latest);
    found.filter_map(|slot| Run::at(project, slot).cloned()).collect()
}

/// Runs or agent runs whose lease has ended, over several projects.
pub(crate) fn expired<R: Ranked>(projects: &[(&Id, &Project)], filter: &ExpiredFilter) -> Result<(Vec<Arc<R>>, bool)> {
    let span = Span { from: Bound::Unbounded, to: until_time(filter.expired_by) };
    let walks = projects.iter().filter_map(|(id, project)| {
        let walk = span.walk(&R::lists(project).leases, Order::Asc)?;
        Some(walk.map(move |row| row.map(|((lease, record), slot)| ((lease, *id, record), (*project, slot)))))
    });
    let mut rows = merge(Order::Asc, walks);
    let mut found = Vec::new();
    for row in rows.by_ref().take(filter.limit) {
        let (_, (project, slot)) = row?;
        found.extend(R::at(project, slot).cloned());
    }
    Ok((found, rows.next().transpose()?.is_some()))
}

/// The counts of a project's runs, from the lengths of its orders.
pub(crate) fn stats(project: &Project, workflow_ids: Option<&[Id]>) -> RunStats {
    let mut chosen = project.run_lists.chosen(workflow_ids);
    chosen.sort_unstable_by_key(|(id, _)| *id);
    let counts = |by_status: &ByStatus| StatusCounts(by_status.0.each_ref().map(|places| places.len() as u64));
    RunStats::from_workflows(chosen.into_iter().map(|(id, by_status)| (id.clone(), counts(by_status))))
}
