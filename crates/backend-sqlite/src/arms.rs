//! Ordered ranges of an index, and walks over several of them as one.
//!
//! An arm is all records of one status under one project (or one workflow, one agent), in the order of their times and
//! ids. Every list is a merge of arms, so that no index is needed that leaves the status out.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use runledger_core::{Id, Order, PageRequest, PageStart, Position, Status, Time, Window};
use rusqlite::{CachedStatement, Rows, Statement};

use crate::db::Db;
use crate::error::Outcome;

/// The most arms that one statement merges. Past that, each is read by itself.
pub(crate) const MERGED_ARMS: usize = 64;

/// What one kind of index is made of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Index {
    pub(crate) table: &'static str,
    pub(crate) name: &'static str,
    /// The column before the status.
    pub(crate) scope: &'static str,
    /// The column after it.
    pub(crate) time: &'static str,
}

pub(crate) const RUNS_OF_PROJECT: Index = Index { table: "run", name: "run_by_status", scope: "project", time: "started_at" };
pub(crate) const RUNS_OF_WORKFLOW: Index = Index { table: "run", name: "run_by_workflow", scope: "workflow", time: "started_at" };
pub(crate) const AGENTS_OF_PROJECT: Index = Index { table: "agent_run", name: "agent_run_by_status", scope: "project", time: "created_at" };
pub(crate) const AGENTS_OF_AGENT: Index = Index { table: "agent_run", name: "agent_run_by_agent", scope: "agent", time: "created_at" };

/// One arm: the number of the project, workflow or agent, and the status.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arm {
    pub(crate) scope: i64,
    pub(crate) status: Status,
}

/// The part of every arm that is asked for: between two places in the order, both left out.
#[derive(Clone, Debug)]
pub(crate) struct Span {
    low: (i64, Id),
    high: (i64, Id),
}

impl Span {
    /// Everything.
    pub(crate) fn all() -> Span {
        Span::of(&Window::default())
    }

    /// The places whose times are in a window. No id is empty, so that the empty one stands before all of its time.
    pub(crate) fn of(window: &Window) -> Span {
        let low = window.after.map_or(i64::MIN, Time::unix_us);
        let high = window.before.map_or(i64::MAX, |before| before.unix_us() + 1);
        Span { low: (low, "".into()), high: (high, "".into()) }
    }

    /// The places that a page can begin at: those after its cursor, if it has one.
    pub(crate) fn of_page(window: &Window, page: &PageRequest) -> Span {
        let mut span = Span::of(window);
        if let PageStart::After(Position { time, id, .. }) = &page.start {
            let cursor = (time.unix_us(), id.clone());
            match page.order {
                Order::Asc => span.low = span.low.max(cursor),
                Order::Desc => span.high = span.high.min(cursor),
            }
        }
        span
    }

    fn bind(&self, statement: &mut Statement<'_>) -> rusqlite::Result<()> {
        statement.raw_bind_parameter(1, self.low.0)?;
        statement.raw_bind_parameter(2, &*self.low.1)?;
        statement.raw_bind_parameter(3, self.high.0)?;
        statement.raw_bind_parameter(4, &*self.high.1)
    }
}

/// An entry of an index: the record's time, and its row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) time: i64,
    pub(crate) key: i64,
}

/// How many entries of a merge are passed over, and how many taken after them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slice {
    pub(crate) offset: u64,
    pub(crate) take: usize,
}

impl Slice {
    /// What a page needs: its rows, and one more to know whether there is one.
    pub(crate) fn of_page(page: &PageRequest) -> Slice {
        let offset = match page.start {
            PageStart::Offset(offset) => offset,
            PageStart::After(_) => 0,
        };
        Slice { offset, take: page.limit + 1 }
    }
}

