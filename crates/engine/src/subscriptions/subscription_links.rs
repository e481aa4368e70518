//! The links over which resources are followed: those that everybody shares, and those of one session or person.

use std::collections::HashSet;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tidings_hub::LinkKey;
use tidings_hub::subscriptions::{PlaceId, SubscribeMethod, SubscriptionCommands};
use tidings_proto::refusal::RequestRefusal;
use tidings_proto::{Era, capabilities};

use super::{FollowTable, ResourceSubscriptions};
use crate::client::session::{Session, Viewer};
use crate::links::live_link::LiveLink;
use crate::plan::Isolation;
use crate::servers::own_link_table::OwnLinkUser;
use crate::servers::server::Server;

/// How long to wait before the lost link of a session or person is made again.
const RETRY: Duration = Duration::from_secs(1);

/// A link over which resources are followed.
#[derive(Clone)]
pub(super) struct FollowedLink {
    pub(super) server: Arc<Server>,
    pub(super) live: LiveLink,
    /// Who has it for itself.
    own: Option<FollowedFor>,
}

/// Who has a link for itself over which something is followed.
#[derive(Clone)]
enum FollowedFor {
    /// Weak: the place must not keep a session that has ended.
    Session(Weak<Session>),
    Person(Arc<str>),
}

impl From<&OwnLinkUser> for Option<FollowedFor> {
    fn from(user: &OwnLinkUser) -> Self {
        match user {
            OwnLinkUser::Session(session) => Some(FollowedFor::Session(Arc::downgrade(session))),
            OwnLinkUser::Person(name) => Some(FollowedFor::Person(Arc::clone(name))),
            // Nothing is followed over these: modern clients follow over the link that everybody shares.
            OwnLinkUser::Principal { .. } => None,
        }
    }
}

impl FollowTable {
    /// Takes a link out; gives its place.
    fn leave(&mut self, link: LinkKey) -> Option<(PlaceId, FollowedLink)> {
        let id = self.by_link.remove(&link)?;
        let place = self.places.remove(&id)?;
        for listen in self.listens.values().filter(|listen| listen.place == id) {
            // The stream would end by itself, but its end must not be reported: the link is known to be lost.
            listen.end.cancel();
        }
        self.listens.retain(|_, listen| listen.place != id);
        Some((id, place))
    }
}

impl ResourceSubscriptions {
    /// The shared link of a server is up: what is followed is subscribed.
    pub(crate) fn can_follow(self: &Arc<Self>, server: &Arc<Server>, live: &LiveLink) {
        self.enter(server.id.into(), &FollowedLink { server: Arc::clone(server), live: live.clone(), own: None });
    }

    fn enter(self: &Arc<Self>, id: PlaceId, place: &FollowedLink) {
        let poll = place.server.polls_resources().is_some();
        let upstream = upstream_of(place);
        self.drive(|table, now| {
            // The link of the server that was there before: what it still says is not about this one.
            if let Some(before) = table.places.insert(id, place.clone()) {
                table.by_link.remove(&before.live.key);
            }
            table.by_link.insert(place.live.key, id);
            table.departed.remove(&place.server.id);
            table.machine.connected(id, upstream, poll, now)
        });
    }

    /// A link is gone.
    pub(crate) fn lost_for_followers(self: &Arc<Self>, link: LinkKey) {
        let mut again = None;
        self.drive(|table, now| {
            let Some((id, place)) = table.leave(link) else { return SubscriptionCommands::new() };
            let commands = table.machine.lost(id, now);
            // After the machine was told, which keeps those who follow over the loss.
            if table.machine.has_followers(id) {
                again = place.own.map(|own| (own, place.server));
            } else if matches!(place.own, Some(FollowedFor::Person(_))) {
                // A session takes its places with it; a person has no end that is told.
                table.own.retain(|_, known| *known != id);
            }
            commands
        });
        if let Some((own, server)) = again {
            self.follow_again(own, server);
        }
    }

