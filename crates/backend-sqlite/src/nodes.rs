//! Lists of node runs.

use runledger_core::{Error, Id, NodeFilter, NodeRun, Order, PageRequest, PageStart, Rows, Status, Time};
use rusqlite::{Statement, params};

use crate::arms::First;
use crate::db::{Db, Kind};
use crate::error::Outcome;
use crate::rows::{Columns, FromRow, node_columns};

/// The conditions of a filter on a node `n` of a run `r`: between two places in the order, both left out; and what else
/// is asked, each passed over when its parameter is not given.
macro_rules! conditions {
    () => {
        "(n.started_at, n.node_index, n.id) > (?2, ?3, ?4) AND (n.started_at, n.node_index, n.id) < (?5, ?6, ?7) \
         AND (?8 >> n.status) & 1 AND (?9 IS NULL OR n.node_type = ?9) AND (?10 IS NULL OR n.node_id = ?10) \
         AND (?11 IS NULL OR n.node_key = ?11) AND (?12 IS NULL OR iif(n.workflow IS NULL, r.workflow = ?13, n.workflow = ?12))"
    };
}

/// The nodes of one run, which stand together in the order of their lists.
macro_rules! of_run {
    ($select:literal, $rest:literal) => {
        concat!("SELECT ", $select, " FROM run r CROSS JOIN node_run n ON n.run = r.key WHERE r.key = ?1 AND ", conditions!(), $rest)
    };
}

/// The place of a node run in the order of its lists.
type Place = (i64, i64, Id);

/// A filter with its names resolved.
struct Wanted<'a> {
    filter: &'a NodeFilter,
    /// The number of the filter's workflow, if it has runs.
    workflow: Option<i64>,
    /// The number of the run, or else of the project.
    scope: i64,
}

impl Wanted<'_> {
    /// The places just before and just after the filter's window. No node index is below 0.
    fn window(&self) -> (Place, Place) {
        let low = self.filter.started.after.map_or(i64::MIN, Time::unix_us);
        let high = self.filter.started.before.map_or(i64::MAX, |before| before.unix_us() + 1);
        ((low, -1, "".into()), (high, -1, "".into()))
    }

    fn bind(&self, statement: &mut Statement<'_>, (low, high): &(Place, Place)) -> rusqlite::Result<()> {
        let NodeFilter { node_type, node_id, node_key, workflow_id, statuses, .. } = self.filter;
        let statuses: i64 = Status::ALL.iter().filter(|status| statuses.contains(**status)).map(|status| 1 << *status as i64).sum();
        statement.raw_bind_parameter(1, self.scope)?;
        for (first, (time, node_index, id)) in [(2, low), (5, high)] {
            statement.raw_bind_parameter(first, time)?;
            statement.raw_bind_parameter(first + 1, node_index)?;
            statement.raw_bind_parameter(first + 2, &**id)?;
        }
        statement.raw_bind_parameter(8, statuses)?;
        for (place, id) in [(9, node_type), (10, node_id), (11, node_key), (12, workflow_id)] {
            statement.raw_bind_parameter(place, id.as_deref())?;
        }
        statement.raw_bind_parameter(13, self.workflow)
    }
}

pub(crate) fn list_nodes(db: &Db<'_>, filter: &NodeFilter, page: &PageRequest) -> Outcome<Rows<NodeRun>> {
    let none = || Ok(Rows::none(page.with_total));
    let Some(project) = db.project(&filter.project_id)? else { return none() };
    let workflow = match &filter.workflow_id {
        Some(id) => db.key(Kind::Workflow, project, id)?,
        None => None,
    };
    let Some(run_id) = &filter.workflow_run_id else {
        return of_project(db, &Wanted { filter, workflow, scope: project }, page);
    };
    let sql = "SELECT key FROM run INDEXED BY run_by_id WHERE project = ?1 AND id = ?2";
    let Some(run) = db.query_one(sql, params![project, &**run_id], |row| row.get(0))? else { return none() };
    of_run(db, &Wanted { filter, workflow, scope: run }, page)
}

fn cursor(page: &PageRequest) -> Option<Place> {
    match &page.start {
        PageStart::After(position) => Some((position.time.unix_us(), position.node_index.into(), position.id.clone())),
        PageStart::Offset(_) => None,
    }
}

fn offset(page: &PageRequest) -> u64 {
    match page.start {
        PageStart::After(_) => 0,
        PageStart::Offset(offset) => offset,
    }
}

