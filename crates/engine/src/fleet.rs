//! Several replicas that are one gateway: the machines of `hub/fleet`, driven over the bus of `cluster`.
//!
//! Without `[cluster]` nothing of this runs: the runtime has no [`FleetDesk`], and that is looked at once per listing and per link. With it, one
//! task ([`driver`]) owns all machines; everybody else speaks to it through the desk. A server that another replica owns is reached over a
//! [`forward_link`]: for this replica the owner is a modern server, for the owner this replica is a modern client that asks for one server
//! alone ([`carried`], ADR 84).
//!
//! Not here: what the machines decide (`hub/fleet`), and how the bus carries it (`cluster`).

pub(crate) mod approval_form;
pub(crate) mod carried;
pub(crate) mod decisions;
pub(crate) mod desk;
pub(crate) mod driver;
mod examination;
pub(crate) mod forward_link;
mod log_reader;
pub(crate) mod offer_form;
pub(crate) mod set_change;
mod shown;
mod watch_seats;

pub(crate) use carried::vouch;
pub use decisions::{
    Decided, DecisionFollower, DecisionOutcome, FleetDecisions, LONGEST_DECISION, LONGEST_SUBJECT, MOST_DECISIONS,
};
pub(crate) use desk::{FleetDesk, FleetSeat};
pub use desk::{FleetSettings, ForwardedAnswer, ForwardedHttp, HttpEnd, HttpPiece};
pub use set_change::{KeptStep, LoggedChange, SetFollower};
pub use shown::{FleetShown, ReplicaShown, ReplicaState};
pub use tidings_cluster::{BusError, BusExamination, FoundLog, NatsAccess, NatsTls};
pub use tidings_hub::fleet::decision_commits::DecisionBase;
pub use tidings_hub::fleet::entry::DecisionKind;
pub use watch_seats::{FleetWatches, SeatedWatch, WatchHost, WatchSeat, WatchSeats};

use tidings_hub::fleet::BlobHash;
use tidings_hub::fleet::entry::{IsolationRule, PlacedServer};

use crate::plan::ServerPlan;

/// A server as the log names it: where it may run, and a hash of what it is.
pub(crate) fn placed(plan: &ServerPlan) -> PlacedServer {
    let mut definition = format!("{:?}", (&plan.identity, plan.isolation, plan.source.transport()));
    // Replicas that hold by different rules would show different things. Files without it have the hash that they had before there was this.
    if let Some(approval) = &plan.approval {
        definition.push_str(&format!("{:?}", approval.policy));
    }
    PlacedServer {
        name: plan.name.as_str().into(),
        definition: BlobHash::of(definition.as_bytes()),
        placement: plan.placement.labels.clone(),
        on_isolation: match plan.placement.stops_alone {
            true => IsolationRule::Stop,
            false => IsolationRule::Keep,
        },
    }
}
