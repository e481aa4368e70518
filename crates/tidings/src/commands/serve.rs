//! `tidings serve`: the gateway over HTTP.

use std::time::Duration;

use tidings_admin::Parts;
use tidings_config::Listen;
use tidings_downstream::http::{self, Options};
use tidings_store::ServerTable;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::cli::Cli;
use crate::data::DataDir;
use crate::demo::Demo;
use crate::failure::Failure;
use crate::{access, ending, feed, limits, reload, settings, wiring};

/// How long a process that is about to leave may hold the store.
const PATIENCE: Duration = Duration::from_secs(2);

pub(super) async fn run(cli: &Cli, listen: Option<Listen>) -> Result<(), Failure> {
    let loaded = settings::load_to_run(cli.config.as_deref())?;
    let config = &loaded.config;
    limits::raise_open_files();
    let listen = listen.unwrap_or_else(|| config.gateway.listen.clone());
    if !listen.is_loopback() && config.auth.is_none() {
        return Err(Failure::Usage(format!(
            "{listen} can be reached from other machines; add [auth] tokens to the configuration (`tidings token NAME` makes \
             one), or listen on 127.0.0.1"
        )));
    }
    let data = DataDir::find(cli.data.as_deref())?;
    let access = access::of(config, &data.admin_token()?)?;
    let listener = TcpListener::bind((listen.host.as_str(), listen.port))
        .await
        .map_err(|e| Failure::Failed(format!("can not listen on {listen}: {e}; choose another with --listen ADDR")))?;
    let address = listener.local_addr().map_err(Failure::failed)?;
    let store = feed::open(Some(data.clone()), PATIENCE).await;
    let prepared = wiring::prepare(cli, loaded.into_ground(ServerTable::new(&store), |_| Vec::new()), Some(&data))?;
    let (index, registry, demo) = (prepared.index(), prepared.registry(), prepared.demo());
    let hooks = tidings_admin::hooks(prepared.hooks());
    let log = feed::log(store);
    let gateway = prepared.start(None, Some(feed::journal(&log)));
    let url = format!("http://{address}");
    let announcement = data.announce(&url)?;
    greet(&url, demo.as_ref());
    let stop = CancellationToken::new();
    ending::stop_on_signal(stop.clone());
    let reloading = tokio::spawn(reload::run(registry.clone(), stop.clone()));
    let options = Options { tokens: access.clients, loopback: listen.is_loopback(), ..Options::default() };
    let parts = Parts { gateway: gateway.clone(), registry, index, changes: log.clone() };
    let others = tidings_admin::router(parts, access.admins, listen.is_loopback()).merge(hooks);
    http::serve(listener, gateway.clone(), others, options, stop).await;
    drop(announcement);
    let _ = reloading.await;
    gateway.shutdown().await;
    log.close().await;
    tracing::info!("stopped");
    Ok(())
}

/// What to do next, on standard error like everything that is not asked for.
fn greet(url: &str, demo: Option<&Demo>) {
    let what = if demo.is_some() { "a demo (no server is configured yet)" } else { "your servers" };
    eprintln!("Tidings serves {what} at {url}/mcp\n");
    eprintln!("Connect a client:");
    eprintln!("  Claude Code     claude mcp add --transport http tidings {url}/mcp");
    eprintln!("  Codex           codex mcp add tidings --url {url}/mcp");
    eprintln!("  Cursor, others  {{\"mcpServers\": {{\"tidings\": {{\"url\": \"{url}/mcp\"}}}}}}");
    eprintln!("Look behind it:");
    eprintln!("  tidings servers");
    eprintln!("  tidings tools");
    eprintln!("  tidings changes --follow");
    if let Some(demo) = demo {
        let (project, notes) = (demo.project.display(), demo.notes.display());
        eprintln!("  tidings call echo '{{\"text\": \"hello\"}}'");
        eprintln!("See a change arrive, in another terminal:");
        eprintln!("  a new tool      cp {project}/tools/clock.sh {project}/tools/mine.sh");
        eprintln!("  a changed note  tidings watch watch://notes/todo.md, and add a line to {notes}/todo.md");
        eprintln!("Add your own:");
        eprintln!("  scripts         tidings scaffold tool hello --project {project}");
        eprintln!("  servers         tidings add NAME -- COMMAND, or tidings add NAME --url URL");
    }
    eprintln!();
}
