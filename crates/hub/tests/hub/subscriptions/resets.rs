//! Links that are lost, and what is owed afterwards.

use super::*;

/// A follower of X, of which a content was read; then the link was lost and is back, and the server agreed again.
fn after_a_gap(known: Option<&str>) -> Rig {
    let mut rig = Rig::connected(SubscribeMethod::PerUri);
    rig.follow(A, X);
    if let Some(text) = known {
        rig.seen(X, text);
    }
    rig.lose();
    rig.pass(ms(10_000));
    assert_eq!((rig.said(), rig.told(A)), (Vec::new(), Vec::new()), "nobody knows yet");
    rig.connect(SubscribeMethod::PerUri, false);
    rig.agree(X);
    rig
}

fn owed(rig: &mut Rig) -> Vec<String> {
    rig.pass(ms(2_000));
    let told = rig.told(A);
    rig.pass(ms(120_000));
    assert_eq!(rig.told(A), [""; 0], "at most one");
    told
}

// S1.8; bridging 23
#[test]
fn equal_content_after_a_gap_is_no_news() {
    let mut rig = after_a_gap(Some("one"));
    let read = rig.expect_read(X);
    rig.answer(read, &TicketAnswer::Content(content("one")));
    assert_eq!(owed(&mut rig), [""; 0]);
}

// S1.8; bridging 23
#[test]
fn other_content_after_a_gap_is_one_notice() {
    let mut rig = after_a_gap(Some("one"));
    let read = rig.expect_read(X);
    rig.answer(read, &TicketAnswer::Content(content("two")));
    assert_eq!(owed(&mut rig), [X]);
    // The server may speak of it too.
    let mut rig = after_a_gap(Some("one"));
    let read = rig.expect_read(X);
    rig.changed(X);
    rig.answer(read, &TicketAnswer::Content(content("two")));
    assert_eq!(owed(&mut rig), [X]);
}

// S1.8; bridging 23
#[test]
fn unreadable_content_after_a_gap_is_one_notice() {
    for silent in [true, false] {
        let mut rig = after_a_gap(Some("one"));
        let read = rig.expect_read(X);
        if silent {
            rig.pass(ms(30_000));
        } else {
            rig.answer(read, &TicketAnswer::Failed(no()));
        }
        assert_eq!(owed(&mut rig), [X]);
    }
}

// S1.8; bridging 23
#[test]
fn unknown_content_before_a_gap_is_one_notice() {
    let mut rig = after_a_gap(None);
    assert_eq!(rig.said(), []);
    assert_eq!(owed(&mut rig), [X]);
}

#[test]
fn a_content_that_changed_since_it_was_read_is_not_known() {
    let mut rig = Rig::connected(SubscribeMethod::PerUri);
    rig.follow(A, X);
    rig.seen(X, "one");
    rig.changed(X);
    rig.pass(ms(500));
    assert_eq!(rig.told(A), [X]);
    rig.said();
    rig.lose();
    rig.connect(SubscribeMethod::PerUri, false);
    rig.agree(X);
    assert_eq!(rig.said(), [], "there is nothing to compare with");
    assert_eq!(owed(&mut rig), [X]);
}

#[test]
fn a_content_that_was_read_before_anybody_followed_is_known() {
    let mut rig = Rig::connected(SubscribeMethod::PerUri);
    rig.seen(X, "one");
    assert_eq!(rig.table.remembered(), 1);
    rig.follow(A, X);
    assert_eq!(rig.table.remembered(), 0);
    rig.lose();
    rig.connect(SubscribeMethod::PerUri, false);
    rig.agree(X);
    let read = rig.expect_read(X);
    rig.answer(read, &TicketAnswer::Content(content("one")));
    assert_eq!(owed(&mut rig), [""; 0]);
}

#[test]
fn who_read_something_else_within_the_gap_is_told() {
    let mut rig = Rig::connected(SubscribeMethod::PerUri);
    rig.follow(A, X);
    rig.seen(X, "one");
    rig.lose();
    rig.connect(SubscribeMethod::PerUri, false);
    let ticket = rig.expect_subscribe(X);
    rig.seen(X, "two");
    rig.answer(ticket, &TicketAnswer::Done);
    // Even if it is "one" again: a client may hold "two".
    assert_eq!(owed(&mut rig), [X]);
}

