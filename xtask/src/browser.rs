//! The page in a real browser: Chromium from Debian, and axe-core from npm, which knows what makes pages hard to use.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::json;

use crate::children::{Children, Echo};
use crate::failure::Failure;
use crate::invocation::Invocation;
use crate::peers::{self, Peers};
use crate::tally::Tally;
use crate::workspace::Workspace;

/// The fonts are for signs and for pictures in text, which others put into their texts.
const PACKAGES: [&str; 3] = ["chromium", "fonts-dejavu-core", "fonts-noto-color-emoji"];
const AXE_VERSION: &str = "4.14.0";
const DEADLINE: Duration = Duration::from_secs(300);
/// A hundred thousand events take minutes.
const MEASURE_DEADLINE: Duration = Duration::from_secs(1_200);

/// Installs what is missing, and tells where axe-core is.
pub(crate) fn install(children: &Children, workspace: &Workspace) -> Result<PathBuf, Failure> {
    if !Path::new("/usr/bin/chromium").is_file() {
        peers::system::install_debian_packages(children, "Chromium", &PACKAGES)?;
    }
    let directory = workspace.browser();
    let script = directory.join("node_modules/axe-core/axe.min.js");
    let manifest = json!({ "private": true, "dependencies": { "axe-core": AXE_VERSION } }).to_string();
    let stamp = directory.join("installed");
    if script.is_file() && fs::read_to_string(&stamp).is_ok_and(|installed| installed == manifest) {
        return Ok(script);
    }
    peers::system::ensure_npm(children)?;
    fs::create_dir_all(&directory).map_err(Failure::file(&directory))?;
    let path = directory.join("package.json");
    fs::write(&path, &manifest).map_err(Failure::file(&path))?;
    let install =
        Invocation::new("npm").args(["install", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]);
    peers::run(children, install.directory(&directory))?;
    fs::write(&stamp, &manifest).map_err(Failure::file(&stamp))?;
    Ok(script)
}

/// Reads, keys, no scripts, hostile text, what is live, and what the page says of clients.
pub(crate) fn run(children: &Children, workspace: &Workspace, peers: &Peers, binary: &Path) -> Result<Tally, Failure> {
    let axe = install(children, workspace)?;
    let script = script(workspace, peers, binary, "page.py")?.deadline(DEADLINE);
    let script = script.arg("--axe").arg(&axe).arg("--node").arg(peers.node());
    tally(children, &script, "page.py")
}

/// How soon it shows what it shows, where there is much of it. The binary has the load harness beside it.
pub(crate) fn measure(
    children: &Children,
    workspace: &Workspace,
    peers: &Peers,
    binary: &Path,
) -> Result<Tally, Failure> {
    install(children, workspace)?;
    let script = script(workspace, peers, binary, "page_figures.py")?.deadline(MEASURE_DEADLINE);
    tally(children, &script, "page_figures.py")
}

fn script(workspace: &Workspace, peers: &Peers, binary: &Path, name: &str) -> Result<Invocation, Failure> {
    let directory = workspace.fresh_run_directory(&["browser"])?;
    let script = Invocation::new(peers.python()).arg(workspace.conformance_file(name)).env("PYTHONUNBUFFERED", "1");
    let script = script.arg("--tidings").arg(binary).arg("--directory").arg(&directory);
    Ok(script.arg("--peers").arg(peers.directory()))
}

fn tally(children: &Children, script: &Invocation, name: &'static str) -> Result<Tally, Failure> {
    let ended = children.capture(script, Echo::Named(name))?;
    let mut tally = Tally::from_output(&ended.output);
    if !ended.status.success() && tally.failed == 0 {
        tally += Tally::ONE_FAILED;
    }
    Ok(tally)
}
