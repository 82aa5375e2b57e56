//! Queries. Each reads through one transaction, and so sees one state.

use std::collections::BinaryHeap;
use std::sync::Arc;

use redb::{AccessGuard, ReadTransaction, ReadableDatabase, ReadableTable, ReadableTableMetadata};
use runledger_core::codec::StateCodec;
use runledger_core::keys::{Key, KeyReader, lease_bucket, merge, take_page};
use runledger_core::{
    AgentFilter, AgentRun, AnswerForm, EndedFilter, Error, ExpiredFilter, ExportRecord, Id, Listed, NodeFilter, NodeRun, Order,
    PageRequest, PageStart, ProjectSummary, Result, Rows, Run, RunFilter, RunStats, Status, StatusCounts, StatusSet, Stored, Time, Window,
};

use crate::error::{Coded, guarded};
use crate::schema::{self, Bytes, Definition, Reads, Span, node_position_rest, position_rest};
use crate::transact::rest_id;
use crate::value;

/// One state of the store.
pub(crate) struct View(ReadTransaction);

/// A row of a table.
type Row<'t> = (AccessGuard<'t, Bytes>, AccessGuard<'t, Bytes>);

impl View {
    /// The present state.
    pub(crate) fn of(db: &impl ReadableDatabase) -> Result<Self> {
        db.begin_read().coded().map(View)
    }

    pub(crate) fn transaction(&self) -> &ReadTransaction {
        &self.0
    }

    pub(crate) fn table(&self, definition: Definition) -> Result<Reads> {
        self.0.open_table(definition).coded()
    }

    fn read<R: StateCodec>(&self, project: &Id, id: &Id, row: &[u8], form: AnswerForm) -> Result<R> {
        let apart = |slot| -> Result<Arc<str>> { value::read_apart(&self.table(schema::LARGE)?, R::ENTITY, project, id, slot) };
        value::read(project, id, row, form, apart).map(|stored| stored.record)
    }

    fn get<R: StateCodec>(&self, records: &Reads, project: &Id, id: &Id, form: AnswerForm) -> Result<Option<R>> {
        let row = records.get(schema::record_key(project, id).0.as_slice()).coded()?;
        row.map(|row| self.read(project, id, row.value(), form)).transpose()
    }

    /// The record that an index names.
    fn indexed<R: StateCodec>(&self, records: &Reads, project: &Id, id: &Id, form: AnswerForm) -> Result<R> {
        self.get(records, project, id, form)?.ok_or_else(|| schema::dangling::<R>(project, id))
    }

    pub(crate) fn get_run(&self, project: &Id, id: &Id, form: AnswerForm) -> Result<Option<Run>> {
        self.get(&self.table(schema::RUNS)?, project, id, form)
    }

    pub(crate) fn get_node(&self, project: &Id, id: &Id, form: AnswerForm) -> Result<Option<NodeRun>> {
        let place = self.table(schema::NODE_IDS)?.get(schema::record_key(project, id).0.as_slice()).coded()?;
        place.map(|place| self.placed_node(project, id, place.value(), form)).transpose()
    }

    fn placed_node(&self, project: &Id, id: &Id, place: &[u8], form: AnswerForm) -> Result<NodeRun> {
        let key = schema::placed_node_key(project, id, place);
        let row = self.table(schema::NODES)?.get(key.0.as_slice()).coded()?;
        let row = row.ok_or_else(|| schema::dangling::<NodeRun>(project, id))?;
        self.read(project, id, row.value(), form)
    }

    pub(crate) fn get_agent(&self, project: &Id, node_run_id: &Id, form: AnswerForm) -> Result<Option<AgentRun>> {
        self.get(&self.table(schema::AGENTS)?, project, node_run_id, form)
    }

    pub(crate) fn list_runs(&self, filter: &RunFilter, page: &PageRequest) -> Result<Rows<Run>> {
        let list = IndexList {
            records: self.table(schema::RUNS)?,
            by_status: self.table(schema::RUNS_BY_STATUS)?,
            by_owner: self.table(schema::RUNS_BY_WORKFLOW)?,
            counters: self.table(schema::RUN_COUNTS)?,
            project: &filter.project_id,
            owners: filter.workflow_ids.as_deref(),
            statuses: filter.statuses,
            window: filter.started,
        };
        list.page(self, page)
    }

