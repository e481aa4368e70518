//! The bus between replicas: one ordered log, contents beside it, beats, and frames from one replica to another.
//!
//! [`FleetBus`] says what a bus does; [`NatsBus`] does it on NATS with JetStream. The bus orders, keeps and carries. It decides nothing: what an
//! entry means is the matter of `hub/fleet`. Nor can it read anything, since all that leaves is sealed with keys that come from the
//! configuration ([`BusKeys`]).
//!
//! Not here: when something is written, to whom something is sent, and what becomes of an answer.

mod bus;
mod bus_keys;
mod nats;
mod wire_form;

pub use bus::{AppendId, BusArrival, BusArrivals, BusError, FleetBus, LogHead, LoggedEntry};
pub use bus_keys::{BusKeys, SecretTooShort};
pub use nats::{
    BusExamination, FoundLog, NatsAccess, NatsBus, NatsEntries, NatsSettings, NatsTls, examine as examine_bus,
};
