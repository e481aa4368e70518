//! Who follows what, for people to see.

use std::sync::Arc;

use tidings_hub::subscriptions::Phase;
use tidings_proto::Era;

use super::FIRST_OWN;
use crate::gateway::Gateway;

/// A resource that is followed.
#[derive(Clone, Debug)]
pub struct FollowedResource {
    /// The configured name of its server.
    pub server: String,
    /// Its URI, as clients know it.
    pub uri: String,
    /// Its URI, as its server knows it.
    pub local: Arc<str>,
    /// How it stands with its server.
    pub phase: Phase,
    /// Whether this is over a connection of one session alone.
    pub own: bool,
    /// How many follow it.
    pub followers: usize,
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
}

impl Gateway {
    /// Every resource that is followed, and every client that follows one.
    pub fn followed(&self) -> (Vec<FollowedResource>, Vec<Follower>) {
        let gateway = &self.0;
        let table = gateway.following.lock();
        let resources = table.machine.followed().filter_map(|followed| {
            let server = gateway.server_at(&table, followed.address.server)?;
            Some(FollowedResource {
                server: server.plan.name.clone(),
                uri: server.uris.outward(&followed.address.uri),
                local: Arc::clone(&followed.address.uri),
                phase: followed.phase,
                own: followed.address.server.0 >= FIRST_OWN,
                followers: followed.followers,
            })
        });
        let mut resources: Vec<FollowedResource> = resources.collect();
        resources.sort_by(|a, b| (&a.server, &a.local).cmp(&(&b.server, &b.local)));
        let followers = table.who.iter().map(|(id, who)| {
            let followed = table.machine.followed_by(*id);
            let uris = followed.filter_map(|address| table.shown(gateway, *id, address)).collect();
            Follower { id: id.0, era: who.era, name: who.name.clone(), uris }
        });
        let mut followers: Vec<Follower> = followers.filter(|follower| !follower.uris.is_empty()).collect();
        followers.sort_by_key(|follower| follower.id);
        (resources, followers)
    }

    /// How many resources are followed, and how many pairs of client and resource there are.
    pub(crate) fn count_followed(&self) -> (usize, usize) {
        let table = self.0.following.lock();
        (table.machine.followed().count(), table.machine.len())
    }
}
