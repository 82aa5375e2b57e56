//! What each query answers.

use runledger_core::{
    AgentRun, Code, Execution, GetAgent, GetNode, GetRun, GetRunStats, Id, LatestRuns, ListAgents, ListNodes, ListProjects, ListRuns,
    NodeRun, Order, Query, Run, Status, Time,
};

use super::commands::{agent_answer, node_answer, run_answer};
use super::render::{list, object, quote};
use super::{Bookmark, Oracle, Refusal, Reply};

type Outcome = Result<Reply, Refusal>;

/// The page fields of a list.
struct PageOf<'a> {
    op: &'static str,
    rows_name: &'static str,
    project_id: Option<&'a Id>,
    order: Order,
    limit: Option<u32>,
    offset: Option<u64>,
    cursor: Option<&'a str>,
    with_total: Option<bool>,
    bookmark: Option<&'a Bookmark>,
}

macro_rules! page_of {
    ($query:ident, $op:literal, $rows:literal, $project:expr, $order:expr, $bookmark:ident) => {
        PageOf {
            op: $op,
            rows_name: $rows,
            project_id: $project,
            order: $query.order.unwrap_or($order),
            limit: $query.limit,
            offset: $query.offset,
            cursor: $query.cursor.as_deref(),
            with_total: $query.with_total,
            bookmark: $bookmark,
        }
    };
}

impl Oracle {
    pub(super) fn answer(&self, query: &Query, bookmark: Option<&Bookmark>) -> Outcome {
        match query {
            Query::GetRun(q) => Ok(self.get_run(q).into()),
            Query::GetNode(q) => Ok(self.get_node(q).into()),
            Query::GetAgent(q) => Ok(self.get_agent(q).into()),
            Query::ListRuns(q) => self.list_runs(q, bookmark),
            Query::ListNodes(q) => self.list_nodes(q, bookmark),
            Query::ListAgents(q) => self.list_agents(q, bookmark),
            Query::LatestRuns(q) => Ok(self.latest_runs(q).into()),
            Query::ExpiredRuns(q) => {
                let rows = self.runs.iter().map(|run| (run, &run.status, &run.execution, &run.project_id, &run.id));
                let (rows, has_more) = expired(rows, q.project_id.as_ref(), q.expired_by, q.limit);
                Ok(expired_answer("runs", rows.into_iter().map(|run| run_answer(run, q.answer)), has_more))
            }
            Query::ExpiredAgents(q) => {
                let rows = self.agents.iter().map(|agent| (agent, &agent.status, &agent.execution, &agent.project_id, &agent.node_run_id));
                let (rows, has_more) = expired(rows, q.project_id.as_ref(), q.expired_by, q.limit);
                Ok(expired_answer("agents", rows.into_iter().map(|agent| agent_answer(agent, q.answer)), has_more))
            }
            Query::GetRunStats(q) => Ok(self.run_stats(q).into()),
            Query::ListProjects(q) => self.list_projects(q, bookmark),
            Query::VerifyStore(_) => Ok(self.verified().into()),
            _ => Err(Refusal::new(Code::Unsupported)),
        }
    }

    fn get_run(&self, q: &GetRun) -> String {
        let found = self.runs.iter().find(|run| run.project_id == q.project_id && run.id == q.id);
        found.map_or("null".to_owned(), |run| run_answer(run, q.answer))
    }

    fn get_node(&self, q: &GetNode) -> String {
        let found = self.nodes.iter().find(|node| node.project_id == q.project_id && node.id == q.id);
        found.map_or("null".to_owned(), |node| node_answer(node, q.answer))
    }

    fn get_agent(&self, q: &GetAgent) -> String {
        let found = self.agents.iter().find(|agent| agent.project_id == q.project_id && agent.node_run_id == q.node_run_id);
        found.map_or("null".to_owned(), |agent| agent_answer(agent, q.answer))
    }

    fn list_runs(&self, q: &ListRuns, bookmark: Option<&Bookmark>) -> Outcome {
        let matching = self.runs.iter().filter(|run| {
            run.project_id == q.project_id
                && q.workflow_id.as_ref().is_none_or(|id| *id == run.workflow_id)
                && q.workflow_ids.as_ref().is_none_or(|ids| ids.contains(&run.workflow_id))
                && q.statuses.as_ref().is_none_or(|statuses| statuses.contains(&run.status))
                && q.started_after.is_none_or(|after| run.started_at >= after)
                && q.started_before.is_none_or(|before| run.started_at <= before)
        });
        let rows = matching.map(|run| (key_of_run(run), run)).collect();
        page_of!(q, "runs.list", "runs", Some(&q.project_id), Order::Desc, bookmark).answer(rows, |run| run_answer(run, q.answer))
    }