#[test]
fn the_content_of_a_folder_does_not_speak_for_its_children() {
    let mut rig = Rig::connected(SubscribeMethod::PerUri);
    rig.follow(A, "file:///d");
    rig.changed("file:///d/e");
    rig.pass(ms(500));
    assert_eq!(rig.told(A), ["file:///d"]);
    rig.said();
    rig.seen("file:///d", "listing");
    rig.lose();
    rig.connect(SubscribeMethod::PerUri, false);
    rig.agree("file:///d");
    assert_eq!(owed(&mut rig), ["file:///d"]);
}

#[test]
fn a_gap_within_a_gap_is_compared_with_the_content_before_both() {
    let mut rig = after_a_gap(Some("one"));
    let old = rig.expect_read(X);
    rig.lose();
    rig.answer(old, &TicketAnswer::Content(content("two")));
    rig.connect(SubscribeMethod::PerUri, false);
    rig.agree(X);
    let read = rig.expect_read(X);
    rig.answer(read, &TicketAnswer::Content(content("one")));
    assert_eq!(owed(&mut rig), [""; 0], "an answer from the lost link is none");
}

#[test]
fn everything_is_subscribed_again_in_the_way_of_the_new_link() {
    let mut rig = Rig::connected(SubscribeMethod::PerUri);
    rig.follow(A, X);
    rig.follow(B, Y);
    let request = rig.subscribe(C, "file:///z");
    let stale = rig.expect_subscribe("file:///z");
    rig.lose();
    rig.connect(SubscribeMethod::Union, false);
    let ticket = rig.expect_listen(&[X, Y, "file:///z"]);
    rig.answer(stale, &TicketAnswer::Failed(no()));
    assert_eq!(rig.said(), [], "an answer from the lost link is none");
    rig.tell(|table, now| table.listening(ticket, texts(&[X, Y, "file:///z"]), now));
    assert_eq!(rig.only(), SubscriptionCommand::Reply(request));
}

// S1.8
#[test]
fn what_is_refused_after_a_gap_is_announced_once_and_tried_again() {
    let mut rig = Rig::connected(SubscribeMethod::PerUri);
    rig.follow(A, X);
    rig.seen(X, "one");
    rig.lose();
    rig.connect(SubscribeMethod::PerUri, false);
    for pause in [1_000, 2_000, 4_000] {
        let ticket = rig.expect_subscribe(X);
        rig.answer(ticket, &TicketAnswer::Failed(no()));
        assert_eq!(rig.phase(X), Some(ResourcePhase::Unheard));
        rig.pass(ms(600));
        assert_eq!(rig.told(A).len(), usize::from(pause == 1_000));
        rig.said();
        rig.pass(ms(pause - 600));
    }
    rig.agree(X);
    let read = rig.expect_read(X);
    rig.answer(read, &TicketAnswer::Content(content("one")));
    assert_eq!(owed(&mut rig), [""; 0]);
}

#[test]
fn what_was_promised_is_polled_if_it_is_refused_after_a_gap() {
    let mut rig = Rig::with(plain());
    rig.connect(SubscribeMethod::PerUri, true);
    rig.follow(A, X);
    rig.seen(X, "one");
    rig.lose();
    rig.connect(SubscribeMethod::PerUri, true);
    let ticket = rig.expect_subscribe(X);
    rig.answer(ticket, &TicketAnswer::Failed(no()));
    let read = rig.expect_read(X);
    rig.answer(read, &TicketAnswer::Content(content("two")));
    assert_eq!(rig.only(), SubscriptionCommand::Poll(at(X)));
    rig.pass(ms(500));
    assert_eq!((rig.only(), rig.told(A)), (SubscriptionCommand::Wake(A), vec![X.to_owned()]));
    rig.lose();
    assert_eq!(rig.only(), SubscriptionCommand::StopPolling(at(X)));
}

// S1.8
#[test]
fn changes_that_were_not_announced_survive_the_link() {
    let mut rig = Rig::connected(SubscribeMethod::PerUri);
    rig.follow(A, X);
    rig.changed(X);
    rig.lose();
    rig.pass(ms(500));
    assert_eq!((rig.only(), rig.told(A)), (SubscriptionCommand::Wake(A), vec![X.to_owned()]));
}

