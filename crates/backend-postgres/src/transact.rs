//! A transaction that writes: its records are locked and loaded at once, changed in memory, and written at once.

use std::collections::HashMap;

use runledger_core::codec::StateCodec;
use runledger_core::{
    AgentRun, AnswerForm, Deleted, EndedFilter, Error, ExportRecord, Id, Listed, NodeRun, Put, Result, Run, Status, StatusSet, Stored,
    Time, Tx,
};

use crate::error::{Fault, Outcome};
use crate::flush::Changes;
use crate::overlay::Overlay;
use crate::pool::{Connector, Session};
use crate::rows::Kept;
use crate::statement::Statement;
use crate::wanted::Key;

/// How much of a queue, or of the ended runs, was looked at.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    /// The last place that was looked at.
    pub(crate) last: Option<(Time, Id)>,
    /// Whether there may be more after it.
    pub(crate) is_cut: bool,
}

impl Seen {
    /// Whether everything up to this place is known; `None` stands for the end.
    fn reaches(&self, place: Option<&(Time, Id)>) -> bool {
        !self.is_cut || place.is_some_and(|place| self.last.as_ref().is_some_and(|last| place <= last))
    }
}

/// A queue: a project, and the workflows or agents that are drawn from.
pub(crate) type Queue = (Id, Option<Vec<Id>>);

/// The ended runs that a purge is about: the fields of its filter.
pub(crate) type Ended = (Id, Time, Vec<Status>, Option<Vec<Id>>);

pub(crate) fn ended_key(filter: &EndedFilter) -> Ended {
    (filter.project_id.clone(), filter.finished_before, filter.statuses.iter().collect(), filter.workflow_ids.clone())
}

/// A transaction that may touch anything: its records are loaded and written in portions.
#[derive(Debug, Default)]
pub(crate) struct Bulk {
    /// The tables that are known to be empty in the store: runs, node runs, agent runs.
    pub(crate) empty: [bool; 3],
    /// About how much waits to be written, in bytes.
    pub(crate) pending_bytes: usize,
}

/// A bulk writes once about so much waits.
const MAX_PENDING_BYTES: usize = 4 << 20;

/// A bulk writes once so many records wait.
const MAX_PENDING: usize = 2000;

/// See [`Tx`].
pub(crate) struct PostgresTx<'s> {
    pub(crate) connector: &'s Connector,
    pub(crate) session: &'s Session,
    /// The shard on which this handle counts.
    shard: i16,
    pub(crate) runs: Overlay<Run>,
    pub(crate) nodes: Overlay<NodeRun>,
    pub(crate) agents: Overlay<AgentRun>,
    /// The node runs under each run of which all were loaded, and those that were put.
    children: HashMap<Key, Vec<Key>>,
    pub(crate) run_queues: HashMap<Queue, Seen>,
    pub(crate) agent_queues: HashMap<Queue, Seen>,
    pub(crate) ended: HashMap<Ended, Seen>,
    /// The server's time, where it is the clock.
    pub(crate) time: Option<Time>,
    pub(crate) bulk: Option<Bulk>,
    /// What ended the transaction, where it is not an error of the contract.
    pub(crate) fault: Option<Fault>,
}

impl<'s> PostgresTx<'s> {
    pub(crate) fn new(connector: &'s Connector, session: &'s Session, shard: i16) -> Self {
        PostgresTx {
            connector,
            session,
            shard,
            runs: Overlay::new(),
            nodes: Overlay::new(),
            agents: Overlay::new(),
            children: HashMap::new(),
            run_queues: HashMap::new(),
            agent_queues: HashMap::new(),
            ended: HashMap::new(),
            time: None,
            bulk: None,
            fault: None,
        }
    }

    /// Hands an outcome on; a fault that is no error of the contract is kept, so that the transaction can be made again.
    fn told<T>(&mut self, outcome: Outcome<T>) -> Result<T> {
        outcome.map_err(|fault| match fault {
            Fault::Ledger(error) => error,
            fault => {
                self.fault = Some(fault);
                Error::corrupt("the transaction was ended")
            }
        })
    }

    /// Notes a node run under its run.
    pub(crate) fn add_child(&mut self, node: &NodeRun) {
        let run = (node.project_id.clone(), node.workflow_run_id.clone());
        self.children.entry(run).or_default().push((node.project_id.clone(), node.id.clone()));
    }