    /// Something is followed over a link of somebody's own that was lost: nobody else will make a new one.
    fn follow_again(self: &Arc<Self>, own: FollowedFor, server: Arc<Server>) {
        let subscriptions = Arc::clone(self);
        self.runtime.spawn(async move {
            let again = async {
                loop {
                    tokio::time::sleep(RETRY).await;
                    // Another may have taken its place.
                    let Some(server) = subscriptions.pool.server(server.id) else { return };
                    let user = match &own {
                        FollowedFor::Session(session) => session
                            .upgrade()
                            .filter(|session| subscriptions.sessions.contains(session.key))
                            .map(OwnLinkUser::Session),
                        FollowedFor::Person(name) => Some(OwnLinkUser::Person(Arc::clone(name))),
                    };
                    let Some(user) = user else { return };
                    // Everybody may have unsubscribed meanwhile, and a link for nobody would be made.
                    if !subscriptions.follows_over(&user, &server)
                        || subscriptions.own_place(&user, &server).await.is_ok()
                    {
                        return;
                    }
                }
            };
            subscriptions.runtime.stop.run_until_cancelled(again).await;
        });
    }

    fn follows_over(&self, user: &OwnLinkUser, server: &Server) -> bool {
        let table = self.lock();
        let place = table.own.get(&(user.owner(), server.id));
        place.is_some_and(|place| table.machine.has_followers(*place))
    }

    /// What a server said over a link may not have been heard until now.
    pub(crate) fn heard_again(self: &Arc<Self>, link: LinkKey) {
        self.drive(|table, now| match table.by_link.get(&link) {
            Some(place) => table.machine.missed(*place, now),
            None => SubscriptionCommands::new(),
        });
    }

    /// A server can not say anything by itself on its link: nothing can be followed there, but by polling.
    pub(crate) fn deaf_for_followers(self: &Arc<Self>, link: LinkKey) {
        self.drive(|table, now| {
            let Some(id) = table.by_link.get(&link).copied() else { return SubscriptionCommands::new() };
            let poll = table.places.get(&id).is_some_and(|place| place.server.polls_resources().is_some());
            // Told as if the link were new: the machine then ends what it counted on, and begins with the other method.
            table.machine.connected(id, SubscribeMethod::Unable, poll, now)
        });
    }

    /// Where somebody follows the resources of a server: where their reads go.
    pub(crate) async fn place_for(
        self: &Arc<Self>,
        viewer: Viewer<'_>,
        server: &Arc<Server>,
    ) -> Result<PlaceId, RequestRefusal> {
        let own = match (server.plan.isolation, viewer.session) {
            (Isolation::Session, Some(session)) => OwnLinkUser::Session(Arc::clone(session)),
            (Isolation::Principal, _) => OwnLinkUser::Person(Arc::clone(&viewer.principal.name)),
            (Isolation::Session, None) | (Isolation::Auto, _) => {
                // Waited for, so that a client is told at once if the server is away, and not after the patience of the
                // machine.
                self.pool.live_link(server).await?;
                return Ok(server.id.into());
            }
        };
        self.own_place(&own, server).await
    }

    async fn own_place(self: &Arc<Self>, user: &OwnLinkUser, server: &Arc<Server>) -> Result<PlaceId, RequestRefusal> {
        let live = self.pool.own_link_of(user, server).await?;
        let id = {
            let mut table = self.lock();
            // Another request of the same session or person was first.
            if let Some(id) = table.by_link.get(&live.key) {
                return Ok(*id);
            }
            let known = table.own.get(&(user.owner(), server.id)).copied();
            known.unwrap_or_else(|| {
                let id = PlaceId::Own(table.next_own);
                table.next_own = table.next_own.saturating_add(1);
                table.own.insert((user.owner(), server.id), id);
                id
            })
        };
        let key = live.key;
        self.enter(id, &FollowedLink { server: Arc::clone(server), live, own: user.into() });
        if !self.links.table.has(key) {
            // It broke before it was known here.
            self.lost_for_followers(key);
        }
        Ok(id)
    }

