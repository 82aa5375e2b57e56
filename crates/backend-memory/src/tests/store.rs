//! A store with random content, and the same content as plain lists.

use runledger_core::{AgentRun, Backend, NodeRun, Put, Record, Run, Status, Stored, Tx};

use super::{AGENT_STATUSES, Content, NODE_STATUSES, Numbers, agent, assert_sound, content, id, node, open, run, write_anywhere, write_in};
use crate::MemoryBackend;

pub(super) const PROJECTS: [&str; 3] = ["shop", "shop ", "Zoo"];
/// Some that are beginnings of others, and one beyond ASCII.
pub(super) const IDS: [&str; 12] = ["a", "ab", "a b", "b", "B", "\u{e9}", "zz", "zzz", "1", "10", "2", "~"];
pub(super) const WORKFLOWS: [&str; 4] = ["bill", "bill2", "ship", "\u{1f4e6}"];

/// So few times that many records share one.
fn second(numbers: &mut Numbers) -> i64 {
    numbers.below(9) as i64 - 3
}

/// Makes a store by random changes, some of them in transactions that fail.
pub(super) fn random_store(numbers: &mut Numbers, changes: usize) -> (MemoryBackend, Content) {
    let backend = open();
    let mut model = Content::default();
    for _ in 0..changes {
        let project = numbers.pick(&PROJECTS);
        let fails = numbers.one_in(5);
        let mut changed = copy(&model);
        let mut act = |tx: &mut dyn Tx| {
            for _ in 0..=numbers.below(3) {
                change(tx, project, numbers, &mut changed);
            }
            if fails { Err(runledger_core::Error::corrupt("on purpose")) } else { Ok(()) }
        };
        let written = match fails {
            true => write_in(&backend, &[project], &mut act),
            false => write_anywhere(&backend, &mut act),
        };
        assert_eq!(written.is_err(), fails);
        if !fails {
            model = changed;
        }
    }
    assert_sound(&backend);
    assert_eq!(content(&backend), model);
    (backend, model)
}

fn copy(content: &Content) -> Content {
    Content { runs: content.runs.clone(), nodes: content.nodes.clone(), agents: content.agents.clone() }
}

fn change(tx: &mut dyn Tx, project: &str, numbers: &mut Numbers, model: &mut Content) {
    let name = numbers.pick(&IDS);
    let key = (id(project), id(name));
    match numbers.below(8) {
        0 => {
            let found = tx.run(&key.0, &key.1, runledger_core::AnswerForm::State).unwrap();
            assert_eq!(found.is_some(), model.runs.contains_key(&key));
            let Some(found) = found else { return };
            let nodes = model.nodes.values().filter(|node| node.project_id == key.0 && node.workflow_run_id == key.1);
            assert_eq!(tx.delete_run(&found).unwrap().nodes, nodes.count() as u64);
            model.runs.remove(&key);
            model.nodes.retain(|(project, _), node| *project != key.0 || node.workflow_run_id != key.1);
            let Content { nodes, agents, .. } = model;
            agents.retain(|key, _| nodes.contains_key(key));
        }
        1..4 => {
            let status = numbers.pick(Status::ALL);
            let mut made = run(project, name, numbers.pick(&WORKFLOWS), status, second(numbers));
            if let Some(before) = model.runs.get(&key) {
                // A run keeps its workflow for ever.
                made.workflow_id = before.workflow_id.clone();
            }
            tx.put_run(&put(model.runs.get(&key), made.clone())).unwrap();
            model.runs.insert(key, made);
        }
        4..6 => {
            let Some(run) = model.runs.get(&(id(project), id(numbers.pick(&IDS)))) else { return };
            let status = numbers.pick(&NODE_STATUSES);
            let mut made = node(run, name, status, second(numbers), numbers.below(3) as u32);
            made.node_id = id(numbers.pick(&["draw", "paint"]));
            let before = model.nodes.get(&key);
            if let Some(before) = before {
                // A node run keeps its place.
                made = NodeRun { status, finished_at: made.finished_at, output: made.output, error: made.error, ..before.clone() };
                made.waiting_since = (status == Status::Waiting).then_some(made.started_at);
            }
            tx.put_node(&put(before, made.clone())).unwrap();
            model.nodes.insert(key, made);
        }
        _ => {
            let Some(node) = model.nodes.get(&key) else { return };
            let mut made = agent(node, numbers.pick(&["ann", "bob"]), numbers.pick(&AGENT_STATUSES), second(numbers));
            let before = model.agents.get(&key);
            if let Some(before) = before {
                (made.agent_id, made.created_at) = (before.agent_id.clone(), before.created_at);
            }
            tx.put_agent(&put(before, made.clone())).unwrap();
            model.agents.insert(key, made);
        }
    }
}

fn put<R: Record>(before: Option<&R>, after: R) -> Put<R> {
    let after = Stored::new(after);
    Put { before: before.cloned().map(Stored::new), written: after.held, after }
}

/// The records of one project, in no order that matters.
pub(super) fn of_project<R: Record>(all: impl Iterator<Item = R>, project: &str) -> Vec<R> {
    all.filter(|record| *record.project_id() == *project).collect()
}

#[test]
fn every_record_can_be_read_alone() {
    let (backend, model) = random_store(&mut Numbers(11), 300);
    let form = runledger_core::AnswerForm::Record;
    let state = runledger_core::AnswerForm::State;
    for ((project, name), run) in &model.runs {
        assert_eq!(backend.get_run(project, name, form).unwrap().as_ref(), Some::<&Run>(run));
        assert_eq!(backend.get_run(project, name, state).unwrap(), Some(run.clone().into_state()));
    }
    for ((project, name), node) in &model.nodes {
        assert_eq!(backend.get_node(project, name, form).unwrap().as_ref(), Some(node));
    }
    for ((project, name), agent) in &model.agents {
        assert_eq!(backend.get_agent(project, name, form).unwrap().as_ref(), Some::<&AgentRun>(agent));
        assert_eq!(backend.get_agent(project, name, state).unwrap(), Some(agent.clone().into_state()));
    }
    assert!(!model.agents.is_empty());
    assert_eq!(backend.get_run(&id("nowhere"), &id("a"), form).unwrap(), None);
}
