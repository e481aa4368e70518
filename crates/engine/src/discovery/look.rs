//! Looking at what a server offers: what differs from what is known is committed, and everything is counted.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Instant, SystemTime};

use serde_json::Value;
use tidings_hub::catalogue::{ListChange, ListDifference, OfferList, ServerOffer};
use tidings_hub::fleet::OwnerEpoch;
use tidings_hub::ledger::{CommitOccasion, Topic, Topics};
use tidings_hub::refresh::{BegunLook, Jitter, ListMark, RefreshReason, RefreshSchedule};
use tidings_proto::{ListKind, TraceContext, capabilities, task};
use tidings_upstream::{LinkError, ServerHello};

use crate::discovery::ListDiscovery;
use crate::discovery::lister::{LIST_BUDGET, Lister};
use crate::fleet::FleetSeat;
use crate::fleet::desk::OfferOutcome;
use crate::fleet::offer_form;
use crate::links::link_watch::trouble_of;
use crate::links::live_link::LiveLink;
use crate::observe::change_spans::LookSpan;
use crate::observe::meters::Outcome;
use crate::observe::request_span::{ListTrace, SpanTransport};
use crate::servers::offer_screen::ListedFor;
use crate::servers::server::Server;

/// How much of what a server says of itself is searched.
const MAX_ABOUT: usize = 1_000;

impl Server {
    /// Lists what is marked; what is new can be read afterwards, and is owed to whoever sees it.
    pub(crate) async fn look(
        self: &Arc<Self>,
        discovery: &Arc<ListDiscovery>,
        live: &LiveLink,
        look: &BegunLook,
        lists: &mut [OfferList; 4],
        schedule: &mut RefreshSchedule,
        first: bool,
    ) -> Result<(), LinkError> {
        let telemetry = discovery.runtime.telemetry.as_deref();
        let span = telemetry.map(|sink| LookSpan::begin(sink, &mut self.lists.signals.lock()));
        let looked = self.look_within(discovery, live, look, (lists, schedule), first, span.as_ref()).await;
        if let (Some(sink), Some(span)) = (telemetry, span) {
            let kinds: Vec<&str> = look.marks.iter().map(|(kind, _)| kind.method()).collect();
            let reason = look.marks.iter().next().map_or("", |(_, mark)| mark.reason.as_str());
            span.end(sink, &self.plan.name, kinds.join(" "), reason, looked.is_err());
        }
        looked
    }

    async fn look_within(
        self: &Arc<Self>,
        discovery: &Arc<ListDiscovery>,
        live: &LiveLink,
        look: &BegunLook,
        (lists, schedule): (&mut [OfferList; 4], &mut RefreshSchedule),
        first: bool,
        span: Option<&LookSpan>,
    ) -> Result<(), LinkError> {
        // Cheap: the items are shared, and only vectors are copied.
        let before = lists.clone();
        let within = span.map(LookSpan::context);
        let occasion = self.examine(discovery, live, look, lists, schedule, within.as_ref()).await?;
        // Before the commit: whoever sees the new list also sees which of the others could not be had.
        self.set_failed_lists(&discovery.catalogue, schedule.failures());
        let differs = |(old, new): (&OfferList, &OfferList)| !old.says_the_same(new) || !old.has_same_details(new);
        // The first look is committed also when nothing differs: the commit marks the server as ready.
        if first || before.iter().zip(&*lists).any(differs) {
            if let Some(fleet) = discovery.runtime.fleet.as_ref().filter(|_| self.is_placed()) {
                let Some((record, content)) = offer_form::write(&live.hello, lists) else {
                    return Err(LinkError::Protocol("lists what is no JSON".into()));
                };
                let epoch = OwnerEpoch(self.tenure.epoch.load(Ordering::Relaxed));
                // First what it brings to what is approved: every replica shows the listing by that.
                if !discovery
                    .agree_before(self, lists, || fleet.seat_of(&self.plan.name) == FleetSeat::Here(epoch))
                    .await
                {
                    return Ok(());
                }
                match fleet.offer(&self.plan.name, epoch, record, content).await {
                    // All replicas have it, this one too: it only has to count as ready.
                    OfferOutcome::Same | OfferOutcome::Committed => {}
                    OfferOutcome::Lost => return Ok(()),
                }
            }
            let (offer, hello) = (self.offer(live, lists.clone()), Arc::clone(&live.hello));
            discovery.publish(self, offer, hello, &occasion, within.as_ref());
        }
        Ok(())
    }