    pub(crate) fn list_agents(&self, filter: &AgentFilter, page: &PageRequest) -> Result<Rows<AgentRun>> {
        let list = IndexList {
            records: self.table(schema::AGENTS)?,
            by_status: self.table(schema::AGENTS_BY_STATUS)?,
            by_owner: self.table(schema::AGENTS_BY_AGENT)?,
            counters: self.table(schema::AGENT_COUNTS)?,
            project: &filter.project_id,
            owners: filter.agent_id.as_ref().map(std::slice::from_ref),
            statuses: filter.statuses,
            window: filter.created,
        };
        list.page(self, page)
    }

    pub(crate) fn list_nodes(&self, filter: &NodeFilter, page: &PageRequest) -> Result<Rows<NodeRun>> {
        let nodes = self.table(schema::NODES)?;
        let (keys, total, has_more) = match &filter.workflow_run_id {
            Some(run) => nodes_of_run(&nodes, run, filter, page)?,
            None => nodes_of_project(&nodes, filter, page)?,
        };
        let read = |key: &Vec<u8>| {
            let id = schema::node_id(key).ok_or_else(schema::bad_index)?;
            let row = nodes.get(key.as_slice()).coded()?.ok_or_else(|| schema::dangling::<NodeRun>(&filter.project_id, &id))?;
            self.read(&filter.project_id, &id, row.value(), page.form)
        };
        Ok(Rows { rows: keys.iter().map(read).collect::<Result<_>>()?, total, has_more })
    }

    pub(crate) fn list_projects(&self, page: &PageRequest) -> Result<Rows<ProjectSummary>> {
        let projects = self.table(schema::PROJECTS)?;
        let total = page.with_total.then(|| projects.len()).transpose().coded()?;
        let range = match (&page.start, page.order) {
            (PageStart::Offset(_), _) => projects.range::<&[u8]>(..),
            (PageStart::After(position), Order::Asc) => {
                // The smallest key that is greater.
                let from = [Key::new().id(&position.id).0, vec![0]].concat();
                projects.range::<&[u8]>(from.as_slice()..)
            }
            (PageStart::After(position), Order::Desc) => projects.range::<&[u8]>(..Key::new().id(&position.id).0.as_slice()),
        };
        let rows = Walk { range: range.coded()?, order: page.order }.map(|row| {
            let (key, value) = row?;
            let project_id = KeyReader(key.value()).id().ok_or_else(schema::bad_index)?;
            Ok(ProjectSummary { project_id, runs: count_of(value.value())? })
        });
        let (rows, has_more) = take_page(rows, page)?;
        Ok(Rows { rows, total, has_more })
    }

    pub(crate) fn latest_runs(&self, project: &Id, workflow_ids: &[Id], form: AnswerForm) -> Result<Vec<Run>> {
        let (runs, by_workflow, counters) =
            (self.table(schema::RUNS)?, self.table(schema::RUNS_BY_WORKFLOW)?, self.table(schema::RUN_COUNTS)?);
        let mut latest = Vec::new();
        for workflow in workflow_ids {
            let mut last = None;
            for (_, counts) in counts(&counters, project, Some(std::slice::from_ref(workflow)))? {
                for status in held_statuses(&counts, StatusSet::ALL) {
                    let span = Span::of(&Key::new().id(project).id(workflow).status(status));
                    last = last.max(first_of(&by_workflow, &span, Order::Desc)?);
                }
            }
            if let Some(rest) = last {
                latest.push(self.indexed(&runs, project, &rest_id(&rest)?, form)?);
            }
        }
        Ok(latest)
    }

    pub(crate) fn expired_runs(&self, filter: &ExpiredFilter, form: AnswerForm) -> Result<(Vec<Run>, bool)> {
        let end = |run: &Run| run.execution.as_ref().map(|execution| execution.lease_expires_at);
        self.expired(&self.table(schema::RUNS)?, &self.table(schema::RUN_LEASES)?, filter, form, end)
    }

