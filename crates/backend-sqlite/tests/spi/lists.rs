//! Every query against the plain meaning of it, over random records.

use std::collections::BTreeMap;

use runledger_backend_sqlite::SqliteBackend;
use runledger_core::{
    AgentFilter, AgentRun, AnswerForm, Backend, EndedFilter, ExpiredFilter, ExportRecord, Id, Listed, NodeFilter, NodeRun, Order,
    PageRequest, PageStart, Put, Record, Rows, Run, RunFilter, Status, StatusCounts, StatusSet, Window,
};

use crate::kit::{Chance, new_agent, new_node, new_run, open, place, set_agent, set_run, time, update, write};

const PROJECTS: &[&str] = &["b", "a", "ab", "é"];
const AGENTS: &[&str] = &["x", "y", "xy"];
const BUCKET_US: u64 = 1 << 26;

#[derive(Default)]
struct Model {
    runs: BTreeMap<(Id, Id), Run>,
    nodes: BTreeMap<(Id, Id), NodeRun>,
    agents: BTreeMap<(Id, Id), AgentRun>,
}

/// Writes random records and changes of them, and keeps what should be there.
fn fill(backend: &SqliteBackend, chance: &mut Chance, workflows: usize, steps: usize) -> Model {
    let mut model = Model::default();
    for _ in 0..steps / 50 {
        write(backend, |tx| {
            for _ in 0..50 {
                let project = *chance.pick(PROJECTS);
                let key = (Id::from(project), Id::from(format!("r{}", chance.below(steps as u64 / 4))));
                let at = chance.below(40) as i64;
                let lease = (chance.below(3) * BUCKET_US + chance.below(20)) as i64 - BUCKET_US as i64;
                let status = *chance.pick(Status::ALL);
                match model.runs.get(&key).cloned() {
                    None => {
                        let workflow = format!("w{}", chance.below(workflows as u64));
                        let mut run = new_run(project, &key.1, &workflow, at);
                        if !chance.one_in(3) {
                            set_run(&mut run, status, Some(lease), at);
                        }
                        tx.put_run(&Put::insert(run.clone()))?;
                        model.runs.insert(key, run);
                    }
                    Some(run) if run.status.is_terminal() && chance.one_in(4) => {
                        let stored = tx.run(&key.0, &key.1, AnswerForm::State)?.unwrap();
                        let deleted = tx.delete_run(&stored)?;
                        let nodes = model.nodes.len();
                        model.nodes.retain(|_, node| node.project_id != key.0 || node.workflow_run_id != key.1);
                        model.agents.retain(|key, _| model.nodes.contains_key(key));
                        assert_eq!(deleted.nodes, (nodes - model.nodes.len()) as u64);
                        model.runs.remove(&key);
                    }
                    Some(mut run) => {
                        let before = tx.run(&key.0, &key.1, AnswerForm::Record)?.unwrap();
                        assert_eq!(before.record, run);
                        run.started_at = time(at);
                        set_run(&mut run, if status == Status::Queued { Status::Running } else { status }, Some(lease), at);
                        tx.put_run(&update(before, run.clone()))?;
                        model.runs.insert(key.clone(), run.clone());
                        let id = Id::from(format!("n{}", chance.below(steps as u64)));
                        let node_key = (key.0.clone(), id.clone());
                        if model.nodes.contains_key(&node_key) {
                            continue;
                        }
                        let node_type = *chance.pick(&["agent", "task"]);
                        let node = new_node(&run, &id, chance.below(3) as u32, node_type, at);
                        tx.put_node(&Put::insert(node.clone()))?;
                        if node_type == "agent" {
                            let mut agent = new_agent(&node, chance.pick::<&str>(AGENTS), at);
                            tx.put_agent(&Put::insert(agent.clone()))?;
                            if chance.one_in(2) && status != Status::Queued && status != Status::Waiting {
                                let before = tx.agent(&key.0, &id, AnswerForm::Record)?.unwrap();
                                set_agent(&mut agent, status, lease, at);
                                tx.put_agent(&update(before, agent.clone()))?;
                            }
                            model.agents.insert(node_key.clone(), agent);
                        }
                        model.nodes.insert(node_key, node);
                    }
                }
            }
            Ok(())
        })
        .unwrap();
    }
    model
}

fn random_statuses(chance: &mut Chance) -> StatusSet {
    if chance.one_in(3) {
        return StatusSet::ALL;
    }
    let picked: StatusSet = Status::ALL.iter().copied().filter(|_| chance.one_in(2)).collect();
    if picked.is_empty() { StatusSet::only(Status::Running) } else { picked }
}

