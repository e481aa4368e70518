//! Beats and frames: plain messages, which nobody keeps.

use async_nats::{StatusCode, Subscriber};
use bytes::Bytes;
use futures_util::StreamExt as _;
use tidings_hub::fleet::ReplicaId;
use tidings_hub::fleet::frames::{ExchangeId, FleetFrame};
use tidings_hub::fleet::members::ReplicaBeat;

use super::{NatsBus, refused};
use crate::bus::{ArrivalQueue, BusArrival, BusError};
use crate::bus_keys::OVERHEAD;
use crate::wire_form::{read_frame, write_frame};

/// A subject on which JetStream answers everybody.
const SERVER_ANSWERS: &str = "$JS.API.INFO";

impl NatsBus {
    /// Three listeners: beats of all, frames for this process, and what the bus says of frames that nobody was there for.
    pub(super) async fn listen(&self, queue: &ArrivalQueue) -> Result<(), BusError> {
        let beat_place = self.names.beat();
        let beats = self.client.subscribe(beat_place.clone()).await.map_err(refused)?;
        let frame_place = self.names.to(&self.keys, &self.me);
        let frames = self.frames.subscribe(frame_place.clone()).await.map_err(refused)?;
        let refusals = self.frames.subscribe(format!("{}.>", self.refusals)).await.map_err(refused)?;
        let keys = self.keys.clone();
        self.hear("beats", beats, queue, move |message| {
            let opened = keys.open(&beat_place, &message.payload)?;
            serde_json::from_slice(&opened).ok().map(BusArrival::Beat)
        });
        let keys = self.keys.clone();
        self.hear("frames", frames, queue, move |message| {
            let opened = keys.open(&frame_place, &message.payload)?;
            let (from, exchange, frame) = read_frame(&opened).ok()?;
            Some(BusArrival::Frame { from, exchange, frame })
        });
        let (me, prefix) = (self.me.clone(), self.refusals.clone());
        self.hear("refusals", refusals, queue, move |message| {
            if message.status != Some(StatusCode::NO_RESPONDERS) {
                return None;
            }
            let (number, opening) = read_refusal(message.subject.as_str().strip_prefix(&prefix)?)?;
            Some(BusArrival::NoResponders { exchange: ExchangeId { caller: me.clone(), number }, opening })
        });
        // The server has to know of the subscriptions before anybody is told of this replica. `flush` is no round trip; an answer on the same
        // connection is, since the server takes what a connection says in order.
        self.log.get_info().await.map_err(refused)?;
        self.frames.request(SERVER_ANSWERS, Bytes::new()).await.map_err(refused)?;
        Ok(())
    }

    /// One task per subscription, which only reads, opens and hands over: one that stood still would be cut off by the bus.
    fn hear(
        &self,
        what: &'static str,
        mut subscriber: Subscriber,
        queue: &ArrivalQueue,
        read: impl Fn(&async_nats::Message) -> Option<BusArrival> + Send + 'static,
    ) {
        let (queue, end) = (queue.clone(), self.end.clone());
        self.tasks.spawn(async move {
            loop {
                let message = tokio::select! {
                    () = end.cancelled() => return,
                    message = subscriber.next() => message,
                };
                let Some(message) = message else { return };
                let Some(arrival) = read(&message) else {
                    tracing::warn!(
                        what,
                        "a message on the bus is not of this cluster; do all replicas have the same secret?"
                    );
                    continue;
                };
                if !queue.push(arrival, message.payload.len()) {
                    tracing::warn!(what, "a message from another replica was dropped: too many wait");
                }
            }
        });
    }

    pub(super) async fn send_beat(&self, beat: &ReplicaBeat) -> Result<(), BusError> {
        if !self.is_connected() {
            return Err(BusError::NotConnected);
        }
        let place = self.names.beat();
        let written = serde_json::to_vec(beat).map_err(refused)?;
        let sealed = self.keys.seal(&place, &written);
        self.client.publish(place, sealed.into()).await.map_err(refused)
    }

    pub(super) async fn send_frame(
        &self,
        to: &ReplicaId,
        exchange: &ExchangeId,
        frame: FleetFrame,
    ) -> Result<(), BusError> {
        if !self.is_connected() {
            return Err(BusError::NotConnected);
        }
        // Only what this replica's clients wait for has to know that nobody is there.
        let own = exchange.caller == self.me;
        // Everything that a refusal has to say stands in the subject: it brings nothing else back.
        let refusal = own.then(|| write_refusal(&self.refusals, exchange, &frame));
        let place = self.names.to(&self.keys, to);
        let written = write_frame(&self.me, exchange, frame);
        let limit = self.frames.max_payload().saturating_sub(OVERHEAD);
        if written.len() > limit {
            return Err(BusError::TooLarge { size: written.len(), limit });
        }
        let sealed = self.keys.seal(&place, &written);
        let sent = match refusal {
            Some(refusal) => self.frames.publish_with_reply(place, refusal, sealed.into()).await,
            None => self.frames.publish(place, sealed.into()).await,
        };
        sent.map_err(refused)
    }
}

fn write_refusal(prefix: &str, exchange: &ExchangeId, frame: &FleetFrame) -> String {
    let kind = if matches!(frame, FleetFrame::Open(_)) { "open" } else { "other" };
    format!("{prefix}.{kind}.{}", exchange.number)
}

fn read_refusal(written: &str) -> Option<(u64, bool)> {
    let (kind, number) = written.strip_prefix('.')?.split_once('.')?;
    Some((number.parse().ok()?, kind == "open"))
}
