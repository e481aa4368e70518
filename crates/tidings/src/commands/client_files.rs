//! What `connect`, `import` and `init` share: where the clients' files of this user are, and asking before one is written.

use std::io::{BufRead as _, IsTerminal as _, Write as _};
use std::path::PathBuf;

use tidings_client_setup::{FoundServers, ImportSource, KnownClient, OperatingSystem, ReceiptFolder, UserPlaces};

use crate::cli::Cli;
use crate::data::DataDir;
use crate::failure::CommandFailure;
use crate::settings;

pub(super) fn places() -> Result<UserPlaces, CommandFailure> {
    let cwd = std::env::current_dir().map_err(CommandFailure::failed)?;
    UserPlaces::new(OperatingSystem::here(), &|name| std::env::var(name).ok(), &cwd)
        .ok_or_else(|| CommandFailure::Usage("no home directory: set HOME".to_owned()))
}

pub(super) fn receipts(cli: &Cli) -> Result<ReceiptFolder, CommandFailure> {
    Ok(ReceiptFolder::new(DataDir::find(cli.data.as_deref())?.path().join("connected")))
}

/// The client that was typed, or what could have been meant.
pub(super) fn client(id: &str) -> Result<&'static KnownClient, CommandFailure> {
    tidings_client_setup::by_id(id).ok_or_else(|| {
        let known: Vec<&str> = tidings_client_setup::CLIENTS.iter().map(|client| client.id).collect();
        CommandFailure::Usage(format!("there is no client \"{id}\"; those that are known: {}", known.join(", ")))
    })
}

/// Where the gateway of this user is, or will be.
pub(super) struct GatewayAddress {
    pub(super) url: Option<String>,
    pub(super) runs: bool,
    /// Clients need a token.
    pub(super) has_tokens: bool,
    /// The key of the data directory and the file that has it, where clients are to have that one.
    pub(super) own_token: Option<(String, PathBuf)>,
    pub(super) config: Option<PathBuf>,
}

pub(super) fn gateway(cli: &Cli) -> Result<GatewayAddress, CommandFailure> {
    let loaded = settings::load(cli)?;
    let data = DataDir::find(cli.data.as_deref())?;
    let running = data.running();
    // With `auth = "token"` and no tokens of `[auth]` there is only this one.
    let is_own = loaded.config.gateway.asks_everybody && loaded.config.auth.is_none();
    let own_token = is_own.then(|| data.admin_token()).transpose()?.map(|token| (token, data.admin_token_file()));
    let listen = &loaded.config.gateway.listen;
    let host = match listen.host.as_str() {
        // Addresses to listen on everywhere are none to connect to.
        "0.0.0.0" => "127.0.0.1".to_owned(),
        "::" => "[::1]".to_owned(),
        host if host.contains(':') => format!("[{host}]"),
        host => host.to_owned(),
    };
    // With port 0 the address is known only while the gateway runs.
    let scheme = if loaded.config.gateway.tls.is_some() { "https" } else { "http" };
    let planned = (listen.port != 0).then(|| format!("{scheme}://{host}:{}/mcp", listen.port));
    Ok(GatewayAddress {
        runs: running.is_some(),
        url: running.map(|running| format!("{}/mcp", running.url)).or(planned),
        has_tokens: loaded.config.auth.is_some() || loaded.config.gateway.asks_everybody,
        own_token,
        config: loaded.found.map(|found| found.path),
    })
}

/// The servers of some files. The gateway itself is none of them.
pub(super) fn read(cli: &Cli, sources: &[ImportSource]) -> FoundServers {
    let mut own = vec!["http://127.0.0.1:7337/mcp".to_owned(), "http://localhost:7337/mcp".to_owned()];
    own.extend(gateway(cli).ok().and_then(|gateway| gateway.url));
    let mut found = FoundServers::default();
    for source in sources {
        tidings_client_setup::read_file(source, &own, &mut found);
    }
    found
}

/// The files of all clients: those of the current folder first.
pub(super) fn all_sources(places: &UserPlaces) -> Vec<ImportSource> {
    let mut sources: Vec<ImportSource> =
        tidings_client_setup::CLIENTS.iter().flat_map(|client| client.sources(places)).collect();
    // The sort is stable, and false comes before true.
    sources.sort_by_key(|source| !source.path.starts_with(places.project()));
    sources
}

/// Asks on the terminal; `None` when nobody is there.
pub(super) fn agreed(question: &str, by_default: bool) -> Result<Option<bool>, CommandFailure> {
    if !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
        return Ok(None);
    }
    eprint!("{question} [{}] ", if by_default { "Y/n" } else { "y/N" });
    let _ = std::io::stderr().flush();
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer).map_err(CommandFailure::failed)?;
    Ok(Some(match answer.trim() {
        "y" | "Y" | "yes" => true,
        "" => by_default,
        _ => false,
    }))
}
