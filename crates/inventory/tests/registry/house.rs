//! A gateway with a registry, and clients that count what they are told.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tidings_config::{Config, ServerConfig, TransportConfig};
use tidings_downstream::http::{self, EndpointOptions};
use tidings_engine::{
    CallTimes, Change as Recorded, FirstListing, Gateway, GatewayStart, Isolation, Journal, JournalServer,
    ListAnnouncements, ListPages, Names, NoticePace, Origin, RefreshPace, ServerPlacement, ServerPlan, Settings,
    Source, WaitLimits,
};
use tidings_inventory::{
    ConfigLoader, LoadFault, RegistryChange, RegistrySetup, ServerPlanner, ServerRegistry, WatchFault, WatchServerPlan,
};
use tidings_proto::FieldView;
use tidings_store::{ServerTable, Store};
use tidings_testkit::{Client, ClientBuilder, Server, ServerBuilder, TempDir};
use tidings_upstream::{
    EraChoice, HttpSpec, LinkConnector, NetworkReach, ProcessLauncher, ServerSpec, StdioSpec, TransportSpec,
};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

pub(crate) use tidings_testkit::{KINDS, ListFollower};

/// How a house is run.
#[derive(Clone)]
pub(crate) struct Rules {
    pub(crate) start_timeout: Duration,
    pub(crate) names: Names,
    /// How long signals of a server are gathered.
    pub(crate) list_quiet: Duration,
}

impl Default for Rules {
    fn default() -> Self {
        Self { start_timeout: Duration::from_secs(30), names: Names::Prefix, list_quiet: Duration::from_millis(20) }
    }
}

/// A running gateway whose servers can be changed.
pub(crate) struct House {
    pub(crate) registry: ServerRegistry,
    pub(crate) gateway: Gateway,
    /// What the change feed was told.
    pub(crate) feed: Arc<Feed>,
    pub(crate) plans: Arc<Plans>,
    url: String,
    directory: Arc<TempDir>,
    rules: Rules,
    stop: CancellationToken,
    serving: JoinHandle<()>,
}

/// Remembers changes.
#[derive(Default)]
pub(crate) struct Feed(Mutex<Vec<Recorded>>);

impl Journal for Feed {
    fn began(&self, _: Vec<JournalServer>) {}

    /// Nothing is known from earlier: everything is new.
    fn listed(&self, listing: FirstListing) {
        if listing.at_start {
            return;
        }
        for (kind, items) in listing.lists.into_iter().filter(|(_, items)| !items.is_empty()) {
            self.record(Recorded {
                time: listing.time,
                commit: listing.commit,
                server: listing.server.clone(),
                kind,
                added: items.iter().map(|(name, ..)| name.clone()).collect(),
                removed: Vec::new(),
                changed: Vec::new(),
                digests: items,
                definitions: Vec::new(),
                held: false,
            });
        }
    }

    fn gone(&self, _: JournalServer) {}

    fn record(&self, change: Recorded) {
        self.0.lock().unwrap().push(change);
    }
}

impl Feed {
    pub(crate) fn all(&self) -> Vec<Recorded> {
        self.0.lock().unwrap().clone()
    }
}

/// Makes plans, and counts them.
#[derive(Default)]
pub(crate) struct Plans(AtomicUsize);

