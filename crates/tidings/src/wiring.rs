//! From the configuration's plan to the engine's.

mod projects;
mod watches;

use std::sync::Arc;

use serde_json::Value;
use tidings_config::{Config, Expose, Transport};
use tidings_engine::{Gateway, Isolation, Journal, Names, Origin, Pace, ServerPlan, Settings, Source};

use tidings_proto::{Era, Revision, View};
use tidings_search::ToolIndex;
use tidings_sources::SearchTools;
use tidings_sources::watch::Hooks;
use tidings_upstream::{Connector, EraChoice, HttpSpec, Launcher, ServerSpec, StdioSpec, Transport as Link};

use crate::cli::Cli;
use crate::failure::Failure;
use projects::Projects;
pub(crate) use projects::{kit, open as open_project};
use watches::Watches;

/// The most that clients of a project may ask for at once.
const LONGEST_PAGE: usize = 200;

/// Everything that can fail is done: only the servers are left to start.
pub(crate) struct Prepared {
    config: Config,
    connector: Connector,
    index: Arc<ToolIndex>,
    watches: Watches,
    projects: Projects,
    bound_pages: Option<usize>,
}

/// Gets ready to start.
pub(crate) fn prepare(cli: &Cli, config: Config) -> Result<Prepared, Failure> {
    let helper = std::env::current_exe().ok();
    let launcher = Launcher::new(helper);
    let connector = Connector::new(Arc::clone(&launcher)).map_err(Failure::failed)?;
    let watches = watches::prepare(&config)?;
    let projects = projects::prepare(cli, &config, &launcher)?;
    Ok(Prepared { config, connector, index: Arc::default(), watches, projects, bound_pages: None })
}

impl Prepared {
    /// The searchable catalogue of the gateway that is started.
    pub(crate) fn index(&self) -> Arc<ToolIndex> {
        Arc::clone(&self.index)
    }

    /// The webhooks, to be reached over HTTP.
    pub(crate) fn hooks(&self) -> Hooks {
        self.watches.hooks.clone()
    }

    /// Cursors belong to one state of their list, and clients may ask for longer pages.
    pub(crate) fn bind_pages(&mut self) {
        self.bound_pages = Some(LONGEST_PAGE);
    }

    /// Starts the engine. `only_client`: the capabilities and era of the one client there will be. `journal` is told of
    /// every change.
    pub(crate) fn start(self, only_client: Option<(Value, Era)>, journal: Option<Arc<dyn Journal>>) -> Gateway {
        let mut plans: Vec<ServerPlan> =
            self.config.enabled_servers().filter_map(|server| plan(server, &self.projects)).collect();
        if let Some(server) = self.watches.server {
            plans.push(built_in("watch", Source::Local(Arc::new(server))));
        }
        let expose = self.config.gateway.expose;
        if expose == Expose::Search {
            plans.iter_mut().for_each(|plan| plan.listed = false);
        }
        if expose != Expose::All {
            plans.push(built_in("tidings", Source::Local(Arc::new(SearchTools::new(self.index)))));
        }
        let settings = Settings { bound_pages: self.bound_pages, ..settings(&self.config) };
        Gateway::start(settings, plans, self.connector, only_client, journal)
    }
}

/// Whether all watches can be made, without making anything else.
pub(crate) fn try_watches(config: &Config) -> Result<(), Failure> {
    watches::prepare(config).map(drop)
}

/// Whether all projects can be opened.
pub(crate) fn try_projects(config: &Config) -> Result<(), Failure> {
    projects::homes(config).map(drop)
}

fn settings(config: &Config) -> Settings {
    let (gateway, notifications) = (&config.gateway, &config.notifications);
    Settings {
        start_wait: gateway.start_wait,
        timeout: gateway.timeout,
        max_timeout: gateway.max_timeout,
        page_size: gateway.page_size,
        bound_pages: None,
        view: match gateway.view {
            tidings_config::View::Strict => View::Strict,
            tidings_config::View::Pass => View::Pass,
        },
        names: match gateway.names {
            tidings_config::Naming::Auto => Names::Auto,
            tidings_config::Naming::Prefix => Names::Prefix,
            tidings_config::Naming::None => Names::None,
        },
        list_quiet: notifications.list_quiet,
        list_max_wait: notifications.list_max_wait,
        resource_pace: Pace { quiet: notifications.resource_quiet, max_wait: notifications.resource_max_wait },
        poll_interval: notifications.poll_interval,
        announce_initially: notifications.initial == tidings_config::InitialTriplet::Once,
        silent: notifications.suppress.iter().filter_map(|text| Revision::parse(text)).collect(),
        limits: Default::default(),
        version: env!("CARGO_PKG_VERSION"),
    }
}

/// `None` for kinds of servers that are refused before this.
fn plan(server: &tidings_config::ServerConfig, projects: &Projects) -> Option<ServerPlan> {
    let remote = |transport| Source::Remote(ServerSpec { name: server.name.clone(), transport, era: era(server.era) });
    let source = match &server.transport {
        Transport::Stdio { command, args, env, cwd } => {
            let (program, args, env) = (command.clone(), args.clone(), env.clone());
            remote(Link::Stdio(StdioSpec { program, args, env, cwd: cwd.clone() }))
        }
        Transport::Http { url, headers } => remote(Link::Http(HttpSpec { url: url.clone(), headers: headers.clone() })),
        Transport::Project { .. } => Source::Local(projects.server(&server.name)?),
        Transport::Container { .. } => return None,
    };
    let filter = server.tools.clone();
    Some(ServerPlan {
        source,
        origin: Origin::File,
        name: server.name.clone(),
        name_prefix: server.name_prefix(),
        uri_prefix: server.uri_prefix(),
        transparent_uris: server.uris == tidings_config::UriMode::Transparent,
        isolation: match server.isolation {
            tidings_config::Isolation::Auto => Isolation::Auto,
            tidings_config::Isolation::Session => Isolation::Session,
        },
        timeout: server.timeout,
        max_timeout: server.max_timeout,
        poll_interval: server.poll_interval,
        listed: true,
        permits: Arc::new(move |name| filter.permits(name)),
    })
}

fn era(choice: tidings_config::EraChoice) -> EraChoice {
    match choice {
        tidings_config::EraChoice::Auto => EraChoice::Auto,
        tidings_config::EraChoice::Modern => EraChoice::Modern,
        tidings_config::EraChoice::Legacy => EraChoice::Legacy,
    }
}

/// A part of the program that is a server like any other.
fn built_in(name: &str, source: Source) -> ServerPlan {
    ServerPlan {
        source,
        origin: Origin::BuiltIn,
        name: name.into(),
        name_prefix: name.into(),
        uri_prefix: name.into(),
        transparent_uris: true,
        isolation: Isolation::Auto,
        timeout: None,
        max_timeout: None,
        poll_interval: None,
        listed: true,
        permits: Arc::new(|_| true),
    }
}
