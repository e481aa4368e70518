//! What the rest of the engine sees of the fleet: who owns a server, whether a list may be answered, and how something is written or forwarded.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use tidings_cluster::{BusKeys, NatsAccess, NatsSettings, SecretTooShort};
use tidings_hub::fleet::entry::{DecisionKind, OfferRecord};
use tidings_hub::fleet::frames::{ExchangeId, NumberedItem};
use tidings_hub::fleet::{FleetServerName, OwnerEpoch, ReplicaId};
use tidings_sync::Lock;
use tidings_upstream::CallQueue;
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::task::TaskTracker;

use super::decisions::{DecisionFollower, DecisionWish};
use super::set_change::{SetFollower, SetOutcome, WrittenChange};
use super::shown::{FleetCounts, FleetShown};
use super::watch_seats::{SeatedWatch, WatchHost};

/// How many wishes may wait for the driver. Whoever finds it full is answered as if the bus were gone.
const WAITING: usize = 4096;
/// How long the last entries of a replica that leaves may take.
pub(super) const LEAVE_WITHIN: Duration = Duration::from_secs(2);

/// How long a change of the set waits until it is known what is in the log: a busy bus answers late, and an election takes longer than this.
const CONFIRM_WITHIN: Duration = Duration::from_secs(3);
const CONFIRM_AGAIN: Duration = Duration::from_millis(50);

/// Where the bus is, and as whom this replica speaks on it.
#[derive(Clone)]
pub struct FleetSettings {
    /// The servers of NATS.
    pub nats: Vec<String>,
    /// How this replica is let in there.
    pub access: NatsAccess,
    /// The name of the cluster.
    pub name: String,
    /// The secrets; the first seals, all open.
    pub secrets: Vec<Vec<u8>>,
    /// The name of this replica.
    pub replica: String,
    /// How many servers of NATS keep each stream.
    pub copies: usize,
    /// What servers may ask of the replica that runs them.
    pub labels: Vec<String>,
    /// How long lists stay beside the log that others took the place of. As long as a replica may be cut off and read on.
    pub lists_kept: Duration,
    /// The watches of its file that one replica looks at for all.
    pub watches: Vec<SeatedWatch>,
}

impl FleetSettings {
    /// What the bus is told of them, by this replica.
    pub(super) fn bus(&self, me: ReplicaId) -> Result<NatsSettings, SecretTooShort> {
        Ok(NatsSettings {
            servers: self.nats.clone(),
            access: self.access.clone(),
            name: self.name.clone(),
            replica: me,
            copies: self.copies,
            keys: BusKeys::derive(&self.secrets)?,
        })
    }
}

impl std::fmt::Debug for FleetSettings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FleetSettings")
            .field("name", &self.name)
            .field("replica", &self.replica)
            .finish_non_exhaustive()
    }
}

/// Who runs a server, as far as is known here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum FleetSeat {
    /// Nobody, or it is not known yet.
    #[default]
    Nobody,
    /// This replica, and nothing of it runs: it is to end here, or may not begin yet.
    Ending,
    /// This replica.
    Here(OwnerEpoch),
    /// Another one.
    Elsewhere(ReplicaId, OwnerEpoch),
}

impl FleetSeat {
    /// Whether it is known who runs a server that is there since this epoch.
    pub(crate) fn is_known_since(&self, since: u64) -> bool {
        match self {
            Self::Nobody | Self::Ending => false,
            Self::Here(epoch) | Self::Elsewhere(_, epoch) => epoch.0 >= since,
        }
    }
}

/// A part of the answer to a forwarded HTTP request.
#[derive(Clone, Debug)]
pub enum HttpPiece {
    /// The head, as its replica wrote it.
    Head(Bytes),
    /// A piece of the body.
    Body(Bytes),
    /// The end of it.
    End(HttpEnd),
}

/// How the answer to a forwarded HTTP request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HttpEnd {
    /// It is whole.
    Whole,
    /// It did not run: the process that it was for is gone.
    Gone,
    /// It did not run, and may be tried again.
    Unreached,
    /// It was broken off, and may have run.
    Lost,
}