impl Plans {
    /// How many plans were made.
    pub(crate) fn made(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

impl ServerPlanner for Plans {
    fn plan(&self, server: &ServerConfig, origin: Origin) -> ServerPlan {
        self.0.fetch_add(1, Ordering::SeqCst);
        let transport = match &server.transport {
            TransportConfig::Stdio { command, args, env, cwd } => TransportSpec::Stdio(StdioSpec {
                program: command.clone(),
                args: args.clone(),
                env: env.clone(),
                cwd: cwd.clone(),
                inherit_env: Default::default(),
                sandbox: None,
            }),
            TransportConfig::Http { url, headers } => TransportSpec::Http(HttpSpec {
                url: url.clone(),
                headers: headers.clone(),
                reach: NetworkReach::Anywhere,
                credential: None,
            }),
            TransportConfig::Sse { url, headers } => TransportSpec::Sse(HttpSpec {
                url: url.clone(),
                headers: headers.clone(),
                reach: NetworkReach::Anywhere,
                credential: None,
            }),
            _ => panic!("this house has neither containers nor projects"),
        };
        ServerPlan {
            source: Source::Remote(ServerSpec { name: server.name.clone(), transport, era: EraChoice::Auto }),
            origin,
            name: server.name.clone(),
            name_prefix: server.name_prefix(),
            uri_prefix: server.uri_prefix(),
            transparent_uris: false,
            isolation: match server.isolation {
                tidings_config::IsolationSetting::Auto => Isolation::Auto,
                tidings_config::IsolationSetting::Session => Isolation::Session,
                tidings_config::IsolationSetting::Principal => Isolation::Principal,
            },
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

    fn watches(&self, _config: &Config) -> Result<WatchServerPlan, WatchFault> {
        Err(WatchFault("this house watches nothing".to_owned()))
    }
}

impl House {
    /// With these servers in its configuration file.
    pub(crate) async fn open(servers: &str) -> Self {
        Self::open_with(servers, Rules::default()).await
    }

    pub(crate) async fn open_with(servers: &str, rules: Rules) -> Self {
        let directory = TempDir::new();
        directory.write("tidings.toml", servers);
        Self::start(Arc::new(directory), rules).await
    }

    async fn start(directory: Arc<TempDir>, rules: Rules) -> Self {
        let file = directory.join("tidings.toml");
        let load: ConfigLoader = {
            let file = file.clone();
            Arc::new(move || tidings_config::load(&file, &|_| None).map_err(LoadFault::Invalid))
        };
        let plans = Arc::new(Plans::default());
        let store = Store::open(directory.path(), Duration::from_secs(2));
        let registry = ServerRegistry::new(RegistrySetup {
            config: load().unwrap(),
            text: std::fs::read(&file).ok(),
            file: Some(file),
            load: Some(load),
            base: directory.path().to_owned(),
            planner: Arc::clone(&plans) as _,
            table: ServerTable::new(&store),
        });
        let feed = Arc::new(Feed::default());
        let connector = LinkConnector::new(ProcessLauncher::new(None)).unwrap();
        let journal: Arc<dyn Journal> = feed.clone();
        let start = GatewayStart::new(settings(&rules), registry.plans(), connector);
        let gateway = Gateway::start(GatewayStart { journal: Some(journal), ..start });
        registry.attach(gateway.clone());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let stop = CancellationToken::new();
        let options = EndpointOptions { loopback: true, ..EndpointOptions::default() };
        let serving = tokio::spawn(http::serve(
            vec![listener.into()],
            gateway.clone(),
            axum::Router::new(),
            options,
            stop.clone(),
        ));
        gateway.settled().await;
        Self { registry, gateway, feed, plans, url, directory, rules, stop, serving }
    }

    /// Ends it. The directory is given to whoever opens it again.
    pub(crate) async fn close(self) -> Closed {
        self.stop.cancel();
        self.serving.await.unwrap();
        self.gateway.shutdown().await;
        Closed { directory: self.directory, rules: self.rules }
    }

    /// Another one on the same files.
    pub(crate) async fn beside(&self) -> Self {
        Self::start(Arc::clone(&self.directory), self.rules.clone()).await
    }

    pub(crate) fn client(&self) -> ClientBuilder {
        Client::http(self.url.clone())
    }

    /// Where it keeps everything.
    pub(crate) fn directory(&self) -> &Path {
        self.directory.path()
    }

    pub(crate) fn rewrite(&self, servers: &str) {
        let fresh = self.directory.write("tidings.toml.new", servers);
        std::fs::rename(fresh, self.file()).unwrap();
    }

    pub(crate) fn file(&self) -> PathBuf {
        self.directory.join("tidings.toml")
    }

    /// Adds servers in one batch.
    pub(crate) async fn add(&self, servers: &[(&str, &Server)]) {
        let change = |(name, server): &(&str, &Server)| put(name, keys(server));
        self.registry.apply(servers.iter().map(change).collect()).await.unwrap();
    }

    pub(crate) async fn remove(&self, name: &str) {
        self.registry.apply(vec![RegistryChange::Delete { name: name.into() }]).await.unwrap();
    }

    /// The names of the servers that the engine has.
    pub(crate) fn servers(&self) -> Vec<String> {
        self.gateway.catalogue().borrow().servers.iter().map(|server| server.name.to_string()).collect()
    }

    /// Clients of both eras, all settled.
    pub(crate) async fn followers(&self) -> Vec<ListFollower> {
        vec![
            ListFollower::begin(self.client().connect().await).await,
            ListFollower::begin(self.client().revision(tidings_testkit::V2025_06_18).connect().await).await,
            ListFollower::begin(self.client().modern().connect().await).await,
        ]
    }
}

/// A house that is closed.
pub(crate) struct Closed {
    directory: Arc<TempDir>,
    rules: Rules,
}

impl Closed {
    pub(crate) async fn open(self) -> House {
        House::start(self.directory, self.rules).await
    }

    pub(crate) fn rewrite(&self, servers: &str) {
        self.directory.write("tidings.toml", servers);
    }
}

fn settings(rules: &Rules) -> Settings {
    Settings {
        waits: WaitLimits {
            start: Duration::from_secs(20),
            added: rules.start_timeout,
            silence: Duration::from_secs(60),
            call: Duration::from_secs(60),
        },
        pages: ListPages { size: 1_000, longest_bound: None },
        view: FieldView::Strict,
        names: rules.names,
        list_pace: RefreshPace { quiet: rules.list_quiet, max_wait: rules.list_quiet * 10 },
        resource_pace: NoticePace { quiet: Duration::from_millis(20), max_wait: Duration::from_millis(200) },
        poll_interval: Duration::ZERO,
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

/// The keys of `[servers.X]` for a scripted server.
pub(crate) fn keys(server: &Server) -> Value {
    if server.is_http() {
        return json!({ "url": server.url() });
    }
    let (command, args) = server.command();
    json!({ "command": command, "args": args })
}

pub(crate) fn put(name: &str, server: Value) -> RegistryChange {
    RegistryChange::Put { name: name.into(), server }
}

/// A script for `sh`.
pub(crate) fn shell(script: &str) -> Value {
    json!({ "command": "sh", "args": ["-c", script] })
}

/// A server with one of each kind.
pub(crate) fn full(name: &str) -> ServerBuilder {
    Server::builder(name)
        .echo("echo")
        .prompt("p", |call| async move { call.ok_message("hi") })
        .resource("file:///r", "r")
}

pub(crate) async fn all_expect(followers: &mut [ListFollower], kinds: &[&'static str]) {
    for follower in followers {
        follower.expect(kinds).await;
    }
}
