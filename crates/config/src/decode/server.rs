//! `[servers.X]`.

use super::cluster::labels;
use super::{container, login, registry};
use crate::error::ConfigFault;
use crate::plan::filter::ToolFilter;
use crate::plan::gateway::GatewaySettings;
use crate::plan::login::LoginSetting;
use crate::plan::sandbox::{SandboxLevel, SandboxSettings};
use crate::plan::server::{
    ApprovalSetting, EraSetting, HeldSetting, InheritEnv, IsolationSetting, ServerConfig, TransportConfig, UriMode,
};
use crate::read::TableSection;
use crate::read::forms::{header_objection, http_url, variable_objection};
use crate::tree::ConfigValue;

const KINDS: &[&str] = &["command", "url", "container", "project"];
/// What `type` says of a URL: whether it speaks HTTP+SSE. The words are those of the `mcpServers` convention.
const TYPES: [(&str, bool); 3] = [("http", false), ("streamable-http", false), ("sse", true)];

/// A server in our own words.
pub(super) fn native(mut section: TableSection<'_, '_>, name: &str) -> Option<ServerConfig> {
    let enabled = section.boolean("enabled").unwrap_or(true);
    // A server that is off may refer to variables and files that are not there.
    section.reading.lenient.set(!enabled);
    let kind = section.kind(KINDS);
    if let Some(other) = kind.filter(|kind| *kind != "url") {
        section.refuse(other, &["type"]);
    }
    let transport = kind.and_then(|kind| transport(&mut section, kind));
    // Known whatever the kind, so that a missing kind is the only complaint.
    for key in ["args", "env", "cwd", "headers", "type", "allow_hooks"].iter().chain(container::KEYS) {
        section.has(key);
    }
    let server = common(&mut section, name, enabled, transport);
    section.reading.lenient.set(false);
    section.finish();
    server
}

/// The transport that the key `kind` asks for, with the keys that go with it.
pub(super) fn transport(section: &mut TableSection<'_, '_>, kind: &'static str) -> Option<TransportConfig> {
    match kind {
        "command" => {
            let command = section.text("command").map(|command| located(section, command));
            let args = section.texts("args").unwrap_or_default();
            let env = section.pairs("env", variable_objection);
            let cwd = section.text("cwd").map(|cwd| section.reading.expander.path(&cwd));
            section.refuse(kind, &["headers", "allow_hooks"]);
            section.refuse(kind, container::KEYS);
            Some(TransportConfig::Stdio { command: command?, args, env, cwd })
        }
        "url" => {
            let written = section.has("type");
            let is_sse = section.choice("type", &TYPES);
            let remote = remote(section, is_sse.unwrap_or(false));
            // A type that is not known was reported; the URL was read all the same, for its own faults.
            remote.filter(|_| !written || is_sse.is_some())
        }
        "container" => {
            let config = container::container(section);
            section.refuse(kind, &["cwd", "headers", "allow_hooks"]);
            Some(TransportConfig::Container(Box::new(config?)))
        }
        _ => {
            section.remember("project");
            let dir = section.text("project").map(|dir| section.reading.expander.path(&dir));
            let mut env = section.pairs("env", variable_objection);
            // How a project's own scripts call it.
            if section.boolean("allow_hooks") == Some(true) {
                env.push(("MCPBASH_ALLOW_PROJECT_HOOKS".to_owned(), "true".to_owned()));
            }
            section.refuse(kind, &["args", "cwd", "headers"]);
            section.refuse(kind, container::KEYS);
            Some(TransportConfig::Project { dir: dir?, env })
        }
    }
}

/// A server behind the URL of `url`.
pub(super) fn remote(section: &mut TableSection<'_, '_>, is_sse: bool) -> Option<TransportConfig> {
    let url = http_url(section, "url");
    let headers = section.pairs("headers", header_objection);
    section.refuse("url", &["args", "env", "cwd", "allow_hooks"]);
    section.refuse("url", container::KEYS);
    let url = url?;
    Some(if is_sse { TransportConfig::Sse { url, headers } } else { TransportConfig::Http { url, headers } })
}

/// A command with a `/` in it counts from the file; one without is looked up where it is started.
fn located(section: &TableSection<'_, '_>, command: String) -> String {
    if command.contains('/') { section.reading.expander.path(&command).display().to_string() } else { command }
}

