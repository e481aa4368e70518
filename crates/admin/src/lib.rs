//! What people and monitors ask the gateway about itself: health, metrics, and the HTTP API under `/api/v1`.
//!
//! Reads snapshots and passes commands on; holds no state of its own.

mod approvals;
mod audit;
mod calls;
mod change_filter;
mod changes;
mod clients;
mod cluster;
mod connect;
mod definitions;
mod entries;
mod events;
mod explain;
mod explain_change;
mod hooks;
mod links;
mod log_feed;
mod login;
mod manage;
mod metrics;
mod metrics_text;
mod notify;
mod offers;
mod openapi;
mod pulls;
mod query_fault;
mod search;
mod server_log;
mod servers;
mod sessions;
mod subscriptions;
mod telemetry;
mod tools;
mod try_call;
mod upgrade;
mod upgrade_difference;

pub use approvals::{DecisionFault, approvals, decide, offered};
pub use calls::{CallsQuery, calls};
pub use clients::{client, client_ledger, client_reason, clients, clients_part, deliveries};
pub use definitions::{definition, millis, moment, states};
pub use entries::entries;
pub use events::{EventSource, respond as event_stream};
pub use hooks::hooks;
pub use links::{LinkRequest, PageLink, PageLinks};
pub use offers::offers;
pub use server_log::ServerLogs;
pub use servers::{describe, describe_server, describe_some, server_states};
pub use tools::{tools, tools_at, tools_part, tools_seen};
pub use try_call::{CallDesk, TriedCall, TryFault, TryPhase, TryState};

use std::sync::Arc;

use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::{Method, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, delete, get, post, put};
use axum::{Extension, Router};
use tidings_engine::{AccessPolicy, AuditedDecision, Gateway};
use tidings_identity::{Authenticator, ClientCertificate, RefusedToken};
use tidings_inventory::ServerRegistry;
use tidings_login::Logins;
use tidings_outbound_hooks::OutboundHooks;
use tidings_search::{SearchControl, ToolIndex};
use tidings_server_catalog::EntryCatalogue;
use tidings_store::{AuditLog, ChangeLog};
use tidings_telemetry::Telemetry;

/// What the routes share.
#[derive(Clone)]
struct AdminShared {
    gateway: Gateway,
    registry: ServerRegistry,
    index: Arc<ToolIndex>,
    search: Arc<dyn SearchControl>,
    changes: ChangeLog,
    audit: Option<AuditLog>,
    links: Option<Arc<dyn PageLinks>>,
    logins: Option<Logins>,
    logs: Option<Arc<dyn ServerLogs>>,
    connect: Vec<(String, String)>,
    entries: Option<Arc<dyn EntryCatalogue>>,
    desk: CallDesk,
    hooks: Option<OutboundHooks>,
    telemetry: Option<Telemetry>,
    upgrades: upgrade::UpgradeDesk,
    clients: Authenticator,
    keys: Authenticator,
}

