//! Changes of the set of servers on their way into the log, and what is read back of them.
//!
//! While one is applied the log is not read on: what comes after it, and whoever reads after an index, finds it applied.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use tidings_cluster::{AppendId, BusError, FleetBus as _, LoggedEntry};
use tidings_hub::fleet::entry::{FleetEntry, RegistryStep};
use tidings_hub::fleet::registry_commits::{RegistryCommits, RegistryDue, RegistryFate, RegistryWriting};
use tidings_hub::fleet::{BlobHash, FleetServerName, OwnerEpoch, ReplicaId};
use tokio::sync::oneshot;

use super::{DriverEvent, FORMAT, FleetDriver};
use crate::fleet::set_change::{self, APPLY_WITHIN, SetGate, SetOutcome, WrittenChange};

/// The format of those who read changes of the set.
const SET_FORMAT: u32 = 2;

/// Changes of the set of servers: the one that is being written, and the one that is being applied.
pub(super) struct SetChanges {
    pub(super) registry: RegistryCommits,
    pub(super) change: Option<WaitingChange>,
    pub(super) applying: Option<ApplyingSet>,
}

impl SetChanges {
    pub(super) fn new(me: ReplicaId) -> Self {
        Self { registry: RegistryCommits::new(me), change: None, applying: None }
    }
}

/// A change that somebody waits for.
pub(super) struct WaitingChange {
    contents: Vec<Bytes>,
    done: oneshot::Sender<SetOutcome>,
}

/// A change that is being applied.
pub(super) struct ApplyingSet {
    entry: FleetEntry,
    /// Whether what it puts was started by this process.
    is_mine: bool,
    ended: oneshot::Receiver<()>,
    until: Instant,
}

impl ApplyingSet {
    /// One that this process did not make.
    pub(super) fn followed(entry: FleetEntry, ended: oneshot::Receiver<()>) -> Self {
        Self { entry, is_mine: false, ended, until: Instant::now() + APPLY_WITHIN }
    }
}

/// Waits until a change is applied: whether it could be. For ever where there is none.
pub(super) async fn applied(applying: &mut Option<ApplyingSet>) -> bool {
    let Some(applying) = applying else { return std::future::pending().await };
    let ended = tokio::time::timeout_at(applying.until.into(), &mut applying.ended).await;
    matches!(ended, Ok(Ok(())))
}

/// The names that come or go with an entry.
fn touched(steps: &[RegistryStep]) -> impl Iterator<Item = &FleetServerName> {
    steps.iter().filter_map(|step| match step {
        RegistryStep::Put { server, .. } => Some(&server.name),
        RegistryStep::Remove { server } => Some(server),
        _ => None,
    })
}

impl FleetDriver {
    /// Why nothing of this format can be written at the moment.
    pub(super) fn unwritable(&self, format: u32, now: Instant) -> Option<String> {
        if let Some(trouble) = &self.local.trouble {
            return Some(trouble.clone());
        }
        if self.members.is_in_doubt(now) || self.local.leaving {
            return Some("this replica is cut off from the others".to_owned());
        }
        if self.local.namesake_until.is_some_and(|until| until >= now) {
            return Some(format!("another process is replica \"{}\" too", self.local.me.name.as_str()));
        }
        (self.members.common_format(FORMAT) < format)
            .then(|| "a replica runs an older version, which does not know such changes; upgrade it first".to_owned())
    }

    /// A server that would take the place of one of the file that is in force, and which the file of this replica does not have.
    fn is_of_other_file(&self, steps: &[RegistryStep]) -> Option<String> {
        steps.iter().find_map(|step| match step {
            RegistryStep::Put { server, from_file: false, .. } | RegistryStep::Keep { server, .. } => {
                let known = self.fold.state().servers().get(&server.name)?;
                known.from_file.then(|| server.name.to_string())
            }
            _ => None,
        })
    }

    pub(super) fn change_wished(&mut self, change: WrittenChange, done: oneshot::Sender<SetOutcome>) {
        let now = Instant::now();
        if let Some(why) = self.unwritable(SET_FORMAT, now) {
            let _ = done.send(SetOutcome::Refused(why));
            return;
        }
        if let Some(name) = self.is_of_other_file(&change.steps) {
            let why = format!("server \"{name}\" stands in the configuration file that most replicas have");
            let _ = done.send(SetOutcome::Declined(why));
            return;
        }
        // What is being applied is not what was looked at.
        if self.set.applying.is_some() {
            let _ = done.send(SetOutcome::Overtaken);
            return;
        }
        match self.set.registry.begin(self.fold.state(), change.version, change.steps, now) {
            RegistryWriting::Overtaken => {
                let _ = done.send(SetOutcome::Overtaken);
            }
            RegistryWriting::Write(entry) => {
                self.set.change = Some(WaitingChange { contents: change.contents, done });
                self.write_change(entry);
            }
        }
    }

