//! Who is owed which announcement.
//!
//! A commit owes a follower a notice only if it changed the hash of what *that follower would see*. What is owed stays
//! owed until its bytes were handed to the follower's transport: a later change back does not settle it, and neither does
//! listing, or a client that listed in between would keep what is no longer true. Per follower this is three bits, so a
//! slow one costs nothing but itself.
//!
//! A commit may come before the signals of its server are quiet, because somebody asked for the list. What it owes is held
//! until the server's window is over ([`Ledger::release`]), or until the follower is told of the same topic for another
//! reason: then it lists everything again, and one notice does for both.

use std::collections::{HashMap, HashSet};
use std::time::Instant;

use tidings_proto::Revision;
pub use tidings_proto::Topic;
use tidings_wire::Digest;

use crate::{ClientKey, ServerId};

/// A set of topics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Topics(u8);

impl Topics {
    /// Every topic, as a legacy session follows them.
    pub const ALL: Self = Self(0b111);

    /// Adds a topic; one that is there already stays.
    pub fn insert(&mut self, topic: Topic) {
        self.0 |= 1 << topic as u8;
    }

    /// Whether it holds one.
    pub fn contains(self, topic: Topic) -> bool {
        self.0 & (1 << topic as u8) != 0
    }

    /// Whether it holds none.
    pub fn is_empty(self) -> bool {
        self == Self::default()
    }

    /// The topics it holds, in the order of [`Topic::ALL`].
    pub fn iter(self) -> impl Iterator<Item = Topic> {
        Topic::ALL.into_iter().filter(move |topic| self.contains(*topic))
    }

    /// Takes a topic out, if it is there.
    pub fn remove(&mut self, topic: Topic) {
        self.0 &= !(1 << topic as u8);
    }

    /// Takes the first one out, in the order of [`Topic::ALL`].
    pub fn pop(&mut self) -> Option<Topic> {
        let first = self.iter().next()?;
        self.remove(first);
        Some(first)
    }

    /// Those that both hold.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Those that fit.
    fn those(fits: impl Fn(Topic) -> bool) -> Self {
        let mut those = Self::default();
        Topic::ALL.into_iter().filter(|topic| fits(*topic)).for_each(|topic| those.insert(topic));
        those
    }
}

/// A legacy session, or one `subscriptions/listen`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FollowerId(pub u64);

impl From<ClientKey> for FollowerId {
    /// A session follows under its own number; a listen takes a number of its own from the same row.
    fn from(client: ClientKey) -> Self {
        Self(client.0)
    }
}

/// What a follower begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FollowerBaseline {
    /// It has seen nothing: everything is announced once.
    Nothing,
    /// It has seen what is there now.
    Current,
    /// It was told of these states, by topic, before the gateway ended; `None` where a notice was owed or nothing is known. What
    /// is different now is announced once.
    Told([Option<Digest>; 3]),
}

/// The hash of each topic as one view has it.
pub type ViewDigests = [Digest; 3];

/// What leads to a commit: which topics it is about, and when the first word of each came, if one came at all.
#[derive(Clone, Copy, Debug)]
pub struct CommitOccasion {
    /// When it is committed.
    pub at: Instant,
    /// The topics whose content it changed for somebody at least.
    pub touched: Topics,
    /// When a server first said so, by topic.
    pub signalled: [Option<Instant>; 3],
    /// The server whose signals are still being gathered: what is owed is held until it is released.
    pub held_by: Option<ServerId>,
}

/// What a commit did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LedgerCommit {
    /// Who is owed something by it.
    pub owed: Vec<FollowerId>,
    /// Followers whose view of a topic it changed, whether they were owed a notice already or not; by topic.
    pub owing: [u64; 3],
    /// Notices that were owed already, so that one notice will do for both; by topic.
    pub coalesced: [u64; 3],
    /// Followers of a topic it is about whose own view of it did not change, by topic.
    pub unchanged: [u64; 3],
    /// Clients who are told of nothing, by topic it is about.
    pub silent: [u64; 3],
    /// Followers with a view of their own, which must be made again to know: see [`Ledger::show_own`].
    pub own: Vec<FollowerId>,
}

/// Since when a notice was owed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwedSince {
    /// When the first word of the change came, if it was not found by looking.
    pub signal: Option<Instant>,
    /// When the change could first be read.
    pub commit: Instant,
}

