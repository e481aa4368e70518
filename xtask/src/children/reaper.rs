//! A second process that kills what is left when xtask ends without cleaning up, as after Ctrl-C or
//! SIGKILL. It learns of process groups through its standard input, whose end tells it to act.

use std::collections::BTreeSet;
use std::io::{self, BufRead, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, ExitCode, Stdio};
use std::sync::{Mutex, PoisonError};

use rustix::process::{Pid, Signal, kill_process_group};

use crate::failure::Failure;

/// The argument that makes xtask be the reaper.
pub(crate) const REAPER_ARGUMENT: &str = "--reap-children";

/// The task's end of the line to the reaper.
pub(super) struct Reaper {
    process: Child,
    line: Mutex<Option<ChildStdin>>,
}

impl Reaper {
    pub(super) fn start() -> Result<Self, Failure> {
        let failed = |source| Failure::Start { command: format!("xtask {REAPER_ARGUMENT}"), source };
        let program = std::env::current_exe().map_err(failed)?;
        // Its own group, so that Ctrl-C does not end it before its work.
        let mut process = Command::new(program)
            .arg(REAPER_ARGUMENT)
            .process_group(0)
            .stdin(Stdio::piped())
            .spawn()
            .map_err(failed)?;
        let line = Mutex::new(process.stdin.take());
        Ok(Self { process, line })
    }

    pub(super) fn watch(&self, group: u32) {
        self.tell('+', group);
    }

    pub(super) fn forget(&self, group: u32) {
        self.tell('-', group);
    }

    fn tell(&self, what: char, group: u32) {
        let mut line = self.line.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(line) = line.as_mut() {
            // Without a reaper the guards still clean up; only a sudden end would leave orphans.
            let _ = writeln!(line, "{what}{group}");
        }
    }
}

impl Drop for Reaper {
    fn drop(&mut self) {
        // First: the reaper ends with its input, so that waiting for it before would never return.
        drop(self.line.lock().unwrap_or_else(PoisonError::into_inner).take());
        let _ = self.process.wait();
    }
}

/// The reaper's whole life.
pub(crate) fn reap_until_parent_ends() -> ExitCode {
    let mut alive = BTreeSet::new();
    for line in io::stdin().lock().lines().map_while(Result::ok) {
        note(&mut alive, &line);
    }
    for group in alive.into_iter().filter_map(Pid::from_raw) {
        let _ = kill_process_group(group, Signal::KILL);
    }
    ExitCode::SUCCESS
}

fn note(alive: &mut BTreeSet<i32>, line: &str) {
    if let Some(group) = line.strip_prefix('+').and_then(|id| id.parse().ok()) {
        alive.insert(group);
    } else if let Some(group) = line.strip_prefix('-').and_then(|id| id.parse().ok()) {
        alive.remove(&group);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_remembered_until_it_is_forgotten() {
        let mut alive = BTreeSet::new();
        for line in ["+10", "+11", "-10", "nonsense"] {
            note(&mut alive, line);
        }
        assert_eq!(alive, BTreeSet::from([11]));
    }
}
