//! `tidings serve`: the gateway over HTTP.

mod banner;
mod entrance;
mod listeners;

use std::sync::Arc;
use std::time::Duration;

use tidings_admin::{AdminParts, CallDesk, LinkRequest, PageLinks};
use tidings_config::ListenAddress;
use tidings_downstream::http::{self, EndpointOptions};
use tidings_engine::Gateway;
use tidings_inventory::ServerRegistry;
use tidings_login::{Logins, PeopleDoor};
use tidings_outbound_hooks::OutboundHooks;
use tidings_store::{AuditLog, ChangeLog, HookTable, OutboundTable, RegistryTable, ServerTable};
use tidings_sync::Lock;
use tidings_telemetry::Telemetry;
use tokio_util::sync::CancellationToken;

use crate::access::{self, AccessControl};
use crate::cli::Cli;
use crate::data::{AnnouncedGateway, DataDir, SOCKET};
use crate::demo::Demo;
use crate::failure::CommandFailure;
use crate::page::{self, PageParts, PageServer};
use crate::registry_care::RegistryCare;
use crate::server_log::LogTail;
use crate::ticket_door::TicketDoor;
use crate::weight::ToolNames;
use crate::{ending, feed, limits, logging, reload, secret, server_card, session_archive, settings, telemetry, wiring};
use banner::WantedToken;
use entrance::GatewayEntrance;

/// How long a process that is about to leave may hold the store.
const PATIENCE: Duration = Duration::from_secs(2);

pub(super) async fn run(cli: &Cli, listen: Option<ListenAddress>) -> Result<(), CommandFailure> {
    let loaded = settings::load_to_run(cli)?;
    let config = &loaded.config;
    // Every client, server and watch is an open file; the soft limit of many systems is 1,024.
    limits::raise_open_files();
    let stop = CancellationToken::new();
    ending::stop_on_signal(stop.clone());
    let listen = listen.unwrap_or_else(|| config.gateway.listen.clone());
    // Before the socket is opened: for a moment anybody could come in.
    entrance::refuse_strangers(config, &listen)?;
    let data = DataDir::find(cli.data.as_deref())?;
    let mut not_kept = Vec::new();
    let token = data.admin_token().or_else(|failure| {
        not_kept.push(format!("the key of the API, so that no command finds this gateway ({failure})"));
        // The gateway serves all the same; only its own commands have no key to it.
        secret::fresh()
    })?;
    if let Some(fault) = access::fault(config) {
        return Err(CommandFailure::Failed(fault));
    }
    // Before anything is started or opened: the most common mistake costs nothing.
    let entrance = GatewayEntrance::open(config, &listen, &data).await?;
    let public_url = config.gateway.public_url.clone();
    let vault = config.vault.clone();
    let has_page = config.page.enabled;
    let has_auth = config.auth.is_some();
    let has_tokens = has_auth || config.gateway.asks_everybody;
    let GatewayEntrance { mut listeners, address, tls, is_loopback, scheme, url } = entrance;
    let store = feed::open(Some(data.clone()), PATIENCE).await;
    if !store.is_kept() {
        not_kept.push("changes, and servers that are added at run time".to_owned());
    }
    let access = AccessControl::new(config, &token, public_url.as_deref().unwrap_or(&url));
    let mut inputs = loaded.into_inputs(ServerTable::new(&store), |_| Vec::new());
    // Only now known where the port was 0.
    inputs.listeners = vec![address];
    inputs.hooks = HookTable::new(&store);
    let copies = RegistryTable::new(&store);
    inputs.copies = copies.clone();
    inputs.search = wiring::search_tables(&store);
    let logins = wiring::open_logins(&store, Some(&data), vault.as_deref());
    if let Some(logins) = &logins {
        logins.reached_at(public_url.as_deref().unwrap_or(&url));
    }
    inputs.logins = logins.clone();
    inputs.access = Some(access.clone());
    let log = feed::log(store.clone());
    let notify = OutboundHooks::new(log.clone(), OutboundTable::new(&store));
    inputs.notify = Some(notify.clone());
    let mut prepared = wiring::prepare(cli, inputs, Some(&data))?;
    prepared.join_cluster()?;
    let telemetry = telemetry::start(prepared.telemetry());
    prepared.trace(telemetry.as_ref());
    let (search, registry, demo) = (prepared.search(), prepared.registry(), prepared.demo());
    let (consent, entries, desk) = (prepared.consent(), prepared.entries(), CallDesk::default());
    let hooks = tidings_admin::hooks(prepared.hooks());
    let archive = session_archive::of(&store);
    let (audit, trail) = crate::audit::start(&store, prepared.audit()).unzip();
    let names = ToolNames::default();
    let gateway = prepared.start(None, Some(feed::journal(&log, names.clone())), trail);
    // What changes before this is weighed without the names of other servers' tools.
    names.begin(&gateway);
    // After the start of the engine: a command that finds it there can use it.
    let announced = data.announce(&url);
    if matches!(announced, AnnouncedGateway::Here { .. }) {
        // Only the gateway that owns the directory: two would write into one file.
        logging::keep_in(data.path());
        listeners.extend(listeners::own_socket(&data.path().join(SOCKET)));
    }
    let page = PageServer::new(PageParts {
        gateway: gateway.clone(),
        registry: registry.clone(),
        index: search.index(),
        changes: log.clone(),
        audit: audit.clone(),
        host: data.page_host()?,
        door: Lock::new(page::door_of(&data)),
        data: data.clone(),
        address,
        scheme,
        loopback: is_loopback,
        connect: banner::connections(&url, &address, has_tokens),
        has_tokens,
        demo: demo.as_ref().map(Demo::change),
        streams: PageServer::streams(),
        entries: entries.clone(),
        logins: logins.clone(),
        desk: desk.clone(),
    });
    let link = page.make_link(&LinkRequest::default())?.filter(|_| has_page).map(|link| link.url);
    let own_token = data.admin_token_file();
    let wanted = match has_auth {
        true => WantedToken::OfAuth,
        false => WantedToken::Own(&own_token),
    };
    let wanted = has_tokens.then_some(wanted);
    eprint!("{}", banner::of(&url, &address, wanted, demo.as_ref(), link.as_deref()));
    say_what_is_missing(&data, &announced, not_kept);
    let care =
        RegistryCare { catalogue: entries.clone(), registry: registry.clone(), table: copies, changes: log.clone() };
    let caring = tokio::spawn(care.run(stop.clone()));
    let reloading = tokio::spawn(reload::run(registry.clone(), consent, stop.clone()));
    let options = EndpointOptions {
        authenticator: access.clients.clone(),
        loopback: is_loopback,
        max_connections: limits::most_connections(),
        own_name: has_page.then(|| page.host().into()),
        archive,
        tls,
        ..EndpointOptions::default()
    };
    let changes = registry.clone();
    let browsers = logins.clone().map(|logins| {
        let door = has_tokens.then(|| Arc::new(TicketDoor::of(&access)) as Arc<dyn PeopleDoor>);
        tidings_login::routes(logins, door)
    });
    let parts = AdminParts {
        gateway: gateway.clone(),
        registry,
        index: search.index(),
        search,
        changes: log.clone(),
        audit: audit.clone(),
        logins: logins.clone(),
        links: has_page.then(|| Arc::new(page.clone()) as Arc<dyn PageLinks>),
        logs: Some(Arc::new(LogTail::of(&data))),
        connect: banner::connections(&url, &address, has_tokens),
        entries: Some(entries),
        desk,
        hooks: Some(notify.clone()),
        telemetry: telemetry.clone(),
        clients: access.clients.clone(),
        rules: crate::policy::of_text,
    };
    let mut others = tidings_admin::router(parts, access.admins.clone(), is_loopback && !has_tokens)
        .merge(hooks)
        .merge(access.metadata())
        .merge(server_card::routes(&access.base))
        .merge(browsers.unwrap_or_default());
    if has_page {
        others = others.merge(page.router());
    }
    http::serve(listeners, gateway.clone(), others, options, stop).await;
    // First: commands that come from now on must not find a gateway that is ending.
    drop(announced);
    let _ = reloading.await;
    let _ = caring.await;
    ServedParts { gateway, logins, telemetry, notify, changes, log, audit }.close().await;
    tracing::info!("stopped");
    Ok(())
}

