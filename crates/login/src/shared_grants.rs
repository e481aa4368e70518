//! Grants that the replicas of a cluster share: what stands in their log, and what each replica knows of it.
//!
//! Under a key for each grant the log keeps one value: the grant with its tokens, or that a person has to log in. All replicas are told of each
//! value in one order, and their keepers follow it. A renewal is claimed in the log before a provider is asked (`keeper/claims`), so a refresh token is
//! sent by one replica alone. Grants of machines are not shared: each replica gets its own.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use ring::digest::{SHA256, digest};
use serde::{Deserialize, Serialize};
use tidings_hub::fleet::decision_commits::DecisionBase;
use tidings_hub::grant_keeper::LoginReason;
use tidings_sync::Lock;
use tokio::sync::SetOnce;

use crate::grant_record::GrantRecord;
use crate::keeper::{Keeper, KeeperShared};

/// How long somebody who needs the log waits until there is one: the gateway is just being started.
const ATTACHED_WITHIN: Duration = Duration::from_secs(3);
/// Of so many milliseconds, how long a replica lets others go first when only the clock asks for a renewal.
const STAGGER: u64 = 4_096;

/// What came of writing a grant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GrantWritten {
    /// It stands in the log, and this replica was told of it.
    Applied,
    /// Something else stands there than it was to come after.
    Overtaken,
    /// Nothing was written, and why not.
    Refused(String),
    /// It may be in the log, or come to be.
    Unknown,
}

/// The log of the replicas. Whoever implements it tells [`Logins`](crate::Logins) of every value, in the order of the log.
pub trait GrantLog: Send + Sync {
    /// This process.
    fn process(&self) -> u64;

    /// Writes the value of a key, or takes it away.
    fn write<'l>(&'l self, subject: &'l str, base: DecisionBase, value: Option<Bytes>) -> BoxFuture<'l, GrantWritten>;

    /// Waits until everything was told that stands in the log at this moment. `false`: that could not be known.
    fn confirm(&self) -> BoxFuture<'_, bool>;

    /// Whether a process has ended, as far as is known.
    fn is_gone(&self, process: u64) -> bool;
}

/// What stands under the key of a grant.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct SharedGrant {
    pub(crate) server: String,
    pub(crate) address: String,
    pub(crate) person: Option<String>,
    /// The process that wrote it.
    pub(crate) by: u64,
    pub(crate) state: SharedGrantState,
}

#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum SharedGrantState {
    Granted {
        record: Box<GrantRecord>,
        /// Whether the writer is about to renew it: nobody else may.
        claimed: bool,
        /// Why it could not be renewed, where that was tried.
        fault: Option<String>,
    },
    Needed {
        reason: NeedReason,
        fault: Option<String>,
    },
}

/// [`LoginReason`], as it is written.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum NeedReason {
    Never,
    Rejected,
    Ended,
    FreshRefused,
}

impl From<LoginReason> for NeedReason {
    fn from(reason: LoginReason) -> Self {
        match reason {
            // What can not be read is not shared.
            LoginReason::Never | LoginReason::Unreadable => Self::Never,
            LoginReason::Rejected => Self::Rejected,
            LoginReason::Ended => Self::Ended,
            LoginReason::FreshRefused => Self::FreshRefused,
        }
    }
}

impl From<NeedReason> for LoginReason {
    fn from(reason: NeedReason) -> Self {
        match reason {
            NeedReason::Never => Self::Never,
            NeedReason::Rejected => Self::Rejected,
            NeedReason::Ended => Self::Ended,
            NeedReason::FreshRefused => Self::FreshRefused,
        }
    }
}

impl SharedGrant {
    fn is_of(&self, server: &str, address: &str) -> bool {
        self.server == server && self.address == address
    }
}

/// What this replica knows of the log.
pub(crate) struct SharedGrants {
    /// Another number in each process.
    seed: u64,
    log: SetOnce<Arc<dyn GrantLog>>,
    known: Lock<KnownGrants>,
}

#[derive(Default)]
struct KnownGrants {
    /// All that stands in the log: a server may be configured, or a person come, after it was read.
    values: BTreeMap<String, ToldGrant>,
    keepers: HashMap<String, Weak<KeeperShared>>,
}

#[derive(Clone)]
struct ToldGrant {
    n: u64,
    grant: Arc<SharedGrant>,
}

