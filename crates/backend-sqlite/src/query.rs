//! Answers to queries, each from the one transaction that it is given.

use std::collections::HashSet;

use runledger_core::codec::damaged;
use runledger_core::keys::lease_bucket;
use runledger_core::{
    AgentFilter, AgentRun, AnswerForm, EndedFilter, Error, ExpiredFilter, Id, Listed, NodeRun, Order, PageRequest, PageStart,
    ProjectSummary, Rows, Run, RunFilter, RunStats, Status, StatusCounts, StatusSet, Stored, Time, Window,
};
use rusqlite::params;

use crate::arms::{
    AGENTS_OF_AGENT, AGENTS_OF_PROJECT, Arm, Entry, First, Index, MERGED_ARMS, Merge, RUNS_OF_PROJECT, RUNS_OF_WORKFLOW, Slice, Span,
};
use crate::db::{Counted, Db, Kind, read_counts, sum};
use crate::error::Outcome;
use crate::rows::{Columns, FromRow, agent_columns, node_columns, run_columns};

// The names that a record needs come along in the same statement; a missing one is found out when it is looked up.
pub(crate) const RUN_BY_ID: &str = concat!(
    "SELECT ",
    run_columns!(),
    ", workflow_id FROM (SELECT r.*, w.id AS workflow_id FROM project p CROSS JOIN run r INDEXED BY run_by_id \
     LEFT JOIN workflow w ON w.key = r.workflow WHERE p.id = ?1 AND r.project = p.key AND r.id = ?2)"
);

/// The run of the node run comes along too.
pub(crate) const NODE_BY_ID: &str = concat!(
    "SELECT ",
    node_columns!("n."),
    ", ",
    run_columns!("r."),
    ", w.id FROM project p CROSS JOIN node_run n INDEXED BY node_run_by_id LEFT JOIN run r ON r.key = n.run \
     LEFT JOIN workflow w ON w.key = r.workflow WHERE p.id = ?1 AND n.project = p.key AND n.id = ?2"
);
pub(crate) const AGENT_BY_ID: &str = concat!(
    "SELECT ",
    agent_columns!(),
    " FROM agent_run INDEXED BY agent_run_by_id WHERE project = (SELECT key FROM project WHERE id = ?1) AND id = ?2"
);

/// Past this many arms those are left out that have no record, according to the counters.
const FEW_ARMS: usize = 64;

/// The record of a key.
pub(crate) fn by_id<R: FromRow>(db: &Db<'_>, sql: &'static str, project: &Id, id: &Id, form: AnswerForm) -> Outcome<Option<Stored<R>>> {
    let found = by_id_with(db, sql, project, id, form, |_| Ok(()))?;
    Ok(found.map(|(record, ())| record))
}

/// A node run, and its run if that is there.
pub(crate) type NodeAndRun = (Stored<NodeRun>, Option<Stored<Run>>);

/// The node run of a key, with the state of its run.
pub(crate) fn node_and_run(db: &Db<'_>, project: &Id, id: &Id, form: AnswerForm) -> Outcome<Option<NodeAndRun>> {
    by_id_with(db, NODE_BY_ID, project, id, form, |row| {
        let run = row.after(NodeRun::COLUMNS);
        match run.get::<Option<i64>>(0)? {
            Some(_) => Run::from_row(db, &run)?.finish(db, AnswerForm::State).map(Some),
            None => Ok(None),
        }
    })
}

fn by_id_with<R: FromRow, T>(
    db: &Db<'_>,
    sql: &'static str,
    project: &Id,
    id: &Id,
    form: AnswerForm,
    read_more: impl FnOnce(&Columns<'_, '_>) -> Outcome<T>,
) -> Outcome<Option<(Stored<R>, T)>> {
    let (loaded, more) = {
        let mut statement = db.statement(sql)?;
        let mut rows = statement.query(params![&**project, &**id])?;
        let Some(row) = rows.next()? else { return Ok(None) };
        let row = Columns::of(row);
        db.note(Kind::Project, 0, row.get(1)?, project.clone());
        R::note_names(db, &row)?;
        (R::from_row(db, &row)?, read_more(&row)?)
    };
    Ok(Some((loaded.finish(db, form)?, more)))
}

