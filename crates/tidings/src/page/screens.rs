//! One handler a screen: asks what is known, and hands it over to be shown.

use std::collections::HashMap;
use std::sync::Arc;

use axum::extract::{Extension, Path, RawQuery, State};
use axum::http::StatusCode;
use axum::response::Response;
use serde_json::Value;
use tidings_admin::ServerLogs as _;
use tidings_diff::Severity;
use tidings_page::{
    ApprovalsScreen, CallsScreen, ChangeScreen, ClientScreen, ClientsScreen, ConnectScreen, FeedFilter, FeedScreen,
    FollowsScreen, ServerScreen, ServerView, ServersScreen, ToolsScreen,
};
use tidings_proto::ListKind;
use tidings_store::{AuditLog, ChangeLog, ChangeQuery, ChangeRow, LogError, QueryStart};

use super::entrance::{Visitor, fields};
use super::{PageServer, html, views};

/// How many rows a screen has.
const ROWS: usize = 50;
/// How many are read at a time, and how many are looked at for one page.
const BATCH: usize = 200;
const MOST_SCANNED: usize = 5_000;
const BATCH_BYTES: usize = 4 << 20;
/// How many tools are shown.
const TOOLS: usize = 100;
/// How many events of a client are shown, and how many clients that were told of a change.
const EVENTS: usize = 100;

struct ScreenQuery(HashMap<String, String>);

impl ScreenQuery {
    fn of(raw: Option<String>) -> Self {
        Self(fields(&raw.unwrap_or_default()).into_iter().collect())
    }

    fn text(&self, name: &str) -> String {
        self.0.get(name).cloned().unwrap_or_default()
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
        let change = wanted.is_in(&row.json).then(|| views::change(&page, row))??;
        let fits = (filter.server.is_empty() || filter.server == change.server)
            && (filter.kind.is_empty() || filter.kind == change.kind)
            && filter.severity.is_none_or(|severity| severity == change.severity);
        fits.then_some(change)
    };
    let shell = page.shell(visitor.form_token).await;
    let (changes, older) = match newest_first(query.before(), RowLog::Changes(&page.0.changes), fit).await {
        Ok(found) => found,
        Err(error) => {
            let page = tidings_page::problem(&shell, "The change log can not be read", &error.to_string(), "/");
            return html(StatusCode::SERVICE_UNAVAILABLE, page);
        }
    };
    let servers = views::servers(&page).into_iter().map(|server| server.name).collect();
    let (newest, demo) = (query.before().is_none(), page.0.demo.clone());
    html(StatusCode::OK, FeedScreen { changes, filter, servers, older, newest, demo }.page(&shell))
}

/// Which log is read.
#[derive(Clone, Copy)]
enum RowLog<'a> {
    Changes(&'a ChangeLog),
    Audit(&'a AuditLog),
}

impl RowLog<'_> {
    async fn read(self, query: ChangeQuery) -> Result<Vec<ChangeRow>, LogError> {
        let found = match self {
            Self::Changes(log) => log.read(query).await?,
            Self::Audit(log) => log.read(query).await?,
        };
        Ok(found.rows)
    }
}

