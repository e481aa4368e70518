//! `tidings serve`: the gateway over HTTP.
//!
//! What it stands on is opened first ([`ground`]), then the engine is started with all that belongs to it ([`running`]); here is what is served of both,
//! and the order of it.

mod banner;
mod entrance;
mod ground;
mod listeners;
mod running;

use std::sync::Arc;

use axum::Router;
use tidings_admin::{AdminParts, LinkRequest, PageLinks};
use tidings_config::ListenAddress;
use tidings_downstream::http::{self, EndpointOptions};
use tidings_login::{Logins, PeopleDoor};
use tidings_sync::Lock;
use tokio_util::sync::CancellationToken;

use crate::cli::Cli;
use crate::data::{AnnouncedGateway, DataDir, SOCKET};
use crate::demo::Demo;
use crate::failure::CommandFailure;
use crate::page::{self, PageParts, PageServer};
use crate::server_log::LogTail;
use crate::ticket_door::TicketDoor;
use crate::{ending, limits, logging, reload, server_card, session_archive, settings};
use banner::WantedToken;
use ground::ServingGround;
use running::ServedGateway;

pub(super) async fn run(cli: &Cli, listen: Option<ListenAddress>) -> Result<(), CommandFailure> {
    let loaded = settings::load_to_run(cli)?;
    // Every client, server and watch is an open file; the soft limit of many systems is 1,024.
    limits::raise_open_files();
    let stop = CancellationToken::new();
    ending::stop_on_signal(stop.clone());
    let listen = listen.unwrap_or_else(|| loaded.config.gateway.listen.clone());
    let mut ground = ServingGround::open(cli, &loaded.config, &listen).await?;
    let running = ServedGateway::start(cli, loaded, &ground)?;
    // After the start of the engine: a command that finds it there can use it.
    let announced = ground.data.announce(&ground.entrance.url);
    if matches!(announced, AnnouncedGateway::Here { .. }) {
        // Only the gateway that owns the directory: two would write into one file.
        logging::keep_in(ground.data.path());
        ground.entrance.listeners.extend(listeners::own_socket(&ground.data.path().join(SOCKET)));
    }
    let page = page_of(&ground, &running)?;
    say_where(&ground, &running, &page)?;
    say_what_is_missing(&ground.data, &announced, std::mem::take(&mut ground.not_kept));
    let caring = tokio::spawn(running.care().run(stop.clone()));
    let reloading = tokio::spawn(reload::run(running.registry.clone(), running.consent.clone(), stop.clone()));
    let others = others_of(&ground, &running, &page);
    let options = EndpointOptions {
        authenticator: ground.access.clients.clone(),
        loopback: ground.entrance.is_loopback,
        max_connections: limits::most_connections(),
        own_name: ground.has_page.then(|| page.host().into()),
        archive: session_archive::of(&ground.store),
        tls: ground.entrance.tls,
        ..EndpointOptions::default()
    };
    // It has handles to everything that is closed below.
    drop(page);
    http::serve(ground.entrance.listeners, running.gateway.clone(), others, options, stop).await;
    // First: commands that come from now on must not find a gateway that is ending.
    drop(announced);
    let _ = reloading.await;
    let _ = caring.await;
    running.close().await;
    tracing::info!("stopped");
    Ok(())
}

fn page_of(ground: &ServingGround, running: &ServedGateway) -> Result<PageServer, CommandFailure> {
    let entrance = &ground.entrance;
    Ok(PageServer::new(PageParts {
        gateway: running.gateway.clone(),
        registry: running.registry.clone(),
        index: running.search.index(),
        changes: running.log.clone(),
        audit: running.audit.clone(),
        host: ground.data.page_host()?,
        door: Lock::new(page::door_of(&ground.data)),
        data: ground.data.clone(),
        address: entrance.address,
        scheme: entrance.scheme,
        loopback: entrance.is_loopback,
        connect: banner::connections(&entrance.url, &entrance.address, ground.has_tokens),
        has_tokens: ground.has_tokens,
        demo: running.demo.as_ref().map(Demo::change),
        streams: PageServer::streams(),
        entries: running.entries.clone(),
        logins: ground.logins.clone(),
        desk: running.desk.clone(),
    }))
}

/// What is served beside MCP: the API, webhooks, metadata, logins, and the page.
fn others_of(ground: &ServingGround, running: &ServedGateway, page: &PageServer) -> Router {
    let entrance = &ground.entrance;
    let browsers = ground.logins.clone().map(|logins| {
        let door = ground.has_tokens.then(|| Arc::new(TicketDoor::of(&ground.access)) as Arc<dyn PeopleDoor>);
        let routes = tidings_login::routes(logins, door);
        http::passed_on(routes, &running.gateway, |uri| Logins::home_of(uri.path(), uri.query()))
    });
    let parts = AdminParts {
        gateway: running.gateway.clone(),
        registry: running.registry.clone(),
        index: running.search.index(),
        search: running.search.clone(),
        changes: running.log.clone(),
        audit: running.audit.clone(),
        logins: ground.logins.clone(),
        links: ground.has_page.then(|| Arc::new(page.clone()) as Arc<dyn PageLinks>),
        logs: Some(Arc::new(LogTail::of(&ground.data))),
        connect: banner::connections(&entrance.url, &entrance.address, ground.has_tokens),
        entries: Some(running.entries.clone()),
        desk: running.desk.clone(),
        hooks: Some(running.notify.clone()),
        telemetry: running.telemetry.clone(),
        clients: ground.access.clients.clone(),
        rules: crate::policy::of_text,
    };
    let is_open = entrance.is_loopback && !ground.has_tokens;
    let others = tidings_admin::router(parts, ground.access.admins.clone(), is_open)
        .merge(running.hooks.clone())
        .merge(ground.access.metadata())
        .merge(server_card::routes(&ground.access.base))
        .merge(browsers.unwrap_or_default());
    if ground.has_page { others.merge(page.router()) } else { others }
}

/// Tells people where the gateway is, and how to get in.
fn say_where(ground: &ServingGround, running: &ServedGateway, page: &PageServer) -> Result<(), CommandFailure> {
    let link = page.make_link(&LinkRequest::default())?.filter(|_| ground.has_page).map(|link| link.url);
    let own_token = ground.data.admin_token_file();
    let wanted = match ground.has_auth {
        true => WantedToken::OfAuth,
        false => WantedToken::Own(&own_token),
    };
    let wanted = ground.has_tokens.then_some(wanted);
    let entrance = &ground.entrance;
    eprint!("{}", banner::of(&entrance.url, &entrance.address, wanted, running.demo.as_ref(), link.as_deref()));
    Ok(())
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
