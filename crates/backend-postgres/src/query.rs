//! Answers to queries: each one statement, or a few that see one state.

use runledger_core::keys::lease_bucket;
use runledger_core::{
    AgentFilter, AgentRun, AnswerForm, Error, ExpiredFilter, Id, NodeFilter, NodeRun, Order, PageRequest, PageStart, ProjectSummary, Rows,
    Run, RunFilter, RunStats, Status, StatusCounts, StatusSet, Window,
};
use tokio_postgres::Row;

use crate::error::Outcome;
use crate::rows::{Columns, Kept, read_record, selection};
use crate::statement::Statement;

/// Past this many workflows only those are looked into that have records, according to the counters.
const FEW_GROUPS: usize = 64;

/// The rows of each of the statements of a query.
pub(crate) type Answers = Vec<Vec<Row>>;

pub(crate) fn rows_of(answers: &Answers, place: usize) -> &[Row] {
    answers.get(place).map_or(&[], Vec::as_slice)
}

fn limit(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

pub(crate) fn by_id<'a, R: Kept>(project: &'a Id, id: &'a Id, form: AnswerForm) -> Statement<'a> {
    let (columns, joined) = selection::<R>(form);
    Statement::new(format!("SELECT {columns} FROM @.{} t{joined} WHERE t.project = $1 AND t.id = $2", R::TABLE)).text(project).text(id)
}

/// The record of [`by_id`].
pub(crate) fn read_one<R: Kept>(answers: &Answers, form: AnswerForm) -> Outcome<Option<R>> {
    rows_of(answers, 0).first().map(|row| read_record::<R>(row, form).map(|stored| stored.record)).transpose()
}

/// A kind of record that is listed by its status, and has leases: runs by their workflow, agent runs by their agent.
pub(crate) trait Executed: Kept {
    /// The column of the workflow or agent.
    const GROUP: &'static str;
    /// The column of the time that lists are ordered by.
    const TIME: &'static str;
}

impl Executed for Run {
    const GROUP: &'static str = "workflow";
    const TIME: &'static str = "started_at";
}

impl Executed for AgentRun {
    const GROUP: &'static str = "agent";
    const TIME: &'static str = "created_at";
}

fn direction(order: Order) -> &'static str {
    match order {
        Order::Asc => "ASC",
        Order::Desc => "DESC",
    }
}

fn comparison(order: Order) -> &'static str {
    match order {
        Order::Asc => ">",
        Order::Desc => "<",
    }
}

/// Conditions and the numbers of their parameters, as a statement is put together.
struct Conditions<'a> {
    sql: String,
    values: Vec<Value<'a>>,
    first: usize,
}

enum Value<'a> {
    Text(&'a str),
    Big(i64),
    Texts(Vec<&'a str>),
    Smalls(Vec<Option<i16>>),
}

impl<'a> Conditions<'a> {
    fn new() -> Self {
        Conditions { sql: String::new(), values: Vec::new(), first: 1 }
    }

    /// Takes a parameter and answers its name.
    fn value(&mut self, value: Value<'a>) -> String {
        self.values.push(value);
        format!("${}", self.first + self.values.len() - 1)
    }

    fn and(&mut self, condition: &str) {
        self.sql.push_str(if self.sql.is_empty() { "" } else { " AND " });
        self.sql.push_str(condition);
    }

    fn is(&mut self, column: &str, value: &'a Id) {
        let value = self.value(Value::Text(value));
        self.and(&format!("t.{column} = {value}"));
    }

    fn within(&mut self, column: &str, window: &Window) {
        for (comparison, bound) in [(">=", window.after), ("<=", window.before)] {
            if let Some(bound) = bound {
                let value = self.value(Value::Big(bound.unix_us()));
                self.and(&format!("t.{column} {comparison} {value}"));
            }
        }
    }

    fn statement(self, sql: String) -> Statement<'a> {
        self.values.into_iter().fold(Statement::new(sql), |statement, value| match value {
            Value::Text(text) => statement.text(text),
            Value::Big(number) => statement.big(number),
            Value::Texts(texts) => statement.texts(texts),
            Value::Smalls(numbers) => statement.smalls(numbers),
        })
    }
}

/// Which records a list holds, for runs and agent runs alike.
pub(crate) struct Selection<'a> {
    project: &'a Id,
    groups: Option<&'a [Id]>,
    statuses: StatusSet,
    window: Window,
}

impl<'a> Selection<'a> {
    pub(crate) fn of_runs(filter: &'a RunFilter) -> Self {
        let groups = filter.workflow_ids.as_deref();
        Selection { project: &filter.project_id, groups, statuses: filter.statuses, window: filter.started }
    }

