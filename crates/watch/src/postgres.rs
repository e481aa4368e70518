//! The rows of a query, told of by NOTIFY.
//!
//! While it is watched there is one connection: it listens first and looks then, so that nothing falls between. When it is
//! lost, the next one does the same, and the hash of the rows decides whether anything is owed.

mod address;
mod examine;
mod rows;
mod tls;
mod trigger;

use std::sync::{Arc, MutexGuard};
use std::time::{Duration, SystemTime};

use futures_util::future::BoxFuture;
use tidings_config::watch::PostgresWatch;
use tidings_sync::Lock;
use tokio::sync::{Notify, Semaphore};
use tokio_postgres::AsyncMessage;
use tokio_util::task::AbortOnDropHandle;

use super::kinds::{DeclaredWatch, MadeSource, SourceFault, SourceInputs, WatchFinding};
use super::note::PassingNote;
use super::observations::{SourceSignals, hash};
use super::source::{SourceContent, SourceEntry, UnreadableReason, WatchedSource};
use super::{AboutResource, pause};
use address::{AddressFault, PostgresAddress};
use trigger::trigger_sql;

/// How long a connection may take.
const CONNECT: Duration = Duration::from_secs(10);
/// How often a failed look is repeated at first.
const AGAIN: Duration = Duration::from_secs(1);
/// How many may read at a time; the others wait.
const READERS: usize = 4;
/// The type of the rows.
const JSON: &str = "application/json";

/// The query, and what is known of its rows.
struct PostgresSource {
    about: AboutResource,
    address: PostgresAddress,
    query: String,
    channel: String,
    limits: rows::RowLimits,
    note: PassingNote,
    known: Lock<Option<KnownRows>>,
    /// Connections of readers, which must not use up those of the database.
    readers: Semaphore,
}

#[derive(Clone, Copy)]
struct KnownRows {
    hash: super::Hash,
    size: u64,
    changed: SystemTime,
}

/// Why there are no rows.
#[derive(Debug, thiserror::Error)]
enum NoRows {
    #[error("the database can not be reached: {}", address::cause(.0))]
    Connect(#[source] tokio_postgres::Error),
    #[error("{0}")]
    Tls(tls::NoTrust),
    #[error("the query failed: {}", address::cause(.0))]
    Query(#[source] tokio_postgres::Error),
    #[error("the database did not answer within {} s", .0.as_secs())]
    Late(Duration),
    #[error("the connection to the database was lost")]
    Lost,
    #[error("the query gives more than {0} rows; add a limit to it")]
    TooMany(usize),
    #[error("the rows have more than {0} bytes; select fewer")]
    TooLong(usize),
}

/// A connection that is driven for as long as this is held.
struct PostgresConnection {
    client: tokio_postgres::Client,
    /// Rings at each NOTIFY; several before it is heard are one.
    bell: Arc<Notify>,
    driver: AbortOnDropHandle<()>,
}

/// What ended a wait.
enum WaitEnd {
    Notified,
    Lost,
}

impl PostgresSource {
    /// A watch of a query. Nothing is asked yet.
    fn new(about: AboutResource, watch: PostgresWatch) -> Result<Self, AddressFault> {
        let address = PostgresAddress::parse(&watch.url)?;
        let PostgresWatch { query, channel, .. } = watch;
        let (limits, note, known) = (rows::RowLimits::default(), PassingNote::default(), Lock::default());
        let readers = Semaphore::new(READERS);
        Ok(Self { about, address, query, channel, limits, note, known, readers })
    }

    fn known(&self) -> MutexGuard<'_, Option<KnownRows>> {
        self.known.lock()
    }

    async fn connect(&self) -> Result<PostgresConnection, NoRows> {
        let tls = tls::PostgresTls::new(&self.address.trust).map_err(NoRows::Tls)?;
        let connecting = tokio::time::timeout(CONNECT, self.address.config.connect(tls)).await;
        let (client, mut connection) = connecting.map_err(|_| NoRows::Late(CONNECT))?.map_err(NoRows::Connect)?;
        let bell = Arc::new(Notify::new());
        let ring = Arc::clone(&bell);
        let driver = tokio::spawn(async move {
            // Drives the connection; without it neither queries nor notifications go on.
            while let Some(Ok(message)) = std::future::poll_fn(|cx| connection.poll_message(cx)).await {
                if let AsyncMessage::Notification(_) = message {
                    // What the notification says does not matter, and several are one: the query is asked again
                    // either way.
                    ring.notify_one();
                }
            }
        });
        Ok(PostgresConnection { client, bell, driver: AbortOnDropHandle::new(driver) })
    }

    /// The rows, as the content of the resource.
    async fn look(&self, client: &mut tokio_postgres::Client) -> Result<Vec<u8>, NoRows> {
        let rows = rows::fetch(client, &self.query, self.limits).await?;
        let hash = hash(&rows);
        let mut known = self.known();
        // The time of change moves only when the rows differ.
        if known.is_none_or(|known| known.hash != hash) {
            *known = Some(KnownRows { hash, size: rows.len() as u64, changed: SystemTime::now() });
        }
        Ok(rows)
    }

    /// One connection, from LISTEN to its end.
    async fn session(&self, signals: &SourceSignals, failures: &mut u32) -> NoRows {
        let mut connected = match self.connect().await {
            Ok(connected) => connected,
            Err(why) => return why,
        };
        // Before the first look: a change between the two would be told to nobody otherwise.
        // Quoted: channels are case-sensitive, and SQL folds what is not quoted.
        let listen = format!("LISTEN {}", trigger::identifier(&self.channel));
        match tokio::time::timeout(CONNECT, connected.client.batch_execute(&listen)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return NoRows::Query(error),
            Err(_) => return NoRows::Late(CONNECT),
        }
        let uri = self.about.uri();
        let mut again = 0;
        loop {
            match self.look(&mut connected.client).await {
                Ok(rows) => {
                    let seen = Some(hash(&rows));
                    if signals.is_ready() {
                        signals.observed(&uri, seen)
                    } else {
                        signals.baseline(&uri, seen)
                    }
                    if *failures > 0 {
                        tracing::info!(watch = %self.about.id, failures = *failures, "the database answers again");
                    }
                    (*failures, again) = (0, 0);
                    self.remark(None, signals);
                }
                // The connection is gone; the caller makes another and listens again.
                Err(why) if connected.client.is_closed() => return why,
                Err(why) => {
                    again += 1;
                    self.trouble(&why, again, signals);
                }
            }
            // Also after a failure: a query that fails must not keep a listen from being acknowledged.
            signals.ready();
            let retry = (again > 0).then(|| pause::jittered(pause::after(again, AGAIN)));
            if let WaitEnd::Lost = connected.next(retry).await {
                return NoRows::Lost;
            }
        }
    }

    fn trouble(&self, why: &NoRows, failures: u32, signals: &SourceSignals) {
        if failures == 1 {
            tracing::warn!(watch = %self.about.id, "{why}");
        }
        self.remark(Some("the database does not answer the query at this time"), signals);
    }

    fn remark(&self, remark: Option<&str>, signals: &SourceSignals) {
        if self.note.set(remark.map(str::to_owned)) {
            signals.list_changed();
        }
    }
}

impl PostgresConnection {
    /// Waits for a notification, for the time of the next try, or for the end.
    async fn next(&mut self, retry: Option<Duration>) -> WaitEnd {
        let again = async {
            match retry {
                Some(wait) => tokio::time::sleep(wait).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = self.bell.notified() => WaitEnd::Notified,
            () = again => WaitEnd::Notified,
            // The driver ends with the connection, which may die without a word to anybody else.
            _ = &mut self.driver => WaitEnd::Lost,
        }
    }
}

impl WatchedSource for PostgresSource {
    fn owns(&self, uri: &str) -> bool {
        uri == self.about.uri()
    }

