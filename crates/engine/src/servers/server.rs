//! One server: what is configured and known of it.
//!
//! Its life is in `lifecycle`, its lists in `discovery`; here is the state that both, and calls, look at. Each part has locks of its
//! own, which are leaves: nothing else is taken under them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tidings_hub::catalogue::{RuledServer, ServerOffer};
use tidings_hub::ledger::{Topic, Topics};
use tidings_hub::refresh::{FailedList, ListRefresh, RefreshPace};
use tidings_hub::{LinkKey, ServerId};
use tidings_proto::{Era, ListKind, UriMap};
use tidings_sync::Lock;
use tidings_upstream::{LineAdmission, LinkError, LogBudget};
use tokio::sync::{Notify, watch};

use crate::links::link_table::ServerInstance;
use crate::links::link_watch::LinkWatch;
use crate::links::live_link::{LiveLink, promised};
use crate::observe::catalogue_store::CatalogueStore;
use crate::observe::change_spans::SignalSpans;
use crate::observe::meters::ServerMeters;
use crate::observe::remarks::Remarks;
use crate::observe::status::{ServerState, ServerStatus};
use crate::plan::{CallChannel, ServerPlan, Settings, Source};
use crate::runtime::EngineRuntime;
use crate::servers::direct_calls::DirectCalls;
use crate::servers::offer_screen::OfferScreen;
use crate::servers::presence::Presence;
use crate::servers::server_links::{ProbeManners, ServerLinks};

/// How many bytes of what one server says are logged each second.
const LOGGED: usize = 24 << 10;

pub(crate) struct Server {
    pub(crate) id: ServerId,
    pub(crate) instance: ServerInstance,
    pub(crate) plan: ServerPlan,
    /// Its name once more, for whoever keeps it longer than the server lives.
    pub(crate) shared_name: Arc<str>,
    pub(crate) bare: bool,
    pub(crate) uris: UriMap,
    pub(crate) links: ServerLinks,
    pub(crate) lists: ListFreshness,
    /// What it offers beside what clients may see of it.
    pub(crate) screen: OfferScreen,
    pub(crate) meters: ServerMeters,
    /// What it does wrong while it is connected, or on the way.
    pub(crate) remarks: Remarks,
    /// How much of what it says is logged.
    log_budget: Arc<LogBudget>,
    pub(crate) presence: Presence,
    /// If it is a gateway: its id and those of the gateways behind it.
    pub(crate) gateways: Lock<Vec<String>>,
    pub(crate) tenure: ServerTenure,
    /// How this replica calls it while another one runs it.
    pub(crate) direct: DirectCalls,
}

/// Which replica of a cluster runs a server, as this one knows.
#[derive(Default)]
pub(crate) struct ServerTenure {
    /// Another replica runs it, and its link leads there.
    pub(crate) elsewhere: AtomicBool,
    /// The epoch in which this replica runs it: what it lists belongs to that.
    pub(crate) epoch: AtomicU64,
    /// Where another had its name before it: an earlier epoch is that one's.
    pub(crate) since: AtomicU64,
}

/// How current what is known of a server's lists is.
pub(crate) struct ListFreshness {
    /// When its lists are looked at again. Locked for moments only, and never on the path of a call.
    pub(crate) refresh: Lock<ListRefresh>,
    /// How many calls it has answered that may have changed something.
    pub(crate) answered: AtomicU64,
    /// Until when its lists are fresh, by its own word.
    fresh_until: Lock<[Option<Instant>; 4]>,
    /// Wakes the server's task.
    pub(crate) signal: Notify,
    /// The number of the last listing that is done.
    pub(crate) listed: watch::Sender<u64>,
    /// What it signalled since the last look, where somebody exports traces.
    pub(crate) signals: Lock<SignalSpans>,
    announced: AnnouncedLists,
}

/// What a server announces of its lists over its link.
#[derive(Default)]
struct AnnouncedLists {
    covered: Lock<Topics>,
    /// What it announced on this link without having said that it would.
    unexpected: Lock<Topics>,
    /// The request by which it was asked to announce changes of its lists.
    listen: AtomicU64,
}

impl Server {
    pub(crate) fn new(id: ServerId, plan: ServerPlan, bare: bool, pace: RefreshPace) -> Self {
        // A server that is alone shows its URIs as they are, like its names.
        let uris = if plan.is_built_in() {
            UriMap::Transparent
        } else if bare || plan.transparent_uris {
            UriMap::Bare(plan.uri_prefix.clone().into())
        } else {
            UriMap::Prefix(plan.uri_prefix.clone().into())
        };
        Self {
            id,
            instance: ServerInstance::next(),
            links: ServerLinks::new(&plan),
            shared_name: plan.name.as_str().into(),
            plan,
            bare,
            uris,
            lists: ListFreshness {
                refresh: Lock::new(ListRefresh::new(pace)),
                answered: AtomicU64::new(0),
                fresh_until: Lock::default(),
                signal: Notify::new(),
                listed: watch::Sender::new(0),
                signals: Lock::default(),
                announced: AnnouncedLists::default(),
            },
            screen: OfferScreen::default(),
            meters: ServerMeters::default(),
            remarks: Remarks::default(),
            log_budget: Arc::new(LogBudget::new(LOGGED)),
            presence: Presence::default(),
            gateways: Lock::default(),
            tenure: ServerTenure::default(),
            direct: DirectCalls::default(),
        }
    }

