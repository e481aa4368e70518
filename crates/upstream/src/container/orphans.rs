//! Removing what processes left that were killed.

use std::path::Path;

use super::arguments::RUN_LABEL;
use super::lease::AbandonedLease;
use super::tool::{RuntimeTool, UnfinishedCommand};
use crate::stdio::process::which;

/// Why something is still there; it is tried again with the next start.
#[derive(Debug, thiserror::Error)]
enum NotRemoved {
    #[error("{0} is not there any more")]
    NoRuntime(&'static str),
    #[error("{0}")]
    Unfinished(#[from] UnfinishedCommand),
    #[error("{0}")]
    Refused(String),
}

/// Removes the containers of every dead process that kept its leases in `home`. Runs no program when there are none.
pub(super) async fn sweep(home: &Path) {
    for abandoned in AbandonedLease::all(home) {
        match remove_all(&abandoned).await {
            Ok(0) => {}
            Ok(count) => tracing::info!(count, "removed containers of a gateway that was killed"),
            Err(error) => {
                tracing::warn!(%error, run = abandoned.id, "containers of a gateway that was killed may be left");
                // The lease stays, so the next start tries again.
                continue;
            }
        }
        abandoned.forget();
    }
}

async fn remove_all(abandoned: &AbandonedLease) -> Result<usize, NotRemoved> {
    let mut count = 0;
    for tool in &abandoned.tools {
        count += remove_of(tool, &abandoned.id).await?;
    }
    Ok(count)
}

async fn remove_of(tool: &RuntimeTool, run: &str) -> Result<usize, NotRemoved> {
    // The runtime may have been uninstalled; then nobody can say what is left.
    if which(tool.program(), None).is_none() {
        return Err(NotRemoved::NoRuntime(tool.program()));
    }
    let filter = format!("label={RUN_LABEL}={run}");
    let listed = tool.run(&["ps", "--all", "--quiet", "--no-trunc", "--filter", &filter]).await?;
    if !listed.status.success() {
        return Err(NotRemoved::Refused(listed.stderr));
    }
    let ids: Vec<&str> = listed.stdout.split_whitespace().collect();
    if ids.is_empty() {
        return Ok(0);
    }
    let removed = tool.remove(&ids).await?;
    if !removed.status.success() {
        return Err(NotRemoved::Refused(removed.stderr));
    }
    Ok(ids.len())
}
