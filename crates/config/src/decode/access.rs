//! `[auth]` and `[vault]`.

use std::collections::BTreeMap;
use std::time::SystemTime;

use crate::error::{ConfigFault, ConfigPlace};
use crate::plan::auth::{
    AuthSettings, BrowserClient, CertificateSettings, IntrospectionSettings, JwtSettings, PeopleSettings, TokenSettings,
};
use crate::plan::vault::VaultKey;
use crate::read::TableSection;
use crate::read::forms::http_url;
use crate::tree::ConfigValue;

pub(super) fn auth(mut section: TableSection<'_, '_>) -> AuthSettings {
    let nodes = section.list("tokens", "a list of tables").unwrap_or_default();
    let mut names: BTreeMap<String, ConfigPlace> = BTreeMap::new();
    let mut tokens = Vec::new();
    for (index, node) in nodes.iter().enumerate() {
        let path = format!("{}[{index}]", section.key("tokens"));
        let entry = TableSection::of_node(section.reading, path.clone(), node.at, node);
        let Some(token) = entry.and_then(token) else { continue };
        match names.get(&token.name) {
            Some(first) => {
                section.reading.fault(&format!("{path}.name"), node.at, ConfigFault::Repeated { first: first.clone() })
            }
            None => drop(names.insert(token.name.clone(), section.reading.place(node.at))),
        }
        // Also one whose name is taken: its other faults were noted, and with any fault nothing of this is used.
        tokens.push(token);
    }
    let jwt = providers(&mut section);
    let introspection = section.section("introspection").and_then(introspection);
    let nodes = section.list("certificates", "a list of tables").unwrap_or_default();
    let certificates = nodes.iter().enumerate().filter_map(|(index, node)| {
        let path = format!("{}[{index}]", section.key("certificates"));
        TableSection::of_node(section.reading, path, node.at, node).and_then(certificate)
    });
    let certificates = certificates.collect();
    section.finish();
    AuthSettings { tokens, jwt, introspection, certificates }
}

fn certificate(mut section: TableSection<'_, '_>) -> Option<CertificateSettings> {
    let name = section.required_text("name");
    let servers = section.texts("servers").unwrap_or_else(|| vec!["*".to_owned()]);
    let admin = section.boolean("admin").unwrap_or(false);
    let groups = section.texts("groups").unwrap_or_default();
    section.finish();
    Some(CertificateSettings { name: name?, servers, admin, groups })
}

/// One table, or a list of them.
fn providers(section: &mut TableSection<'_, '_>) -> Vec<JwtSettings> {
    let Some(entry) = section.entry("jwt") else { return Vec::new() };
    if !matches!(entry.node.value, ConfigValue::List(_)) {
        return section.section("jwt").and_then(jwt).into_iter().collect();
    }
    let nodes = section.list("jwt", "a table, or a list of tables").unwrap_or_default();
    let tables = nodes.iter().enumerate().filter_map(|(index, node)| {
        let path = format!("{}[{index}]", section.key("jwt"));
        TableSection::of_node(section.reading, path, node.at, node).and_then(jwt)
    });
    tables.collect()
}

fn token(mut section: TableSection<'_, '_>) -> Option<TokenSettings> {
    let name = section.required_text("name");
    let sha256 = section.required_text("sha256").and_then(|text| {
        let digest = digest(text.trim());
        if digest.is_none() {
            section.fault("sha256", ConfigFault::BadDigest);
        }
        digest
    });
    // A token without `servers` may use all of them; an empty list is none.
    let servers = section.texts("servers").unwrap_or_else(|| vec!["*".to_owned()]);
    let admin = section.boolean("admin").unwrap_or(false);
    // A name that looks like a person of a provider, or one with a certificate, would be taken for them.
    if name.as_deref().is_some_and(|name| name.contains("://") || name.starts_with("cert:")) {
        section.fault("name", ConfigFault::BadTokenName);
    }
    let groups = section.texts("groups").unwrap_or_default();
    let expires = expires(&mut section);
    section.finish();
    Some(TokenSettings { name: name?, sha256: sha256?, servers, admin, groups, expires })
}

