//! What clients want: to follow, to be told, to be told no more.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tidings_hub::ledger::FollowerId;
use tidings_hub::own_links::LinkOwner;
use tidings_hub::policy::Rights;
use tidings_hub::scope::AccessScope;
use tidings_hub::subscriptions::{
    FollowRefusal as HubRefusal, FollowTarget, NoticePace, RequestId, ResourceAddress, SubscriptionCommands,
};
use tidings_proto::{Era, ListKind};
use tokio::sync::oneshot;

use super::spellings::Spellings;
use super::{FollowTable, ResourceSubscriptions};
use crate::client::kept_session::KeptFollow;
use crate::client::principal::Principal;
use crate::client::session::Session;
use crate::plan::{Patience, Source};
use crate::servers::server_pool::uris_for;

/// How many resources a client is told of at a time.
const AT_ONCE: usize = 64;
/// Between two streams there is no order: what must come first on one of them gets a head start on the other.
const HEAD_START: Duration = Duration::from_millis(20);

/// How a request of a client was decided.
pub(crate) enum Decision {
    Agreed,
    Refused(HubRefusal),
    Honoured(Vec<ResourceAddress>),
}

/// What is known of one who follows, for people to see and to spell URIs as it does.
pub(super) struct Who {
    pub(super) era: Era,
    /// What it may use.
    pub(super) scope: AccessScope,
    /// What it calls itself.
    pub(super) name: Option<Arc<str>>,
    pub(super) spellings: Spellings,
}

/// A resource that a client names.
pub(crate) struct Named {
    pub(crate) address: ResourceAddress,
    /// As the client spells it.
    pub(crate) uri: String,
}

/// A request to follow that is not answered yet. Dropping it withdraws it.
pub(crate) struct Asked {
    subscriptions: Arc<ResourceSubscriptions>,
    request: RequestId,
    decision: oneshot::Receiver<Decision>,
    answered: bool,
}

/// An answer on its way to a client. What changes is told when this is dropped: it must be kept until the transport has
/// the answer.
pub struct Receipt {
    subscriptions: Arc<ResourceSubscriptions>,
    request: RequestId,
}

impl Receipt {
    /// The answer was written to one stream, and what changes is told on another: it follows after a moment.
    pub fn after_a_moment(self) {
        let subscriptions = Arc::clone(&self.subscriptions);
        let stop = subscriptions.runtime.stop.clone();
        subscriptions.runtime.spawn(async move {
            stop.run_until_cancelled(tokio::time::sleep(HEAD_START)).await;
            drop(self);
        });
    }
}

impl Drop for Receipt {
    fn drop(&mut self) {
        let request = self.request;
        self.subscriptions.drive(|table, now| table.machine.acked(request, now));
    }
}

impl Asked {
    /// Waits for the decision. The machine makes one in any case, in time.
    pub(crate) async fn decision(&mut self) -> Decision {
        let decision = (&mut self.decision).await;
        // The sender is gone only if the table was dropped with the engine.
        decision.unwrap_or(Decision::Refused(HubRefusal::Removed))
    }

    /// The request is answered now.
    pub(crate) fn receipt(mut self) -> Receipt {
        self.answered = true;
        Receipt { subscriptions: Arc::clone(&self.subscriptions), request: self.request }
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        if self.answered {
            return;
        }
        let request = self.request;
        self.subscriptions.drive(|table, now| {
            table.waiting.remove(&request);
            let mut commands = table.machine.cancel(request, now);
            // It may have been answered a moment ago: then it holds, and nothing may be held back for ever.
            commands.extend(table.machine.acked(request, now));
            commands
        });
    }
}

impl FollowTable {
    pub(super) fn decide(&mut self, request: RequestId, decision: Decision) {
        if let Some(waiting) = self.waiting.remove(&request) {
            // Who does not wait any more has withdrawn.
            let _ = waiting.send(decision);
        }
    }

    fn new_request(&mut self, subscriptions: &Arc<ResourceSubscriptions>) -> Asked {
        self.requests += 1;
        let request = RequestId(self.requests);
        let (decide, decision) = oneshot::channel();
        self.waiting.insert(request, decide);
        Asked { subscriptions: Arc::clone(subscriptions), request, decision, answered: false }
    }

