//! Making a legacy link beside the modern one of a server that speaks both eras: a legacy client keeps everything its era has.
//!
//! It is made when it is first needed, in a task of its own. A server that gives no answer is remembered, and asked again after a
//! pause that grows.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tidings_proto::Era;
use tidings_upstream::LinkError;

use super::ServerLifecycle;
use crate::links::link_watch::LinkWatch;
use crate::links::live_link::LinkUser;
use crate::servers::server::Server;
use crate::servers::server_links::{Companion, CompanionAttempt};

/// The first pause after an attempt that failed, and the longest; twice as long each time.
const FIRST_PAUSE: Duration = Duration::from_secs(30);
const LONGEST_PAUSE: Duration = Duration::from_secs(3_600);

impl ServerLifecycle {
    /// One attempt, however many calls wait for it or have lost patience.
    pub(super) async fn try_companion(self: &Arc<Self>, server: &Arc<Server>, attempt: CompanionAttempt) {
        let watch = LinkWatch::new(&server.plan);
        let made = tokio::select! {
            made = self.make_link(server, Some(Era::Legacy), LinkUser::Everybody, None, &watch) => made,
            () = server.presence.gone.cancelled() => return,
            () = self.runtime.stop.cancelled() => return,
        };
        let name = &server.plan.name;
        let decided = match made {
            Ok((live, end, sink)) if live.hello.revision.era() == Era::Legacy => {
                tracing::info!(server = %name, revision = %live.hello.revision, "speaks the legacy era too");
                // Nobody waits for its end: when it is lost, its key is no longer in the table of links.
                drop(self.watch_alone(server, live.clone(), end, sink));
                Companion::Live(live)
            }
            // Asked for the legacy era, it answered `initialize` as only a modern server does.
            Ok((live, ..)) => {
                self.retire(live);
                Companion::Impossible
            }
            Err(error) if matches!(error.cause(), LinkError::Refused(_)) => {
                tracing::debug!(server = %name, reason = %error, "speaks only the modern era");
                Companion::Impossible
            }
            Err(error) => {
                let pause = (attempt.pause * 2).clamp(FIRST_PAUSE, LONGEST_PAUSE);
                let seconds = pause.as_secs();
                tracing::warn!(server = %name, %error, seconds, "no legacy link; the modern one is used for now");
                Companion::NotBefore(Instant::now() + pause, pause)
            }
        };
        // After a restart this is nobody's: whoever needs a second link has asked anew, or will.
        let mut unwanted = Some(decided);
        server.links.companion.send_if_modified(|companion| {
            // Only the attempt that is under way may write its result.
            let is_mine = matches!(companion, Companion::UnderWay(current) if *current == attempt);
            if is_mine && let Some(decided) = unwanted.take() {
                *companion = decided;
            }
            is_mine
        });
        if let Some(Companion::Live(live)) = unwanted {
            self.retire(live);
        }
    }
}
