//! The server's side of the protocol: lists, reads, and `subscriptions/listen`.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::{Stream, StreamExt as _, stream};
use jiff::Timestamp;
use serde_json::{Map, Value, json};
use tidings_proto::{ListKind, Method, Topic, meta, notifications};
use tidings_upstream::in_process::{self, LinkLife, RequestError};
use tidings_upstream::{CallEvent, CallStream, Link, MessageSink, OutgoingRequest};
use tidings_wire::{RawId, response};
use tokio_util::sync::CancellationToken;

use super::observations::OwedUpdate;
use super::source::{SourceContent, SourceEntry, UnreadableReason};
use super::{ListenAttention, WatchShared, mime};

/// The member of `_meta` in which another replica is told what is wrong with a source.
pub(super) const TROUBLE: &str = "tidings/trouble";

/// The member of `_meta` in which another replica is told the hash of what was seen, where that is known.
pub(super) const SEEN: &str = "tidings/seen";

/// A link to the watched sources.
pub(super) struct WatchLink {
    shared: Arc<WatchShared>,
    life: LinkLife,
}

impl WatchLink {
    pub(super) fn new(shared: Arc<WatchShared>, sink: Arc<dyn MessageSink>) -> Self {
        Self { shared, life: LinkLife::new(sink) }
    }
}

impl Link for WatchLink {
    fn call(&self, request: OutgoingRequest) -> CallStream {
        let params = match in_process::read_request(&request).and_then(|frame| in_process::read_params(&frame)) {
            Ok(params) => params,
            Err(error) => return CallStream::failed(error),
        };
        let shared = Arc::clone(&self.shared);
        let id = request.id;
        match request.method {
            Method::Listen => CallStream::new(listen(shared, RawId::from(id), params, self.life.stop())),
            method => CallStream::new(stream::once(async move {
                match shared.answer(method, &params).await {
                    Ok(mut result) => {
                        result["resultType"] = "complete".into();
                        in_process::answer(id, Ok(result.to_string().as_bytes()))
                    }
                    Err(error) => in_process::answer(id, Err(&error)),
                }
            })),
        }
    }

    fn cancel(&self, _id: u64, _reason: Option<&str>) {
        // The stream is dropped, and all work is done by polling it.
    }

    // It asks its client nothing, so no answer comes, and no notification of a client concerns it.
    fn send(&self, _message: Bytes) {}

    fn close(&self) -> BoxFuture<'static, ()> {
        self.life.end();
        Box::pin(std::future::ready(()))
    }
}

impl WatchShared {
    async fn answer(&self, method: Method, params: &Value) -> Result<Value, RequestError> {
        match method {
            Method::List(kind) => {
                let items = match kind {
                    ListKind::Resources => self.list().await.iter().map(|entry| described(entry, "uri")).collect(),
                    ListKind::Templates => {
                        self.templates().await.iter().map(|entry| described(entry, "uriTemplate")).collect()
                    }
                    ListKind::Tools | ListKind::Prompts => Vec::new(),
                };
                // The modern revision requires both; 0, because what is listed can change at any moment.
                let mut result = json!({ kind.member(): Value::Array(items), "ttlMs": 0, "cacheScope": "public" });
                if let Some(trouble) = self.trouble() {
                    result["_meta"] = json!({ TROUBLE: trouble });
                }
                Ok(result)
            }
            Method::ResourcesRead => {
                let uri = params["uri"].as_str().unwrap_or_default();
                let content = self.read(uri).await.map_err(|error| refusal(&error))?;
                Ok(json!({ "contents": [contents(uri, &content)], "ttlMs": 0, "cacheScope": "public" }))
            }
            other => Err(RequestError::unknown_method(other)),
        }
    }
}

fn refusal(error: &UnreadableReason) -> RequestError {
    match error {
        // To a client it is not there, whatever the reason.
        UnreadableReason::NotFound | UnreadableReason::Outside | UnreadableReason::NothingYet => {
            RequestError::invalid_params(error.to_string())
        }
        _ => RequestError::internal(error.to_string()),
    }
}

