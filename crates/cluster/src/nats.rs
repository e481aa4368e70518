//! The bus on NATS: two streams of JetStream for the log and for contents, plain messages for beats and frames.
//!
//! What async-nats does by itself is not enough here, each measured against 0.51: a silent cut is noticed after minutes (so it pings twice a
//! second), pauses between attempts to connect grow to seconds (so they do not), and what is published while disconnected is delivered later
//! (so nothing is). Frames have a connection of their own: large answers must not delay beats and the log.

mod access;
mod contents;
mod examination;
mod kept_state;
mod log;
mod messages;

use std::time::Duration;

use async_nats::Client;
use async_nats::connection::State;
use async_nats::jetstream::{self, context::ContextBuilder};
use tidings_hub::fleet::ReplicaId;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::bus::{ArrivalQueue, BusArrivals, BusError};
use crate::bus_keys::BusKeys;
use access::NatsDoor;
pub use access::{NatsAccess, NatsTls};
pub use examination::{BusExamination, FoundLog, examine};
pub use log::NatsEntries;

/// How long an answer of the bus may take. A commit waits longer while a leader is elected: whoever writes tries again.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);
/// Acknowledgements that are waited for at a time; 5,000 of them block the client.
const OPEN_ACKS: usize = 256;

/// Where the bus is, and as whom this replica speaks on it.
#[derive(Clone)]
pub struct NatsSettings {
    /// The servers, such as `nats://a:4222`, also with a login in them.
    pub servers: Vec<String>,
    /// How this replica is let in.
    pub access: NatsAccess,
    /// The name of the cluster: several may share the servers.
    pub name: String,
    /// This process.
    pub replica: ReplicaId,
    /// How many servers keep each stream.
    pub copies: usize,
    /// The keys of the cluster.
    pub keys: BusKeys,
}

/// The subjects and streams of one cluster.
#[derive(Clone, Debug)]
pub(crate) struct NatsNames {
    prefix: String,
    log_stream: String,
    blob_stream: String,
}

impl NatsNames {
    fn new(cluster: &str) -> Self {
        Self {
            prefix: format!("tidings.{cluster}"),
            log_stream: format!("tidings-{cluster}-log"),
            blob_stream: format!("tidings-{cluster}-blobs"),
        }
    }

    fn log(&self) -> String {
        format!("{}.log", self.prefix)
    }

    fn beat(&self) -> String {
        format!("{}.beat", self.prefix)
    }

    /// Among the contents, of which the stream keeps the last message of each subject.
    fn state(&self) -> String {
        format!("{}.blob.state", self.prefix)
    }

    fn to(&self, keys: &BusKeys, replica: &ReplicaId) -> String {
        let name = keys.hide(replica.name.as_str().as_bytes());
        format!("{}.to.{name}.{:016x}", self.prefix, replica.incarnation)
    }
}

/// A connection to the bus, open until it is closed or dropped.
#[derive(Debug)]
pub struct NatsBus {
    me: ReplicaId,
    keys: BusKeys,
    names: NatsNames,
    client: Client,
    frames: Client,
    context: jetstream::Context,
    log: jetstream::stream::Stream,
    blobs: jetstream::stream::Stream,
    refusals: String,
    tasks: TaskTracker,
    end: CancellationToken,
}

impl NatsBus {
    /// Connects, makes the streams that are missing and begins to listen.
    pub async fn connect(settings: NatsSettings) -> Result<(Self, BusArrivals), BusError> {
        let door = NatsDoor::new(&settings.servers, settings.access, &settings.name)?;
        let client = door.connect().await?;
        let frames = door.connect().await?;
        let context = ContextBuilder::new()
            .timeout(ANSWER_WITHIN)
            .ack_timeout(ANSWER_WITHIN)
            .max_ack_inflight(OPEN_ACKS)
            .backpressure_on_inflight(true)
            .build(client.clone());
        examination::require_jetstream(&context).await?;
        let names = NatsNames::new(&settings.name);
        let log = log::open_stream(&context, &names, settings.copies).await?;
        let blobs = contents::open_stream(&context, &names, settings.copies).await?;
        let (queue, arrivals) = ArrivalQueue::new();
        let bus = Self {
            refusals: frames.new_inbox(),
            me: settings.replica,
            keys: settings.keys,
            names,
            client,
            frames,
            context,
            log,
            blobs,
            tasks: TaskTracker::new(),
            end: CancellationToken::new(),
        };
        bus.listen(&queue).await?;
        // All listeners are there, and waiting for a tracker ends only when it takes no more.
        bus.tasks.close();
        Ok((bus, arrivals))
    }

    /// Whether both connections are up. Nothing is sent over one while the other is down: whoever is told that the bus is gone can rely on it.
    pub fn is_connected(&self) -> bool {
        is_connected(&self.client) && is_connected(&self.frames)
    }

    /// Stops listening, and waits until that is over.
    pub async fn close(&self) {
        self.end.cancel();
        self.tasks.wait().await;
    }
}

impl Drop for NatsBus {
    fn drop(&mut self) {
        // Nobody waits here: each task ends by itself, and with it its subscription.
        self.end.cancel();
    }
}

fn is_connected(client: &Client) -> bool {
    client.connection_state() == State::Connected
}

fn refused(error: impl std::fmt::Display) -> BusError {
    BusError::Refused(error.to_string())
}