fn random_window(chance: &mut Chance) -> Window {
    let mut end = || (!chance.one_in(3)).then(|| time(chance.below(40) as i64));
    if end().is_some() { Window { after: end(), before: end() } } else { Window::default() }
}

fn random_page<T: Listed>(chance: &mut Chance, all: &[T]) -> PageRequest {
    let start = if chance.one_in(2) && !all.is_empty() {
        PageStart::After(chance.pick(all).position())
    } else {
        PageStart::Offset(if chance.one_in(9) { i64::MAX as u64 } else { chance.below(all.len() as u64 + 5) })
    };
    PageRequest {
        order: *chance.pick(Order::ALL),
        limit: chance.below(12) as usize,
        start,
        with_total: chance.one_in(2),
        form: *chance.pick(AnswerForm::ALL),
    }
}

/// The page of some matching rows, by the plain meaning.
fn plain<T: Listed + Clone>(mut matching: Vec<T>, page: &PageRequest) -> Rows<T> {
    let total = page.with_total.then_some(matching.len() as u64);
    matching.sort_by(|a, b| page.order.apply(a.position().cmp(&b.position())));
    match &page.start {
        PageStart::Offset(offset) => drop(matching.drain(..(*offset as usize).min(matching.len()))),
        PageStart::After(place) => matching.retain(|row| page.order.apply(row.position().cmp(place)).is_gt()),
    }
    let has_more = matching.len() > page.limit;
    matching.truncate(page.limit);
    Rows { rows: matching, total, has_more }
}

fn same<T: PartialEq + std::fmt::Debug>(found: &Rows<T>, wanted: &Rows<T>, asked: &dyn std::fmt::Debug) {
    assert_eq!((&found.rows, found.total, found.has_more), (&wanted.rows, wanted.total, wanted.has_more), "{asked:?}");
}

fn in_form<R: Record>(record: &R, form: AnswerForm) -> R {
    if form == AnswerForm::State { record.clone().into_state() } else { record.clone() }
}

fn random_ids(chance: &mut Chance, workflows: usize) -> Option<Vec<Id>> {
    if chance.one_in(3) {
        return None;
    }
    let share = chance.below(4) + 1;
    let mut ids: Vec<Id> = (0..workflows + 3).filter(|_| chance.one_in(share)).map(|at| Id::from(format!("w{at}"))).collect();
    if ids.is_empty() {
        ids.push("w1".into());
    }
    ids.sort();
    Some(ids)
}

fn compare(backend: &SqliteBackend, model: &Model, chance: &mut Chance, workflows: usize) {
    let project_id = Id::from(*chance.pick(PROJECTS));
    let filter = RunFilter {
        project_id: project_id.clone(),
        workflow_ids: random_ids(chance, workflows),
        statuses: random_statuses(chance),
        started: random_window(chance),
    };
    let all: Vec<Run> = model.runs.values().cloned().collect();
    let page = random_page(chance, &all);
    let wanted = all.iter().filter(|run| filter.matches(run)).map(|run| in_form(run, page.form)).collect();
    same(&backend.list_runs(&filter, &page).unwrap(), &plain(wanted, &page), &(&filter, &page));

    let nodes: Vec<NodeRun> = model.nodes.values().cloned().collect();
    let page = random_page(chance, &nodes);
    let of = |chance: &mut Chance, share, text: &str| chance.one_in(share).then(|| Id::from(text));
    let filter = NodeFilter {
        project_id: project_id.clone(),
        workflow_run_id: chance.one_in(2).then(|| chance.pick(&nodes).workflow_run_id.clone()),
        workflow_id: of(chance, 3, "w1"),
        node_type: of(chance, 3, "agent"),
        node_id: of(chance, 4, "step"),
        node_key: of(chance, 8, "none"),
        statuses: random_statuses(chance),
        started: random_window(chance),
    };
    let wanted = nodes.iter().filter(|node| filter.matches(node)).map(|node| in_form(node, page.form)).collect();
    same(&backend.list_nodes(&filter, &page).unwrap(), &plain(wanted, &page), &(&filter, &page));

    let agents: Vec<AgentRun> = model.agents.values().cloned().collect();
    let page = random_page(chance, &agents);
    let filter = AgentFilter {
        project_id: project_id.clone(),
        agent_id: chance.one_in(2).then(|| Id::from(*chance.pick(AGENTS))),
        statuses: random_statuses(chance),
        created: random_window(chance),
    };
    let wanted = agents.iter().filter(|agent| filter.matches(agent)).map(|agent| in_form(agent, page.form)).collect();
    same(&backend.list_agents(&filter, &page).unwrap(), &plain(wanted, &page), &(&filter, &page));

    compare_expired(backend, model, chance);
    compare_by_workflow(backend, model, chance, workflows, &project_id);
}

