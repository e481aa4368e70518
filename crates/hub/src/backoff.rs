//! How long to wait before something that failed is tried again.

use std::time::Duration;

/// Pauses that double with each failure in a row, up to the longest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryBackoff {
    /// The pause after the first failure.
    pub first: Duration,
    /// No pause grows beyond this.
    pub longest: Duration,
}

impl RetryBackoff {
    /// The pause after so many failures in a row.
    pub fn after(self, failures: u32) -> Duration {
        // Bounded before the shift: failures are counted for as long as a server is away.
        let doublings = failures.saturating_sub(1).min(16);
        self.first.saturating_mul(1 << doublings).min(self.longest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_doubles_with_each_failure_up_to_the_longest() {
        let backoff = RetryBackoff { first: Duration::from_millis(200), longest: Duration::from_secs(1) };
        let pauses = [0, 1, 2, 3, 4, u32::MAX].map(|failures| backoff.after(failures).as_millis());
        assert_eq!(pauses, [200, 200, 400, 800, 1_000, 1_000]);
    }
}
