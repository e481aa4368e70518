//! Who follows which URI, what is known of its content, and who has to be told.
//!
//! Sources put observations in; each `subscriptions/listen` takes out what is dirty for it. A follower costs as much as
//! it follows, however often things change: there is no queue, only a set.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, MutexGuard};

use tidings_sync::Lock;
use tokio::sync::{Notify, watch};

use super::members::{self, SeenMembers};
use super::source::SourceEntry;

/// A hash of content.
pub type Hash = [u8; 32];

/// What a resource that is not there hashes to.
const ABSENT: Hash = [0; 32];

/// The hash by which two contents of a resource are compared.
pub fn hash(bytes: &[u8]) -> Hash {
    *blake3::hash(bytes).as_bytes()
}

/// The observations of one server.
#[derive(Default)]
pub(super) struct Observations {
    state: Lock<ObservationsState>,
}

#[derive(Default)]
struct ObservationsState {
    next: u64,
    followers: HashMap<u64, Arc<UriFollower>>,
    by_uri: HashMap<Arc<str>, FollowedUri>,
    of_the_list: BTreeSet<u64>,
}

/// One URI that somebody follows.
#[derive(Default)]
struct FollowedUri {
    followers: Vec<u64>,
    /// The hash of what was seen last; unknown until somebody looked.
    known: Option<Hash>,
}

struct UriFollower {
    uris: Vec<Arc<str>>,
    dirty: Lock<OwedUpdate>,
    bell: Notify,
}

/// What a follower has to be told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct OwedUpdate {
    pub(super) uris: BTreeSet<Arc<str>>,
    pub(super) list: bool,
}

impl OwedUpdate {
    fn take_one(&mut self) -> Self {
        // The list first: a URI that is new is not known to the client before it has listed.
        if std::mem::take(&mut self.list) {
            return Self { list: true, uris: BTreeSet::new() };
        }
        Self { list: false, uris: self.uris.pop_first().into_iter().collect() }
    }
}

/// A place on the observations, given up when dropped.
pub(super) struct ObservationPlace {
    observations: Arc<Observations>,
    id: u64,
    follower: Arc<UriFollower>,
}

fn lock<T>(mutex: &Lock<T>) -> MutexGuard<'_, T> {
    mutex.lock()
}

impl Observations {
    /// Follows some URIs, and the list if wanted. What changes from now on is kept for [`ObservationPlace::next`].
    pub(super) fn follow(self: &Arc<Self>, uris: &[String], list: bool) -> ObservationPlace {
        let mut state = lock(&self.state);
        let id = state.next;
        state.next += 1;
        let mut kept = Vec::with_capacity(uris.len());
        // Each URI once: a client may name one twice.
        for uri in uris.iter().collect::<BTreeSet<_>>() {
            let key =
                // The same text for all who follow it.
                state.by_uri.get_key_value(uri.as_str()).map_or_else(|| uri.as_str().into(), |(k, _)| Arc::clone(k));
            state.by_uri.entry(Arc::clone(&key)).or_default().followers.push(id);
            kept.push(key);
        }
        if list {
            state.of_the_list.insert(id);
        }
        let follower = Arc::new(UriFollower { uris: kept, dirty: Lock::default(), bell: Notify::new() });
        state.followers.insert(id, Arc::clone(&follower));
        ObservationPlace { observations: Arc::clone(self), id, follower }
    }

    /// What a look at a resource showed. `None`: it is not there.
    fn observe(&self, uri: &str, seen: Option<Hash>, how: ObservedLook) {
        let mut state = lock(&self.state);
        let ObservationsState { followers, by_uri, .. } = &mut *state;
        let Some((uri, followed)) = by_uri.get_key_value(uri).map(|(uri, _)| Arc::clone(uri)).and_then(|uri| {
            let followed = by_uri.get_mut(&uri)?;
            Some((uri, followed))
        }) else {
            return;
        };
        let seen = seen.unwrap_or(ABSENT);
        let tells = match (followed.known, how) {
            (Some(known), _) => known != seen,
            // What followers begin with is no change.
            (None, ObservedLook::First) => false,
            (None, ObservedLook::Again) => true,
            // A reader knows what it read, but the others were told nothing yet.
            (None, ObservedLook::Reader) => return,
        };
        followed.known = Some(seen);
        if tells {
            for follower in followed.followers.iter().filter_map(|id| followers.get(id)) {
                lock(&follower.dirty).uris.insert(Arc::clone(&uri));
                follower.bell.notify_one();
            }
        }
    }

