//! How many notices come of how many changes, and for which URI.

use tidings_hub::subscriptions::{NoticePace, SubResources};

use super::*;

// S1.4
#[test]
fn a_burst_is_one_notice_one_quiet_window_after_its_last_change() {
    let mut rig = Rig::connected(SubscribeMethod::PerUri);
    rig.follow(A, X);
    for _ in 0..100 {
        rig.pass(ms(10));
        rig.changed(X);
    }
    rig.pass(ms(499));
    assert_eq!(rig.said(), []);
    rig.pass(ms(1));
    assert_eq!(rig.only(), SubscriptionCommand::Wake(A));
    assert_eq!(rig.told(A), [X]);
    rig.pass(ms(10_000));
    assert_eq!(rig.said(), []);
}

// S1.4; bridging 19
#[test]
fn a_source_that_never_goes_quiet_is_announced_once_per_maximum_wait() {
    let mut rig = Rig::connected(SubscribeMethod::PerUri);
    rig.follow(A, X);
    let mut notices = Vec::new();
    for step in 0..500 {
        rig.changed(X);
        rig.pass(ms(10));
        if !rig.told(A).is_empty() {
            notices.push(step * 10);
        }
    }
    assert_eq!(notices, [1_990, 3_990], "every two seconds, from the first change that was not announced");
    rig.pass(ms(500));
    assert_eq!(rig.told(A), [X], "the last change is announced too");
}

// page follows: a change pulses along the map
#[test]
fn how_often_a_resource_was_announced_can_be_seen() {
    let seen = |rig: &Rig| {
        let one = rig.table.followed().find(|one| *one.address == at(X)).unwrap();
        (one.announced, one.announced_at)
    };
    let mut rig = Rig::connected(SubscribeMethod::PerUri);
    rig.follow(A, X);
    assert_eq!(seen(&rig), (0, None));
    for _ in 0..3 {
        rig.changed(X);
    }
    assert_eq!(seen(&rig), (0, None), "nobody was told yet");
    rig.pass(ms(500));
    let first = rig.now;
    assert_eq!(seen(&rig), (1, Some(first)), "a burst is one");
    rig.pass(ms(5_000));
    rig.changed(X);
    rig.pass(ms(500));
    assert_eq!(seen(&rig), (2, Some(rig.now)));
    assert!(rig.now > first);
}

// S1.4
#[test]
fn a_source_has_its_own_pace() {
    let mut rig = Rig::connected(SubscribeMethod::PerUri);
    let pace = Some(NoticePace { quiet: ms(250), max_wait: ms(400) });
    let request = rig.request();
    let target = FollowTarget { address: at(X), pace };
    rig.tell(|table, now| table.subscribe(A, request, &target, now));
    rig.agree(X);
    rig.acked(request);
    rig.said();
    rig.changed(X);
    rig.pass(ms(249));
    assert_eq!(rig.said(), []);
    rig.pass(ms(1));
    assert_eq!((rig.only(), rig.told(A).len()), (SubscriptionCommand::Wake(A), 1));
    rig.changed(X);
    rig.pass(ms(200));
    rig.changed(X);
    rig.pass(ms(199));
    assert_eq!(rig.said(), []);
    rig.pass(ms(1));
    assert_eq!(rig.only(), SubscriptionCommand::Wake(A));
}

// Bridging 27
#[test]
fn a_slow_reader_is_owed_each_uri_once() {
    let mut rig = Rig::connected(SubscribeMethod::PerUri);
    let uris: Vec<String> = (0..10).map(|n| format!("file:///{n}")).collect();
    for uri in &uris {
        rig.follow(A, uri);
    }
    let first = rig.now;
    for round in 0..10_000 {
        rig.changed(&uris[round % 10]);
        rig.pass(ms(60));
    }
    rig.pass(ms(500));
    assert_eq!(rig.said(), [SubscriptionCommand::Wake(A)], "it is woken once, and has not come");
    let mut told = Vec::new();
    loop {
        let notices = rig.table.take_dirty(A, 3);
        assert!(notices.len() <= 3);
        if notices.is_empty() {
            break;
        }
        assert!(notices.iter().all(|notice| notice.since < first + ms(600)), "the oldest change each stands for");
        told.extend(notices.into_iter().map(|notice| notice.uri.to_string()));
    }
    told.sort();
    assert_eq!(told, uris);
}

// Bridging 27
#[test]
fn what_changes_all_the_time_does_not_hold_up_the_rest() {
    let mut rig = Rig::connected(SubscribeMethod::PerUri);
    let uris: Vec<String> = (0..4).map(|n| format!("file:///{n}")).collect();
    for uri in &uris {
        rig.follow(A, uri);
        rig.changed(uri);
    }
    let mut told = Vec::new();
    for _ in 0..4 {
        rig.changed(&uris[0]);
        rig.pass(ms(500));
        told.extend(rig.table.take_dirty(A, 1).into_iter().map(|notice| notice.uri.to_string()));
    }
    told.sort();
    assert_eq!(told, uris);
}

fn sub_resources(switch: SubResources) -> Rig {
    let mut rig = Rig::with(SubscriptionSettings { sub_resources: switch, ..plain() });
    rig.connect(SubscribeMethod::PerUri, false);
    rig
}

// Bridging B2
#[test]
fn a_child_is_told_as_what_was_subscribed() {
    let mut rig = sub_resources(SubResources::Coarsen);
    rig.follow(A, "file:///d");
    rig.follow(B, "file:///dx");
    rig.changed("file:///d/e/f");
    rig.changed("file:///d/g");
    rig.pass(ms(500));
    assert_eq!(
        (rig.told(A), rig.told(B)),
        (vec!["file:///d".to_owned()], vec![]),
        "a prefix of the path, not of the text"
    );
}

// Bridging B2
#[test]
fn a_child_is_told_by_its_own_uri_where_that_is_wished() {
    let mut rig = sub_resources(SubResources::Verbatim);
    rig.follow(A, "file:///d/");
    rig.changed("file:///d/e");
    rig.changed("file:///d/");
    rig.changed("file:///d/e");
    rig.pass(ms(500));
    assert_eq!(rig.told(A), ["file:///d/", "file:///d/e"]);
    for n in 0..1_000 {
        rig.changed(&format!("file:///d/{n}"));
    }
    rig.pass(ms(500));
    let told = rig.told(A);
    assert!(told.contains(&"file:///d/".to_owned()), "the subscribed one stands for what is too much to keep");
    assert!(told.len() <= 65, "{}", told.len());
}

// Bridging B2
#[test]
fn an_exact_match_is_not_told_to_those_above_until_they_have_children() {
    let mut rig = sub_resources(SubResources::Coarsen);
    rig.follow(A, "file:///d");
    rig.follow(B, "file:///d/e");
    rig.changed("file:///d/e");
    rig.pass(ms(500));
    assert_eq!((rig.told(A).len(), rig.told(B).len()), (0, 1));
    rig.changed("file:///d/other");
    rig.pass(ms(500));
    assert_eq!((rig.told(A).len(), rig.told(B).len()), (1, 0));
    rig.changed("file:///d/e");
    rig.pass(ms(500));
    assert_eq!((rig.told(A).len(), rig.told(B).len()), (1, 1), "this server tells of children, so it may mean both");
}
