//! The state that the log makes, entry by entry, equal on every replica at equal sequence.

mod set_changes;

use std::collections::{BTreeMap, VecDeque};

use serde::{Deserialize, Serialize};

use super::entry::{DecisionKey, DecisionKind, FleetEntry, IsolationRule, OfferRecord, PlacedServer};
use super::{BlobHash, FleetServerName, LogSequence, OwnerEpoch, ReplicaId};

/// Digests of the last entries are remembered, to compare with the beats of replicas that are not quite as far.
const REMEMBERED_DIGESTS: usize = 1024;

/// Why an entry does nothing, on every replica alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VoidReason {
    /// There is no such server (any more).
    UnknownServer,
    /// The server changed hands meanwhile, or the entry is a second copy.
    OtherEpoch,
    /// Something else came first, or the entry is a second copy.
    NotNext,
    /// Another replica began the log anew.
    OldGeneration,
}

/// What an entry did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EntryEffect {
    /// Nothing: what it expects does not hold.
    Void(VoidReason),
    /// A server has another owner, or none.
    Owned {
        /// The server.
        server: FleetServerName,
        /// Whose it was.
        former: Option<ReplicaId>,
    },
    /// A server lists something.
    Offered {
        /// The server.
        server: FleetServerName,
        /// Whether it differs from what it listed before.
        changed: bool,
    },
    /// The set of servers changed.
    SetChanged,
    /// A key has its next value, or none any more.
    Decided(DecisionKey),
    /// What these servers list is owed once more.
    Echoed {
        /// The servers whose lists changed last within the range.
        servers: Vec<FleetServerName>,
        /// Whether the set of servers did.
        set: bool,
    },
    /// The log begins anew with this content: get it, and hand it to [`FleetFold::begin_anew`] before the next entry.
    NeedsState {
        /// Where the state is.
        state: BlobHash,
        /// Of which generation it is.
        generation: u64,
        /// The sequence of this entry.
        base: LogSequence,
    },
    /// The log begins anew: read from its first position.
    ReadAnew,
    /// Passed over, in search of the entry that begins the log anew.
    Skipped,
}

/// One server, as all replicas know it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FleetServer {
    /// What was planned.
    pub planned: PlacedServer,
    /// Whether it stands in the configuration file.
    pub from_file: bool,
    /// Since when it is in the set: the order of lists.
    pub added: LogSequence,
    /// Who runs it.
    pub owner: Option<ReplicaId>,
    /// Since when.
    pub epoch: OwnerEpoch,
    /// The number of the last offer in this epoch.
    pub offers: u64,
    /// What it lists.
    pub offer: Option<OfferRecord>,
    /// When that changed last.
    pub touched: LogSequence,
}

/// The last value under a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DecidedValue {
    /// Which one it is.
    pub n: u64,
    /// Where it is.
    pub value: BlobHash,
    /// Since when it holds.
    pub at: LogSequence,
}

/// A server that was added at run time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptServer {
    /// What is planned for it.
    pub planned: PlacedServer,
    /// Whether it runs unless it is switched.
    pub on: bool,
}

impl FleetServer {
    /// What its owner does while it is cut off.
    pub fn on_isolation(&self) -> IsolationRule {
        self.planned.on_isolation
    }
}

/// The state of the fleet: a function of the log's entries up to its sequence.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FleetState {
    generation: u64,
    sequence: LogSequence,
    digest: BlobHash,
    set_version: u64,
    config: Option<BlobHash>,
    servers: BTreeMap<FleetServerName, FleetServer>,
    /// Added at run time, whether they run or not.
    #[serde(default)]
    kept: BTreeMap<FleetServerName, KeptServer>,
    #[serde(default)]
    switched: BTreeMap<FleetServerName, bool>,
    // A map with a struct for its key is a list of pairs in JSON.
    #[serde(with = "decision_pairs")]
    decisions: BTreeMap<DecisionKey, DecidedValue>,
    /// The highest number that a key had which has no value any more. A key without a value goes on after it, so that a late copy of what was
    /// once written under it never holds, and nothing has to be remembered of the key itself.
    #[serde(default)]
    withdrawn: u64,
    set_touched: LogSequence,
}

