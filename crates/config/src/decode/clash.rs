//! Servers whose public names could not be told apart.

use std::collections::HashMap;

use crate::error::{ConfigFault, PrefixKind, WarningKind};
use crate::plan::server::{ServerConfig, UriMode};
use crate::read::FileReading;
use crate::tree::key_path;

/// Compares the enabled servers with one another.
pub(super) fn check(reading: &FileReading<'_>, servers: &[ServerConfig]) {
    let enabled: Vec<_> = servers.iter().filter(|server| server.enabled).collect();
    let mut taken = TakenPrefixes::default();
    for (index, server) in enabled.iter().enumerate() {
        let scheme = server.uri_prefix();
        if let Some((kind, prefix, other)) = taken.take(index, server, &scheme) {
            let other = enabled[other];
            let other = key_path(parent(reading, other), &other.name);
            let other_place = reading.findings.borrow().places.get(&other).cloned().unwrap_or_default();
            report(reading, server, |key, at| {
                reading.fault(key, at, ConfigFault::PrefixClash { kind, prefix, other, other_place })
            });
        }
        let is_odd = scheme.starts_with(|c: char| !c.is_ascii_alphabetic());
        if is_odd && server.uris == UriMode::Prefix && enabled.len() > 1 {
            report(reading, server, |key, at| reading.caution(key, at, WarningKind::SchemeWithoutLetter));
        }
    }
}

/// Who has which prefix first: a file may have thousands of servers.
#[derive(Default)]
struct TakenPrefixes {
    names: HashMap<String, usize>,
    schemes: HashMap<String, usize>,
}

impl TakenPrefixes {
    /// Notes the prefixes of a server. Gives the first server that has one of them.
    fn take(&mut self, index: usize, server: &ServerConfig, scheme: &str) -> Option<(PrefixKind, String, usize)> {
        let name = server.name_prefix();
        // Who has it first keeps it; equal to `index` means that this server is the first.
        let by_name = *self.names.entry(name.clone()).or_insert(index);
        let by_scheme = match server.uris {
            UriMode::Prefix => *self.schemes.entry(scheme.to_owned()).or_insert(index),
            UriMode::Transparent => index,
        };
        // The smaller of the two is the server that stands first in the file: that is the one to name.
        match by_name.min(by_scheme) {
            first if first == index => None,
            first if first == by_name => Some((PrefixKind::Name, name, first)),
            first => Some((PrefixKind::Uri, scheme.to_owned(), first)),
        }
    }
}

/// Gives the key and position of a server to `tell`.
fn report(
    reading: &FileReading<'_>,
    server: &ServerConfig,
    tell: impl FnOnce(&str, Option<crate::error::TextPosition>),
) {
    let key = key_path(parent(reading, server), &server.name);
    let at = reading.findings.borrow().places.get(&key).and_then(|place| place.position);
    tell(&key, at);
}

/// The table that the server was found in.
fn parent(reading: &FileReading<'_>, server: &ServerConfig) -> &'static str {
    let parents = ["servers", "mcpServers", "mcp.servers"];
    let findings = reading.findings.borrow();
    let holds = |parent: &&'static str| findings.places.contains_key(&key_path(parent, &server.name));
    parents.into_iter().find(holds).unwrap_or("servers")
}
