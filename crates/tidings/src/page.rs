//! The page over HTTP: who is let in, and from what is known to what is shown. What is shown is the matter of the crate `page`.

mod actions;
mod add;
mod beliefs;
mod entrance;
mod follows;
mod live;
mod recent_calls;
mod screens;
mod shown_state;
mod tools;
mod views;

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::RawQuery;
use axum::http::{StatusCode, header};
use axum::middleware;
use axum::response::{Html, IntoResponse, Response};
use axum::routing::{get, post};
use jiff::Timestamp;
use tidings_admin::{CallDesk, LinkRequest, PageLink, PageLinks};
use tidings_engine::Gateway;
use tidings_inventory::ServerRegistry;
use tidings_login::Logins;
use tidings_page::{Door, DoorSession, Shell};
use tidings_search::ToolIndex;
use tidings_server_catalog::LocalCatalogue;
use tidings_store::{AuditLog, ChangeLog};
use tidings_sync::Lock;
use tokio::sync::Semaphore;

use crate::data::DataDir;
use crate::failure::CommandFailure;
use crate::secret;

/// How many streams of news there may be.
const STREAMS: usize = 64;

/// What the page shows and who may see it.
#[derive(Clone)]
pub(crate) struct PageServer(Arc<PageParts>);

pub(crate) struct PageParts {
    pub(crate) gateway: Gateway,
    pub(crate) registry: ServerRegistry,
    pub(crate) index: Arc<ToolIndex>,
    pub(crate) changes: ChangeLog,
    pub(crate) audit: Option<AuditLog>,
    /// Where sessions are kept.
    pub(crate) data: DataDir,
    /// Its own host name: a cookie of 127.0.0.1 would be sent to every other port of that host.
    pub(crate) host: String,
    /// Where the gateway listens.
    pub(crate) address: SocketAddr,
    /// `http` or `https`.
    pub(crate) scheme: &'static str,
    /// Whether only this machine can connect.
    pub(crate) loopback: bool,
    /// How clients are connected, one command each.
    pub(crate) connect: Vec<(String, String)>,
    pub(crate) has_tokens: bool,
    /// The command that makes the demo's change.
    pub(crate) demo: Option<String>,
    pub(crate) door: Lock<Door>,
    pub(crate) streams: Arc<Semaphore>,
    /// Servers that could be added.
    pub(crate) entries: Arc<LocalCatalogue>,
    /// The logins to servers, where they are kept.
    pub(crate) logins: Option<Logins>,
    /// Where calls are tried.
    pub(crate) desk: CallDesk,
}

/// The beginning of a page: what can fail has failed before.
pub(crate) fn door_of(data: &DataDir) -> Door {
    let kept = std::fs::read(data.path().join(SESSIONS)).ok();
    let sessions: Vec<DoorSession> = kept.and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default();
    Door::with_sessions(sessions)
}

/// The file of the sessions: hashes of cookies, and when they end.
const SESSIONS: &str = "page.sessions";

impl PageServer {
    pub(crate) fn new(parts: PageParts) -> Self {
        Self(Arc::new(parts))
    }

    pub(crate) fn host(&self) -> &str {
        &self.0.host
    }

    pub(crate) fn streams() -> Arc<Semaphore> {
        Arc::new(Semaphore::new(STREAMS))
    }

    /// The routes of the page.
    pub(crate) fn router(&self) -> Router {
        let style = |query: RawQuery| asset("text/css; charset=utf-8", tidings_page::STYLE, query);
        let script = |query: RawQuery| asset("text/javascript; charset=utf-8", tidings_page::SCRIPT, query);
        let inside = Router::new()
            .route("/", get(screens::feed))
            .route("/changes/{seq}", get(screens::change))
            .route("/clients", get(screens::clients))
            .route("/clients/{id}", get(screens::client))
            .route("/follows", get(follows::show))
            .route("/servers", get(screens::servers))
            .route("/servers/{name}", get(screens::server))
            .route("/servers/{name}/{action}", post(actions::server))
            .route("/add", get(add::show).post(add::add))
            .route("/tools", get(tools::list))
            .route("/tools/{server}/{local}", get(tools::show))
            .route("/tools/{server}/{local}/try", post(tools::begin))
            .route("/tries/{id}", get(tools::tried))
            .route("/tries/{id}/{action}", post(tools::act))
            .route("/calls", get(screens::calls))
            .route("/approvals", get(screens::approvals).post(actions::approve))
            .route("/connect", get(screens::connect))
            .route("/live", get(live::follow))
            .route("/logout", post(actions::leave))
            .layer(middleware::from_fn_with_state(self.clone(), entrance::admit));
        Router::new()
            .merge(inside)
            .route("/login", get(entrance::login))
            .route("/page.css", get(style))
            .route("/page.js", get(script))
            .layer(middleware::map_response(entrance::with_headers))
            .with_state(self.clone())
    }

    /// The frame around every screen.
    async fn shell(&self, form_token: Option<String>) -> Shell {
        let catalogue = self.0.gateway.catalogue().borrow().clone();
        Shell {
            now: Timestamp::now(),
            form_token,
            failing: shown_state::failing(&catalogue),
            waiting: self.0.gateway.all_waiting_approvals(),
            refresh: false,
            last_change: self.0.changes.newest().await.unwrap_or(0),
        }
    }

    /// Writes the sessions down, so that a restart ends none.
    async fn keep_sessions(&self) {
        let (sessions, path) = (self.0.door.lock().sessions(), self.0.data.path().join(SESSIONS));
        let write = move || crate::data::write_private_whole(&path, &serde_json::to_vec(&sessions).unwrap_or_default());
        if !matches!(tokio::task::spawn_blocking(write).await, Ok(Ok(()))) {
            tracing::warn!("sessions of the page could not be kept; after a restart they end");
        }
    }

    /// A fresh link. `None` where the page is not served.
    pub(crate) fn make_link(&self, request: &LinkRequest) -> Result<Option<PageLink>, CommandFailure> {
        if !self.0.loopback {
            return Ok(None);
        }
        let host = match request.plain_host {
            true => self.0.address.ip().to_string(),
            false => self.0.host.clone(),
        };
        let mut key = secret::fresh()?;
        key.truncate(32);
        self.0.door.lock().issue(&key, &host, request.read_only, now());
        let shown = if host.contains(':') { format!("[{host}]") } else { host };
        let url = format!("{}://{shown}:{}/login?k={key}", self.0.scheme, self.0.address.port());
        Ok(Some(PageLink { url, seconds: 600 }))
    }
}

impl PageLinks for PageServer {
    fn link(&self, request: &LinkRequest) -> Option<PageLink> {
        self.make_link(request).ok().flatten()
    }
}

/// Seconds since 1970.
fn now() -> u64 {
    u64::try_from(Timestamp::now().as_second()).unwrap_or_default()
}

/// The style sheet or the script. A browser that has it does not ask again: another text has another address.
async fn asset(kind: &'static str, text: &'static str, RawQuery(asked): RawQuery) -> Response {
    let version = format!("v={:016x}", tidings_page::ASSETS_VERSION);
    let keep = if asked.as_deref() == Some(&*version) { "private, max-age=31536000, immutable" } else { "no-store" };
    ([(header::CONTENT_TYPE, kind), (header::CACHE_CONTROL, keep)], text).into_response()
}

fn html(status: StatusCode, page: String) -> Response {
    (status, Html(page)).into_response()
}
