//! The engine's plan of each server of the configuration, and of those of the program's own. What the engine is told beside
//! its servers belongs into `engine_settings`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tidings_config::{Config, ExposeSetting, IsolationSetting, LoginSetting, ServerConfig, TransportConfig};
use tidings_engine::{AccessPolicy, CallTimes, Isolation, LimitDesk, Origin, ServerPlacement, ServerPlan, Source};
use tidings_inventory::{ServerPlanner, WatchFault, WatchServerPlan};
use tidings_login::Logins;
use tidings_outbound_hooks::OutboundHooks;
use tidings_upstream::{
    EraChoice, HttpSpec, InheritEnv, NetworkReach, ServerSpec, SharedCredential, StdioSpec, TransportSpec,
};

use super::projects::ProjectServers;
use super::unready::{self, ServerFault};
use super::{sandboxes, watches};
use crate::access::AccessControl;
use crate::lock_files::LockFiles;
use crate::{item_limits, policy};

/// Scripts have clocks of their own, which say more when they end a call; the gateway's must not be first.
const SCRIPTS: Duration = Duration::from_secs(60 * 60);

/// Makes the engine's plans.
pub(super) struct EnginePlans {
    pub(super) expose: ExposeSetting,
    pub(super) watches: Arc<watches::WatchWiring>,
    /// Whether the engine has the server of the watches.
    pub(super) watching: Arc<AtomicBool>,
    pub(super) projects: Arc<ProjectServers>,
    pub(super) listeners: Vec<SocketAddr>,
    /// What commands see of our environment when their server does not say.
    pub(super) inherit_env: tidings_config::InheritEnv,
    /// Where it is kept which definitions are approved.
    pub(super) locks: Arc<LockFiles>,
    pub(super) logins: Option<Logins>,
    /// Where commands in a sandbox have their folders.
    pub(super) data: PathBuf,
    pub(super) access: Option<AccessControl>,
    /// How often people may use what, where that is limited.
    pub(super) limits: Option<Arc<LimitDesk>>,
    pub(super) notify: Option<OutboundHooks>,
}

impl EnginePlans {
    /// Who is told of changes by a configuration, or what is wrong with it. Nothing happens before it is called.
    pub(super) fn told(&self, config: &Config) -> Result<Box<dyn FnOnce() + Send>, WatchFault> {
        let Some(hooks) = self.notify.clone() else { return Ok(Box::new(|| {})) };
        let next = hooks.prepare(&config.notify, &|url| unready::is_own_url(url, &self.listeners));
        let next = next.map_err(|fault| WatchFault(fault.to_string()))?;
        Ok(Box::new(move || hooks.apply(next)))
    }

    /// The server of the watches.
    pub(super) fn watch_plan(&self) -> ServerPlan {
        built_in("watch", Source::Local(Arc::new(self.watches.server.clone())), self.expose)
    }
}

impl ServerPlanner for EnginePlans {
    fn plan(&self, server: &ServerConfig, origin: Origin) -> ServerPlan {
        self.plan(server, origin)
    }

    fn watches(&self, config: &Config) -> Result<WatchServerPlan, WatchFault> {
        if self.watches.are_seats_other(config) {
            return Err(WatchFault(
                "watches of files, databases and URLs are the same at all replicas of a cluster: change the file of every replica, and \
                 restart them one after the other"
                    .to_owned(),
            ));
        }
        let next = self.watches.prepare(config).map_err(|failure| WatchFault(failure.to_string()))?;
        let watches = Arc::clone(&self.watches);
        // Relaxed is enough: readings of the file, the only ones who look, are kept apart by a lock of the registry.
        if !self.watching.load(Ordering::Relaxed) {
            // Nobody sees it before it is committed, and then it is to be seen whole.
            self.watches.show(&next);
            let watching = Arc::clone(&self.watching);
            let committed = Box::new(move || {
                watching.store(true, Ordering::Relaxed);
                watches.open(next);
            });
            return Ok(WatchServerPlan { plan: Some(self.watch_plan()), committed });
        }
        Ok(WatchServerPlan { plan: None, committed: Box::new(move || watches.apply(next)) })
    }

    fn policy(&self, config: &Config) -> Result<Option<Arc<AccessPolicy>>, WatchFault> {
        let policy = policy::of(config).map_err(WatchFault)?;
        policy::warnings(config).iter().for_each(|warning| tracing::warn!("{warning}"));
        Ok(policy)
    }

    fn access(&self, config: &Config) -> Result<Box<dyn FnOnce() + Send>, WatchFault> {
        let limits = item_limits::of(config).map_err(WatchFault)?;
        let access = self.access.as_ref().map(|access| access.prepare(config)).transpose()?;
        let (desk, told) = (self.limits.clone(), self.told(config)?);
        Ok(Box::new(move || {
            told();
            if let Some(access) = access {
                access();
            }
            // That there are limits at all is decided at the start; a file that loses them has none.
            if let Some(desk) = desk {
                desk.change(limits.unwrap_or_default());
            }
        }))
    }
}

