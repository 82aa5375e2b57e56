//! Every query against a plain filter over the same records.

use runledger_core::{
    AgentFilter, AgentRun, AnswerForm, Backend, EndedFilter, ExpiredFilter, ExportRecord, Id, Listed, NodeFilter, NodeRun, Order,
    PageRequest, PageStart, Put, Record, Result, Rows, Run, RunFilter, RunStats, Status, StatusCounts, StatusSet, Time, Window,
};

use super::{Dice, Place, agent, at, change_run, id, node, run, write};
use crate::RedbBackend;

/// The records that are in a store, as plain lists.
#[derive(Default)]
struct Model {
    runs: Vec<Run>,
    nodes: Vec<NodeRun>,
    agents: Vec<AgentRun>,
}

const PROJECTS: [&str; 3] = ["p", "p\u{1}", "pp"];
const WORKFLOWS: [&str; 4] = ["a", "ab", "b", "é"];
const AGENTS: [&str; 3] = ["x", "xy", "y"];

fn fill(backend: &RedbBackend, dice: &mut Dice) -> Model {
    let mut model = Model::default();
    for round in 0..12 {
        write(backend, |tx| {
            for number in 0..20 {
                let started = at(dice.below(40) as i64 - 20);
                let (project, workflow) = (dice.one_of(&PROJECTS), dice.one_of(&WORKFLOWS));
                let new = run(project, &format!("r{round}.{number}"), workflow, dice.one_of(Status::ALL), started);
                tx.put_run(&Put::insert(new.clone()))?;
                for index in 0..dice.below(4) {
                    let status = dice.one_of(&Status::ALL[1..]);
                    let mut step = node(&new, &format!("n{}.{index}", new.id), dice.below(3) as u32, status, at(dice.below(9) as i64));
                    step.node_key = id(dice.one_of(&AGENTS));
                    tx.put_node(&Put::insert(step.clone()))?;
                    if dice.below(2) == 0 {
                        let status = dice.one_of(&[Status::Queued, Status::Running, Status::Succeeded, Status::Failed, Status::Cancelled]);
                        let worker = agent(&step, dice.one_of(&AGENTS), status, at(dice.below(200) as i64));
                        tx.put_agent(&Put::insert(worker.clone()))?;
                        model.agents.push(worker);
                    }
                    model.nodes.push(step);
                }
                model.runs.push(new);
            }
            Ok(())
        })
        .unwrap();
        // Some change their status, some leave with all that is under them.
        write(backend, |tx| {
            for _ in 0..8 {
                let place = dice.below(model.runs.len() as u64) as usize;
                let changed = &mut model.runs[place];
                if changed.status == Status::Succeeded {
                    continue;
                }
                let status = dice.one_of(Status::ALL);
                let mut other = run(&changed.project_id, &changed.id, &changed.workflow_id, status, changed.started_at);
                other.output = None;
                change_run(tx, &changed.project_id, &changed.id, |run| *run = other.clone())?;
                *changed = other;
            }
            for _ in 0..2 {
                let gone = model.runs.swap_remove(dice.below(model.runs.len() as u64) as usize);
                let loaded = tx.run(&gone.project_id, &gone.id, AnswerForm::State)?.unwrap();
                let deleted = tx.delete_run(&loaded)?;
                let is_under = |node: &NodeRun| node.project_id == gone.project_id && node.workflow_run_id == gone.id;
                let under: Vec<Id> = model.nodes.iter().filter(|node| is_under(node)).map(|node| node.id.clone()).collect();
                model.nodes.retain(|node| !is_under(node));
                assert_eq!(deleted.nodes, under.len() as u64);
                model.agents.retain(|agent| agent.project_id != gone.project_id || !under.contains(&agent.node_run_id));
            }
            Ok(())
        })
        .unwrap();
    }
    model
}

fn some<T: Clone>(dice: &mut Dice, of: &[T]) -> Option<Vec<T>> {
    let picked: Vec<T> = of.iter().filter(|_| dice.below(2) == 0).cloned().collect();
    (!picked.is_empty() && dice.below(3) > 0).then_some(picked)
}

fn window(dice: &mut Dice, low: i64, width: u64) -> Window {
    let mut end = || (dice.below(3) == 0).then(|| at(low + dice.below(width) as i64));
    Window { after: end(), before: end() }
}

