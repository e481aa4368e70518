//! Requests of sessions that live in another process of a cluster: passed on as they came, and answered there.
//!
//! The id of a session names its home. Both ends let the client in by the token that it shows, so nobody has to vouch for it.

use std::sync::{Arc, Weak};

use axum::Router;
use axum::body::Body;
use bytes::{BufMut as _, Bytes, BytesMut};
use futures_util::future::BoxFuture;
use futures_util::stream;
use http::header::{CONTENT_LENGTH, HeaderMap, HeaderName, HeaderValue, TRANSFER_ENCODING};
use http::{Method as Verb, Response, StatusCode};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use serde_json::{Value, json};
use tidings_engine::{ForwardedAnswer, ForwardedHttp, HttpEnd, HttpPiece};
use tidings_proto::code;
use tidings_wire::{FrameKind, IncomingMessage};
use tokio::sync::mpsc;

use super::endpoint::{HttpEndpoint, ReceivedRequest, busy, not_allowed};
use super::{ShownCredentials, body};
use crate::admission::LIMITS;

/// How long a session id with a home is, and how much of it that is.
const WITH_HOME: usize = 48;
const HOME: usize = 16;

/// Weak: the gateway must not keep the endpoint from being dropped.
struct HomeEndpoint(Weak<HttpEndpoint>);

/// From now on requests of other processes are answered.
pub(super) fn serve(endpoint: &Arc<HttpEndpoint>, others: &Router) {
    if endpoint.sessions.home.is_some() {
        let _ = endpoint.others.set(others.clone());
        endpoint.gateway.serve_forwarded(Arc::new(HomeEndpoint(Arc::downgrade(endpoint))));
    }
}

impl HttpEndpoint {
    /// The process in which the session of a request lives, if it is another one.
    pub(super) fn home_elsewhere(&self, received: &ReceivedRequest<'_>) -> Option<u64> {
        let here = self.sessions.home?;
        let id = received.session_id().filter(|id| id.len() == WITH_HOME && !received.claims_modern())?;
        let home = u64::from_str_radix(id.get(WITH_HOME - HOME..)?, 16).ok()?;
        (home != here).then_some(home)
    }

    /// Passes a request on to the home of its session.
    pub(super) async fn forward(
        &self,
        home: u64,
        (verb, path): (&Verb, &str),
        received: &ReceivedRequest<'_>,
        incoming: Incoming,
    ) -> Response<Body> {
        let mut incoming = incoming;
        let message = match *verb {
            Verb::POST => match self.read_message(received, &mut incoming).await {
                Ok(message) => message,
                Err(fault) => return self.refuse_body(fault, incoming),
            },
            _ => Bytes::new(),
        };
        let headers = written_headers(received.headers);
        let head = json!({ "verb": verb.as_str(), "path": path, "headers": headers }).to_string();
        match self.gateway.forward_http(home, with_head(head.as_bytes(), &message)) {
            Some(answer) => respond(answer, &message).await,
            None => gone(),
        }
    }
}

fn gone() -> Response<Body> {
    body::error(404, None, code::INVALID_REQUEST, "no such session; send initialize")
}

/// The answer to a request that was lost with its replica. One that has an id is answered as such: a client that saw a status alone might
/// send it again.
fn lost(message: &Bytes) -> Response<Body> {
    let text = "the replica of this session was lost with the request; it may have run";
    match IncomingMessage::parse(message.clone(), &LIMITS) {
        Ok(IncomingMessage::Single(frame)) if frame.kind() == FrameKind::Request => {
            body::error(200, frame.id().as_ref(), code::INTERNAL_ERROR, text)
        }
        _ => body::empty(502),
    }
}

async fn respond(mut answer: ForwardedAnswer, message: &Bytes) -> Response<Body> {
    let head = match answer.next().await {
        HttpPiece::Head(head) => head,
        HttpPiece::End(HttpEnd::Gone) => return gone(),
        HttpPiece::End(HttpEnd::Unreached) => {
            return busy("the replica of this session can not be reached; try again later");
        }
        _ => return lost(message),
    };
    respond_with(&head, answer)
}

