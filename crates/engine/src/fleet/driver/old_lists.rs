//! Lists whose place others took: the replica that keeps the state drops them after a while, and one that reads the log from further behind passes
//! over them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tidings_cluster::FleetBus as _;
use tidings_hub::fleet::entry::{FleetEntry, RegistryStep};
use tidings_hub::fleet::replaced_lists::ReplacedLists;
use tidings_hub::fleet::{BlobHash, FleetServerName};

use super::FleetDriver;

/// Nothing takes the place of a list that is not there, if nothing has for so long although the log was read to its end.
const NOTHING_COMES: Duration = Duration::from_secs(5);

/// What becomes of lists that were replaced.
pub(super) struct OldLists {
    kept_for: Duration,
    replaced: ReplacedLists,
    /// Servers whose last list that was read is not beside the log any more, and since when.
    missing: BTreeMap<FleetServerName, Instant>,
}

impl OldLists {
    pub(super) fn new(kept_for: Duration) -> Self {
        Self { kept_for, replaced: ReplacedLists::new(kept_for), missing: BTreeMap::new() }
    }

    /// Whether everything is shown here that the log says.
    pub(super) fn is_whole(&self) -> bool {
        self.missing.is_empty()
    }
}

impl FleetDriver {
    /// The lists that an entry may take the place of.
    pub(super) fn lists_before(&self, entry: &FleetEntry) -> Vec<BlobHash> {
        let state = self.fold.state();
        match entry {
            FleetEntry::Offer { server, .. } => {
                let offer = state.servers().get(server).and_then(|server| server.offer.as_ref());
                offer.map(|offer| offer.blobs.clone()).unwrap_or_default()
            }
            FleetEntry::Registry { .. } | FleetEntry::Plan { .. } => state.lists().copied().collect(),
            _ => Vec::new(),
        }
    }

    /// The entry was taken into the state.
    pub(super) fn lists_after(&mut self, before: &[BlobHash], now: Instant) {
        if before.is_empty() {
            return;
        }
        let state = self.fold.state();
        let named: BTreeSet<&BlobHash> = state.lists().collect();
        for replaced in before.iter().filter(|list| !named.contains(list)) {
            self.lists.replaced.replaced(*replaced, state.sequence(), now);
        }
    }

    /// A list that an entry names can not be had, or can (`is_there`). Behind the end of the log another one will have taken its place.
    pub(super) fn list_read(&mut self, server: &FleetServerName, is_there: bool) {
        if is_there {
            self.lists.missing.remove(server);
        } else {
            self.lists.missing.entry(server.clone()).or_insert_with(Instant::now);
        }
    }

    /// The same for the servers that come with a change of the set.
    pub(super) fn lists_read(&mut self, steps: &[RegistryStep], contents: &BTreeMap<BlobHash, Bytes>) {
        for step in steps {
            if let RegistryStep::Put { server, offer: Some(offer), .. } = step {
                self.list_read(&server.name, offer.blobs.iter().all(|list| contents.contains_key(list)));
            }
        }
    }

    /// At the end of the log nothing takes the place of what is missing.
    pub(super) fn mind_missing_lists(&mut self, now: Instant) {
        let servers = self.fold.state().servers();
        self.lists.missing.retain(|name, _| servers.get(name).is_some_and(|server| server.offer.is_some()));
        let mut lost = self.lists.missing.iter().filter(|(_, since)| now.duration_since(**since) >= NOTHING_COMES);
        if let Some((name, _)) = lost.next().filter(|_| !self.members.is_in_doubt(now)) {
            self.stuck(format!("what server \"{name}\" lists can not be read from the bus"));
        }
    }

    /// Drops what nobody can come upon any more, where it is this replica's turn.
    pub(super) fn drop_lists(&mut self, now: Instant) {
        let kept = self.states.kept_here(&self.members);
        let state = self.fold.state();
        let due = self.lists.replaced.due(kept, |list| state.lists().any(|named| named == list), now);
        for list in due {
            let (bus, kept_for) = (Arc::clone(&self.outward.bus), self.lists.kept_for);
            self.desk.tasks.spawn(async move {
                match bus.drop_old_content(list, kept_for).await {
                    Ok(true) => tracing::debug!("a list that another took the place of was dropped"),
                    Ok(false) => {}
                    Err(error) => tracing::debug!(%error, "a list that another took the place of stays"),
                }
            });
        }
    }
}
