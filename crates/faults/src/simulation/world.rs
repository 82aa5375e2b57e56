//! The stores and their shadow: every command goes through here, and is checked.

use std::collections::VecDeque;
use std::hash::Hasher;

use runledger_core::{
    AgentRun, Answer, AnswerForm, ClaimAgent, ClaimRun, Code, Command, Error, Execution, GetAgent, GetNode, GetRun, Id, Ledger, ListNodes,
    NodeRun, Purged, Request, Run, Status, Time,
};
use xxhash_rust::xxh3::Xxh3Default;

use super::shadow::{Key, Shadow, must, token_of};
use super::stage::{START_US, Stage};
use super::{Plan, Tally};

/// How many of the last commands are told when something is wrong.
const TOLD: usize = 40;

pub(super) type Checked<T> = Result<T, String>;

/// A step that was made, for a report.
struct Told {
    at_us: i64,
    handle: usize,
    commands: Vec<Command>,
    refused: Option<Code>,
}

/// The stores, what is known of them, and the time.
pub(super) struct World<'s> {
    pub(super) stage: &'s Stage,
    pub(super) plan: Plan,
    pub(super) ledgers: Vec<Ledger>,
    pub(super) shadow: Shadow,
    pub(super) tally: Tally,
    pub(super) now_us: i64,
    history: Xxh3Default,
    told: VecDeque<Told>,
}

pub(super) fn time(us: i64) -> Time {
    Time::from_unix_us(us).expect("the years of a simulation are few")
}

