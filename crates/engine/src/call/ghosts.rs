//! Calls that were given up while their server may still work on them.
//!
//! The hub remembers them until they are answered. On a pipe the link tells of late answers by itself; over HTTP the
//! answer comes on the call's own stream, so that stream is read on for a while, with nobody behind it.

use std::collections::HashMap;
use std::sync::{Arc, MutexGuard};
use std::time::Instant;

use futures_util::FutureExt as _;
use tidings_hub::LinkKey;
use tidings_hub::calls::CallId;
use tidings_sync::Lock;
use tidings_upstream::{CallEvent, CallStream};
use tidings_wire::MESSAGES;

use crate::call::RequestRouter;
use crate::links::live_link::LiveLink;
use crate::links::open_links::refusal;
use crate::plan::CallChannel;
use crate::servers::server::Server;

/// On how many streams of abandoned calls of one link the answer is waited for. Each is an open HTTP connection.
const READ_ON: usize = 64;

/// The streams that are read on, and what each takes of the memory for messages.
#[derive(Default)]
pub(crate) struct AbandonedStreams(Lock<HashMap<CallId, AbandonedStream>>);

struct AbandonedStream {
    link: LinkKey,
    gathered: usize,
}

/// A stream with its place. What it has gathered is given back before its place is, so that no other goes for it.
struct ReadOnStream {
    events: CallStream,
    place: ReadOnPlace,
}

struct ReadOnPlace {
    streams: Arc<AbandonedStreams>,
    call: CallId,
}

impl AbandonedStreams {
    fn lock(&self) -> MutexGuard<'_, HashMap<CallId, AbandonedStream>> {
        self.0.lock()
    }

    /// A place for one more stream of a link, if it has one left.
    fn enter(self: &Arc<Self>, link: LinkKey, call: CallId, gathered: usize) -> Option<ReadOnPlace> {
        let mut streams = self.lock();
        if streams.values().filter(|stream| stream.link == link).count() >= READ_ON {
            return None;
        }
        streams.insert(call, AbandonedStream { link, gathered });
        Some(ReadOnPlace { streams: Arc::clone(self), call })
    }

    /// Whether a stream that has gathered so much has to go, where `excess` bytes have to be given back: the largest go, until that is
    /// enough. One that has gathered nothing gives nothing back, so it stays.
    fn must_go(&self, call: CallId, gathered: usize, excess: usize) -> bool {
        let mut streams = self.lock();
        if let Some(stream) = streams.get_mut(&call) {
            stream.gathered = gathered;
        }
        // Ids break ties: of two streams of one size only one goes, if that is enough.
        let is_larger = |(other, stream): &(&CallId, &AbandonedStream)| (stream.gathered, **other) > (gathered, call);
        let before: usize = streams.iter().filter(is_larger).map(|(_, stream)| stream.gathered).sum();
        gathered > 0 && before < excess
    }
}

impl Drop for ReadOnPlace {
    fn drop(&mut self) {
        self.streams.lock().remove(&self.call);
    }
}

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
                        CallEvent::Failed(_) | CallEvent::Unsent(_) => return,
                        _ => {}
                    }
                }
            }
            CallChannel::OwnStreamAndPush => {
                // Not remembered: then there is nothing to read on for.
                if !self.links.in_flight.lock().calls.has_ghost(live.key, call) {
                    return;
                }
                if let Some(place) = self.abandoned.enter(live.key, call, events.gathered()) {
                    let until = Instant::now() + server.timeouts(&self.runtime.settings).1;
                    let (router, live) = (Arc::clone(self), live.clone());
                    let stream = ReadOnStream { events, place };
                    self.runtime.spawn(async move { router.read_on(&live, stream, until).await });
                }
            }
        }
    }

    async fn read_on(&self, live: &LiveLink, mut stream: ReadOnStream, until: Instant) {
        let call = stream.place.call;
        loop {
            tokio::select! {
                event = stream.events.next() => match event {
                    CallEvent::Response(_) => return self.links.in_flight.ghost_answered(live.key, call),
                    // The stream is lost and the call perhaps not over: it stays remembered.
                    CallEvent::Failed(_) | CallEvent::Unsent(_) => return,
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
                    // remembered until the link ends, and until then nobody else is asked what the server asks outside of calls.
                    // So only those go that take what others need.
                    let must_go = self.abandoned.must_go(call, stream.events.gathered(), MESSAGES.excess());
                    let is_over = must_go || Instant::now() >= until;
                    if is_over || !self.links.in_flight.lock().calls.has_ghost(live.key, call) {
                        return;
                    }
                }
                () = self.runtime.stop.cancelled() => return,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // edges G9
    #[test]
    fn the_largest_streams_go_until_it_is_enough_and_those_that_hold_nothing_stay() {
        let streams = Arc::new(AbandonedStreams::default());
        let held = [0, 300, 100, 200, 0];
        let enter = |(call, gathered): (u64, &usize)| streams.enter(LinkKey(1), CallId(call), *gathered);
        let places: Vec<_> = (0..).zip(&held).map(|entered| enter(entered).expect("there is room")).collect();
        let going = |excess| -> Vec<usize> {
            let goes = |(call, gathered): &(u64, &usize)| streams.must_go(CallId(*call), **gathered, excess);
            (0..).zip(&held).filter(goes).map(|(_, gathered)| *gathered).collect()
        };
        assert_eq!(going(0), [0; 0]);
        assert_eq!(going(1), [300]);
        assert_eq!(going(300), [300]);
        assert_eq!(going(301), [300, 200]);
        assert_eq!(going(10_000), [300, 100, 200], "all that hold something");
        drop(places);
        assert!(streams.lock().is_empty());
    }

    // edges G9, B1
    #[test]
    fn streams_that_ended_leave_room_for_others_of_their_link() {
        let streams = Arc::new(AbandonedStreams::default());
        let enter = |link, call| streams.enter(LinkKey(link), CallId(call), 0);
        let mut places: Vec<_> = (0..READ_ON as u64).map(|call| enter(1, call).expect("there is room")).collect();
        assert!(enter(1, 1_000).is_none());
        assert!(enter(2, 1_001).is_some(), "another link");
        places.pop();
        assert!(enter(1, 1_002).is_some(), "what counts is what is read, not what is remembered");
    }
}
