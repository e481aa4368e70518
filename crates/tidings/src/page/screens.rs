//! One handler a screen: asks what is known, and hands it over to be shown.

use std::collections::HashMap;
use std::sync::Arc;

use axum::extract::{Extension, Path, RawQuery, State};
use axum::http::StatusCode;
use axum::response::Response;
use serde_json::Value;
use tidings_admin::{CallsQuery, ServerLogs as _};
use tidings_diff::Severity;
use tidings_page::{
    ApprovalsScreen, CallFilter, CallRow, CallsScreen, ChangeScreen, ClientScreen, ClientsScreen, ConnectScreen,
    FeedFilter, FeedScreen, PagePart, ROWS, ServerScreen, ServersScreen, client_rank, server_rank,
};
use tidings_proto::ListKind;
use tidings_store::{ChangeLog, ChangeQuery, ChangeRow, LogError, QueryStart};

use super::beliefs::Beliefs;
use super::entrance::{Visitor, fields};
use super::recent_calls::RecentCalls;
use super::{PageServer, html, views};

/// How many are read at a time, and how many are looked at for one page.
const BATCH: usize = 200;
const MOST_SCANNED: usize = 5_000;
const BATCH_BYTES: usize = 4 << 20;
/// How many tools of one server are shown.
const SERVER_TOOLS: usize = 100;
/// How many events of a client are shown, and how many clients that were told of a change.
const EVENTS: usize = 100;
/// How many clients are named where one is connected.
const CONNECTED: usize = 20;

pub(super) struct ScreenQuery(HashMap<String, String>);

impl ScreenQuery {
    pub(super) fn of(raw: Option<String>) -> Self {
        Self(fields(&raw.unwrap_or_default()).into_iter().collect())
    }

    pub(super) fn text(&self, name: &str) -> String {
        self.0.get(name).cloned().unwrap_or_default()
    }

    /// How many rows come before those that are asked for.
    pub(super) fn from(&self) -> usize {
        self.0.get("from").and_then(|text| text.parse().ok()).unwrap_or_default()
    }

    /// The number of a client.
    pub(super) fn client(&self) -> Option<u64> {
        self.0.get("client").and_then(|id| id.parse().ok())
    }

    fn before(&self) -> Option<u64> {
        self.0.get("before").and_then(|text| text.parse().ok())
    }
}

/// `GET /`.
pub(super) async fn feed(
    State(page): State<PageServer>,
    Extension(visitor): Extension<Visitor>,
    RawQuery(raw): RawQuery,
) -> Response {
    let query = ScreenQuery::of(raw);
    let filter = FeedFilter {
        server: query.text("server"),
        kind: query.text("kind"),
        severity: Severity::named(&query.text("severity")),
        text: query.text("q").trim().to_owned(),
    };
    let wanted = views::TextSearch::new(&filter.text);
    let fit = |row: &ChangeRow| {
        let may_fit = views::may_have(&row.json, "server", &filter.server)
            && views::may_have(&row.json, "kind", &filter.kind)
            && filter.severity.is_none_or(|severity| views::may_weigh(&row.json, severity.as_str()))
            && wanted.is_in(&row.json);
        let change = may_fit.then(|| views::change(&page, row))??;
        let fits = (filter.server.is_empty() || filter.server == change.server)
            && (filter.kind.is_empty() || filter.kind == change.kind)
            && filter.severity.is_none_or(|severity| severity == change.severity);
        fits.then_some(change)
    };
    let mut shell = page.shell(visitor.form_token).await;
    // Without a filter every row fits: one more than is shown says whether there are older ones.
    let first = if filter == FeedFilter::default() { ROWS + 1 } else { BATCH };
    let (changes, older) = match newest_first(query.before(), &page.0.changes, first, fit).await {
        Ok(found) => found,
        Err(error) => {
            let page = tidings_page::problem(&shell, "The change log can not be read", &error.to_string(), "/");
            return html(StatusCode::SERVICE_UNAVAILABLE, page);
        }
    };
    // What is shown is not new, also where it came after the number was asked for.
    shell.last_change = changes.first().map_or(0, |change| change.seq).max(shell.last_change);
    let servers = views::server_names(&page);
    let (newest, demo) = (query.before().is_none(), page.0.demo.clone());
    html(StatusCode::OK, FeedScreen { changes, filter, servers, older, newest, demo }.page(&shell))
}

