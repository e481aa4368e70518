//! What people see of the fleet.

use std::sync::atomic::{AtomicU64, Ordering};

use tidings_hub::fleet::ReplicaId;

use super::desk::FleetSettings;

/// How it is with a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplicaState {
    /// It has not read the log to its end yet.
    Joining,
    /// All is well.
    Connected,
    /// What it reads may be older than what clients were told elsewhere.
    Unconfirmed,
    /// It is cut off from the bus: it serves what it has, and commits nothing.
    Isolated,
    /// It ends.
    Leaving,
    /// It was not heard for three seconds.
    Gone,
}

impl ReplicaState {
    /// The word in output.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Joining => "joining",
            Self::Connected => "connected",
            Self::Unconfirmed => "unconfirmed",
            Self::Isolated => "isolated",
            Self::Leaving => "leaving",
            Self::Gone => "gone",
        }
    }
}

/// One replica.
#[derive(Clone, Debug)]
pub struct ReplicaShown {
    /// Its name.
    pub name: String,
    /// Its process.
    pub incarnation: u64,
    /// How it is.
    pub state: ReplicaState,
    /// How far it has read the log.
    pub applied: u64,
    /// Whether it has the configuration that is in force.
    pub has_config: bool,
    /// The servers it owns.
    pub servers: Vec<String>,
    /// Whether it is this one.
    pub is_this: bool,
}

/// The fleet, as this replica sees it.
#[derive(Clone, Debug)]
pub struct FleetShown {
    /// The name of the cluster.
    pub name: String,
    /// The end of the log, as far as it is known.
    pub head: u64,
    /// What is wrong with the log, if anything is.
    pub trouble: Option<String>,
    /// The replicas, by name.
    pub replicas: Vec<ReplicaShown>,
    /// What was counted.
    pub counts: FleetCounted,
}

/// What was counted of the fleet.
#[derive(Clone, Copy, Debug, Default)]
pub struct FleetCounted {
    /// Lists that were answered without knowing the end of the log.
    pub unconfirmed: u64,
    /// Echoes that were applied.
    pub echoes: u64,
    /// Entries that were void.
    pub void: u64,
    /// Requests that went to another replica.
    pub forwarded: u64,
    /// Of these, requests that certainly did not run.
    pub not_run: u64,
    /// Of these, requests that may have run and have no answer.
    pub lost: u64,
    /// Requests of other replicas that were carried out here.
    pub carried: u64,
}

#[derive(Debug, Default)]
pub(super) struct FleetCounts {
    pub(super) unconfirmed: AtomicU64,
    pub(super) echoes: AtomicU64,
    pub(super) void: AtomicU64,
    pub(super) forwarded: AtomicU64,
    pub(super) not_run: AtomicU64,
    pub(super) lost: AtomicU64,
    pub(super) carried: AtomicU64,
}

impl FleetCounts {
    pub(super) fn read(&self) -> FleetCounted {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        FleetCounted {
            unconfirmed: read(&self.unconfirmed),
            echoes: read(&self.echoes),
            void: read(&self.void),
            forwarded: read(&self.forwarded),
            not_run: read(&self.not_run),
            lost: read(&self.lost),
            carried: read(&self.carried),
        }
    }
}

impl FleetShown {
    /// Whether this replica is cut off from the bus.
    pub(super) fn is_isolated(&self) -> bool {
        self.replicas.iter().any(|replica| replica.is_this && replica.state == ReplicaState::Isolated)
    }

    /// Before anything was read.
    pub(super) fn joining(settings: &FleetSettings, me: &ReplicaId) -> Self {
        let this = ReplicaShown {
            name: me.name.as_str().to_owned(),
            incarnation: me.incarnation,
            state: ReplicaState::Joining,
            applied: 0,
            has_config: false,
            servers: Vec::new(),
            is_this: true,
        };
        Self {
            name: settings.name.clone(),
            head: 0,
            trouble: None,
            replicas: vec![this],
            counts: FleetCounted::default(),
        }
    }
}
