//! Noticing that the configuration file changed.
//!
//! Its folder is watched, not the file: editors replace files, and a link may come to point elsewhere. What counts is that
//! the text is another. A file that was renamed into place or closed by its writer is whole and read at once; otherwise it
//! is read when the folder has been quiet for a while, since half a file may look like a whole one.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use notify::event::{AccessKind, AccessMode, ModifyKind};
use notify::{EventKind, RecursiveMode, Watcher as _};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::registry::ServerRegistry;

/// How long the folder has to be quiet before the file is read, and how long that may be put off.
const QUIET: Duration = Duration::from_millis(50);
const LONGEST: Duration = Duration::from_millis(500);
/// How often the file is looked at where its folder can not be watched.
const POLL: Duration = Duration::from_secs(2);

impl ServerRegistry {
    /// Applies changes of the configuration file for as long as this is polled. Returns at once when there is no file.
    pub async fn follow_file(&self) {
        let Some(file) = self.file() else { return };
        // A change that is read earlier would be refused, and then count as known.
        self.attached().await;
        let bell = Arc::new(FolderBell::default());
        let watcher = watch(&file, &bell);
        if let Err(error) = &watcher {
            tracing::warn!(file = %file.display(), %error, "its folder can not be watched; it is looked at from time to time");
        }
        let mut text = self.0.text.clone();
        loop {
            // Also the first time: what changed before the folder was watched was not heard.
            let now = read(&file).await;
            // A file that is not there at the moment is being replaced, or was removed by mistake.
            if now.is_some() && now != text {
                text = now;
                // The outcome is logged there, and stays in the state; the next change of the file is the next try.
                let _ = self.reload().await;
            }
            match &watcher {
                // The watcher lives as long as this loop: dropping it would end the events.
                Ok(_) => quiet(&bell).await,
                Err(_) => tokio::time::sleep(POLL).await,
            }
        }
    }
}

async fn read(file: &Path) -> Option<Vec<u8>> {
    tokio::fs::read(file).await.ok()
}

fn watch(file: &Path, bell: &Arc<FolderBell>) -> notify::Result<notify::RecommendedWatcher> {
    let bell = Arc::clone(bell);
    let mut watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
        match event.map(|event| event.kind) {
            Ok(EventKind::Access(AccessKind::Close(AccessMode::Write)) | EventKind::Modify(ModifyKind::Name(_))) => {
                // Before the bell: whoever hears it finds the mark.
                bell.whole.store(true, Ordering::SeqCst);
            }
            // Reading it is no change; what can not be understood may be one.
            Ok(EventKind::Access(_)) => return,
            _ => {}
        }
        bell.rings.notify_one();
    })?;
    for folder in folders(file) {
        watcher.watch(&folder, RecursiveMode::NonRecursive)?;
    }
    Ok(watcher)
}

/// Where the file is, and where that leads.
fn folders(file: &Path) -> Vec<PathBuf> {
    let here = std::path::absolute(file).ok();
    // Where the file is a link, its target may be edited in place.
    let there = std::fs::canonicalize(file).ok();
    let mut folders: Vec<PathBuf> =
        [here, there].into_iter().flatten().filter_map(|path| path.parent().map(Path::to_owned)).collect();
    // Nearly always both are the same folder.
    folders.dedup();
    folders
}

/// Rings when something happened in the folder.
#[derive(Default)]
struct FolderBell {
    rings: Notify,
    /// Whether somebody is done with a file.
    whole: AtomicBool,
}

/// Waits for a ring, and then until a file is whole or it has been quiet for a while, but not for ever.
async fn quiet(bell: &FolderBell) {
    bell.rings.notified().await;
    let latest = Instant::now() + LONGEST;
    while !bell.whole.swap(false, Ordering::SeqCst) {
        let quiet = (Instant::now() + QUIET).min(latest);
        tokio::select! {
            // The deadline first: a folder that never goes quiet would win every time.
            biased;
            () = tokio::time::sleep_until(quiet) => return,
            () = bell.rings.notified() => {}
        }
    }
}
