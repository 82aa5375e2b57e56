//! What an interrupt (Ctrl-C) does: it ends the command with status 130.
//!
//! A call that can be stopped is asked to stop and cleans up behind itself. Everything else ends at once, which is safe at
//! any moment: a store is as it was, or has the whole change.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use runledger::{Code, Error, Ledger, Result};

/// The exit status of a command that was interrupted: what a shell says of one that SIGINT ended.
pub(crate) const STATUS: u8 = 130;

static INTERRUPTED: AtomicBool = AtomicBool::new(false);
static STOPPABLE: AtomicUsize = AtomicUsize::new(0);
static SERVED: Mutex<Option<Ledger>> = Mutex::new(None);

/// Has interrupts handled from now on.
pub(crate) fn watch() {
    let handled = ctrlc::set_handler(|| {
        let is_second = INTERRUPTED.swap(true, Ordering::SeqCst);
        if is_second || STOPPABLE.load(Ordering::SeqCst) == 0 {
            let served = SERVED.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let Some(ledger) = served.filter(|_| !is_second) {
                // Commands under way are waited for, and the next open needs no recovery. There is nobody to tell an error.
                let _ = ledger.close();
            }
            std::process::exit(i32::from(STATUS));
        }
    });
    if let Err(error) = handled {
        eprintln!("runledger: interrupts are not handled: {error}");
    }
}

/// While this lives, an interrupt does not end the command: [`check`] and [`asked`] tell of it.
pub(crate) struct Stoppable(());

impl Stoppable {
    pub(crate) fn new() -> Stoppable {
        STOPPABLE.fetch_add(1, Ordering::SeqCst);
        Stoppable(())
    }
}

impl Drop for Stoppable {
    fn drop(&mut self) {
        STOPPABLE.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Has an interrupt close this ledger.
pub(crate) fn close_on_interrupt(ledger: &Ledger) {
    *SERVED.lock().unwrap_or_else(PoisonError::into_inner) = Some(ledger.clone());
}

/// Whether to go on.
pub(crate) fn asked() -> ControlFlow<()> {
    if INTERRUPTED.load(Ordering::SeqCst) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
}

/// `interrupted` once an interrupt came.
pub(crate) fn check() -> Result<()> {
    if asked().is_break() { Err(Error::new(Code::Interrupted, "interrupted")) } else { Ok(()) }
}
