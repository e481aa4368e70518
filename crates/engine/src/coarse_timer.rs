//! A coarse clock for deadlines that are hardly ever met.
//!
//! A timer of its own for every call costs two trips through the kernel (the runtime's driver is woken to learn of the
//! new deadline), which is more than the call itself takes. Instead, whoever waits is woken a few times a second to
//! look at the time. When nobody has waited for a while, the clock stands still.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::Notify;

/// How exact deadlines are.
const BEAT: Duration = Duration::from_millis(250);
/// How many beats nobody must have waited for before the clock stands still.
const PATIENCE: u32 = 12;

#[derive(Default)]
pub(crate) struct CoarseTimer {
    beat: Notify,
    start: Notify,
    running: AtomicBool,
    wanted: AtomicBool,
}

impl CoarseTimer {
    /// Waits for the next beat, at most a quarter of a second; starts the clock if it stands still.
    pub(crate) async fn beat(&self) {
        // Made before `wanted` is set: `notify_waiters` keeps no permit, and a beat in between would be missed.
        let beat = self.beat.notified();
        // Every call comes here: as long as it is set already, the cores do not have to take its cache line from each other.
        if !self.wanted.load(Ordering::SeqCst) {
            self.wanted.store(true, Ordering::SeqCst);
        }
        if !self.running.load(Ordering::SeqCst) {
            self.start.notify_one();
        }
        beat.await;
    }

    /// Beats for as long as it is polled.
    pub(crate) async fn run(&self) {
        loop {
            self.start.notified().await;
            self.running.store(true, Ordering::SeqCst);
            let mut unwanted = 0;
            while unwanted < PATIENCE {
                tokio::time::sleep(BEAT).await;
                self.beat.notify_waiters();
                // Everybody was just woken: whoever still waits asks again before the next beat.
                unwanted = if self.wanted.swap(false, Ordering::SeqCst) { 0 } else { unwanted + 1 };
            }
            self.running.store(false, Ordering::SeqCst);
            // Somebody may have looked at `running` just before it was cleared.
            if self.wanted.swap(false, Ordering::SeqCst) {
                self.start.notify_one();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn it_beats_for_those_who_wait_also_after_a_long_pause() {
        let coarse_timer = Arc::new(CoarseTimer::default());
        let running = tokio::spawn({
            let coarse_timer = Arc::clone(&coarse_timer);
            async move { coarse_timer.run().await }
        });
        for pause in [0, 1, 60] {
            tokio::time::sleep(Duration::from_secs(pause)).await;
            let before = tokio::time::Instant::now();
            coarse_timer.beat().await;
            assert!(before.elapsed() <= BEAT, "after {pause} s");
        }
        running.abort();
    }
}