/// Carries out HTTP requests of other replicas: for sessions that live here.
pub trait ForwardedHttp: Send + Sync {
    /// Answers a request; what is said goes through `say`, which waits for room and tells whether anybody still listens.
    fn answer(&self, request: Bytes, say: mpsc::Sender<HttpPiece>) -> BoxFuture<'static, ()>;
}

/// What comes of an HTTP request at another replica. Dropped, the request is given up there.
pub struct ForwardedAnswer {
    pub(crate) pieces: mpsc::Receiver<HttpPiece>,
    pub(crate) _end: ForwardEnd,
}

impl ForwardedAnswer {
    /// The next piece; after [`HttpPiece::End`] there is none.
    pub async fn next(&mut self) -> HttpPiece {
        self.pieces.recv().await.unwrap_or(HttpPiece::End(HttpEnd::Lost))
    }
}

/// Ends a request at its replica when nobody waits for it any more.
pub(crate) struct ForwardEnd {
    pub(crate) desk: Arc<FleetDesk>,
    pub(crate) key: u64,
}

impl Drop for ForwardEnd {
    fn drop(&mut self) {
        // Without room the exchange goes on until its answer, which nobody takes.
        let _ = self.desk.wishes.try_send(FleetWish::Cancel(self.key));
    }
}

/// What came of an offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OfferOutcome {
    /// The fleet has it already: nothing was written.
    Same,
    /// It was written and is applied here.
    Committed,
    /// This replica does not own the server any more.
    Lost,
}

/// Where what comes of a forwarded request goes.
pub(crate) enum ForwardOutlet {
    /// A call over a forward link; pieces of its answer are gathered.
    Call { queue: CallQueue, gathered: Vec<u8> },
    /// An HTTP request of a session. A reader that is too far behind is cut off; it resumes.
    Http { pieces: mpsc::Sender<HttpPiece>, is_begun: bool },
}

/// Where a request is sent.
pub(crate) enum ForwardTarget {
    /// To whoever owns this server.
    Owner(FleetServerName),
    /// To one process of a replica.
    Process(u64),
}

/// What a server lists, as it is written.
pub(crate) struct WrittenOffer {
    pub(crate) record: OfferRecord,
    pub(crate) content: Bytes,
}

/// What the driver is asked for.
pub(crate) enum FleetWish {
    Read(oneshot::Sender<bool>),
    Offer {
        server: FleetServerName,
        epoch: OwnerEpoch,
        offer: Box<WrittenOffer>,
        done: oneshot::Sender<OfferOutcome>,
    },
    Change {
        change: WrittenChange,
        done: oneshot::Sender<SetOutcome>,
    },
    /// Something is decided, or what was decided is read.
    Decisions(DecisionWish),
    Open {
        key: u64,
        target: ForwardTarget,
        bytes: Bytes,
        outlet: ForwardOutlet,
    },
    Cancel(u64),
    Say {
        exchange: ExchangeId,
        item: NumberedItem,
        done: oneshot::Sender<bool>,
    },
    /// What a server said to this replica, which called it itself, for the replica that runs it.
    Said(FleetServerName, Bytes),
    /// A server could not be started here.
    Failed(FleetServerName),
    /// Nothing of a server runs here any more.
    Ended(FleetServerName),
    Leave(oneshot::Sender<()>),
}

/// The fleet, for the rest of the engine.
pub(crate) struct FleetDesk {
    pub(crate) me: ReplicaId,
    pub(crate) settings: FleetSettings,
    pub(super) wishes: mpsc::Sender<FleetWish>,
    /// The driver and what runs beside it. Not the engine's: they give the servers up after its tasks have ended.
    pub(crate) tasks: TaskTracker,
    /// Taken by the driver.
    pub(super) heard: Lock<Option<mpsc::Receiver<FleetWish>>>,
    pub(super) seats: watch::Sender<BTreeMap<FleetServerName, FleetSeat>>,
    /// The set of servers, as far as it is changed by this replica or followed here.
    pub(crate) set: FleetSet,
    pub(super) shown: Lock<Option<FleetShown>>,
    /// Why servers that should run are run by nobody.
    pub(super) unplaced: Lock<BTreeMap<FleetServerName, String>>,
    pub(super) counts: FleetCounts,
    /// Whether what is read here is known to be current.
    pub(super) confirmed: AtomicBool,
    /// Whether the log was read to its end once.
    pub(crate) joined: AtomicBool,
    /// Whether calls may leave from here to servers that other replicas run: all of them have to hear what is said of it, and to mean the
    /// same servers.
    pub(super) direct: watch::Sender<bool>,
    keys: AtomicU64,
    pub(crate) http: Lock<Option<Arc<dyn ForwardedHttp>>>,
    /// Who looks at watches here, for whoever asks.
    pub(crate) watch_host: OnceLock<Arc<dyn WatchHost>>,
    /// Who is told of what is decided, of those who came before the driver.
    pub(super) followers: Lock<BTreeMap<DecisionKind, Arc<dyn DecisionFollower>>>,
}

