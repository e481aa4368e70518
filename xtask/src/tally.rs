//! Counting checks, also from what test runners print.

use std::fmt;
use std::ops::AddAssign;

/// How many checks passed and failed.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Tally {
    pub(crate) passed: usize,
    pub(crate) failed: usize,
}

impl Tally {
    pub(crate) const ONE_PASSED: Self = Self { passed: 1, failed: 0 };
    pub(crate) const ONE_FAILED: Self = Self { passed: 0, failed: 1 };

    /// Sums the summary lines of cargo-nextest, `cargo test` and our Python scripts.
    pub(crate) fn from_output(output: &str) -> Self {
        let mut sum = Self::default();
        for line in output.lines() {
            let line = without_colours(line);
            let is_summary = line.contains("Summary [")
                || line.contains("test result:")
                // Scripts of this repository begin the line with the number itself.
                || line.chars().next().is_some_and(|first| first.is_ascii_digit());
            if is_summary && line.contains(" passed") {
                sum.passed += number_before(&line, "passed");
                sum.failed += number_before(&line, "failed");
            }
        }
        sum
    }
}

/// How many tests passed at the second attempt, by the summary of cargo-nextest.
pub(crate) fn flaky_in(output: &str) -> usize {
    let summaries = output.lines().map(without_colours).filter(|line| line.contains("Summary ["));
    summaries.map(|line| number_before(&line, "flaky")).sum()
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "xtask: {} passed, {} failed", self.passed, self.failed)
    }
}

fn number_before(line: &str, word: &str) -> usize {
    let words: Vec<&str> = line.split(|c: char| !c.is_alphanumeric()).filter(|w| !w.is_empty()).collect();
    words.windows(2).find(|pair| pair[1] == word).and_then(|pair| pair[0].parse().ok()).unwrap_or(0)
}

fn without_colours(line: &str) -> String {
    let mut plain = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(start) = rest.find('\x1b') {
        plain.push_str(&rest[..start]);
        let escape = &rest[start..];
        rest = escape.find('m').map_or("", |end| &escape[end + 1..]);
    }
    plain.push_str(rest);
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_that_pass_at_the_second_attempt_are_counted() {
        let summary = "     Summary [   3.034s] 12 tests run: 12 passed (1 slow, 2 flaky), 3 skipped";
        assert_eq!((flaky_in(summary), Tally::from_output(summary).passed), (2, 12));
        assert_eq!(flaky_in("     Summary [   3.034s] 12 tests run: 12 passed, 3 skipped"), 0);
    }

    #[test]
    fn summaries_of_all_runners_are_understood() {
        let nextest = "     Summary [   0.034s] 12 tests run: 11 passed (1 slow), 1 failed, 3 skipped";
        assert_eq!(Tally::from_output(nextest), Tally { passed: 11, failed: 1 });
        let cargo = "test result: ok. 5 passed; 0 failed; 1 ignored\ntest result: ok. 2 passed; 0 failed";
        assert_eq!(Tally::from_output(cargo), Tally { passed: 7, failed: 0 });
        assert_eq!(Tally::from_output("PASS a\n16 passed, 2 failed"), Tally { passed: 16, failed: 2 });
    }

    #[test]
    fn colours_do_not_hide_numbers() {
        let line = "\x1b[32;1m     Summary\x1b[0m [ 1s] \x1b[1m3\x1b[0m tests run: \x1b[1m3\x1b[0m \x1b[32;1mpassed\x1b[0m, 0 skipped";
        assert_eq!(Tally::from_output(line), Tally { passed: 3, failed: 0 });
    }
}
