//! Everyday servers behind one gateway, used by the PyPI client; servers that change, watched by PyPI clients of both
//! eras; slow servers, followed by PyPI and npm clients; servers that are killed and come back; peers that have HTTP+SSE only; apps of several
//! servers in the hands of the reference host, and their skills; questions and tasks across the eras, and the official suite with servers of the other era; a login at a provider; and the
//! documentation, followed by the letter. The checks are in the scripts.

use std::path::Path;
use std::thread;
use std::time::Duration;

use serde_json::json;

use crate::children::{Children, Echo};
use crate::failure::Failure;
use crate::gateway;
use crate::invocation::Invocation;
use crate::peers::{self, Peers};
use crate::tally::Tally;
use crate::workspace::Workspace;

const DEADLINE: Duration = Duration::from_secs(600);
/// It takes four to eight minutes.
const OTHER_ERA: Duration = Duration::from_secs(1_200);
/// How long the slow servers take to answer, and how long the gateway gathers changes meanwhile, in seconds.
const SLOW: &str = "2.5";
const QUIET: &str = "1";
/// How long the gateway gathers changes of lists where clients must not notice, in seconds.
const WINDOW: &str = "20";

pub(crate) fn run(children: &Children, workspace: &Workspace, peers: &Peers, binary: &Path) -> Result<Tally, Failure> {
    // Two lanes, since most of their time they wait.
    let changes: [Script; 7] = [everyday, changing, approving, writing, racing, authorization, releases];
    let others: [Script; 15] = [
        restarting,
        http_and_sse,
        traces,
        apps,
        questions,
        skills,
        tasks,
        python_tasks,
        killed_servers,
        other_era_suite,
        logins,
        providers,
        authorization_stories,
        walk,
        connected_clients,
    ];
    let lane = |scripts: &[Script]| {
        let mut tally = Tally::default();
        for script in scripts {
            tally += script(children, workspace, peers, binary)?;
        }
        Ok(tally)
    };
    let (of_changes, of_others) = thread::scope(|scope| {
        let beside = scope.spawn(|| lane(&changes));
        let of_others = lane(&others);
        (beside.join().unwrap_or(Err(Failure::Lane)), of_others)
    });
    let mut tally: Tally = of_changes?;
    tally += of_others?;
    // By itself: it runs several servers at a time, and counts seconds.
    tally += restarted_servers(children, workspace, peers, binary)?;
    Ok(tally)
}

/// The suite and the stories with servers of the other era only. They print what passes; too few is a failure.
pub(crate) fn other_era(
    children: &Children,
    workspace: &Workspace,
    peers: &Peers,
    binary: &Path,
) -> Result<(), Failure> {
    children.run(&other_era_script(workspace, peers, binary)?.deadline(OTHER_ERA))
}

fn other_era_script(workspace: &Workspace, peers: &Peers, binary: &Path) -> Result<Invocation, Failure> {
    let directory = workspace.fresh_run_directory(&["other-era"])?;
    let script = python(workspace, peers, "other_era.py").env("PYTHONWARNINGS", "ignore").arg("--gateway").arg(binary);
    Ok(script.arg("--peers").arg(peers.directory()).arg("--directory").arg(&directory))
}

/// Only the suite, which takes half a minute: one check for each direction.
fn other_era_suite(children: &Children, workspace: &Workspace, peers: &Peers, binary: &Path) -> Result<Tally, Failure> {
    let script = other_era_script(workspace, peers, binary)?.args(["--only", "suite"]);
    let ended = children.capture(&script.deadline(DEADLINE), Echo::Named("other_era.py"))?;
    Ok(if ended.status.success() { Tally::ONE_PASSED } else { Tally::ONE_FAILED })
}

/// One script of others' programs around the gateway, with its servers.
type Script = fn(&Children, &Workspace, &Peers, &Path) -> Result<Tally, Failure>;

fn everyday(children: &Children, workspace: &Workspace, peers: &Peers, binary: &Path) -> Result<Tally, Failure> {
    let directory = workspace.fresh_run_directory(&["real-peers"])?;
    let serving = gateway::start(children, binary, &everyday_servers(peers, &directory), &directory)?;
    let script = python(workspace, peers, "real_peers.py").arg("--peers").arg(peers.directory());
    count(children, &script.args(["--gateway", &serving.url()]))
}

fn changing(children: &Children, workspace: &Workspace, peers: &Peers, binary: &Path) -> Result<Tally, Failure> {
    let directory = workspace.fresh_run_directory(&["changing-peers"])?;
    let (_webs, servers) = changing_servers(children, workspace, peers, &directory)?;
    let configuration = format!("{}\n{servers}", everyday_servers(peers, &directory));
    let serving = gateway::start(children, binary, &configuration, &directory)?;
    count(children, &python(workspace, peers, "changing_peers.py").args(["--gateway", &serving.url()]))
}

