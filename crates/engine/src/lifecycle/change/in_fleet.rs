//! Changing the set of servers of a cluster: whoever asks starts what comes and writes the change; every replica applies it from the log.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use tidings_hub::catalogue::OfferList;
use tidings_hub::fleet::OwnerEpoch;
use tidings_hub::fleet::entry::RegistryStep;
use tokio_util::sync::CancellationToken;

use super::transaction::{First, Transaction};
use super::{ChangeError, OfferReview, Operation, decision};
use crate::discovery::agreed::ParkedOffer;
use crate::fleet::offer_form::{self, OfferContent};
use crate::fleet::set_change::{self, KeptStep, LoggedChange, SetGate, SetOutcome, WrittenChange};
use crate::fleet::{FleetDesk, placed};
use crate::lifecycle::ServerLifecycle;
use crate::lifecycle::change::AgreedChange;
use crate::observe::status::Origin;
use crate::plan::ServerPlan;

/// How often a change is looked at again because others changed something else meanwhile.
const ATTEMPTS: usize = 32;
/// How long the change of another, which came first, is waited for.
const OTHERS_APPLY: Duration = Duration::from_secs(10);

impl ServerLifecycle {
    /// Changes the set of servers at all replicas, all of it or nothing.
    pub(crate) async fn change_in_fleet(
        self: &Arc<Self>,
        (operations, kept): (Vec<Operation>, Vec<KeptStep>),
        cancelled: &CancellationToken,
        review: impl AsyncFnOnce(Vec<OfferReview>) -> Result<(), ChangeError>,
        agreed: &dyn AgreedChange,
    ) -> Result<(), ChangeError> {
        let Some(fleet) = &self.runtime.fleet else { return Err(ChangeError::InCluster) };
        // Before anything is started for it.
        confirm(fleet).await?;
        let decided = decision(&operations);
        let transaction = self.begin_change(operations, cancelled, review).await?;
        // One after the other, from the check to the commit: two of this replica would only overtake each other.
        let _registering = fleet.set.changing.lock().await;
        let gate = match self.write_change(fleet, &transaction, &kept, cancelled, agreed).await {
            Ok(gate) => gate,
            Err(error) => {
                drop(_registering);
                transaction.undo().await;
                return Err(error);
            }
        };
        let mut ids = self.changing.lock().await;
        agreed.settle().await;
        transaction.begins(gate.since);
        transaction.commit(&mut ids);
        gate.applied();
        self.record(decided);
        Ok(())
    }

    /// Writes a change until it holds, or it is known that it can not be made.
    async fn write_change(
        &self,
        fleet: &FleetDesk,
        transaction: &Transaction<'_>,
        kept: &[KeptStep],
        cancelled: &CancellationToken,
        agreed: &dyn AgreedChange,
    ) -> Result<SetGate, ChangeError> {
        let (steps, contents) = transaction.steps(fleet, kept)?;
        let mut versions = fleet.set.version();
        for _ in 0..ATTEMPTS {
            // Of before the check: what is applied after it makes the change void.
            let version = *versions.borrow_and_update();
            if cancelled.is_cancelled() {
                return Err(ChangeError::Cancelled);
            }
            transaction.check_again()?;
            agreed.check().await?;
            // Before the servers are there: what is trusted at first sight is shown with them.
            for (plan, lists) in transaction.listed() {
                self.discovery.agree_on_listing(plan, lists).await.map_err(ChangeError::Isolated)?;
            }
            let change = WrittenChange { version, steps: steps.clone(), contents: contents.clone() };
            match fleet.change_set(change).await {
                SetOutcome::Committed(gate) => return Ok(gate),
                SetOutcome::Refused(why) => return Err(ChangeError::Isolated(why)),
                SetOutcome::Declined(why) => return Err(ChangeError::Declined(why)),
                SetOutcome::Unknown => return Err(ChangeError::Unanswered),
                SetOutcome::Overtaken => {
                    let others = versions.wait_for(|known| *known != version);
                    if !matches!(tokio::time::timeout(OTHERS_APPLY, others).await, Ok(Ok(_))) {
                        return Err(ChangeError::Isolated("a change of another replica is not applied here".into()));
                    }
                }
            }
        }
        Err(ChangeError::Isolated("other replicas change the servers all the time".into()))
    }

