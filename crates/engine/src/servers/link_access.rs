//! Which link carries something to a server. Found here; made by whoever makes links.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tidings_hub::own_links::{LinkClaim, LinkOwner};
use tidings_proto::Era;
use tidings_proto::refusal::RequestRefusal;
use tidings_upstream::EraChoice;
use tidings_wire::Frame;

use crate::client::session::Caller;
use crate::links::live_link::LiveLink;
use crate::observe::status::{ServerState, ServerStatus};
use crate::plan::{Isolation, Source};
use crate::servers::own_link_table::{LinkNeed, NoOwnLink, OwnLinkUser};
use crate::servers::presence::Removal;
use crate::servers::server::Server;
use crate::servers::server_links::{Companion, CompanionAttempt};
use crate::servers::server_pool::ServerPool;

/// How long a call waits for an attempt to reach a server that was lost.
const WANTED: Duration = Duration::from_secs(2);
/// How long a client that comes back from the page of a login is kept waiting for the end of it: clients give a request a minute.
const LOGIN: Duration = Duration::from_secs(50);
/// How long calls wait for the first attempt to make a companion.
const PATIENCE: Duration = Duration::from_secs(2);

impl ServerPool {
    /// The link that carries a client's call to a server, if it is there at once.
    pub(crate) fn link_now(&self, caller: &Caller, server: &Server) -> Option<LiveLink> {
        if !server.plan.isolation.is_shared() {
            // Links of single sessions and people may have to be made first, which takes more than a look.
            return None;
        }
        if let Some(direct) = server.direct_link() {
            return Some(direct);
        }
        let live = server.live()?;
        match (caller.era(), live.hello.revision.era()) {
            (Era::Legacy, Era::Modern) => match &*server.links.companion.borrow() {
                // One that was lost stays here until the next attempt replaces it, so the table of links is asked.
                Companion::Live(companion) if self.links.table.has(companion.key) => Some(companion.clone()),
                Companion::Impossible => Some(live),
                Companion::NotBefore(at, _) if Instant::now() < *at => Some(live),
                _ => None,
            },
            _ => Some(live),
        }
    }

    /// The link that carries a client's request to a server.
    pub(crate) async fn link_for(
        &self,
        caller: &Caller,
        request: &Frame,
        server: &Arc<Server>,
    ) -> Result<LiveLink, RequestRefusal> {
        let isolation = server.plan.isolation;
        let own = || OwnLinkUser::of(caller, request, isolation);
        // Before the shared link is looked at: an isolated session must not depend on it, and it is not let in as a person is.
        if isolation == Isolation::Principal || (isolation == Isolation::Session && caller.era() == Era::Legacy) {
            return self.own_link_of(&own(), server).await;
        }
        if let Some(direct) = server.direct_link().filter(|_| isolation.is_shared()) {
            return Ok(direct);
        }
        let live = self.live_link(server).await?;
        // A modern server knows no sessions: capabilities and level ride each request.
        if isolation == Isolation::Session && live.hello.revision.era() == Era::Legacy {
            return self.own_link_of(&own(), server).await;
        }
        if caller.era() == Era::Legacy
            && live.hello.revision.era() == Era::Modern
            && let Some(companion) = self.legacy_companion(server).await
        {
            return Ok(companion);
        }
        Ok(live)
    }

    /// The link that carries a request of an extension: the shared one, on which the server has declared it. In the other era the same
    /// server may know nothing of it.
    pub(crate) async fn declaring_link(
        &self,
        caller: &Caller,
        request: &Frame,
        server: &Arc<Server>,
    ) -> Result<LiveLink, RequestRefusal> {
        if !server.plan.isolation.is_shared() {
            return self.link_for(caller, request, server).await;
        }
        self.live_link(server).await
    }

    /// The shared link; waited for while the server is starting for the first time.
    pub(crate) async fn live_link(&self, server: &Arc<Server>) -> Result<LiveLink, RequestRefusal> {
        if let Some(live) = server.live() {
            return Ok(live);
        }
        if self.catalogue.starting() {
            let mut catalogue = self.catalogue.subscribe();
            // Settled without a link: the first attempt failed, and the error is the answer.
            let up = catalogue.wait_for(|c| server.live().is_some() || c.server(server.id).is_none_or(|s| s.settled));
            let _ = tokio::time::timeout_at(self.catalogue.start_deadline().into(), up).await;
        }
        if server.live().is_none() && self.unplaced(server).is_none() {
            // The server was lost: an attempt is worth a moment, because a call that fails costs more than one that
            // waits.
            server.health().wanted(WANTED).await;
        }
        server.live().ok_or_else(|| self.down(server))
    }

