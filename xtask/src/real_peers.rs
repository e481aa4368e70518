//! Everyday servers behind one gateway, used by the PyPI client. The checks are in the script.

use std::path::Path;
use std::time::Duration;

use serde_json::json;

use crate::children::Children;
use crate::failure::Failure;
use crate::gateway;
use crate::invocation::Invocation;
use crate::peers::Peers;
use crate::tally::Tally;
use crate::workspace::Workspace;

const DEADLINE: Duration = Duration::from_secs(600);

pub(crate) fn run(children: &Children, workspace: &Workspace, peers: &Peers, binary: &Path) -> Result<Tally, Failure> {
    let directory = workspace.fresh_run_directory(&["real-peers"])?;
    let serving = gateway::start(children, binary, &configuration(peers, &directory), &directory)?;
    let script = Invocation::new(peers.python())
        .arg(workspace.conformance_file("real_peers.py"))
        .arg("--peers")
        .arg(peers.directory())
        .args(["--gateway", &serving.url()])
        .env("PYTHONUNBUFFERED", "1")
        .deadline(DEADLINE);
    let ended = children.capture(&script, true)?;
    let mut tally = Tally::from_output(&ended.output);
    if !ended.status.success() && tally.failed == 0 {
        tally += Tally::ONE_FAILED;
    }
    Ok(tally)
}

/// JSON strings and arrays of strings are TOML too.
fn configuration(peers: &Peers, directory: &Path) -> String {
    let node = json!(peers.node());
    let everything = json!([peers.script("server-everything"), "stdio"]);
    let memory = json!([peers.script("server-memory")]);
    let memory_file = json!(directory.join("memory.jsonl"));
    let python = json!(peers.python());
    format!(
        "[servers.everything]\ncommand = {node}\nargs = {everything}\n\n\
         [servers.memory]\ncommand = {node}\nargs = {memory}\nenv = {{ MEMORY_FILE_PATH = {memory_file} }}\n\n\
         [servers.time]\ncommand = {python}\nargs = [\"-m\", \"mcp_server_time\"]\n"
    )
}
