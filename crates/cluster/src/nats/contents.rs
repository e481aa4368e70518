//! Contents beside the log: offers, bodies, states, in parts and under their hash.

use std::time::{Duration, SystemTime};

use async_nats::jetstream::context::Context;
use async_nats::jetstream::stream::{Config, DirectGetErrorKind, DiscardPolicy, LastRawMessageErrorKind, Stream};
use bytes::Bytes;
use tidings_hub::fleet::BlobHash;

use super::{NatsBus, NatsNames, refused};
use crate::bus::BusError;

/// What goes into one message.
const PART: usize = 512 << 10;
/// What all contents together may have; a further one is refused, and nothing that is needed is forgotten.
const BLOB_BYTES: i64 = 4 << 30;

pub(super) async fn open_stream(context: &Context, names: &NatsNames, copies: usize) -> Result<Stream, BusError> {
    let config = Config {
        name: names.blob_stream.clone(),
        subjects: vec![format!("{}.blob.>", names.prefix)],
        // The subject follows from the content: who writes it again adds nothing.
        max_messages_per_subject: 1,
        max_bytes: BLOB_BYTES,
        discard: DiscardPolicy::New,
        // Contents never change, so any server that has one may give it.
        allow_direct: true,
        num_replicas: copies,
        ..Config::default()
    };
    context.get_or_create_stream(config).await.map_err(refused)
}

impl NatsBus {
    /// The first part says how many there are; so it is written last, and whoever finds it finds all.
    fn part(&self, hash: BlobHash, part: usize) -> String {
        format!("{}.blob.{}.{part}", self.names.prefix, self.keys.hide(&hash.0))
    }

    pub(super) async fn put_content(&self, content: &[u8]) -> Result<BlobHash, BusError> {
        if !self.is_connected() {
            return Err(BusError::NotConnected);
        }
        let hash = BlobHash::of(content);
        // Of nothing, too, there is one part: the first says how many there are.
        let parts: Vec<&[u8]> = if content.is_empty() { vec![&[]] } else { content.chunks(PART).collect() };
        let count = u32::try_from(parts.len()).map_err(refused)?;
        for (number, part) in parts.iter().enumerate().rev() {
            let mut message = count.to_le_bytes().to_vec();
            message.extend_from_slice(part);
            let subject = self.part(hash, number);
            let sealed = self.keys.seal(&subject, &message);
            let sent = self.context.publish(subject, sealed.into()).await.map_err(refused)?;
            // One after the other: the first part may be there only when all the others are.
            sent.await.map_err(refused)?;
        }
        Ok(hash)
    }

    pub(super) async fn get_content(&self, hash: BlobHash) -> Result<Option<Bytes>, BusError> {
        let Some((count, mut content)) = self.get_part(hash, 0).await? else { return Ok(None) };
        for number in 1..count {
            let Some((_, part)) = self.get_part(hash, number).await? else { return Ok(None) };
            content.extend_from_slice(&part);
        }
        // Each part is proved by its seal, but not that all are parts of one writing.
        if BlobHash::of(&content) != hash {
            return Err(BusError::Foreign { place: self.part(hash, 0) });
        }
        Ok(Some(content.into()))
    }

    /// All parts of it. One that is written at the same moment may be there afterwards in part, and then can not be read.
    pub(super) async fn purge_content(&self, hash: BlobHash) -> Result<(), BusError> {
        if !self.is_connected() {
            return Err(BusError::NotConnected);
        }
        let parts = format!("{}.blob.{}.*", self.names.prefix, self.keys.hide(&hash.0));
        self.blobs.purge().filter(parts).await.map_err(refused)?;
        Ok(())
    }

    /// The same, unless it was written again within this time: then an entry may be on its way that names it.
    pub(super) async fn purge_old_content(&self, hash: BlobHash, older_than: Duration) -> Result<bool, BusError> {
        if !self.is_connected() {
            return Err(BusError::NotConnected);
        }
        // The part that is written last.
        let found = self.blobs.get_last_raw_message_by_subject(&self.part(hash, 0)).await;
        let first = match found {
            Ok(first) => first,
            Err(error) if error.kind() == LastRawMessageErrorKind::NoMessageFound => return Ok(false),
            Err(error) => return Err(refused(error)),
        };
        // By the clocks of NATS and of this machine: what is compared is long.
        if !SystemTime::from(first.time).elapsed().is_ok_and(|age| age >= older_than) {
            return Ok(false);
        }
        let parts = format!("{}.blob.{}.*", self.names.prefix, self.keys.hide(&hash.0));
        // What is written from here on stays.
        self.blobs.purge().filter(parts).sequence(first.sequence + 1).await.map_err(refused)?;
        Ok(true)
    }

    async fn get_part(&self, hash: BlobHash, number: usize) -> Result<Option<(usize, Vec<u8>)>, BusError> {
        if !self.is_connected() {
            return Err(BusError::NotConnected);
        }
        let subject = self.part(hash, number);
        let Some(sealed) = kept(&self.blobs, &subject).await? else { return Ok(None) };
        let foreign = || BusError::Foreign { place: subject.clone() };
        let opened = self.keys.open(&subject, &sealed).ok_or_else(foreign)?;
        let (count, part) = opened.split_first_chunk().ok_or_else(foreign)?;
        let count = usize::try_from(u32::from_le_bytes(*count)).map_err(refused)?;
        Ok(Some((count, part.to_vec())))
    }
}

/// Any server that keeps the stream answers; one that is behind does not have it yet, so the leader is asked before that counts.
pub(super) async fn kept(blobs: &Stream, subject: &str) -> Result<Option<Bytes>, BusError> {
    match blobs.direct_get_last_for_subject(subject).await {
        Ok(message) => return Ok(Some(message.payload)),
        Err(error) if error.kind() == DirectGetErrorKind::NotFound => {}
        Err(error) => return Err(refused(error)),
    }
    match blobs.get_last_raw_message_by_subject(subject).await {
        Ok(message) => Ok(Some(message.payload)),
        Err(error) if error.kind() == LastRawMessageErrorKind::NoMessageFound => Ok(None),
        Err(error) => Err(refused(error)),
    }
}
