//! What all commands share: which store, which project, in which form to answer, and what time it is.

use std::sync::Arc;

use clap::{ArgAction, Args, ValueEnum};
use runledger::{Clock, Code, Id, Ledger, ListProjects, ManualClock, Mode, OpenOptions, SystemClock, Time};

use crate::outcome::{ErrorForm, Result, Stop, usage};
use crate::screen::out::Out;

/// The options of every command.
#[derive(Args, Clone)]
pub(crate) struct Global {
    /// The store's address, such as sqlite:runs.db
    #[arg(short, long, global = true, env = "RUNLEDGER_URL", hide_env_values = true, value_name = "URL", help_heading = "Store")]
    store: Option<String>,
    /// The project; not needed where the store has only one
    #[arg(short, long, global = true, env = "RUNLEDGER_PROJECT", value_name = "ID", help_heading = "Store")]
    project: Option<String>,
    /// How to answer: a table for people, the JSON form, or one record of it a line
    #[arg(long, global = true, value_enum, value_name = "FORM", help_heading = "Output")]
    output: Option<Form>,
    /// Tell on standard error what the library does; twice, tell what it refuses too
    #[arg(short, long, global = true, action = ArgAction::Count, help_heading = "Output")]
    verbose: u8,
    /// Take this for the present time
    #[arg(long, global = true, env = "RUNLEDGER_NOW", hide = true, value_name = "TIME")]
    now: Option<Time>,
}

/// The form of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Form {
    /// For people
    Table,
    /// The value of the contract's `ok`
    Json,
    /// One record a line
    Ndjson,
}

/// The options, understood.
pub(crate) struct Context {
    global: Global,
    /// The time that ages and ends of leases are held against.
    pub(crate) now: Time,
}

impl Context {
    pub(crate) fn new(global: Global) -> Context {
        if global.verbose > 0 {
            let level = if global.verbose == 1 {
                tracing_subscriber::filter::LevelFilter::INFO
            } else {
                tracing_subscriber::filter::LevelFilter::DEBUG
            };
            tracing_subscriber::fmt().with_max_level(level).with_ansi(false).with_writer(std::io::stderr).init();
        }
        Context { now: global.now.unwrap_or_else(|| SystemClock.now()), global }
    }

    /// The time when this is called; [`Context::now`] is that of the beginning.
    pub(crate) fn present(&self) -> Time {
        self.global.now.unwrap_or_else(|| SystemClock.now())
    }

    /// The same, at the present time.
    pub(crate) fn at_present(&self) -> Context {
        Context { global: self.global.clone(), now: self.present() }
    }

    /// The form to answer in.
    pub(crate) fn form(&self) -> Form {
        self.form_or(Form::Table)
    }

    /// The form to answer in, where it is another one than usual unless the caller says.
    pub(crate) fn form_or(&self, usual: Form) -> Form {
        self.global.output.unwrap_or(usual)
    }

    /// Where the answer goes.
    pub(crate) fn out(&self) -> Out {
        Out::new(self.form())
    }

    /// How errors are written.
    pub(crate) fn error_form(&self) -> ErrorForm {
        match self.global.output {
            Some(Form::Table) => ErrorForm::Text,
            Some(Form::Json | Form::Ndjson) => ErrorForm::Json,
            None => ErrorForm::by_terminal(),
        }
    }

    /// The store's address: the one that the command was given, else that of the options.
    pub(crate) fn address<'a>(&'a self, given: Option<&'a str>) -> Result<&'a str> {
        let missing = || usage("store", "which store? Give its address with -s/--store URL or in RUNLEDGER_URL").into();
        given.or(self.global.store.as_deref()).ok_or_else(missing)
    }

    /// Options of a store that is opened in this mode unless its address says otherwise.
    pub(crate) fn options(&self, mode: Mode) -> OpenOptions {
        let clock: Arc<dyn Clock> = match self.global.now {
            Some(now) => Arc::new(ManualClock::new(now)),
            None => Arc::new(SystemClock),
        };
        OpenOptions::new().with_mode(mode).with_clock(SharedClock(clock))
    }