    /// Notes how a follower spells what it asks for. What it knew by one of these names before, and is another resource, it
    /// follows no longer.
    fn know(
        &mut self,
        subscriptions: &ResourceSubscriptions,
        follower: FollowerId,
        (era, name, scope): (Era, Option<&str>, &AccessScope),
        named: &[Named],
        now: Instant,
    ) -> SubscriptionCommands {
        let usual = |table: &Self, named: &Named| {
            let server = subscriptions.server_at(table, named.address.place);
            server.is_some_and(|server| uris_for(scope, &server).outward(&named.address.uri) == named.uri)
        };
        // Collected first, because looking up a server needs the table that is changed below.
        let is_usual: Vec<bool> = named.iter().map(|named| usual(self, named)).collect();
        let who = self.who.entry(follower);
        let who = who.or_insert_with(|| {
            let (name, scope, spellings) = (name.map(Arc::from), scope.clone(), Spellings::default());
            Who { era, scope, name, spellings }
        });
        let mut others = Vec::new();
        for (named, is_usual) in named.iter().zip(is_usual) {
            // One name can mean one resource only: the client asks for what it leads to now.
            let means_another = who.spellings.meant_by(&named.uri).is_some_and(|known| *known != named.address);
            // The usual spelling is kept only where another one is, too.
            if !is_usual || means_another || who.spellings.of(&named.address).is_some() {
                others.extend(who.spellings.add(&named.address, &named.uri.as_str().into()));
            }
        }
        others.into_iter().flat_map(|other| self.machine.unsubscribe(follower, &other, now)).collect()
    }

    /// A URI as a client knows it.
    pub(super) fn shown(
        &self,
        subscriptions: &ResourceSubscriptions,
        follower: FollowerId,
        address: &ResourceAddress,
    ) -> Option<String> {
        // By the name that the client used: many clients compare URIs as text.
        let who = self.who.get(&follower);
        if let Some(uri) = who.and_then(|who| who.spellings.of(address)) {
            return Some(uri.to_string());
        }
        let server = subscriptions.server_at(self, address.place)?;
        let uris = who.map_or(&server.uris, |who| uris_for(&who.scope, &server));
        Some(uris.outward(&address.uri))
    }
}

impl ResourceSubscriptions {
    /// A session wants to follow a resource. `None` when the session is over.
    pub(crate) fn subscribe(self: &Arc<Self>, session: &Session, named: &Named) -> Option<Asked> {
        let follower = FollowerId::from(session.key);
        self.drive_with(|table, now| {
            // Behind the lock: a session that ends later takes this with it.
            if !self.sessions.contains(session.key) {
                return (SubscriptionCommands::new(), None);
            }
            let (name, named_alone) = (session.name(), std::slice::from_ref(named));
            let who = (Era::Legacy, name.as_deref(), &session.principal().scope);
            let mut commands = table.know(self, follower, who, named_alone, now);
            if let Some(book) = session.principal().book() {
                table.machine.charge(follower, book.subscriptions());
            }
            let asked = table.new_request(self);
            let target = self.target(table, &named.address);
            commands.extend(table.machine.subscribe(follower, asked.request, &target, now));
            (commands, Some(asked))
        })
    }

    /// A listen wants to follow resources.
    pub(crate) fn listen_to(
        self: &Arc<Self>,
        follower: FollowerId,
        name: Option<&str>,
        principal: &Principal,
        named: &[Named],
    ) -> Asked {
        self.drive_with(|table, now| {
            if let Some(book) = principal.book() {
                table.machine.charge(follower, book.subscriptions());
            }
            let mut commands = table.know(self, follower, (Era::Modern, name, &principal.scope), named, now);
            let targets: Vec<FollowTarget> = named.iter().map(|named| self.target(table, &named.address)).collect();
            let asked = table.new_request(self);
            commands.extend(table.machine.listen(follower, asked.request, &targets, now));
            (commands, asked)
        })
    }

    /// A resource with its own pace, if its server is in the process and gives it one.
    fn target(&self, table: &FollowTable, address: &ResourceAddress) -> FollowTarget {
        let server = self.server_at(table, address.place);
        let patience = server.and_then(|server| match &server.plan.source {
            Source::Local(local) => Some(local.patience(&address.uri)),
            Source::Remote(_) | Source::Unready(_) => None,
        });
        let usual = self.runtime.settings.resource_pace;
        let pace = patience.filter(|patience| *patience != Patience::default()).map(|patience| {
            let quiet = patience.quiet.unwrap_or(usual.quiet);
            // A limit that is shorter than the quiet time would never let a change go quiet.
            NoticePace { quiet, max_wait: patience.max_wait.unwrap_or(usual.max_wait).max(quiet) }
        });
        FollowTarget { address: address.clone(), pace }
    }

    /// The resource of this name that a session follows, wherever the name leads now.
    pub(crate) fn followed_as(&self, session: &Session, uri: &str) -> Option<ResourceAddress> {
        let follower = FollowerId::from(session.key);
        let table = self.lock();
        // Its own spelling first: the name may lead elsewhere for everybody else by now.
        let meant = table.who.get(&follower).and_then(|who| who.spellings.meant_by(uri));
        if let Some(address) = meant.filter(|address| table.machine.is_followed_by(address, follower)) {
            return Some(address.clone());
        }
        let servers = self.pool.servers();
        // Also servers that were removed: an unsubscribe must always be possible.
        let places = servers.iter().chain(table.departed.values()).map(|server| (server.id.into(), Arc::clone(server)));
        let own = table.own.iter().filter(|((owner, _), _)| match owner {
            LinkOwner::Session(client) => *client == session.key,
            LinkOwner::Person(name) => *name == session.principal.name,
            LinkOwner::Principal { .. } => false,
        });
        let own = own.filter_map(|(_, place)| Some((*place, self.server_at(&table, *place)?)));
        let mut addresses = places.chain(own).filter_map(|(place, at)| {
            let uris = uris_for(&session.principal.scope, &at);
            Some(ResourceAddress { place, uri: uris.inward(uri)?.into() })
        });
        addresses.find(|address| table.machine.is_followed_by(address, follower))
    }

