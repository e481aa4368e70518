//! From the configuration's plan to the engine's. The only place that knows both; it decides nothing that one of them could.

mod containers;
mod engine_settings;
mod logins;
mod projects;
mod registry_tools;
mod sandboxes;
mod server_plans;
mod tool_search;
mod unready;
mod watches;

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use serde_json::Value;
use tidings_builtin::{LoginTools, NoticeServer, SearchService, SearchTables, SearchTools};
use tidings_config::{Config, ExposeSetting};
use tidings_engine::{
    AccessPolicy, AuditTrail, FleetSettings, Gateway, GatewayStart, Isolation, Journal, LimitDesk, Origin, Principal,
    SealKey, ServerPlan, Settings, Source, TelemetrySink,
};
use tidings_inventory::{ConfigLoader, RegistrySetup, ServerPlanner, ServerRegistry};
use tidings_login::{Logins, PersonMoved, ServerReconnect};
use tidings_outbound_hooks::OutboundHooks;
use tidings_proto::Era;
use tidings_proto::gateway_path::GatewayPath;
use tidings_server_catalog::LocalCatalogue;
use tidings_store::{HookTable, RegistryTable, ServerTable};
use tidings_telemetry::Telemetry;
use tidings_upstream::{LinkConnector, ProcessLauncher};
use tidings_watch::WebhookSet;

use crate::access::AccessControl;
use crate::cli::Cli;
use crate::data::DataDir;
use crate::demo::Demo;
use crate::failure::CommandFailure;
use crate::lock_files::{LockFiles, LockPaths};
use crate::{access, client_profiles, item_limits, secret};
pub(crate) use engine_settings::of_cluster as fleet_settings;
pub(crate) use logins::open as open_logins;
use projects::ProjectServers;
pub(crate) use projects::{kit, open as open_project};
pub(crate) use server_plans::inherit_env;
use server_plans::{EnginePlans, built_in};
pub(crate) use tool_search::{search_service, search_tables};

/// The most that clients of a project may ask for at once.
const LONGEST_PAGE: usize = 200;

/// What a gateway is made from.
pub(crate) struct GatewayInputs {
    pub(crate) config: Config,
    /// The file that it was read from, and how to read it again.
    pub(crate) file: Option<(PathBuf, ConfigLoader)>,
    /// What stood in it.
    pub(crate) text: Option<Vec<u8>>,
    /// Where the record is of what somebody trusts in it, if it needs that.
    pub(crate) consent: Option<PathBuf>,
    /// Servers that were added at run time.
    pub(crate) table: ServerTable,
    /// Where the gateway listens: a server must not lead there.
    pub(crate) listeners: Vec<SocketAddr>,
    /// What webhooks received, kept over a restart.
    pub(crate) hooks: HookTable,
    /// What the client is told where there is nothing to serve: a server without tools says it.
    pub(crate) notice: Option<String>,
    /// What the search of tools keeps.
    pub(crate) search: SearchTables,
    /// Whether the lock is written when a server is trusted at first sight: not for the length of one command.
    pub(crate) keeps_first_sight: bool,
    /// The logins to servers, where they are kept.
    pub(crate) logins: Option<Logins>,
    /// What registries said, kept over a restart.
    pub(crate) copies: RegistryTable,
    /// Who may use what, where that is asked.
    pub(crate) access: Option<AccessControl>,
    /// The URLs that are told of changes, where that is done.
    pub(crate) notify: Option<OutboundHooks>,
}

impl GatewayInputs {
    /// Changes the configuration, also whenever its file is read again.
    pub(crate) fn amend(&mut self, change: impl Fn(&mut Config) + Send + Sync + 'static) {
        change(&mut self.config);
        self.file = self.file.take().map(|(path, load)| {
            let again: ConfigLoader = Arc::new(move || {
                let mut config = load()?;
                change(&mut config);
                Ok(config)
            });
            (path, again)
        });
    }
}

/// Everything that can fail is done: only the servers are left to start.
pub(crate) struct PreparedGateway {
    config: Config,
    connector: LinkConnector,
    search: Arc<SearchService>,
    watches: Arc<watches::WatchWiring>,
    /// Makes the plans, also of what is configured later.
    planner: Arc<EnginePlans>,
    registry: ServerRegistry,
    entries: Arc<LocalCatalogue>,
    /// Set where a cursor belongs to one state of its list: how many items a client may ask for at once.
    longest_bound_page: Option<usize>,
    /// What is shown where there is nothing else.
    demo: Option<(Demo, ServerPlan)>,
    /// A server that only says why there is nothing else.
    notice: Option<ServerPlan>,
    consent: Option<PathBuf>,
    path: GatewayPath,
    seal_key: SealKey,
    logins: Option<Logins>,
    policy: Option<Arc<AccessPolicy>>,
    telemetry: Option<Arc<dyn TelemetrySink>>,
    /// Whether it is a replica of the cluster in its configuration.
    joins: bool,
}

