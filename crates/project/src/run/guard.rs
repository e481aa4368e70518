//! Nothing of a script outlives it, and none takes the machine with it.
//!
//! A script leads a process group, which is ended as a whole. What left the group is found by the mark in its environment:
//! at once when a script is put down, and soon after it ended by itself, with one look for all that ended since.
//!
//! The kernel's limit on processes counts all of a user's and does not hold for root. So the number is watched here: while
//! scripts run, the machine's number of tasks is read ten times a second, and the scripts' processes are counted when it
//! leaps, and from time to time also when it does not.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use tidings_sync::Lock;
use tidings_upstream::marked_processes;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// How many processes one call may have at a time, unless `TIDINGS_TOOL_PROCESSES` says otherwise.
pub(crate) const PROCESSES: usize = 256;
/// How often the number of tasks is read while scripts run.
const LOOK: Duration = Duration::from_millis(100);
/// After so many looks the processes are counted in any case: what others end hides the leap of what a script starts.
const LOOKS_UNTIL_COUNTED: u32 = 20;
/// How long after their end those that ended are gathered.
const GATHER: Duration = Duration::from_millis(500);

/// Watches over the scripts of one project.
pub(crate) struct ScriptGuard {
    mark: String,
    processes: usize,
    next: AtomicU64,
    state: Lock<GuardState>,
    tasks: TaskTracker,
    stop: CancellationToken,
}

#[derive(Default)]
struct GuardState {
    running: HashMap<String, CancellationToken>,
    looking: bool,
    ended: HashSet<String>,
    sweeping: bool,
}

/// A script that is watched until this is dropped.
pub(crate) struct GuardedScript {
    guard: Arc<ScriptGuard>,
    mark: String,
    overrun: CancellationToken,
}

impl ScriptGuard {
    /// Its tasks are tracked by `tasks` and end with `stop`.
    pub(crate) fn new(mark: &str, processes: usize, tasks: TaskTracker, stop: CancellationToken) -> Arc<Self> {
        // Several projects share a launcher.
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let mark = format!("{mark}.{}", NEXT.fetch_add(1, Ordering::Relaxed));
        Arc::new(Self { mark, processes, next: AtomicU64::new(1), state: Lock::default(), tasks, stop })
    }

    /// How many processes a call may have.
    pub(crate) fn limit(&self) -> usize {
        self.processes
    }

    /// The mark of a new call.
    pub(crate) fn next_mark(&self) -> String {
        format!("{}.{}", self.mark, self.next.fetch_add(1, Ordering::Relaxed))
    }

    /// Watches the processes of a script until the guard is dropped.
    pub(crate) fn watch(self: &Arc<Self>, mark: &str) -> GuardedScript {
        let overrun = CancellationToken::new();
        let mut state = self.lock();
        state.running.insert(mark.to_owned(), overrun.clone());
        // One task looks for all scripts, and only while some run.
        if !std::mem::replace(&mut state.looking, true) {
            self.tasks.spawn(Arc::clone(self).look());
        }
        GuardedScript { guard: Arc::clone(self), mark: mark.to_owned(), overrun }
    }

    /// A script has ended: what it left behind is looked for soon.
    pub(crate) fn ended(self: &Arc<Self>, mark: &str) {
        let mut state = self.lock();
        state.ended.insert(mark.to_owned());
        if !std::mem::replace(&mut state.sweeping, true) {
            let guard = Arc::clone(self);
            self.tasks.spawn(async move {
                tokio::select! {
                    () = tokio::time::sleep(GATHER) => {}
                    // Whoever stops sweeps everything.
                    () = guard.stop.cancelled() => return,
                }
                let ended = {
                    let mut state = guard.lock();
                    state.sweeping = false;
                    std::mem::take(&mut state.ended)
                };
                sweep(ended).await;
            });
        }
    }

    /// Ends what a script left behind, now.
    pub(crate) async fn sweep(&self, mark: &str) {
        sweep(HashSet::from([mark.to_owned()])).await;
    }

    /// Ends everything that carries a mark of this project.
    pub(crate) async fn sweep_all(&self) {
        let stem = format!("{}.", self.mark);
        let _ =
            tokio::task::spawn_blocking(move || marked_processes::kill_marked(|mark| mark.starts_with(&stem))).await;
    }

    async fn look(self: Arc<Self>) {
        let mut usual = tasks_of_machine();
        let mut looks = 0;
        loop {
            tokio::select! {
                () = tokio::time::sleep(LOOK) => {}
                () = self.stop.cancelled() => return,
            }
            if self.is_idle() {
                return;
            }
            let now = tasks_of_machine();
            looks += 1;
            // Counting walks through all of `/proc`, so most looks do without.
            if now > usual.saturating_add(self.processes) || looks >= LOOKS_UNTIL_COUNTED {
                looks = 0;
                let stem = format!("{}.", self.mark);
                let counted =
                    tokio::task::spawn_blocking(move || marked_processes::count(|mark| mark.starts_with(&stem)));
                let counts = counted.await.unwrap_or_default();
                let state = self.lock();
                for (mark, _) in counts.iter().filter(|(_, count)| **count > self.processes) {
                    // It may have ended while it was counted.
                    if let Some(overrun) = state.running.get(mark) {
                        overrun.cancel();
                    }
                }
            }
            // Never up: a fork bomb that grows slowly would raise its own threshold.
            usual = usual.min(now);
        }
    }

    fn is_idle(&self) -> bool {
        let mut state = self.lock();
        // Set under the lock: a script that begins now either keeps this task or starts the next.
        state.looking = !state.running.is_empty();
        !state.looking
    }

    fn lock(&self) -> MutexGuard<'_, GuardState> {
        self.state.lock()
    }
}

impl GuardedScript {
    /// It has more processes than it may.
    pub(crate) async fn overrun(&self) {
        self.overrun.cancelled().await;
    }
}

impl Drop for GuardedScript {
    fn drop(&mut self) {
        self.guard.lock().running.remove(&self.mark);
    }
}

async fn sweep(marks: HashSet<String>) {
    let found = marked_processes::end_marked(marks).await;
    if found > 0 {
        tracing::debug!(found, "processes that outlived their script were ended");
    }
}

/// All tasks of the machine, as `/proc/loadavg` tells; zero where it does not.
fn tasks_of_machine() -> usize {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    // The fourth field is `running/all`: one small read, where counting means a walk through `/proc`.
    let tasks = text.split_whitespace().nth(3).and_then(|field| field.split('/').nth(1)?.parse().ok());
    tasks.unwrap_or_default()
}
