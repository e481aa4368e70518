//! Servers of the new era: one listen for everything, made before it is broken.

use super::*;

impl Rig {
    fn listening(&mut self, ticket: ServerTicket, uris: &[&str]) {
        self.tell(|table, now| table.listening(ticket, texts(uris), now));
    }

    fn listen_ended(&mut self, ticket: ServerTicket) {
        self.tell(|table, now| table.listen_ended(ticket, &no(), now));
    }

    /// A session that follows over a listen which it makes necessary.
    fn follow_by_listen(&mut self, follower: FollowerId, uri: &str, union: &[&str]) -> ServerTicket {
        let request = self.subscribe(follower, uri);
        let ticket = self.expect_listen(union);
        self.listening(ticket, union);
        let said = self.said();
        assert_eq!(said.last(), Some(&SubscriptionCommand::Reply(request)), "{said:?}");
        self.acked(request);
        ticket
    }
}

fn close(ticket: ServerTicket) -> SubscriptionCommand {
    SubscriptionCommand::Close { ticket, place: SERVER }
}

// Bridging 22
#[test]
fn the_old_listen_is_closed_when_the_new_one_is_acknowledged() {
    let mut rig = Rig::connected(SubscribeMethod::Union);
    let old = rig.follow_by_listen(A, X, &[X]);
    let request = rig.subscribe(B, Y);
    let new = rig.expect_listen(&[X, Y]);
    assert!(new > old, "generations rise");
    // Meanwhile both tell.
    rig.changed(X);
    rig.changed(X);
    rig.changed(Y);
    rig.listening(new, &[X, Y]);
    assert_eq!(rig.said(), [close(old), SubscriptionCommand::Reply(request)]);
    rig.acked(request);
    rig.pass(ms(500));
    assert_eq!((rig.told(A), rig.told(B)), (vec![X.to_owned()], vec![Y.to_owned()]), "once each");
}

#[test]
fn those_who_come_while_a_listen_is_opened_share_the_next_one() {
    let mut rig = Rig::connected(SubscribeMethod::Union);
    let first = rig.subscribe(A, "u:0");
    let ticket = rig.expect_listen(&["u:0"]);
    let second = rig.subscribe(A, "u:1");
    let third = rig.listen(B, &["u:0", "u:2"]);
    assert_eq!(rig.said(), []);
    rig.listening(ticket, &["u:0"]);
    let said = rig.said();
    let [SubscriptionCommand::Reply(one), SubscriptionCommand::Listen { ticket: next, uris, .. }] = &said[..] else {
        panic!("{said:?}")
    };
    assert_eq!((*one, uris), (first, &texts(&["u:0", "u:1", "u:2"])));
    rig.listening(*next, &["u:0", "u:1"]);
    let said = rig.said();
    assert_eq!(said.len(), 3, "{said:?}");
    let left_out = vec![(at("u:2"), FollowRefusal::NotHonoured)];
    for expected in [
        close(ticket),
        SubscriptionCommand::Reply(second),
        SubscriptionCommand::Acknowledge { request: third, honoured: vec![at("u:0")], left_out },
    ] {
        assert!(said.contains(&expected), "{expected:?} in {said:?}");
    }
}

#[test]
fn a_listen_that_fails_leaves_the_old_one_open() {
    for silent in [false, true] {
        let mut rig = Rig::connected(SubscribeMethod::Union);
        rig.follow_by_listen(A, X, &[X]);
        let request = rig.subscribe(B, Y);
        let ticket = rig.expect_listen(&[X, Y]);
        if silent {
            rig.pass(ms(30_000));
            assert!(rig.said().contains(&SubscriptionCommand::Refuse { request, refusal: FollowRefusal::TimedOut }));
            rig.listening(ticket, &[X, Y]);
            assert_eq!(rig.said(), [], "it was given up");
        } else {
            rig.listen_ended(ticket);
            assert_eq!(rig.only(), SubscriptionCommand::Refuse { request, refusal: no() });
        }
        rig.changed(X);
        rig.pass(ms(500));
        assert_eq!((rig.told(A), rig.phase(Y)), (vec![X.to_owned()], None));
    }
}

// S1.1
#[test]
fn a_listen_is_closed_with_its_last_follower_and_shrinks_later_otherwise() {
    let mut rig = Rig::connected(SubscribeMethod::Union);
    rig.follow_by_listen(A, X, &[X]);
    let both = rig.follow_by_listen(B, Y, &[X, Y]);
    rig.gone(A);
    rig.pass(ms(2_000));
    assert_eq!((rig.said(), rig.phase(X)), (Vec::new(), None), "the surplus is not followed by anybody");
    rig.pass(ms(10_000));
    let one = rig.expect_listen(&[Y]);
    rig.listening(one, &[Y]);
    assert_eq!(rig.only(), close(both));
    rig.gone(B);
    rig.pass(ms(2_000));
    assert_eq!(rig.only(), close(one));
    rig.pass(ms(10_000));
    assert!(rig.table.is_empty());
}