/// The settings that any server may have, and the server when its transport is known.
pub(super) fn common(
    section: &mut TableSection<'_, '_>,
    name: &str,
    enabled: bool,
    transport: Option<TransportConfig>,
) -> Option<ServerConfig> {
    let prefix = section.any_text("prefix");
    let entry = section.text("entry");
    let added_by = section.reading.is_native().then(|| section.text("added_by")).flatten();
    // As with `auth`.
    let release = section.reading.is_native().then(|| registry::release(section)).flatten();
    let isolations = [
        ("auto", IsolationSetting::Auto),
        ("session", IsolationSetting::Session),
        ("principal", IsolationSetting::Principal),
    ];
    let isolation = section.choice("isolation", &isolations);
    let uris = section.choice("uris", &[("prefix", UriMode::Prefix), ("transparent", UriMode::Transparent)]);
    let eras = [("auto", EraSetting::Auto), ("modern", EraSetting::Modern), ("legacy", EraSetting::Legacy)];
    let era = section.choice("era", &eras);
    if era == Some(EraSetting::Modern) && matches!(transport, Some(TransportConfig::Sse { .. })) {
        section.fault("era", ConfigFault::DoesNotApply { kind: "type = \"sse\"" });
    }
    let timeout = section.positive_duration("timeout");
    let max_timeout = section.positive_duration("max_timeout");
    section.not_below("max_timeout", max_timeout, "timeout", timeout);
    let poll_interval = section.duration("poll_interval");
    let tools = section.section("tools").map(filter).unwrap_or_default();
    // Only a command has an environment that is ours to fill.
    let inherit_env = inherit_env(section);
    let other = match &transport {
        None | Some(TransportConfig::Stdio { .. }) => None,
        Some(TransportConfig::Http { .. } | TransportConfig::Sse { .. }) => Some("url"),
        Some(TransportConfig::Container(_)) => Some("container"),
        Some(TransportConfig::Project { .. }) => Some("project"),
    };
    if let (Some(_), Some(kind)) = (&inherit_env, other) {
        section.fault("inherit_env", ConfigFault::DoesNotApply { kind });
    }
    // Files of clients may have a key of that name that means something else.
    let auth = section.reading.is_native().then(|| login::login(section)).flatten();
    let elsewhere = match &transport {
        None | Some(TransportConfig::Http { .. } | TransportConfig::Sse { .. }) => None,
        Some(TransportConfig::Stdio { .. }) => Some("command"),
        Some(TransportConfig::Container(_)) => Some("container"),
        Some(TransportConfig::Project { .. }) => Some("project"),
    };
    // `auto` is what every server has: saying it is no mistake, whatever the kind.
    if let (Some(_), Some(kind)) = (auth.as_ref().filter(|auth| **auth != LoginSetting::Auto), elsewhere) {
        section.fault("auth", ConfigFault::DoesNotApply { kind });
    }
    let is_personal = matches!(&auth, Some(LoginSetting::As(login)) if login.is_personal);
    let isolation = match (isolation, is_personal) {
        (None | Some(IsolationSetting::Principal), true) => Some(IsolationSetting::Principal),
        (Some(_), true) => {
            // What one of them is let do must not go over a connection that others share.
            section.fault("isolation", ConfigFault::DoesNotApply { kind: "auth for = \"principal\"" });
            None
        }
        (isolation, false) => isolation,
    };
    // As with `auth`.
    let private = section.reading.is_native().then(|| section.boolean("private")).flatten();
    if let (Some(_), Some(kind)) = (private, elsewhere) {
        section.fault("private", ConfigFault::DoesNotApply { kind });
    }
    let sandbox = sandbox(section);
    let limits = |sandbox: &&SandboxSettings| sandbox.level != SandboxLevel::Off;
    if let (Some(_), Some(kind)) = (sandbox.as_ref().filter(limits), other) {
        section.fault("sandbox", ConfigFault::DoesNotApply { kind });
    }
    let approvals =
        [("auto", ApprovalSetting::Auto), ("changed", ApprovalSetting::Changed), ("manual", ApprovalSetting::Manual)];
    let approve = section.choice("approve", &approvals);
    // As with `auth`.
    let trusts = [("ignore", false), ("trust", true)];
    let trusts = section.reading.is_native().then(|| section.choice("annotations", &trusts)).flatten();
    let placement = if section.reading.is_native() { labels(section, "placement") } else { Vec::new() };
    let isolated = [("keep", false), ("stop", true)];
    let stops_alone = section.reading.is_native().then(|| section.choice("on_isolation", &isolated)).flatten();
    if stops_alone == Some(true) && !matches!(isolation, None | Some(IsolationSetting::Auto)) {
        // Every replica makes such connections for its own clients.
        section.fault("on_isolation", ConfigFault::DoesNotApply { kind: "isolation = \"session\" or \"principal\"" });
    }
    let held = section.choice("held", &[("hide", HeldSetting::Hide), ("old", HeldSetting::Old)]);
    Some(ServerConfig {
        name: name.to_owned(),
        transport: transport?,
        enabled,
        prefix,
        entry,
        added_by,
        release,
        isolation: isolation.unwrap_or_default(),
        uris: uris.unwrap_or_default(),
        era: era.unwrap_or_default(),
        timeout,
        max_timeout,
        poll_interval,
        tools,
        trusts_annotations: trusts.unwrap_or(false),
        approve: approve.unwrap_or_default(),
        held: held.unwrap_or_default(),
        inherit_env,
        auth: auth.unwrap_or_default(),
        private,
        sandbox: sandbox.unwrap_or_default(),
        placement,
        stops_alone: stops_alone.unwrap_or(false),
        // Taken here, so that what one server lacks is not told of the next one.
        problem: section.reading.take_missing(),
    })
}

