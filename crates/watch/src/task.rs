//! The task that watches one source: from the first who needs it to the last, once for all of them.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tidings_sync::Lock;
use tokio::task::AbortHandle;

use super::observations::{Observations, SourceSignals};
use super::source::{SourceEntry, WatchedSource};

/// How long a subscriber waits for a source that does not get ready.
const READY: Duration = Duration::from_secs(3);

/// How long to wait before a watch that ended is begun again.
const AGAIN: Duration = Duration::from_secs(1);

/// A source and, while it is needed, its task.
pub(super) struct SourceTask {
    pub(super) source: Arc<dyn WatchedSource>,
    observations: Arc<Observations>,
    task: Lock<Weak<RunningWatch>>,
}

/// A running watch; it ends with the last who holds it.
pub(super) struct RunningWatch {
    pub(super) signals: SourceSignals,
    abort: AbortHandle,
}

impl Drop for RunningWatch {
    fn drop(&mut self) {
        self.abort.abort();
    }
}

impl SourceTask {
    pub(super) fn new(source: Arc<dyn WatchedSource>, observations: &Arc<Observations>) -> Self {
        Self { source, observations: Arc::clone(observations), task: Lock::default() }
    }

    /// The running watch, or a new one.
    pub(super) fn need(&self) -> Arc<RunningWatch> {
        // Held over the start: two listens that come at once share one task.
        let mut slot = self.task.lock();
        if let Some(task) = slot.upgrade() {
            return task;
        }
        let signals = SourceSignals::new(&self.observations);
        let abort = tokio::spawn(watch_on(Arc::clone(&self.source), signals.clone())).abort_handle();
        let task = Arc::new(RunningWatch { signals, abort });
        // Weak: the task ends with the last listen that needs it.
        *slot = Arc::downgrade(&task);
        task
    }

    /// What there is now, for a client.
    pub(super) async fn list(&self) -> Vec<SourceEntry> {
        let entries = self.source.list().await;
        let task = self.task.lock().upgrade();
        if let Some(task) = task {
            task.signals.listed_members(&entries);
        }
        entries
    }

    #[cfg(test)]
    pub(super) fn is_watched(&self) -> bool {
        self.task.lock().upgrade().is_some()
    }
}

/// A watch is not meant to end; one that does is begun again.
async fn watch_on(source: Arc<dyn WatchedSource>, signals: SourceSignals) {
    loop {
        source.watch(signals.clone()).await;
        // A source watches for ever; if one returns, that is a fault of ours.
        tracing::error!("a watch ended; it is begun again");
        signals.ready();
        tokio::time::sleep(AGAIN).await;
    }
}

impl RunningWatch {
    /// Waits until no change can be missed; not for ever. Whoever stops waiting is told of the first look, since nobody
    /// knows what it would have been before.
    pub(super) async fn ready(&self) {
        let mut ready = self.signals.ready.subscribe();
        // A source that is slow to begin, such as a database that is down, must not keep the listen from being
        // acknowledged.
        if tokio::time::timeout(READY, ready.wait_for(|ready| *ready)).await.is_err() {
            // For everybody: the first look that comes later is told as a change.
            self.signals.ready();
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::future::BoxFuture;
    use std::sync::atomic::{AtomicU32, Ordering};

    use tidings_testkit::eventually;
    use tokio::sync::Notify;

    use super::super::observations::hash;
    use super::super::probe::ProbeLink;
    use super::super::source::{SourceContent, UnreadableReason};
    use super::*;

    /// Looks when it is let.
    struct Slow {
        gate: Arc<Notify>,
        /// Counts, and ends each time.
        begun: Option<Arc<AtomicU32>>,
    }

    impl WatchedSource for Slow {
        fn owns(&self, uri: &str) -> bool {
            uri == "slow://x"
        }

        fn list(&self) -> BoxFuture<'_, Vec<SourceEntry>> {
            Box::pin(std::future::ready(Vec::new()))
        }

        fn read<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<SourceContent, UnreadableReason>> {
            Box::pin(std::future::ready(Err(UnreadableReason::NotFound)))
        }

        fn watch(&self, signals: SourceSignals) -> BoxFuture<'_, ()> {
            Box::pin(async move {
                if let Some(begun) = &self.begun {
                    begun.fetch_add(1, Ordering::Relaxed);
                    return;
                }
                self.gate.notified().await;
                let seen = Some(hash(b"1"));
                if signals.is_ready() {
                    signals.observed("slow://x", seen)
                } else {
                    signals.baseline("slow://x", seen)
                }
                signals.ready();
                std::future::pending().await
            })
        }
    }

    // S1.2, S1.8
    #[tokio::test]
    async fn who_did_not_wait_for_a_slow_source_is_told_of_its_first_look() {
        let gate = Arc::new(Notify::new());
        let probe = ProbeLink::of(Slow { gate: Arc::clone(&gate), begun: None });
        let mut early = probe.listen(&["slow://x"], false).await;
        gate.notify_one();
        assert_eq!(early.next().await, "slow://x");
    }

    #[tokio::test]
    async fn a_watch_that_ends_is_begun_again() {
        let begun = Arc::new(AtomicU32::new(0));
        let probe = ProbeLink::of(Slow { gate: Arc::default(), begun: Some(Arc::clone(&begun)) });
        let _heard = probe.listen(&["slow://x"], false).await;
        eventually("the next watch", || (begun.load(Ordering::Relaxed) > 1).then_some(())).await;
    }
}
