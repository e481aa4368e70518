//! Sources that one replica of a cluster looks at for all.
//!
//! The server of the watches is the same at every replica, with the same names and rules. What it asks of such a source goes to the replica
//! that has its seat ([`asking`]), this one or another, in the words in which every server in the process speaks; so only that one opens
//! files, polls and listens. What is followed here is compared by content whenever something may have changed, or somebody else looks
//! ([`following`]): a move alone is told to nobody.

mod asking;
mod following;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{BoxFuture, join_all};
use tidings_engine::{FleetWatches, Patience, WatchHost, WatchSeat, WatchSeats};
use tidings_sync::Lock;
use tidings_upstream::SharedLink;
use tidings_upstream::in_process::CallsOnlySink;
use tokio::sync::{Notify, SetOnce, oneshot};
use tokio::time::Instant;

use super::WatchServer;
use super::link::WatchLink;
use super::observations::SourceSignals;
use super::source::{SourceContent, SourceEntry, UnreadableReason, WatchedSource};
use asking::{AskFault, ListedSource};

/// How a reader waits while the source moves to another replica.
const READ: AskWait = AskWait { within: Duration::from_secs(8), again: true };
/// How long, where this replica is cut off from the one that looks.
const CUT_WITHIN: Duration = Duration::from_secs(2);
/// How long a list waits that is known from before.
const LIST_WITHIN: Duration = Duration::from_secs(1);
/// How long after the start lists wait to be known at all.
const FIRST_LIST_WITHIN: Duration = Duration::from_secs(5);
/// A request that failed is asked again after this time.
const ASK_AGAIN: Duration = Duration::from_millis(200);
/// How long a follower waits for the first look.
const LOOK_WITHIN: Duration = Duration::from_secs(3);

/// What the sources of this replica share with those of the others.
#[derive(Default)]
pub struct SeatedWatches {
    /// `None` for a process that is no replica: it looks itself.
    fleet: SetOnce<Option<FleetWatches>>,
    /// The way to each source in this process.
    here: Lock<HashMap<String, SharedLink>>,
}

impl SeatedWatches {
    /// From now on it is known who looks at what. `None`: always this process.
    pub fn attach(self: &Arc<Self>, fleet: Option<FleetWatches>) {
        if let Some(fleet) = &fleet {
            fleet.serve(Arc::clone(self) as Arc<dyn WatchHost>);
        }
        // Once: there is one gateway.
        let _ = self.fleet.set(fleet);
    }

    /// The source of a watch, to be looked at by one replica for all.
    pub fn seat(self: &Arc<Self>, id: &str, source: Arc<dyn WatchedSource>) -> Arc<dyn WatchedSource> {
        let server = WatchServer::with(vec![(Arc::clone(&source), Patience::default())], true);
        let here: SharedLink = Arc::new(WatchLink::new(Arc::clone(&server.shared), Arc::new(CallsOnlySink)));
        self.here.lock().insert(id.to_owned(), Arc::clone(&here));
        Arc::new(SeatedSource {
            id: id.to_owned(),
            source,
            here,
            watches: Arc::clone(self),
            since: Instant::now(),
            known: Lock::default(),
            looks: AwaitedLooks::default(),
        })
    }
}

impl WatchHost for SeatedWatches {
    fn link(&self, watch: &str) -> Option<SharedLink> {
        self.here.lock().get(watch).cloned()
    }
}

/// A source, wherever it is looked at.
struct SeatedSource {
    id: String,
    /// Says what is its own; it is looked at over `here` only.
    source: Arc<dyn WatchedSource>,
    here: SharedLink,
    watches: Arc<SeatedWatches>,
    since: Instant,
    known: Lock<OwnerLists>,
    looks: AwaitedLooks,
}

/// What was listed last: served while nobody can be asked.
#[derive(Default)]
struct OwnerLists {
    entries: Option<Vec<SourceEntry>>,
    template: Option<Option<SourceEntry>>,
    trouble: Option<String>,
}