/// What is ended with the gateway.
struct ServedParts {
    gateway: Gateway,
    logins: Option<Logins>,
    telemetry: Option<Telemetry>,
    notify: OutboundHooks,
    changes: ServerRegistry,
    log: ChangeLog,
    audit: Option<AuditLog>,
}

impl ServedParts {
    /// In the order in which they still have something to say to each other.
    async fn close(self) {
        self.gateway.shutdown().await;
        if let Some(logins) = self.logins {
            logins.close().await;
        }
        // After the gateway is: its last requests are told, too.
        if let Some(telemetry) = self.telemetry {
            telemetry.close().await;
        }
        // Before the log is: what it still gives is told by the next process.
        self.notify.close().await;
        // Before the store is: a change under way either is kept there, or never happened.
        self.changes.close().await;
        // Last: the end of a server is a change that belongs in the log.
        self.log.close().await;
        if let Some(audit) = self.audit {
            audit.close().await;
        }
    }
}

/// Who else is found in the data directory, and what is not kept there.
fn say_what_is_missing(data: &DataDir, announced: &AnnouncedGateway, mut not_kept: Vec<String>) {
    let directory = data.path().display();
    match announced {
        AnnouncedGateway::Here { .. } => {}
        AnnouncedGateway::Elsewhere(other) => {
            let other = other.as_ref().map(|other| format!(" at {} (process {})", other.url, other.pid));
            eprintln!(
                "Another gateway{} has the data directory {directory}: commands such as `tidings servers` find that one.\n\
                 Give this one a directory of its own with --data DIR.\n",
                other.unwrap_or_default(),
            );
        }
        AnnouncedGateway::Nowhere(reason) => {
            not_kept.push(format!("where this gateway is, so that no command finds it ({reason})"));
        }
    }
    if !not_kept.is_empty() {
        eprintln!("Not kept in {directory}, because it can not be written to or is in use:");
        not_kept.iter().for_each(|what| eprintln!("  {what}"));
        eprintln!();
    }
}
