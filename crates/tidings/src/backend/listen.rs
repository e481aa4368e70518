//! Following resources as a modern client does: one `subscriptions/listen`.

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use serde_json::{Value, json};
use tidings_downstream::LIMITS;
use tidings_engine::{Caller, Exchange, Principal, Reply};
use tidings_proto::meta::{self, ModernMeta};
use tidings_proto::{Method, Revision, headers};
use tidings_wire::{Frame, RawId, request};

use super::{ApiEvents, Backend, SILENCE, own_info};
use crate::failure::CommandFailure;

/// What `subscriptions/listen` sends, from a gateway of our own or over HTTP.
pub(crate) enum NotificationStream {
    Own(Box<Exchange>),
    Running(Box<ApiEvents>),
}

impl Backend {
    /// Listens to changes of a resource.
    pub(crate) async fn listen(&self, uri: &str) -> Result<NotificationStream, CommandFailure> {
        let own_meta = meta::own(Revision::MODERN, &own_info(), &json!({}));
        let params = json!({ "_meta": own_meta, "notifications": { "resourceSubscriptions": [uri] } });
        let id = RawId::from(1);
        let body = request(&id, Method::Listen.as_str(), Some(params.to_string().as_bytes()));
        match self {
            Self::Own(own) => {
                let gateway = &own.gateway;
                let frame = Frame::parse(body, &LIMITS).map_err(CommandFailure::failed)?;
                let meta = ModernMeta::read(&frame).map_err(CommandFailure::failed)?;
                let caller =
                    gateway.modern_caller(None, Revision::MODERN, &Principal::local(), None, meta.capabilities, None);
                Ok(NotificationStream::Own(Box::new(gateway.request(
                    Caller::Modern(caller),
                    frame,
                    Method::Listen,
                    id,
                ))))
            }
            Self::Running(running) => {
                let post = Request::post(format!("{}/mcp", running.url))
                    .header("content-type", "application/json")
                    .header("accept", "application/json, text/event-stream")
                    .header(headers::PROTOCOL_VERSION, Revision::MODERN.as_str())
                    .header(headers::METHOD, Method::Listen.as_str())
                    .header("authorization", format!("Bearer {}", running.token))
                    .body(Full::new(body))
                    .map_err(CommandFailure::failed)?;
                let client = running.client()?;
                let answer = tokio::time::timeout(SILENCE, client.send(post)).await;
                let answer = answer.map_err(|_| CommandFailure::Failed("the gateway does not answer".into()))?;
                let answer = answer.map_err(|error| CommandFailure::Failed(format!("the gateway {error}")))?;
                Ok(NotificationStream::Running(Box::new(ApiEvents::of(answer.into_body()))))
            }
        }
    }
}

impl NotificationStream {
    /// The next message; `None` at the end.
    pub(crate) async fn next(&mut self) -> Result<Option<Value>, CommandFailure> {
        match self {
            Self::Own(exchange) => loop {
                match exchange.next().await {
                    Reply::Message(message) => return parse(&message).map(Some),
                    Reply::Answer(_) | Reply::Forbidden { .. } | Reply::Cancelled => return Ok(None),
                    Reply::Opened | Reply::Interrupted(_) => {}
                }
            },
            Self::Running(events) => {
                let Some(data) = events.next().await? else { return Ok(None) };
                let message = parse(&data)?;
                // A message without a method is the answer to `listen`, which ends the stream.
                Ok(message.get("method").is_some().then_some(message))
            }
        }
    }
}

fn parse(message: &Bytes) -> Result<Value, CommandFailure> {
    serde_json::from_slice(message).map_err(CommandFailure::failed)
}