    fn list_nodes(&self, q: &ListNodes, bookmark: Option<&Bookmark>) -> Outcome {
        let matching = self.nodes.iter().filter(|node| {
            node.project_id == q.project_id
                && q.workflow_run_id.as_ref().is_none_or(|id| *id == node.workflow_run_id)
                && q.workflow_id.as_ref().is_none_or(|id| *id == node.workflow_id)
                && q.node_type.as_ref().is_none_or(|node_type| *node_type == node.node_type)
                && q.node_id.as_ref().is_none_or(|id| *id == node.node_id)
                && q.node_key.as_ref().is_none_or(|key| *key == node.node_key)
                && q.statuses.as_ref().is_none_or(|statuses| statuses.contains(&node.status))
                && q.started_after.is_none_or(|after| node.started_at >= after)
                && q.started_before.is_none_or(|before| node.started_at <= before)
        });
        let rows = matching.map(|node| (key_of_node(node), node)).collect();
        page_of!(q, "nodes.list", "nodes", Some(&q.project_id), Order::Desc, bookmark).answer(rows, |node| node_answer(node, q.answer))
    }

    fn list_agents(&self, q: &ListAgents, bookmark: Option<&Bookmark>) -> Outcome {
        let matching = self.agents.iter().filter(|agent| {
            agent.project_id == q.project_id
                && q.agent_id.as_ref().is_none_or(|id| *id == agent.agent_id)
                && q.statuses.as_ref().is_none_or(|statuses| statuses.contains(&agent.status))
                && q.created_after.is_none_or(|after| agent.created_at >= after)
                && q.created_before.is_none_or(|before| agent.created_at <= before)
        });
        let rows = matching.map(|agent| (key_of_agent(agent), agent)).collect();
        page_of!(q, "agents.list", "agents", Some(&q.project_id), Order::Desc, bookmark).answer(rows, |agent| agent_answer(agent, q.answer))
    }

    fn list_projects(&self, q: &ListProjects, bookmark: Option<&Bookmark>) -> Outcome {
        let rows = self.projects().into_iter().map(|project| ((Time::MIN, 0, project.clone()), project)).collect();
        page_of!(q, "projects.list", "projects", None, Order::Asc, bookmark).answer(rows, |project| {
            let runs = self.runs.iter().filter(|run| run.project_id == *project).count();
            object([("projectId", Some(quote(project))), ("runs", Some(runs.to_string()))])
        })
    }

    /// The projects that have runs, each once.
    fn projects(&self) -> Vec<Id> {
        let mut projects: Vec<Id> = Vec::new();
        for run in &self.runs {
            if !projects.contains(&run.project_id) {
                projects.push(run.project_id.clone());
            }
        }
        projects
    }

    fn latest_runs(&self, q: &LatestRuns) -> String {
        let mut asked: Vec<&Id> = Vec::new();
        let mut latest = Vec::new();
        for workflow in &q.workflow_ids {
            if asked.contains(&workflow) {
                continue;
            }
            asked.push(workflow);
            let runs = self.runs.iter().filter(|run| run.project_id == q.project_id && run.workflow_id == *workflow);
            if let Some(run) = runs.max_by_key(|run| key_of_run(run)) {
                latest.push(run_answer(run, q.answer));
            }
        }
        object([("runs", Some(list(latest)))])
    }

    fn run_stats(&self, q: &GetRunStats) -> String {
        let counted: Vec<&Run> = self
            .runs
            .iter()
            .filter(|run| run.project_id == q.project_id && q.workflow_ids.as_ref().is_none_or(|ids| ids.contains(&run.workflow_id)))
            .collect();
        let mut workflows: Vec<&str> = counted.iter().map(|run| &*run.workflow_id).collect();
        workflows.sort_by_key(|workflow| workflow.as_bytes());
        workflows.dedup();
        let by_workflow = workflows.into_iter().map(|workflow| {
            let runs: Vec<&Run> = counted.iter().copied().filter(|run| run.workflow_id == workflow).collect();
            let (total, by_status) = counts(&runs);
            object([("workflowId", Some(quote(workflow))), ("total", Some(total)), ("byStatus", Some(by_status))])
        });
        let by_workflow = list(by_workflow);
        let (total, by_status) = counts(&counted);
        object([("total", Some(total)), ("byStatus", Some(by_status)), ("byWorkflow", Some(by_workflow))])
    }

