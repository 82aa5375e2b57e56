//! Every query against the plain meaning of its filter over plain lists.

use std::collections::BTreeSet;

use runledger_core::{
    AgentFilter, AnswerForm, Backend, EndedFilter, ExpiredFilter, Id, Listed, NodeFilter, Order, PageRequest, PageStart, Position,
    ProjectSummary, Record, Rows, Run, RunFilter, Status, StatusSet, Time, Window,
};

use super::store::{IDS, PROJECTS, WORKFLOWS, of_project, random_store};
use super::{Content, Numbers, at, id, node, open, run, write_anywhere, write_in};
use crate::MemoryBackend;
use crate::schema::Ranked;

const STORES: u64 = 12;

/// Asks the same of the store and of the plain lists, over many stores.
fn over_stores(ask: impl Fn(&MemoryBackend, &Content, &mut Numbers)) {
    for seed in 1..=STORES {
        let mut numbers = Numbers(seed * 7919);
        let (backend, model) = random_store(&mut numbers, 40 + 20 * seed as usize);
        for _ in 0..60 {
            ask(&backend, &model, &mut numbers);
        }
    }
}

fn sorted_ids(numbers: &mut Numbers, from: &[&str]) -> Vec<Id> {
    let count = 1 + numbers.below(from.len());
    let ids: BTreeSet<Id> = (0..count).map(|_| id(numbers.pick(from))).collect();
    ids.into_iter().collect()
}

fn statuses(numbers: &mut Numbers, from: &[Status]) -> StatusSet {
    if numbers.one_in(3) {
        return StatusSet::ALL;
    }
    (0..=numbers.below(3)).map(|_| numbers.pick(from)).collect()
}

fn window(numbers: &mut Numbers) -> Window {
    let mut bound = || match numbers.below(8) {
        0..4 => None,
        4 => Some(Time::MIN),
        5 => Some(Time::MAX),
        _ => Some(at(numbers.below(11) as i64 - 4)),
    };
    Window { after: bound(), before: bound() }
}

/// A page that begins at an offset or at a place, which is that of a record or of none.
fn page_of<T: Listed>(numbers: &mut Numbers, all: &[T]) -> PageRequest {
    let node_index = all.first().map_or(0, |row| row.position().node_index);
    let start = match numbers.below(3) {
        0 => PageStart::After(Position { time: at(numbers.below(9) as i64 - 3), node_index, id: id(numbers.pick(&IDS)) }),
        1 if !all.is_empty() => PageStart::After(all[numbers.below(all.len())].position()),
        _ => PageStart::Offset(numbers.pick(&[0, 0, 1, 3, 40, u64::MAX >> 1])),
    };
    PageRequest {
        order: numbers.pick(&[Order::Asc, Order::Desc]),
        limit: numbers.pick(&[0, 1, 2, 5, 50, 10_000]),
        start,
        with_total: !numbers.one_in(3),
        form: numbers.pick(&[AnswerForm::Record, AnswerForm::State]),
    }
}

/// What a page means.
fn plain_page<T: Listed + Clone>(mut matching: Vec<T>, page: &PageRequest, shown: impl Fn(T) -> T) -> Rows<T> {
    let total = page.with_total.then_some(matching.len() as u64);
    matching.sort_by(|a, b| page.order.apply(a.position().cmp(&b.position())));
    let rest: Vec<T> = match &page.start {
        PageStart::Offset(offset) => matching.into_iter().skip(*offset as usize).collect(),
        PageStart::After(start) => matching.into_iter().filter(|row| page.order.apply(row.position().cmp(start)).is_gt()).collect(),
    };
    let has_more = rest.len() > page.limit;
    Rows { rows: rest.into_iter().take(page.limit).map(shown).collect(), total, has_more }
}

fn in_form<R: Record>(form: AnswerForm) -> impl Fn(R) -> R {
    move |record| if form == AnswerForm::State { record.into_state() } else { record }
}

#[track_caller]
fn assert_rows<T: PartialEq + std::fmt::Debug>(found: &Rows<T>, wanted: &Rows<T>, asked: &dyn std::fmt::Debug) {
    assert_eq!(found.rows, wanted.rows, "{asked:?}");
    assert_eq!((found.total, found.has_more), (wanted.total, wanted.has_more), "{asked:?}");
}

