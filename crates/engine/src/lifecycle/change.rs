//! Changing the set of servers while everything runs: all or nothing, one commit.
//!
//! New servers start with nothing locked, side by side with other changes; only planning and the commit are one at a time. What
//! was checked before the start is checked again before the commit.

pub(crate) mod in_fleet;
mod transaction;

use std::collections::HashMap;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use tidings_hub::ServerId;
use tidings_hub::catalogue::ServerOffer;
use tidings_upstream::{LinkError, PullProgress};
use tokio_util::sync::CancellationToken;

use super::ServerLifecycle;
use crate::fleet::FleetSeat;
use crate::observe::audit::AuditedDecision;
use crate::plan::{ServerPlan, Source};
use crate::servers::presence::Removal;
use crate::servers::server::Server;
use transaction::Transaction;

/// One change of the set of servers.
#[derive(Clone, Debug)]
pub enum Operation {
    /// A server that is to be there. One of the same name is replaced by it: the new one is started first. Whoever asks
    /// knows that it differs: an equal plan is started again all the same.
    Put {
        /// What is to run.
        plan: Box<ServerPlan>,
        /// What becomes of the change if it does not start.
        start: Start,
    },
    /// A server that is to be there no longer.
    Remove {
        /// Its configured name.
        name: String,
    },
}

/// What becomes of a change when a server does not start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// Nothing happens at all (servers added at run time).
    MustSucceed,
    /// The server is there as failing, and is tried again (servers of the configuration file).
    MayFail,
}

/// Which part of public names two servers share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prefix {
    /// What stands before `__` in names.
    Name,
    /// What stands before `+` in URIs.
    Uri,
}

/// What whoever asks for a change knows of it. An object, since its futures pass through tasks of others.
pub trait AgreedChange: Send + Sync {
    /// Whether it is still what was asked for, with all that is in the log by now.
    fn check(&self) -> BoxFuture<'_, Result<(), ChangeError>>;
    /// It is in the log, and about to be shown.
    fn settle(&self) -> BoxFuture<'_, ()>;
}

/// Why nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChangeError {
    /// One name stands in two operations.
    #[error("server \"{name}\" is named twice in one change")]
    Twice {
        /// The name that stands twice.
        name: String,
    },
    /// The servers of the files of a cluster are in force when most replicas started with them.
    #[error(
        "the servers in the configuration files of a cluster do not change while it runs; change the file of every replica and \
         restart them one after the other, or use `tidings add` and `tidings remove`, which change all replicas at once"
    )]
    InCluster,
    /// The replica can not agree with the others at the moment.
    #[error(
        "nothing was changed, because the replicas can not agree at the moment: {0}; try again, or at another replica"
    )]
    Isolated(String),
    /// It was written, and nobody knows whether it holds.
    #[error(
        "the bus of the cluster did not answer, so it is not known whether this was changed; `tidings servers` shows it once \
         the replica is connected again"
    )]
    Unanswered,
    /// There is no such server.
    #[error("there is no server \"{name}\"")]
    Unknown {
        /// The name that was asked for.
        name: String,
    },
    /// Another replica runs it.
    #[error("server \"{name}\" is run by replica \"{replica}\"; restart it there")]
    Elsewhere {
        /// The configured name of the server.
        name: String,
        /// Who runs it.
        replica: String,
    },
    /// Its public names could not be told from another's.
    #[error(
        "server \"{name}\" would share the prefix \"{prefix}\" with server \"{other}\"; give one of them another `prefix`"
    )]
    Clash {
        /// The server that is to be added.
        name: String,
        /// The one that is there, or is added too.
        other: String,
        /// The prefix that both would have.
        prefix: String,
        /// Whether it is the prefix of names or that of URIs.
        kind: Prefix,
    },
    /// It did not start, or could not be listed.
    #[error("server \"{name}\" {error}")]
    Failed {
        /// The configured name of the server.
        name: String,
        /// What happened, with the server's own last words where there are any.
        error: LinkError,
    },
    /// It took too long to start and to list what it has.
    #[error("server \"{name}\" did not start within {seconds} s{}", words(.last_words))]
    Late {
        /// The configured name of the server.
        name: String,
        /// How long it was given, in seconds.
        seconds: u64,
        /// The end of its standard error.
        last_words: Option<String>,
    },
    /// Another change of the same server was committed meanwhile.
    #[error("server \"{name}\" was changed by somebody else meanwhile; try again")]
    Overtaken {
        /// The configured name of the server.
        name: String,
    },
    /// Whoever asked for it no longer wants it.
    #[error("the change was cancelled")]
    Cancelled,
    /// Everything was ready, but whoever asked could not keep it.
    #[error("{0}")]
    Withheld(String),
    /// Whoever reviewed it does not want it.
    #[error("{0}")]
    Declined(String),
    /// The gateway ends: what was started for the change is ended with it.
    #[error("the gateway is stopping")]
    Stopping,
}

