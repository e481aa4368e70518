//! The links of one server that are its own: the one that all share, and the one beside it for clients of the legacy era.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};

use tidings_hub::LinkKey;
use tidings_sync::Lock;
use tokio::sync::watch;

use crate::links::link_watch::LinkWatch;
use crate::links::live_link::LiveLink;
use crate::plan::ServerPlan;

pub(crate) struct ServerLinks {
    // Read by every call, and written when a link comes or goes.
    live: RwLock<Option<LiveLink>>,
    /// A second link for clients of the legacy era.
    pub(crate) companion: watch::Sender<Companion>,
    /// The health of the link that all share.
    pub(crate) watch: Arc<LinkWatch>,
    /// How often the second link was tried.
    pub(crate) companion_attempts: AtomicU64,
    /// What the last introduction taught: the next one need not find it out again.
    manners: Lock<ProbeManners>,
}

/// What is remembered of how a server takes being asked for its era.
#[derive(Clone, Copy, Default)]
pub(crate) struct ProbeManners {
    /// It was a legacy server: one that is silent on the probe is not waited for as long as the first time.
    pub(crate) is_legacy: bool,
    /// Its process ends on the probe.
    pub(crate) ends_on_probe: bool,
}

/// The second link of a server that may speak both eras.
#[derive(Clone, Default)]
pub(crate) enum Companion {
    #[default]
    Untried,
    /// Being made.
    UnderWay(CompanionAttempt),
    Live(LiveLink),
    /// It could not be made; not tried before then. With the pause that led there.
    NotBefore(Instant, Duration),
    /// The server has only one era.
    Impossible,
}

/// An attempt to make the second link.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct CompanionAttempt {
    /// Which one: a restart may begin another while this one goes on.
    pub(crate) number: u64,
    pub(crate) since: Instant,
    /// The pause that led to it.
    pub(crate) pause: Duration,
}

impl ServerLinks {
    pub(crate) fn new(plan: &ServerPlan) -> Self {
        Self {
            live: RwLock::new(None),
            companion: watch::Sender::default(),
            companion_attempts: AtomicU64::new(0),
            watch: LinkWatch::new(plan),
            manners: Lock::default(),
        }
    }

    /// The link for everybody, if it is up.
    pub(crate) fn live(&self) -> Option<LiveLink> {
        self.live.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn set_live(&self, link: Option<LiveLink>) {
        *self.live.write().unwrap_or_else(PoisonError::into_inner) = link;
    }

    /// Whether this is the link that all share.
    pub(crate) fn is_shared(&self, link: LinkKey) -> bool {
        self.live.read().unwrap_or_else(PoisonError::into_inner).as_ref().is_some_and(|live| live.key == link)
    }

    pub(crate) fn manners(&self) -> MutexGuard<'_, ProbeManners> {
        self.manners.lock()
    }

    /// There is a new link: the server may be another one. What was only too slow is not tried sooner for that.
    pub(crate) fn companion_may_be_new(&self) {
        self.companion.send_if_modified(|companion| {
            // The new server may speak both eras, so the verdict about the old one is dropped.
            let forgets = matches!(companion, Companion::Impossible);
            if forgets {
                *companion = Companion::Untried;
            }
            forgets
        });
    }

    /// Forgets what is known of the companion, also that it failed: the next legacy call tries again at once.
    pub(crate) fn forget_companion(&self) {
        self.companion.send_replace(Companion::Untried);
    }
}
