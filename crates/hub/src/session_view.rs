//! What a session, or a person with all their clients, sees over links of their own.
//!
//! Each server that is connected once per session or per person has a part here: what the own link gave when it was last looked
//! at. Until it was, and whenever it can not be, the part is what the shared catalogue has. So there is always a view, and
//! nobody waits for a link to read it. One look per server at a time; a signal during a look causes exactly one more. Where somebody
//! has to log in first, nothing is looked at until that changes, and the last lists stay.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use crate::ServerId;
use crate::catalogue::{CatalogueSnapshot, ServerOffer};
use crate::client_profile::ViewShape;
use crate::scope::AccessScope;

/// How long to wait before a list is asked for again that the server failed to give.
const RETRY: Duration = Duration::from_secs(1);

/// A server whose lists are to be had over the session's own link. Exactly one is under way for each server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnLinkLook {
    /// The server that is asked over the session's own link.
    pub server: ServerId,
    /// Not before this time.
    pub at: Instant,
    /// Whether somebody who waits for the view may have it begin at once. Not after a failure.
    pub may_hurry: bool,
}

/// What came of a look.
#[derive(Debug)]
pub enum OwnLinkLooked {
    /// What the server offers, and whether all of its lists could be had.
    Offer(Arc<ServerOffer>, bool),
    /// It could not be looked at.
    Failed {
        /// When to try again.
        retry_at: Instant,
    },
    /// Whose link it is has to log in first.
    NeedsLogin,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum OwnLookPhase {
    /// What is known is what there is.
    #[default]
    Settled,
    /// A look is under way and may be waited for.
    Looking,
    /// A look is under way, and the last one failed or took too long: nobody waits for it.
    Trying,
    /// The link was closed because nobody used it: looked at again when somebody asks.
    Asleep,
    /// Somebody has to log in first: looked at again when that has changed.
    NeedsLogin,
}

#[derive(Debug, Default)]
struct OwnServerPart {
    offer: Option<Arc<ServerOffer>>,
    /// What the shared catalogue had when the last look was wanted. What changes there may have changed here too.
    shared: Option<Arc<ServerOffer>>,
    phase: OwnLookPhase,
    /// Something was said while a look was under way: it may have come too late for it.
    again: bool,
}

/// Views that are in use, by what they were merged of. Keeps none of them alive.
#[derive(Debug, Default)]
pub struct MergedViews(Vec<MergedView>);

#[derive(Debug)]
struct MergedView {
    shared: Weak<CatalogueSnapshot>,
    offers: Vec<Arc<ServerOffer>>,
    whole: Weak<CatalogueSnapshot>,
}

impl MergedViews {
    fn find(&mut self, shared: &Arc<CatalogueSnapshot>, offers: &[Arc<ServerOffer>]) -> Option<Arc<CatalogueSnapshot>> {
        // What nobody sees any more goes, and the offers that it was merged of with it.
        self.0.retain(|merged| merged.whole.strong_count() > 0);
        let is_same = |merged: &&MergedView| {
            // The address is enough: a weak pointer keeps its memory from being given to another.
            std::ptr::eq(merged.shared.as_ptr(), Arc::as_ptr(shared))
                && merged.offers.len() == offers.len()
                && merged.offers.iter().zip(offers).all(|(a, b)| Arc::ptr_eq(a, b))
        };
        self.0.iter().find(is_same)?.whole.upgrade()
    }
}

/// What one session sees of the servers to which it has connections of its own, beside the shared catalogue.
#[derive(Debug, Default)]
pub struct SessionView {
    parts: BTreeMap<ServerId, OwnServerPart>,
    /// The shared catalogue with the own offers in it, and the part of it that the session may see: each with what it was made of.
    merged: Option<(Arc<CatalogueSnapshot>, Arc<CatalogueSnapshot>)>,
    built: Option<(Arc<CatalogueSnapshot>, Arc<CatalogueSnapshot>)>,
    is_shown: bool,
}

impl SessionView {
    /// These servers are connected once per session, and the shared catalogue is this. Tells what is to be looked at.
    /// `is_asked`: the client wants to see the view, so that links which sleep are needed again.
    pub fn attend(
        &mut self,
        shared: &CatalogueSnapshot,
        servers: &BTreeSet<ServerId>,
        is_asked: bool,
        quiet: Duration,
        now: Instant,
    ) -> Vec<OwnLinkLook> {
        let before = self.parts.len();
        self.parts.retain(|server, _| servers.contains(server));
        // A server that left takes its part of the view with it.
        if self.parts.len() != before {
            self.is_other();
        }
        let mut looks = Vec::new();
        for server in servers {
            let there = shared.offer(*server).cloned();
            if !self.parts.contains_key(server) {
                let part = OwnServerPart { shared: there, phase: OwnLookPhase::Looking, ..OwnServerPart::default() };
                self.parts.insert(*server, part);
                looks.push(OwnLinkLook { server: *server, at: now, may_hurry: true });
                continue;
            }
            let Some(part) = self.parts.get_mut(server) else { continue };
            // By pointer: every commit of this server makes a new offer, and one that is not new needs no look.
            let is_same = match (&part.shared, &there) {
                (Some(before), Some(now)) => Arc::ptr_eq(before, now),
                (None, None) => true,
                _ => false,
            };
            part.shared = there;
            if !is_same || (is_asked && part.phase == OwnLookPhase::Asleep) {
                // A change of the shared catalogue is often one of several: the look waits until they have ended. A
                // client that asks does not.
                let at = if is_same { now } else { now + quiet };
                looks.extend(part.want(*server, at));
            }
        }
        looks
    }

