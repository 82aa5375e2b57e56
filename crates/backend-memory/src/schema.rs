//! How the records of one project are kept.
//!
//! A record is shared behind an `Arc`, so that a reader takes a reference under the lock and copies after it. Runs and
//! node runs stand in slots; hashes find a slot by id, and orders hold slots, so that a change of a record that moves in
//! no order is one exchange of a pointer. The node runs of a run are a sorted vector in its slot, and an agent run
//! stands in the slot of its node run.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, Hasher};
use std::mem;
use std::sync::Arc;

use runledger_core::{AgentRun, Execution, Id, NodeRun, Payload, Principal, Record, Run, Status, Text, Time};

/// A hash map of ids.
pub(crate) type HashMap<K, V> = std::collections::HashMap<K, V, Seed>;

/// Seeds the hashes of one map, so that nobody outside can make ids that meet in one place.
#[derive(Clone, Debug)]
pub(crate) struct Seed(u64);

impl Default for Seed {
    fn default() -> Self {
        Seed(std::hash::RandomState::new().hash_one(0_u8))
    }
}

impl BuildHasher for Seed {
    type Hasher = IdHasher;
    fn build_hasher(&self) -> IdHasher {
        IdHasher(self.0)
    }
}

/// Hashes an id in one step.
pub(crate) struct IdHasher(u64);

impl Hasher for IdHasher {
    fn write(&mut self, bytes: &[u8]) {
        self.0 = xxhash_rust::xxh3::xxh3_64_with_seed(bytes, self.0);
    }
    fn write_u8(&mut self, _end: u8) {}
    fn finish(&self) -> u64 {
        self.0
    }
}

/// The texts that came last, in as few places: names of workflows and steps come with every record anew, and are
/// stored once where the last record with such a name can be found without a search.
#[derive(Debug, Default)]
pub(crate) struct Repeated(Vec<Option<Id>>);

impl Repeated {
    const PLACES: usize = 64;

    /// Puts the text that is stored in place of an equal one.
    pub(crate) fn share(&mut self, id: &mut Id) {
        self.0.resize(Repeated::PLACES, None);
        let place = &mut self.0[xxhash_rust::xxh3::xxh3_64(id.as_bytes()) as usize % Repeated::PLACES];
        match place {
            Some(stored) if stored == id => id.clone_from(stored),
            _ => *place = Some(id.clone()),
        }
    }
}

/// A place in an order: a time, and the id that settles ties.
pub(crate) type Place = (Time, Id);

/// Slots in order.
pub(crate) type Places = BTreeMap<Place, usize>;

/// The place of a node run among those of its run.
pub(crate) type NodePlace = (Time, u32, Id);

/// Values that are found by a number, which stays theirs while they are there.
#[derive(Debug)]
pub(crate) struct Slots<T> {
    pub(crate) values: Vec<Option<T>>,
    pub(crate) free: Vec<usize>,
}