    /// A session follows a resource no longer. When this returns, everything it was told of it is with its transport.
    pub(crate) async fn unsubscribe(self: &Arc<Self>, session: &Session, address: &ResourceAddress) {
        let follower = FollowerId::from(session.key);
        let names = self.drive_with(|table, now| {
            // Before the machine forgets it: what the transport keeps is dropped by the name that the client was told.
            let usual = table.shown(self, follower, address);
            let spelled = table.who.get_mut(&follower).map(|who| who.spellings.remove(address));
            let commands = table.machine.unsubscribe(follower, address, now);
            table.forget_departed();
            let names = spelled.into_iter().flatten().map(|uri| uri.to_string()).chain(usual);
            (commands, names.collect::<Vec<String>>())
        });
        let last = {
            // Whoever took something before is done when this is free.
            let _delivered = session.delivery.delivering.lock();
            for name in &names {
                session.sink.forget_resource(name);
            }
            *session.delivery.last_update.lock()
        };
        // A notice that was just written goes over another stream than the answer; the answer gives it time to arrive.
        if let Some(left) = last.and_then(|last| HEAD_START.checked_sub(last.elapsed())) {
            tokio::time::sleep(left).await;
        }
    }

    /// What a session follows, as it spells it, with the hash of the content that it needs no notice of.
    pub(crate) fn known_to(&self, follower: FollowerId) -> Vec<KeptFollow> {
        let table = self.lock();
        let known = table.machine.known_to(follower);
        known
            .filter_map(|(address, content)| Some(KeptFollow { uri: table.shown(self, follower, address)?, content }))
            .collect()
    }

    /// A client is gone, or has ended its listen.
    pub(crate) fn follows_no_more(self: &Arc<Self>, follower: FollowerId) {
        self.drive(|table, now| {
            table.who.remove(&follower);
            let commands = table.machine.gone(follower, now);
            table.forget_departed();
            commands
        });
    }

    /// As [`Self::follows_no_more`], with the links that the session has for itself.
    pub(crate) fn session_follows_no_more(self: &Arc<Self>, session: &Session) {
        self.follows_no_more(FollowerId::from(session.key));
        // After `gone`, which needs the places to find what was followed there.
        let of_session = LinkOwner::Session(session.key);
        self.lock().own.retain(|(owner, _), _| *owner != of_session);
    }

    /// The resources that a client is to be told of, as it knows them. They count as told. More may be left.
    pub(crate) fn take_updates(&self, follower: FollowerId, era: Era) -> Vec<String> {
        let mut table = self.lock();
        let notices = table.machine.take_dirty(follower, AT_ONCE);
        let now = Instant::now();
        let shown = notices.into_iter().filter_map(|notice| {
            let address = ResourceAddress { place: notice.place, uri: Arc::clone(&notice.uri) };
            // The rules may be others since it began to follow, and a request may have been on its way meanwhile.
            if !self.permits(&table, follower, &address) {
                return None;
            }
            self.meters.updated(era, notice.since, now);
            let shown = table.shown(self, follower, &address)?;
            if let Some(sink) = self.runtime.telemetry.as_deref() {
                table.causes.delivered(sink, &notice, &shown, era, follower.0);
            }
            Some(shown)
        });
        shown.collect()
    }

    /// Whether the rules let a follower follow a resource.
    fn permits(&self, table: &FollowTable, follower: FollowerId, address: &ResourceAddress) -> bool {
        let snapshot = Arc::clone(&self.catalogue.current().snapshot);
        if snapshot.policy().is_none() {
            return true;
        }
        let (Some(who), Some(server)) = (table.who.get(&follower), self.server_at(table, address.place)) else {
            return false;
        };
        let seen = snapshot.seen_by(&who.scope);
        seen.permits(server.ruled(), ListKind::Resources, &address.uri, Rights::FOLLOW)
    }

    /// The rules are others: what somebody follows and may not any more, they follow no longer.
    pub(crate) fn rules_changed(self: &Arc<Self>) {
        self.drive(|table, now| {
            let mut left = Vec::new();
            for follower in table.who.keys() {
                let denied =
                    table.machine.asked_by(*follower).filter(|address| !self.permits(table, *follower, address));
                left.extend(denied.map(|address| (*follower, address.clone())));
            }
            let mut commands = SubscriptionCommands::new();
            for (follower, address) in left {
                commands.extend(table.machine.unsubscribe(follower, &address, now));
            }
            table.forget_departed();
            commands
        });
    }
}
