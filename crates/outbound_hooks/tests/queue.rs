//! Properties of the queue: receivers that answer anything at any time, and processes that end anywhere.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use tidings_outbound_hooks::{
    DeliveryAnswer, DeliveryQueue, GIVE_UP, KeptQueue, LONGEST_PAUSE, MOST_PENDING, QueueStep,
};

fn queue() -> DeliveryQueue {
    DeliveryQueue::resume(KeptQueue { fingerprint: "a".into(), ..KeptQueue::default() }, "a")
}

fn restart(queue: &DeliveryQueue, fingerprint: &str) -> DeliveryQueue {
    let json = serde_json::to_vec(queue.kept()).unwrap();
    DeliveryQueue::resume(serde_json::from_slice(&json).unwrap(), fingerprint)
}

#[derive(Clone, Debug)]
enum Event {
    Change {
        wanted: bool,
    },
    /// The next message is sent, and this comes of it.
    Send(DeliveryAnswer),
    Later(u64),
    /// The process ends without a word, and goes on from what was kept then.
    Crash {
        kept: bool,
    },
}

fn answers() -> impl Strategy<Value = DeliveryAnswer> {
    let after = proptest::option::of(0..10_000_u64);
    prop_oneof![
        3 => Just(DeliveryAnswer::Taken),
        1 => after.clone().prop_map(|after| DeliveryAnswer::Refused { after }),
        1 => after.prop_map(|after| DeliveryAnswer::Unavailable { after }),
    ]
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let event = prop_oneof![
        2 => any::<bool>().prop_map(|wanted| Event::Change { wanted }),
        4 => answers().prop_map(Event::Send),
        2 => (0..100_000_u64).prop_map(Event::Later),
        1 => any::<bool>().prop_map(|kept| Event::Crash { kept }),
    ];
    proptest::collection::vec(event, 0..200)
}

proptest! {
    // reach 3
    #[test]
    fn every_wanted_change_is_delivered_and_none_twice_without_a_crash(events in events()) {
        let (mut queue, mut now, mut seq) = (queue(), 1_000_000_u64, 0_u64);
        let mut kept = queue.clone();
        let (mut wanted, mut delivered) = (BTreeSet::new(), BTreeMap::<u64, u32>::new());
        // What a crash undid: only these may come twice.
        let mut undone = BTreeSet::<u64>::new();
        let mut not_before = 0;
        for event in events {
            match event {
                Event::Change { wanted: is_wanted } => {
                    seq += 1;
                    queue.took(seq, is_wanted, now);
                    if is_wanted {
                        wanted.insert(seq);
                    }
                }
                Event::Send(answer) => {
                    let QueueStep::Send(next) = queue.next(now) else { continue };
                    prop_assert!(now >= not_before, "within the pause that was asked for");
                    prop_assert!(wanted.contains(&next));
                    queue.answered(next, answer, now);
                    match answer {
                        DeliveryAnswer::Taken => *delivered.entry(next).or_default() += 1,
                        DeliveryAnswer::Unavailable { after } => not_before = now + after.unwrap_or(0).max(1_000),
                        _ => {}
                    }
                }
                Event::Later(by) => now += by,
                Event::Crash { kept: is_kept } => {
                    if is_kept {
                        kept = queue.clone();
                    }
                    undone.extend(delivered.keys().filter(|seq| kept.kept().cursor < **seq
                        || kept.kept().pending.iter().any(|message| message.seq == **seq)));
                    queue = restart(&kept, "a");
                    not_before = queue.kept().pause_until;
                    // The log has what came after the kept place.
                    for again in queue.kept().cursor + 1..=seq {
                        queue.took(again, wanted.contains(&again), now);
                    }
                }
            }
        }
        // Now everything is taken: what is left comes, in the order of its numbers and pauses.
        loop {
            match queue.next(now) {
                QueueStep::Send(next) => {
                    queue.answered(next, DeliveryAnswer::Taken, now);
                    *delivered.entry(next).or_default() += 1;
                }
                QueueStep::Wait(until) => {
                    prop_assert!(until > now && until <= now + LONGEST_PAUSE * 6 / 5);
                    now = until;
                }
                QueueStep::Idle => break,
            }
        }
        let all: BTreeSet<u64> = delivered.keys().copied().collect();
        prop_assert_eq!(all, wanted);
        for (seq, times) in delivered {
            prop_assert!(times == 1 || undone.contains(&seq), "{} came {} times", seq, times);
        }
    }
}

