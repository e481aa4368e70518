//! Calls from a replica that does not run the server: a modern server behind a URL knows no session, and is called from anywhere (ADR 110).
//!
//! The replica that runs it has its lists and listens to it; the others have a link for calls alone, and tell that replica what it
//! would have heard if the calls had been its own. While a link can not be made, calls are passed on as to any other server.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tidings_hub::{LinkKey, RetryBackoff};
use tidings_proto::{Era, task};
use tidings_upstream::{EraChoice, LinkError, ServerHello, TransportSpec};
use tokio::sync::{oneshot, watch};

use super::ServerLifecycle;
use crate::fleet::{FleetDesk, FleetSeat};
use crate::links::link_watch::LinkWatch;
use crate::links::live_link::{LinkUser, LiveLink};
use crate::plan::Source;
use crate::servers::server::Server;

/// How long the introduction of such a link may take. No call waits for it.
const INTRODUCTION: Duration = Duration::from_secs(10);
/// Pauses between attempts: a server may be there for its owner alone.
const PAUSES: RetryBackoff = RetryBackoff { first: Duration::from_secs(1), longest: Duration::from_secs(120) };
/// A link that was good for this long is made again as soon as the first one.
const STEADY: Duration = Duration::from_secs(60);
/// How often the owner is told that calls were answered, at the most.
const WORDS_APART: Duration = Duration::from_millis(20);
/// How often it is looked whether the last call over a link that is given up is over.
const DRAINED_AGAIN: Duration = Duration::from_millis(100);

impl ServerLifecycle {
    /// Whether calls to a server may leave from this replica while another one runs it, as far as its configuration says.
    pub(super) fn may_be_called_directly(&self, server: &Server) -> bool {
        let Some(fleet) = self.runtime.fleet.as_ref().filter(|_| server.is_placed()) else { return false };
        let Source::Remote(spec) = &server.plan.source else { return false };
        let placement = &server.plan.placement;
        matches!(spec.transport, TransportSpec::Http(_))
            && spec.era != EraChoice::Legacy
            && server.plan.isolation.is_shared()
            // One that only one replica may have, and one that only some may.
            && !placement.stops_alone
            && placement.labels.iter().all(|label| fleet.settings.labels.contains(label))
    }

    /// The task that keeps the link for as long as the server is there.
    pub(super) async fn keep_direct(self: Arc<Self>, server: Arc<Server>) {
        let Some(fleet) = self.runtime.fleet.clone() else { return };
        tokio::select! {
            () = self.keep_direct_link(&server, &fleet) => {}
            () = tell_owner(&server, &fleet) => {}
            () = server.presence.gone.cancelled() => {}
            () = self.runtime.stop.cancelled() => {}
        }
        // Whoever ends the server ends its links.
        server.direct.give_up_any();
    }

    async fn keep_direct_link(self: &Arc<Self>, server: &Arc<Server>, fleet: &FleetDesk) {
        let name = &server.plan.name;
        let mut failures = 0;
        loop {
            self.direct_is(true, server, fleet).await;
            // Before the attempt: a login that comes during it counts.
            let need = server.plan.source.login_need();
            let begun = Instant::now();
            match self.make_direct(server).await {
                Ok((live, end)) => {
                    tracing::info!(server = %name, "is called by this replica itself");
                    let is_lost = self.use_direct(server, fleet, &live, end).await;
                    if !is_lost {
                        // Nothing is wrong with it: it moved here, say.
                        failures = 0;
                        continue;
                    }
                    tracing::info!(server = %name, "is called by way of the replica that runs it");
                }
                // Not a warning each time: it may be there for its owner alone, and then all is well.
                Err(error) if failures == 0 => {
                    tracing::info!(server = %name, %error, "can not be called from here; calls go by way of the replica that runs it");
                }
                Err(error) => tracing::debug!(server = %name, %error, "can still not be called from here"),
            }
            failures = if begun.elapsed() > STEADY { 1 } else { failures + 1 };
            tokio::select! {
                () = tokio::time::sleep(PAUSES.after(failures)) => {}
                () = logged_in(need) => failures = 0,
            }
        }
    }

