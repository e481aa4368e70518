//! The catalogue that everybody reads: an immutable state, replaced as a whole.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::watch;

use crate::observe::status::Catalogue;

/// What is known about the servers, and whether it is still being found out for the first time.
pub(crate) struct CatalogueStore {
    state: watch::Sender<Arc<Catalogue>>,
    started: Instant,
    start_wait: Duration,
}

impl CatalogueStore {
    /// `start_wait`: how long first lists wait for servers to settle.
    pub(crate) fn new(catalogue: Catalogue, start_wait: Duration) -> Self {
        Self { state: watch::Sender::new(Arc::new(catalogue)), started: Instant::now(), start_wait }
    }

    pub(crate) fn current(&self) -> Arc<Catalogue> {
        // The borrow of a watch blocks its writer, so it ends here and the state is read from the clone.
        Arc::clone(&self.state.borrow())
    }

    /// Changes can be awaited.
    pub(crate) fn subscribe(&self) -> watch::Receiver<Arc<Catalogue>> {
        self.state.subscribe()
    }

    pub(crate) fn update(&self, change: impl FnOnce(&mut Catalogue)) {
        // Copied when somebody reads the state before; its large parts are shared, so that is cheap.
        self.state.send_modify(|current| change(Arc::make_mut(current)));
    }

    pub(crate) async fn wait_settled(&self) {
        let mut catalogue = self.subscribe();
        let settled = catalogue.wait_for(|c| c.settled());
        // After the deadline everybody goes on with what is there; slow servers come later, by notice.
        let _ = tokio::time::timeout_at(self.start_deadline().into(), settled).await;
    }

    /// Whether first lists may still have to wait.
    pub(crate) fn starting(&self) -> bool {
        // The time first: after the start this is one comparison, with no borrow of the state.
        self.started.elapsed() < self.start_wait && !self.state.borrow().settled()
    }

    pub(crate) fn start_deadline(&self) -> Instant {
        self.started + self.start_wait
    }
}