fn page(dice: &mut Dice, start: PageStart) -> PageRequest {
    PageRequest {
        order: dice.one_of(&[Order::Asc, Order::Desc]),
        limit: dice.one_of(&[0, 1, 3, 10, 1000]),
        start,
        with_total: dice.below(2) == 0,
        form: dice.one_of(AnswerForm::ALL),
    }
}

/// Asks for a page at an offset and for one behind a cursor, and holds both against the plain list.
fn check<R: Record + Listed>(dice: &mut Dice, mut matching: Vec<R>, ask: impl Fn(&PageRequest) -> Result<Rows<R>>) {
    let start = match matching.is_empty() || dice.below(2) == 0 {
        true => PageStart::Offset(dice.below(matching.len() as u64 + 3)),
        false => PageStart::After(dice.one_of(&matching).position()),
    };
    let page = page(dice, start);
    let total = matching.len() as u64;
    matching.sort_by(|left, right| page.order.apply(left.position().cmp(&right.position())));
    let skipped = match &page.start {
        PageStart::Offset(offset) => (*offset as usize).min(matching.len()),
        PageStart::After(position) => matching.iter().filter(|row| !page.order.apply(row.position().cmp(position)).is_gt()).count(),
    };
    let rest = &matching[skipped..];
    let shown = |row: &R| if page.form == AnswerForm::State { row.clone().into_state() } else { row.clone() };
    let wanted: Vec<R> = rest.iter().take(page.limit).map(shown).collect();
    let rows = ask(&page).unwrap();
    assert_eq!(rows.rows, wanted, "{page:?}");
    assert_eq!(rows.total, page.with_total.then_some(total), "{page:?}");
    // Past the end nothing follows; everywhere else it is what the page left.
    assert_eq!(rows.has_more, rest.len() > page.limit, "{page:?}");
}

#[test]
fn lists_hold_what_a_plain_filter_finds() {
    let place = Place::new();
    let backend = place.open();
    let dice = &mut Dice(42);
    let model = fill(&backend, dice);
    assert!(backend.verify().unwrap().is_ok());
    for _ in 0..1500 {
        let filter = RunFilter {
            project_id: id(dice.one_of(&PROJECTS)),
            workflow_ids: some(dice, &WORKFLOWS.map(Id::from)),
            statuses: some(dice, Status::ALL).map_or(StatusSet::ALL, |statuses| statuses.into_iter().collect()),
            started: window(dice, -20, 40),
        };
        let matching = model.runs.iter().filter(|run| filter.matches(run)).cloned().collect();
        check(dice, matching, |page| backend.list_runs(&filter, page));

        let filter = AgentFilter {
            project_id: id(dice.one_of(&PROJECTS)),
            agent_id: some(dice, &AGENTS.map(Id::from)).map(|ids| ids[0].clone()),
            statuses: some(dice, Status::ALL).map_or(StatusSet::ALL, |statuses| statuses.into_iter().collect()),
            created: window(dice, 0, 200),
        };
        let matching = model.agents.iter().filter(|agent| filter.matches(agent)).cloned().collect();
        check(dice, matching, |page| backend.list_agents(&filter, page));

        let filter = NodeFilter {
            project_id: id(dice.one_of(&PROJECTS)),
            workflow_run_id: (dice.below(2) == 0).then(|| dice.one_of(&model.runs).id.clone()),
            workflow_id: some(dice, &WORKFLOWS.map(Id::from)).map(|ids| ids[0].clone()),
            node_type: None,
            node_id: None,
            node_key: some(dice, &AGENTS.map(Id::from)).map(|ids| ids[0].clone()),
            statuses: some(dice, Status::ALL).map_or(StatusSet::ALL, |statuses| statuses.into_iter().collect()),
            started: window(dice, 0, 9),
        };
        let matching = model.nodes.iter().filter(|node| filter.matches(node)).cloned().collect();
        check(dice, matching, |page| backend.list_nodes(&filter, page));
    }
}

