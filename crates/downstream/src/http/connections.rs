//! How many connections there may be, and who gives way when there are too many.
//!
//! Only those are closed that nobody was let in on: whoever opens connections and sends nothing, or only what is refused, takes no
//! place from others.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use tidings_sync::Lock;
use tokio::task::AbortHandle;

/// The connections that are open, the oldest first. Locked when one opens or closes, never for a request.
pub(super) struct Connections {
    limit: usize,
    open: Lock<BTreeMap<u64, Arc<ConnectionPlace>>>,
    next: AtomicU64,
    refused: AtomicU64,
}

/// A connection that counts.
#[derive(Default)]
pub(super) struct ConnectionPlace {
    /// Somebody was let in on it.
    is_known: AtomicBool,
    /// Its task, which ends when it has to give way. A signal would be looked at with every request.
    task: OnceLock<AbortHandle>,
}

/// The place of a connection, until it is closed.
pub(super) struct TakenPlace {
    number: u64,
    pub(super) place: Arc<ConnectionPlace>,
    connections: Arc<Connections>,
}

impl ConnectionPlace {
    pub(super) fn let_in(&self) {
        self.is_known.store(true, Ordering::Relaxed);
    }

    /// A reference to it, unless somebody was let in already.
    pub(super) fn if_unknown(self: &Arc<Self>) -> Option<Arc<Self>> {
        (!self.is_known.load(Ordering::Relaxed)).then(|| Arc::clone(self))
    }

    /// To be told before another connection is accepted: without its task it can not give way.
    pub(super) fn is_served_by(&self, task: AbortHandle) {
        let _ = self.task.set(task);
    }

    fn give_way(&self) {
        self.task.get().iter().for_each(|task| task.abort());
    }
}

impl Connections {
    pub(super) fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self { limit, open: Lock::default(), next: AtomicU64::new(0), refused: AtomicU64::new(0) })
    }

    /// A place for a connection. Where there are too many, the oldest gives way that nobody was let in on; `None` when there is none.
    pub(super) fn enter(self: &Arc<Self>) -> Option<TakenPlace> {
        let mut open = self.open.lock();
        if open.len() >= self.limit {
            let unknown = |place: &ConnectionPlace| !place.is_known.load(Ordering::Relaxed);
            let oldest = open.iter().find(|(_, place)| unknown(place)).map(|(number, _)| *number);
            let Some(evicted) = oldest.and_then(|number| open.remove(&number)) else {
                if self.refused.fetch_add(1, Ordering::Relaxed) == 0 {
                    tracing::warn!(
                        limit = self.limit,
                        "connections are refused: there are as many as files may be open"
                    );
                }
                return None;
            };
            evicted.give_way();
        }
        let (number, place) = (self.next.fetch_add(1, Ordering::Relaxed), Arc::<ConnectionPlace>::default());
        open.insert(number, Arc::clone(&place));
        Some(TakenPlace { number, place, connections: Arc::clone(self) })
    }
}

impl Drop for TakenPlace {
    fn drop(&mut self) {
        self.connections.open.lock().remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // trust T8
    #[tokio::test]
    async fn the_oldest_connection_that_nobody_was_let_in_on_gives_way_and_no_other() {
        let connections = Connections::new(3);
        let taken: Vec<TakenPlace> = (0..3).filter_map(|_| connections.enter()).collect();
        let tasks: Vec<_> = taken.iter().map(|_| tokio::spawn(std::future::pending::<()>())).collect();
        taken.iter().zip(&tasks).for_each(|(taken, task)| taken.place.is_served_by(task.abort_handle()));
        taken[0].place.let_in();
        let next = connections.enter().expect("the oldest gives way");
        tokio::task::yield_now().await;
        assert_eq!(tasks.iter().map(|task| task.is_finished()).collect::<Vec<_>>(), [false, true, false]);
        next.place.let_in();
        taken[2].place.let_in();
        assert!(connections.enter().is_none(), "all are in use by somebody");
        drop(next);
        assert!(connections.enter().is_some());
    }
}
