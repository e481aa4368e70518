//! What people see of notices: the counts of every commit against a model that keeps each of them, and how a client stands.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use proptest::prelude::*;
use tidings_hub::ServerId;
use tidings_hub::deliveries::{COMMITS, Deliveries, EVENTS, size_of_record};
use tidings_hub::ledger::{
    CommitOccasion, FollowerBaseline, FollowerId, Ledger, LedgerCommit, Topic, Topics, ViewDigests,
};
use tidings_wire::{ByteSpan, Digest, digest};

const ID: FollowerId = FollowerId(7);
const TOOLS: Topic = Topic::Tools;

fn only(topic: Topic) -> Topics {
    let mut topics = Topics::default();
    topics.insert(topic);
    topics
}

fn begun() -> (Instant, Deliveries) {
    let begun = Instant::now();
    let mut deliveries = Deliveries::new(begun);
    deliveries.came(ID, 0, Topics::ALL, false);
    (begun, deliveries)
}

#[test]
fn what_a_fresh_client_is_told_stands_for_no_change() {
    let (begun, mut deliveries) = begun();
    deliveries.told(ID, Topics::ALL, Topics::default(), begun);
    assert_eq!(deliveries.of(ID).notices, 0);
    assert_eq!(deliveries.trace().of_client(ID).count(), 0);
    // Unless something changed before it was told.
    let done = LedgerCommit { owing: [1, 0, 0], ..LedgerCommit::default() };
    deliveries.committed(begun, 5, &done, [1, 0, 0]);
    deliveries.told(ID, Topics::ALL, Topics::default(), begun);
    assert_eq!(deliveries.of(ID).notices, 1);
}

#[test]
fn memory_is_bounded_and_the_oldest_is_forgotten() {
    // The index that finds it takes 5 bytes for each of its places, of which three sevenths are used at the least.
    assert!(size_of_record() + 12 <= 64, "{}", size_of_record());
    let (begun, mut deliveries) = begun();
    let done = LedgerCommit { owing: [1, 0, 0], ..LedgerCommit::default() };
    let first = deliveries.committed(begun, 1, &done, [1, 0, 0]);
    for _ in 0..COMMITS {
        deliveries.committed(begun, 1, &done, [1, 0, 0]);
    }
    assert!(deliveries.commit(first).is_none(), "numbers rise though the clock stands");
    assert_eq!(deliveries.newest().count(), COMMITS);
    // A client that was told of none of them is told of all at once.
    deliveries.told(ID, only(TOOLS), only(TOOLS), begun);
    assert!(deliveries.newest().all(|commit| commit.told == [1, 0, 0] && commit.median() == Some(1)));
    for _ in 0..EVENTS + 1 {
        deliveries.listed(ID, TOOLS, begun);
    }
    let trace = deliveries.trace();
    let kept = trace.of_client(ID).count();
    assert!(kept <= EVENTS && kept as u64 + trace.forgotten == EVENTS as u64 + 2, "{kept}");
    assert!(trace.of_client(ID).all(|event| !event.told));
}

#[test]
fn a_view_of_its_own_is_counted_in_the_commit_that_made_it_owed() {
    let (begun, mut deliveries) = begun();
    deliveries.owes_own(ID, Topics::default());
    let number = deliveries.committed(begun, 9, &LedgerCommit::default(), [1, 0, 0]);
    deliveries.told(ID, only(TOOLS), Topics::default(), begun);
    assert_eq!(deliveries.commit(number).unwrap().1.told, [0; 3], "the shared view is not its own");
    deliveries.owes_own(ID, only(TOOLS));
    deliveries.committed(begun, 10, &LedgerCommit::default(), [1, 0, 0]);
    deliveries.told(ID, only(TOOLS), only(TOOLS), begun);
    let (index, commit) = deliveries.commit(number).unwrap();
    assert_eq!((index, commit.owed, commit.told), (1, [1, 0, 0], [1, 0, 0]));
    assert_eq!(deliveries.trace().of_commit(index, TOOLS).count(), 1);
}

#[derive(Clone, Debug)]
enum Step {
    Come { id: u64, view: u8, follows: [bool; 3], fresh: bool },
    Leave(u64),
    Commit { view: u8, topic: usize, held: bool },
    Release,
    Deliver(u64),
    List(u64, usize),
}

fn step() -> impl Strategy<Value = Step> {
    let id = 0..4u64;
    prop_oneof![
        2 => (id.clone(), 0..3u8, any::<[bool; 3]>(), any::<bool>())
            .prop_map(|(id, view, follows, fresh)| Step::Come { id, view, follows, fresh }),
        1 => id.clone().prop_map(Step::Leave),
        5 => (0..3u8, 0..3usize, any::<bool>()).prop_map(|(view, topic, held)| Step::Commit { view, topic, held }),
        1 => Just(Step::Release),
        4 => id.clone().prop_map(Step::Deliver),
        2 => (id, 0..3usize).prop_map(|(id, topic)| Step::List(id, topic)),
    ]
}