/// Rows that fit, the newest first, and where older ones begin.
async fn newest_first<T>(
    before: Option<u64>,
    log: RowLog<'_>,
    fit: impl Fn(&ChangeRow) -> Option<T>,
) -> Result<(Vec<T>, Option<u64>), LogError> {
    let mut before = before.unwrap_or(u64::MAX);
    let (mut out, mut scanned) = (Vec::new(), 0);
    loop {
        let from = QueryStart::Before(before);
        let rows = log.read(ChangeQuery { from, limit: BATCH, max_bytes: BATCH_BYTES }).await?;
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
pub(super) async fn clients(State(page): State<PageServer>, Extension(visitor): Extension<Visitor>) -> Response {
    let shell = page.shell(visitor.form_token).await;
    let (clients, since) = views::clients(&page, shell.now);
    html(StatusCode::OK, ClientsScreen { clients, since }.page(&shell))
}

/// `GET /clients/{id}`.
pub(super) async fn client(
    State(page): State<PageServer>,
    Extension(visitor): Extension<Visitor>,
    Path(id): Path<u64>,
) -> Response {
    let shell = page.shell(visitor.form_token).await;
    let (clients, since) = views::clients(&page, shell.now);
    match clients.into_iter().find(|client| client.id == id) {
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

/// `GET /follows`.
pub(super) async fn follows(
    State(page): State<PageServer>,
    Extension(visitor): Extension<Visitor>,
    RawQuery(raw): RawQuery,
) -> Response {
    let server = ScreenQuery::of(raw).text("server");
    let shell = page.shell(visitor.form_token).await;
    html(StatusCode::OK, FollowsScreen { follows: views::follows(&page), server }.page(&shell))
}

/// `GET /servers`.
pub(super) async fn servers(State(page): State<PageServer>, Extension(visitor): Extension<Visitor>) -> Response {
    let shell = page.shell(visitor.form_token).await;
    html(StatusCode::OK, ServersScreen { servers: views::servers(&page) }.page(&shell))
}

/// `GET /servers/{name}`.
pub(super) async fn server(
    State(page): State<PageServer>,
    Extension(visitor): Extension<Visitor>,
    Path(name): Path<String>,
) -> Response {
    let shell = page.shell(visitor.form_token).await;
    let Some(server) = views::servers(&page).into_iter().find(|server: &ServerView| server.name == name) else {
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
    let tools = items.into_iter().flatten().take(TOOLS).map(|item| tool(&item.raw)).collect();
    let logs = crate::server_log::LogTail::of(&page.0.data);
    let log = tokio::task::spawn_blocking(move || logs.tail(&name)).await.unwrap_or_default();
    html(StatusCode::OK, ServerScreen { server, tools, log }.page(&shell))
}

/// `GET /tools`.
pub(super) async fn tools(
    State(page): State<PageServer>,
    Extension(visitor): Extension<Visitor>,
    RawQuery(raw): RawQuery,
) -> Response {
    let query = ScreenQuery::of(raw).text("q").trim().to_owned();
    let shell = page.shell(visitor.form_token).await;
    let asked = (!query.is_empty()).then(|| query.clone());
    let limit = if asked.is_some() { 20 } else { usize::MAX };
    let found = tidings_admin::tools(&page.0.gateway, &page.0.index, asked, Some(limit)).await;
    let found: Value = serde_json::from_str(&found).unwrap_or_default();
    let all = found["tools"].as_array().map(Vec::as_slice).unwrap_or_default();
    let tools = all.iter().take(TOOLS).map(views::tool).collect();
    html(StatusCode::OK, ToolsScreen { query, tools, total: all.len() }.page(&shell))
}

/// `GET /calls`.
pub(super) async fn calls(
    State(page): State<PageServer>,
    Extension(visitor): Extension<Visitor>,
    RawQuery(raw): RawQuery,
) -> Response {
    let query = ScreenQuery::of(raw);
    let shell = page.shell(visitor.form_token).await;
    let server = query.text("server");
    let Some(audit) = &page.0.audit else {
        let screen = CallsScreen { calls: Vec::new(), recorded: false, server, older: None };
        return html(StatusCode::OK, screen.page(&shell));
    };
    let fit = |row: &ChangeRow| views::call(row).filter(|call| server.is_empty() || call.server == server);
    let found = newest_first(query.before(), RowLog::Audit(audit), fit).await;
    match found {
        Ok((calls, older)) => html(StatusCode::OK, CallsScreen { calls, recorded: true, server, older }.page(&shell)),
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
    let connected =
        page.0.gateway.connected().into_iter().map(|client| client.name.unwrap_or_else(|| "unnamed".to_owned()));
    let screen = ConnectScreen {
        commands: page.0.connect.clone(),
        has_tokens: page.0.has_tokens,
        connected: connected.collect(),
    };
    html(StatusCode::OK, screen.page(&shell))
}
