//! Requests between replicas: what is sent, with who asks, and what is handed to whoever carries it out (`gateway/carried_requests.rs`).
//!
//! The replica where the client came in has let it in, counted it and judged what it may; it vouches for who asks. Everything on the bus is
//! sealed, so whoever can say that is a replica.

use std::sync::Arc;

use bytes::{BufMut as _, Bytes, BytesMut};
use serde_json::{Value, json};
use tidings_hub::fleet::FleetServerName;
use tidings_hub::fleet::frames::{ExchangeId, ExchangeKind};
use tidings_hub::who::PersonFacts;
use tokio_util::sync::CancellationToken;

use super::desk::FleetDesk;

/// A request of another replica.
pub(crate) struct CarriedWork {
    pub(crate) exchange: ExchangeId,
    pub(crate) kind: ExchangeKind,
    pub(crate) server: FleetServerName,
    pub(crate) bytes: Bytes,
    pub(crate) desk: Arc<FleetDesk>,
    pub(crate) cancelled: CancellationToken,
}

/// Who asks, for the replica that carries it out.
pub(crate) fn vouch(name: &str, PersonFacts { token, groups, scopes, claims }: &PersonFacts) -> Bytes {
    let asker = json!({ "name": name, "token": token, "groups": groups, "scopes": scopes, "claims": claims });
    asker.to_string().into()
}

/// The same for what this replica asks in its own name.
pub(super) fn vouch_for_gateway() -> Bytes {
    Bytes::from_static(br#"{"name":"local"}"#)
}

/// A request with who asks it.
pub(super) fn wrap(asker: &[u8], request: &[u8]) -> Bytes {
    let mut bytes = BytesMut::with_capacity(4 + asker.len() + request.len());
    bytes.put_u32(u32::try_from(asker.len()).unwrap_or(u32::MAX));
    bytes.put_slice(asker);
    bytes.put_slice(request);
    bytes.freeze()
}

/// Who asks, and the request: what [`wrap`] made.
pub(crate) fn unwrap(bytes: &Bytes) -> Option<(Value, Bytes)> {
    let (length, rest) = bytes.split_first_chunk::<4>()?;
    let length = usize::try_from(u32::from_be_bytes(*length)).ok()?;
    let asker = serde_json::from_slice(rest.get(..length)?).ok()?;
    Some((asker, bytes.slice(4 + length..)))
}
