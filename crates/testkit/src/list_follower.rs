//! A client that follows all lists, in the way of its era and transport.

use std::collections::BTreeMap;

use serde_json::json;

use crate::client::{Client, PendingExchange};
use crate::revision::is_modern;

/// The kinds of lists that are announced.
pub const KINDS: [&str; 3] = ["tools", "prompts", "resources"];

/// The notification that the list of this kind changed.
pub fn list_changed(kind: &str) -> String {
    format!("notifications/{kind}/list_changed")
}

/// How often a client was told of each kind.
pub fn told(client: &Client) -> BTreeMap<&'static str, usize> {
    let counts = KINDS.into_iter().map(|kind| (kind, client.count(&list_changed(kind))));
    counts.filter(|(_, count)| *count > 0).collect()
}

/// A client that hears what is announced to it, and what it should have been told so far.
pub struct ListFollower {
    /// The client, for further requests.
    pub client: Client,
    /// What [`Self::expect`] has waited for, by kind.
    pub told: BTreeMap<&'static str, usize>,
    _stream: Option<PendingExchange>,
}

impl ListFollower {
    /// Follows; a legacy client waits for its first notices.
    pub async fn begin(client: Client) -> Self {
        let is_legacy = !is_modern(&client.revision());
        let mut follower = Self::quietly(client).await;
        if is_legacy {
            follower.expect(&KINDS).await;
        }
        follower
    }

    /// As [`Self::begin`], without waiting for the first notices.
    pub async fn quietly(client: Client) -> Self {
        let stream = if is_modern(&client.revision()) {
            let flags = json!({"toolsListChanged": true, "promptsListChanged": true, "resourcesListChanged": true});
            let mut listen = client.start("subscriptions/listen", json!({ "notifications": flags }));
            let acknowledged = listen.next_method("notifications/subscriptions/acknowledged").await;
            assert_eq!(acknowledged.params()["notifications"], flags);
            Some(listen)
        } else if client.is_on_http() {
            Some(client.open_get().await)
        } else {
            None
        };
        Self { client, told: BTreeMap::new(), _stream: stream }
    }

    /// Waits for one more notice of each of these, and fails if there was any other.
    pub async fn expect(&mut self, kinds: &[&'static str]) {
        for kind in kinds {
            *self.told.entry(kind).or_default() += 1;
        }
        for kind in kinds {
            self.heard(kind, self.told[kind]).await;
        }
        // Whatever came besides is a notification too many.
        assert_eq!(told(&self.client), self.told, "{} {:?}", self.client.revision(), self.client.received());
    }

    /// How often it was told of this kind.
    pub fn count(&self, kind: &str) -> usize {
        self.client.count(&list_changed(kind))
    }

    /// How often it was told of each kind, in the order of [`KINDS`].
    pub fn counts(&self) -> [usize; 3] {
        KINDS.map(|kind| self.count(kind))
    }

    /// Waits for the `nth` notice of a kind.
    pub async fn heard(&self, kind: &str, nth: usize) {
        self.client.wait_for_method(&list_changed(kind), nth).await;
    }

    /// Waits for one more of every kind.
    pub async fn heard_all(&self, before: [usize; 3]) {
        for (kind, count) in KINDS.into_iter().zip(before) {
            self.heard(kind, count + 1).await;
        }
    }
}
