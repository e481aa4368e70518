//! The server's side of the protocol: lists, reads, and `subscriptions/listen`.

use std::sync::{Arc, Mutex, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::{Stream, StreamExt as _, stream};
use jiff::Timestamp;
use serde_json::{Map, Value, json};
use tidings_proto::{ListKind, Method, Topic, code, meta, notifications};
use tidings_upstream::{CallEvent, CallStream, Link, LinkError, MessageSink, OutgoingRequest};
use tidings_wire::{Frame, FrameLimits, RawId, error_response, notification, response};
use tokio_util::sync::CancellationToken;

use super::observations::OwedUpdate;
use super::source::{SourceContent, SourceEntry, UnreadableReason};
use super::{ListenAttention, WatchShared, mime};

const LIMITS: FrameLimits = FrameLimits { max_bytes: tidings_upstream::MAX_MESSAGE, max_depth: 256, max_batch: 1 };

/// A link to the watched sources.
pub(super) struct WatchLink {
    shared: Arc<WatchShared>,
    stop: CancellationToken,
    /// Held until the link is closed: whoever waits for its end takes the sink's for it.
    sink: Mutex<Option<Arc<dyn MessageSink>>>,
}

impl WatchLink {
    pub(super) fn new(shared: Arc<WatchShared>, sink: Arc<dyn MessageSink>) -> Self {
        Self { shared, stop: CancellationToken::new(), sink: Mutex::new(Some(sink)) }
    }
}

type Refused = (i64, String);

impl Link for WatchLink {
    fn call(&self, request: OutgoingRequest) -> CallStream {
        let params = match params(&request) {
            Ok(params) => params,
            Err(error) => return CallStream::failed(error),
        };
        let shared = Arc::clone(&self.shared);
        let id = RawId::from(request.id);
        match request.method {
            Method::Listen => CallStream::new(listen(shared, id, params, self.stop.clone())),
            method => CallStream::new(stream::once(async move {
                let answer = shared.answer(method, &params).await;
                let bytes = match answer {
                    Ok(mut result) => {
                        result["resultType"] = "complete".into();
                        response(&id, result.to_string().as_bytes())
                    }
                    Err((code, message)) => error_response(Some(&id), code, &message, None),
                };
                framed(bytes, CallEvent::Response)
            })),
        }
    }

    fn cancel(&self, _id: u64, _reason: Option<&str>) {
        // The stream is dropped, and all work is done by polling it.
    }

    fn send(&self, _message: Bytes) {}

    fn close(&self) -> BoxFuture<'static, ()> {
        self.stop.cancel();
        // The sink leads back to whoever holds this link: kept, it would keep both.
        drop(self.sink.lock().unwrap_or_else(PoisonError::into_inner).take());
        Box::pin(std::future::ready(()))
    }
}

fn params(request: &OutgoingRequest) -> Result<Value, LinkError> {
    let broken = |error: &dyn std::fmt::Display| LinkError::Protocol(error.to_string());
    let frame = Frame::parse(request.bytes.clone(), &LIMITS).map_err(|e| broken(&e))?;
    let params = frame.params().map(|at| frame.raw(at)).unwrap_or(b"{}");
    serde_json::from_slice(params).map_err(|e| broken(&e))
}

fn framed(bytes: Bytes, event: fn(Frame) -> CallEvent) -> CallEvent {
    match Frame::parse(bytes, &LIMITS) {
        Ok(frame) => event(frame),
        Err(error) => CallEvent::Failed(LinkError::Protocol(error.to_string())),
    }
}

impl WatchShared {
    async fn answer(&self, method: Method, params: &Value) -> Result<Value, Refused> {
        match method {
            Method::List(kind) => {
                let items = match kind {
                    ListKind::Resources => self.list().await.iter().map(|entry| described(entry, "uri")).collect(),
                    ListKind::Templates => {
                        self.templates().await.iter().map(|entry| described(entry, "uriTemplate")).collect()
                    }
                    ListKind::Tools | ListKind::Prompts => Vec::new(),
                };
                Ok(json!({ kind.member(): Value::Array(items), "ttlMs": 0, "cacheScope": "public" }))
            }
            Method::ResourcesRead => {
                let uri = params["uri"].as_str().unwrap_or_default();
                let content = self.read(uri).await.map_err(|error| refusal(&error))?;
                Ok(json!({ "contents": [contents(uri, &content)], "ttlMs": 0, "cacheScope": "public" }))
            }
            other => Err((code::METHOD_NOT_FOUND, format!("method not found: {}", other.as_str()))),
        }
    }
}

fn refusal(error: &UnreadableReason) -> Refused {
    let code = match error {
        UnreadableReason::NotFound | UnreadableReason::Outside | UnreadableReason::NothingYet => code::INVALID_PARAMS,
        _ => code::INTERNAL_ERROR,
    };
    (code, error.to_string())
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
        let attention = shared.follow(uris.clone(), list).await;
        let mut honoured = json!({});
        if list {
            honoured["resourcesListChanged"] = true.into();
        }
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
            return Some((vec![framed(bytes, CallEvent::Response)], listening));
        }
    };
    Some((announced(&listening.id, &dirty), listening))
}

fn announced(id: &RawId, dirty: &OwedUpdate) -> Vec<CallEvent> {
    let list = dirty.list.then(|| tagged(id, Topic::Resources.notification(), json!({})));
    let updated = |uri: &Arc<str>| tagged(id, notifications::UPDATED, json!({ "uri": &**uri }));
    list.into_iter().chain(dirty.uris.iter().map(updated)).collect()
}

fn tagged(listen: &RawId, method: &str, mut params: Value) -> CallEvent {
    params["_meta"] = json!({ meta::SUBSCRIPTION_ID: id(listen) });
    framed(notification(method, Some(params.to_string().as_bytes())), |frame| CallEvent::Message(frame.into()))
}

fn id(raw: &RawId) -> Value {
    serde_json::from_str(raw.as_str()).unwrap_or_default()
}