    /// Whether one replica of a cluster runs it for all. What is part of the program runs in each.
    pub(crate) fn is_placed(&self) -> bool {
        !self.plan.is_built_in()
    }

    /// Whether another replica runs it.
    pub(crate) fn is_elsewhere(&self) -> bool {
        self.tenure.elsewhere.load(Ordering::Relaxed)
    }

    /// The link for everybody, if it is up.
    pub(crate) fn live(&self) -> Option<LiveLink> {
        self.links.live()
    }

    /// The link over which this replica calls what another one runs, without its help.
    pub(crate) fn direct_link(&self) -> Option<LiveLink> {
        // Looked at first: outside of a cluster nothing else is.
        if self.is_elsewhere() { self.direct.link() } else { None }
    }

    /// Whether a link, by its health, leads past the replica that runs it. It may not be in use any more.
    pub(crate) fn leads_past_owner(&self, watch: &Arc<LinkWatch>) -> bool {
        // Who has a link of its own has it to the server, too, and what comes over it is theirs.
        self.is_elsewhere() && self.plan.isolation.is_shared() && !self.watches_with(watch)
    }

    /// Whether this is the link that all share.
    pub(crate) fn is_shared(&self, link: LinkKey) -> bool {
        self.links.is_shared(link)
    }

    pub(crate) fn watches_with(&self, watch: &Arc<LinkWatch>) -> bool {
        Arc::ptr_eq(&self.links.watch, watch)
    }

    /// The health of the link that all share.
    pub(crate) fn health(&self) -> &LinkWatch {
        &self.links.watch
    }

    /// What is known of its era no longer counts.
    pub(crate) fn forget_era(&self) {
        *self.links.manners() = ProbeManners::default();
    }

    /// A link is taken into use. Calls need no list: a client may know the name already.
    pub(crate) fn begin(&self, live: &LiveLink) {
        self.presence.forget_restart();
        // A new link has agreed to nothing yet.
        self.cover(Topics::default());
        *self.lists.announced.unexpected.lock() = Topics::default();
        // Last, because calls find the link from here on.
        self.links.set_live(Some(live.clone()));
    }

    /// Which lists it fails to give, though it is connected.
    pub(crate) fn set_failed_lists(&self, catalogue: &CatalogueStore, failed: Vec<FailedList>) {
        let known = |status: &ServerStatus| status.id == self.id && status.failed_lists == failed;
        // Looked at first: an update wakes everybody who waits for the catalogue.
        if !catalogue.current().servers.iter().any(known) {
            self.update_status(catalogue, |status| status.failed_lists = failed);
        }
    }