#[test]
fn what_is_still_in_the_listen_needs_no_other() {
    let mut rig = Rig::connected(SubscribeMethod::Union);
    rig.follow_by_listen(A, X, &[X]);
    rig.follow_by_listen(B, Y, &[X, Y]);
    rig.gone(A);
    rig.pass(ms(2_000));
    let request = rig.subscribe(C, X);
    assert_eq!(rig.only(), SubscriptionCommand::Reply(request));
    rig.pass(ms(20_000));
    assert_eq!(rig.said(), [], "it is wanted again");
}

#[test]
fn what_is_in_the_old_listen_but_not_in_the_next_waits() {
    let mut rig = Rig::connected(SubscribeMethod::Union);
    rig.follow_by_listen(A, X, &[X]);
    rig.follow_by_listen(B, Y, &[X, Y]);
    rig.gone(A);
    rig.pass(ms(12_000));
    let shrunk = rig.expect_listen(&[Y]);
    let request = rig.subscribe(C, X);
    assert_eq!(rig.said(), [], "the listen that has it is about to be closed");
    rig.listening(shrunk, &[Y]);
    let said = rig.said();
    let [SubscriptionCommand::Close { .. }, SubscriptionCommand::Listen { ticket, .. }] = said[..] else {
        panic!("{said:?}")
    };
    rig.listening(ticket, &[X, Y]);
    assert_eq!(rig.said(), [close(shrunk), SubscriptionCommand::Reply(request)]);
}

#[test]
fn what_a_server_did_not_honour_is_polled_where_that_is_wished() {
    let mut rig = Rig::with(plain());
    rig.connect(SubscribeMethod::Union, true);
    let request = rig.listen(A, &[X, Y]);
    let ticket = rig.expect_listen(&[X, Y]);
    rig.listening(ticket, &[X, "file:///never-asked"]);
    let read = rig.expect_read(Y);
    rig.answer(read, &TicketAnswer::Failed(no()));
    let honoured = vec![at(X), at(Y)];
    assert_eq!(
        rig.said(),
        [
            SubscriptionCommand::Acknowledge { request, honoured, left_out: Vec::new() },
            SubscriptionCommand::Poll(at(Y))
        ]
    );
    rig.acked(request);
    rig.seen(Y, "it can be read after all");
    rig.pass(ms(500));
    assert_eq!(rig.told(A), [Y]);
}

// S1.8; bridging 23
#[test]
fn what_drops_out_of_a_listen_is_announced_and_asked_for_again() {
    let mut rig = Rig::connected(SubscribeMethod::Union);
    rig.follow_by_listen(A, X, &[X]);
    rig.subscribe(B, Y);
    let ticket = rig.expect_listen(&[X, Y]);
    rig.listening(ticket, &[Y]);
    assert_eq!(rig.phase(X), Some(ResourcePhase::Unheard));
    rig.said();
    rig.pass(ms(500));
    assert_eq!(
        (rig.only(), rig.told(A)),
        (SubscriptionCommand::Wake(A), vec![X.to_owned()]),
        "nobody can be un-acknowledged"
    );
    rig.pass(ms(500));
    let again = rig.expect_listen(&[X, Y]);
    rig.listening(again, &[Y]);
    assert_eq!(rig.only(), close(ticket));
    rig.pass(ms(1_999));
    assert_eq!((rig.said(), rig.told(A)), (Vec::new(), Vec::new()), "later and later, and told once");
    rig.pass(ms(1));
    let again = rig.expect_listen(&[X, Y]);
    rig.listening(again, &[X, Y]);
    assert_eq!(rig.phase(X), Some(ResourcePhase::Active));
    rig.pass(ms(500));
    assert_eq!(rig.told(A), [X], "it may have changed since");
}

