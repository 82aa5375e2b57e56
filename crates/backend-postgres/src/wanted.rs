//! What a group of commands needs: which locks are taken, and which records are locked and loaded, before it is decided.

use std::collections::{BTreeMap, BTreeSet};

use runledger_core::transition::Scope;
use runledger_core::{AnswerForm, Command, EndedFilter, Id};
use xxhash_rust::xxh3::xxh3_64;

use crate::statement::Statement;

/// The key of a record: its project and id.
pub(crate) type Key = (Id, Id);

/// Past this many new keys the whole project is locked instead of each of them: the server's table of locks is finite.
const MAX_NEW_KEYS: usize = 256;

/// What an advisory lock is about. All transactions take them in this order, so that no two wait for each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum About {
    /// Everything: shared by every transaction that writes, alone for an import.
    Store,
    /// The keys of a project: shared by those who lock single new keys, alone for those who make very many.
    Keys,
    /// Which runs of a project are queued: shared by those who queue, alone for a claim, which may not overlook one.
    QueuedRuns,
    /// Which agent runs of a project are queued.
    QueuedAgents,
    /// Which runs of a project have ended: shared by those who end or delete one, alone for a purge.
    EndedRuns,
    /// A run that may be made.
    NewRun,
    /// A node run that may be made.
    NewNode,
    /// An agent run that may be made.
    NewAgent,
}

/// The claims of a group that draw from the same queue.
#[derive(Debug, Default)]
pub(crate) struct Claims {
    /// Whether one of them answers the record whole.
    pub(crate) is_whole: bool,
}

/// Claims by their project and the workflows or agents that they name.
pub(crate) type ClaimsByQueue = BTreeMap<(Id, Option<Vec<Id>>), Claims>;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Wanted {
    locks: BTreeMap<(About, i64), bool>,
    new_keys: BTreeMap<Id, BTreeSet<(About, i64)>>,
    /// Runs, and whether their large values are needed.
    pub(crate) runs: BTreeMap<Key, bool>,
    pub(crate) nodes: BTreeMap<Key, bool>,
    pub(crate) agents: BTreeMap<Key, bool>,
    /// Runs whose node runs and agent runs are needed.
    pub(crate) trees: BTreeSet<Key>,
    pub(crate) run_claims: ClaimsByQueue,
    pub(crate) agent_claims: ClaimsByQueue,
    /// How many claims of runs and of agent runs there are.
    pub(crate) claim_counts: [usize; 2],
    /// Purges, and how many runs each looks at.
    pub(crate) purges: Vec<(EndedFilter, usize)>,
}

/// A number for an advisory lock. Two things with one number wait for each other needlessly, and no more.
fn number(schema: &str, about: About, project: &str, id: &str) -> i64 {
    // No identifier holds a NUL.
    xxh3_64(format!("runledger\0{schema}\0{}\0{project}\0{id}", about as u8).as_bytes()) as i64
}

/// The lock under which a schema is made and migrated.
pub(crate) fn migration_lock(schema: &str) -> i64 {
    xxh3_64(format!("runledger\0{schema}\0migration").as_bytes()) as i64
}

/// The lock that those who wait for something to be queued hold, so that others know of them.
pub(crate) fn waiting_lock(schema: &str) -> i64 {
    xxh3_64(format!("runledger\0{schema}\0waiting").as_bytes()) as i64
}

/// Notes that a record is needed, and whether with its large values.
pub(crate) fn want(records: &mut BTreeMap<Key, bool>, project: &Id, id: &Id, is_whole: bool) {
    *records.entry((project.clone(), id.clone())).or_default() |= is_whole;
}

impl Wanted {
    /// What commands need; `None` stands for everything.
    pub(crate) fn new(schema: &str, commands: Option<&[&Command]>) -> Wanted {
        let mut wanted = Wanted::default();
        wanted.lock(schema, About::Store, "", commands.is_none());
        for command in commands.unwrap_or_default() {
            wanted.add(schema, command);
        }
        // What other commands of the group name may be purged all the same.
        for (filter, _) in &wanted.purges {
            wanted.trees.extend(wanted.runs.keys().filter(|(project, _)| *project == filter.project_id).cloned());
        }
        for (project, keys) in std::mem::take(&mut wanted.new_keys) {
            let are_many = keys.len() > MAX_NEW_KEYS;
            wanted.lock(schema, About::Keys, &project, are_many);
            if !are_many {
                wanted.locks.extend(keys.into_iter().map(|key| (key, true)));
            }
        }
        wanted
    }

    fn lock(&mut self, schema: &str, about: About, project: &str, is_alone: bool) {
        *self.locks.entry((about, number(schema, about, project, ""))).or_default() |= is_alone;
    }