/// Rows that fit, the newest first, and where older ones begin. `first`: how many are read to begin with.
async fn newest_first<T>(
    before: Option<u64>,
    log: &ChangeLog,
    first: usize,
    fit: impl Fn(&ChangeRow) -> Option<T>,
) -> Result<(Vec<T>, Option<u64>), LogError> {
    let mut before = before.unwrap_or(u64::MAX);
    let (mut out, mut scanned, mut limit) = (Vec::new(), 0, first);
    loop {
        let from = QueryStart::Before(before);
        let rows = log.read(ChangeQuery { from, limit, max_bytes: BATCH_BYTES }).await?.rows;
        limit = BATCH;
        if rows.is_empty() {
            return Ok((out, None));
        }
        for row in rows.iter().rev() {
            if out.len() == ROWS || scanned == MOST_SCANNED {
                return Ok((out, Some(before)));
            }
            (before, scanned) = (row.seq, scanned + 1);
            out.extend(fit(row));
        }
    }
}

/// `GET /changes/{seq}`.
pub(super) async fn change(
    State(page): State<PageServer>,
    Extension(visitor): Extension<Visitor>,
    Path(seq): Path<u64>,
) -> Response {
    let shell = page.shell(visitor.form_token).await;
    let query = ChangeQuery { from: QueryStart::After(seq.saturating_sub(1)), limit: 1, max_bytes: BATCH_BYTES };
    let found = page.0.changes.read(query).await.map(|found| found.rows).unwrap_or_default();
    let found = found.iter().find(|row| row.seq == seq).and_then(|row| views::change(&page, row));
    match found {
        Some(change) => {
            let notices = views::notices(&page, &change, EVENTS);
            html(StatusCode::OK, ChangeScreen { change, notices }.page(&shell))
        }
        None => {
            let detail = format!("#{seq} is not in the log: it is older than what is kept, or was never there.");
            html(StatusCode::NOT_FOUND, tidings_page::problem(&shell, "No such change", &detail, "/"))
        }
    }
}

/// `GET /clients`.
pub(super) async fn clients(
    State(page): State<PageServer>,
    Extension(visitor): Extension<Visitor>,
    RawQuery(raw): RawQuery,
) -> Response {
    let query = ScreenQuery::of(raw);
    let shell = page.shell(visitor.form_token).await;
    let (state, from) = (query.text("state"), query.from());
    let fits = |standing: &str| state.is_empty() || state == standing;
    let (found, total) = tidings_admin::clients_part(&page.0.gateway, fits, client_rank, from..from + ROWS);
    let (clients, since) = (views::clients(&found), views::counted_since(&page, shell.now));
    let part = PagePart { from, shown: clients.len(), total };
    html(StatusCode::OK, ClientsScreen { clients, part, state, since }.page(&shell))
}

/// `GET /clients/{id}`.
pub(super) async fn client(
    State(page): State<PageServer>,
    Extension(visitor): Extension<Visitor>,
    Path(id): Path<u64>,
) -> Response {
    let shell = page.shell(visitor.form_token).await;
    let (found, since) = (tidings_admin::client(&page.0.gateway, id), views::counted_since(&page, shell.now));
    match found.and_then(|client| views::clients(&[client]).pop()) {
        Some(client) => {
            let (events, older) = views::client_events(&page, id, EVENTS);
            html(StatusCode::OK, ClientScreen { client, events, older, since }.page(&shell))
        }
        None => {
            let detail = format!("The client {id} is not connected: it left, or was connected before a restart.");
            html(StatusCode::NOT_FOUND, tidings_page::problem(&shell, "No such client", &detail, "/clients"))
        }
    }
}

/// `GET /servers`.
pub(super) async fn servers(
    State(page): State<PageServer>,
    Extension(visitor): Extension<Visitor>,
    RawQuery(raw): RawQuery,
) -> Response {
    let asked = ScreenQuery::of(raw);
    let shell = page.shell(visitor.form_token).await;
    let (state, query, from) = (asked.text("state"), asked.text("q").trim().to_owned(), asked.from());
    let lower = query.to_lowercase();
    let fits = |name: &str, is: &str| {
        (state.is_empty() || state == is) && (lower.is_empty() || name.to_lowercase().contains(&lower))
    };
    let kept = page.0.registry.state();
    let (found, total) = tidings_admin::describe_some(&page.0.gateway, &kept, fits, server_rank, from..from + ROWS);
    let servers = views::servers(&page, &found, RecentCalls::read(&page).await);
    let part = PagePart { from, shown: servers.len(), total };
    html(StatusCode::OK, ServersScreen { servers, part, state, query }.page(&shell))
}