fn words(words: &Option<String>) -> String {
    words.as_ref().map(|words| format!("; its last words: {words}")).unwrap_or_default()
}

/// Which id each name has, for the life of the process.
pub(crate) struct ServerIds {
    /// By name, and whether it is part of the program.
    known: HashMap<(String, bool), ServerId>,
    next: u32,
}

impl ServerIds {
    pub(crate) fn new(servers: &[Arc<Server>]) -> Self {
        let known = servers.iter().map(|server| ((server.plan.name.clone(), server.plan.is_built_in()), server.id));
        // Out of reach; saturating keeps the arithmetic free of panics.
        Self { known: known.collect(), next: u32::try_from(servers.len()).unwrap_or(u32::MAX) }
    }

    /// The id of a server that may come to be.
    fn of(&mut self, plan: &ServerPlan) -> ServerId {
        let known = self.known.get(&(plan.name.clone(), plan.is_built_in()));
        // Not kept yet: a change that is undone must not use up the name.
        known.copied().unwrap_or_else(|| {
            let id = ServerId(self.next);
            self.next = self.next.saturating_add(1);
            id
        })
    }

    /// It has come to be.
    fn keep(&mut self, server: &Server) {
        self.known.insert((server.plan.name.clone(), server.plan.is_built_in()), server.id);
    }
}

/// What a server offers that is about to come, beside what the one offers whose place it takes.
#[derive(Clone, Debug)]
pub struct OfferReview {
    /// What clients can see now; `None` where there is no such server.
    pub before: Option<Arc<ServerOffer>>,
    /// What it listed; `None` where it is not ready.
    pub after: Option<Arc<ServerOffer>>,
}

/// What is told of a change.
fn decision(operations: &[Operation]) -> AuditedDecision {
    let (mut put, mut removed) = (Vec::new(), Vec::new());
    for operation in operations {
        match operation {
            Operation::Put { plan, .. } => put.push(plan.name.clone()),
            Operation::Remove { name } => removed.push(name.clone()),
        }
    }
    AuditedDecision::Servers { put, removed }
}

impl ServerLifecycle {
    /// Changes the set of servers, all of it or nothing. `keep` is asked when nothing else can fail any more, just before the commit,
    /// and one at a time. Before that `review` sees what comes beside what is there; it may take its time, since nothing is locked.
    /// Until `keep` whoever rings `cancelled` undoes everything.
    pub(crate) async fn change_if(
        self: &Arc<Self>,
        operations: Vec<Operation>,
        cancelled: &CancellationToken,
        review: impl AsyncFnOnce(Vec<OfferReview>) -> Result<(), ChangeError>,
        keep: impl AsyncFnOnce() -> Result<(), ChangeError>,
    ) -> Result<(), ChangeError> {
        // What else a file says is a matter of each replica.
        if self.runtime.fleet.is_some() && !operations.is_empty() {
            return Err(ChangeError::InCluster);
        }
        let decided = decision(&operations);
        let transaction = self.begin_change(operations, cancelled, review).await?;
        // Held until the commit, over the write to the store: two changes must not both pass the check.
        let mut ids = self.changing.lock().await;
        let kept = match transaction.check_again() {
            // Somebody may have gone away while the lock was waited for.
            Ok(()) if cancelled.is_cancelled() => Err(ChangeError::Cancelled),
            Ok(()) => keep().await,
            Err(error) => Err(error),
        };
        match kept {
            Ok(()) => {
                transaction.commit(&mut ids);
                self.record(decided);
                Ok(())
            }
            Err(error) => {
                // What has to end may take its time; others need not wait for it.
                drop(ids);
                transaction.undo().await;
                Err(error)
            }
        }
    }

    fn record(&self, decided: AuditedDecision) {
        if let Some(audit) = &self.runtime.audit {
            audit.decision(decided);
        }
    }

