//! How each server is: as the running gateway sees it, else by starting it for a moment.

use std::time::Duration;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;
use tidings_config::{Config, ServerConfig, TransportConfig};

use super::clients;
use super::finding::DoctorFinding;
use crate::backend::Backend;
use crate::cli::Cli;
use crate::commands::terminal::plural;
use crate::data::RunningGateway;
use crate::failure::CommandFailure;

/// How long all servers may take to get ready, or a gateway to say how they are.
const WITHIN: Duration = Duration::from_secs(60);

/// What of a name has to be escaped in a URL.
const IN_PATH: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.');

pub(super) async fn findings(
    cli: &Cli,
    running: Option<&RunningGateway>,
    config: Option<&Config>,
) -> Vec<DoctorFinding> {
    let configured: Vec<&ServerConfig> = config.into_iter().flat_map(Config::enabled_servers).collect();
    if running.is_none() && configured.is_empty() {
        return Vec::new();
    }
    let asked = match tokio::time::timeout(WITHIN, states(cli, running, config)).await {
        Ok(asked) => asked,
        Err(_) => Err(CommandFailure::Failed(format!("no answer within {} s", WITHIN.as_secs()))),
    };
    let (states, shown) = match asked {
        Ok(asked) => asked,
        Err(CommandFailure::Usage(why)) => {
            return vec![DoctorFinding::note("servers", format!("not tried: {why}"), "do as it says")];
        }
        // The faults of the file are findings already.
        Err(CommandFailure::Config(_)) => return Vec::new(),
        Err(other) => {
            let why = other.to_string();
            let remedy = "correct what the configuration is said to lack, and try again";
            return vec![DoctorFinding::problem("servers", format!("not tried: {why}"), remedy)];
        }
    };
    let states = states["servers"].as_array().cloned().unwrap_or_default();
    let mut findings = Vec::new();
    for state in &states {
        // What is built in fails by its watches, which are looked at one by one.
        if state["source"] != "built-in" {
            let name = state["name"].as_str().unwrap_or_default();
            findings.extend(one(state, configured.iter().find(|server| server.name == name).copied()));
        }
    }
    findings.extend(states.iter().filter_map(warned));
    findings.extend(states.iter().filter_map(renamed));
    findings.extend(apps(&states, running));
    findings.extend(shown);
    findings.extend(configured.iter().filter_map(|server| unheard_hooks(server)));
    let gateway = config.map(|config| config.gateway.inherit_env.clone()).unwrap_or_default();
    findings.extend(configured.iter().filter_map(|server| withheld(server, &gateway)));
    for server in configured {
        if !states.iter().any(|state| state["name"] == server.name.as_str()) {
            let what = "the running gateway does not know it";
            let remedy = "the file was changed since, or belongs to another gateway: start `tidings serve` again";
            findings.push(DoctorFinding::note(about(&server.name), what, remedy));
        }
    }
    findings
}

/// How the servers are, and what clients with profiles are shown of them.
async fn states(
    cli: &Cli,
    running: Option<&RunningGateway>,
    config: Option<&Config>,
) -> Result<(Value, Vec<DoctorFinding>), CommandFailure> {
    let backend = match running {
        Some(running) => Backend::Running(running.clone()),
        None => Backend::of_its_own(cli)?,
    };
    let states = backend.servers().await;
    let shown = match &states {
        Ok(_) => clients::findings(&backend, config).await,
        Err(_) => Vec::new(),
    };
    backend.close().await;
    Ok((states?, shown))
}

/// What is wrong with a server that works.
fn warned(state: &Value) -> Option<DoctorFinding> {
    let warning = state["warning"].as_str()?;
    let name = state["name"].as_str().unwrap_or_default();
    Some(DoctorFinding::note(
        about(name),
        warning,
        format!("`tidings logs` has what came before; `tidings servers {name}` its state"),
    ))
}

/// What a server offers under a name that belongs to the gateway: clients see it under another.
fn renamed(state: &Value) -> Option<DoctorFinding> {
    let names = |key: &str| state[key].as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned);
    let names: Vec<String> = names("displaced_tools").chain(names("displaced_resources")).collect();
    if names.is_empty() {
        return None;
    }
    let what = format!("{} belongs to the gateway, so clients see it with the server's prefix", names.join(", "));
    let remedy = "where a client names it (permissions, prompts), write the new name: `tidings tools` shows it";
    Some(DoctorFinding::note(about(state["name"].as_str().unwrap_or_default()), what, remedy))
}

/// Servers whose tools have pages, where there are others beside them.
fn apps(states: &[Value], running: Option<&RunningGateway>) -> Vec<DoctorFinding> {
    let external: Vec<&Value> = states.iter().filter(|state| state["source"] != "built-in").collect();
    // The only one is served as it is already.
    if external.len() < 2 {
        return Vec::new();
    }
    let base = running.map_or("http://HOST:PORT", |running| running.url.as_str()).trim_end_matches('/');
    let one = |state: &&Value| {
        let count = state["app_tools"].as_u64().filter(|count| *count > 0)?;
        let name = state["name"].as_str().unwrap_or_default();
        let path = utf8_percent_encode(name, IN_PATH);
        let what =
            format!("{} shown with a page (MCP Apps), which calls tools by their own names", plural(count, "tool"));
        let remedy = format!("connect hosts of apps to it alone: {base}/mcp/s/{path}");
        Some(DoctorFinding::note(about(name), what, remedy))
    };
    external.iter().filter_map(one).collect()
}

