//! Hearing that single files changed, for whoever looks at them then.
//!
//! The folder of each file is watched: files are replaced, and may not be there yet. Where a folder can not be watched, the bell rings
//! from time to time, and whoever hears it looks whether there is something new.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use notify::Event;
use tokio::sync::Notify;

use crate::{FolderWatcher, is_idle};

/// Rings when something happened to one of its files.
pub struct FileBell {
    rings: Arc<Notify>,
    watchers: BTreeMap<PathBuf, FolderWatcher>,
    /// How often it rings where there are no events.
    poll: Duration,
    is_blind: bool,
}

impl FileBell {
    /// A bell of no file.
    pub fn new(poll: Duration) -> Self {
        Self { rings: Arc::default(), watchers: BTreeMap::new(), poll, is_blind: false }
    }

    /// Hears of these files from now on. Whoever looks at them after this misses nothing; again before every look, since the system
    /// forgets a folder that is moved or replaced.
    pub fn watch(&mut self, files: &BTreeSet<PathBuf>) {
        self.is_blind = false;
        for file in files {
            let armed = file.parent().is_some_and(|folder| {
                let watcher = match self.watchers.remove(file) {
                    Some(watcher) => Some(watcher),
                    None => FolderWatcher::of(folder, ring(file, Arc::clone(&self.rings))).ok(),
                };
                let armed = watcher.and_then(|mut watcher| watcher.arm(folder).is_ok().then_some(watcher));
                armed.map(|watcher| self.watchers.insert(file.clone(), watcher)).is_some()
            });
            self.is_blind |= !armed;
        }
        self.watchers.retain(|file, _| files.contains(file));
    }

    /// Waits for the next ring.
    pub async fn rung(&self) {
        let due = async {
            match self.is_blind {
                true => tokio::time::sleep(self.poll).await,
                false => std::future::pending().await,
            }
        };
        tokio::select! {
            () = self.rings.notified() => {}
            () = due => {}
        }
    }
}

fn ring(file: &Path, rings: Arc<Notify>) -> impl Fn(notify::Result<Event>) + Send + 'static {
    let file = file.to_owned();
    move |event| {
        let is_foreign = event.is_ok_and(|event| {
            // Of the folder itself, too: it is gone or moved, and must be watched anew.
            let names = |path: &PathBuf| *path == file || file.starts_with(path);
            !event.need_rescan() && (is_idle(event.kind) || !event.paths.iter().any(names))
        });
        // What can not be understood may be a change.
        if !is_foreign {
            rings.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(10);

    async fn rings(bell: &FileBell) -> bool {
        tokio::time::timeout(PATIENCE, bell.rung()).await.is_ok()
    }

    #[tokio::test]
    async fn it_rings_for_its_file_alone_also_when_that_or_its_folder_is_replaced() {
        let around = std::env::temp_dir().join(format!("tidings-file-bell-{}", std::process::id()));
        let folder = around.join("inner");
        let file = folder.join("one");
        std::fs::create_dir_all(&folder).unwrap_or_else(|error| panic!("{error}"));
        let write = |path: &Path| std::fs::write(path, "x").unwrap_or_else(|error| panic!("{error}"));
        let mut bell = FileBell::new(Duration::from_millis(10));
        let files = BTreeSet::from([file.clone()]);
        bell.watch(&files);
        assert!(!bell.is_blind);
        write(&folder.join("other"));
        write(&folder.join("new"));
        write(&file);
        assert!(rings(&bell).await, "it is there");
        while tokio::time::timeout(Duration::from_millis(100), bell.rung()).await.is_ok() {}
        write(&folder.join("other"));
        assert!(tokio::time::timeout(Duration::from_millis(100), bell.rung()).await.is_err(), "a neighbour");
        std::fs::rename(folder.join("new"), &file).unwrap_or_else(|error| panic!("{error}"));
        assert!(rings(&bell).await, "it is another");
        while tokio::time::timeout(Duration::from_millis(100), bell.rung()).await.is_ok() {}
        std::fs::remove_dir_all(&folder).unwrap_or_else(|error| panic!("{error}"));
        assert!(rings(&bell).await, "it is gone with its folder");
        bell.watch(&files);
        assert!(bell.is_blind && rings(&bell).await, "without a folder it rings from time to time");
        std::fs::create_dir_all(&folder).unwrap_or_else(|error| panic!("{error}"));
        bell.watch(&files);
        assert!(!bell.is_blind, "the folder is back");
        while tokio::time::timeout(Duration::from_millis(100), bell.rung()).await.is_ok() {}
        write(&file);
        assert!(rings(&bell).await, "and the file with it");
        let _ = std::fs::remove_dir_all(&around);
    }
}