    /// Starts what comes, and lets it be reviewed. What fails has left nothing behind.
    async fn begin_change(
        self: &Arc<Self>,
        operations: Vec<Operation>,
        cancelled: &CancellationToken,
        review: impl AsyncFnOnce(Vec<OfferReview>) -> Result<(), ChangeError>,
    ) -> Result<Transaction<'_>, ChangeError> {
        let mut transaction = {
            // Only for the plan; the start below may take a minute and holds no lock (edges F4).
            let mut ids = self.changing.lock().await;
            Transaction::plan(self, &mut ids, operations)?
        };
        let ready = tokio::select! {
            // The end of the gateway and the wish of whoever asked go before a start that is ready just now.
            biased;
            () = self.runtime.stop.cancelled() => Err(ChangeError::Stopping),
            () = cancelled.cancelled() => Err(ChangeError::Cancelled),
            ready = transaction.start() => ready,
        };
        let ready = match ready {
            Ok(()) => tokio::select! {
                biased;
                () = self.runtime.stop.cancelled() => Err(ChangeError::Stopping),
                () = cancelled.cancelled() => Err(ChangeError::Cancelled),
                reviewed = review(transaction.reviewed()) => reviewed,
            },
            Err(error) => Err(error),
        };
        if let Err(error) = ready {
            // Awaited: when the caller hears of the failure, nothing that was started is left.
            transaction.undo().await;
            return Err(error);
        }
        Ok(transaction)
    }

    /// Gets what a server needs before it can be started, such as the image of a container. This may take minutes, for which
    /// a change has no patience: ask before it.
    pub(crate) async fn prepare(&self, plan: &ServerPlan) -> Result<(), ChangeError> {
        let Source::Remote(spec) = &plan.source else { return Ok(()) };
        let prepared = tokio::select! {
            prepared = self.connector.prepare(spec) => prepared,
            () = self.runtime.stop.cancelled() => return Err(ChangeError::Stopping),
        };
        prepared.map_err(|error| ChangeError::Failed { name: plan.name.clone(), error })
    }

    /// Reports of images that are being got, from now on.
    pub(crate) fn pulls(&self) -> tokio::sync::broadcast::Receiver<PullProgress> {
        self.connector.pulls()
    }

    /// Ends a server and starts it again. Returns when it is ready, or with the reason why it is not; then it is tried
    /// again by itself, as ever.
    pub(crate) async fn restart(&self, name: &str) -> Result<(), ChangeError> {
        let server = {
            let servers = self.pool.servers();
            // What is built in may have the name of a server of the user, whose server is meant then.
            servers.named(name, false).or_else(|| servers.named(name, true)).cloned()
        };
        let server = server.ok_or_else(|| ChangeError::Unknown { name: name.to_owned() })?;
        if server.is_elsewhere() {
            let owner = self.runtime.fleet.as_ref().map(|fleet| fleet.seat_of(name));
            let Some(FleetSeat::Elsewhere(replica, _)) = owner else { return Err(ChangeError::InCluster) };
            return Err(ChangeError::Elsewhere { name: name.to_owned(), replica: replica.name.as_str().to_owned() });
        }
        let limit = self.runtime.settings.waits.added;
        let outcome = tokio::select! {
            outcome = tokio::time::timeout(limit, server.presence.ask_restart()) => outcome,
            // Its task ends, and tells nobody.
            () = server.presence.gone.cancelled() => return Err(overtaken(&server)),
            () = self.runtime.stop.cancelled() => return Err(ChangeError::Stopping),
        };
        match outcome {
            Ok(Ok(Ok(()))) => Ok(()),
            Ok(Ok(Err(error))) => Err(ChangeError::Failed { name: name.to_owned(), error }),
            // Nobody will tell any more.
            Ok(Err(_)) => Err(ChangeError::Stopping),
            Err(_) => {
                let last_words = server.live().and_then(|live| live.link.last_words());
                Err(ChangeError::Late { name: name.to_owned(), seconds: limit.as_secs(), last_words })
            }
        }
    }
}

/// Why a server is not started again that left meanwhile: another has its place, or none. The set of servers still has one that is just
/// leaving, so the server itself is asked.
fn overtaken(server: &Server) -> ChangeError {
    let name = server.plan.name.clone();
    match server.presence.removal() {
        Some(Removal::Removed) => ChangeError::Unknown { name },
        _ => ChangeError::Overtaken { name },
    }
}