    /// Applies a change that is in the log. Never fails as a whole: what can not be had here is left out, and said.
    pub(crate) async fn follow_set(
        self: &Arc<Self>,
        mut operations: Vec<Operation>,
        LoggedChange { mut offers, since, .. }: LoggedChange,
        settle: BoxFuture<'_, ()>,
    ) {
        let mut ids = self.changing.lock().await;
        let mut transaction = loop {
            let servers = self.pool.servers();
            operations.retain(|operation| match operation {
                Operation::Remove { name } => servers.named(name, false).is_some(),
                Operation::Put { .. } => true,
            });
            match Transaction::plan(self, &mut ids, operations.clone()) {
                Ok(transaction) => break transaction,
                Err(ChangeError::Clash { name, other, prefix, .. }) => {
                    tracing::error!(server = %name, %other, %prefix, "another replica added it, and its names are taken here");
                    operations
                        .retain(|operation| !matches!(operation, Operation::Put { plan, .. } if plan.name == name));
                }
                Err(error) => {
                    // Names stand once in an entry, and what is removed is there.
                    tracing::error!(%error, "a change of the servers in the log is not applied here");
                    operations.clear();
                }
            }
        };
        for arrival in &mut transaction.arrivals {
            arrival.is_followed = true;
            if let Some(OfferContent { hello, lists }) = offers.remove(&arrival.server.plan.name) {
                let (offer, hello) = (arrival.server.offer_of(&hello, lists), Arc::new(hello));
                let server = Arc::downgrade(&arrival.server);
                let parked = ParkedOffer { offer, hello, server };
                if let Some(ParkedOffer { offer, hello, .. }) = self.discovery.park(&arrival.server.plan, parked) {
                    arrival.first = First::Logged(Box::new((offer, hello)));
                }
            }
        }
        settle.await;
        transaction.begins(since);
        transaction.commit(&mut ids);
    }
}

/// Waits until everything that is in the log is applied here.
pub(crate) async fn confirm(fleet: &FleetDesk) -> Result<(), ChangeError> {
    match fleet.confirm().await {
        true => Ok(()),
        false => Err(ChangeError::Isolated("this replica is cut off from the others".into())),
    }
}

impl Transaction<'_> {
    /// What comes is there since this epoch: who ran a former one of its name has nothing to do with it.
    fn begins(&self, since: OwnerEpoch) {
        self.arrivals.iter().for_each(|arrival| arrival.server.tenure.since.store(since.0, Ordering::Relaxed));
    }

    /// What comes and has listed.
    fn listed(&self) -> impl Iterator<Item = (&ServerPlan, &[OfferList; 4])> {
        self.arrivals.iter().filter_map(|arrival| match &arrival.first {
            First::Ready(ready) => Some((&arrival.server.plan, &ready.offer.lists)),
            _ => None,
        })
    }

    /// The change as it is written, with what is kept of it.
    fn steps(&self, fleet: &FleetDesk, kept: &[KeptStep]) -> Result<(Vec<RegistryStep>, Vec<Bytes>), ChangeError> {
        let mut contents = Vec::new();
        let comes = |name: &str| {
            let arrival = self.arrivals.iter().find(|arrival| arrival.server.plan.name == name);
            arrival.map(|arrival| placed(&arrival.server.plan))
        };
        let mut steps = set_change::write_kept(kept, comes, &mut contents);
        for arrival in self.arrivals.iter().filter(|arrival| arrival.server.is_placed()) {
            let plan = &arrival.server.plan;
            let offer = match &arrival.first {
                First::Ready(ready) => {
                    let written = offer_form::write(&ready.hello, &ready.offer.lists);
                    let (record, content) = written.ok_or_else(|| ChangeError::Failed {
                        name: plan.name.clone(),
                        error: tidings_upstream::LinkError::Protocol("lists what is no JSON".into()),
                    })?;
                    contents.push(content);
                    Some(record)
                }
                _ => None,
            };
            let (server, from_file) = (placed(plan), plan.origin == Origin::File);
            steps.push(RegistryStep::Put { server, from_file, owner: fleet.me.clone(), offer });
        }
        let leaves = |server: &Arc<crate::servers::server::Server>| RegistryStep::Remove {
            server: server.plan.name.as_str().into(),
        };
        steps.extend(self.leaving.iter().map(leaves));
        Ok((steps, contents))
    }
}