impl Index {
    /// A statement with which the engine merges a few arms, and then does what `outer` says with what it calls `page`.
    pub(crate) fn merge<'c>(&self, db: &Db<'c>, arms: usize, order: Order, outer: (&str, &str)) -> Outcome<Merge<'c>> {
        let mut sql = String::with_capacity(256 * arms + outer.0.len() + outer.1.len());
        sql.push_str(outer.0);
        sql.push_str(" FROM (");
        for place in 0..arms {
            if place > 0 {
                sql.push_str(" UNION ALL ");
            }
            self.push_arm(&mut sql, 7 + 2 * place);
        }
        push_order(&mut sql, order);
        sql.push_str(" LIMIT ?5 OFFSET ?6) AS page ");
        sql.push_str(outer.1);
        Ok(Merge(db.conn.prepare_cached(&sql)?))
    }

    /// The entries of many arms: the first ones of each, of which the first of all are kept.
    pub(crate) fn select(&self, db: &Db<'_>, arms: &[Arm], span: &Span, order: Order, slice: Slice) -> Outcome<Vec<Entry>> {
        let offset = usize::try_from(slice.offset).unwrap_or(usize::MAX);
        let mut first = First::new(order, offset.saturating_add(slice.take));
        let mut sql = String::with_capacity(256);
        self.push_arm(&mut sql, 5);
        push_order(&mut sql, order);
        let mut statement = db.conn.prepare_cached(&sql)?;
        span.bind(&mut statement)?;
        for arm in arms {
            statement.raw_bind_parameter(5, arm.scope)?;
            statement.raw_bind_parameter(6, arm.status as i64)?;
            let mut rows = statement.raw_query();
            while let Some(row) = rows.next()? {
                let place = (row.get::<_, i64>(0)?, row.get_ref(1)?.as_str().map_err(rusqlite::Error::from)?);
                if !first.wants(|kept: &(i64, Box<str>)| (kept.0, &*kept.1).cmp(&place)) {
                    break;
                }
                first.offer((place.0, place.1.into()), row.get(2)?);
            }
        }
        let entries = first.into_ordered().into_iter().skip(offset);
        Ok(entries.map(|((time, _), key)| Entry { time, key }).collect())
    }

    /// How many entries some arms have.
    pub(crate) fn count(&self, db: &Db<'_>, arms: &[Arm], span: &Span) -> Outcome<u64> {
        let mut sql = String::from("SELECT count(*) FROM (");
        self.push_arm(&mut sql, 5);
        sql.push(')');
        let mut statement = db.conn.prepare_cached(&sql)?;
        span.bind(&mut statement)?;
        let mut total = 0;
        for arm in arms {
            statement.raw_bind_parameter(5, arm.scope)?;
            statement.raw_bind_parameter(6, arm.status as i64)?;
            let mut rows = statement.raw_query();
            if let Some(row) = rows.next()? {
                total += u64::try_from(row.get::<_, i64>(0)?).unwrap_or(0);
            }
        }
        Ok(total)
    }

    fn push_arm(&self, sql: &mut String, parameter: usize) {
        let Index { table, name, scope, time } = self;
        let status = parameter + 1;
        sql.push_str(&format!(
            "SELECT {time} AS time, id, key FROM {table} INDEXED BY {name} WHERE {scope} = ?{parameter} AND status = ?{status} \
             AND ({time}, id) > (?1, ?2) AND ({time}, id) < (?3, ?4)"
        ));
    }
}

/// See [`Index::merge`].
pub(crate) struct Merge<'c>(CachedStatement<'c>);

impl Merge<'_> {
    /// The rows of as many arms as the statement was made for.
    pub(crate) fn rows(&mut self, arms: &[Arm], span: &Span, slice: Slice) -> Outcome<Rows<'_>> {
        let statement = &mut self.0;
        span.bind(statement)?;
        // A page has at most 10,000 rows, and an offset is at most 2^63 - 1.
        statement.raw_bind_parameter(5, slice.take as i64)?;
        statement.raw_bind_parameter(6, slice.offset as i64)?;
        for (place, arm) in arms.iter().enumerate() {
            statement.raw_bind_parameter(7 + 2 * place, arm.scope)?;
            statement.raw_bind_parameter(8 + 2 * place, arm.status as i64)?;
        }
        Ok(statement.raw_query())
    }
}

fn push_order(sql: &mut String, order: Order) {
    sql.push_str(match order {
        Order::Asc => " ORDER BY 1, 2",
        Order::Desc => " ORDER BY 1 DESC, 2 DESC",
    });
}

/// Keeps the first few of many rows that come in any order.
pub(crate) struct First<K, V> {
    order: Order,
    most: usize,
    kept: BinaryHeap<Kept<K, V>>,
}

struct Kept<K, V> {
    order: Order,
    key: K,
    value: V,
}

impl<K: Ord, V> Ord for Kept<K, V> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.order.apply(self.key.cmp(&other.key))
    }
}

impl<K: Ord, V> PartialOrd for Kept<K, V> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<K: Ord, V> PartialEq for Kept<K, V> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<K: Ord, V> Eq for Kept<K, V> {}

impl<K: Ord, V> First<K, V> {
    pub(crate) fn new(order: Order, most: usize) -> Self {
        First { order, most, kept: BinaryHeap::new() }
    }

    /// Whether a row would be kept. `compare` holds a kept row against it.
    pub(crate) fn wants(&self, compare: impl FnOnce(&K) -> Ordering) -> bool {
        if self.kept.len() < self.most {
            return true;
        }
        self.kept.peek().is_some_and(|last| self.order.apply(compare(&last.key)) == Ordering::Greater)
    }

    pub(crate) fn offer(&mut self, key: K, value: V) {
        self.kept.push(Kept { order: self.order, key, value });
        if self.kept.len() > self.most {
            self.kept.pop();
        }
    }

    /// The rows that were kept, in order.
    pub(crate) fn into_ordered(self) -> Vec<(K, V)> {
        self.kept.into_sorted_vec().into_iter().map(|kept| (kept.key, kept.value)).collect()
    }
}
