//! The export of one run, for a ticket: all that is under it, in one state, without reading the rest of the store.

use std::io::Write;

use crate::transfer::StreamWriter;
use crate::*;

/// How often a run is read again that changes while it is read.
const TRIES: u32 = 20;

impl Ledger {
    /// Writes one run, its node runs and their agent runs as a stream, which imports like any other.
    ///
    /// It is one state: the states of all records are read before and after, until nothing changed in between.
    ///
    /// # Errors
    /// `not_found` when there is no such run; `busy` when it changes faster than it is read; `io` when the output can't be
    /// written; and those of the store.
    pub fn export_run(&self, project_id: impl Into<Id>, id: impl Into<Id>, output: &mut dyn Write) -> Result<Counts> {
        let (project, id) = (project_id.into(), id.into());
        let mut before = Family::read(self, &project, &id, AnswerForm::State)?;
        for _ in 0..TRIES {
            let whole = Family::read(self, &project, &id, AnswerForm::Record)?;
            let after = Family::read(self, &project, &id, AnswerForm::State)?;
            if before == after {
                return whole.write(output);
            }
            before = after;
        }
        Err(Error::refused(Code::Busy, Entity::Run, &project, &id, "it changes faster than it can be read"))
    }
}

/// A run and all that is under it.
#[derive(PartialEq)]
struct Family {
    run: Run,
    nodes: Vec<NodeRun>,
    agents: Vec<AgentRun>,
}

impl Family {
    fn read(ledger: &Ledger, project: &Id, id: &Id, answer: AnswerForm) -> Result<Family> {
        let run = ledger.get_run(GetRun::new(project, id).with_answer(answer))?;
        let run = run.ok_or_else(|| Error::refused(Code::NotFound, Entity::Run, project, id, "there is none"))?;
        let list = ListNodes::new(project).with_workflow_run_id(id).with_answer(answer);
        let mut nodes = ledger.walk_nodes(list).collect::<Result<Vec<_>>>()?;
        nodes.sort_unstable_by(|a, b| a.id.cmp(&b.id));
        let mut agents = Vec::new();
        for node in &nodes {
            agents.extend(ledger.get_agent(GetAgent::new(project, &node.id).with_answer(answer))?);
        }
        Ok(Family { run, nodes, agents })
    }

    fn write(self, output: &mut dyn Write) -> Result<Counts> {
        let mut stream = StreamWriter::new(output)?;
        stream.record(&ExportRecord::Run(self.run))?;
        self.nodes.into_iter().try_for_each(|node| stream.record(&ExportRecord::Node(node)))?;
        self.agents.into_iter().try_for_each(|agent| stream.record(&ExportRecord::Agent(agent)))?;
        stream.end()
    }
}