    /// The keys of the node runs that are under a run now.
    fn children_of(&self, run: &Run) -> Vec<Key> {
        let mut keys = self.children.get(&(run.project_id.clone(), run.id.clone())).cloned().unwrap_or_default();
        keys.sort_unstable();
        keys.dedup();
        keys.retain(|key| self.nodes.now(key).flatten().is_some_and(|node| node.record.workflow_run_id == run.id));
        keys
    }

    /// What the transaction changes.
    pub(crate) fn changes(&self) -> Changes<'_> {
        let mut changes = Changes::new(self.shard);
        changes.add(&self.runs);
        changes.add(&self.nodes);
        changes.add(&self.agents);
        changes
    }

    /// Writes what a bulk has gathered, when it is enough.
    fn bulk_put(&mut self, bytes: usize) -> Outcome<()> {
        let Some(bulk) = &mut self.bulk else { return Ok(()) };
        bulk.pending_bytes += bytes;
        if bulk.pending_bytes < MAX_PENDING_BYTES && self.runs.len() + self.nodes.len() + self.agents.len() < MAX_PENDING {
            return Ok(());
        }
        self.write_gathered()
    }

    /// Writes what a bulk has gathered, and forgets it.
    pub(crate) fn write_gathered(&mut self) -> Outcome<()> {
        {
            let changes = self.changes();
            let statements = changes.statements();
            if !statements.is_empty() {
                self.connector.ask(self.session, &statements)?;
            }
        }
        self.forget();
        Ok(())
    }

    /// Forgets the records, which the server has now.
    fn forget(&mut self) {
        self.runs.clear();
        self.nodes.clear();
        self.agents.clear();
        self.children.clear();
        if let Some(bulk) = &mut self.bulk {
            bulk.pending_bytes = 0;
        }
    }

    fn next<R: Kept + Listed>(
        &self,
        overlay: &Overlay<R>,
        queue: &Queue,
        seen: Option<&Seen>,
        form: AnswerForm,
    ) -> Outcome<Option<Stored<R>>> {
        let (project, groups) = queue;
        let in_groups = |record: &R| match groups {
            None => true,
            Some(ids) => record.counted_under().is_some_and(|id| ids.binary_search(id).is_ok()),
        };
        let queued = overlay.slots().filter_map(|slot| slot.now.as_ref()).map(|stored| &stored.record).filter(|record| {
            StatusSet::only(Status::Queued).contains(record.status()) && record.project_id() == project && in_groups(record)
        });
        let first = queued.map(|record| (record.position().time, record.key_id().clone())).min();
        let seen = seen.ok_or_else(|| Error::corrupt("a queue was not looked at"))?;
        if !seen.reaches(first.as_ref()) {
            // Those that were first a moment ago were taken; which are first now, only a new look can say.
            return Err(Fault::Again);
        }
        match first {
            Some((_, id)) => Ok(overlay.answer(&(project.clone(), id), form)?),
            None => Ok(None),
        }
    }

    fn take_ended(&self, filter: &EndedFilter, limit: usize) -> Outcome<Vec<Stored<Run>>> {
        let matching = self.runs.slots().filter_map(|slot| slot.now.as_ref()).filter(|stored| filter.matches(&stored.record));
        let mut ended: Vec<((Time, Id), &Stored<Run>)> =
            matching.filter_map(|stored| Some(((stored.record.finished_at?, stored.record.id.clone()), stored))).collect();
        ended.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        ended.truncate(limit);
        let last = if ended.len() < limit { None } else { ended.last().map(|(place, _)| place) };
        let seen = self.ended.get(&ended_key(filter)).ok_or_else(|| Error::corrupt("the ended runs were not looked at"))?;
        if !seen.reaches(last) {
            return Err(Fault::Again);
        }
        Ok(ended.into_iter().map(|(_, stored)| stored.clone()).collect())
    }

    fn remove_all(&mut self) -> Outcome<()> {
        let tables = ["counter", "large_value", "agent_run", "node_run", "run"];
        let statements: Vec<_> = tables.iter().map(|table| Statement::new(format!("DELETE FROM @.{table}"))).collect();
        // It may take longer than a statement otherwise may.
        let unlimited = std::iter::once(Statement::simple("SET LOCAL statement_timeout = 0"));
        self.connector.ask_patiently(self.session, &unlimited.chain(statements).collect::<Vec<_>>())?;
        self.forget();
        if let Some(bulk) = &mut self.bulk {
            bulk.empty = [true; 3];
        }
        Ok(())
    }
}

/// About how many bytes a record takes on its way to the server.
fn size_bytes<R: StateCodec>(record: &R) -> usize {
    const STATE_BYTES: usize = 300;
    STATE_BYTES + (0..R::LARGE.len()).filter_map(|slot| record.large(slot)).map(str::len).sum::<usize>()
}

