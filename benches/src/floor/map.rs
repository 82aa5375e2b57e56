//! Two maps of shared records.

use std::collections::BTreeMap;
use std::sync::Arc;

use runledger::{AnswerForm, Command, Id, NodeRun, Record, Run};

use super::{Floor, rules, unknown};
use crate::Result;

/// Records by id, without a lock, an order or a counter.
#[derive(Debug, Default)]
pub struct Map {
    runs: BTreeMap<Id, Arc<Run>>,
    nodes: BTreeMap<Id, Arc<NodeRun>>,
    /// The answer to the last command, which the caller would have.
    answered: Option<Answered>,
}

#[derive(Debug)]
#[allow(dead_code, reason = "an answer is made, and nobody reads it")]
enum Answered {
    Run(Box<Run>),
    Node(Box<NodeRun>),
}

fn answer<R: Record>(record: &Arc<R>, form: AnswerForm) -> Box<R> {
    let record = R::clone(record);
    Box::new(if form == AnswerForm::State { record.into_state() } else { record })
}

impl Map {
    fn run(&self, id: &Id) -> Result<&Arc<Run>> {
        self.runs.get(id).ok_or_else(|| "there is no such run".into())
    }

    fn change(&mut self, id: &Id, form: AnswerForm, change: impl FnOnce(&mut Run) -> Result<()>) -> Result<()> {
        let stored = self.runs.get_mut(id).ok_or("there is no such run")?;
        let mut run = Run::clone(stored);
        change(&mut run)?;
        *stored = Arc::new(run);
        self.answered = Some(Answered::Run(answer(stored, form)));
        Ok(())
    }

    fn one(&mut self, command: Command) -> Result<()> {
        let form = command.answer_form();
        match command {
            Command::QueueRun(c) => {
                let run = Arc::new(rules::queue(c)?);
                self.answered = Some(Answered::Run(answer(&run, form)));
                match self.runs.insert(run.id.clone(), run) {
                    None => Ok(()),
                    Some(_) => Err("there is such a run".into()),
                }
            }
            Command::StartRun(c) => self.change(&c.id.clone(), form, |run| rules::start(run, c)),
            Command::ConfirmRun(c) => self.change(&c.id, form, |run| rules::confirm(run, &c)),
            Command::FinishRun(c) => self.change(&c.id.clone(), form, |run| rules::finish(run, c)),
            Command::StartNode(c) => {
                let run = self.run(&c.workflow_run_id)?;
                let node = Arc::new(rules::start_node(run, self.nodes.contains_key(&c.id), c)?);
                self.answered = Some(Answered::Node(answer(&node, form)));
                self.nodes.insert(node.id.clone(), node);
                Ok(())
            }
            Command::FinishNode(c) => {
                let stored = self.nodes.get(&c.id).ok_or("there is no such node run")?;
                let mut node = NodeRun::clone(stored);
                rules::finish_node(&mut node, self.run(&stored.workflow_run_id)?, c)?;
                let node = Arc::new(node);
                self.answered = Some(Answered::Node(answer(&node, form)));
                self.nodes.insert(node.id.clone(), node);
                Ok(())
            }
            other => Err(unknown(&other)),
        }
    }
}

impl Floor for Map {
    fn carry_out(&mut self, commands: &mut dyn Iterator<Item = Command>) -> Result<()> {
        for command in commands {
            self.one(command)?;
        }
        Ok(())
    }
}
