//! Calls that a replica sends itself to a server that another one runs (ADR 110): the link that carries them, and what the owner has yet
//! to hear of them. Made and ended by `lifecycle/direct.rs`; without `[cluster]` all of it stays empty.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock};

use tidings_hub::LinkKey;
use tidings_proto::ListKind;
use tokio::sync::Notify;

use crate::links::live_link::LiveLink;

#[derive(Default)]
pub(crate) struct DirectCalls {
    // Read by every call at a replica that does not run the server.
    link: RwLock<Option<LiveLink>>,
    /// Rings when the link is not to be used any more.
    pub(crate) given_up: Notify,
    /// Rings when something else is known of what the server is, or of who runs it.
    pub(crate) offered: Notify,
    /// How many calls that left from here were answered and may have changed a list, and a bell for whoever tells the owner of them. Counted by the
    /// link that a call went over: it may be given up by the time it is answered.
    answered: AtomicU64,
    pub(crate) news: Notify,
    /// How many of them each list that is shown here is known to be newer than.
    listed_after: [AtomicU64; 4],
    /// One asks the owner for lists at a time; whoever waits has the answer too.
    pub(crate) asking: tokio::sync::Mutex<()>,
}

impl DirectCalls {
    /// The link, if it is in use.
    pub(crate) fn link(&self) -> Option<LiveLink> {
        self.link.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Calls go over this link from now on.
    pub(crate) fn begin(&self, live: &LiveLink) {
        *self.link.write().unwrap_or_else(PoisonError::into_inner) = Some(live.clone());
    }

    /// From now on no call goes over this link; those that are under way go on. `false`: none did before either.
    pub(crate) fn give_up(&self, key: LinkKey) -> bool {
        let mut link = self.link.write().unwrap_or_else(PoisonError::into_inner);
        let is_it = link.as_ref().is_some_and(|live| live.key == key);
        if is_it {
            *link = None;
            self.given_up.notify_one();
        }
        is_it
    }

    /// The same for whichever link there is.
    pub(crate) fn give_up_any(&self) {
        if self.link.write().unwrap_or_else(PoisonError::into_inner).take().is_some() {
            self.given_up.notify_one();
        }
    }

    /// A call that left from here was answered, and may have changed a list.
    pub(crate) fn call_answered(&self) {
        // Pairs with the `Acquire` of whoever asks for a list: who sees the count also sees what the call left behind.
        self.answered.fetch_add(1, Ordering::Release);
        self.news.notify_one();
    }

    /// How many such calls there were.
    pub(crate) fn calls_answered(&self) -> u64 {
        self.answered.load(Ordering::Acquire)
    }

    /// Whether a list may lack what some of so many answered calls changed.
    pub(crate) fn is_behind(&self, kind: ListKind, answered: u64) -> bool {
        self.listed_after[kind as usize].load(Ordering::Acquire) < answered
    }

    /// Everything that so many answered calls changed is in the list.
    pub(crate) fn caught_up(&self, kind: ListKind, answered: u64) {
        self.listed_after[kind as usize].fetch_max(answered, Ordering::Release);
    }
}
