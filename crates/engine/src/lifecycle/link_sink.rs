//! Where a link delivers what belongs to none of its streams.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use tidings_hub::LinkKey;
use tidings_hub::calls::CallId;
use tidings_proto::{ListKind, MessageSubject, ServerMessage, task};
use tidings_sync::Lock;
use tidings_upstream::{Link, LinkError, MessageSink, SharedLink};
use tokio::sync::oneshot;

use super::ServerLifecycle;
use crate::links::link_watch::{LinkWatch, is_unreachable};
use crate::links::live_link::LinkUser;
use crate::servers::server::Server;

/// How many messages, and how many bytes of them, may arrive before the introduction is over.
const EARLY: usize = 256;
const EARLY_BYTES: usize = 1 << 20;

pub(crate) struct LinkSink {
    lifecycle: Weak<ServerLifecycle>,
    server: Weak<Server>,
    user: LinkUser,
    pub(crate) key: LinkKey,
    watch: Arc<LinkWatch>,
    /// Weak: the link holds its sink.
    link: OnceLock<Weak<dyn Link>>,
    early: Lock<Vec<ServerMessage>>,
    /// Set before anything is said about the end, so that whoever enters the link in a table can see that it is over.
    over: AtomicBool,
    ended: Lock<Option<oneshot::Sender<LinkError>>>,
}

impl LinkSink {
    /// A sink for a link that is about to be made; the receiver hears of its end.
    pub(crate) fn new(
        lifecycle: &Arc<ServerLifecycle>,
        server: &Arc<Server>,
        user: LinkUser,
        watch: &Arc<LinkWatch>,
    ) -> (Arc<Self>, oneshot::Receiver<LinkError>) {
        let (ended, end) = oneshot::channel();
        let sink = Self {
            // Weak, as the server: a link holds its sink, and must not keep the engine alive by it.
            lifecycle: Arc::downgrade(lifecycle),
            server: Arc::downgrade(server),
            user,
            key: lifecycle.links.table.next_key(),
            watch: Arc::clone(watch),
            link: OnceLock::new(),
            early: Lock::default(),
            over: AtomicBool::new(false),
            ended: Lock::new(Some(ended)),
        };
        (Arc::new(sink), end)
    }

    /// Whether the link has ended.
    pub(crate) fn is_over(&self) -> bool {
        // Pairs with `closed`: the table is filled before this is read, and the flag is set before the table is
        // cleared.
        self.over.load(Ordering::SeqCst)
    }

    /// The link is ready: what came early is handled now.
    pub(crate) fn attach(&self, link: &SharedLink) {
        // Held while they are handled, and the link is set only then: what the reader brings now waits, and comes after what came early.
        let mut early = self.early.lock();
        for message in std::mem::take(&mut *early) {
            self.handle(link, message);
        }
        let _ = self.link.set(Arc::downgrade(link));
    }

    /// Where one session or person has the link for itself, their view of the server must be made again.
    fn own_view_is_old(&self) {
        if let (Some(lifecycle), Some(server)) = (self.lifecycle.upgrade(), self.server.upgrade()) {
            lifecycle.discovery.view_over_is_old(&self.user, server.id);
        }
    }

    fn handle(&self, link: &SharedLink, message: ServerMessage) {
        if matches!(message.subject(), MessageSubject::ListChanged(_)) {
            self.own_view_is_old();
        }
        if let (Some(lifecycle), Some(server)) = (self.lifecycle.upgrade(), self.server.upgrade()) {
            lifecycle.router.unowned(&server, self.key, link, &self.user, message);
        }
    }
}

impl MessageSink for LinkSink {
    fn owner(&self, message: &ServerMessage) -> Option<u64> {
        // Lists and resources concern everybody, so they are no call's.
        if message.subject().is_about_the_server() {
            return None;
        }
        let lifecycle = self.lifecycle.upgrade()?;
        if message.subject() == MessageSubject::Question
            && let Some(task) = task::related(message)
        {
            // It says whose it is; the only call in flight may be another one.
            let awaited = lifecycle.router.tasks.awaited_by(self.server.upgrade()?.id, &task)?;
            let is_running = lifecycle.links.in_flight.lock().calls.get(awaited).is_some();
            return is_running.then_some(awaited.0);
        }
        let sole = lifecycle.links.in_flight.lock().calls.sole_on(self.key)?;
        Some(sole.0)
    }

    fn answered_late(&self, id: u64) {
        if let Some(lifecycle) = self.lifecycle.upgrade() {
            lifecycle.links.in_flight.ghost_answered(self.key, CallId(id));
        }
    }

    fn unowned(&self, message: ServerMessage) {
        if self.link.get().is_none() {
            let mut early = self.early.lock();
            // `attach` may have run between the two looks.
            if self.link.get().is_none() {
                let bytes: usize = early.iter().map(|message| message.bytes().len()).sum();
                if early.len() < EARLY && bytes + message.bytes().len() <= EARLY_BYTES {
                    early.push(message);
                } else {
                    // Said once in the status instead of in the log, where a flood would repeat it.
                    self.remark(format!("said more than {EARLY_BYTES} bytes or {EARLY} messages in its handshake"));
                }
                return;
            }
        }
        if let Some(link) = self.link.get().and_then(Weak::upgrade) {
            self.handle(&link, message);
        }
    }

    fn push_opened(&self) {
        // Before the link is attached nothing was listed over it.
        if self.link.get().is_some() {
            self.own_view_is_old();
            if let Some(lifecycle) = self.lifecycle.upgrade() {
                lifecycle.subscriptions.heard_again(self.key);
            }
            if let Some(server) = self.server.upgrade().filter(|_| self.user.is_everybody()) {
                server.unheard_lists(&ListKind::ALL);
            }
        }
    }

    fn push_unsupported(&self) {
        if let Some(server) = self.server.upgrade().filter(|_| self.user.is_everybody()) {
            // Polling begins now.
            server.wake();
        }
        if let Some(lifecycle) = self.lifecycle.upgrade() {
            lifecycle.subscriptions.deaf_for_followers(self.key);
        }
    }

    fn remark(&self, text: String) {
        if let Some(server) = self.server.upgrade() {
            server.remarks.add(text);
        }
    }

    fn troubled(&self, error: &LinkError) {
        let Some(server) = self.server.upgrade() else { return };
        // Where one link finds nobody, the one by which the state is shown may be as dead, and not know it yet.
        if !server.watches_with(&self.watch) && is_unreachable(error) {
            server.health().troubled(error);
        }
        // What a link that was replaced still meets says nothing about its successor, which has the same watch.
        if !server.watches_with(&self.watch) || server.is_shared(self.key) {
            self.watch.troubled(error);
        }
    }

    fn closed(&self, error: LinkError) {
        self.over.store(true, Ordering::SeqCst);
        if let Some(server) = self.server.upgrade() {
            // First: a call that hears of the end must not find the link again.
            server.direct.give_up(self.key);
        }
        if let Some(lifecycle) = self.lifecycle.upgrade() {
            // One that was given up on purpose, because nobody used it, is not missed.
            if lifecycle.link_closed(self.key) {
                self.own_view_is_old();
            }
        }
        let ended = self.ended.lock().take();
        if let Some(ended) = ended {
            let _ = ended.send(error);
        }
    }
}