    /// A client was given this content, or told that there is none. It may be newer than what the watch saw, and gone
    /// again before the watch looks.
    pub(super) fn read(&self, uri: &str, content: Option<&[u8]>) {
        if self.follows(uri) {
            self.observe(uri, content.map(hash), ObservedLook::Reader);
        }
    }

    /// A resource is not there any more, and nobody watches it.
    pub(super) fn gone(&self, uri: &str) {
        self.observe(uri, None, ObservedLook::Again);
    }

    fn forget(&self, uri: &str) {
        if let Some(followed) = lock(&self.state).by_uri.get_mut(uri) {
            followed.known = None;
        }
    }

    fn follows(&self, uri: &str) -> bool {
        lock(&self.state).by_uri.contains_key(uri)
    }

    /// The hash of what was seen last of a URI that is followed.
    pub(super) fn seen(&self, uri: &str) -> Option<Hash> {
        lock(&self.state).by_uri.get(uri).and_then(|followed| followed.known)
    }

    /// The URIs that somebody follows, of those that are meant.
    fn followed(&self, is_meant: impl Fn(&str) -> bool) -> Vec<String> {
        lock(&self.state).by_uri.keys().filter(|uri| is_meant(uri)).map(|uri| uri.to_string()).collect()
    }

    pub(super) fn list_changed(&self) {
        lock(&self.state).announce_list();
    }
}

impl ObservationsState {
    fn announce_list(&self) {
        for follower in self.of_the_list.iter().filter_map(|id| self.followers.get(id)) {
            lock(&follower.dirty).list = true;
            follower.bell.notify_one();
        }
    }
}

enum ObservedLook {
    First,
    Again,
    Reader,
}

impl ObservationPlace {
    /// Waits until there is something to tell, and takes one piece of it: what is not told yet must not be lost with
    /// whoever took it.
    pub(super) async fn next(&self) -> OwedUpdate {
        loop {
            let piece = lock(&self.follower.dirty).take_one();
            if piece != OwedUpdate::default() {
                return piece;
            }
            self.follower.bell.notified().await;
        }
    }
}

impl Drop for ObservationPlace {
    /// What was not taken goes to those who stay: one listen may be replaced by the next at any moment.
    fn drop(&mut self) {
        let mut state = lock(&self.observations.state);
        state.followers.remove(&self.id);
        state.of_the_list.remove(&self.id);
        for uri in &self.follower.uris {
            let Some(followed) = state.by_uri.get_mut(uri) else { continue };
            followed.followers.retain(|id| *id != self.id);
            if followed.followers.is_empty() {
                state.by_uri.remove(uri);
            }
        }
        // A listen is often replaced by another of the same client: what the old one was not told yet goes to those
        // that follow now.
        let untold = std::mem::take(&mut *lock(&self.follower.dirty));
        for uri in untold.uris {
            let heirs = state.by_uri.get(&uri).into_iter().flat_map(|followed| &followed.followers);
            for heir in heirs.filter_map(|id| state.followers.get(id)) {
                lock(&heir.dirty).uris.insert(Arc::clone(&uri));
                heir.bell.notify_one();
            }
        }
        if untold.list {
            state.announce_list();
        }
    }
}

/// How a source says what it saw. Only what somebody follows is kept, and only what differs is told.
#[derive(Clone)]
pub struct SourceSignals {
    pub(super) observations: Arc<Observations>,
    pub(super) ready: watch::Sender<bool>,
    members: Arc<SeenMembers>,
}

