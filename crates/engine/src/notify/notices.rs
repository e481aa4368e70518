//! Notices in words: what a `subscriptions/listen` asks for, its acknowledgement, and each announcement as a message. Who is owed one is decided in
//! `announce.rs`.

use std::collections::HashSet;
use std::sync::Arc;

use bytes::Bytes;
use tidings_hub::ledger::{Topic, Topics};
use tidings_proto::{meta, notifications};
use tidings_wire::{ByteSpan, Frame, ObjectEdit, Patch, RawId, elements, encode_string, notification, string_at};

/// One announcement that a session is owed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwedNotice {
    /// The whole message.
    pub message: Bytes,
    /// The resource that changed, as the client spells it; `None` for a list.
    pub resource: Option<String>,
}

/// One announcement on its way.
pub(crate) enum Notice {
    /// A list changed.
    List(ListNotice),
    /// A resource changed: its URI, as the client knows it.
    Resource(String),
    /// A task is further: all that is known of it, as a raw object.
    Task(Bytes),
}

/// A notice of a list.
pub(crate) struct ListNotice {
    pub(super) topic: Topic,
    /// How it changed, for those who asked.
    pub(super) summary: Option<Arc<str>>,
    /// The newest commit, where the notice stands for a change: what a fresh follower is told stands for none.
    pub(super) change: Option<u64>,
}

/// The topics a filter asks for.
pub(crate) fn wanted(frame: &Frame) -> Topics {
    let mut topics = Topics::default();
    for topic in Topic::ALL {
        if frame.param(&["notifications", topic.flag()]).is_some_and(|at| frame.raw(at) == b"true") {
            topics.insert(topic);
        }
    }
    topics
}

/// The resources a filter asks for, each once, as they are spelled there. `None` where they are not a list of strings.
pub(crate) fn wanted_resources(frame: &Frame) -> Option<Vec<String>> {
    let Some(list) = frame.param(&["notifications", "resourceSubscriptions"]) else { return Some(Vec::new()) };
    if frame.raw(list).first() != Some(&b'[') {
        return None;
    }
    let uris = elements(frame.bytes(), list).map(|at| string_at(frame.bytes(), at).map(|uri| uri.into_owned()));
    let mut seen = HashSet::new();
    // One that is no string makes the whole filter invalid: leaving it out in silence would promise less than was
    // asked.
    let uris: Option<Vec<String>> = uris.collect();
    uris.map(|uris| uris.into_iter().filter(|uri| seen.insert(uri.clone())).collect())
}

/// The acknowledgement of a listen: exactly what is honoured.
pub(crate) fn acknowledgement(id: &RawId, topics: Topics, uris: &[String], tasks: &[String]) -> Bytes {
    let mut members: Vec<String> = topics.iter().map(|topic| format!("\"{}\":true", topic.flag())).collect();
    for (name, named) in [("resourceSubscriptions", uris), ("taskIds", tasks)] {
        if !named.is_empty() {
            let named: Vec<String> = named.iter().map(|one| encode_string(one)).collect();
            members.push(format!("\"{name}\":[{}]", named.join(",")));
        }
    }
    let honoured = members.join(",");
    let params = format!(r#"{{"_meta":{{"{}":{id}}},"notifications":{{{honoured}}}}}"#, meta::SUBSCRIPTION_ID);
    notification(notifications::ACKNOWLEDGED, Some(params.as_bytes()))
}

/// One announcement on a listen, tagged with its id.
pub(crate) fn tagged(id: &RawId, notice: &Notice) -> Bytes {
    let tag = meta::SUBSCRIPTION_ID;
    match notice {
        Notice::List(ListNotice { topic, summary, .. }) => {
            let summary = summary.as_ref().map(|summary| format!(r#","{}":{summary}"#, meta::CHANGES));
            let params = format!(r#"{{"_meta":{{"{tag}":{id}{}}}}}"#, summary.unwrap_or_default());
            notification(topic.notification(), Some(params.as_bytes()))
        }
        Notice::Resource(uri) => {
            let params = format!(r#"{{"_meta":{{"{tag}":{id}}},"uri":{}}}"#, encode_string(uri));
            notification(notifications::UPDATED, Some(params.as_bytes()))
        }
        Notice::Task(task) => {
            let mut edit = ObjectEdit::new(task, ByteSpan::new(0, task.len()));
            edit.set("_meta", format!(r#"{{"{tag}":{id}}}"#));
            let mut patch = Patch::new();
            edit.finish(&mut patch);
            notification(notifications::TASKS, Some(&patch.apply(task)))
        }
    }
}

/// One announcement to a session.
pub(super) fn plain(notice: Notice) -> OwedNotice {
    match notice {
        Notice::List(ListNotice { topic, summary, .. }) => {
            let params = summary.map(|summary| format!(r#"{{"_meta":{{"{}":{summary}}}}}"#, meta::CHANGES));
            let message = notification(topic.notification(), params.as_ref().map(String::as_bytes));
            OwedNotice { message, resource: None }
        }
        Notice::Resource(uri) => {
            let message =
                notification(notifications::UPDATED, Some(format!(r#"{{"uri":{}}}"#, encode_string(&uri)).as_bytes()));
            OwedNotice { message, resource: Some(uri) }
        }
        // Only a listen names tasks; said for whoever changes that.
        Notice::Task(task) => OwedNotice { message: notification(notifications::TASKS, Some(&task)), resource: None },
    }
}
