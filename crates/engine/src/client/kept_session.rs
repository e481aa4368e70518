//! What of a legacy session outlives the gateway, and how a session goes on after a restart.
//!
//! Only what the client can not tell again is kept. What it follows is followed anew; the hashes of what it was told decide
//! whether it is owed a notice, so that nothing is lost and nothing is told that did not change. Where they are kept is no matter
//! of the engine.

use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt as _;
use serde_json::{Value, json};
use tidings_hub::ledger::{FollowerBaseline, FollowerId};
use tidings_hub::subscriptions::ResourceAddress;
use tidings_proto::{LogLevel, Revision};
use tidings_wire::Digest;

use crate::client::principal::Principal;
use crate::client::session::{ClientSink, NewSession, Session};
use crate::gateway::{Gateway, Inner};
use crate::subscriptions::{Decision, Named};

/// How many resources of a session are followed again at a time.
const AT_ONCE: usize = 16;
/// When a resource that can not be followed yet is tried again: first, and at most.
const RETRY: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(60));

/// A session as it is kept.
#[derive(Clone, Debug, PartialEq)]
pub struct KeptSession {
    /// The revision that was agreed on.
    pub revision: Revision,
    /// The name of its owner, who alone may go on with it.
    pub principal: String,
    /// What the client said about itself, as JSON.
    pub info: Option<Bytes>,
    /// What the client declared that it can do.
    pub capabilities: Value,
    /// The log messages it asked for.
    pub level: Option<LogLevel>,
    /// Whether it said that it is ready for notifications.
    pub initialized: bool,
    /// The hash of each list that it needs no notice of.
    pub told: [Option<Digest>; 3],
    /// The resources it follows.
    pub follows: Vec<KeptFollow>,
}

/// A resource that a kept session follows.
#[derive(Clone, Debug, PartialEq)]
pub struct KeptFollow {
    /// As the client spells it.
    pub uri: String,
    /// The hash of the content that it needs no notice of.
    pub content: Option<Digest>,
}

impl KeptSession {
    /// The text that is kept.
    pub fn to_json(&self) -> Value {
        let info: Option<Value> = self.info.as_deref().and_then(|info| serde_json::from_slice(info).ok());
        let follows = self.follows.iter().map(|follow| json!([follow.uri, follow.content.map(hex)]));
        json!({
            "revision": self.revision.as_str(),
            "principal": self.principal,
            "info": info,
            "capabilities": self.capabilities,
            "level": self.level.map(LogLevel::as_str),
            "initialized": self.initialized,
            "told": self.told.map(|told| told.map(hex)),
            "follows": follows.collect::<Vec<Value>>(),
        })
    }

    /// Reads what was kept; `None` where it is not what this version of the gateway writes.
    pub fn from_json(kept: &Value) -> Option<Self> {
        let told: Vec<Option<Digest>> = kept["told"].as_array()?.iter().map(digest).collect();
        let follows = kept["follows"]
            .as_array()?
            .iter()
            .map(|follow| Some(KeptFollow { uri: follow[0].as_str()?.to_owned(), content: digest(&follow[1]) }));
        Some(Self {
            revision: Revision::parse(kept["revision"].as_str()?)?,
            principal: kept["principal"].as_str()?.to_owned(),
            info: kept.get("info").filter(|info| !info.is_null()).map(|info| Bytes::from(info.to_string())),
            capabilities: kept["capabilities"].clone(),
            level: kept["level"].as_str().and_then(LogLevel::parse),
            initialized: kept["initialized"].as_bool()?,
            told: told.try_into().ok()?,
            follows: follows.collect::<Option<_>>()?,
        })
    }
}

fn hex(digest: Digest) -> String {
    blake3::Hash::from_bytes(digest.0).to_hex().to_string()
}

fn digest(text: &Value) -> Option<Digest> {
    Some(Digest(*blake3::Hash::from_hex(text.as_str()?).ok()?.as_bytes()))
}

impl Session {
    fn resuming(&self) -> MutexGuard<'_, Vec<KeptFollow>> {
        self.resuming.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a resource out of those that are to be followed again; tells whether it was one.
    pub(crate) fn stop_resuming(&self, uri: &str) -> bool {
        let mut resuming = self.resuming();
        let before = resuming.len();
        resuming.retain(|follow| follow.uri != uri);
        resuming.len() < before
    }

    fn is_resuming(&self, uri: &str) -> bool {
        self.resuming().iter().any(|follow| follow.uri == uri)
    }
}

