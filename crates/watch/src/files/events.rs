//! Events of the file system: which paths to look at again.
//!
//! Folders are watched one by one, each before it is read, so that nothing falls between. The system forgets a folder
//! that is moved or replaced; whoever sees such an event arms all of them again.

use std::collections::{BTreeSet, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, MutexGuard};

use notify::Event;
use tidings_folder_events::{FolderWatcher, NoEvents, is_idle};
use tidings_sync::Lock;
use tokio::sync::Notify;

/// More paths than this are as good as all.
const MOST_PATHS: usize = 4_096;

/// Paths that something happened to.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct PathBatch {
    pub(super) paths: HashSet<PathBuf>,
    /// Events were lost, or are too many: anything may have changed.
    pub(super) all: bool,
}

/// Which paths matter. Others in the same folders are none of our business.
#[derive(Debug, Default)]
pub(super) struct PathInterest {
    pub(super) root: Option<PathBuf>,
    pub(super) entries: BTreeSet<PathBuf>,
}

#[derive(Default)]
struct PendingPaths {
    batch: Lock<PathBatch>,
    interest: Lock<PathInterest>,
    bell: Notify,
}

/// The folders whose events the system reports, and the paths that events came for.
pub(super) struct FolderEvents {
    folders: FolderWatcher,
    pending: Arc<PendingPaths>,
}

fn lock<T>(mutex: &Lock<T>) -> MutexGuard<'_, T> {
    mutex.lock()
}

impl FolderEvents {
    /// Events at or below a path.
    pub(super) fn of(path: &Path) -> Result<Self, NoEvents> {
        let pending = Arc::new(PendingPaths::default());
        let own = Arc::clone(&pending);
        let folders = FolderWatcher::of(path, move |event: notify::Result<Event>| own.add(event))?;
        Ok(Self { folders, pending })
    }

    /// Watches a folder. Watching it twice is repairing it.
    pub(super) fn arm(&mut self, folder: &Path) -> Result<(), NoEvents> {
        match self.folders.arm(folder) {
            // It will be seen to come back from the folder above. One that may not be read has nothing to be listed; its own
            // attributes are seen from above.
            Ok(_) | Err(NoEvents::NotThere) => Ok(()),
            Err(why) => Err(why),
        }
    }

    /// Forgets folders that are not where they were.
    pub(super) fn forget_missing(&mut self) {
        self.folders.forget_missing();
    }

    /// Watches none but these.
    pub(super) fn keep(&mut self, wanted: &BTreeSet<PathBuf>) {
        self.folders.keep(wanted);
    }

    pub(super) fn set_interest(&self, interest: PathInterest) {
        *lock(&self.pending.interest) = interest;
    }

    /// Handle to wait for events without holding the rest.
    pub(super) fn bell(&self) -> EventBell {
        EventBell(Arc::clone(&self.pending))
    }
}

/// Wakes whoever waits for paths that something happened to.
pub(super) struct EventBell(Arc<PendingPaths>);

impl EventBell {
    /// What happened since the last time.
    pub(super) async fn next(&self) -> PathBatch {
        loop {
            let batch = std::mem::take(&mut *lock(&self.0.batch));
            if batch != PathBatch::default() {
                return batch;
            }
            self.0.bell.notified().await;
        }
    }
}

impl PendingPaths {
    fn add(&self, event: notify::Result<Event>) {
        let mut batch = lock(&self.batch);
        match event {
            // The system dropped events because too many came.
            Ok(event) if event.need_rescan() => batch.all = true,
            Ok(event) if is_idle(event.kind) => return,
            Ok(event) => {
                // Taken under the lock of the batch; nobody takes the two in the other order.
                let interest = lock(&self.interest);
                let paths: Vec<PathBuf> = event.paths.into_iter().filter(|path| interest.covers(path)).collect();
                if paths.is_empty() {
                    return;
                }
                batch.paths.extend(paths);
            }
            // What the error was about is not known.
            Err(_) => batch.all = true,
        }
        if batch.paths.len() > MOST_PATHS {
            // Beyond this many, looking at everything is cheaper than the set of them.
            *batch = PathBatch { all: true, ..PathBatch::default() };
        }
        drop(batch);
        self.bell.notify_one();
    }
}

impl PathInterest {
    fn covers(&self, path: &Path) -> bool {
        self.root.as_ref().is_some_and(|root| path.starts_with(root)) || self.entries.contains(path)
    }
}
