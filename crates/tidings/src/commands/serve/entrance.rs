//! Where the gateway listens for clients, and whether it may.

use std::io::ErrorKind;
use std::net::SocketAddr;

use tidings_config::{Config, ListenAddress, ListenTarget, TlsSettings};
use tidings_downstream::http::{EndpointListener, TlsEntrance, TlsFiles};
use tokio::net::TcpListener;

use super::{banner, listeners};
use crate::data::DataDir;
use crate::failure::CommandFailure;

/// The open listeners, and how clients get there.
pub(super) struct GatewayEntrance {
    /// The first is at `address`.
    pub(super) listeners: Vec<EndpointListener>,
    /// With the port that it has, where the configuration says 0.
    pub(super) address: SocketAddr,
    pub(super) tls: Option<TlsEntrance>,
    /// Nobody comes in from another machine.
    pub(super) is_loopback: bool,
    pub(super) scheme: &'static str,
    pub(super) url: String,
}

impl GatewayEntrance {
    /// Listens at `listen`, and wherever else the configuration says.
    pub(super) async fn open(config: &Config, listen: &ListenAddress, data: &DataDir) -> Result<Self, CommandFailure> {
        let is_loopback = listen.is_loopback() && remote(config).is_none();
        let tls = config.gateway.tls.clone().map(|tls| {
            let TlsSettings { cert, key, client_ca, client_cert_required } = *tls;
            TlsEntrance::open(TlsFiles { cert, key, client_ca, client_cert_required })
        });
        let tls = tls.transpose().map_err(|fault| CommandFailure::Failed(format!("tls of [gateway]: {fault}")))?;
        let scheme = if tls.is_some() { "https" } else { "http" };
        let listener = TcpListener::bind((listen.host.as_str(), listen.port)).await;
        let listener = listener.map_err(|error| unheard(listen, &error, data))?;
        let address = listener.local_addr().map_err(CommandFailure::failed)?;
        let mut opened: Vec<EndpointListener> = vec![listener.into()];
        for target in &config.gateway.also_listen {
            opened.push(listeners::open(target).await?);
        }
        let url = format!("{scheme}://{}", banner::reachable(address));
        Ok(Self { listeners: opened, address, tls, is_loopback, scheme, url })
    }
}

/// Without tokens, the tools of all servers would be open to the whole network.
pub(super) fn refuse_strangers(config: &Config, listen: &ListenAddress) -> Result<(), CommandFailure> {
    let (address, remedy) = match remote(config) {
        _ if config.auth.is_some() => return Ok(()),
        _ if !listen.is_loopback() => (listen, "listen on 127.0.0.1"),
        Some(other) => (other, "leave it out of `listen`"),
        None => return Ok(()),
    };
    Err(CommandFailure::Usage(format!(
        "{address} can be reached from other machines; add [auth] tokens to the configuration (`tidings token NAME` makes one), \
         or {remedy}"
    )))
}

/// An address besides the first that other machines reach.
fn remote(config: &Config) -> Option<&ListenAddress> {
    config.gateway.also_listen.iter().find_map(|target| match target {
        ListenTarget::Address(address) if !address.is_loopback() => Some(address),
        ListenTarget::Address(_) | ListenTarget::Socket(_) => None,
    })
}

/// Why nobody can listen there, and what to do.
fn unheard(listen: &ListenAddress, error: &std::io::Error, data: &DataDir) -> CommandFailure {
    let next = ListenAddress { host: listen.host.clone(), port: listen.port.checked_add(1).unwrap_or(7338) };
    CommandFailure::Failed(match error.kind() {
        ErrorKind::AddrInUse
            if data.running().is_some_and(|running| running.url.ends_with(&format!(":{}", listen.port))) =>
        {
            format!(
                "a gateway serves on {listen} already: tidings status\nTo serve another beside it: tidings serve --listen \
                 {next} --data DIR"
            )
        }
        ErrorKind::AddrInUse => {
            format!("another program listens on {listen}. End it, or serve elsewhere: tidings serve --listen {next}")
        }
        ErrorKind::PermissionDenied => format!(
            "this user may not listen on {listen}: {error}. Ports below 1024 are the system's: tidings serve --listen {}:7337",
            listen.host
        ),
        _ => {
            format!("can not listen on {listen}: {error}. Name an address of this machine: tidings serve --listen ADDR")
        }
    })
}
