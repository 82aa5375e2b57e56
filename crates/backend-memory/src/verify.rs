//! Holds every order, hash, counter and reference against the records, in both directions.

use std::sync::Arc;

use runledger_core::{AgentRun, Entity, Id, NodeRun, Problem, Record, Run, Status, StatusSet, Time, VerifyReport};

use crate::schema::{
    ByStatus, NodeEntry, Places, Project, Ranked, RunEntry, Slots, place_of_node, weight_of_agent, weight_of_node, weight_of_run,
};

/// Checks projects. There is no engine below with a check of its own; all there is is checked here.
pub(crate) fn verify(projects: &[(&Id, &Project)]) -> VerifyReport {
    let mut report = VerifyReport { engine_check_done: true, ..VerifyReport::default() };
    for (id, project) in projects {
        let mut check = Check { id, project, report: &mut report };
        check.runs();
        check.nodes();
        check.lists::<AgentRun>();
        check.lists::<Run>();
        check.ended();
        check.counters();
    }
    report
}

struct Check<'a> {
    id: &'a Id,
    project: &'a Project,
    report: &'a mut VerifyReport,
}

impl Check<'_> {
    fn problem(&mut self, kind: &'static str, entity: Entity, id: &Id, message: impl Into<String>) {
        self.report.push(Problem::new(kind, message).of(entity, self.id, id));
    }

    fn expect(&mut self, holds: bool, kind: &'static str, entity: Entity, id: &Id, message: &str) {
        if !holds {
            self.problem(kind, entity, id, message);
        }
    }

    fn record<R: Record>(&mut self, record: &R) {
        let id = record.key_id();
        self.expect(record.project_id() == self.id, "record", R::ENTITY, id, "it stands among the records of another project");
        if let Err(broken) = record.coherence() {
            self.problem("record", R::ENTITY, id, broken);
        }
    }

    fn runs(&mut self) {
        let project = self.project;
        for (slot, entry) in project.runs.iter() {
            self.report.checked.runs += 1;
            let run = &entry.run;
            self.record(&**run);
            self.expect(project.run_slots.get(&run.id) == Some(&slot), "index", Entity::Run, &run.id, "its id does not lead to it");
            let is_among_ended = run.finished_at.is_none_or(|time| project.ended.get(&(time, run.id.clone())) == Some(&slot));
            self.expect(is_among_ended, "index", Entity::Run, &run.id, "it is missing among the ended runs");
            self.nodes_of(entry);
        }
        for (id, slot) in &project.run_slots {
            let leads = project.runs.get(*slot).is_some_and(|entry| entry.run.id == *id);
            self.expect(leads, "index", Entity::Run, id, "its id leads to no such run");
        }
    }

    fn nodes_of(&mut self, entry: &RunEntry) {
        let sorted = entry.nodes.is_sorted_by(|(a, _), (b, _)| a < b);
        self.expect(sorted, "index", Entity::Run, &entry.run.id, "its node runs are out of order");
        for (place, slot) in &entry.nodes {
            let node = self.project.nodes.get(*slot).map(|entry| &entry.node);
            let stands = node.is_some_and(|node| node.workflow_run_id == entry.run.id && place_of_node(node) == *place);
            self.expect(stands, "index", Entity::Node, &place.2, "a run lists it where it does not belong");
        }
    }

    fn nodes(&mut self) {
        let project = self.project;
        for (slot, entry) in project.nodes.iter() {
            self.report.checked.nodes += 1;
            let node = &entry.node;
            self.record(&**node);
            self.expect(project.node_slots.get(&node.id) == Some(&slot), "index", Entity::Node, &node.id, "its id does not lead to it");
            match project.run_entry(&node.workflow_run_id) {
                None => self.problem("reference", Entity::Node, &node.id, "its run is not there"),
                Some(run) => {
                    let place = (place_of_node(node), slot);
                    let is_listed = run.nodes.binary_search(&place).is_ok();
                    self.expect(is_listed, "index", Entity::Node, &node.id, "its run does not list it");
                }
            }
            if let Some(agent) = &entry.agent {
                self.report.checked.agents += 1;
                self.record(&**agent);
                self.agent_of(node, &agent.node_run_id);
            }
        }
        for (id, slot) in &project.node_slots {
            let leads = project.nodes.get(*slot).is_some_and(|entry| entry.node.id == *id);
            self.expect(leads, "index", Entity::Node, id, "its id leads to no such node run");
        }
    }

    fn agent_of(&mut self, node: &NodeRun, node_run_id: &Id) {
        self.expect(*node_run_id == node.id, "reference", Entity::Agent, node_run_id, "it stands behind another node run");
        self.expect(node.is_agent_node(), "reference", Entity::Agent, node_run_id, "its node run is not of type agent");
    }

    /// The orders of all runs or agent runs.
    fn lists<R: Ranked>(&mut self) {
        let project = self.project;
        let lists = R::lists(project);
        for (slot, record) in (0..R::slot_count(project)).filter_map(|slot| Some((slot, R::at(project, slot)?))) {
            let id = record.key_id();
            let place = (record.listed_at(), id.clone());
            let is_in = |by_status: &ByStatus| by_status.of(record.status()).get(&place) == Some(&slot);
            self.expect(is_in(&lists.all), "index", R::ENTITY, id, "it is missing in the order of its status");
            let is_under = lists.under.get(record.under()).is_some_and(is_in);
            self.expect(is_under, "index", R::ENTITY, id, &format!("it is missing in the order of its {}", R::UNDER));
            let has_lease = record.lease().is_none_or(|lease| lists.leases.get(&(lease, id.clone())) == Some(&slot));
            self.expect(has_lease, "index", R::ENTITY, id, "its lease is missing in the order of leases");
        }
        self.by_status::<R>(&lists.all, None);
        for (under, by_status) in &lists.under {
            self.by_status::<R>(by_status, Some(under));
            if by_status.is_empty() {
                self.report.push(Problem::new("index", format!("the orders of {} '{under}' are kept with nothing in them", R::UNDER)));
            }
        }
        self.order(&lists.leases, "the order of leases", |record: &R| record.lease());
    }

    fn by_status<R: Ranked>(&mut self, by_status: &ByStatus, under: Option<&Id>) {
        for status in Status::ALL {
            let belongs =
                |record: &R| StatusSet::only(*status).contains(record.status()) && under.is_none_or(|under| under == record.under());
            let name = match under {
                None => format!("the order of status {status}"),
                Some(under) => format!("the order of {} '{under}' and status {status}", R::UNDER),
            };
            self.order(by_status.of(*status), &name, |record: &R| belongs(record).then(|| record.listed_at()));
        }
    }

    /// Every entry of an order must lead to a record that belongs there at this time.
    fn order<R: Ranked>(&mut self, places: &Places, name: &str, belongs_at: impl Fn(&R) -> Option<Time>) {
        for ((time, id), slot) in places {
            let record = R::at(self.project, *slot).map(Arc::as_ref);
            if !record.is_some_and(|record| record.key_id() == id && belongs_at(record) == Some(*time)) {
                self.problem("index", R::ENTITY, id, format!("{name} has an entry that is not its own"));
            }
        }
    }

    fn ended(&mut self) {
        self.order(&self.project.ended, "the order of ended runs", |run: &Run| run.finished_at);
    }

    fn counters(&mut self) {
        let project = self.project;
        let runs: u64 = project.runs.iter().map(|(_, entry)| weight_of_run(&entry.run)).sum();
        let of_node = |entry: &NodeEntry| weight_of_node(&entry.node) + entry.agent.as_deref().map_or(0, weight_of_agent);
        let nodes: u64 = project.nodes.iter().map(|(_, entry)| of_node(entry)).sum();
        if runs + nodes != project.bytes {
            self.counter(format!("counted {} bytes, and the records have {}", project.bytes, runs + nodes));
        }
        self.free(&project.runs, "runs");
        self.free(&project.nodes, "node runs");
    }

    fn free<T>(&mut self, slots: &Slots<T>, name: &str) {
        let empty = slots.values.iter().filter(|value| value.is_none()).count();
        let are_empty = slots.free.iter().all(|slot| slots.values.get(*slot).is_some_and(Option::is_none));
        if !are_empty || empty != slots.free.len() {
            self.counter(format!("the free slots of {name} are not the {empty} that are empty"));
        }
    }

    fn counter(&mut self, message: String) {
        let mut problem = Problem::new("counter", message);
        problem.project_id = Some(self.id.clone());
        self.report.push(problem);
    }
}
