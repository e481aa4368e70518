//! The SDK's client at the real gateway, with two servers of the same content behind it: a script and the SDK's own.

use std::fs::File;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use rmcp::handler::client::ClientHandler;
use rmcp::model::ProtocolVersion;
use rmcp::service::{RoleClient, RunningService};
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::transport::{StreamableHttpClientTransport, TokioChildProcess};
use rmcp::{ClientLifecycleMode, ClientServiceExt};
use tidings_testkit::{Gate, Gateway, Server, TempDir, within};
use tokio::process::Command;
use tokio::sync::watch;

use crate::guest::{Guest, Seen};
use crate::house::House;
use crate::script::scripted;

/// The names of the servers behind the gateway.
pub(crate) const SERVERS: [&str; 2] = ["scripted", "sdk"];
/// The tools that each of them has, sorted.
pub(crate) const TOOLS: [&str; 6] = ["ask", "echo", "form", "steps", "think", "wait"];

/// How long the changes of a resource are gathered: long enough to leave meanwhile, however busy the machine is.
pub(crate) const QUIET: Duration = Duration::from_secs(1);

fn notifications() -> String {
    format!("[notifications]\nresource_quiet = \"{}ms\"", QUIET.as_millis())
}

/// Where a gateway on stdio prints what is no protocol.
const STDERR: &str = "stderr";

/// With a handshake, or without.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Era {
    Legacy,
    Modern,
}

/// How the client reaches the gateway.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Over {
    Http,
    Stdio,
}

pub(crate) const ERAS: [Era; 2] = [Era::Legacy, Era::Modern];
pub(crate) const TRANSPORTS: [Over; 2] = [Over::Http, Over::Stdio];

impl Era {
    pub(crate) fn lifecycle(self) -> ClientLifecycleMode {
        match self {
            Self::Legacy => ClientLifecycleMode::Initialize,
            Self::Modern => ClientLifecycleMode::Discover { preferred_versions: vec![self.version()] },
        }
    }

    /// What makes the gateway speak to a server in this era and no other.
    pub(crate) fn key(self) -> &'static str {
        match self {
            Self::Legacy => "era = \"legacy\"",
            Self::Modern => "era = \"modern\"",
        }
    }

    pub(crate) fn version(self) -> ProtocolVersion {
        match self {
            Self::Legacy => ProtocolVersion::V_2025_11_25,
            Self::Modern => ProtocolVersion::V_2026_07_28,
        }
    }
}

/// Keeps the calls of `wait` until they are cancelled or the gate opens.
#[derive(Clone, Default)]
pub(crate) struct Doorman {
    pub(crate) gate: Gate,
    /// While it is closed, nobody's wish to follow a resource of the scripted server is answered.
    pub(crate) agree: Gate,
    cancelled: Arc<watch::Sender<Vec<String>>>,
}

impl Doorman {
    pub(crate) async fn hold(&self, who: &str, cancelled: impl Future<Output = ()>) -> String {
        tokio::select! {
            () = self.gate.wait() => format!("{who} waited"),
            () = cancelled => {
                self.cancelled.send_modify(|all| all.push(who.to_owned()));
                String::new()
            }
        }
    }

    /// Waits until a call was cancelled, and tells which were.
    pub(crate) async fn wait_cancelled(&self) -> Vec<String> {
        let mut changes = self.cancelled.subscribe();
        within("a cancelled call", changes.wait_for(|all| !all.is_empty())).await.expect("the doorman lives").clone()
    }

    pub(crate) fn cancelled(&self) -> Vec<String> {
        self.cancelled.borrow().clone()
    }
}

/// Connects a client to a gateway that serves over HTTP.
pub(crate) async fn over_http<C: ClientHandler>(
    client: C,
    gateway: &Gateway,
    lifecycle: ClientLifecycleMode,
) -> RunningService<RoleClient, C> {
    let http = reqwest::Client::builder().no_proxy().build().expect("an HTTP client");
    let config = StreamableHttpClientTransportConfig::with_uri(gateway.url());
    let transport = StreamableHttpClientTransport::with_client(http, config);
    within("a client over HTTP", client.serve_with_lifecycle(transport, lifecycle)).await.expect("a connected client")
}

