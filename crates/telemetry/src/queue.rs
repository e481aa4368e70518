//! Spans that wait to be sent: bounded in number and in bytes. What does not fit is dropped and counted.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};

use tidings_sync::Lock;
use tokio::sync::Notify;

/// How many may wait, and how many bytes of them.
const MOST: usize = 8_192;
const MOST_BYTES: usize = 8 << 20;
/// How many are sent at once, and how many bytes of them.
const BATCH: usize = 512;
const BATCH_BYTES: usize = 1 << 20;

#[derive(Debug, Default)]
pub(crate) struct SpanQueue {
    waiting: Lock<WaitingSpans>,
    dropped: AtomicU64,
    /// Rings when there is something to send, and once more when it is enough to be sent at once.
    pub(crate) bell: Notify,
}

#[derive(Debug, Default)]
struct WaitingSpans {
    spans: VecDeque<Vec<u8>>,
    bytes: usize,
}

impl SpanQueue {
    /// On the path of a call: a short lock, and never a wait.
    pub(crate) fn push(&self, span: Vec<u8>) {
        let count = {
            let mut waiting = self.waiting.lock();
            if waiting.spans.len() >= MOST || waiting.bytes + span.len() > MOST_BYTES {
                drop(waiting);
                self.drop_spans(1);
                return;
            }
            waiting.bytes += span.len();
            waiting.spans.push_back(span);
            waiting.spans.len()
        };
        // At 1 the sender begins to gather, and at a whole batch it need not gather longer. Every other bell would wake
        // it for nothing.
        if count == 1 || count == BATCH {
            self.bell.notify_one();
        }
    }

    pub(crate) fn drop_spans(&self, count: usize) {
        self.dropped.fetch_add(count as u64, Ordering::Relaxed);
    }

    /// What is sent next.
    pub(crate) fn take_batch(&self) -> Vec<Vec<u8>> {
        let mut waiting = self.waiting.lock();
        let (mut batch, mut bytes) = (Vec::new(), 0);
        // Looked at before a span is added: one that is larger than a batch goes out alone and not never.
        while batch.len() < BATCH && bytes < BATCH_BYTES {
            let Some(span) = waiting.spans.pop_front() else { break };
            bytes += span.len();
            batch.push(span);
        }
        waiting.bytes -= bytes;
        batch
    }

    /// Whether as many wait as are sent at once.
    pub(crate) fn has_batch(&self) -> bool {
        self.waiting.lock().spans.len() >= BATCH
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.lock().spans.is_empty()
    }

    /// How many wait, and how many were dropped.
    pub(crate) fn counts(&self) -> (usize, u64) {
        (self.waiting.lock().spans.len(), self.dropped.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // reach 7
    #[test]
    fn neither_number_nor_bytes_exceed_their_bounds() {
        let queue = SpanQueue::default();
        (0..MOST + 5).for_each(|_| queue.push(vec![0; 10]));
        assert_eq!(queue.counts(), (MOST, 5));
        let batch = queue.take_batch();
        assert_eq!((batch.len(), queue.counts().0), (BATCH, MOST - BATCH));

        let queue = SpanQueue::default();
        (0..10).for_each(|_| queue.push(vec![0; 1 << 20]));
        assert_eq!(queue.counts(), (8, 2), "eight MiB, and two that did not fit");
        assert_eq!(queue.take_batch().len(), 1, "one MiB at a time");
        queue.push(vec![0; 1 << 20]);
        assert_eq!(queue.counts(), (8, 2), "there is room again");
    }
}