/// A kind of record that is listed by its status and has leases: runs by their workflow, agent runs by their agent.
pub(crate) trait Executed: FromRow + Listed {
    const OF_PROJECT: Index;
    const OF_GROUP: Index;
    const GROUP: Kind;
    const PROJECT_COUNTS: &'static str;
    const BY_ROW: &'static str;
    /// What is before and after the entries of a page in the statement that reads their records with their large values.
    const PAGE: (&'static str, &'static str);
    const NEXT_BUCKET: &'static str;
    const IN_BUCKET: &'static str;
    const IN_BUCKET_OF_PROJECT: &'static str;

    fn lease_end(&self) -> Option<Time>;
}

macro_rules! executed {
    ($type:ty, $table:literal, $columns:ident, $of_project:ident, $of_group:ident, $group:ident, $prefix:literal, [$($large:ident),*]) => {
        impl Executed for $type {
            const OF_PROJECT: Index = $of_project;
            const OF_GROUP: Index = $of_group;
            const GROUP: Kind = Kind::$group;
            const PROJECT_COUNTS: &'static str = concat!(
                "SELECT ",
                $prefix,
                "queued, ",
                $prefix,
                "running, ",
                $prefix,
                "waiting, ",
                $prefix,
                "succeeded, ",
                $prefix,
                "failed, ",
                $prefix,
                "cancelled FROM project WHERE key = ?1"
            );
            const BY_ROW: &'static str = concat!("SELECT ", $columns!(), " FROM ", $table, " WHERE key = ?1");
            // Joined from the left, so that the order of the page stays, and what is missing is found out.
            const PAGE: (&'static str, &'static str) = (
                concat!(
                    "SELECT page.time, ",
                    $columns!("r."),
                    $(", ", stringify!($large), ".checksum, ", stringify!($large), ".value"),*
                ),
                concat!(
                    "LEFT JOIN ", $table, " r ON r.key = page.key"
                    $(, " LEFT JOIN large_value ", stringify!($large), " ON ", stringify!($large), ".key = r.", stringify!($large))*
                ),
            );
            const NEXT_BUCKET: &'static str =
                concat!("SELECT min(lease_bucket) FROM ", $table, " INDEXED BY ", $table, "_by_lease WHERE lease_bucket > ?1");
            const IN_BUCKET: &'static str = concat!(
                "SELECT key, lease_ends_at, id, project FROM ",
                $table,
                " INDEXED BY ",
                $table,
                "_by_lease WHERE lease_bucket = ?1"
            );
            const IN_BUCKET_OF_PROJECT: &'static str = concat!(
                "SELECT key, lease_ends_at, id, project FROM ",
                $table,
                " INDEXED BY ",
                $table,
                "_by_lease WHERE lease_bucket = ?1 AND project = ?2"
            );

            fn lease_end(&self) -> Option<Time> {
                self.execution.as_ref().map(|execution| execution.lease_expires_at)
            }
        }
    };
}

executed!(Run, "run", run_columns, RUNS_OF_PROJECT, RUNS_OF_WORKFLOW, Workflow, "", [input, output, source]);
executed!(AgentRun, "agent_run", agent_columns, AGENTS_OF_PROJECT, AGENTS_OF_AGENT, Agent, "agents_", [prompt, usage, trace, diagnostics]);

/// The record to which an index led, which is held against what the index said of it.
fn by_row<R: Executed>(db: &Db<'_>, row: i64, form: AnswerForm, fits: impl FnOnce(&R) -> bool) -> Outcome<Stored<R>> {
    let loaded = {
        let mut statement = db.statement(R::BY_ROW)?;
        let mut rows = statement.query([row])?;
        match rows.next()? {
            Some(row) => R::from_row(db, &Columns::of(row))?,
            None => return Err(missing::<R>().into()),
        }
    };
    let record = &loaded.stored.record;
    if !fits(record) {
        return Err(disagreeing(record).into());
    }
    loaded.finish(db, form)
}

/// Which records a list holds, for runs and agent runs alike.
struct Selection<'a, R> {
    project_id: &'a Id,
    groups: Option<&'a [Id]>,
    statuses: StatusSet,
    window: Window,
    matches: &'a dyn Fn(&R) -> bool,
}

pub(crate) fn list_runs(db: &Db<'_>, filter: &RunFilter, page: &PageRequest) -> Outcome<Rows<Run>> {
    let selection = Selection {
        project_id: &filter.project_id,
        groups: filter.workflow_ids.as_deref(),
        statuses: filter.statuses,
        window: filter.started,
        matches: &|run: &Run| filter.matches(run),
    };
    list(db, &selection, page)
}

