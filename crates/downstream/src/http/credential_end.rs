//! Streams that last until somebody ends them end with the token that opened them.
//!
//! Only these: a call that was let in is answered, also when its token ends meanwhile.

use std::sync::Arc;

use axum::body::Body;
use futures_util::StreamExt as _;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, Method as Verb, Response};
use http_body::Body as _;
use tidings_identity::Credential;

use crate::admission::METHOD;

/// The method whose answer is a stream of what changes.
const LISTEN: &str = "subscriptions/listen";

/// The same answer; a stream that nobody else ends, until the token does.
pub(super) fn limit(
    response: Response<Body>,
    credential: &Arc<Credential>,
    verb: &Verb,
    asked: &HeaderMap,
) -> Response<Body> {
    // Asked first, because it says so of nearly every answer, and no header has to be looked for.
    let is_whole = response.body().size_hint().exact().is_some();
    if is_whole || !(is_lasting(verb, asked) && is_stream(&response)) {
        return response;
    }
    let credential = Arc::clone(credential);
    let (parts, body) = response.into_parts();
    // The end of the body, and not of the connection: the client sees a stream that is over, asks again and is told why.
    let over = Box::pin(async move { credential.over().await });
    Response::from_parts(parts, Body::from_stream(body.into_data_stream().take_until(over)))
}

fn is_lasting(verb: &Verb, asked: &HeaderMap) -> bool {
    *verb == Verb::GET || asked.get(&METHOD).is_some_and(|method| method == LISTEN)
}

fn is_stream(response: &Response<Body>) -> bool {
    response.headers().get(CONTENT_TYPE).is_some_and(|kind| kind == "text/event-stream")
}
