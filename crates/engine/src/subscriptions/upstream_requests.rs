//! What is asked of servers for those who follow: to be told, to be told no more, and what there is to read.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tidings_hub::subscriptions::{FollowRefusal, ResourceAddress, ServerTicket, SubscriptionCommands, TicketAnswer};
use tidings_proto::{ListKind, LocalName, Method, ServerMessage};
use tidings_upstream::{CallEvent, CallStream, LinkError};
use tidings_wire::{Digest, Frame, FrameKind, digest, get};
use tokio_util::sync::CancellationToken;

use super::subscription_links::FollowedLink;
use super::{FollowTable, ResourceSubscriptions};
use crate::links::live_link::LiveLink;
use crate::observe::update_spans::UpdateCause;
use crate::servers::server::Server;

/// How long a server may take. The machine has the same patience.
const PATIENCE: Duration = Duration::from_secs(30);
/// Resources that are larger, in bytes, are not read just to know what they say.
const LARGEST_BASELINE: usize = 1 << 20;

impl ResourceSubscriptions {
    pub(super) fn send_subscribe(
        self: &Arc<Self>,
        table: &FollowTable,
        ticket: ServerTicket,
        address: &ResourceAddress,
    ) {
        self.send(table, Method::ResourcesSubscribe, ticket, address, done);
    }

    pub(super) fn send_unsubscribe(
        self: &Arc<Self>,
        table: &FollowTable,
        ticket: ServerTicket,
        address: &ResourceAddress,
    ) {
        self.send(table, Method::ResourcesUnsubscribe, ticket, address, done);
    }

    pub(super) fn send_read(
        self: &Arc<Self>,
        table: &FollowTable,
        ticket: ServerTicket,
        address: &ResourceAddress,
        is_baseline: bool,
    ) {
        if !is_baseline {
            return self.send(table, Method::ResourcesRead, ticket, address, content);
        }
        if !self.is_listed_as_large(table, address) {
            return self.send(table, Method::ResourcesRead, ticket, address, small_content);
        }
        // The machine is told when it is free again.
        let subscriptions = Arc::clone(self);
        self.runtime.spawn(async move {
            // Reported as refused, so that the machine does not ask again.
            let refused = TicketAnswer::Failed(FollowRefusal::NotHonoured);
            subscriptions.drive(|table, now| table.machine.answered(ticket, &refused, now));
        });
    }

    /// Whether a server says in its list that a resource is too large to be read just to know it.
    fn is_listed_as_large(&self, table: &FollowTable, address: &ResourceAddress) -> bool {
        let Some(server) = self.server_at(table, address.place) else { return false };
        let catalogue = self.catalogue.current();
        let uri = LocalName::new(Arc::clone(&address.uri));
        let item = catalogue.snapshot.offer(server.id).and_then(|offer| offer.list(ListKind::Resources).get(&uri));
        let listed = item.and_then(|item| serde_json::from_slice::<Value>(&item.raw).ok());
        listed.and_then(|listed| listed["size"].as_u64()).is_some_and(|size| size > LARGEST_BASELINE as u64)
    }

    /// Sends now, and tells the machine when it is answered. So many at a time as the machine allows.
    fn send(
        self: &Arc<Self>,
        table: &FollowTable,
        method: Method,
        ticket: ServerTicket,
        address: &ResourceAddress,
        read: fn(&Frame) -> TicketAnswer,
    ) {
        // Without a link the machine hears of its loss.
        let Some(place) = table.places.get(&address.place).cloned() else { return };
        // Under the lock, in the order of the machine; only the answer is waited for in a task.
        let sent = self.begin(&place, method, &address.uri);
        let subscriptions = Arc::clone(self);
        self.runtime.spawn(async move {
            let Some(answer) = subscriptions.answer_of(&place, sent).await else { return };
            let answer = answer.map_or(TicketAnswer::Failed(FollowRefusal::Unreachable), |frame| read(&frame));
            subscriptions.drive(|table, now| table.machine.answered(ticket, &answer, now));
        });
    }

    fn begin(&self, place: &FollowedLink, method: Method, uri: &str) -> (u64, CallStream) {
        let outgoing = self.links.own_request(&place.live.hello, method, json!({ "uri": uri }));
        (outgoing.id, place.live.link.call(outgoing))
    }

    /// What a server answers; `None` when the gateway ends.
    async fn answer_of(
        self: &Arc<Self>,
        place: &FollowedLink,
        (id, mut events): (u64, CallStream),
    ) -> Option<Result<Frame, LinkError>> {
        let answer = async {
            loop {
                match events.next().await {
                    // Over HTTP a change may come before the answer, on its stream.
                    CallEvent::Message(message) => self.pass_on(place, message),
                    CallEvent::Response(frame) => return Ok(frame),
                    CallEvent::Failed(error) | CallEvent::Unsent(error) | CallEvent::Refused { error, .. } => {
                        return Err(error);
                    }
                    CallEvent::Accepted
                    | CallEvent::Opened
                    | CallEvent::Interrupted(_)
                    | CallEvent::Broken
                    | CallEvent::Redirect(_)
                    | CallEvent::LoginWanted(_) => {}
                }
            }
        };
        let answer = self.runtime.stop.run_until_cancelled(tokio::time::timeout(PATIENCE, answer)).await?;
        Some(answer.unwrap_or_else(|_| {
            place.live.link.cancel(id, Some("timed out"));
            // Not a word about the resource: the machine takes it for unreachable and tries again.
            Err(LinkError::Lost)
        }))
    }

