//! The simulated bus: a log that three servers keep, one of which leads, and the ways between replicas.
//!
//! What a real one did in measurements is modelled: a leader that is cut from its peers goes on answering; a new one is elected after four
//! to nine seconds; a message that was sent while disconnected may arrive seconds later; one that meets a killed process vanishes.

use std::sync::Arc;

use tidings_hub::fleet::BlobHash;
use tidings_hub::fleet::entry::FleetEntry;

/// Microseconds since the beginning of the world.
pub(crate) type Micros = u64;

pub(crate) const MILLI: Micros = 1_000;
pub(crate) const SECOND: Micros = 1_000_000;
const SERVERS: usize = 3;

/// An entry as it was written, and by whom. `append` is equal for all copies of one.
#[derive(Debug)]
pub(crate) struct Written {
    pub(crate) entry: FleetEntry,
    pub(crate) bytes: BlobHash,
    pub(crate) writer: usize,
    pub(crate) append: u64,
    /// Where the log must end for this to be taken.
    pub(crate) after: Option<u64>,
}

/// A server of the bus that is cut from the two others.
#[derive(Clone, Copy, Debug)]
struct Split {
    alone: usize,
    since: Micros,
    /// The end of the log that the side without a majority knows.
    frozen: usize,
    /// When those who have a majority have a leader again, if they lost it.
    elected: Micros,
}

/// The log, and who reaches it.
pub(crate) struct SimulatedBus {
    pub(crate) log: Vec<Arc<Written>>,
    leader: usize,
    split: Option<Split>,
    /// No leader before this time.
    leaderless_until: Micros,
}

impl SimulatedBus {
    pub(crate) fn new() -> Self {
        Self { log: Vec::new(), leader: 0, split: None, leaderless_until: 0 }
    }

    fn server_of(replica: usize) -> usize {
        replica % SERVERS
    }

    fn is_alone(&self, replica: usize) -> bool {
        self.split.is_some_and(|split| split.alone == Self::server_of(replica))
    }

    /// Whether messages pass between two replicas that are both connected.
    pub(crate) fn joins(&self, one: usize, other: usize) -> bool {
        self.is_alone(one) == self.is_alone(other)
    }

    fn has_leader(&self, now: Micros) -> bool {
        now >= self.leaderless_until
            && self.split.is_none_or(|split| split.alone != self.leader || now >= split.elected)
    }

    /// Whether an entry of this replica is committed.
    pub(crate) fn commits(&self, replica: usize, now: Micros) -> bool {
        !self.is_alone(replica) && self.has_leader(now)
    }

    /// How much of the log this replica can read.
    pub(crate) fn visible(&self, replica: usize) -> usize {
        match self.split {
            Some(split) if split.alone == Self::server_of(replica) => split.frozen.min(self.log.len()),
            _ => self.log.len(),
        }
    }

    /// What a leader on the replica's side says: the end of the log, and how long ago it heard a majority.
    pub(crate) fn head(&self, replica: usize, now: Micros, jitter: Micros) -> Option<(usize, Micros)> {
        match self.split {
            Some(split) if split.alone == Self::server_of(replica) => {
                (split.alone == self.leader).then(|| (split.frozen.min(self.log.len()), now - split.since + jitter))
            }
            _ => self.has_leader(now).then_some((self.log.len(), jitter)),
        }
    }

    pub(crate) fn cut_server(&mut self, alone: usize, election: Micros, now: Micros) {
        if self.split.is_none() {
            let alone = alone % SERVERS;
            self.split = Some(Split { alone, since: now, frozen: self.log.len(), elected: now + election });
        }
    }

    pub(crate) fn heal(&mut self, now: Micros) {
        if let Some(split) = self.split.take()
            && split.alone == self.leader
            && now >= split.elected
        {
            self.leader = (split.alone + 1) % SERVERS;
        }
    }

    pub(crate) fn lose_leader(&mut self, until: Micros) {
        self.leaderless_until = until;
    }

    /// All servers of the bus stopped at once without having written everything.
    pub(crate) fn lose_tail(&mut self, entries: usize) {
        let left = self.log.len().saturating_sub(entries);
        self.log.truncate(left);
    }
}
