//! The task of a server: connected, listed, listened to, and connected again when it breaks.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tidings_hub::link_health::LinkEvent;
use tidings_hub::refresh::{DueRefresh, RefreshSchedule, RefreshStep};
use tidings_proto::ListKind;
use tidings_upstream::LinkError;

use super::ServerLifecycle;
use super::link_care::{connect_due, forget_commands};
use super::startup::{Opened, Startup};
use crate::discovery::signals::Signals;
use crate::fleet::FleetSeat;
use crate::links::live_link::{LinkUser, LiveLink};
use crate::observe::status::ServerState;
use crate::servers::server::Server;

/// How long the first listing waits for the acknowledgement of a listen.
const ACKNOWLEDGED: Duration = Duration::from_secs(1);

impl ServerLifecycle {
    /// The task of a server. `startup`: what came of its first connection, if that was made before.
    pub(crate) async fn run(self: Arc<Self>, server: Arc<Server>, mut startup: Option<Result<Startup, LinkError>>) {
        let presence = &server.presence;
        if self.may_be_called_directly(&server) {
            self.runtime.spawn(Arc::clone(&self).keep_direct(Arc::clone(&server)));
        }
        loop {
            let seat = tokio::select! {
                seat = self.seated(&server) => seat,
                () = presence.gone.cancelled() => break,
                () = self.runtime.stop.cancelled() => break,
            };
            if matches!(seat, Some(FleetSeat::Elsewhere(..))) && startup.take().is_some() {
                // It was started here, and another replica has claimed it since.
                self.end_links(&server).await;
            }
            if startup.is_none() {
                // Not for the first link of a server that was added: its remarks were made during the start.
                server.remarks.clear();
            }
            server.health().tell(LinkEvent::Connecting);
            self.carry_out_what_is_shown(&server);
            let error = tokio::select! {
                error = self.live_once(&server, startup.take()) => error,
                () = self.moved(&server, seat.as_ref()) => {
                    self.move_now(&server).await;
                    continue;
                }
                () = presence.restart_asked() => {
                    self.restart_now(&server).await;
                    continue;
                }
                () = presence.gone.cancelled() => break,
                () = self.runtime.stop.cancelled() => break,
            };
            tracing::warn!(server = %server.plan.name, %error, "server failed");
            let needs_login = error.needs_login();
            if needs_login {
                // A state and not a failure that passes: nothing is tried until somebody has logged in.
                server.health().tell(LinkEvent::LoginNeeded);
                forget_commands(&server);
            }
            match server.plan.source.people() {
                // It is there, and lets in those who have logged in: that nobody in particular is not let in is no trouble.
                Some(people) if needs_login && people.logged_in > 0 => {
                    server.set_state(&self.catalogue, ServerState::Ready, None);
                }
                _ => server.set_state(&self.catalogue, ServerState::after(Some(&error)), Some(&error)),
            }
            if needs_login {
                server.health().done();
            }
            // Its last lists are still served, but no longer called fresh.
            server.mark_stale(&self.catalogue);
            // Whoever asked for a restart waits for the first attempt, not for the first success.
            presence.settle_restart(Err(&error));
            tokio::select! {
                () = connect_due(&server), if !needs_login => {}
                () = self.moved(&server, seat.as_ref()) => self.move_now(&server).await,
                () = presence.restart_asked() => self.restart_now(&server).await,
                () = presence.gone.cancelled() => break,
                () = self.runtime.stop.cancelled() => break,
            }
        }
        // What its last look found is told also when it ends inside the quiet window.
        server.release_notices(&self.notifier);
        self.end_links(&server).await;
    }

    /// Ends everything, whatever state it is in, and begins again with nothing assumed.
    async fn restart_now(&self, server: &Arc<Server>) {
        tracing::info!(server = %server.plan.name, "restarted");
        server.presence.restart_begins();
        // Waited for: two processes of one server must not run side by side, for they may share files or a port.
        self.end_links(server).await;
        self.pool.own_links.server_gone(server.id);
        // Whoever was told to log in is let try again; links that were up are missed and made anew in any case.
        self.discovery.people_view_is_old(server.id);
        server.links.forget_companion();
        forget_commands(server);
        server.health().tell(LinkEvent::RestartAsked);
        // Due at once, but it also takes the commands that the event has caused.
        connect_due(server).await;
    }