/// First looks that somebody waits for, by URI.
#[derive(Default)]
struct AwaitedLooks {
    waiting: Lock<HashMap<String, Vec<oneshot::Sender<()>>>>,
    bell: Notify,
}

impl AwaitedLooks {
    /// Waits until these were looked at; not for ever: who waits no longer is told of the look that comes.
    async fn wait_for(&self, uris: &[String]) {
        let mut looked = Vec::new();
        {
            let mut waiting = self.waiting.lock();
            for uri in uris {
                let (done, heard) = oneshot::channel();
                waiting.entry(uri.clone()).or_default().push(done);
                looked.push(heard);
            }
        }
        self.bell.notify_one();
        let _ = tokio::time::timeout(LOOK_WITHIN, join_all(looked)).await;
    }

    fn uris(&self) -> BTreeSet<String> {
        self.waiting.lock().keys().cloned().collect()
    }

    /// Whether somebody still waits for a look.
    fn are_awaited(&self, uri: &str) -> bool {
        self.waiting.lock().get(uri).is_some_and(|waiting| waiting.iter().any(|done| !done.is_closed()))
    }

    /// A look is done, or nobody can look.
    fn done(&self, uri: &str) {
        for done in self.waiting.lock().remove(uri).unwrap_or_default() {
            // Whoever waits no longer is told of what is seen.
            let _ = done.send(());
        }
    }
}

/// How long an answer is waited for.
#[derive(Clone, Copy)]
struct AskWait {
    within: Duration,
    /// Whether it is asked again where there was none.
    again: bool,
}

/// Which replica looks, as that changes.
enum SourceSeats {
    /// There is one process.
    Alone,
    Fleet(WatchSeats, FleetWatches),
}

impl SourceSeats {
    fn current(&mut self) -> WatchSeat {
        match self {
            Self::Alone => WatchSeat::Here(0),
            Self::Fleet(seats, _) => seats.current(),
        }
    }

    async fn other_than(&mut self, seat: &WatchSeat) -> WatchSeat {
        match self {
            Self::Alone => std::future::pending().await,
            Self::Fleet(seats, _) => seats.other_than(seat).await,
        }
    }
}

impl SeatedSource {
    /// Who looks, once that can be known.
    async fn seats(&self) -> SourceSeats {
        match self.watches.fleet.wait().await {
            None => SourceSeats::Alone,
            Some(fleet) => SourceSeats::Fleet(fleet.seats(&self.id), fleet.clone()),
        }
    }

    /// The way to whoever looks.
    fn link(&self, seats: &SourceSeats, seat: &WatchSeat) -> Option<SharedLink> {
        match (seat, seats) {
            (WatchSeat::Nobody, _) => None,
            (WatchSeat::Here(_), _) | (_, SourceSeats::Alone) => Some(Arc::clone(&self.here)),
            (WatchSeat::Elsewhere { .. }, SourceSeats::Fleet(_, fleet)) => Some(fleet.link(&self.id)),
        }
    }

    /// Asks whoever looks, and again while that changes: what is asked for only reads.
    async fn ask<T, F: Future<Output = Result<T, AskFault>>>(
        &self,
        wait: AskWait,
        ask: impl Fn(SharedLink) -> F,
    ) -> Result<T, UnreadableReason> {
        let mut why = "no replica of the cluster looks at it at the moment".to_owned();
        let asking = async {
            let mut seats = self.seats().await;
            let begun = Instant::now();
            loop {
                let seat = seats.current();
                let Some(link) = self.link(&seats, &seat) else {
                    seats.other_than(&seat).await;
                    continue;
                };
                match ask(link).await {
                    Ok(answer) => return Ok(answer),
                    Err(AskFault::Refused(reason)) => return Err(reason),
                    Err(AskFault::Cut(error) | AskFault::Lost(error)) if !wait.again => {
                        return Err(UnreadableReason::Upstream(error.to_string()));
                    }
                    Err(AskFault::Cut(error)) if begun.elapsed() >= CUT_WITHIN => {
                        return Err(UnreadableReason::Upstream(error.to_string()));
                    }
                    Err(AskFault::Cut(error) | AskFault::Lost(error)) => why = error.to_string(),
                }
                tokio::select! {
                    _ = seats.other_than(&seat) => {}
                    () = tokio::time::sleep(ASK_AGAIN) => {}
                }
            }
        };
        let answered = tokio::time::timeout(wait.within, asking).await;
        answered.unwrap_or_else(|_| Err(UnreadableReason::Upstream(why)))
    }

