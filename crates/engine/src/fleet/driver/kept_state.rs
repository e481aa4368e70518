//! The whole state beside the log: one replica keeps it from time to time, and whoever joins begins with it.
//!
//! What a reading of the log up to there would have done is done at once: the set of servers is changed to what it is, lists are shown, and
//! followers are told of the last decision under each key.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tidings_cluster::{BusError, FleetBus as _, NatsBus};
use tidings_hub::fleet::entry::FleetEntry;
use tidings_hub::fleet::fold::{FleetFold, FleetState};
use tidings_hub::fleet::members::FleetMembers;
use tidings_hub::fleet::state_keeping::{KeptState, StateKeeping};
use tidings_hub::fleet::{BlobHash, LogSequence, OwnerEpoch};

use super::set_changes::ApplyingSet;
use super::{DriverEvent, FORMAT, FleetDriver, FleetEffects};
use crate::fleet::offer_form::{self, OfferContent};
use crate::fleet::set_change::{KeptStep, LoggedChange, SetGate};

/// The format of those who keep states.
const KEEPING_FORMAT: u32 = 4;
/// How long a replica that joins looks for a state; then it reads the log from its beginning.
const FOUND_WITHIN: Duration = Duration::from_secs(20);
const LOOK_AGAIN: Duration = Duration::from_millis(200);
/// How many contents are fetched at a time.
const FETCHES: usize = 8;

/// What a replica keeps of its reading of the log for those who join.
pub(super) struct StateRoom {
    keeping: StateKeeping,
    /// The entry that was read last.
    last_entry: BlobHash,
}

impl StateRoom {
    pub(super) fn new(begun: LogSequence) -> Self {
        Self { keeping: StateKeeping::new(KEEPING_FORMAT, begun), last_entry: BlobHash::default() }
    }

    /// Up to where the state is kept, if it is this replica that keeps it.
    pub(super) fn kept_here(&self, members: &FleetMembers) -> Option<LogSequence> {
        self.keeping.kept_here(members)
    }

    pub(super) fn entry_read(&mut self, entry: BlobHash) {
        self.last_entry = entry;
    }
}

/// What a replica begins with that does not read the whole log.
pub(super) struct KeptBeginning {
    pub(super) fold: FleetFold,
    /// What is configured beside the files.
    pub(super) change: LoggedChange,
}