fn compare_expired(backend: &SqliteBackend, model: &Model, chance: &mut Chance) {
    let filter = ExpiredFilter {
        project_id: chance.one_in(2).then(|| Id::from(*chance.pick(PROJECTS))),
        expired_by: time((chance.below(3) * BUCKET_US + chance.below(20)) as i64 - BUCKET_US as i64),
        limit: 1 + chance.below(30) as usize,
    };
    let of_project = |project: &Id| filter.project_id.as_ref().is_none_or(|wanted| wanted == project);
    let mut wanted: Vec<_> = model.runs.values().filter(|run| run.status == Status::Running && of_project(&run.project_id)).collect();
    let end = |execution: &Option<runledger_core::Execution>| execution.as_ref().map(|execution| execution.lease_expires_at);
    wanted.retain(|run| end(&run.execution).is_some_and(|end| end <= filter.expired_by));
    wanted.sort_by_key(|run| (end(&run.execution), run.project_id.clone(), run.id.clone()));
    let (found, has_more) = backend.expired_runs(&filter, AnswerForm::Record).unwrap();
    assert_eq!(has_more, wanted.len() > filter.limit);
    assert!(found.iter().eq(wanted.into_iter().take(filter.limit)), "{filter:?}");

    let mut wanted: Vec<_> = model.agents.values().filter(|run| run.status == Status::Running && of_project(&run.project_id)).collect();
    wanted.retain(|run| end(&run.execution).is_some_and(|end| end <= filter.expired_by));
    wanted.sort_by_key(|run| (end(&run.execution), run.project_id.clone(), run.node_run_id.clone()));
    let (found, has_more) = backend.expired_agents(&filter, AnswerForm::Record).unwrap();
    assert_eq!(has_more, wanted.len() > filter.limit);
    assert!(found.iter().eq(wanted.into_iter().take(filter.limit)), "{filter:?}");
}

fn compare_by_workflow(backend: &SqliteBackend, model: &Model, chance: &mut Chance, workflows: usize, project: &Id) {
    let of_project = || model.runs.values().filter(|run| run.project_id == *project);
    let chosen = random_ids(chance, workflows);
    let wanted_workflow = |id: &Id| chosen.as_ref().is_none_or(|ids| ids.contains(id));

    let mut stats: BTreeMap<Id, StatusCounts> = BTreeMap::new();
    for run in of_project().filter(|run| wanted_workflow(&run.workflow_id)) {
        stats.entry(run.workflow_id.clone()).or_default().0[run.status as usize] += 1;
    }
    let found = backend.run_stats(project, chosen.as_deref()).unwrap();
    assert_eq!(found.by_workflow, stats.into_iter().collect::<Vec<_>>());

    let mut asked = chosen.clone().unwrap_or_default();
    asked.reverse();
    let latest = asked.iter().filter_map(|id| of_project().filter(|run| run.workflow_id == *id).max_by_key(|run| run.position()));
    let found = backend.latest_runs(project, &asked, AnswerForm::Record).unwrap();
    assert!(found.iter().eq(latest), "{asked:?}");

    let filter = EndedFilter {
        project_id: project.clone(),
        finished_before: time(chance.below(40) as i64),
        statuses: [Status::Succeeded, Status::Failed].into_iter().collect(),
        workflow_ids: chosen.clone(),
    };
    let mut ended: Vec<_> = model.runs.values().filter(|run| filter.matches(run)).collect();
    ended.sort_by_key(|run| (run.finished_at, run.id.clone()));
    let next_run =
        of_project().filter(|run| run.status == Status::Queued && wanted_workflow(&run.workflow_id)).min_by_key(|run| run.position());
    let next_agent = model.agents.values().filter(|agent| agent.project_id == *project && agent.status == Status::Queued);
    let next_agent = next_agent.filter(|agent| agent.agent_id == "x" || agent.agent_id == "y").min_by_key(|agent| agent.position());
    write(backend, |tx| {
        let found = tx.ended_runs(&filter, 7)?;
        assert!(found.iter().map(|stored| stored.record.clone()).eq(ended.iter().take(7).map(|run| (*run).clone().into_state())));
        let found = tx.next_run(project, chosen.as_deref(), AnswerForm::Record)?;
        assert_eq!(found.map(|stored| stored.record).as_ref(), next_run);
        let found = tx.next_agent(project, Some(&crate::kit::ids(&["nobody", "x", "y"])), AnswerForm::Record)?;
        assert_eq!(found.map(|stored| stored.record).as_ref(), next_agent);
        Ok(())
    })
    .unwrap();
}