impl<T> Default for Slots<T> {
    fn default() -> Self {
        Slots { values: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slots<T> {
    fn insert(&mut self, value: T) -> usize {
        if let Some(slot) = self.free.pop() {
            self.values[slot] = Some(value);
            return slot;
        }
        self.values.push(Some(value));
        self.values.len() - 1
    }

    fn remove(&mut self, slot: usize) -> Option<T> {
        let value = self.values.get_mut(slot)?.take();
        if value.is_some() {
            self.free.push(slot);
        }
        value
    }

    pub(crate) fn get(&self, slot: usize) -> Option<&T> {
        self.values.get(slot)?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, slot: usize) -> Option<&mut T> {
        self.values.get_mut(slot)?.as_mut()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (usize, &T)> {
        self.values.iter().enumerate().filter_map(|(slot, value)| Some((slot, value.as_ref()?)))
    }
}

/// One order for each status. Its length is the count of records in that status.
#[derive(Debug, Default)]
pub(crate) struct ByStatus(pub(crate) [Places; 6]);

impl ByStatus {
    pub(crate) fn of(&self, status: Status) -> &Places {
        &self.0[status as usize]
    }

    pub(crate) fn of_mut(&mut self, status: Status) -> &mut Places {
        &mut self.0[status as usize]
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.iter().all(Places::is_empty)
    }
}

/// The orders that runs are listed in, or agent runs.
#[derive(Debug, Default)]
pub(crate) struct Lists {
    /// All of the project.
    pub(crate) all: ByStatus,
    /// Those of each workflow that has runs, or of each agent that has agent runs.
    pub(crate) under: HashMap<Id, ByStatus>,
    /// The running ones that have a lease, by its end.
    pub(crate) leases: Places,
}

/// A record that is listed by a time: runs by their start, agent runs by their creation.
pub(crate) trait Ranked: Record {
    /// What the JSON form calls that which it is listed under: the workflow of a run, the agent of an agent run.
    const UNDER: &'static str;

    /// The workflow of a run, the agent of an agent run.
    fn under(&self) -> &Id;
    /// The time that it is listed by.
    fn listed_at(&self) -> Time;
    /// Who owns it.
    fn execution(&self) -> Option<&Execution>;
    /// The orders of its kind.
    fn lists(project: &Project) -> &Lists;
    /// The one in a slot.
    fn at(project: &Project, slot: usize) -> Option<&Arc<Self>>;
    /// How many slots there are, used or not.
    fn slot_count(project: &Project) -> usize;

    /// The end of its lease, if it has one; only a running one does.
    fn lease(&self) -> Option<Time> {
        self.execution().map(|execution| execution.lease_expires_at)
    }
}

impl Ranked for Run {
    const UNDER: &'static str = "workflowId";

    fn under(&self) -> &Id {
        &self.workflow_id
    }
    fn listed_at(&self) -> Time {
        self.started_at
    }
    fn execution(&self) -> Option<&Execution> {
        self.execution.as_ref()
    }
    fn lists(project: &Project) -> &Lists {
        &project.run_lists
    }
    fn at(project: &Project, slot: usize) -> Option<&Arc<Run>> {
        project.runs.get(slot).map(|entry| &entry.run)
    }
    fn slot_count(project: &Project) -> usize {
        project.runs.values.len()
    }
}

impl Ranked for AgentRun {
    const UNDER: &'static str = "agentId";

    fn under(&self) -> &Id {
        &self.agent_id
    }
    fn listed_at(&self) -> Time {
        self.created_at
    }
    fn execution(&self) -> Option<&Execution> {
        self.execution.as_ref()
    }
    fn lists(project: &Project) -> &Lists {
        &project.agent_lists
    }
    fn at(project: &Project, slot: usize) -> Option<&Arc<AgentRun>> {
        project.nodes.get(slot)?.agent.as_ref()
    }
    fn slot_count(project: &Project) -> usize {
        project.nodes.values.len()
    }
}

impl Lists {
    /// Moves a record to where it belongs after a change, the first or the last included.
    fn change<R: Ranked>(&mut self, slot: usize, before: Option<&R>, after: Option<&R>) {
        let Some(either) = after.or(before) else { return };
        let listed = |record: &R| (record.status(), record.listed_at());
        if before.map(listed) != after.map(listed) {
            self.relist(slot, either.under(), either.key_id(), before.map(listed), after.map(listed));
        }
        reorder(&mut self.leases, slot, either.key_id(), before.and_then(R::lease), after.and_then(R::lease));
    }

    fn relist(&mut self, slot: usize, under: &Id, id: &Id, before: Option<(Status, Time)>, after: Option<(Status, Time)>) {
        let own = self.under.entry(under.clone()).or_default();
        if let Some((status, time)) = after {
            let place = (time, id.clone());
            self.all.of_mut(status).insert(place.clone(), slot);
            own.of_mut(status).insert(place, slot);
        }
        if let Some((status, time)) = before {
            let place = (time, id.clone());
            self.all.of_mut(status).remove(&place);
            own.of_mut(status).remove(&place);
        }
        if after.is_none() && own.is_empty() {
            self.under.remove(under);
        }
    }
}

/// Moves a slot in an order that has it only at some times.
fn reorder(order: &mut Places, slot: usize, id: &Id, before: Option<Time>, after: Option<Time>) {
    if before == after {
        return;
    }
    let mut place = (Time::MIN, id.clone());
    if let Some(time) = before {
        place.0 = time;
        order.remove(&place);
    }
    if let Some(time) = after {
        place.0 = time;
        order.insert(place, slot);
    }
}

/// A run, and the slots of its node runs in their order.
#[derive(Debug)]
pub(crate) struct RunEntry {
    pub(crate) run: Arc<Run>,
    pub(crate) nodes: Vec<(NodePlace, usize)>,
}

/// A node run, and the agent run behind it.
#[derive(Debug)]
pub(crate) struct NodeEntry {
    pub(crate) node: Arc<NodeRun>,
    pub(crate) agent: Option<Arc<AgentRun>>,
}

pub(crate) fn place_of_node(node: &NodeRun) -> NodePlace {
    (node.started_at, node.node_index, node.id.clone())
}

/// All records of one project with their orders and counters.
///
/// A `set_…` stores a record and answers the one that it replaced; with the `remove_…` it is the only way to change
/// anything, and each of them undoes the other.
#[derive(Debug, Default)]
pub(crate) struct Project {
    pub(crate) runs: Slots<RunEntry>,
    pub(crate) run_slots: HashMap<Id, usize>,
    pub(crate) run_lists: Lists,
    /// The ended runs, by (finishedAt, id).
    pub(crate) ended: Places,
    pub(crate) nodes: Slots<NodeEntry>,
    pub(crate) node_slots: HashMap<Id, usize>,
    pub(crate) agent_lists: Lists,
    pub(crate) repeated: Repeated,
    /// About how many bytes the records take up.
    pub(crate) bytes: u64,
    /// Whether it had no records left and is no longer, or soon not, the project of its id: a transaction that has
    /// waited for it must look for the project again. A reader may take it for what it is, a project without records.
    pub(crate) is_retired: bool,
}

impl Project {
    /// Whether it has no records: every node run and agent run is under a run.
    pub(crate) fn is_empty(&self) -> bool {
        self.run_slots.is_empty()
    }

    pub(crate) fn run_entry(&self, id: &Id) -> Option<&RunEntry> {
        self.runs.get(*self.run_slots.get(id)?)
    }

    pub(crate) fn run(&self, id: &Id) -> Option<&Arc<Run>> {
        self.run_entry(id).map(|entry| &entry.run)
    }

    fn node_entry(&self, id: &Id) -> Option<&NodeEntry> {
        self.nodes.get(*self.node_slots.get(id)?)
    }

    pub(crate) fn node(&self, id: &Id) -> Option<&Arc<NodeRun>> {
        self.node_entry(id).map(|entry| &entry.node)
    }

    pub(crate) fn agent(&self, node_run_id: &Id) -> Option<&Arc<AgentRun>> {
        self.node_entry(node_run_id)?.agent.as_ref()
    }

    pub(crate) fn set_run(&mut self, run: Arc<Run>) -> Option<Arc<Run>> {
        self.bytes += weight_of_run(&run);
        let slot = self.run_slots.get(&run.id).copied();
        let entry = slot.and_then(|slot| Some((slot, self.runs.get_mut(slot)?)));
        if let Some((slot, entry)) = entry {
            let before = mem::replace(&mut entry.run, run.clone());
            self.bytes -= weight_of_run(&before);
            self.run_lists.change(slot, Some(&*before), Some(&*run));
            reorder(&mut self.ended, slot, &run.id, before.finished_at, run.finished_at);
            return Some(before);
        }
        let slot = self.runs.insert(RunEntry { run: run.clone(), nodes: Vec::new() });
        self.run_slots.insert(run.id.clone(), slot);
        self.run_lists.change(slot, None, Some(&*run));
        reorder(&mut self.ended, slot, &run.id, None, run.finished_at);
        None
    }

    /// Removes a run that has no node runs any more.
    pub(crate) fn remove_run(&mut self, id: &Id) -> Option<Arc<Run>> {
        let slot = self.run_slots.remove(id)?;
        let RunEntry { run, .. } = self.runs.remove(slot)?;
        self.bytes -= weight_of_run(&run);
        self.run_lists.change(slot, Some(&*run), None);
        reorder(&mut self.ended, slot, id, run.finished_at, None);
        Some(run)
    }

    /// Its run is there.
    pub(crate) fn set_node(&mut self, node: Arc<NodeRun>) -> Option<Arc<NodeRun>> {
        self.bytes += weight_of_node(&node);
        if let Some(entry) = self.node_slots.get(&node.id).and_then(|slot| self.nodes.get_mut(*slot)) {
            // No transition changes what a node run is placed by, so its place in its run stays.
            let before = mem::replace(&mut entry.node, node);
            self.bytes -= weight_of_node(&before);
            return Some(before);
        }
        let place = place_of_node(&node);
        let run_slot = self.run_slots.get(&node.workflow_run_id).copied();
        let id = node.id.clone();
        let slot = self.nodes.insert(NodeEntry { node, agent: None });
        self.node_slots.insert(id, slot);
        if let Some(entry) = run_slot.and_then(|run_slot| self.runs.get_mut(run_slot)) {
            let at = entry.nodes.partition_point(|(other, _)| *other < place);
            entry.nodes.insert(at, (place, slot));
        }
        None
    }

    /// Removes a node run that has no agent run any more.
    pub(crate) fn remove_node(&mut self, id: &Id) -> Option<Arc<NodeRun>> {
        let slot = self.node_slots.remove(id)?;
        let NodeEntry { node, .. } = self.nodes.remove(slot)?;
        self.bytes -= weight_of_node(&node);
        let run_slot = self.run_slots.get(&node.workflow_run_id).copied();
        if let Some(entry) = run_slot.and_then(|run_slot| self.runs.get_mut(run_slot)) {
            let place = place_of_node(&node);
            if let Ok(at) = entry.nodes.binary_search_by(|(other, _)| other.cmp(&place)) {
                entry.nodes.remove(at);
            }
        }
        Some(node)
    }

    /// Its node run is there.
    pub(crate) fn set_agent(&mut self, agent: Arc<AgentRun>) -> Option<Arc<AgentRun>> {
        let slot = *self.node_slots.get(&agent.node_run_id)?;
        let entry = self.nodes.get_mut(slot)?;
        self.bytes += weight_of_agent(&agent);
        let before = entry.agent.replace(agent.clone());
        self.bytes -= before.as_deref().map_or(0, weight_of_agent);
        self.agent_lists.change(slot, before.as_deref(), Some(&*agent));
        before
    }

    pub(crate) fn remove_agent(&mut self, node_run_id: &Id) -> Option<Arc<AgentRun>> {
        let slot = *self.node_slots.get(node_run_id)?;
        let agent = self.nodes.get_mut(slot)?.agent.take()?;
        self.bytes -= weight_of_agent(&agent);
        self.agent_lists.change(slot, Some(&*agent), None);
        Some(agent)
    }
}

/// What a shared text or record takes beside its content: two counts.
const SHARED_BYTES: usize = 16;

/// A key of a time and an id with its slot, at the two thirds that the nodes of a tree are usually filled.
const ORDER_ENTRY_BYTES: usize = (size_of::<Place>() + size_of::<usize>()) * 3 / 2;

/// An id with its slot, at the load that a hash usually has, and the slot itself.
const SLOT_BYTES: usize = (size_of::<Id>() + size_of::<usize>()) * 3 / 2 + size_of::<Option<RunEntry>>();

/// Adds up the bytes of texts. A text that several records share is counted for each of them.
struct Weight(usize);

impl Weight {
    fn of<R>(index_bytes: usize) -> Self {
        Weight(size_of::<R>() + SHARED_BYTES + index_bytes)
    }

    fn ids<const N: usize>(mut self, ids: [&Id; N]) -> Self {
        self.0 += ids.iter().map(|id| id.len() + SHARED_BYTES).sum::<usize>();
        self
    }

    fn principal(self, principal: Option<&Principal>) -> Self {
        match principal {
            Some(principal) => self.ids([&principal.kind, &principal.id]),
            None => self,
        }
    }

    fn execution(self, execution: Option<&Execution>) -> Self {
        match execution {
            Some(execution) => self.ids([&execution.token]),
            None => self,
        }
    }

    fn payloads<const N: usize>(mut self, payloads: [&Option<Payload>; N]) -> Self {
        self.0 += payloads.into_iter().flatten().map(|payload| payload.as_json().len() + SHARED_BYTES).sum::<usize>();
        self
    }

    fn texts<const N: usize>(mut self, texts: [&Option<Text>; N]) -> Self {
        self.0 += texts.into_iter().flatten().map(|text| text.len() + SHARED_BYTES).sum::<usize>();
        self
    }
}

/// About how many bytes a run takes up with its entries in the orders.
pub(crate) fn weight_of_run(run: &Run) -> u64 {
    Weight::of::<Run>(SLOT_BYTES + 3 * ORDER_ENTRY_BYTES)
        .ids([&run.project_id, &run.id, &run.workflow_id])
        .principal(Some(&run.requested_by_principal))
        .execution(run.execution.as_ref())
        .payloads([&run.input, &run.output, &run.source])
        .texts([&run.error])
        .0 as u64
}

/// About how many bytes a node run takes up with its place in its run.
pub(crate) fn weight_of_node(node: &NodeRun) -> u64 {
    Weight::of::<NodeRun>(SLOT_BYTES + size_of::<(NodePlace, usize)>())
        .ids([&node.project_id, &node.id, &node.workflow_run_id, &node.workflow_id, &node.node_type, &node.node_id, &node.node_key])
        .payloads([&node.input, &node.output])
        .texts([&node.error])
        .0 as u64
}

/// About how many bytes an agent run takes up with its entries in the orders.
pub(crate) fn weight_of_agent(agent: &AgentRun) -> u64 {
    Weight::of::<AgentRun>(3 * ORDER_ENTRY_BYTES)
        .ids([&agent.project_id, &agent.node_run_id, &agent.agent_id])
        .principal(agent.execution_principal.as_ref())
        .execution(agent.execution.as_ref())
        .payloads([&agent.usage, &agent.trace, &agent.diagnostics])
        .texts([&agent.prompt, &agent.model_id, &agent.finish_reason, &agent.error])
        .0 as u64
}