    /// Why no replica of a cluster runs it, so that waiting for it is of no use.
    fn unplaced(&self, server: &Server) -> Option<String> {
        self.runtime.fleet.as_ref()?.unplaced(&server.plan.name)
    }

    fn down(&self, server: &Server) -> RequestRefusal {
        let name = &server.plan.name;
        // A restart leaves a reason, too, but the server comes back from it.
        if let Some(removal) = server.presence.removal().filter(|_| server.presence.gone.is_cancelled()) {
            return RequestRefusal::ServerDown { server: name.clone(), reason: removal.as_str().to_owned() };
        }
        let catalogue = self.catalogue.current();
        let status = catalogue.server(server.id);
        let reason = match status.and_then(|s| s.error_for_clients.clone()) {
            Some(error) => error,
            None if status.is_some_and(|s| s.state == ServerState::Connecting) => "is still starting".into(),
            None => "is not connected".into(),
        };
        // Labels and replicas are the operator's affair, who finds them in `tidings servers`.
        let reason =
            if self.unplaced(server).is_some() { "is run by no replica of the cluster".into() } else { reason };
        let server = name.clone();
        match status.is_some_and(|status| status.state == ServerState::NeedsLogin) {
            true => RequestRefusal::NeedsLogin { server, reason },
            false => RequestRefusal::ServerDown { server, reason },
        }
    }

    /// Whether somebody has to log in to a server for themselves, as far as anybody has found out.
    pub(crate) fn needs_login(&self, caller: &Caller, server: &Server) -> bool {
        self.own_links.needs_login(&LinkOwner::Person(Arc::clone(&caller.principal().name)), server.id)
    }

    /// Waits until somebody has logged in to a server, or as long as a client waits for an answer.
    pub(crate) async fn logged_in(&self, caller: &Caller, server: &Server) {
        if server.plan.isolation == Isolation::Principal {
            let owner = LinkOwner::Person(Arc::clone(&caller.principal().name));
            let mut changes = self.own_links.changed.subscribe();
            let logged_in = changes.wait_for(|()| !self.own_links.needs_login(&owner, server.id));
            let _ = tokio::time::timeout(LOGIN, logged_in).await;
            return;
        }
        let mut catalogue = self.catalogue.subscribe();
        let is_in = |status: &ServerStatus| status.state != ServerState::NeedsLogin;
        let logged_in = catalogue.wait_for(|catalogue| catalogue.server(server.id).is_none_or(is_in));
        let _ = tokio::time::timeout(LOGIN, logged_in).await;
    }

    /// The link that somebody has for itself, opened when it is first needed.
    pub(crate) async fn own_link(
        &self,
        user: &OwnLinkUser,
        server: &Arc<Server>,
        need: LinkNeed,
    ) -> Result<LiveLink, NoOwnLink> {
        let owner = user.owner();
        let mut changes = self.own_links.changed.subscribe();
        loop {
            // Before the table is looked at: a change between the look and the wait below must wake this.
            changes.mark_unchanged();
            let now = Instant::now();
            if server.presence.gone.is_cancelled() {
                // Whoever has its place now has its id too: an attempt with this configuration would be taken for one with the other's.
                let reason = server.presence.removal().map_or("is not connected", Removal::as_str);
                return Err(NoOwnLink { reason: reason.to_owned(), retry_at: Some(now) });
            }
            let (claim, live) = self.own_links.claim(&owner, server.id, need, now);
            if let Some(live) = live {
                return Ok(live);
            }
            let limit = |key: &str, limit: usize| NoOwnLink {
                reason: format!("has no connection left for this session: the limit {key} = {limit} is reached"),
                retry_at: Some(now + Duration::from_secs(1)),
            };
            let Some(maker) = self.maker.upgrade() else {
                // The engine is ending, and nobody makes links any more.
                return Err(NoOwnLink { reason: "is not connected".into(), retry_at: Some(now) });
            };
            match claim {
                LinkClaim::Connect(attempt) => maker.make_own_link(user.clone(), Arc::clone(server), attempt),
                LinkClaim::Full(most) if !maker.make_room(server.id) => {
                    let reason = format!("has no connection left: {most} people use it at this moment");
                    return Err(NoOwnLink { reason, retry_at: Some(now + Duration::from_secs(1)) });
                }
                LinkClaim::Full(_) => continue,
                LinkClaim::NeedsLogin(words) => {
                    return Err(NoOwnLink { reason: words.to_string(), retry_at: None });
                }
                // `Up` without its link is out of reach: both are changed under one lock.
                LinkClaim::Wait | LinkClaim::Up(_) => {}
                LinkClaim::Resting { until, error } => {
                    let seconds = until.saturating_duration_since(now).as_secs_f64();
                    let reason = format!("{error} (tried again in {seconds:.1} s)");
                    return Err(NoOwnLink { reason, retry_at: Some(until) });
                }
                LinkClaim::TooManyOfOwner(most) => return Err(limit("session_links_per_client", most)),
                LinkClaim::TooMany(most) => return Err(limit("session_links", most)),
            }
            // Every attempt to connect has a deadline, so this ends.
            let _ = changes.changed().await;
        }
    }