/// Which gateway this is: a new one with every start, and the same file for all that are configured by it.
fn own_path(file: Option<&Path>) -> Result<GatewayPath, CommandFailure> {
    let mut instance = secret::fresh()?;
    // 64 bits are enough to tell all gateways of a chain apart.
    instance.truncate(16);
    let file = file.and_then(|file| file.canonicalize().ok()).map(|file| {
        // Its keys are fixed, so that every process of this build gives the file the same number.
        let mut hasher = DefaultHasher::new();
        file.hash(&mut hasher);
        format!("{:016x}", hasher.finish())
    });
    Ok(GatewayPath::new(&instance, file.as_deref()))
}

/// What seals the states that clients carry: kept where there is a place for it.
fn seal_key(data: Option<&DataDir>) -> SealKey {
    let kept = data.map(DataDir::seal_key).transpose().unwrap_or_else(|failure| {
        // A gateway that can keep nothing still serves: after a restart clients are told that a state is not valid.
        tracing::warn!("the key for states of clients is not kept: {failure}");
        None
    });
    kept.map(SealKey::new).unwrap_or_default()
}

/// Gets ready to start. What has to outlive the process goes into `data`.
pub(crate) fn prepare(
    cli: &Cli,
    ground: GatewayInputs,
    data: Option<&DataDir>,
) -> Result<PreparedGateway, CommandFailure> {
    let GatewayInputs {
        mut config,
        file,
        text,
        consent,
        table,
        listeners,
        hooks,
        notice,
        search,
        keeps_first_sight,
        logins,
        copies,
        access,
        notify,
    } = ground;
    let config_file = file.as_ref().map(|(file, _)| file.as_path());
    let locks = Arc::new(LockFiles::new(config_file, data.map(DataDir::path), keeps_first_sight));
    let path = own_path(file.as_ref().map(|(file, _)| file.as_path()))?;
    let helper = std::env::current_exe().ok();
    let launcher = ProcessLauncher::new(helper);
    let connector = containers::connector(Arc::clone(&launcher), data).map_err(CommandFailure::failed)?;
    let projects = Arc::new(ProjectServers::new(cli, launcher));
    let watches = Arc::new(watches::WatchWiring::new(hooks, &config));
    watches.apply(watches.prepare(&config)?);
    let entries = registry_tools::prepare(&config, &copies, data)?;
    let base = match file.as_ref().and_then(|(file, _)| std::path::absolute(file).ok()?.parent().map(Path::to_owned)) {
        Some(folder) => folder,
        None => std::env::current_dir().map_err(CommandFailure::failed)?,
    };
    let expose = config.gateway.expose;
    let watching = Arc::default();
    let inherit_env = config.gateway.inherit_env.clone();
    let planner = Arc::new(EnginePlans {
        expose,
        watches: Arc::clone(&watches),
        watching,
        projects,
        listeners,
        inherit_env,
        locks,
        logins: logins.clone(),
        data: data.map_or_else(|| std::env::temp_dir().join("tidings"), |data| data.path().to_path_buf()),
        access,
        limits: item_limits::of(&config).map_err(CommandFailure::Failed)?.map(LimitDesk::new),
        notify,
    });
    // Nothing else is applied at the start: who comes in is known already, and there are no other limits yet.
    planner.told(&config).map_err(CommandFailure::failed)?();
    let (file, load) = file.unzip();
    let plans: Arc<dyn ServerPlanner> = Arc::clone(&planner) as _;
    let registry =
        ServerRegistry::new(RegistrySetup { config: config.clone(), file, text, load, base, planner: plans, table });
    let mut demo = None;
    // A first start that shows nothing teaches nothing.
    // The registry is asked, too: servers that were added at run time stand in no file.
    let nothing = config.servers.is_empty() && config.watches.is_empty() && registry.state().servers.is_empty();
    let notice = notice.filter(|_| nothing).map(|text| {
        config.gateway.registry_tools = tidings_config::RegistryToolsSetting::Off;
        // Not one of the gateway's own: it is alone, and so speaks for all of it.
        ServerPlan {
            origin: Origin::File,
            ..built_in("tidings", Source::Local(Arc::new(NoticeServer::new(text))), expose)
        }
    });
    let made =
        (nothing && notice.is_none()).then(|| Demo::in_data_directory(cli)).transpose().unwrap_or_else(|failure| {
            tracing::warn!("no demo is shown: {failure}");
            None
        });
    if let Some(made) = made.flatten() {
        let server = planner.projects.server(&made.project, &made.environment()).map_err(CommandFailure::failed)?;
        let mut shown = config.clone();
        shown.watches.push(made.watch());
        watches.apply(watches.prepare(&shown)?);
        demo = Some((made, built_in("demo", Source::Local(server), expose)));
    }
    let search = Arc::new(search_service(&config, search)?);
    let policy = planner.policy(&config).map_err(CommandFailure::failed)?;
    Ok(PreparedGateway {
        config,
        connector,
        search,
        watches,
        planner,
        registry,
        entries,
        longest_bound_page: None,
        demo,
        notice,
        consent,
        path,
        seal_key: seal_key(data),
        logins,
        policy,
        telemetry: None,
        joins: false,
    })
}

