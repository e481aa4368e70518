//! Announcements: the ledger against a model that keeps the whole history, differences against sets, and what counts as
//! the same list.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use proptest::prelude::*;
use serde_json::{Value, json};
use tidings_hub::ServerId;
use tidings_hub::catalogue::{CatalogueSnapshot, ItemDifference, ListDifference, OfferItem, OfferList, ServerOffer};
use tidings_hub::ledger::{
    CommitOccasion, FollowerBaseline, FollowerId, Ledger, LedgerCommit, OwedSince, Topic, Topics, ViewDigests,
};
use tidings_proto::{FieldView, ListKind, LocalName, Revision};
use tidings_wire::{ByteSpan, Digest, digest};

const VIEWS: [Revision; 3] = [Revision::V2025_03_26, Revision::V2025_11_25, Revision::MODERN];

/// What each view shows of each topic: a number stands for a content.
type World = [[u8; 3]; 3];

fn digest_of(content: u8) -> Digest {
    let text = content.to_string();
    digest(text.as_bytes(), ByteSpan::new(0, text.len()))
}

fn digests(world: &World, view: &Revision) -> ViewDigests {
    let place = VIEWS.iter().position(|other| other == view).unwrap();
    world[place].map(digest_of)
}

#[derive(Clone, Debug)]
enum Step {
    Follow {
        id: u64,
        view: usize,
        follows: [bool; 3],
        fresh: bool,
    },
    Ignore(u64),
    Unfollow(u64),
    /// Something changes, and nobody can read it yet.
    Write {
        view: usize,
        topic: usize,
        content: u8,
    },
    Commit {
        signalled: [bool; 3],
    },
    Deliver(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let id = 0..5u64;
    prop_oneof![
        2 => (id.clone(), 0..3usize, any::<[bool; 3]>(), any::<bool>())
            .prop_map(|(id, view, follows, fresh)| Step::Follow { id, view, follows, fresh }),
        1 => id.clone().prop_map(Step::Ignore),
        1 => id.clone().prop_map(Step::Unfollow),
        6 => (0..3usize, 0..3usize, 0..3u8).prop_map(|(view, topic, content)| Step::Write { view, topic, content }),
        5 => any::<[bool; 3]>().prop_map(|signalled| Step::Commit { signalled }),
        3 => id.prop_map(Step::Deliver),
    ]
}

/// When each topic of a commit was signalled, and when it was committed.
type Since3 = [OwedSince; 3];

/// A follower as it should be: all states that were committed since it was last told, oldest first.
struct Expected {
    view: usize,
    follows: [bool; 3],
    fresh: bool,
    seen: Vec<[u8; 3]>,
    /// The commits that brought them, but for the first.
    commits: Vec<Since3>,
    told: [Option<u8>; 3],
}

impl Expected {
    fn is_owed(&self, topic: usize) -> bool {
        let changed = self.seen.windows(2).any(|pair| pair[0][topic] != pair[1][topic]);
        self.follows[topic] && (self.fresh || changed)
    }

    /// The first change since it was last told, unless it is owed a notice anyway.
    fn since(&self, topic: usize) -> Option<OwedSince> {
        let first = self.seen.windows(2).position(|pair| pair[0][topic] != pair[1][topic])?;
        (self.follows[topic] && !self.fresh).then(|| self.commits[first][topic])
    }