impl SourceSignals {
    pub(super) fn new(observations: &Arc<Observations>) -> Self {
        let observations = Arc::clone(observations);
        Self { observations, ready: watch::Sender::new(false), members: Arc::default() }
    }

    /// From now on no change is missed.
    pub fn ready(&self) {
        self.ready.send_if_modified(|ready| !std::mem::replace(ready, true));
    }

    /// Whether somebody was promised that already: then the first look is as good as a later one.
    pub fn is_ready(&self) -> bool {
        *self.ready.borrow()
    }

    /// The first look at a resource: nothing is told unless something else was known. `None`: it is not there.
    pub fn baseline(&self, uri: &str, seen: Option<Hash>) {
        self.observations.observe(uri, seen, ObservedLook::First);
    }

    /// A later look: told unless it is what was known. `None`: it is not there.
    pub fn observed(&self, uri: &str, seen: Option<Hash>) {
        self.observations.observe(uri, seen, ObservedLook::Again);
    }

    /// It changed, whatever it was.
    pub fn changed(&self, uri: &str) {
        // Three steps, because what it says now is not known: told in any case, and nothing is remembered to compare
        // with.
        self.observations.forget(uri);
        self.observations.observe(uri, None, ObservedLook::Again);
        self.observations.forget(uri);
    }

    /// There are other resources than before, or they are described differently.
    pub fn list_changed(&self) {
        self.observations.list_changed();
    }

    /// The first look at which resources there are: what followers begin with.
    pub(super) fn first_members(&self, seen: Hash) {
        self.members.looked(seen);
    }

    /// A later look at which resources there are: told unless it is what the last look or the last list showed.
    pub(super) fn later_members(&self, seen: Hash) {
        if self.members.looked(seen) {
            self.list_changed();
        }
    }

    /// A client was given these resources. They may be others than the watch saw, and gone again before it looks.
    pub(super) fn listed_members(&self, entries: &[SourceEntry]) {
        if self.members.listed(members::digest(entries.iter().map(|entry| entry.uri.as_str()))) {
            self.list_changed();
        }
    }

    /// Whether anybody follows it, so that a look is worth its cost.
    pub fn follows(&self, uri: &str) -> bool {
        self.observations.follows(uri)
    }

    /// What another server of watches has seen: known to it and different, or not known at all.
    pub(super) fn heard(&self, uri: &str, seen: Option<Hash>, is_first: bool) {
        match (seen.map(|seen| (seen != ABSENT).then_some(seen)), is_first) {
            (Some(seen), true) => self.baseline(uri, seen),
            (Some(seen), false) => self.observed(uri, seen),
            (None, _) => self.changed(uri),
        }
    }