#[test]
fn lists_of_runs_hold_what_their_filter_means() {
    over_stores(|backend, model, numbers| {
        let project = numbers.pick(&PROJECTS);
        let all = of_project(model.runs.values().cloned(), project);
        let page = page_of(numbers, &all);
        let filter = RunFilter {
            project_id: id(project),
            workflow_ids: numbers.one_in(2).then(|| sorted_ids(numbers, &["bill", "bill2", "none", "ship", "void", "\u{1f4e6}"])),
            statuses: statuses(numbers, Status::ALL),
            started: window(numbers),
        };
        let matching = all.into_iter().filter(|run| filter.matches(run)).collect();
        let found = backend.list_runs(&filter, &page).unwrap();
        assert_rows(&found, &plain_page(matching, &page, in_form(page.form)), &(filter, page));
    });
}

#[test]
fn lists_of_agent_runs_hold_what_their_filter_means() {
    over_stores(|backend, model, numbers| {
        let project = numbers.pick(&PROJECTS);
        let all = of_project(model.agents.values().cloned(), project);
        let page = page_of(numbers, &all);
        let filter = AgentFilter {
            project_id: id(project),
            agent_id: numbers.one_in(2).then(|| id(numbers.pick(&["ann", "bob", "nobody"]))),
            statuses: statuses(numbers, Status::ALL),
            created: window(numbers),
        };
        let matching = all.into_iter().filter(|agent| filter.matches(agent)).collect();
        let found = backend.list_agents(&filter, &page).unwrap();
        assert_rows(&found, &plain_page(matching, &page, in_form(page.form)), &(filter, page));
    });
}

#[test]
fn lists_of_node_runs_hold_what_their_filter_means() {
    over_stores(|backend, model, numbers| {
        let project = numbers.pick(&PROJECTS);
        let all = of_project(model.nodes.values().cloned(), project);
        let page = page_of(numbers, &all);
        let mut some = |share: usize, from: &[&str]| numbers.one_in(share).then(|| id(numbers.pick(from)));
        let filter = NodeFilter {
            project_id: id(project),
            workflow_run_id: some(2, &IDS),
            workflow_id: some(4, &WORKFLOWS),
            node_type: some(6, &["agent", "other"]),
            node_id: some(4, &["draw", "paint"]),
            node_key: some(6, &["key", "lock"]),
            statuses: statuses(numbers, Status::ALL),
            started: window(numbers),
        };
        let matching = all.into_iter().filter(|node| filter.matches(node)).collect();
        let found = backend.list_nodes(&filter, &page).unwrap();
        assert_rows(&found, &plain_page(matching, &page, in_form(page.form)), &(filter, page));
    });
}

#[test]
fn lists_of_projects_hold_those_with_runs() {
    over_stores(|backend, model, numbers| {
        let count = |project: &str| of_project(model.runs.values().cloned(), project).len() as u64;
        let all: Vec<ProjectSummary> =
            PROJECTS.iter().map(|project| ProjectSummary { project_id: id(project), runs: count(project) }).collect();
        let mut page = page_of(numbers, &all);
        if let PageStart::After(start) = &mut page.start {
            start.time = Time::MIN;
        }
        let matching = all.into_iter().filter(|project| project.runs > 0).collect();
        let found = backend.list_projects(&page).unwrap();
        assert_rows(&found, &plain_page(matching, &page, |project| project), &page);
    });
}

#[test]
fn the_latest_runs_come_in_the_order_asked() {
    over_stores(|backend, model, numbers| {
        let project = numbers.pick(&PROJECTS);
        let mut asked = sorted_ids(numbers, &["bill", "bill2", "none", "ship", "\u{1f4e6}"]);
        asked.reverse();
        let all = of_project(model.runs.values().cloned(), project);
        let latest = |workflow: &Id| all.iter().filter(|run| run.workflow_id == *workflow).max_by_key(|run| run.position()).cloned();
        let wanted: Vec<Run> = asked.iter().filter_map(latest).collect();
        assert_eq!(backend.latest_runs(&id(project), &asked, AnswerForm::Record).unwrap(), wanted);
    });
}