/// `GET /servers/{name}`.
pub(super) async fn server(
    State(page): State<PageServer>,
    Extension(visitor): Extension<Visitor>,
    Path(name): Path<String>,
) -> Response {
    let shell = page.shell(visitor.form_token).await;
    let found = tidings_admin::describe_server(&page.0.gateway, &page.0.registry.state(), &name);
    let calls = RecentCalls::read(&page).await;
    let Some(server) = found.and_then(|server| views::servers(&page, &[server], calls).pop()) else {
        let detail = format!("There is no server \"{name}\" now.");
        return html(StatusCode::NOT_FOUND, tidings_page::problem(&shell, "No such server", &detail, "/servers"));
    };
    let snapshot = Arc::clone(&page.0.gateway.catalogue().borrow().snapshot);
    let offer = snapshot.offers().iter().find(|offer| *offer.name == *name);
    let items = offer.map(|offer| &offer.list(ListKind::Tools).items);
    let tool = |raw: &[u8]| {
        let tool: Value = serde_json::from_slice(raw).unwrap_or_default();
        let text = |key: &str| tool[key].as_str().unwrap_or_default().to_owned();
        (text("name"), text("description"))
    };
    let tools = items.into_iter().flatten().take(SERVER_TOOLS).map(|item| tool(&item.raw)).collect();
    let logs = crate::server_log::LogTail::of(&page.0.data);
    let log = tokio::task::spawn_blocking(move || logs.tail(&name)).await.unwrap_or_default();
    html(StatusCode::OK, ServerScreen { server, tools, log }.page(&shell))
}

/// `GET /calls`.
pub(super) async fn calls(
    State(page): State<PageServer>,
    Extension(visitor): Extension<Visitor>,
    RawQuery(raw): RawQuery,
) -> Response {
    let query = CallsQuery::read(&ScreenQuery::of(raw).0);
    let shell = page.shell(visitor.form_token).await;
    let CallsQuery { client, server, tool, outcome, .. } = query.clone();
    let filter = CallFilter { client, server, tool, outcome };
    let Some(audit) = &page.0.audit else {
        let screen = CallsScreen { calls: Vec::new(), recorded: false, filter, older: None };
        return html(StatusCode::OK, screen.page(&shell));
    };
    match tidings_admin::calls(audit, &query).await {
        Ok((found, older)) => {
            let mut calls: Vec<CallRow> = Vec::with_capacity(found.len());
            let mut beliefs = Beliefs::default();
            for (seq, record) in &found {
                if let Some(mut call) = views::call(*seq, record) {
                    call.outdated = beliefs.outdated(&page, record, &call).await;
                    calls.push(call);
                }
            }
            html(StatusCode::OK, CallsScreen { calls, recorded: true, filter, older }.page(&shell))
        }
        Err(error) => {
            let page = tidings_page::problem(&shell, "The audit log can not be read", &error.to_string(), "/calls");
            html(StatusCode::SERVICE_UNAVAILABLE, page)
        }
    }
}

/// `GET /approvals`.
pub(super) async fn approvals(State(page): State<PageServer>, Extension(visitor): Extension<Visitor>) -> Response {
    approvals_page(&page, visitor.form_token, StatusCode::OK, None).await
}

/// What is held, with what became of a decision.
pub(super) async fn approvals_page(
    page: &PageServer,
    form_token: Option<String>,
    status: StatusCode,
    said: Option<String>,
) -> Response {
    let shell = page.shell(form_token).await;
    let all = tidings_admin::approvals(&page.0.gateway);
    let held = all["approvals"].as_array().into_iter().flatten().map(views::held).collect();
    html(status, ApprovalsScreen { held, said }.page(&shell))
}

/// `GET /connect`.
pub(super) async fn connect(State(page): State<PageServer>, Extension(visitor): Extension<Visitor>) -> Response {
    let shell = page.shell(visitor.form_token).await;
    let gateway = &page.0.gateway;
    let connected = gateway.connected_first(CONNECTED).into_iter();
    let screen = ConnectScreen {
        commands: page.0.connect.clone(),
        has_tokens: page.0.has_tokens,
        connected: connected.map(|client| client.name.unwrap_or_else(|| "unnamed".to_owned())).collect(),
        total: gateway.connected_count(),
    };
    html(StatusCode::OK, screen.page(&shell))
}
