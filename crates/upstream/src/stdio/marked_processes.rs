//! Processes by a mark in their environment: how those are found that left their process group.
//!
//! A mark is inherited by all that a process starts, unless somebody clears the environment on purpose. Only Linux tells
//! the environment of a process; elsewhere nothing is found.

use std::collections::{HashMap, HashSet};
use std::io::Read as _;
use std::sync::MutexGuard;

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use tidings_sync::Lock;

/// The variable that holds the mark: `LAUNCHER.NUMBER`.
pub const MARK: &str = "TIDINGS_RUN";
/// An environment is read up to this size.
const LONGEST: u64 = 4 << 20;

/// A process that carries a mark.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MarkedProcess {
    /// Its process id, which is good only as long as the process lives.
    pub pid: i32,
    /// The value of [`MARK`] in its environment.
    pub mark: String,
}

/// Every living process with a mark that is wanted.
pub fn marked(wanted: impl Fn(&str) -> bool) -> Vec<MarkedProcess> {
    let own = i32::try_from(std::process::id()).unwrap_or_default();
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    // Most environments fit, and are read at once.
    let mut text = Vec::with_capacity(64 << 10);
    pids.filter(|pid| *pid != own)
        .filter_map(|pid| mark_of(pid, &mut text).filter(|mark| wanted(mark)).map(|mark| MarkedProcess { pid, mark }))
        .collect()
}

/// How many processes carry each of the wanted marks.
pub fn count(wanted: impl Fn(&str) -> bool) -> HashMap<String, usize> {
    let mut counts = HashMap::new();
    for process in marked(wanted) {
        *counts.entry(process.mark).or_default() += 1;
    }
    counts
}

/// Kills every process with a wanted mark, and with it the group that it leads. Goes on until none is left: what is killed
/// may have started others in the meantime. Gives the number of those found.
pub fn kill_marked(wanted: impl Fn(&str) -> bool) -> usize {
    /// More rounds than any chain of forks survives.
    const ROUNDS: usize = 50;
    let mut found = 0;
    for _ in 0..ROUNDS {
        let left = marked(&wanted);
        if left.is_empty() {
            break;
        }
        found += left.len();
        for pid in left.iter().filter_map(|process| Pid::from_raw(process.pid)) {
            // It may lead a group that it made itself; the process alone would leave the others.
            let _ = kill_process_group(pid, Signal::KILL);
            let _ = kill_process(pid, Signal::KILL);
        }
        // Gives the killed the time to disappear from `/proc`.
        std::thread::yield_now();
    }
    found
}

/// Ends all that carries one of these marks. Gives the number of those found.
pub async fn end_marked(marks: HashSet<String>) -> usize {
    // Reads the environment of every process of the machine.
    let found = tokio::task::spawn_blocking(move || kill_marked(|mark| marks.contains(mark))).await;
    found.unwrap_or_default()
}

/// Ends what servers left behind. To look for it is to look at every process of the machine, so those that end at the same
/// time share a look.
#[derive(Default)]
pub(crate) struct StragglerSweep {
    waiting: Lock<HashSet<String>>,
    looking: tokio::sync::Mutex<()>,
}

impl StragglerSweep {
    /// Ends everything with this mark.
    pub(crate) async fn end(&self, mark: String) {
        // Before the turn is waited for, so that whoever looks meanwhile looks for this one too.
        self.waiting().insert(mark.clone());
        let _looking = self.looking.lock().await;
        // Whoever looked meanwhile has looked for this one too.
        if !self.waiting().contains(&mark) {
            return;
        }
        let marks = std::mem::take(&mut *self.waiting());
        let found = end_marked(marks).await;
        if found > 0 {
            tracing::debug!(found, "processes that outlived their server were ended");
        }
    }

    fn waiting(&self) -> MutexGuard<'_, HashSet<String>> {
        self.waiting.lock()
    }
}

/// The dead have an empty environment, and that of others can not be read.
fn mark_of(pid: i32, text: &mut Vec<u8>) -> Option<String> {
    text.clear();
    std::fs::File::open(format!("/proc/{pid}/environ")).ok()?.take(LONGEST).read_to_end(text).ok()?;
    text.split(|byte| *byte == 0).find_map(|variable| {
        let value = variable.strip_prefix(MARK.as_bytes())?.strip_prefix(b"=")?;
        std::str::from_utf8(value).ok().map(str::to_owned)
    })
}

#[cfg(all(test, target_os = "linux"))]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::Command;
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn a_marked_process_is_found_and_killed_and_others_are_left() {
        let mark = format!("marked_processes-{}.1", std::process::id());
        let sleep = |mark: &str| Command::new("sleep").arg("60").env(MARK, mark).spawn().unwrap();
        let mut ours = sleep(&mark);
        let mut other = sleep(&format!("{mark}0"));
        // A process that has just been started has no environment to be read for a moment: the kernel sets it up last.
        let deadline = Instant::now() + Duration::from_secs(10);
        while count(|found| found == mark).is_empty() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(count(|found| found == mark), HashMap::from([(mark.clone(), 1)]));
        kill_marked(|found| found == mark);
        assert_eq!(ours.wait().unwrap().signal(), Some(9));
        assert!(other.try_wait().unwrap().is_none());
        other.kill().unwrap();
        other.wait().unwrap();
    }
}
