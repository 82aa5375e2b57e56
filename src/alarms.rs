//! Times at which tasks wake, whatever runtime they are of and whether it keeps time or not.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use crate::{Code, Error, Result};

/// A thread that rings, started when it is needed first. It ends with the last handle.
#[derive(Clone, Debug, Default)]
pub(crate) struct Alarms(Arc<Mutex<Option<Sender<Alarm>>>>);

#[derive(Debug)]
struct Alarm {
    at: Instant,
    ring: oneshot::Sender<()>,
}

/// Without any alarm the thread looks whether it is still needed at all.
const IDLE: Duration = Duration::from_secs(3600);

impl Alarms {
    /// Rings at a time, unless what this answers is dropped before.
    ///
    /// # Errors
    /// `io` when the system refuses a thread.
    pub(crate) fn at(&self, at: Instant) -> Result<oneshot::Receiver<()>> {
        let (ring, rung) = oneshot::channel();
        let mut thread = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if thread.is_none() {
            let (sender, alarms) = channel();
            let started = thread::Builder::new().name("runledger-alarms".to_owned()).spawn(move || keep(&alarms));
            started.map_err(|e| Error::new(Code::Io, format!("starting the thread of the alarms: {e}")))?;
            *thread = Some(sender);
        }
        if let Some(sender) = &*thread {
            // A thread that ended would drop the alarm, which is as good as a ring.
            let _rings_now = sender.send(Alarm { at, ring });
        }
        Ok(rung)
    }
}

fn keep(alarms: &Receiver<Alarm>) {
    let mut waiting: Vec<Alarm> = Vec::new();
    loop {
        let now = Instant::now();
        let (due, later): (Vec<_>, Vec<_>) = waiting.into_iter().filter(|alarm| !alarm.ring.is_closed()).partition(|alarm| alarm.at <= now);
        waiting = later;
        for alarm in due {
            // Whoever waited may have gone meanwhile.
            let _unheard = alarm.ring.send(());
        }
        let next = waiting.iter().map(|alarm| alarm.at).min();
        match alarms.recv_timeout(next.map_or(IDLE, |next| next.saturating_duration_since(now))) {
            Ok(alarm) => waiting.push(alarm),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}