    pub(crate) fn expired_agents(&self, filter: &ExpiredFilter, form: AnswerForm) -> Result<(Vec<AgentRun>, bool)> {
        let end = |agent: &AgentRun| agent.execution.as_ref().map(|execution| execution.lease_expires_at);
        self.expired(&self.table(schema::AGENTS)?, &self.table(schema::AGENT_LEASES)?, filter, form, end)
    }

    /// Walks the buckets of leases up to the bound. A lease's exact end is in its record alone, so that each bucket is
    /// sorted, and the last one filtered.
    fn expired<R: StateCodec>(
        &self,
        records: &Reads,
        leases: &Reads,
        filter: &ExpiredFilter,
        form: AnswerForm,
        lease_end: impl Fn(&R) -> Option<Time>,
    ) -> Result<(Vec<R>, bool)> {
        let bound = Key::new().i64(lease_bucket(filter.expired_by) + 1);
        let mut found: Vec<(Time, Id, Id)> = Vec::new();
        let mut from = Key::new();
        while found.len() <= filter.limit {
            let next = leases.range::<&[u8]>(from.0.as_slice()..bound.0.as_slice()).coded()?.next();
            let Some((key, _)) = next.transpose().coded()? else { break };
            let bucket = KeyReader(key.value()).i64().ok_or_else(schema::bad_index)?;
            let sorted = found.len();
            let prefix = Key::new().i64(bucket);
            let prefix = filter.project_id.iter().fold(prefix, |prefix, project| prefix.id(project));
            for row in Span::of(&prefix).range(leases)?.into_iter().flatten() {
                let (key, _) = row.coded()?;
                let mut reader = KeyReader(key.value());
                let key = (|| Some((reader.i64()?, reader.id()?, reader.id()?)))();
                let (_, project, id) = key.ok_or_else(schema::bad_index)?;
                let record: R = self.indexed(records, &project, &id, AnswerForm::State)?;
                let end = lease_end(&record).filter(|end| lease_bucket(*end) == bucket).ok_or_else(schema::bad_index)?;
                if end <= filter.expired_by {
                    found.push((end, project, id));
                }
            }
            found[sorted..].sort_unstable();
            from = Key::new().i64(bucket + 1);
        }
        let has_more = found.len() > filter.limit;
        found.truncate(filter.limit);
        let rows = found.iter().map(|(_, project, id)| self.indexed(records, project, id, form));
        Ok((rows.collect::<Result<_>>()?, has_more))
    }

    pub(crate) fn run_stats(&self, project: &Id, workflow_ids: Option<&[Id]>) -> Result<RunStats> {
        counts(&self.table(schema::RUN_COUNTS)?, project, workflow_ids).map(RunStats::from_workflows)
    }

    /// The sink is not ours: what calls the engine is guarded around it.
    pub(crate) fn export(&self, sink: &mut dyn FnMut(ExportRecord) -> Result<()>) -> Result<()> {
        self.export_table(schema::RUNS, |project, id, row| self.read(project, id, row, AnswerForm::Record).map(ExportRecord::Run), sink)?;
        let node = |project: &Id, id: &Id, place: &[u8]| self.placed_node(project, id, place, AnswerForm::Record).map(ExportRecord::Node);
        self.export_table(schema::NODE_IDS, node, sink)?;
        self.export_table(schema::AGENTS, |project, id, row| self.read(project, id, row, AnswerForm::Record).map(ExportRecord::Agent), sink)
    }

    fn export_table(
        &self,
        table: Definition,
        read: impl Fn(&Id, &Id, &[u8]) -> Result<ExportRecord>,
        sink: &mut dyn FnMut(ExportRecord) -> Result<()>,
    ) -> Result<()> {
        let mut rows = guarded(|| self.table(table)?.range::<&[u8]>(..).coded())?;
        loop {
            let record = guarded(|| {
                let Some((key, row)) = rows.next().transpose().coded()? else { return Ok(None) };
                let mut reader = KeyReader(key.value());
                let (project, id) = reader.id().zip(reader.id()).ok_or_else(schema::bad_index)?;
                read(&project, &id, row.value()).map(Some)
            })?;
            match record {
                Some(record) => sink(record)?,
                None => return Ok(()),
            }
        }
    }
}