impl Tx for PostgresTx<'_> {
    fn run(&mut self, project: &Id, id: &Id, form: AnswerForm) -> Result<Option<Stored<Run>>> {
        let key = (project.clone(), id.clone());
        let ready = self.ready_run(&key);
        self.told(ready)?;
        self.runs.answer(&key, form)
    }

    fn node(&mut self, project: &Id, id: &Id, form: AnswerForm) -> Result<Option<Stored<NodeRun>>> {
        let key = (project.clone(), id.clone());
        let ready = self.ready_node(&key);
        self.told(ready)?;
        self.nodes.answer(&key, form)
    }

    fn agent(&mut self, project: &Id, node_run_id: &Id, form: AnswerForm) -> Result<Option<Stored<AgentRun>>> {
        let key = (project.clone(), node_run_id.clone());
        let ready = self.ready_agent(&key);
        self.told(ready)?;
        self.agents.answer(&key, form)
    }

    fn next_run(&mut self, project: &Id, workflow_ids: Option<&[Id]>, form: AnswerForm) -> Result<Option<Stored<Run>>> {
        let queue = (project.clone(), workflow_ids.map(<[Id]>::to_vec));
        let next = self.next(&self.runs, &queue, self.run_queues.get(&queue), form);
        self.told(next)
    }

    fn next_agent(&mut self, project: &Id, agent_ids: Option<&[Id]>, form: AnswerForm) -> Result<Option<Stored<AgentRun>>> {
        let queue = (project.clone(), agent_ids.map(<[Id]>::to_vec));
        let next = self.next(&self.agents, &queue, self.agent_queues.get(&queue), form);
        self.told(next)
    }

    fn nodes_of(&mut self, run: &Stored<Run>) -> Result<Vec<Stored<NodeRun>>> {
        self.children_of(&run.record).iter().filter_map(|key| self.nodes.answer(key, AnswerForm::State).transpose()).collect()
    }

    fn ended_runs(&mut self, filter: &EndedFilter, limit: usize) -> Result<Vec<Stored<Run>>> {
        let ended = self.take_ended(filter, limit);
        self.told(ended)
    }

    fn put_run(&mut self, put: &Put<Run>) -> Result<()> {
        let record = &put.after.record;
        self.runs.put((record.project_id.clone(), record.id.clone()), put);
        let written = self.bulk_put(size_bytes(record));
        self.told(written)
    }

    fn put_node(&mut self, put: &Put<NodeRun>) -> Result<()> {
        let record = &put.after.record;
        if put.before.is_none() && self.bulk.is_none() {
            self.add_child(record);
            // It has no agent run yet, which is known without asking.
            self.agents.load_absent((record.project_id.clone(), record.id.clone()));
        }
        self.nodes.put((record.project_id.clone(), record.id.clone()), put);
        let written = self.bulk_put(size_bytes(record));
        self.told(written)
    }

    fn put_agent(&mut self, put: &Put<AgentRun>) -> Result<()> {
        let record = &put.after.record;
        self.agents.put((record.project_id.clone(), record.node_run_id.clone()), put);
        let written = self.bulk_put(size_bytes(record));
        self.told(written)
    }

    fn delete_run(&mut self, run: &Stored<Run>) -> Result<Deleted> {
        let mut deleted = Deleted { runs: 1, nodes: 0, agents: 0 };
        for node in self.children_of(&run.record) {
            if self.agents.now(&node).flatten().is_some() {
                self.agents.remove(node.clone());
                deleted.agents += 1;
            }
            self.nodes.remove(node);
            deleted.nodes += 1;
        }
        self.runs.remove((run.record.project_id.clone(), run.record.id.clone()));
        Ok(deleted)
    }

    fn clear(&mut self) -> Result<()> {
        let cleared = self.remove_all();
        self.told(cleared)
    }

    fn expect(&mut self, records: &[ExportRecord]) -> Result<()> {
        let loaded = self.load_ahead(records);
        self.told(loaded)
    }

    fn mark(&mut self) -> Result<bool> {
        self.runs.mark();
        self.nodes.mark();
        self.agents.mark();
        Ok(true)
    }

    fn undo(&mut self) -> Result<()> {
        self.runs.undo();
        self.nodes.undo();
        self.agents.undo();
        Ok(())
    }

    fn server_time(&mut self) -> Result<Option<Time>> {
        Ok(self.time)
    }
}