    /// The same, as a client is told.
    pub(crate) async fn own_link_of(
        &self,
        user: &OwnLinkUser,
        server: &Arc<Server>,
    ) -> Result<LiveLink, RequestRefusal> {
        let link = self.own_link(user, server, LinkNeed::Use).await;
        let server = || server.plan.name.clone();
        link.map_err(|none| match none.retry_at {
            Some(_) => RequestRefusal::ServerDown { server: server(), reason: none.reason },
            None => RequestRefusal::NeedsLogin { server: server(), reason: none.reason },
        })
    }

    /// The legacy link beside the modern one of a server that speaks both eras, if there is one or one can be made soon. It is
    /// waited for only as long as a probe may take.
    async fn legacy_companion(&self, server: &Arc<Server>) -> Option<LiveLink> {
        // The borrow must not be held across the wait, which needs to write; so only the deadline is taken out of it.
        let waits_until = match &*server.links.companion.borrow() {
            Companion::Live(live) if self.links.table.has(live.key) => return Some(live.clone()),
            Companion::Impossible => return None,
            Companion::NotBefore(at, _) if Instant::now() < *at => return None,
            Companion::UnderWay(attempt) => Some(attempt.since + PATIENCE),
            _ => None,
        };
        let waits_until = match waits_until {
            Some(until) => until,
            None => self.begin_companion(server)?,
        };
        if Instant::now() < waits_until {
            let mut companion = server.links.companion.subscribe();
            let decided = companion.wait_for(|companion| !matches!(companion, Companion::UnderWay(..)));
            let _ = tokio::time::timeout_at(waits_until.into(), decided).await;
        }
        match &*server.links.companion.borrow() {
            Companion::Live(live) if self.links.table.has(live.key) => Some(live.clone()),
            _ => None,
        }
    }

    /// Begins an attempt, unless another did meanwhile. Gives the time until which calls wait for it.
    fn begin_companion(&self, server: &Arc<Server>) -> Option<Instant> {
        // Whoever has configured an era gets that one and no other.
        let possible = matches!(&server.plan.source, Source::Remote(spec) if spec.era == EraChoice::Auto)
            && !server.is_elsewhere();
        let mut until = None;
        let mut begun = None;
        // Decided under the lock of the channel: of many calls that come at once, one begins the attempt.
        server.links.companion.send_if_modified(|companion| {
            let pause = match companion {
                _ if !possible => {
                    *companion = Companion::Impossible;
                    return true;
                }
                Companion::UnderWay(attempt) => {
                    until = Some(attempt.since + PATIENCE);
                    return false;
                }
                Companion::NotBefore(_, pause) => *pause,
                _ => Duration::ZERO,
            };
            let now = Instant::now();
            let number = server.links.companion_attempts.fetch_add(1, Ordering::Relaxed);
            let attempt = CompanionAttempt { number, since: now, pause };
            (until, begun) = (Some(now + PATIENCE), Some(attempt));
            *companion = Companion::UnderWay(attempt);
            true
        });
        if let Some((attempt, maker)) = begun.zip(self.maker.upgrade()) {
            maker.make_companion(Arc::clone(server), attempt);
        }
        until
    }
}