    fn list(&self) -> BoxFuture<'_, Vec<SourceEntry>> {
        let mut entry = SourceEntry { description: self.note.describe(&self.about), ..self.about.entry() };
        entry.mime_type.get_or_insert_with(|| JSON.to_owned());
        if let Some(known) = *self.known() {
            (entry.size, entry.last_modified) = (Some(known.size), Some(known.changed));
        }
        Box::pin(std::future::ready(vec![entry]))
    }

    /// Over a connection of its own, so that readers and the watch do not wait for each other.
    fn read<'a>(&'a self, _uri: &'a str) -> BoxFuture<'a, Result<SourceContent, UnreadableReason>> {
        Box::pin(async move {
            // Clients may read as often as they like; the database gets only so many connections of ours.
            // It is never closed, so this does not fail.
            let _turn = self.readers.acquire().await;
            let rows = async { self.look(&mut self.connect().await?.client).await }.await;
            let bytes = rows.map_err(|why| UnreadableReason::Upstream(why.to_string()))?.into();
            let mime_type = self.about.mime_type.clone().unwrap_or_else(|| JSON.to_owned());
            Ok(SourceContent { mime_type: Some(mime_type), bytes })
        })
    }

    fn trouble(&self) -> Option<String> {
        self.note.said()
    }

    fn watch(&self, signals: SourceSignals) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let mut failures = 0;
            loop {
                let why = self.session(&signals, &mut failures).await;
                failures += 1;
                self.trouble(&why, failures, &signals);
                signals.ready();
                tokio::time::sleep(pause::jittered(pause::after(failures, AGAIN))).await;
            }
        })
    }
}

impl DeclaredWatch for PostgresWatch {
    fn make(&self, about: AboutResource, _inputs: &SourceInputs<'_>) -> Result<MadeSource, SourceFault> {
        let source = PostgresSource::new(about, self.clone()).map_err(|fault| SourceFault::new("postgres", fault))?;
        let source: Arc<dyn WatchedSource> = Arc::new(source);
        Ok(source.into())
    }

    fn examine(&self, _about: AboutResource) -> BoxFuture<'_, Vec<WatchFinding>> {
        Box::pin(examine::findings(self))
    }
}

#[cfg(test)]
mod tests;