    fn owed(&self) -> Topics {
        set((0..3).map(|topic| self.is_owed(topic)))
    }
}

fn set(flags: impl IntoIterator<Item = bool>) -> Topics {
    let mut topics = Topics::default();
    Topic::ALL.into_iter().zip(flags).filter(|(_, on)| *on).for_each(|(topic, _)| topics.insert(topic));
    topics
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    // S0.2, S0.3, S0.5; bridging 1, 2, 5, 6, 8
    #[test]
    fn a_follower_is_owed_what_a_commit_changed_in_its_view(steps in proptest::collection::vec(step(), 1..120)) {
        let mut ledger = Ledger::default();
        let mut model: BTreeMap<u64, Expected> = BTreeMap::new();
        let mut silent: BTreeSet<u64> = BTreeSet::new();
        let (mut written, mut committed) = (World::default(), World::default());
        let begun = Instant::now();
        for (number, step) in (0..).zip(steps) {
            let now = begun + Duration::from_secs(10 * number);
            match step {
                Step::Follow { id, view, follows, fresh } => {
                    // An id is never used twice at a time.
                    if model.contains_key(&id) || silent.contains(&id) {
                        continue;
                    }
                    let baseline = if fresh { FollowerBaseline::Nothing } else { FollowerBaseline::Current };
                    ledger.follow(FollowerId(id), VIEWS[view], set(follows), baseline, digests(&committed, &VIEWS[view]));
                    let seen = vec![committed[view]];
                    model.insert(id, Expected { view, follows, fresh, seen, commits: Vec::new(), told: [None; 3] });
                }
                Step::Ignore(id) => {
                    if !model.contains_key(&id) {
                        ledger.ignore(FollowerId(id));
                        silent.insert(id);
                    }
                }
                Step::Unfollow(id) => {
                    ledger.unfollow(FollowerId(id));
                    model.remove(&id);
                    silent.remove(&id);
                }
                Step::Write { view, topic, content } => written[view][topic] = content,
                Step::Commit { signalled } => {
                    let touched = |topic: usize| (0..3).any(|v| written[v][topic] != committed[v][topic]);
                    let signalled = signalled.map(|yes| yes.then(|| now - Duration::from_secs(1)));
                    let occasion = CommitOccasion { at: now, touched: set((0..3).map(touched)), signalled, held_by: None };
                    let asked = RefCell::new(BTreeSet::new());
                    let look = |view: &Revision| {
                        asked.borrow_mut().insert(*view);
                        digests(&written, view)
                    };
                    let done = ledger.commit(&occasion, look);
                    let in_use: BTreeSet<Revision> = model.values().map(|follower| VIEWS[follower.view]).collect();
                    prop_assert_eq!(asked.into_inner(), in_use, "a view that nobody has costs nothing");
                    let news = |f: &Expected, t: usize| f.follows[t] && written[f.view][t] != committed[f.view][t];
                    let count = |fits: &dyn Fn(&Expected, usize) -> bool| -> [u64; 3] {
                        std::array::from_fn(|t| model.values().filter(|f| fits(f, t)).count() as u64)
                    };
                    let mut expected = LedgerCommit {
                        owing: count(&news),
                        coalesced: count(&|f, t| news(f, t) && f.is_owed(t)),
                        unchanged: count(&|f, t| touched(t) && f.follows[t] && !news(f, t)),
                        silent: std::array::from_fn(|t| if touched(t) { silent.len() as u64 } else { 0 }),
                        own: Vec::new(),
                        owed: done.owed.clone(),
                    };
                    prop_assert_eq!(&done, &expected);
                    expected.owed.sort_unstable();
                    let rung = model.iter().filter(|(_, f)| (0..3).any(|t| news(f, t))).map(|(id, _)| FollowerId(*id));
                    prop_assert_eq!(expected.owed, rung.collect::<Vec<_>>());
                    committed = written;
                    for follower in model.values_mut() {
                        follower.seen.push(committed[follower.view]);
                        follower.commits.push(signalled.map(|signal| OwedSince { signal, commit: now }));
                    }
                }
                Step::Deliver(id) => {
                    let taken = ledger.deliver(FollowerId(id));
                    let Some(follower) = model.get_mut(&id) else {
                        prop_assert!(taken.topics.is_empty());
                        continue;
                    };
                    prop_assert_eq!(taken.topics, follower.owed());
                    prop_assert_eq!(taken.since, std::array::from_fn(|topic| follower.since(topic)));
                    for (topic, content) in committed[follower.view].into_iter().enumerate() {
                        if follower.is_owed(topic) {
                            follower.told[topic] = Some(content);
                        }
                    }
                    follower.fresh = false;
                    follower.seen = vec![committed[follower.view]];
                    follower.commits.clear();
                }
            }
            prop_assert_eq!(ledger.len(), model.len());
            prop_assert_eq!(ledger.is_empty(), model.is_empty());
            for id in 0..5 {
                let owed = model.get(&id).map(Expected::owed).unwrap_or_default();
                prop_assert_eq!(ledger.owed(FollowerId(id)), owed, "follower {}", id);
                for topic in Topic::ALL {
                    let told = model.get(&id).and_then(|follower| follower.told[topic as usize]).map(digest_of);
                    prop_assert_eq!(ledger.last_notified(FollowerId(id), topic), told);
                }
            }
        }
    }

    // S3.6
    #[test]
    fn a_difference_is_that_of_the_two_sets(before in contents(), after in contents()) {
        let difference = ListDifference::between(&list(&before), &list(&after));
        let keys = |all: &BTreeMap<String, Content>| all.keys().cloned().collect::<BTreeSet<_>>();
        let names = |keys: BTreeSet<String>| keys.into_iter().map(LocalName::new).collect::<Vec<_>>();
        let (old, new) = (keys(&before), keys(&after));
        prop_assert_eq!(&difference.added, &names(&new - &old));
        prop_assert_eq!(&difference.removed, &names(&old - &new));
        let mut changed = Vec::new();
        for key in &old & &new {
            let fields = differing(&before[&key], &after[&key]);
            if !fields.is_empty() {
                changed.push(ItemDifference { key: LocalName::new(key), fields });
            }
        }
        prop_assert_eq!(&difference.changed, &changed);
        prop_assert_eq!(difference.is_empty(), before == after);
    }
}

/// The optional members of an item: description and title.
type Content = (Option<u8>, Option<u8>);

fn contents() -> impl Strategy<Value = BTreeMap<String, Content>> {
    let member = || proptest::option::of(0..3u8);
    proptest::collection::btree_map("[a-d]{1,2}", (member(), member()), 0..8)
}

fn differing(before: &Content, after: &Content) -> Vec<String> {
    let pairs = [("description", before.0 != after.0), ("title", before.1 != after.1)];
    pairs.into_iter().filter(|(_, differs)| *differs).map(|(name, _)| name.to_owned()).collect()
}

fn list(items: &BTreeMap<String, Content>) -> OfferList {
    let read = |(name, (description, title)): (&String, &Content)| {
        let mut item = json!({ "name": name });
        for (member, value) in [("title", title), ("description", description)] {
            if let Some(value) = value {
                item[member] = json!(value.to_string());
            }
        }
        read_item(&item.to_string())
    };
    // Backwards, as a server may give them.
    OfferList::new(items.iter().rev().map(read).collect(), 0, false)
}

fn read_item(raw: &str) -> OfferItem {
    OfferItem::read(ListKind::Tools, Bytes::from(raw.to_owned()), false).unwrap()
}

fn shown(tools: &[&str], revision: Revision) -> ViewDigests {
    let items = tools.iter().map(|raw| read_item(raw)).collect();
    let offer = ServerOffer { bare: true, ..ServerOffer::new(ServerId(0), "a").offering(ListKind::Tools, items) };
    CatalogueSnapshot::new(vec![Arc::new(offer)], FieldView::default()).digests(revision)
}

// S0.2; bridging 3
#[test]
fn order_and_spelling_do_not_change_what_a_list_says() {
    let one = [r#"{"name":"a","description":"é","inputSchema":{"type":"object","x":1}}"#, r#"{"name":"b"}"#];
    let two = [r#"{ "name": "b" }"#, r#"{"inputSchema":{"x":1,"type":"object"},"description":"\u00e9","name":"a"}"#];
    for revision in Revision::ALL {
        assert_eq!(shown(&one, revision), shown(&two, revision), "{revision}");
        assert_ne!(shown(&one, revision), shown(&one[..1], revision), "{revision}");
    }
}

// bridging 7
#[test]
fn icons_are_news_only_to_revisions_that_show_them() {
    let tool = |icon: &str| -> Value { json!({"name": "a", "icons": [{ "src": icon }]}) };
    let (one, two) = (tool("one").to_string(), tool("two").to_string());
    for revision in Revision::ALL {
        let differs = shown(&[&one], revision) != shown(&[&two], revision);
        assert_eq!(differs, revision >= Revision::V2025_11_25, "{revision}");
    }
}

// Templates have no notice of their own.
#[test]
fn templates_are_announced_as_resources() {
    assert_eq!(Topic::of(ListKind::Templates), Topic::Resources);
    let mut topics = Topics::ALL;
    assert_eq!(std::iter::from_fn(|| topics.pop()).collect::<Vec<_>>(), Topic::ALL);
}

// edges F19
#[test]
fn a_follower_of_an_earlier_process_is_owed_what_it_was_not_told_of() {
    let mut ledger: Ledger = Ledger::default();
    let (id, next) = (FollowerId(1), FollowerId(2));
    let state = |content: u8| [digest_of(content), digest_of(0), digest_of(0)];
    ledger.follow(id, Revision::MODERN, Topics::ALL, FollowerBaseline::Nothing, state(0));
    assert_eq!(ledger.told(id), [None; 3], "it is owed all");
    ledger.deliver(id);
    let told = ledger.told(id);
    assert_eq!(told, state(0).map(Some));
    let occasion = |held_by| CommitOccasion {
        at: Instant::now(),
        touched: set([true, false, false]),
        signalled: [None; 3],
        held_by,
    };
    for held_by in [Some(ServerId(1)), None] {
        ledger.commit(&occasion(held_by), |_| state(1));
        assert_eq!(ledger.told(id), [None, Some(digest_of(0)), Some(digest_of(0))], "{held_by:?}");
        ledger.release(ServerId(1));
        ledger.deliver(id);
        assert_eq!(ledger.told(id), state(1).map(Some));
        ledger.commit(&occasion(None), |_| state(0));
        ledger.deliver(id);
    }
    // The next process: the first list is another one now.
    ledger.follow(next, Revision::MODERN, Topics::ALL, FollowerBaseline::Told(told), state(2));
    assert_eq!(ledger.deliver(next).topics, set([true, false, false]));
    ledger.follow(next, Revision::MODERN, Topics::ALL, FollowerBaseline::Told(told), state(0));
    assert_eq!(ledger.deliver(next).topics, Topics::default());
    assert_eq!(ledger.told(FollowerId(9)), [None; 3], "nobody");
}

// edges C6
#[test]
fn what_is_held_is_owed_when_its_server_is_quiet_unless_the_follower_was_told_meanwhile() {
    let (id, other) = (FollowerId(1), FollowerId(2));
    let (one, two) = (ServerId(1), ServerId(2));
    let mut ledger: Ledger = Ledger::default();
    let state = |content: u8| [digest_of(content), digest_of(0), digest_of(0)];
    for follower in [id, other] {
        ledger.follow(follower, Revision::MODERN, Topics::ALL, FollowerBaseline::Current, state(0));
    }
    let occasion = |held_by| CommitOccasion {
        at: Instant::now(),
        touched: set([true, false, false]),
        signalled: [None; 3],
        held_by,
    };
    let done = ledger.commit(&occasion(Some(one)), |_| state(1));
    assert_eq!((done.owed, done.coalesced), (vec![], [0; 3]), "it can be read, and nobody is told yet");
    assert!(ledger.owed(id).is_empty() && ledger.holds(id));
    assert_eq!(ledger.commit(&occasion(Some(one)), |_| state(2)).coalesced, [2, 0, 0]);
    let mut released = ledger.release(one);
    released.sort();
    assert_eq!(released, [id, other]);
    assert_eq!(ledger.deliver(id).topics, set([true, false, false]));
    assert_eq!(ledger.deliver(id).topics, Topics::default(), "one notice for both");
    // The other one is slow; what comes meanwhile needs no second notice.
    ledger.commit(&occasion(Some(two)), |_| state(3));
    ledger.commit(&occasion(None), |_| state(4));
    assert_eq!(ledger.deliver(id).topics, set([true, false, false]), "of a server that is quiet");
    assert!(!ledger.holds(id), "whoever lists now sees the rest too");
    ledger.unfollow(other);
    assert_eq!(ledger.release(two), []);
    assert!(ledger.release(one).is_empty());
}

// cluster: echoes
#[test]
fn what_may_have_been_missed_elsewhere_is_owed_once_more_to_those_who_follow_it() {
    let (id, other) = (FollowerId(1), FollowerId(2));
    let mut ledger: Ledger = Ledger::default();
    let state = [digest_of(0); 3];
    ledger.follow(id, Revision::MODERN, Topics::ALL, FollowerBaseline::Current, state);
    ledger.follow(other, Revision::MODERN, set([false, true, false]), FollowerBaseline::Current, state);
    let tools = set([true, false, false]);
    assert_eq!(ledger.owe_again(tools, Instant::now()), [id], "the other one follows no tools");
    assert_eq!(ledger.owe_again(tools, Instant::now()), [id], "it is owed already, and its bell rings again");
    assert_eq!(ledger.deliver(id).topics, tools, "one notice");
    assert_eq!((ledger.deliver(id).topics, ledger.deliver(other).topics), (Topics::default(), Topics::default()));
}