/// A list of runs or agent runs: a merge of ranges of an index, one for each status, or for each owner and status. The
/// owner of a run is its workflow, that of an agent run its agent.
struct IndexList<'q> {
    records: Reads,
    by_status: Reads,
    by_owner: Reads,
    counters: Reads,
    project: &'q Id,
    owners: Option<&'q [Id]>,
    statuses: StatusSet,
    window: Window,
}

impl IndexList<'_> {
    fn page<R: StateCodec + Listed>(&self, view: &View, page: &PageRequest) -> Result<Rows<R>> {
        let counters = counts(&self.counters, self.project, Some(self.owners.unwrap_or(&[Id::from(schema::ALL_OWNERS)])))?;
        let (index, mut spans) = self.spans(&counters);
        let total = match page.with_total {
            false => None,
            true if self.window.is_open() => {
                Some(counters.iter().flat_map(|(_, counts)| self.statuses.iter().map(|status| counts.of(status))).sum())
            }
            true => Some(self.count(index, &spans)?),
        };
        if let PageStart::After(position) = &page.start {
            let rest = position_rest(position);
            let cut = |span: Span| match page.order {
                Order::Asc => span.after(&rest),
                Order::Desc => span.before(&rest),
            };
            spans = spans.into_iter().map(cut).collect();
        }
        if spans.len() > FEW_SPANS {
            spans = first_spans(index, spans, page)?;
        }
        let mut sources = Vec::with_capacity(spans.len());
        for span in &spans {
            let rows = span.range(index)?.map(|range| Walk { range, order: page.order });
            sources.extend(rows.map(|rows| Rests { rows, prefix_len: span.prefix_len }));
        }
        let merged = merge(page.order, sources);
        let (rests, has_more) = take_page(merged, page)?;
        let rows = rests.iter().map(|(rest, ())| view.indexed(&self.records, self.project, &rest_id(rest)?, page.form));
        Ok(Rows { rows: rows.collect::<Result<_>>()?, total, has_more })
    }

    /// The ranges that hold the matching entries, and the index that they are of. Counters tell which are empty.
    fn spans(&self, counters: &[(Id, StatusCounts)]) -> (&Reads, Vec<Span>) {
        let spans = counters.iter().flat_map(|(owner, counts)| {
            let project = Key::new().id(self.project);
            let prefix = if self.owners.is_some() { project.id(owner) } else { project };
            held_statuses(counts, self.statuses).map(move |status| Span::in_window(&prefix.clone().status(status), &self.window))
        });
        (if self.owners.is_some() { &self.by_owner } else { &self.by_status }, spans.collect())
    }

    fn count(&self, index: &Reads, spans: &[Span]) -> Result<u64> {
        let mut count = 0;
        for span in spans {
            for row in span.range(index)?.into_iter().flatten() {
                row.coded()?;
                count += 1;
            }
        }
        Ok(count)
    }
}

/// Up to so many ranges are walked at once without looking first which of them matter.
const FEW_SPANS: usize = 64;

/// The ranges that a page can draw from: a page of `n` rows has rows of at most `n` ranges, those that begin first.
fn first_spans(index: &Reads, spans: Vec<Span>, page: &PageRequest) -> Result<Vec<Span>> {
    let skipped = match page.start {
        PageStart::Offset(offset) => usize::try_from(offset).unwrap_or(usize::MAX),
        PageStart::After(_) => 0,
    };
    let needed = skipped.saturating_add(page.limit).saturating_add(1);
    let mut begun = Vec::new();
    for span in spans {
        if let Some(rest) = first_of(index, &span, page.order)? {
            begun.push((rest, span));
        }
    }
    if begun.len() > needed {
        begun.select_nth_unstable_by(needed - 1, |left, right| page.order.apply(left.0.cmp(&right.0)));
        begun.truncate(needed);
    }
    Ok(begun.into_iter().map(|(_, span)| span).collect())
}

/// What follows the prefix of each key of a range: a source of a merge.
struct Rests<'t> {
    rows: Walk<'t>,
    prefix_len: usize,
}