    /// How lists are waited for: where something is served in their place, not for what may take long.
    fn list_wait(&self, is_known: bool) -> AskWait {
        let first = FIRST_LIST_WITHIN.saturating_sub(self.since.elapsed());
        if !is_known && !first.is_zero() {
            return AskWait { within: first, again: true };
        }
        let fleet = self.watches.fleet.get().and_then(Option::as_ref);
        let is_unseated = fleet.is_some_and(|fleet| fleet.seats(&self.id).current() == WatchSeat::Nobody);
        AskWait { within: if is_unseated { Duration::ZERO } else { LIST_WITHIN }, again: false }
    }
}

impl WatchedSource for SeatedSource {
    fn owns(&self, uri: &str) -> bool {
        self.source.owns(uri)
    }

    fn list(&self) -> BoxFuture<'_, Vec<SourceEntry>> {
        Box::pin(async move {
            let is_known = self.known.lock().entries.is_some();
            let listed = self.ask(self.list_wait(is_known), asking::list).await;
            let mut known = self.known.lock();
            if let Ok(ListedSource { entries, trouble }) = listed {
                (known.entries, known.trouble) = (Some(entries), trouble);
            }
            known.entries.clone().unwrap_or_default()
        })
    }

    fn template(&self) -> BoxFuture<'_, Option<SourceEntry>> {
        Box::pin(async move {
            let is_known = self.known.lock().template.is_some();
            let template = self.ask(self.list_wait(is_known), asking::template).await;
            let mut known = self.known.lock();
            if let Ok(template) = template {
                known.template = Some(template);
            }
            known.template.clone().flatten()
        })
    }

    fn read<'a>(&'a self, uri: &'a str) -> BoxFuture<'a, Result<SourceContent, UnreadableReason>> {
        Box::pin(self.ask(READ, move |link| asking::read(link, uri)))
    }

    fn list_is_alive(&self) -> BoxFuture<'_, bool> {
        // Whether it is, whoever looks knows; and what is wrong with it stands in the list.
        Box::pin(std::future::ready(true))
    }

    fn warning(&self) -> Option<String> {
        let fleet = self.watches.fleet.get()?.as_ref()?;
        let at = match fleet.seats(&self.id).current() {
            WatchSeat::Nobody => {
                let why = fleet.unplaced(&self.id);
                let why = why.unwrap_or_else(|| "no replica of the cluster looks at it at the moment".to_owned());
                return Some(format!("watch.{}: {why}", self.id));
            }
            WatchSeat::Here(_) => "at this replica".to_owned(),
            WatchSeat::Elsewhere { replica, .. } => format!("at replica \"{replica}\""),
        };
        let trouble = self.known.lock().trouble.clone()?;
        Some(format!("watch.{}, {at}: {trouble}", self.id))
    }

    fn look<'a>(&'a self, uris: &'a [String], _signals: &'a SourceSignals) -> BoxFuture<'a, ()> {
        Box::pin(self.looks.wait_for(uris))
    }

    fn watch(&self, signals: SourceSignals) -> BoxFuture<'_, ()> {
        Box::pin(following::follow(self, signals))
    }
}

#[cfg(test)]
mod tests;
