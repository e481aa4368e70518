//! A server that is added to a running gateway: it connects and lists before anybody can see it.

use std::sync::Arc;

use tidings_hub::catalogue::{OfferList, ServerOffer};
use tidings_hub::ledger::CommitOccasion;
use tidings_hub::refresh::{FailedList, RefreshSchedule};
use tidings_upstream::{LinkError, ServerHello};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::ServerLifecycle;
use crate::discovery::look::touched;
use crate::discovery::signals::Signals;
use crate::links::live_link::{LinkUser, LiveLink};
use crate::servers::server::Server;

/// A link that has been listed, and what is needed to go on from there.
pub(crate) struct Opened {
    pub(crate) signals: Signals,
    pub(crate) lists: [OfferList; 4],
    pub(crate) schedule: RefreshSchedule,
}

/// The first connection of a server, made before it was admitted.
pub(crate) struct Startup {
    pub(crate) live: LiveLink,
    pub(crate) end: oneshot::Receiver<LinkError>,
    pub(crate) opened: Opened,
    /// Whether what it offers was committed by whoever admitted it.
    pub(crate) published: bool,
}

/// A server that can be shown.
#[derive(Clone)]
pub(crate) struct Ready {
    pub(crate) live: LiveLink,
    pub(crate) offer: ServerOffer,
    pub(crate) hello: Arc<ServerHello>,
    /// Lists that it declares and fails to give.
    pub(crate) failed: Vec<FailedList>,
}

impl ServerLifecycle {
    /// The task of a server that is added: connects and lists it, tells how that went, and goes on when it is admitted.
    /// Otherwise nothing of it is left at the end.
    pub(super) async fn enter(
        self: Arc<Self>,
        server: Arc<Server>,
        deadline: Instant,
        ready: oneshot::Sender<Result<Box<Ready>, LinkError>>,
        admission: oneshot::Receiver<()>,
    ) {
        let first = tokio::select! {
            first = self.rehearse(&server, deadline) => first,
            () = server.presence.gone.cancelled() => Err(LinkError::Stopped),
            () = self.runtime.stop.cancelled() => Err(LinkError::Stopped),
        };
        if first.is_err() {
            // Before the failure is told: when the caller hears of it, no process is left.
            self.end_links(&server).await;
        }
        let shown = match &first {
            Ok((_, ready)) => Ok(Box::new(ready.clone())),
            Err(error) => Err(error.clone()),
        };
        // Whoever waited has lost patience and committed without us: then the task shows the server itself.
        let published = ready.send(shown).is_ok();
        // An error means that the change was undone.
        if admission.await.is_err() {
            self.end_links(&server).await;
            return;
        }
        let first = first.map(|(mut startup, _)| {
            startup.published = published;
            startup
        });
        self.run(server, Some(first)).await;
    }

    /// Connects and lists, so that nobody sees it.
    async fn rehearse(
        self: &Arc<Self>,
        server: &Arc<Server>,
        deadline: Instant,
    ) -> Result<(Startup, Ready), LinkError> {
        let (live, end) = self.connect(server, None, LinkUser::Everybody, Some(deadline.into_std())).await?;
        let late = || LinkError::Protocol("did not give its lists in time".into());
        let opened = tokio::time::timeout_at(deadline, self.open(server, &live)).await;
        let opened = opened.unwrap_or_else(|_| Err(late()));
        let opened = opened.map_err(|error| error.with_words(live.link.last_words()))?;
        let ready = Ready {
            live: live.clone(),
            offer: server.offer(&live, opened.lists.clone()),
            hello: Arc::clone(&live.hello),
            failed: opened.schedule.failures(),
        };
        Ok((Startup { live, end, opened, published: false }, ready))
    }

    /// Takes a new link into use and lists everything for the first time.
    async fn open(&self, server: &Arc<Server>, live: &LiveLink) -> Result<Opened, LinkError> {
        // Nothing is followed over it yet (`can_follow` comes with the commit): nobody can know its resources before.
        server.begin(live);
        let signals = self.open_signals(server, live).await;
        let mut schedule = self.new_schedule(server);
        let mut lists = Default::default();
        let look = server.begin_look(true);
        server.examine(&self.discovery, live, &look, &mut lists, &mut schedule, None).await?;
        // There is nobody to be told yet; this only ends the look.
        server.looked(&self.notifier, &look);
        Ok(Opened { signals, lists, schedule })
    }

    /// It was admitted before it was ready: now it is, and is shown like any that connects.
    pub(super) fn show_startup(&self, server: &Arc<Server>, startup: &Startup) {
        self.subscriptions.can_follow(server, &startup.live);
        server.set_failed_lists(&self.catalogue, startup.opened.schedule.failures());
        let offer = server.offer(&startup.live, startup.opened.lists.clone());
        let touched = touched(None, Some(&offer));
        let occasion =
            CommitOccasion { at: std::time::Instant::now(), touched, signalled: Default::default(), held_by: None };
        self.discovery.publish(server, offer, Arc::clone(&startup.live.hello), &occasion, None);
    }
}
