//! One server: connected, listed, listened to, and connected again when it breaks.

use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant, SystemTime};

use tidings_hub::catalogue::{Difference, OfferList, ServerOffer};
use tidings_hub::ledger::{Topic, Topics};
use tidings_hub::{LinkKey, ServerId};
use tidings_proto::{Era, ListKind, UriMap};
use tidings_upstream::{Connected, EraChoice, Hello, LinkError, SharedLink, Sink};
use tokio::sync::{Notify, oneshot, watch};

use crate::discovery::Lister;
use crate::gateway::Inner;
use crate::links::LinkSink;
use crate::plan::{ServerPlan, Source};
use crate::session::Session;
use crate::signals::{Signals, promised};
use crate::status::ServerState;

/// The first pause before a broken server is tried again, and the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// A server that held this long starts again with the first pause.
const STABLE: Duration = Duration::from_secs(10);
/// How long the first listing waits for the acknowledgement of a listen.
const ACKNOWLEDGED: Duration = Duration::from_secs(1);
/// The first pause before a list that failed is asked for again.
const FIRST_RETRY: Duration = Duration::from_secs(1);

/// A link in use.
#[derive(Clone)]
pub(crate) struct LiveLink {
    pub(crate) key: LinkKey,
    pub(crate) link: SharedLink,
    pub(crate) hello: Arc<Hello>,
}

/// The second link of a server that speaks both eras, for clients of the other one.
#[derive(Default)]
enum Companion {
    #[default]
    Untried,
    Live(LiveLink),
    /// The server has only one era.
    Impossible,
}

pub(crate) struct Server {
    pub(crate) id: ServerId,
    pub(crate) plan: ServerPlan,
    pub(crate) bare: bool,
    pub(crate) uris: UriMap,
    live: RwLock<Option<LiveLink>>,
    companion: tokio::sync::Mutex<Companion>,
    dirty: Mutex<Dirty>,
    covered: Mutex<Topics>,
    signal: Notify,
    /// The number of the last listing that is done.
    listed: watch::Sender<u64>,
}

/// What is to be listed again, and how many listings have begun.
#[derive(Default)]
struct Dirty {
    kinds: [bool; 4],
    listings: u64,
}

impl Server {
    pub(crate) fn new(id: ServerId, plan: ServerPlan, bare: bool) -> Self {
        let uris = if bare || plan.transparent_uris {
            UriMap::Transparent
        } else {
            UriMap::Prefix(plan.uri_prefix.clone().into())
        };
        Self {
            id,
            plan,
            bare,
            uris,
            live: RwLock::new(None),
            companion: tokio::sync::Mutex::default(),
            dirty: Mutex::default(),
            covered: Mutex::default(),
            signal: Notify::new(),
            listed: watch::Sender::new(0),
        }
    }

