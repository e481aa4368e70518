//! JSON-RPC frames as bytes.
//!
//! A [`Frame`] is a validated message that keeps its original bytes and remembers where its envelope members are. What
//! nobody has to change is never parsed further and never re-serialised: a [`Patch`] replaces single spans and leaves
//! every other byte as it was.
//!
//! This crate knows JSON, JSON-RPC envelopes and the event-stream framing. It knows no MCP method and does no I/O.

mod canonical;
mod compose;
mod frame;
mod id;
mod message_budget;
mod outgoing;
mod patch;
mod payload;
mod scan;
pub mod sse;
mod text;
mod unreadable;
mod walk;

pub use canonical::{Digest, append_hex, digest, hex};
pub use compose::{error_response, notification, request, response};
pub use frame::{Frame, FrameError, FrameFault, FrameKind, FrameLimits, IncomingMessage};
pub use id::RawId;
pub use message_budget::{BudgetExhausted, BudgetLease, BudgetShare, FREE as FREE_BYTES, MESSAGES, MessageBudget};
pub use outgoing::{OutgoingFault, assert_outgoing, assert_outgoing_payload, check_outgoing};
pub use patch::{ObjectEdit, Patch};
pub use payload::Payload;
pub use scan::{ByteSpan, ScanError, validate};
pub use text::{append_string, decode_string, encode_string, one_line};
pub use unreadable::unreadable_answer_id;
pub use walk::{
    ArrayElements, MemberKey, ObjectMember, ObjectMembers, elements, get, get_path, is_object, members, string_at,
};
