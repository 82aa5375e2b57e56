//! Damages every structure in turn, and looks whether verify names it.

use std::sync::Arc;

use runledger_core::{Backend, Entity, Problem, Put, Status};

use super::{agent, assert_sound, at, id, node, open, run, write_in};
use crate::MemoryBackend;
use crate::schema::{ByStatus, Places, Project};

/// A project with a run in every status; the running one has node runs and agent runs.
fn store() -> MemoryBackend {
    let backend = open();
    let written = write_in(&backend, &["p"], |tx| {
        for (second, status) in Status::ALL.iter().enumerate() {
            tx.put_run(&Put::insert(run("p", status.as_str(), "w", *status, second as i64)))?;
        }
        let owner = run("p", "running", "w", Status::Running, 1);
        for (index, name) in ["n1", "n2"].into_iter().enumerate() {
            let node = node(&owner, name, Status::Running, 1, index as u32);
            tx.put_node(&Put::insert(node.clone()))?;
            tx.put_agent(&Put::insert(agent(&node, "ann", Status::Running, index as i64)))?;
        }
        Ok(())
    });
    written.unwrap();
    assert_sound(&backend);
    backend
}

fn problems_after<T>(damage: impl FnOnce(&mut Project) -> T) -> Vec<Problem> {
    let backend = store();
    let cell = backend.cell(&id("p")).unwrap();
    damage(&mut cell.write().unwrap());
    let report = backend.verify().unwrap();
    assert!(!report.is_ok());
    report.problems
}

/// Damages a project and expects a problem of this kind, about this record, that says this.
#[track_caller]
fn finds<T>(kind: &str, entity: Entity, name: &str, says: &str, damage: impl FnOnce(&mut Project) -> T) {
    let problems = problems_after(damage);
    let is_it = |problem: &Problem| {
        let is_of_record = problem.entity == Some(entity) && problem.id.as_deref() == Some(name);
        problem.kind == kind && is_of_record && problem.project_id.as_deref() == Some("p") && problem.message.contains(says)
    };
    assert!(problems.iter().any(is_it), "{problems:#?}");
}

fn slot_of(project: &Project, name: &str) -> usize {
    project.run_slots[name]
}

fn order_under(project: &mut Project, status: Status) -> &mut Places {
    project.run_lists.under.get_mut("w").unwrap().of_mut(status)
}

#[test]
fn a_sound_store_has_no_problems() {
    let report = store().verify().unwrap();
    assert!(report.is_ok() && report.engine_check_done);
    assert_eq!((report.checked.runs, report.checked.nodes, report.checked.agents), (6, 2, 2));
}

#[test]
fn entries_that_are_missing_are_found() {
    let run = Entity::Run;
    finds("index", run, "failed", "its id does not lead to it", |p| p.run_slots.remove("failed"));
    finds("index", run, "failed", "the order of its status", |p| p.run_lists.all.of_mut(Status::Failed).clear());
    finds("index", run, "failed", "the order of its workflowId", |p| order_under(p, Status::Failed).clear());
    finds("index", run, "failed", "the order of its workflowId", |p| p.run_lists.under.clear());
    finds("index", run, "running", "the order of leases", |p| p.run_lists.leases.clear());
    finds("index", run, "succeeded", "among the ended runs", |p| p.ended.clear());
    finds("index", Entity::Node, "n1", "its id does not lead to it", |p| p.node_slots.remove("n1"));
    finds("index", Entity::Node, "n2", "its run does not list it", |p| {
        let slot = slot_of(p, "running");
        p.runs.get_mut(slot).unwrap().nodes.pop();
    });
    finds("index", Entity::Agent, "n1", "the order of its agentId", |p| p.agent_lists.under.clear());
    finds("index", Entity::Agent, "n1", "the order of its status", |p| p.agent_lists.all.of_mut(Status::Running).clear());
    finds("index", Entity::Agent, "n1", "the order of leases", |p| p.agent_lists.leases.clear());
}

