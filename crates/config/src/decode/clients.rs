//! JSON files of clients and editors: `mcpServers`, or `servers` as VS Code has it.
//!
//! They belong to other programs, so what is not understood in them is ignored with a warning.

use super::{itself, server};
use crate::error::{Caution, Fault};
use crate::plan::Config;
use crate::plan::filter::ToolFilter;
use crate::plan::server::{ServerConfig, Transport};
use crate::read::{Reading, Section};
use crate::tree::{Node, Value};

/// The URL keys of different clients.
const URL_KEYS: [&str; 3] = ["url", "serverUrl", "httpUrl"];

/// The kinds of server that `type` tells apart.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Stdio,
    Http,
    Sse,
}

const TYPES: [(&str, Kind); 8] = [
    ("stdio", Kind::Stdio),
    ("local", Kind::Stdio),
    ("http", Kind::Http),
    ("streamable-http", Kind::Http),
    ("streamable_http", Kind::Http),
    ("streamableHttp", Kind::Http),
    ("remote", Kind::Http),
    ("sse", Kind::Sse),
];

/// The configuration in a client's file.
pub(super) fn config(reading: &Reading<'_>, node: &Node) -> Config {
    let Some(mut root) = Section::of_node(reading, String::new(), node.at, node) else { return Config::default() };
    // VS Code asks its user for `inputs`; who refers to them gets an error at the reference.
    for key in ["inputs", "$schema"] {
        root.has(key);
    }
    let section = ["mcpServers", "servers"].into_iter().find_map(|key| root.has(key).then(|| root.section(key)));
    let section = section.or_else(|| root.section("mcp").map(|mut settings| settings.section("servers")));
    let Some(section) = section else {
        reading.fault("", node.at, Fault::NoServers);
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

fn entry(mut section: Section<'_, '_>, name: &str) -> Option<ServerConfig> {
    let enabled = section.boolean("enabled").unwrap_or(true) && !section.boolean("disabled").unwrap_or(false);
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

fn transport(section: &mut Section<'_, '_>) -> Option<Transport> {
    let written = section.has("type");
    let kind = section.choice("type", &TYPES);
    if written && kind.is_none() {
        return None;
    }
    let url_key = URL_KEYS.into_iter().find(|key| section.has(key));
    match (kind, url_key, section.has("command")) {
        (Some(Kind::Stdio), _, false) => missing(section, "command"),
        (Some(Kind::Http | Kind::Sse), None, _) => missing(section, "url"),
        (None, None, false) => {
            section.fault("", Fault::NoKind { choices: &["command", "url"] });
            None
        }
        (None, Some(url), true) => {
            section.fault("", Fault::TwoKinds { first: "command", second: url });
            None
        }
        (Some(Kind::Stdio), ..) | (None, None, true) => {
            section.refuse("command", &URL_KEYS);
            server::transport(section, "command")
        }
        (_, Some(key), _) => http(section, key, kind == Some(Kind::Sse)),
    }
}

fn http(section: &mut Section<'_, '_>, url_key: &'static str, is_sse: bool) -> Option<Transport> {
    if is_sse {
        section.caution("type", Caution::SseAsHttp);
    }
    section.refuse("url", &["command"]);
    if url_key == "url" {
        return server::transport(section, "url");
    }
    let url = server::http_url(section, url_key)?;
    let headers = section.pairs("headers", server::header_objection);
    section.refuse("url", &["args", "env", "cwd"]);
    Some(Transport::Http { url, headers })
}

fn missing(section: &Section<'_, '_>, key: &'static str) -> Option<Transport> {
    section.fault(key, Fault::MissingKey { key });
    None
}

/// Our own settings work in these files too, beside two that others write differently.
fn settings(
    section: &mut Section<'_, '_>,
    name: &str,
    enabled: bool,
    transport: Option<Transport>,
) -> Option<ServerConfig> {
    let is_number = |value: &Value| matches!(value, Value::Integer(_) | Value::Other(_));
    if section.entry("timeout").is_some_and(|entry| is_number(&entry.node.value)) {
        section.caution("timeout", Caution::UnitlessTimeout);
        section.hide("timeout");
    }
    let is_list = section.entry("tools").is_some_and(|entry| matches!(entry.node.value, Value::List(_)));
    let listed = if is_list { section.texts("tools") } else { None };
    if is_list {
        section.hide("tools");
    }
    let server = server::common(section, name, enabled, transport)?;
    let tools = listed.map_or(server.tools, |allow| ToolFilter { allow, deny: Vec::new() });
    Some(ServerConfig { tools, ..server })
}