impl<'s> World<'s> {
    pub(super) fn new(stage: &'s Stage, plan: Plan) -> Checked<World<'s>> {
        let ledgers = (0..stage.handles).map(|_| stage.open()).collect::<Result<_, Error>>().map_err(|error| error.to_string())?;
        Ok(World {
            stage,
            plan,
            ledgers,
            shadow: Shadow::default(),
            tally: Tally::default(),
            now_us: START_US,
            history: Xxh3Default::new(),
            told: VecDeque::new(),
        })
    }

    /// The time that now is, by a clock that differs by so much.
    pub(super) fn clock(&self, skew_us: i64) -> Time {
        time(self.now_us + skew_us)
    }

    pub(super) fn advance_to(&mut self, now_us: i64) {
        self.now_us = self.now_us.max(now_us);
        self.stage.clock.set(time(self.now_us));
    }

    /// What happened last, for a report.
    pub(super) fn told(&self) -> String {
        let words = |told: &Told| {
            let commands: Vec<String> = told.commands.iter().map(Command::to_json).collect();
            let outcome = told.refused.map_or("ok", Code::as_str);
            format!("{} on handle {}: {} -> {outcome}", time(told.at_us), told.handle, commands.join(" + "))
        };
        self.told.iter().map(words).collect::<Vec<_>>().join("\n")
    }

    pub(super) fn finish(mut self) -> Tally {
        self.tally.history = self.history.digest();
        self.tally.virtual_s = ((self.now_us - START_US) / 1_000_000).unsigned_abs();
        self.tally
    }

    /// Carries a command out on a handle and checks everything that it could touch. A refusal is an answer like any other.
    pub(super) fn command(&mut self, handle: usize, command: impl Into<Command>) -> Checked<Result<Answer, Code>> {
        let command = command.into();
        let answer = self.ledgers[handle].request(Request::Command(command.clone()));
        self.note(handle, vec![command.clone()], answer.as_ref().err().map(Error::code));
        self.check(handle, &command, &answer).map_err(|what| format!("{} -> {answer:?}: {what}", command.to_json()))?;
        Ok(answer.map_err(|error| error.code()))
    }

    /// Carries two commands out as one step: the second can only be refused for what is in `second_refused`.
    pub(super) fn pair(&mut self, handle: usize, pair: [Command; 2], second_refused: Option<Code>) -> Checked<Result<(), Code>> {
        let answer = self.ledgers[handle].batch(pair.to_vec());
        self.note(handle, pair.to_vec(), answer.as_ref().err().map(Error::code));
        let expected = self.shadow.verdict(&pair[0]).map(|code| (code, 0)).or(second_refused.map(|code| (code, 1)));
        let found = answer.as_ref().err().map(|error| (error.code(), error.details().index.unwrap_or(usize::MAX)));
        must(found == expected, || format!("a batch of {pair:?} is answered {answer:?}, not {expected:?}"))?;
        match answer {
            Ok(answers) => {
                for (command, answer) in pair.iter().zip(answers) {
                    self.check(handle, command, &Ok(answer)).map_err(|what| format!("{}: {what}", command.to_json()))?;
                }
                Ok(Ok(()))
            }
            Err(error) => {
                pair.iter().try_for_each(|command| self.check_unchanged(handle, command))?;
                Ok(Err(error.code()))
            }
        }
    }

    fn note(&mut self, handle: usize, commands: Vec<Command>, refused: Option<Code>) {
        self.tally.steps += 1;
        match refused {
            None => commands.iter().for_each(|command| *self.tally.done.entry(command.op()).or_default() += 1),
            Some(code) => *self.tally.refused.entry(code.as_str()).or_default() += 1,
        }
        self.history.write_i64(self.now_us);
        commands.iter().for_each(|command| self.history.write(command.op().as_bytes()));
        self.history.write(refused.map_or("ok", Code::as_str).as_bytes());
        if self.told.len() == TOLD {
            self.told.pop_front();
        }
        self.told.push_back(Told { at_us: self.now_us, handle, commands, refused });
    }

    fn check(&mut self, handle: usize, command: &Command, answer: &Result<Answer, Error>) -> Checked<()> {
        let expected = self.shadow.verdict(command);
        let found = answer.as_ref().err().map(Error::code);
        must(found == expected, || format!("the answer must be {}", expected.map_or("a success".into(), |code| code.to_string())))?;
        let Ok(answer) = answer else { return self.check_unchanged(handle, command) };
        match (command, answer) {
            (Command::ClaimRun(claim), Answer::MaybeRun(run)) => self.check_claim(handle, claim, run.as_ref()),
            (Command::ClaimAgent(claim), Answer::MaybeAgent(agent)) => self.check_agent_claim(handle, claim, agent.as_ref()),
            (Command::PurgeRuns(_), Answer::Purged(purged)) => self.check_purge(handle, command, purged),
            (Command::DeleteRun(delete), Answer::Deleted(_)) => {
                self.forget(handle, &(delete.project_id.clone(), delete.id.clone())).map(drop)
            }
            (Command::CancelRun(cancel), Answer::Run(run)) => {
                let key = (cancel.project_id.clone(), cancel.id.clone());
                self.check_run(handle, command, run)?;
                self.check_tree_is_cancelled(handle, &key)
            }
            (_, Answer::Run(run)) => self.check_run(handle, command, run),
            (_, Answer::Node(node)) => self.check_node(handle, node),
            (_, Answer::Agent(agent)) => self.check_agent(handle, command, agent),
            _ => Err("the answer is of another kind".into()),
        }
    }

    pub(super) fn read_run(&self, handle: usize, key: &Key) -> Checked<Option<Run>> {
        let get = GetRun::new(&key.0, &key.1).with_answer(AnswerForm::State);
        self.ledgers[handle].get_run(get).map_err(|error| format!("a read: {error}"))
    }

    pub(super) fn read_node(&self, handle: usize, key: &Key) -> Checked<Option<NodeRun>> {
        let get = GetNode::new(&key.0, &key.1).with_answer(AnswerForm::State);
        self.ledgers[handle].get_node(get).map_err(|error| format!("a read: {error}"))
    }

    pub(super) fn read_agent(&self, handle: usize, key: &Key) -> Checked<Option<AgentRun>> {
        let get = GetAgent::new(&key.0, &key.1).with_answer(AnswerForm::State);
        self.ledgers[handle].get_agent(get).map_err(|error| format!("a read: {error}"))
    }

    /// Another handle than the one that wrote, where there are more.
    fn other(&self, handle: usize) -> usize {
        (handle + 1) % self.ledgers.len()
    }

    /// What was refused has changed nothing.
    fn check_unchanged(&self, handle: usize, command: &Command) -> Checked<()> {
        let what = || "it was refused, and a record is not as it was".to_owned();
        let handle = self.other(handle);
        match subject(command) {
            Subject::Run(key) => must(self.read_run(handle, &key)?.as_ref() == self.shadow.runs.get(&key), what),
            Subject::Node(key) => must(self.read_node(handle, &key)?.as_ref() == self.shadow.nodes.get(&key), what),
            Subject::Agent(key) => must(self.read_agent(handle, &key)?.as_ref() == self.shadow.agents.get(&key), what),
            Subject::Any => Ok(()),
        }
    }

    fn check_run(&mut self, handle: usize, command: &Command, answered: &Run) -> Checked<()> {
        let key = (answered.project_id.clone(), answered.id.clone());
        let after = self.read_run(self.other(handle), &key)?.ok_or("the run that was answered is not there")?;
        must(same_state(&after, answered), || format!("what was answered is not what is read: {after:?}"))?;
        if let Some(before) = self.shadow.runs.get(&key) {
            must(!before.status.is_terminal(), || "a run that had ended has changed".into())?;
            must(after.attempt >= before.attempt, || "the attempts have fallen".into())?;
            let grants = matches!(command, Command::StartRun(_) | Command::ClaimRun(_) | Command::ReclaimRun(_) | Command::ResumeRun(_));
            must(after.attempt == before.attempt + u32::from(grants), || "the attempt is not the next".into())?;
            let granted = granted(command);
            let owner = match command {
                Command::ConfirmRun(_) => token_of(&before.execution),
                _ => granted.map(|execution| &execution.token),
            };
            must(token_of(&after.execution) == owner, || "it is owned by another than must be".into())?;
            if let Command::ConfirmRun(confirm) = command {
                let end = before.execution.as_ref().map(|execution| execution.lease_expires_at.max(confirm.lease_expires_at));
                must(after.execution.as_ref().map(|execution| execution.lease_expires_at) == end, || {
                    "the lease ends at another time".into()
                })?;
            }
            must(before.workflow_id == after.workflow_id && before.queued_at == after.queued_at, || {
                "what never changes has changed".into()
            })?;
        } else {
            must(after.attempt <= 1, || "a new run has had attempts".into())?;
        }
        must(after.status == Status::Running || after.execution.is_none(), || "somebody owns a run that is not running".into())?;
        must(after.finished_at.is_some() == after.status.is_terminal(), || "its end does not fit its status".into())?;
        self.shadow.note_run(after);
        Ok(())
    }

    fn check_node(&mut self, handle: usize, answered: &NodeRun) -> Checked<()> {
        let key = (answered.project_id.clone(), answered.id.clone());
        let after = self.read_node(self.other(handle), &key)?.ok_or("the node run that was answered is not there")?;
        must(same_state(&after, answered), || format!("what was answered is not what is read: {after:?}"))?;
        let run = self.shadow.runs.get(&(key.0.clone(), after.workflow_run_id.clone()));
        must(run.is_some(), || "a node run is under no run".into())?;
        if let Some(before) = self.shadow.nodes.get(&key) {
            must(!before.status.is_terminal(), || "a node run that had ended has changed".into())?;
        }
        self.shadow.note_node(after);
        Ok(())
    }

    fn check_agent(&mut self, handle: usize, command: &Command, answered: &AgentRun) -> Checked<()> {
        let key = (answered.project_id.clone(), answered.node_run_id.clone());
        let after = self.read_agent(self.other(handle), &key)?.ok_or("the agent run that was answered is not there")?;
        must(same_state(&after, answered), || format!("what was answered is not what is read: {after:?}"))?;
        if let Some(before) = self.shadow.agents.get(&key) {
            must(!before.status.is_terminal(), || "an agent run that had ended has changed".into())?;
            let grants = matches!(command, Command::ClaimAgent(_) | Command::StartAgent(_) | Command::ReclaimAgent(_));
            must(after.attempt == before.attempt + u32::from(grants), || "the attempt is not the next".into())?;
            let owner = match command {
                Command::ConfirmAgent(_) => token_of(&before.execution),
                _ => granted(command).map(|execution| &execution.token),
            };
            must(token_of(&after.execution) == owner, || "it is owned by another than must be".into())?;
        }
        must(after.status == Status::Running || after.execution.is_none(), || "somebody owns an agent run that is not running".into())?;
        self.shadow.note_agent(after);
        Ok(())
    }

    fn check_claim(&mut self, handle: usize, claim: &ClaimRun, run: Option<&Run>) -> Checked<()> {
        let next = self.shadow.next_run(&claim.project_id, claim.workflow_ids.as_deref());
        let got = run.map(|run| (run.project_id.clone(), run.id.clone()));
        must(got == next, || format!("the next queued run is {next:?}"))?;
        run.map_or(Ok(()), |run| self.check_run(handle, &claim.clone().into(), run))
    }

    fn check_agent_claim(&mut self, handle: usize, claim: &ClaimAgent, agent: Option<&AgentRun>) -> Checked<()> {
        let next = self.shadow.next_agent(&claim.project_id);
        let got = agent.map(|agent| (agent.project_id.clone(), agent.node_run_id.clone()));
        must(got == next, || format!("the next queued agent run is {next:?}"))?;
        agent.map_or(Ok(()), |agent| self.check_agent(handle, &claim.clone().into(), agent))
    }

    /// A cancelled run leaves nothing active behind.
    fn check_tree_is_cancelled(&mut self, handle: usize, key: &Key) -> Checked<()> {
        for id in self.shadow.nodes_of.get(key).cloned().unwrap_or_default() {
            let node_key = (key.0.clone(), id);
            let was_active = !self.shadow.nodes[&node_key].status.is_terminal();
            let node = self.read_node(handle, &node_key)?.ok_or("a cancel has removed a node run")?;
            if was_active {
                must(node.status == Status::Cancelled, || format!("a cancel has left a node run active: {node:?}"))?;
                self.shadow.note_node(node);
            } else {
                must(self.shadow.nodes.get(&node_key) == Some(&node), || "a cancel has changed a node run that had ended".into())?;
            }
            let Some(before) = self.shadow.agents.get(&node_key) else { continue };
            let was_active = !before.status.is_terminal();
            let agent = self.read_agent(handle, &node_key)?.ok_or("a cancel has removed an agent run")?;
            if was_active {
                must(agent.status == Status::Cancelled && agent.execution.is_none(), || format!("a cancel has left {agent:?}"))?;
                self.shadow.note_agent(agent);
            } else {
                must(*before == agent, || "a cancel has changed an agent run that had ended".into())?;
            }
        }
        Ok(())
    }

    /// Of a run that was deleted nothing is left.
    fn forget(&mut self, handle: usize, key: &Key) -> Checked<u64> {
        let handle = self.other(handle);
        must(self.read_run(handle, key)?.is_none(), || "a run that was deleted is there".into())?;
        let nodes = self.shadow.forget(key);
        for node in &nodes {
            must(self.read_node(handle, node)?.is_none(), || format!("a node run is there whose run was deleted: {node:?}"))?;
            must(self.read_agent(handle, node)?.is_none(), || format!("an agent run is there whose run was deleted: {node:?}"))?;
        }
        let list = ListNodes::new(&key.0).with_workflow_run_id(&key.1).with_answer(AnswerForm::State);
        let page = self.ledgers[handle].list_nodes(list).map_err(|error| error.to_string())?;
        must(page.total == Some(0) && page.rows.is_empty(), || "node runs are listed of a run that was deleted".into())?;
        Ok(nodes.len() as u64)
    }

    fn check_purge(&mut self, handle: usize, command: &Command, purged: &Purged) -> Checked<()> {
        let Command::PurgeRuns(purge) = command else { return Ok(()) };
        let ended = |run: &Run| run.finished_at.filter(|at| run.project_id == purge.project_id && *at < purge.finished_before);
        let mut keys: Vec<(Time, Key)> = self.shadow.runs.iter().filter_map(|(key, run)| ended(run).map(|at| (at, key.clone()))).collect();
        keys.sort();
        let limit = purge.limit.map_or(usize::MAX, |limit| limit as usize);
        must(purged.has_more == (keys.len() > limit), || "whether more is left is not so".into())?;
        keys.truncate(limit);
        must(purged.runs == keys.len() as u64, || format!("{} runs had to be purged", keys.len()))?;
        let mut nodes = 0;
        for (_, key) in &keys {
            nodes += self.forget(handle, key)?;
        }
        must(purged.nodes == nodes, || format!("{nodes} node runs had to be purged"))
    }
}

fn same_state<R: runledger_core::Record>(state: &R, answered: &R) -> bool {
    let mut answered = answered.clone();
    (0..R::LARGE.len()).for_each(|slot| drop(answered.take_large(slot)));
    *state == answered
}

/// The record that a command names.
enum Subject {
    Run(Key),
    Node(Key),
    Agent(Key),
    Any,
}

fn subject(command: &Command) -> Subject {
    let run = |project: &Id, id: &Id| Subject::Run((project.clone(), id.clone()));
    let node = |project: &Id, id: &Id| Subject::Node((project.clone(), id.clone()));
    let agent = |project: &Id, id: &Id| Subject::Agent((project.clone(), id.clone()));
    match command {
        Command::QueueRun(c) => run(&c.project_id, &c.id),
        Command::StartRun(c) => run(&c.project_id, &c.id),
        Command::ReclaimRun(c) => run(&c.project_id, &c.id),
        Command::ConfirmRun(c) => run(&c.project_id, &c.id),
        Command::WaitRun(c) => run(&c.project_id, &c.id),
        Command::ResumeRun(c) => run(&c.project_id, &c.id),
        Command::FinishRun(c) => run(&c.project_id, &c.id),
        Command::CancelRun(c) => run(&c.project_id, &c.id),
        Command::DeleteRun(c) => run(&c.project_id, &c.id),
        Command::StartNode(c) => node(&c.project_id, &c.id),
        Command::WaitNode(c) => node(&c.project_id, &c.id),
        Command::FinishNode(c) => node(&c.project_id, &c.id),
        Command::CreateAgent(c) => agent(&c.project_id, &c.node_run_id),
        Command::ReclaimAgent(c) => agent(&c.project_id, &c.node_run_id),
        Command::ConfirmAgent(c) => agent(&c.project_id, &c.node_run_id),
        Command::FinishAgent(c) => agent(&c.project_id, &c.node_run_id),
        Command::CancelAgent(c) => agent(&c.project_id, &c.node_run_id),
        _ => Subject::Any,
    }
}

/// The execution that a command gives.
fn granted(command: &Command) -> Option<&Execution> {
    match command {
        Command::StartRun(c) => c.execution.as_ref(),
        Command::ClaimRun(c) => Some(&c.execution),
        Command::ReclaimRun(c) => Some(&c.execution),
        Command::ResumeRun(c) => c.execution.as_ref(),
        Command::ClaimAgent(c) => Some(&c.execution),
        Command::StartAgent(c) => Some(&c.execution),
        Command::ReclaimAgent(c) => Some(&c.execution),
        _ => None,
    }
}