#[test]
fn every_query_means_what_it_says() {
    // Few workflows are merged by the engine; many, and lists of many ids, go other ways.
    for (seed, workflows) in [(1, 4), (2, 60), (3, 600)] {
        let (_directory, path) = place();
        let backend = open(&path);
        let mut chance = Chance(0x9E37_79B9_7F4A_7C15 ^ seed);
        let model = fill(&backend, &mut chance, workflows, 2000);
        for _ in 0..150 {
            compare(&backend, &model, &mut chance, workflows);
        }
        let report = backend.verify().unwrap();
        assert!(report.is_ok(), "{report:?}");
        let checked = report.checked;
        assert_eq!(
            (checked.runs, checked.nodes, checked.agents),
            (model.runs.len() as u64, model.nodes.len() as u64, model.agents.len() as u64)
        );
        let mut exported = Vec::new();
        backend
            .export(&mut |record| {
                exported.push(record);
                Ok(())
            })
            .unwrap();
        let runs = model.runs.values().cloned().map(ExportRecord::Run);
        let nodes = model.nodes.values().cloned().map(ExportRecord::Node);
        let agents = model.agents.values().cloned().map(ExportRecord::Agent);
        assert!(exported.into_iter().eq(runs.chain(nodes).chain(agents)));
    }
}

#[test]
fn projects_are_listed_in_byte_order() {
    let (_directory, path) = place();
    let backend = open(&path);
    for (at, project) in ["é", "b", "B", "a b", "10", "9"].iter().enumerate() {
        for run in 0..=at {
            write(&backend, |tx| tx.put_run(&Put::insert(new_run(project, &format!("r{run}"), "w", 1)))).unwrap();
        }
    }
    let page = |order, limit, start| PageRequest { order, limit, start, with_total: true, form: AnswerForm::Record };
    let names = |page: &PageRequest| {
        let rows = backend.list_projects(page).unwrap();
        let names: Vec<String> = rows.rows.iter().map(|row| format!("{}={}", row.project_id, row.runs)).collect();
        (names.join(","), rows.total, rows.has_more)
    };
    let all = page(Order::Asc, 10, PageStart::Offset(0));
    assert_eq!(names(&all), ("10=5,9=6,B=3,a b=4,b=2,é=1".into(), Some(6), false));
    assert_eq!(names(&page(Order::Desc, 2, PageStart::Offset(1))), ("b=2,a b=4".into(), Some(6), true));
    let place = backend.list_projects(&all).unwrap().rows[2].position();
    assert_eq!(names(&page(Order::Asc, 2, PageStart::After(place.clone()))), ("a b=4,b=2".into(), Some(6), true));
    assert_eq!(names(&page(Order::Desc, 9, PageStart::After(place))), ("9=6,10=5".into(), Some(6), false));
    assert_eq!(names(&page(Order::Asc, 0, PageStart::Offset(5))), (String::new(), Some(6), true));
    assert_eq!(names(&page(Order::Asc, 5, PageStart::Offset(i64::MAX as u64))), (String::new(), Some(6), false));
}

#[test]
fn lists_of_very_many_ids_are_fast() {
    let (_directory, path) = place();
    let backend = open(&path);
    write(&backend, |tx| {
        (0..30_000).try_for_each(|at| tx.put_run(&Put::insert(new_run("p", &format!("r{at}"), &format!("w{at:05}"), at % 100))))
    })
    .unwrap();
    let ids: Vec<Id> = (0..100_000).map(|at| Id::from(format!("w{at:05}"))).collect();
    let filter =
        RunFilter { project_id: "p".into(), workflow_ids: Some(ids.clone()), statuses: StatusSet::ALL, started: Window::default() };
    let page = PageRequest { order: Order::Desc, limit: 3, start: PageStart::Offset(2), with_total: true, form: AnswerForm::State };
    let begun = std::time::Instant::now();
    let rows = backend.list_runs(&filter, &page).unwrap();
    assert_eq!((rows.total, rows.has_more, rows.rows.len()), (Some(30_000), true, 3));
    assert!(rows.rows.iter().all(|run| run.started_at == time(99)));
    assert_eq!(backend.latest_runs(&"p".into(), &ids, AnswerForm::State).unwrap().len(), 30_000);
    assert_eq!(backend.run_stats(&"p".into(), Some(&ids)).unwrap().by_status.total(), 30_000);
    write(&backend, |tx| {
        assert_eq!(tx.next_run(&"p".into(), Some(&ids), AnswerForm::State)?.unwrap().record.started_at, time(0));
        Ok(())
    })
    .unwrap();
    assert!(begun.elapsed().as_secs() < 20, "{:?}", begun.elapsed());
}
