//! `GET /changes` and `GET /changes/stream`: the change log as pages, and as a feed that a reader resumes by number.

use std::collections::HashMap;

use axum::Json;
use axum::extract::{Path, Query as Params, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use jiff::Zoned;
use tidings_store::{ChangeQuery, ChangeRecord, ChangeRow, LogError, LogPosition, QueryStart};

use crate::change_filter::ChangeFilter;
use crate::events;
use crate::log_feed::{LogFollower, last_event};
use crate::query_fault::QueryFault;
use crate::{AdminShared, clients, problem};

/// How many changes are given when nobody says how many.
const DEFAULT_LIMIT: usize = 1_000;
/// And how many at most.
const MOST: usize = 10_000;
/// How large an answer may be.
const MAX_BYTES: usize = 8 << 20;
/// How many clients that were told are named.
const MOST_TOLD: usize = 1_000;

/// The changes since a point, or the newest.
pub(crate) async fn list(
    State(admin): State<AdminShared>,
    Params(params): Params<HashMap<String, String>>,
) -> Response {
    let query = match query(&params) {
        Ok(query) => query,
        Err(fault) => return problem(StatusCode::BAD_REQUEST, &fault.to_string()),
    };
    let filter = match ChangeFilter::read(&params) {
        Ok(filter) => filter,
        Err(fault) => return problem(StatusCode::BAD_REQUEST, &fault.to_string()),
    };
    let found = match filter.is_empty() {
        true => admin.changes.read(query).await.map(|found| (found.rows, found.last)),
        false => filter.read_log(&admin.changes, query).await,
    };
    match found {
        Ok((rows, last)) => {
            // Rows are kept as JSON text and joined as that: nothing is parsed to be shown.
            let rows: Vec<&[u8]> = rows.iter().map(|row| &row.json[..]).collect();
            let end = format!(r#"],"last":{last}}}"#);
            let body = [br#"{"changes":["#, &rows.join(&b","[..])[..], end.as_bytes()];
            ([(header::CONTENT_TYPE, "application/json")], body.concat()).into_response()
        }
        Err(error) => unavailable(&error),
    }
}

/// One change.
pub(crate) async fn show(State(admin): State<AdminShared>, Path(seq): Path<u64>) -> Response {
    match row(&admin, seq).await {
        Ok(row) => ([(header::CONTENT_TYPE, "application/json")], row.json).into_response(),
        Err(refusal) => *refusal,
    }
}

/// Who was told of a change, and when.
pub(crate) async fn deliveries(State(admin): State<AdminShared>, Path(seq): Path<u64>) -> Response {
    let row = match row(&admin, seq).await {
        Ok(row) => row,
        Err(refusal) => return *refusal,
    };
    let Ok(record) = serde_json::from_slice::<ChangeRecord>(&row.json) else {
        return problem(StatusCode::SERVICE_UNAVAILABLE, "the record of this change can not be read");
    };
    Json(clients::deliveries(&admin.gateway, record.commit, &record.kind, MOST_TOLD)).into_response()
}

async fn row(admin: &AdminShared, seq: u64) -> Result<ChangeRow, Box<Response>> {
    // One before it, because a query begins after a number; the first number is 1.
    let query = ChangeQuery { from: QueryStart::After(seq.saturating_sub(1)), limit: 1, max_bytes: MAX_BYTES };
    let found = admin.changes.read(query).await.map_err(|error| Box::new(unavailable(&error)))?;
    // The log may begin later: then its first row is another one, and not an answer.
    let row = found.rows.into_iter().find(|row| row.seq == seq);
    row.ok_or_else(|| {
        let detail = format!("change {seq} is not in the log: it is older than what is kept, or was never there");
        Box::new(problem(StatusCode::NOT_FOUND, &detail))
    })
}

/// Every change as it happens, after what `Last-Event-ID` or `since` says was missed.
pub(crate) async fn stream(
    State(admin): State<AdminShared>,
    Params(params): Params<HashMap<String, String>>,
    headers: HeaderMap,
) -> Response {
    let after = match resume_after(&admin, &params, &headers).await {
        Ok(after) => after,
        Err(refusal) => return *refusal,
    };
    let tail = match admin.changes.follow(after).await {
        Ok(tail) => tail,
        Err(error) => return unavailable(&error),
    };
    events::respond(LogFollower::new(tail), admin.gateway.draining())
}

pub(crate) fn query(params: &HashMap<String, String>) -> Result<ChangeQuery, QueryFault> {
    let from = match params.get("since") {
        None => match params.get("before") {
            None => QueryStart::Newest,
            Some(text) => QueryStart::Before(text.parse().map_err(|_| QueryFault::Before(text.clone()))?),
        },
        Some(text) => match since(text)? {
            LogPosition::After(seq) => QueryStart::After(seq),
            // A time before 1970 is before every row.
            LogPosition::At(time) => QueryStart::Time(u64::try_from(time.as_millisecond()).unwrap_or_default()),
        },
    };
    let limit = match params.get("limit") {
        None => DEFAULT_LIMIT,
        Some(text) => text
            .parse()
            .ok()
            .filter(|limit| (1..=MOST).contains(limit))
            .ok_or_else(|| QueryFault::ChangeLimit { text: text.clone(), most: MOST })?,
    };
    Ok(ChangeQuery { from, limit, max_bytes: MAX_BYTES })
}

fn since(text: &str) -> Result<LogPosition, QueryFault> {
    Ok(LogPosition::parse(text, &Zoned::now())?)
}

/// After which number a stream begins; `None` means now.
async fn resume_after(
    admin: &AdminShared,
    params: &HashMap<String, String>,
    headers: &HeaderMap,
) -> Result<Option<u64>, Box<Response>> {
    let refuse = |detail: &str| Box::new(problem(StatusCode::BAD_REQUEST, detail));
    // Sent by a client that reconnects, so it counts before the `since` of the first request.
    if let Some(number) = last_event(headers)? {
        return Ok(Some(number));
    }
    let Some(text) = params.get("since") else { return Ok(None) };
    match since(text).map_err(|fault| refuse(&fault.to_string()))? {
        LogPosition::After(seq) => Ok(Some(seq)),
        LogPosition::At(time) => {
            let from = QueryStart::Time(u64::try_from(time.as_millisecond()).unwrap_or_default());
            // A time is looked up once; from there the stream goes by numbers, which do not repeat.
            let found = admin.changes.read(ChangeQuery { from, limit: 1, max_bytes: 1 }).await;
            let found = found.map_err(|error| Box::new(unavailable(&error)))?;
            // Just before the first change of that time; where there is none yet, from now on.
            Ok(Some(found.rows.first().map_or(found.last, |row| row.seq - 1)))
        }
    }
}

pub(crate) fn unavailable(error: &LogError) -> Response {
    problem(StatusCode::SERVICE_UNAVAILABLE, &error.to_string())
}
