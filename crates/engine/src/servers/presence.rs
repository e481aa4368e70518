//! Whether a server is there, and how it is told to leave.

use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use tidings_sync::Lock;
use tidings_upstream::LinkError;
use tokio::sync::{Notify, oneshot};
use tokio_util::sync::CancellationToken;

/// Why calls on a server end before their answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Removal {
    // 0 is left for links that nobody ended on purpose.
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
    asked: Lock<Waiting>,
    /// Those who wait for the restart that has begun, and are told how it went.
    begun: Lock<Waiting>,
    /// Rings when it is removed or replaced.
    pub(crate) gone: CancellationToken,
}

impl Presence {
    /// Whether it is the server of its id: it was admitted, and has not left. Asked where the catalogue changes.
    pub(crate) fn is_current(&self) -> bool {
        self.is_admitted() && !self.gone.is_cancelled()
    }

    pub(crate) fn is_admitted(&self) -> bool {
        self.admitted.load(Ordering::SeqCst)
    }

    pub(crate) fn admit(&self) {
        self.admitted.store(true, Ordering::SeqCst);
    }

    /// It is there no longer; its task ends.
    pub(crate) fn leave(&self, removal: Removal) {
        // Before `gone` rings: whoever wakes reads the reason.
        self.removal.store(removal as u8, Ordering::SeqCst);
        self.gone.cancel();
    }

    /// Why its links were ended, if they were.
    pub(crate) fn removal(&self) -> Option<Removal> {
        let all = [Removal::Removed, Removal::Replaced, Removal::Restarted];
        let found = self.removal.load(Ordering::SeqCst);
        all.into_iter().find(|removal| *removal as u8 == found)
    }

    /// Asks its task to end everything and to connect again. The receiver hears how that went.
    pub(crate) fn ask_restart(&self) -> oneshot::Receiver<Result<(), LinkError>> {
        let (tell, heard) = oneshot::channel();
        self.asked.lock().push(tell);
        // Keeps a permit: the task may be between two waits.
        self.restart.notify_one();
        heard
    }

    /// Waits until somebody asks for a restart.
    pub(crate) async fn restart_asked(&self) {
        self.restart.notified().await;
    }

    /// Whoever asked until now waits for the restart that begins.
    pub(crate) fn restart_begins(&self) {
        // Those who ask from here on mean another restart, and wait for that one.
        let asked = std::mem::take(&mut *self.asked.lock());
        self.begun.lock().extend(asked);
        self.removal.store(Removal::Restarted as u8, Ordering::SeqCst);
    }

    /// A link is taken into use: what comes later has nothing to do with an earlier restart.
    pub(crate) fn forget_restart(&self) {
        let (restarted, none) = (Removal::Restarted as u8, 0);
        // Only a restart is forgotten; a server that was removed meanwhile stays removed.
        let _ = self.removal.compare_exchange(restarted, none, Ordering::SeqCst, Ordering::SeqCst);
    }

    /// It is ready again, or failed.
    pub(crate) fn settle_restart(&self, outcome: Result<(), &LinkError>) {
        let begun = std::mem::take(&mut *self.begun.lock());
        for waiting in begun {
            let _ = waiting.send(outcome.map_err(Clone::clone));
        }
    }
}