/// What a follower is told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NoticeDelivery {
    /// The lists that the notices are about.
    pub topics: Topics,
    /// The oldest change that each notice stands for. What a fresh follower is owed stands for none.
    pub since: [Option<OwedSince>; 3],
}

#[derive(Debug)]
struct LedgerFollower {
    /// Where its view stands.
    view: usize,
    /// What it sees, if nobody else sees the same.
    own: Option<ViewDigests>,
    follows: Topics,
    owed: Topics,
    since: [Option<OwedSince>; 3],
    notified: [Option<Digest>; 3],
}

/// What some followers see alike.
#[derive(Debug)]
struct SharedView<V> {
    of: V,
    digests: ViewDigests,
    /// What the commit under way changed in it.
    changed: Topics,
    followers: usize,
}

/// The ledger. `V` tells views apart: followers with equal ones see the same.
#[derive(Debug)]
pub struct Ledger<V = Revision> {
    /// The views that somebody has. There are few; a place is free when nobody has it.
    views: Vec<Option<SharedView<V>>>,
    followers: HashMap<FollowerId, LedgerFollower>,
    silent: HashSet<FollowerId>,
    /// What is owed and not to be told yet, by the server that is not quiet yet.
    held: HashMap<ServerId, HashMap<FollowerId, [Option<OwedSince>; 3]>>,
}

impl<V> Default for Ledger<V> {
    fn default() -> Self {
        Self { views: Vec::new(), followers: HashMap::new(), silent: HashSet::new(), held: HashMap::new() }
    }
}

impl<V: PartialEq> Ledger<V> {
    /// Begins to follow. `now` is what the follower's view is at this moment: the last committed state.
    pub fn follow(&mut self, id: FollowerId, view: V, follows: Topics, baseline: FollowerBaseline, now: ViewDigests) {
        let view = self.share(view, now);
        let owed = match baseline {
            FollowerBaseline::Nothing => follows,
            FollowerBaseline::Current => Topics::default(),
            FollowerBaseline::Told(told) => {
                follows.and(Topics::those(|topic| told[topic as usize] != Some(now[topic as usize])))
            }
        };
        let follower = LedgerFollower { view, own: None, follows, owed, since: [None; 3], notified: [None; 3] };
        // After the new one was counted: a view that is the same before and after must not go in between.
        if let Some(before) = self.followers.insert(id, follower) {
            self.leave(before.view);
        }
    }

    /// One more has this view.
    fn share(&mut self, view: V, now: ViewDigests) -> usize {
        // A linear search: there are as many views as revisions and scopes in use, not as many as clients.
        let same = |shared: &Option<SharedView<V>>| shared.as_ref().is_some_and(|shared| shared.of == view);
        if let Some(place) = self.views.iter().position(same) {
            if let Some(shared) = &mut self.views[place] {
                shared.followers += 1;
            }
            return place;
        }
        let new = Some(SharedView { of: view, digests: now, changed: Topics::default(), followers: 1 });
        // Places are reused but never moved: followers remember theirs as an index.
        match self.views.iter().position(Option::is_none) {
            Some(free) => {
                self.views[free] = new;
                free
            }
            None => {
                self.views.push(new);
                self.views.len() - 1
            }
        }
    }

    /// One less has this view. One that nobody has costs nothing.
    fn leave(&mut self, place: usize) {
        if let Some(shared) = &mut self.views[place] {
            shared.followers -= 1;
            if shared.followers == 0 {
                self.views[place] = None;
            }
        }
    }

    /// A client who is told of nothing. It is only counted, so its view costs nothing.
    pub fn ignore(&mut self, id: FollowerId) {
        self.silent.insert(id);
    }

    /// Forgets a follower, or one who is told of nothing.
    pub fn unfollow(&mut self, id: FollowerId) {
        self.silent.remove(&id);
        for held in self.held.values_mut() {
            held.remove(&id);
        }
        if let Some(gone) = self.followers.remove(&id) {
            self.leave(gone.view);
        }
    }

