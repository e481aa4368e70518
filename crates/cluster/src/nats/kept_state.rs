//! The state that whoever joins begins with: where it is, and whether it belongs to the log that is there.

use async_nats::jetstream::stream::{LastRawMessageErrorKind, Stream};
use tidings_hub::fleet::BlobHash;
use tidings_hub::fleet::state_keeping::KeptState;

use super::{NatsBus, NatsNames, contents, refused};
use crate::bus::BusError;
use crate::bus_keys::BusKeys;

impl NatsBus {
    pub(super) async fn write_kept_state(&self, kept: &KeptState) -> Result<(), BusError> {
        if !self.is_connected() {
            return Err(BusError::NotConnected);
        }
        let subject = self.names.state();
        let written = serde_json::to_vec(kept).map_err(refused)?;
        let sealed = self.keys.seal(&subject, &written);
        let sent = self.context.publish(subject, sealed.into()).await.map_err(refused)?;
        sent.await.map_err(refused)?;
        Ok(())
    }

    pub(super) async fn read_kept_state(&self) -> Result<Option<KeptState>, BusError> {
        if !self.is_connected() {
            return Err(BusError::NotConnected);
        }
        find(&self.blobs, &self.log, &self.names, &self.keys).await
    }
}

/// The state that was kept last, if it belongs to this log.
pub(super) async fn find(
    blobs: &Stream,
    log: &Stream,
    names: &NatsNames,
    keys: &BusKeys,
) -> Result<Option<KeptState>, BusError> {
    let subject = names.state();
    let Some(sealed) = contents::kept(blobs, &subject).await? else { return Ok(None) };
    let opened = keys.open(&subject, &sealed).ok_or_else(|| BusError::Foreign { place: subject.clone() })?;
    let kept: KeptState = serde_json::from_slice(&opened)
        .map_err(|fault| BusError::Unreadable { place: subject, fault: fault.to_string() })?;
    Ok(is_of(&kept, log, names, keys).await?.then_some(kept))
}

/// Whether a log has the last entry of a state, or has forgotten it and nothing after it.
async fn is_of(kept: &KeptState, log: &Stream, names: &NatsNames, keys: &BusKeys) -> Result<bool, BusError> {
    let held = log.get_info().await.map_err(|_| BusError::NoAnswer)?.state;
    if kept.position > held.last_sequence {
        return Ok(false);
    }
    if kept.position + 1 == held.first_sequence {
        return Ok(true);
    }
    match log.get_raw_message(kept.position).await {
        Ok(message) => {
            let entry = keys.open(&names.log(), &message.payload);
            Ok(entry.is_some_and(|entry| BlobHash::of(&entry) == kept.entry))
        }
        // With entries after it, which can not be had any more.
        Err(error) if error.kind() == LastRawMessageErrorKind::NoMessageFound => Ok(false),
        Err(error) => Err(refused(error)),
    }
}
