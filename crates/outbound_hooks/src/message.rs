//! What a receiver is told of one change.

use std::borrow::Cow;
use std::fmt::Write as _;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tidings_config::{NotifyFormat, NotifySettings};
use tidings_diff::{VisibleSpan, visible};
use tidings_store::{ChangeRecord, ChangeRow};
use tidings_wire::hex;

/// How many names of each kind a text for people has.
const MOST_NAMES: usize = 10;
/// How long such a name may be, in characters.
const LONGEST_NAME: usize = 100;

/// One message, ready to be signed and sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutboundMessage {
    /// The same with every try.
    pub id: String,
    /// The value of `content-type`.
    pub content_type: &'static str,
    /// What is signed.
    pub body: Bytes,
}

/// Who tells: the same for as long as the store of a gateway lives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageSender(String);

impl MessageSender {
    /// A new one. `None` where the system has no random numbers.
    pub fn fresh() -> Option<Self> {
        let mut random = [0; 16];
        getrandom::fill(&mut random).ok()?;
        // Version 4 and the variant of RFC 9562: it is written as a UUID.
        random[6] = random[6] & 0x0f | 0x40;
        random[8] = random[8] & 0x3f | 0x80;
        Some(Self(hex(&random)))
    }

    /// One that was kept.
    pub fn kept(text: String) -> Self {
        Self(text)
    }

    /// To be kept.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The source of its events, as CloudEvents wants it: a URI.
    fn source(&self) -> String {
        let text = &self.0;
        match [text.get(..8), text.get(8..12), text.get(12..16), text.get(16..20), text.get(20..)] {
            [Some(a), Some(b), Some(c), Some(d), Some(e)] => format!("urn:uuid:{a}-{b}-{c}-{d}-{e}"),
            _ => format!("urn:uuid:{text}"),
        }
    }

    /// The id of a change. No full stop: the signature joins its parts by them.
    fn id(&self, seq: u64) -> String {
        format!("msg_{}_{seq}", self.0)
    }
}

/// An event of CloudEvents 1.0 in structured mode.
#[derive(Serialize)]
struct CloudEvent<'a> {
    specversion: &'static str,
    id: &'a str,
    source: String,
    r#type: &'static str,
    time: jiff::Timestamp,
    subject: &'a str,
    datacontenttype: &'static str,
    data: &'a RawValue,
}

/// What decides whether a receiver is told.
#[derive(Deserialize)]
struct RecordSubject<'a> {
    #[serde(borrow)]
    server: Cow<'a, str>,
    #[serde(borrow)]
    kind: Cow<'a, str>,
}

/// Whether a receiver is to be told of a row of the log.
pub(crate) fn is_wanted(row: &ChangeRow, settings: &NotifySettings) -> bool {
    serde_json::from_slice::<RecordSubject<'_>>(&row.json).is_ok_and(|row| settings.wants(&row.server, &row.kind))
}

impl OutboundMessage {
    /// What a receiver is told of a row of the log: `None` if it is not to be told of it, or the row can not be read.
    pub fn of(row: &ChangeRow, settings: &NotifySettings, sender: &MessageSender) -> Option<Self> {
        let record: ChangeRecord = serde_json::from_slice(&row.json).ok()?;
        if !settings.wants(&record.server, &record.kind) {
            return None;
        }
        let id = sender.id(row.seq);
        let (content_type, body) = match settings.format {
            NotifyFormat::CloudEvents => {
                let event = CloudEvent {
                    specversion: "1.0",
                    id: &id,
                    source: sender.source(),
                    r#type: "dev.tidings.change.v1",
                    time: record.time,
                    subject: &record.server,
                    datacontenttype: "application/json",
                    // The record as the feed has it, byte for byte.
                    data: serde_json::from_slice(&row.json).ok()?,
                };
                ("application/cloudevents+json", serde_json::to_vec(&event).ok()?)
            }
            NotifyFormat::Slack => {
                // Without `parse` whatever looks like an address becomes a link; unfurled, a link is a picture of the linked page.
                let body = serde_json::json!({
                    "text": text(&record), "parse": "none", "unfurl_links": false, "unfurl_media": false,
                });
                ("application/json", serde_json::to_vec(&body).ok()?)
            }
        };
        Some(Self { id, content_type, body: body.into() })
    }
}

/// A change in a few lines for people: names and numbers, never what a server says about itself.
fn text(record: &ChangeRecord) -> String {
    let changed: Vec<String> = record
        .changed
        .iter()
        .map(|item| {
            format!(
                "{}: {}",
                name(&item.name),
                item.fields.iter().map(|field| name(field)).collect::<Vec<_>>().join(", ")
            )
        })
        .collect();
    let names = |list: &[String]| list.iter().map(|item| name(item)).collect::<Vec<_>>();
    let mut out = format!("*{}* {}", name(&record.server), plain(&record.kind));
    if let Some(severity) = record.severity.as_deref().filter(|severity| matches!(*severity, "suspect" | "breaking")) {
        // Only what asks for somebody: a severity on every line would be read by nobody.
        let _ = write!(out, " ({severity})");
    }
    if record.held {
        out.push_str(" (waits for approval)");
    }
    if record.while_down {
        out.push_str(" (while no gateway ran)");
    }
    let mut left_out = record.omitted;
    for (sign, items) in [("+", names(&record.added)), ("−", names(&record.removed)), ("~", changed)] {
        items.iter().take(MOST_NAMES).for_each(|item| {
            let _ = write!(out, "\n{sign} {item}");
        });
        left_out += items.len().saturating_sub(MOST_NAMES) as u64;
    }
    if left_out > 0 {
        let _ = write!(out, "\n… and {left_out} more");
    }
    out
}

/// The kind of a change is a word of ours.
fn plain(kind: &str) -> String {
    kind.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '_').collect::<String>().replace('_', " ")
}

/// A name of a server as Slack may show it: it can not hide anything, mention anybody or make a link. As code, in which no receiver of
/// this format looks for addresses, people or marks.
fn name(text: &str) -> String {
    let mut out = String::from("`");
    // Cut before it is made visible: what stands for one character is longer than one.
    let short: String = text.chars().take(LONGEST_NAME).collect();
    for span in visible(&short) {
        match span {
            // Ends of lines would let a name look like a line of ours.
            VisibleSpan::Plain(plain) => plain.chars().for_each(|c| match c {
                '&' => out.push_str("&amp;"),
                '<' => out.push_str("&lt;"),
                '>' => out.push_str("&gt;"),
                '\n' | '\t' => out.push(' '),
                // It would end the code.
                '`' => out.push('\''),
                other => out.push(other),
            }),
            VisibleSpan::Marked(c) => {
                let _ = write!(out, "[U+{:04X}]", u32::from(c));
            }
        }
    }
    if short.len() < text.len() {
        out.push('…');
    }
    // A name of spaces only would be a pair of marks with nothing in it.
    if out.trim_start_matches('`').trim().is_empty() {
        out.push_str("(no name)");
    }
    out.push('`');
    out
}
