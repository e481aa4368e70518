//! Which replicas are there, and whether this one can still know.
//!
//! Every replica beats, and hears its own beats too: those that come back prove that the bus carries both ways. A beat counts from the
//! time it was *sent*, so that a process that was stopped for a while does not take what waited for it in a queue as news.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::{BlobHash, FleetServerName, LogSequence, ReplicaId, ReplicaName};

/// How often a replica beats.
pub const BEAT_EVERY: Duration = Duration::from_millis(500);
/// A replica is gone when it was not heard for this long, by one that was connected itself for as long.
pub const GONE_AFTER: Duration = Duration::from_secs(3);
/// A replica is in doubt without a beat of its own that came back for this long, or without word of a leader that has a majority. A minority of
/// the bus carries beats among those who are on its side, so beats alone do not prove that nobody else can commit. This is less than the three
/// seconds that a next owner waits after its claim, also with clocks that differ by 5 %, because the claim itself may be an old one that nobody's
/// silence preceded. Where the leader is cut off with this replica, its word may be two seconds old, but nobody commits before four.
pub const DOUBT_AFTER: Duration = Duration::from_secs(2);

/// Beats of another replica that are remembered by number.
const REMEMBERED_BEATS: usize = 8;
/// Former processes of a replica whose late beats are recognised.
const REMEMBERED_INCARNATIONS: usize = 8;

/// What a replica says of itself, twice a second.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplicaBeat {
    /// Who.
    pub replica: ReplicaId,
    /// One more than that of the beat before it.
    pub number: u64,
    /// How far it has read the log, of which generation.
    pub applied: LogSequence,
    /// The generation of the log that `applied` and `digest` belong to.
    pub generation: u64,
    /// What that came to.
    pub digest: BlobHash,
    /// The hash of its configuration.
    pub config: BlobHash,
    /// The labels of its configuration.
    pub labels: Vec<String>,
    /// Servers that did not start there in the last minute.
    #[serde(default)]
    pub unfit: Vec<FleetServerName>,
    /// The newest format of entries and frames that it reads.
    pub format: u32,
    /// It is shutting down: its servers may be claimed.
    pub leaving: bool,
}

/// What changed among the replicas.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemberEvent {
    /// One is there that was not.
    Joined(ReplicaId),
    /// One is not heard any more, or its next process is. Nobody knows what it answered after `applied`.
    Gone {
        /// Which process.
        replica: ReplicaId,
        /// How far it had read when it was last heard.
        applied: LogSequence,
    },
}

#[derive(Clone, Debug)]
struct HeardReplica {
    beat: ReplicaBeat,
    at: Instant,
    /// Numbers of beats, and since when at the latest they were known.
    recent: VecDeque<(u64, Instant)>,
    former: VecDeque<u64>,
    gone: bool,
}

/// The replicas, as this one hears them.
#[derive(Clone, Debug)]
pub struct FleetMembers {
    me: ReplicaId,
    others: BTreeMap<ReplicaName, HeardReplica>,
    /// Own beats that did not come back yet.
    sent: VecDeque<(u64, Instant)>,
    /// The last own beat that came back.
    returned: u64,
    /// When that one was sent.
    proven: Option<Instant>,
    connected_since: Option<Instant>,
    head: LogSequence,
    /// When the last head was asked for that a leader with a majority gave.
    head_asked: Option<Instant>,
}

impl FleetMembers {
    /// Nobody was heard yet.
    pub fn new(me: ReplicaId) -> Self {
        Self {
            me,
            others: BTreeMap::new(),
            sent: VecDeque::new(),
            returned: 0,
            proven: None,
            connected_since: None,
            head: LogSequence(0),
            head_asked: None,
        }
    }

    /// This replica's process.
    pub fn me(&self) -> &ReplicaId {
        &self.me
    }

    /// The number of the last own beat that came back, for whoever has to judge how old a message is.
    pub fn returned(&self) -> u64 {
        self.returned
    }

    /// An own beat leaves.
    pub fn beat_sent(&mut self, number: u64, now: Instant) {
        // Half a minute of beats: one that comes back later than that proves nothing.
        if self.sent.len() == 64 {
            self.sent.pop_front();
        }
        self.sent.push_back((number, now));
    }

    /// A leader with a majority named the end of the log, when asked at `asked`.
    pub fn head_confirmed(&mut self, asked: Instant, head: LogSequence) {
        self.head_asked = Some(self.head_asked.map_or(asked, |last| last.max(asked)));
        self.head = self.head.max(head);
    }

    /// The log began anew: what was known of its end means nothing any more.
    pub fn begun_anew(&mut self, base: LogSequence) {
        self.head = base;
    }

    /// The last end of the log that counted.
    pub fn head(&self) -> LogSequence {
        self.head
    }

    /// Whether somebody else may own what this replica owns, without its knowing.
    pub fn is_in_doubt(&self, now: Instant) -> bool {
        let old = |since: Option<Instant>| since.is_none_or(|since| now.duration_since(since) > DOUBT_AFTER);
        old(self.proven) || old(self.head_asked)
    }

