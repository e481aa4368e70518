//! Several replicas that are one gateway: what they agree on, who runs which server, and what passes between them.
//!
//! Every replica reads one totally ordered log and folds it into the same state ([`fold`]). An entry names what it expects and is void on
//! every replica where that does not hold ([`entry`]): this fences former owners, drops second copies and makes a batch all or nothing,
//! without comparing clocks. Beats say who is there ([`members`]); suspicion makes a replica claim a server, and the log decides whose it is
//! ([`ownership`]), which commits what it lists ([`offer_commits`]). Whoever changes
//! the set of servers starts what comes, and then writes all of it as one entry ([`registry_commits`]). What is
//! decided under a key is written after what was there ([`decision_commits`]). A list is answered once the end of the log that was asked for
//! after the request is applied ([`index_reads`]); where that could not be had, what was answered is owed once more ([`echoes`]). From time to
//! time one of them keeps the whole state, and who joins begins with that ([`state_keeping`]); it drops lists that were replaced before ([`replaced_lists`]). A request for a server of another replica is an
//! exchange of numbered frames, which is opened once ([`frames`], [`outgoing`], [`incoming`]).
//!
//! Not here: the bus, encoding, encryption and the processes of servers. All of this takes facts and a time, and says what follows.

pub mod decision_commits;
pub mod echoes;
pub mod entry;
pub mod fold;
pub mod frames;
pub mod incoming;
pub mod index_reads;
pub mod members;
pub mod offer_commits;
pub mod outgoing;
pub mod ownership;
pub mod registry_commits;
pub mod replaced_lists;
mod seat_names;
pub mod state_keeping;

use std::sync::Arc;

pub use seat_names::FleetServerName;
use serde::{Deserialize, Serialize};

/// A place in the history that all replicas share. Where the log lost its end and began anew, the generation of the state comes before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct LogSequence(pub u64);

/// One time of owning a server: the sequence of the entry that began it, or zero for a server that nobody owned yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct OwnerEpoch(pub u64);

/// The BLAKE3 hash of content that is kept beside the log, and its name there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct BlobHash(pub [u8; 32]);

impl BlobHash {
    /// The name of this content.
    pub fn of(content: &[u8]) -> Self {
        Self(*blake3::hash(content).as_bytes())
    }
}

/// The configured name of a replica.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub struct ReplicaName(Arc<str>);

impl ReplicaName {
    /// The name as it is written.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for ReplicaName {
    fn from(name: &str) -> Self {
        Self(name.into())
    }
}

impl From<String> for ReplicaName {
    fn from(name: String) -> Self {
        Self(name.into())
    }
}

impl From<ReplicaName> for String {
    fn from(name: ReplicaName) -> Self {
        name.0.as_ref().to_owned()
    }
}

/// One process of a replica. A replica that starts again owns nothing of what its former process owned.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ReplicaId {
    /// The name, which outlives the process.
    pub name: ReplicaName,
    /// Chosen at the start of the process, at random: equal for no two of them.
    pub incarnation: u64,
}