impl FleetState {
    /// How often the log has begun.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// The last entry that is in it.
    pub fn sequence(&self) -> LogSequence {
        self.sequence
    }

    /// The chain over all entries and whether they held.
    pub fn digest(&self) -> BlobHash {
        self.digest
    }

    /// The version of the set of servers; a change of it names the next.
    pub fn set_version(&self) -> u64 {
        self.set_version
    }

    /// The configuration whose servers are in force.
    pub fn config(&self) -> Option<BlobHash> {
        self.config
    }

    /// The servers, by name.
    pub fn servers(&self) -> &BTreeMap<FleetServerName, FleetServer> {
        &self.servers
    }

    /// Where everything is that servers list.
    pub fn lists(&self) -> impl Iterator<Item = &BlobHash> {
        self.servers.values().filter_map(|server| server.offer.as_ref()).flat_map(|offer| &offer.blobs)
    }

    /// The servers that were added at run time, by name.
    pub fn kept(&self) -> &BTreeMap<FleetServerName, KeptServer> {
        &self.kept
    }

    /// Whether a server is on, where somebody decided it.
    pub fn switched(&self, server: &FleetServerName) -> Option<bool> {
        self.switched.get(server).copied()
    }

    /// The servers that somebody switched, and whether they are on.
    pub fn switches(&self) -> impl Iterator<Item = (&FleetServerName, bool)> {
        self.switched.iter().map(|(name, on)| (name, *on))
    }

    /// The last value under a key.
    pub fn decision(&self, key: &DecisionKey) -> Option<DecidedValue> {
        self.decisions.get(key).copied()
    }

    /// The values of a kind, by subject.
    pub fn decisions_of(&self, kind: DecisionKind) -> impl Iterator<Item = (&DecisionKey, &DecidedValue)> {
        let first = DecisionKey { kind, subject: String::new() };
        self.decisions.range(first..).take_while(move |(key, _)| key.kind == kind)
    }

    /// The number that the next decision under a key must have. It only rises.
    pub fn next_decision(&self, key: &DecisionKey) -> u64 {
        self.decisions.get(key).map_or(self.withdrawn, |known| known.n) + 1
    }

    /// The last change that some list shows.
    pub fn last_touched(&self) -> LogSequence {
        self.servers.values().map(|server| server.touched).chain([self.set_touched]).max().unwrap_or_default()
    }

    fn change(&mut self, entry: &FleetEntry) -> Result<EntryEffect, VoidReason> {
        match entry {
            FleetEntry::Own { server, epoch, replica } => self.own(server, *epoch, replica.as_ref()),
            FleetEntry::Offer { server, epoch, n, offer } => self.offer(server, *epoch, *n, offer),
            FleetEntry::Registry { version, steps, .. } => {
                self.next_version(*version)?;
                for step in steps {
                    self.step(step);
                }
                Ok(EntryEffect::SetChanged)
            }
            FleetEntry::Plan { version, config, servers } => {
                self.next_version(*version)?;
                self.plan(*config, servers);
                Ok(EntryEffect::SetChanged)
            }
            FleetEntry::Decide { key, n, value, .. } => {
                self.next_decided(key, *n)?;
                let decided = DecidedValue { n: *n, value: *value, at: self.sequence };
                self.decisions.insert(key.clone(), decided);
                Ok(EntryEffect::Decided(key.clone()))
            }
            FleetEntry::Withdraw { key, n, .. } => {
                self.next_decided(key, *n)?;
                self.decisions.remove(key).ok_or(VoidReason::NotNext)?;
                self.withdrawn = self.withdrawn.max(*n);
                Ok(EntryEffect::Decided(key.clone()))
            }
            FleetEntry::Echo { from, to } => Ok(self.echo(*from, *to)),
            // It changes more than the state, and was handled before.
            FleetEntry::Genesis { .. } => Err(VoidReason::OldGeneration),
        }
    }

    fn next_decided(&self, key: &DecisionKey, n: u64) -> Result<(), VoidReason> {
        if n == self.next_decision(key) { Ok(()) } else { Err(VoidReason::NotNext) }
    }