    /// Lists what is marked, and counts it. What changed is not shown to anybody yet.
    pub(crate) async fn examine(
        &self,
        discovery: &Arc<ListDiscovery>,
        live: &LiveLink,
        look: &BegunLook,
        lists: &mut [OfferList; 4],
        schedule: &mut RefreshSchedule,
        within: Option<&TraceContext>,
    ) -> Result<CommitOccasion, LinkError> {
        let marks = &look.marks;
        // Templates are announced with the resources.
        for (kind, mark) in marks.iter().filter(|(kind, mark)| mark.signals > 1 && *kind != ListKind::Templates) {
            tracing::info!(server = %self.plan.name, list = kind.method(), signals = mark.signals, "asked once for all");
        }
        let before = lists.clone();
        let kinds: Vec<ListKind> = marks.iter().map(|(kind, _)| kind).collect();
        let failed = match self.list(discovery, live, &kinds, lists, within).await {
            Ok(failed) => failed,
            Err(error) => {
                marks.iter().for_each(|(kind, mark)| self.count(live, kind, mark, Outcome::Failed));
                return Err(error);
            }
        };
        let (now, jitter) = (Instant::now(), any_jitter());
        let changes = self.changes(&before, lists);
        let held_by = look.held.then_some(self.id);
        let mut occasion =
            CommitOccasion { at: now, touched: Topics::default(), signalled: Default::default(), held_by };
        for (kind, mark) in marks.iter() {
            let topic = Topic::of(kind);
            let outcome = if let Some((_, error)) = failed.iter().find(|(failed, _)| *failed == kind) {
                schedule.failed(kind, error.clone(), mark, now, jitter);
                Outcome::Failed
            } else if changes.iter().any(|change| change.kind == kind) {
                occasion.touched.insert(topic);
                let signalled = [occasion.signalled[topic as usize], schedule.signalled(kind, mark)];
                // Resources and templates share a topic, and the older signal is the one clients waited for.
                occasion.signalled[topic as usize] = signalled.into_iter().flatten().min();
                Outcome::Changed
            } else {
                Outcome::Same
            };
            if outcome != Outcome::Failed {
                schedule.listed(kind, &lists[kind as usize], now, jitter);
            }
            self.count(live, kind, mark, outcome);
        }
        schedule.settle(marks.iter().any(|(_, mark)| mark.reason == RefreshReason::Retry), !failed.is_empty(), now);
        self.set_fresh_until(schedule.fresh_until());
        Ok(occasion)
    }

    /// Counts a listing. What a server does not declare it is not asked for.
    fn count(&self, live: &LiveLink, kind: ListKind, mark: ListMark, outcome: Outcome) {
        if capabilities::declares(&live.hello.capabilities, kind.capability()) {
            self.meters.discovery(kind, mark.reason, outcome);
        }
    }

    /// What a listing says that is new. Upstream's word that there is something counts for nothing.
    fn changes(&self, before: &[OfferList; 4], after: &[OfferList; 4]) -> Vec<ListChange> {
        let mut changes = Vec::new();
        for kind in ListKind::ALL {
            let (old, new) = (&before[kind as usize], &after[kind as usize]);
            if old.says_the_same(new) {
                continue;
            }
            let difference = ListDifference::between(old, new);
            if difference.is_empty() {
                continue;
            }
            tracing::debug!(
                server = %self.plan.name,
                list = kind.method(),
                added = difference.added.len(),
                changed = difference.changed.len(),
                removed = difference.removed.len(),
                "changed"
            );
            changes.push(ListChange { kind, difference });
        }
        changes
    }