/// Hooks of a project that do not run, because nobody allowed them.
fn unheard_hooks(server: &ServerConfig) -> Option<DoctorFinding> {
    let TransportConfig::Project { dir, env } = &server.transport else { return None };
    let is_allowed = env.iter().any(|(name, value)| name == "MCPBASH_ALLOW_PROJECT_HOOKS" && value == "true");
    let hooks = ["policy.sh", "register.sh"].into_iter().filter(|hook| dir.join("server.d").join(hook).is_file());
    let hooks: Vec<&str> = hooks.filter(|_| !is_allowed).collect();
    if hooks.is_empty() {
        return None;
    }
    let what = format!("its own server.d/{} does not run", hooks.join(" and server.d/"));
    Some(DoctorFinding::note(about(&server.name), what, "if you trust the project: allow_hooks = true"))
}

/// Variables of this environment that look as if they were meant for a server, which does not get them.
fn withheld(server: &ServerConfig, gateway: &tidings_config::InheritEnv) -> Option<DoctorFinding> {
    let TransportConfig::Stdio { command, args, env, .. } = &server.transport else { return None };
    let inherited = crate::wiring::inherit_env(server.inherit_env.as_ref().unwrap_or(gateway));
    // Of a path only the last part says what it is; where it lies says nothing.
    let own_name = |word: &String| {
        if word.starts_with('/') { word.rsplit('/').next().unwrap_or_default().to_owned() } else { word.clone() }
    };
    let line: Vec<String> = [&server.name, command].into_iter().chain(args).map(own_name).collect();
    let line = line.join(" ").to_lowercase();
    let words: Vec<&str> = line.split(|c: char| !c.is_ascii_alphanumeric()).collect();
    let is_meant = |name: &String| {
        let first = name.split('_').next().unwrap_or_default().to_lowercase();
        // The part before the first `_` has to be a word of the command line: GITHUB_TOKEN and server-github.
        first.len() > 2 && first.len() < name.len() && words.contains(&first.as_str())
    };
    let mut names = inherited.withheld();
    // Our own are for us.
    names.retain(|name| is_meant(name) && !name.starts_with("TIDINGS_") && !env.iter().any(|(given, _)| given == name));
    names.sort();
    if names.is_empty() {
        return None;
    }
    let list = names.iter().map(|name| format!("{name:?}")).collect::<Vec<_>>().join(", ");
    let what = format!("{} set here, and not passed on to it", names.join(", "));
    Some(DoctorFinding::note(about(&server.name), what, format!("if it needs that: inherit_env = [{list}]")))
}

fn waits(held: u64) -> String {
    if held == 1 { "1 definition waits".to_owned() } else { format!("{held} definitions wait") }
}

fn about(name: &str) -> String {
    format!("server {name}")
}

fn one(state: &Value, config: Option<&ServerConfig>) -> Vec<DoctorFinding> {
    let about = about(state["name"].as_str().unwrap_or_default());
    if state["state"] != "ready" {
        let why = state["error"].as_str().unwrap_or("it has not answered yet");
        let remedy = match state["state"] == "needs login" {
            // Nothing is tried by itself: what to do stands in the reason.
            true => "somebody has to log in; nothing is tried until then".to_owned(),
            false => remedy(config),
        };
        return vec![DoctorFinding::problem(about, why, remedy)];
    }
    let failed = state["failed_lists"].as_array().cloned().unwrap_or_default();
    if failed.is_empty() {
        let count = |key: &str, word: &str| plural(state[key].as_u64().unwrap_or(0), word);
        let counts = [count("tools", "tool"), count("resources", "resource"), count("prompts", "prompt")].join(", ");
        let revision = state["revision"].as_str().unwrap_or_default();
        let held = state["held"].as_u64().filter(|held| *held > 0).map(|held| {
            let what = format!("{} for approval, and nobody sees it", waits(held));
            DoctorFinding::note(
                about.clone(),
                what,
                "look at it with `tidings approvals`, then `tidings approve` or `tidings reject`",
            )
        });
        let fine = DoctorFinding::fine(about, format!("ready, {counts}; speaks {revision}"));
        return std::iter::once(fine).chain(held).collect();
    }
    let remedy = "the server has to answer this; its standard error in the gateway's log may say why it does not";
    let each = |failed: &Value| {
        let text = |key: &str| failed[key].as_str().unwrap_or_default();
        DoctorFinding::problem(about.clone(), format!("fails to give {}: {}", text("list"), text("error")), remedy)
    };
    failed.iter().map(each).collect()
}

fn remedy(config: Option<&ServerConfig>) -> String {
    match config.map(|server| &server.transport) {
        Some(TransportConfig::Stdio { command, args, .. }) => {
            let line = [std::slice::from_ref(command), args].concat().join(" ");
            format!("run it by hand and read what it prints: {line}")
        }
        Some(TransportConfig::Http { .. }) => {
            "see whether it runs and its `url` and `headers` are right: curl -i URL".to_owned()
        }
        Some(TransportConfig::Sse { .. }) => {
            "see whether it runs and its `url` and `headers` are right; its first event names an endpoint: curl -iN URL"
                .to_owned()
        }
        _ => "`tidings servers` shows how it goes on; the gateway tries again by itself".to_owned(),
    }
}