/// A day, from whose beginning (UTC) on the token opens nothing, or a moment.
fn expires(section: &mut TableSection<'_, '_>) -> Option<SystemTime> {
    let text = section.text("expires")?;
    let day =
        || text.parse::<jiff::civil::Date>().ok()?.to_zoned(jiff::tz::TimeZone::UTC).ok().map(|day| day.timestamp());
    let moment = text.parse::<jiff::Timestamp>().ok().or_else(day);
    if moment.is_none() {
        section.fault("expires", ConfigFault::BadMoment);
    }
    moment.map(SystemTime::from)
}

fn digest(text: &str) -> Option<[u8; 32]> {
    let mut digest = [0; 32];
    // `from_str_radix` would accept a sign, so the digits are checked before.
    if text.len() != 64 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    for (byte, pair) in digest.iter_mut().zip(text.as_bytes().chunks(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(digest)
}

fn jwt(mut section: TableSection<'_, '_>) -> Option<JwtSettings> {
    if !section.has("issuer") {
        section.fault("issuer", ConfigFault::MissingKey { key: "issuer" });
    }
    let issuer = provider_url(&mut section, "issuer");
    let jwks_url = provider_url(&mut section, "jwks_url");
    let (client_id, secret) = (section.text("client_id"), section.text("client_secret"));
    if client_id.is_none() && secret.is_some() {
        section.fault("client_secret", ConfigFault::MissingKey { key: "client_id" });
    }
    let people = people(&mut section);
    section.finish();
    let browser = client_id.map(|id| BrowserClient { id, secret });
    Some(JwtSettings { issuer: issuer?, jwks_url, browser, people })
}

fn introspection(mut section: TableSection<'_, '_>) -> Option<IntrospectionSettings> {
    if !section.has("url") {
        section.fault("url", ConfigFault::MissingKey { key: "url" });
    }
    let url = provider_url(&mut section, "url");
    let client_id = section.required_text("client_id");
    let client_secret = section.required_text("client_secret");
    let issuer = provider_url(&mut section, "issuer");
    let people = people(&mut section);
    section.finish();
    Some(IntrospectionSettings { url: url?, client_id: client_id?, client_secret: client_secret?, issuer, people })
}

/// An address over TLS, unless it is on this machine: whoever can change an answer on the way could let anybody in.
fn provider_url(section: &mut TableSection<'_, '_>, key: &'static str) -> Option<String> {
    let url = http_url(section, key)?;
    let rest = url.strip_prefix("http://");
    let is_here = |rest: &str| {
        ["localhost", "127.0.0.1", "[::1]"]
            .iter()
            .any(|host| rest.strip_prefix(host).is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', ':'])))
    };
    // A fragment, too: people are named by the issuer and `#`, so an issuer must not have one.
    if rest.is_some_and(|rest| !is_here(rest)) || url.contains('#') {
        section.fault(key, ConfigFault::BadUrl { schemes: &["https://"] });
        return None;
    }
    Some(url)
}

fn people(section: &mut TableSection<'_, '_>) -> PeopleSettings {
    let audience = match section.entry("audience").map(|entry| &entry.node.value) {
        Some(ConfigValue::List(_)) => section.texts("audience").unwrap_or_default(),
        Some(_) => section.text("audience").into_iter().collect(),
        None => Vec::new(),
    };
    let scopes = section.texts("scopes").unwrap_or_default();
    let groups = section.text("groups").unwrap_or_else(|| "groups".to_owned());
    let servers = section.texts("servers").unwrap_or_else(|| vec!["*".to_owned()]);
    let admin = section.texts("admin").unwrap_or_default();
    if !admin.iter().all(|who| is_who(who)) {
        section.fault("admin", ConfigFault::BadWho);
    }
    PeopleSettings { audience, scopes, groups, servers, admin }
}

/// Whether rules name people so.
pub(super) fn is_who(text: &str) -> bool {
    let kind = text.split_once(':').filter(|(_, rest)| !rest.is_empty());
    text == "*"
        || kind.is_some_and(|(kind, rest)| match kind {
            "group" | "scope" | "token" => true,
            "claim" => rest.split_once('=').is_some_and(|(name, _)| !name.is_empty()),
            _ => false,
        })
}

/// `[vault]`.
pub(super) fn vault(mut section: TableSection<'_, '_>) -> Option<VaultKey> {
    let text = section.required_text("key");
    let key = text.as_deref().and_then(|text| digest(text.trim()));
    if text.is_some() && key.is_none() {
        section.fault("key", ConfigFault::BadKey);
    }
    section.finish();
    key.map(VaultKey)
}
