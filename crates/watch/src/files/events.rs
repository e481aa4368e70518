//! Events of the file system: which paths to look at again.
//!
//! Folders are watched one by one, each before it is read, so that nothing falls between. The system forgets a folder
//! that is moved or replaced; whoever sees such an event arms all of them again.

use std::collections::{BTreeSet, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use notify::event::{AccessKind, AccessMode};
use notify::{ErrorKind, Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher as _};
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
    batch: Mutex<PathBatch>,
    interest: Mutex<PathInterest>,
    bell: Notify,
}

/// The folders whose events the system reports, and the paths that events came for.
pub(super) struct FolderEvents {
    watcher: RecommendedWatcher,
    pending: Arc<PendingPaths>,
    armed: BTreeSet<PathBuf>,
}

/// Why events can not be had.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum NoEvents {
    #[error("the file system is on another machine")]
    Network,
    #[error("too many folders are watched already; raise fs.inotify.max_user_watches")]
    TooMany,
    #[error("{0}")]
    System(String),
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl FolderEvents {
    pub(super) fn new() -> Result<Self, NoEvents> {
        let pending = Arc::new(PendingPaths::default());
        let own = Arc::clone(&pending);
        let handler = move |event: notify::Result<Event>| own.add(event);
        let watcher = notify::recommended_watcher(handler).map_err(|error| why(&error))?;
        Ok(Self { watcher, pending, armed: BTreeSet::new() })
    }

    /// Watches a folder. Watching it twice is repairing it.
    pub(super) fn arm(&mut self, folder: &Path) -> Result<(), NoEvents> {
        match self.watcher.watch(folder, RecursiveMode::NonRecursive) {
            Ok(()) => {
                self.armed.insert(folder.to_owned());
                Ok(())
            }
            // It will be seen to come back from the folder above.
            Err(error) if is_gone(&error) => Ok(()),
            Err(error) => Err(why(&error)),
        }
    }

    /// Forgets folders that are not where they were: under a new name the system takes them for the same.
    pub(super) fn forget_missing(&mut self) {
        let there: BTreeSet<PathBuf> = self.armed.iter().filter(|folder| folder.is_dir()).cloned().collect();
        self.keep(&there);
    }

    /// Watches none but these.
    pub(super) fn keep(&mut self, wanted: &BTreeSet<PathBuf>) {
        let old: Vec<PathBuf> = self.armed.difference(wanted).cloned().collect();
        for folder in old {
            // Those that are gone are forgotten already.
            let _ = self.watcher.unwatch(&folder);
            self.armed.remove(&folder);
        }
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

/// Reading changes nothing; our own reading above all.
fn is_idle(kind: EventKind) -> bool {
    // Our own reading causes events too; they must not cause the next look.
    matches!(kind, EventKind::Access(access) if access != AccessKind::Close(AccessMode::Write))
}

fn is_gone(error: &notify::Error) -> bool {
    match &error.kind {
        ErrorKind::PathNotFound => true,
        // A folder that may not be read has nothing to be listed; its own attributes are seen from above.
        ErrorKind::Io(error) => matches!(
            error.kind(),
            std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory | std::io::ErrorKind::PermissionDenied
        ),
        _ => false,
    }
}

fn why(error: &notify::Error) -> NoEvents {
    match &error.kind {
        ErrorKind::MaxFilesWatch => NoEvents::TooMany,
        ErrorKind::Io(error) => NoEvents::System(error.to_string()),
        _ => NoEvents::System(error.to_string()),
    }
}

/// Whether changes made by other machines would go unnoticed.
#[cfg(target_os = "linux")]
pub(super) fn is_remote(path: &Path) -> bool {
    // NFS, SMB (three generations), AFS, Coda, Ceph, 9P, VirtualBox, FUSE, Lustre.
    const REMOTE: [u64; 11] = [
        0x6969,
        0xFF53_4D42,
        0xFE53_4D42,
        0x517B,
        0x5346_414F,
        0x7375_7245,
        0x00C3_6400,
        0x0102_1997,
        0x786F_4256,
        0x6573_5546,
        0x0BD0_0BD0,
    ];
    // The path may come later; the file system is that of the folder it will be in.
    let existing = path.ancestors().find(|path| path.exists()).unwrap_or(path);
    rustix::fs::statfs(existing).is_ok_and(|about| REMOTE.contains(&(about.f_type.cast_unsigned() & 0xFFFF_FFFF)))
}

/// Elsewhere the system says so itself.
#[cfg(not(target_os = "linux"))]
pub(super) fn is_remote(_path: &Path) -> bool {
    false
}
