//! Modern clients: each request stands for itself; closing its stream cancels it.

use std::pin::pin;

use axum::body::Body;
use bytes::Bytes;
use futures_util::stream;
use http::Response;
use http::header::HeaderName;
use tidings_engine::{Exchange, Reply};
use tidings_proto::meta::{MetaFault, ModernMeta};
use tidings_proto::refusal::RequestRefusal;
use tidings_proto::{Era, code};
use tidings_wire::{Frame, assert_outgoing, one_line, sse};

use super::body::{self, KEEP_ALIVE, QUIET};
use super::cancel_safe::CancelSafeExchange;
use super::endpoint::{HttpEndpoint, ReceivedRequest};
use crate::admission::{AdmittedRequest, MirrorHeaders, ModernRequest, RELAYED, admit_modern};

impl HttpEndpoint {
    pub(super) async fn modern(
        &self,
        received: &ReceivedRequest<'_>,
        frame: Frame,
        meta: Result<ModernMeta, MetaFault>,
    ) -> Response<Body> {
        let Some(id) = frame.id() else { return body::empty(400) };
        // The mirrors are for those on the way; between two processes of one user on one machine there is nobody.
        let is_relayed =
            // Only the user's own relay: a stranger must not be able to switch the checks off by a header.
            self.options.loopback && received.principal.is_admin() && received.headers.contains_key(RELAYED);
        let mirrors = (!is_relayed).then_some(MirrorHeaders { all: received.headers, version: received.version });
        let request = ModernRequest { principal: received.principal, connection: None, mirrors };
        match admit_modern(&self.gateway, &request, &frame, meta) {
            Ok(AdmittedRequest { caller, method, tool }) => {
                let mut exchange = self.gateway.request_found(caller, frame, method, id, tool);
                exchange.came_over_http(|name| received.header(HeaderName::from_static(name)));
                self.respond(exchange).await
            }
            Err(refusal) => {
                // The statuses that the modern transport gives these errors.
                let status = if matches!(refusal, RequestRefusal::UnknownMethod(_)) { 404 } else { 400 };
                body::json(status, refusal.respond(&id, Era::Modern).into())
            }
        }
    }

    /// Headers wait for the first thing to say, so that an error can still have its status.
    async fn respond(&self, exchange: Exchange) -> Response<Body> {
        let mut exchange = CancelSafeExchange::new(exchange);
        let mut silence = pin!(self.gateway.long_while(self.options.silence));
        let said = loop {
            tokio::select! {
                reply = exchange.next() => match reply {
                    Reply::Answer(answer) => {
                        // The modern transport gives some errors a status of their own, which is possible only before the
                        // headers are sent.
                        return body::json(answer.error.map_or(200, code::modern_status), answer.payload);
                    }
                    Reply::Forbidden { answer, scopes } => return self.forbid(answer, &scopes),
                    Reply::Cancelled => return body::events(stream::empty()),
                    // A legacy server opens its stream before it knows what it will say, and perhaps that is an error.
                    Reply::Opened | Reply::Interrupted(_) => {}
                    Reply::Message(_) => break Some(reply),
                },
                // Proxies cut connections that say nothing: the stream is opened before there is anything to say.
                () = &mut silence => break None,
            }
        };
        // In a box: the state is moved into every turn, which would have room for it several times. Thousands of streams wait.
        body::events(stream::unfold(Some((said, Box::new(exchange))), |ahead| async move {
            let (said, mut exchange) = ahead?;
            let (chunk, over) = match said {
                Some(reply) => event(reply),
                None => tokio::select! {
                    reply = exchange.next() => event(reply),
                    () = tokio::time::sleep(QUIET) => (Some(Bytes::from_static(KEEP_ALIVE)), false),
                },
            };
            // An empty chunk is not sent, and the next turn goes on.
            Some((chunk.unwrap_or_default(), (!over).then_some((None, exchange))))
        }))
    }
}

/// A reply as an event, and whether it is the last.
fn event(reply: Reply) -> (Option<Bytes>, bool) {
    match reply {
        Reply::Message(message) => (Some(one_event(&message)), false),
        Reply::Answer(answer) | Reply::Forbidden { answer, .. } => (Some(one_event(&answer.payload.to_bytes())), true),
        Reply::Cancelled => (None, true),
        Reply::Opened | Reply::Interrupted(_) => (None, false),
    }
}

fn one_event(message: &Bytes) -> Bytes {
    assert_outgoing(message);
    // A line break inside the data would end the event.
    sse::encode(None, None, &one_line(message))
}