    pub(crate) fn of_agents(filter: &'a AgentFilter) -> Self {
        let groups = filter.agent_id.as_ref().map(std::slice::from_ref);
        Selection { project: &filter.project_id, groups, statuses: filter.statuses, window: filter.created }
    }

    fn statuses(&self) -> Vec<Option<i16>> {
        self.statuses.iter().map(|status| Some(status as i16)).collect()
    }

    /// The ranges that are merged: one for each status, of each workflow or agent if some are named. Answers what they
    /// come from, and notes what holds in each.
    fn arms<R: Executed>(&self, conditions: &mut Conditions<'a>) -> String {
        conditions.is("project", self.project);
        let statuses = conditions.value(Value::Smalls(self.statuses()));
        conditions.and("t.status = s.status");
        let mut from = format!("unnest({statuses}::smallint[]) AS s(status)");
        if let Some(groups) = self.groups {
            let value = conditions.value(Value::Texts(groups.iter().map(|id| &**id).collect()));
            let (group, kind) = (R::GROUP, R::kind());
            conditions.and(&format!("t.{group} = g.id"));
            if groups.len() <= FEW_GROUPS {
                from = format!("unnest({value}::text[]) AS g(id) CROSS JOIN {from}");
            } else {
                let counted = format!("c.project = $1 AND c.kind = {kind} AND c.name = ANY({value}::text[])");
                from = format!(
                    "(SELECT c.name AS id, c.status FROM @.counter c WHERE {counted} GROUP BY c.name, c.status HAVING sum(c.n) > 0) g \
                     JOIN {from} ON s.status = g.status"
                );
            }
        }
        conditions.within(R::TIME, &self.window);
        from
    }