/// The routes of the API. `openapi.json` describes each of them, and no other.
fn api() -> Vec<(Method, &'static str, MethodRouter<AdminShared>)> {
    vec![
        (Method::GET, "/approvals", get(approvals::list)),
        (Method::POST, "/approvals", post(approvals::decide_all)),
        (Method::POST, "/approvals/{id}", post(approvals::decide_one)),
        (Method::GET, "/audit", get(audit::list)),
        (Method::POST, "/audit/checkpoints", post(audit::checkpoint)),
        (Method::GET, "/audit/stream", get(audit::stream)),
        (Method::POST, "/audit/verify", post(audit::verify).layer(DefaultBodyLimit::max(audit::MOST_CHECKPOINTS))),
        (Method::POST, "/batch", post(manage::batch)),
        (Method::GET, "/calls", get(calls::list)),
        (Method::POST, "/calls", post(try_call::begin)),
        (Method::GET, "/calls/{id}", get(try_call::show)),
        (Method::DELETE, "/calls/{id}", delete(try_call::cancel)),
        (Method::POST, "/calls/{id}/answer", post(try_call::answer)),
        (Method::GET, "/changes", get(changes::list)),
        (Method::GET, "/changes/stream", get(changes::stream)),
        (Method::GET, "/changes/{seq}", get(changes::show)),
        (Method::GET, "/changes/{seq}/deliveries", get(changes::deliveries)),
        (Method::GET, "/clients", get(clients::list)),
        (Method::GET, "/clients/{id}", get(clients::show)),
        (Method::GET, "/clients/{id}/ledger", get(clients::ledger)),
        (Method::GET, "/connect", get(connect::show)),
        (Method::GET, "/definitions/{digest}", get(definitions::by_digest)),
        (Method::GET, "/definitions/{kind}/{server}/{name}", get(definitions::show)),
        (Method::GET, "/definitions/{kind}/{server}/{name}/history", get(definitions::history)),
        (Method::GET, "/entries", get(entries::list)),
        (Method::POST, "/entries/refresh", post(entries::refresh)),
        (Method::GET, "/entries/{id}", get(entries::show)),
        (Method::POST, "/entries/{id}/add", post(entries::add)),
        (Method::GET, "/explain", get(explain::show)),
        (Method::POST, "/explain", post(explain_change::show)),
        (Method::POST, "/links", post(links::make)),
        (Method::GET, "/lock", get(approvals::lock)),
        (Method::GET, "/openapi.json", get(openapi::show)),
        (Method::GET, "/prompts", get(offers::prompts)),
        (Method::GET, "/pulls/stream", get(pulls::follow)),
        (Method::POST, "/reload", post(manage::reload)),
        (Method::GET, "/resources", get(offers::resources)),
        (Method::GET, "/search", get(search::show)),
        (Method::DELETE, "/search/uses", delete(search::forget)),
        (Method::GET, "/servers", get(servers::list)),
        (Method::GET, "/servers/{name}", get(servers::show)),
        (Method::PUT, "/servers/{name}", put(manage::put)),
        (Method::DELETE, "/servers/{name}", delete(manage::delete)),
        (Method::POST, "/servers/{name}/disable", post(manage::disable)),
        (Method::POST, "/servers/{name}/enable", post(manage::enable)),
        (Method::POST, "/servers/{name}/login", post(login::begin)),
        (Method::POST, "/servers/{name}/login/complete", post(login::complete)),
        (Method::GET, "/servers/{name}/login/{ticket}", get(login::outcome)),
        (Method::POST, "/servers/{name}/logout", post(login::log_out)),
        (Method::GET, "/servers/{name}/log", get(server_log::show)),
        (Method::POST, "/servers/{name}/restart", post(manage::restart)),
        (Method::POST, "/servers/{name}/upgrade", post(upgrade::begin)),
        (Method::POST, "/servers/{name}/upgrade/{id}", post(upgrade::decide)),
        (Method::GET, "/sessions", get(sessions::list)),
        (Method::GET, "/sources", get(entries::sources)),
        (Method::GET, "/status", get(servers::status)),
        (Method::GET, "/subscriptions", get(subscriptions::list)),
        (Method::GET, "/tools", get(tools::list)),
    ]
}

/// What the API shows and changes.
pub struct AdminParts {
    /// The gateway whose servers, sessions and catalogue the pages show.
    pub gateway: Gateway,
    /// What decides which servers it has.
    pub registry: ServerRegistry,
    /// The searchable catalogue of its tools.
    pub index: Arc<ToolIndex>,
    /// How these are searched.
    pub search: Arc<dyn SearchControl>,
    /// The change log that `GET /changes` reads and follows.
    pub changes: ChangeLog,
    /// The audit log, unless it is off.
    pub audit: Option<AuditLog>,
    /// Makes links to the page, where there is one.
    pub links: Option<Arc<dyn PageLinks>>,
    /// The logins to servers, where they are kept.
    pub logins: Option<Logins>,
    /// What was logged, where that is kept.
    pub logs: Option<Arc<dyn ServerLogs>>,
    /// How clients are connected, one command each.
    pub connect: Vec<(String, String)>,
    /// Servers that could be added, where there is a catalogue of them.
    pub entries: Option<Arc<dyn EntryCatalogue>>,
    /// Where calls are tried.
    pub desk: CallDesk,
    /// The URLs that are told of changes, where there can be some.
    pub hooks: Option<OutboundHooks>,
    /// The export of traces and measures, where there is one.
    pub telemetry: Option<Telemetry>,
    /// Lets clients in, and counts what they have.
    pub clients: Authenticator,
    /// Reads rules that do not hold yet.
    pub rules: PolicyReader,
}