pub(crate) fn list_agents(db: &Db<'_>, filter: &AgentFilter, page: &PageRequest) -> Outcome<Rows<AgentRun>> {
    let selection = Selection {
        project_id: &filter.project_id,
        groups: filter.agent_id.as_ref().map(std::slice::from_ref),
        statuses: filter.statuses,
        window: filter.created,
        matches: &|agent: &AgentRun| filter.matches(agent),
    };
    list(db, &selection, page)
}

fn list<R: Executed>(db: &Db<'_>, selection: &Selection<'_, R>, page: &PageRequest) -> Outcome<Rows<R>> {
    let Some(project) = db.project(selection.project_id)? else { return Ok(Rows::none(page.with_total)) };
    let (index, scopes) = scopes::<R>(db, project, selection.groups)?;
    let arms = arms(&scopes, selection.statuses);
    let total = if !page.with_total {
        None
    } else if selection.window.is_open() {
        Some(scopes.iter().map(|(_, counts)| sum(counts, selection.statuses)).sum())
    } else {
        Some(index.count(db, &arms, &Span::of(&selection.window))?)
    };
    let span = Span::of_page(&selection.window, page);
    let mut rows = walk(db, &index, &arms, &span, page.order, Slice::of_page(page), page.form, selection.matches)?;
    let has_more = rows.len() > page.limit;
    rows.truncate(page.limit);
    Ok(Rows { rows: rows.into_iter().map(|stored| stored.record).collect(), total, has_more })
}

/// The records of a part of some arms, in order.
#[allow(clippy::too_many_arguments, reason = "they are what a walk is made of")]
fn walk<R: Executed>(
    db: &Db<'_>,
    index: &Index,
    arms: &[Arm],
    span: &Span,
    order: Order,
    slice: Slice,
    form: AnswerForm,
    matches: &dyn Fn(&R) -> bool,
) -> Outcome<Vec<Stored<R>>> {
    match arms.len() {
        0 => Ok(Vec::new()),
        1..=MERGED_ARMS => records(db, &mut index.merge(db, arms.len(), order, R::PAGE)?, arms, span, slice, form, matches),
        _ => {
            let entries = index.select(db, arms, span, order, slice)?.into_iter();
            let read =
                |Entry { time, key }| by_row(db, key, form, |record: &R| record.position().time.unix_us() == time && matches(record));
            entries.map(read).collect()
        }
    }
}

/// The records to which a merge of arms leads, each of which is held against what the index said of it.
fn records<R: Executed>(
    db: &Db<'_>,
    merge: &mut Merge<'_>,
    arms: &[Arm],
    span: &Span,
    slice: Slice,
    form: AnswerForm,
    matches: &dyn Fn(&R) -> bool,
) -> Outcome<Vec<Stored<R>>> {
    let mut rows = merge.rows(arms, span, slice)?;
    let mut records = Vec::with_capacity(slice.take.min(1024));
    while let Some(row) = rows.next()? {
        let columns = Columns::of(row).after(1);
        if columns.get::<Option<i64>>(0)?.is_none() {
            return Err(missing::<R>().into());
        }
        let loaded = R::from_row(db, &columns)?;
        let record = &loaded.stored.record;
        if record.position().time.unix_us() != row.get::<_, i64>(0)? || !matches(record) {
            return Err(disagreeing(record).into());
        }
        records.push(loaded.finish_from(&columns.after(R::COLUMNS), form)?);
    }
    Ok(records)
}

fn missing<R: Executed>() -> Error {
    Error::corrupt(format!("an index leads to a {} that is not there", R::ENTITY.as_str()))
}

fn disagreeing<R: Executed>(record: &R) -> Error {
    damaged(R::ENTITY, record.project_id(), record.key_id(), "an index does not agree with it")
}

/// The first numbers of the arms of a list, with what the counters say of each.
fn scopes<R: Executed>(db: &Db<'_>, project: i64, groups: Option<&[Id]>) -> Outcome<(Index, Vec<(i64, StatusCounts)>)> {
    match groups {
        Some(ids) => {
            let groups = db.some_counted(R::GROUP, project, ids)?;
            Ok((R::OF_GROUP, groups.into_iter().map(|group| (group.key, group.counts)).collect()))
        }
        None => {
            let counts = db.query_one(R::PROJECT_COUNTS, [project], |row| read_counts(row, 0))?;
            Ok((R::OF_PROJECT, vec![(project, counts.unwrap_or_default())]))
        }
    }
}

