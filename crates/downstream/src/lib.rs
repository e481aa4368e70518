//! Clients: how they connect, and which era they speak.
//!
//! Both transports turn bytes into [`tidings_engine::Exchange`]s and write what those yield. Nothing here knows servers,
//! names or routes.

pub mod auth;
mod batch;
pub mod http;
pub mod stdio;

/// Bounds on what clients may send.
pub const LIMITS: tidings_wire::Limits = tidings_wire::Limits { max_bytes: 64 << 20, max_depth: 256, max_batch: 256 };
