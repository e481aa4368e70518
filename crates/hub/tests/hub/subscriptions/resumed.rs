//! Followers of an earlier process: what they were told of last decides whether something is owed.

use super::*;

impl Rig {
    fn resumed(&mut self, follower: FollowerId, uri: &str, before: Option<&str>) {
        self.tell(|table, now| table.resumed(follower, &at(uri), before.map(content), now));
    }
}

/// What a follower is told in all, and that it is told no more.
fn all_told(rig: &mut Rig, follower: FollowerId) -> Vec<String> {
    rig.pass(ms(2_000));
    let told = rig.told(follower);
    rig.pass(ms(120_000));
    assert_eq!(rig.told(follower), [""; 0], "at most one");
    told
}

// edges F19; S1.8
#[test]
fn who_is_back_is_told_once_if_the_content_is_another_or_not_known() {
    let answers = [
        ("the same", TicketAnswer::Content(content("one"))),
        ("another", TicketAnswer::Content(content("two"))),
        ("none", TicketAnswer::Failed(no())),
    ];
    for before in [None, Some("one")] {
        for (now, answer) in &answers {
            // Whether the server agrees before or after its follower's past is known.
            for agrees_first in [true, false] {
                let mut rig = Rig::connected(SubscribeMethod::PerUri);
                let request = rig.subscribe(A, X);
                let ticket = rig.expect_subscribe(X);
                let agree = |rig: &mut Rig| {
                    rig.answer(ticket, &TicketAnswer::Done);
                    rig.said.retain(|said| *said != SubscriptionCommand::Reply(request));
                    rig.acked(request);
                };
                if agrees_first {
                    agree(&mut rig);
                    rig.resumed(A, X, before);
                } else {
                    rig.resumed(A, X, before);
                    agree(&mut rig);
                }
                if before.is_some() {
                    let read = rig.expect_read(X);
                    assert_eq!(rig.told(A), [""; 0], "the content decides");
                    rig.answer(read, answer);
                }
                let expected: &[&str] = if before.is_some() && *now == "the same" { &[] } else { &[X] };
                let case = format!("before {before:?}, now {now}, agrees first {agrees_first}");
                assert_eq!(all_told(&mut rig, A), expected, "{case}");
                // From here on it is a follower like any other.
                rig.changed(X);
                assert_eq!(all_told(&mut rig, A), [X], "{case}");
            }
        }
    }
}

// edges F19
#[test]
fn two_who_knew_different_contents_are_both_told() {
    let mut rig = Rig::connected(SubscribeMethod::PerUri);
    rig.follow(A, X);
    rig.follow(B, X);
    rig.resumed(A, X, Some("one"));
    let read = rig.expect_read(X);
    rig.resumed(B, X, Some("two"));
    rig.answer(read, &TicketAnswer::Content(content("two")));
    assert_eq!(all_told(&mut rig, A), [X]);
    assert_eq!(rig.told(B), [X], "one notice too many is better than none");
}

// edges F19
#[test]
fn two_who_knew_the_same_content_cost_one_read() {
    let mut rig = Rig::connected(SubscribeMethod::PerUri);
    rig.follow(A, X);
    rig.follow(B, X);
    rig.resumed(A, X, Some("one"));
    let read = rig.expect_read(X);
    rig.resumed(B, X, Some("one"));
    assert_eq!(rig.said(), []);
    rig.answer(read, &TicketAnswer::Content(content("one")));
    assert_eq!(all_told(&mut rig, A), [""; 0]);
    assert_eq!(rig.told(B), [""; 0]);
}

// edges F19
#[test]
fn whoever_does_not_follow_is_not_back() {
    let mut rig = Rig::connected(SubscribeMethod::PerUri);
    rig.resumed(A, X, Some("one"));
    rig.follow(B, X);
    rig.resumed(A, X, Some("one"));
    rig.resumed(A, Y, None);
    assert_eq!(rig.said(), []);
    assert_eq!(all_told(&mut rig, B), [""; 0]);
}