fn arms(scopes: &[(i64, StatusCounts)], statuses: StatusSet) -> Vec<Arm> {
    let all = scopes.iter().flat_map(|(scope, counts)| statuses.iter().map(move |status| (*scope, status, counts.of(status))));
    let few = scopes.len() * statuses.iter().count() <= FEW_ARMS;
    all.filter(|(_, _, count)| few || *count > 0).map(|(scope, status, _)| Arm { scope, status }).collect()
}

/// The queued record with the smallest (time, id), of some workflows or agents only.
pub(crate) fn next<R: Executed>(db: &Db<'_>, project: &Id, groups: Option<&[Id]>, form: AnswerForm) -> Outcome<Option<Stored<R>>> {
    let Some(project) = db.project(project)? else { return Ok(None) };
    let (index, scopes) = match groups {
        // The counters, which the other way reads too, are not needed for the one arm that a project is.
        None => (R::OF_PROJECT, vec![(project, StatusCounts::default())]),
        Some(_) => scopes::<R>(db, project, groups)?,
    };
    let arms = arms(&scopes, StatusSet::only(Status::Queued));
    let fits = |record: &R| StatusSet::only(Status::Queued).contains(record.status());
    Ok(walk(db, &index, &arms, &Span::all(), Order::Asc, Slice { offset: 0, take: 1 }, form, &fits)?.pop())
}

pub(crate) fn latest_runs(db: &Db<'_>, project: &Id, workflow_ids: &[Id], form: AnswerForm) -> Outcome<Vec<Run>> {
    let Some(project) = db.project(project)? else { return Ok(Vec::new()) };
    let mut newest = RUNS_OF_WORKFLOW.merge(db, Status::ALL.len(), Order::Desc, Run::PAGE)?;
    let (span, first) = (Span::all(), Slice { offset: 0, take: 1 });
    let mut runs = Vec::new();
    for Counted { key: scope, id, .. } in db.some_counted(Kind::Workflow, project, workflow_ids)? {
        let arms: Vec<Arm> = Status::ALL.iter().map(|status| Arm { scope, status: *status }).collect();
        let found = records(db, &mut newest, &arms, &span, first, form, &|run: &Run| run.workflow_id == id)?;
        runs.extend(found.into_iter().map(|stored| stored.record));
    }
    Ok(runs)
}

pub(crate) fn run_stats(db: &Db<'_>, project: &Id, workflow_ids: Option<&[Id]>) -> Outcome<RunStats> {
    let Some(project) = db.project(project)? else { return Ok(RunStats::default()) };
    let counted = match workflow_ids {
        Some(ids) => db.some_counted(Kind::Workflow, project, ids)?,
        None => db.all_counted(Kind::Workflow, project)?,
    };
    Ok(RunStats::from_workflows(counted.into_iter().map(|workflow| (workflow.id, workflow.counts))))
}

/// Records whose leases have ended. The index knows only the bucket of a lease's end: the buckets are taken in turn, and
/// what is in one is put in order here.
pub(crate) fn expired<R: Executed>(db: &Db<'_>, filter: &ExpiredFilter, form: AnswerForm) -> Outcome<(Vec<R>, bool)> {
    let project = match &filter.project_id {
        None => None,
        Some(id) => match db.project(id)? {
            Some(project) => Some(project),
            None => return Ok((Vec::new(), false)),
        },
    };
    let bound = filter.expired_by.unix_us();
    let last = lease_bucket(filter.expired_by);
    let mut entries: Vec<(i64, i64)> = Vec::new();
    let mut bucket = i64::MIN;
    while entries.len() <= filter.limit {
        let next: Option<Option<i64>> = db.query_one(R::NEXT_BUCKET, [bucket], |row| row.get(0))?;
        match next.flatten() {
            Some(next) if next <= last => bucket = next,
            _ => break,
        }
        let mut first = First::new(Order::Asc, filter.limit + 1 - entries.len());
        let mut statement = db.statement(if project.is_some() { R::IN_BUCKET_OF_PROJECT } else { R::IN_BUCKET })?;
        let mut rows = match project {
            Some(project) => statement.query([bucket, project])?,
            None => statement.query([bucket])?,
        };
        while let Some(row) = rows.next()? {
            let end: i64 = row.get(1)?;
            if end <= bound {
                let id = row.get_ref(2)?.as_str().map_err(rusqlite::Error::from)?;
                first.offer((end, db.name(Kind::Project, 0, row.get(3)?)?, Id::from(id)), row.get(0)?);
            }
        }
        entries.extend(first.into_ordered().into_iter().map(|((end, ..), key)| (end, key)));
    }
    let has_more = entries.len() > filter.limit;
    entries.truncate(filter.limit);
    let rows = entries.into_iter().map(|(end, key)| {
        let fits = |record: &R| record.lease_end().map(Time::unix_us) == Some(end);
        Ok(by_row(db, key, form, fits)?.record)
    });
    Ok((rows.collect::<Outcome<_>>()?, has_more))
}

