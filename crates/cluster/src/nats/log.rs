//! The log as a stream of JetStream, and the bus as replicas see it.

use std::time::Duration;

use async_nats::jetstream::consumer::DeliverPolicy;
use async_nats::jetstream::consumer::pull::{Ordered, OrderedConfig};
use async_nats::jetstream::context::{Context, PublishErrorKind};
use async_nats::jetstream::message::PublishMessage;
use async_nats::jetstream::stream::{ClusterInfo, Config, PeerInfo, Stream};
use bytes::Bytes;
use futures_util::StreamExt as _;
use tidings_hub::fleet::entry::FleetEntry;
use tidings_hub::fleet::frames::{ExchangeId, FleetFrame};
use tidings_hub::fleet::members::ReplicaBeat;
use tidings_hub::fleet::state_keeping::KeptState;
use tidings_hub::fleet::{BlobHash, ReplicaId};

use super::{NatsBus, NatsNames, refused};
use crate::bus::{AppendId, BusError, FleetBus, LogHead, LoggedEntry};
use crate::bus_keys::{BusKeys, OVERHEAD};

/// What one entry may have; anything larger is content beside the log.
const ENTRY_MOST: usize = 256 << 10;
const LOG_BYTES: i64 = 256 << 20;
const LOG_AGE: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// How long the bus recognises a second attempt.
const SAME_APPEND: Duration = Duration::from_secs(120);

pub(super) async fn open_stream(context: &Context, names: &NatsNames, copies: usize) -> Result<Stream, BusError> {
    let config = Config {
        name: names.log_stream.clone(),
        subjects: vec![names.log()],
        max_age: LOG_AGE,
        max_bytes: LOG_BYTES,
        // The last part is for the headers, such as the id of the append, which the bus counts in.
        max_message_size: i32::try_from(ENTRY_MOST + OVERHEAD + 1024).unwrap_or(i32::MAX),
        duplicate_window: SAME_APPEND,
        num_replicas: copies,
        ..Config::default()
    };
    context.get_or_create_stream(config).await.map_err(refused)
}

/// Reads the log in order. Dropped and made anew from a position, it goes on there.
pub struct NatsEntries {
    messages: Ordered,
    keys: BusKeys,
    place: String,
    next: u64,
}

impl NatsEntries {
    /// The next entry; waits until there is one. After an error it is made anew.
    pub async fn next(&mut self) -> Result<LoggedEntry, BusError> {
        let message = self.messages.next().await.ok_or(BusError::NotConnected)?.map_err(refused)?;
        let position = message.info().map_err(refused)?.stream_sequence;
        if position != self.next {
            return Err(BusError::Forgotten { wanted: self.next, first: position });
        }
        let place = || format!("position {position} of the log");
        let opened =
            self.keys.open(&self.place, &message.payload).ok_or_else(|| BusError::Foreign { place: place() })?;
        let entry = serde_json::from_slice(&opened)
            .map_err(|e| BusError::Unreadable { place: place(), fault: e.to_string() })?;
        // Not before the entry was understood: whoever reads on after an error begins with this one again.
        self.next += 1;
        Ok(LoggedEntry { position, entry, bytes: BlobHash::of(&opened) })
    }
}

impl FleetBus for NatsBus {
    type Entries = NatsEntries;

    async fn append(&self, id: &AppendId, entry: &FleetEntry, after: Option<u64>) -> Result<u64, BusError> {
        if !self.is_connected() {
            return Err(BusError::NotConnected);
        }
        let written = serde_json::to_vec(entry).map_err(refused)?;
        if written.len() > ENTRY_MOST {
            return Err(BusError::TooLarge { size: written.len(), limit: ENTRY_MOST });
        }
        let sealed = self.keys.seal(&self.names.log(), &written);
        let mut message = PublishMessage::build().payload(sealed.into()).message_id(&id.0);
        if let Some(after) = after {
            message = message.expected_last_sequence(after);
        }
        let sent = self.context.send_publish(self.names.log(), message).await;
        let acknowledged = match sent {
            Ok(acknowledged) => acknowledged.await,
            Err(error) => Err(error),
        };
        match acknowledged {
            Ok(acknowledged) => Ok(acknowledged.sequence),
            Err(error) => Err(match error.kind() {
                PublishErrorKind::WrongLastSequence => BusError::MovedOn,
                // The last is how the library calls that nobody answers for the stream, as while a leader is elected.
                PublishErrorKind::TimedOut | PublishErrorKind::BrokenPipe | PublishErrorKind::StreamNotFound => {
                    BusError::NoAnswer
                }
                _ => refused(error),
            }),
        }
    }

    async fn entries(&self, from: u64) -> Result<NatsEntries, BusError> {
        let config = OrderedConfig {
            // The bus knows no position zero.
            deliver_policy: DeliverPolicy::ByStartSequence { start_sequence: from.max(1) },
            ..OrderedConfig::default()
        };
        let consumer = self.log.create_consumer(config).await.map_err(refused)?;
        let messages = consumer.messages().await.map_err(refused)?;
        Ok(NatsEntries { messages, keys: self.keys.clone(), place: self.names.log(), next: from.max(1) })
    }