    /// A new state can be read. Says who is owed something by it, and who is not.
    pub fn commit(&mut self, occasion: &CommitOccasion, digests: impl Fn(&V) -> ViewDigests) -> LedgerCommit {
        // Each view is hashed once per commit, however many followers share it.
        let mut unchanged = true;
        for view in self.views.iter_mut().flatten() {
            let new = digests(&view.of);
            // Against the last commit and not against what the follower was last told: a change and its reverse are two
            // changes, and a client may have listed in between.
            let before = std::mem::replace(&mut view.digests, new);
            view.changed = Topics::those(|topic| new[topic as usize] != before[topic as usize]);
            unchanged &= view.changed.is_empty();
        }
        let mut done = LedgerCommit::default();
        for topic in occasion.touched.iter() {
            done.silent[topic as usize] = self.silent.len() as u64;
        }
        // Nothing was said and nothing differs: the loop over all followers, who may be thousands, is spared.
        if unchanged && occasion.touched.is_empty() {
            return done;
        }
        let mut held = occasion.held_by.map(|server| self.held.entry(server).or_default());
        for (id, follower) in &mut self.followers {
            // Its view is not one of the shared ones; whoever drives the ledger makes it anew and reports by
            // `show_own`.
            if follower.own.is_some() {
                done.own.push(*id);
                continue;
            }
            let changed = self.views[follower.view].as_ref().map(|view| view.changed).unwrap_or_default();
            for topic in follower.follows.iter() {
                if !changed.contains(topic) {
                    done.unchanged[topic as usize] += u64::from(occasion.touched.contains(topic));
                    continue;
                }
                done.owing[topic as usize] += 1;
                // The notice that is owed already will make it list, and it will find this change too; `since` stays
                // that of the oldest.
                if follower.owed.contains(topic) {
                    done.coalesced[topic as usize] += 1;
                } else {
                    let since = OwedSince { signal: occasion.signalled[topic as usize], commit: occasion.at };
                    match &mut held {
                        Some(held) => match &mut held.entry(*id).or_default()[topic as usize] {
                            Some(_) => done.coalesced[topic as usize] += 1,
                            none => *none = Some(since),
                        },
                        None => {
                            follower.owed.insert(topic);
                            follower.since[topic as usize] = Some(since);
                        }
                    }
                }
            }
            if held.is_none() && !changed.and(follower.follows).is_empty() {
                done.owed.push(*id);
            }
        }
        done
    }

    /// Some may have listed without the last change of these, and were not told since: everybody is owed them once more. Gives those who
    /// are owed something by this.
    pub fn owe_again(&mut self, topics: Topics, at: Instant) -> Vec<FollowerId> {
        let mut owed = Vec::new();
        for (id, follower) in &mut self.followers {
            let again = follower.follows.and(topics);
            for topic in again.iter().filter(|topic| !follower.owed.contains(*topic)).collect::<Vec<_>>() {
                follower.owed.insert(topic);
                follower.since[topic as usize] = Some(OwedSince { signal: None, commit: at });
            }
            if !again.is_empty() {
                owed.push(*id);
            }
        }
        owed
    }

    /// A follower can read a view of its own from now on. The first one it begins with; what differs in a later one it is
    /// owed. Says whether it is owed anything by this.
    pub fn show_own(&mut self, id: FollowerId, at: Instant, digests: ViewDigests) -> bool {
        // The session ended while its view was being made.
        let Some(follower) = self.followers.get_mut(&id) else { return false };
        // The first view of its own is what it begins with: there is nothing to compare it to.
        let Some(before) = follower.own.replace(digests) else { return false };
        let differs = |topic: &Topic| before[*topic as usize] != digests[*topic as usize];
        let mut owes = false;
        for topic in follower.follows.iter().filter(differs) {
            owes = true;
            if !follower.owed.contains(topic) {
                follower.owed.insert(topic);
                follower.since[topic as usize] = Some(OwedSince { signal: None, commit: at });
            }
        }
        owes
    }

    /// A follower who saw what others see has a view of its own from now on, which begins as theirs: what differs in the next one it is
    /// owed ([`Self::show_own`]). One that has such a view keeps it.
    pub fn begin_own(&mut self, id: FollowerId) {
        let Some(follower) = self.followers.get_mut(&id) else { return };
        if let (None, Some(shared)) = (follower.own, &self.views[follower.view]) {
            follower.own = Some(shared.digests);
        }
    }

    /// The signals of a server have been quiet for long enough: what was held for them is owed now. Says to whom.
    pub fn release(&mut self, server: ServerId) -> Vec<FollowerId> {
        let held = self.held.remove(&server).unwrap_or_default();
        let mut owed = Vec::with_capacity(held.len());
        for (id, topics) in held {
            let Some(follower) = self.followers.get_mut(&id) else { continue };
            for (topic, since) in Topic::ALL.into_iter().zip(topics) {
                // Another server may have made the same topic owed meanwhile: then that older moment stands.
                if let Some(since) = since.filter(|_| !follower.owed.contains(topic)) {
                    follower.owed.insert(topic);
                    follower.since[topic as usize] = Some(since);
                }
            }
            owed.push(id);
        }
        owed
    }

