//! The kit against itself: its clients and its servers, every revision, both transports.

mod calls;
mod deaths;
mod gateway;
mod handshake;
mod modern;
mod notices;
mod streams;

use tidings_testkit::{Server, ServerBuilder};

/// The same server on both transports.
async fn both(script: impl Fn() -> ServerBuilder) -> [Server; 2] {
    [script().http().await, script().stdio().await]
}
