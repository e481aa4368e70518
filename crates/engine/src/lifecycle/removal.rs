//! How a server leaves: removed, replaced or restarted.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Mutex, PoisonError};

use tidings_upstream::LinkError;
use tokio::sync::{Notify, oneshot};

use crate::gateway::Inner;
use crate::servers::server::Server;

/// Why calls on a server end before their answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Removal {
    Removed = 1,
    Replaced,
    Restarted,
}

impl Removal {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Removed => "was removed",
            Self::Replaced => "was replaced by another configuration of it",
            Self::Restarted => "was restarted",
        }
    }
}

/// Whoever waits for a restart.
type Waiting = Vec<oneshot::Sender<Result<(), LinkError>>>;

/// Whether a server is there, and how it is told to leave.
#[derive(Default)]
pub(crate) struct Presence {
    /// Set in the commit that makes it visible.
    admitted: AtomicBool,
    removal: AtomicU8,
    restart: Notify,
    /// Asked for, and not begun.
    asked: Mutex<Waiting>,
    /// Begun.
    begun: Mutex<Waiting>,
}

impl Server {
    /// Whether it is the server of its id: it was admitted, and has not left. Asked where the catalogue changes.
    pub(crate) fn is_current(&self) -> bool {
        self.is_admitted() && !self.gone.is_cancelled()
    }

    pub(crate) fn is_admitted(&self) -> bool {
        self.presence.admitted.load(Ordering::SeqCst)
    }

    pub(crate) fn admit(&self) {
        self.presence.admitted.store(true, Ordering::SeqCst);
    }

    /// It is there no longer; its task ends.
    pub(crate) fn leave(&self, removal: Removal) {
        self.presence.removal.store(removal as u8, Ordering::SeqCst);
        self.gone.cancel();
    }

    /// Why its links were ended, if they were.
    pub(crate) fn removal(&self) -> Option<Removal> {
        let all = [Removal::Removed, Removal::Replaced, Removal::Restarted];
        let found = self.presence.removal.load(Ordering::SeqCst);
        all.into_iter().find(|removal| *removal as u8 == found)
    }

    /// Ends every link of it and waits until they are gone.
    pub(crate) async fn end_links(self: &Arc<Self>, gateway: &Arc<Inner>) {
        for link in gateway.sever(self) {
            link.close().await;
        }
    }

    /// ServerRequests its task to end everything and to connect again. The receiver hears how that went.
    pub(crate) fn ask_restart(&self) -> oneshot::Receiver<Result<(), LinkError>> {
        let (tell, heard) = oneshot::channel();
        self.presence.asked.lock().unwrap_or_else(PoisonError::into_inner).push(tell);
        self.presence.restart.notify_one();
        heard
    }

    /// Waits until somebody asks for a restart.
    pub(crate) async fn restart_asked(&self) {
        self.presence.restart.notified().await;
    }

    /// Ends everything for a restart.
    pub(crate) async fn begin_restart(self: &Arc<Self>, gateway: &Arc<Inner>) {
        tracing::info!(server = %self.plan.name, "restarted");
        let asked = std::mem::take(&mut *self.presence.asked.lock().unwrap_or_else(PoisonError::into_inner));
        self.presence.begun.lock().unwrap_or_else(PoisonError::into_inner).extend(asked);
        self.presence.removal.store(Removal::Restarted as u8, Ordering::SeqCst);
        self.end_links(gateway).await;
        self.forget_companion();
    }

    /// A link is taken into use: what comes later has nothing to do with an earlier restart.
    pub(crate) fn forget_restart(&self) {
        let (restarted, none) = (Removal::Restarted as u8, 0);
        let _ = self.presence.removal.compare_exchange(restarted, none, Ordering::SeqCst, Ordering::SeqCst);
    }

    /// It is ready again, or failed.
    pub(crate) fn settle_restart(&self, outcome: Result<(), &LinkError>) {
        let begun = std::mem::take(&mut *self.presence.begun.lock().unwrap_or_else(PoisonError::into_inner));
        for waiting in begun {
            let _ = waiting.send(outcome.map_err(Clone::clone));
        }
    }
}
