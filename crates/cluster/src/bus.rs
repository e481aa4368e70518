//! What a bus does for replicas.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use tidings_hub::fleet::entry::FleetEntry;
use tidings_hub::fleet::frames::{ExchangeId, FleetFrame};
use tidings_hub::fleet::members::ReplicaBeat;
use tidings_hub::fleet::state_keeping::KeptState;
use tidings_hub::fleet::{BlobHash, ReplicaId};
use tokio::sync::mpsc;

/// How many messages and bytes may wait for the replica. Its windows allow others 32 MiB; what exceeds this is dropped: beats are repeated,
/// frames asked for again, and a request that is dropped is answered by nobody.
const WAITING_MESSAGES: usize = 8192;
const WAITING_BYTES: usize = 64 << 20;

/// Names one writing of an entry: a second attempt has the same, and is taken once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppendId(pub String);

/// An entry of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoggedEntry {
    /// Its place.
    pub position: u64,
    /// What it says.
    pub entry: FleetEntry,
    /// The hash of what was written, for the digest.
    pub bytes: BlobHash,
}

/// The end of the log, from whoever leads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogHead {
    /// The last position.
    pub position: u64,
    /// The time within which the leader heard a majority of those who keep the log.
    pub majority_heard: Duration,
}

/// Why a bus did not do something.
#[derive(Debug, thiserror::Error)]
pub enum BusError {
    /// Nothing is sent: what waits for a connection would arrive when nobody expects it any more.
    #[error("not connected to the bus")]
    NotConnected,
    /// It may have been done, and may be tried again under the same name.
    #[error("the bus did not answer in time")]
    NoAnswer,
    /// Somebody answered who does not lead the log, and may be behind.
    #[error("the log has no leader at the moment")]
    NoLeader,
    /// The log ends elsewhere than the writer believes.
    #[error("the log has moved on")]
    MovedOn,
    /// Too large for an entry, or a frame.
    #[error("{size} bytes are more than the {limit} that may be sent at once")]
    TooLarge {
        /// What it has.
        size: usize,
        /// What it may have.
        limit: usize,
    },
    /// The log begins after the place that was asked for.
    #[error("the log begins at {first}, and {wanted} was asked for")]
    Forgotten {
        /// The place.
        wanted: u64,
        /// Where it begins.
        first: u64,
    },
    /// Something could not be opened: another secret sealed it, or it was changed on its way.
    #[error("a message at {place} is not sealed with a key of this cluster; do all replicas have the same `secret`?")]
    Foreign {
        /// Where it came from.
        place: String,
    },
    /// Something was opened and not understood: a newer version wrote it.
    #[error("a message at {place} can not be read: {fault}")]
    Unreadable {
        /// Where it came from.
        place: String,
        /// What is wrong with it.
        fault: String,
    },
    /// It knows nobody by that login, or not any more.
    #[error("NATS refused the login ({0}); look at `credentials` of [cluster], or at the login in its `nats`")]
    Login(String),
    /// There is no connection that both sides trust.
    #[error("no TLS with NATS ({0}); look at `tls` of [cluster]")]
    Tls(String),
    /// What keeps the log is not switched on for whoever logs in like this.
    #[error(
        "NATS has no JetStream for this login; it is switched on with `-js`, or with `jetstream {{}}` in its file, and in that of the account"
    )]
    NoJetStream,
    /// The bus refused.
    #[error("the bus refused: {0}")]
    Refused(String),
}

/// What arrives from the bus.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BusArrival {
    /// A beat of a replica, this one among them.
    Beat(ReplicaBeat),
    /// A frame for this replica.
    Frame {
        /// Who sent it.
        from: ReplicaId,
        /// About what.
        exchange: ExchangeId,
        /// The frame.
        frame: FleetFrame,
    },
    /// Nobody was there for a frame of this replica.
    NoResponders {
        /// About what it was.
        exchange: ExchangeId,
        /// Whether it was the one that opens the exchange.
        opening: bool,
    },
}

