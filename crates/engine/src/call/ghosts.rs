//! Calls that were given up while their server may still work on them.
//!
//! The hub remembers them until they are answered. On a pipe the link tells of late answers by itself; over HTTP the
//! answer comes on the call's own stream, so that stream is read on for a while, with nobody behind it.

use std::sync::Arc;
use std::time::Instant;

use futures_util::FutureExt as _;
use tidings_hub::calls::CallId;
use tidings_upstream::{CallEvent, CallStream};
use tidings_wire::MESSAGES;

use crate::call::RequestRouter;
use crate::links::live_link::LiveLink;
use crate::links::open_links::refusal;
use crate::plan::CallChannel;
use crate::servers::server::Server;

/// On how many streams of abandoned calls of one link the answer is waited for. Each is an open HTTP connection.
const READ_ON: usize = 64;

impl RequestRouter {
    /// Takes the stream of a call that was given up.
    pub(crate) fn follow_ghost(
        self: &Arc<Self>,
        server: &Server,
        live: &LiveLink,
        call: CallId,
        mut events: CallStream,
    ) {
        match server.call_channel(live) {
            // Everything about the call came on its own stream, which is dropped with it.
            CallChannel::OwnStream => {}
            CallChannel::SharedPipe => {
                // The answer may have come just before the link was told to forget the call.
                while let Some(event) = events.next().now_or_never() {
                    match event {
                        CallEvent::Response(_) => return self.links.in_flight.ghost_answered(live.key, call),
                        CallEvent::Failed(_) => return,
                        _ => {}
                    }
                }
            }
            CallChannel::OwnStreamAndPush => {
                let ghosts = {
                    let state = self.links.in_flight.lock();
                    // Zero where this call is not remembered: then there is nothing to read on for.
                    state.calls.ghosts_on(live.key) * usize::from(state.calls.has_ghost(live.key, call))
                };
                if (1..=READ_ON).contains(&ghosts) {
                    let until = Instant::now() + server.timeouts(&self.runtime.settings).1;
                    let (router, live) = (Arc::clone(self), live.clone());
                    self.runtime.spawn(async move { router.read_on(&live, call, events, until).await });
                }
            }
        }
    }

    async fn read_on(&self, live: &LiveLink, call: CallId, mut events: CallStream, until: Instant) {
        loop {
            tokio::select! {
                event = events.next() => match event {
                    CallEvent::Response(_) => return self.links.in_flight.ghost_answered(live.key, call),
                    // The stream is lost and the call perhaps not over: it stays remembered.
                    CallEvent::Failed(_) => return,
                    // A server that is not answered would wait, and keep the call going, though nobody is there to ask.
                    CallEvent::Message(message) if message.subject().is_request() => {
                        if let Some(id) = message.id() {
                            live.link.send(refusal(&id, &message.method()));
                        }
                    }
                    _ => {}
                },
                () = self.runtime.coarse_timer.beat() => {
                    // A stream with nobody behind it may hold a message that never ends. Without its stream the call stays
                    // remembered until the link ends, which is safe; without memory for messages everybody is refused.
                    let is_over = Instant::now() >= until || MESSAGES.is_scarce();
                    if is_over || !self.links.in_flight.lock().calls.has_ghost(live.key, call) {
                        return;
                    }
                }
                () = self.runtime.stop.cancelled() => return,
            }
        }
    }
}