    fn own(
        &mut self,
        server: &FleetServerName,
        epoch: OwnerEpoch,
        replica: Option<&ReplicaId>,
    ) -> Result<EntryEffect, VoidReason> {
        let sequence = self.sequence;
        let known = self.servers.get_mut(server).ok_or(VoidReason::UnknownServer)?;
        if known.epoch != epoch {
            return Err(VoidReason::OtherEpoch);
        }
        let former = std::mem::replace(&mut known.owner, replica.cloned());
        known.epoch = OwnerEpoch(sequence.0);
        // What it lists stays: a server that moves to another owner has not changed.
        known.offers = 0;
        Ok(EntryEffect::Owned { server: server.clone(), former })
    }

    fn offer(
        &mut self,
        server: &FleetServerName,
        epoch: OwnerEpoch,
        n: u64,
        offer: &OfferRecord,
    ) -> Result<EntryEffect, VoidReason> {
        let sequence = self.sequence;
        let known = self.servers.get_mut(server).ok_or(VoidReason::UnknownServer)?;
        if known.epoch != epoch {
            return Err(VoidReason::OtherEpoch);
        }
        if n != known.offers + 1 {
            return Err(VoidReason::NotNext);
        }
        known.offers = n;
        let changed = known.offer.as_ref().map(|offer| offer.content) != Some(offer.content);
        if changed {
            known.touched = sequence;
        }
        known.offer = Some(offer.clone());
        Ok(EntryEffect::Offered { server: server.clone(), changed })
    }

    /// A server that changed within the range and again after it needs no echo: whoever was told of the later change listed after the
    /// replica that owes this echo had been confirmed.
    fn echo(&self, from: LogSequence, to: LogSequence) -> EntryEffect {
        let within = |touched: LogSequence| touched > from && touched <= to;
        let servers = self.servers.iter().filter(|(_, server)| within(server.touched)).map(|(name, _)| name.clone());
        EntryEffect::Echoed { servers: servers.collect(), set: within(self.set_touched) }
    }
}

/// Where the log's own positions stand in the shared history.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogOrigin {
    /// A position of the log.
    pub position: u64,
    /// The sequence of the entry there.
    pub sequence: LogSequence,
}

/// A replica's reading of the log.
#[derive(Clone, Debug, Default)]
pub struct FleetFold {
    state: FleetState,
    origin: LogOrigin,
    /// The position of the last entry that was read.
    position: u64,
    /// The log lost what was read: nothing counts before it begins anew.
    seeking: bool,
    digests: VecDeque<(LogSequence, BlobHash)>,
}

impl FleetFold {
    /// Goes on from a state that was kept, and the position of its last entry.
    pub fn resume(state: FleetState, position: u64) -> Self {
        let origin = LogOrigin { position, sequence: state.sequence };
        Self { state, origin, position, ..Self::default() }
    }

    /// The state so far.
    pub fn state(&self) -> &FleetState {
        &self.state
    }

    /// The position from which entries are read next.
    pub fn next_position(&self) -> u64 {
        self.position + 1
    }

    /// The sequence that a position of the log has, or will have.
    pub fn sequence_at(&self, position: u64) -> LogSequence {
        // A log that lost entries may end before the position that was begun with.
        LogSequence((self.origin.sequence.0 + position).saturating_sub(self.origin.position))
    }

    /// The position of the last entry that is in the state: where to [resume](Self::resume) from.
    pub fn applied_position(&self) -> u64 {
        self.origin.position + (self.state.sequence.0 - self.origin.sequence.0)
    }

    /// Whether a log that ends at `head` has lost entries. `applied` is what was in the state when its end was asked for: what came since
    /// may be missing in the answer.
    pub fn has_lost(&self, head: u64, applied: u64) -> bool {
        !self.seeking && head < applied.min(self.position)
    }