    fn open(&self, given: Option<&str>, mode: Mode) -> Result<Ledger> {
        let address = self.address(given)?;
        // A store in memory is always a new one.
        let mode = if address.starts_with("memory:") { Mode::Create } else { mode };
        Ok(runledger::open_with(address, self.options(mode))?)
    }

    /// Has `look` look at a store, which is opened to be read and not created: an empty answer to a mistyped path would pass
    /// for an empty store.
    pub(crate) fn reading<T>(&self, given: Option<&str>, look: impl FnOnce(&Ledger) -> Result<T>) -> Result<T> {
        closing(&self.open(given, Mode::ReadOnly)?, look)
    }

    /// Has `act` change a store that is there.
    pub(crate) fn changing<T>(&self, given: Option<&str>, act: impl FnOnce(&Ledger) -> Result<T>) -> Result<T> {
        closing(&self.open(given, Mode::Existing)?, act)
    }

    /// Has `fill` fill a store, which is created if it is not there.
    pub(crate) fn filling<T>(&self, given: Option<&str>, fill: impl FnOnce(&Ledger) -> Result<T>) -> Result<T> {
        closing(&self.open(given, Mode::Create)?, fill)
    }

    /// The project that was named.
    pub(crate) fn named_project(&self) -> Option<Id> {
        self.global.project.as_deref().map(Id::from)
    }

    /// The project that was named, or the only one there is.
    pub(crate) fn project(&self, ledger: &Ledger) -> Result<Id> {
        const NAMED_IN_MESSAGE: usize = 20;
        if let Some(project) = self.named_project() {
            return Ok(project);
        }
        let page = ledger.list_projects(ListProjects::new().with_limit(NAMED_IN_MESSAGE as u32).with_with_total(false))?;
        match &page.rows[..] {
            [only] => Ok(only.project_id.clone()),
            [] => Err(usage("project", "the store has no project yet: nothing was queued or started in it").into()),
            several => {
                let names: Vec<&str> = several.iter().map(|project| &*project.project_id).collect();
                let more = if page.has_more { ", …" } else { "" };
                Err(usage("project", format_args!("which one? Give it with -p/--project: {}{more}", names.join(", "))).into())
            }
        }
    }

    /// The project that was named, or all there are.
    pub(crate) fn projects(&self, ledger: &Ledger) -> Result<Vec<Id>> {
        match self.named_project() {
            Some(project) => Ok(vec![project]),
            None => ledger.walk_projects(ListProjects::new()).map(|project| Ok(project?.project_id)).collect(),
        }
    }
}

struct SharedClock(Arc<dyn Clock>);

impl Clock for SharedClock {
    fn now(&self) -> Time {
        self.0.now()
    }

    fn is_system(&self) -> bool {
        self.0.is_system()
    }
}

/// Uses a ledger and closes it, since only a close tells whether the engine ended well.
pub(crate) fn closing<T>(ledger: &Ledger, use_it: impl FnOnce(&Ledger) -> Result<T>) -> Result<T> {
    let used = use_it(ledger);
    let closed = ledger.close();
    let used = used?;
    closed?;
    Ok(used)
}

/// Adds what to do about a store that another process holds.
pub(crate) fn advise_on_lock(stop: Stop, advice: &str) -> Stop {
    match stop {
        Stop::Error(error) if error.code() == Code::Locked => {
            let mut advised = runledger::Error::new(Code::Locked, format!("{}; {advice}", error.message()));
            if let Some(entity) = error.details().entity {
                advised = advised.with_entity(entity);
            }
            if let Some(path) = &error.details().path {
                advised = advised.with_path(path);
            }
            Stop::Error(advised)
        }
        other => other,
    }
}
