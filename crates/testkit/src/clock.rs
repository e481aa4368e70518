//! A clock that moves when it is told to, for code that takes `now` as an argument.

use std::time::{Duration, Instant};

/// A clock that stands until it is moved on: machines that take the time as a value are tested with it.
#[derive(Clone, Copy, Debug)]
pub struct ManualClock {
    now: Instant,
}

impl ManualClock {
    /// A clock that stands still.
    pub fn new() -> Self {
        Self { now: Instant::now() }
    }

    /// The time.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// Moves on, and tells the new time.
    pub fn advance(&mut self, by: Duration) -> Instant {
        self.now += by;
        self.now
    }
}

impl Default for ManualClock {
    fn default() -> Self {
        Self::new()
    }
}
