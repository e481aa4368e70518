//! Hearing of changes in a project's folders.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use notify::event::{AccessKind, AccessMode};
use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher as _};
use tokio::sync::Notify;

/// The watched folders. An event is a reason to look, no more.
pub(crate) struct WatchedFolders {
    watcher: RecommendedWatcher,
    armed: BTreeSet<PathBuf>,
    bell: Arc<Notify>,
}

impl WatchedFolders {
    /// Fails where the system has none to give.
    pub(crate) fn new(root: &Path) -> Result<Self, String> {
        if is_remote(root) {
            return Err("the file system is on another machine".into());
        }
        let bell = Arc::new(Notify::new());
        let own = Arc::clone(&bell);
        let handler = move |event: notify::Result<Event>| {
            if !event.is_ok_and(|event| is_idle(event.kind) && !event.need_rescan()) {
                own.notify_one();
            }
        };
        let watcher = notify::recommended_watcher(handler).map_err(|error| error.to_string())?;
        Ok(Self { watcher, armed: BTreeSet::new(), bell })
    }

    /// Rings after something happened; one ring may stand for many events.
    pub(crate) fn bell(&self) -> Arc<Notify> {
        Arc::clone(&self.bell)
    }

    /// Watches these folders and no others. Says whether one is new, in which something may have happened already.
    pub(crate) fn watch(&mut self, folders: &BTreeSet<PathBuf>) -> Result<bool, String> {
        let gone: Vec<PathBuf> = self.armed.difference(folders).cloned().collect();
        for folder in gone {
            // The system has forgotten those that were removed.
            let _ = self.watcher.unwatch(&folder);
            self.armed.remove(&folder);
        }
        let mut is_new = false;
        for folder in folders {
            // Watching twice repairs: a folder that was replaced looks the same by name.
            match self.watcher.watch(folder, RecursiveMode::NonRecursive) {
                Ok(()) => is_new |= self.armed.insert(folder.clone()),
                Err(_) if !folder.is_dir() => {}
                Err(error) => return Err(error.to_string()),
            }
        }
        Ok(is_new)
    }
}

/// Reading changes nothing; our own reading above all.
fn is_idle(kind: EventKind) -> bool {
    matches!(kind, EventKind::Access(access) if access != AccessKind::Close(AccessMode::Write))
}

/// Whether changes made by other machines would go unnoticed.
#[cfg(target_os = "linux")]
fn is_remote(path: &Path) -> bool {
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
    rustix::fs::statfs(path).is_ok_and(|about| REMOTE.contains(&(about.f_type.cast_unsigned() & 0xFFFF_FFFF)))
}

/// Elsewhere the system says so itself.
#[cfg(not(target_os = "linux"))]
fn is_remote(_path: &Path) -> bool {
    false
}
