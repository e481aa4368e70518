//! Watches that one replica looks at for all: who does, and the way to it.

use std::collections::BTreeMap;
use std::sync::Arc;

use tidings_hub::fleet::entry::{IsolationRule, PlacedServer};
use tidings_hub::fleet::{BlobHash, FleetServerName};
use tidings_upstream::SharedLink;
use tidings_upstream::in_process::CallsOnlySink;
use tokio::sync::watch;

use super::desk::{FleetDesk, FleetSeat};
use super::forward_link;

/// A watch of the file, as the log names it.
#[derive(Clone, Debug)]
pub struct SeatedWatch {
    /// What `[watch.X]` calls it.
    pub id: String,
    /// What it is, in words that are equal for equal watches and tell no secrets.
    pub definition: String,
    /// Labels that its replica must have.
    pub placement: Vec<String>,
}

impl SeatedWatch {
    pub(crate) fn placed(&self) -> PlacedServer {
        PlacedServer {
            name: FleetServerName::watch(&self.id),
            definition: BlobHash::of(self.definition.as_bytes()),
            placement: self.placement.clone(),
            // Two that look at one thing for a moment do no harm.
            on_isolation: IsolationRule::Keep,
        }
    }
}

/// Looks at watches for the other replicas.
pub trait WatchHost: Send + Sync + 'static {
    /// A link to what a watch is about, in this process. `None`: there is no such watch.
    fn link(&self, watch: &str) -> Option<SharedLink>;
}

/// Which replica looks at a watch. Two that are equal are one time of looking.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WatchSeat {
    /// None, or it is not known yet.
    Nobody,
    /// This one.
    Here(u64),
    /// Another one.
    Elsewhere {
        /// The name of the replica.
        replica: String,
        /// Which time of looking it is.
        epoch: u64,
    },
}

/// Which replica looks at one watch, as that changes.
pub struct WatchSeats {
    name: FleetServerName,
    seats: watch::Receiver<BTreeMap<FleetServerName, FleetSeat>>,
}

impl WatchSeats {
    /// Which one it is now.
    pub fn current(&mut self) -> WatchSeat {
        match self.seats.borrow_and_update().get(&self.name) {
            None | Some(FleetSeat::Nobody | FleetSeat::Ending) => WatchSeat::Nobody,
            Some(FleetSeat::Here(epoch)) => WatchSeat::Here(epoch.0),
            Some(FleetSeat::Elsewhere(replica, epoch)) => {
                WatchSeat::Elsewhere { replica: replica.name.as_str().to_owned(), epoch: epoch.0 }
            }
        }
    }

    /// Waits until it is another one than this, and says which.
    pub async fn other_than(&mut self, seat: &WatchSeat) -> WatchSeat {
        loop {
            let current = self.current();
            if current != *seat {
                return current;
            }
            // The desk outlives all who ask; without it nothing changes any more.
            if self.seats.changed().await.is_err() {
                return std::future::pending().await;
            }
        }
    }
}

/// The watches of a cluster, for whoever looks at them.
#[derive(Clone)]
pub struct FleetWatches(Arc<FleetDesk>);

impl FleetWatches {
    pub(crate) fn new(desk: Arc<FleetDesk>) -> Self {
        Self(desk)
    }

    /// From now on this one answers for the watches that this replica looks at.
    pub fn serve(&self, host: Arc<dyn WatchHost>) {
        // Once: there is one set of watches.
        let _ = self.0.watch_host.set(host);
    }

    /// Which replica looks at a watch.
    pub fn seats(&self, watch: &str) -> WatchSeats {
        WatchSeats { name: FleetServerName::watch(watch), seats: self.0.seats() }
    }

    /// A link to a watch, by way of the replica that looks at it at the time of each request.
    pub fn link(&self, watch: &str) -> SharedLink {
        forward_link::to_watch(&self.0, FleetServerName::watch(watch), Arc::new(CallsOnlySink))
    }

    /// Why no replica looks at a watch.
    pub fn unplaced(&self, watch: &str) -> Option<String> {
        self.0.unplaced_name(&FleetServerName::watch(watch))
    }
}
