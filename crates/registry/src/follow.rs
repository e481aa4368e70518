//! Noticing that the configuration file changed.
//!
//! Its folder is watched, not the file: editors replace files, and a link may come to point elsewhere. What counts is that
//! the text is another; several changes in a row are read once.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use notify::{EventKind, RecursiveMode, Watcher as _};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::registry::Registry;

/// How long the folder has to be quiet before the file is read, and how long that may be put off.
const QUIET: Duration = Duration::from_millis(50);
const LONGEST: Duration = Duration::from_millis(500);
/// How often the file is looked at where its folder can not be watched.
const POLL: Duration = Duration::from_secs(2);

impl Registry {
    /// Applies changes of the configuration file for as long as this is polled. Returns at once when there is no file.
    pub async fn follow_file(&self) {
        let Some(file) = self.file() else { return };
        self.attached().await;
        let bell = Arc::new(Notify::new());
        let watcher = watch(&file, &bell);
        if let Err(error) = &watcher {
            tracing::warn!(file = %file.display(), %error, "its folder can not be watched; it is looked at from time to time");
        }
        // Before the folder was watched a change could have been missed.
        let mut text = read(&file).await;
        let _ = self.reload_and_report(false).await;
        loop {
            match &watcher {
                Ok(_) => quiet(&bell).await,
                Err(_) => tokio::time::sleep(POLL).await,
            }
            let now = read(&file).await;
            // A file that is not there at the moment is being replaced, or was removed by mistake.
            if now.is_some() && now != text {
                text = now;
                let _ = self.reload().await;
            }
        }
    }
}

async fn read(file: &Path) -> Option<Vec<u8>> {
    tokio::fs::read(file).await.ok()
}

fn watch(file: &Path, bell: &Arc<Notify>) -> notify::Result<notify::RecommendedWatcher> {
    let bell = Arc::clone(bell);
    let mut watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
        // Reading it is no change; what can not be understood may be one.
        if !matches!(event, Ok(notify::Event { kind: EventKind::Access(_), .. })) {
            bell.notify_one();
        }
    })?;
    for folder in folders(file) {
        watcher.watch(&folder, RecursiveMode::NonRecursive)?;
    }
    Ok(watcher)
}

/// Where the file is, and where that leads.
fn folders(file: &Path) -> Vec<PathBuf> {
    let here = std::path::absolute(file).ok();
    let there = std::fs::canonicalize(file).ok();
    let mut folders: Vec<PathBuf> =
        [here, there].into_iter().flatten().filter_map(|path| path.parent().map(Path::to_owned)).collect();
    folders.dedup();
    folders
}

/// Waits for a ring, and then until it has been quiet for a while, but not for ever.
async fn quiet(bell: &Notify) {
    bell.notified().await;
    let latest = Instant::now() + LONGEST;
    loop {
        let quiet = (Instant::now() + QUIET).min(latest);
        tokio::select! {
            biased;
            () = tokio::time::sleep_until(quiet) => return,
            () = bell.notified() => {}
        }
    }
}
