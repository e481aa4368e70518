//! What the log holds.
//!
//! Entries cross processes and versions: a member is only ever added with a default, and a new kind is written when all replicas read it.

use serde::{Deserialize, Serialize};

use super::{BlobHash, FleetServerName, LogSequence, OwnerEpoch, ReplicaId};

/// One entry. What it expects of the state stands in it; see [`VoidReason`](super::fold::VoidReason).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum FleetEntry {
    /// A server changes hands, if its epoch is still the one named.
    Own {
        /// The server.
        server: FleetServerName,
        /// The epoch that this one ends.
        epoch: OwnerEpoch,
        /// The next owner; `None` if the former gives it up, and its process has ended.
        replica: Option<ReplicaId>,
    },
    /// What a server lists, by its owner.
    Offer {
        /// The server.
        server: FleetServerName,
        /// The epoch in which it was listed.
        epoch: OwnerEpoch,
        /// One more than that of the offer before it in this epoch: a second copy is void.
        n: u64,
        /// The lists.
        offer: OfferRecord,
    },
    /// A change of the registered servers: all of it, or nothing.
    Registry {
        /// The version of the set that this makes.
        version: u64,
        /// Who writes it.
        by: ReplicaId,
        /// The number of the change within that process; copies have the same.
        number: u64,
        /// What changes.
        steps: Vec<RegistryStep>,
    },
    /// The servers of the configuration file, once more than half of the replicas have that file.
    Plan {
        /// The version of the set that this makes.
        version: u64,
        /// The hash of the configuration.
        config: BlobHash,
        /// All servers of the file.
        servers: Vec<PlacedServer>,
    },
    /// The next value under a key: a body of a webhook, an approval, a grant, a token.
    Decide {
        /// Under which key.
        key: DecisionKey,
        /// One more than that of the value before it.
        n: u64,
        /// The value, as content beside the log.
        value: BlobHash,
        /// Which writing this is; copies have the same.
        #[serde(default)]
        writing: Option<DecisionWriting>,
    },
    /// A key has no value any more.
    Withdraw {
        /// Which key.
        key: DecisionKey,
        /// One more than that of its value.
        n: u64,
        /// Which writing this is; copies have the same.
        writing: DecisionWriting,
    },
    /// Lists may have been answered without the changes after `from`, up to `to`: whoever was told of those is told once more.
    Echo {
        /// The sequence that was answered with.
        from: LogSequence,
        /// The end of the log when that was over.
        to: LogSequence,
    },
    /// The log begins, or begins anew after it lost entries that replicas had read.
    Genesis {
        /// More than the generation before it.
        generation: u64,
        /// The sequence of this entry.
        base: LogSequence,
        /// The state, as content beside the log.
        state: BlobHash,
    },
}

/// The lists of one server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OfferRecord {
    /// The hash of what clients can see of it: equal for equal lists.
    pub content: BlobHash,
    /// Where the lists are.
    pub blobs: Vec<BlobHash>,
    /// The row of the change feed.
    pub record: Vec<u8>,
}

/// A step of a registry change. What is configured and what runs are two things: a server may be kept and switched off.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "step", rename_all = "snake_case")]
pub enum RegistryStep {
    /// A server that is added at run time is kept, or described otherwise than before.
    Keep {
        /// The server.
        server: PlacedServer,
        /// Whether it runs unless it is switched.
        on: bool,
    },
    /// One that was added is not kept any more.
    Forget {
        /// Its name.
        server: FleetServerName,
    },
    /// Whether a server is on, decided by hand; `None`: its configuration decides.
    Switch {
        /// Its name.
        server: FleetServerName,
        /// On or off.
        on: Option<bool>,
    },
    /// A server runs from here on, or another definition takes its place.
    Put {
        /// The server.
        server: PlacedServer,
        /// Whether it stands in the configuration file.
        from_file: bool,
        /// Who started it to see that it does; it owns it from here on.
        owner: ReplicaId,
        /// What it lists; `None` where it is there and can not be listed yet.
        offer: Option<OfferRecord>,
    },
    /// A server does not run any more.
    Remove {
        /// Its name.
        server: FleetServerName,
    },
}

/// A server that there should be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlacedServer {
    /// Its name.
    pub name: FleetServerName,
    /// Its definition, as content beside the log.
    pub definition: BlobHash,
    /// Labels that its replica must have.
    pub placement: Vec<String>,
    /// What its owner does with it while it can not know whether it still is the owner.
    pub on_isolation: IsolationRule,
}

/// What becomes of a server whose owner lost sight of the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IsolationRule {
    /// It goes on for the clients of its replica, and commits nothing.
    #[default]
    Keep,
    /// It is ended, so that there is never a second one.
    Stop,
}

/// Tells what one replica writes under a key from what another one writes at the same moment, also if both write the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DecisionWriting {
    /// Who writes it.
    pub by: ReplicaId,
    /// The number of the writing within that process.
    pub number: u64,
}

/// A value of which the log keeps the last.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct DecisionKey {
    /// What kind of value.
    pub kind: DecisionKind,
    /// Of what: a path, a server and its item, a principal.
    pub subject: String,
}

/// The kinds of values that the log keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DecisionKind {
    /// The last body of a webhook.
    Hook,
    /// What somebody approved.
    Approve,
    /// A grant of a login, sealed.
    Grant,
    /// A token of the gateway's own, sealed.
    Token,
}