#[test]
fn messages_go_out_in_order_and_a_refused_one_holds_only_itself() {
    let mut queue = queue();
    for seq in 1..=3 {
        queue.took(seq, true, 0);
    }
    assert_eq!(queue.next(0), QueueStep::Send(1));
    queue.answered(1, DeliveryAnswer::Refused { after: None }, 0);
    assert_eq!(queue.next(0), QueueStep::Send(2));
    queue.answered(2, DeliveryAnswer::Taken, 0);
    assert_eq!(queue.next(0), QueueStep::Send(3));
    queue.answered(3, DeliveryAnswer::Taken, 0);
    let QueueStep::Wait(until) = queue.next(0) else { panic!("the first is still there") };
    assert!((1_000..=1_200).contains(&until), "{until}");
    assert_eq!(queue.next(until), QueueStep::Send(1));
}

#[test]
fn a_receiver_that_is_away_is_asked_with_growing_pauses_and_one_message_only() {
    let mut queue = queue();
    for seq in 1..=9 {
        queue.took(seq, true, 0);
    }
    let (mut now, mut pauses) = (0, Vec::new());
    for _ in 0..14 {
        assert_eq!(queue.next(now), QueueStep::Send(1), "the others wait for the first");
        queue.answered(1, DeliveryAnswer::UNREACHED, now);
        let QueueStep::Wait(until) = queue.next(now) else { panic!("it is away") };
        pauses.push((until - now) / 1_000);
        now = until;
    }
    assert!(pauses.windows(2).all(|two| two[0] <= two[1] || two[1] >= 3_600), "{pauses:?}");
    assert!(pauses[0] == 1 && *pauses.last().unwrap() >= 3_600 && *pauses.last().unwrap() <= 4_320, "{pauses:?}");
    queue.answered(1, DeliveryAnswer::Taken, now);
    assert_eq!(queue.next(now), QueueStep::Send(2), "the rest comes at once");
}

#[test]
fn a_message_is_given_up_after_three_days_of_trying_and_not_without_a_try() {
    let mut queue = queue();
    queue.took(1, true, 0);
    assert_eq!(queue.next(2 * GIVE_UP), QueueStep::Send(1), "no gateway ran: it was never tried");
    queue.answered(1, DeliveryAnswer::UNREACHED, 2 * GIVE_UP);
    assert_eq!(queue.next(2 * GIVE_UP + LONGEST_PAUSE), QueueStep::Idle);
    assert_eq!((queue.counts().expired, queue.kept().pending.len()), (1, 0));
    queue.took(2, true, 0);
    queue.answered(2, DeliveryAnswer::Refused { after: None }, 0);
    assert_eq!(queue.next(GIVE_UP - 1), QueueStep::Send(2));
    assert_eq!(queue.next(GIVE_UP), QueueStep::Idle);
}

#[test]
fn gone_is_for_ever_and_for_the_next_process_until_the_receiver_is_another() {
    let mut queue = queue();
    queue.took(1, true, 0);
    queue.took(2, true, 0);
    queue.answered(1, DeliveryAnswer::Gone, 0);
    assert_eq!(queue.next(0), QueueStep::Idle);
    queue.took(3, true, 0);
    assert_eq!(queue.next(GIVE_UP), QueueStep::Idle);
    assert_eq!(restart(&queue, "a").next(0), QueueStep::Idle);
    let mut other = restart(&queue, "b");
    assert_eq!(other.next(0), QueueStep::Idle, "what changed while it was gone is not told");
    other.took(4, true, 0);
    assert_eq!(other.next(0), QueueStep::Send(4));
}

#[test]
fn a_full_queue_takes_no_more_and_a_pause_outlives_the_process() {
    let mut queue = queue();
    for seq in 1..=MOST_PENDING as u64 {
        queue.took(seq, true, 0);
    }
    assert_eq!(queue.room(), 0);
    queue.answered(1, DeliveryAnswer::Unavailable { after: Some(70_000) }, 0);
    assert_eq!(restart(&queue, "a").next(69_999), QueueStep::Wait(70_000));
    assert_eq!(restart(&queue, "a").next(70_000), QueueStep::Send(1));
    assert_eq!(restart(&queue, "b").next(1), QueueStep::Send(1), "another receiver asked for no pause");
}

// reach 3: a message is neither held nor tried for longer because of the clock
#[test]
fn a_clock_that_was_set_back_holds_nothing() {
    let late = 10 * GIVE_UP;
    for answer in [DeliveryAnswer::Unavailable { after: None }, DeliveryAnswer::Refused { after: None }] {
        let mut queue = queue();
        queue.took(1, true, late);
        assert_eq!(queue.next(late), QueueStep::Send(1));
        queue.answered(1, answer, late);
        // Set back by 27 days.
        let now = GIVE_UP;
        assert_eq!((restart(&queue, "a").next(now), queue.next(now)), (QueueStep::Send(1), QueueStep::Send(1)));
        queue.answered(1, answer, now);
        assert!(matches!(queue.next(now), QueueStep::Wait(until) if until < now + LONGEST_PAUSE), "{answer:?}");
        assert_eq!((queue.next(now + GIVE_UP), queue.counts().expired), (QueueStep::Idle, 1), "{answer:?}");
    }
}
