//! What operators should see, handed to a function of the program.

use std::ffi::{c_char, c_void};
use std::fmt::{self, Write};
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicU32, AtomicUsize, Ordering};
use std::{process, ptr, thread};

use runledger::{Code, Error};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::{Interest, set_global_default};
use tracing::{Event, Level, Metadata, Subscriber};

use crate::error::runledger_error;
use crate::json::Terminated;
use crate::wall::{entry, quiet};

/// A level of the log: something failed that needs an operator.
pub const RUNLEDGER_LOG_ERROR: i32 = 1;
/// A level of the log: something went wrong and was dealt with.
pub const RUNLEDGER_LOG_WARN: i32 = 2;
/// A level of the log: something worth knowing happened.
pub const RUNLEDGER_LOG_INFO: i32 = 3;
/// A level of the log: calls that were refused.
pub const RUNLEDGER_LOG_DEBUG: i32 = 4;
/// A level of the log: every commit.
pub const RUNLEDGER_LOG_TRACE: i32 = 5;

/// Takes one event of the log. It may be called from any thread that makes a call, must not call the library, and must be
/// quick: the call waits for it. The message is only there during the call.
pub type runledger_log_fn = Option<unsafe extern "C" fn(user: *mut c_void, level: i32, message: *const c_char, len: usize)>;

struct Sink {
    log: unsafe extern "C" fn(*mut c_void, i32, *const c_char, usize),
    user: *mut c_void,
}

/// Where events go; NULL for nowhere.
static SINK: AtomicPtr<Sink> = AtomicPtr::new(ptr::null_mut());
/// The least important level that is wanted; 0 for none.
static MAX_LEVEL: AtomicI32 = AtomicI32::new(0);
/// How many threads may be looking at a sink.
static LOOKING: AtomicUsize = AtomicUsize::new(0);
/// The process in which they are.
static PROCESS: AtomicU32 = AtomicU32::new(0);

/// Has events up to `max_level` (RUNLEDGER_LOG_...) handed to `log`, in place of where they went before; a `log` of NULL ends
/// it. When this returns the function that was replaced is not called any more, so what its `user` points to can be freed.
/// There is one log for the whole process.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn runledger_set_log(
    log: runledger_log_fn,
    user: *mut c_void,
    max_level: i32,
    err: *mut *mut runledger_error,
) -> i32 {
    let body = || {
        if log.is_some() && !(RUNLEDGER_LOG_ERROR..=RUNLEDGER_LOG_TRACE).contains(&max_level) {
            return Err(Error::invalid("max_level", "not one of RUNLEDGER_LOG_ERROR to RUNLEDGER_LOG_TRACE"));
        }
        if log.is_some() {
            listen()?;
        }
        let sink = log.map_or(ptr::null_mut(), |log| Box::into_raw(Box::new(Sink { log, user })));
        MAX_LEVEL.store(if log.is_some() { max_level } else { 0 }, Ordering::SeqCst);
        let replaced = SINK.swap(sink, Ordering::SeqCst);
        // After a fork those who were looking are gone, and would be waited for without end.
        if PROCESS.swap(process::id(), Ordering::SeqCst) != process::id() {
            LOOKING.store(0, Ordering::SeqCst);
        }
        while LOOKING.load(Ordering::SeqCst) > 0 {
            thread::yield_now();
        }
        if !replaced.is_null() {
            // SAFETY: it came from `Box::into_raw`, was taken out by nobody else, and nobody looks at it any more.
            drop(unsafe { Box::from_raw(replaced) });
        }
        Ok(())
    };
    // SAFETY: the caller answers for the place of the error.
    unsafe { entry(err, body) }
}

/// Subscribes to the events of this library, once.
fn listen() -> runledger::Result<()> {
    static LISTENS: std::sync::OnceLock<bool> = std::sync::OnceLock::new();
    let listens = LISTENS.get_or_init(|| set_global_default(Listener).is_ok());
    if *listens { Ok(()) } else { Err(Error::new(Code::Unsupported, "the program subscribes to tracing's events itself")) }
}

struct Listener;

impl Subscriber for Listener {
    fn register_callsite(&self, _: &'static Metadata<'static>) -> Interest {
        // What is wanted changes, so it is asked every time.
        Interest::sometimes()
    }

    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        number(*metadata.level()) <= MAX_LEVEL.load(Ordering::Relaxed) && metadata.target().starts_with("runledger")
    }

    fn event(&self, event: &Event<'_>) {
        quiet((), || {
            let mut line = Line::default();
            event.record(&mut line);
            tell(number(*event.metadata().level()), &Terminated::new(&format!("{}{}", line.message, line.fields)));
        });
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

fn tell(level: i32, message: &Terminated) {
    LOOKING.fetch_add(1, Ordering::SeqCst);
    // SAFETY: a sink is freed only when nobody is looking any more.
    if let Some(sink) = unsafe { SINK.load(Ordering::SeqCst).as_ref() } {
        // SAFETY: the one who set it answers for the callback and what it is given.
        unsafe { (sink.log)(sink.user, level, message.as_ptr(), message.len()) };
    }
    LOOKING.fetch_sub(1, Ordering::SeqCst);
}

fn number(level: Level) -> i32 {
    match level {
        Level::ERROR => RUNLEDGER_LOG_ERROR,
        Level::WARN => RUNLEDGER_LOG_WARN,
        Level::INFO => RUNLEDGER_LOG_INFO,
        Level::DEBUG => RUNLEDGER_LOG_DEBUG,
        _ => RUNLEDGER_LOG_TRACE,
    }
}

/// An event as one line: what happened, then its fields.
#[derive(Default)]
struct Line {
    message: String,
    fields: String,
}

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // Writing to a String can't fail.
        let _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            name => write!(self.fields, " {name}={value:?}"),
        };
    }
}
