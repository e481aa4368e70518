//! A process group with its end attached: whoever holds it may drop it at any time.

use std::path::{Path, PathBuf};
use std::process::Child;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use super::reaper::Reaper;

const GRACE: Duration = Duration::from_secs(5);
const POLL: Duration = Duration::from_millis(10);

/// A child and everything it started in its group.
pub(super) struct Group<'a> {
    child: Child,
    reaper: &'a Reaper,
}

impl<'a> Group<'a> {
    pub(super) fn new(child: Child, reaper: &'a Reaper) -> Self {
        reaper.watch(child.id());
        Self { child, reaper }
    }

    pub(super) fn child(&mut self) -> &mut Child {
        &mut self.child
    }

    fn signal(&self, signal: Signal) {
        if let Some(group) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            // It may be gone already, which is what is wanted.
            let _ = kill_process_group(group, signal);
        }
    }

    fn ended_within(&mut self, time: Duration) -> bool {
        let deadline = Instant::now() + time;
        while Instant::now() < deadline {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return true;
            }
            thread::sleep(POLL);
        }
        false
    }
}

impl Drop for Group<'_> {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            self.signal(Signal::TERM);
            self.ended_within(GRACE);
        }
        // Also when the leader has ended: what it left behind is in the same group.
        self.signal(Signal::KILL);
        let _ = self.child.wait();
        self.reaper.forget(self.child.id());
    }
}

/// A server that runs while this guard lives.
pub(crate) struct Background<'a> {
    group: Group<'a>,
    log: PathBuf,
}

impl<'a> Background<'a> {
    pub(super) fn new(group: Group<'a>, log: &Path) -> Self {
        Self { group, log: log.to_owned() }
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        !matches!(self.group.child().try_wait(), Ok(None))
    }

    pub(crate) fn log(&self) -> &Path {
        &self.log
    }
}
