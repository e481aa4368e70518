//! How long to wait before the next try of a source that can not be reached.

use std::time::Duration;

/// The first wait after a failure.
const FIRST: Duration = Duration::from_secs(1);
/// The longest, unless the source is asked more rarely anyway.
const LONGEST: Duration = Duration::from_secs(5 * 60);

/// A tenth more or less, so that many do not come at once.
pub(super) fn jittered(length: Duration) -> Duration {
    let mut random = [0; 2];
    // Without randomness everybody comes at once, which is no reason to fail.
    let _ = getrandom::fill(&mut random);
    length.mul_f64(0.9 + f64::from(u16::from_le_bytes(random)) / f64::from(u16::MAX) / 5.0)
}

/// The wait after so many failures in a row, of something that is asked this often. Twice as long each time.
pub(super) fn after(failures: u32, every: Duration) -> Duration {
    // Bounded before the shift: failures are counted for as long as the source is away.
    let doubled = every.max(FIRST).saturating_mul(1 << failures.saturating_sub(1).min(16));
    doubled.min(LONGEST.max(every))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patience_doubles_up_to_a_limit() {
        let seconds = |failures, every| after(failures, Duration::from_secs(every)).as_secs();
        assert_eq!([1, 2, 3, 4].map(|failures| seconds(failures, 0)), [1, 2, 4, 8]);
        assert_eq!([1, 2, 9, 99].map(|failures| seconds(failures, 30)), [30, 60, 300, 300]);
        assert_eq!(seconds(5, 3_600), 3_600);
    }

    #[test]
    fn jitter_stays_within_a_tenth() {
        for _ in 0..1_000 {
            let length = jittered(Duration::from_secs(100)).as_secs_f64();
            assert!((89.9..=110.1).contains(&length), "{length}");
        }
    }
}
