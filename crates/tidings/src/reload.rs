//! Applying changes of the configuration file while the gateway runs.

use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::time::Duration;

use tidings_inventory::ServerRegistry;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// How often the record is looked at by which somebody trusts a file, while there is a file that nobody trusts.
const CONSENT_POLL: Duration = Duration::from_secs(1);

/// Follows the file until the end. `consent`: where the record is of what somebody trusts in it.
pub(crate) async fn follow(registry: ServerRegistry, consent: Option<PathBuf>, stop: CancellationToken) {
    let consented = follow_consent(&registry, consent);
    stop.run_until_cancelled(async { tokio::join!(registry.follow_file(), consented) }).await;
}

/// A file that was not applied because nobody trusted it is read again when somebody does.
async fn follow_consent(registry: &ServerRegistry, consent: Option<PathBuf>) {
    let Some(record) = consent else { return };
    let written = || std::fs::metadata(&record).and_then(|record| record.modified()).ok();
    let mut states = registry.states();
    let mut known = written();
    loop {
        let is_refused = states.borrow_and_update().reload.as_ref().is_some_and(|report| report.outcome.is_err());
        let now = written();
        if std::mem::replace(&mut known, now) != now && is_refused {
            // What comes of it is logged and can be asked for.
            let _ = registry.reload().await;
            continue;
        }
        let again = async {
            match is_refused {
                true => tokio::time::sleep(CONSENT_POLL).await,
                // A file that was applied waits for nobody.
                false => std::future::pending().await,
            }
        };
        tokio::select! {
            changed = states.changed() => if changed.is_err() { return },
            () = again => {}
        }
    }
}

/// Follows the file until the end, and reads it again on SIGHUP. On a terminal that signal says that the terminal is
/// closed, which still ends the process.
pub(crate) async fn run(registry: ServerRegistry, consent: Option<PathBuf>, stop: CancellationToken) {
    // In a terminal the signal means that the window was closed: then the gateway ends, as every program does.
    let hangups = if std::io::stdin().is_terminal() { None } else { signal(SignalKind::hangup()).ok() };
    let Some(mut hangups) = hangups else { return follow(registry, consent, stop).await };
    let on_signal = async {
        while hangups.recv().await.is_some() {
            // What comes of it is logged and can be asked for.
            let _ = registry.reload().await;
        }
    };
    let following = follow(registry.clone(), consent, stop.clone());
    tokio::join!(following, stop.run_until_cancelled(on_signal));
}