/// The key of a grant: names may be longer than what a key may have.
pub(crate) fn subject(place: &str) -> String {
    digest(&SHA256, place.as_bytes()).as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

impl SharedGrants {
    pub(crate) fn new() -> Self {
        let mut seed = [0; 8];
        // Without random numbers nothing in the process would be safe.
        getrandom::fill(&mut seed).expect("the system has random numbers");
        Self { seed: u64::from_le_bytes(seed), log: SetOnce::new(), known: Lock::default() }
    }

    /// How long this process lets others go first: another time for each process and each grant.
    pub(crate) fn stagger(&self, subject: &str) -> Duration {
        let hash = digest(&SHA256, format!("{subject} {}", self.seed).as_bytes());
        let two = hash.as_ref().first_chunk::<2>().copied().unwrap_or_default();
        Duration::from_millis(u64::from(u16::from_be_bytes(two)) % STAGGER)
    }

    pub(crate) fn attach(&self, log: Arc<dyn GrantLog>) {
        let _ = self.log.set(log);
    }

    /// This process, once it has joined the others.
    pub(crate) fn process(&self) -> Option<u64> {
        self.log.get().map(|log| log.process())
    }

    /// Waits until everything was told that stands in the log at this moment, if that can be known.
    pub(crate) async fn confirm(&self) -> bool {
        match tokio::time::timeout(ATTACHED_WITHIN, self.log.wait()).await {
            Ok(log) => log.confirm().await,
            Err(_) => false,
        }
    }

    pub(crate) async fn write(&self, subject: &str, base: DecisionBase, grant: Option<&SharedGrant>) -> GrantWritten {
        let Some(log) = self.log.get() else {
            return GrantWritten::Refused("this replica does not know the others yet".to_owned());
        };
        let value = match grant.map(serde_json::to_vec).transpose() {
            Ok(value) => value.map(Bytes::from),
            Err(_) => return GrantWritten::Refused("the grant can not be written".to_owned()),
        };
        log.write(subject, base, value).await
    }

    pub(crate) fn is_gone(&self, process: u64) -> bool {
        self.log.get().is_some_and(|log| log.is_gone(process))
    }

    /// A keeper follows its grant from here on.
    pub(crate) fn join(&self, keeper: &Keeper) {
        let mut known = self.known.lock();
        // Under the lock: between the two, what is told would reach neither.
        if let Some(told) = known.values.get(keeper.subject()).cloned() {
            keeper.told(told.n, Some(&told.grant));
        }
        known.keepers.retain(|_, keeper| keeper.strong_count() > 0);
        known.keepers.insert(keeper.subject().to_owned(), keeper.downgrade());
    }

    /// The log says this of a grant. Gives its keeper, if there is one, and what is said; and what was said before, where it is nothing now.
    pub(crate) fn told(&self, subject: &str, value: Option<(u64, &[u8])>) -> Option<ToldKeeper> {
        let read = value.map(|(n, value)| (n, serde_json::from_slice::<SharedGrant>(value)));
        let mut known = self.known.lock();
        let told = match read {
            Some((n, Ok(grant))) => Some(ToldGrant { n, grant: Arc::new(grant) }),
            Some((_, Err(_))) => {
                tracing::error!("a login in the log can not be read: another version of the gateway wrote it");
                return None;
            }
            None => None,
        };
        let before = match &told {
            Some(told) => known.values.insert(subject.to_owned(), told.clone()),
            None => known.values.remove(subject),
        };
        let about = told.as_ref().or(before.as_ref()).map(|told| Arc::clone(&told.grant))?;
        let keeper = known.keepers.get(subject).and_then(Weak::upgrade).map(Keeper::from);
        let has_moved = keeper.as_ref().is_some_and(|keeper| match &told {
            Some(told) => keeper.told(told.n, Some(&told.grant)),
            None => keeper.told(0, None),
        });
        let is_granted = |told: &Option<ToldGrant>| {
            told.as_ref().is_some_and(|told| matches!(told.grant.state, SharedGrantState::Granted { .. }))
        };
        let is_other = is_granted(&before) != is_granted(&told);
        let is_own = told.as_ref().is_some_and(|told| Some(told.grant.by) == self.process());
        Some(ToldKeeper { about, has_moved, is_other, is_own })
    }

    /// The people who are logged in to a server for themselves.
    pub(crate) fn people(&self, server: &str, address: &str) -> BTreeSet<String> {
        let known = self.known.lock();
        let granted = known.values.values().filter(|told| {
            told.grant.is_of(server, address) && matches!(told.grant.state, SharedGrantState::Granted { .. })
        });
        granted.filter_map(|told| told.grant.person.clone()).collect()
    }
}

/// What became of a value that was told.
pub(crate) struct ToldKeeper {
    /// The value; where there is none any more, the last one.
    pub(crate) about: Arc<SharedGrant>,
    /// Whether the keeper, of somebody who had to log in, has a token now, or the other way round.
    pub(crate) has_moved: bool,
    /// The same of what the log said before.
    pub(crate) is_other: bool,
    /// Whether this process wrote it.
    pub(crate) is_own: bool,
}
