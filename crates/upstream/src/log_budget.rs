//! How much of what a server says is written to the log.
//!
//! A server that writes without end must cost neither the disk nor the processor. Each has a budget in bytes; what exceeds it
//! is counted and left out, and the next line that fits says how much that was.

use std::time::{Duration, Instant};

use tidings_sync::Lock;

/// What a line costs beside its text: time, level, names.
const OVERHEAD: usize = 128;
/// How long nothing is written once the budget is used up.
const PAUSE: Duration = Duration::from_secs(1);

/// The budget of one server for one kind of noise.
#[derive(Debug)]
pub struct LogBudget {
    per_pause: usize,
    state: Lock<LogBudgetState>,
}

#[derive(Debug)]
struct LogBudgetState {
    left: usize,
    /// When the budget is as large as ever again.
    renewed: Option<Instant>,
    left_out: u64,
}

/// Whether a line is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineAdmission {
    /// It is, after a word about those that were left out before it.
    Write {
        /// How many those are.
        left_out: u64,
    },
    /// It is not. `first` is true for the first of several.
    LeaveOut {
        /// Whether the one before was written.
        first: bool,
    },
}

impl LogBudget {
    /// At most about this many bytes each second.
    pub const fn new(bytes_per_second: usize) -> Self {
        let state = LogBudgetState { left: bytes_per_second, renewed: None, left_out: 0 };
        Self { per_pause: bytes_per_second, state: Lock::new(state) }
    }

    /// A line of `len` bytes wants to be written.
    pub fn admit(&self, len: usize) -> LineAdmission {
        self.admit_at(len, Instant::now())
    }

    fn admit_at(&self, len: usize, now: Instant) -> LineAdmission {
        let mut state = self.state.lock();
        // The window begins with the first line, not with the server.
        let renewed = *state.renewed.get_or_insert(now + PAUSE);
        if now >= renewed {
            state.left = self.per_pause;
            state.renewed = Some(now + PAUSE);
        }
        let cost = len + OVERHEAD;
        // The first line after a pause is written however long it is.
        if cost > state.left && state.left < self.per_pause {
            state.left_out += 1;
            // What still fitted is given up: a short line must not come out between long ones that were left out.
            state.left = 0;
            return LineAdmission::LeaveOut { first: state.left_out == 1 };
        }
        state.left = state.left.saturating_sub(cost);
        LineAdmission::Write { left_out: std::mem::take(&mut state.left_out) }
    }

    /// Counts what was not even looked at.
    pub fn skip(&self, lines: u64) {
        self.state.lock().left_out += lines;
    }

    /// Whether the next line would be left out.
    pub fn is_exhausted(&self) -> bool {
        let state = self.state.lock();
        state.left == 0 && state.renewed.is_some_and(|renewed| Instant::now() < renewed)
    }

    /// How many lines were left out that nobody was told of yet.
    pub fn take_left_out(&self) -> u64 {
        std::mem::take(&mut self.state.lock().left_out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // edges G7
    #[test]
    fn a_flood_is_cut_to_the_budget_and_every_line_is_counted() {
        let budget = LogBudget::new(10_000);
        let start = Instant::now();
        let (mut bytes, mut written, mut told, mut firsts) = (0, 0, 0, 0);
        for i in 0..80_000 {
            match budget.admit_at(72, start + Duration::from_micros(100) * i) {
                LineAdmission::Write { left_out } => {
                    (bytes, written, told) = (bytes + 200, written + 1, told + left_out);
                }
                LineAdmission::LeaveOut { first } => firsts += u32::from(first),
            }
        }
        assert!((60_000..=90_000).contains(&bytes), "{bytes} bytes in 8 s");
        assert_eq!(written + told + budget.take_left_out(), 80_000);
        assert_eq!(firsts, 8, "once for each pause");
    }

    #[test]
    fn a_server_that_says_little_is_never_cut() {
        let budget = LogBudget::new(1_000);
        let start = Instant::now();
        for i in 0..100 {
            let admission = budget.admit_at(20_000, start + Duration::from_secs(1) * i);
            assert_eq!(admission, LineAdmission::Write { left_out: 0 }, "one long line a second");
        }
    }
}