    fn lock_new(&mut self, schema: &str, about: About, project: &Id, id: &Id) {
        self.new_keys.entry(project.clone()).or_default().insert((about, number(schema, about, project, id)));
    }

    fn add(&mut self, schema: &str, command: &Command) {
        let project = command.project_id();
        let is_whole = command.answer_form() == AnswerForm::Record;
        match command {
            Command::QueueRun(_) => self.lock(schema, About::QueuedRuns, project, false),
            Command::CreateAgent(_) => self.lock(schema, About::QueuedAgents, project, false),
            Command::FinishRun(_) | Command::CancelRun(_) | Command::DeleteRun(_) => self.lock(schema, About::EndedRuns, project, false),
            _ => {}
        }
        match command.scope() {
            Scope::Run(id) => {
                if matches!(command, Command::QueueRun(_) | Command::StartRun(_)) {
                    self.lock_new(schema, About::NewRun, project, id);
                }
                want(&mut self.runs, project, id, is_whole);
                if matches!(command, Command::DeleteRun(_)) {
                    self.trees.insert((project.clone(), id.clone()));
                }
            }
            Scope::RunTree(id) => {
                want(&mut self.runs, project, id, is_whole);
                self.trees.insert((project.clone(), id.clone()));
            }
            Scope::Node(id) => want(&mut self.nodes, project, id, is_whole),
            Scope::NewNode { run, id } => {
                self.lock_new(schema, About::NewNode, project, id);
                want(&mut self.runs, project, run, false);
                want(&mut self.nodes, project, id, false);
            }
            Scope::Agent(id) => want(&mut self.agents, project, id, is_whole),
            Scope::NewAgent { node_run, .. } => {
                self.lock_new(schema, About::NewAgent, project, node_run);
                want(&mut self.nodes, project, node_run, false);
                want(&mut self.agents, project, node_run, false);
            }
            Scope::NextRun(workflows) => {
                self.lock(schema, About::QueuedRuns, project, true);
                self.run_claims.entry((project.clone(), workflows)).or_default().is_whole |= is_whole;
                self.claim_counts[0] += 1;
            }
            Scope::NextAgent(agents) => {
                self.lock(schema, About::QueuedAgents, project, true);
                self.agent_claims.entry((project.clone(), agents)).or_default().is_whole |= is_whole;
                self.claim_counts[1] += 1;
            }
            Scope::EndedRuns(filter, limit) => {
                self.lock(schema, About::EndedRuns, project, true);
                self.purges.push((filter, limit + 1));
            }
        }
    }

    /// Whether some of the records to be locked are known only once the store was asked.
    pub(crate) fn must_look_first(&self) -> bool {
        !self.run_claims.is_empty() || !self.agent_claims.is_empty() || !self.purges.is_empty()
    }

    /// Takes the advisory locks, in their order.
    pub(crate) fn take_locks(&self) -> Statement<'static> {
        let (numbers, alone) = self.locks.iter().map(|((_, number), alone)| (Some(*number), *alone)).unzip();
        Statement::new(
            "SELECT CASE WHEN k.alone THEN pg_advisory_xact_lock(k.number)::text ELSE pg_advisory_xact_lock_shared(k.number)::text END \
             FROM unnest($1::bigint[], $2::boolean[]) AS k(number, alone)",
        )
        .bigs(numbers)
        .flags(alone)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use runledger_core::{ClaimRun, Execution, Payload, QueueRun, Time};

    #[test]
    fn very_many_new_keys_take_one_lock() {
        let queue = |n: usize| Command::from(QueueRun::new("p", format!("r{n}"), "w", Payload::from_json("1").unwrap()));
        let few: Vec<Command> = (0..10).map(queue).collect();
        let many: Vec<Command> = (0..1000).map(queue).collect();
        let count = |commands: &[Command]| Wanted::new("s", Some(&commands.iter().collect::<Vec<_>>())).locks.len();
        // Those on the store, the keys and the queue of the project, and one on each key.
        assert_eq!((count(&few), count(&many)), (13, 3));
    }

    #[test]
    fn a_claim_has_the_queue_alone_and_those_who_queue_share_it() {
        let queue = Command::from(QueueRun::new("p", "r", "w", Payload::from_json("1").unwrap()));
        let claim = Command::from(ClaimRun::new("p", Execution::new("t", Time::MIN)));
        let alone = |commands: &[&Command]| {
            let wanted = Wanted::new("s", Some(commands));
            wanted.locks.iter().find(|((about, _), _)| *about == About::QueuedRuns).map(|(_, alone)| *alone)
        };
        assert_eq!(alone(&[&queue]), Some(false));
        assert_eq!(alone(&[&claim]), Some(true));
        assert_eq!(alone(&[&queue, &claim]), Some(true));
    }
}
