//! Ending on a signal, whatever happened to the rest of the process.

use std::sync::mpsc;
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::logging;

/// How long the end may take: running requests, servers and the last writes have shorter limits of their own.
const LONGEST_END: Duration = Duration::from_secs(30);

/// Cancels `stop` on SIGTERM or SIGINT. A second signal, or an end that takes too long, ends the process at once. This
/// waits on a thread of its own, so that nothing that keeps the threads of the runtime busy can keep a signal from it.
pub(crate) fn stop_on_signal(stop: CancellationToken) {
    let (heeded, wait) = mpsc::channel();
    let spawned = std::thread::Builder::new().name("signals".into()).spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        match runtime {
            Ok(runtime) => runtime.block_on(follow(&stop, &heeded)),
            Err(error) => tracing::error!(%error, "signals end the process at once"),
        }
    });
    match spawned {
        // From here on a signal is heeded: who sees what is printed next may send one.
        // A second at most: a process that can not heed signals still serves, and they end it in the system's way.
        Ok(_) => drop(wait.recv_timeout(Duration::from_secs(1))),
        Err(error) => tracing::error!(%error, "signals end the process at once"),
    }
}

async fn follow(stop: &CancellationToken, heeded: &mpsc::Sender<()>) {
    let (Ok(mut terminate), Ok(mut interrupt)) = (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
    else {
        // `heeded` is dropped unsent, which ends the wait at once.
        return;
    };
    let _ = heeded.send(());
    either(&mut terminate, &mut interrupt).await;
    // Before anything is said about it.
    stop.cancel();
    tracing::info!("stopping: running requests are finished first");
    let code = match tokio::time::timeout(LONGEST_END, either(&mut terminate, &mut interrupt)).await {
        // Asked twice: no more patience.
        // The code of a process that SIGINT ended: 128 + 2.
        Ok(()) => 130,
        Err(_) => {
            tracing::error!("the end takes longer than {} s; the process is ended", LONGEST_END.as_secs());
            1
        }
    };
    // `exit` runs no destructors: what waits in the queue of the log would be lost.
    logging::flush();
    std::process::exit(code);
}

async fn either(one: &mut Signal, other: &mut Signal) {
    tokio::select! {
        _ = one.recv() => {}
        _ = other.recv() => {}
    }
}
