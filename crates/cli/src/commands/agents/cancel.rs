//! `runledger agents cancel`.

use clap::Args;
use runledger::{Answer, AnswerForm, CancelAgent, Text};

use crate::context::{Context, Form};
use crate::outcome::{Outcome, Result};
use crate::screen::rows::print_table;

/// Cancel an agent run that has not ended
#[derive(Args)]
pub(crate) struct Cancel {
    /// The node run that it executes
    node_run_id: String,
    /// The error that it gets
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

impl Cancel {
    pub(crate) fn run(self, cx: &Context) -> Result<Outcome> {
        let agent = cx.changing(None, |ledger| {
            let mut cancel = CancelAgent::new(cx.project(ledger)?, &self.node_run_id).with_answer(AnswerForm::State);
            cancel.error = self.reason.as_deref().map(Text::from);
            Ok(ledger.cancel_agent(cancel)?)
        })?;
        let mut out = cx.out();
        match out.form {
            Form::Table => print_table(cx, &mut out, [&agent])?,
            Form::Json | Form::Ndjson => out.json(&Answer::from(agent).to_json())?,
        }
        out.flush()?;
        Ok(Outcome::Done)
    }
}
