//! Reading the body of a POST: so long, in so much time, and out of one budget for all.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::{CONTENT_LENGTH, HeaderMap};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use tidings_engine::Gateway;
use tidings_wire::{BudgetShare, MessageBudget};

use super::LIMITS;

/// What is set aside for a body before it has come: more only as it comes, whatever the client announces.
const FIRST: usize = 1 << 20;

/// How long a body may take to arrive, and what it takes of the memory for messages.
#[derive(Clone, Copy)]
pub(crate) struct BodyLimits<'a> {
    /// How long nothing of it may come.
    pub(crate) pause: Duration,
    /// How long all of it may take.
    pub(crate) whole: Duration,
    /// What large messages take, together with all others.
    pub(crate) budget: &'static MessageBudget,
    /// And what those of its principal may take of that.
    pub(crate) share: Option<&'a Arc<BudgetShare>>,
}

/// Why a body was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyFault {
    /// It is longer than a message may be.
    TooLong,
    /// It did not come in time.
    TooSlow,
    /// Messages take all the memory that is set aside for them.
    NoRoom,
    /// The connection broke before all of it was there.
    Broken,
}

/// The body, unless something is wrong with it. What is left of it then can still be read from `incoming`.
pub(crate) async fn read_body(
    gateway: &Gateway,
    limits: &BodyLimits<'_>,
    headers: &HeaderMap,
    incoming: &mut Incoming,
) -> Result<Bytes, BodyFault> {
    // A length that can not be read counts as none: then the body is counted as it comes.
    let announced = headers.get(CONTENT_LENGTH).and_then(|v| v.to_str().ok()?.parse::<usize>().ok()).unwrap_or(0);
    if announced > LIMITS.max_bytes {
        return Err(BodyFault::TooLong);
    }
    // Nearly always the body has come with its headers, in one piece, which is then used as it is: no clock is read, and
    // nothing that connections share is touched.
    let Some(first) = piece(gateway, limits.pause, incoming).await? else { return Ok(Bytes::new()) };
    // A body without a length is never taken here, because more may follow.
    if !first.is_empty() && first.len() == announced {
        return Ok(first);
    }
    let rest = gather(gateway, limits, announced, first, incoming);
    tokio::time::timeout(limits.whole, rest).await.unwrap_or(Err(BodyFault::TooSlow))
}

async fn gather(
    gateway: &Gateway,
    limits: &BodyLimits<'_>,
    announced: usize,
    first: Bytes,
    incoming: &mut Incoming,
) -> Result<Bytes, BodyFault> {
    let mut lease = limits.budget.lease();
    // Whoever announces 64 MB and sends nothing must not make us set them aside.
    let mut buffer = BytesMut::with_capacity(announced.max(first.len()).min(FIRST));
    buffer.extend_from_slice(&first);
    while let Some(data) = piece(gateway, limits.pause, incoming).await? {
        let length = buffer.len() + data.len();
        if length > LIMITS.max_bytes {
            return Err(BodyFault::TooLong);
        }
        lease.grow_within(length, limits.share).map_err(|_| BodyFault::NoRoom)?;
        buffer.extend_from_slice(&data);
    }
    // The lease ends with the last handle to the bytes, not with this function.
    Ok(lease.attach(buffer.freeze()))
}

/// The next piece of a body; `None` at its end.
async fn piece(gateway: &Gateway, pause: Duration, incoming: &mut Incoming) -> Result<Option<Bytes>, BodyFault> {
    loop {
        let frame = tokio::select! {
            biased;
            frame = incoming.frame() => frame,
            // Without a timer of its own: nearly always the next piece is there.
            () = gateway.long_while(pause) => return Err(BodyFault::TooSlow),
        };
        match frame {
            None => return Ok(None),
            Some(Err(_)) => return Err(BodyFault::Broken),
            Some(Ok(frame)) => {
                // A trailer is no data, and nothing that we read.
                if let Ok(data) = frame.into_data() {
                    return Ok(Some(data));
                }
            }
        }
    }
}
