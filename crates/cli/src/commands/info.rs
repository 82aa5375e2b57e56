//! `runledger info`.

use clap::Args;
use runledger::{Answer, GetStoreInfo};

use crate::context::{Context, Form};
use crate::outcome::{Outcome, Result};
use crate::screen::table::Sheet;
use crate::screen::text::{bytes, shown};

/// Say what a store is: its backend, version, durability and size
#[derive(Args)]
pub(crate) struct Info {
    /// The store's address
    url: Option<String>,
}

impl Info {
    pub(crate) fn run(self, cx: &Context) -> Result<Outcome> {
        let info = cx.reading(self.url.as_deref(), |ledger| Ok(ledger.store_info(GetStoreInfo::new())?))?;
        let mut out = cx.out();
        if out.form == Form::Table {
            let mut sheet = Sheet::new(&["WHAT", "IS"]);
            let rows = [
                ("backend", info.backend.clone()),
                ("address", shown(&info.address).into_owned()),
                ("engine", format!("{} {}", info.engine_name, info.engine_version)),
                ("layout", format!("version {}", info.schema_version)),
                ("library", info.library_version.clone()),
                ("durability", info.durability.clone()),
                ("opened", info.mode.clone()),
                ("size", bytes(info.size_bytes)),
            ];
            rows.into_iter().for_each(|(name, value)| sheet.row(vec![name.to_owned(), value]));
            out.table(&sheet)?;
        } else {
            out.json(&Answer::from(info).to_json())?;
        }
        out.flush()?;
        Ok(Outcome::Done)
    }
}
