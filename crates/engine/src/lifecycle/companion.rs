//! A legacy link beside the modern one of a server that speaks both eras: a legacy client keeps everything its era has.
//!
//! It is made when it is first needed, in a task of its own: calls wait for it only as long as a probe may take, and then go over
//! the modern link. A server that gives no answer is remembered, and asked again after a pause that grows.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tidings_proto::Era;
use tidings_upstream::{EraChoice, LinkError};

use crate::gateway::Inner;
use crate::lifecycle::link_sink::LinkUser;
use crate::links::link_watch::LinkWatch;
use crate::plan::Source;
use crate::servers::server::{LiveLink, Server};

/// How long calls wait for the first attempt.
const PATIENCE: Duration = Duration::from_secs(2);
/// The first pause after an attempt that failed, and the longest; twice as long each time.
const FIRST_PAUSE: Duration = Duration::from_secs(30);
const LONGEST_PAUSE: Duration = Duration::from_secs(3_600);

/// The second link of a server that may speak both eras.
#[derive(Clone, Default)]
pub(crate) enum Companion {
    #[default]
    Untried,
    /// Being made since, after this pause.
    UnderWay(Instant, Duration),
    Live(LiveLink),
    /// It could not be made; not tried before then. With the pause that led there.
    NotBefore(Instant, Duration),
    /// The server has only one era.
    Impossible,
}

impl Server {
    /// The legacy link, if there is one or one can be made soon.
    pub(crate) async fn legacy_companion(self: &Arc<Self>, gateway: &Arc<Inner>) -> Option<LiveLink> {
        let waits_until = match &*self.companion.borrow() {
            Companion::Live(live) if gateway.has_link(live.key) => return Some(live.clone()),
            Companion::Impossible => return None,
            Companion::NotBefore(at, _) if Instant::now() < *at => return None,
            Companion::UnderWay(since, _) => Some(*since + PATIENCE),
            _ => None,
        };
        let waits_until = match waits_until {
            Some(until) => until,
            None => self.begin_companion(gateway)?,
        };
        if Instant::now() < waits_until {
            let mut companion = self.companion.subscribe();
            let decided = companion.wait_for(|companion| !matches!(companion, Companion::UnderWay(..)));
            let _ = tokio::time::timeout_at(waits_until.into(), decided).await;
        }
        match &*self.companion.borrow() {
            Companion::Live(live) if gateway.has_link(live.key) => Some(live.clone()),
            _ => None,
        }
    }

    /// Begins an attempt, unless another did meanwhile. Gives the time until which calls wait for it.
    fn begin_companion(self: &Arc<Self>, gateway: &Arc<Inner>) -> Option<Instant> {
        let possible = matches!(&self.plan.source, Source::Remote(spec) if spec.era == EraChoice::Auto);
        let mut until = None;
        let mut begins = false;
        self.companion.send_if_modified(|companion| {
            let pause = match companion {
                _ if !possible => {
                    *companion = Companion::Impossible;
                    return true;
                }
                Companion::UnderWay(since, _) => {
                    until = Some(*since + PATIENCE);
                    return false;
                }
                Companion::NotBefore(_, pause) => *pause,
                _ => Duration::ZERO,
            };
            let now = Instant::now();
            (until, begins) = (Some(now + PATIENCE), true);
            *companion = Companion::UnderWay(now, pause);
            true
        });
        if begins {
            gateway.spawn(Arc::clone(self).make_companion(Arc::clone(gateway)));
        }
        until
    }

    /// One attempt, however many calls wait for it or have lost patience.
    async fn make_companion(self: Arc<Self>, gateway: Arc<Inner>) {
        let watch = LinkWatch::new(&self.plan);
        let made = tokio::select! {
            made = self.make_link(&gateway, Some(Era::Legacy), LinkUser::Everybody, None, &watch) => made,
            () = self.gone.cancelled() => return,
            () = gateway.stop.cancelled() => return,
        };
        let name = &self.plan.name;
        let decided = match made {
            Ok((live, end, sink)) if live.hello.revision.era() == Era::Legacy => {
                tracing::info!(server = %name, revision = %live.hello.revision, "speaks the legacy era too");
                drop(self.watch_alone(&gateway, live.clone(), end, sink));
                Companion::Live(live)
            }
            Ok((live, ..)) => {
                gateway.retire(live);
                Companion::Impossible
            }
            Err(error) if matches!(error.cause(), LinkError::Refused(_)) => {
                tracing::debug!(server = %name, reason = %error, "speaks only the modern era");
                Companion::Impossible
            }
            Err(error) => {
                let pause = match &*self.companion.borrow() {
                    Companion::UnderWay(_, before) => (*before * 2).clamp(FIRST_PAUSE, LONGEST_PAUSE),
                    _ => FIRST_PAUSE,
                };
                let seconds = pause.as_secs();
                tracing::warn!(server = %name, %error, seconds, "no legacy link; the modern one is used for now");
                Companion::NotBefore(Instant::now() + pause, pause)
            }
        };
        // A restart meanwhile has ended what was made, and asks anew.
        self.companion.send_if_modified(|companion| {
            let is_mine = matches!(companion, Companion::UnderWay(..));
            if is_mine {
                *companion = decided;
            }
            is_mine
        });
    }

    /// There is a new link: the server may be another one. What was only too slow is not tried sooner for that.
    pub(crate) fn companion_may_be_new(&self) {
        self.companion.send_if_modified(|companion| {
            let forgets = matches!(companion, Companion::Impossible);
            if forgets {
                *companion = Companion::Untried;
            }
            forgets
        });
    }

    /// Everything begins anew.
    pub(crate) fn forget_companion(&self) {
        self.companion.send_replace(Companion::Untried);
    }
}
