//! One server: connected, listed, listened to, and connected again when it breaks.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use tidings_hub::ledger::{Topic, Topics};
use tidings_hub::link_health::LinkEvent;
use tidings_hub::refresh::{DueRefresh, ListRefresh, RefreshPace, RefreshSchedule, RefreshStep};
use tidings_hub::{LinkKey, ServerId};
use tidings_proto::{Era, ListKind, UriMap};
use tidings_upstream::{LineAdmission, LinkError, LogBudget, ServerHello, SharedLink, TransportSpec};
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use crate::discovery::signals::{Signals, promised};
use crate::gateway::Inner;
use crate::lifecycle::companion::Companion;
use crate::lifecycle::connecting::ProbeManners;
use crate::lifecycle::link_sink::LinkUser;
use crate::lifecycle::removal::Presence;
pub(crate) use crate::lifecycle::removal::Removal;
pub(crate) use crate::lifecycle::startup::Ready;
use crate::lifecycle::startup::{Opened, Startup};
use crate::links::link_watch::LinkWatch;
use crate::observe::meters::ServerMeters;
use crate::observe::remarks::Remarks;
use crate::observe::status::ServerState;
use crate::plan::{CallChannel, ServerPlan, Source};

/// How many bytes of what one server says are logged each second.
const LOGGED: usize = 24 << 10;
/// How long the first listing waits for the acknowledgement of a listen.
const ACKNOWLEDGED: Duration = Duration::from_secs(1);

/// A link in use.
#[derive(Clone)]
pub(crate) struct LiveLink {
    pub(crate) key: LinkKey,
    pub(crate) link: SharedLink,
    pub(crate) hello: Arc<ServerHello>,
    /// Whether it can be trusted.
    pub(crate) watch: Arc<LinkWatch>,
}

pub(crate) struct Server {
    pub(crate) id: ServerId,
    pub(crate) plan: ServerPlan,
    pub(crate) bare: bool,
    pub(crate) uris: UriMap,
    live: RwLock<Option<LiveLink>>,
    /// A second link for clients of the legacy era.
    pub(crate) companion: watch::Sender<Companion>,
    /// The health of the link that all share.
    pub(crate) watch: Arc<LinkWatch>,
    /// What the last introduction taught: the next one need not find it out again.
    pub(crate) manners: Mutex<ProbeManners>,
    pub(crate) meters: ServerMeters,
    /// What it does wrong while it is connected, or on the way.
    pub(crate) remarks: Remarks,
    /// When its lists are looked at again. Locked for moments only, and never on the path of a call.
    pub(crate) refresh: Mutex<ListRefresh>,
    /// How many calls it has answered that may have changed something.
    pub(crate) answered: AtomicU64,
    /// How much of what it says is logged.
    log_budget: Arc<LogBudget>,
    covered: Mutex<Topics>,
    /// What it announced on this link without having said that it would.
    pub(crate) unexpected: Mutex<Topics>,
    /// Until when its lists are fresh, by its own word.
    fresh_until: Mutex<[Option<Instant>; 4]>,
    /// The link on which the server can not speak by itself, if it is so.
    deaf: Mutex<Option<LinkKey>>,
    /// The request by which it was asked to announce changes of its lists.
    listen: AtomicU64,
    signal: Notify,
    /// The number of the last listing that is done.
    pub(crate) listed: watch::Sender<u64>,
    pub(crate) presence: Presence,
    /// If it is a gateway: its id and those of the gateways behind it.
    pub(crate) gateways: Mutex<Vec<String>>,
    /// Rings when it is removed or replaced.
    pub(crate) gone: CancellationToken,
}

