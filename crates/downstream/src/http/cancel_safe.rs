//! An exchange whose next reply can be waited for in turns: who waits may give up, and wait again later.
//!
//! An exchange that begins must not be left: it would begin again, and a process would be started, or a resource subscribed to,
//! twice. One that has begun goes on where it was.

use std::pin::Pin;

use tidings_engine::{Exchange, Receipt, Reply};

/// An exchange, and the future in which it begins.
#[expect(
    clippy::large_enum_variant,
    reason = "one per request, and nearly always the large one: a box would cost more than the room"
)]
pub(super) enum CancelSafeExchange {
    /// In a future of its own, which nobody drops before the exchange has begun.
    Beginning(Pin<Box<dyn Future<Output = (Reply, Exchange)> + Send>>),
    /// Needs no future of its own. Nearly every call has begun when it is let in.
    Begun(Exchange),
}

impl CancelSafeExchange {
    pub(super) fn new(exchange: Exchange) -> Self {
        if exchange.has_begun() { Self::Begun(exchange) } else { Self::beginning(exchange) }
    }

    fn beginning(mut exchange: Exchange) -> Self {
        Self::Beginning(Box::pin(async move {
            let reply = exchange.next().await;
            (reply, exchange)
        }))
    }

    /// The next reply. May be dropped while it waits; nothing is lost or done twice.
    pub(super) async fn next(&mut self) -> Reply {
        loop {
            match self {
                Self::Beginning(beginning) => {
                    let (reply, exchange) = beginning.await;
                    *self = Self::Begun(exchange);
                    return reply;
                }
                Self::Begun(exchange) => {
                    if let Some(reply) = exchange.next_of_begun().await {
                        return reply;
                    }
                }
            }
            self.begin_again();
        }
    }

    /// The exchange was sent back to its beginning.
    #[cold]
    fn begin_again(&mut self) {
        // The future that never ends only holds the place until this statement is over.
        *self = match std::mem::replace(self, Self::Beginning(Box::pin(std::future::pending()))) {
            Self::Begun(exchange) => Self::beginning(exchange),
            beginning @ Self::Beginning(_) => beginning,
        };
    }

    /// What must be kept until the transport has the answer, which then has been given already.
    pub(super) fn take_receipt(&mut self) -> Option<Receipt> {
        match self {
            Self::Beginning(_) => None,
            Self::Begun(exchange) => exchange.take_receipt(),
        }
    }
}
