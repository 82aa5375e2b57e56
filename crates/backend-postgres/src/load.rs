//! How a transaction locks and loads what its commands need, in a fixed number of round trips.

use std::collections::{BTreeMap, HashSet};

use runledger_core::{AgentRun, EndedFilter, Entity, ExportRecord, Id, NodeRun, Run, Status, Time};
use tokio_postgres::Row;

use crate::error::{Fault, Outcome};
use crate::overlay::Overlay;
use crate::rows::{Columns, Kept, read_state, read_value_row};
use crate::statement::Statement;
use crate::transact::{Bulk, PostgresTx, Queue, Seen, ended_key};
use crate::wanted::{ClaimsByQueue, Key, Wanted, want};

/// The server's clock, as microseconds since 1970.
const SERVER_TIME: &str = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint";

/// The large values of some records.
const VALUES: &str = "SELECT l.project, l.kind, l.id, l.slot, l.checksum, l.json, l.prompt \
                      FROM unnest($1::text[], $2::smallint[], $3::text[]) AS k(project, kind, id) \
                      JOIN @.large_value l ON l.project = k.project AND l.kind = k.kind AND l.id = k.id";

/// Locks runs, and those of node runs, in the order of their keys, and answers them as they are once they are locked.
fn lock_runs(runs: &BTreeMap<Key, bool>, of_nodes: &BTreeMap<Key, bool>) -> Statement<'static> {
    let sql = format!(
        "SELECT {} FROM (SELECT * FROM unnest($1::text[], $2::text[]) AS k(project, id) \
         UNION SELECT n.project, n.run FROM unnest($3::text[], $4::text[]) AS k(project, id) \
         JOIN @.node_run n ON n.project = k.project AND n.id = k.id) k \
         JOIN @.run t ON t.project = k.project AND t.id = k.id ORDER BY t.project, t.id FOR UPDATE OF t",
        Run::selected()
    );
    with_keys(with_keys(Statement::new(sql), runs.keys()), of_nodes.keys())
}

/// Locks agent runs, and those under whole trees, likewise. The runs are locked already, so that none can be added.
fn lock_agents(agents: &BTreeMap<Key, bool>, trees: &[Key]) -> Statement<'static> {
    let sql = format!(
        "SELECT {} FROM (SELECT * FROM unnest($1::text[], $2::text[]) AS k(project, id) \
         UNION SELECT n.project, n.id FROM unnest($3::text[], $4::text[]) AS k(project, id) \
         JOIN @.node_run n ON n.project = k.project AND n.run = k.id) k \
         JOIN @.agent_run t ON t.project = k.project AND t.id = k.id ORDER BY t.project, t.id FOR UPDATE OF t",
        AgentRun::selected()
    );
    with_keys(with_keys(Statement::new(sql), agents.keys()), trees)
}

/// Node runs need no lock of their own: whoever changes one has locked its run.
fn load_nodes(nodes: &BTreeMap<Key, bool>, trees: &[Key]) -> Statement<'static> {
    let sql = format!(
        "SELECT {0} FROM unnest($1::text[], $2::text[]) AS k(project, id) JOIN @.node_run t ON t.project = k.project AND t.id = k.id \
         UNION ALL SELECT {0} FROM unnest($3::text[], $4::text[]) AS k(project, id) \
         JOIN @.node_run t ON t.project = k.project AND t.run = k.id",
        NodeRun::selected()
    );
    with_keys(with_keys(Statement::new(sql), nodes.keys()), trees)
}

fn with_keys<'a>(statement: Statement<'static>, keys: impl IntoIterator<Item = &'a Key>) -> Statement<'static> {
    // Owned, since the statement outlives the borrow of what it was made from.
    let (projects, ids): (Vec<Id>, Vec<Id>) = keys.into_iter().cloned().unzip();
    statement.ids(projects).ids(ids)
}

