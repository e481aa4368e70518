//! What clients see: order, ownership, and nothing after the end.

use super::*;

// S1.2, S1.7; bridging 17
#[test]
fn a_change_before_the_reply_follows_it() {
    let mut rig = Rig::connected(SubscribeMethod::PerUri);
    let request = rig.subscribe(A, X);
    let ticket = rig.expect_subscribe(X);
    rig.changed(X);
    rig.pass(ms(3_000));
    assert_eq!(rig.said(), [], "the server has not agreed");
    rig.answer(ticket, &TicketAnswer::Done);
    assert_eq!(rig.only(), SubscriptionCommand::Reply(request));
    assert_eq!(rig.told(A), [""; 0], "the reply is not written yet");
    rig.acked(request);
    assert_eq!(rig.only(), SubscriptionCommand::Wake(A));
    assert_eq!(rig.told(A), [X]);
    assert_eq!(rig.told(A), [""; 0]);
}

// S1.2; bridging 17
#[test]
fn a_change_between_acknowledgement_and_transport_is_held() {
    let mut rig = Rig::connected(SubscribeMethod::Union);
    let request = rig.listen(A, &[X]);
    let ticket = rig.expect_listen(&[X]);
    rig.tell(|table, now| table.listening(ticket, texts(&[X]), now));
    assert_eq!(rig.only(), SubscriptionCommand::Acknowledge { request, honoured: vec![at(X)], left_out: Vec::new() });
    rig.changed(X);
    rig.pass(ms(500));
    assert_eq!((rig.said(), rig.told(A)), (Vec::new(), Vec::new()));
    rig.acked(request);
    assert_eq!((rig.only(), rig.told(A)), (SubscriptionCommand::Wake(A), vec![X.to_owned()]));
}

// S1.3, S1.7; bridging 18
#[test]
fn nothing_comes_after_unsubscribe() {
    let mut rig = Rig::connected(SubscribeMethod::PerUri);
    rig.follow(A, X);
    rig.follow(B, X);
    // One is queued, one is gathered, one comes later.
    rig.changed(X);
    rig.pass(ms(500));
    assert_eq!(rig.said().len(), 2);
    rig.changed(X);
    rig.unsubscribe(A, X);
    assert_eq!(rig.told(A), [""; 0]);
    rig.pass(ms(500));
    rig.changed(X);
    rig.pass(ms(500));
    assert_eq!(rig.told(A), [""; 0]);
    assert_eq!(rig.told(B), [X]);
    assert!(!rig.said().contains(&SubscriptionCommand::Wake(A)));
}

// S1.3
#[test]
fn an_old_acknowledgement_does_not_open_a_new_gate() {
    let mut rig = Rig::connected(SubscribeMethod::PerUri);
    let first = rig.subscribe(A, X);
    rig.agree(X);
    rig.unsubscribe(A, X);
    let second = rig.subscribe(A, X);
    assert_eq!(rig.said(), [SubscriptionCommand::Reply(first), SubscriptionCommand::Reply(second)]);
    rig.changed(X);
    rig.pass(ms(500));
    rig.acked(first);
    assert_eq!(rig.told(A), [""; 0]);
    rig.acked(second);
    assert_eq!(rig.told(A), [X]);
}

// S1.2, S1.3
#[test]
fn what_was_queued_before_unsubscribe_does_not_come_before_the_next_acknowledgement() {
    let mut rig = Rig::connected(SubscribeMethod::PerUri);
    rig.follow(A, X);
    rig.follow(A, Y);
    rig.changed(X);
    rig.pass(ms(500));
    assert_eq!(rig.only(), SubscriptionCommand::Wake(A));
    rig.unsubscribe(A, X);
    let request = rig.subscribe(A, X);
    rig.changed(X);
    rig.pass(ms(500));
    assert_eq!((rig.only(), rig.told(A)), (SubscriptionCommand::Reply(request), Vec::new()));
    rig.acked(request);
    assert_eq!((rig.only(), rig.told(A)), (SubscriptionCommand::Wake(A), vec![X.to_owned()]));
}

