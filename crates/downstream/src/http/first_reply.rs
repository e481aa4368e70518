//! The beginning of an exchange, which outlives the patience of whoever waits for it.
//!
//! An exchange that is dropped while it begins would begin again: a process would be started, or a resource subscribed to, twice.

use std::pin::Pin;

use tidings_engine::{Exchange, Reply};

/// The first reply, with the exchange that goes on after it.
pub(super) type FirstReply = Pin<Box<dyn Future<Output = (Reply, Exchange)> + Send>>;

pub(super) fn first_reply(mut exchange: Exchange) -> FirstReply {
    Box::pin(async move {
        let reply = exchange.next().await;
        (reply, exchange)
    })
}
