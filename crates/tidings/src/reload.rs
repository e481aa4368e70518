//! Applying changes of the configuration file while the gateway runs.

use std::io::IsTerminal as _;

use tidings_inventory::ServerRegistry;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// Follows the file until the end.
pub(crate) async fn follow(registry: ServerRegistry, stop: CancellationToken) {
    stop.run_until_cancelled(registry.follow_file()).await;
}

/// Follows the file until the end, and reads it again on SIGHUP. On a terminal that signal says that the terminal is
/// closed, which still ends the process.
pub(crate) async fn run(registry: ServerRegistry, stop: CancellationToken) {
    // In a terminal the signal means that the window was closed: then the gateway ends, as every program does.
    let hangups = if std::io::stdin().is_terminal() { None } else { signal(SignalKind::hangup()).ok() };
    let Some(mut hangups) = hangups else { return follow(registry, stop).await };
    let on_signal = async {
        while hangups.recv().await.is_some() {
            // What comes of it is logged and can be asked for.
            let _ = registry.reload().await;
        }
    };
    let following = follow(registry.clone(), stop.clone());
    tokio::join!(following, stop.run_until_cancelled(on_signal));
}
