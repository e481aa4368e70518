//! The bodies of answers over HTTP: a message with its length, an event stream, an error with its status.
//!
//! What is in them is decided elsewhere; when an answer counts as delivered is decided here.

use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::Body;
use bytes::Bytes;
use futures_util::Stream;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue};
use http::{Response, StatusCode};
use http_body::{Frame, SizeHint};
use tidings_engine::Receipt;
use tidings_wire::{Payload, RawId, assert_outgoing_payload, error_response};

/// A comment that keeps intermediaries from closing a quiet stream.
pub(super) const KEEP_ALIVE: &[u8] = b": \n\n";
/// How long a stream may be quiet.
pub(super) const QUIET: std::time::Duration = std::time::Duration::from_secs(15);

const BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

/// A whole JSON message.
pub(super) fn json(status: u16, payload: Payload) -> Response<Body> {
    answer(status, payload, Vec::new())
}

/// A whole JSON message, and what waits for it to be written.
pub(super) fn answer(status: u16, payload: Payload, receipts: impl IntoIterator<Item = Receipt>) -> Response<Body> {
    assert_outgoing_payload(&payload);
    let handed = AnswerReceipt::new(receipts);
    let mut response =
        Response::new(Body::new(PayloadPieces { left: payload.len(), payload, next: 0, _handed: handed }));
    // Out of reach: all statuses are our own constants.
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::OK);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// An error that is no answer to a request that could be read, or that precedes its reading.
pub(super) fn error(status: u16, id: Option<&RawId>, code: i64, message: &str) -> Response<Body> {
    json(status, error_response(id, code, message, None).into())
}

/// An answer that is its status alone.
pub(super) fn empty(status: u16) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::OK);
    response
}

/// An answer that comes event by event, for as long as the stream lasts.
pub(super) fn events(chunks: impl Stream<Item = Bytes> + Send + 'static) -> Response<Body> {
    let mut response = Response::new(Body::new(ChunkedBody(Box::pin(chunks))));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    // nginx would otherwise gather events until its buffer is full.
    headers.insert(BUFFERING, HeaderValue::from_static("no"));
    response
}

/// A message of known length, written in as many pieces as it has.
struct PayloadPieces {
    payload: Payload,
    next: usize,
    left: usize,
    _handed: AnswerReceipt,
}

/// Kept with an answer until it is written: then it is acknowledged, a moment later, since what follows comes on another
/// stream.
#[derive(Default)]
pub(super) struct AnswerReceipt(Vec<Receipt>);

impl AnswerReceipt {
    pub(super) fn new(receipts: impl IntoIterator<Item = Receipt>) -> Self {
        Self(receipts.into_iter().collect())
    }
}

impl Drop for AnswerReceipt {
    fn drop(&mut self) {
        // What is told next goes over another stream, which could be faster than this answer.
        self.0.drain(..).for_each(Receipt::after_a_moment);
    }
}

impl http_body::Body for PayloadPieces {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        while let Some(piece) = self.payload.pieces().get(self.next).cloned() {
            self.next += 1;
            if !piece.is_empty() {
                self.left -= piece.len();
                return Poll::Ready(Some(Ok(Frame::data(piece))));
            }
        }
        Poll::Ready(None)
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left as u64)
    }
}

struct ChunkedBody(Pin<Box<dyn Stream<Item = Bytes> + Send>>);

impl http_body::Body for ChunkedBody {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        self.0.as_mut().poll_next(cx).map(|chunk| chunk.map(|bytes| Ok(Frame::data(bytes))))
    }
}