/// The answer that begins with this head.
pub(super) fn respond_with(head: &[u8], answer: ForwardedAnswer) -> Response<Body> {
    let said: Value = serde_json::from_slice(head).unwrap_or_default();
    let pieces = stream::unfold(Some(answer), |answer| async move {
        let mut answer = answer?;
        match answer.next().await {
            HttpPiece::Body(piece) => Some((Ok(piece), Some(answer))),
            HttpPiece::Head(_) | HttpPiece::End(HttpEnd::Whole) => None,
            // The client sees a stream that broke, and resumes or begins anew.
            HttpPiece::End(_) => Some((Err(std::io::Error::other("the replica of this session was lost")), None)),
        }
    });
    let mut response = Response::new(Body::from_stream(pieces));
    let status = said["status"].as_u64().and_then(|status| u16::try_from(status).ok());
    *response.status_mut() =
        status.and_then(|status| StatusCode::from_u16(status).ok()).unwrap_or(StatusCode::BAD_GATEWAY);
    *response.headers_mut() = read_headers(&said["headers"]);
    response
}

/// Headers as they are written for another replica.
pub(super) fn written_headers(headers: &HeaderMap) -> Vec<(&str, &str)> {
    let kept = headers.iter().filter(|(name, _)| *name != CONTENT_LENGTH && *name != TRANSFER_ENCODING);
    kept.filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?))).collect()
}

pub(super) fn read_headers(written: &Value) -> HeaderMap {
    let pairs = written.as_array().into_iter().flatten().filter_map(|pair| {
        let name = HeaderName::try_from(pair[0].as_str()?).ok()?;
        Some((name, HeaderValue::try_from(pair[1].as_str()?).ok()?))
    });
    pairs.collect()
}

pub(super) fn with_head(head: &[u8], message: &[u8]) -> Bytes {
    let mut bytes = BytesMut::with_capacity(4 + head.len() + message.len());
    bytes.put_u32(u32::try_from(head.len()).unwrap_or(u32::MAX));
    bytes.put_slice(head);
    bytes.put_slice(message);
    bytes.freeze()
}

fn split_head(bytes: &Bytes) -> Option<(Value, Bytes)> {
    let (length, rest) = bytes.split_first_chunk::<4>()?;
    let length = usize::try_from(u32::from_be_bytes(*length)).ok()?;
    let head = serde_json::from_slice(rest.get(..length)?).ok()?;
    Some((head, bytes.slice(4 + length..)))
}

impl ForwardedHttp for HomeEndpoint {
    fn answer(&self, request: Bytes, say: mpsc::Sender<HttpPiece>) -> BoxFuture<'static, ()> {
        let endpoint = self.0.upgrade();
        Box::pin(async move {
            let (Some(endpoint), Some((head, message))) = (endpoint, split_head(&request)) else { return };
            let response = match head["routed"] == true {
                true => endpoint.answer_passed_on(&head, message).await,
                false => endpoint.answer_forwarded(&head, message).await,
            };
            let (parts, mut body) = response.into_parts();
            let headers: Vec<(&str, &str)> = parts
                .headers
                .iter()
                .filter(|(name, _)| *name != CONTENT_LENGTH)
                .filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?)))
                .collect();
            let head = json!({ "status": parts.status.as_u16(), "headers": headers }).to_string();
            if say.send(HttpPiece::Head(head.into())).await.is_err() {
                return;
            }
            while let Some(Ok(frame)) = body.frame().await {
                if let Ok(piece) = frame.into_data()
                    && say.send(HttpPiece::Body(piece)).await.is_err()
                {
                    return;
                }
            }
            let _ = say.send(HttpPiece::End(HttpEnd::Whole)).await;
        })
    }
}

impl HttpEndpoint {
    async fn answer_forwarded(self: &Arc<Self>, head: &Value, message: Bytes) -> Response<Body> {
        let headers = read_headers(&head["headers"]);
        let shown = ShownCredentials::default();
        let entrant = match self.let_in(&headers, &shown).await {
            Ok(entrant) => entrant,
            Err(refused) => return *refused,
        };
        let principal = match self.at_path(head["path"].as_str().unwrap_or_default(), &entrant) {
            Ok(principal) => principal,
            Err(refused) => return *refused,
        };
        let received = ReceivedRequest::new(&headers, &principal);
        match head["verb"].as_str() {
            Some("POST") => self.take_message(&received, message).await,
            Some("GET") => self.get(&received),
            Some("DELETE") => self.delete(&received),
            _ => not_allowed("GET, POST, DELETE"),
        }
    }
}
