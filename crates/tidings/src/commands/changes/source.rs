//! Where changes come from.

use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use tidings_downstream::LIMITS;
use tidings_store::{ChangeLog, ChangeQuery, ChangeRow, ChangeRows, QueryStart, Store, StoreError};
use tidings_upstream::HttpClient;

use crate::backend::Events;
use crate::data::{DataDir, Running};
use crate::failure::Failure;

/// How long the gateway may take to answer.
const PATIENCE: Duration = Duration::from_secs(30);
/// The gateway gives no more at a time.
const PAGE: usize = 10_000;

/// The running gateway, or what it left.
pub(super) enum Source<'a> {
    Running(Running),
    Store(&'a DataDir),
}

/// Why a stream is over.
pub(super) enum Ended {
    /// The gateway ended it, or is gone.
    Gateway,
    /// The reader wants no more.
    Reader,
}

/// What `GET /changes` answers.
#[derive(Deserialize)]
struct Answer {
    changes: Vec<Box<RawValue>>,
    last: u64,
}

/// The part of a record that says where it stands.
#[derive(Deserialize)]
struct Place {
    seq: u64,
}

impl<'a> Source<'a> {
    pub(super) fn find(data: &'a DataDir) -> Self {
        data.running().map_or(Self::Store(data), Self::Running)
    }

    /// The newest, or all since a point but at most the newest `limit` of them.
    pub(super) async fn read(&self, from: QueryStart, limit: usize) -> Result<ChangeRows, Failure> {
        let mut all = ChangeRows::default();
        let mut next = from;
        loop {
            let page = match self {
                Self::Running(running) => fetch(running, next, limit.clamp(1, PAGE)).await?,
                Self::Store(data) => look(data, ChangeQuery { from: next, limit, max_bytes: usize::MAX })?,
            };
            all.last = page.last;
            let done = page.rows.last().is_none_or(|row| row.seq >= page.last) || matches!(next, QueryStart::Newest);
            if let Some(row) = page.rows.last() {
                next = QueryStart::After(row.seq);
            }
            all.rows.extend(page.rows);
            let surplus = all.rows.len().saturating_sub(limit);
            all.rows.drain(..surplus);
            if done {
                return Ok(all);
            }
        }
    }
}

fn look(data: &DataDir, query: ChangeQuery) -> Result<ChangeRows, Failure> {
    match Store::existing(data.path()) {
        Ok(None) => Ok(ChangeRows::default()),
        Ok(Some(store)) => ChangeLog::look(&store, query).map_err(Failure::failed),
        Err(error @ StoreError::InUse(_)) => Err(Failure::Failed(format!(
            "{error}, probably a `tidings stdio`, and no `tidings serve` is running to ask; try again when it has ended"
        ))),
        Err(error) => Err(Failure::failed(error)),
    }
}

async fn fetch(running: &Running, from: QueryStart, limit: usize) -> Result<ChangeRows, Failure> {
    let since = match from {
        QueryStart::After(seq) => format!("&since={seq}"),
        QueryStart::Time(time) => match jiff::Timestamp::from_millisecond(i64::try_from(time).unwrap_or(i64::MAX)) {
            Ok(time) => format!("&since={time}"),
            Err(_) => String::new(),
        },
        QueryStart::Newest => String::new(),
    };
    let request = Request::get(format!("{}/api/v1/changes?limit={limit}{since}", running.url));
    let request = authorised(running, request)?;
    let client = HttpClient::new().map_err(Failure::failed)?;
    let answer =
        client.fetch(request, PATIENCE, LIMITS.max_bytes).await.map_err(|error| unreachable(running, &error))?;
    if !answer.status().is_success() {
        return Err(refused(running, &answer));
    }
    let answer: Answer = serde_json::from_slice(answer.body()).map_err(Failure::failed)?;
    let rows = answer.changes.iter().map(|raw| row(raw.get().as_bytes())).collect::<Result<_, _>>()?;
    Ok(ChangeRows { rows, last: answer.last })
}

/// Gives every change after a number to `take`, as it happens, until one side has enough.
pub(super) async fn stream(
    running: &Running,
    after: u64,
    mut take: impl FnMut(&ChangeRow) -> bool,
) -> Result<Ended, Failure> {
    let request = Request::get(format!("{}/api/v1/changes/stream", running.url))
        .header("accept", "text/event-stream")
        .header("last-event-id", after.to_string());
    let client = HttpClient::new().map_err(Failure::failed)?;
    let sent = tokio::time::timeout(PATIENCE, client.send(authorised(running, request)?)).await;
    // A gateway that is just ending or just starting: it is looked for again.
    let Ok(Ok(response)) = sent else { return Ok(Ended::Gateway) };
    let (head, body) = response.into_parts();
    if head.status.is_server_error() {
        return Ok(Ended::Gateway);
    }
    if !head.status.is_success() {
        let collected = tokio::time::timeout(PATIENCE, body.collect()).await.ok().and_then(Result::ok);
        let bytes = collected.map(|body| body.to_bytes()).unwrap_or_default();
        return Err(refused(running, &Response::from_parts(head, bytes)));
    }
    let mut events = Events::of(body);
    while let Some(data) = events.next().await? {
        if !take(&row(&data)?) {
            return Ok(Ended::Reader);
        }
    }
    Ok(Ended::Gateway)
}

fn row(json: &[u8]) -> Result<ChangeRow, Failure> {
    let Place { seq } = serde_json::from_slice(json).map_err(Failure::failed)?;
    Ok(ChangeRow { seq, time: 0, json: Bytes::copy_from_slice(json) })
}

fn authorised(running: &Running, request: http::request::Builder) -> Result<Request<Full<Bytes>>, Failure> {
    let request = request.header("authorization", format!("Bearer {}", running.token));
    request.body(Full::default()).map_err(Failure::failed)
}

fn unreachable(running: &Running, error: &tidings_upstream::LinkError) -> Failure {
    Failure::Failed(format!("the gateway at {} {error}", running.url))
}

fn refused(running: &Running, answer: &Response<Bytes>) -> Failure {
    let problem: Value = serde_json::from_slice(answer.body()).unwrap_or_default();
    let detail = problem["detail"].as_str().unwrap_or("no reason given");
    Failure::Failed(format!("the gateway at {} answered {}: {detail}", running.url, answer.status()))
}
