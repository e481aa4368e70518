//! Followers who see what nobody else sees.

use std::time::Instant;

use tidings_hub::ledger::{CommitOccasion, FollowerBaseline, FollowerId, Ledger, Topic, Topics, ViewDigests};
use tidings_proto::Revision;
use tidings_wire::{ByteSpan, Digest, digest};

const ONE: FollowerId = FollowerId(1);
const OTHER: FollowerId = FollowerId(2);

fn view(contents: [u8; 3]) -> ViewDigests {
    contents.map(|content| -> Digest { digest(&[b'0' + content], ByteSpan::new(0, 1)) })
}

fn ledger() -> Ledger {
    let mut ledger = Ledger::default();
    for id in [ONE, OTHER] {
        ledger.follow(id, Revision::V2025_11_25, Topics::ALL, FollowerBaseline::Current, view([0, 0, 0]));
    }
    ledger
}

fn occasion() -> CommitOccasion {
    CommitOccasion { at: Instant::now(), touched: Topics::ALL, signalled: [None; 3], held_by: None }
}

fn owed(ledger: &Ledger, id: FollowerId) -> Vec<Topic> {
    ledger.owed(id).iter().collect()
}

// S3.1
#[test]
fn the_first_own_view_is_a_beginning_and_later_ones_owe_what_differs() {
    let mut ledger = ledger();
    assert!(!ledger.show_own(ONE, Instant::now(), view([5, 5, 5])));
    assert_eq!(owed(&ledger, ONE), []);
    assert!(!ledger.show_own(ONE, Instant::now(), view([5, 5, 5])), "the same again");
    assert!(ledger.show_own(ONE, Instant::now(), view([6, 5, 5])));
    assert!(ledger.show_own(ONE, Instant::now(), view([5, 5, 7])), "a change back does not settle what is owed");
    assert_eq!(owed(&ledger, ONE), [Topic::Tools, Topic::Resources]);
    assert_eq!(owed(&ledger, OTHER), [], "it is nobody else's");
    let delivery = ledger.deliver(ONE);
    assert_eq!(delivery.topics.iter().collect::<Vec<_>>(), [Topic::Tools, Topic::Resources]);
    assert_eq!(ledger.last_notified(ONE, Topic::Resources), Some(view([5, 5, 7])[2]));
    assert_eq!(owed(&ledger, ONE), []);
}

// S3.1, S3.4
#[test]
fn a_commit_owes_an_own_view_nothing_but_asks_to_make_it_again() {
    let mut ledger = ledger();
    ledger.show_own(ONE, Instant::now(), view([5, 5, 5]));
    let done = ledger.commit(&occasion(), |_| view([1, 0, 0]));
    assert_eq!((done.owed, done.own), (vec![OTHER], vec![ONE]));
    assert_eq!(owed(&ledger, ONE), []);
    assert_eq!(owed(&ledger, OTHER), [Topic::Tools]);
}

#[test]
fn whoever_does_not_follow_is_owed_nothing() {
    let mut ledger = ledger();
    ledger.show_own(ONE, Instant::now(), view([1, 1, 1]));
    ledger.unfollow(ONE);
    assert!(!ledger.show_own(ONE, Instant::now(), view([2, 2, 2])));
    assert_eq!(owed(&ledger, ONE), []);
}

// identity 5: whoever followed before has seen what others see
#[test]
fn an_own_view_that_begins_as_that_of_others_owes_what_differs_in_the_next() {
    let mut ledger = ledger();
    ledger.commit(&occasion(), |_| view([1, 1, 1]));
    ledger.deliver(ONE);
    ledger.begin_own(ONE);
    assert!(!ledger.show_own(ONE, Instant::now(), view([1, 1, 1])), "it is what they saw");
    assert!(ledger.show_own(ONE, Instant::now(), view([2, 1, 1])));
    assert_eq!(owed(&ledger, ONE), [Topic::Tools]);
    ledger.begin_own(ONE);
    assert!(!ledger.show_own(ONE, Instant::now(), view([2, 1, 1])), "one that has begun goes on");
    ledger.unfollow(ONE);
    ledger.begin_own(ONE);
    assert!(!ledger.show_own(ONE, Instant::now(), view([3, 3, 3])));
}