    /// The contents first: whoever reads the entry finds them.
    fn write_change(&self, entry: FleetEntry) {
        let (Some(waiting), FleetEntry::Registry { number, .. }) = (&self.set.change, &entry) else { return };
        let number = *number;
        let id = AppendId(format!("{:016x}-set-{number}", self.local.me.incarnation));
        let (bus, contents, events) =
            (Arc::clone(&self.outward.bus), waiting.contents.clone(), self.outward.events.clone());
        self.desk.tasks.spawn(async move {
            let written = async {
                for content in contents {
                    bus.put(content).await?;
                }
                bus.append(&id, &entry, None).await
            };
            match written.await {
                Ok(_) => {}
                Err(error @ BusError::TooLarge { .. }) => {
                    let _ = events.send(DriverEvent::ChangeTooLarge(number, error.to_string())).await;
                }
                Err(error) => tracing::warn!(%error, "a change of the servers was not written; it is tried again"),
            }
        });
    }

    /// It was not sent at all, and never will be.
    pub(super) fn change_too_large(&mut self, number: u64, why: String) {
        if self.set.registry.under_way() == Some(number) {
            self.set.registry.forget();
            self.change_done(SetOutcome::Declined(why));
        }
    }

    fn change_done(&mut self, outcome: SetOutcome) -> Option<SetOutcome> {
        self.set.change.take().and_then(|waiting| waiting.done.send(outcome).err())
    }

    /// What is late is written again, or given up. Before each entry too: a process that was stopped must know first that it was.
    pub(super) fn drive_change(&mut self, now: Instant) {
        match self.set.registry.due(now, self.members.is_in_doubt(now) || self.local.trouble.is_some()) {
            Some(RegistryDue::Write(entry)) => self.write_change(entry),
            Some(RegistryDue::GiveUp) => {
                self.change_done(SetOutcome::Unknown);
            }
            None => {}
        }
    }

    /// An entry was taken into the state. True: it changes the set, and the rest follows when that is applied.
    pub(super) fn takes_set(&mut self, logged: &LoggedEntry, held: bool, contents: &BTreeMap<BlobHash, Bytes>) -> bool {
        let fate = self.set.registry.applied(&logged.entry, held, self.fold.state());
        if fate == RegistryFate::Overtaken {
            self.change_done(SetOutcome::Overtaken);
        }
        let (FleetEntry::Registry { steps, .. }, true) = (&logged.entry, held) else { return false };
        self.lists_read(steps, contents);
        // What the former one listed is nothing of the one that comes.
        touched(steps).cloned().collect::<Vec<_>>().iter().for_each(|name| self.forget_offer(name));
        let since = OwnerEpoch(self.fold.state().sequence().0);
        let (gate, ended) = SetGate::new(since);
        let mut is_mine = fate == RegistryFate::Committed;
        // Whoever asked applies it, with what it has started. Nobody is there any more: then it is like one of another replica.
        let mut gate = Some(gate);
        if is_mine
            && let Some(open) = gate.take()
            && let Some(SetOutcome::Committed(open)) = self.change_done(SetOutcome::Committed(open))
        {
            (gate, is_mine) = (Some(open), false);
        }
        if let Some(gate) = gate {
            match set_change::read(steps, contents, since) {
                Some(change) => self.effects.change_set(change, gate),
                None => {
                    self.stuck("what a change of the servers brings can not be read from the bus".to_owned());
                    return false;
                }
            }
        }
        self.set.applying =
            Some(ApplyingSet { entry: logged.entry.clone(), is_mine, ended, until: Instant::now() + APPLY_WITHIN });
        true
    }

    /// What the entry changed can be read here.
    pub(super) fn set_applied(&mut self, is_applied: bool) {
        let Some(ApplyingSet { entry, is_mine, .. }) = self.set.applying.take() else { return };
        if !is_applied {
            self.stuck("a change of the servers could not be applied".to_owned());
        }
        if let (FleetEntry::Registry { steps, .. }, true) = (&entry, is_mine) {
            let servers = self.fold.state().servers();
            let mine = |name: &FleetServerName| {
                servers
                    .get(name)
                    .filter(|server| server.owner.as_ref() == Some(&self.local.me))
                    .map(|server| server.epoch)
            };
            let began: Vec<_> = touched(steps).filter_map(|name| Some((name.clone(), mine(name)?))).collect();
            let commands = began.into_iter().map(|(name, epoch)| self.ownership.began(&name, epoch)).collect();
            self.own(commands);
        }
        self.took_effect(&entry);
    }
}
