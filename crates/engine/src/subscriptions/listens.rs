//! The listen of a modern server: one stream for all its resources that somebody follows. The stream for lists is another
//! one (`signals.rs`), so that neither has to be opened again for the other.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tidings_hub::subscriptions::{FollowRefusal, PlaceId, ServerTicket, SubscriptionCommands, Uri};
use tidings_proto::{MessageSubject, Method, meta};
use tidings_upstream::{CallEvent, CallStream, SharedLink};
use tidings_wire::{Frame, RawId, elements, string_at};
use tokio_util::sync::CancellationToken;

use super::subscription_links::FollowedLink;
use super::upstream_requests::refusal;
use super::{FollowTable, ResourceSubscriptions};
use crate::servers::server::Server;

/// How long a stream that is closed is still heard.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// A stream to a server, acknowledged or not.
pub(super) struct OpenListen {
    /// The request's id, which acknowledgements on a pipe name.
    id: u64,
    pub(super) place: PlaceId,
    link: SharedLink,
    pub(super) end: CancellationToken,
}

impl ResourceSubscriptions {
    pub(super) fn open_listen(
        self: &Arc<Self>,
        table: &mut FollowTable,
        ticket: ServerTicket,
        at: PlaceId,
        uris: &[Uri],
    ) {
        // The link is gone: the machine hears of that by itself.
        let Some(place) = table.places.get(&at).cloned() else { return };
        let uris: Vec<&str> = uris.iter().map(|uri| &**uri).collect();
        let params = json!({ "notifications": { "resourceSubscriptions": uris } });
        let outgoing = self.links.own_request(&place.live.hello, Method::Listen, params);
        let (id, end) = (outgoing.id, CancellationToken::new());
        // Sent under the lock of the table, and entered below before anything can come back: whoever reads an answer
        // takes this lock too.
        let events = place.live.link.call(outgoing);
        let link = Arc::clone(&place.live.link);
        table.listens.insert(ticket, OpenListen { id, place: at, link, end: end.clone() });
        let subscriptions = Arc::clone(self);
        self.runtime.spawn(async move {
            tokio::select! {
                () = subscriptions.hear(ticket, &place, events) => {}
                () = end.cancelled() => {}
                () = subscriptions.runtime.stop.cancelled() => {}
            }
        });
    }

    /// Ends a stream. It is heard for a little longer: what the server said on it before it acknowledged the next one may
    /// come later than that acknowledgement, which came over another connection.
    pub(super) fn close_listen(self: &Arc<Self>, table: &mut FollowTable, ticket: ServerTicket) {
        let Some(listen) = table.listens.remove(&ticket) else { return };
        let stop = self.runtime.stop.clone();
        self.runtime.spawn(async move {
            stop.run_until_cancelled(tokio::time::sleep(LAST_WORDS)).await;
            listen.end.cancel();
            // A server behind HTTP sees the stream close; on a pipe it has to be told.
            listen.link.cancel(listen.id, None);
        });
    }

    async fn hear(self: &Arc<Self>, ticket: ServerTicket, place: &FollowedLink, mut events: CallStream) {
        let why = loop {
            match events.next().await {
                CallEvent::Message(message) if message.subject() == MessageSubject::Acknowledged => {
                    self.heard_acknowledgement(ticket, &message);
                }
                CallEvent::Message(message) => self.pass_on(place, message),
                // A listen that ends with a result has ended in order; the machine opens it again.
                CallEvent::Response(frame) => break refusal(&frame).unwrap_or(FollowRefusal::NotHonoured),
                CallEvent::Failed(_) | CallEvent::Unsent(_) | CallEvent::Refused { .. } => {
                    break FollowRefusal::Unreachable;
                }
                CallEvent::Accepted
                | CallEvent::Opened
                | CallEvent::Interrupted(_)
                | CallEvent::Broken
                | CallEvent::Redirect(_)
                | CallEvent::LoginWanted(_) => {}
            }
        };
        self.drive(|table, now| match table.listens.remove(&ticket) {
            // Not when it was closed by us: then nobody is to be told of its end.
            Some(_) => table.machine.listen_ended(ticket, &why, now),
            None => SubscriptionCommands::new(),
        });
    }

    fn heard_acknowledgement(self: &Arc<Self>, ticket: ServerTicket, frame: &Frame) {
        let honoured = resources(frame);
        self.drive(|table, now| table.machine.listening(ticket, honoured, now));
    }

    /// An acknowledgement on a pipe, where all streams share one channel. Tells whether it is none for lists.
    pub(crate) fn take_acknowledgement(self: &Arc<Self>, server: &Server, frame: &Frame) -> bool {
        let id = frame.param(&["_meta", meta::SUBSCRIPTION_ID]).and_then(|at| RawId::from_raw(frame.raw(at))?.as_u64());
        // The stream for lists has its own request; its acknowledgement is about lists.
        let Some(id) = id.filter(|id| !server.is_listen(*id)) else { return false };
        let ticket = {
            let table = self.lock();
            table.listens.iter().find(|(_, listen)| listen.id == id).map(|(ticket, _)| *ticket)
        };
        // Without a ticket it is late, for a listen that was closed: still none for lists.
        if let Some(ticket) = ticket {
            self.heard_acknowledgement(ticket, frame);
        }
        true
    }
}

/// The resources that a filter names.
pub(super) fn resources(frame: &Frame) -> Vec<Uri> {
    let Some(list) = frame.param(&["notifications", "resourceSubscriptions"]) else { return Vec::new() };
    elements(frame.bytes(), list).filter_map(|at| Some(Uri::from(&*string_at(frame.bytes(), at)?))).collect()
}
