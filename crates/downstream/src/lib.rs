//! Clients: how they connect, and which era they speak.
//!
//! Both transports turn bytes into [`tidings_engine::Exchange`]s and write what those yield. Nothing here knows servers,
//! names or routes.

mod admission;
mod batch;
pub mod http;
mod outbox;
pub mod stdio;

use std::time::Duration;

pub use admission::{LIMITS, RELAYED};

/// How long running requests may take after the end was announced: by a signal, or by the end of a client's input.
pub const DRAIN: Duration = Duration::from_secs(10);
