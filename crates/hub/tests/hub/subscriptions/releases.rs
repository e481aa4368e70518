//! The end of a subscription upstream, and who comes back.

use super::*;

// S1.1
#[test]
fn the_last_to_leave_releases_the_resource_after_the_linger() {
    let mut rig = Rig::connected(SubscribeMethod::PerUri);
    rig.follow(A, X);
    rig.follow(B, X);
    rig.unsubscribe(A, X);
    rig.pass(ms(10_000));
    assert_eq!(rig.said(), [], "one still follows");
    rig.gone(B);
    rig.pass(ms(1_999));
    assert_eq!((rig.said(), rig.phase(X)), (Vec::new(), Some(ResourcePhase::Lingering)));
    rig.pass(ms(1));
    let ticket = rig.expect_unsubscribe(X);
    rig.answer(ticket, &TicketAnswer::Done);
    assert!(rig.table.is_empty());
}

#[test]
fn who_comes_back_in_time_costs_the_server_nothing() {
    let mut rig = Rig::connected(SubscribeMethod::PerUri);
    rig.follow(A, X);
    rig.unsubscribe(A, X);
    rig.pass(ms(1_999));
    let request = rig.subscribe(B, X);
    assert_eq!(rig.only(), SubscriptionCommand::Reply(request));
    rig.acked(request);
    rig.pass(ms(60_000));
    assert_eq!((rig.said(), rig.phase(X)), (Vec::new(), Some(ResourcePhase::Active)));
}

// Bridging 21
#[test]
fn who_comes_while_it_is_released_waits_for_a_new_subscription() {
    let mut rig = Rig::connected(SubscribeMethod::PerUri);
    rig.follow(A, X);
    rig.gone(A);
    rig.pass(ms(2_000));
    let release = rig.expect_unsubscribe(X);
    let request = rig.subscribe(B, X);
    assert_eq!(rig.said(), [], "the server may have let go");
    rig.answer(release, &TicketAnswer::Done);
    let ticket = rig.expect_subscribe(X);
    rig.changed(X);
    rig.answer(ticket, &TicketAnswer::Done);
    assert_eq!(rig.only(), SubscriptionCommand::Reply(request));
    rig.acked(request);
    rig.pass(ms(500));
    assert_eq!((rig.only(), rig.told(B)), (SubscriptionCommand::Wake(B), vec![X.to_owned()]));
}

#[test]
fn a_server_that_does_not_let_go_is_not_waited_for() {
    for silent in [true, false] {
        let mut rig = Rig::connected(SubscribeMethod::PerUri);
        rig.follow(A, X);
        rig.gone(A);
        rig.pass(ms(2_000));
        let ticket = rig.expect_unsubscribe(X);
        if silent {
            rig.pass(ms(30_000));
        } else {
            rig.answer(ticket, &TicketAnswer::Failed(no()));
        }
        assert!(rig.table.is_empty());
        rig.subscribe(B, X);
        rig.agree(X);
    }
}

#[test]
fn a_subscription_that_may_have_been_made_is_undone() {
    let mut rig = Rig::connected(SubscribeMethod::PerUri);
    let request = rig.subscribe(A, X);
    let ticket = rig.expect_subscribe(X);
    rig.pass(ms(30_000));
    let said = rig.said();
    assert_eq!(said[0], SubscriptionCommand::Refuse { request, refusal: FollowRefusal::TimedOut });
    assert!(matches!(said[1..], [SubscriptionCommand::Unsubscribe { .. }]), "{said:?}");
    rig.answer(ticket, &TicketAnswer::Done);
    assert_eq!(
        (rig.said(), rig.phase(X)),
        (Vec::new(), Some(ResourcePhase::Unsubscribing)),
        "an old answer changes nothing"
    );
}

// S1.1
#[test]
fn what_may_have_been_agreed_to_after_a_reset_is_released_too() {
    for poll in [false, true] {
        let mut rig = Rig::connected(SubscribeMethod::PerUri);
        rig.follow(A, X);
        rig.connect(SubscribeMethod::PerUri, poll);
        rig.expect_subscribe(X);
        rig.pass(ms(30_000));
        assert_eq!(rig.phase(X), Some(if poll { ResourcePhase::Subscribing } else { ResourcePhase::Unheard }));
        rig.said();
        rig.gone(A);
        rig.expect_unsubscribe(X);
        rig.pass(ms(60_000));
        assert_eq!((rig.said(), rig.table.is_empty()), (Vec::new(), true));
    }
}

#[test]
fn no_more_than_so_many_requests_are_in_flight() {
    let mut rig = Rig::with(SubscriptionSettings { in_flight: 2, ..plain() });
    rig.connect(SubscribeMethod::PerUri, false);
    let uris: Vec<String> = (0..5).map(|n| format!("file:///{n}")).collect();
    let request = rig.listen(A, &uris.iter().map(String::as_str).collect::<Vec<_>>());
    let mut asked = 0;
    loop {
        let said = rig.said();
        let tickets: Vec<ServerTicket> = said
            .iter()
            .filter_map(|c| if let SubscriptionCommand::Subscribe { ticket, .. } = c { Some(*ticket) } else { None })
            .collect();
        assert!(tickets.len() <= 2);
        asked += tickets.len();
        if let Some(SubscriptionCommand::Acknowledge { request: answered, honoured, .. }) = said.last() {
            assert_eq!((*answered, honoured.len(), asked), (request, 5, 5));
            return;
        }
        assert!(!tickets.is_empty());
        for ticket in tickets {
            rig.answer(ticket, &TicketAnswer::Done);
        }
    }
}

#[test]
fn what_the_server_did_not_answer_is_asked_again() {
    let mut rig = Rig::with(SubscriptionSettings { in_flight: 1, ..plain() });
    rig.connect(SubscribeMethod::PerUri, false);
    rig.listen(A, &[X]);
    rig.pass(ms(29_000));
    rig.subscribe(B, Y);
    rig.said();
    // The release of X waits for the answer about Y.
    rig.pass(ms(1_000));
    let other = rig.expect_subscribe(Y);
    let request = rig.subscribe(C, X);
    assert_eq!((rig.said(), rig.phase(X)), (Vec::new(), Some(ResourcePhase::Subscribing)), "nobody agreed to it");
    rig.answer(other, &TicketAnswer::Done);
    let said = rig.said();
    let [SubscriptionCommand::Reply(_), SubscriptionCommand::Subscribe { ticket, .. }] = said[..] else {
        panic!("{said:?}")
    };
    rig.answer(ticket, &TicketAnswer::Done);
    assert_eq!(rig.only(), SubscriptionCommand::Reply(request));
}
