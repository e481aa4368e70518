//! JSON files of clients and editors: `mcpServers`, or `servers` as VS Code has it.
//!
//! They belong to other programs, so what is not understood in them is ignored with a warning.

use super::{itself, server};
use crate::error::{ConfigFault, WarningKind};
use crate::plan::Config;
use crate::plan::filter::ToolFilter;
use crate::plan::server::{ServerConfig, TransportConfig};
use crate::read::forms::{header_objection, http_url};
use crate::read::{FileReading, TableSection};
use crate::tree::{ConfigNode, ConfigValue};

/// The URL keys of different clients.
const URL_KEYS: [&str; 3] = ["url", "serverUrl", "httpUrl"];

/// The kinds of server that `type` tells apart.
#[derive(Clone, Copy, PartialEq, Eq)]
enum DeclaredType {
    Stdio,
    Http,
    Sse,
}

const TYPES: [(&str, DeclaredType); 8] = [
    ("stdio", DeclaredType::Stdio),
    ("local", DeclaredType::Stdio),
    ("http", DeclaredType::Http),
    ("streamable-http", DeclaredType::Http),
    ("streamable_http", DeclaredType::Http),
    ("streamableHttp", DeclaredType::Http),
    ("remote", DeclaredType::Http),
    ("sse", DeclaredType::Sse),
];

/// The configuration in a client's file.
pub(super) fn config(reading: &FileReading<'_>, node: &ConfigNode) -> Config {
    let Some(mut root) = TableSection::of_node(reading, String::new(), node.at, node) else { return Config::default() };
    // VS Code asks its user for `inputs`; who refers to them gets an error at the reference.
    for key in ["inputs", "$schema"] {
        root.has(key);
    }
    let section = ["mcpServers", "servers"].into_iter().find_map(|key| root.has(key).then(|| root.section(key)));
    let section = section.or_else(|| root.section("mcp").map(|mut settings| settings.section("servers")));
    let Some(section) = section else {
        reading.fault("", node.at, ConfigFault::NoServers);
        return Config::default();
    };
    root.finish();
    let named = section.map(|section| section.named_sections()).unwrap_or_default();
    let servers = named.into_iter().filter_map(|(name, section)| {
        let place = (section.path.clone(), section.at);
        entry(section, name).filter(|server| !itself::skipped(reading, &place.0, place.1, server))
    });
    let mut config = Config { servers: servers.collect(), ..Config::default() };
    server::fit_timeouts(&mut config.servers, &config.gateway);
    config
}

fn entry(mut section: TableSection<'_, '_>, name: &str) -> Option<ServerConfig> {
    // Both spellings: clients write one or the other, and one that is off must not be started for the lack of it.
    let enabled = section.boolean("enabled").unwrap_or(true) && !section.boolean("disabled").unwrap_or(false);
    // A server that is off may lack what it would need: its variables need not be set.
    section.reading.lenient.set(!enabled);
    let transport = transport(&mut section);
    let server = settings(&mut section, name, enabled, transport);
    section.reading.lenient.set(false);
    // Without a transport its own keys are unknown, and the warnings would only hide the error.
    if server.is_some() {
        section.finish();
    }
    server
}

fn transport(section: &mut TableSection<'_, '_>) -> Option<TransportConfig> {
    let written = section.has("type");
    let kind = section.choice("type", &TYPES);
    // A type that is not known was reported; guessing the transport would add a second error.
    if written && kind.is_none() {
        return None;
    }
    let url_key = URL_KEYS.into_iter().find(|key| section.has(key));
    match (kind, url_key, section.has("command")) {
        // A declared type wins over the keys that are there; without one the keys decide.
        (Some(DeclaredType::Stdio), _, false) => missing(section, "command"),
        (Some(DeclaredType::Http | DeclaredType::Sse), None, _) => missing(section, "url"),
        (None, None, false) => {
            section.fault("", ConfigFault::NoKind { choices: &["command", "url"] });
            None
        }
        (None, Some(url), true) => {
            section.fault("", ConfigFault::TwoKinds { first: "command", second: url });
            None
        }
        (Some(DeclaredType::Stdio), ..) | (None, None, true) => {
            section.refuse("command", &URL_KEYS);
            server::transport(section, "command")
        }
        (_, Some(key), _) => http(section, key, kind == Some(DeclaredType::Sse)),
    }
}

fn http(section: &mut TableSection<'_, '_>, url_key: &'static str, is_sse: bool) -> Option<TransportConfig> {
    section.refuse("url", &["command"]);
    // The key of our own format, so its decoder reads it with all that goes with it.
    if url_key == "url" {
        return server::remote(section, is_sse);
    }
    let url = http_url(section, url_key)?;
    let headers = section.pairs("headers", header_objection);
    section.refuse("url", &["args", "env", "cwd"]);
    Some(if is_sse { TransportConfig::Sse { url, headers } } else { TransportConfig::Http { url, headers } })
}

fn missing(section: &TableSection<'_, '_>, key: &'static str) -> Option<TransportConfig> {
    section.fault(key, ConfigFault::MissingKey { key });
    None
}

/// Our own settings work in these files too, beside two that others write differently.
fn settings(
    section: &mut TableSection<'_, '_>,
    name: &str,
    enabled: bool,
    transport: Option<TransportConfig>,
) -> Option<ServerConfig> {
    let is_number = |value: &ConfigValue| matches!(value, ConfigValue::Integer(_) | ConfigValue::Other(_));
    if section.entry("timeout").is_some_and(|entry| is_number(&entry.node.value)) {
        // Some clients count seconds and some milliseconds: a guess could be off by a thousand.
        section.caution("timeout", WarningKind::UnitlessTimeout);
        section.hide("timeout");
    }
    // Some clients list the tools to allow where our own files have a table.
    let is_list = section.entry("tools").is_some_and(|entry| matches!(entry.node.value, ConfigValue::List(_)));
    let listed = if is_list { section.texts("tools") } else { None };
    if is_list {
        section.hide("tools");
    }
    let server = server::common(section, name, enabled, transport)?;
    let tools = listed.map_or(server.tools, |allow| ToolFilter { allow, deny: Vec::new() });
    Some(ServerConfig { tools, ..server })
}
