//! The protocol rules as tables: what goes in, what comes out.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod headers;
mod items;
mod leaving;
mod names;
mod outbound;
mod outcome;
mod questions;
mod revisions;
mod tasks;

use tidings_wire::{Frame, FrameLimits};

/// A message.
fn frame(text: &str) -> Frame {
    Frame::parse(text.to_owned(), &FrameLimits::default()).unwrap()
}

/// JSON without regard to order and spaces.
fn json(text: impl AsRef<[u8]>) -> serde_json::Value {
    serde_json::from_slice(text.as_ref()).unwrap()
}