impl PreparedGateway {
    /// What is recorded of calls and decisions.
    pub(crate) fn audit(&self) -> &tidings_config::AuditSettings {
        &self.config.audit
    }

    /// Where traces and measures are sent.
    pub(crate) fn telemetry(&self) -> &tidings_config::TelemetrySettings {
        &self.config.telemetry
    }

    /// It is a replica of the cluster in its configuration, if there is one: what it seals opens at the others.
    pub(crate) fn join_cluster(&mut self) -> Result<(), CommandFailure> {
        let Some(cluster) = &self.config.cluster else { return Ok(()) };
        // Of one process's own: the log of the cluster would neither know of them nor take them away.
        if self.registry.state().servers.iter().any(|server| server.origin == Origin::Runtime || server.switched) {
            return Err(CommandFailure::Failed(
                "what is added, enabled or disabled in a cluster stands in its log, and this data directory has servers that one \
                 process added or switched; remove them there and add them to the cluster, or give this replica another \
                 directory with --data DIR"
                    .to_owned(),
            ));
        }
        // Only the first, which seals: what clients carry from before it was replaced is not valid any more.
        let secret = cluster.secrets.first().map(String::as_str).unwrap_or_default();
        self.seal_key = SealKey::new(blake3::derive_key("tidings 2026-11 states of a cluster", secret.as_bytes()));
        self.planner.locks.share();
        self.joins = true;
        Ok(())
    }

    /// Somebody exports traces.
    pub(crate) fn trace(&mut self, telemetry: Option<&Telemetry>) {
        self.telemetry = telemetry.map(Telemetry::sink);
    }

    /// Who asks, where there is one client only.
    pub(crate) fn only_client(&self) -> Principal {
        access::only_client(&self.config)
    }

    /// The search of the gateway that is started.
    pub(crate) fn search(&self) -> Arc<SearchService> {
        Arc::clone(&self.search)
    }

    /// The logins to servers, where they are kept.
    pub(crate) fn logins(&self) -> Option<Logins> {
        self.logins.clone()
    }

    /// Servers that could be added.
    pub(crate) fn entries(&self) -> Arc<LocalCatalogue> {
        Arc::clone(&self.entries)
    }

    /// The webhooks, to be reached over HTTP.
    pub(crate) fn hooks(&self) -> WebhookSet {
        self.watches.hooks.clone()
    }

    /// The way to change the set of servers.
    pub(crate) fn registry(&self) -> ServerRegistry {
        self.registry.clone()
    }

    /// Whether its configuration is that of a cluster.
    pub(crate) fn is_of_cluster(&self) -> bool {
        self.config.cluster.is_some()
    }

    /// Where it is kept which definitions are approved.
    pub(crate) fn locks(&self) -> LockPaths {
        self.planner.locks.paths()
    }

    /// The demo, where there is nothing else to show.
    pub(crate) fn demo(&self) -> Option<Demo> {
        self.demo.as_ref().map(|(demo, _)| demo.clone())
    }

    /// Where the record is of what somebody trusts in the file, if it needs that.
    pub(crate) fn consent(&self) -> Option<PathBuf> {
        self.consent.clone()
    }

    /// Fails if the one client there will be is a gateway that leads here again; servers are told of the gateways ahead.
    pub(crate) fn come_through(&mut self, gateways: Vec<String>) -> Result<(), CommandFailure> {
        if let Some(reason) = self.path.loop_with(&gateways) {
            return Err(CommandFailure::Failed(format!("the client is a gateway, and for it {reason}")));
        }
        self.path = self.path.clone().behind(gateways);
        Ok(())
    }

    /// Cursors belong to one state of their list, and clients may ask for longer pages.
    pub(crate) fn bind_pages(&mut self) {
        self.longest_bound_page = Some(LONGEST_PAGE);
    }