fn described(entry: &SourceEntry, uri: &str) -> Value {
    let mut item = Map::new();
    item.insert(uri.to_owned(), entry.uri.as_str().into());
    item.insert("name".to_owned(), entry.name.as_str().into());
    if let Some(description) = &entry.description {
        item.insert("description".to_owned(), description.as_str().into());
    }
    if let Some(mime_type) = &entry.mime_type {
        item.insert("mimeType".to_owned(), mime_type.as_str().into());
    }
    if let Some(size) = entry.size {
        item.insert("size".to_owned(), size.into());
    }
    if let Some(at) = entry.last_modified.and_then(|at| Timestamp::try_from(at).ok()) {
        item.insert("annotations".to_owned(), json!({ "lastModified": format!("{at:.3}") }));
    }
    item.into()
}

fn contents(uri: &str, content: &SourceContent) -> Value {
    let mime_type = content.mime_type.as_deref();
    let mut item = json!({ "uri": uri });
    if let Some(mime_type) = mime_type {
        item["mimeType"] = mime_type.into();
    }
    match std::str::from_utf8(&content.bytes) {
        // Bytes of an image may happen to be valid UTF-8.
        Ok(text) if !mime_type.is_some_and(mime::is_binary) => item["text"] = text.into(),
        _ => item["blob"] = STANDARD.encode(&content.bytes).into(),
    }
    item
}

/// The state of an acknowledged listen. Dropping it ends what is watched for its sake alone.
struct AcknowledgedListen {
    id: RawId,
    attention: ListenAttention,
    stop: CancellationToken,
    ended: bool,
}

/// First the acknowledgement of exactly what is honoured, when nothing can be missed any more; then what changes.
fn listen(
    shared: Arc<WatchShared>,
    id: RawId,
    params: Value,
    stop: CancellationToken,
) -> impl Stream<Item = CallEvent> + Send + 'static {
    let begin = async move {
        let filter = &params["notifications"];
        let asked = filter["resourceSubscriptions"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let uris: Vec<String> = asked.filter(|uri| shared.owns(uri)).map(str::to_owned).collect();
        let list = filter["resourcesListChanged"] == true;
        // Before the acknowledgement: it returns when no change can be missed any more.
        let attention = shared.follow(uris.clone(), list).await;
        let mut honoured = json!({});
        if list {
            honoured["resourcesListChanged"] = true.into();
        }
        // An empty list was asked for and is acknowledged as empty; one that was not asked for is left out.
        if !filter["resourceSubscriptions"].is_null() {
            honoured["resourceSubscriptions"] = uris.into();
        }
        let acknowledgement = tagged(&id, notifications::ACKNOWLEDGED, json!({ "notifications": honoured }));
        let listening = AcknowledgedListen { id, attention, stop, ended: false };
        stream::iter([acknowledgement]).chain(stream::unfold(listening, next).flat_map(stream::iter))
    };
    stream::once(begin).flatten()
}

async fn next(mut listening: AcknowledgedListen) -> Option<(Vec<CallEvent>, AcknowledgedListen)> {
    if listening.ended {
        return None;
    }
    let dirty = tokio::select! {
        dirty = listening.attention.next() => dirty,
        () = listening.stop.cancelled() => {
            listening.ended = true;
            let result = json!({ "_meta": { meta::SUBSCRIPTION_ID: id(&listening.id) }, "resultType": "complete" });
            let bytes = response(&listening.id, result.to_string().as_bytes());
            let end = in_process::frame(bytes).map_or_else(CallEvent::Failed, CallEvent::Response);
            return Some((vec![end], listening));
        }
    };
    Some((announced(&listening, &dirty), listening))
}

fn announced(listening: &AcknowledgedListen, dirty: &OwedUpdate) -> Vec<CallEvent> {
    let id = &listening.id;
    let list = dirty.list.then(|| tagged(id, Topic::Resources.notification(), json!({})));
    let updated = |uri: &Arc<str>| {
        let mut params = json!({ "uri": &**uri });
        if let Some(seen) = listening.attention.shared.seen_for_replicas(uri) {
            params["_meta"] = json!({ SEEN: blake3::Hash::from_bytes(seen).to_hex().as_str() });
        }
        tagged(id, notifications::UPDATED, params)
    };
    list.into_iter().chain(dirty.uris.iter().map(updated)).collect()
}

fn tagged(listen: &RawId, method: &str, mut params: Value) -> CallEvent {
    params["_meta"][meta::SUBSCRIPTION_ID] = id(listen);
    in_process::notice(method, Some(&params)).map_or_else(CallEvent::Failed, CallEvent::Message)
}

fn id(raw: &RawId) -> Value {
    serde_json::from_str(raw.as_str()).unwrap_or_default()
}
