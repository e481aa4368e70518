//! Which replica of a cluster runs a server, and what its task does when that is another one.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tidings_hub::fleet::FleetServerName;
use tidings_hub::link_health::LinkEvent;
use tidings_upstream::LinkError;

use super::ServerLifecycle;
use super::link_care::{connect_due, forget_commands};
use crate::fleet::FleetSeat;
use crate::links::live_link::LiveLink;
use crate::observe::status::ServerState;
use crate::servers::server::Server;

impl ServerLifecycle {
    /// Waits until it is known who runs a server. `None`: there is no cluster, or every replica runs it.
    pub(super) async fn seated(&self, server: &Server) -> Option<FleetSeat> {
        let fleet = self.runtime.fleet.as_ref().filter(|_| server.is_placed())?;
        let name = FleetServerName::from(server.plan.name.as_str());
        let mut seats = fleet.seats();
        let seat = loop {
            let seat = seats.borrow_and_update().get(&name).cloned().unwrap_or_default();
            if seat.is_known_since(server.tenure.since.load(Ordering::Relaxed)) {
                break seat;
            }
            if seat == FleetSeat::Ending {
                // Every link was ended before this was asked for.
                fleet.ended(&name).await;
            }
            if seats.changed().await.is_err() {
                return std::future::pending().await;
            }
        };
        if let FleetSeat::Here(epoch) = seat {
            server.tenure.epoch.store(epoch.0, Ordering::Relaxed);
        }
        server.tenure.elsewhere.store(matches!(seat, FleetSeat::Elsewhere(..)), Ordering::Relaxed);
        server.direct.offered.notify_one();
        Some(seat)
    }

    /// Waits until somebody else runs it than before; for ever without a cluster.
    pub(super) async fn moved(&self, server: &Server, before: Option<&FleetSeat>) {
        let (Some(fleet), Some(before)) = (&self.runtime.fleet, before) else { return std::future::pending().await };
        let name = FleetServerName::from(server.plan.name.as_str());
        let is_moved = |seat: Option<&FleetSeat>| seat.is_none_or(|seat| seat != before);
        if fleet.seats().wait_for(|seats| is_moved(seats.get(&name))).await.is_err() {
            std::future::pending().await
        }
    }

    /// A server did not start: in a cluster it may at another replica.
    pub(super) fn start_failed(&self, server: &Server) {
        if let Some(fleet) = self.runtime.fleet.as_ref().filter(|_| server.is_placed() && !server.is_elsewhere()) {
            fleet.start_failed(&server.plan.name);
        }
    }

    /// Gives up the links that there are, and begins again with nothing assumed.
    pub(super) async fn move_now(&self, server: &Arc<Server>) {
        tracing::info!(server = %server.plan.name, "moves to another replica, or from one");
        // Before the link is taken away: a call that finds none asks the machine whether the next one is worth waiting for.
        server.health().tell(LinkEvent::RestartAsked);
        if server.is_elsewhere() {
            // What is under way at the former owner ends by itself, or with it.
            if let Some(live) = server.live() {
                server.links.set_live(None);
                self.retire(live);
            }
        } else {
            self.end_links(server).await;
        }
        server.links.forget_companion();
        forget_commands(server);
        // Whatever the end of the links has told it meanwhile.
        server.health().tell(LinkEvent::RestartAsked);
        connect_due(server).await;
    }

    /// A link to the owner: what the server lists comes from the log, and calls go over the link.
    pub(super) async fn serve_elsewhere(&self, server: &Arc<Server>, live: &LiveLink) -> LinkError {
        server.begin(live);
        server.health().tell(LinkEvent::Connected);
        self.subscriptions.can_follow(server, live);
        let is_listed = server.health().listed();
        // The log says what its lists are, also while its owner could not be reached; equal lists are not said again.
        server.mark_current(&self.catalogue);
        server.presence.settle_restart(Ok(()));
        if is_listed && login_needed(server).is_none() {
            server.set_state(&self.catalogue, ServerState::Ready, None);
        }
        let Some(mut need) = server.plan.source.login_need() else { return std::future::pending().await };
        loop {
            need.borrow_and_update();
            self.show_login_elsewhere(server);
            if need.changed().await.is_err() {
                return std::future::pending().await;
            }
        }
    }

    /// Calls go to the owner, and whether it is let in is the same everywhere.
    pub(super) fn show_login_elsewhere(&self, server: &Server) {
        let shown = self.catalogue.current().server(server.id).map(|status| status.state);
        match login_needed(server) {
            Some(error) => server.set_state(&self.catalogue, ServerState::NeedsLogin, Some(&error)),
            // What else is the matter is not over by a login: the owner may not be reached.
            None if shown == Some(ServerState::NeedsLogin) => {
                server.set_state(&self.catalogue, ServerState::Ready, None);
            }
            None => {}
        }
    }
}

/// That its owner is not let in before a person has logged in, if that is so.
fn login_needed(server: &Server) -> Option<LinkError> {
    let need = server.plan.source.login_need().and_then(|need| need.borrow().clone());
    let is_for_nobody = server.plan.source.people().is_none_or(|people| people.logged_in == 0);
    need.filter(|_| is_for_nobody).map(LinkError::NeedsLogin)
}
