//! What servers of this replica list, on its way into the log.

use std::sync::Arc;
use std::time::Instant;

use tidings_cluster::{AppendId, FleetBus as _};
use tidings_hub::fleet::FleetServerName;
use tidings_hub::fleet::entry::FleetEntry;
use tidings_hub::fleet::offer_commits::{OfferAttempt, OfferFate, OfferStep};
use tokio::sync::oneshot;

use super::desk::{OfferOutcome, WrittenOffer};
use super::driver::FleetDriver;

/// An offer that somebody waits for.
pub(super) struct WaitingOffer {
    offer: WrittenOffer,
    done: oneshot::Sender<OfferOutcome>,
}

impl FleetDriver {
    pub(super) fn offered(
        &mut self,
        server: &FleetServerName,
        offer: WrittenOffer,
        done: oneshot::Sender<OfferOutcome>,
    ) {
        // One listing per server at a time: one that waited before was given up with its link.
        self.offers.insert(server.clone(), WaitingOffer { offer, done });
        self.try_offer(server);
    }

    fn try_offer(&mut self, name: &FleetServerName) {
        let Some(waiting) = self.offers.get(name) else { return };
        let Some(server) = self.fold.state().servers().get(name).filter(|_| self.running.contains_key(name)) else {
            return self.offer_done(name, OfferOutcome::Lost);
        };
        // In doubt nothing is committed: it is tried again with every tick.
        if self.ownership.serves(name) != Some(server.epoch) {
            return;
        }
        match self.commits.listed(name, server, waiting.offer.record.clone(), Instant::now()) {
            OfferStep::Same => self.offer_done(name, OfferOutcome::Same),
            OfferStep::UnderWay => {}
            OfferStep::Write(attempt, entry) => self.write_offer(name, attempt, entry),
        }
    }

    fn offer_done(&mut self, name: &FleetServerName, outcome: OfferOutcome) {
        if let Some(waiting) = self.offers.remove(name) {
            let _ = waiting.done.send(outcome);
        }
    }

    /// The content first: whoever reads the entry finds it.
    fn write_offer(&self, name: &FleetServerName, attempt: OfferAttempt, entry: FleetEntry) {
        let Some(content) = self.offers.get(name).map(|waiting| waiting.offer.content.clone()) else { return };
        let id = AppendId(format!("{:016x}-offer-{}", self.me.incarnation, attempt.0));
        let bus = Arc::clone(&self.bus);
        let name = name.clone();
        self.desk.tasks.spawn(async move {
            let written = async {
                bus.put(content).await?;
                bus.append(&id, &entry, None).await
            };
            if let Err(error) = written.await {
                tracing::warn!(server = name.as_str(), %error, "what it lists was not written; it is tried again");
            }
        });
    }

    /// An entry about a server was applied.
    pub(super) fn offer_applied(&mut self, name: &FleetServerName) {
        let Some(server) = self.fold.state().servers().get(name) else { return };
        match self.commits.applied(name, server) {
            OfferFate::Open => {}
            OfferFate::Committed => self.offer_done(name, OfferOutcome::Committed),
            OfferFate::Overtaken => self.try_offer(name),
        }
    }

    /// What is late is written again, and what could not be is tried.
    pub(super) fn write_offers(&mut self, now: Instant) {
        let due = self.commits.due(now, |name| self.ownership.serves(name).is_some());
        for (attempt, entry) in due {
            if let FleetEntry::Offer { server, .. } = &entry {
                let server = server.clone();
                self.write_offer(&server, attempt, entry);
            }
        }
        let waiting: Vec<FleetServerName> = self.offers.keys().cloned().collect();
        for name in waiting {
            self.try_offer(&name);
        }
    }

    pub(super) fn forget_offer(&mut self, name: &FleetServerName) {
        self.commits.forget(name);
        self.offer_done(name, OfferOutcome::Lost);
    }
}