/// The set of servers of a cluster, at one replica.
pub(crate) struct FleetSet {
    /// The version that is applied here.
    pub(super) applied: watch::Sender<u64>,
    /// One change at a time, from when it is looked at until it is applied.
    pub(crate) changing: tokio::sync::Mutex<()>,
    /// Who knows what is configured.
    pub(crate) follower: tokio::sync::SetOnce<Arc<dyn SetFollower>>,
}

impl Default for FleetSet {
    fn default() -> Self {
        Self {
            applied: watch::Sender::new(0),
            changing: tokio::sync::Mutex::default(),
            follower: tokio::sync::SetOnce::new(),
        }
    }
}

impl FleetSet {
    /// The version of the set of servers that is applied here; changes can be awaited.
    pub(crate) fn version(&self) -> watch::Receiver<u64> {
        self.applied.subscribe()
    }
}

impl FleetDesk {
    pub(crate) fn new(settings: FleetSettings) -> Arc<Self> {
        let mut incarnation = [0; 8];
        // Without random numbers no key can be made, and nothing else in the process would be safe either.
        getrandom::fill(&mut incarnation).expect("the system has random numbers");
        let me = ReplicaId { name: settings.replica.as_str().into(), incarnation: u64::from_le_bytes(incarnation) };
        let (wishes, heard) = mpsc::channel(WAITING);
        Arc::new(Self {
            me,
            settings,
            wishes,
            tasks: TaskTracker::new(),
            heard: Lock::new(Some(heard)),
            seats: watch::Sender::new(BTreeMap::new()),
            set: FleetSet::default(),
            shown: Lock::default(),
            unplaced: Lock::default(),
            counts: FleetCounts::default(),
            confirmed: AtomicBool::new(false),
            joined: AtomicBool::new(false),
            direct: watch::Sender::new(false),
            keys: AtomicU64::new(1),
            http: Lock::default(),
            watch_host: OnceLock::new(),
            followers: Lock::default(),
        })
    }

    /// Waits until what is applied here is as new as anything that a client was told anywhere. `false`: that could not be known.
    pub(crate) async fn read(&self) -> bool {
        let confirmed = self.is_current().await;
        if !confirmed {
            self.counts.unconfirmed.fetch_add(1, Ordering::Relaxed);
        }
        confirmed
    }

    async fn is_current(&self) -> bool {
        let (done, heard) = oneshot::channel();
        self.wishes.send(FleetWish::Read(done)).await.is_ok() && heard.await.unwrap_or(false)
    }

    /// The same for whoever can not go on with less: tried again for a while, unless this replica is cut off from the bus.
    pub(crate) async fn confirm(&self) -> bool {
        let until = tokio::time::Instant::now() + CONFIRM_WITHIN;
        loop {
            if self.is_current().await {
                return true;
            }
            let is_cut = self.shown.lock().as_ref().is_none_or(FleetShown::is_isolated);
            if is_cut || tokio::time::Instant::now() >= until {
                return false;
            }
            tokio::time::sleep(CONFIRM_AGAIN).await;
        }
    }

    /// Whether calls may leave from here to servers that other replicas run; changes can be awaited.
    pub(crate) fn direct(&self) -> watch::Receiver<bool> {
        self.direct.subscribe()
    }

    /// Passes on what a server said to this replica, or that it answered a call. Without room it is not: the server is looked at later then.
    pub(crate) fn tell_owner(&self, server: &str, message: Bytes) {
        let _ = self.wishes.try_send(FleetWish::Said(server.into(), message));
    }