/// Servers that change a tool after it was trusted, behind a gateway that holds it until it is approved.
fn approving(children: &Children, workspace: &Workspace, peers: &Peers, binary: &Path) -> Result<Tally, Failure> {
    let directory = workspace.fresh_run_directory(&["approvals"])?;
    let script = python(workspace, peers, "approvals.py").env("PYTHONWARNINGS", "ignore").arg("--tidings").arg(binary);
    let script = script.arg("--node").arg(peers.node()).arg("--peers").arg(peers.directory());
    count(children, &script.arg("--directory").arg(&directory))
}

/// A package of npm in two versions, added from a registry and upgraded.
fn releases(children: &Children, workspace: &Workspace, peers: &Peers, binary: &Path) -> Result<Tally, Failure> {
    let directory = workspace.fresh_run_directory(&["releases"])?;
    let script = python(workspace, peers, "releases.py").arg("--tidings").arg(binary);
    count(children, &script.arg("--directory").arg(&directory))
}

/// Whoever changes something and lists at once sees it, long before it is announced.
fn writing(children: &Children, workspace: &Workspace, peers: &Peers, binary: &Path) -> Result<Tally, Failure> {
    let directory = workspace.fresh_run_directory(&["own-writes"])?;
    let (_webs, servers) = changing_servers(children, workspace, peers, &directory)?;
    let windows = format!("[notifications]\nlist_quiet = \"{WINDOW}s\"\nlist_max_wait = \"{WINDOW}s\"\n\n");
    let serving = gateway::start(children, binary, &format!("{windows}{servers}"), &directory)?;
    let url = serving.url();
    let story = |script: Invocation| {
        let script = script.args(["--gateway", &url, "--quiet", WINDOW, "--"]);
        let stdio = script.arg(binary).arg("stdio").arg("--config").arg(directory.join("tidings.toml"));
        count(children, &stdio.arg("--data").arg(directory.join("stdio")))
    };
    let mut tally = story(python(workspace, peers, "own_writes.py").env("PYTHONWARNINGS", "ignore"))?;
    let node = Invocation::new(peers.node()).arg(workspace.conformance_file("own_writes.mjs")).deadline(DEADLINE);
    tally += story(node.arg("--peers").arg(peers.directory()))?;
    Ok(tally)
}

