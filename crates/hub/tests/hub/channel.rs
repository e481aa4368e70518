//! What a client on a channel is sent, and when.

use std::time::{Duration, Instant};

use proptest::prelude::*;
use tidings_hub::channel::{CHANNEL_PACE, ChannelQueue, ItemNews};
use tidings_hub::ledger::Topic;

// reach 8.3
#[test]
fn a_message_says_what_changed_in_names_and_numbers() {
    let mut queue = ChannelQueue::default();
    let now = Instant::now();
    assert_eq!((queue.due(now), queue.take(now)), (None, None));
    for (name, news) in [("one__b", ItemNews::Added), ("one__a", ItemNews::Added), ("one__c", ItemNews::Removed)] {
        queue.gather(Topic::Tools, name, news);
    }
    queue.gather_unknown(Topic::Prompts);
    queue.gather(Topic::Resources, "file:///etc/passwd", ItemNews::Changed);
    queue.committed(1_234);
    assert_eq!(
        queue.take(now).unwrap().params(),
        concat!(
            r#"{"content":"The lists of the Tidings gateway changed. tools: 2 added (one__a, one__b), 1 removed (one__c). "#,
            r#"prompts: changed. resources: 1 changed. What you know of them may be old; the lists say what is there now.","#,
            r#""meta":{"change":"1234","tools_added":"2","tools_removed":"1","prompts":"changed","resources_changed":"1"}}"#,
        )
    );
    assert_eq!(queue.take(now), None);
}

// reach 8.3
#[test]
fn there_is_one_message_in_thirty_seconds_for_everything_since() {
    let mut queue = ChannelQueue::default();
    let begun = Instant::now();
    let at = |seconds| begun + Duration::from_secs(seconds);
    queue.gather(Topic::Tools, "a", ItemNews::Added);
    assert!(queue.take(at(0)).is_some(), "the first comes at once");
    queue.gather(Topic::Tools, "b", ItemNews::Added);
    queue.gather(Topic::Tools, "a", ItemNews::Removed);
    queue.gather(Topic::Tools, "a", ItemNews::Added);
    assert_eq!((queue.take(at(29)), queue.due(at(29))), (None, Some(at(0) + CHANNEL_PACE)));
    queue.gather(Topic::Tools, "brief", ItemNews::Added);
    queue.gather(Topic::Tools, "brief", ItemNews::Removed);
    let meta = queue.take(at(30)).unwrap().meta;
    let meta: Vec<(&str, &str)> = meta.iter().map(|(key, text)| (key.as_str(), text.as_str())).collect();
    assert_eq!(meta, [("change", "0"), ("tools_added", "1"), ("tools_changed", "1")]);
    queue.gather(Topic::Tools, "brief", ItemNews::Added);
    queue.gather(Topic::Tools, "brief", ItemNews::Removed);
    assert_eq!(queue.due(at(99)), None, "nothing is different");
}

// reach 8.3
#[test]
fn many_names_are_counted() {
    let mut queue = ChannelQueue::default();
    let now = Instant::now();
    (0..25).for_each(|n| queue.gather(Topic::Tools, &format!("t{n:02}"), ItemNews::Changed));
    let content = queue.take(now).unwrap().content;
    assert!(
        content.contains("25 changed (t00, t01, t02, t03, t04, t05, t06, t07, t08, t09, and 15 more)"),
        "{content}"
    );
    (0..5_000).for_each(|n| queue.gather(Topic::Tools, &format!("t{n:04}"), ItemNews::Added));
    let message = queue.take(now + CHANNEL_PACE).unwrap();
    assert!(message.content.contains("tools: changed."), "{}", message.content);
}

proptest! {
    // reach 8.3
    #[test]
    fn no_name_brings_words_of_its_own(names in proptest::collection::vec(".{0,80}|[a-z ]{1,30}|[\\PC<>\"&\n]{1,30}", 1..30), topic in 0..3usize) {
        let mut queue = ChannelQueue::default();
        let now = Instant::now();
        for name in &names {
            queue.gather(Topic::ALL[topic], name, ItemNews::Added);
        }
        let Some(message) = queue.take(now) else { return Ok(()) };
        let listed = message.content.split(['(', ')']).nth(1).unwrap_or_default();
        let ours = message.content.replace(&format!(" ({listed})"), "");
        let count = ours.chars().filter(char::is_ascii_digit).collect::<String>();
        let kind = Topic::ALL[topic].as_str();
        prop_assert_eq!(
            ours,
            format!("The lists of the Tidings gateway changed. {kind}: {count} added. What you know of them may be old; the lists say what is there now.")
        );
        let fits = |c: char| c.is_ascii_alphanumeric() || "_./-, ".contains(c);
        prop_assert!(listed.chars().all(fits), "{}", listed);
        for word in listed.split(", ").filter(|word| !word.is_empty() && !word.starts_with("and ")) {
            prop_assert!(names.iter().any(|name| name == word), "{}", word);
        }
        for (key, text) in &message.meta {
            prop_assert!(key.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_'));
            prop_assert!(text.bytes().all(|byte| byte.is_ascii_digit()));
        }
    }
}
