//! Where the records of a log come from.

use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use tidings_downstream::LIMITS;
use tidings_store::{AuditLog, ChangeLog, ChangeQuery, ChangeRow, ChangeRows, QueryStart, Store, StoreError};

use crate::backend::ApiEvents;
use crate::data::{DataDir, RunningGateway};
use crate::failure::CommandFailure;

/// How long the gateway may take to answer.
const PATIENCE: Duration = Duration::from_secs(30);
/// The gateway gives no more at a time.
const PAGE: usize = 10_000;

/// Which log is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::commands) enum RecordLog {
    Changes,
    Audit,
}

impl RecordLog {
    /// Its page of the API.
    fn page(self) -> &'static str {
        match self {
            Self::Changes => "changes",
            Self::Audit => "audit",
        }
    }
}

/// The running gateway, or what it left.
pub(super) enum ChangeSource<'a> {
    Running(RunningGateway),
    Store(&'a DataDir),
}

/// Why a stream is over.
pub(super) enum FeedEnd {
    /// The gateway ended it, or is gone.
    Gateway,
    /// The reader wants no more.
    Reader,
}

/// What `GET /changes` and `GET /audit` answer.
#[derive(Deserialize)]
struct ChangesAnswer {
    #[serde(alias = "records")]
    changes: Vec<Box<RawValue>>,
    last: u64,
}

/// The part of a record that says where it stands.
#[derive(Deserialize)]
struct RecordPlace {
    seq: u64,
}

impl<'a> ChangeSource<'a> {
    pub(super) fn find(data: &'a DataDir) -> Self {
        data.running().map_or(Self::Store(data), Self::Running)
    }

    /// The newest, or all since a point but at most the newest `limit` of them.
    pub(super) async fn read(
        &self,
        log: RecordLog,
        from: QueryStart,
        limit: usize,
    ) -> Result<ChangeRows, CommandFailure> {
        let mut all = ChangeRows::default();
        let mut next = from;
        loop {
            let page = match self {
                Self::Running(running) => fetch(running, log, next, limit.clamp(1, PAGE)).await?,
                Self::Store(data) => look(data, log, ChangeQuery { from: next, limit, max_bytes: usize::MAX })?,
            };
            all.last = page.last;
            // The newest come in one page; since a point there may be as many pages as it takes to reach the last
            // number.
            let done = page.rows.last().is_none_or(|row| row.seq >= page.last) || matches!(next, QueryStart::Newest);
            if let Some(row) = page.rows.last() {
                next = QueryStart::After(row.seq);
            }
            all.rows.extend(page.rows);
            // The newest are wanted: what was read first goes again.
            let surplus = all.rows.len().saturating_sub(limit);
            all.rows.drain(..surplus);
            if done {
                return Ok(all);
            }
        }
    }
}

fn look(data: &DataDir, log: RecordLog, query: ChangeQuery) -> Result<ChangeRows, CommandFailure> {
    match Store::existing(data.path()) {
        Ok(None) => Ok(ChangeRows::default()),
        Ok(Some(store)) => match log {
            RecordLog::Changes => ChangeLog::look(&store, query).map_err(CommandFailure::failed),
            RecordLog::Audit => AuditLog::look(&store, query).map_err(CommandFailure::failed),
        },
        Err(error @ StoreError::InUse(_)) => Err(CommandFailure::Failed(format!(
            "{error}, probably a `tidings stdio`, and no `tidings serve` is running to ask; try again when it has ended"
        ))),
        Err(error) => Err(CommandFailure::failed(error)),
    }
}

async fn fetch(
    running: &RunningGateway,
    log: RecordLog,
    from: QueryStart,
    limit: usize,
) -> Result<ChangeRows, CommandFailure> {
    let since = match from {
        QueryStart::After(seq) => format!("&since={seq}"),
        QueryStart::Time(time) => match jiff::Timestamp::from_millisecond(i64::try_from(time).unwrap_or(i64::MAX)) {
            Ok(time) => format!("&since={time}"),
            Err(_) => String::new(),
        },
        // No command asks so.
        QueryStart::Newest | QueryStart::Before(_) => String::new(),
    };
    let request = Request::get(format!("{}/api/v1/{}?limit={limit}{since}", running.url, log.page()));
    let request = authorised(running, request)?;
    let client = running.client()?;
    let answer =
        client.fetch(request, PATIENCE, LIMITS.max_bytes).await.map_err(|error| unreachable(running, &error))?;
    if !answer.status().is_success() {
        return Err(refused(running, &answer));
    }
    let answer: ChangesAnswer = serde_json::from_slice(answer.body()).map_err(CommandFailure::failed)?;
    let rows = answer.changes.iter().map(|raw| row(raw.get().as_bytes())).collect::<Result<_, _>>()?;
    Ok(ChangeRows { rows, last: answer.last })
}

/// Gives every change after a number to `take`, as it happens, until one side has enough.
pub(super) async fn stream(
    running: &RunningGateway,
    log: RecordLog,
    after: u64,
    mut take: impl FnMut(&ChangeRow) -> bool,
) -> Result<FeedEnd, CommandFailure> {
    let request = Request::get(format!("{}/api/v1/{}/stream", running.url, log.page()))
        .header("accept", "text/event-stream")
        .header("last-event-id", after.to_string());
    let client = running.client()?;
    let sent = tokio::time::timeout(PATIENCE, client.send(authorised(running, request)?)).await;
    // A gateway that is just ending or just starting: it is looked for again.
    let Ok(Ok(response)) = sent else { return Ok(FeedEnd::Gateway) };
    let (head, body) = response.into_parts();
    // As above: a gateway that ends answers so, and may come back.
    if head.status.is_server_error() {
        return Ok(FeedEnd::Gateway);
    }
    if !head.status.is_success() {
        let collected = tokio::time::timeout(PATIENCE, body.collect()).await.ok().and_then(Result::ok);
        let bytes = collected.map(|body| body.to_bytes()).unwrap_or_default();
        return Err(refused(running, &Response::from_parts(head, bytes)));
    }
    let mut events = ApiEvents::of(body);
    while let Some(data) = events.next().await? {
        if !take(&row(&data)?) {
            return Ok(FeedEnd::Reader);
        }
    }
    Ok(FeedEnd::Gateway)
}

fn row(json: &[u8]) -> Result<ChangeRow, CommandFailure> {
    let RecordPlace { seq } = serde_json::from_slice(json).map_err(CommandFailure::failed)?;
    // The time is in the text of the record; only the store needs it apart.
    Ok(ChangeRow { seq, time: 0, json: Bytes::copy_from_slice(json) })
}

fn authorised(
    running: &RunningGateway,
    request: http::request::Builder,
) -> Result<Request<Full<Bytes>>, CommandFailure> {
    let request = request.header("authorization", format!("Bearer {}", running.token));
    request.body(Full::default()).map_err(CommandFailure::failed)
}

fn unreachable(running: &RunningGateway, error: &tidings_upstream::LinkError) -> CommandFailure {
    CommandFailure::Failed(format!("the gateway at {} {error}", running.url))
}

fn refused(running: &RunningGateway, answer: &Response<Bytes>) -> CommandFailure {
    let problem: Value = serde_json::from_slice(answer.body()).unwrap_or_default();
    let detail = problem["detail"].as_str().unwrap_or("no reason given");
    CommandFailure::Failed(format!("the gateway at {} answered {}: {detail}", running.url, answer.status()))
}