    pub(super) fn pass_on(self: &Arc<Self>, place: &FollowedLink, message: ServerMessage) {
        if let Some(messages) = self.messages.upgrade() {
            messages.heard(&place.server, &place.live, message);
        }
    }

    /// Reads a resource from time to time: its server does not tell of its changes, and may be asked.
    pub(super) fn begin_poll(self: &Arc<Self>, table: &mut FollowTable, address: ResourceAddress) {
        let Some(place) = table.places.get(&address.place).cloned() else { return };
        let Some(interval) = place.server.polls_resources() else { return };
        tracing::info!(
            server = %place.server.plan.name, uri = %address.uri, seconds = interval.as_secs_f64(),
            "the server does not tell of changes: read from time to time"
        );
        let end = CancellationToken::new();
        let subscriptions = Arc::clone(self);
        if let Some(before) = table.polls.insert(address.clone(), end.clone()) {
            before.cancel();
        }
        self.runtime.spawn(async move {
            let polling = async {
                loop {
                    tokio::time::sleep(interval).await;
                    let sent = subscriptions.begin(&place, Method::ResourcesRead, &address.uri);
                    let Some(answer) = subscriptions.answer_of(&place, sent).await else { return };
                    if let Ok(TicketAnswer::Content(found)) = answer.map(|frame| content(&frame)) {
                        // The poll may have been ended while the read was under way.
                        subscriptions.drive(|table, now| match table.polls.contains_key(&address) {
                            true => subscriptions.seen(table, &address, found, UpdateCause::Poll, now),
                            false => SubscriptionCommands::new(),
                        });
                    }
                }
            };
            tokio::select! {
                () = polling => {}
                () = end.cancelled() => {}
                () = subscriptions.runtime.stop.cancelled() => {}
            }
        });
    }

    /// A client has read a resource: what it says is remembered, for the time after a gap.
    pub(crate) fn resource_read(self: &Arc<Self>, server: &Server, live: &LiveLink, uri: &str, frame: &Frame) {
        let TicketAnswer::Content(found) = content(frame) else { return };
        self.drive(|table, now| {
            // Over an isolated server a read is about the own link of the session or person only.
            let shared = server.plan.isolation.is_shared().then_some(server.id.into());
            match table.by_link.get(&live.key).copied().or(shared) {
                Some(place) => {
                    let address = ResourceAddress { place, uri: uri.into() };
                    self.seen(table, &address, found, UpdateCause::Read, now)
                }
                None => SubscriptionCommands::new(),
            }
        });
    }

    /// A content passed.
    fn seen(
        &self,
        table: &mut FollowTable,
        address: &ResourceAddress,
        content: Digest,
        cause: UpdateCause,
        now: Instant,
    ) -> SubscriptionCommands {
        let commands = table.machine.seen(address, content, now);
        self.trace_cause(table, address.place, &address.uri, now, cause);
        commands
    }
}

fn done(frame: &Frame) -> TicketAnswer {
    match refusal(frame) {
        Some(refusal) => TicketAnswer::Failed(refusal),
        None => TicketAnswer::Done,
    }
}

fn content(frame: &Frame) -> TicketAnswer {
    match content_digest(frame) {
        Some(found) => TicketAnswer::Content(found),
        None => TicketAnswer::Failed(refusal(frame).unwrap_or(FollowRefusal::NotHonoured)),
    }
}

/// As [`content`], unless it is so long that it is not to be read again for nobody.
fn small_content(frame: &Frame) -> TicketAnswer {
    match frame.bytes().len() > LARGEST_BASELINE {
        true => TicketAnswer::Failed(FollowRefusal::NotHonoured),
        false => content(frame),
    }
}

/// The hash of what a resource has to read; of nothing else in the answer, such as how long it is fresh.
fn content_digest(frame: &Frame) -> Option<Digest> {
    let result = frame.outcome().filter(|_| frame.kind() == FrameKind::Response)?;
    let contents = get(frame.bytes(), result, "contents")?;
    Some(digest(frame.bytes(), contents))
}

/// The error of a server, if it is one.
pub(super) fn refusal(frame: &Frame) -> Option<FollowRefusal> {
    let error = frame.outcome().filter(|_| frame.kind() == FrameKind::Error)?;
    Some(FollowRefusal::ByServer(bytes::Bytes::copy_from_slice(frame.raw(error))))
}
