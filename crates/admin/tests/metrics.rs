//! Who may read the metrics.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{Request, header};
use tidings_admin::AdminParts;
use tidings_config::{Config, ServerConfig};
use tidings_engine::{AccessScope, Gateway, GatewayStart, Names, Origin, Principal, ServerPlan, Settings, WaitLimits};
use tidings_identity::{Authenticator, AuthenticatorSettings, StaticToken};
use tidings_inventory::{RegistrySetup, ServerPlanner, ServerRegistry, WatchFault, WatchServerPlan};
use tidings_proto::FieldView;
use tidings_store::{ChangeLog, LogLimits, ServerTable, Store};
use tidings_upstream::{LinkConnector, ProcessLauncher};
use tower::ServiceExt as _;

fn gateway() -> Gateway {
    let settings = Settings {
        waits: WaitLimits {
            start: Duration::ZERO,
            added: Duration::from_secs(60),
            silence: Duration::from_secs(1),
            call: Duration::from_secs(1),
        },
        pages: tidings_engine::ListPages { size: 10, longest_bound: None },
        view: FieldView::default(),
        names: Names::Auto,
        list_pace: tidings_engine::RefreshPace { quiet: Duration::ZERO, max_wait: Duration::ZERO },
        resource_pace: tidings_engine::NoticePace::default(),
        poll_interval: Duration::ZERO,
        clients: Default::default(),
        announcements: tidings_engine::ListAnnouncements { initially: false, silent: Vec::new(), hints: false },
        own_links: Default::default(),
        limits: Default::default(),
        parks: Default::default(),
        seal_key: Default::default(),
        version: "0",
        path: Default::default(),
    };
    let connector = LinkConnector::new(ProcessLauncher::new(None)).unwrap();
    Gateway::start(GatewayStart::new(settings, Vec::new(), connector))
}

/// A registry of nothing.
struct Nothing;

impl ServerPlanner for Nothing {
    fn plan(&self, _: &ServerConfig, _: Origin) -> ServerPlan {
        unreachable!("no servers here")
    }

    fn watches(&self, _: &Config) -> Result<WatchServerPlan, WatchFault> {
        Err(WatchFault("no watches here".to_owned()))
    }
}

/// A search that has nothing to tell.
struct NoSearch;

impl tidings_search::SearchControl for NoSearch {
    fn describe(&self) -> serde_json::Value {
        serde_json::json!({})
    }

    fn forget(&self) -> std::pin::Pin<Box<dyn Future<Output = Result<usize, tidings_search::ForgetFault>> + Send>> {
        Box::pin(async { Ok(0) })
    }
}

fn parts(gateway: &Gateway, changes: &ChangeLog) -> AdminParts {
    let table = ServerTable::new(&Store::in_memory());
    let setup = RegistrySetup {
        config: Config::default(),
        text: None,
        file: None,
        load: None,
        base: "/".into(),
        planner: Arc::new(Nothing),
        table,
    };
    let registry = ServerRegistry::new(setup);
    AdminParts {
        gateway: gateway.clone(),
        registry,
        index: Arc::default(),
        search: Arc::new(NoSearch),
        changes: changes.clone(),
        links: None,
        logins: None,
        logs: None,
        connect: Vec::new(),
        entries: None,
        desk: tidings_admin::CallDesk::default(),
        audit: None,
        hooks: None,
        telemetry: None,
        clients: Authenticator::default(),
        rules: |_| Err("no rules are read here".to_owned()),
    }
}

/// `secret` is an admin's, `guest` is not.
fn keys() -> Authenticator {
    let guest = AccessScope::new(vec!["*".to_owned()], false, |_, _| true);
    let tokens = vec![
        StaticToken::of("secret", Principal::new("owner", AccessScope::everything())),
        StaticToken::of("guest", Principal::new("guest", guest)),
    ];
    Authenticator::closed(AuthenticatorSettings { tokens, ..AuthenticatorSettings::default() })
}

/// The status and content type of the metrics, asked for with this token.
async fn ask(router: &Router, token: Option<&str>) -> (u16, String) {
    let mut request = Request::get("/metrics");
    if let Some(token) = token {
        request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
    }
    let answer = router.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
    let kind = answer.headers()[header::CONTENT_TYPE].to_str().unwrap().to_owned();
    (answer.status().as_u16(), kind)
}

// interface (metrics)
#[tokio::test]
async fn metrics_are_open_on_loopback_and_behind_the_token_elsewhere() {
    let gateway = gateway();
    let text = "text/plain; version=0.0.4; charset=utf-8".to_owned();
    let problem = "application/problem+json".to_owned();
    let log = ChangeLog::start(Store::in_memory, LogLimits::default());
    let open = tidings_admin::router(parts(&gateway, &log), keys(), true);
    assert_eq!(ask(&open, None).await, (200, text.clone()));
    let closed = tidings_admin::router(parts(&gateway, &log), keys(), false);
    assert_eq!(ask(&closed, None).await, (401, problem.clone()));
    assert_eq!(ask(&closed, Some("other")).await, (401, problem.clone()));
    assert_eq!(ask(&closed, Some("guest")).await, (403, problem), "known, and no admin");
    assert_eq!(ask(&closed, Some("secret")).await, (200, text));
    gateway.shutdown().await;
}
