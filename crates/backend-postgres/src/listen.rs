//! Telling those who wait elsewhere that something was queued, and hearing of it.
//!
//! A commit tells nobody itself: the server takes one lock for all commits that notify, and queues would wait in line for
//! it. What was queued is told afterwards, by one statement at a time for all that came meanwhile, and only if somebody
//! waits: whoever does holds a lock that the teller tries. What gets lost on the way costs the waiting a look a second.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use runledger_core::{OnQueued, QueueKey, QueueKind};
use xxhash_rust::xxh3::xxh3_64;

use crate::error::Outcome;
use crate::pool::{Connector, Session, lock};
use crate::statement::{Statement, pipeline};
use crate::wanted::waiting_lock;

/// How often whoever waits looks for itself.
pub(crate) const LOOK: Duration = Duration::from_secs(1);

/// The connection that listens is kept so long after the last one ceased to wait.
const LINGER: Duration = Duration::from_secs(10);

/// What is told and heard by one handle.
pub(crate) struct News {
    connector: Arc<Connector>,
    told: Mutex<Told>,
    heard: Mutex<Heard>,
}

#[derive(Default)]
struct Told {
    pending: BTreeSet<String>,
    is_telling: bool,
    /// The connection that tells, kept for the next time.
    session: Option<Session>,
}

#[derive(Default)]
struct Heard {
    waiting: usize,
    is_listening: bool,
}

/// Somebody waits as long as it is kept.
struct Watch(Arc<News>);

impl Drop for Watch {
    fn drop(&mut self) {
        lock(&self.0.heard).waiting -= 1;
    }
}

fn written((kind, project): &QueueKey) -> String {
    let letter = match kind {
        QueueKind::Runs => 'r',
        QueueKind::Agents => 'a',
    };
    format!("{letter}{project}")
}

fn read(text: &str) -> Option<QueueKey> {
    let (kind, project) = text.split_at_checked(1)?;
    let kind = match kind {
        "r" => QueueKind::Runs,
        "a" => QueueKind::Agents,
        _ => return None,
    };
    Some((kind, project.into()))
}

impl News {
    pub(crate) fn new(connector: Arc<Connector>) -> Arc<News> {
        Arc::new(News { connector, told: Mutex::default(), heard: Mutex::default() })
    }

    /// The channel of this schema: a name of any length is none to the server.
    fn channel(&self) -> String {
        format!("runledger_{:016x}", xxh3_64(self.connector.address.schema.as_bytes()))
    }

    /// Tells of queues, later and on another connection.
    pub(crate) fn tell(self: &Arc<Self>, queues: &[QueueKey]) {
        let mut told = lock(&self.told);
        told.pending.extend(queues.iter().map(written));
        if !std::mem::replace(&mut told.is_telling, true) {
            let news = Arc::clone(self);
            self.connector.runtime.handle.spawn(async move { news.tell_all().await });
        }
    }

    async fn tell_all(self: Arc<Self>) {
        let mut session = lock(&self.told).session.take();
        loop {
            let pending = {
                let mut told = lock(&self.told);
                if told.pending.is_empty() {
                    told.is_telling = false;
                    told.session = session;
                    return;
                }
                std::mem::take(&mut told.pending)
            };
            if session.as_ref().is_none_or(|session| session.client.is_closed()) {
                // What can't be told is found by those who look.
                session = self.connector.connect_here().await.ok();
            }
            if let Some(session) = &session {
                let sql = "WITH w AS MATERIALIZED (SELECT pg_try_advisory_xact_lock($1) AS is_free) \
                           SELECT pg_notify($2, k.queue)::text FROM w CROSS JOIN unnest($3::text[]) AS k(queue) WHERE NOT w.is_free";
                let channel = self.channel();
                let statement = Statement::new(sql).big(waiting_lock(&self.connector.address.schema)).text(&channel);
                let statement = statement.texts(pending.iter().map(String::as_str));
                let _lost_at_worst = pipeline(&session.client, "", &[statement]).await;
            }
        }
    }

    /// Has `on_queued` told what others queue, as long as what this answers is kept.
    pub(crate) fn watch(self: &Arc<Self>, on_queued: OnQueued) -> Box<dyn Send + Sync> {
        let mut heard = lock(&self.heard);
        heard.waiting += 1;
        if !std::mem::replace(&mut heard.is_listening, true) {
            let news = Arc::clone(self);
            self.connector.runtime.handle.spawn(async move { news.listen(on_queued).await });
        }
        Box::new(Watch(Arc::clone(self)))
    }

    /// Listens until nobody has waited for a while.
    async fn listen(self: Arc<Self>, on_queued: OnQueued) {
        loop {
            if let Ok(mut session) = self.connector.connect_here().await
                && self.begin_to_listen(&session).await.is_ok()
            {
                // Whatever was told before cannot have been heard.
                on_queued(None);
                loop {
                    match tokio::time::timeout(LINGER, session.news.recv()).await {
                        Ok(Some(text)) => on_queued(read(&text).as_ref()),
                        Ok(None) => break,
                        Err(_) if self.may_stop() => return,
                        Err(_) => {}
                    }
                }
            }
            if self.may_stop() {
                return;
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Holds the lock that says so, and listens: the one thing that a session of ours keeps.
    async fn begin_to_listen(&self, session: &Session) -> Outcome<()> {
        let waits = format!("SELECT pg_advisory_lock_shared({})", waiting_lock(&self.connector.address.schema));
        let listens = format!("LISTEN {}", self.channel());
        let statements = [Statement::simple(waits), Statement::simple(listens)];
        pipeline(&session.client, "", &statements).await.map(drop).map_err(|(_, error)| error.into())
    }

    fn may_stop(&self) -> bool {
        let mut heard = lock(&self.heard);
        let may_stop = heard.waiting == 0;
        if may_stop {
            heard.is_listening = false;
        }
        may_stop
    }
}