    /// How many records match.
    fn total<R: Executed>(&self) -> Statement<'a> {
        let mut conditions = Conditions::new();
        if self.window.is_open() {
            conditions.is("project", self.project);
            let statuses = conditions.value(Value::Smalls(self.statuses()));
            let names = self.groups.map_or_else(|| vec![""], |ids| ids.iter().map(|id| &**id).collect());
            let names = conditions.value(Value::Texts(names));
            let sql = format!(
                "SELECT coalesce(sum(t.n), 0)::bigint FROM @.counter t WHERE {} AND t.kind = {} AND t.name = ANY({names}::text[]) \
                 AND t.status = ANY({statuses}::smallint[])",
                conditions.sql,
                R::kind()
            );
            return conditions.statement(sql);
        }
        let from = self.arms::<R>(&mut conditions);
        let sql = format!(
            "SELECT coalesce(sum(c.n), 0)::bigint FROM {from} CROSS JOIN LATERAL (SELECT count(*) AS n FROM @.{} t WHERE {}) c",
            R::TABLE,
            conditions.sql
        );
        conditions.statement(sql)
    }

    /// The page, and the total if it is asked for.
    pub(crate) fn statements<R: Executed>(&self, page: &'a PageRequest) -> Vec<Statement<'a>> {
        let mut statements = vec![self.page::<R>(page)];
        if page.with_total {
            statements.push(self.total::<R>());
        }
        statements
    }

    fn page<R: Executed>(&self, page: &'a PageRequest) -> Statement<'a> {
        let mut conditions = Conditions::new();
        let from = self.arms::<R>(&mut conditions);
        let (time, order) = (R::TIME, direction(page.order));
        let offset = match &page.start {
            PageStart::Offset(offset) => i64::try_from(*offset).unwrap_or(i64::MAX),
            PageStart::After(position) => {
                let at = conditions.value(Value::Big(position.time.unix_us()));
                let id = conditions.value(Value::Text(&position.id));
                conditions.and(&format!("(t.{time}, t.id) {} ({at}, {id})", comparison(page.order)));
                0
            }
        };
        let rows = limit(page.limit).saturating_add(1);
        let taken = conditions.value(Value::Big(rows.saturating_add(offset)));
        let (rows, offset) = (conditions.value(Value::Big(rows)), conditions.value(Value::Big(offset)));
        let (columns, joined) = selection::<R>(page.form);
        let by = format!("ORDER BY t.{time} {order}, t.id {order}");
        let sql = format!(
            "SELECT {columns} FROM (SELECT t.{time}, t.id FROM {from} CROSS JOIN LATERAL \
             (SELECT t.{time}, t.id FROM @.{table} t WHERE {held} {by} LIMIT {taken}) t {by} LIMIT {rows} OFFSET {offset}) p \
             CROSS JOIN LATERAL (SELECT * FROM @.{table} t WHERE t.project = $1 AND t.id = p.id) t{joined} {by}",
            table = R::TABLE,
            held = conditions.sql,
        );
        conditions.statement(sql)
    }
}

/// Reads the rows of a page that was asked with one row more.
pub(crate) fn read_page<R: Kept>(answers: &Answers, page: &PageRequest) -> Outcome<Rows<R>> {
    let rows = rows_of(answers, 0);
    let has_more = rows.len() > page.limit;
    let records = rows.iter().take(page.limit).map(|row| read_record::<R>(row, page.form).map(|stored| stored.record));
    Ok(Rows { rows: records.collect::<Outcome<_>>()?, total: read_total(answers, page)?, has_more })
}

fn read_total(answers: &Answers, page: &PageRequest) -> Outcome<Option<u64>> {
    if !page.with_total {
        return Ok(None);
    }
    let total = rows_of(answers, 1).first().and_then(|row| Columns(row).get::<i64>(0)).and_then(|total| u64::try_from(total).ok());
    total.map(Some).ok_or_else(|| Error::corrupt("the counters can't be right").into())
}

pub(crate) fn list_nodes<'a>(filter: &'a NodeFilter, page: &'a PageRequest) -> Vec<Statement<'a>> {
    let conditions = || {
        let mut conditions = Conditions::new();
        conditions.is("project", &filter.project_id);
        for (column, id) in [
            ("run", &filter.workflow_run_id),
            ("workflow", &filter.workflow_id),
            ("node_type", &filter.node_type),
            ("node_id", &filter.node_id),
            ("node_key", &filter.node_key),
        ] {
            if let Some(id) = id {
                conditions.is(column, id);
            }
        }
        if !filter.statuses.is_all() {
            let statuses = conditions.value(Value::Smalls(filter.statuses.iter().map(|status| Some(status as i16)).collect()));
            conditions.and(&format!("t.status = ANY({statuses}::smallint[])"));
        }
        conditions.within("started_at", &filter.started);
        conditions
    };
    let mut paged = conditions();
    let order = direction(page.order);
    let offset = match &page.start {
        PageStart::Offset(offset) => i64::try_from(*offset).unwrap_or(i64::MAX),
        PageStart::After(position) => {
            let at = paged.value(Value::Big(position.time.unix_us()));
            let index = paged.value(Value::Big(i64::from(position.node_index)));
            let id = paged.value(Value::Text(&position.id));
            paged.and(&format!("(t.started_at, t.node_index, t.id) {} ({at}, {index}, {id})", comparison(page.order)));
            0
        }
    };
    let (rows, offset) = (paged.value(Value::Big(limit(page.limit).saturating_add(1))), paged.value(Value::Big(offset)));
    let (columns, joined) = selection::<NodeRun>(page.form);
    let by = format!("ORDER BY t.started_at {order}, t.node_index {order}, t.id {order}");
    let sql =
        format!("SELECT {columns} FROM (SELECT * FROM @.node_run t WHERE {} {by} LIMIT {rows} OFFSET {offset}) t{joined} {by}", paged.sql);
    let mut statements = vec![paged.statement(sql)];
    if page.with_total {
        let counted = conditions();
        let sql = format!("SELECT count(*) FROM @.node_run t WHERE {}", counted.sql);
        statements.push(counted.statement(sql));
    }
    statements
}

pub(crate) fn list_projects(page: &PageRequest) -> Vec<Statement<'_>> {
    // The counters of whole projects have no name.
    const OF_PROJECTS: &str = "FROM @.counter t WHERE t.kind = 0 AND t.name = ''";
    let (mut after, mut offset, mut conditions) = (String::new(), 0, Conditions::new());
    match &page.start {
        PageStart::Offset(passed) => offset = i64::try_from(*passed).unwrap_or(i64::MAX),
        PageStart::After(position) => {
            let id = conditions.value(Value::Text(&position.id));
            after = format!(" AND t.project {} {id}", comparison(page.order));
        }
    }
    let (rows, offset) = (conditions.value(Value::Big(limit(page.limit).saturating_add(1))), conditions.value(Value::Big(offset)));
    let sql = format!(
        "SELECT t.project, sum(t.n)::bigint {OF_PROJECTS}{after} GROUP BY t.project HAVING sum(t.n) > 0 \
         ORDER BY t.project {} LIMIT {rows} OFFSET {offset}",
        direction(page.order)
    );
    let mut statements = vec![conditions.statement(sql)];
    if page.with_total {
        let sql = format!("SELECT count(*) FROM (SELECT 1 {OF_PROJECTS} GROUP BY t.project HAVING sum(t.n) > 0) p");
        statements.push(Statement::new(sql));
    }
    statements
}