/// From the text of a file with `[policy]` to its rules, or what is wrong with it.
pub type PolicyReader = fn(&str) -> Result<Arc<AccessPolicy>, String>;

/// Routes for everything but the MCP endpoint. The admins of `keys` open the API, and the metrics unless these are `open`.
pub fn router(parts: AdminParts, keys: Authenticator, open: bool) -> Router {
    let AdminParts {
        gateway,
        registry,
        index,
        search,
        changes,
        audit,
        links,
        logins,
        logs,
        connect,
        entries,
        desk,
        hooks,
        telemetry,
        clients,
        rules,
    } = parts;
    let admin = AdminShared {
        gateway,
        registry,
        index,
        search,
        changes,
        audit,
        links,
        logins,
        logs,
        connect,
        entries,
        desk,
        hooks,
        telemetry,
        upgrades: upgrade::UpgradeDesk::default(),
        clients,
        keys,
    };
    let routes = api().into_iter().fold(Router::new(), |router, (_, path, handler)| router.route(path, handler));
    let api = routes
        .method_not_allowed_fallback(|| async {
            problem(StatusCode::METHOD_NOT_ALLOWED, "GET /api/v1/openapi.json says which methods there are")
        })
        .layer(Extension(rules))
        .layer(middleware::from_fn_with_state(admin.clone(), authorise));
    let mut metrics = Router::new().route("/metrics", get(metrics::show));
    // Names of servers and numbers of clients are nobody else's business.
    if !open {
        metrics = metrics.layer(middleware::from_fn_with_state(admin.clone(), authorise));
    }
    Router::new()
        .merge(metrics)
        // Open to everybody: probes have no token, and the answers tell nothing.
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(ready))
        .nest("/api/v1", api)
        .fallback(|| async { problem(StatusCode::NOT_FOUND, "no such page; the MCP endpoint is /mcp") })
        .with_state(admin)
}

async fn ready(State(admin): State<AdminShared>) -> Response {
    if admin.gateway.is_ready() {
        return "ready\n".into_response();
    }
    problem(StatusCode::SERVICE_UNAVAILABLE, "servers are still starting")
}

async fn authorise(State(admin): State<AdminShared>, request: Request, next: Next) -> Response {
    let given = request.headers().get(header::AUTHORIZATION).map(header::HeaderValue::as_bytes);
    // Owned, because the request is handed on.
    let given = given.map(<[u8]>::to_vec);
    let certificate = request.extensions().get::<Arc<ClientCertificate>>().cloned();
    let entered = admin.keys.enter(given.as_deref(), certificate.as_deref()).await;
    match entered {
        Ok(principal) if principal.is_admin() && request.method() == Method::GET => return next.run(request).await,
        Ok(principal) if principal.is_admin() => {
            // For whoever has to know who asks.
            let mut request = request;
            request.extensions_mut().insert((*principal).clone());
            let principal = principal.name.to_string();
            let done = format!("{} {}", request.method(), request.uri().path());
            let response = next.run(request).await;
            let status = response.status().as_u16();
            admin.gateway.record_decision(AuditedDecision::Administration { principal, request: done, status });
            return response;
        }
        Ok(principal) => {
            let name = &principal.name;
            let detail = format!("the token \"{name}\" of [auth] does not open this; that needs one with admin = true");
            return problem(StatusCode::FORBIDDEN, &detail);
        }
        Err(refused @ RefusedToken::Silent) => {
            return problem(StatusCode::SERVICE_UNAVAILABLE, &refused.to_string());
        }
        Err(_) => {}
    }
    let mut response = problem(
        StatusCode::UNAUTHORIZED,
        "send `Authorization: Bearer` with the content of admin.token in the data directory, or an admin token of [auth]",
    );
    // RFC 9110 wants it with every 401.
    response.headers_mut().insert(header::WWW_AUTHENTICATE, header::HeaderValue::from_static("Bearer"));
    response
}

/// An error as RFC 9457 has it.
fn problem(status: StatusCode, detail: &str) -> Response {
    let body = serde_json::json!({
        "type": "about:blank",
        "title": status.canonical_reason().unwrap_or("error"),
        "status": status.as_u16(),
        "detail": detail,
    });
    (status, [(header::CONTENT_TYPE, "application/problem+json")], body.to_string()).into_response()
}
