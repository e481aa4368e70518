//! `[[notify]]`: URLs that are told of changes, each change at least once.
//!
//! A follower of the change log like others: it learns of a change when everybody can read it, and holds nothing but its place. What is
//! sent and when is decided without I/O (`queue.rs`: which message is next, and what an answer means for it; `message.rs`: what it says;
//! `signature.rs`: who says it). The rest carries that out: one task for each URL (`delivery.rs`), and who starts and ends them when the
//! configuration changes (`hooks.rs`).
//!
//! What does not belong here: webhooks that the gateway *receives*, which are a kind of watch.
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test fails by panicking"))]

mod answer;
mod delivery;
mod hooks;
mod message;
mod probe;
mod queue;
mod signature;
mod status;

pub use answer::DeliveryAnswer;
pub use hooks::{HookFault, NextHooks, OutboundHooks};
pub use message::{MessageSender, OutboundMessage};
pub use probe::{ProbeFault, probe};
pub use queue::{DeliveryQueue, GIVE_UP, KeptQueue, LONGEST_PAUSE, MOST_PENDING, PendingMessage, QueueStep};
pub use signature::MessageSigner;
pub use status::{DeliveryState, HookStatus};