/// A page of one run reads no more than its rows, but for the total.
fn of_run(db: &Db<'_>, wanted: &Wanted<'_>, page: &PageRequest) -> Outcome<Rows<NodeRun>> {
    let mut span = wanted.window();
    let mut total = None;
    if page.with_total {
        let mut statement = db.statement(of_run!("count(*)", ""))?;
        wanted.bind(&mut statement, &span)?;
        let mut rows = statement.raw_query();
        total = rows.next()?.map(|row| row.get::<_, i64>(0)).transpose()?;
    }
    let sql = match page.order {
        Order::Asc => of_run!("n.started_at, n.node_index, n.id", " ORDER BY n.started_at, n.node_index, n.id LIMIT ?14 OFFSET ?15"),
        Order::Desc => {
            of_run!("n.started_at, n.node_index, n.id", " ORDER BY n.started_at DESC, n.node_index DESC, n.id DESC LIMIT ?14 OFFSET ?15")
        }
    };
    if let Some(cursor) = cursor(page) {
        match page.order {
            Order::Asc => span.0 = span.0.max(cursor),
            Order::Desc => span.1 = span.1.min(cursor),
        }
    }
    let mut places = Vec::with_capacity(page.limit.min(1024) + 1);
    {
        let mut statement = db.statement(sql)?;
        wanted.bind(&mut statement, &span)?;
        statement.raw_bind_parameter(14, page.limit as i64 + 1)?;
        // An offset is at most 2^63 - 1.
        statement.raw_bind_parameter(15, offset(page) as i64)?;
        let mut rows = statement.raw_query();
        while let Some(row) = rows.next()? {
            let id = row.get_ref(2)?.as_str().map_err(rusqlite::Error::from)?;
            places.push(((row.get(0)?, row.get(1)?, id.into()), wanted.scope));
        }
    }
    finish(db, wanted, places, page, total.map(|total| total as u64))
}

/// Across a project every node run is looked at, run by run, and the first ones are kept.
fn of_project(db: &Db<'_>, wanted: &Wanted<'_>, page: &PageRequest) -> Outcome<Rows<NodeRun>> {
    const SQL: &str = concat!(
        "SELECT n.started_at, n.node_index, n.id, n.run FROM run r INDEXED BY run_by_id CROSS JOIN node_run n ON n.run = r.key \
         WHERE r.project = ?1 AND ",
        conditions!()
    );
    let cursor = cursor(page);
    let offset = usize::try_from(offset(page)).unwrap_or(usize::MAX);
    let mut first: First<Place, i64> = First::new(page.order, offset.saturating_add(page.limit + 1));
    let mut total = 0;
    {
        let mut statement = db.statement(SQL)?;
        wanted.bind(&mut statement, &wanted.window())?;
        let mut rows = statement.raw_query();
        while let Some(row) = rows.next()? {
            total += 1;
            let place = (row.get(0)?, row.get(1)?, row.get_ref(2)?.as_str().map_err(rusqlite::Error::from)?);
            let after = |cursor: &Place| page.order.apply(place.cmp(&(cursor.0, cursor.1, &*cursor.2))).is_gt();
            if cursor.as_ref().is_none_or(after) && first.wants(|kept| (kept.0, kept.1, &*kept.2).cmp(&place)) {
                first.offer((place.0, place.1, place.2.into()), row.get(3)?);
            }
        }
    }
    let mut places = first.into_ordered();
    places.drain(..offset.min(places.len()));
    finish(db, wanted, places, page, page.with_total.then_some(total))
}

/// Reads the rows of a page; `places` has one more when another follows.
fn finish(
    db: &Db<'_>,
    wanted: &Wanted<'_>,
    mut places: Vec<(Place, i64)>,
    page: &PageRequest,
    total: Option<u64>,
) -> Outcome<Rows<NodeRun>> {
    let has_more = places.len() > page.limit;
    places.truncate(page.limit);
    let mut rows = Vec::with_capacity(places.len());
    for ((time, node_index, id), run) in places {
        const SQL: &str =
            concat!("SELECT ", node_columns!(), " FROM node_run WHERE run = ?1 AND started_at = ?2 AND node_index = ?3 AND id = ?4");
        let loaded = {
            let mut statement = db.statement(SQL)?;
            let mut found = statement.query(params![run, time, node_index, &*id])?;
            match found.next()? {
                Some(row) => NodeRun::from_row(db, &Columns::of(row))?,
                None => return Err(Error::corrupt("a node run is not where it was found").into()),
            }
        };
        let node = loaded.finish(db, page.form)?.record;
        debug_assert!(wanted.filter.matches(&node), "the statement and the filter say the same");
        rows.push(node);
    }
    Ok(Rows { rows, total, has_more })
}