impl Iterator for Rests<'_> {
    type Item = Result<(Vec<u8>, ())>;

    fn next(&mut self) -> Option<Self::Item> {
        let row = self.rows.next()?;
        Some(row.map(|(key, _)| (key.value()[self.prefix_len..].to_vec(), ())))
    }
}

/// The rows of a range in an order.
struct Walk<'t> {
    range: redb::Range<'t, Bytes, Bytes>,
    order: Order,
}

impl<'t> Iterator for Walk<'t> {
    type Item = Result<Row<'t>>;

    fn next(&mut self) -> Option<Self::Item> {
        let row = match self.order {
            Order::Asc => self.range.next(),
            Order::Desc => self.range.next_back(),
        };
        row.map(Coded::coded)
    }
}

/// What follows the prefix of the first key of a range, in an order.
pub(crate) fn first_of(index: &impl ReadableTable<Bytes, Bytes>, span: &Span, order: Order) -> Result<Option<Vec<u8>>> {
    let Some(range) = span.range(index)? else { return Ok(None) };
    let row = Walk { range, order }.next().transpose()?;
    Ok(row.map(|(key, _)| key.value()[span.prefix_len..].to_vec()))
}

fn held_statuses(counts: &StatusCounts, of: StatusSet) -> impl Iterator<Item = Status> + use<> {
    let counts = *counts;
    of.iter().filter(move |status| counts.of(*status) > 0)
}

/// The value of a counter.
pub(crate) fn count_of(value: &[u8]) -> Result<u64> {
    value.try_into().map(u64::from_le_bytes).map_err(|_| Error::corrupt("a counter can't be read"))
}

/// The counts of a project's workflows or agents, in byte order; of `owners` only, which are in byte order too. Leaps over
/// both, so that neither a long list with few hits nor a few of many owners costs more than the shorter of the two.
pub(crate) fn counts(counters: &impl ReadableTable<Bytes, Bytes>, project: &Id, owners: Option<&[Id]>) -> Result<Vec<(Id, StatusCounts)>> {
    let prefix = Key::new().id(project);
    let mut found = Vec::<(Id, StatusCounts)>::new();
    let mut wanted = owners;
    loop {
        let from = match wanted {
            Some([]) => return Ok(found),
            Some([first, ..]) => prefix.clone().id(first),
            // Behind the counters over all owners.
            None => Key([prefix.0.as_slice(), &[1]].concat()),
        };
        let Some(range) = Span::of(&prefix).starting_at(from.0).range(counters)? else { return Ok(found) };
        let mut leaps = false;
        for row in range {
            let (key, value) = row.coded()?;
            let mut reader = KeyReader(&key.value()[prefix.0.len()..]);
            let (owner, status) = reader.id().zip(reader.status()).ok_or_else(schema::bad_index)?;
            let known = found.last().is_some_and(|(last, _)| *last == owner);
            if !known && let Some(ids) = wanted {
                let at = ids.partition_point(|id| *id < owner);
                let hit = ids.get(at) == Some(&owner);
                wanted = Some(&ids[at + usize::from(hit)..]);
                if !hit {
                    leaps = true;
                    break;
                }
            }
            if !known {
                found.push((owner, StatusCounts::default()));
            }
            if let Some((_, counts)) = found.last_mut() {
                counts.0[status as usize] = count_of(value.value())?;
            }
        }
        if !leaps {
            return Ok(found);
        }
    }
}

/// The ids of ended runs that match, by (finishedAt, id).
pub(crate) fn ended(by_end: &impl ReadableTable<Bytes, Bytes>, filter: &EndedFilter, limit: usize) -> Result<Vec<Id>> {
    let mut ids = Vec::new();
    let prefix = Key::new().id(&filter.project_id);
    let span = Span::of(&prefix).before(&Key::new().time(filter.finished_before).0);
    for row in span.range(by_end)?.into_iter().flatten() {
        if ids.len() == limit {
            break;
        }
        let (key, value) = row.coded()?;
        let (status, workflow) = schema::read_ended_value(value.value()).ok_or_else(schema::bad_index)?;
        let is_wanted = |ids: &Vec<Id>| ids.binary_search(&workflow).is_ok();
        if filter.statuses.contains(status) && filter.workflow_ids.as_ref().is_none_or(is_wanted) {
            ids.push(rest_id(&key.value()[prefix.0.len()..])?);
        }
    }
    Ok(ids)
}