    /// All URIs that somebody follows, of those that are meant.
    pub(super) fn followed(&self, is_meant: impl Fn(&str) -> bool) -> Vec<String> {
        self.observations.followed(is_meant)
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    fn observations() -> (Arc<Observations>, SourceSignals) {
        let observations = Arc::new(Observations::default());
        let signals = SourceSignals::new(&observations);
        (observations, signals)
    }

    fn follow(observations: &Arc<Observations>, uris: &[&str], list: bool) -> ObservationPlace {
        observations.follow(&uris.iter().map(|uri| (*uri).to_owned()).collect::<Vec<_>>(), list)
    }

    fn told(following: &ObservationPlace) -> Option<Vec<String>> {
        let dirty = following.next().now_or_never()?;
        Some(dirty.uris.iter().map(|uri| uri.to_string()).chain(dirty.list.then(|| "list".to_owned())).collect())
    }

    // S1.5
    #[test]
    fn only_followers_of_a_uri_are_told_and_only_once() {
        let (observations, signals) = observations();
        let (a, b) = (follow(&observations, &["x", "y"], false), follow(&observations, &["y"], true));
        signals.baseline("x", Some(hash(b"1")));
        signals.observed("x", Some(hash(b"2")));
        signals.observed("x", Some(hash(b"3")));
        assert_eq!(told(&a), Some(vec!["x".into()]));
        assert_eq!(told(&a), None);
        assert_eq!(told(&b), None);
        signals.list_changed();
        assert_eq!((told(&a), told(&b)), (None, Some(vec!["list".into()])));
    }

    // S1.8
    #[test]
    fn the_hash_decides_after_a_gap_and_an_unknown_one_is_told() {
        let (observations, signals) = observations();
        let a = follow(&observations, &["x", "y"], false);
        signals.baseline("x", Some(hash(b"1")));
        signals.observed("x", Some(hash(b"1")));
        assert_eq!(told(&a), None, "the same");
        signals.observed("x", None);
        assert_eq!(told(&a), Some(vec!["x".into()]), "gone");
        signals.observed("y", Some(hash(b"1")));
        assert_eq!(told(&a), Some(vec!["y".into()]), "never seen before");
    }

    #[test]
    fn a_reader_that_saw_something_new_does_not_hide_the_way_back() {
        let (observations, signals) = observations();
        let a = follow(&observations, &["x"], false);
        signals.baseline("x", Some(hash(b"1")));
        for between in [Some(&b"2"[..]), None] {
            observations.read("x", between);
            assert_eq!(told(&a), Some(vec!["x".into()]));
            signals.observed("x", Some(hash(b"1")));
            assert_eq!(told(&a), Some(vec!["x".into()]));
        }
    }

    // S1.6, S1.8
    #[test]
    fn a_client_that_listed_something_new_is_told_of_the_way_back() {
        let (observations, signals) = observations();
        let a = follow(&observations, &[], true);
        let entry = |uri: &str| SourceEntry { uri: uri.to_owned(), ..SourceEntry::default() };
        let both = members::digest(["x", "y"].into_iter());
        signals.listed_members(&[entry("x")]);
        signals.first_members(both);
        signals.listed_members(&[entry("x"), entry("y")]);
        signals.later_members(both);
        assert_eq!(told(&a), None, "what followers begin with");
        signals.listed_members(&[entry("x")]);
        assert_eq!(told(&a), Some(vec!["list".into()]), "others have not listed it");
        signals.later_members(both);
        assert_eq!(told(&a), Some(vec!["list".into()]), "the same as the last look, but not as the last list");
    }

    #[test]
    fn a_reader_does_not_settle_what_others_were_not_told() {
        let (observations, signals) = observations();
        let a = follow(&observations, &["x"], false);
        observations.read("x", Some(b"1"));
        signals.observed("x", Some(hash(b"1")));
        assert_eq!(told(&a), Some(vec!["x".into()]));
    }

    #[test]
    fn a_change_without_known_content_is_always_told() {
        let (observations, signals) = observations();
        let a = follow(&observations, &["x"], false);
        for _ in 0..2 {
            signals.changed("x");
            assert_eq!(told(&a), Some(vec!["x".into()]));
        }
    }

    // bridging 22
    #[test]
    fn what_was_not_taken_is_inherited() {
        let (observations, signals) = observations();
        let before = follow(&observations, &["x", "y"], true);
        signals.changed("x");
        signals.changed("y");
        signals.list_changed();
        let after = follow(&observations, &["x", "y"], true);
        assert_eq!(told(&after), None);
        assert_eq!(told(&before), Some(vec!["list".into()]), "one piece at a time");
        drop(before);
        assert_eq!(told(&after), Some(vec!["x".into()]));
        assert_eq!(told(&after), Some(vec!["y".into()]));
        assert_eq!(told(&after), None);
    }

    // S1.1
    #[test]
    fn nothing_is_kept_of_those_who_left() {
        let (observations, _) = observations();
        let (a, b) = (follow(&observations, &["x", "x", "y"], true), follow(&observations, &["x"], false));
        drop(a);
        assert!(observations.follows("x") && !observations.follows("y"));
        drop(b);
        let state = lock(&observations.state);
        assert!(state.followers.is_empty() && state.by_uri.is_empty() && state.of_the_list.is_empty());
    }
}
