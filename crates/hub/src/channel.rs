//! What a client on a channel (`notifications/claude/channel`) is sent of lists that changed, and when.
//!
//! A model reads it as a message, so it is a way to put words into a conversation: nothing goes into it but our own words, numbers, and
//! names that are made of letters, digits and `_ . / -`. What a server says of its items never does, nor do URIs, which can hold sentences.
//! At most one is sent in [`CHANNEL_PACE`]; what changes meanwhile is gathered, and what came and went meanwhile is not told at all.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use tidings_wire::encode_string;

use crate::ledger::Topic;

/// Between two messages there is at least so much time.
pub const CHANNEL_PACE: Duration = Duration::from_secs(30);
/// So many names are told of each change of a list; the others are counted.
const NAMED: usize = 10;
/// So many names of one list are gathered; then it is only told that it changed.
const GATHERED: usize = 1_000;
/// Longer names are counted and not told.
const LONGEST: usize = 64;
/// What becomes of items, in the order of the counts.
const CHANGES: [&str; 3] = ["added", "removed", "changed"];

/// What became of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ItemNews {
    /// It came.
    Added,
    /// It went.
    Removed,
    /// It is another than before.
    Changed,
}

/// What is gathered of one list.
#[derive(Debug, Default)]
struct GatheredNews {
    named: BTreeMap<String, ItemNews>,
    /// Items whose names are not told, by what became of them.
    unnamed: [usize; 3],
    /// It is not known what changed, or it is too much.
    is_partial: bool,
}

impl GatheredNews {
    fn is_empty(&self) -> bool {
        self.named.is_empty() && self.unnamed == [0; 3] && !self.is_partial
    }

    fn add(&mut self, name: &str, is_named: bool, news: ItemNews) {
        if !is_named || !is_plain(name) {
            self.unnamed[news as usize] = self.unnamed[news as usize].saturating_add(1);
            return;
        }
        let both = match (self.named.remove(name), news) {
            // It came and went between two messages: the client never knew of it.
            (Some(ItemNews::Added), ItemNews::Removed) => return,
            (Some(ItemNews::Added), _) => ItemNews::Added,
            // What comes back need not be what went, and nobody compares them here.
            (Some(ItemNews::Removed), ItemNews::Added) => ItemNews::Changed,
            (_, news) => news,
        };
        // After the removal above: a name that is known always finds its place again.
        if self.named.len() >= GATHERED {
            self.is_partial = true;
            return;
        }
        self.named.insert(name.to_owned(), both);
    }

    fn names(&self, news: usize) -> Vec<&str> {
        self.named.iter().filter(|(_, of)| **of as usize == news).map(|(name, _)| name.as_str()).collect()
    }

    /// One list in words; and the numbers of it.
    fn describe(&self, topic: Topic, numbers: &mut Vec<(String, String)>) -> String {
        if self.is_partial {
            numbers.push((topic.as_str().to_owned(), "changed".to_owned()));
            return format!("{}: changed.", topic.as_str());
        }
        let mut parts = Vec::new();
        for (place, word) in CHANGES.into_iter().enumerate() {
            let names = self.names(place);
            let count = names.len() + self.unnamed[place];
            if count == 0 {
                continue;
            }
            numbers.push((format!("{}_{word}", topic.as_str()), count.to_string()));
            let told = &names[..names.len().min(NAMED)];
            parts.push(match (told.is_empty(), count - told.len()) {
                (true, _) => format!("{count} {word}"),
                (false, 0) => format!("{count} {word} ({})", told.join(", ")),
                (false, more) => format!("{count} {word} ({}, and {more} more)", told.join(", ")),
            });
        }
        format!("{}: {}.", topic.as_str(), parts.join(", "))
    }
}

/// Whether a name can be told: it can hold no sentence and no markup.
fn is_plain(name: &str) -> bool {
    let is_fit = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'/' | b'-');
    !name.is_empty() && name.len() <= LONGEST && name.bytes().all(is_fit)
}

/// One message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChannelMessage {
    /// What the model reads.
    pub content: String,
    /// Attributes of it: keys of letters, digits and `_`, and texts.
    pub meta: Vec<(String, String)>,
}

impl ChannelMessage {
    /// `params` of the notification.
    pub fn params(&self) -> String {
        let meta: Vec<String> =
            self.meta.iter().map(|(key, text)| format!("{}:{}", encode_string(key), encode_string(text))).collect();
        format!(r#"{{"content":{},"meta":{{{}}}}}"#, encode_string(&self.content), meta.join(","))
    }
}

/// What one client is to be sent.
#[derive(Debug, Default)]
pub struct ChannelQueue {
    lists: [GatheredNews; 3],
    /// The newest commit among it.
    commit: u64,
    sent: Option<Instant>,
}

impl ChannelQueue {
    /// An item of a list changed.
    pub fn gather(&mut self, topic: Topic, name: &str, news: ItemNews) {
        // Of a resource the name is a URI.
        self.lists[topic as usize].add(name, topic != Topic::Resources, news);
    }

    /// A list changed, and it is not known how.
    pub fn gather_unknown(&mut self, topic: Topic) {
        self.lists[topic as usize].is_partial = true;
    }

    /// What was gathered is as of this commit.
    pub fn committed(&mut self, commit: u64) {
        self.commit = self.commit.max(commit);
    }

    /// When there is something to send; `None` while there is nothing.
    pub fn due(&self, now: Instant) -> Option<Instant> {
        let any = self.lists.iter().any(|list| !list.is_empty());
        any.then(|| self.sent.map_or(now, |sent| (sent + CHANNEL_PACE).max(now)))
    }

    /// What is to be sent now.
    pub fn take(&mut self, now: Instant) -> Option<ChannelMessage> {
        self.due(now).filter(|due| *due <= now)?;
        let lists = std::mem::take(&mut self.lists);
        self.sent = Some(now);
        let mut meta = vec![("change".to_owned(), self.commit.to_string())];
        let told = Topic::ALL.into_iter().zip(&lists).filter(|(_, list)| !list.is_empty());
        let lines: Vec<String> = told.map(|(topic, list)| list.describe(topic, &mut meta)).collect();
        let content = format!(
            "The lists of the Tidings gateway changed. {} What you know of them may be old; the lists say what is there now.",
            lines.join(" ")
        );
        Some(ChannelMessage { content, meta })
    }
}