impl Gateway {
    /// What is to be kept of a session at this moment.
    pub fn describe_session(&self, session: &Session) -> KeptSession {
        let follower = FollowerId(session.key.0);
        let mut follows = self.0.known_to(follower);
        follows.extend(session.resuming().iter().cloned());
        KeptSession {
            revision: session.revision,
            principal: session.principal.name.to_string(),
            info: session.info.clone(),
            capabilities: session.capabilities.clone(),
            level: session.level(),
            initialized: session.is_initialized(),
            told: self.0.told_to(follower),
            follows,
        }
    }

    /// A client of an earlier process goes on with its session. The caller has made sure that it is its owner.
    pub fn resume_session(&self, kept: KeptSession, principal: &Principal, sink: Arc<dyn ClientSink>) -> Arc<Session> {
        let KeptSession { revision, info, capabilities, level, initialized, told, follows, .. } = kept;
        let (key, principal) = (self.0.new_client(), principal.clone());
        let session = Session::begin(NewSession { key, revision, principal, info, capabilities, sink });
        *session.level.lock().unwrap_or_else(PoisonError::into_inner) = level;
        // If it lists before it follows again, it is told of everything once.
        session.listed_early.store(true, Ordering::Relaxed);
        *session.resuming() = follows.clone();
        self.0.sessions().insert(session.key, Arc::clone(&session));
        if level.is_some() {
            self.0.update_level();
        }
        if initialized {
            self.follow_after_start(&session, Some(FollowerBaseline::Told(told)));
        }
        if !follows.is_empty() {
            self.0.spawn(Arc::clone(&self.0).resume_following(Arc::clone(&session), follows));
        }
        session
    }
}

impl Inner {
    /// Follows again what a session followed before the restart.
    async fn resume_following(self: Arc<Self>, session: Arc<Session>, follows: Vec<KeptFollow>) {
        self.wait_settled().await;
        let stop = self.stop.clone();
        let each = |follow| Arc::clone(&self).resume_until_followed(Arc::clone(&session), follow);
        stop.run_until_cancelled(futures_util::stream::iter(follows).for_each_concurrent(AT_ONCE, each)).await;
    }

    async fn resume_until_followed(self: Arc<Self>, session: Arc<Session>, follow: KeptFollow) {
        let mut pause = RETRY.0;
        while session.is_resuming(&follow.uri) && self.sessions().contains_key(&session.key) {
            if self.resume_one(&session, &follow).await {
                session.stop_resuming(&follow.uri);
                return;
            }
            // Its server is away, or does not agree: the client counts on it, so it is tried until the session ends.
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(RETRY.1);
        }
    }

    /// Tells whether the resource is followed now.
    async fn resume_one(self: &Arc<Self>, session: &Arc<Session>, follow: &KeptFollow) -> bool {
        let Ok(routed) = self.find_resource(&session.principal, &follow.uri).await else { return false };
        let Ok(place) = self.place_for(session, &routed.server).await else { return false };
        let address = ResourceAddress { server: place, uri: routed.target.local.as_str().into() };
        let named = Named { address: address.clone(), uri: follow.uri.clone() };
        let Some(mut asked) = self.subscribe(session, &named) else { return true };
        if let Decision::Refused(_) = asked.decision().await {
            return false;
        }
        // Nobody waits for an answer: what changes may be told at once.
        drop(asked.receipt());
        if !session.is_resuming(&follow.uri) {
            self.unsubscribe(session, &address).await;
            return true;
        }
        let follower = FollowerId(session.key.0);
        self.follow(|table, now| table.machine.resumed(follower, &address, follow.content, now));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // edges F19
    #[test]
    fn what_is_kept_is_read_again_as_it_was() {
        let kept = KeptSession {
            revision: Revision::V2025_06_18,
            principal: "laptop".to_owned(),
            info: Some(Bytes::from_static(br#"{"name":"c","version":"1"}"#)),
            capabilities: json!({"roots": {}}),
            level: LogLevel::parse("warning"),
            initialized: true,
            told: [Some(Digest::of_bytes(b"a")), None, Some(Digest::NONE)],
            follows: vec![
                KeptFollow { uri: "a+file:///x".to_owned(), content: Some(Digest::of_bytes(b"x")) },
                KeptFollow { uri: "test://y".to_owned(), content: None },
            ],
        };
        assert_eq!(KeptSession::from_json(&kept.to_json()), Some(kept));
        for strange in [json!(null), json!({}), json!({"revision": "2025-06-18", "told": []})] {
            assert_eq!(KeptSession::from_json(&strange), None, "{strange}");
        }
    }
}