    /// How long own beats have come back without a gap.
    pub fn connected_for(&self, now: Instant) -> Duration {
        match (self.proven, self.connected_since) {
            (Some(proven), Some(since)) if now.duration_since(proven) <= DOUBT_AFTER => now.duration_since(since),
            _ => Duration::ZERO,
        }
    }

    /// A beat arrived.
    pub fn heard(&mut self, beat: ReplicaBeat, now: Instant) -> Vec<MemberEvent> {
        if beat.replica == self.me {
            self.own_returned(beat.number, now);
            return Vec::new();
        }
        if beat.replica.name == self.me.name {
            // A former process of this replica, or a second replica of the same name; whoever owns by that process is gone for us.
            return Vec::new();
        }
        // Known since the last own beat that came back was sent, at the latest: a queue may have held it since.
        let known = self.proven.unwrap_or(now);
        let name = beat.replica.name.clone();
        let Some(other) = self.others.get_mut(&name) else {
            let joined = MemberEvent::Joined(beat.replica.clone());
            let recent = VecDeque::from([(beat.number, known)]);
            let heard = HeardReplica { beat, at: now, recent, former: VecDeque::new(), gone: false };
            self.others.insert(name, heard);
            return vec![joined];
        };
        if other.former.contains(&beat.replica.incarnation) {
            return Vec::new();
        }
        let mut events = Vec::new();
        if other.beat.replica != beat.replica {
            events.push(MemberEvent::Gone { replica: other.beat.replica.clone(), applied: other.beat.applied });
            events.push(MemberEvent::Joined(beat.replica.clone()));
            if other.former.len() == REMEMBERED_INCARNATIONS {
                other.former.pop_front();
            }
            other.former.push_back(other.beat.replica.incarnation);
            other.recent.clear();
        } else if beat.number <= other.beat.number {
            return Vec::new();
        } else if other.gone {
            events.push(MemberEvent::Joined(beat.replica.clone()));
        }
        if other.recent.len() == REMEMBERED_BEATS {
            other.recent.pop_front();
        }
        other.recent.push_back((beat.number, known));
        other.beat = beat;
        other.at = now;
        other.gone = false;
        events
    }

    fn own_returned(&mut self, number: u64, now: Instant) {
        let Some(at) = self.sent.iter().position(|(sent, _)| *sent == number) else { return };
        let sent = self.sent[at].1;
        // Those before it are lost, or come too late to prove more than this one does.
        self.sent.drain(..=at);
        self.returned = self.returned.max(number);
        let gap = self.proven.is_none_or(|proven| now.duration_since(proven) > DOUBT_AFTER);
        if gap && now.duration_since(sent) <= DOUBT_AFTER {
            // Not since it was sent: in between nothing proved that the bus carries.
            self.connected_since = Some(now);
        }
        self.proven = Some(self.proven.map_or(sent, |proven| proven.max(sent)));
    }

    /// Looks who has not been heard for too long.
    pub fn tick(&mut self, now: Instant) -> Vec<MemberEvent> {
        if self.connected_for(now) < GONE_AFTER {
            return Vec::new();
        }
        let mut events = Vec::new();
        for other in self.others.values_mut() {
            if !other.gone && now.duration_since(other.at) > GONE_AFTER {
                other.gone = true;
                events.push(MemberEvent::Gone { replica: other.beat.replica.clone(), applied: other.beat.applied });
            }
        }
        events
    }

    /// Whether a process of a replica owns nothing any more, as far as can be seen from here.
    pub fn is_gone(&self, replica: &ReplicaId, now: Instant) -> bool {
        if replica.name == self.me.name {
            return *replica != self.me;
        }
        match self.others.get(&replica.name) {
            Some(other) => other.gone || other.beat.leaving || other.beat.replica != *replica,
            // Never heard by this process: it may only not have beaten since this one began to listen.
            None => self.connected_for(now) >= GONE_AFTER,
        }
    }

    /// The last beats of the others that are there.
    pub fn live(&self) -> impl Iterator<Item = &ReplicaBeat> {
        self.others.values().filter(|other| !other.gone).map(|other| &other.beat)
    }

    /// How long ago, at the most, a numbered beat of another replica was known here. Where that one was lost, the one before it counts: a later
    /// one may have come long after a message that names this one.
    pub fn beat_age(&self, replica: &ReplicaId, number: u64, now: Instant) -> Option<Duration> {
        let other = self.others.get(&replica.name).filter(|other| other.beat.replica == *replica)?;
        let known = other.recent.iter().rfind(|(recent, _)| *recent <= number)?;
        Some(now.duration_since(known.1))
    }

    /// Whether more than half of those who are there, this one among them, have this configuration.
    pub fn most_have(&self, config: BlobHash, mine: BlobHash) -> bool {
        let all = 1 + self.live().count();
        let alike = usize::from(mine == config) + self.live().filter(|beat| beat.config == config).count();
        alike * 2 > all
    }

    /// The newest format that everybody reads.
    pub fn common_format(&self, mine: u32) -> u32 {
        self.live().map(|beat| beat.format).chain([mine]).min().unwrap_or(mine)
    }
}