#[test]
fn stats_count_every_run_once() {
    over_stores(|backend, model, numbers| {
        let project = numbers.pick(&PROJECTS);
        let asked = numbers.one_in(2).then(|| sorted_ids(numbers, &["bill", "bill2", "none", "ship", "\u{1f4e6}"]));
        let all = of_project(model.runs.values().cloned(), project);
        let counted = |run: &&Run| asked.as_ref().is_none_or(|asked| asked.contains(&run.workflow_id));
        let stats = backend.run_stats(&id(project), asked.as_deref()).unwrap();
        assert_eq!(stats.by_status.total(), all.iter().filter(counted).count() as u64);
        for status in Status::ALL {
            let wanted = all.iter().filter(counted).filter(|run| run.status == *status).count() as u64;
            assert_eq!(stats.by_status.of(*status), wanted);
        }
        let workflows: BTreeSet<Id> = all.iter().filter(counted).map(|run| run.workflow_id.clone()).collect();
        assert!(stats.by_workflow.iter().map(|(workflow, _)| workflow).eq(&workflows));
        for (workflow, counts) in &stats.by_workflow {
            let of_workflow = |status: Status| all.iter().filter(|run| run.workflow_id == *workflow && run.status == status).count();
            assert!(Status::ALL.iter().all(|status| counts.of(*status) == of_workflow(*status) as u64));
        }
    });
}

fn plain_expired<R: Ranked>(all: impl Iterator<Item = R>, filter: &ExpiredFilter) -> (Vec<R>, bool) {
    let is_wanted = |record: &R| {
        let is_of_project = filter.project_id.as_ref().is_none_or(|project| project == record.project_id());
        is_of_project && record.lease().is_some_and(|lease| lease <= filter.expired_by)
    };
    let mut expired: Vec<R> = all.filter(is_wanted).collect();
    expired.sort_by_key(|record| (record.lease(), record.project_id().clone(), record.key_id().clone()));
    let has_more = expired.len() > filter.limit;
    expired.truncate(filter.limit);
    (expired, has_more)
}

#[test]
fn expired_leases_come_in_order_over_all_projects() {
    over_stores(|backend, model, numbers| {
        let filter = ExpiredFilter {
            project_id: numbers.one_in(2).then(|| id(numbers.pick(&PROJECTS))),
            expired_by: numbers.pick(&[Time::MIN, Time::MAX, at(27), at(30), at(33)]),
            limit: numbers.pick(&[1, 2, 1000]),
        };
        let runs = backend.expired_runs(&filter, AnswerForm::Record).unwrap();
        assert_eq!(runs, plain_expired(model.runs.values().cloned(), &filter));
        let agents = backend.expired_agents(&filter, AnswerForm::Record).unwrap();
        assert_eq!(agents, plain_expired(model.agents.values().cloned(), &filter));
    });
}

#[test]
fn a_claim_gets_the_first_that_is_queued() {
    over_stores(|backend, model, numbers| {
        let project = numbers.pick(&PROJECTS);
        let workflows = numbers.one_in(2).then(|| sorted_ids(numbers, &["bill", "none", "ship", "\u{1f4e6}"]));
        let agents = numbers.one_in(2).then(|| sorted_ids(numbers, &["ann", "nobody"]));
        let is_asked = |asked: &Option<Vec<Id>>, id: &Id| asked.as_ref().is_none_or(|asked| asked.contains(id));
        let queued_runs = of_project(model.runs.values().cloned(), project).into_iter();
        let queued_runs = queued_runs.filter(|run| run.status == Status::Queued && is_asked(&workflows, &run.workflow_id));
        let queued_agents = of_project(model.agents.values().cloned(), project).into_iter();
        let queued_agents = queued_agents.filter(|agent| agent.status == Status::Queued && is_asked(&agents, &agent.agent_id));
        let wanted_run = queued_runs.min_by_key(Listed::position);
        let wanted_agent = queued_agents.min_by_key(Listed::position);
        let written = write_in(backend, &[project], |tx| {
            let run = tx.next_run(&id(project), workflows.as_deref(), AnswerForm::Record)?;
            assert_eq!(run.map(|stored| stored.record), wanted_run);
            let agent = tx.next_agent(&id(project), agents.as_deref(), AnswerForm::Record)?;
            assert_eq!(agent.map(|stored| stored.record), wanted_agent);
            Ok(())
        });
        written.unwrap();
    });
}

