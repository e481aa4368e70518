//! Requests of clients that follow changes.

use std::collections::{HashSet, VecDeque};
use std::future::Pending;
use std::sync::Arc;

use bytes::BytesMut;
use futures_util::future::{BoxFuture, Either};
use tidings_hub::subscriptions::{FollowRefusal as HubRefusal, ResourceAddress};
use tidings_proto::outcome::ClientAnswer;
use tidings_proto::refusal::RequestRefusal;
use tidings_proto::{Era, PublicName, meta};
use tidings_wire::{Frame, FrameLimits};

use super::{Exchange, Reply, Stage};
use crate::call::RequestRouter;
use crate::call::routing::Routed;
use crate::call::watched_tasks;
use crate::client::principal::Principal;
use crate::client::session::{Caller, Session, Viewer};
use crate::notify::listeners::spoken_name;
use crate::notify::notices;
use crate::plan::Isolation;
use crate::subscriptions::{Decision, Named};

/// How long a server may take to agree; the hub's patience, as it is told to clients.
const PATIENCE: u64 = 30;

impl Exchange {
    /// The next announcement, or the end.
    pub(super) async fn listen(&mut self) -> Result<Option<Reply>, RequestRefusal> {
        let Stage::Listening(listening, taken) = &mut self.stage else { return Ok(None) };
        while taken.is_empty() {
            if listening.is_behind() {
                self.router.discovery.join_person(listening, self.caller.viewer(), self.caller.view_key());
            }
            tokio::select! {
                // The end of the gateway goes first: a follower who is always owed something would never be told of it.
                biased;
                () = self.router.runtime.draining.cancelled() => return Ok(Some(self.end_of_listen())),
                () = server_removed(&self.router, &self.caller) => return Ok(Some(self.end_of_listen())),
                notices = listening.next() => *taken = notices,
            }
        }
        let notice = taken.pop_front();
        if taken.is_empty() {
            // Without its buffer: thousands of listens wait at once, and each would keep the room of its last notices.
            *taken = VecDeque::new();
        }
        Ok(notice.map(|notice| Reply::Message(notices::tagged(&self.id, &notice))))
    }

