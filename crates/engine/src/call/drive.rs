//! Questions of modern servers that are put to legacy clients: which of them are open, and where an answer goes.
//!
//! Not in the hub's table of server requests: that one answers links, and a modern server gets its answers with the next round of
//! the call (`exchange/drive.rs`).

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard};

use bytes::Bytes;
use tidings_hub::ClientKey;
use tidings_proto::notifications;
use tidings_sync::Lock;
use tidings_wire::{Frame, RawId, notification};
use tokio::sync::mpsc;

use crate::client::session::Session;
use crate::client::sessions::SessionTable;

/// A leaf: nothing is taken under its lock.
pub(crate) struct DriveDesk {
    sessions: Arc<SessionTable>,
    open: Lock<HashMap<u64, OpenQuestion>>,
}

struct OpenQuestion {
    client: ClientKey,
    round: mpsc::Sender<DriveEvent>,
}

/// What comes back for a question: the client's answer, or none because the client can give none any more.
pub(crate) struct DriveEvent {
    pub(crate) shown: u64,
    pub(crate) answer: Option<Frame>,
}

/// The questions of one round. Dropping it withdraws those that are not answered.
pub(crate) struct AskedRound {
    desk: Arc<DriveDesk>,
    client: ClientKey,
    shown: Vec<u64>,
    events: mpsc::Receiver<DriveEvent>,
}

impl DriveDesk {
    pub(crate) fn new(sessions: Arc<SessionTable>) -> Self {
        Self { sessions, open: Lock::default() }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, OpenQuestion>> {
        self.open.lock()
    }

    /// Opens the questions that a client is about to be asked. A client whose input has ended is told of none: they come back at
    /// once.
    pub(crate) fn open(self: &Arc<Self>, session: &Session, shown: Vec<u64>) -> AskedRound {
        // One event per question at most, because it leaves the table with the event.
        let (round, events) = mpsc::channel(shown.len().max(1));
        let mut open = self.lock();
        // Under the lock: a session that falls silent later finds the questions here.
        let silent = session.progress.silent.load(Ordering::Relaxed);
        for shown in &shown {
            if silent {
                let _ = round.try_send(DriveEvent { shown: *shown, answer: None });
            } else {
                open.insert(*shown, OpenQuestion { client: session.key, round: round.clone() });
            }
        }
        AskedRound { desk: Arc::clone(self), client: session.key, shown, events }
    }

    /// A client's answer. `false` when it was not asked this.
    pub(crate) fn answer(&self, client: ClientKey, id: &RawId, frame: &Frame) -> bool {
        let Some(shown) = id.as_u64() else { return false };
        let mut open = self.lock();
        // Ids are consecutive numbers, so another client could guess one.
        if open.get(&shown).is_none_or(|question| question.client != client) {
            return false;
        }
        let Some(question) = open.remove(&shown) else { return false };
        let mut frame = frame.clone();
        // It may wait for the other answers of its round, and must not hold a whole buffer of the transport for that long.
        frame.compact();
        let _ = question.round.try_send(DriveEvent { shown, answer: Some(frame) });
        true
    }

    /// The client can be reached, but will answer nothing any more.
    pub(crate) fn client_silent(&self, client: ClientKey) {
        let mut open = self.lock();
        for (shown, question) in open.extract_if(|_, question| question.client == client) {
            let _ = question.round.try_send(DriveEvent { shown, answer: None });
        }
    }
}

impl AskedRound {
    /// The next answer. May be dropped at any time.
    pub(crate) async fn next(&mut self) -> Option<DriveEvent> {
        self.events.recv().await
    }

    /// Takes back what is not answered; what the client is to be told of it.
    pub(crate) fn withdraw(&mut self) -> Vec<Bytes> {
        let shown = std::mem::take(&mut self.shown);
        let unanswered: Vec<u64> = {
            let mut open = self.desk.lock();
            shown.into_iter().filter(|shown| open.remove(shown).is_some()).collect()
        };
        let withdrawn = |shown: u64| {
            let params = format!("{{\"requestId\":{shown}}}");
            notification(notifications::CANCELLED, Some(params.as_bytes()))
        };
        unanswered.into_iter().map(withdrawn).collect()
    }
}

impl Drop for AskedRound {
    fn drop(&mut self) {
        // The client must not go on showing a form for a call that is over; the stream of the call is over too.
        for withdrawn in self.withdraw() {
            self.desk.sessions.push_to(self.client, withdrawn);
        }
    }
}