    /// The report on a store in which all is well; whether the engine checked itself is the store's to say.
    fn verified(&self) -> String {
        let checked = object([
            ("runs", Some(self.runs.len().to_string())),
            ("nodes", Some(self.nodes.len().to_string())),
            ("agents", Some(self.agents.len().to_string())),
        ]);
        object([
            ("ok", Some("true".to_owned())),
            ("checked", Some(checked)),
            ("problems", Some("[]".to_owned())),
            ("engineCheck", Some(quote("done"))),
        ])
    }
}

fn key_of_run(run: &Run) -> (Time, u32, Id) {
    (run.started_at, 0, run.id.clone())
}

fn key_of_node(node: &NodeRun) -> (Time, u32, Id) {
    (node.started_at, node.node_index, node.id.clone())
}

fn key_of_agent(agent: &AgentRun) -> (Time, u32, Id) {
    (agent.created_at, 0, agent.node_run_id.clone())
}

fn counts(runs: &[&Run]) -> (String, String) {
    let count = |status: Status| Some(runs.iter().filter(|run| run.status == status).count().to_string());
    let by_status = object([
        ("queued", count(Status::Queued)),
        ("running", count(Status::Running)),
        ("waiting", count(Status::Waiting)),
        ("succeeded", count(Status::Succeeded)),
        ("failed", count(Status::Failed)),
        ("cancelled", count(Status::Cancelled)),
    ]);
    (runs.len().to_string(), by_status)
}

type Leased<'a, R> = (&'a R, &'a Status, &'a Option<Execution>, &'a Id, &'a Id);

/// The records whose lease ended, in their order and up to the limit, and whether there are more.
fn expired<'a, R>(
    records: impl Iterator<Item = Leased<'a, R>>,
    project_id: Option<&Id>,
    expired_by: Time,
    limit: Option<u32>,
) -> (Vec<&'a R>, bool) {
    let mut found: Vec<(Time, &Id, &Id, &R)> = records
        .filter(|(_, status, ..)| **status == Status::Running)
        .filter(|(.., project, _)| project_id.is_none_or(|wanted| wanted == *project))
        .filter_map(|(record, _, execution, project, id)| execution.as_ref().map(|e| (e.lease_expires_at, project, id, record)))
        .filter(|(lease_end, ..)| *lease_end <= expired_by)
        .collect();
    found.sort_by_key(|(lease_end, project, id, _)| (*lease_end, *project, *id));
    let limit = limit.unwrap_or(1000) as usize;
    let has_more = found.len() > limit;
    (found.into_iter().take(limit).map(|(.., record)| record).collect(), has_more)
}

fn expired_answer(name: &str, rows: impl Iterator<Item = String>, has_more: bool) -> Reply {
    object([(name, Some(list(rows))), ("hasMore", Some(has_more.to_string()))]).into()
}

impl PageOf<'_> {
    fn answer<R>(&self, mut rows: Vec<((Time, u32, Id), R)>, show: impl Fn(&R) -> String) -> Outcome {
        rows.sort_by(|(a, _), (b, _)| a.cmp(b));
        if self.order == Order::Desc {
            rows.reverse();
        }
        let total = rows.len();
        let first = match (self.cursor, self.bookmark) {
            (None, _) => usize::try_from(self.offset.unwrap_or(0)).unwrap_or(usize::MAX).min(total),
            (Some(_), Some(bookmark))
                if bookmark.op == self.op && bookmark.project_id.as_ref() == self.project_id && bookmark.order == self.order =>
            {
                rows.iter().filter(|(key, _)| if self.order == Order::Asc { *key <= bookmark.key } else { *key >= bookmark.key }).count()
            }
            (Some(_), _) => return Err(Refusal::invalid("cursor")),
        };
        let page = &rows[first..total.min(first + self.limit.unwrap_or(50) as usize)];
        let has_more = first + page.len() < total;
        let text = object([
            (self.rows_name, Some(list(page.iter().map(|(_, row)| show(row))))),
            ("total", self.with_total.unwrap_or(true).then(|| total.to_string())),
            ("hasMore", Some(has_more.to_string())),
        ]);
        let next = page.last().filter(|_| has_more).map(|(key, _)| Bookmark {
            op: self.op,
            project_id: self.project_id.cloned(),
            order: self.order,
            key: key.clone(),
        });
        Ok(Reply { text, next })
    }
}
