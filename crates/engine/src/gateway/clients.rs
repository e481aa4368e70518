//! What people ask about clients: who is connected, how each stands to what changed, what it sees and what it was told.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use tidings_hub::ClientKey;
use tidings_hub::catalogue::CatalogueSnapshot;
use tidings_hub::deliveries::ClientStanding;
use tidings_hub::ledger::FollowerId;
use tidings_hub::scope::AccessScope;
use tidings_proto::Topic;

use super::Gateway;
use crate::notify::listeners::Connected;
use crate::notify::standing::{ClientEvents, CommitNotices, StandingClient, ToldClient};

impl Gateway {
    /// Every session and every open `subscriptions/listen`, the oldest first.
    pub fn connected(&self) -> Vec<Connected> {
        self.0.notifier.connected(|client| self.requests_of(client))
    }

    /// The oldest of them.
    pub fn connected_first(&self, most: usize) -> Vec<Connected> {
        self.0.notifier.connected_first(most, |client| self.requests_of(client))
    }

    /// How many there are.
    pub fn connected_count(&self) -> usize {
        self.0.notifier.connected_count()
    }

    /// The number of the client with this name and principal, if there is exactly one.
    pub fn only_connected(&self, name: &str, principal: &str) -> Option<u64> {
        self.0.notifier.only_connected(name, principal)
    }

    /// How many clients are shown to people: those that are connected, and modern ones that asked lately and do not listen.
    pub fn shown_count(&self) -> usize {
        self.connected_count() + self.0.notifier.asking_count()
    }

    /// How many of them stand how.
    pub fn standing_counts(&self) -> Vec<(ClientStanding, usize)> {
        self.0.notifier.standing_counts()
    }

    fn requests_of(&self, client: ClientKey) -> usize {
        // Asked one by one: the lock of the calls in flight is a leaf.
        self.0.links.in_flight.lock().calls.count_of(client)
    }

    /// Who is connected, with what each was told of lists that changed and whether it listed again.
    pub fn standing(&self) -> Vec<StandingClient> {
        self.0.notifier.standing(self.connected())
    }

    /// Some of those that fit, in the order of `rank` and then of their numbers, and how many fit.
    pub fn standing_part(
        &self,
        fits: impl Fn(ClientStanding) -> bool,
        rank: impl Fn(ClientStanding) -> u8,
        part: Range<usize>,
    ) -> (Vec<StandingClient>, usize) {
        self.0.notifier.standing_part(fits, rank, part, |client| self.requests_of(client))
    }

    /// Those of these clients that are connected.
    pub fn standing_of(&self, ids: impl IntoIterator<Item = u64>) -> Vec<StandingClient> {
        self.0.notifier.standing_of(ids, |client| self.requests_of(client))
    }

    /// The catalogue as a client that is connected sees it, by its number.
    pub fn seen_by_client(&self, id: u64) -> Option<Arc<CatalogueSnapshot>> {
        let shared = Arc::clone(&self.0.catalogue.current().snapshot);
        if let Some(session) = self.0.sessions.get(ClientKey(id)) {
            // A session with links of its own sees their lists.
            return Some(match self.0.pool.has_isolated() {
                true => self.0.lifecycle.discovery.known_view_of(&session),
                false => shared.seen_as(&session.principal.scope, session.shape()),
            });
        }
        let shape = self.0.notifier.shape_of_listen(FollowerId(id));
        Some(shared.seen_as(&self.0.notifier.scope_of_listen(FollowerId(id))?, shape.as_ref()))
    }

    /// Who is connected and what is known of them, each once.
    pub fn connected_people(&self) -> Vec<(String, AccessScope)> {
        let mut people: BTreeMap<String, Vec<AccessScope>> = BTreeMap::new();
        for client in self.connected() {
            let session = self.0.sessions.get(ClientKey(client.id)).map(|session| session.principal.scope.clone());
            let scope = session.or_else(|| self.0.notifier.scope_of_listen(FollowerId(client.id)));
            let known = people.entry(client.principal).or_default();
            known.extend(scope.filter(|scope| !known.contains(scope)));
        }
        people
            .into_iter()
            .flat_map(|(name, scopes)| scopes.into_iter().map(move |scope| (name.clone(), scope)))
            .collect()
    }

    /// What became of the notices of a commit and of one of its lists, by the commit's number. `None` if it is forgotten, or was of an
    /// earlier process.
    pub fn notices_of(&self, commit: u64, topic: Topic) -> Option<CommitNotices> {
        self.0.notifier.notices_of(commit, topic)
    }

    /// The same of the newest commits, by list.
    pub fn newest_notices(&self, most: usize) -> Vec<(u64, Topic, CommitNotices)> {
        self.0.notifier.newest_notices(most)
    }

    /// Who was told of a commit, the newest first.
    pub fn told_of(&self, commit: u64, topic: Topic, most: usize) -> Vec<ToldClient> {
        self.0.notifier.told_of(commit, topic, most)
    }

    /// What happened to a client, the newest first.
    pub fn client_events(&self, id: u64, most: usize) -> ClientEvents {
        self.0.notifier.client_events(id, most)
    }

    /// Rises whenever a client was told or listed.
    pub fn deliveries_version(&self) -> u64 {
        self.0.notifier.deliveries_version()
    }
}
