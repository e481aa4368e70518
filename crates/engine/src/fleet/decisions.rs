//! What the replicas decide together, beside the servers: one value under each key, the last that was written, the same at every replica.
//!
//! A key is a [`DecisionKind`] and a subject of at most [`LONGEST_SUBJECT`] bytes: the path of a webhook, a server and its item, a person. A value is
//! up to [`LONGEST_DECISION`] bytes, which are sealed like everything on the bus; a kind has up to [`MOST_DECISIONS`] of them. [`FleetDecisions::write`] puts
//! the next value after the one that was looked at, or after whatever is there ([`DecisionBase`]), and `None` takes it away. What it answers is
//! true: [`Applied`](DecisionOutcome::Applied) is said once the value can be read here, and elsewhere by whoever reads after an index
//! ([`FleetDecisions::confirm`], as every list does); [`Unknown`](DecisionOutcome::Unknown) also where it holds and can not be read here in
//! time. A value that failed to come after the one that was looked at changed nothing.
//!
//! Whoever acts on values registers a [`DecisionFollower`] for a kind. It is told of each value in the order of the log, with its bytes, at
//! every replica, also at the one that wrote it; of those that are there when the replica starts or the follower comes, too. Nothing that is
//! read after an index is answered before its follower was told. A value that has a next one before its bytes were here is passed over:
//! a follower hears states, and not how they came about.
//!
//! Decisions are written once the beats of all replicas speak format 3. While one does not, [`Refused`](DecisionOutcome::Refused) says so, and
//! nothing is written; what was decided before is still read and told. A replica of format 2 reads values without telling anybody, and stops at
//! the first one that was taken away: it is then not ready, and says why.
//!
//! Not here: what a value means, and who may decide.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use tidings_hub::fleet::decision_commits::DecisionBase;
use tidings_hub::fleet::entry::{DecisionKey, DecisionKind};
use tokio::sync::oneshot;

use super::desk::{FleetDesk, FleetWish};

/// The longest subject of a key, in bytes.
pub const LONGEST_SUBJECT: usize = 512;
/// The longest value, in bytes.
pub const LONGEST_DECISION: usize = 2 << 20;
/// How many keys of a kind may have a value. Replicas that write at the same moment may exceed it by what each of them writes.
pub const MOST_DECISIONS: usize = 65_536;

/// Why nothing can be decided or read without a bus.
pub(super) const NOT_CONNECTED: &str = "this replica is not connected to the others";

/// How often a value is looked for again that had a next one while it was fetched.
const LOOKS: usize = 8;

/// A value, as it stands under its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decided {
    /// Its number, which only rises under a key. Not one more than that of the value before it where the key had none in between.
    pub n: u64,
    /// The value.
    pub value: Bytes,
}

/// What came of a decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DecisionOutcome {
    /// It is the value of this number, or the key has none any more; followers here were told.
    Applied(u64),
    /// Something else is there than it was to come after, and what. Nothing was changed.
    Overtaken(Option<Decided>),
    /// Nothing was written, since the replicas can not agree at the moment, and why not (503).
    Refused(String),
    /// It may hold, or come to: nobody knows (503).
    Unknown,
    /// It can not be written at all, and why not.
    TooLarge(String),
}

/// Is told of what is decided.
pub trait DecisionFollower: Send + Sync {
    /// A subject has this value now, or none any more. Called in the order of the log, one at a time, by the task that reads the log: it must not
    /// block, and what takes time goes elsewhere. It may be told of a value once more when it comes while the log is read.
    fn decided(&self, subject: &str, decided: Option<&Decided>);
}

/// What the driver is asked for.
pub(crate) enum DecisionWish {
    Write(WrittenDecision),
    Read(DecisionKey, oneshot::Sender<ReadDecision>),
    Subjects(DecisionKind, oneshot::Sender<Vec<(String, u64)>>),
    Follow(DecisionKind, Arc<dyn DecisionFollower>),
}