/// The records that come first in a queue: their times and ids. Those of `but` are known anyway.
fn look_at_queue<R: Kept>(time: &str, group: &str, queue: &Queue, but: &BTreeMap<Key, bool>, count: usize) -> Statement<'static> {
    let (project, groups) = queue;
    let known = but.keys().filter(|(of, _)| of == project).map(|(_, id)| id.clone()).collect();
    let (table, queued) = (R::TABLE, Status::Queued as i16);
    let order = format!("ORDER BY t.{time}, t.id LIMIT $3");
    let rest = format!("t.project = $1 AND t.status = {queued} AND t.id <> ALL($2::text[])");
    let limit = i64::try_from(count).unwrap_or(i64::MAX);
    match groups {
        None => {
            let sql = format!("SELECT t.{time}, t.id FROM @.{table} t WHERE {rest} {order}");
            Statement::new(sql).id(project.clone()).ids(known).big(limit)
        }
        Some(ids) => {
            let sql = format!(
                "SELECT t.{time}, t.id FROM unnest($4::text[]) AS g(id) CROSS JOIN LATERAL \
                 (SELECT t.{time}, t.id FROM @.{table} t WHERE {rest} AND t.{group} = g.id {order}) t {order}"
            );
            Statement::new(sql).id(project.clone()).ids(known).big(limit).ids(ids.clone())
        }
    }
}

/// Those records in the projects of claims that other commands name with less than a claim answers.
fn named_beside(claims: &ClaimsByQueue, records: &BTreeMap<Key, bool>) -> Vec<Key> {
    let projects: HashSet<&Id> = claims.iter().filter(|(_, claims)| claims.is_whole).map(|((project, _), _)| project).collect();
    records.iter().filter(|((project, _), is_whole)| !**is_whole && projects.contains(project)).map(|(key, _)| key.clone()).collect()
}

/// Which of some records are queued. No others will be when it comes to the claims, unless the group itself queues them.
fn look_at_named<R: Kept>(named: &[Key]) -> Statement<'static> {
    let (table, queued) = (R::TABLE, Status::Queued as i16);
    let sql = format!(
        "SELECT t.project, t.id FROM unnest($1::text[], $2::text[]) AS k(project, id) \
         JOIN @.{table} t ON t.project = k.project AND t.id = k.id WHERE t.status = {queued}"
    );
    with_keys(Statement::new(sql), named)
}

/// The runs that ended first.
fn look_at_ended(filter: &EndedFilter, but: &BTreeMap<Key, bool>, count: usize) -> Statement<'static> {
    let known = but.keys().filter(|(of, _)| *of == filter.project_id).map(|(_, id)| id.clone()).collect();
    let workflows = if filter.workflow_ids.is_some() { " AND t.workflow = ANY($6::text[])" } else { "" };
    let sql = format!(
        "SELECT t.finished_at, t.id FROM @.run t WHERE t.project = $1 AND t.finished_at < $4 AND t.status = ANY($5::smallint[]) \
         AND t.id <> ALL($2::text[]){workflows} ORDER BY t.finished_at, t.id LIMIT $3"
    );
    let statuses = filter.statuses.iter().map(|status| Some(status as i16)).collect();
    let limit = i64::try_from(count).unwrap_or(i64::MAX);
    let statement = Statement::new(sql).id(filter.project_id.clone()).ids(known).big(limit);
    let statement = statement.big(filter.finished_before.unix_us()).smalls(statuses);
    match &filter.workflow_ids {
        Some(ids) => statement.ids(ids.clone()),
        None => statement,
    }
}

fn read_place(row: &Row) -> Option<(Time, Id)> {
    let columns = Columns(row);
    Some((Time::from_unix_us(columns.get(0)?)?, columns.id(1)?))
}

fn read_places(rows: &[Row]) -> Outcome<Vec<(Time, Id)>> {
    let places: Option<Vec<_>> = rows.iter().map(read_place).collect();
    places.ok_or_else(|| runledger_core::Error::corrupt("a place in an index can't be read").into())
}

/// How many times as far each try looks along a queue of agent runs, and how far at the most.
const LOOK_FURTHER: usize = 8;
const FURTHEST: usize = 1 << 20;

/// What is asked for when the locks are taken.
#[derive(Clone, Copy, Debug)]
enum Part {
    Runs,
    Agents,
    Nodes,
    Values,
    Time,
}

