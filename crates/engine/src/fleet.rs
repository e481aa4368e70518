//! Several replicas that are one gateway: the machines of `hub/fleet`, driven over the bus of `cluster`.
//!
//! Without `[cluster]` nothing of this runs: the runtime has no [`FleetDesk`], and that is looked at once per listing and per link. With it, one
//! task ([`driver`]) owns all machines; everybody else speaks to it through the desk. A server that another replica owns is reached over a
//! [`forward_link`]: for this replica the owner is a modern server, for the owner this replica is a modern client that asks for one server
//! alone ([`carried`], ADR 84).
//!
//! Not here: what the machines decide (`hub/fleet`), and how the bus carries it (`cluster`).

pub(crate) mod carried;
pub(crate) mod desk;
pub(crate) mod driver;
mod driver_exchanges;
mod driver_offers;
pub(crate) mod forward_link;
mod log_reader;
pub(crate) mod offer_form;
mod shown;

pub(crate) use carried::vouch;
pub(crate) use desk::{FleetDesk, FleetSeat};
pub use desk::{FleetSettings, ForwardedAnswer, ForwardedHttp, HttpEnd, HttpPiece};
pub use shown::{FleetShown, ReplicaShown, ReplicaState};
