//! Making the links of a server, and watching over those that its task does not.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tidings_hub::link_health::LinkEvent;
use tidings_proto::Era;
use tidings_upstream::{ConnectedLink, LinkError, MessageSink};
use tokio::sync::oneshot;

use crate::gateway::Inner;
use crate::lifecycle::link_sink::{LinkSink, LinkUser};
use crate::links::link_watch::LinkWatch;
use crate::plan::Source;
use crate::plan::surroundings::Surroundings;
use crate::servers::server::{LiveLink, Server};

/// What is remembered of how a server takes being asked for its era.
#[derive(Clone, Copy, Default)]
pub(crate) struct ProbeManners {
    /// It was a legacy server: one that is silent on the probe is not waited for as long as the first time.
    is_legacy: bool,
    /// Its process ends on the probe.
    ends_on_probe: bool,
}

impl Server {
    fn manners(&self) -> MutexGuard<'_, ProbeManners> {
        self.manners.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is known of its era no longer counts.
    pub(crate) fn forget_era(&self) {
        *self.manners() = ProbeManners::default();
    }

    /// Makes a link for somebody; `deadline` when the introduction must be over at the latest. Over one that is for everybody the
    /// server's task watches.
    pub(crate) async fn connect(
        self: &Arc<Self>,
        gateway: &Arc<Inner>,
        known: Option<Era>,
        user: LinkUser,
        deadline: Option<Instant>,
    ) -> Result<(LiveLink, oneshot::Receiver<LinkError>), LinkError> {
        if matches!(user, LinkUser::Everybody) {
            let (live, end, _) = self.make_link(gateway, known, user, deadline, &self.watch).await?;
            return Ok((live, end));
        }
        let watch = LinkWatch::new(&self.plan);
        let (live, end, sink) = self.make_link(gateway, known, user, deadline, &watch).await?;
        Ok((live.clone(), self.watch_alone(gateway, live, end, sink)))
    }

    /// Watches over a link that is not the task's own. Gives its end on.
    pub(crate) fn watch_alone(
        self: &Arc<Self>,
        gateway: &Arc<Inner>,
        live: LiveLink,
        end: oneshot::Receiver<LinkError>,
        sink: Arc<LinkSink>,
    ) -> oneshot::Receiver<LinkError> {
        let (tell, heard) = oneshot::channel();
        let (server, inner) = (Arc::clone(self), Arc::clone(gateway));
        live.watch.tell(LinkEvent::Connected);
        gateway.spawn(async move {
            let error = tokio::select! {
                error = end => error.unwrap_or(LinkError::Stopped),
                error = live.watch.watch_over(&inner, &server, &live) => {
                    tracing::info!(server = %server.plan.name, %error, "a link ends");
                    sink.closed(error.clone());
                    live.link.close().await;
                    error
                }
                () = inner.link_gone(live.key) => LinkError::Stopped,
                () = inner.stop.cancelled() => LinkError::Stopped,
            };
            live.watch.tell(LinkEvent::Ended);
            let _ = tell.send(error);
        });
        heard
    }

    pub(crate) async fn make_link(
        self: &Arc<Self>,
        gateway: &Arc<Inner>,
        known: Option<Era>,
        user: LinkUser,
        deadline: Option<Instant>,
        watch: &Arc<LinkWatch>,
    ) -> Result<(LiveLink, oneshot::Receiver<LinkError>, Arc<LinkSink>), LinkError> {
        let attempts = AtomicU64::new(0);
        let made: Mutex<Option<(Arc<LinkSink>, oneshot::Receiver<LinkError>)>> = Mutex::default();
        let make_sink = || -> Arc<dyn MessageSink> {
            attempts.fetch_add(1, Ordering::Relaxed);
            let (sink, end) = LinkSink::new(gateway, self, user.clone(), watch);
            *made.lock().unwrap_or_else(PoisonError::into_inner) = Some((Arc::clone(&sink), end));
            sink
        };
        let ConnectedLink { link, hello } = match &self.plan.source {
            Source::Remote(spec) => {
                let manners = *self.manners();
                let mut introduction = gateway.introduction(user.session().as_deref(), deadline);
                introduction.is_legacy = manners.is_legacy;
                // One that ends on the probe would be started twice each time.
                let known = known.or(manners.ends_on_probe.then_some(Era::Legacy));
                gateway.connector.connect(spec, known, &introduction, &make_sink).await?
            }
            Source::Local(local) => local.connect(make_sink(), Surroundings::new(gateway, self.id)),
            Source::Unready(unready) => {
                let local = unready.try_again().map_err(LinkError::Unusable)?;
                local.connect(make_sink(), Surroundings::new(gateway, self.id))
            }
        };
        if let Err(error) = self.heard_gateways(gateway, hello.gateways.clone()) {
            link.close().await;
            return Err(error);
        }
        {
            let mut manners = self.manners();
            manners.is_legacy = hello.revision.era() == Era::Legacy;
            manners.ends_on_probe |= attempts.into_inner() > 1;
        }
        let (sink, end) = made.into_inner().unwrap_or_else(PoisonError::into_inner).ok_or(LinkError::Stopped)?;
        sink.attach(&link);
        let live = LiveLink { key: sink.key, link, hello: Arc::new(hello), watch: Arc::clone(watch) };
        gateway.add_link(self, &live, user.clone());
        if sink.is_over() {
            // It closed before it was in the table, so nothing took it out again.
            gateway.link_closed(live.key);
            return Err(end.await.unwrap_or(LinkError::Stopped));
        }
        if self.gone.is_cancelled() {
            // It left meanwhile: whoever ended its links did not know this one.
            self.end_links(gateway).await;
            return Err(LinkError::Stopped);
        }
        gateway.apply_level(&live, &user);
        Ok((live, end, sink))
    }
}