// S1.8; bridging 23
#[test]
fn a_listen_that_ends_early_is_opened_again_later_but_never_much_later() {
    let mut rig = Rig::connected(SubscribeMethod::Union);
    let mut ticket = rig.follow_by_listen(A, X, &[X]);
    rig.seen(X, "same");
    for pause in [250, 500, 1_000, 2_000, 2_000] {
        rig.listen_ended(ticket);
        rig.pass(ms(pause - 1));
        assert_eq!(rig.said(), []);
        rig.pass(ms(1));
        ticket = rig.expect_listen(&[X]);
        rig.listening(ticket, &[X]);
        let read = rig.expect_read(X);
        rig.answer(read, &TicketAnswer::Content(content("same")));
    }
    rig.pass(ms(61_000));
    assert_eq!((rig.said(), rig.told(A)), (Vec::new(), Vec::new()));
    rig.listen_ended(ticket);
    rig.expect_listen(&[X]);
}

// edges G4, bridging 23: a proxy that cuts every stream after a while.
#[test]
fn a_listen_that_was_good_is_opened_again_at_once_however_often_it_is_cut() {
    let mut rig = Rig::connected(SubscribeMethod::Union);
    let mut ticket = rig.follow_by_listen(A, X, &[X]);
    rig.seen(X, "0");
    for cut in 1..100 {
        rig.pass(ms(if cut % 2 == 0 { 1_000 } else { 30_000 }));
        rig.listen_ended(ticket);
        ticket = rig.expect_listen(&[X]);
        rig.pass(ms(50));
        rig.listening(ticket, &[X]);
        let read = rig.expect_read(X);
        rig.pass(ms(50));
        rig.answer(read, &TicketAnswer::Content(content(&(cut / 3).to_string())));
        rig.pass(ms(899));
        assert_eq!(
            rig.told(A).len(),
            usize::from(cut % 3 == 0),
            "told of what changed, and only of that, within a second"
        );
        rig.said();
    }
}

// edges G4
#[test]
fn how_long_a_follower_is_unheard_can_be_seen() {
    let since = |rig: &Rig| rig.table.followed().find(|one| *one.address == at(X)).unwrap().unheard_since;
    let mut rig = Rig::connected(SubscribeMethod::Union);
    let ticket = rig.follow_by_listen(A, X, &[X]);
    assert_eq!(since(&rig), None);
    rig.pass(ms(5_000));
    rig.listen_ended(ticket);
    let cut = rig.now;
    let refused = rig.expect_listen(&[X]);
    assert_eq!(since(&rig), Some(cut));
    rig.listen_ended(refused);
    rig.pass(ms(10_000));
    assert_eq!(since(&rig), Some(cut), "tried again meanwhile, in vain");
    let again = rig.said().into_iter().rev().find_map(|said| match said {
        SubscriptionCommand::Listen { ticket, .. } => Some(ticket),
        _ => None,
    });
    rig.listening(again.unwrap(), &[X]);
    assert_eq!(since(&rig), None);
    rig.lose();
    assert_eq!(since(&rig), Some(rig.now));
}

// edges A6
#[test]
fn what_is_polled_because_of_an_error_is_asked_for_again_and_nothing_is_missed_meanwhile() {
    let mut rig = Rig::with(plain());
    rig.connect(SubscribeMethod::Union, true);
    let request = rig.listen(A, &[X]);
    let ticket = rig.expect_listen(&[X]);
    rig.listen_ended(ticket);
    let read = rig.expect_read(X);
    rig.answer(read, &TicketAnswer::Content(content("one")));
    let honoured = vec![at(X)];
    assert_eq!(
        rig.said(),
        [
            SubscriptionCommand::Acknowledge { request, honoured, left_out: Vec::new() },
            SubscriptionCommand::Poll(at(X))
        ]
    );
    rig.acked(request);
    rig.pass(ms(999));
    assert_eq!(rig.said(), []);
    rig.pass(ms(1));
    let said = rig.said();
    let [SubscriptionCommand::StopPolling(_), SubscriptionCommand::Listen { ticket, .. }] = said[..] else {
        panic!("{said:?}")
    };
    rig.listen_ended(ticket);
    let read = rig.expect_read(X);
    rig.answer(read, &TicketAnswer::Content(content("two")));
    rig.pass(ms(500));
    assert_eq!((rig.said().first(), rig.told(A)), (Some(&SubscriptionCommand::Poll(at(X))), vec![X.to_owned()]));
    rig.pass(ms(1_500));
    let said = rig.said();
    let [SubscriptionCommand::StopPolling(_), SubscriptionCommand::Listen { ticket, .. }] = said[..] else {
        panic!("{said:?}")
    };
    rig.listening(ticket, &[X]);
    let read = rig.expect_read(X);
    rig.answer(read, &TicketAnswer::Content(content("two")));
    rig.pass(ms(60_000));
    assert_eq!((rig.said(), rig.told(A), rig.phase(X)), (Vec::new(), Vec::new(), Some(ResourcePhase::Active)));
}