impl Server {
    pub(crate) fn new(id: ServerId, plan: ServerPlan, bare: bool, pace: RefreshPace) -> Self {
        let uris = if bare || plan.transparent_uris {
            UriMap::Transparent
        } else {
            UriMap::Prefix(plan.uri_prefix.clone().into())
        };
        Self {
            id,
            watch: LinkWatch::new(&plan),
            plan,
            bare,
            uris,
            live: RwLock::new(None),
            companion: watch::Sender::default(),
            manners: Mutex::default(),
            meters: ServerMeters::default(),
            remarks: Remarks::default(),
            refresh: Mutex::new(ListRefresh::new(pace)),
            answered: AtomicU64::new(0),
            log_budget: Arc::new(LogBudget::new(LOGGED)),
            covered: Mutex::default(),
            unexpected: Mutex::default(),
            fresh_until: Mutex::default(),
            deaf: Mutex::default(),
            listen: AtomicU64::new(0),
            signal: Notify::new(),
            listed: watch::Sender::new(0),
            presence: Presence::default(),
            gateways: Mutex::default(),
            gone: CancellationToken::new(),
        }
    }

    /// The link for everybody, if it is up.
    pub(crate) fn live(&self) -> Option<LiveLink> {
        self.live.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn set_live(&self, link: Option<LiveLink>) {
        *self.live.write().unwrap_or_else(PoisonError::into_inner) = link;
    }

    /// Whether this is the link that all share.
    pub(crate) fn is_shared(&self, link: LinkKey) -> bool {
        self.live.read().unwrap_or_else(PoisonError::into_inner).as_ref().is_some_and(|live| live.key == link)
    }

    pub(crate) fn watches_with(&self, watch: &Arc<LinkWatch>) -> bool {
        Arc::ptr_eq(&self.watch, watch)
    }

    /// The health of the link that all share.
    pub(crate) fn health(&self) -> &LinkWatch {
        &self.watch
    }

    /// Whether this is the first unexpected announcement of its kind on this link.
    pub(crate) fn is_news(&self, topic: Topic) -> bool {
        let mut unexpected = self.unexpected.lock().unwrap_or_else(PoisonError::into_inner);
        let news = !unexpected.contains(topic);
        unexpected.insert(topic);
        news
    }

    /// Whether something that it said may be logged; says how much was not, also when nothing follows.
    pub(crate) fn may_log(&self, gateway: &Inner, len: usize) -> bool {
        match self.log_budget.admit(len) {
            LineAdmission::LeaveOut { first } => {
                if first {
                    self.remarks.add("says more than is logged; the rest is left out".into());
                    let (budget, name) = (Arc::clone(&self.log_budget), self.plan.name.clone());
                    gateway.spawn(async move {
                        tokio::time::sleep(Duration::from_secs(1)).await;
                        say_left_out(&name, budget.take_left_out());
                    });
                }
                false
            }
            LineAdmission::Write { left_out } => {
                say_left_out(&self.plan.name, left_out);
                true
            }
        }
    }

    /// Lets the server's task look at what there is to do.
    pub(crate) fn wake(&self) {
        self.signal.notify_one();
    }

    pub(crate) fn set_fresh_until(&self, until: [Option<Instant>; 4]) {
        *self.fresh_until.lock().unwrap_or_else(PoisonError::into_inner) = until;
    }

    /// How long a list is still fresh, by the server's own word and the age of what is known.
    pub(crate) fn fresh_for(&self, kind: ListKind, now: Instant) -> Duration {
        let until = self.fresh_until.lock().unwrap_or_else(PoisonError::into_inner)[kind as usize];
        until.map_or(Duration::ZERO, |until| until.saturating_duration_since(now))
    }

    /// Where the server can speak about a call that it was sent over a link.
    pub(crate) fn call_channel(&self, live: &LiveLink) -> CallChannel {
        match &self.plan.source {
            Source::Local(_) | Source::Unready(_) => CallChannel::OwnStream,
            Source::Remote(spec) => match (&spec.transport, live.hello.revision.era()) {
                (TransportSpec::Http(_), Era::Modern) => CallChannel::OwnStream,
                (TransportSpec::Http(_), Era::Legacy) => CallChannel::OwnStreamAndPush,
                _ => CallChannel::SharedPipe,
            },
        }
    }

    /// The task of this server. `startup`: what came of its first connection, if that was made before.
    pub(crate) async fn run(self: Arc<Self>, gateway: Arc<Inner>, mut startup: Option<Result<Startup, LinkError>>) {
        loop {
            if startup.is_none() {
                self.remarks.clear();
            }
            self.watch.tell(LinkEvent::Connecting);
            self.watch.carry_out_what_is_shown(&gateway, &self);
            let error = tokio::select! {
                error = self.live_once(&gateway, startup.take()) => error,
                () = self.restart_asked() => {
                    self.restart_now(&gateway).await;
                    continue;
                }
                () = self.gone.cancelled() => break,
                () = gateway.stop.cancelled() => break,
            };
            tracing::warn!(server = %self.plan.name, %error, "server failed");
            gateway.set_state(&self, ServerState::Failing, Some(error.to_string()));
            gateway.mark_stale(&self);
            self.settle_restart(Err(&error));
            tokio::select! {
                () = self.watch.connect_due(&self) => {}
                () = self.restart_asked() => self.restart_now(&gateway).await,
                () = self.gone.cancelled() => break,
                () = gateway.stop.cancelled() => break,
            }
        }
        self.release_notices(&gateway);
        self.end_links(&gateway).await;
    }

    /// Ends everything, whatever state it is in, and begins again with nothing assumed.
    async fn restart_now(self: &Arc<Self>, gateway: &Arc<Inner>) {
        self.begin_restart(gateway).await;
        self.watch.forget_commands(self);
        self.watch.tell(LinkEvent::RestartAsked);
        self.watch.connect_due(self).await;
    }

    /// From connecting to the end of the link.
    async fn live_once(
        self: &Arc<Self>,
        gateway: &Arc<Inner>,
        startup: Option<Result<Startup, LinkError>>,
    ) -> LinkError {
        let (live, mut end, opened) = match startup {
            Some(Err(error)) => {
                self.watch.tell(LinkEvent::ConnectFailed);
                return error;
            }
            Some(Ok(startup)) => {
                self.watch.tell(LinkEvent::Connected);
                if !startup.published {
                    self.show_startup(gateway, &startup);
                }
                (startup.live, startup.end, Some(startup.opened))
            }
            // The era is found out each time: servers are upgraded and rolled back.
            None => match self.connect(gateway, None, LinkUser::Everybody, None).await {
                Ok((live, end)) => (live, end, None),
                Err(error) => {
                    // An assumption may be what failed.
                    self.forget_era();
                    self.watch.tell(LinkEvent::ConnectFailed);
                    return error;
                }
            },
        };
        self.companion_may_be_new();
        let revision = live.hello.revision;
        tracing::info!(server = %self.plan.name, %revision, "connected");
        let outcome = tokio::select! {
            outcome = self.serve(gateway, &live, opened) => outcome,
            error = self.watch.watch_over(gateway, self, &live) => error,
            error = &mut end => error.unwrap_or(LinkError::Stopped),
        };
        self.set_live(None);
        self.watch.tell(LinkEvent::Ended);
        self.watch.forget_commands(self);
        gateway.retire(live);
        // The window of its signals will not end any more.
        self.release_notices(gateway);
        outcome
    }

    async fn serve(self: &Arc<Self>, gateway: &Arc<Inner>, live: &LiveLink, opened: Option<Opened>) -> LinkError {
        let mut first = opened.is_none();
        let Opened { mut signals, mut lists, mut schedule } = match opened {
            Some(opened) => opened,
            None => {
                self.begin(live);
                self.watch.tell(LinkEvent::Connected);
                // A list that can not be had now stays what it was before the link broke.
                let lists = gateway.current().snapshot.offer(self.id).map(|o| o.lists.clone()).unwrap_or_default();
                gateway.can_follow(self, live);
                Opened { signals: self.open_signals(gateway, live).await, lists, schedule: self.new_schedule(gateway) }
            }
        };
        loop {
            let next = if first { RefreshStep::Look } else { self.refresh().next(Instant::now()) };
            match next {
                RefreshStep::Look => {
                    let look = self.begin_look(first);
                    if let Err(error) = self.look(gateway, live, &look, &mut lists, &mut schedule, first).await {
                        return error;
                    }
                    if !std::mem::take(&mut first) {
                        self.watch.answered();
                    }
                    self.looked(gateway, &look);
                }
                RefreshStep::Release => self.release_notices(gateway),
                RefreshStep::Sleep(when) => {
                    self.settle_restart(Ok(()));
                    let unheard = self.unheard(live);
                    tokio::select! {
                        () = self.signal.notified() => {}
                        () = until(when) => {}
                        () = signals.run(gateway, self, live) => {}
                        due = due(&schedule, &unheard) => self.mark_due(due),
                    }
                }
            }
        }
    }

    /// Begins to listen. First listen, then list: what changes in between would not be heard.
    pub(crate) async fn open_signals(self: &Arc<Self>, gateway: &Arc<Inner>, live: &LiveLink) -> Signals {
        let mut signals = Signals::open(gateway, self, live);
        if signals.is_open() {
            let _ = tokio::time::timeout(ACKNOWLEDGED, self.heard(&mut signals, gateway, live)).await;
        }
        signals
    }

    pub(crate) fn new_schedule(&self, gateway: &Inner) -> RefreshSchedule {
        let poll = self.plan.poll_interval.unwrap_or(gateway.settings.poll_interval);
        RefreshSchedule::new(poll, Instant::now())
    }

    /// Waits until a listen is acknowledged, or refused.
    async fn heard(self: &Arc<Self>, signals: &mut Signals, gateway: &Arc<Inner>, live: &LiveLink) {
        tokio::select! {
            () = self.signal.notified() => {}
            () = signals.run(gateway, self, live) => {}
        }
    }

    /// Whether it said that it announces this.
    pub(crate) fn announces(&self, topic: Topic) -> bool {
        self.live().is_none_or(|live| promised(&live.hello).contains(topic))
    }

    /// What the server has agreed to announce.
    pub(crate) fn cover(&self, topics: Topics) {
        *self.covered.lock().unwrap_or_else(PoisonError::into_inner) = topics;
    }

    /// What the server promises to announce can not be heard on this link.
    pub(crate) fn hears_nothing_on(&self, link: LinkKey) {
        *self.deaf.lock().unwrap_or_else(PoisonError::into_inner) = Some(link);
        // Polling begins now.
        self.wake();
    }

    /// Whether the server can not speak by itself on this link.
    pub(crate) fn is_deaf_on(&self, link: LinkKey) -> bool {
        *self.deaf.lock().unwrap_or_else(PoisonError::into_inner) == Some(link)
    }

    /// How often its resources are read where it does not tell of their changes, if that is wanted.
    pub(crate) fn polls_resources(&self) -> Option<Duration> {
        self.plan.poll_interval.filter(|interval| !interval.is_zero())
    }

    /// It is asked to announce changes of its lists by this request.
    pub(crate) fn listens_by(&self, request: u64) {
        self.listen.store(request, Ordering::SeqCst);
    }

    /// Whether this is the request that asked it to.
    pub(crate) fn is_listen(&self, request: u64) -> bool {
        self.listen.load(Ordering::SeqCst) == request
    }

    /// The lists whose changes nobody announces, so that they must be polled.
    fn unheard(&self, live: &LiveLink) -> Vec<ListKind> {
        let hello = &live.hello;
        let deaf = self.is_deaf_on(live.key);
        let covered = match hello.revision.era() {
            Era::Legacy if deaf => Topics::default(),
            Era::Legacy => promised(hello),
            Era::Modern => *self.covered.lock().unwrap_or_else(PoisonError::into_inner),
        };
        let offered = |kind: &ListKind| tidings_proto::capabilities::declares(&hello.capabilities, kind.capability());
        ListKind::ALL.into_iter().filter(offered).filter(|kind| !covered.contains(Topic::of(*kind))).collect()
    }

    /// How long a call to this server may be silent, and how long it may run.
    pub(crate) fn timeouts(&self, gateway: &Inner) -> (Duration, Duration) {
        let silent = self.plan.timeout.unwrap_or(gateway.settings.timeout);
        let longest = self.plan.max_timeout.unwrap_or(gateway.settings.max_timeout);
        (silent, longest.max(silent))
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

fn say_left_out(server: &str, left_out: u64) {
    if left_out > 0 {
        tracing::warn!(server, left_out, "messages of this server were left out of the log");
    }
}