/// The keys of a page of node runs, their total if it was asked, and whether another follows.
type NodePage = (Vec<Vec<u8>>, Option<u64>, bool);

/// The node runs of one run stand in order.
fn nodes_of_run(nodes: &Reads, run: &Id, filter: &NodeFilter, page: &PageRequest) -> Result<NodePage> {
    let span = Span::in_window(&schema::nodes_of_run(&filter.project_id, run), &filter.started);
    let total = match page.with_total {
        true => Some(matching_nodes(nodes, &span, filter, page.order)?.try_fold(0, |count, key| key.map(|_| count + 1))?),
        false => None,
    };
    let span = match (&page.start, page.order) {
        (PageStart::Offset(_), _) => span,
        (PageStart::After(position), Order::Asc) => span.after(&node_position_rest(position)),
        (PageStart::After(position), Order::Desc) => span.before(&node_position_rest(position)),
    };
    let (keys, has_more) = take_page(matching_nodes(nodes, &span, filter, page.order)?, page)?;
    Ok((keys, total, has_more))
}

/// Across a project all node runs are read, and only the rows that the page needs are kept.
fn nodes_of_project(nodes: &Reads, filter: &NodeFilter, page: &PageRequest) -> Result<NodePage> {
    let (offset, cursor) = match &page.start {
        PageStart::Offset(offset) => (usize::try_from(*offset).unwrap_or(usize::MAX), None),
        PageStart::After(position) => (0, Some(node_position_rest(position))),
    };
    let needed = offset.saturating_add(page.limit).saturating_add(1);
    let project = Key::new().id(&filter.project_id);
    let mut total = 0;
    let mut first = BinaryHeap::new();
    for key in matching_nodes(nodes, &Span::of(&project), filter, Order::Asc)? {
        let key = key?;
        total += 1;
        let run_len = key[project.0.len()..].iter().position(|byte| *byte == 0).ok_or_else(schema::bad_index)?;
        let rest = key[project.0.len() + run_len + 1..].to_vec();
        if cursor.as_ref().is_none_or(|cursor| page.order.apply(rest.cmp(cursor)).is_gt()) {
            first.push(Placed { order: page.order, rest, key });
            if first.len() > needed {
                first.pop();
            }
        }
    }
    let has_more = first.len() == needed;
    let keys = first.into_sorted_vec().into_iter().skip(offset).take(page.limit).map(|placed| placed.key);
    Ok((keys.collect(), page.with_total.then_some(total), has_more))
}

/// A node run by its place in the order of a list, its key aside. No two of a project are in the same place.
#[derive(PartialEq, Eq)]
struct Placed {
    order: Order,
    rest: Vec<u8>,
    key: Vec<u8>,
}

impl Ord for Placed {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.order.apply(self.rest.cmp(&other.rest))
    }
}

impl PartialOrd for Placed {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// The keys of the matching node runs of a range. The state is read only where the key does not tell enough.
fn matching_nodes<'t>(
    nodes: &'t Reads,
    span: &Span,
    filter: &'t NodeFilter,
    order: Order,
) -> Result<impl Iterator<Item = Result<Vec<u8>>> + use<'t>> {
    let needs_state = !filter.statuses.is_all()
        || [&filter.workflow_id, &filter.node_type, &filter.node_id, &filter.node_key].iter().any(|id| id.is_some());
    let matching = move |row: Result<Row<'t>>| -> Result<Option<Vec<u8>>> {
        let (key, row) = row?;
        let matches = if needs_state {
            let id = schema::node_id(key.value()).ok_or_else(schema::bad_index)?;
            let node: Stored<NodeRun> = value::parse(&filter.project_id, &id, row.value())?.0;
            filter.matches(&node.record)
        } else {
            filter.started.is_open() || filter.started.contains(schema::node_started_at(key.value()).ok_or_else(schema::bad_index)?)
        };
        Ok(matches.then(|| key.value().to_vec()))
    };
    let rows = span.range(nodes)?.map(|range| Walk { range, order });
    Ok(rows.into_iter().flatten().filter_map(move |row| matching(row).transpose()))
}
