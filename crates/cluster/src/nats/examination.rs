//! A look at the bus by somebody who takes no part in it: nothing is made there, and nothing is written.

use std::time::{Duration, Instant};

use async_nats::jetstream::ErrorCode;
use async_nats::jetstream::context::{AccountErrorKind, Context, ContextBuilder, GetStreamErrorKind};

use super::access::NatsDoor;
use super::{ANSWER_WITHIN, NatsNames, NatsSettings, kept_state, refused};
use crate::bus::BusError;
use crate::bus_keys::BusKeys;

/// What was found of a bus that lets this replica in.
#[derive(Clone, Debug)]
pub struct BusExamination {
    /// Which version of NATS answered.
    pub version: String,
    /// How long JetStream took to answer.
    pub round_trip: Duration,
    /// What one message may have.
    pub largest_message: usize,
    /// The log of the cluster; `None` until its first replica makes it.
    pub log: Option<FoundLog>,
}

/// The log of a cluster as it lies there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundLog {
    /// The name of its stream.
    pub stream: String,
    /// The position of its first entry: 1, as long as nothing was forgotten.
    pub first: u64,
    /// How many entries it has.
    pub entries: u64,
    /// How many bytes they have.
    pub bytes: u64,
    /// How many it may have before it forgets the oldest.
    pub most_bytes: u64,
    /// The position of the last entry in the state that whoever joins begins with; `None` where all entries are read.
    pub kept: Option<u64>,
    /// How many servers keep it.
    pub copies: usize,
    /// Whether one of them leads it: without a leader nothing can be written.
    pub has_leader: bool,
    /// Whether the secret of the configuration opens its last entry.
    pub opens: bool,
}

impl FoundLog {
    /// Whether all entries are there that a replica which joins has to read.
    pub fn can_be_joined(&self) -> bool {
        // A log that was emptied goes on counting, so nothing in it can stand at 1.
        self.first <= 1 || self.kept.is_some_and(|kept| kept + 1 >= self.first)
    }
}

/// Looks at the bus of a cluster: whether it lets this replica in, has what a cluster needs, and holds a log that can be joined.
pub async fn examine(settings: NatsSettings) -> Result<BusExamination, BusError> {
    let NatsSettings { servers, access, name, keys, .. } = settings;
    let client = NatsDoor::new(&servers, access, &name)?.connect().await?;
    let server = client.server_info();
    let context = ContextBuilder::new().timeout(ANSWER_WITHIN).build(client);
    let asked = Instant::now();
    require_jetstream(&context).await?;
    let round_trip = asked.elapsed();
    let log = find_log(&context, &NatsNames::new(&name), &keys).await?;
    Ok(BusExamination { version: server.version, round_trip, largest_message: server.max_payload, log })
}

/// Without JetStream nothing of a cluster can be kept; what NATS says to that names no remedy.
pub(super) async fn require_jetstream(context: &Context) -> Result<(), BusError> {
    const MISSING: [ErrorCode; 2] = [ErrorCode::JETSTREAM_NOT_ENABLED, ErrorCode::JETSTREAM_NOT_ENABLED_FOR_ACCOUNT];
    match context.query_account().await {
        Ok(_) => Ok(()),
        Err(error) => Err(match error.kind() {
            AccountErrorKind::JetStreamUnavailable => BusError::NoJetStream,
            AccountErrorKind::JetStream(why) if MISSING.contains(&why.error_code()) => BusError::NoJetStream,
            AccountErrorKind::TimedOut => BusError::NoAnswer,
            _ => refused(error),
        }),
    }
}

async fn find_log(context: &Context, names: &NatsNames, keys: &BusKeys) -> Result<Option<FoundLog>, BusError> {
    let stream = match context.get_stream(&names.log_stream).await {
        Ok(stream) => stream,
        Err(error) => {
            return match error.kind() {
                GetStreamErrorKind::JetStream(why) if why.error_code() == ErrorCode::STREAM_NOT_FOUND => Ok(None),
                _ => Err(refused(error)),
            };
        }
    };
    let info = stream.cached_info();
    let opens = match info.state.messages {
        0 => true,
        _ => {
            let last = stream.get_raw_message(info.state.last_sequence).await.map_err(refused)?;
            keys.open(&names.log(), &last.payload).is_some()
        }
    };
    let kept = match context.get_stream(&names.blob_stream).await {
        Ok(blobs) if opens => kept_state::find(&blobs, &stream, names, keys).await?.map(|kept| kept.position),
        _ => None,
    };
    Ok(Some(FoundLog {
        kept,
        stream: names.log_stream.clone(),
        first: info.state.first_sequence,
        entries: info.state.messages,
        bytes: info.state.bytes,
        most_bytes: u64::try_from(info.config.max_bytes).unwrap_or(u64::MAX),
        copies: info.config.num_replicas,
        // A server that stands alone has no cluster, and leads.
        has_leader: info.cluster.as_ref().is_none_or(|cluster| cluster.leader.is_some()),
        opens,
    }))
}
