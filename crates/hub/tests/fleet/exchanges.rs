//! Single requests between two replicas, frame by frame: what happens when one of them is lost.

use std::time::{Duration, Instant};

use tidings_hub::fleet::frames::{ExchangeId, ExchangeKind, FleetFrame, NumberedItem, OpenFrame};
use tidings_hub::fleet::incoming::{IncomingExchanges, OpenFacts, OpenVerdict};
use tidings_hub::fleet::outgoing::{OutgoingExchanges, OutgoingSteps};
use tidings_hub::fleet::{FleetServerName, LogSequence, OwnerEpoch, ReplicaId};

fn replica(name: &str) -> ReplicaId {
    ReplicaId { name: name.into(), incarnation: 1 }
}

fn open(sequence: u64) -> OpenFrame {
    OpenFrame {
        kind: ExchangeKind::Call,
        server: FleetServerName::from("notes"),
        epoch: OwnerEpoch(1),
        sequence: LogSequence(sequence),
        beat: 1,
        window: 0,
        bytes: b"{}".to_vec(),
    }
}

fn facts(applied: u64) -> OpenFacts {
    OpenFacts { epoch: Some(OwnerEpoch(1)), beat_age: Some(Duration::ZERO), applied: LogSequence(applied) }
}

/// The frames that a step sends, without whom they are for.
fn sent(steps: Vec<(ReplicaId, ExchangeId, FleetFrame)>) -> Vec<FleetFrame> {
    steps.into_iter().map(|(_, _, frame)| frame).collect()
}

/// How much the other side may send ahead, by the frame that opens an exchange.
fn window(steps: OutgoingSteps) -> u32 {
    match sent(steps.send).as_slice() {
        [FleetFrame::Open(frame)] => frame.window,
        other => panic!("{other:?}"),
    }
}

// cluster: a stream of a client at another replica than its session's is open for hours, and is one of thousands.
#[test]
fn exchanges_that_idle_do_not_keep_others_from_being_opened() {
    let (now, mut outgoing) = (Instant::now(), OutgoingExchanges::new(replica("a")));
    let mut windows = Vec::new();
    for _ in 0..5_000 {
        let (_, steps) = outgoing.open(replica("b"), open(1), now).expect("there is room for another");
        windows.push(window(steps));
    }
    assert!(windows[0] > 1 << 16 && windows.iter().all(|window| *window >= 1), "the first have large windows");
    // All that was taken is given back.
    (1..=5_000).for_each(|number| drop(outgoing.cancel(number)));
    let (_, steps) = outgoing.open(replica("b"), open(1), now).expect("room");
    assert_eq!(window(steps), windows[0]);
}

// cluster: what a replica carries out ends also where it was not heard that nobody waits for it.
#[test]
fn a_cancellation_or_a_credit_that_was_lost_is_said_again_when_the_other_side_speaks() {
    let (now, a, b) = (Instant::now(), replica("a"), replica("b"));
    let (mut outgoing, mut incoming) = (OutgoingExchanges::new(a.clone()), IncomingExchanges::new(10));
    for is_answered in [false, true] {
        let (number, _) = outgoing.open(b.clone(), open(1), now).expect("room");
        let id = ExchangeId { caller: a.clone(), number };
        assert_eq!(incoming.opened(&id, &open(1), facts(1), now).0, OpenVerdict::Run);
        if is_answered {
            let steps = incoming.send(&id, NumberedItem::Answer { bytes: b"1".to_vec() }, now);
            let [(_, answer)] = steps.send.try_into().expect("the answer");
            // What `a` says when it has it is lost.
            drop(outgoing.frame(&b, number, answer, now));
        } else {
            drop(outgoing.cancel(number));
        }
        assert!(outgoing.is_empty());
        let later = now + Duration::from_secs(5);
        let alive = incoming.tick(later).send;
        assert_eq!(alive.len(), 1, "it still carries out what nobody waits for, or keeps its answer");
        for (_, frame) in alive {
            for frame in sent(outgoing.frame(&b, number, frame, later).send) {
                drop(incoming.frame(&id, frame, later));
            }
        }
        assert!(incoming.tick(later + Duration::from_secs(5)).send.is_empty(), "answered: {is_answered}");
    }
}

// cluster: a request that waits for the log does not run once its client is gone.
#[test]
fn a_request_that_is_cancelled_while_it_waits_for_the_log_does_not_run() {
    let (now, mut incoming) = (Instant::now(), IncomingExchanges::new(10));
    let id = ExchangeId { caller: replica("a"), number: 7 };
    assert_eq!(incoming.opened(&id, &open(9), facts(8), now).0, OpenVerdict::Later(LogSequence(9)));
    drop(incoming.frame(&id, FleetFrame::Cancel, now));
    assert_eq!(incoming.opened(&id, &open(9), facts(9), now).0, OpenVerdict::Duplicate);
}
