//! Addresses: which server and database, who connects and how, and the options of the store.

use std::time::Duration;

use percent_encoding::percent_decode_str;
use runledger_core::{Error, OpenOptions, Result};
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};

use crate::tls::{Tls, Verify};

/// The schema of a ledger whose address names none.
const DEFAULT_SCHEMA: &str = "runledger";

/// How many connections a handle keeps at most unless its address says.
const DEFAULT_POOL_SIZE: usize = 8;

/// How long one statement may take unless the address says, in milliseconds.
const DEFAULT_STATEMENT_TIMEOUT_MS: u64 = 30_000;

/// How long one host may take to accept a connection unless the address says.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// A connection that is silent for this long is asked whether it is still there, so that a server that vanished is noticed.
const KEEPALIVE: Duration = Duration::from_secs(30);

/// The longest name that the server keeps whole, in bytes.
const MAX_NAME_BYTES: usize = 63;

/// What the driver understands, each given once.
const DRIVER_KEYS: &[&str] = &[
    "user",
    "password",
    "dbname",
    "options",
    "application_name",
    "sslnegotiation",
    "host",
    "hostaddr",
    "port",
    "connect_timeout",
    "tcp_user_timeout",
    "keepalives",
    "keepalives_idle",
    "keepalives_interval",
    "keepalives_retries",
    "target_session_attrs",
    "channel_binding",
    "load_balance_hosts",
];

/// An address that has been read.
#[derive(Clone, Debug)]
pub(crate) struct Address {
    pub(crate) config: Config,
    pub(crate) tls: Tls,
    pub(crate) schema: String,
    pub(crate) pool_size: usize,
    /// 0 for no limit.
    pub(crate) statement_timeout_ms: u64,
}

impl Address {
    /// Reads an address; the store's own options in it go before those in `options`.
    pub(crate) fn read(url: &str, options: &mut OpenOptions) -> Result<Address> {
        if url.contains('#') {
            return Err(Error::invalid("url", "an address has no fragment; in a name, # is written %23"));
        }
        let (base, query) = url.split_once('?').map_or((url, None), |(base, query)| (base, Some(query)));
        let mut address = Address {
            config: base_config(base)?,
            tls: Tls::default(),
            schema: DEFAULT_SCHEMA.to_owned(),
            pool_size: DEFAULT_POOL_SIZE,
            statement_timeout_ms: DEFAULT_STATEMENT_TIMEOUT_MS,
        };
        let mut for_driver = String::new();
        let mut seen: Vec<String> = Vec::new();
        for pair in query.iter().flat_map(|query| query.split('&')) {
            let (name, raw) = pair.split_once('=').unwrap_or((pair, ""));
            let name = decode("url", name)?;
            if name.is_empty() {
                return Err(Error::invalid("url", "an option without a name"));
            }
            if seen.contains(&name) {
                return Err(Error::invalid(name, "the option is given twice"));
            }
            let value = decode(&name, raw)?;
            if DRIVER_KEYS.contains(&name.as_str()) {
                // Tried alone first, so that an error is known to be of this one.
                format!("postgresql:///?{name}={raw}").parse::<Config>().map_err(|_| no_such_value(&name))?;
                for_driver.push_str(if for_driver.is_empty() { "?" } else { "&" });
                for_driver.push_str(&format!("{name}={raw}"));
            } else {
                address.set(&name, &value, options)?;
            }
            seen.push(name);
        }
        let whole = format!("{base}{for_driver}");
        let (ssl_mode, timeouts) = (address.config.get_ssl_mode(), seen);
        address.config = base_config(&whole)?;
        if address.config.get_hosts().is_empty() && address.config.get_hostaddrs().is_empty() {
            return Err(Error::invalid("host", "an address names its server"));
        }
        address.config.ssl_mode(ssl_mode);
        address.fill_in(&timeouts);
        options.refuse_journal("postgres")?;
        address.tls.check()?;
        Ok(address)
    }

