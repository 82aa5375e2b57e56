//! `runledger agents reclaim`.

use clap::Args;
use runledger::{Answer, AnswerForm, Execution, ReclaimAgent};

use crate::context::{Context, Form};
use crate::outcome::{Outcome, Result};
use crate::screen::rows::print_table;
use crate::screen::time::Span;

/// Take a running agent run away from its owner, whose lease ended
///
/// The owner is fenced off: its next call is refused as stale_token.
#[derive(Args)]
pub(crate) struct Reclaim {
    /// The node run that it executes
    node_run_id: String,
    /// The token of the new owner; it must be one that was never used
    #[arg(long)]
    token: String,
    /// How long the new owner may take to confirm
    #[arg(long, value_name = "SPAN")]
    lease: Span,
    /// Take it even though its lease has not ended
    #[arg(long)]
    force: bool,
}

impl Reclaim {
    pub(crate) fn run(self, cx: &Context) -> Result<Outcome> {
        let agent = cx.changing(None, |ledger| {
            let execution = Execution::new(self.token, cx.now.plus_us(self.lease.us));
            let mut reclaim = ReclaimAgent::new(cx.project(ledger)?, self.node_run_id, execution).with_answer(AnswerForm::State);
            reclaim.lease_expired_by = (!self.force).then_some(cx.now);
            Ok(ledger.reclaim_agent(reclaim)?)
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