    /// The server as rules know it.
    pub(crate) fn ruled(&self) -> RuledServer<'_> {
        RuledServer { id: self.id, name: &self.plan.name, audience: self.plan.audience() }
    }

    /// It is in another state. One that is not there, or no longer, has none.
    pub(crate) fn set_state(&self, catalogue: &CatalogueStore, state: ServerState, error: Option<&LinkError>) {
        self.update_status(catalogue, |status| status.now_is(state, error));
    }

    fn update_status(&self, catalogue: &CatalogueStore, change: impl FnOnce(&mut ServerStatus)) {
        catalogue.update(|catalogue| {
            let status = catalogue.servers.iter_mut().find(|status| status.id == self.id);
            // Under the lock of the catalogue: a task that ends late must not write the state of the server that took
            // its place.
            if let Some(status) = status.filter(|_| self.presence.is_current()) {
                change(status);
            }
        });
    }

    /// It is down: its last lists are served on, but not as current.
    pub(crate) fn mark_stale(&self, catalogue: &CatalogueStore) {
        self.set_current(catalogue, false);
    }

    /// What is known of its lists counts again, without a look at it: another replica looks, and says what differs.
    pub(crate) fn mark_current(&self, catalogue: &CatalogueStore) {
        self.set_current(catalogue, true);
    }

    fn set_current(&self, catalogue: &CatalogueStore, current: bool) {
        catalogue.update(|catalogue| {
            let offer = catalogue.snapshot.offer(self.id);
            if let Some(offer) = offer.filter(|offer| offer.current != current && self.presence.is_current()) {
                // No commit: what clients see and its hashes stay the same; only `ttlMs` differs.
                let offer = ServerOffer { current, ..(**offer).clone() };
                catalogue.snapshot = Arc::new(catalogue.snapshot.with(offer));
            }
        });
    }

    /// Whether this is the first unexpected announcement of its kind on this link.
    pub(crate) fn is_news(&self, topic: Topic) -> bool {
        let mut unexpected = self.lists.announced.unexpected.lock();
        let news = !unexpected.contains(topic);
        unexpected.insert(topic);
        news
    }

    /// Whether something that it said may be logged; says how much was not, also when nothing follows.
    pub(crate) fn may_log(&self, runtime: &EngineRuntime, len: usize) -> bool {
        match self.log_budget.admit(len) {
            LineAdmission::LeaveOut { first } => {
                if first {
                    self.remarks.add("says more than is logged; the rest is left out".into());
                    let (budget, name) = (Arc::clone(&self.log_budget), self.plan.name.clone());
                    // A server that goes silent after a flood would otherwise never have its count written.
                    runtime.spawn(async move {
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
        self.lists.signal.notify_one();
    }

    pub(crate) fn set_fresh_until(&self, until: [Option<Instant>; 4]) {
        *self.lists.fresh_until.lock() = until;
    }

    /// How long a list is still fresh, by the server's own word and the age of what is known.
    pub(crate) fn fresh_for(&self, kind: ListKind, now: Instant) -> Duration {
        let until = self.lists.fresh_until.lock()[kind as usize];
        until.map_or(Duration::ZERO, |until| until.saturating_duration_since(now))
    }

    /// How it is reached: as it was found, where only a URL is configured.
    pub(crate) fn transport(&self) -> &'static str {
        match self.plan.source.transport() {
            // Behind a URL there may be either transport; the link knows which.
            "http" if self.live().is_some_and(|live| live.link.shares_one_stream()) => "sse",
            configured => configured,
        }
    }

    /// Where the server can speak about a call that it was sent over a link.
    pub(crate) fn call_channel(&self, live: &LiveLink) -> CallChannel {
        match &self.plan.source {
            Source::Local(_) | Source::Unready(_) => CallChannel::OwnStream,
            // Asked of the link and not of the configuration: behind a URL there may be either transport.
            Source::Remote(_) if live.link.shares_one_stream() => CallChannel::SharedPipe,
            Source::Remote(_) => match live.hello.revision.era() {
                // Modern servers have no standalone stream, so everything about a call comes on its own.
                Era::Modern => CallChannel::OwnStream,
                Era::Legacy => CallChannel::OwnStreamAndPush,
            },
        }
    }

    /// Whether it said that it announces this.
    pub(crate) fn announces(&self, topic: Topic) -> bool {
        // Without a link there is nothing to blame it for.
        self.live().is_none_or(|live| promised(&live.hello).contains(topic))
    }

    /// What the server has agreed to announce.
    pub(crate) fn cover(&self, topics: Topics) {
        *self.lists.announced.covered.lock() = topics;
    }

    /// How often its resources are read where it does not tell of their changes, if that is wanted.
    pub(crate) fn polls_resources(&self) -> Option<Duration> {
        self.plan.poll_interval.filter(|interval| !interval.is_zero())
    }

    /// It is asked to announce changes of its lists by this request.
    pub(crate) fn listens_by(&self, request: u64) {
        self.lists.announced.listen.store(request, Ordering::SeqCst);
    }

    /// Whether this is the request that asked it to.
    pub(crate) fn is_listen(&self, request: u64) -> bool {
        self.lists.announced.listen.load(Ordering::SeqCst) == request
    }

    /// The lists whose changes nobody announces, so that they must be polled.
    pub(crate) fn unheard(&self, live: &LiveLink) -> Vec<ListKind> {
        let hello = &live.hello;
        let covered = match hello.revision.era() {
            // It promises to announce, but has no stream to do it on.
            Era::Legacy if live.link.is_push_unsupported() => Topics::default(),
            Era::Legacy => promised(hello),
            Era::Modern => *self.lists.announced.covered.lock(),
        };
        let offered = |kind: &ListKind| tidings_proto::capabilities::declares(&hello.capabilities, kind.capability());
        ListKind::ALL.into_iter().filter(offered).filter(|kind| !covered.contains(Topic::of(*kind))).collect()
    }

    /// How long a call to this server may be silent, and how long it may run.
    pub(crate) fn timeouts(&self, usual: &Settings) -> (Duration, Duration) {
        let silent = self.plan.call_times.silence.unwrap_or(usual.waits.silence);
        let longest = self.plan.call_times.call.unwrap_or(usual.waits.call);
        // A limit for silence that is longer than the one for the whole call would cut it short without a word.
        (silent, longest.max(silent))
    }
}

fn say_left_out(server: &str, left_out: u64) {
    if left_out > 0 {
        tracing::warn!(server, left_out, "messages of this server were left out of the log");
    }
}