    /// From connecting to the end of the link.
    async fn live_once(
        self: &Arc<Self>,
        server: &Arc<Server>,
        startup: Option<Result<Startup, LinkError>>,
    ) -> LinkError {
        let (live, mut end, opened) = match startup {
            Some(Err(error)) => {
                server.health().tell(LinkEvent::ConnectFailed);
                return error;
            }
            Some(Ok(startup)) => {
                server.health().tell(LinkEvent::Connected);
                match (startup.published, &self.runtime.fleet) {
                    (true, _) => (startup.live, startup.end, Some(startup.opened)),
                    // What it lists goes to all replicas, as after any start.
                    (false, Some(_)) => (startup.live, startup.end, None),
                    (false, None) => {
                        self.show_startup(server, &startup);
                        (startup.live, startup.end, Some(startup.opened))
                    }
                }
            }
            // The era is found out each time: servers are upgraded and rolled back.
            None => match self.connect(server, None, LinkUser::Everybody, None).await {
                Ok((live, end)) => (live, end, None),
                Err(error) => {
                    // An assumption may be what failed.
                    server.forget_era();
                    server.health().tell(LinkEvent::ConnectFailed);
                    // A login is the same everywhere, and only a person can give it.
                    if !error.needs_login() {
                        self.start_failed(server);
                    }
                    return error;
                }
            },
        };
        server.links.companion_may_be_new();
        let revision = live.hello.revision;
        tracing::info!(server = %server.plan.name, %revision, "connected");
        let outcome = tokio::select! {
            outcome = self.serve(server, &live, opened) => outcome,
            error = self.watch_over(server, &live) => error,
            error = &mut end => error.unwrap_or(LinkError::Stopped),
        };
        // Before the link is taken away: a call that finds none asks the machine whether the next one is worth waiting for.
        server.health().tell(LinkEvent::Ended);
        server.links.set_live(None);
        forget_commands(server);
        if server.plan.placement.stops_alone {
            // Whoever is told that it ended may start the next one.
            self.link_closed(live.key);
            self.close(server, &live.link).await;
        } else {
            self.retire(live);
        }
        // The window of its signals will not end any more.
        server.release_notices(&self.notifier);
        outcome
    }

    async fn serve(self: &Arc<Self>, server: &Arc<Server>, live: &LiveLink, opened: Option<Opened>) -> LinkError {
        if server.is_elsewhere() {
            return self.serve_elsewhere(server, live).await;
        }
        let mut first = opened.is_none();
        let Opened { mut signals, mut lists, mut schedule } = match opened {
            Some(opened) => opened,
            None => {
                server.begin(live);
                server.health().tell(LinkEvent::Connected);
                // A list that can not be had now stays what it was before the link broke.
                let shown = || self.catalogue.current().snapshot.offer(server.id).map(|offer| offer.lists.clone());
                // As the server gave them, where some are held: else all that is held would count as a change after
                // each reconnect.
                let known = server.screen.lists().or_else(shown);
                // Before the first listing: what is followed is subscribed again as early as possible, because until
                // then changes are missed.
                self.subscriptions.can_follow(server, live);
                let signals = self.open_signals(server, live).await;
                Opened { signals, lists: known.unwrap_or_default(), schedule: self.new_schedule(server) }
            }
        };
        loop {
            // A new link is always looked at as a whole: nobody heard what happened before it.
            let next = if first { RefreshStep::Look } else { server.refresh().next(Instant::now()) };
            match next {
                RefreshStep::Look => {
                    let look = server.begin_look(first);
                    let looking = server.look(&self.discovery, live, &look, &mut lists, &mut schedule, first);
                    if let Err(error) = looking.await {
                        return error;
                    }
                    // A first listing is part of the introduction and proves little: servers that crash on their first
                    // call pass it.
                    if !std::mem::take(&mut first) {
                        server.health().answered();
                    }
                    server.looked(&self.notifier, &look);
                }
                RefreshStep::Release => server.release_notices(&self.notifier),
                RefreshStep::Sleep(when) => {
                    // Here everything is listed and committed, so whoever asked may use the server.
                    server.presence.settle_restart(Ok(()));
                    let unheard = server.unheard(live);
                    tokio::select! {
                        // `Notify` keeps a permit: a signal that came during the look above is not lost.
                        () = server.lists.signal.notified() => {}
                        () = until(when) => {}
                        () = self.pass_signals_on(&mut signals, server, live) => {}
                        due = due(&schedule, &unheard) => server.mark_due(due),
                    }
                }
            }
        }
    }

    /// Passes signals on for as long as the link lives.
    async fn pass_signals_on(&self, signals: &mut Signals, server: &Arc<Server>, live: &LiveLink) {
        loop {
            let message = signals.next(&self.links, &**server, live).await;
            self.router.unowned(server, live.key, &live.link, &LinkUser::Everybody, message);
        }
    }

    /// Begins to listen. First listen, then list: what changes in between would not be heard.
    pub(super) async fn open_signals(&self, server: &Arc<Server>, live: &LiveLink) -> Signals {
        let mut signals = Signals::open(&self.links, &**server, live);
        if signals.is_open() {
            // Until it is acknowledged, or refused.
            let heard = async {
                tokio::select! {
                    () = server.lists.signal.notified() => {}
                    () = self.pass_signals_on(&mut signals, server, live) => {}
                }
            };
            // Without an acknowledgement the lists are looked at all the same, and once more when it comes.
            let _ = tokio::time::timeout(ACKNOWLEDGED, heard).await;
        }
        signals
    }

    pub(super) fn new_schedule(&self, server: &Server) -> RefreshSchedule {
        let poll = server.plan.poll_interval.unwrap_or(self.runtime.settings.poll_interval);
        RefreshSchedule::new(poll, Instant::now())
    }
}

/// Waits for the next thing that is due without a signal; for ever if there is none.
async fn due(schedule: &RefreshSchedule, unheard: &[ListKind]) -> DueRefresh {
    let Some((when, due)) = schedule.next(unheard) else { return std::future::pending().await };
    tokio::time::sleep_until(when.into()).await;
    due
}

async fn until(when: Option<Instant>) {
    match when {
        Some(when) => tokio::time::sleep_until(when.into()).await,
        None => std::future::pending().await,
    }
}