    fn set(&mut self, name: &str, value: &str, options: &mut OpenOptions) -> Result<()> {
        match name {
            "schema" => self.schema = schema(value)?,
            "pool_size" => self.pool_size = number(name, value, 1, 1000)? as usize,
            "statement_timeout_ms" => self.statement_timeout_ms = number(name, value, 0, i32::MAX as u64)?,
            "sslmode" => {
                let (mode, verify) = match value {
                    "disable" => (SslMode::Disable, Verify::Nothing),
                    "prefer" => (SslMode::Prefer, Verify::Nothing),
                    "require" => (SslMode::Require, Verify::Nothing),
                    "verify-ca" => (SslMode::Require, Verify::Authority),
                    "verify-full" => (SslMode::Require, Verify::AuthorityAndName),
                    _ => return Err(no_such_value(name)),
                };
                self.config.ssl_mode(mode);
                self.tls.verify = verify;
            }
            "sslrootcert" => self.tls.root_cert = Some(path(name, value)?),
            "sslcert" => self.tls.cert = Some(path(name, value)?),
            "sslkey" => self.tls.key = Some(path(name, value)?),
            _ => options.set(name, value)?,
        }
        Ok(())
    }

    /// What the address leaves open.
    fn fill_in(&mut self, given: &[String]) {
        let is_given = |name: &str| given.iter().any(|given| given == name);
        if self.config.get_password().is_none()
            && let Ok(password) = std::env::var("PGPASSWORD")
        {
            self.config.password(password);
        }
        if !is_given("connect_timeout") {
            self.config.connect_timeout(CONNECT_TIMEOUT);
        }
        if !is_given("keepalives_idle") {
            self.config.keepalives_idle(KEEPALIVE);
        }
        if !is_given("application_name") {
            self.config.application_name("runledger");
        }
    }

    /// The server and database, for messages.
    pub(crate) fn place(&self) -> String {
        let hosts: Vec<String> = self.config.get_hosts().iter().enumerate().map(|(n, host)| self.host(n, host)).collect();
        format!("{}/{}", hosts.join(","), self.database())
    }

    /// The address without a password, for `store.info`.
    pub(crate) fn shown(&self) -> String {
        let user = self.config.get_user().map_or_else(String::new, |user| format!("{user}@"));
        format!("postgres://{user}{}?schema={}", self.place(), self.schema)
    }

    fn host(&self, n: usize, host: &Host) -> String {
        let ports = self.config.get_ports();
        let port = ports.get(n).or(ports.first()).copied().unwrap_or(5432);
        match host {
            Host::Tcp(name) => format!("{name}:{port}"),
            #[cfg(unix)]
            Host::Unix(path) => format!("{}:{port}", path.display()),
        }
    }

    fn database(&self) -> &str {
        self.config.get_dbname().or(self.config.get_user()).unwrap_or_default()
    }
}

fn base_config(url: &str) -> Result<Config> {
    url.parse().map_err(|_| Error::invalid("url", "the address of a server can't be read"))
}

fn no_such_value(name: &str) -> Error {
    Error::invalid(name, "the option has no such value")
}

/// The schema's name. Quotes and other odd characters are refused rather than escaped: nobody needs them.
fn schema(value: &str) -> Result<String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let is_name = value.len() <= MAX_NAME_BYTES && value.starts_with(|c: char| is_plain(c) && !c.is_ascii_digit());
    if !is_name || !value.chars().all(is_plain) || value.starts_with("pg_") {
        return Err(Error::invalid("schema", "a name of up to 63 ASCII letters, digits and underscores was expected"));
    }
    Ok(value.to_owned())
}

fn path(name: &str, value: &str) -> Result<String> {
    if value.is_empty() || value.contains('\0') {
        return Err(Error::invalid(name, "a path was expected"));
    }
    Ok(value.to_owned())
}

fn number(name: &str, value: &str, least: u64, most: u64) -> Result<u64> {
    let digits = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
    let parsed = if digits { value.parse().ok() } else { None };
    let fits = parsed.filter(|number| (least..=most).contains(number));
    fits.ok_or_else(|| Error::invalid(name, format_args!("a whole number from {least} to {most} was expected")))
}

