//! The layout: made, migrated and recognised.

use std::sync::Arc;

use runledger_core::{Code, Entity, Error, Mode, OpenOptions};

use crate::address::Address;
use crate::error::Outcome;
use crate::pool::{Connector, Session};
use crate::rows::Columns;
use crate::statement::Statement;
use crate::wanted::migration_lock;

/// What makes each version of the layout out of the one before.
const MIGRATIONS: &[&str] = &[include_str!("schema_1.sql")];

/// The version of the layout that this library writes.
pub(crate) const VERSION: u32 = MIGRATIONS.len() as u32;

/// The tables of a ledger.
pub(crate) const TABLES: &[&str] = &["ledger", "run", "node_run", "agent_run", "large_value", "counter"];

/// The statements that let `role` work with the ledger in `schema`, and neither change its layout nor anything else. They
/// are for the owner of the schema to run, once it is migrated.
pub fn grants(schema: &str, role: &str) -> String {
    let role = format!("\"{}\"", role.replace('"', "\"\""));
    let tables: Vec<String> = TABLES.iter().map(|table| format!("\"{schema}\".{table}")).collect();
    let (mark, records) = (&tables[0], tables[1..].join(", "));
    format!(
        "GRANT USAGE ON SCHEMA \"{schema}\" TO {role};\nGRANT SELECT ON {mark} TO {role};\n\
         GRANT SELECT, INSERT, UPDATE, DELETE ON {records} TO {role};\n"
    )
}

/// Takes the options that an address gives over into `options`, and says which schema it names. Nothing is opened.
///
/// # Errors
/// `invalid_input`, naming what is wrong in the address.
pub fn read_options(url: &str, options: &mut OpenOptions) -> runledger_core::Result<String> {
    Address::read(url, options).map(|address| address.schema)
}

/// What is under our schema.
enum Found {
    Nothing,
    Version(u32),
}

/// Has the schema be of this version, as far as the mode allows.
pub(crate) fn prepare(connector: &Arc<Connector>, session: &Session, mode: Mode) -> Outcome<()> {
    let refuse = |code, what: String| Err(Error::new(code, what).with_entity(Entity::Store).into());
    let shown = || format!("{}: the schema '{}'", connector.address.place(), connector.address.schema);
    match (look(connector, session)?, mode) {
        (Found::Version(VERSION), _) => Ok(()),
        (Found::Version(newer), _) if newer > VERSION => {
            refuse(Code::SchemaTooNew, format!("{} has version {newer}; this library knows {VERSION}", shown()))
        }
        (Found::Version(_), Mode::ReadOnly) => {
            refuse(Code::ReadOnly, format!("{} must be migrated, which a store opened read-only can't be", shown()))
        }
        (Found::Nothing, Mode::Existing | Mode::ReadOnly) => refuse(Code::Io, format!("{} has no ledger", shown())),
        _ => migrate(connector, session),
    }
}

/// Makes the layout, or brings it to this version, in one transaction; whoever does it at the same time waits.
pub(crate) fn migrate(connector: &Arc<Connector>, session: &Session) -> Outcome<()> {
    let migrated = migrate_locked(connector, session);
    if migrated.is_err() {
        // The first error is the one that tells; a connection that can't even roll back is given up by its owner.
        let _first_counts = connector.ask(session, &[Statement::simple("ROLLBACK")]);
    }
    migrated
}

fn migrate_locked(connector: &Arc<Connector>, session: &Session) -> Outcome<()> {
    let lock = format!("SELECT pg_advisory_xact_lock({})", migration_lock(&connector.address.schema));
    connector.ask_patiently(session, &[Statement::simple("BEGIN"), Statement::simple(lock)])?;
    let from = match look(connector, session)? {
        Found::Version(version) => version,
        Found::Nothing => {
            let sql = format!("CREATE SCHEMA \"{}\"", connector.address.schema);
            let exists = Statement::new("SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = $1)").text(&connector.address.schema);
            let rows = connector.ask(session, &[exists])?;
            let is_there = rows.first().and_then(|rows| rows.first()).and_then(|row| Columns(row).get(0)).unwrap_or(false);
            if !is_there {
                connector.ask(session, &[Statement::simple(sql)])?;
            }
            0
        }
    };
    for migration in MIGRATIONS.iter().skip(from as usize) {
        connector.ask_patiently(session, &[Statement::simple(*migration)])?;
    }
    connector.ask(session, &[Statement::simple("COMMIT")]).map(drop)
}

/// Looks whose the schema is, without touching anything.
fn look(connector: &Connector, session: &Session) -> Outcome<Found> {
    let not_ours = || {
        let what = format!("{}: tables of another program are in the schema '{}'", connector.address.place(), connector.address.schema);
        Error::new(Code::NotALedger, what).with_entity(Entity::Store)
    };
    let names = Statement::new(
        "SELECT c.relname::text, (SELECT count(*) FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0 \
         AND a.attname IN ('application', 'version')) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
         WHERE n.nspname = $1 AND c.relname = ANY($2::text[]) AND c.relkind IN ('r', 'p', 'v', 'm', 'f', 'S', 'i')",
    );
    let rows = connector.ask(session, &[names.text(&connector.address.schema).texts(TABLES.iter().copied())])?;
    let rows = rows.first().map_or(&[][..], Vec::as_slice);
    if rows.is_empty() {
        return Ok(Found::Nothing);
    }
    let mark = rows.iter().map(Columns).find(|row| row.get::<&str>(0) == Some("ledger"));
    if mark.and_then(|row| row.get::<i64>(1)) != Some(2) {
        return Err(not_ours().into());
    }
    let version = Statement::new("SELECT l.application::text, l.version::bigint FROM @.ledger l LIMIT 2");
    let rows = connector.ask(session, &[version])?;
    match rows.first().map(Vec::as_slice) {
        Some([row]) if Columns(row).get::<&str>(0) == Some("runledger") => {
            let version = Columns(row).get::<i64>(1).and_then(|version| u32::try_from(version).ok());
            Ok(Found::Version(version.ok_or_else(|| Error::corrupt("the version of the layout can't be read"))?))
        }
        _ => Err(not_ours().into()),
    }
}
