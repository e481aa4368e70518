//! What servers of this replica list, on its way into the log.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use tidings_cluster::{AppendId, FleetBus as _};
use tidings_hub::fleet::entry::FleetEntry;
use tidings_hub::fleet::offer_commits::{OfferAttempt, OfferCommits, OfferFate, OfferStep};
use tidings_hub::fleet::{FleetServerName, OwnerEpoch};
use tokio::sync::oneshot;

use super::FleetDriver;
use crate::fleet::desk::{OfferOutcome, WrittenOffer};

/// What servers that run here list, on its way into the log.
#[derive(Default)]
pub(super) struct OfferWrites {
    pub(super) commits: OfferCommits,
    /// Whoever listed, until it is known what became of it.
    pub(super) waiting: BTreeMap<FleetServerName, WaitingOffer>,
}

/// An offer that somebody waits for.
pub(super) struct WaitingOffer {
    offer: WrittenOffer,
    done: oneshot::Sender<OfferOutcome>,
}

impl FleetDriver {
    pub(super) fn offered(
        &mut self,
        server: &FleetServerName,
        epoch: OwnerEpoch,
        offer: WrittenOffer,
        done: oneshot::Sender<OfferOutcome>,
    ) {
        // Listed by one whose place another has taken since.
        if self.running.get(server) != Some(&epoch) {
            let _ = done.send(OfferOutcome::Lost);
            return;
        }
        // One listing per server at a time: one that waited before was given up with its link.
        self.offering.waiting.insert(server.clone(), WaitingOffer { offer, done });
        self.try_offer(server);
    }

    fn try_offer(&mut self, name: &FleetServerName) {
        let Some(waiting) = self.offering.waiting.get(name) else { return };
        let Some(server) = self.fold.state().servers().get(name).filter(|_| self.running.contains_key(name)) else {
            return self.offer_done(name, OfferOutcome::Lost);
        };
        // In doubt nothing is committed: it is tried again with every tick.
        if self.ownership.serves(name) != Some(server.epoch) {
            return;
        }
        match self.offering.commits.listed(name, server, waiting.offer.record.clone(), Instant::now()) {
            OfferStep::Same => self.offer_done(name, OfferOutcome::Same),
            OfferStep::UnderWay => {}
            OfferStep::Write(attempt, entry) => self.write_offer(name, attempt, entry),
        }
    }

    fn offer_done(&mut self, name: &FleetServerName, outcome: OfferOutcome) {
        if let Some(waiting) = self.offering.waiting.remove(name) {
            let _ = waiting.done.send(outcome);
        }
    }

    /// The content first: whoever reads the entry finds it.
    fn write_offer(&self, name: &FleetServerName, attempt: OfferAttempt, entry: FleetEntry) {
        let Some(content) = self.offering.waiting.get(name).map(|waiting| waiting.offer.content.clone()) else {
            return;
        };
        let id = AppendId(format!("{:016x}-offer-{}", self.local.me.incarnation, attempt.0));
        let bus = Arc::clone(&self.outward.bus);
        let name = name.clone();
        self.desk.tasks.spawn(async move {
            let written = async {
                bus.put(content).await?;
                bus.append(&id, &entry, None).await
            };
            if let Err(error) = written.await {
                tracing::warn!(server = %name, %error, "what it lists was not written; it is tried again");
            }
        });
    }

    /// An entry about a server was applied.
    pub(super) fn offer_applied(&mut self, name: &FleetServerName) {
        let Some(server) = self.fold.state().servers().get(name) else { return };
        match self.offering.commits.applied(name, server) {
            OfferFate::Open => {}
            OfferFate::Committed => self.offer_done(name, OfferOutcome::Committed),
            OfferFate::Overtaken => self.try_offer(name),
        }
    }

    /// What is late is written again, and what could not be is tried.
    pub(super) fn write_offers(&mut self, now: Instant) {
        let due = self.offering.commits.due(now, |name| self.ownership.serves(name).is_some());
        for (attempt, entry) in due {
            if let FleetEntry::Offer { server, .. } = &entry {
                let server = server.clone();
                self.write_offer(&server, attempt, entry);
            }
        }
        let waiting: Vec<FleetServerName> = self.offering.waiting.keys().cloned().collect();
        for name in waiting {
            self.try_offer(&name);
        }
    }

    pub(super) fn forget_offer(&mut self, name: &FleetServerName) {
        self.offering.commits.forget(name);
        self.offer_done(name, OfferOutcome::Lost);
    }
}