#[test]
fn the_other_queries_hold_what_a_plain_filter_finds() {
    let place = Place::new();
    let backend = place.open();
    let dice = &mut Dice(4711);
    let model = fill(&backend, dice);
    for project in PROJECTS.map(Id::from) {
        let of_project: Vec<&Run> = model.runs.iter().filter(|run| run.project_id == project).collect();
        let workflows = ["é", "none", "a", "ab"].map(Id::from);
        let latest: Vec<Run> = workflows
            .iter()
            .filter_map(|workflow| of_project.iter().filter(|run| run.workflow_id == *workflow).max_by_key(|run| run.position()))
            .map(|run| Run::clone(run))
            .collect();
        assert_eq!(backend.latest_runs(&project, &workflows, AnswerForm::Record).unwrap(), latest);

        for ids in [None, Some(vec![]), Some(vec![id("a"), id("aa"), id("é")]), Some(vec![id("Z"), id("zz")])] {
            let stats = |workflow: &str| {
                let mut counts = StatusCounts::default();
                let is_of = |run: &&&Run| run.workflow_id == workflow;
                of_project.iter().filter(is_of).for_each(|run| counts.0[run.status as usize] += 1);
                (id(workflow), counts)
            };
            let asked = WORKFLOWS.iter().filter(|workflow| ids.as_ref().is_none_or(|ids| ids.contains(&id(workflow))));
            let wanted = RunStats::from_workflows(asked.map(|workflow| stats(workflow)));
            assert_eq!(backend.run_stats(&project, ids.as_deref()).unwrap(), wanted);
        }

        for statuses in [StatusSet::ALL, StatusSet::only(Status::Failed)] {
            for workflow_ids in [None, Some(vec![id("ab"), id("b")])] {
                let filter = EndedFilter { project_id: project.clone(), finished_before: at(5), statuses, workflow_ids };
                let mut wanted: Vec<&Run> = model.runs.iter().filter(|run| filter.matches(run)).collect();
                wanted.sort_by_key(|run| (run.finished_at, run.id.clone()));
                write(&backend, |tx| {
                    let found = tx.ended_runs(&filter, 7)?;
                    assert_eq!(
                        found.iter().map(|run| &run.record.id).collect::<Vec<_>>(),
                        wanted.iter().take(7).map(|run| &run.id).collect::<Vec<_>>()
                    );
                    Ok(())
                })
                .unwrap();
            }
        }
        check_next(&backend, &model, &project);
    }
    check_expired(&backend, &model, dice);
    check_projects_and_export(&backend, &model);
}

fn check_next(backend: &RedbBackend, model: &Model, project: &Id) {
    for ids in [None, Some(vec![id("b"), id("é")]), Some(vec![id("none")]), Some(vec![id("x"), id("xx")])] {
        let is_asked = |owner: &Id| ids.as_ref().is_none_or(|ids| ids.contains(owner));
        let runs = model.runs.iter().filter(|run| run.project_id == *project && run.status == Status::Queued && is_asked(&run.workflow_id));
        let agents =
            model.agents.iter().filter(|agent| agent.project_id == *project && agent.status == Status::Queued && is_asked(&agent.agent_id));
        let (run, agent) = (runs.min_by_key(|run| run.position()), agents.min_by_key(|agent| agent.position()));
        write(backend, |tx| {
            assert_eq!(tx.next_run(project, ids.as_deref(), AnswerForm::Record)?.map(|run| run.record).as_ref(), run);
            assert_eq!(tx.next_agent(project, ids.as_deref(), AnswerForm::Record)?.map(|agent| agent.record).as_ref(), agent);
            Ok(())
        })
        .unwrap();
    }
}

fn check_expired(backend: &RedbBackend, model: &Model, dice: &mut Dice) {
    for _ in 0..200 {
        let project_id = (dice.below(2) == 0).then(|| id(dice.one_of(&PROJECTS)));
        let filter = ExpiredFilter { project_id, expired_by: at(dice.below(300) as i64), limit: dice.one_of(&[1, 2, 5, 100]) };
        let end = |execution: &Option<runledger_core::Execution>| -> Option<Time> {
            execution.as_ref().map(|execution| execution.lease_expires_at).filter(|end| *end <= filter.expired_by)
        };
        let is_asked = |project: &Id| filter.project_id.as_ref().is_none_or(|asked| asked == project);

        let mut runs: Vec<&Run> = model.runs.iter().filter(|run| end(&run.execution).is_some() && is_asked(&run.project_id)).collect();
        runs.sort_by_key(|run| (end(&run.execution), run.project_id.clone(), run.id.clone()));
        let (found, has_more) = backend.expired_runs(&filter, AnswerForm::Record).unwrap();
        assert_eq!(found.iter().collect::<Vec<_>>(), runs.iter().take(filter.limit).copied().collect::<Vec<_>>());
        assert_eq!(has_more, runs.len() > filter.limit);

        let mut agents: Vec<&AgentRun> =
            model.agents.iter().filter(|agent| end(&agent.execution).is_some() && is_asked(&agent.project_id)).collect();
        agents.sort_by_key(|agent| (end(&agent.execution), agent.project_id.clone(), agent.node_run_id.clone()));
        let (found, has_more) = backend.expired_agents(&filter, AnswerForm::Record).unwrap();
        assert_eq!(found.iter().collect::<Vec<_>>(), agents.iter().take(filter.limit).copied().collect::<Vec<_>>());
        assert_eq!(has_more, agents.len() > filter.limit);
    }
}

