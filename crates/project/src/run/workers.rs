//! Who may run now: a bounded number at a time, callers in turn.

use std::collections::VecDeque;
use std::sync::{Arc, MutexGuard};

use tidings_sync::Lock;
use tokio::sync::oneshot;

/// How many calls may wait; more are refused at once.
const WAITING: usize = 1_024;

/// The workers of one project.
pub(crate) struct WorkerPool {
    limit: usize,
    state: Lock<WorkerPoolState>,
}

#[derive(Default)]
struct WorkerPoolState {
    running: usize,
    waiting: usize,
    /// One line per caller that waits; whoever was served goes to the back. Bounded by [`WAITING`] in all.
    lines: VecDeque<(u64, VecDeque<oneshot::Sender<WorkerSlot>>)>,
}

/// More calls than may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{WAITING} calls of this project are waiting already, {running} run; try again later or raise MCPBASH_MAX_CONCURRENT_REQUESTS"
)]
pub(crate) struct WorkersBusy {
    running: usize,
}

/// The right to run, until it is dropped.
pub(crate) struct WorkerSlot(Option<Arc<WorkerPool>>);

impl WorkerPool {
    pub(crate) fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self { limit: limit.max(1), state: Lock::default() })
    }

    /// Waits for a turn. Dropping the future leaves the line.
    pub(crate) async fn turn(self: &Arc<Self>, caller: u64) -> Result<WorkerSlot, WorkersBusy> {
        let waiting = {
            // A caller that left the line is counted among the waiting until its turn comes and it does not take it.
            let mut state = self.lock();
            // A free worker goes to whoever asks now: nobody waits while one is free.
            if state.running < self.limit {
                state.running += 1;
                return Ok(WorkerSlot(Some(Arc::clone(self))));
            }
            if state.waiting >= WAITING {
                return Err(WorkersBusy { running: state.running });
            }
            state.waiting += 1;
            let (sender, receiver) = oneshot::channel();
            match state.lines.iter_mut().find(|(of, _)| *of == caller) {
                Some((_, line)) => line.push_back(sender),
                None => state.lines.push_back((caller, VecDeque::from([sender]))),
            }
            receiver
        };
        // The sender is dropped only with the workers, which `self` keeps.
        waiting.await.map_err(|_| WorkersBusy { running: self.limit })
    }

    /// Hands the slot of somebody who is done to the caller whose turn it is.
    fn pass_on(self: &Arc<Self>) {
        loop {
            let next = {
                let mut state = self.lock();
                let Some((caller, mut line)) = state.lines.pop_front() else {
                    state.running -= 1;
                    return;
                };
                let next = line.pop_front();
                state.waiting -= usize::from(next.is_some());
                // To the back: each caller gets one turn before anybody gets two.
                if !line.is_empty() {
                    state.lines.push_back((caller, line));
                }
                next
            };
            // One who left the line does not take it.
            let Some(sender) = next else { continue };
            match sender.send(WorkerSlot(Some(Arc::clone(self)))) {
                // A receiver that is dropped now drops the slot with the channel, and so passes it on.
                Ok(()) => return,
                // Disarmed: dropping it as it is would pass the slot on a second time.
                Err(mut slot) => slot.0 = None,
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, WorkerPoolState> {
        self.state.lock()
    }
}

impl Drop for WorkerSlot {
    fn drop(&mut self) {
        if let Some(workers) = self.0.take() {
            workers.pass_on();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::Pin;

    use futures_util::FutureExt as _;

    use super::*;

    type Turn = Pin<Box<dyn Future<Output = Result<WorkerSlot, WorkersBusy>>>>;

    fn turn(workers: &Arc<WorkerPool>, caller: u64) -> Turn {
        let workers = Arc::clone(workers);
        let mut turn: Turn = Box::pin(async move { workers.turn(caller).await });
        // In line from now on.
        assert!(turn.as_mut().now_or_never().is_none());
        turn
    }

    #[tokio::test]
    async fn callers_take_turns_whoever_asked_more() {
        let workers = WorkerPool::new(1);
        let first = workers.turn(1).await.unwrap();
        let mut many = [turn(&workers, 1), turn(&workers, 1)];
        let mut other = turn(&workers, 2);
        drop(first);
        let slot = many[0].as_mut().now_or_never().unwrap().unwrap();
        drop(slot);
        assert!(many[1].as_mut().now_or_never().is_none());
        let slot = other.as_mut().now_or_never().unwrap().unwrap();
        drop(slot);
        assert!(many[1].as_mut().now_or_never().unwrap().is_ok());
    }

    #[tokio::test]
    async fn who_leaves_the_line_is_passed_over() {
        let workers = WorkerPool::new(1);
        let first = workers.turn(1).await.unwrap();
        let gone = turn(&workers, 2);
        let mut last = turn(&workers, 3);
        drop(gone);
        drop(first);
        drop(last.as_mut().now_or_never().unwrap().unwrap());
        assert!(workers.turn(4).now_or_never().unwrap().is_ok());
    }

    #[tokio::test]
    async fn a_slot_that_nobody_took_is_free_again() {
        let workers = WorkerPool::new(1);
        let first = workers.turn(1).await.unwrap();
        let granted = turn(&workers, 2);
        drop(first);
        // Granted but never looked at.
        assert_eq!(workers.lock().running, 1);
        drop(granted);
        assert!(workers.turn(3).now_or_never().unwrap().is_ok());
    }

    #[tokio::test]
    async fn the_line_is_bounded() {
        let workers = WorkerPool::new(1);
        let _first = workers.turn(1).await.unwrap();
        let _waiting: Vec<Turn> = (0..WAITING as u64).map(|caller| turn(&workers, caller)).collect();
        assert!(workers.turn(1).await.is_err());
    }
}
