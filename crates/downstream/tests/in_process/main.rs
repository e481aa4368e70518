//! The whole gateway in the process of the test, between scripted servers and clients: for what can not be seen from outside, and
//! for times that are too long to be waited for.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod first_replies;
mod stalled_answers;
mod tasks;

use std::sync::Arc;
use std::time::Duration;

use tidings_downstream::http::{EndpointOptions, serve};
use tidings_engine::{
    CallTimes, Gateway, GatewayStart, Isolation, ListAnnouncements, ListPages, Names, NoticePace, Origin, RefreshPace,
    ServerPlacement, ServerPlan, Settings, Source, WaitLimits,
};
use tidings_proto::FieldView;
use tidings_testkit::Server;
use tidings_upstream::{
    EraChoice, HttpSpec, LinkConnector, NetworkReach, ProcessLauncher, ServerSpec, StdioSpec, TransportSpec,
};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// A gateway that serves.
struct Serving {
    url: String,
    gateway: Gateway,
    stop: CancellationToken,
    serving: JoinHandle<()>,
}

impl Serving {
    async fn start(servers: Vec<ServerPlan>, options: EndpointOptions) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let stop = CancellationToken::new();
        let connector = LinkConnector::new(ProcessLauncher::new(None)).unwrap();
        let gateway = Gateway::start(GatewayStart::new(settings(), servers, connector));
        gateway.settled().await;
        let serving =
            tokio::spawn(serve(vec![listener.into()], gateway.clone(), axum::Router::new(), options, stop.clone()));
        Self { url, gateway, stop, serving }
    }

    /// Ends it in good order.
    async fn end(self) {
        self.stop.cancel();
        self.serving.await.unwrap();
        self.gateway.shutdown().await;
    }
}

/// What makes a scripted server one of the gateway's.
fn plan(name: &str, transport: TransportSpec) -> ServerPlan {
    ServerPlan {
        source: Source::Remote(ServerSpec { name: name.to_owned(), transport, era: EraChoice::Auto }),
        origin: Origin::File,
        name: name.into(),
        name_prefix: name.into(),
        uri_prefix: name.into(),
        transparent_uris: false,
        isolation: Isolation::Auto,
        call_times: CallTimes::default(),
        poll_interval: None,
        listed: true,
        permits: Arc::new(|_| true),
        trusts_annotations: false,
        approval: None,
        placement: ServerPlacement::default(),
        identity: None,
    }
}

fn at_url(server: &Server) -> TransportSpec {
    TransportSpec::Http(HttpSpec {
        url: server.url(),
        headers: Vec::new(),
        reach: NetworkReach::Anywhere,
        credential: None,
    })
}

fn as_process(server: &Server) -> TransportSpec {
    let (program, args) = server.command();
    TransportSpec::Stdio(StdioSpec {
        program,
        args,
        env: Vec::new(),
        cwd: None,
        inherit_env: Default::default(),
        sandbox: None,
    })
}

fn settings() -> Settings {
    let long = Duration::from_secs(60);
    Settings {
        waits: WaitLimits { start: long, added: long, silence: long, call: long },
        pages: ListPages { size: 100, longest_bound: None },
        view: FieldView::default(),
        names: Names::Auto,
        list_pace: RefreshPace { quiet: Duration::ZERO, max_wait: Duration::ZERO },
        resource_pace: NoticePace { quiet: Duration::ZERO, max_wait: Duration::ZERO },
        poll_interval: long,
        clients: Default::default(),
        announcements: ListAnnouncements { initially: true, silent: Vec::new(), hints: false },
        own_links: Default::default(),
        limits: Default::default(),
        parks: Default::default(),
        seal_key: Default::default(),
        version: "0",
        path: Default::default(),
    }
}