#[test]
fn a_server_that_is_removed_is_announced_once() {
    let mut rig = Rig::connected(SubscribeMethod::PerUri);
    rig.follow(A, X);
    let request = rig.subscribe(B, Y);
    rig.said();
    rig.tell(|table, now| table.removed(SERVER, now));
    assert_eq!(rig.only(), SubscriptionCommand::Refuse { request, refusal: FollowRefusal::Removed });
    assert_eq!(owed(&mut rig), [X]);
    rig.gone(A);
    assert!(rig.table.is_empty());
}

#[test]
fn what_is_remembered_is_bounded() {
    let mut rig = Rig::with(SubscriptionSettings { remembered: 10, ..plain() });
    rig.connect(SubscribeMethod::PerUri, false);
    for n in 0..1_000 {
        rig.seen(&format!("file:///{n}"), "text");
        assert!(rig.table.remembered() <= 10);
    }
    rig.follow(A, "file:///999");
    rig.lose();
    rig.connect(SubscribeMethod::PerUri, false);
    rig.agree("file:///999");
    rig.expect_read("file:///999");
}

// A listen may wait for one server while another, which had agreed, is lost.
#[test]
fn what_was_lost_before_the_acknowledgement_is_not_acknowledged() {
    let mut rig = Rig::connected(SubscribeMethod::PerUri);
    let other = ResourceAddress { place: PlaceId::Shared(ServerId(8)), uri: Y.into() };
    let request = rig.request();
    let targets = [target(X), FollowTarget { address: other.clone(), pace: None }];
    rig.tell(|table, now| table.listen(A, request, &targets, now));
    rig.agree(X);
    rig.lose();
    rig.pass(ms(1_000));
    rig.tell(|table, now| table.connected(PlaceId::Shared(ServerId(8)), SubscribeMethod::Union, false, now));
    let SubscriptionCommand::Listen { ticket, uris, .. } = rig.only() else { panic!() };
    rig.tell(|table, now| table.listening(ticket, uris, now));
    assert_eq!(rig.said(), []);
    rig.pass(ms(4_000));
    let left_out = vec![(at(X), FollowRefusal::TimedOut)];
    assert_eq!(rig.only(), SubscriptionCommand::Acknowledge { request, honoured: vec![other], left_out });
}

// S1.8
#[test]
fn what_was_missed_on_a_link_that_held_is_decided_by_the_content_without_subscribing_again() {
    for upstream in [SubscribeMethod::PerUri, SubscribeMethod::Union] {
        for (now, news) in [("one", &[][..]), ("two", &[X][..])] {
            let mut rig = Rig::connected(upstream);
            let request = rig.subscribe(A, X);
            match upstream {
                SubscribeMethod::Union => {
                    let ticket = rig.expect_listen(&[X]);
                    rig.tell(|table, now| table.listening(ticket, texts(&[X]), now));
                }
                _ => rig.agree(X),
            }
            rig.said();
            rig.acked(request);
            rig.seen(X, "one");
            rig.tell(|table, now| table.missed(SERVER, now));
            let read = rig.expect_read(X);
            rig.answer(read, &TicketAnswer::Content(content(now)));
            assert_eq!(owed(&mut rig), news);
            assert_eq!(rig.phase(X), Some(ResourcePhase::Active));
        }
    }
    let mut rig = Rig::connected(SubscribeMethod::PerUri);
    rig.follow(A, X);
    rig.tell(|table, now| table.missed(SERVER, now));
    assert_eq!(owed(&mut rig), [X], "nobody knows what it was before");
}

#[test]
fn who_follows_a_resource_is_known_from_the_first_word_to_the_last() {
    let mut rig = Rig::connected(SubscribeMethod::PerUri);
    assert!(!rig.table.has_followers(SERVER));
    rig.subscribe(A, X);
    assert!(
        rig.table.is_followed_by(&at(X), A) && !rig.table.is_followed_by(&at(X), B) && rig.table.has_followers(SERVER)
    );
    rig.gone(A);
    assert!(!rig.table.is_followed_by(&at(X), A) && !rig.table.has_followers(SERVER));
}
