//! Whether clients hear what they are told: counted on the path of their calls, without a lock.
//!
//! A session carries its own counts. Requests of modern clients belong to no session: those of whoever listens and is behind are found in a
//! small table by name and principal, which is empty nearly always, and then costs one relaxed load.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::ArcSwap;
use bytes::Bytes;
use tidings_hub::ClientKey;
use tidings_hub::deliveries::HearingTally;
use tidings_hub::ledger::{FollowerId, Topic, Topics};
use tidings_proto::{Era, Method, stale_hint};
use tidings_wire::{Frame, Payload};

use crate::client::session::Caller;
use crate::notify::ListNotifier;
use crate::notify::announce::Announcements;
use crate::notify::listeners::spoken_name;

/// The client of a listen whose calls have to be noticed.
pub(super) struct WatchedListen {
    pub(super) name: Option<String>,
    pub(super) principal: String,
    pub(super) hearing: Arc<HearingTally>,
}

/// All of them.
#[derive(Default)]
pub(super) struct WatchedListens {
    any: AtomicBool,
    table: ArcSwap<Vec<WatchedListen>>,
}

impl WatchedListens {
    pub(super) fn set(&self, watched: Vec<WatchedListen>) {
        let any = !watched.is_empty();
        if any || self.any.load(Ordering::Relaxed) {
            self.table.store(Arc::new(watched));
            self.any.store(any, Ordering::Relaxed);
        }
    }

    fn find(&self, caller: &Caller, frame: &Frame) -> Option<Arc<HearingTally>> {
        if !self.any.load(Ordering::Relaxed) {
            return None;
        }
        let name = spoken_name(frame);
        let principal = &*caller.principal().name;
        let table = self.table.load();
        let found =
            table.iter().find(|listen| listen.name.as_deref() == name.as_deref() && listen.principal == principal);
        found.map(|listen| Arc::clone(&listen.hearing))
    }
}

impl ListNotifier {
    /// A client uses what a list names. On the path of every call.
    pub(crate) fn note_call(&self, caller: &Caller, frame: &Frame, method: Method) {
        let topic = match method {
            Method::ToolsCall => Topic::Tools,
            Method::PromptsGet => Topic::Prompts,
            Method::ResourcesRead => Topic::Resources,
            _ => return,
        };
        match caller {
            Caller::Legacy(session) => _ = session.hearing.called(topic),
            Caller::Modern(_) => {
                let hearing = self.listens.watched.find(caller, frame);
                // Once for each change and client: the table is small again after that.
                if hearing.is_some_and(|hearing| hearing.called(topic)) {
                    self.listens.watch();
                }
            }
        }
    }

    /// The answer to a call of a tool with the hint that the client's list is old, if it is due and there may be one.
    pub(crate) fn hinted(&self, caller: &Caller, frame: &Frame, answer: &Payload) -> Option<Bytes> {
        let of_listen;
        let hearing = match caller {
            Caller::Legacy(session) => &session.hearing,
            Caller::Modern(_) => {
                of_listen = self.listens.watched.find(caller, frame)?;
                &*of_listen
            }
        };
        let commit = hearing.hint()?;
        let hinted = stale_hint::with_hint(&answer.to_bytes(), commit)?;
        // Of two answers that come at once one carries it.
        let is_ours = hearing.take_hint(commit);
        if is_ours && caller.era() == Era::Modern {
            self.listens.watch();
        }
        is_ours.then_some(hinted)
    }

    /// These were told of lists that they had asked for.
    pub(super) fn note_told(&self, follower: FollowerId, era: Era, outdated: Topics) {
        if outdated.is_empty() {
            return;
        }
        match era {
            Era::Legacy => {
                if let Some(session) = self.sessions.get(ClientKey(follower.0)) {
                    session.hearing.told(outdated);
                }
            }
            Era::Modern => {
                if let Some(hearing) = self.listens.hearing(follower) {
                    hearing.told(outdated);
                    self.listens.watch();
                }
            }
        }
    }

    /// These are owed something: where hints are given, those whose tools changed are due one.
    pub(super) fn note_owed(&self, announcements: &Announcements, owed: &[FollowerId]) {
        let settings = &self.runtime.settings;
        if !settings.announcements.hints && !settings.clients.hint() {
            return;
        }
        let mut has_listen = false;
        for follower in owed {
            let Some(commit) = announcements.deliveries.newest_owed(*follower, Topic::Tools) else { continue };
            match self.sessions.get(ClientKey(follower.0)) {
                Some(session) if settings.announcements.hints_to(session.client.profile.as_deref()) => {
                    session.hearing.changed(commit);
                }
                Some(_) => {}
                None => {
                    let hearing = self.listens.hinted(*follower);
                    has_listen |= hearing.inspect(|hearing| hearing.changed(commit)).is_some();
                }
            }
        }
        if has_listen {
            self.listens.watch();
        }
    }
}