impl PostgresTx<'_> {
    /// Takes the locks of a group of commands and loads its records. `begin` opens the transaction; `tries` says which one
    /// this is.
    pub(crate) fn lock_and_load(&mut self, begin: Statement<'static>, wanted: &Wanted, tries: u32, with_time: bool) -> Outcome<()> {
        let mut statements = vec![begin, wanted.take_locks()];
        let (mut runs, mut agents) = (wanted.runs.clone(), wanted.agents.clone());
        let mut trees: Vec<Key> = wanted.trees.iter().cloned().collect();
        if wanted.must_look_first() {
            self.look_first(statements, wanted, tries, &mut runs, &mut agents, &mut trees)?;
            statements = Vec::new();
        }
        let before = statements.len();
        let mut parts = Vec::new();
        let mut ask = |part, is_needed: bool, statement: &dyn Fn() -> Statement<'static>| {
            if is_needed {
                parts.push(part);
                statements.push(statement());
            }
        };
        let is_whole = |records: &BTreeMap<Key, bool>| records.values().any(|is_whole| *is_whole);
        ask(Part::Runs, !runs.is_empty() || !wanted.nodes.is_empty(), &|| lock_runs(&runs, &wanted.nodes));
        ask(Part::Agents, !agents.is_empty() || !trees.is_empty(), &|| lock_agents(&agents, &trees));
        ask(Part::Nodes, !wanted.nodes.is_empty() || !trees.is_empty(), &|| load_nodes(&wanted.nodes, &trees));
        let some_are_whole = is_whole(&runs) || is_whole(&wanted.nodes) || is_whole(&agents);
        ask(Part::Values, some_are_whole, &|| load_values(&runs, &wanted.nodes, &agents));
        ask(Part::Time, with_time, &|| Statement::new(SERVER_TIME));
        let answers = self.connector.ask(self.session, &statements)?;
        for (part, rows) in parts.into_iter().zip(answers.into_iter().skip(before)) {
            match part {
                Part::Runs => load(&mut self.runs, &rows)?,
                Part::Agents => load(&mut self.agents, &rows)?,
                Part::Nodes => self.take_nodes(&rows, &trees)?,
                Part::Values => rows.iter().try_for_each(|row| self.take_value(row))?,
                Part::Time => self.time = rows.first().and_then(|row| Time::from_unix_us(Columns(row).get(0)?)),
            }
        }
        runs.into_keys().for_each(|key| self.runs.load_absent(key));
        wanted.nodes.keys().for_each(|key| self.nodes.load_absent(key.clone()));
        agents.into_keys().for_each(|key| self.agents.load_absent(key));
        Ok(())
    }

    /// Finds the records that claims and purges are about.
    fn look_first(
        &mut self,
        mut statements: Vec<Statement<'static>>,
        wanted: &Wanted,
        tries: u32,
        runs: &mut BTreeMap<Key, bool>,
        agents: &mut BTreeMap<Key, bool>,
        trees: &mut Vec<Key>,
    ) -> Outcome<()> {
        let before = statements.len();
        // As many as are claimed are enough, but that agent runs may be gone when it comes to the claim, with a run that the group
        // cancels, deletes or purges. How many those are is known to nobody yet, so that each further try looks further.
        let [run_count, agent_count] = wanted.claim_counts;
        let agent_count = agent_count.saturating_mul(LOOK_FURTHER.saturating_pow(tries - 1)).min(FURTHEST.max(agent_count));
        // Each purge may take what another one of the group would have found first.
        let ended_count = wanted.purges.iter().map(|(_, limit)| limit).sum();
        statements
            .extend(wanted.run_claims.keys().map(|queue| look_at_queue::<Run>("started_at", "workflow", queue, &wanted.runs, run_count)));
        let agent_queues = wanted.agent_claims.keys();
        statements.extend(agent_queues.map(|queue| look_at_queue::<AgentRun>("created_at", "agent", queue, &wanted.agents, agent_count)));
        statements.extend(wanted.purges.iter().map(|(filter, _)| look_at_ended(filter, &wanted.runs, ended_count)));
        let (named_runs, named_agents) = (named_beside(&wanted.run_claims, runs), named_beside(&wanted.agent_claims, agents));
        statements.extend((!named_runs.is_empty()).then(|| look_at_named::<Run>(&named_runs)));
        statements.extend((!named_agents.is_empty()).then(|| look_at_named::<AgentRun>(&named_agents)));
        let answers = self.connector.ask(self.session, &statements)?;
        let mut answers = answers.into_iter().skip(before);
        let mut take_queues = |claims: &ClaimsByQueue, records: &mut BTreeMap<Key, bool>, count: usize| -> Outcome<Vec<(Queue, Seen)>> {
            let mut queues = Vec::new();
            for (queue, claims) in claims {
                let places = read_places(&answers.next().unwrap_or_default())?;
                let seen = Seen { is_cut: places.len() >= count, last: places.last().cloned() };
                for (_, id) in places {
                    *records.entry((queue.0.clone(), id)).or_default() |= claims.is_whole;
                }
                queues.push((queue.clone(), seen));
            }
            Ok(queues)
        };
        self.run_queues.extend(take_queues(&wanted.run_claims, runs, run_count)?);
        self.agent_queues.extend(take_queues(&wanted.agent_claims, agents, agent_count)?);
        for (filter, _) in &wanted.purges {
            let places = read_places(&answers.next().unwrap_or_default())?;
            self.ended.insert(ended_key(filter), Seen { is_cut: places.len() >= ended_count, last: places.last().cloned() });
            for (_, id) in places {
                let key = (filter.project_id.clone(), id);
                runs.entry(key.clone()).or_default();
                trees.push(key);
            }
        }
        for (records, named) in [(runs, named_runs), (agents, named_agents)] {
            let rows = if named.is_empty() { Vec::new() } else { answers.next().unwrap_or_default() };
            let keys = rows.iter().map(Columns).filter_map(|columns| Some((columns.id(0)?, columns.id(1)?)));
            records.extend(keys.map(|key| (key, true)));
        }
        Ok(())
    }

    fn take_nodes(&mut self, rows: &[Row], trees: &[Key]) -> Outcome<()> {
        let trees: HashSet<&Key> = trees.iter().collect();
        for row in rows {
            let stored = read_state::<NodeRun>(row)?;
            let key = (stored.record.project_id.clone(), stored.record.id.clone());
            let run = (key.0.clone(), stored.record.workflow_run_id.clone());
            if !self.runs.has(&run) {
                // The node run was deleted and made again under another run while we waited for the first one's lock.
                return Err(Fault::Again);
            }
            self.add_child(&stored.record);
            if trees.contains(&run) {
                self.agents.load_absent(key.clone());
            }
            self.nodes.load(key, Some(stored));
        }
        Ok(())
    }

    fn take_value(&mut self, row: &Row) -> Outcome<()> {
        let (entity, project, id, large) = read_value_row(row)?;
        let key = (project, id);
        match entity {
            Entity::Node => self.nodes.load_value(&key, large)?,
            Entity::Agent => self.agents.load_value(&key, large)?,
            _ => self.runs.load_value(&key, large)?,
        }
        Ok(())
    }

    // ---- transactions that may touch anything

    /// Begins a transaction that may touch anything.
    pub(crate) fn begin_bulk(&mut self, begin: Statement<'static>, wanted: &Wanted) -> Outcome<()> {
        let tables = ["run", "node_run", "agent_run"];
        let empty = Statement::new(format!("SELECT {}", tables.map(|table| format!("NOT EXISTS (SELECT FROM @.{table})")).join(", ")));
        let answers = self.connector.ask(self.session, &[begin, wanted.take_locks(), empty])?;
        let row = answers.last().and_then(|rows| rows.first());
        let is_empty = |n: usize| row.and_then(|row| Columns(row).get(n)).unwrap_or(false);
        self.bulk = Some(Bulk { empty: [is_empty(0), is_empty(1), is_empty(2)], pending_bytes: 0 });
        Ok(())
    }

    /// Loads what an import is about to ask for.
    pub(crate) fn load_ahead(&mut self, records: &[ExportRecord]) -> Outcome<()> {
        let [no_runs, no_nodes, no_agents] = self.bulk.as_ref().map_or([true; 3], |bulk| bulk.empty);
        let [mut runs, mut nodes, mut agents] = <[BTreeMap<Key, bool>; 3]>::default();
        for record in records {
            match record {
                ExportRecord::Run(run) if !no_runs => want(&mut runs, &run.project_id, &run.id, true),
                ExportRecord::Node(node) if !no_nodes => want(&mut nodes, &node.project_id, &node.id, true),
                ExportRecord::Agent(agent) if !no_agents => want(&mut agents, &agent.project_id, &agent.node_run_id, true),
                _ => {}
            }
        }
        if runs.is_empty() && nodes.is_empty() && agents.is_empty() {
            return Ok(());
        }
        // No more is held than these and what becomes of them.
        self.write_gathered()?;
        self.load_by_key(runs, nodes, agents)
    }

    pub(crate) fn ready_run(&mut self, key: &Key) -> Outcome<()> {
        if self.bulk.is_none() || self.runs.has(key) {
            return Ok(());
        }
        self.load_by_key(BTreeMap::from([(key.clone(), true)]), BTreeMap::new(), BTreeMap::new())
    }

    pub(crate) fn ready_node(&mut self, key: &Key) -> Outcome<()> {
        if self.bulk.is_none() || self.nodes.has(key) {
            return Ok(());
        }
        self.load_by_key(BTreeMap::new(), BTreeMap::from([(key.clone(), true)]), BTreeMap::new())
    }

    pub(crate) fn ready_agent(&mut self, key: &Key) -> Outcome<()> {
        if self.bulk.is_none() || self.agents.has(key) {
            return Ok(());
        }
        self.load_by_key(BTreeMap::new(), BTreeMap::new(), BTreeMap::from([(key.clone(), true)]))
    }

    /// Loads records with their large values in one round trip; none where the store is known to have none of the kind.
    fn load_by_key(&mut self, runs: BTreeMap<Key, bool>, nodes: BTreeMap<Key, bool>, agents: BTreeMap<Key, bool>) -> Outcome<()> {
        let empty = self.bulk.as_ref().map_or([false; 3], |bulk| bulk.empty);
        let are_asked = [&runs, &nodes, &agents].into_iter().zip(empty).any(|(keys, is_empty)| !keys.is_empty() && !is_empty);
        if are_asked {
            let statements =
                [by_key::<Run>(&runs), by_key::<NodeRun>(&nodes), by_key::<AgentRun>(&agents), load_values(&runs, &nodes, &agents)];
            let mut answers = self.connector.ask(self.session, &statements)?.into_iter();
            let mut next = || answers.next().unwrap_or_default();
            load(&mut self.runs, &next())?;
            load(&mut self.nodes, &next())?;
            load(&mut self.agents, &next())?;
            next().iter().try_for_each(|row| self.take_value(row))?;
        }
        runs.into_keys().for_each(|key| self.runs.load_absent(key));
        nodes.into_keys().for_each(|key| self.nodes.load_absent(key));
        agents.into_keys().for_each(|key| self.agents.load_absent(key));
        Ok(())
    }
}