impl EnginePlans {
    /// What to run for a server, also where that is only the reason why it can not be run.
    fn plan(&self, server: &ServerConfig, origin: Origin) -> ServerPlan {
        // Where it can not be known what is approved, nothing is shown.
        let (approval, unknown) = match self.locks.plan(server, origin) {
            Ok(approval) => (approval, None),
            Err(fault) => (None, Some(ServerFault::Approvals(fault))),
        };
        let source = match server.problem.clone().map(ServerFault::Configuration).or(unknown) {
            // Listed with its reason and never started: the user sees why it is missing.
            Some(fault) => unready::refused(word(&server.transport), fault),
            None => self.source(server, origin),
        };
        let is_project = matches!(server.transport, TransportConfig::Project { .. });
        let filter = server.tools.clone();
        ServerPlan {
            source,
            origin,
            name: server.name.clone(),
            name_prefix: server.name_prefix(),
            uri_prefix: server.uri_prefix(),
            transparent_uris: server.uris == tidings_config::UriMode::Transparent,
            isolation: match server.isolation {
                IsolationSetting::Auto => Isolation::Auto,
                IsolationSetting::Session => Isolation::Session,
                IsolationSetting::Principal => Isolation::Principal,
            },
            // Scripts have a clock of their own, which tells why it ended one; the gateway's must not be first.
            call_times: CallTimes {
                silence: server.timeout.or(is_project.then_some(SCRIPTS)),
                call: server.max_timeout,
            },
            poll_interval: server.poll_interval,
            listed: self.expose != ExposeSetting::Search,
            permits: Arc::new(move |name| filter.permits(name.as_str())),
            trusts_annotations: server.trusts_annotations,
            approval,
            identity: Some(self.locks.identity(server)),
            placement: ServerPlacement { labels: server.placement.clone(), stops_alone: server.stops_alone },
        }
    }

    /// How a server is reached that can be run.
    fn source(&self, server: &ServerConfig, origin: Origin) -> Source {
        // Somebody wrote the file by hand; what is added at run time may come from a model that was told to.
        let reach = match server.private.unwrap_or(origin == Origin::File) {
            true => NetworkReach::Anywhere,
            false => NetworkReach::Declared,
        };
        let remote =
            |transport| Source::Remote(ServerSpec { name: server.name.clone(), transport, era: era(server.era) });
        match &server.transport {
            TransportConfig::Stdio { command, args, env, cwd } => {
                let (program, args, env) = (command.clone(), args.clone(), env.clone());
                let inherit_env = inherit_env(server.inherit_env.as_ref().unwrap_or(&self.inherit_env));
                let sandbox = sandboxes::of(server, &self.data).map(Box::new);
                remote(TransportSpec::Stdio(StdioSpec { program, args, env, cwd: cwd.clone(), inherit_env, sandbox }))
            }
            // It would call itself until all connections are used up.
            transport @ (TransportConfig::Http { url, .. } | TransportConfig::Sse { url, .. })
                if unready::is_own_url(url, &self.listeners) =>
            {
                unready::refused(word(transport), ServerFault::OwnAddress { url: url.clone() })
            }
            TransportConfig::Http { url, headers } => {
                let credential = self.credential(server, url, headers);
                remote(TransportSpec::Http(HttpSpec { url: url.clone(), headers: headers.clone(), reach, credential }))
            }
            TransportConfig::Sse { url, headers } => {
                let credential = self.credential(server, url, headers);
                remote(TransportSpec::Sse(HttpSpec { url: url.clone(), headers: headers.clone(), reach, credential }))
            }
            TransportConfig::Container(container) => remote(TransportSpec::Container(container.clone())),
            TransportConfig::Project { dir, env } => self.projects.source(dir, env),
        }
    }
}

impl EnginePlans {
    /// Who logs in to a server, unless it is given a header for that.
    fn credential(&self, server: &ServerConfig, url: &str, headers: &[(String, String)]) -> Option<SharedCredential> {
        let logins = self.logins.as_ref()?;
        let settings = match &server.auth {
            LoginSetting::Off => return None,
            // The user's own header says who logs in; a token in its place would not be theirs.
            LoginSetting::Auto if headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("authorization")) => {
                return None;
            }
            LoginSetting::Auto => None,
            LoginSetting::As(config) => Some((**config).clone()),
        };
        logins.credential(&server.name, url, settings)
    }
}

/// How a server would be reached.
fn word(transport: &TransportConfig) -> &'static str {
    match transport {
        TransportConfig::Stdio { .. } => "stdio",
        TransportConfig::Http { .. } => "http",
        TransportConfig::Sse { .. } => "sse",
        TransportConfig::Container(_) => "container",
        TransportConfig::Project { .. } => "project",
    }
}

/// What a command sees of our environment.
pub(crate) fn inherit_env(inherited: &tidings_config::InheritEnv) -> InheritEnv {
    match inherited {
        tidings_config::InheritEnv::All => InheritEnv::All,
        tidings_config::InheritEnv::Names(names) => InheritEnv::Names(names.clone()),
    }
}

fn era(choice: tidings_config::EraSetting) -> EraChoice {
    match choice {
        tidings_config::EraSetting::Auto => EraChoice::Auto,
        tidings_config::EraSetting::Modern => EraChoice::Modern,
        tidings_config::EraSetting::Legacy => EraChoice::Legacy,
    }
}

/// A part of the program that is a server like any other.
pub(super) fn built_in(name: &str, source: Source, expose: ExposeSetting) -> ServerPlan {
    ServerPlan {
        source,
        origin: Origin::BuiltIn,
        name: name.into(),
        name_prefix: name.into(),
        uri_prefix: name.into(),
        // The configuration names the URIs of watches, and clients have to find them by these names.
        transparent_uris: true,
        isolation: Isolation::Auto,
        call_times: CallTimes::default(),
        poll_interval: None,
        listed: expose != ExposeSetting::Search,
        permits: Arc::new(|_| true),
        trusts_annotations: false,
        approval: None,
        identity: None,
        placement: ServerPlacement::default(),
    }
}