#[test]
fn entries_that_are_too_many_are_found() {
    let place = |name: &str| (at(77), id(name));
    finds("index", Entity::Run, "ghost", "leads to no such run", |p| p.run_slots.insert(id("ghost"), 0));
    finds("index", Entity::Node, "ghost", "leads to no such node run", |p| p.node_slots.insert(id("ghost"), 0));
    finds("index", Entity::Run, "ghost", "order of status waiting", |p| {
        p.run_lists.all.of_mut(Status::Waiting).insert(place("ghost"), 999);
    });
    finds("index", Entity::Run, "failed", "'w' and status waiting", |p| {
        let slot = slot_of(p, "failed");
        order_under(p, Status::Waiting).insert((at(4), id("failed")), slot);
    });
    finds("index", Entity::Run, "running", "order of leases", |p| {
        let slot = slot_of(p, "running");
        p.run_lists.leases.insert(place("running"), slot);
    });
    finds("index", Entity::Run, "waiting", "order of ended runs", |p| {
        let slot = slot_of(p, "waiting");
        p.ended.insert(place("waiting"), slot);
    });
    finds("index", Entity::Agent, "n1", "order of status queued", |p| {
        let slot = p.node_slots["n1"];
        p.agent_lists.all.of_mut(Status::Queued).insert((at(0), id("n1")), slot);
    });
    finds("index", Entity::Node, "n1", "where it does not belong", |p| {
        let (slot, node) = (slot_of(p, "failed"), p.node_slots["n1"]);
        p.runs.get_mut(slot).unwrap().nodes.push(((at(1), 0, id("n1")), node));
    });
    let unused = problems_after(|p| p.run_lists.under.insert(id("unused"), ByStatus::default()));
    assert!(unused.iter().any(|problem| problem.kind == "index" && problem.message.contains("'unused'")), "{unused:#?}");
}

#[test]
fn node_runs_out_of_order_are_found() {
    finds("index", Entity::Run, "running", "out of order", |p| {
        let slot = slot_of(p, "running");
        p.runs.get_mut(slot).unwrap().nodes.reverse();
    });
}

#[test]
fn references_that_lead_nowhere_are_found() {
    finds("reference", Entity::Node, "n1", "its run is not there", |p| p.run_slots.remove("running"));
    finds("reference", Entity::Agent, "n1", "not of type agent", |p| {
        let slot = p.node_slots["n1"];
        let entry = p.nodes.get_mut(slot).unwrap();
        Arc::make_mut(&mut entry.node).node_type = id("other");
    });
    finds("reference", Entity::Agent, "n2", "behind another node run", |p| {
        let slot = p.node_slots["n1"];
        Arc::make_mut(p.nodes.get_mut(slot).unwrap().agent.as_mut().unwrap()).node_run_id = id("n2");
    });
}

#[test]
fn records_that_can_not_be_are_found() {
    let change = |name: &'static str, change: fn(&mut runledger_core::Run)| {
        move |p: &mut Project| {
            let slot = slot_of(p, name);
            change(Arc::make_mut(&mut p.runs.get_mut(slot).unwrap().run));
        }
    };
    finds("record", Entity::Run, "failed", "finishedAt", change("failed", |run| run.finished_at = None));
    finds("record", Entity::Run, "failed", "another project", change("failed", |run| run.project_id = id("q")));
    // A change of a record past its orders shows there.
    finds("index", Entity::Run, "failed", "order of status failed", change("failed", |run| run.status = Status::Cancelled));
    finds("index", Entity::Run, "running", "order of status running", change("running", |run| run.started_at = at(50)));
    finds(
        "index",
        Entity::Run,
        "running",
        "its lease is missing",
        change("running", |run| {
            run.execution.as_mut().unwrap().lease_expires_at = at(50);
        }),
    );
    finds("record", Entity::Node, "n1", "waitingSince", |p| {
        let slot = p.node_slots["n1"];
        Arc::make_mut(&mut p.nodes.get_mut(slot).unwrap().node).waiting_since = Some(at(1));
    });
    finds("record", Entity::Agent, "n1", "execution", |p| {
        let slot = p.node_slots["n1"];
        Arc::make_mut(p.nodes.get_mut(slot).unwrap().agent.as_mut().unwrap()).execution = None;
    });
}

#[test]
fn wrong_counters_are_found() {
    let counted = |damage: fn(&mut Project)| {
        let problems = problems_after(damage);
        assert!(problems.iter().any(|problem| problem.kind == "counter" && problem.project_id == Some(id("p"))), "{problems:#?}");
    };
    counted(|p| p.bytes += 1);
    counted(|p| p.runs.free.push(0));
    counted(|p| p.nodes.values.push(None));
}
