//! Watching folders one by one, for whoever keeps up with what is in them, and the reasons why that can not be had.
//!
//! What belongs here: the system's watches, and which file systems have none worth having. What does not: what an event
//! means, and what to do without events.

mod file_bell;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

pub use file_bell::FileBell;
use notify::event::{AccessKind, AccessMode};
use notify::{ErrorKind, EventHandler, EventKind, RecommendedWatcher, RecursiveMode, Watcher as _};

/// The watched folders. The system forgets a folder that is moved or replaced; watching it again repairs that.
pub struct FolderWatcher {
    watcher: RecommendedWatcher,
    armed: BTreeSet<PathBuf>,
}

/// Why events can not be had.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoEvents {
    /// What other machines change is not heard of.
    #[error("the file system is on another machine")]
    Network,
    /// The system's limit is reached.
    #[error("too many folders are watched already; raise fs.inotify.max_user_watches")]
    TooMany,
    /// The folder is gone, is no folder, or may not be read.
    #[error("the folder is not there, or may not be read")]
    NotThere,
    /// Any other reason, in the words of the system.
    #[error("{0}")]
    System(String),
}

impl FolderWatcher {
    /// Events for folders at or below a path, which need not exist. Fails where the system has none to give.
    pub fn of(path: &Path, handler: impl EventHandler) -> Result<Self, NoEvents> {
        if is_remote(path) {
            return Err(NoEvents::Network);
        }
        let watcher = notify::recommended_watcher(handler).map_err(|error| why(&error))?;
        Ok(Self { watcher, armed: BTreeSet::new() })
    }

    /// Watches a folder. Watching it twice is repairing it: one that was replaced looks the same by name. Says whether it was
    /// not watched before.
    pub fn arm(&mut self, folder: &Path) -> Result<bool, NoEvents> {
        self.watcher.watch(folder, RecursiveMode::NonRecursive).map_err(|error| why(&error))?;
        Ok(self.armed.insert(folder.to_owned()))
    }

    /// Watches none but these.
    pub fn keep(&mut self, wanted: &BTreeSet<PathBuf>) {
        let old: Vec<PathBuf> = self.armed.difference(wanted).cloned().collect();
        for folder in old {
            // The system has forgotten those that are gone.
            let _ = self.watcher.unwatch(&folder);
            self.armed.remove(&folder);
        }
    }

    /// Forgets folders that are not where they were: under a new name the system takes them for the same.
    pub fn forget_missing(&mut self) {
        let there: BTreeSet<PathBuf> = self.armed.iter().filter(|folder| folder.is_dir()).cloned().collect();
        self.keep(&there);
    }
}

/// Reading changes nothing; our own reading above all.
pub fn is_idle(kind: EventKind) -> bool {
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
        _ if is_gone(error) => NoEvents::NotThere,
        ErrorKind::MaxFilesWatch => NoEvents::TooMany,
        ErrorKind::Io(error) => NoEvents::System(error.to_string()),
        _ => NoEvents::System(error.to_string()),
    }
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
    // The path may come later; the file system is that of the folder it will be in.
    let existing = path.ancestors().find(|path| path.exists()).unwrap_or(path);
    rustix::fs::statfs(existing).is_ok_and(|about| REMOTE.contains(&(about.f_type.cast_unsigned() & 0xFFFF_FFFF)))
}

/// Elsewhere the system says so itself.
#[cfg(not(target_os = "linux"))]
fn is_remote(_path: &Path) -> bool {
    false
}