/// The states of ended runs, by (finishedAt, id).
pub(crate) fn ended_runs(db: &Db<'_>, filter: &EndedFilter, limit: usize) -> Outcome<Vec<Stored<Run>>> {
    let Some(project) = db.project(&filter.project_id)? else { return Ok(Vec::new()) };
    let workflows: Option<HashSet<i64>> = match &filter.workflow_ids {
        Some(ids) => Some(db.some_counted(Kind::Workflow, project, ids)?.iter().map(|workflow| workflow.key).collect()),
        None => None,
    };
    let mut keys = Vec::new();
    {
        let sql = "SELECT key, status, workflow FROM run INDEXED BY run_by_end WHERE project = ?1 AND finished_at < ?2 \
                   ORDER BY finished_at, id";
        let mut statement = db.statement(sql)?;
        let mut rows = statement.query([project, filter.finished_before.unix_us()])?;
        while keys.len() < limit
            && let Some(row) = rows.next()?
        {
            let status = row.get::<_, u8>(1)?;
            let wanted = Status::from_number(status).is_some_and(|status| filter.statuses.contains(status));
            let workflow: i64 = row.get(2)?;
            if wanted && workflows.as_ref().is_none_or(|workflows| workflows.contains(&workflow)) {
                keys.push(row.get(0)?);
            }
        }
    }
    keys.into_iter().map(|key| by_row(db, key, AnswerForm::State, |run| filter.matches(run))).collect()
}

pub(crate) fn list_projects(db: &Db<'_>, page: &PageRequest) -> Outcome<Rows<ProjectSummary>> {
    let total = match page.with_total {
        true => db.query_one("SELECT count(*) FROM project INDEXED BY project_by_id WHERE id > ''", [], |row| row.get::<_, i64>(0))?,
        false => None,
    };
    // No id is empty, and none is as long as this one of all ones.
    let (mut low, mut high, mut offset) = (Id::from(""), None, 0);
    match (&page.start, page.order) {
        (PageStart::Offset(passed), _) => offset = *passed as i64,
        (PageStart::After(position), Order::Asc) => low = position.id.clone(),
        (PageStart::After(position), Order::Desc) => high = Some(position.id.clone()),
    }
    const COLUMNS: &str = "queued + running + waiting + succeeded + failed + cancelled";
    let (comparison, direction) = if high.is_some() { ("AND id < ?2", "DESC") } else { ("AND ?2 IS NULL", order_name(page.order)) };
    let sql = format!(
        "SELECT id, {COLUMNS} FROM project INDEXED BY project_by_id WHERE id > ?1 {comparison} ORDER BY id {direction} LIMIT ?3 OFFSET ?4"
    );
    let mut statement = db.conn.prepare_cached(&sql)?;
    let found = statement.query_map(params![&*low, high.as_deref(), page.limit as i64 + 1, offset], |row| {
        Ok(ProjectSummary { project_id: Id::from(row.get_ref(0)?.as_str()?), runs: row.get::<_, i64>(1)?.try_into().unwrap_or(0) })
    })?;
    let mut rows = found.collect::<rusqlite::Result<Vec<_>>>()?;
    let has_more = rows.len() > page.limit;
    rows.truncate(page.limit);
    Ok(Rows { rows, total: total.map(|total| total.try_into().unwrap_or(0)), has_more })
}

fn order_name(order: Order) -> &'static str {
    match order {
        Order::Asc => "ASC",
        Order::Desc => "DESC",
    }
}