    async fn head(&self) -> Result<LogHead, BusError> {
        if !self.is_connected() {
            return Err(BusError::NotConnected);
        }
        // Asked anew each time: what the handle remembers of the stream is as old as the handle.
        let info = self.log.get_info().await.map_err(|_| BusError::NoAnswer)?;
        // A server that stands alone has no cluster, and nobody to hear.
        let majority_heard = match &info.cluster {
            Some(cluster) => majority_heard(cluster).ok_or(BusError::NoLeader)?,
            None => Duration::ZERO,
        };
        Ok(LogHead { position: info.state.last_sequence, majority_heard })
    }

    async fn put(&self, content: Bytes) -> Result<BlobHash, BusError> {
        self.put_content(&content).await
    }

    async fn get(&self, hash: BlobHash) -> Result<Option<Bytes>, BusError> {
        self.get_content(hash).await
    }

    async fn drop_content(&self, hash: BlobHash) -> Result<(), BusError> {
        self.purge_content(hash).await
    }

    async fn drop_old_content(&self, hash: BlobHash, older_than: Duration) -> Result<bool, BusError> {
        self.purge_old_content(hash, older_than).await
    }

    async fn keep_state(&self, kept: &KeptState) -> Result<(), BusError> {
        self.write_kept_state(kept).await
    }

    async fn kept_state(&self) -> Result<Option<KeptState>, BusError> {
        self.read_kept_state().await
    }

    async fn beat(&self, beat: &ReplicaBeat) -> Result<(), BusError> {
        self.send_beat(beat).await
    }

    async fn send(&self, to: &ReplicaId, exchange: &ExchangeId, frame: FleetFrame) -> Result<(), BusError> {
        self.send_frame(to, exchange, frame).await
    }
}

/// The time within which the leader heard so many of its peers that it has a majority with them; `None` if the answer is not the leader's.
///
/// Others answer too: a server that knows of no leader, with an empty name, and one that was started within ten seconds, beside the leader. The
/// list has all servers but the one who answers, so a leader that is in it is another.
fn majority_heard(cluster: &ClusterInfo) -> Option<Duration> {
    let leader = cluster.leader.as_deref().filter(|leader| !leader.is_empty())?;
    if cluster.replicas.iter().any(|peer| peer.name == leader) {
        return None;
    }
    // A peer that was never heard has the age zero, and one that is offline was not heard, whatever its age says.
    let unheard = |peer: &PeerInfo| peer.offline || peer.active.is_zero();
    let ages = cluster.replicas.iter().map(|peer| if unheard(peer) { Duration::MAX } else { peer.active });
    let mut ages: Vec<Duration> = ages.collect();
    ages.sort_unstable();
    // Of n servers n/2 others and itself are more than half.
    let others = ages.len().div_ceil(2);
    Some(others.checked_sub(1).map_or(Duration::ZERO, |last| ages[last]))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const MS: u64 = 1_000_000;

    /// What is heard of a leader `a` with these peers: name, age, whether it is offline.
    fn heard(leader: Option<&str>, peers: &[(&str, u64, bool)]) -> Option<Duration> {
        let peers = peers.iter().map(
            |(name, age, offline)| json!({ "name": name, "current": true, "active": age * MS, "offline": offline }),
        );
        let written = json!({ "name": "nats", "leader": leader, "replicas": peers.collect::<Vec<_>>() });
        majority_heard(&serde_json::from_value(written).expect("a cluster"))
    }

    // cluster
    #[test]
    fn a_majority_was_heard_when_half_of_the_others_were() {
        let some = |ms| Some(Duration::from_millis(ms));
        assert_eq!(heard(Some("a"), &[]), some(0), "alone it is all");
        assert_eq!(heard(Some("a"), &[("b", 5, false)]), some(5));
        assert_eq!(heard(Some("a"), &[("b", 9000, false), ("c", 7, false)]), some(7));
        let five = [("b", 1, false), ("c", 9000, false), ("d", 8000, false), ("e", 3, false)];
        assert_eq!(heard(Some("a"), &five), some(3));
        assert_eq!(heard(Some("a"), &five[..3]), some(8000), "of four, three");
    }

    // cluster
    #[test]
    fn a_peer_that_is_offline_or_was_never_heard_is_not_counted() {
        let never = Some(Duration::MAX);
        assert_eq!(heard(Some("a"), &[("b", 0, false), ("c", 0, false)]), never);
        assert_eq!(heard(Some("a"), &[("b", 3, true), ("c", 0, false)]), never);
        assert_eq!(heard(Some("a"), &[("b", 3, false), ("c", 0, false)]), Some(Duration::from_millis(3)));
    }

    // cluster
    #[test]
    fn only_the_leader_itself_is_asked() {
        let peers = [("b", 3, false), ("c", 4, false)];
        assert_eq!(heard(None, &peers), None);
        assert_eq!(heard(Some(""), &peers), None);
        assert_eq!(heard(Some("b"), &peers), None, "a follower answers beside the leader");
    }
}
