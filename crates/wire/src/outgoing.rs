//! The last look at a message before it leaves.
//!
//! Whoever reads a message of ours must never have to guess what it means. Every transport calls [`assert_outgoing`] with
//! what it is about to write; in release builds that is nothing at all.

use bytes::Bytes;

use crate::frame::{Frame, FrameError, FrameKind, FrameLimits, IncomingMessage};
use crate::payload::Payload;
use crate::scan::ByteSpan;
use crate::walk::{get, is_object};

/// What is wrong with a message of ours.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OutgoingFault {
    /// No message, or one that two readers could understand differently.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// MCP has results that are objects only.
    #[error("the result is not an object")]
    Result,
    /// An error needs a code that is an integer.
    #[error("the error has no code")]
    ErrorCode,
    /// An error needs a text.
    #[error("the error has no message")]
    ErrorMessage,
    /// An answer says whose it is, unless it is about a message whose id could not be read.
    #[error("an error that answers nobody")]
    NoId,
}

/// Codes of errors about messages that could not be read: they alone may lack an id.
const UNREADABLE: [&[u8]; 2] = [b"-32700", b"-32600"];

/// Checks that a message or batch is what its reader may rely on: JSON-RPC, no member twice where the protocol looks, one id
/// of the right kind, params and result that are objects, errors with code and text.
pub fn check_outgoing(bytes: &Bytes) -> Result<(), OutgoingFault> {
    // Deeper than anything that is let in, since envelopes may be put around it.
    let limits = FrameLimits { max_bytes: usize::MAX, max_depth: 1_024, max_batch: usize::MAX };
    match IncomingMessage::parse(bytes.clone(), &limits)? {
        IncomingMessage::Single(frame) => check(&frame),
        IncomingMessage::Batch(parts) => parts.into_iter().try_for_each(|part| check(&part?)),
    }
}

fn check(frame: &Frame) -> Result<(), OutgoingFault> {
    let Some(outcome) = frame.outcome() else { return Ok(()) };
    match frame.kind() {
        FrameKind::Error => check_error(frame, outcome),
        _ if is_object(frame.bytes(), outcome) => Ok(()),
        _ => Err(OutgoingFault::Result),
    }
}

fn check_error(frame: &Frame, error: ByteSpan) -> Result<(), OutgoingFault> {
    let bytes = frame.bytes();
    let code = get(bytes, error, "code").map(|at| at.of(bytes)).unwrap_or_default();
    if std::str::from_utf8(code).ok().and_then(|code| code.parse::<i64>().ok()).is_none() {
        return Err(OutgoingFault::ErrorCode);
    }
    if !get(bytes, error, "message").is_some_and(|at| at.of(bytes).starts_with(b"\"")) {
        return Err(OutgoingFault::ErrorMessage);
    }
    match frame.id() {
        None if !UNREADABLE.contains(&code) => Err(OutgoingFault::NoId),
        _ => Ok(()),
    }
}

/// Panics in debug builds when a message is not fit to leave: such a message is a fault of the program, not of a peer.
#[inline]
#[track_caller]
pub fn assert_outgoing(bytes: &Bytes) {
    // A check of every message would cost as much as parsing it a second time; tests run with it.
    if cfg!(debug_assertions)
        && let Err(fault) = check_outgoing(bytes)
    {
        let excerpt = String::from_utf8_lossy(&bytes[..bytes.len().min(500)]);
        panic!("an invalid message leaves the gateway: {fault}: {excerpt}");
    }
}

/// The same for a message in pieces.
#[inline]
#[track_caller]
pub fn assert_outgoing_payload(payload: &Payload) {
    if cfg!(debug_assertions) {
        assert_outgoing(&payload.to_bytes());
    }
}