    /// A listen that ends in order has an answer; without one the client would take it for a broken connection.
    fn end_of_listen(&self) -> Reply {
        let result = format!(r#"{{"resultType":"complete","_meta":{{"{}":{}}}}}"#, meta::SUBSCRIPTION_ID, self.id);
        Reply::Answer(ClientAnswer::result(&self.id, result.as_bytes()))
    }

    /// Registers, then acknowledges exactly what is honoured.
    pub(super) async fn acknowledge(&mut self) -> Result<Reply, RequestRefusal> {
        if self.frame.param(&["notifications"]).is_none_or(|at| !tidings_wire::is_object(self.frame.bytes(), at)) {
            return Err(RequestRefusal::InvalidParams("params.notifications must be an object".into()));
        }
        let uris = notices::wanted_resources(&self.frame).ok_or_else(|| {
            RequestRefusal::InvalidParams("params.notifications.resourceSubscriptions must be a list of URIs".into())
        })?;
        let tasks = watched_tasks::wanted_tasks(&self.frame).ok_or_else(|| {
            RequestRefusal::InvalidParams("params.notifications.taskIds must be a list of ids".into())
        })?;
        // What comes before the servers have settled is no change.
        self.router.catalogue.wait_settled().await;
        if let Some(fleet) = &self.router.runtime.fleet {
            // Before the baseline: what the client was told elsewhere is in it.
            fleet.read().await;
        }
        let topics = self.router.notifier.announced_to(&self.caller, notices::wanted(&self.frame));
        let (view_key, capabilities) = (self.caller.view_key(), self.caller.capabilities(&self.frame));
        let mut listening = self.router.discovery.listen(self.caller.viewer(), view_key, topics, &capabilities).await;
        let name = spoken_name(&self.frame);
        listening.listed = Some(self.router.notifier.show_listen(listening.follower, name.as_deref(), &self.caller));
        let mut honoured = Vec::new();
        if !uris.is_empty() {
            let named = named(&self.router, self.caller.principal(), uris).await;
            // From here on it leaves everything when it is dropped.
            listening.follows = true;
            let principal = self.caller.principal();
            let mut asked = self.router.subscriptions.listen_to(listening.follower, name.as_deref(), principal, &named);
            if let Decision::Honoured(agreed) = asked.decision().await {
                let agreed: HashSet<ResourceAddress> = agreed.into_iter().collect();
                honoured = named.into_iter().filter(|n| agreed.contains(&n.address)).map(|n| n.uri).collect();
            }
            listening.receipt = Some(asked.receipt());
        }
        let (watched, told) = self.router.watch_tasks(&self.caller, &self.frame, tasks);
        listening.tasks = told;
        self.stage = Stage::Listening(Box::new(listening), VecDeque::new());
        // A listen may stay open for days, and thousands do: nothing of its request is needed any more.
        self.frame.forget();
        Ok(Reply::Message(notices::acknowledgement(&self.id, topics, &honoured, &watched)))
    }

    /// Follows a resource for a session; the answer waits for the server's.
    pub(super) async fn subscribe(&mut self, session: &Arc<Session>) -> Result<Reply, RequestRefusal> {
        let routed = self.router.route(&self.caller, &self.frame, self.method).await?;
        if let Some(tried) = &routed.tried {
            tried.note();
        }
        let viewer = Viewer::of_resources(&session.principal, Some(session));
        let place = self.router.subscriptions.place_for(viewer, &routed.server).await?;
        // The server's own URI: two spellings of one resource are one subscription.
        let address = ResourceAddress { place, uri: routed.target.local.shared() };
        let named = Named { address, uri: routed.exposed.to_string() };
        let Some(mut asked) = self.router.subscriptions.subscribe(session, &named) else { return Ok(Reply::Cancelled) };
        let decision = tokio::select! {
            biased;
            // The decision first: if both are there, the server has agreed, and the client may have its answer.
            decision = asked.decision() => decision,
            () = self.waiter.rung() => return Ok(Reply::Cancelled),
        };
        match decision {
            Decision::Refused(refusal) => Ok(Reply::Answer(self.not_followed(&routed, refusal)?)),
            Decision::Agreed | Decision::Honoured(_) => {
                // Kept until the transport has the answer, so that no change of the resource overtakes it (invariant
                // 4).
                self.receipt = Some(asked.receipt());
                Ok(Reply::Answer(ClientAnswer::result(&self.id, b"{}")))
            }
        }
    }

    /// The server's own error where there is one, in the client's terms.
    fn not_followed(&self, routed: &Routed, refusal: HubRefusal) -> Result<ClientAnswer, RequestRefusal> {
        let server = routed.server.plan.name.clone();
        match refusal {
            HubRefusal::ByServer(error) => {
                let mut bytes = BytesMut::from(format!(r#"{{"jsonrpc":"2.0","id":{},"error":"#, self.id).as_bytes());
                bytes.extend_from_slice(&error);
                bytes.extend_from_slice(b"}");
                let bytes = bytes.freeze();
                // The error was parsed when it arrived; these limits only have to let it through again.
                let limits = FrameLimits { max_bytes: bytes.len(), max_depth: 512, ..FrameLimits::default() };
                let frame = Frame::parse(bytes, &limits).map_err(|fault| RequestRefusal::NotFollowed {
                    uri: routed.exposed.to_string(),
                    server,
                    reason: fault.to_string(),
                })?;
                let era = routed.server.live().map_or(Era::Legacy, |live| live.hello.revision.era());
                Ok(self.translate_from(routed, era, &frame))
            }
            HubRefusal::TimedOut => Err(RequestRefusal::TimedOut { server, seconds: PATIENCE }),
            other => {
                Err(RequestRefusal::NotFollowed { uri: routed.exposed.to_string(), server, reason: other.to_string() })
            }
        }
    }

    /// Follows a resource no longer. Its server need not answer for that.
    pub(super) async fn unsubscribe(&mut self, session: &Arc<Session>) -> Result<ClientAnswer, RequestRefusal> {
        let uri = self.frame.param_str(&["uri"]);
        let uri = uri.ok_or_else(|| RequestRefusal::InvalidParams("params.uri must be a string".into()))?;
        // One that is yet to be followed again after a restart is not any more.
        let was_resuming = session.stop_resuming(&uri);
        match self.router.subscriptions.followed_as(session, &uri) {
            Some(address) => self.router.subscriptions.unsubscribe(session, &address).await,
            None if was_resuming => {}
            // Not followed: it must be there at least.
            None => _ = self.router.route(&self.caller, &self.frame, self.method).await?,
        }
        Ok(ClientAnswer::result(&self.id, b"{}"))
    }
}

/// Waits until the server that somebody asked for alone is none any more; for ever where they asked for all.
fn server_removed<'c>(router: &RequestRouter, caller: &'c Caller) -> Either<Pending<()>, BoxFuture<'c, ()>> {
    // In a box: thousands of listens wait, and nearly none of them for this.
    let Some(alone) = caller.principal().scope.alone() else { return Either::Left(std::future::pending()) };
    let mut catalogue = router.catalogue.subscribe();
    Either::Right(Box::pin(async move {
        let _ = catalogue.wait_for(|known| !known.has_external(alone)).await;
    }))
}

/// The resources behind URIs, without those that are not there for whoever asks.
async fn named(router: &RequestRouter, principal: &Principal, uris: Vec<String>) -> Vec<Named> {
    let mut named: Vec<Named> = Vec::with_capacity(uris.len());
    let mut known = HashSet::new();
    for uri in uris {
        // What is not there is not honoured, and says no more than that: the rest of the listen goes on.
        let Ok(routed) = router.find_resource(principal, PublicName::new(uri.as_str())).await else { continue };
        let viewer = Viewer::of_resources(principal, None);
        // What is followed over everybody's link need not be up: then it is told of when it is.
        let place = match routed.server.plan.isolation {
            Isolation::Principal => router.subscriptions.place_for(viewer, &routed.server).await,
            Isolation::Auto | Isolation::Session => Ok(routed.server.id.into()),
        };
        let Ok(place) = place else { continue };
        let address = ResourceAddress { place, uri: routed.target.local.shared() };
        // Two spellings of one resource are one, by the first.
        if known.insert(address.clone()) {
            named.push(Named { address, uri });
        }
    }
    named
}
