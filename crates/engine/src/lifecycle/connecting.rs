//! Making the links of a server, and watching over those that its task does not.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Instant;

use tidings_hub::link_health::LinkEvent;
use tidings_proto::Era;
use tidings_sync::Lock;
use tidings_upstream::{ConnectedLink, LinkError, MessageSink};
use tokio::sync::oneshot;

use super::ServerLifecycle;
use super::link_sink::LinkSink;
use crate::call::RequestRouter;
use crate::fleet::forward_link;
use crate::links::link_watch::LinkWatch;
use crate::links::live_link::{LinkUser, LiveLink};
use crate::links::told_level::LinkAudience;
use crate::plan::Source;
use crate::plan::surroundings::Surroundings;
use crate::servers::server::Server;

impl ServerLifecycle {
    /// Makes a link for somebody; `deadline` when the introduction must be over at the latest. Over one that is for everybody the
    /// server's task watches.
    pub(crate) async fn connect(
        self: &Arc<Self>,
        server: &Arc<Server>,
        known: Option<Era>,
        user: LinkUser,
        deadline: Option<Instant>,
    ) -> Result<(LiveLink, oneshot::Receiver<LinkError>), LinkError> {
        if matches!(user, LinkUser::Everybody) {
            // The one watch that users are shown; every other link has its own.
            let (live, end, _) = self.make_link(server, known, user, deadline, &server.links.watch).await?;
            return Ok((live, end));
        }
        let watch = LinkWatch::new(&server.plan);
        let (live, end, sink) = self.make_link(server, known, user, deadline, &watch).await?;
        Ok((live.clone(), self.watch_alone(server, live, end, sink)))
    }

    /// Watches over a link that is not the task's own. Gives its end on.
    pub(crate) fn watch_alone(
        self: &Arc<Self>,
        server: &Arc<Server>,
        live: LiveLink,
        end: oneshot::Receiver<LinkError>,
        sink: Arc<LinkSink>,
    ) -> oneshot::Receiver<LinkError> {
        let (tell, heard) = oneshot::channel();
        let (lifecycle, server) = (Arc::clone(self), Arc::clone(server));
        live.watch.tell(LinkEvent::Connected);
        self.runtime.spawn(async move {
            let error = tokio::select! {
                error = end => error.unwrap_or(LinkError::Stopped),
                error = lifecycle.watch_over(&server, &live) => {
                    tracing::info!(server = %server.plan.name, %error, "a link ends");
                    // First, so that calls on it end before the processes behind it have ended.
                    sink.closed(error.clone());
                    live.link.close().await;
                    error
                }
                // Somebody else gave it up, as when its server is removed.
                () = lifecycle.links.table.gone(live.key) => LinkError::Stopped,
                () = lifecycle.runtime.stop.cancelled() => LinkError::Stopped,
            };
            live.watch.tell(LinkEvent::Ended);
            let _ = tell.send(error);
        });
        heard
    }

    pub(crate) async fn make_link(
        self: &Arc<Self>,
        server: &Arc<Server>,
        known: Option<Era>,
        user: LinkUser,
        deadline: Option<Instant>,
        watch: &Arc<LinkWatch>,
    ) -> Result<(LiveLink, oneshot::Receiver<LinkError>, Arc<LinkSink>), LinkError> {
        let attempts = AtomicU64::new(0);
        let made: Lock<Option<(Arc<LinkSink>, oneshot::Receiver<LinkError>)>> = Lock::default();
        let make_sink = || -> Arc<dyn MessageSink> {
            // A second sink means that the first connection ended on the probe and was made again.
            attempts.fetch_add(1, Ordering::Relaxed);
            let (sink, end) = LinkSink::new(self, server, user.clone(), watch);
            *made.lock() = Some((Arc::clone(&sink), end));
            sink
        };
        // Every other link leads to the server itself: those of single sessions and people, and the one past its owner.
        let is_of_task = server.watches_with(watch);
        let elsewhere = self.runtime.fleet.as_ref().filter(|_| is_of_task && server.is_elsewhere());
        let ConnectedLink { link, hello } = match (&server.plan.source, elsewhere) {
            (_, Some(fleet)) => {
                let version = self.runtime.settings.version;
                forward_link::connect(fleet, &server.plan.name, make_sink(), version).await?
            }
            (Source::Remote(spec), None) => {
                let manners = *server.links.manners();
                let mut introduction = self.introduction(&user, deadline);
                introduction.is_legacy = manners.is_legacy;
                // One that ends on the probe would be started twice each time.
                let known = known.or(manners.ends_on_probe.then_some(Era::Legacy));
                let other = match user.person() {
                    Some(person) => Some(spec.as_person(person).await),
                    None => server.leads_past_owner(watch).then(|| spec.past_owner()),
                };
                let spec = other.as_ref().unwrap_or(spec);
                self.connector.connect(spec, known, &introduction, &make_sink).await?
            }
            (Source::Local(local), None) => local.connect(make_sink(), self.surroundings_of(server, &user)),
            (Source::Unready(unready), None) => {
                let local = unready.try_again().map_err(|reason| LinkError::Unusable(reason.to_string()))?;
                local.connect(make_sink(), self.surroundings_of(server, &user))
            }
        };
        // A loop through this very gateway is refused before anything is listed over the link (edges F2).
        if let Err(error) = server.heard_gateways(&self.runtime.settings, hello.gateways.clone()) {
            link.close().await;
            return Err(error);
        }
        {
            let mut manners = server.links.manners();
            manners.is_legacy = hello.revision.era() == Era::Legacy;
            // An old server behind a URL was asked twice because it speaks another transport.
            let is_found = server.plan.source.transport() == "http" && link.shares_one_stream();
            manners.ends_on_probe |= attempts.into_inner() > 1 && !is_found;
        }
        // There is one: every way to connect asks for a sink. Of two attempts it is that of the second.
        let (sink, end) = made.into_inner().ok_or(LinkError::Stopped)?;
        sink.attach(&link);
        let leads_to = LinkAudience { audience: server.plan.audience(), name: Arc::clone(&server.shared_name) };
        let live = LiveLink {
            key: sink.key,
            link,
            hello: Arc::new(hello),
            watch: Arc::clone(watch),
            told: Arc::default(),
            leads_to,
        };
        // Before the link is in the table: from then on calls may be given up on it, and must leave ghosts.
        self.links.in_flight.link_opened(live.key);
        self.links.table.insert(server.instance, &live, user.clone());
        if sink.is_over() {
            // It closed before it was in the table, so nothing took it out again.
            self.link_closed(live.key);
            return Err(end.await.unwrap_or(LinkError::Stopped));
        }
        if server.presence.gone.is_cancelled() {
            // It left meanwhile: whoever ended its links did not know this one.
            self.end_links(server).await;
            return Err(LinkError::Stopped);
        }
        // Last: a level is told only over a link that is certain to be used.
        self.links.apply_level(&live, &user);
        Ok((live, end, sink))
    }

    /// What a server inside the process may know of us. Does not keep us alive.
    fn surroundings_of(&self, server: &Server, user: &LinkUser) -> Surroundings {
        // A server in the process would otherwise keep the whole engine alive.
        let router: Weak<RequestRouter> = Arc::downgrade(&self.router);
        Surroundings::new(router, server.id, user.person().cloned())
    }
}