// S1.1, S1.5; bridging 20
#[test]
fn an_update_goes_to_its_subscribers_only_over_one_subscription() {
    let mut rig = Rig::connected(SubscribeMethod::PerUri);
    let (first, second) = (rig.subscribe(A, X), rig.subscribe(B, X));
    rig.agree(X);
    assert_eq!(
        rig.said(),
        [SubscriptionCommand::Reply(first), SubscriptionCommand::Reply(second)],
        "both joined the one that was pending"
    );
    rig.acked(first);
    rig.acked(second);
    rig.follow(C, Y);
    rig.changed(X);
    rig.pass(ms(500));
    let mut said = rig.said();
    said.sort_by_key(|command| if let SubscriptionCommand::Wake(follower) = command { follower.0 } else { 0 });
    assert_eq!(said, [SubscriptionCommand::Wake(A), SubscriptionCommand::Wake(B)]);
    assert_eq!((rig.told(A), rig.told(B), rig.told(C)), (vec![X.to_owned()], vec![X.to_owned()], vec![]));
}

// S1.5
#[test]
fn the_same_uri_of_another_server_is_another_resource() {
    let mut rig = Rig::connected(SubscribeMethod::PerUri);
    rig.follow(A, X);
    rig.tell(|table, now| table.changed(PlaceId::Shared(ServerId(8)), &X.into(), now));
    rig.pass(ms(5_000));
    assert_eq!((rig.said(), rig.told(A)), (Vec::new(), Vec::new()));
}

// S1.1
#[test]
fn a_second_subscribe_of_the_same_session_changes_nothing() {
    let mut rig = Rig::connected(SubscribeMethod::PerUri);
    let (first, second) = (rig.subscribe(A, X), rig.subscribe(A, X));
    rig.agree(X);
    assert_eq!(
        rig.said(),
        [SubscriptionCommand::Reply(first), SubscriptionCommand::Reply(second)],
        "each request has its answer"
    );
    rig.acked(first);
    let third = rig.subscribe(A, X);
    assert_eq!(rig.only(), SubscriptionCommand::Reply(third));
    rig.changed(X);
    rig.pass(ms(500));
    assert_eq!(rig.told(A), [X], "open since the first acknowledgement, told once");
    rig.acked(second);
    rig.acked(third);
    rig.unsubscribe(A, X);
    assert_eq!(rig.phase(X), Some(ResourcePhase::Lingering), "one unsubscribe ends it");
}

// S1.1
#[test]
fn a_refusal_reaches_everybody_who_waits() {
    let mut rig = Rig::connected(SubscribeMethod::PerUri);
    let (first, second) = (rig.subscribe(A, X), rig.listen(B, &[X, Y]));
    let said = rig.said();
    let [SubscriptionCommand::Subscribe { ticket, .. }, SubscriptionCommand::Subscribe { ticket: other, .. }] =
        said[..]
    else {
        panic!("{said:?}")
    };
    rig.answer(ticket, &TicketAnswer::Failed(no()));
    assert_eq!(rig.only(), SubscriptionCommand::Refuse { request: first, refusal: no() });
    rig.answer(other, &TicketAnswer::Done);
    let left_out = vec![(at(X), no())];
    assert_eq!(rig.only(), SubscriptionCommand::Acknowledge { request: second, honoured: vec![at(Y)], left_out });
    assert_eq!(rig.phase(X), None);
    assert_eq!(rig.table.followed_by(B).collect::<Vec<_>>(), [&at(Y)]);
}

#[test]
fn a_server_without_subscriptions_is_refused_or_polled() {
    let mut rig = Rig::connected(SubscribeMethod::Unable);
    let request = rig.subscribe(A, X);
    assert_eq!(rig.only(), SubscriptionCommand::Refuse { request, refusal: FollowRefusal::NotOffered });
    assert!(rig.table.is_empty());
    rig.connect(SubscribeMethod::Unable, true);
    let request = rig.subscribe(A, X);
    let ticket = rig.expect_read(X);
    rig.answer(ticket, &TicketAnswer::Content(content("one")));
    assert_eq!(
        rig.said(),
        [SubscriptionCommand::Reply(request), SubscriptionCommand::Poll(at(X))],
        "the baseline comes before the answer"
    );
    rig.acked(request);
    rig.seen(X, "one");
    rig.pass(ms(5_000));
    assert_eq!(rig.told(A), [""; 0]);
    rig.seen(X, "two");
    rig.pass(ms(500));
    assert_eq!((rig.only(), rig.told(A)), (SubscriptionCommand::Wake(A), vec![X.to_owned()]));
    rig.gone(A);
    assert_eq!(rig.only(), SubscriptionCommand::StopPolling(at(X)));
    assert!(rig.table.is_empty());
}

