//! Batches, which only sessions of 2025-03-26 may send.

use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use tidings_engine::{Caller, Gateway, Receipt, Reply, Session};
use tidings_proto::refusal::RequestRefusal;
use tidings_proto::{Era, code, notifications};
use tidings_wire::{Frame, FrameError, FrameKind, RawId, error_response};
use tokio_util::sync::CancellationToken;

use crate::admission::admit_part;

/// Runs every part at once. The answers come as one array, `None` when nothing wanted one; everything else a server
/// sends meanwhile goes through `push`. What still runs when `ending` rings is refused.
pub(crate) async fn run(
    gateway: Gateway,
    session: Arc<Session>,
    parts: Vec<Result<Frame, FrameError>>,
    push: impl Fn(Bytes) + Send + Sync + 'static,
    ending: CancellationToken,
) -> Option<BatchAnswers> {
    let parts = parts.into_iter().map(|part| answer_part(&gateway, &session, part, &push, &ending));
    let answers: Vec<(Bytes, Option<Receipt>)> =
        // All at once: a slow part holds up no other one; the answers keep the order of the requests.
        futures_util::future::join_all(parts).await.into_iter().flatten().collect();
    if answers.is_empty() {
        return None;
    }
    let mut out = BytesMut::new();
    out.put_u8(b'[');
    let mut receipts = Vec::new();
    for (i, (answer, receipt)) in answers.into_iter().enumerate() {
        if i > 0 {
            out.put_u8(b',');
        }
        out.put_slice(&answer);
        receipts.extend(receipt);
    }
    out.put_u8(b']');
    Some(BatchAnswers { message: out.freeze(), receipts })
}

/// What a client of 2025-03-26 gets for a batch: one message for all of it.
pub(crate) struct BatchAnswers {
    /// The answers as one JSON array, in the order of the requests.
    pub(crate) message: Bytes,
    /// What must be kept until the transport has them.
    pub(crate) receipts: Vec<Receipt>,
}

async fn answer_part(
    gateway: &Gateway,
    session: &Arc<Session>,
    part: Result<Frame, FrameError>,
    push: &(impl Fn(Bytes) + Send + Sync),
    ending: &CancellationToken,
) -> Option<(Bytes, Option<Receipt>)> {
    let frame = match part {
        Ok(frame) => frame,
        // One part that can not be read gets its own error; the others are answered as usual.
        Err(error) => return Some((malformed(&error), None)),
    };
    let Some(id) = frame.id().filter(|_| frame.kind() == FrameKind::Request) else {
        // Notifications and answers in a batch want no answer, so they leave no place in the array.
        dispatch(gateway, session, &frame);
        return None;
    };
    let method = match admit_part(&frame) {
        Ok(method) => method,
        Err(refusal) => return Some((refusal.respond(&id, Era::Legacy), None)),
    };
    let mut exchange = gateway.request(Caller::Legacy(Arc::clone(session).into()), frame, method, id.clone());
    loop {
        let reply = tokio::select! {
            biased;
            reply = exchange.next() => reply,
            () = ending.cancelled() => return Some((RequestRefusal::ShuttingDown.respond(&id, Era::Legacy), None)),
        };
        match reply {
            Reply::Answer(answer) | Reply::Forbidden { answer, .. } => {
                return Some((answer.payload.to_bytes(), exchange.take_receipt()));
            }
            // A cancelled request is answered by nothing, and so has no place in the array either.
            Reply::Cancelled => return None,
            Reply::Message(message) => push(message),
            Reply::Opened | Reply::Interrupted(_) => {}
        }
    }
}

/// A notification, or an answer to a server's question.
pub(crate) fn dispatch(gateway: &Gateway, session: &Arc<Session>, frame: &Frame) {
    match frame.kind() {
        FrameKind::Response | FrameKind::Error => gateway.answer(session, frame),
        FrameKind::Notification if frame.method() == notifications::CANCELLED => {
            // A cancellation that names nothing that can be read is dropped: there is no one to tell.
            if let Some((id, reason)) = cancelled(frame) {
                gateway.cancel_for(session, &id, reason.as_deref());
            }
        }
        FrameKind::Notification => gateway.notify(session, frame),
        // Every caller has taken requests out before.
        FrameKind::Request => {}
    }
}

/// Which request a cancellation means.
pub(crate) fn cancelled(frame: &Frame) -> Option<(RawId, Option<String>)> {
    let id = RawId::from_raw(frame.raw(frame.param(&["requestId"])?))?;
    Some((id, frame.param_str(&["reason"]).map(|reason| reason.into_owned())))
}

/// The answer to bytes that are no message.
pub(crate) fn malformed(error: &FrameError) -> Bytes {
    let code = if error.fault.is_parse_error() { code::PARSE_ERROR } else { code::INVALID_REQUEST };
    error_response(error.id.as_ref(), code, &error.to_string(), None)
}