    async fn make_direct(
        self: &Arc<Self>,
        server: &Arc<Server>,
    ) -> Result<(LiveLink, oneshot::Receiver<LinkError>), LinkError> {
        let watch = LinkWatch::new(&server.plan);
        let until = Instant::now() + INTRODUCTION;
        let making = self.make_link(server, Some(Era::Modern), LinkUser::Everybody, Some(until), &watch);
        let late = || LinkError::Silent(INTRODUCTION.as_secs());
        let (live, end, sink) = tokio::time::timeout_at(until.into(), making).await.unwrap_or_else(|_| Err(late()))?;
        if !is_callable(&live.hello) {
            self.retire(live);
            return Err(LinkError::Unusable("it is not what the replica that runs it sees".to_owned()));
        }
        let end = self.watch_alone(server, live.clone(), end, sink);
        Ok((live, end))
    }

    /// Until the link is over, or is not to be used any more. Tells whether it was lost.
    async fn use_direct(
        self: &Arc<Self>,
        server: &Arc<Server>,
        fleet: &FleetDesk,
        live: &LiveLink,
        end: oneshot::Receiver<LinkError>,
    ) -> bool {
        server.direct.begin(live);
        let is_lost = tokio::select! {
            () = server.direct.given_up.notified() => true,
            // The end may have come before its use began.
            _ = end => true,
            () = self.direct_is(false, server, fleet) => false,
        };
        server.direct.give_up(live.key);
        // The permit of that is not for the next link.
        let _ = futures_util::FutureExt::now_or_never(server.direct.given_up.notified());
        let (lifecycle, server, live) = (Arc::clone(self), Arc::clone(server), live.clone());
        self.runtime.spawn(async move {
            // What is under way ends by itself; no call runs longer than this.
            let (_, most) = server.timeouts(&lifecycle.runtime.settings);
            let drained = lifecycle.drained(live.key);
            tokio::select! {
                _ = tokio::time::timeout(most, drained) => {}
                () = lifecycle.runtime.stop.cancelled() => {}
            }
            lifecycle.retire(live);
        });
        is_lost
    }

    async fn drained(&self, key: LinkKey) {
        let is_busy = || self.links.in_flight.lock().calls.on(key).next().is_some();
        loop {
            // First: a call may just have been given the link.
            tokio::time::sleep(DRAINED_AGAIN).await;
            if !self.links.table.has(key) || !is_busy() {
                return;
            }
        }
    }

    /// Waits until calls may leave from here, or may not.
    async fn direct_is(&self, wanted: bool, server: &Server, fleet: &FleetDesk) {
        let (mut seats, mut allowed) = (fleet.seats(), fleet.direct());
        loop {
            // Before they are looked at: what changes meanwhile wakes the wait below.
            seats.mark_unchanged();
            let is_elsewhere = matches!(fleet.seat_of(&server.plan.name), FleetSeat::Elsewhere(..) | FleetSeat::Nobody);
            let is_known = || {
                let known = self.catalogue.current();
                known.server(server.id).and_then(|status| status.hello.clone()).is_some_and(|hello| is_callable(&hello))
            };
            let is_allowed = *allowed.borrow_and_update();
            if (is_allowed && is_elsewhere && server.is_elsewhere() && is_known()) == wanted {
                return;
            }
            tokio::select! {
                () = server.direct.offered.notified() => {}
                changed = seats.changed() => if changed.is_err() { return std::future::pending().await },
                changed = allowed.changed() => if changed.is_err() { return std::future::pending().await },
            }
        }
    }
}

/// Whether a server can be called without its owner: it knows no session, and no tasks, which are followed where they were begun.
fn is_callable(hello: &ServerHello) -> bool {
    hello.revision.era() == Era::Modern && !task::declares_any(&hello.capabilities)
}

/// Waits until somebody logs in: who was not let in is from then on.
async fn logged_in(need: Option<watch::Receiver<Option<String>>>) {
    let Some(mut need) = need else { return std::future::pending().await };
    while need.changed().await.is_ok() {
        if need.borrow_and_update().is_none() {
            return;
        }
    }
    std::future::pending().await
}

/// Tells the owner, soon after each call that was answered and not for each of many, that its lists may be others now.
async fn tell_owner(server: &Server, fleet: &FleetDesk) {
    loop {
        server.direct.news.notified().await;
        fleet.tell_owner(&server.plan.name, Bytes::new());
        tokio::time::sleep(WORDS_APART).await;
    }
}
