//! What is asked of the replica that looks at a source, and how its answers are read: the protocol of the server of the watches, with one source.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde_json::{Value, json};
use tidings_proto::{ListKind, Method, Topic, code, notifications};
use tidings_upstream::{CallEvent, CallStream, LinkError, OutgoingRequest, SharedLink};
use tidings_wire::{RawId, request};

use crate::link::{SEEN, TROUBLE};
use crate::observations::Hash;
use crate::source::{SourceContent, SourceEntry, UnreadableReason};

/// Each request has its own, whoever it goes to.
static NEXT_ID: AtomicU64 = AtomicU64::new(1);

/// Why there is no answer.
#[derive(Debug)]
pub(super) enum AskFault {
    /// This is the answer: the source does not give it.
    Refused(UnreadableReason),
    /// Nobody is there, or not any more: it may be looked at elsewhere by now.
    Lost(LinkError),
    /// The replica that looks can not be reached.
    Cut(LinkError),
}

/// What a source has.
pub(super) struct ListedSource {
    pub(super) entries: Vec<SourceEntry>,
    /// What is wrong with it.
    pub(super) trouble: Option<String>,
}

pub(super) async fn list(link: SharedLink) -> Result<ListedSource, AskFault> {
    let kind = ListKind::Resources;
    let result = answer(&link, Method::List(kind), &json!({})).await?;
    let entries = result[kind.member()].as_array().into_iter().flatten().filter_map(|item| entry(item, "uri"));
    Ok(ListedSource { entries: entries.collect(), trouble: result["_meta"][TROUBLE].as_str().map(str::to_owned) })
}

pub(super) async fn template(link: SharedLink) -> Result<Option<SourceEntry>, AskFault> {
    let kind = ListKind::Templates;
    let result = answer(&link, Method::List(kind), &json!({})).await?;
    Ok(result[kind.member()].get(0).and_then(|item| entry(item, "uriTemplate")))
}

pub(super) async fn read(link: SharedLink, uri: &str) -> Result<SourceContent, AskFault> {
    let result = answer(&link, Method::ResourcesRead, &json!({ "uri": uri })).await?;
    let content = &result["contents"][0];
    let bytes = match (content["text"].as_str(), content["blob"].as_str()) {
        (Some(text), _) => Some(text.as_bytes().to_vec()),
        (None, blob) => blob.and_then(|blob| STANDARD.decode(blob).ok()),
    };
    let fault =
        || AskFault::Refused(UnreadableReason::Upstream("the replica that looks at it gives no content".into()));
    let mime_type = content["mimeType"].as_str().map(str::to_owned);
    Ok(SourceContent { mime_type, bytes: bytes.ok_or_else(fault)?.into() })
}

/// What is followed at the replica that looks. Dropped, it is not followed any more.
pub(super) struct OpenFollow {
    pub(super) uris: Vec<String>,
    events: CallStream,
}

/// What is heard of what is followed.
pub(super) enum Heard {
    /// A resource says something else: the hash of what was seen, where that is known.
    Updated(String, Option<Hash>),
    /// There are other resources, or they are described differently.
    ListChanged,
    /// Nothing more is heard.
    Ended,
}

impl OpenFollow {
    /// Follows resources, and the list if wanted; returns when nothing can be missed any more.
    pub(super) async fn open(link: SharedLink, uris: Vec<String>, list: bool) -> Option<Self> {
        let wanted = json!({ "notifications": { "resourcesListChanged": list, "resourceSubscriptions": uris } });
        let mut events = call(&link, Method::Listen, &wanted);
        match events.next().await {
            CallEvent::Message(first) if is_named(first.bytes(), notifications::ACKNOWLEDGED) => {
                Some(Self { uris, events })
            }
            _ => None,
        }
    }

    pub(super) async fn next(&mut self) -> Heard {
        loop {
            let CallEvent::Message(message) = self.events.next().await else { return Heard::Ended };
            let Ok(message) = serde_json::from_slice::<Value>(message.bytes()) else { continue };
            match (message["method"].as_str(), message["params"]["uri"].as_str()) {
                (Some(notifications::UPDATED), Some(uri)) => {
                    let seen = message["params"]["_meta"][SEEN].as_str();
                    let seen = seen.and_then(|seen| blake3::Hash::from_hex(seen).ok()).map(Hash::from);
                    return Heard::Updated(uri.to_owned(), seen);
                }
                (Some(method), _) if method == Topic::Resources.notification() => return Heard::ListChanged,
                _ => {}
            }
        }
    }
}

fn is_named(message: &[u8], method: &str) -> bool {
    serde_json::from_slice::<Value>(message).is_ok_and(|message| message["method"] == method)
}

fn call(link: &SharedLink, method: Method, params: &Value) -> CallStream {
    let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
    let bytes = request(&RawId::from(id), method.as_str(), Some(params.to_string().as_bytes()));
    link.call(OutgoingRequest { id, method, bytes, name: None, params: Vec::new(), trace: None })
}

async fn answer(link: &SharedLink, method: Method, params: &Value) -> Result<Value, AskFault> {
    let mut events = call(link, method, params);
    loop {
        let frame = match events.next().await {
            CallEvent::Response(frame) => frame,
            CallEvent::Unsent(error @ LinkError::Unreachable(_)) | CallEvent::Failed(error) => {
                return Err(AskFault::Lost(error));
            }
            CallEvent::Unsent(error) | CallEvent::Refused { error, .. } => return Err(AskFault::Cut(error)),
            _ => continue,
        };
        let mut answer: Value = serde_json::from_slice(frame.bytes()).unwrap_or_default();
        if let Some(error) = answer.get("error") {
            return Err(AskFault::Refused(match error["code"].as_i64() {
                Some(code::INVALID_PARAMS) => UnreadableReason::NotFound,
                _ => UnreadableReason::Upstream(error["message"].as_str().unwrap_or_default().to_owned()),
            }));
        }
        return Ok(answer["result"].take());
    }
}

fn entry(item: &Value, uri: &str) -> Option<SourceEntry> {
    let text = |member: &str| item[member].as_str().map(str::to_owned);
    let at = item["annotations"]["lastModified"].as_str().and_then(|at| at.parse::<Timestamp>().ok());
    Some(SourceEntry {
        uri: text(uri)?,
        name: text("name")?,
        description: text("description"),
        mime_type: text("mimeType"),
        size: item["size"].as_u64(),
        last_modified: at.map(SystemTime::from),
    })
}