// Bridging B2: a hung server delays an acknowledgement by five seconds at most.
#[test]
fn a_listen_is_acknowledged_without_a_server_that_hangs() {
    let mut rig = Rig::connected(SubscribeMethod::PerUri);
    rig.follow(B, Y);
    let request = rig.listen(A, &[X, Y]);
    let ticket = rig.expect_subscribe(X);
    rig.pass(ms(4_999));
    assert_eq!(rig.said(), []);
    rig.pass(ms(1));
    let left_out = vec![(at(X), FollowRefusal::TimedOut)];
    assert_eq!(rig.only(), SubscriptionCommand::Acknowledge { request, honoured: vec![at(Y)], left_out });
    rig.acked(request);
    // It agrees later: that is not for this listen.
    rig.answer(ticket, &TicketAnswer::Done);
    rig.changed(X);
    rig.pass(ms(1_000));
    assert_eq!(rig.told(A), [""; 0]);
    rig.pass(ms(1_000));
    let ticket = rig.expect_unsubscribe(X);
    rig.answer(ticket, &TicketAnswer::Done);
    assert_eq!(rig.phase(X), None);
}

#[test]
fn a_session_is_not_kept_waiting_for_a_server_that_is_away() {
    let mut rig = Rig::with(plain());
    let request = rig.subscribe(A, X);
    rig.pass(ms(29_999));
    assert_eq!(rig.said(), []);
    rig.pass(ms(1));
    assert_eq!(rig.only(), SubscriptionCommand::Refuse { request, refusal: FollowRefusal::TimedOut });
    assert!(rig.table.is_empty());
}

#[test]
fn who_unsubscribes_before_the_answer_is_answered() {
    let mut rig = Rig::connected(SubscribeMethod::PerUri);
    let request = rig.subscribe(A, X);
    let ticket = rig.expect_subscribe(X);
    rig.unsubscribe(A, X);
    assert_eq!(rig.only(), SubscriptionCommand::Refuse { request, refusal: FollowRefusal::Withdrawn });
    rig.answer(ticket, &TicketAnswer::Done);
    assert_eq!(rig.phase(X), Some(ResourcePhase::Lingering));
}

#[test]
fn a_cancelled_request_is_not_answered() {
    let mut rig = Rig::connected(SubscribeMethod::PerUri);
    let (first, second) = (rig.subscribe(A, X), rig.subscribe(A, X));
    let ticket = rig.expect_subscribe(X);
    rig.tell(|table, now| table.cancel(first, now));
    rig.answer(ticket, &TicketAnswer::Done);
    assert_eq!(rig.only(), SubscriptionCommand::Reply(second), "the other request of the same session stands");
}

#[test]
fn a_listen_for_nothing_is_acknowledged_with_nothing() {
    let mut rig = Rig::connected(SubscribeMethod::Union);
    let request = rig.listen(A, &[]);
    assert_eq!(rig.only(), SubscriptionCommand::Acknowledge { request, honoured: Vec::new(), left_out: Vec::new() });
    rig.acked(request);
    assert!(rig.table.is_empty());
}

#[test]
fn bounds_are_refused_with_their_number() {
    let mut rig = Rig::with(SubscriptionSettings { per_follower: 1, total: 2, ..plain() });
    rig.connect(SubscribeMethod::PerUri, false);
    rig.follow(A, X);
    let request = rig.subscribe(A, Y);
    assert_eq!(rig.only(), SubscriptionCommand::Refuse { request, refusal: FollowRefusal::TooMany { limit: 1 } });
    let again = rig.subscribe(A, X);
    assert_eq!(rig.only(), SubscriptionCommand::Reply(again), "what it has counts once");
    rig.follow(B, X);
    let request = rig.listen(C, &[X]);
    let left_out = vec![(at(X), FollowRefusal::TooMany { limit: 2 })];
    assert_eq!(rig.only(), SubscriptionCommand::Acknowledge { request, honoured: Vec::new(), left_out });
    rig.gone(A);
    rig.follow(C, X);
}

// S1.1
#[test]
fn everything_of_a_client_goes_with_it() {
    let mut rig = Rig::connected(SubscribeMethod::PerUri);
    rig.follow(A, X);
    rig.changed(X);
    rig.pass(ms(500));
    rig.subscribe(A, Y);
    rig.said();
    rig.gone(A);
    assert_eq!(rig.told(A), [""; 0]);
    assert_eq!(rig.table.len(), 0);
    rig.pass(ms(60_000));
    let said = rig.said();
    let released = |uri: &str| {
        said.iter().any(|c| matches!(c, SubscriptionCommand::Unsubscribe { address, .. } if *address == at(uri)))
    };
    assert!(released(X) && released(Y), "{said:?}");
    rig.pass(ms(60_000));
    assert!(rig.table.is_empty(), "{:?}", rig.table);
}
