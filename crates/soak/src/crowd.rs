//! All clients, and what must hold for each of them.

use std::time::{Duration, Instant};

use tidings_testkit::{Gateway, V2024_11_05, V2025_03_26, V2025_06_18, V2025_11_25};
use tokio::sync::watch;

use crate::failure::SoakFailure;
use crate::follower::{FollowerHandle, FollowerOrder};
use crate::kinds::{DefinitionView, SoakTopic};
use crate::truth::{ListTruth, differences};
use crate::world::Changes;
use tidings_testkit::SplitMix;

/// How long the truth may take: a listing that failed several times is retried after 1, 2 and 4 seconds.
const PATIENCE: Duration = Duration::from_secs(45);

pub(crate) struct SoakCrowd {
    pub(crate) followers: Vec<FollowerHandle>,
    bell: watch::Receiver<u64>,
    /// The notices of each follower when the epoch began.
    marks: Vec<[u64; 3]>,
    /// The changes when all followed, and when the epoch began.
    first: Changes,
    before: Changes,
}

impl SoakCrowd {
    pub(crate) async fn begin(gateway: &Gateway, begun: Instant) -> Self {
        let (ring, bell) = watch::channel(0);
        // The last one is told of nothing by default, which is checked, too.
        let revisions = [V2025_11_25, V2025_11_25, V2025_11_25, V2025_06_18, V2025_06_18, V2024_11_05, V2025_03_26];
        let mut followers = Vec::new();
        for (number, revision) in revisions.iter().enumerate() {
            let client = gateway.client().revision(revision);
            followers
                .push(FollowerHandle::begin(&format!("legacy {number}"), client, false, begun, ring.clone()).await);
        }
        for number in 0..5 {
            let client = gateway.client().modern();
            followers
                .push(FollowerHandle::begin(&format!("modern {number}"), client, false, begun, ring.clone()).await);
        }
        followers.push(FollowerHandle::begin("stdio", gateway.stdio(), true, begun, ring.clone()).await);
        followers.push(FollowerHandle::begin("stdio", gateway.stdio().modern(), true, begun, ring).await);
        let marks = vec![[0; 3]; followers.len()];
        Self { followers, bell, marks, first: Changes::default(), before: Changes::default() }
    }

    /// Everything from here on belongs to the next epoch.
    pub(crate) fn mark(&mut self, changes: &Changes) {
        self.marks = self.followers.iter().map(|follower| follower.seen().notices).collect();
        self.before = *changes;
    }

    /// Some client drops its stream, or stops reading.
    pub(crate) fn disturb(&self, random: &mut SplitMix) -> &'static str {
        let follower = random.pick(&self.followers);
        if random.chance(40) {
            follower.order(FollowerOrder::Stall(random.millis(20, 800)));
            return "slow reader";
        }
        follower.order(FollowerOrder::Reopen { resume: random.chance(50), after: random.millis(0, 200) });
        "reconnect of a client"
    }

    /// Waits until every client has done what it was told to do.
    pub(crate) async fn calm_down(&mut self) -> Result<(), SoakFailure> {
        let busy = |crowd: &Self| crowd.followers.iter().find(|f| f.seen().orders > 0).map(|f| f.name.clone());
        self.wait(busy, |client| SoakFailure::Busy { client }).await
    }

    /// Waits until the last list that each client saw is the truth, and nothing that it was told waits to be heeded: a list may be
    /// ahead of the notices, and one that was asked for late of many.
    pub(crate) async fn sees(&mut self, truth: &ListTruth) -> Result<(), SoakFailure> {
        let differs = |crowd: &Self| crowd.first_to_differ(truth);
        self.wait(differs, |(client, differences)| SoakFailure::NotTheTruth { client, differences }).await
    }

    /// Waits until nothing is found any more.
    async fn wait<T>(
        &mut self,
        find: impl Fn(&Self) -> Option<T>,
        failure: impl FnOnce(T) -> SoakFailure,
    ) -> Result<(), SoakFailure> {
        let end = tokio::time::Instant::now() + PATIENCE;
        loop {
            // Before the look, so that what is seen during it ends the wait below.
            self.bell.mark_unchanged();
            if let Some(failed) = self.followers.iter().find(|follower| follower.has_failed()) {
                return Err(SoakFailure::ClientFailed { client: failed.name.clone() });
            }
            let Some(found) = find(self) else { return Ok(()) };
            if tokio::time::Instant::now() >= end {
                return Err(failure(found));
            }
            // Also once in a while by itself: a task that fails rings no bell.
            let _ = tokio::time::timeout(Duration::from_millis(500), self.bell.changed()).await;
        }
    }

    fn first_to_differ(&self, truth: &ListTruth) -> Option<(String, Vec<String>)> {
        let told = self.followers.iter().filter(|follower| !follower.silent);
        let found = |follower: &FollowerHandle| {
            let seen = follower.seen();
            let mut found = differences(&seen.lists, truth.of(follower.view));
            if seen.unread > 0 {
                found.push(format!("{} messages are not read yet", seen.unread));
            }
            found
        };
        told.map(|follower| (follower, found(follower)))
            .find(|(_, differences)| !differences.is_empty())
            .map(|(follower, differences)| (follower.name.clone(), differences))
    }

    /// Nobody may have been told of more changes than there were. The fences are resources, so those are counted over all
    /// epochs; the other notices of an epoch have come before its last fence was seen.
    pub(crate) fn check_not_too_often(&self, changes: &Changes) -> Result<(), SoakFailure> {
        for (follower, mark) in self.followers.iter().zip(&self.marks) {
            let told = follower.seen().notices;
            for topic in SoakTopic::ALL {
                let (at, view) = (topic as usize, follower.view as usize);
                let (heard, most) = match topic {
                    // Whoever is of a silent revision may hear nothing at all.
                    _ if follower.silent => (told[at], 0),
                    SoakTopic::Resources => (told[at], changes[at][view] - self.first[at][view] + follower.initial),
                    _ => (told[at] - mark[at], changes[at][view] - self.before[at][view]),
                };
                if heard > most {
                    let client = follower.name.clone();
                    return Err(SoakFailure::ToldTooOften { client, topic, heard, most });
                }
            }
        }
        Ok(())
    }

    /// Everybody who can see it was told of the one change of this epoch: exactly once, where `most` is 1.
    pub(crate) fn check_once(&self, topic: SoakTopic, views: &[DefinitionView], most: u64) -> Result<(), SoakFailure> {
        let told = |follower: &FollowerHandle| !follower.silent && views.contains(&follower.view);
        for (follower, mark) in self.followers.iter().zip(&self.marks).filter(|(follower, _)| told(follower)) {
            let heard = follower.seen().notices[topic as usize] - mark[topic as usize];
            if heard == 0 || heard > most {
                return Err(SoakFailure::NotOnce { client: follower.name.clone(), topic, heard });
            }
        }
        Ok(())
    }

    /// How long after a moment the last of them was told.
    pub(crate) fn latest(&self, topic: SoakTopic, since: Instant) -> Duration {
        let told = self.followers.iter().filter_map(|follower| follower.seen().last_notice[topic as usize]);
        told.map(|at| at.saturating_duration_since(since)).max().unwrap_or_default()
    }

    pub(crate) fn notices(&self) -> u64 {
        self.followers.iter().map(|follower| follower.seen().notices.iter().sum::<u64>()).sum()
    }

    pub(crate) async fn end(self) {
        for follower in self.followers {
            follower.end().await;
        }
    }
}
