//! What an owner has written about its servers and not read back yet: one offer per server at a time.
//!
//! An offer whose fate is not known is written again as it was; the second copy is void. Being void is not being done: a late copy of an offer
//! from before a doubt may have taken the number, and then the server is looked at again.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::entry::{FleetEntry, OfferRecord};
use super::fold::FleetServer;
use super::{FleetServerName, OwnerEpoch};

/// An offer that was not read back after this time is written again.
const WRITE_AGAIN: Duration = Duration::from_secs(1);

/// Names one writing of an entry within this process; copies have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OfferAttempt(pub u64);

/// What follows from what a server lists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OfferStep {
    /// It is what the fleet has: a move to another owner is no change.
    Same,
    /// Another one is under way: look at the server again when that was read back.
    UnderWay,
    /// Write this.
    Write(OfferAttempt, FleetEntry),
}

/// What became of an offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OfferFate {
    /// None is under way, or it is still not known.
    Open,
    /// It is what the fleet has.
    Committed,
    /// Something else stands in its place: look at the server again.
    Overtaken,
}

#[derive(Clone, Debug)]
struct PendingOffer {
    attempt: OfferAttempt,
    epoch: OwnerEpoch,
    n: u64,
    offer: OfferRecord,
    again: Instant,
}

impl PendingOffer {
    fn entry(&self, server: &FleetServerName) -> FleetEntry {
        FleetEntry::Offer { server: server.clone(), epoch: self.epoch, n: self.n, offer: self.offer.clone() }
    }
}

/// The offers that are under way.
#[derive(Clone, Debug, Default)]
pub struct OfferCommits {
    pending: BTreeMap<FleetServerName, PendingOffer>,
    attempts: u64,
}

impl OfferCommits {
    /// A server of this replica lists something, in the epoch that the log has.
    pub fn listed(
        &mut self,
        name: &FleetServerName,
        server: &FleetServer,
        offer: OfferRecord,
        now: Instant,
    ) -> OfferStep {
        if self.pending.contains_key(name) {
            return OfferStep::UnderWay;
        }
        if server.offer.as_ref().is_some_and(|known| known.content == offer.content) {
            return OfferStep::Same;
        }
        self.attempts += 1;
        let attempt = OfferAttempt(self.attempts);
        let (epoch, n) = (server.epoch, server.offers + 1);
        let pending = PendingOffer { attempt, epoch, n, offer, again: now + WRITE_AGAIN };
        let entry = pending.entry(name);
        self.pending.insert(name.clone(), pending);
        OfferStep::Write(attempt, entry)
    }

    /// An entry about the server was applied.
    pub fn applied(&mut self, name: &FleetServerName, server: &FleetServer) -> OfferFate {
        let over = |pending: &PendingOffer| server.epoch != pending.epoch || server.offers >= pending.n;
        if !self.pending.get(name).is_some_and(over) {
            return OfferFate::Open;
        }
        let pending = self.pending.remove(name);
        if server.offer.as_ref() == pending.as_ref().map(|pending| &pending.offer) {
            OfferFate::Committed
        } else {
            OfferFate::Overtaken
        }
    }

    /// Whether an offer of the server is under way.
    pub fn is_under_way(&self, name: &FleetServerName) -> bool {
        self.pending.contains_key(name)
    }

    /// What has to be written again, of the servers that this replica may commit for.
    pub fn due(&mut self, now: Instant, serves: impl Fn(&FleetServerName) -> bool) -> Vec<(OfferAttempt, FleetEntry)> {
        let late = self.pending.iter_mut().filter(|(name, pending)| pending.again <= now && serves(name));
        late.map(|(name, pending)| {
            pending.again = now + WRITE_AGAIN;
            (pending.attempt, pending.entry(name))
        })
        .collect()
    }

    /// The server ended here, or the log began anew: nothing is waited for any more.
    pub fn forget(&mut self, name: &FleetServerName) {
        self.pending.remove(name);
    }
}