    /// Lists some kinds anew; those that failed stay as they are, and are given back with the reason.
    async fn list(
        &self,
        discovery: &Arc<ListDiscovery>,
        live: &LiveLink,
        kinds: &[ListKind],
        lists: &mut [OfferList; 4],
        within: Option<&TraceContext>,
    ) -> Result<Vec<(ListKind, String)>, LinkError> {
        let mut failed = Vec::new();
        let catalogue = discovery.catalogue.current();
        let known = catalogue.server(self.id).and_then(|status| status.hello.as_ref());
        // The catalogue has the hello of this very link: something was listed over it already.
        let is_listed = known.is_some_and(|hello| Arc::ptr_eq(hello, &live.hello));
        let mint = || discovery.links.in_flight.mint();
        let heard_gateways = |gateways| self.heard_gateways(&discovery.runtime.settings, gateways);
        let lister = Lister {
            server: &self.plan.name,
            link: &live.link,
            hello: &live.hello,
            permits: &*self.plan.permits,
            mint: &mint,
            budget: LIST_BUDGET,
            path: &discovery.runtime.settings.path,
            heard_gateways: &heard_gateways,
            trace: discovery.runtime.telemetry.as_deref().map(|sink| ListTrace {
                sink,
                within,
                transport: SpanTransport::of_server(self.plan.source.transport()),
            }),
        };
        for kind in kinds {
            match lister.list(*kind).await {
                Ok(list) => {
                    let has_details = *kind == ListKind::Resources && self.plan.source.lists_details();
                    let list = if has_details { list.with_details() } else { list };
                    // Keeps the order of the list before where nothing else changed, or every look at an unordered
                    // server would be news.
                    lists[*kind as usize] = list.following(&lists[*kind as usize]);
                }
                // One list that fails costs only itself; the others, and its own last good state, stay.
                Err(LinkError::Protocol(error)) => {
                    tracing::warn!(server = %self.plan.name, list = kind.method(), %error, "listing failed");
                    failed.push((*kind, error));
                }
                // Whether the link is over is for its watch to find out, which knows of this. Only where nothing was listed over it
                // yet there is nothing to keep.
                Err(error) if is_listed && trouble_of(&error).is_some() => {
                    tracing::debug!(server = %self.plan.name, list = kind.method(), %error, "listing broke off");
                    failed.push((*kind, error.to_string()));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(failed)
    }

    /// All lists over a link that belongs to one session, and whether all could be had; those that could not stay as
    /// they are.
    pub(crate) async fn list_for_session(
        self: &Arc<Self>,
        discovery: &Arc<ListDiscovery>,
        live: &LiveLink,
        mut lists: [OfferList; 4],
    ) -> Result<(ServerOffer, bool), LinkError> {
        let failed = self.list(discovery, live, &ListKind::ALL, &mut lists, None).await?;
        let mut offer = self.offer(live, lists);
        if let Some(plan) = &self.plan.approval {
            let news = self.screen.take(plan, &mut plan.record.lock(), &mut offer, ListedFor::Session);
            discovery.screened(&self.plan, news);
        }
        Ok((offer, failed.is_empty()))
    }

    /// Everything it offers over a link. Whoever shows it to clients screens it first.
    pub(crate) fn offer(&self, live: &LiveLink, lists: [OfferList; 4]) -> ServerOffer {
        self.offer_of(&live.hello, lists)
    }

    /// The same, for what was found over a link of another replica.
    pub(crate) fn offer_of(&self, hello: &ServerHello, lists: [OfferList; 4]) -> ServerOffer {
        ServerOffer {
            server: self.id,
            name: self.plan.name.as_str().into(),
            about: about(hello),
            prefix: self.plan.name_prefix.as_str().into(),
            bare: self.bare,
            uris: self.uris.clone(),
            era: hello.revision.era(),
            makes_tasks: task::declares_extension(&hello.capabilities),
            current: true,
            listed: self.plan.listed,
            exposure: self.plan.exposure(),
            built_in: self.plan.is_built_in(),
            audience: self.plan.audience(),
            trusts_annotations: self.plan.trusts_annotations,
            lists,
        }
    }
}

/// The topics in which two states of one server differ.
pub(crate) fn touched(before: Option<&ServerOffer>, after: Option<&ServerOffer>) -> Topics {
    let mut topics = Topics::default();
    let empty = OfferList::default();
    for kind in ListKind::ALL {
        let [old, new] = [before, after].map(|offer| offer.map_or(&empty, |offer| offer.list(kind)));
        if !old.says_the_same(new) {
            topics.insert(Topic::of(kind));
        }
    }
    topics
}

/// What a server says of itself, for those who search its tools.
fn about(hello: &ServerHello) -> Box<str> {
    let said = |member: &str| hello.info.get(member).and_then(Value::as_str).unwrap_or_default();
    let mut about = [said("title"), said("description"), hello.instructions.as_deref().unwrap_or_default()].join(" ");
    // By characters, so that the cut never falls into the middle of one.
    let end = about.char_indices().nth(MAX_ABOUT).map_or(about.len(), |(at, _)| at);
    about.truncate(end);
    about.trim().into()
}

/// Spreads polls, so that many servers are not asked at once.
fn any_jitter() -> Jitter {
    // The clock's last digits are random enough to spread polls, and need no generator.
    Jitter::of(SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.subsec_nanos()))
}