#[test]
fn ended_runs_come_in_the_order_of_their_ends() {
    over_stores(|backend, model, numbers| {
        let project = numbers.pick(&PROJECTS);
        let filter = EndedFilter {
            project_id: id(project),
            finished_before: numbers.pick(&[Time::MIN, Time::MAX, at(1), at(4)]),
            statuses: statuses(numbers, &[Status::Succeeded, Status::Failed, Status::Cancelled]),
            workflow_ids: numbers.one_in(2).then(|| sorted_ids(numbers, &WORKFLOWS)),
        };
        let limit = numbers.pick(&[1, 3, 1000]);
        let all = of_project(model.runs.values().cloned(), project);
        let mut wanted: Vec<Run> = all.into_iter().filter(|run| filter.matches(run)).map(Record::into_state).collect();
        wanted.sort_by_key(|run| (run.finished_at, run.id.clone()));
        wanted.truncate(limit);
        let written = write_in(backend, &[project], |tx| {
            let ended: Vec<Run> = tx.ended_runs(&filter, limit)?.into_iter().map(|stored| stored.record).collect();
            assert_eq!(ended, wanted);
            Ok(())
        });
        written.unwrap();
    });
}

#[test]
fn an_export_is_sorted_and_holds_no_lock() {
    let (backend, model) = random_store(&mut Numbers(5), 300);
    let mut keys = Vec::new();
    let export = backend.export(&mut |record| {
        let (kind, project, name) = match &record {
            runledger_core::ExportRecord::Run(run) => (0, run.project_id.clone(), run.id.clone()),
            runledger_core::ExportRecord::Node(node) => (1, node.project_id.clone(), node.id.clone()),
            runledger_core::ExportRecord::Agent(agent) => (2, agent.project_id.clone(), agent.node_run_id.clone()),
        };
        // What is removed meanwhile is still of the state that is exported.
        write_anywhere(&backend, |tx| tx.clear())?;
        keys.push((kind, project, name));
        Ok(())
    });
    export.unwrap();
    assert!(keys.is_sorted());
    assert_eq!(keys.len(), model.runs.len() + model.nodes.len() + model.agents.len());
    let mut seen = 0;
    let stopped = random_store(&mut Numbers(5), 300).0.export(&mut |_| {
        seen += 1;
        Err(runledger_core::Error::new(runledger_core::Code::Interrupted, "enough"))
    });
    assert_eq!((stopped.unwrap_err().code(), seen), (runledger_core::Code::Interrupted, 1));
}

#[test]
fn a_list_of_a_hundred_thousand_workflows_is_answered() {
    let backend = open();
    let workflows: Vec<Id> = (0..100_000).map(|number| Id::from(format!("w{number:06}"))).collect();
    let written = write_in(&backend, &["shop"], |tx| {
        for (number, workflow) in workflows.iter().enumerate().step_by(2) {
            let run = run("shop", &format!("r{number}"), workflow, Status::Running, number as i64);
            tx.put_run(&runledger_core::Put::insert(run))?;
        }
        Ok(())
    });
    written.unwrap();
    let page = PageRequest { order: Order::Desc, limit: 2, start: PageStart::Offset(0), with_total: true, form: AnswerForm::State };
    let filter = |workflow_ids| RunFilter { project_id: id("shop"), workflow_ids, statuses: StatusSet::ALL, started: Window::default() };
    for asked in [None, Some(workflows.clone())] {
        let rows = backend.list_runs(&filter(asked), &page).unwrap();
        assert_eq!((rows.total, rows.has_more), (Some(50_000), true));
        assert_eq!(rows.rows[0].id, "r99998");
    }
    assert_eq!(backend.latest_runs(&id("shop"), &workflows, AnswerForm::State).unwrap().len(), 50_000);
    assert_eq!(backend.run_stats(&id("shop"), Some(&workflows)).unwrap().by_workflow.len(), 50_000);
}

#[test]
fn the_node_runs_of_a_run_are_loaded_as_states() {
    let backend = open();
    let run = run("shop", "r", "w", Status::Running, 1);
    let written = write_in(&backend, &["shop"], |tx| {
        tx.put_run(&runledger_core::Put::insert(run.clone()))?;
        for name in ["n2", "n1"] {
            tx.put_node(&runledger_core::Put::insert(node(&run, name, Status::Running, 1, 0)))?;
        }
        let nodes = tx.nodes_of(&runledger_core::Stored::new(run.clone()))?;
        assert_eq!(nodes.iter().map(|stored| &*stored.record.id).collect::<Vec<_>>(), ["n1", "n2"]);
        assert!(nodes.iter().all(|stored| stored.record.input.is_none() && stored.held.contains(0)));
        Ok(())
    });
    written.unwrap();
}
