//! How a session goes on after a restart: what it followed is followed anew.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::StreamExt as _;
use tidings_hub::ServerId;
use tidings_hub::ledger::{FollowerBaseline, FollowerId};
use tidings_hub::subscriptions::ResourceAddress;
use tidings_proto::PublicName;
use tidings_sync::Lock;
use tokio::sync::Semaphore;

use super::{Gateway, GatewayParts};
use crate::client::kept_session::{KeptFollow, KeptSession};
use crate::client::principal::Principal;
use crate::client::session::{ClientSink, NewSession, Session, Viewer};
use crate::subscriptions::{Decision, Named};

/// How many resources of one server are followed again at a time, for one session.
const AT_ONCE: usize = 16;
/// When a resource that can not be followed yet is tried again: first, and at most.
const RETRY: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(60));

/// The turns to ask each server: one that is slow to answer keeps nothing of another waiting.
#[derive(Default)]
struct ServerTurns(Lock<HashMap<ServerId, Arc<Semaphore>>>);

impl ServerTurns {
    fn of(&self, server: ServerId) -> Arc<Semaphore> {
        let mut turns = self.0.lock();
        Arc::clone(turns.entry(server).or_insert_with(|| Arc::new(Semaphore::new(AT_ONCE))))
    }
}

impl Gateway {
    /// What is to be kept of a session at this moment.
    pub fn describe_session(&self, session: &Session) -> KeptSession {
        let follower = FollowerId::from(session.key);
        let mut follows = self.0.subscriptions.known_to(follower);
        // What is not followed again yet is kept too: a second restart must not lose it.
        follows.extend(session.resuming().iter().cloned());
        KeptSession {
            revision: session.revision,
            principal: session.principal.name.to_string(),
            alone: session.principal.scope.alone().map(str::to_owned),
            info: session.client.info.clone(),
            capabilities: session.client.capabilities.clone(),
            level: session.level(),
            initialized: session.is_initialized(),
            told: self.0.notifier.told_to(follower),
            follows,
        }
    }

    /// Waits until what [`Self::describe_session`] says of followed resources may be another than when this was last waited for. Only
    /// one may wait.
    pub async fn follows_moved(&self) {
        self.0.subscriptions.moved().await;
    }

    /// A client of an earlier process goes on with its session. The caller has made sure that it is its owner.
    pub fn resume_session(&self, kept: KeptSession, principal: &Principal, sink: Arc<dyn ClientSink>) -> Arc<Session> {
        let KeptSession { revision, info, capabilities, level, initialized, told, follows, .. } = kept;
        // A key of this process: the old one was a number of another.
        let (key, principal) = (self.0.sessions.new_client(), principal.clone());
        // By what is known now: where that shows it something else than before, it is told.
        let profile = info.as_deref().and_then(|info| self.0.runtime.profile_of(info));
        let session = Session::begin(NewSession { key, revision, principal, info, profile, capabilities, sink });
        *session.level.lock() = level;
        // If it lists before it follows again, it is told of everything once.
        session.progress.listed_early.store(true, Ordering::Relaxed);
        *session.resuming() = follows.clone();
        self.0.sessions.insert(&session);
        if level.is_some() {
            self.0.links.update_level();
        }
        if initialized {
            self.0.notifier.follow_after_start(&session, Some(FollowerBaseline::Told(told)));
        }
        if !follows.is_empty() {
            // In the background: the client gets its answer before any server has agreed.
            self.0.runtime.spawn(Arc::clone(&self.0).resume_following(Arc::clone(&session), follows));
        }
        session
    }
}

impl GatewayParts {
    /// Follows again what a session followed before the restart.
    async fn resume_following(self: Arc<Self>, session: Arc<Session>, follows: Vec<KeptFollow>) {
        let turns = ServerTurns::default();
        // One that can not be followed is tried again and again, so none may wait for another to be followed.
        let each = |follow| self.resume_until_followed(&session, follow, &turns);
        let all = async {
            self.catalogue.wait_settled().await;
            futures_util::stream::iter(follows).for_each_concurrent(None, each).await;
        };
        tokio::select! {
            () = all => {}
            () = session.over.cancelled() => {}
            () = self.runtime.stop.cancelled() => {}
        }
    }

    async fn resume_until_followed(self: &Arc<Self>, session: &Arc<Session>, follow: KeptFollow, turns: &ServerTurns) {
        let mut pause = RETRY.0;
        while session.is_resuming(&follow.uri) && self.sessions.contains(session.key) {
            if self.resume_one(session, &follow, turns).await {
                session.stop_resuming(&follow.uri);
                return;
            }
            // Its server is away, or does not agree: the client counts on it, so it is tried until the session ends.
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(RETRY.1);
        }
    }

    /// Tells whether the resource is followed now.
    async fn resume_one(self: &Arc<Self>, session: &Arc<Session>, follow: &KeptFollow, turns: &ServerTurns) -> bool {
        let Ok(routed) = self.router.find_resource(&session.principal, PublicName::new(follow.uri.as_str())).await
        else {
            return false;
        };
        // Kept until the server has answered: after a restart it is not asked for everything at once.
        let _turn = turns.of(routed.server.id).acquire_owned().await;
        let viewer = Viewer::of_resources(&session.principal, Some(session));
        let Ok(place) = self.subscriptions.place_for(viewer, &routed.server).await else { return false };
        let address = ResourceAddress { place, uri: routed.target.local.shared() };
        let named = Named { address: address.clone(), uri: follow.uri.clone() };
        // The session has ended, so there is nothing to try again.
        let Some(mut asked) = self.subscriptions.subscribe(session, &named) else { return true };
        if let Decision::Refused(_) = asked.decision().await {
            return false;
        }
        // Nobody waits for an answer: what changes may be told at once.
        drop(asked.receipt());
        // The client unsubscribed while the server was being asked.
        if !session.is_resuming(&follow.uri) {
            self.subscriptions.unsubscribe(session, &address).await;
            return true;
        }
        let follower = FollowerId::from(session.key);
        self.subscriptions.drive(|table, now| table.machine.resumed(follower, &address, follow.content, now));
        true
    }
}