    /// Who runs a server; changes can be awaited.
    pub(crate) fn seats(&self) -> watch::Receiver<BTreeMap<FleetServerName, FleetSeat>> {
        self.seats.subscribe()
    }

    pub(crate) fn seat_of(&self, server: &str) -> FleetSeat {
        self.seats.borrow().get(&FleetServerName::from(server)).cloned().unwrap_or_default()
    }

    /// Writes what a server of this replica lists, and waits until that is applied here.
    pub(crate) async fn offer(
        &self,
        server: &str,
        epoch: OwnerEpoch,
        record: OfferRecord,
        content: Bytes,
    ) -> OfferOutcome {
        let (done, heard) = oneshot::channel();
        let offer = Box::new(WrittenOffer { record, content });
        let wish = FleetWish::Offer { server: server.into(), epoch, offer, done };
        if self.wishes.send(wish).await.is_err() {
            return OfferOutcome::Lost;
        }
        heard.await.unwrap_or(OfferOutcome::Lost)
    }

    /// Writes a change of the set, and waits until its fate is known.
    pub(crate) async fn change_set(&self, change: WrittenChange) -> SetOutcome {
        let (done, heard) = oneshot::channel();
        let gone = || SetOutcome::Refused("this replica is not connected to the others".to_owned());
        if self.wishes.send(FleetWish::Change { change, done }).await.is_err() {
            return gone();
        }
        // Dropped where there is no bus yet: then it was not written either.
        heard.await.unwrap_or_else(|_| gone())
    }

    /// A server could not be started here. Without room that is not known, and said again when it fails again.
    pub(crate) fn start_failed(&self, server: &str) {
        let _ = self.wishes.try_send(FleetWish::Failed(server.into()));
    }

    /// Nothing of a server runs here any more.
    pub(crate) async fn ended(&self, server: &FleetServerName) {
        // Without a driver nobody waits for it.
        let _ = self.wishes.send(FleetWish::Ended(server.clone())).await;
    }

    /// Why nobody runs a server.
    pub(crate) fn unplaced(&self, server: &str) -> Option<String> {
        self.unplaced_name(&FleetServerName::from(server))
    }

    pub(super) fn unplaced_name(&self, name: &FleetServerName) -> Option<String> {
        self.unplaced.lock().get(name).cloned()
    }

    pub(crate) fn new_key(&self) -> u64 {
        self.keys.fetch_add(1, Ordering::Relaxed)
    }

    /// Sends a request to another replica, without waiting. Where there is no room it did not run.
    pub(crate) fn open(&self, key: u64, target: ForwardTarget, bytes: Bytes, outlet: ForwardOutlet) {
        let full = match self.wishes.try_send(FleetWish::Open { key, target, bytes, outlet }) {
            Ok(()) => return,
            Err(mpsc::error::TrySendError::Full(wish) | mpsc::error::TrySendError::Closed(wish)) => wish,
        };
        if let FleetWish::Open { outlet, .. } = full {
            outlet.not_run("too many requests are under way to other replicas");
        }
    }

    /// Says something in an exchange of another replica, when there is room. `false`: nobody listens any more.
    pub(crate) async fn say(&self, exchange: &ExchangeId, item: NumberedItem) -> bool {
        let (done, heard) = oneshot::channel();
        let wish = FleetWish::Say { exchange: exchange.clone(), item, done };
        self.wishes.send(wish).await.is_ok() && heard.await.unwrap_or(false)
    }

    /// Gives everything up, so that nobody has to wait for it.
    pub(crate) async fn leave(&self) {
        let (done, heard) = oneshot::channel();
        if self.wishes.send(FleetWish::Leave(done)).await.is_ok() {
            let _ = heard.await;
        }
        self.tasks.close();
        // What is still being written to a bus that does not answer is given up with the process.
        let _ = tokio::time::timeout(LEAVE_WITHIN, self.tasks.wait()).await;
    }

    /// How the fleet is.
    pub(crate) fn shown(&self) -> FleetShown {
        let mut shown = self.shown.lock().clone().unwrap_or_else(|| FleetShown::joining(&self.settings, &self.me));
        shown.counts = self.counts.read();
        shown
    }
}