fn check_projects_and_export(backend: &RedbBackend, model: &Model) {
    let ask = |order, start, limit| {
        let page = PageRequest { order, limit, start, with_total: true, form: AnswerForm::Record };
        backend.list_projects(&page).unwrap()
    };
    let all = ask(Order::Asc, PageStart::Offset(0), 10);
    assert_eq!(all.rows.iter().map(|row| &*row.project_id).collect::<Vec<_>>(), PROJECTS);
    for row in &all.rows {
        assert_eq!(row.runs, model.runs.iter().filter(|run| run.project_id == row.project_id).count() as u64);
    }
    let middle = ask(Order::Desc, PageStart::After(all.rows[2].position()), 1);
    assert_eq!((&middle.rows[..], middle.total, middle.has_more), (&all.rows[1..2], Some(3), true));
    let last = ask(Order::Asc, PageStart::After(all.rows[0].position()), 2);
    assert_eq!((&last.rows[..], last.has_more), (&all.rows[1..], false));

    let mut wanted: Vec<ExportRecord> = Vec::new();
    let mut sorted = (model.runs.clone(), model.nodes.clone(), model.agents.clone());
    sorted.0.sort_by_key(|run| (run.project_id.clone(), run.id.clone()));
    sorted.1.sort_by_key(|node| (node.project_id.clone(), node.id.clone()));
    sorted.2.sort_by_key(|agent| (agent.project_id.clone(), agent.node_run_id.clone()));
    wanted.extend(sorted.0.into_iter().map(ExportRecord::Run));
    wanted.extend(sorted.1.into_iter().map(ExportRecord::Node));
    wanted.extend(sorted.2.into_iter().map(ExportRecord::Agent));
    let mut exported = Vec::new();
    backend
        .export(&mut |record| {
            exported.push(record);
            Ok(())
        })
        .unwrap();
    assert_eq!(exported, wanted);
}

/// Long lists of workflows, of which most have no runs, and many of which have.
#[test]
fn a_hundred_thousand_workflows_are_soon_passed_over() {
    let place = Place::new();
    let backend = place.open();
    let name = |number: u64| format!("w{number:06}");
    write(&backend, |tx| {
        for number in (0..100_000).step_by(50) {
            tx.put_run(&Put::insert(run("p", &name(number), &name(number), Status::Queued, at(number as i64))))?;
        }
        Ok(())
    })
    .unwrap();
    let ids: Vec<Id> = (0..100_000).map(|number| id(&name(number))).collect();
    let began = std::time::Instant::now();
    let filter = RunFilter { project_id: id("p"), workflow_ids: Some(ids.clone()), statuses: StatusSet::ALL, started: Window::default() };
    let page = PageRequest { order: Order::Desc, limit: 50, start: PageStart::Offset(0), with_total: true, form: AnswerForm::State };
    let rows = backend.list_runs(&filter, &page).unwrap();
    assert_eq!((rows.rows.len(), rows.total, rows.has_more), (50, Some(2000), true));
    assert_eq!(rows.rows[0].id, name(99_950).as_str());
    assert_eq!(backend.latest_runs(&id("p"), &ids, AnswerForm::State).unwrap().len(), 2000);
    assert_eq!(backend.run_stats(&id("p"), Some(&ids)).unwrap().by_status.total(), 2000);
    write(&backend, |tx| {
        assert_eq!(tx.next_run(&id("p"), Some(&ids), AnswerForm::State)?.unwrap().record.id, name(0).as_str());
        Ok(())
    })
    .unwrap();
    assert!(began.elapsed().as_secs() < 5, "{:?}", began.elapsed());
}