/// A decision that is to be written.
pub(crate) struct WrittenDecision {
    pub(crate) key: DecisionKey,
    pub(crate) base: DecisionBase,
    pub(crate) value: Option<Bytes>,
    pub(crate) done: oneshot::Sender<DecisionOutcome>,
}

/// What was found under a key.
pub(crate) enum ReadDecision {
    Found(Option<Decided>),
    /// Its content was gone: it has a next one.
    Moved,
}

/// The decisions of a cluster, for whoever makes them, reads them or acts on them.
#[derive(Clone)]
pub struct FleetDecisions(Arc<FleetDesk>);

impl fmt::Debug for FleetDecisions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("FleetDecisions").field(&self.0.me).finish()
    }
}

impl FleetDecisions {
    pub(crate) fn new(desk: Arc<FleetDesk>) -> Self {
        Self(desk)
    }

    /// Writes the next value under a key, or takes it away, and waits until that is applied here or it is known that it will not be. Dropped, it
    /// may still be written.
    pub async fn write(
        &self,
        kind: DecisionKind,
        subject: &str,
        base: DecisionBase,
        value: Option<Bytes>,
    ) -> DecisionOutcome {
        let too_large = |what: &str, size: usize, most: usize| {
            DecisionOutcome::TooLarge(format!("{what} has {size} bytes, of which {most} may be decided at once"))
        };
        let size = value.as_ref().map_or(0, Bytes::len);
        if subject.len() > LONGEST_SUBJECT {
            return too_large("the name", subject.len(), LONGEST_SUBJECT);
        }
        if size > LONGEST_DECISION {
            return too_large("the value", size, LONGEST_DECISION);
        }
        let key = DecisionKey { kind, subject: subject.to_owned() };
        let (done, heard) = oneshot::channel();
        let wish = WrittenDecision { key, base, value, done };
        if self.0.wishes.send(FleetWish::Decisions(DecisionWish::Write(wish))).await.is_err() {
            return DecisionOutcome::Refused(NOT_CONNECTED.to_owned());
        }
        // The driver ended with it under way: it may be in the log.
        heard.await.unwrap_or(DecisionOutcome::Unknown)
    }

    /// What is applied here under a key. The error says why its content can not be had at the moment.
    pub async fn read(&self, kind: DecisionKind, subject: &str) -> Result<Option<Decided>, String> {
        for _ in 0..LOOKS {
            let (done, heard) = oneshot::channel();
            let key = DecisionKey { kind, subject: subject.to_owned() };
            match self.ask(DecisionWish::Read(key, done), heard).await {
                Some(ReadDecision::Found(found)) => return Ok(found),
                Some(ReadDecision::Moved) => {}
                None => return Err(NOT_CONNECTED.to_owned()),
            }
        }
        Err("its content can not be read from the bus".to_owned())
    }

    /// The subjects that have a value here, with its number.
    pub async fn subjects(&self, kind: DecisionKind) -> Vec<(String, u64)> {
        let (done, heard) = oneshot::channel();
        self.ask(DecisionWish::Subjects(kind, done), heard).await.unwrap_or_default()
    }

    /// Waits until what is applied here is as new as what was decided anywhere. `false`: that could not be known.
    pub async fn confirm(&self) -> bool {
        self.0.confirm().await
    }

    /// Tells somebody of all decisions of a kind, those that are there first. There is one for each kind; a second one is not told.
    pub async fn follow(&self, kind: DecisionKind, follower: Arc<dyn DecisionFollower>) {
        self.0.followers.lock().entry(kind).or_insert_with(|| Arc::clone(&follower));
        // While there is no driver yet it is forgotten, and the driver begins with those who are there.
        let _ = self.0.wishes.send(FleetWish::Decisions(DecisionWish::Follow(kind, follower))).await;
    }

    async fn ask<T>(&self, wish: DecisionWish, heard: oneshot::Receiver<T>) -> Option<T> {
        self.0.wishes.send(FleetWish::Decisions(wish)).await.ok()?;
        heard.await.ok()
    }
}