/// The records of a kind that are under some keys.
fn by_key<R: Kept>(keys: &BTreeMap<Key, bool>) -> Statement<'static> {
    let sql = format!(
        "SELECT {} FROM unnest($1::text[], $2::text[]) AS k(project, id) JOIN @.{} t ON t.project = k.project AND t.id = k.id",
        R::selected(),
        R::TABLE
    );
    with_keys(Statement::new(sql), keys.keys())
}

/// The large values of those records whose are needed.
fn load_values(runs: &BTreeMap<Key, bool>, nodes: &BTreeMap<Key, bool>, agents: &BTreeMap<Key, bool>) -> Statement<'static> {
    let (mut projects, mut kinds, mut ids) = (Vec::new(), Vec::new(), Vec::new());
    for (kind, records) in [(Run::kind(), runs), (NodeRun::kind(), nodes), (AgentRun::kind(), agents)] {
        for ((project, id), _) in records.iter().filter(|(_, is_whole)| **is_whole) {
            projects.push(project.clone());
            kinds.push(Some(kind));
            ids.push(id.clone());
        }
    }
    Statement::new(VALUES).ids(projects).smalls(kinds).ids(ids)
}

/// Takes the rows of locked records in.
fn load<R: Kept>(overlay: &mut Overlay<R>, rows: &[Row]) -> Outcome<()> {
    for row in rows {
        let stored = read_state::<R>(row)?;
        let key = (stored.record.project_id().clone(), stored.record.key_id().clone());
        overlay.load(key, Some(stored));
    }
    Ok(())
}
