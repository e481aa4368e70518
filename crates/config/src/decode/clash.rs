//! Servers whose public names could not be told apart.

use crate::error::{Caution, Fault, PrefixKind};
use crate::plan::key_path;
use crate::plan::server::{ServerConfig, UriMode};
use crate::read::Reading;

/// Compares the enabled servers with one another.
pub(super) fn check(reading: &Reading<'_>, servers: &[ServerConfig]) {
    let enabled: Vec<_> = servers.iter().filter(|server| server.enabled).collect();
    for (index, server) in enabled.iter().enumerate() {
        if let Some((kind, prefix, other)) = enabled[..index].iter().find_map(|other| clash(server, other)) {
            let other = key_path(parent(reading, other), &other.name);
            let other_place = reading.findings.borrow().places.get(&other).cloned().unwrap_or_default();
            report(reading, server, |key, at| {
                reading.fault(key, at, Fault::PrefixClash { kind, prefix, other, other_place })
            });
        }
        let scheme = server.uri_prefix();
        let is_odd = scheme.starts_with(|c: char| !c.is_ascii_alphabetic());
        if is_odd && server.uris == UriMode::Prefix && enabled.len() > 1 {
            report(reading, server, |key, at| reading.caution(key, at, Caution::SchemeWithoutLetter));
        }
    }
}

fn clash<'s>(server: &ServerConfig, other: &'s ServerConfig) -> Option<(PrefixKind, String, &'s ServerConfig)> {
    if server.name_prefix() == other.name_prefix() {
        return Some((PrefixKind::Name, server.name_prefix(), other));
    }
    let both_prefixed = server.uris == UriMode::Prefix && other.uris == UriMode::Prefix;
    (both_prefixed && server.uri_prefix() == other.uri_prefix()).then(|| (PrefixKind::Uri, server.uri_prefix(), other))
}

/// Gives the key and position of a server to `tell`.
fn report(reading: &Reading<'_>, server: &ServerConfig, tell: impl FnOnce(&str, Option<crate::error::Position>)) {
    let key = key_path(parent(reading, server), &server.name);
    let at = reading.findings.borrow().places.get(&key).and_then(|place| place.position);
    tell(&key, at);
}

/// The table that the server was found in.
fn parent(reading: &Reading<'_>, server: &ServerConfig) -> &'static str {
    let parents = ["servers", "mcpServers", "mcp.servers"];
    let findings = reading.findings.borrow();
    let holds = |parent: &&'static str| findings.places.contains_key(&key_path(parent, &server.name));
    parents.into_iter().find(holds).unwrap_or("servers")
}