/// The state that was kept last, with everything that it names. `None`: there is none, or none that is understood here.
pub(super) async fn find(bus: &NatsBus, effects: &dyn FleetEffects) -> Option<KeptBeginning> {
    let looking = async {
        loop {
            match read(bus, effects).await {
                Ok(found) => return found,
                Err(BusError::NotConnected | BusError::NoAnswer | BusError::NoLeader) => {}
                Err(error) => {
                    tracing::warn!(%error, "the state that is kept beside the log can not be read; the log is read from its beginning");
                    return None;
                }
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    };
    let found = tokio::time::timeout(FOUND_WITHIN, looking).await.unwrap_or_else(|_| {
        tracing::warn!(
            "the bus did not give the state that is kept beside the log; the log is read from its beginning"
        );
        None
    });
    if let Some(KeptBeginning { fold, .. }) = &found {
        tracing::info!(position = fold.applied_position(), "begins with the state that was kept beside the log");
    }
    found
}

async fn read(bus: &NatsBus, effects: &dyn FleetEffects) -> Result<Option<KeptBeginning>, BusError> {
    let Some(kept) = bus.kept_state().await? else { return Ok(None) };
    if kept.format > FORMAT {
        // What is in the log may still be understood.
        tracing::warn!("a newer version kept the state beside the log; the log is read from its beginning");
        return Ok(None);
    }
    // It was replaced a while ago, if it is not there: the next look finds the one that took its place.
    let content = bus.get(kept.content).await?.ok_or(BusError::NoAnswer)?;
    let state: FleetState = serde_json::from_slice(&content).map_err(|fault| BusError::Unreadable {
        place: format!("the state at position {}", kept.position),
        fault: fault.to_string(),
    })?;
    show_files(bus, effects, &state).await?;
    let change = configured(bus, &state).await?;
    Ok(Some(KeptBeginning { fold: FleetFold::resume(state, kept.position), change }))
}

/// What servers of the files list. Those are there already; shown a few at a time, so that never all of it is held.
async fn show_files(bus: &NatsBus, effects: &dyn FleetEffects, state: &FleetState) -> Result<(), BusError> {
    let offers = state.servers().iter().filter(|(_, server)| server.from_file);
    let offers: Vec<_> =
        offers.filter_map(|(name, server)| Some((name, *server.offer.as_ref()?.blobs.first()?))).collect();
    for some in offers.chunks(FETCHES) {
        let fetched = futures_util::future::try_join_all(some.iter().map(|(_, hash)| offer(bus, *hash))).await?;
        for ((name, _), offer) in some.iter().zip(fetched) {
            effects.show(name, offer);
        }
    }
    Ok(())
}

/// What was added and switched while the cluster ran, as one change.
async fn configured(bus: &NatsBus, state: &FleetState) -> Result<LoggedChange, BusError> {
    let mut change = LoggedChange { kept: Vec::new(), offers: BTreeMap::new(), since: OwnerEpoch(0) };
    for (name, server) in state.kept() {
        let definition = content(bus, server.planned.definition).await?;
        change.kept.push(KeptStep::Keep { name: name.to_string(), definition, on: server.on });
    }
    for (name, on) in state.switches() {
        change.kept.push(KeptStep::Switch { name: name.to_string(), on: Some(on) });
    }
    for (name, server) in state.servers().iter().filter(|(_, server)| !server.from_file) {
        if let Some(hash) = server.offer.as_ref().and_then(|record| record.blobs.first()) {
            change.offers.insert(name.to_string(), offer(bus, *hash).await?);
        }
    }
    Ok(change)
}

/// It was dropped, if it is not there, because a newer state is kept that does not name it: the next look finds that one.
async fn content(bus: &NatsBus, hash: BlobHash) -> Result<Bytes, BusError> {
    bus.get(hash).await?.ok_or(BusError::NoAnswer)
}

async fn offer(bus: &NatsBus, hash: BlobHash) -> Result<OfferContent, BusError> {
    let content = content(bus, hash).await?;
    offer_form::read(&content).ok_or_else(|| BusError::Unreadable {
        place: "the lists of a server beside the log".to_owned(),
        fault: "they are not of this form".to_owned(),
    })
}

/// Writes a state, and names it. Gives the content whose place it takes.
async fn write(bus: &NatsBus, state: FleetState, position: u64, entry: BlobHash) -> Result<Option<BlobHash>, BusError> {
    // It may have megabytes.
    let written = tokio::task::spawn_blocking(move || serde_json::to_vec(&state));
    let refused = |error: &dyn std::fmt::Display| BusError::Refused(error.to_string());
    let written = written.await.map_err(|error| refused(&error))?.map_err(|error| refused(&error))?;
    let before = match bus.kept_state().await {
        // What can not be understood is replaced like any other; its content stays.
        Err(BusError::Foreign { .. } | BusError::Unreadable { .. }) => None,
        before => before?,
    };
    let content = bus.put(written.into()).await?;
    bus.keep_state(&KeptState { format: KEEPING_FORMAT, position, entry, content }).await?;
    Ok(before.map(|before| before.content).filter(|before| *before != content))
}

impl FleetDriver {
    /// Does what a reading of the log up to the state would have done.
    pub(super) fn begin_with(&mut self, change: LoggedChange) {
        let (version, by) = (self.fold.state().set_version(), self.local.me.clone());
        // Nothing of it was changed by this process; who waits for the set to be applied is told as after an entry.
        let entry = FleetEntry::Registry { version, by, number: 0, steps: Vec::new() };
        // First: whoever reads after an index waits for what followers are owed from here on.
        self.decisions_begun();
        if change.kept.is_empty() {
            self.took_effect(&entry);
        } else {
            let (gate, ended) = SetGate::new(change.since);
            self.effects.change_set(change, gate);
            self.set.applying = Some(ApplyingSet::followed(entry, ended));
        }
    }

    /// Keeps the state, where it is this replica's turn.
    pub(super) fn keep_state(&mut self, now: Instant) {
        let state = self.fold.state();
        if !self.states.keeping.due(state.sequence(), &self.members, now) {
            return;
        }
        let (state, at) = (state.clone(), state.sequence());
        let (position, entry) = (self.fold.applied_position(), self.states.last_entry);
        let (bus, events) = (Arc::clone(&self.outward.bus), self.outward.events.clone());
        self.desk.tasks.spawn(async move {
            match write(&bus, state, position, entry).await {
                Ok(replaced) => {
                    let _ = events.send(DriverEvent::StateKept(at, replaced)).await;
                }
                Err(error) => tracing::debug!(%error, "the state was not kept; it is tried again"),
            }
        });
    }

    pub(super) fn state_kept(&mut self, at: LogSequence, replaced: Option<BlobHash>) {
        self.states.keeping.kept(at);
        if let Some(replaced) = replaced {
            // Somebody who joins may be fetching it.
            self.decisions.drop_later(replaced, Instant::now());
        }
    }
}