pub(crate) fn read_projects(answers: &Answers, page: &PageRequest) -> Outcome<Rows<ProjectSummary>> {
    let rows = rows_of(answers, 0);
    let read = |row: &Row| {
        let columns = Columns(row);
        Some(ProjectSummary { project_id: columns.id(0)?, runs: u64::try_from(columns.get::<i64>(1)?).ok()? })
    };
    let summaries: Option<Vec<_>> = rows.iter().take(page.limit).map(read).collect();
    let summaries = summaries.ok_or_else(|| Error::corrupt("the counters of a project can't be read"))?;
    Ok(Rows { rows: summaries, total: read_total(answers, page)?, has_more: rows.len() > page.limit })
}

pub(crate) fn latest_runs<'a>(project: &'a Id, workflow_ids: &'a [Id], form: AnswerForm) -> Statement<'a> {
    let (columns, joined) = selection::<Run>(form);
    let statuses: Vec<Option<i16>> = Status::ALL.iter().map(|status| Some(*status as i16)).collect();
    let by = "ORDER BY t.started_at DESC, t.id DESC LIMIT 1";
    let sql = format!(
        "SELECT {columns} FROM unnest($2::text[]) WITH ORDINALITY AS g(id, place) CROSS JOIN LATERAL \
         (SELECT t.* FROM unnest($3::smallint[]) AS s(status) CROSS JOIN LATERAL \
         (SELECT * FROM @.run t WHERE t.project = $1 AND t.workflow = g.id AND t.status = s.status {by}) t {by}) t{joined} ORDER BY g.place"
    );
    Statement::new(sql).text(project).texts(workflow_ids.iter().map(|id| &**id)).smalls(statuses)
}

pub(crate) fn read_all<R: Kept>(rows: &[Row], form: AnswerForm) -> Outcome<Vec<R>> {
    rows.iter().map(|row| read_record::<R>(row, form).map(|stored| stored.record)).collect()
}

/// Records whose leases have ended. The index knows only the bucket of a lease's end: the buckets are walked in order,
/// and what is in one is sorted by the server, a bucket at a time.
pub(crate) fn expired<R: Executed>(filter: &ExpiredFilter, form: AnswerForm) -> Statement<'_> {
    let mut conditions = Conditions::new();
    let bucket = conditions.value(Value::Big(lease_bucket(filter.expired_by)));
    conditions.and(&format!("t.lease_bucket <= {bucket}"));
    let bound = conditions.value(Value::Big(filter.expired_by.unix_us()));
    conditions.and(&format!("t.lease_ends_at <= {bound}"));
    if let Some(project) = &filter.project_id {
        conditions.is("project", project);
    }
    let rows = conditions.value(Value::Big(limit(filter.limit).saturating_add(1)));
    let (columns, joined) = selection::<R>(form);
    let by = "ORDER BY t.lease_bucket, t.lease_ends_at, t.project, t.id";
    let sql = format!("SELECT {columns} FROM (SELECT * FROM @.{} t WHERE {} {by} LIMIT {rows}) t{joined} {by}", R::TABLE, conditions.sql);
    conditions.statement(sql)
}

pub(crate) fn run_stats<'a>(project: &'a Id, workflow_ids: Option<&'a [Id]>) -> Statement<'a> {
    let named = if workflow_ids.is_some() { "t.name = ANY($2::text[])" } else { "t.name > ''" };
    let sql = format!(
        "SELECT t.name, t.status, sum(t.n)::bigint FROM @.counter t WHERE t.project = $1 AND t.kind = 0 AND {named} \
         GROUP BY t.name, t.status HAVING sum(t.n) <> 0 ORDER BY t.name, t.status"
    );
    let statement = Statement::new(sql).text(project);
    match workflow_ids {
        Some(ids) => statement.texts(ids.iter().map(|id| &**id)),
        None => statement,
    }
}

pub(crate) fn read_stats(rows: &[Row]) -> Outcome<RunStats> {
    let mut counted: Vec<(Id, StatusCounts)> = Vec::new();
    for row in rows {
        let columns = Columns(row);
        let read = || {
            let (name, status) = (columns.id(0)?, usize::try_from(columns.get::<i16>(1)?).ok()?);
            Some((name, status, u64::try_from(columns.get::<i64>(2)?).ok()?))
        };
        let (name, status, n) = read().ok_or_else(|| Error::corrupt("the counters of a workflow can't be read"))?;
        if counted.last().is_none_or(|(last, _)| *last != name) {
            counted.push((name, StatusCounts::default()));
        }
        if let Some(count) = counted.last_mut().and_then(|(_, counts)| counts.0.get_mut(status)) {
            *count = n;
        }
    }
    Ok(RunStats::from_workflows(counted))
}
