//! The last things that happened, for the report of a failure.

use std::collections::VecDeque;
use std::time::Instant;

const KEPT: usize = 400;

#[derive(Debug)]
pub(crate) struct SoakTrace {
    begun: Instant,
    lines: VecDeque<String>,
}

impl SoakTrace {
    pub(crate) fn new(begun: Instant) -> Self {
        Self { begun, lines: VecDeque::new() }
    }

    pub(crate) fn note(&mut self, line: impl AsRef<str>) {
        if self.lines.len() == KEPT {
            self.lines.pop_front();
        }
        let at = self.begun.elapsed();
        self.lines.push_back(format!("{:9.3} s  {}", at.as_secs_f64(), line.as_ref()));
    }

    pub(crate) fn print(&self, title: &str) {
        eprintln!("--- {title}, the last {} lines", self.lines.len());
        for line in &self.lines {
            eprintln!("{line}");
        }
    }
}