    /// Whether somebody follows resources over a link.
    pub(crate) fn is_followed_over(&self, link: LinkKey) -> bool {
        let table = self.lock();
        table.by_link.get(&link).is_some_and(|place| table.machine.has_followers(*place))
    }

    /// The server at a place, connected or not, or removed while it was followed.
    pub(super) fn server_at(&self, table: &FollowTable, id: PlaceId) -> Option<Arc<Server>> {
        let server = match id {
            PlaceId::Shared(server) => server,
            PlaceId::Own(_) => table.own.iter().find(|(_, place)| **place == id)?.0.1,
        };
        self.pool.server(server).or_else(|| table.departed.get(&server).cloned())
    }

    /// A server takes the place of one whose URIs were shown in another way: whoever follows its resources goes on to be told of
    /// them by the names that were acknowledged. To be called before it is in the set of servers.
    pub(crate) fn keep_spellings(&self, server: &Server) {
        let mut table = self.lock();
        let before = self.pool.server(server.id).or_else(|| table.departed.get(&server.id).cloned());
        // Shown in the same way: the usual spelling still is what clients know.
        let Some(before) = before.filter(|before| before.uris != server.uris) else { return };
        let own = table.own.iter().filter(|((_, of), _)| *of == server.id).map(|(_, place)| *place);
        let places: HashSet<PlaceId> = own.chain([server.id.into()]).collect();
        let FollowTable { machine, who, .. } = &mut *table;
        // Whoever asks for one server alone knows its URIs as they are.
        for (follower, who) in who.iter_mut().filter(|(_, who)| who.scope.alone().is_none()) {
            for address in machine.asked_by(*follower).filter(|address| places.contains(&address.place)) {
                if who.spellings.of(address).is_none() {
                    who.spellings.add(address, &before.uris.outward(&address.uri).into());
                }
            }
        }
    }

    /// A server is removed. Nobody can be unsubscribed by us: whoever follows its resources is told once, and finds out by
    /// reading.
    pub(crate) fn removed_for_followers(self: &Arc<Self>, server: &Arc<Server>) {
        self.drive(|table, now| {
            let own = table.own.iter().filter(|((_, of), _)| *of == server.id).map(|(_, place)| *place);
            let places: Vec<PlaceId> = own.chain([server.id.into()]).collect();
            if places.iter().any(|place| table.machine.has_followers(*place)) {
                // Before the machine is told: its notices are worded with this server's URIs.
                table.departed.insert(server.id, Arc::clone(server));
            }
            places.into_iter().flat_map(|place| table.machine.removed(place, now)).collect()
        });
    }
}

impl FollowTable {
    /// Forgets servers that were removed and that nobody follows any more.
    pub(super) fn forget_departed(&mut self) {
        if self.departed.is_empty() {
            return;
        }
        let Self { departed, own, machine, .. } = self;
        departed.retain(|id, _| {
            let places = own.iter().filter(|((_, of), _)| of == id).map(|(_, place)| *place);
            places.chain([PlaceId::Shared(*id)]).any(|place| machine.has_followers(place))
        });
    }
}

/// How a server is followed over a link.
fn upstream_of(place: &FollowedLink) -> SubscribeMethod {
    let hello = &place.live.hello;
    match hello.revision.era() {
        _ if !capabilities::subscribes(&hello.capabilities) => SubscribeMethod::Unable,
        // It offers subscriptions, but could not tell of anything: a promise would be empty.
        Era::Legacy if place.live.link.is_push_unsupported() => SubscribeMethod::Unable,
        Era::Legacy => SubscribeMethod::PerUri,
        Era::Modern => SubscribeMethod::Union,
    }
}