/// Starts a gateway on a pipe, and connects a client to it. What the gateway prints is in the directory.
pub(crate) async fn over_stdio<C: ClientHandler>(
    client: C,
    config: String,
    lifecycle: ClientLifecycleMode,
) -> (RunningService<RoleClient, C>, TempDir) {
    let directory = TempDir::new();
    let mut command = Command::new(tidings_testkit::tidings());
    command.arg("stdio").arg("--config").arg(directory.write("tidings.toml", config));
    command.arg("--data").arg(directory.path());
    let stderr = File::create(directory.join(STDERR)).expect("a file in a fresh directory");
    let (transport, _) = TokioChildProcess::builder(command).stderr(stderr).spawn().expect("a gateway on stdio");
    let client = within("a client on stdio", client.serve_with_lifecycle(transport, lifecycle)).await;
    (client.expect("a connected client"), directory)
}

/// A connected client and all behind it.
pub(crate) struct Visit {
    pub(crate) client: RunningService<RoleClient, Guest>,
    pub(crate) seen: Seen,
    pub(crate) doormen: [Doorman; 2],
    pub(crate) scripted: Server,
    _sdk: House,
    _gateway: Reached,
}

enum Reached {
    Http { _gateway: Box<Gateway> },
    Stdio { directory: TempDir },
}

impl Drop for Reached {
    fn drop(&mut self) {
        if let (Self::Stdio { directory }, true) = (self, std::thread::panicking()) {
            eprintln!("gateway printed {}", std::fs::read_to_string(directory.join(STDERR)).unwrap_or_default());
        }
    }
}

impl Visit {
    /// Connects a client of an era to a gateway before servers of another.
    pub(crate) async fn pay(client: Era, over: Over, servers: Era) -> Self {
        Self::pay_as(client.version(), client.lifecycle(), over, servers).await
    }

    /// The same with full control over the beginning.
    pub(crate) async fn pay_as(
        version: ProtocolVersion,
        lifecycle: ClientLifecycleMode,
        over: Over,
        servers: Era,
    ) -> Self {
        // Shown when the test fails.
        eprintln!("a client of {version} over {over:?}, {servers:?} servers");
        let doormen = [Doorman::default(), Doorman::default()];
        doormen[0].agree.open();
        let scripted = scripted(servers, doormen[0].clone()).await;
        let sdk = House::open(servers, doormen[1].clone()).await;
        let (guest, seen) = Guest::new(version);
        let (client, gateway) = match over {
            Over::Http => {
                let config = format!("{}\n[servers.sdk]\n{}\n{}", notifications(), servers.key(), sdk.toml());
                let gateway = Gateway::builder().server_with("scripted", &scripted, servers.key()).toml(&config);
                let gateway = gateway.serve().await;
                (over_http(guest, &gateway, lifecycle).await, Reached::Http { _gateway: Box::new(gateway) })
            }
            Over::Stdio => {
                let config = format!(
                    "[gateway]
registry_tools = false
{}
[servers.scripted]
{era}
{}
[servers.sdk]
{era}
{}",
                    notifications(),
                    scripted.toml(),
                    sdk.toml(),
                    era = servers.key(),
                );
                let (client, directory) = over_stdio(guest, config, lifecycle).await;
                (client, Reached::Stdio { directory })
            }
        };
        Self { client, seen, doormen, scripted, _sdk: sdk, _gateway: gateway }
    }

    /// Leaves, and makes sure that the gateway kept to the protocol behind it.
    pub(crate) async fn leave(self) {
        within("the client's end", self.client.cancel()).await.expect("no panic in the client");
        self.scripted.assert_clean();
    }
}