    /// The session's own link to a server said, or showed, that its lists are not what they were.
    pub fn signalled(&mut self, server: ServerId, at: Instant) -> Option<OwnLinkLook> {
        // A session that has not asked yet has nothing that could change.
        self.parts.get_mut(&server)?.want(server, at)
    }

    /// The session's own link to a server is up again, for a call: what it gives may differ.
    pub fn connected(&mut self, server: ServerId, at: Instant) -> Option<OwnLinkLook> {
        let part = self.parts.get_mut(&server)?;
        match part.phase {
            // That look is what the link was made for.
            OwnLookPhase::Looking | OwnLookPhase::Trying => None,
            OwnLookPhase::Settled | OwnLookPhase::Asleep | OwnLookPhase::NeedsLogin => part.want(server, at),
        }
    }

    /// The session's own link to a server was closed because nobody used it.
    pub fn slept(&mut self, server: ServerId) {
        if let Some(part) = self.parts.get_mut(&server).filter(|part| part.phase == OwnLookPhase::Settled) {
            part.phase = OwnLookPhase::Asleep;
        }
    }

    /// A look is over. Tells whether there must be another one.
    pub fn looked(
        &mut self,
        server: ServerId,
        looked: OwnLinkLooked,
        quiet: Duration,
        now: Instant,
    ) -> Option<OwnLinkLook> {
        // The server left while it was looked at.
        let part = self.parts.get_mut(&server)?;
        let again = std::mem::take(&mut part.again);
        let at = match looked {
            OwnLinkLooked::Offer(offer, complete) => {
                part.offer = Some(offer);
                part.phase = OwnLookPhase::Settled;
                (self.merged, self.built) = (None, None);
                match (again, complete) {
                    // Something was said during the look, perhaps too late for it.
                    (true, _) => now + quiet,
                    (false, false) => now + RETRY,
                    (false, true) => return None,
                }
            }
            // Nobody may hurry it: clients that ask in a loop would make it try as fast as they do.
            OwnLinkLooked::Failed { retry_at } => {
                part.phase = OwnLookPhase::Trying;
                // What was said meanwhile (`again`) needs no look of its own: this one begins after it.
                return Some(OwnLinkLook { server, at: retry_at, may_hurry: false });
            }
            OwnLinkLooked::NeedsLogin => {
                part.phase = OwnLookPhase::NeedsLogin;
                match again {
                    // It may have been said that somebody has logged in by now.
                    true => now,
                    false => return None,
                }
            }
        };
        part.want(server, at)
    }

    /// A look that failed is not tried again by itself, because nobody is waiting for it or to be told: it is when somebody asks.
    pub fn sleeps(&mut self, server: ServerId) {
        if let Some(part) = self.parts.get_mut(&server) {
            part.phase = OwnLookPhase::Asleep;
        }
    }

    /// A server turned out not to be there while it was looked at.
    pub fn forget(&mut self, server: ServerId) {
        self.parts.remove(&server);
        self.is_other();
    }

    /// Whether a look is under way that is worth waiting for.
    pub fn is_settled(&self) -> bool {
        self.parts.values().all(|part| part.phase != OwnLookPhase::Looking)
    }

