//! Answers over HTTP.

use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::Body;
use bytes::Bytes;
use futures_util::Stream;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue};
use http::{Response, StatusCode};
use http_body::Frame;
use http_body_util::Full;
use tidings_wire::{RawId, error_response};

/// A comment that keeps intermediaries from closing a quiet stream.
pub(super) const KEEP_ALIVE: &[u8] = b": \n\n";
/// How long a stream may be quiet.
pub(super) const QUIET: std::time::Duration = std::time::Duration::from_secs(15);

const BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

/// A whole JSON message.
pub(super) fn json(status: u16, bytes: Bytes) -> Response<Body> {
    let mut response = Response::new(Body::new(Full::new(bytes)));
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::OK);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// An error that is no answer to a request that could be read, or that precedes its reading.
pub(super) fn error(status: u16, id: Option<&RawId>, code: i64, message: &str) -> Response<Body> {
    json(status, error_response(id, code, message, None))
}

/// No body.
pub(super) fn empty(status: u16) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::OK);
    response
}

/// An event stream.
pub(super) fn events(chunks: impl Stream<Item = Bytes> + Send + 'static) -> Response<Body> {
    let mut response = Response::new(Body::new(Chunks(Box::pin(chunks))));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert(BUFFERING, HeaderValue::from_static("no"));
    response
}

struct Chunks(Pin<Box<dyn Stream<Item = Bytes> + Send>>);

impl http_body::Body for Chunks {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        self.0.as_mut().poll_next(cx).map(|chunk| chunk.map(|bytes| Ok(Frame::data(bytes))))
    }
}
