//! Hearing of changes in a project's folders.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use notify::Event;
use tidings_folder_events::{FolderWatcher, NoEvents, is_idle};
use tokio::sync::Notify;

/// The watched folders. An event is a reason to look, no more.
pub(crate) struct WatchedFolders {
    folders: FolderWatcher,
    bell: Arc<Notify>,
}

impl WatchedFolders {
    /// Fails where the system has none to give.
    pub(crate) fn new(root: &Path) -> Result<Self, NoEvents> {
        let bell = Arc::new(Notify::new());
        let own = Arc::clone(&bell);
        let handler = move |event: notify::Result<Event>| {
            // An event that the system lost says nothing about its kind.
            if !event.is_ok_and(|event| is_idle(event.kind) && !event.need_rescan()) {
                own.notify_one();
            }
        };
        Ok(Self { folders: FolderWatcher::of(root, handler)?, bell })
    }

    /// Rings after something happened; one ring may stand for many events.
    pub(crate) fn bell(&self) -> Arc<Notify> {
        Arc::clone(&self.bell)
    }

    /// Watches these folders and no others. Says whether one is new, in which something may have happened already.
    pub(crate) fn watch(&mut self, folders: &BTreeSet<PathBuf>) -> Result<bool, NoEvents> {
        // First: what is let go makes room where the system's limit on watches is reached.
        self.folders.keep(folders);
        let mut is_new = false;
        for folder in folders {
            match self.folders.arm(folder) {
                Ok(new) => is_new |= new,
                // It went away between the look and this; the next look does not have it.
                Err(_) if !folder.is_dir() => {}
                Err(why) => return Err(why),
            }
        }
        Ok(is_new)
    }
}