/// Servers that change, of both eras, on pipes and over HTTP; and their part of a configuration.
fn changing_servers<'a>(
    children: &'a Children,
    workspace: &Workspace,
    peers: &Peers,
    directory: &Path,
) -> Result<([gateway::Serving<'a>; 2], String), Failure> {
    let server = |name: &str| {
        let serve = |port: u16| python(workspace, peers, "changing_server.py").args(["--port", &port.to_string()]);
        gateway::start_other(children, serve, name, &directory.join(format!("{name}.log")))
    };
    let (oldweb, web) = (server("oldweb")?, server("web")?);
    let pipe = json!([workspace.conformance_file("changing_server.py")]);
    let python_program = json!(peers.python());
    let configuration = format!(
        "[servers.oldpipe]\nera = \"legacy\"\ncommand = {python_program}\nargs = {pipe}\n\n\
         [servers.newpipe]\nera = \"modern\"\ncommand = {python_program}\nargs = {pipe}\n\n\
         [servers.oldweb]\nera = \"legacy\"\nurl = {}\n\n\
         [servers.web]\nurl = {}\n",
        json!(oldweb.numeric_url()),
        json!(web.numeric_url()),
    );
    Ok(([oldweb, web], configuration))
}

/// Both races of a subscription: a change before the server agrees, and one while the client leaves.
fn racing(children: &Children, workspace: &Workspace, peers: &Peers, binary: &Path) -> Result<Tally, Failure> {
    let directory = workspace.fresh_run_directory(&["races"])?;
    let server = |name: &str, era: &str| {
        let script = workspace.conformance_file("slow_server.py");
        let (program, args) = (json!(peers.python()), json!([script, era, "--delay", SLOW]));
        format!("[servers.{name}]\nera = {era:?}\ncommand = {program}\nargs = {args}\n\n")
    };
    let configuration = format!(
        "[notifications]\nresource_quiet = \"{QUIET}s\"\n\n{}{}",
        server("slowold", "legacy"),
        server("slownew", "modern")
    );
    let serving = gateway::start(children, binary, &configuration, &directory)?;
    let url = serving.url();
    let story = |script: Invocation| {
        let script = script.args(["--gateway", &url, "--delay", SLOW, "--quiet", QUIET, "--"]);
        let stdio = script.arg(binary).arg("stdio").arg("--config").arg(directory.join("tidings.toml"));
        count(children, &stdio.arg("--data").arg(directory.join("stdio")))
    };
    let mut tally = story(python(workspace, peers, "races.py").env("PYTHONWARNINGS", "ignore"))?;
    let node = Invocation::new(peers.node()).arg(workspace.conformance_file("races.mjs")).deadline(DEADLINE);
    tally += story(node.arg("--peers").arg(peers.directory()))?;
    Ok(tally)
}

/// Clients whose gateway is killed and started again.
fn restarting(children: &Children, workspace: &Workspace, peers: &Peers, binary: &Path) -> Result<Tally, Failure> {
    let directory = workspace.fresh_run_directory(&["restarts"])?;
    let node = Invocation::new(peers.node()).arg(workspace.conformance_file("restarts.mjs")).deadline(DEADLINE);
    let node = node.arg("--peers").arg(peers.directory()).arg("--tidings").arg(binary);
    count(children, &node.arg("--directory").arg(&directory))
}

/// Servers that others wrote, killed and started again in every situation.
fn restarted_servers(
    children: &Children,
    workspace: &Workspace,
    peers: &Peers,
    binary: &Path,
) -> Result<Tally, Failure> {
    children.run(&workspace.build())?;
    let script = python(workspace, peers, "server_restarts.py").env("PYTHONWARNINGS", "ignore").args(["--jobs", "4"]);
    let script = script.arg("--tidings").arg(binary).arg("--node").arg(peers.node());
    let script = script.arg("--rmcp").arg(workspace.built_example("restarting_server"));
    count(children, &script.arg("--everything").arg(peers.script("server-everything")))
}

/// A server and a client of others that have HTTP+SSE only.
fn http_and_sse(children: &Children, workspace: &Workspace, peers: &Peers, binary: &Path) -> Result<Tally, Failure> {
    let directory = workspace.fresh_run_directory(&["sse-peers"])?;
    let script = python(workspace, peers, "sse_peers.py").env("PYTHONWARNINGS", "ignore").arg("--tidings").arg(binary);
    count(children, &script.arg("--directory").arg(&directory))
}

/// A trace through a client and a server of others.
fn traces(children: &Children, workspace: &Workspace, peers: &Peers, binary: &Path) -> Result<Tally, Failure> {
    let directory = workspace.fresh_run_directory(&["traces"])?;
    let script = python(workspace, peers, "traces.py").env("PYTHONWARNINGS", "ignore").arg("--tidings").arg(binary);
    count(children, &script.arg("--directory").arg(&directory))
}

/// Servers with MCP Apps beside one without, used by the reference host's library.
fn apps(children: &Children, workspace: &Workspace, peers: &Peers, binary: &Path) -> Result<Tally, Failure> {
    npm_story("apps", children, workspace, peers, binary)
}

/// Servers that ask in the middle of a call, of each era, and npm SDK clients of each.
fn questions(children: &Children, workspace: &Workspace, peers: &Peers, binary: &Path) -> Result<Tally, Failure> {
    npm_story("questions", children, workspace, peers, binary)
}

/// A tool that has to be a task, and SDK clients of which some know tasks.
fn tasks(children: &Children, workspace: &Workspace, peers: &Peers, binary: &Path) -> Result<Tally, Failure> {
    npm_story("tasks", children, workspace, peers, binary)
}

/// Servers with skills, of each era, and SDK clients that verify every file of them.
fn skills(children: &Children, workspace: &Workspace, peers: &Peers, binary: &Path) -> Result<Tally, Failure> {
    npm_story("skills", children, workspace, peers, binary)
}

/// Tasks of both kinds, with Python SDKs that each know one of them.
fn python_tasks(children: &Children, workspace: &Workspace, peers: &Peers, binary: &Path) -> Result<Tally, Failure> {
    let directory = workspace.fresh_run_directory(&["python-tasks"])?;
    let script = python(workspace, peers, "python_tasks.py").arg("--gateway").arg(binary);
    let script = script.arg("--first").arg(peers.earlier_python()).arg("--second").arg(peers.python());
    count(children, &script.arg("--directory").arg(&directory))
}

/// Servers that are killed in the middle of a task, and while a call waits for its client.
fn killed_servers(children: &Children, workspace: &Workspace, peers: &Peers, binary: &Path) -> Result<Tally, Failure> {
    let directory = workspace.fresh_run_directory(&["killed-peers"])?;
    let script =
        python(workspace, peers, "killed_peers.py").env("PYTHONWARNINGS", "ignore").arg("--tidings").arg(binary);
    let script = script.arg("--node").arg(peers.node()).arg("--everything").arg(peers.script("server-everything"));
    count(children, &script.arg("--directory").arg(&directory))
}

/// A server that wants a login, a provider of others, and the way of a person through it: for all, and of two people for themselves.
fn logins(children: &Children, workspace: &Workspace, peers: &Peers, binary: &Path) -> Result<Tally, Failure> {
    let mut tally = npm_story("login", children, workspace, peers, binary)?;
    tally += npm_story("people", children, workspace, peers, binary)?;
    tally += npm_story("known_browsers", children, workspace, peers, binary)?;
    tally += npm_story("described_client", children, workspace, peers, binary)?;
    Ok(tally)
}

/// Clients that come in with tokens of a provider of others.
fn providers(children: &Children, workspace: &Workspace, peers: &Peers, binary: &Path) -> Result<Tally, Failure> {
    npm_story("provider", children, workspace, peers, binary)
}

/// The suite's scenarios about authorization by name, with the gateway as the client that logs in.
fn authorization(children: &Children, workspace: &Workspace, peers: &Peers, binary: &Path) -> Result<Tally, Failure> {
    let directory = workspace.fresh_run_directory(&["authorization"])?;
    let script = python(workspace, peers, "auth_scenarios.py").arg("--peers").arg(peers.directory());
    let script = script.arg("--node").arg(peers.node()).arg("--tidings").arg(binary);
    count(children, &script.arg("--directory").arg(&directory))
}

/// The PyPI SDK's own stories about authorization, with the gateway between.
fn authorization_stories(
    children: &Children,
    workspace: &Workspace,
    peers: &Peers,
    binary: &Path,
) -> Result<Tally, Failure> {
    let server = peers.everything_server();
    // The source distribution has its servers and its stories side by side.
    let examples = server.ancestors().nth(2).unwrap_or(&server);
    let directory = workspace.fresh_run_directory(&["authorization-stories"])?;
    let script = python(workspace, peers, "auth_stories.py").arg("--tidings").arg(binary).arg("--examples");
    count(children, &script.arg(examples).arg("--directory").arg(&directory))
}

/// A story that npm packages play, in a directory of its own.
fn npm_story(
    story: &str,
    children: &Children,
    workspace: &Workspace,
    peers: &Peers,
    binary: &Path,
) -> Result<Tally, Failure> {
    let directory = workspace.fresh_run_directory(&[story])?;
    let script = workspace.conformance_file(&format!("{story}.mjs"));
    let node = Invocation::new(peers.node()).arg(script).deadline(DEADLINE);
    let node = node.arg("--peers").arg(peers.directory()).arg("--tidings").arg(binary);
    count(children, &node.arg("--directory").arg(&directory))
}

/// From nothing to a row that tells of itself, as the documentation says.
fn walk(children: &Children, workspace: &Workspace, peers: &Peers, binary: &Path) -> Result<Tally, Failure> {
    let script = python(workspace, peers, "walk_through.py").arg("--tidings").arg(binary);
    let script = script.arg("--document").arg(workspace.document("live-resources.md"));
    count(children, &script.arg("--node").arg(peers.node()).arg("--inspector").arg(peers.inspector()))
}

/// Clients that people use, connected by `tidings connect` and left as they were; and which tools their models are shown.
pub(crate) fn connected_clients(
    children: &Children,
    workspace: &Workspace,
    peers: &Peers,
    binary: &Path,
) -> Result<Tally, Failure> {
    let clients = peers::clients::install(children, workspace)?;
    let directory = workspace.fresh_run_directory(&["connected-clients"])?;
    let script = python(workspace, peers, "connected_clients.py").arg("--tidings").arg(binary);
    let script = script.arg("--clients").arg(&clients).arg("--node").arg(peers.node());
    let mut tally = count(children, &script.arg("--directory").arg(&directory))?;
    let directory = workspace.fresh_run_directory(&["shown-tools"])?;
    let script = python(workspace, peers, "shown_tools.py").arg("--tidings").arg(binary);
    let script = script.arg("--clients").arg(&clients).arg("--node").arg(peers.node());
    tally += count(children, &script.arg("--directory").arg(&directory))?;
    Ok(tally)
}

fn python(workspace: &Workspace, peers: &Peers, script: &str) -> Invocation {
    let file = workspace.conformance_file(script);
    // Into a pipe Python would print only when its buffer is full, and nothing of what it last did when it hangs.
    Invocation::new(peers.python()).arg(file).env("PYTHONUNBUFFERED", "1").deadline(DEADLINE)
}

/// Runs a script that prints its totals.
fn count(children: &Children, script: &Invocation) -> Result<Tally, Failure> {
    let ended = children.capture(script, Echo::Named(&script.name()))?;
    let mut tally = Tally::from_output(&ended.output);
    // A script that broke off has counted no failure.
    if !ended.status.success() && tally.failed == 0 {
        tally += Tally::ONE_FAILED;
    }
    Ok(tally)
}

/// JSON strings and arrays of strings are TOML too.
fn everyday_servers(peers: &Peers, directory: &Path) -> String {
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
