//! How fast a server is read that says what nobody asked for.
//!
//! Log messages and requests cost the gateway more than the server that sends them, and the disk, the clients or the server's
//! own pipe have to take what comes of them. Beyond a pace that no honest server needs, its stream is read more slowly: it
//! waits for itself, and nobody else does.

use std::time::{Duration, Instant};

use tidings_proto::MessageSubject;

/// How many of them are read in one window without a pause.
const UNASKED: usize = 1_000;
const WINDOW: Duration = Duration::from_millis(100);

/// Counts messages that nobody asked for, and says when there were too many in too short a time.
#[derive(Default)]
pub(crate) struct UnaskedPace {
    since: Option<Instant>,
    seen: usize,
}

impl UnaskedPace {
    /// So many more were read; gives how long to wait before reading on.
    pub(crate) fn count(&mut self, unasked: usize) -> Option<Duration> {
        if unasked == 0 {
            return None;
        }
        self.count_at(unasked, Instant::now())
    }

    fn count_at(&mut self, unasked: usize, now: Instant) -> Option<Duration> {
        let since = *self.since.get_or_insert(now);
        let gone = now.saturating_duration_since(since);
        if gone >= WINDOW {
            // What opens a window is never paused for: even a batch is less than a window may hold.
            (self.since, self.seen) = (Some(now), unasked);
            return None;
        }
        self.seen += unasked;
        // Only until the window is over, so that the stream goes on at the pace that is allowed.
        (self.seen > UNASKED).then(|| WINDOW - gone)
    }
}

/// Whether a message is one that servers send in floods: log messages, and requests of their own.
pub(crate) fn is_unasked(subject: MessageSubject) -> bool {
    subject.is_request() || subject == MessageSubject::Log
}

#[cfg(test)]
mod tests {
    use super::*;

    // edges G7
    #[test]
    fn a_flood_is_read_at_a_pace_and_a_burst_at_once() {
        let mut pace = UnaskedPace::default();
        let start = Instant::now();
        assert!((0..UNASKED).all(|_| pace.count_at(1, start).is_none()), "a burst");
        assert_eq!(pace.count_at(1, start), Some(WINDOW));
        assert_eq!(pace.count_at(1, start + WINDOW), None, "after the pause");
        let read = (0..100_000u32).filter(|_| true).fold((start, 0), |(now, read), _| match pace.count_at(1, now) {
            Some(pause) => (now + pause, read + 1),
            None => (now, read + 1),
        });
        let seconds = read.0.duration_since(start).as_secs_f64();
        assert!((8.0..12.0).contains(&seconds), "{seconds} s for {}", read.1);
    }
}
