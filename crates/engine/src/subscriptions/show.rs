//! Who follows what, for people to see.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tidings_hub::subscriptions::{PlaceId, ResourcePhase};
use tidings_proto::Era;

use super::ResourceSubscriptions;

/// A silence that is shorter is over before anybody can look at it.
const UNHEARD: Duration = Duration::from_secs(3);

/// A resource that clients follow, as `tidings subscriptions` shows it.
#[derive(Clone, Debug)]
pub struct FollowedResource {
    /// The configured name of its server.
    pub server: String,
    /// Its URI, as clients know it.
    pub uri: String,
    /// Its URI, as its server knows it.
    pub local: Arc<str>,
    /// How it stands with its server.
    pub phase: ResourcePhase,
    /// Whether this is over a connection of one session alone.
    pub own: bool,
    /// How many follow it.
    pub followers: usize,
    /// For how long its server could not tell of its changes, though somebody was promised to be told.
    pub unheard_for: Option<Duration>,
    /// How often changes of it were put to its followers, since somebody follows it.
    pub announced: u32,
    /// How long ago that was last.
    pub announced_ago: Option<Duration>,
}

/// A client that follows resources.
#[derive(Clone, Debug)]
pub struct Follower {
    /// Unique while the gateway runs.
    pub id: u64,
    /// Its era: a legacy session, or one modern `subscriptions/listen`.
    pub era: Era,
    /// What it calls itself.
    pub name: Option<Arc<str>>,
    /// What it follows, as it spells it.
    pub uris: Vec<String>,
    /// The same, each as the name of its server and as that server spells it.
    pub resources: Vec<(String, Arc<str>)>,
}

/// How much is followed, for those who count.
pub(crate) struct FollowedCount {
    pub(crate) resources: usize,
    /// Pairs of client and resource.
    pub(crate) followers: usize,
    /// Resources that their servers could not tell of for longer than it takes to connect again.
    pub(crate) unheard: usize,
}

impl ResourceSubscriptions {
    /// Those of the resources that are followed that are asked for: by the name of their server, and as that server spells them. And how
    /// many are followed. Of thousands only these are described.
    pub(crate) fn followed_where(&self, wanted: impl Fn(&str, &str) -> bool) -> (Vec<FollowedResource>, usize) {
        let now = Instant::now();
        let ago = |at: Instant| now.saturating_duration_since(at);
        let table = self.lock();
        let mut count = 0;
        let resources = table.machine.followed().filter_map(|followed| {
            let server = self.server_at(&table, followed.address.place)?;
            count += 1;
            wanted(&server.plan.name, &followed.address.uri).then(|| FollowedResource {
                server: server.plan.name.clone(),
                uri: server.uris.outward(&followed.address.uri),
                local: Arc::clone(&followed.address.uri),
                phase: followed.phase,
                own: matches!(followed.address.place, PlaceId::Own(_)),
                followers: followed.followers,
                unheard_for: followed.unheard_since.map(ago),
                announced: followed.announced,
                announced_ago: followed.announced_at.map(ago),
            })
        });
        let resources = resources.collect();
        (resources, count)
    }

    /// Every resource that is followed, and every client that follows one.
    pub(crate) fn followed(&self) -> (Vec<FollowedResource>, Vec<Follower>) {
        let (mut resources, _) = self.followed_where(|_, _| true);
        let table = self.lock();
        // The table has no order; people compare two outputs.
        resources.sort_by(|a, b| (&a.server, &a.local).cmp(&(&b.server, &b.local)));
        let followers = table.who.iter().map(|(id, who)| {
            let followed = || table.machine.followed_by(*id);
            let uris = followed().filter_map(|address| table.shown(self, *id, address)).collect();
            let resources = followed().filter_map(|address| {
                let server = self.server_at(&table, address.place)?;
                Some((server.plan.name.clone(), Arc::clone(&address.uri)))
            });
            Follower { id: id.0, era: who.era, name: who.name.clone(), uris, resources: resources.collect() }
        });
        let mut followers: Vec<Follower> = followers.filter(|follower| !follower.uris.is_empty()).collect();
        followers.sort_by_key(|follower| follower.id);
        (resources, followers)
    }

    /// How much is followed.
    pub(crate) fn count_followed(&self) -> FollowedCount {
        let now = Instant::now();
        let table = self.lock();
        let is_unheard = |since: Instant| now.saturating_duration_since(since) >= UNHEARD;
        let unheard = table.machine.followed().filter(|followed| followed.unheard_since.is_some_and(is_unheard));
        FollowedCount {
            resources: table.machine.followed().count(),
            followers: table.machine.len(),
            unheard: unheard.count(),
        }
    }
}
