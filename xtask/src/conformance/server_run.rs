//! The suite as a client of the everything-server: directly, then through the gateway with each
//! kind of link to that server.

use std::path::{Path, PathBuf};

use serde_json::json;

use crate::failure::Failure;
use crate::gateway::{self, Serving};
use crate::invocation::Invocation;

use super::checks::{Pairing, Results};
use super::compare::Comparison;
use super::{Link, Run, Setting};

const STDIO_SERVER: &str = "from mcp_everything_server.server import mcp; mcp.run(transport='stdio')";
// What the direct run must at least give: scenarios, checks. With fewer a comparison proves little.
const BASELINE: [(&str, usize, usize); 3] = [("2025-06-18", 27, 56), ("2025-11-25", 33, 84), ("2026-07-28", 40, 152)];

pub(super) fn run(setting: &Setting<'_>, runs: &mut Vec<Run>) -> Result<(), Failure> {
    let directory = setting.workspace.fresh_run_directory(&["everything-server"])?;
    let everything = start_everything_server(setting, &directory)?;
    let revisions = setting.selection.revisions();
    let mut direct = Vec::new();
    for revision in &revisions {
        println!("{revision} directly");
        direct.push(run_directly(setting, &everything, revision)?);
    }
    for link in setting.selection.links().into_iter().filter(|link| matches!(link, Link::Http | Link::Stdio)) {
        for (revision, direct) in revisions.iter().zip(&direct) {
            println!("{revision} through the gateway, upstream {}", link.name());
            let through = run_through_gateway(setting, link, &everything, revision)?;
            runs.push(Run { revision, link, comparison: Comparison::new(direct, &through) });
        }
    }
    Ok(())
}

fn start_everything_server<'a>(setting: &Setting<'a>, directory: &Path) -> Result<Serving<'a>, Failure> {
    let invocation = |port: u16| {
        Invocation::new(setting.peers.python())
            .args(["-m", "mcp_everything_server", "--port", &port.to_string()])
            .directory(&setting.peers.everything_server())
    };
    let log = directory.join("server.log");
    gateway::start_other(setting.children, invocation, "the everything-server", &log)
}

fn run_directly(setting: &Setting<'_>, everything: &Serving<'_>, revision: &str) -> Result<Results, Failure> {
    let directory = setting.workspace.fresh_run_directory(&["direct", revision])?;
    let results = run_suite(setting, &everything.url(), revision, &directory)?;
    if setting.selection.scenario.is_none() {
        check_baseline(&results, revision, directory)?;
    }
    Ok(results)
}

fn run_through_gateway(
    setting: &Setting<'_>,
    link: Link,
    everything: &Serving<'_>,
    revision: &str,
) -> Result<Results, Failure> {
    let directory = setting.workspace.fresh_run_directory(&[link.name(), revision])?;
    let configuration = match link {
        Link::Stdio => stdio_configuration(setting),
        Link::Http | Link::Client | Link::Stories => {
            format!("[servers.everything]\nurl = {}\n", json!(everything.numeric_url()))
        }
    };
    let serving = gateway::start(setting.children, setting.gateway, &configuration, &directory)?;
    run_suite(setting, &serving.url(), revision, &directory)
}

fn run_suite(setting: &Setting<'_>, url: &str, revision: &str, directory: &Path) -> Result<Results, Failure> {
    let results = directory.join("results");
    let scenario = setting.selection.scenario.as_deref();
    setting.suite.test_server(url, revision, scenario, &results)?;
    Results::read(&results, "server-", Pairing::Occurrence)
}

/// JSON strings and arrays of strings are TOML too.
fn stdio_configuration(setting: &Setting<'_>) -> String {
    let command = json!(setting.peers.python());
    let arguments = json!(["-c", STDIO_SERVER]);
    let directory = json!(setting.peers.everything_server());
    format!("[servers.everything]\ncommand = {command}\nargs = {arguments}\ncwd = {directory}\n")
}

fn check_baseline(results: &Results, revision: &str, directory: PathBuf) -> Result<(), Failure> {
    // With itself, only to be counted: what passed directly.
    let itself = Comparison::new(results, results);
    let found = (itself.scenarios(), itself.checks());
    let expected = BASELINE.into_iter().find(|(at, ..)| *at == revision);
    match expected {
        Some((_, scenarios, checks)) if found.0 < scenarios || found.1 < checks => {
            Err(Failure::Baseline { directory, expected: (scenarios, checks), found })
        }
        _ => Ok(()),
    }
}