    /// Whether another replica read something else. `None`: it can not be told.
    pub fn agrees(&self, generation: u64, sequence: LogSequence, digest: BlobHash) -> Option<bool> {
        if generation < self.state.generation || self.seeking {
            return None;
        }
        if generation > self.state.generation {
            // The entry that began the log anew may stand before the position that is read here.
            return Some(false);
        }
        let mine = self.digests.iter().rev().find(|(at, _)| *at == sequence)?;
        Some(mine.1 == digest)
    }

    /// The log lost entries, or others read different ones: read from its first position, and count nothing before it begins anew. Done again
    /// where that takes long: it may have lost entries once more, and grown over the place that was reached.
    pub fn seek_genesis(&mut self) {
        self.seeking = true;
        self.position = 0;
    }

    /// Whether it waits for the log to begin anew.
    pub fn is_seeking(&self) -> bool {
        self.seeking
    }

    /// The entry that begins the log anew with this replica's state, and the position that the log must end with when it is written: else
    /// somebody may have begun the same generation meanwhile. `state` is the name of [`FleetFold::state`] as content, `floor` the highest
    /// sequence that any replica has read.
    pub fn genesis(&self, state: BlobHash, floor: LogSequence) -> (FleetEntry, u64) {
        let base = LogSequence(self.state.sequence.0.max(floor.0) + 1);
        (FleetEntry::Genesis { generation: self.state.generation + 1, base, state }, self.position)
    }

    /// Takes the entry at the next position. `bytes` is the hash of the entry as it was written.
    pub fn apply(&mut self, position: u64, entry: &FleetEntry, bytes: BlobHash) -> EntryEffect {
        debug_assert_eq!(position, self.next_position(), "entries are read in order, without gaps");
        if let FleetEntry::Genesis { generation, base, state } = entry
            && *generation > self.state.generation
        {
            if !self.seeking {
                // What was read here may not be what stands in the log by now, so look from its start.
                self.seek_genesis();
                return EntryEffect::ReadAnew;
            }
            // The position moves with `begin_anew`: a reader that stops here reads this entry again.
            return EntryEffect::NeedsState { state: *state, generation: *generation, base: *base };
        }
        self.position = position;
        if self.seeking {
            return EntryEffect::Skipped;
        }
        self.state.sequence = self.sequence_at(position);
        let effect = self.state.change(entry).unwrap_or_else(EntryEffect::Void);
        self.chain(bytes, !matches!(effect, EntryEffect::Void(_)));
        effect
    }

    /// Takes the state that an entry at the next position begins the log anew with. Everything in it counts as changed: what clients were
    /// told of in the part that was lost is not known any more.
    pub fn begin_anew(
        &mut self,
        position: u64,
        generation: u64,
        base: LogSequence,
        state: FleetState,
        bytes: BlobHash,
    ) {
        self.state = FleetState { generation, sequence: base, set_touched: base, ..state };
        for server in self.state.servers.values_mut() {
            server.touched = base;
        }
        self.origin = LogOrigin { position, sequence: base };
        self.position = position;
        self.seeking = false;
        // They are of the generation before, with which no beat is compared any more.
        self.digests.clear();
        self.chain(bytes, true);
    }

    fn chain(&mut self, bytes: BlobHash, held: bool) {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&self.state.digest.0);
        hasher.update(&self.state.sequence.0.to_le_bytes());
        hasher.update(&bytes.0);
        // Replicas that judge one entry differently are told apart by this.
        hasher.update(&[u8::from(held)]);
        self.state.digest = BlobHash(*hasher.finalize().as_bytes());
        if self.digests.len() == REMEMBERED_DIGESTS {
            self.digests.pop_front();
        }
        self.digests.push_back((self.state.sequence, self.state.digest));
    }
}

mod decision_pairs {
    use std::collections::BTreeMap;

    use serde::{Deserialize, Deserializer, Serializer};

    use super::{DecidedValue, DecisionKey};

    type Decisions = BTreeMap<DecisionKey, DecidedValue>;

    pub(super) fn serialize<S: Serializer>(decisions: &Decisions, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(decisions)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Decisions, D::Error> {
        Ok(Vec::<(DecisionKey, DecidedValue)>::deserialize(deserializer)?.into_iter().collect())
    }
}
