//! Hearing, over the link of one person, that the lists of a server changed: for that person, and nobody else.
//!
//! A legacy server says it on the link itself (`link_sink.rs`); a modern one is listened to here. What nobody announces is polled, for
//! as long as the link is up.

use std::sync::Arc;
use std::time::Instant;

use tidings_hub::ledger::{Topic, Topics};
use tidings_proto::{Era, ListKind, MessageSubject, capabilities};
use tidings_sync::Lock;
use tokio::sync::Notify;

use super::ServerLifecycle;
use crate::client::person_view::{PersonView, ViewOwner};
use crate::discovery::signals::{self, SignalScope, Signals};
use crate::links::live_link::{LiveLink, promised};
use crate::servers::server::Server;

/// What a server has agreed to announce over the link of a person.
#[derive(Default)]
struct PersonCover {
    covered: Lock<Topics>,
    /// Rings when the stream ended, and with it what was agreed on.
    ended: Notify,
}

impl SignalScope for PersonCover {
    // Every acknowledgement on the stream is that of its own request.
    fn listens_by(&self, _request: u64) {}

    fn cover(&self, topics: Topics) {
        *self.covered.lock() = topics;
    }

    // Who waits for the next message would not be told: a stream that ended is opened again in the same wait.
    fn wake(&self) {
        self.ended.notify_one();
    }
}

impl ServerLifecycle {
    /// Runs beside the link of a person until it ends.
    pub(super) async fn hear_for_person(self: Arc<Self>, person: Arc<PersonView>, server: Arc<Server>, live: LiveLink) {
        let owner = ViewOwner::Person(person);
        tokio::select! {
            () = self.hear_lists(&owner, &server, &live) => {}
            () = self.links.table.gone(live.key) => {}
            () = self.runtime.stop.cancelled() => {}
        }
    }

    async fn hear_lists(self: &Arc<Self>, owner: &ViewOwner, server: &Server, live: &LiveLink) {
        let cover = PersonCover::default();
        let mut signals = Signals::open(&self.links, &cover, live);
        let pause = server.plan.poll_interval.unwrap_or(self.runtime.settings.poll_interval);
        let mut next_poll = None;
        loop {
            let is_polled = !pause.is_zero() && is_unheard(live, *cover.covered.lock());
            // Kept while other things happen: a stream that is refused again and again would put it off for ever.
            next_poll = is_polled.then(|| next_poll.unwrap_or_else(|| tokio::time::Instant::now() + pause));
            tokio::select! {
                message = signals.next(&self.links, &cover, live) => match message.subject() {
                    MessageSubject::Acknowledged => {
                        cover.cover(signals::honoured(&message));
                        // What changed before this was not announced.
                        self.discovery.own_view_is_old_at(owner, server.id, Instant::now());
                    }
                    MessageSubject::ListChanged(_) => self.discovery.own_view_is_old(owner, server.id),
                    _ => {}
                },
                // What is announced no longer is polled.
                () = cover.ended.notified() => {}
                () = due(next_poll) => {
                    next_poll = None;
                    self.discovery.own_view_is_old(owner, server.id);
                }
            }
        }
    }
}

async fn due(at: Option<tokio::time::Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// Whether the server offers lists whose changes it does not announce on this link.
fn is_unheard(live: &LiveLink, covered: Topics) -> bool {
    let hello = &live.hello;
    let covered = match hello.revision.era() {
        Era::Legacy if live.link.is_push_unsupported() => Topics::default(),
        Era::Legacy => promised(hello),
        Era::Modern => covered,
    };
    let offered = |kind: &ListKind| capabilities::declares(&hello.capabilities, kind.capability());
    ListKind::ALL.into_iter().filter(offered).any(|kind| !covered.contains(Topic::of(kind)))
}
