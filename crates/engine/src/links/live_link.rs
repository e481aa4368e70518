//! A link in use, and who uses it.

use std::sync::{Arc, Weak};

use serde_json::Value;
use tidings_hub::LinkKey;
use tidings_hub::ledger::{Topic, Topics};
use tidings_upstream::{ServerHello, SharedLink};

use crate::client::session::Session;
use crate::links::link_watch::LinkWatch;
use crate::links::told_level::{LinkAudience, ToldLevel};

#[derive(Clone)]
pub(crate) struct LiveLink {
    pub(crate) key: LinkKey,
    pub(crate) link: SharedLink,
    pub(crate) hello: Arc<ServerHello>,
    /// Whether it can be trusted.
    pub(crate) watch: Arc<LinkWatch>,
    /// What it was told to log.
    pub(crate) told: Arc<ToldLevel>,
    /// Whose server it leads to.
    pub(crate) leads_to: LinkAudience,
}

/// Who uses a link.
#[derive(Clone)]
pub(crate) enum LinkUser {
    /// Everybody who may use the server.
    Everybody,
    /// One session alone.
    /// Weak: the link must not keep a session that has ended.
    Session(Weak<Session>),
    /// One person, by all their clients.
    Person(Arc<str>),
    /// The modern clients of one principal that declare this, in the words of a legacy client.
    Principal(Arc<Value>),
}

impl LinkUser {
    /// The session that has the link for itself, if it is still there.
    pub(crate) fn session(&self) -> Option<Arc<Session>> {
        match self {
            Self::Session(session) => session.upgrade(),
            Self::Everybody | Self::Person(_) | Self::Principal(_) => None,
        }
    }

    /// The person who has the link with all their clients.
    pub(crate) fn person(&self) -> Option<&Arc<str>> {
        match self {
            Self::Person(name) => Some(name),
            Self::Everybody | Self::Session(_) | Self::Principal(_) => None,
        }
    }

    /// What the server is told that its client can do, where it has only this one.
    pub(crate) fn capabilities(&self) -> Option<Value> {
        match self {
            Self::Session(session) => session.upgrade().map(|session| session.client.capabilities.clone()),
            Self::Principal(declared) => Some(Value::clone(declared)),
            // Several clients that declare different things: as over a link for everybody, each is asked what it can be.
            Self::Everybody | Self::Person(_) => None,
        }
    }

    /// Whether the link speaks for the server as everybody sees it.
    pub(crate) fn is_everybody(&self) -> bool {
        matches!(self, Self::Everybody)
    }
}

/// What a server says it announces.
pub(crate) fn promised(hello: &ServerHello) -> Topics {
    let mut topics = Topics::default();
    // Templates have no capability of their own; they are announced with the resources.
    for (name, topic) in [("tools", Topic::Tools), ("prompts", Topic::Prompts), ("resources", Topic::Resources)] {
        let declared = hello.capabilities.get(name).and_then(|c| c.get("listChanged"));
        if declared.and_then(Value::as_bool) == Some(true) {
            topics.insert(topic);
        }
    }
    topics
}