    /// The servers that have neither been looked at nor asked for a login yet, whether or not that is worth waiting for.
    pub fn undecided(&self) -> impl Iterator<Item = ServerId> {
        let is_open = |part: &OwnServerPart| match part.phase {
            OwnLookPhase::NeedsLogin => false,
            OwnLookPhase::Settled | OwnLookPhase::Looking | OwnLookPhase::Trying | OwnLookPhase::Asleep => {
                part.offer.is_none()
            }
        };
        self.parts.iter().filter(move |(_, part)| is_open(part)).map(|(server, _)| *server)
    }

    /// Somebody has waited for the looks that are under way as long as is right: nobody else waits for them.
    pub fn waited_enough(&mut self) {
        let slow = self.parts.values_mut().filter(|part| part.phase == OwnLookPhase::Looking);
        slow.for_each(|part| part.phase = OwnLookPhase::Trying);
    }

    /// The view, as of now.
    pub fn snapshot(
        &mut self,
        shared: &Arc<CatalogueSnapshot>,
        scope: &AccessScope,
        shape: Option<&Arc<ViewShape>>,
    ) -> Arc<CatalogueSnapshot> {
        // The view was built on this very state of the shared catalogue. Scope and shape of a session never change.
        if let Some((_, own)) = self.built.as_ref().filter(|(of, _)| Arc::ptr_eq(of, shared)) {
            return Arc::clone(own);
        }
        // Last, over the merged lists: names are made over all servers, and only then some are left out.
        let own = self.whole(shared).seen_as(scope, shape);
        self.built = Some((Arc::clone(shared), Arc::clone(&own)));
        own
    }

    /// The shared catalogue with the own offers in the place of the shared ones, server by server; those without an own offer
    /// stay. Nothing is left out of it.
    pub fn whole(&mut self, shared: &Arc<CatalogueSnapshot>) -> Arc<CatalogueSnapshot> {
        if let Some((_, whole)) = self.merged.as_ref().filter(|(of, _)| Arc::ptr_eq(of, shared)) {
            return Arc::clone(whole);
        }
        let offers = self.parts.values().filter_map(|part| part.offer.as_ref());
        let whole = offers.fold(Arc::clone(shared), |whole, offer| Arc::new(whole.with_kept(offer)));
        self.merged = Some((Arc::clone(shared), Arc::clone(&whole)));
        whole
    }

    /// As [`Self::whole`], where others may have merged the very same offers: equal views are one.
    pub fn whole_among(&mut self, shared: &Arc<CatalogueSnapshot>, known: &mut MergedViews) -> Arc<CatalogueSnapshot> {
        if let Some((_, whole)) = self.merged.as_ref().filter(|(of, _)| Arc::ptr_eq(of, shared)) {
            return Arc::clone(whole);
        }
        let offers: Vec<Arc<ServerOffer>> = self.parts.values().filter_map(|part| part.offer.clone()).collect();
        let whole = match known.find(shared, &offers) {
            Some(whole) => whole,
            None => {
                let whole = self.whole(shared);
                known.0.push(MergedView { shared: Arc::downgrade(shared), offers, whole: Arc::downgrade(&whole) });
                whole
            }
        };
        self.merged = Some((Arc::clone(shared), Arc::clone(&whole)));
        whole
    }

    /// Whether a server has a part here.
    pub fn attends(&self, server: ServerId) -> bool {
        self.parts.contains_key(&server)
    }

    fn is_other(&mut self) {
        (self.merged, self.built) = (None, None);
    }

    /// What the last look over the session's own link gave.
    pub fn offer(&self, server: ServerId) -> Option<&Arc<ServerOffer>> {
        self.parts.get(&server)?.offer.as_ref()
    }

    /// The client is shown the view: from now on it is owed what changes in it.
    pub fn show(&mut self) {
        self.is_shown = true;
    }

    /// Whether the client was shown the view.
    pub fn is_shown(&self) -> bool {
        self.is_shown
    }
}

impl OwnServerPart {
    /// A look is wanted; it is begun unless one is under way.
    fn want(&mut self, server: ServerId, at: Instant) -> Option<OwnLinkLook> {
        match self.phase {
            OwnLookPhase::Looking | OwnLookPhase::Trying => {
                // Not a second look at once: what is said during one causes exactly one more, however often it is
                // said.
                self.again = true;
                None
            }
            OwnLookPhase::Settled | OwnLookPhase::Asleep | OwnLookPhase::NeedsLogin => {
                self.phase = OwnLookPhase::Looking;
                Some(OwnLinkLook { server, at, may_hurry: true })
            }
        }
    }
}
