//! How big a process is.

use std::fmt;

/// What must not grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Vitals {
    /// Resident memory in KiB.
    pub memory: u64,
    /// Open files and sockets.
    pub files: u64,
    /// How many threads the process has.
    pub threads: u64,
}

impl Vitals {
    /// Those of a running process; `None` when there is none of this number.
    pub fn of(process: u32) -> Option<Self> {
        let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
        let number = |name: &str| -> Option<u64> {
            let line = status.lines().find_map(|line| line.strip_prefix(name))?;
            line.split_whitespace().next()?.parse().ok()
        };
        let files = std::fs::read_dir(format!("/proc/{process}/fd")).ok()?.count() as u64;
        Some(Self { memory: number("VmRSS:")?, files, threads: number("Threads:")? })
    }

    /// The larger of each number.
    pub fn larger(self, other: Self) -> Self {
        Self {
            memory: self.memory.max(other.memory),
            files: self.files.max(other.files),
            threads: self.threads.max(other.threads),
        }
    }

    /// The median of each number.
    pub fn middle(all: &[Self]) -> Option<Self> {
        let median = |number: fn(&Self) -> u64| -> Option<u64> {
            let mut numbers: Vec<u64> = all.iter().map(number).collect();
            numbers.sort_unstable();
            numbers.get(numbers.len() / 2).copied()
        };
        Some(Self { memory: median(|v| v.memory)?, files: median(|v| v.files)?, threads: median(|v| v.threads)? })
    }

    /// Whether this is flat against what was seen in the warm-up, apart from what an allocator or a pool of connections
    /// may keep.
    pub fn is_flat_after(self, warm: Self) -> bool {
        // A fifth and 8 MiB more: allocators give memory back late.
        self.memory <= warm.memory + warm.memory / 5 + 8 * 1024
            // Pools keep connections, and the runtime starts threads for blocking work as it needs them.
            && self.files <= warm.files + 32
            && self.threads <= warm.threads + 4
    }
}

impl fmt::Display for Vitals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.1} MiB, {} files, {} threads", self.memory as f64 / 1024.0, self.files, self.threads)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_is_seen() {
        let warm = Vitals { memory: 20 * 1024, files: 50, threads: 3 };
        assert!(warm.is_flat_after(warm));
        assert!(!Vitals { memory: 40 * 1024, ..warm }.is_flat_after(warm));
        assert!(!Vitals { files: 100, ..warm }.is_flat_after(warm));
        assert!(!Vitals { threads: 10, ..warm }.is_flat_after(warm));
    }

    #[test]
    fn one_peak_does_not_move_the_middle() {
        let usual = Vitals { memory: 20, files: 50, threads: 3 };
        let peak = Vitals { memory: 900, files: 900, threads: 900 };
        assert_eq!(Vitals::middle(&[usual, peak, usual]), Some(usual));
        assert_eq!(Vitals::middle(&[]), None);
    }

    #[test]
    fn this_process_has_vitals() {
        let vitals = Vitals::of(std::process::id()).unwrap_or_default();
        assert!(vitals.memory > 0 && vitals.files > 0 && vitals.threads > 0, "{vitals}");
    }
}
