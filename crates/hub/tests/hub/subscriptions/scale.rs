//! Many of everything: what is counted is work, not time.

use super::*;

// Issue 4: 10,000 subscribers of one URI.
#[test]
fn ten_thousand_followers_of_one_uri_cost_one_subscription_and_one_wake_each() {
    const MANY: u64 = 10_000;
    let mut rig = Rig::connected(SubscribeMethod::PerUri);
    let requests: Vec<RequestId> = (0..MANY).map(|n| rig.listen(FollowerId(n), &[X])).collect();
    rig.agree(X);
    assert_eq!(rig.said().len(), requests.len());
    for request in requests {
        rig.acked(request);
    }
    for _ in 0..100 {
        rig.changed(X);
    }
    rig.pass(ms(500));
    assert_eq!(rig.said().len() as u64, MANY);
    for n in 0..MANY {
        assert_eq!(rig.told(FollowerId(n)), [X]);
    }
    for n in 0..MANY {
        rig.gone(FollowerId(n));
    }
    rig.pass(ms(2_000));
    let ticket = rig.expect_unsubscribe(X);
    rig.answer(ticket, &TicketAnswer::Done);
    assert!(rig.table.is_empty());
}

// Issue 4: 10,000 URIs over 100 clients, 100,000 updates. Bridging 27
#[test]
fn what_is_owed_is_bounded_by_subscriptions_not_by_updates() {
    const URIS: usize = 10_000;
    let mut rig = Rig::connected(SubscribeMethod::Union);
    let uris: Vec<String> = (0..URIS).map(|n| format!("db://h/t/{n}")).collect();
    // One by one, as sessions do: the server is slow, so that most share a listen.
    let mut requests = Vec::new();
    for (n, uri) in uris.iter().enumerate() {
        requests.push(rig.subscribe(FollowerId(n as u64 % 100), uri));
    }
    let mut listens = 0;
    let mut replies = 0;
    while replies < URIS {
        let said = rig.said();
        replies += said.iter().filter(|command| matches!(command, SubscriptionCommand::Reply(_))).count();
        for command in said {
            if let SubscriptionCommand::Listen { ticket, uris, .. } = command {
                listens += 1;
                rig.tell(|table, now| table.listening(ticket, uris, now));
            }
        }
    }
    assert_eq!(listens, 2, "the first, and one for all who came meanwhile");
    for request in requests {
        rig.acked(request);
    }
    for n in 0..100_000 {
        rig.changed(&uris[n * 7 % URIS]);
    }
    rig.said();
    rig.pass(ms(2_000));
    assert_eq!(rig.said().len(), 100, "each is woken once");
    let told: usize = (0..100).map(|n| rig.told(FollowerId(n)).len()).sum();
    assert_eq!(told, URIS);
}