    /// Whether something is held for a follower.
    pub fn holds(&self, id: FollowerId) -> bool {
        self.held.values().any(|held| held.contains_key(&id))
    }

    /// What a follower is owed, without what is held.
    pub fn owed(&self, id: FollowerId) -> Topics {
        self.followers.get(&id).map(|follower| follower.owed).unwrap_or_default()
    }

    /// Since when a follower is owed something, without what is held.
    pub fn owed_since(&self, id: FollowerId) -> Option<Instant> {
        let follower = self.followers.get(&id)?;
        follower.since.iter().flatten().map(|since| since.commit).min()
    }

    /// Whether a client is told of nothing.
    pub fn is_silent(&self, id: FollowerId) -> bool {
        self.silent.contains(&id)
    }

    /// Where a follower's view stands.
    pub fn place_of(&self, id: FollowerId) -> Option<usize> {
        self.followers.get(&id).map(|follower| follower.view)
    }

    /// The places of the views that the last commit changed, a bit each, by topic; those beyond 63 share the last bit.
    pub fn changed_views(&self) -> [u64; 3] {
        let mut changed = [0; 3];
        for (place, view) in self.views.iter().enumerate() {
            for topic in view.iter().flat_map(|view| view.changed.iter()) {
                changed[topic as usize] |= 1 << place.min(63);
            }
        }
        changed
    }

    /// Takes what a follower is owed, because its transport takes the bytes now.
    pub fn deliver(&mut self, id: FollowerId) -> NoticeDelivery {
        let Some(follower) = self.followers.get_mut(&id) else { return NoticeDelivery::default() };
        let topics = std::mem::take(&mut follower.owed);
        let since = std::mem::take(&mut follower.since);
        // What is held would be told a second time when its window ends, though the client lists all of it now.
        for held in self.held.values_mut() {
            settle(held, id, topics);
        }
        let shared = || self.views[follower.view].as_ref().map(|view| &view.digests);
        if let Some(digests) = follower.own.as_ref().or_else(shared) {
            // Only for `last_notified`, by which the property tests compare what was told with what could be read.
            for topic in topics.iter() {
                follower.notified[topic as usize] = Some(digests[topic as usize]);
            }
        }
        NoticeDelivery { topics, since }
    }

    /// The state of each topic that a follower needs no notice of, to go on from after a restart; nothing of a topic that it is
    /// owed, and of a view of its own, which is made anew then.
    pub fn told(&self, id: FollowerId) -> [Option<Digest>; 3] {
        let Some(follower) = self.followers.get(&id).filter(|follower| follower.own.is_none()) else {
            return [None; 3];
        };
        let Some(view) = self.views[follower.view].as_ref() else { return [None; 3] };
        let is_held = |topic: Topic| {
            let mut held = self.held.values().filter_map(|held| held.get(&id));
            held.any(|held| held[topic as usize].is_some())
        };
        // A notice that is only held counts as untold: the process may end before it is released.
        let is_told = |topic: Topic| !follower.owed.contains(topic) && !is_held(topic);
        Topic::ALL.map(|topic| is_told(topic).then_some(view.digests[topic as usize]))
    }

    /// The state that a follower was last told of.
    pub fn last_notified(&self, id: FollowerId, topic: Topic) -> Option<Digest> {
        self.followers.get(&id)?.notified[topic as usize]
    }

    /// How many clients are told of changes.
    pub fn len(&self) -> usize {
        self.followers.len()
    }

    /// Whether nobody follows.
    pub fn is_empty(&self) -> bool {
        self.followers.is_empty()
    }
}

/// A follower is being told of these topics now: what is held of them for it needs no second notice.
fn settle(held: &mut HashMap<FollowerId, [Option<OwedSince>; 3]>, id: FollowerId, topics: Topics) {
    let Some(waiting) = held.get_mut(&id) else { return };
    for topic in topics.iter() {
        waiting[topic as usize] = None;
    }
    if waiting.iter().all(Option::is_none) {
        held.remove(&id);
    }
}