    /// The link for everybody, if it is up.
    pub(crate) fn live(&self) -> Option<LiveLink> {
        self.live.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set_live(&self, link: Option<LiveLink>) {
        *self.live.write().unwrap_or_else(PoisonError::into_inner) = link;
    }

    /// The server says, or somebody suspects, that lists have changed. Tells which listing will see it.
    pub(crate) fn mark_dirty(&self, kinds: &[ListKind]) -> u64 {
        let mut dirty = self.dirty.lock().unwrap_or_else(PoisonError::into_inner);
        for kind in kinds {
            dirty.kinds[*kind as usize] = true;
        }
        let next = dirty.listings + 1;
        drop(dirty);
        self.signal.notify_one();
        next
    }

    /// Begins a listing: its number, and what is to be listed.
    fn take_dirty(&self) -> (u64, Vec<ListKind>) {
        let mut dirty = self.dirty.lock().unwrap_or_else(PoisonError::into_inner);
        dirty.listings += 1;
        let taken = std::mem::take(&mut dirty.kinds);
        (dirty.listings, ListKind::ALL.into_iter().filter(|kind| taken[*kind as usize]).collect())
    }

    /// Waits until a listing is done, and what it found can be read.
    pub(crate) async fn listed(&self, listing: u64) {
        let _ = self.listed.subscribe().wait_for(|done| *done >= listing).await;
    }

    /// Makes a link; `own` is the session that alone uses it.
    pub(crate) async fn connect(
        self: &Arc<Self>,
        gateway: &Arc<Inner>,
        known: Option<Era>,
        own: Option<&Arc<Session>>,
    ) -> Result<(LiveLink, oneshot::Receiver<LinkError>), LinkError> {
        let made: Mutex<Option<(Arc<LinkSink>, oneshot::Receiver<LinkError>)>> = Mutex::default();
        let make_sink = || -> Arc<dyn Sink> {
            let (sink, end) = LinkSink::new(gateway, self, own);
            *made.lock().unwrap_or_else(PoisonError::into_inner) = Some((Arc::clone(&sink), end));
            sink
        };
        let Connected { link, hello } = match &self.plan.source {
            Source::Remote(spec) => {
                let introduction = gateway.introduction(own.map(Arc::as_ref));
                gateway.connector.connect(spec, known, &introduction, &make_sink).await?
            }
            Source::Local(local) => local.connect(make_sink()),
        };
        let (sink, end) = made.into_inner().unwrap_or_else(PoisonError::into_inner).ok_or(LinkError::Stopped)?;
        sink.attach(Arc::clone(&link));
        let live = LiveLink { key: sink.key, link, hello: Arc::new(hello) };
        gateway.add_link(&live);
        Ok((live, end))
    }

    /// A legacy link beside the modern one, if the server speaks both eras: a legacy client keeps everything its era has.
    pub(crate) async fn legacy_companion(self: &Arc<Self>, gateway: &Arc<Inner>) -> Option<LiveLink> {
        let mut companion = self.companion.lock().await;
        match &*companion {
            Companion::Live(live) if gateway.has_link(live.key) => return Some(live.clone()),
            Companion::Impossible => return None,
            _ => {}
        }
        match &self.plan.source {
            Source::Remote(spec) if spec.era == EraChoice::Auto => {}
            _ => {
                *companion = Companion::Impossible;
                return None;
            }
        }
        match self.connect(gateway, Some(Era::Legacy), None).await {
            Ok((live, _end)) if live.hello.revision.era() == Era::Legacy => {
                tracing::info!(server = %self.plan.name, revision = %live.hello.revision, "speaks the legacy era too");
                *companion = Companion::Live(live.clone());
                Some(live)
            }
            Ok((live, _end)) => {
                gateway.retire(live);
                *companion = Companion::Impossible;
                None
            }
            Err(LinkError::Refused(reason)) => {
                tracing::debug!(server = %self.plan.name, %reason, "speaks only the modern era");
                *companion = Companion::Impossible;
                None
            }
            Err(error) => {
                tracing::warn!(server = %self.plan.name, %error, "no legacy link; the modern one is used");
                None
            }
        }
    }

    /// The task of this server.
    pub(crate) async fn run(self: Arc<Self>, gateway: Arc<Inner>) {
        let mut pause = FIRST_PAUSE;
        let mut era = None;
        loop {
            gateway.set_state(self.id, ServerState::Connecting, None);
            let started = Instant::now();
            let error = tokio::select! {
                error = self.live_once(&gateway, &mut era) => error,
                () = gateway.stop.cancelled() => break,
            };
            tracing::warn!(server = %self.plan.name, %error, "server failed");
            gateway.set_state(self.id, ServerState::Failing, Some(error.to_string()));
            gateway.mark_stale(self.id);
            pause = if started.elapsed() > STABLE { FIRST_PAUSE } else { pause };
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = gateway.stop.cancelled() => break,
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
        if let Some(live) = self.live() {
            self.set_live(None);
            live.link.close().await;
        }
        if let Companion::Live(live) = std::mem::take(&mut *self.companion.lock().await) {
            live.link.close().await;
        }
    }

    /// From connecting to the end of the link.
    async fn live_once(self: &Arc<Self>, gateway: &Arc<Inner>, era: &mut Option<Era>) -> LinkError {
        let (live, mut end) = match self.connect(gateway, *era, None).await {
            Ok(connected) => connected,
            Err(error) => {
                // The assumption may be what failed.
                *era = None;
                return error;
            }
        };
        *era = Some(live.hello.revision.era());
        let revision = live.hello.revision;
        tracing::info!(server = %self.plan.name, %revision, "connected");
        let outcome = tokio::select! {
            outcome = self.serve(gateway, &live) => outcome,
            error = &mut end => error.unwrap_or(LinkError::Stopped),
        };
        self.set_live(None);
        gateway.retire(live);
        outcome
    }

    async fn serve(self: &Arc<Self>, gateway: &Arc<Inner>, live: &LiveLink) -> LinkError {
        self.cover(Topics::default());
        // A list that can not be had now stays what it was before the link broke.
        let mut lists = gateway.current().snapshot.offer(self.id).map(|o| o.lists.clone()).unwrap_or_default();
        // Calls need no list: a client may know the name already.
        self.set_live(Some(live.clone()));
        gateway.apply_level(live);
        let mut signals = Signals::open(gateway, live);
        if signals.is_open() {
            // First listen, then list: what changes in between would not be heard.
            let _ = tokio::time::timeout(ACKNOWLEDGED, self.heard(&mut signals, gateway, live)).await;
        }
        let (listing, _) = self.take_dirty();
        let mut failed = match self.list(gateway, live, &ListKind::ALL, &mut lists).await {
            Ok(failed) => failed,
            Err(error) => return error,
        };
        gateway.publish(self.offer(live, lists.clone()), Arc::clone(&live.hello));
        self.listed.send_replace(listing);
        let poll = self.plan.poll_interval.unwrap_or(gateway.settings.poll_interval);
        let mut due = poll_due(poll);
        let mut pause = FIRST_RETRY;
        loop {
            let unheard = self.unheard(&live.hello);
            tokio::select! {
                () = gather(gateway, &self.signal) => {}
                () = signals.run(gateway, self, live) => {}
                () = tokio::time::sleep_until(due), if !unheard.is_empty() && !poll.is_zero() => {
                    due = poll_due(poll);
                    self.mark_dirty(&unheard);
                }
                () = tokio::time::sleep(pause), if !failed.is_empty() => {
                    pause = (pause * 2).min(LONGEST_PAUSE);
                    self.mark_dirty(&failed);
                }
            }
            let (listing, kinds) = self.take_dirty();
            let before = lists.clone();
            match self.list(gateway, live, &kinds, &mut lists).await {
                Ok(again) => {
                    failed.retain(|kind| !kinds.contains(kind));
                    failed.extend(again);
                }
                Err(error) => return error,
            }
            if failed.is_empty() {
                pause = FIRST_RETRY;
            }
            if self.differs(&before, &lists) {
                gateway.publish(self.offer(live, lists.clone()), Arc::clone(&live.hello));
            }
            self.listed.send_replace(listing);
        }
    }

    /// Waits until a listen is acknowledged, or refused.
    async fn heard(self: &Arc<Self>, signals: &mut Signals, gateway: &Arc<Inner>, live: &LiveLink) {
        tokio::select! {
            () = self.signal.notified() => {}
            () = signals.run(gateway, self, live) => {}
        }
    }

    /// Whether a listing says something new. Upstream's word that it does counts for nothing.
    fn differs(&self, before: &[OfferList; 4], after: &[OfferList; 4]) -> bool {
        let mut differs = false;
        for kind in ListKind::ALL {
            let (old, new) = (&before[kind as usize], &after[kind as usize]);
            if old.says_the_same(new) {
                continue;
            }
            differs = true;
            let difference = Difference::between(old, new);
            tracing::debug!(
                server = %self.plan.name,
                list = kind.method(),
                added = difference.added.len(),
                changed = difference.changed.len(),
                removed = difference.removed.len(),
                "changed"
            );
        }
        differs
    }

    /// Whether it said that it announces this.
    pub(crate) fn announces(&self, topic: Topic) -> bool {
        self.live().is_none_or(|live| promised(&live.hello).contains(topic))
    }

    /// What the server has agreed to announce.
    pub(crate) fn cover(&self, topics: Topics) {
        *self.covered.lock().unwrap_or_else(PoisonError::into_inner) = topics;
    }

    /// The lists whose changes nobody announces, so that they must be polled.
    fn unheard(&self, hello: &Hello) -> Vec<ListKind> {
        let covered = match hello.revision.era() {
            Era::Legacy => promised(hello),
            Era::Modern => *self.covered.lock().unwrap_or_else(PoisonError::into_inner),
        };
        let offered = |kind: &ListKind| tidings_proto::capabilities::declares(&hello.capabilities, kind.capability());
        ListKind::ALL.into_iter().filter(offered).filter(|kind| !covered.contains(Topic::of(*kind))).collect()
    }

    /// Lists some kinds anew; those that failed stay as they are, and are given back.
    async fn list(
        &self,
        gateway: &Arc<Inner>,
        live: &LiveLink,
        kinds: &[ListKind],
        lists: &mut [OfferList; 4],
    ) -> Result<Vec<ListKind>, LinkError> {
        let mut failed = Vec::new();
        let mint = || gateway.core.mint();
        let lister = Lister {
            server: &self.plan.name,
            link: &live.link,
            hello: &live.hello,
            permits: &*self.plan.permits,
            mint: &mint,
        };
        for kind in kinds {
            match lister.list(*kind).await {
                Ok(list) => lists[*kind as usize] = list,
                // One list that fails costs only itself; the others, and its own last good state, stay.
                Err(error @ LinkError::Protocol(_)) => {
                    tracing::warn!(server = %self.plan.name, list = kind.method(), %error, "listing failed");
                    failed.push(*kind);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(failed)
    }

    /// All lists over a link that belongs to one session.
    pub(crate) async fn list_for_session(
        self: &Arc<Self>,
        gateway: &Arc<Inner>,
        live: &LiveLink,
    ) -> Result<ServerOffer, LinkError> {
        let mut lists: [OfferList; 4] = Default::default();
        self.list(gateway, live, &ListKind::ALL, &mut lists).await?;
        Ok(self.offer(live, lists))
    }

    fn offer(&self, live: &LiveLink, lists: [OfferList; 4]) -> ServerOffer {
        ServerOffer {
            server: self.id,
            name: self.plan.name.as_str().into(),
            prefix: self.plan.name_prefix.as_str().into(),
            bare: self.bare,
            uris: self.uris.clone(),
            era: live.hello.revision.era(),
            current: true,
            lists,
        }
    }

    /// How long a call to this server may be silent, and how long it may run.
    pub(crate) fn timeouts(&self, gateway: &Inner) -> (Duration, Duration) {
        let silent = self.plan.timeout.unwrap_or(gateway.settings.timeout);
        let longest = self.plan.max_timeout.unwrap_or(gateway.settings.max_timeout);
        (silent, longest.max(silent))
    }
}

/// Waits for a signal, and then until signals have been quiet for a while, but not for ever.
async fn gather(gateway: &Inner, signal: &Notify) {
    signal.notified().await;
    let latest = tokio::time::Instant::now() + gateway.settings.list_max_wait;
    loop {
        let quiet = (tokio::time::Instant::now() + gateway.settings.list_quiet).min(latest);
        tokio::select! {
            biased;
            () = tokio::time::sleep_until(quiet) => return,
            () = signal.notified() => {}
        }
    }
}

fn poll_due(interval: Duration) -> tokio::time::Instant {
    // Spread, so that many servers are not asked at the same moment.
    let spread = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |d| d.subsec_nanos() % 1000);
    tokio::time::Instant::now() + interval.mul_f64(0.9 + f64::from(spread) / 5_000.0)
}