/// A stray `%` is refused, as in every address.
fn decode(field: &str, escaped: &str) -> Result<String> {
    let is_escape = |after: &[u8]| matches!(after, [high, low, ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit());
    if escaped.split('%').skip(1).any(|after| !is_escape(after.as_bytes())) {
        return Err(Error::invalid(field, "a % begins an escape of two hex digits; itself it is written %25"));
    }
    let decoded = percent_decode_str(escaped).decode_utf8();
    decoded.map(String::from).map_err(|_| Error::invalid(field, "the escapes are not UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use runledger_core::{Code, Durability};

    fn read(url: &str) -> Result<(Address, OpenOptions)> {
        let mut options = OpenOptions::new();
        Address::read(url, &mut options).map(|address| (address, options))
    }

    #[test]
    fn an_address_says_where_and_how() {
        let url = "postgres://ann:s%40cret@db.example:6432/runs?schema=ledger_2&pool_size=3&statement_timeout_ms=900&durability=relaxed\
                   &sslmode=verify-full&connect_timeout=4&application_name=w&target_session_attrs=read-write";
        let (address, options) = read(url).unwrap();
        assert_eq!((address.schema.as_str(), address.pool_size, address.statement_timeout_ms), ("ledger_2", 3, 900));
        assert_eq!((options.durability, address.tls.verify), (Durability::Relaxed, Verify::AuthorityAndName));
        assert_eq!((address.config.get_password(), address.config.get_ssl_mode()), (Some(&b"s@cret"[..]), SslMode::Require));
        assert_eq!(address.config.get_connect_timeout(), Some(&Duration::from_secs(4)));
        assert_eq!(address.shown(), "postgres://ann@db.example:6432/runs?schema=ledger_2");
        assert_eq!(address.place(), "db.example:6432/runs");
    }

    #[test]
    fn what_is_not_said_has_a_default() {
        let (address, options) = read("postgresql:///runs?host=/run/postgresql&user=ann").unwrap();
        assert_eq!((address.schema.as_str(), address.pool_size, address.statement_timeout_ms), ("runledger", 8, 30_000));
        assert_eq!((options.durability, options.busy_timeout_ms), (Durability::Full, 5000));
        assert_eq!((address.tls.verify, address.config.get_ssl_mode()), (Verify::Nothing, SslMode::Prefer));
        assert_eq!(address.shown(), "postgres://ann@/run/postgresql:5432/runs?schema=runledger");
    }

    #[test]
    fn what_is_wrong_is_named_and_never_repeats_a_password() {
        for (url, field) in [
            ("postgres://", "host"),
            ("postgres:///runs", "host"),
            ("postgres://h:port/runs", "url"),
            ("postgres://h/runs#x", "url"),
            ("postgres://h/runs?", "url"),
            ("postgres://h/runs?=1", "url"),
            ("postgres://h/runs?colour=red", "colour"),
            ("postgres://h/runs?schema=", "schema"),
            ("postgres://h/runs?schema=a.b", "schema"),
            ("postgres://h/runs?schema=1a", "schema"),
            ("postgres://h/runs?schema=pg_x", "schema"),
            ("postgres://h/runs?pool_size=0", "pool_size"),
            ("postgres://h/runs?pool_size=x", "pool_size"),
            ("postgres://h/runs?statement_timeout_ms=-1", "statement_timeout_ms"),
            ("postgres://h/runs?sslmode=verify", "sslmode"),
            ("postgres://h/runs?sslrootcert=", "sslrootcert"),
            ("postgres://h/runs?target_session_attrs=primary", "target_session_attrs"),
            ("postgres://h/runs?port=x", "port"),
            ("postgres://h/runs?connect_timeout=soon", "connect_timeout"),
            ("postgres://h/runs?user=a&user=b", "user"),
            ("postgres://h/runs?durability=none", "durability"),
            ("postgres://h/runs?busy_timeout_ms=1s", "busy_timeout_ms"),
            ("postgres://h/runs?schema=%", "schema"),
            ("postgres://h/runs?sslcert=/no/cert", "sslkey"),
        ] {
            let url = url.replace("://h", "://ann:topsecret@h");
            let error = read(&url).map(|_| ()).unwrap_err();
            assert_eq!((error.code(), error.details().field.as_deref()), (Code::InvalidInput, Some(field)), "{url}");
            assert!(!error.to_json().contains("topsecret"), "{error}");
        }
        assert_eq!(read("postgres://h/runs?journal=wal").map(|_| ()).unwrap_err().code(), Code::Unsupported);
        assert!(!format!("{:?}", read("postgres://a:topsecret@h/runs").unwrap().0).contains("topsecret"));
    }
}
