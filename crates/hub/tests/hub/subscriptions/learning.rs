//! What followed resources say is learnt in the background, so that a reset that changed nothing is silent.

use super::*;

fn learning(upstream: SubscribeMethod) -> Rig {
    let mut rig = Rig::with(SubscriptionSettings::default());
    rig.connect(upstream, false);
    rig
}

/// A follower of X, and the read that learns what X says.
fn followed(rig: &mut Rig) -> ServerTicket {
    let request = rig.subscribe(A, X);
    rig.agree(X);
    let said = rig.said();
    let [SubscriptionCommand::Reply(answered), SubscriptionCommand::Read { ticket, ref address, is_baseline: true }] =
        said[..]
    else {
        panic!("first the answer, then the read: {said:?}")
    };
    assert_eq!((answered, address), (request, &at(X)));
    rig.acked(request);
    ticket
}

/// The link is lost and made again, the server agrees, and X says this.
fn reset(rig: &mut Rig, text: &str) -> Vec<String> {
    rig.said();
    rig.lose();
    rig.pass(ms(3_000));
    rig.connect(SubscribeMethod::PerUri, false);
    rig.agree(X);
    let read = rig.expect_read(X);
    rig.answer(read, &TicketAnswer::Content(content(text)));
    rig.pass(ms(2_000));
    rig.told(A)
}

// edges A2, S1.8
#[test]
fn a_reset_without_a_change_is_silent_also_where_nobody_ever_read() {
    let mut rig = learning(SubscribeMethod::PerUri);
    let read = followed(&mut rig);
    rig.answer(read, &TicketAnswer::Content(content("one")));
    assert_eq!(reset(&mut rig, "one"), [""; 0]);
    assert_eq!(reset(&mut rig, "two"), [X]);
    assert_eq!(reset(&mut rig, "two"), [""; 0], "the read after the gap is known too");
}

// edges A2
#[test]
fn what_changed_is_learnt_anew_once_it_was_announced_unless_a_client_reads_it() {
    let mut rig = learning(SubscribeMethod::PerUri);
    let read = followed(&mut rig);
    rig.changed(X);
    rig.answer(read, &TicketAnswer::Content(content("before the change, or after it")));
    rig.pass(ms(500));
    assert_eq!((rig.only(), rig.told(A)), (SubscriptionCommand::Wake(A), vec![X.to_owned()]));
    rig.pass(ms(4_999));
    assert_eq!(rig.said(), []);
    rig.pass(ms(1));
    let read = rig.expect_read(X);
    rig.answer(read, &TicketAnswer::Content(content("two")));
    assert_eq!(reset(&mut rig, "two"), [""; 0]);
    rig.changed(X);
    rig.pass(ms(500));
    assert_eq!(rig.told(A), [X]);
    rig.said();
    rig.seen(X, "three");
    rig.pass(ms(60_000));
    assert_eq!(rig.said(), [], "a client has read it");
    assert_eq!(reset(&mut rig, "three"), [""; 0]);
}

#[test]
fn what_a_client_reads_meanwhile_counts_more_than_what_is_learnt() {
    let mut rig = learning(SubscribeMethod::PerUri);
    let read = followed(&mut rig);
    rig.seen(X, "two");
    rig.answer(read, &TicketAnswer::Content(content("one, a moment earlier")));
    assert_eq!(reset(&mut rig, "two"), [""; 0]);
}

#[test]
fn a_server_that_does_not_let_read_is_not_asked_again_and_its_followers_are_told() {
    let mut rig = learning(SubscribeMethod::PerUri);
    let read = followed(&mut rig);
    rig.answer(read, &TicketAnswer::Failed(no()));
    rig.changed(X);
    rig.pass(ms(60_000));
    assert_eq!((rig.only(), rig.told(A)), (SubscriptionCommand::Wake(A), vec![X.to_owned()]));
    rig.lose();
    rig.connect(SubscribeMethod::PerUri, false);
    rig.agree(X);
    rig.pass(ms(500));
    assert_eq!(rig.told(A), [X], "nobody knows what it was before");
}

#[test]
fn few_contents_are_learnt_at_a_time_and_after_all_else() {
    let mut rig = learning(SubscribeMethod::Union);
    let uris: Vec<String> = (0..100).map(|n| format!("file:///{n:03}")).collect();
    let uris: Vec<&str> = uris.iter().map(String::as_str).collect();
    let request = rig.listen(A, &uris);
    let ticket = rig.expect_listen(&uris);
    rig.tell(|table, now| table.listening(ticket, texts(&uris), now));
    rig.acked(request);
    let mut learnt = 0;
    loop {
        let reads: Vec<ServerTicket> = rig
            .said()
            .into_iter()
            .filter_map(|said| if let SubscriptionCommand::Read { ticket, .. } = said { Some(ticket) } else { None })
            .collect();
        if reads.is_empty() {
            break;
        }
        assert!(reads.len() <= 4);
        learnt += reads.len();
        for read in reads {
            rig.answer(read, &TicketAnswer::Content(content("text")));
        }
    }
    assert_eq!(learnt, 100);
    rig.gone(A);
    rig.pass(ms(60_000));
    assert!(rig.table.is_empty());
}

// edges A2: the stream is back before the requests get through, or a session is refused once.
#[test]
fn a_content_that_could_not_be_fetched_after_a_gap_is_fetched_again_and_decides_then() {
    for (now, news) in [("one", &[][..]), ("two", &[X][..])] {
        let mut rig = Rig::connected(SubscribeMethod::PerUri);
        rig.follow(A, X);
        rig.seen(X, "one");
        rig.tell(|table, now| table.missed(SERVER, now));
        for _ in 0..3 {
            let read = rig.expect_read(X);
            rig.answer(read, &TicketAnswer::Failed(FollowRefusal::Unreachable));
            rig.pass(ms(1_000));
        }
        assert_eq!(rig.told(A), [""; 0], "it is not known yet");
        let read = rig.expect_read(X);
        rig.answer(read, &TicketAnswer::Content(content(now)));
        rig.pass(ms(2_000));
        assert_eq!(rig.told(A), news);
    }
    let mut rig = Rig::connected(SubscribeMethod::PerUri);
    rig.follow(A, X);
    rig.seen(X, "one");
    rig.tell(|table, now| table.missed(SERVER, now));
    for _ in 0..6 {
        let read = rig.expect_read(X);
        rig.answer(read, &TicketAnswer::Failed(FollowRefusal::Unreachable));
        rig.pass(ms(if rig.said.is_empty() { 5_000 } else { 0 }));
    }
    assert_eq!(rig.told(A), [X], "but not for ever");
}

// edges A2: "subscribed again at once"
#[test]
fn a_subscription_that_did_not_get_through_is_tried_again_soon_and_is_no_news() {
    let mut rig = Rig::connected(SubscribeMethod::PerUri);
    rig.follow(A, X);
    rig.seen(X, "one");
    rig.lose();
    rig.connect(SubscribeMethod::PerUri, false);
    for pause in [250, 500, 1_000] {
        let ticket = rig.expect_subscribe(X);
        rig.answer(ticket, &TicketAnswer::Failed(FollowRefusal::Unreachable));
        rig.pass(ms(pause));
    }
    rig.agree(X);
    let read = rig.expect_read(X);
    rig.answer(read, &TicketAnswer::Content(content("one")));
    rig.pass(ms(2_000));
    assert_eq!((rig.told(A), rig.phase(X)), (Vec::new(), Some(ResourcePhase::Active)));
}