fn digests(world: &[[u32; 3]; 3], view: u8) -> ViewDigests {
    world[usize::from(view)].map(|content| -> Digest {
        let text = content.to_string();
        digest(text.as_bytes(), ByteSpan::new(0, text.len()))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    // page ledger
    #[test]
    fn every_commit_knows_who_was_told_who_left_and_who_is_still_owed(steps in proptest::collection::vec(step(), 1..150)) {
        let begun = Instant::now();
        let mut ledger: Ledger<u8> = Ledger::default();
        let mut deliveries = Deliveries::new(begun);
        let mut world = [[0u32; 3]; 3];
        let mut present: BTreeMap<u64, (u8, [bool; 3])> = BTreeMap::new();
        // Who is owed which commit still, and what became of the others.
        let mut pending: BTreeSet<(u64, usize, u64)> = BTreeSet::new();
        let mut owed: BTreeMap<(u64, usize), u32> = BTreeMap::new();
        let mut told: BTreeMap<(u64, usize), u32> = BTreeMap::new();
        let mut left: BTreeMap<(u64, usize), u32> = BTreeMap::new();
        let mut outdated: BTreeSet<(u64, usize)> = BTreeSet::new();
        let mut listed: BTreeSet<(u64, usize)> = BTreeSet::new();
        for (count, step) in (0u32..).zip(steps) {
            let now = begun + Duration::from_millis(u64::from(count) * 7);
            match step {
                Step::Come { id, view, follows, fresh } => {
                    if present.contains_key(&id) {
                        continue;
                    }
                    let mut topics = Topics::default();
                    Topic::ALL.into_iter().filter(|topic| follows[*topic as usize]).for_each(|topic| topics.insert(topic));
                    let baseline = if fresh { FollowerBaseline::Nothing } else { FollowerBaseline::Current };
                    ledger.follow(FollowerId(id), view, topics, baseline, digests(&world, view));
                    deliveries.came(FollowerId(id), ledger.place_of(FollowerId(id)).unwrap(), topics, false);
                    present.insert(id, (view, follows));
                }
                Step::Leave(id) => {
                    ledger.unfollow(FollowerId(id));
                    deliveries.left(FollowerId(id), now);
                    present.remove(&id);
                    listed.retain(|(client, _)| *client != id);
                    outdated.retain(|(client, _)| *client != id);
                    for (number, topic, _) in pending.extract_if(.., |(_, _, client)| *client == id) {
                        *left.entry((number, topic)).or_default() += 1;
                    }
                }
                Step::Commit { view, topic, held } => {
                    world[usize::from(view)][topic] += 1;
                    let held_by = held.then_some(ServerId(1));
                    let touched = only(Topic::ALL[topic]);
                    let occasion = CommitOccasion { at: now, touched, signalled: [None; 3], held_by };
                    let done = ledger.commit(&occasion, |view| digests(&world, *view));
                    // A clock that stands still half of the time.
                    let number = deliveries.committed(now, u64::from(count / 2), &done, ledger.changed_views());
                    for (id, _) in present.iter().filter(|(_, (of, follows))| *of == view && follows[topic]) {
                        pending.insert((number, topic, *id));
                        *owed.entry((number, topic)).or_default() += 1;
                    }
                }
                Step::Release => {
                    ledger.release(ServerId(1));
                }
                Step::Deliver(id) => {
                    let delivery = ledger.deliver(FollowerId(id));
                    let mut changes = Topics::default();
                    for topic in delivery.topics.iter().filter(|topic| delivery.since[*topic as usize].is_some()) {
                        changes.insert(topic);
                    }
                    deliveries.told(FollowerId(id), delivery.topics, changes, now);
                    for topic in delivery.topics.iter().map(|topic| topic as usize) {
                        let mut any = false;
                        for (number, _, _) in pending.extract_if(.., |(_, of, client)| *client == id && *of == topic) {
                            *told.entry((number, topic)).or_default() += 1;
                            any = true;
                        }
                        if any && listed.contains(&(id, topic)) {
                            outdated.insert((id, topic));
                        }
                    }
                }
                Step::List(id, topic) => {
                    deliveries.listed(FollowerId(id), Topic::ALL[topic], now);
                    if present.contains_key(&id) {
                        listed.insert((id, topic));
                        outdated.remove(&(id, topic));
                    }
                }
            }
            prop_assert_eq!(deliveries.len(), present.len());
            for commit in deliveries.newest() {
                for topic in 0..3 {
                    let of = |all: &BTreeMap<(u64, usize), u32>| all.get(&(commit.number, topic)).copied().unwrap_or(0);
                    prop_assert_eq!(
                        (commit.owed[topic], commit.told[topic], commit.left[topic]),
                        (of(&owed), of(&told), of(&left)),
                        "commit {} topic {}", commit.number, topic
                    );
                }
                prop_assert_eq!(commit.within.iter().sum::<u32>(), commit.told.iter().sum::<u32>());
            }
            for id in present.keys() {
                for topic in Topic::ALL {
                    let is_outdated = deliveries.of(FollowerId(*id)).outdated.contains(topic);
                    prop_assert_eq!(is_outdated, outdated.contains(&(*id, topic as usize)), "{} {:?}", id, topic);
                }
            }
        }
    }
}