    /// Starts the engine. With nothing configured at all it shows the demo. `only_client`: the capabilities and era of
    /// the one client there will be. `journal` is told of every change, `audit` of every call and decision.
    pub(crate) fn start(
        self,
        only_client: Option<(Value, Era)>,
        journal: Option<Arc<dyn Journal>>,
        audit: Option<Arc<dyn AuditTrail>>,
    ) -> Gateway {
        let expose = self.config.gateway.expose;
        let mut plans = self.registry.plans();
        plans.extend(self.demo.map(|(_, plan)| plan));
        plans.extend(self.notice);
        if !self.watches.is_empty() {
            plans.push(self.planner.watch_plan());
            // Before anybody reads the file again: the engine has the server from here on, and must not be given a
            // second one.
            self.planner.watching.store(true, Ordering::Relaxed);
        }
        // Also where only some client finds tools by searching: then it is there, and others are not shown it.
        if expose != ExposeSetting::All || client_profiles::of(&self.config).search() {
            let tools = Source::Local(Arc::new(SearchTools::new(&self.search)));
            let listed = expose != ExposeSetting::All;
            plans.push(ServerPlan { listed, ..built_in("tidings", tools, expose) });
        }
        if self.logins.is_some() {
            let tool = built_in("log_in", Source::Local(Arc::new(LoginTools)), expose);
            // Listed also where other tools are found by searching: who sees nothing yet has nothing to search for.
            plans.push(ServerPlan { listed: true, isolation: Isolation::Principal, ..tool });
        }
        self.search.start();
        // What a gateway that was killed left behind.
        containers::sweep(&self.connector);
        let on_stdio = only_client.is_some();
        let (registry, connector) = (self.registry.clone(), self.connector.clone());
        plans.extend(registry_tools::plan(&self.config, self.entries, registry, connector, on_stdio));
        let mut settings = Settings { path: self.path, seal_key: self.seal_key, ..engine_settings::of(&self.config) };
        settings.pages.longest_bound = self.longest_bound_page;
        let (connector, policy, limits) = (self.connector, self.policy, self.planner.limits.clone());
        let telemetry = self.telemetry;
        // One client on stdio, or a command, has no replicas.
        let fleet = self.config.cluster.as_ref().filter(|_| self.joins).map(fleet_settings);
        let fleet = fleet.map(|fleet| FleetSettings { watches: self.watches.seats(), ..fleet });
        let gateway = Gateway::start(GatewayStart {
            settings,
            plans,
            connector,
            only_client,
            journal,
            audit,
            policy,
            limits,
            telemetry,
            fleet,
        });
        self.watches.attach(gateway.watch_seats());
        if let Some(decisions) = gateway.decisions() {
            let watches = Arc::clone(&self.watches);
            let joined = decisions.clone();
            gateway.accompany(async move { watches.join(joined).await });
            if let (Some(logins), Some(process)) = (self.logins.clone(), gateway.session_home()) {
                let shown = gateway.clone();
                let grants = logins::FleetGrants { decisions, process, shown: Box::new(move || shown.fleet()) };
                gateway.accompany(grants.join(logins));
            }
        }
        // From here on changes of the registry reach the engine; before, there was nothing to change.
        self.registry.attach(gateway.clone());
        if let Some(logins) = &self.logins {
            let (registry, here, people) = (self.registry.clone(), gateway.clone(), gateway.clone());
            let reconnect: ServerReconnect = Arc::new(move |name| {
                let (registry, here) = (registry.clone(), here.clone());
                Box::pin(async move {
                    // Its owner hears of the login by the log, and connects it.
                    if here.runs_elsewhere(&name) {
                        return Ok(());
                    }
                    registry.restart(&name).await.map_err(|refusal| refusal.to_string())
                })
            });
            let moved: PersonMoved = Arc::new(move |server, person, is_in| {
                let gateway = people.clone();
                Box::pin(async move {
                    match is_in {
                        true => gateway.connect_person(&server, &person).await,
                        false => {
                            gateway.disconnect_person(&server, &person);
                            Ok(())
                        }
                    }
                })
            });
            logins.attach(reconnect, moved);
        }
        gateway.accompany(Arc::clone(&self.planner.locks).follow(gateway.clone(), gateway.draining()));
        gateway
    }
}

/// Whether all watches can be made, without making anything else.
pub(crate) fn try_watches(config: &Config) -> Result<(), CommandFailure> {
    watches::WatchWiring::new(HookTable::default(), config).prepare(config).map(drop)
}

/// Whether the catalogue of servers that could be added can be read.
pub(crate) fn try_catalogue(config: &Config) -> Result<(), CommandFailure> {
    registry_tools::prepare(config, &RegistryTable::default(), None).map(drop)
}

/// Whether all projects can be opened.
pub(crate) fn try_projects(config: &Config) -> Result<(), CommandFailure> {
    projects::homes(config).map(drop)
}
