//! What must be true when everything has come to rest.

use super::*;

impl World {
    /// Everybody answers, and everything comes to rest.
    pub(in super::super) fn settle(&mut self) {
        for server in SERVERS {
            if self.servers[&server].up.is_none() {
                self.connect(server, SubscribeMethod::PerUri, false);
            }
        }
        for _ in 0..40 {
            while !self.flights.is_empty() {
                self.answer(0, true);
            }
            while self.requests.values().any(|request| request.answered.is_some()) {
                self.ack(0);
            }
            self.poll();
            self.pass(ms(5_000));
        }
        assert!(self.requests.is_empty() && self.flights.is_empty());
    }

    /// Nobody holds what is no longer true without having been told.
    pub(in super::super) fn check_at_rest(&mut self, followers: impl Iterator<Item = FollowerId>) {
        for follower in followers {
            self.take(follower);
        }
        for ((follower, address), following) in &self.following {
            assert!(following.acked);
            let content = self.contents.get(address).copied().unwrap_or_default();
            if let Some((held, told)) = following.holds {
                assert!(
                    held == content || told,
                    "{follower:?} believes that {address:?} is {held}, and it is {content}"
                );
            }
        }
        let kept: BTreeSet<&ResourceAddress> = self.following.keys().map(|(_, address)| address).collect();
        let followed: BTreeSet<ResourceAddress> = self.table.followed().map(|one| one.address.clone()).collect();
        assert_eq!(followed.iter().collect::<BTreeSet<_>>(), kept, "exactly what somebody follows is kept");
        assert_eq!(self.table.len(), self.following.len());
        for (id, server) in &self.servers {
            let expected: BTreeSet<&Uri> = kept.iter().filter(|at| at.place == *id).map(|at| &at.uri).collect();
            let listened = server.open.values().flatten();
            let polled = self.polled.iter().filter(|at| at.place == *id).map(|at| &at.uri);
            let watched: BTreeSet<&Uri> = server.subscribed.iter().chain(listened).chain(polled).collect();
            assert_eq!(watched, expected, "the server is asked for exactly that");
        }
    }
}