/// `"all"`, or a list of names.
pub(super) fn inherit_env(section: &mut TableSection<'_, '_>) -> Option<InheritEnv> {
    let entry = section.entry("inherit_env")?;
    match &entry.node.value {
        ConfigValue::List(_) => section.texts("inherit_env").map(InheritEnv::Names),
        ConfigValue::Text(_) => section.choice("inherit_env", &[("all", ())]).map(|()| InheritEnv::All),
        other => {
            let expected = "\"all\" or a list of names";
            section.fault("inherit_env", ConfigFault::WrongType { expected, found: other.kind() });
            None
        }
    }
}

/// `sandbox`, with the keys that go with it.
fn sandbox(section: &mut TableSection<'_, '_>) -> Option<SandboxSettings> {
    let levels = [("off", SandboxLevel::Off), ("files", SandboxLevel::Files), ("strict", SandboxLevel::Strict)];
    let level = section.choice("sandbox", &levels);
    let mut paths = |key| {
        let paths = section.texts(key);
        paths.map(|paths| paths.iter().map(|path| section.reading.expander.path(path)).collect::<Vec<_>>())
    };
    let (writable, readable) = (paths("writable"), paths("readable"));
    if level.is_none() && writable.is_none() && readable.is_none() {
        return None;
    }
    let level = level.unwrap_or_default();
    // They would read as a limit and limit nothing.
    if level == SandboxLevel::Off && writable.is_some() {
        section.fault("writable", ConfigFault::DoesNotApply { kind: "sandbox = \"off\"" });
    }
    if level != SandboxLevel::Strict && readable.is_some() {
        section.fault("readable", ConfigFault::DoesNotApply { kind: "any sandbox but \"strict\"" });
    }
    Some(SandboxSettings { level, writable: writable.unwrap_or_default(), readable: readable.unwrap_or_default() })
}

fn filter(mut section: TableSection<'_, '_>) -> ToolFilter {
    let allow = section.texts("allow");
    // It would read as "none" and act as "all".
    if allow.as_ref().is_some_and(Vec::is_empty) {
        section.fault("allow", ConfigFault::Empty);
    }
    let deny = section.texts("deny").unwrap_or_default();
    section.finish();
    ToolFilter { allow: allow.unwrap_or_default(), deny }
}

/// A server's own timeout may exceed the gateway's maximum: its maximum then follows.
pub(super) fn fit_timeouts(servers: &mut [ServerConfig], gateway: &GatewaySettings) {
    for server in servers {
        match (server.timeout, server.max_timeout) {
            (Some(timeout), None) if timeout > gateway.max_timeout => server.max_timeout = Some(timeout),
            (None, Some(max)) if max < gateway.timeout => server.timeout = Some(max),
            _ => {}
        }
    }
}
