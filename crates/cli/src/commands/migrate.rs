//! `runledger migrate`: the tables of a ledger in PostgreSQL, made by the one who may.

use clap::Args;
use runledger::Mode;
use runledger::postgres::{PostgresBackend, grants, read_options};

use crate::context::Context;
use crate::outcome::{Outcome, Result, usage};

/// Make the tables of a ledger in PostgreSQL, or bring them up to date
///
/// For servers on which the role that works may not change tables: the owner of the schema runs this once for each version,
/// and gives the role the rights that are printed then, as SQL.
#[derive(Args)]
pub(crate) struct Migrate {
    /// The store's address, with the role of the owner
    url: Option<String>,
    /// The role that is to work with the ledger
    #[arg(long, value_name = "ROLE", default_value = "workers")]
    role: String,
}

impl Migrate {
    pub(crate) fn run(self, cx: &Context) -> Result<Outcome> {
        let address = cx.address(self.url.as_deref())?;
        if !address.starts_with("postgres://") && !address.starts_with("postgresql://") {
            return Err(usage("url", "only a ledger in PostgreSQL is migrated so; a file is when it is opened").into());
        }
        let mut options = cx.options(Mode::Create);
        let version = PostgresBackend::migrate(address, &mut options)?;
        let schema = read_options(address, &mut options)?;
        let mut out = cx.out();
        out.line(format!("-- The schema \"{schema}\" has the layout of version {version}. A role works with it once the owner runs:"))?;
        out.text(grants(&schema, &self.role))?;
        out.flush()?;
        Ok(Outcome::Done)
    }
}