/// What arrived and was not taken yet.
#[derive(Debug)]
pub struct BusArrivals {
    receiver: mpsc::Receiver<(BusArrival, usize)>,
    waiting: Arc<AtomicUsize>,
}

impl BusArrivals {
    /// The next; `None` once the bus is closed.
    pub async fn next(&mut self) -> Option<BusArrival> {
        let (arrival, size) = self.receiver.recv().await?;
        // Relaxed: the number bounds memory and orders nothing.
        self.waiting.fetch_sub(size, Ordering::Relaxed);
        Some(arrival)
    }
}

/// The other end of [`BusArrivals`]. It never waits: whoever reads from the bus must not stand still.
#[derive(Clone, Debug)]
pub(crate) struct ArrivalQueue {
    sender: mpsc::Sender<(BusArrival, usize)>,
    waiting: Arc<AtomicUsize>,
}

impl ArrivalQueue {
    pub(crate) fn new() -> (Self, BusArrivals) {
        let (sender, receiver) = mpsc::channel(WAITING_MESSAGES);
        let waiting = Arc::new(AtomicUsize::new(0));
        (Self { sender, waiting: Arc::clone(&waiting) }, BusArrivals { receiver, waiting })
    }

    /// Whether there was room.
    pub(crate) fn push(&self, arrival: BusArrival, size: usize) -> bool {
        // Added before it is compared: those who push at the same moment see each other, so the bound holds without
        // a lock.
        if self.waiting.fetch_add(size, Ordering::Relaxed) + size <= WAITING_BYTES
            && self.sender.try_send((arrival, size)).is_ok()
        {
            return true;
        }
        self.waiting.fetch_sub(size, Ordering::Relaxed);
        false
    }
}

/// A bus between replicas.
pub trait FleetBus: Send + Sync {
    /// The entries of the log, read one after the other.
    type Entries: Send;

    /// Writes an entry and gives its position, once it can not be lost with one machine. With `after`, only if the log ends there.
    fn append(
        &self,
        id: &AppendId,
        entry: &FleetEntry,
        after: Option<u64>,
    ) -> impl Future<Output = Result<u64, BusError>> + Send;

    /// Reads the log from a position on.
    fn entries(&self, from: u64) -> impl Future<Output = Result<Self::Entries, BusError>> + Send;

    /// The end of the log.
    fn head(&self) -> impl Future<Output = Result<LogHead, BusError>> + Send;

    /// Keeps content beside the log, under its hash.
    fn put(&self, content: Bytes) -> impl Future<Output = Result<BlobHash, BusError>> + Send;

    /// Content that was kept; `None` if there is none of that hash.
    fn get(&self, hash: BlobHash) -> impl Future<Output = Result<Option<Bytes>, BusError>> + Send;

    /// Drops content that nobody needs any more.
    fn drop_content(&self, hash: BlobHash) -> impl Future<Output = Result<(), BusError>> + Send;

    /// Drops content that nobody needs any more, unless it was written again within this time. Tells whether it did.
    fn drop_old_content(
        &self,
        hash: BlobHash,
        older_than: Duration,
    ) -> impl Future<Output = Result<bool, BusError>> + Send;

    /// Names the state that whoever joins begins with. Its content is there already.
    fn keep_state(&self, kept: &KeptState) -> impl Future<Output = Result<(), BusError>> + Send;

    /// The state that was kept last. One that is not of this log any more is none.
    fn kept_state(&self) -> impl Future<Output = Result<Option<KeptState>, BusError>> + Send;

    /// Tells all replicas how it is with this one.
    fn beat(&self, beat: &ReplicaBeat) -> impl Future<Output = Result<(), BusError>> + Send;

    /// Sends a frame to one process of a replica.
    fn send(
        &self,
        to: &ReplicaId,
        exchange: &ExchangeId,
        frame: FleetFrame,
    ) -> impl Future<Output = Result<(), BusError>> + Send;
}
